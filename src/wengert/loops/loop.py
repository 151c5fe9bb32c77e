"""Loops around kernels, and branches: what runs how often, in which order.

4 blocks of 16, in 2 shares that threads take:          Loop over shares, parallel
    once: zeros                                            begin    of the loop over blocks
    for each block: all kernels of a network               body
then the shares of each sum are added up, in order      join
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .buffers import Buffer
from .expressions import InRange
from .indices import Var
from .infix import format_expr
from .kernels import KernelBase
from .programs import Kernel


@dataclass(frozen=True, eq=False, repr=False)
class Blocks:
    """An axis that the turns of a loop work through, `width` places of it at a time.

    Of the last block fewer places may exist: `live` counts them.
    """

    var: Var  # the number of the block
    extent: int  # of the axis; where it may have any length, an example
    width: int
    live: Var
    length: Buffer | None = None  # holds the extent where that is known at run time alone

    @property
    def count(self) -> int:
        """How many blocks cover the axis."""
        return -(-self.extent // self.width)


@dataclass(frozen=True, eq=False, repr=False)
class Transfer(KernelBase):
    """Copies one block of an array to or from a worker's own memory, where samples lie innermost.

    A block at the end of the axis may be partly empty: the last sample is read in place of those
    that are missing, and only those that exist are written back.
    """

    outer: Buffer  # a view that begins with the block
    inner: Buffer
    axis: int  # the axis of samples
    inward: bool
    blocks: Blocks
    label: str = ""
    nodes: list[Any] = field(default_factory=list)
    # Outer strides that grow with a length known at run time: by axis, their factor.
    scaled: dict[int, int] = field(default_factory=dict)
    # Whether the block keeps the order of the elements outside: then it is copied line by line.
    plain: bool = False

    @property
    def work(self) -> int:
        """That of a copy."""
        return self.inner.size

    @property
    def reads(self) -> list[Buffer]:
        """The buffer that it reads."""
        return [self.outer if self.inward else self.inner]

    @property
    def writes(self) -> list[Buffer]:
        """The buffer that it writes."""
        return [self.inner if self.inward else self.outer]

    def __str__(self) -> str:
        if self.inward:
            return f"{self.inner.name} = block of {self.outer.name} along axis {self.axis}"
        return f"block of {self.outer.name} along axis {self.axis} = {self.inner.name}"


@dataclass(frozen=True, eq=False, repr=False)
class Carry:
    """A value that each turn of a loop reads as the turn before has left it.

    Inside it is called `before` as it was, and `after` as it will be. The first turn finds it in
    `start`; turns leave it in the `places`, one after the other and then from the first on again,
    but the last turn in the `end`, if there is one.
    """

    before: Buffer
    after: Buffer
    start: Buffer
    places: tuple[Buffer, ...]
    end: Buffer | None = None

    def __str__(self) -> str:
        return f"{self.before.name} is {self.start.name} at first, then {self.after.name}"

    @property
    def homes(self) -> tuple[Buffer, ...]:
        """Where turns leave it."""
        return self.places if self.end is None else (*self.places, self.end)


@dataclass(frozen=True, eq=False, repr=False)
class Loop(KernelBase):
    """`body` for each value of `var`, with `begin` before the first turn and `join` after the last.

    Threads share the turns of a `parallel` loop, which depend on sizes alone: what turns combine is
    kept apart, turn by turn, and joined in order, so that the result is the same, bit for bit, for
    any number of threads. The turns of other loops come one after the other.

    Inside, indices and the `start` of views are affine in `var`, and in the variables of all loops
    around. The `private` buffers are those of one turn: each thread has memory for its own.
    """

    var: Var
    body: tuple[Kernel, ...]
    parallel: bool = False
    begin: tuple[Kernel, ...] = ()
    join: tuple[Kernel, ...] = ()
    private: tuple[Buffer, ...] = ()
    label: str = ""
    nodes: tuple[Any, ...] = ()
    # Of an ordered loop: its turns are neighbours, those that fall to this turn of the loop around,
    # of which all have equally many, or one more; `count` counts them from 0 on.
    share: Var | None = None
    count: Var | None = None
    blocks: Blocks | None = None
    carries: tuple[Carry, ...] = ()
    reverse: bool = False  # whether `var` counts down
    # After each `run` turns the `fold` takes what they added up to totals that lose nothing. That
    # of a parallel loop takes what each turn leaves in private buffers outside, in order.
    run: int = 0
    fold: tuple[Kernel, ...] = ()
    # Of a parallel loop: what one unit of a length costs that is known at run time alone.
    length: Buffer | None = None
    cost: int = 0
    # Of an ordered loop: one of the carries, a Boolean. A turn comes only if it is true before it,
    # or only if its number is below the `limit`, which memory holds. How many turns there are is
    # not known then, and `join` finds what is carried as the last turn left it, as `before`.
    going: Carry | None = None
    limit: Buffer | None = None
    # Of a loop with a limit, and of one whose turns leave rows of which nobody knows how many: its
    # number, by which an error code tells that there is not memory enough for so many turns. Those
    # that there is none for leave their rows where the last one is.
    number: int = 0

    @property
    def turns(self) -> int:
        """How many turns there are; where a length is known at run time alone, for an example."""
        return self.var.extent if self.blocks is None else self.blocks.count

    @property
    def private_bytes(self) -> int:
        """The size of a thread's own memory, once planned."""
        return max((buffer.offset + buffer.nbytes for buffer in self.private), default=0)

    @property
    def work(self) -> int:
        """That of all turns, or of a share of them, and of what follows."""
        turns = sum(part.work for part in (*self.body, *self.fold)) * self.turns
        if self.share is not None:
            turns //= self.share.extent
        return turns + sum(part.work for part in self.join)

    @property
    def may_fail(self) -> bool:
        """Whether there may be memory for too few turns."""
        return self.number > 0

    def parts(self) -> list[Kernel]:
        """All kernels directly inside."""
        return [*self.begin, *self.body, *self.fold, *self.join]

    @property
    def reads(self) -> list[Buffer]:
        """The buffers that it reads."""
        carried = [one for carry in self.carries for one in (carry.start, *carry.homes)]
        return [*carried, *_deciding(self.limit), *_all(part.reads for part in self.parts())]

    @property
    def writes(self) -> list[Buffer]:
        """The buffers that it writes."""
        left = [home for carry in self.carries for home in carry.homes]
        return [*left, *_all(part.writes for part in self.parts())]

    def __str__(self) -> str:
        lines = [f"first {kernel}" for kernel in self.begin]
        lines += [f"{self.head()}:", *[f"  {carry}" for carry in self.carries]]
        lines += [_indented(kernel) for kernel in self.body]
        lines += [f"  after each {self.run or 'in order'}: {kernel}" for kernel in self.fold]
        return "\n".join([*lines, *[f"then {kernel}" for kernel in self.join]])

    def head(self) -> str:
        """What the turns are, in words."""
        if self.parallel:
            return f"for {self.var} < {self.var.extent}, in parallel"
        if self.going is not None:
            return f"while {self.going.before.name}"
        if self.blocks is None:
            most = self.var.extent if self.limit is None else self.limit.name
            return f"for {self.var} < {most}, {'down' if self.reverse else 'in order'}"
        blocks, width = self.blocks.count, self.blocks.width
        count = blocks if self.blocks.length is None else f"length / {width}"
        return f"{count} blocks of {width}, a share for each {self.share}"


