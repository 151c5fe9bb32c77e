"""What a program of loops is a list of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import numpy as np

from ..functions import FUNCTIONS
from .buffers import Buffer
from .expressions import Expr, InRange, Load, format_expr, walk
from .indices import Affine, Var


@dataclass(eq=False, repr=False)
class Store:
    """Put a value into a buffer, or combine it with what is there (``combine="add"``)."""

    buffer: Buffer
    at: Affine
    value: Expr
    combine: str | None = None
    # Whether the buffer already holds what the value is to be combined with.
    continues: bool = False
    # Where the store happens; nests are split until this is known.
    guards: tuple[InRange, ...] = ()
    # Further places that depend on values, as in `LoadAt`; such stores run one after the other.
    picks: tuple[tuple[Expr, int], ...] = ()

    def roots(self) -> list[Expr]:
        """The expressions the store needs."""
        return [self.value, *[place for place, _ in self.picks]]

    def changed(self, **fields: Any) -> Store:
        """The same store with some fields replaced."""
        return replace(self, **fields)

    def __str__(self) -> str:
        sign = {"add": "+=", "multiply": "*=", "largest": "max=", "smallest": "min="}
        operator = "=" if self.combine is None else sign.get(self.combine, f"{self.combine}=")
        where = "".join(f"if {format_expr(guard)} " for guard in self.guards)
        picks = "".join(f" + {n}*{format_expr(place)}" for place, n in self.picks)
        return f"{where}{self.buffer.name}[{self.at}{picks}] {operator} {format_expr(self.value)}"


def identity_of(combine: str, dtype: np.dtype) -> Any:
    """The value that changes nothing when combined."""
    number = FUNCTIONS[combine].identity
    assert number is not None, combine
    if abs(number) < inf or dtype.kind == "f":
        return dtype.type(number)
    if dtype.kind == "b":
        return dtype.type(number > 0)
    limits = np.iinfo(dtype)
    return dtype.type(limits.min if number < 0 else limits.max)


def add_exactly(apply: Callable[[str, Any, Any], Any], before: Any, value: Any) -> tuple[Any, Any]:
    """A sum, and what rounding took from it (Knuth); `apply` applies a function by its name.

    >>> import numpy as np
    >>> add_exactly(lambda name, x, y: getattr(np, name)(x, y), 1e16, 3.0)
    (np.float64(1.0000000000000004e+16), np.float64(-1.0))
    """
    after = apply("add", before, value)
    gained = apply("subtract", after, before)
    of_before = apply("subtract", before, apply("subtract", after, gained))
    return after, apply("add", of_before, apply("subtract", value, gained))


@dataclass(eq=False, repr=False)
class Nest:
    """Loops around stores."""

    vars: list[Var]
    stores: list[Store]
    label: str = ""
    nodes: list[Any] = field(default_factory=list)

    def __str__(self) -> str:
        header = " ".join(f"for {v} < {v.extent}" for v in self.vars) or "once"
        lines = [f"{header}:  # {self.label}" if self.label else f"{header}:"]
        return "\n".join([*lines, *[f"  {store}" for store in self.stores]])


@dataclass(eq=False, repr=False)
class ParallelNest:
    """A nest cut into tasks along its outermost loop, which threads share.

    The cut depends on the sizes alone, never on the number of threads, and what is combined over
    all tasks is first kept apart, task by task, and then joined in order: so the result is the
    same, bit for bit, for any number of threads.
    """

    task: Var  # counts the whole chunks
    body: Nest  # one chunk; its indices contain `task`
    rest: Nest | None  # what is left at the end, as one more task
    joins: list[Nest]  # combine what the tasks left

    def parts(self) -> list[Nest]:
        """All nests inside."""
        return [self.body, *([] if self.rest is None else [self.rest]), *self.joins]

    def __str__(self) -> str:
        tasks = self.task.extent + (self.rest is not None)
        text = f"{tasks} tasks in parallel:\n{self.body}"
        return "\n".join([text, *[f"then {join}" for join in self.joins]])


@dataclass(eq=False, repr=False)
class Contraction:
    """out[o] = sum over the rest of x * y; every label is a loop, with strides in each buffer.

    What else is to be done with a sum, once it is finished, are its `stores`: their values are
    expressions of `Sum` and of loads, and their indices are affine in `vars`, a loop variable for
    each label of the result.

    A factor may be computed from what lies in memory: `x_value` is an expression of loads, at
    indices affine in `vars` and `inner`, and `x` with its strides the one of them that leads.
    """

    extents: dict[int, int]
    out: Buffer
    x: Buffer
    y: Buffer
    out_strides: dict[int, int]
    x_strides: dict[int, int]
    y_strides: dict[int, int]
    x_offset: int = 0  # the element where x begins in its buffer
    y_offset: int = 0
    label: str = ""
    nodes: list[Any] = field(default_factory=list)
    accumulates: bool = False  # whether the sums are added to what `out` holds,
    begins: bool = False  # but not those of the first block of a group, in a batch loop
    vars: dict[int, Var] = field(default_factory=dict)
    stores: list[Store] = field(default_factory=list)
    inner: dict[int, Var] = field(default_factory=dict)  # for the labels that are summed over
    x_value: Expr | None = None
    y_value: Expr | None = None
    # Whether somebody reads the sums themselves; else they need memory only while unfinished.
    keeps_sums: bool = True

    @property
    def values(self) -> list[Expr]:
        """The factors that are expressions."""
        return [value for value in (self.x_value, self.y_value) if value is not None]

    @property
    def factors(self) -> list[Buffer]:
        """The factors that are read as they lie in memory."""
        pairs = (self.x, self.x_value), (self.y, self.y_value)
        return [buffer for buffer, value in pairs if value is None]

    @property
    def variables(self) -> dict[int, Var]:
        """The loop variables, of as many labels as have one."""
        return {**self.vars, **self.inner}

    def lead(self, is_x: bool) -> Load:
        """Where a factor, or what leads in its expression, lies in terms of the variables."""
        buffer, first, strides = (
            (self.x, self.x_offset, self.x_strides)
            if is_x
            else (self.y, self.y_offset, self.y_strides)
        )
        at = Affine(first)
        for label, var in self.variables.items():
            at = at + Affine.of(var) * strides.get(label, 0)
        return Load(buffer, at)

    def place(self) -> Affine:
        """The element number of a sum in `out`, in terms of `vars`."""
        total = Affine(0)
        for label, var in self.vars.items():
            total = total + Affine.of(var) * self.out_strides[label]
        return total

    def accesses(self) -> list[tuple[Buffer, Affine]]:
        """What the stores and the values of factors read and write, each place once."""
        found = [(store.buffer, store.at) for store in self.stores]
        values = walk([*roots_of(self.stores), *self.values])
        found += [(expr.buffer, expr.at) for expr in values if isinstance(expr, Load)]
        return list({(id(buffer), at): (buffer, at) for buffer, at in found}.values())

    def __str__(self) -> str:
        pairs = (self.x, self.x_value), (self.y, self.y_value)
        x, y = (b.name if value is None else format_expr(value) for b, value in pairs)
        product = f"{x} * {y}"
        loops = {label: f"{label} < {n}" for label, n in self.extents.items()}
        named = self.variables if self.values else self.vars if self.stores else {}
        loops |= {label: f"{var} < {var.extent}" for label, var in named.items()}
        if not self.stores:
            header = " ".join(f"for {loop}" for loop in loops.values())
            return f"{header}: {self.out.name} += {product}  # {self.label}"
        kept = " ".join(f"for {loops[label]}" for label in self.vars) or "once"
        summed = [loops[label] for label in self.extents if label not in self.vars]
        lines = [f"{kept}: sum of {product} for {', '.join(summed) or 'once'}  # {self.label}"]
        if self.keeps_sums:
            lines.append(f"  {self.out.name}[{self.place()}] = sum")
        return "\n".join([*lines, *[f"  {store}" for store in self.stores]])


@dataclass(eq=False, repr=False)
class Host:
    """An operation that NumPy evaluates: it has no loops of its own yet."""

    op: Any
    params: dict[str, Any]
    inputs: list[Buffer]
    outputs: list[Buffer]
    label: str = ""
    nodes: list[Any] = field(default_factory=list)
    # The inputs that are Python numbers: as arrays they would promote the others.
    numbers: tuple[int, ...] = ()

    def __str__(self) -> str:
        outs = ", ".join(buffer.name for buffer in self.outputs)
        ins = ", ".join(buffer.name for buffer in self.inputs)
        return f"{outs} = numpy {self.op.name}({ins})"


@dataclass(eq=False, repr=False)
class Check:
    """Ends the program with an error code unless the flag is set."""

    flag: Buffer
    code: int
    label: str = ""
    nodes: list[Any] = field(default_factory=list)

    def __str__(self) -> str:
        return f"unless {self.flag.name}: stop  # {self.label}"


@dataclass(eq=False, repr=False)
class Transfer:
    """Copies one block of an array to or from a worker's own memory, where samples lie innermost.

    A block at the end of the axis may be partly empty: the last sample is read in place of those
    that are missing, and only those that exist are written back.
    """

    outer: Buffer  # a view that begins with the block
    inner: Buffer
    axis: int  # the axis of samples
    inward: bool
    label: str = ""
    nodes: list[Any] = field(default_factory=list)
    # Outer strides that grow with a length known at run time: by axis, their factor.
    scaled: dict[int, int] = field(default_factory=dict)
    # Whether the block keeps the order of the elements outside: then it is copied line by line.
    plain: bool = False

    def __str__(self) -> str:
        if self.inward:
            return f"{self.inner.name} = block of {self.outer.name} along axis {self.axis}"
        return f"block of {self.outer.name} along axis {self.axis} = {self.inner.name}"


@dataclass(eq=False, repr=False)
class BlockLoop:
    """The batch loop: all kernels of `body` run for one block of an axis after the other.

    Neighbouring blocks form groups, which threads share. What is summed over the axis is summed
    group by group and then joined in order. The groups depend on the sizes alone, so the result is
    the same, bit for bit, for any number of threads.
    """

    extent: int  # of the axis; where it may have any length, an example
    width: int  # of a block
    groups: int
    group: Var  # the number of the group; in the `start` of views
    block: Var  # the number of the block; in the `start` of views
    live: Var  # how many samples of the block exist
    fills: list[Nest]  # what sums begin with, for each group
    body: list[Any]
    joins: list[Any]
    nodes: list[Any] = field(default_factory=list)
    planned_bytes: int = 0  # of a worker's arena, for the buffers of the body
    label: str = "batch loop"
    length: Buffer | None = None  # holds the extent where that is known at run time alone
    cost: int = 0  # of one sample, to tell whether threads are worth waking
    # After each `run` blocks of a group the `folds` take what these added to long sums to totals
    # that lose nothing, and the `ends` of the group put these where its sums belong.
    run: int = 0
    folds: list[Nest] = field(default_factory=list)
    ends: list[Nest] = field(default_factory=list)

    @property
    def blocks(self) -> int:
        """How many blocks cover the axis."""
        return -(-self.extent // self.width)

    def parts(self) -> list[Any]:
        """All kernels inside."""
        return [*self.fills, *self.body, *self.folds, *self.ends, *self.joins]

    def __str__(self) -> str:
        blocks = self.blocks if self.length is None else f"length / {self.width}"
        head = f"{blocks} blocks of {self.width} in {self.groups} parallel groups:"
        body = "\n".join(map(str, self.body)).replace("\n", "\n  ")
        return "\n".join([f"{head}\n  {body}", *[f"then {join}" for join in self.joins]])


@dataclass(eq=False, repr=False)
class Rows:
    """Where one array of a loop's body lies in a buffer outside.

    With every step it moves on by `stride` elements. Where a loop is cut into parts of its samples,
    these are `sample` elements apart from each other; of what each part has for itself, that of
    the next part lies `part` elements further on.
    """

    buffer: Buffer
    stride: int = 0
    sample: int = 0
    part: int = 0


@dataclass(eq=False, repr=False)
class Carried:
    """A value that each step of a loop reads from the step before.

    The first step reads it from `start`, and the last one writes it to `end`; between it is in the
    two `spare` buffers in turn. Where it has `rows`, a step writes it to the row of its own, the
    last one too; or, with `ahead`, to that of the step to come, and the first step finds it there.
    """

    start: Rows
    end: Rows
    rows: Rows | None = None
    ahead: bool = False
    spare: tuple[Rows, ...] = ()


@dataclass(eq=False, repr=False)
class Repeat:
    """A program that runs step after step on other rows of the buffers around it.

    The inputs of `body` are the `fixed` ones, the carries and the `rows`; its outputs are the
    carries, the `results` and the `totals`. Where there are several `parts`, the body is for one
    part of the samples, and threads share the parts, each with all its steps. If they cannot all be
    equal, the first ones have one sample more, and `wider` is the body for these.
    """

    steps: int
    reverse: bool
    body: LoopProgram
    fixed: list[Rows]
    carries: list[Carried]
    rows: list[Rows]
    results: list[Rows]  # but for those that carries live in
    totals: list[Rows]  # what every step adds to; each part begins with zeros
    parts: int = 1
    width: int = 0  # samples in a part
    wide: int = 0  # parts that have one more
    wider: LoopProgram | None = None
    label: str = ""
    nodes: list[Any] = field(default_factory=list)

    @property
    def bodies(self) -> list[LoopProgram]:
        """The bodies for all widths."""
        return [self.body] if self.wider is None else [self.body, self.wider]

    @property
    def inputs(self) -> list[Buffer]:
        """The buffers outside that it reads."""
        places = [*self.fixed, *[c.start for c in self.carries], *self.rows, *self.totals]
        return [place.buffer for place in places]

    @property
    def outputs(self) -> list[Buffer]:
        """The buffers outside that it writes results to."""
        rows = [c.rows for c in self.carries if c.rows is not None] + self.results
        ends = [c.end for c in self.carries if c.rows is None or c.ahead]
        return [place.buffer for place in [*ends, *rows, *self.totals]]

    @property
    def spare(self) -> list[Buffer]:
        """The buffers outside that it only works with."""
        return [place.buffer for carry in self.carries for place in carry.spare]

    def __str__(self) -> str:
        direction = "down from" if self.reverse else "up to"
        outs = ", ".join(buffer.name for buffer in self.outputs)
        ins = ", ".join(buffer.name for buffer in self.inputs)
        parts = f", {self.parts} parts in parallel" if self.parts > 1 else ""
        lines = [f"{self.steps} steps {direction} the last row{parts}: {outs} from {ins}:"]
        return "\n".join([*lines, *["  " + line for line in str(self.body).splitlines()]])


Kernel = Nest | ParallelNest | Contraction | Host | Check | Transfer | BlockLoop | Repeat


@dataclass(eq=False, repr=False)
class LoopProgram:
    """Kernels in order, and the buffers they work on."""

    inputs: list[Buffer]
    outputs: list[Buffer]
    kernels: list[Kernel]
    planned_bytes: int = 0  # of the arena, for buffers
    scratch_bytes: int = 0  # behind them, for the kernels themselves
    watched: int = 0  # so many kernels, from the first on, end early when Ctrl-C is pressed
    length: Buffer | None = None  # of a program for any length
    room_bytes: int = 0  # for each unit of that length, for what outlives a batch loop

    @property
    def arena_bytes(self) -> int:
        """The size of the arena."""
        return self.planned_bytes + self.scratch_bytes

    def __str__(self) -> str:
        head = [f"input  {b}" for b in self.inputs] + [f"output {b}" for b in self.outputs]
        return "\n".join([*head, *map(str, self.kernels)])


def has_checks(loop: Repeat) -> bool:
    """Whether a step can end the program with an error code."""
    return any(
        isinstance(kernel, Check) or (isinstance(kernel, Repeat) and has_checks(kernel))
        for kernel in loop.body.kernels
    )


def roots_of(stores: Iterable[Store]) -> list[Expr]:
    """Everything that stores compute."""
    return [root for store in stores for root in store.roots()]
