"""Programs of loops gone through kernel by kernel, with a note of what is written."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

from ...errors import LoopError
from ...loops import (
    Affine,
    Branch,
    Buffer,
    Carry,
    Check,
    Contraction,
    Host,
    Kernel,
    LibraryCall,
    Loop,
    LoopProgram,
    MemoryKind,
    Nest,
    Transfer,
    Var,
)
from ..memory import loops_of
from .accesses import (
    Access,
    Uses,
    carried_by,
    in_memory,
    own_of,
    sides_of,
    turns_of,
    uses_of,
    uses_of_nest,
    uses_of_product,
    whole,
)
from .arena import Lives
from .dtypes import verify_types
from .places import Box, Places, Written, of_buffer, tells_apart

# Loops that go in order are gone through turn by turn where nothing simpler decides.
MOST_TURNS = 1 << 12


class _Memory:
    """What has been written so far, by the buffer that owns the memory."""

    def __init__(self, before: _Memory | None = None):
        self.before = before
        self.touched: dict[Buffer, None] = {}  # buffers that were looked up
        self.written: dict[Buffer, Written] = {}

    def of(self, owner: Buffer) -> Written:
        """What of a buffer has been written; what was there before is not changed."""
        self.touched[owner] = None
        if owner not in self.written:
            known = None if self.before is None else self.before.of(owner).copy()
            if known is None:
                known = Written(owner)
                known.whole |= owner.kind in (MemoryKind.CONSTANT, MemoryKind.LENGTH)
            self.written[owner] = known
        return self.written[owner]

    @contextlib.contextmanager
    def noting(self) -> Iterator[dict[Buffer, None]]:
        """The buffers that are looked up in a `with` block."""
        before, self.touched = self.touched, {}
        yield self.touched
        self.touched = before | self.touched

    def meet(self, others: Sequence[_Memory]) -> None:
        """Go on from one of several memories: written is what is so in all of them."""
        for owner in dict.fromkeys(one for other in others for one in other.written):
            own = self.of(owner)
            own.meet([other.of(owner) for other in others])

    def fill(self, buffer: Buffer) -> None:
        """Note that a whole buffer, which may have gaps, is written."""
        owner, at = in_memory(buffer, Affine(0))
        places = of_buffer(buffer, at.constant)
        if places is not None:
            self.of(owner).store(places)


def verify_program(program: LoopProgram) -> None:
    """Check a program."""
    _Program(program).run()


class _Program:
    """Goes through one program."""

    def __init__(self, program: LoopProgram):
        self.program = program
        self.memory = _Memory()
        for buffer in program.inputs:
            self.memory.fill(buffer)

    def run(self) -> None:
        """Check all kernels, then the results, then the memory plan."""
        private = {one for loop in loops_of(self.program.kernels) for one in loop.private}
        lives = Lives(lambda b: b.kind is MemoryKind.ARENA and b not in private)
        for number, kernel in enumerate(self.program.kernels):
            name = _name(number, kernel)
            verify_types(kernel, name)
            with self.memory.noting() as touched:
                _Kernel(self.memory, name, {}).run(kernel)
            lives.note(number, touched)
        for buffer in self.program.outputs:
            owner, at = in_memory(buffer, Affine(0))
            places = of_buffer(buffer, at.constant)
            missing = None if places is None else self.memory.of(owner).missing(places)
            if missing is not None:
                raise LoopError(f"the end: {missing.of(f'the result {buffer.name}')} not stored")
        if self.program.arena_bytes:
            lives.verify(self.program.arena_bytes, "the arena")


def _name(number: int, kernel: Kernel) -> str:
    """What an error calls a kernel."""
    return f"kernel {number}, {_kind(kernel)}"


def _kind(kernel: Kernel) -> str:
    kind = type(kernel).__name__
    return kind + (f" {kernel.label!r}" if kernel.label else "")


class _Kernel:
    """Checks one kernel against the memory that it meets, and notes what it writes."""

    def __init__(self, memory: _Memory, name: str, box: Box):
        self.memory, self.name, self.box = memory, name, box

    def run(self, kernel: Kernel) -> None:
        """Check the kernel by the rules for its kind."""
        if isinstance(kernel, Nest):
            self._nest(kernel)
        elif isinstance(kernel, Contraction):
            self._product(kernel)
        elif isinstance(kernel, Loop):
            self._loop(kernel)
        elif isinstance(kernel, Branch):
            self._branch(kernel)
        elif isinstance(kernel, (Transfer, LibraryCall)):
            self._check(uses_of(kernel, self.box))
        elif isinstance(kernel, Host):
            inputs, outputs = (list(map(self._whole, b)) for b in (kernel.inputs, kernel.outputs))
            self._check(Uses(inputs, outputs))
        else:
            assert isinstance(kernel, Check), kernel
            self._check(Uses([self._whole(kernel.flag)]))

    def _whole(self, buffer: Buffer) -> Access:
        return whole(buffer, self.box)

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
        stored = {store.owner for store in uses.stores}
        if line is None or not any(load.owner in stored for load in uses.loads):
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
        """No turn may read or write what another one writes: which comes first is not said."""
        for load in uses.loads:
            for store in uses.stores:
                if store.owner is load.owner and not store.picks and not _same_turn(load, store):
                    self._check_no_meeting(load, store, "reads what another turn writes")
        plain = [store for store in uses.stores if not (store.combines or store.picks)]
        for one, other in combinations(plain, 2):
            if one.owner is other.owner and not _same_turn(one, other):
                self._check_no_meeting(one, other, "writes what another turn writes")

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

    # ------------------------------------------------------------ products

    def _product(self, product: Contraction) -> None:
        uses = uses_of_product(product, self.box)
        own = {store.owner for store in uses.stores}
        factors = [in_memory(buffer, Affine(0))[0] for buffer in product.factors]
        for factor in factors:
            if factor in own:  # tiles are read again after others are finished
                raise LoopError(f"{self.name}: writes {factor.name}, a factor that it reads")
        if 0 not in product.extents.values():
            labels = list(product.vars.values())
            for store in product.stores:
                self._check_once(labels, store.buffer, store.at)
            if product.keeps_sums and product.vars:
                self._check_once(labels, product.out, product.place())
        self._check_turns(uses)
        self._check(uses)

    # ------------------------------------------------------------ loops around kernels

    def _branch(self, branch: Branch) -> None:
        if branch.value is not None:
            self._choice(branch)
            return
        for kernel, boxes in sides_of(branch, self.box):
            for box in boxes:
                self._inside(kernel, self.memory, box).run(kernel)

    def _choice(self, branch: Branch) -> None:
        """A branch that a value decides on: what both sides have written is written after it."""
        assert branch.value is not None
        self._check(Uses([self._whole(branch.value)]))
        sides = []
        for kernels in (branch.yes, branch.no):
            memory = _Memory(self.memory)
            for kernel in kernels:
                self._inside(kernel, memory, self.box).run(kernel)
            sides.append(memory)
        self.memory.meet(sides)

    def _inside(self, kernel: Kernel, memory: _Memory, box: Box, where: str = "") -> _Kernel:
        """For a kernel inside of this one."""
        name = f"{self.name}{where}, {_kind(kernel)}"
        verify_types(kernel, name)
        return _Kernel(memory, name, box)

    def _loop(self, loop: Loop) -> None:
        """What is read from outside, in all turns; then the first and the last turn by themselves,
        which stand for all; then what all turns write."""
        for kernel in loop.begin:
            self._inside(kernel, self.memory, self.box, ", at the beginning").run(kernel)
        turns = turns_of(loop, self.box)
        first, count = turns[loop.var]
        if count > 0:
            self._turns(loop, turns, first, first + count - 1)
        if loop.going is not None or loop.limit is not None:
            for carry in loop.carries:  # it may lie where it began, or where a turn has left it
                self.memory.fill(carry.before)
        for kernel in loop.join:
            self._inside(kernel, self.memory, self.box, ", at the end").run(kernel)

    def _turns(self, loop: Loop, turns: Box, first: int, last: int) -> None:
        own = own_of(loop)
        uses = sum((uses_of(kernel, turns) for kernel in (*loop.body, *loop.fold)), Uses())
        uses = uses.without(own)
        written = {store.owner for store in uses.stores}
        carried = carried_by(loop, turns)
        loads = [load for load in uses.loads if load.owner not in written]
        self._check(Uses([*loads, *carried.loads]))
        uses += carried
        memory = self.memory
        for turn in sorted({first, last}):
            # one turn after the other, unless they have no order
            memory = _Memory(self.memory if loop.parallel else memory)
            for carry in loop.carries:
                memory.fill(carry.before)
            lives = Lives(set(loop.private).__contains__)
            box = {**turns, loop.var: (turn, 1)}
            if loop.count is not None:
                box[loop.count] = (turn - first, 1)
            for number, kernel in enumerate((*loop.body, *loop.fold)):
                inside = self._inside(kernel, memory, box, f", in turn {turn}, {number}")
                with memory.noting() as touched:
                    inside.run(kernel)
                lives.note(number, touched)
            for carry in loop.carries:
                self._check_carried(carry, memory)
            if loop.private_bytes:
                lives.verify(loop.private_bytes, f"{self.name}, the memory of a turn")
        if loop.parallel:
            for turn in sorted({first, last}):
                others = (first, turn - first), (turn + 1, last - turn)
                self._check_apart(loop, turns, turn, [one for one in others if one[1]])
        for store in uses.stores:
            self._check_bounds(store, "writes")
            self._note(store)

    def _check_carried(self, carry: Carry, memory: _Memory) -> None:
        places = of_buffer(carry.after)
        missing = None if places is None else memory.of(carry.after).missing(places)
        if missing is not None:
            name = f"{carry.after.name}, which is carried on,"
            raise LoopError(f"{self.name}: {missing.of(name)} not stored in a turn")

    def _check_apart(
        self, loop: Loop, turns: Box, turn: int, others: Sequence[tuple[int, int]]
    ) -> None:
        """No turn of a loop that threads share may touch what another one writes, but what goes
        turn by turn."""
        own = own_of(loop)

        def uses_in(values: tuple[int, int]) -> Uses:
            box = {**turns, loop.var: values}
            return sum((uses_of(kernel, box) for kernel in loop.body), Uses()).without(own)

        one = uses_in((turn, 1))
        for values in others:
            other = uses_in(values)
            pairs = [
                *_pairs(one.stores, other.stores),
                *_pairs(one.loads, other.stores),
                *_pairs(other.loads, one.stores),
            ]
            for here, there in pairs:
                problem = f"two turns of the loop over {loop.var} meet, and one writes"
                self._check_no_meeting(here, there, problem)


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