@dataclass(frozen=True, eq=False, repr=False)
class Branch(KernelBase):
    """Some kernels, or others: which, the turn of a loop around decides.

    With a `value`, an integer in memory, that decides, and not an index: its range is tested.
    """

    test: InRange
    yes: tuple[Kernel, ...]
    no: tuple[Kernel, ...]
    label: str = ""
    value: Buffer | None = None

    def parts(self) -> list[Kernel]:
        """All kernels directly inside."""
        return [*self.yes, *self.no]

    @property
    def work(self) -> int:
        """That of the longer side."""
        return max(sum(part.work for part in side) for side in (self.yes, self.no))

    @property
    def reads(self) -> list[Buffer]:
        """The buffers that it reads."""
        return [*_deciding(self.value), *_all(part.reads for part in self.parts())]

    @property
    def writes(self) -> list[Buffer]:
        """The buffers that it writes."""
        return _all(part.writes for part in self.parts())

    def __str__(self) -> str:
        test = format_expr(self.test)
        if self.value is not None:
            test = f"{self.value.name} < {self.test.high}"
        lines = [f"if {test}:", *map(_indented, self.yes)]
        return "\n".join([*lines, *(["else:"] if self.no else []), *map(_indented, self.no)])


def _indented(kernel: Kernel) -> str:
    return "  " + str(kernel).replace("\n", "\n  ")


def _deciding(buffer: Buffer | None) -> list[Buffer]:
    return [] if buffer is None else [buffer]


def _all(parts: Iterable[Sequence[Buffer]]) -> list[Buffer]:
    return [buffer for part in parts for buffer in part]
