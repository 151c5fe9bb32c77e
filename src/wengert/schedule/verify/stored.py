"""Programs of loops gone through kernel by kernel, with a note of what is written."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from math import prod

from ...errors import LoopError
from ...loops import (
    Affine,
    BlockLoop,
    Buffer,
    Check,
    Contraction,
    Host,
    Kernel,
    LoopProgram,
    MemoryKind,
    Nest,
    ParallelNest,
    Repeat,
    Transfer,
    Var,
)
from .accesses import Access, Uses, access, in_memory, uses_of_nest, uses_of_product
from .arena import Lives
from .dtypes import verify_types
from .places import Box, Places, Written, of_buffer, tells_apart
from .steps import Placed, owner_of, rows_of

# Loops that go in order are gone through turn by turn where nothing simpler decides.
MOST_TURNS = 1 << 12


class _Memory:
    """What has been written so far, by the buffer that owns the memory."""

    def __init__(self, before: _Memory | None = None):
        self.before = before
        self.touched: dict[int, Buffer] = {}  # buffers that were looked up
        self.written: dict[int, tuple[Buffer, Written]] = {}

    def of(self, owner: Buffer) -> Written:
        """What of a buffer has been written; what was there before is not changed."""
        self.touched[id(owner)] = owner
        if id(owner) not in self.written:
            known = None if self.before is None else self.before.of(owner).copy()
            if known is None:
                known = Written(owner)
                known.whole |= owner.kind in (MemoryKind.CONSTANT, MemoryKind.LENGTH)
            self.written[id(owner)] = owner, known
        return self.written[id(owner)][1]

    @contextlib.contextmanager
    def noting(self) -> Iterator[dict[int, Buffer]]:
        """The buffers that are looked up in a `with` block."""
        before, self.touched = self.touched, {}
        yield self.touched
        self.touched = before | self.touched

    def fill(self, buffer: Buffer) -> None:
        """Note that a whole buffer, which may have gaps, is written."""
        owner, at = in_memory(buffer, Affine(0))
        places = of_buffer(buffer, at.constant)
        if places is not None:
            self.of(owner).store(places)


def verify_program(program: LoopProgram, begun: Iterable[Buffer] = ()) -> None:
    """Check a program; of the results, some hold numbers to add to before it begins."""
    _Program(program, begun).run()


class _Program:
    """Goes through one program."""

    def __init__(self, program: LoopProgram, begun: Iterable[Buffer]):
        self.program = program
        self.memory = _Memory()
        for buffer in (*program.inputs, *begun):
            self.memory.fill(buffer)

    def run(self) -> None:
        """Check all kernels, then the results, then the memory plan."""
        lives = Lives(MemoryKind.ARENA)
        for number, kernel in enumerate(self.program.kernels):
            name = _name(number, kernel)
            verify_types(kernel, name)
            with self.memory.noting() as touched:
                _Kernel(self.memory, name, {}).run(kernel)
            lives.note(number, touched.values())
        for buffer in self.program.outputs:
            owner, at = in_memory(buffer, Affine(0))
            places = of_buffer(buffer, at.constant)
            missing = None if places is None else self.memory.of(owner).missing(places)
            if missing is not None:
                raise LoopError(f"the end: {missing.of(f'the result {buffer.name}')} not stored")
        if self.program.planned_bytes:
            lives.verify(self.program.planned_bytes, "the arena")


def _name(number: int, kernel: Kernel) -> str:
    """What an error calls a kernel."""
    label = getattr(kernel, "label", "") or getattr(getattr(kernel, "body", None), "label", "")
    kind = type(kernel).__name__
    kind = "Nest" if kind == "FusedNest" else kind
    return f"kernel {number}, {kind}" + (f" {label!r}" if label else "")


class _Kernel:
    """Checks one kernel against the memory that it meets, and notes what it writes."""

    def __init__(self, memory: _Memory, name: str, box: Box):
        self.memory, self.name, self.box = memory, name, box

    def run(self, kernel: Kernel) -> None:
        """Check the kernel by the rules for its kind."""
        if isinstance(kernel, Nest):
            self._nest(kernel)
        elif isinstance(kernel, ParallelNest):
            self._tasks(kernel)
        elif isinstance(kernel, Contraction):
            self._product(kernel)
        elif isinstance(kernel, BlockLoop):
            self._blocks(kernel)
        elif isinstance(kernel, Repeat):
            self._steps(kernel)
        elif isinstance(kernel, Host):
            inputs, outputs = (list(map(self._whole, b)) for b in (kernel.inputs, kernel.outputs))
            self._check(Uses(inputs, outputs))
        else:
            assert isinstance(kernel, Check), kernel
            self._check(Uses([self._whole(kernel.flag)]))

    def _whole(self, buffer: Buffer) -> Access:
        """All of a buffer."""
        variables = [Var(str(axis), n) for axis, n in enumerate(buffer.shape)]
        if 0 in buffer.shape:
            return access(buffer, Affine(0), [])
        return access(buffer, buffer.flat(tuple(map(Affine.of, variables))), [self.box])

    # ------------------------------------------------------------ rules for all accesses

    def _check(self, uses: Uses) -> None:
        """Loads first, then stores, each of them everywhere."""
        for load in uses.loads:
            self._check_bounds(load, "reads")
            self._check_stored(load, load.places())
        for store in uses.stores:
            self._check_bounds(store, "writes")
            self._note(store)

    def _check_bounds(self, one: Access, verb: str) -> None:
        if not one.is_bounded:
            raise LoopError(f"{self.name}: {verb} {one.buffer.name} at a place without bounds")
        written = self.memory.of(one.owner)
        for places in one.places() if one.is_decided else ():
            if not written.holds(places):
                low, high = written.span
                raise LoopError(
                    f"{self.name}: {verb} {one.buffer.name} at {places}, outside of its memory "
                    f"from {low} to {high}"
                )

    def _check_stored(self, load: Access, places: Iterable[Places]) -> None:
        written = self.memory.of(load.owner)
        for grid in places if load.is_decided else ():
            missing = written.missing(grid)
            if missing is not None:
                raise LoopError(
                    f"{self.name}: reads {load.buffer.name}[{load.at}], but "
                    f"{missing.of(load.owner.name)} not stored yet"
                )

    def _note(self, store: Access) -> None:
        """What a store writes; where values decide on the place, nothing is sure."""
        if not store.picks:
            for places in store.places():
                self.memory.of(store.owner).store(places)

    # ------------------------------------------------------------ nests

    def _nest(self, nest: Nest) -> None:
        uses = self._check_nest(nest, uses_of_nest(nest, self.box))
        line = _line_of(nest)
        stored = {id(store.owner) for store in uses.stores}
        if line is None or not any(id(load.owner) in stored for load in uses.loads):
            self._check(uses)
            return
        for turn in range(min(line.extent, MOST_TURNS)):
            self._check(uses_of_nest(nest, {**self.box, line: (turn, 1)}))

    def _check_nest(self, nest: Nest, uses: Uses) -> Uses:
        """The turns of loops without an order are apart; gives what is left to be checked."""
        self._check_stores(nest)
        line = _line_of(nest)
        if line is not None:
            return self._check_line(line, uses)
        self._check_turns(uses)
        return uses

    def _check_stores(self, nest: Nest) -> None:
        for store in nest.stores:
            if not (store.combine or store.picks or store.guards):
                self._check_once(nest.vars, store.buffer, store.at)

    def _check_once(self, variables: Iterable[Var], buffer: Buffer, at: Affine) -> None:
        """No two turns may store, rather than combine, at one place."""
        if any(var.extent == 0 for var in variables):
            return
        for var in variables:
            if not tells_apart(at, var, self.box):
                raise LoopError(
                    f"{self.name}: two turns of the loop over {var} write {buffer.name}"
                    f"[{at}] at one place"
                )

    def _check_turns(self, uses: Uses) -> None:
        """No turn may read what another one writes: which comes first is not said."""
        for load in uses.loads:
            for store in uses.stores:
                if store.owner is load.owner and not store.picks and not _same_turn(load, store):
                    self._check_no_meeting(load, store, "reads what another turn writes")

    def _check_no_meeting(self, one: Access, other: Access, problem: str) -> None:
        if not (one.is_decided and other.is_decided):
            return
        if any(a.meets(b) for a in one.places() for b in other.places()):
            raise LoopError(f"{self.name}: {problem}, {one.buffer.name} at {one.at} and {other.at}")

    def _check_line(self, line: Var, uses: Uses) -> Uses:
        """A loop in order may read what its turn before has stored: but for that, what it uses.

        The first turn of all finds it in memory.
        """
        first = {**self.box, line: (0, 1)}
        left = Uses([], uses.stores)
        for load in uses.loads:
            before = load.at + load.at.coefficient(line)
            if any(s.owner is load.owner and _same(s.at, before) for s in uses.stores):
                self._check_bounds(load, "reads")
                self._check_stored(load, [p for p in [Places.at(load.at, first)] if p])
            else:
                left.loads.append(load)
        return left

    def _tasks(self, kernel: ParallelNest) -> None:
        """Tasks that threads share: none may touch what another one writes."""
        body = uses_of_nest(kernel.body, self.box)
        rest = Uses() if kernel.rest is None else uses_of_nest(kernel.rest, self.box)
        for store in body.stores:
            if not tells_apart(store.at, kernel.task, self.box):
                raise LoopError(f"{self.name}: two tasks write {store.buffer.name}[{store.at}]")
        for one, other in _pairs(body.stores, rest.stores):
            self._check_no_meeting(one, other, "two tasks write one place")
        for one, other in (*_pairs(body.loads, rest.stores), *_pairs(rest.loads, body.stores)):
            self._check_no_meeting(one, other, "a task reads what another one writes")
        body = self._check_nest(kernel.body, body)
        if kernel.rest is not None:
            rest = self._check_nest(kernel.rest, rest)
        self._check(body + rest)
        for join in kernel.joins:
            self._nest(join)

    # ------------------------------------------------------------ products

    def _product(self, product: Contraction) -> None:
        uses = uses_of_product(product, self.box)
        own = {id(store.owner): store for store in uses.stores}
        factors = [in_memory(buffer, Affine(0))[0] for buffer in product.factors]
        for factor in factors:
            if id(factor) in own:  # tiles are read again after others are finished
                raise LoopError(f"{self.name}: writes {factor.name}, a factor that it reads")
        if 0 not in product.extents.values():
            labels = list(product.vars.values())
            for store in product.stores:
                self._check_once(labels, store.buffer, store.at)
            if product.keeps_sums and product.vars:
                self._check_once(labels, product.out, product.place())
        self._check_turns(uses)
        self._check(uses)

    # ------------------------------------------------------------ batch loops

    def _blocks(self, loop: BlockLoop) -> None:
        """The first and the last block, each after what came before the loop alone; then all."""
        groups = {**self.box, loop.group: (0, loop.groups), loop.live: (1, loop.width)}
        everywhere = {**groups, loop.block: (0, loop.blocks)}
        for number, fill in enumerate(loop.fills):
            inside = _Kernel(self.memory, f"{self.name}, fill {number}", groups)
            self._check_groups(loop, uses_of_nest(fill, groups), groups, [loop.group])
            inside._nest(fill)
        ends = {0: 0, loop.blocks - 1: loop.groups - 1} if loop.blocks else {}
        for block, group in ends.items():
            memory, lives = _Memory(self.memory), Lives(MemoryKind.BLOCK)
            box = {**groups, loop.block: (block, 1), loop.group: (group, 1)}
            for number, kernel in enumerate(loop.body):
                name = f"{self.name}, in block {block}, {_name(number, kernel)}"
                verify_types(kernel, name)
                with memory.noting() as touched:
                    self._run_inside(loop, kernel, block, _Kernel(memory, name, box))
                lives.note(number, touched.values())
            if loop.planned_bytes:
                lives.verify(loop.planned_bytes, f"{self.name}, the arena of a block")
        for kernel in loop.body if loop.blocks else ():
            self._note_blocks(loop, kernel, everywhere)
        for number, join in enumerate(loop.joins):
            _Kernel(self.memory, f"{self.name}, join {number}", self.box).run(join)

    @staticmethod
    def _run_inside(loop: BlockLoop, kernel: Kernel, block: int, inside: _Kernel) -> None:
        if isinstance(kernel, Transfer):
            inside._check(_transferred(loop, kernel, block, block + 1))
        else:
            inside.run(kernel)

    def _note_blocks(self, loop: BlockLoop, kernel: Kernel, everywhere: Box) -> None:
        """What all blocks together write."""
        if isinstance(kernel, Transfer):
            uses = _transferred(loop, kernel, 0, loop.blocks)
        elif isinstance(kernel, Contraction):
            uses = uses_of_product(kernel, everywhere)
        else:
            assert isinstance(kernel, Nest)
            uses = uses_of_nest(kernel, everywhere)
        outside = [store for store in uses.stores if store.owner.kind is not MemoryKind.BLOCK]
        if not isinstance(kernel, Transfer):
            self._check_groups(loop, Uses([], outside), everywhere, [loop.block, loop.group])
        for store in outside:
            self._check_bounds(store, "writes")
            self._note(store)

    def _check_groups(self, loop: BlockLoop, uses: Uses, box: Box, counters: Sequence[Var]) -> None:
        """No two groups of blocks, which threads share, may write one place."""
        for store in uses.stores:
            if loop.groups > 1 and not any(tells_apart(store.at, v, box) for v in counters):
                raise LoopError(
                    f"{self.name}: two groups of blocks write {store.buffer.name} at {store.at}"
                )

    # ------------------------------------------------------------ loops around programs

    def _steps(self, loop: Repeat) -> None:
        """The program inside by itself, then where its arrays lie outside."""
        for body in loop.bodies:
            try:
                _Program(body, body.outputs[len(body.outputs) - len(loop.totals) :]).run()
            except LoopError as error:
                raise LoopError(f"{self.name}: in its body, {error}") from None
        written: list[list[Placed]] = []
        for part in range(loop.parts):
            read, results = rows_of(loop, part)
            for rows, places in read:
                one = access(rows.buffer, Affine(0), [])
                self._check_rows(one, places, "reads")
                self._check_stored(one, [places])
            written.append(results)
        for number, results in enumerate(written):
            for rows, places in results:
                self._check_rows(access(rows.buffer, Affine(0), []), places, "writes")
                for others in written[:number]:
                    for other, there in others:
                        if owner_of(other) is owner_of(rows) and there.meets(places):
                            raise LoopError(f"{self.name}: two parts write {rows.buffer.name}")
        for rows, places in (pair for results in written for pair in results):
            self.memory.of(owner_of(rows)).store(places)

    def _check_rows(self, one: Access, places: Places, verb: str) -> None:
        low, high = self.memory.of(one.owner).span
        if not (low <= places.start and places.end <= high):
            raise LoopError(
                f"{self.name}: {verb} {one.buffer.name} at {places}, outside of its memory "
                f"from {low} to {high}"
            )


def _pairs(ones: Iterable[Access], others: Sequence[Access]) -> Iterator[tuple[Access, Access]]:
    """Accesses of both to the same memory."""
    return ((a, b) for a in ones for b in others if a.owner is b.owner)


def _same_turn(load: Access, store: Access) -> bool:
    """Whether the load is at the place that the store writes in the same turn."""
    return not load.picks and _same(load.at, store.at)


def _same(one: Affine, other: Affine) -> bool:
    return one.constant == other.constant and dict(one.terms) == dict(other.terms)


def _line_of(nest: Nest) -> Var | None:
    """The loop that goes in order, if there is one."""
    return next((var for var in nest.vars if var.ordered), None)


def _transferred(loop: BlockLoop, kernel: Transfer, first: int, stop: int) -> Uses:
    """What copying the samples of some blocks reads and writes."""
    begin = first * loop.width
    count = min(stop * loop.width, loop.extent) - begin
    shape = [count if axis == kernel.axis else n for axis, n in enumerate(kernel.outer.shape)]
    outside = _box_of(kernel.outer, shape, begin * kernel.outer.strides[kernel.axis])
    inside = _box_of(kernel.inner, kernel.inner.shape, 0)
    return Uses([outside], [inside]) if kernel.inward else Uses([inside], [outside])


def _box_of(buffer: Buffer, shape: Sequence[int], start: int) -> Access:
    """The elements of a view from a place on, wherever its own counters would have it begin."""
    at = Affine(start)
    for axis, (n, stride) in enumerate(zip(shape, buffer.strides, strict=True)):
        at = at + Affine.of(Var(str(axis), n)) * stride
    owner, base = in_memory(buffer, Affine(0))
    return Access(buffer, owner, at + base.constant, [{}] if prod(shape) else [])
