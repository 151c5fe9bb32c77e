"""Emits loops whose turns come one after the other.

What turns hand on lies in memory, and where it lies is carried from turn to turn. Around code
without loops, all of it is emitted in place, and values stay in registers (see `registers`); any
other kernel of a turn is a function that is called.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from llvmlite import ir

from ..loops import (
    Affine,
    Blocks,
    Branch,
    Buffer,
    Carry,
    Check,
    Expr,
    Kernel,
    Load,
    Loop,
    Nest,
    Store,
    inside,
)
from ..machine import policy
from ..runtime.limits import MORE_STEPS, STEP_CODES
from ..schedule.memory import buffers_of
from .accumulators import combined
from .contexts import rounded, within
from .interrupts import leave_if_stopped
from .llvm_types import element_type
from .memory import Memory
from .nest_values import NestValues
from .nests import NestEmitter
from .pointers import I32, I64, PTR, Key, Pointers, i64, moved_bytes
from .registers import InRegisters, Place, Registers, written_out

if TYPE_CHECKING:
    from .loop_code import Loops


def emit_ordered(
    scope: Loops,
    builder: ir.IRBuilder,
    name: str,
    loop: Loop,
    pointers: Pointers,
    watch: ir.Value | None,
) -> tuple[int, Pointers]:
    """All turns of a loop: bytes of scratch that they need, and where what follows finds memory."""
    held = InRegisters(loop)
    ordered = _Ordered(scope, builder, name, held)
    kept = held.kept()
    for buffer, element in kept:
        ordered.registers.values[buffer, element] = ordered.load(buffer, element, pointers)
    scratch = ordered.turns(loop, pointers, watch)
    for buffer, element in kept:
        ordered.store(buffer, element, ordered.registers.values[buffer, element], pointers)
    if loop.join and loop.carries:
        pointers = within(pointers, ordered.in_memory(loop, pointers))
    return scratch, pointers


class _Ordered:
    """One loop, and those in its turns that are emitted in place."""

    def __init__(self, scope: Loops, builder: ir.IRBuilder, name: str, held: InRegisters):
        self.scope, self.builder, self.name, self.held = scope, builder, name, held
        self.registers = Registers(held.owners)
        self.left: dict[Key, ir.Value] = {}  # where carries in memory are after their loop
        if held.is_straight:
            with builder.goto_entry_block():
                self.spent = builder.alloca(I64)  # the work since somebody looked whether to end
            builder.store(i64(0), self.spent)

    # ------------------------------------------------------------ memory

    def load(self, buffer: Buffer, element: int, pointers: Pointers) -> ir.Value:
        """An element, wherever it is."""
        if self.registers.holds(buffer):
            known = self.registers.find(buffer, Affine(element))
            if known is not None:
                return known
        memory = Memory(self.builder, buffer.dtype)
        return memory.read(memory.at(pointers(buffer), element), 0, 1, 1)

    def store(self, buffer: Buffer, element: int, value: ir.Value, pointers: Pointers) -> None:
        """Put an element into memory."""
        memory = Memory(self.builder, buffer.dtype)
        memory.write(value, memory.at(pointers(buffer), element), 0, 1)

    def in_memory(self, loop: Loop, pointers: Pointers) -> dict[Key, ir.Value]:
        """Where what a loop carries lies after it; what is in registers is stored."""
        found: dict[Key, ir.Value] = {}
        for carry in loop.carries:
            if not self.held.holds(carry):
                found[carry.before] = self.left[carry.before]
                continue
            place = carry.places[0]
            for element in self.elements(carry):
                value = self.registers.get(carry.before, Affine(element))
                self.store(place, element, value, pointers)
            found[carry.before] = pointers(place)
        return found

    def elements(self, carry: Carry) -> list[int]:
        """The elements of what is carried."""
        return sorted(self.held.places[carry.before])

    # ------------------------------------------------------------ turns

    def turns(self, loop: Loop, pointers: Pointers, watch: ir.Value | None) -> int:
        """All turns of a loop; bytes of scratch that they need."""
        b, registers = self.builder, self.registers
        span = span_of(b, loop, pointers)
        own = rounded(loop.private_bytes)
        behind = moved_bytes(b, pointers.scratch, own)
        apart = [carry for carry in loop.carries if not self.held.holds(carry)]
        held = [carry for carry in loop.carries if self.held.holds(carry)]
        for carry in held:
            for element in self.elements(carry):
                start = self.load(carry.start, element, pointers)
                registers.put(carry.before, Affine(element), start)
        starts = {carry: pointers(carry.start) for carry in apart}
        for carry in loop.carries:
            if carry in apart or len(carry.places) == 1:
                find_homes(loop, carry, pointers)
        moving = [(c.before, e) for c in held for e in self.elements(c)]
        moving += self._changed(loop)
        before = [registers.values.get(place, _undefined(place)) for place in moving]
        entry, head = b.block, b.append_basic_block("turns")
        b.branch(head)
        b.position_at_end(head)
        number = b.phi(I64)
        phis = [b.phi(value.type) for value in before]
        places = {carry: b.phi(PTR) for carry in apart}
        now = {**registers.values, **dict(zip(moving, phis, strict=True))}
        registers.values = dict(now)
        if loop.going is None:
            more = b.icmp_signed("<", number, span.stop)
        else:
            more = self._is_going(loop.going, places)
        inner, after = b.append_basic_block("turn"), b.append_basic_block("after")
        b.cbranch(more, inner, after)
        b.position_at_end(inner)
        leaves, scratch = self._turn(loop, number, span, places, pointers, behind, watch)
        following = b.add(number, i64(1))
        for phi, old, new in [
            (number, span.first, following),
            *zip(phis, before, [registers.values[place] for place in moving], strict=True),
            *[(places[carry], starts[carry], leaves[carry]) for carry in apart],
        ]:
            phi.add_incoming(old, entry)
            phi.add_incoming(new, b.block)
        b.branch(head)
        b.position_at_end(after)
        if loop.going is not None:
            leave_if_too_many(b, loop, number)
        registers.values = now
        self.left.update({carry.before: place for carry, place in places.items()})
        for carry in held:
            if carry.end is not None and len(carry.places) > 1:
                self._leave(carry, carry.end, pointers)
        return own + scratch

    def _changed(self, loop: Loop) -> list[Place]:
        """What turns change and do not carry, and what is not of a single turn."""
        private = {*loop.private}
        return [
            place
            for place in sorted(
                self.held.written_in(loop), key=lambda place: (place[0].name, place[1])
            )
            if place[0] not in private
        ]

    def _is_going(self, going: Carry, places: Mapping[Carry, ir.Value]) -> ir.Value:
        if self.held.holds(going):
            return self.registers.get(going.before, Affine(0))
        return Memory(self.builder, going.before.dtype).read(places[going], 0, 1, 1)

    def _turn(
        self,
        loop: Loop,
        number: ir.Value,
        span: Span,
        places: Mapping[Carry, ir.Value],
        pointers: Pointers,
        scratch: ir.Value,
        watch: ir.Value | None,
    ) -> tuple[dict[Carry, ir.Value], int]:
        """One turn: where it leaves what is carried in memory, and the scratch that it needs."""
        b = self.builder
        if watch is not None:
            self._look(loop, number, watch)
        # what is inside may never come back to this loop, which could look itself otherwise
        endless = watch if any(map(may_be_endless, loop.body)) else None
        given: dict[Key, ir.Value] = {loop.var: turn_at(b, loop, number, span)}
        counted = within(pointers, given)
        leaves = {
            carry: left_at(b, loop, carry, number, counted)
            for carry in loop.carries
            if carry in places or len(carry.places) == 1
        }
        for carry, place in places.items():
            given[carry.before], given[carry.after] = place, leaves[carry]
        if loop.private:  # in this order kernels of blocks get it, see `jit.measuring`
            given[loop] = pointers.scratch
        if loop.count is not None:
            given[loop.count] = b.sub(number, span.first)
        if loop.blocks is not None:
            given[loop.blocks.live] = _live(b, loop.blocks, number, span)
        inner = within(pointers, given, scratch, in_blocks=loop.blocks is not None)
        needed = self.run(loop.body, inner, endless)
        if loop.fold:
            needed = max(needed, self._fold(loop, inner))
        values = self.registers.values
        for carry in loop.carries:
            if carry in places:
                continue
            for element in self.elements(carry):
                value = values.get((carry.after, element), values[carry.before, element])
                values[carry.before, element] = value
                if carry in leaves:
                    memory = Memory(b, carry.after.dtype)
                    memory.write(value, memory.at(leaves[carry], element), 0, 1)
        return leaves, needed

    def _fold(self, loop: Loop, inner: Pointers) -> int:
        """What turns have added up taken to totals, after every run of them."""
        b = self.builder
        assert loop.count is not None
        done = b.add(inner.counters[loop.count], i64(1))
        with b.if_then(b.icmp_unsigned("==", b.urem(done, i64(loop.run)), i64(0))):
            return self.scope._run(b, f"{self.name}.fold", loop.fold, inner, None)

    def _look(self, loop: Loop, number: ir.Value, watch: ir.Value) -> None:
        """See whether to end early: at every turn, or where these are short at the last of some: a
        loop of few turns does not.

        In place, when there was enough work since the last time. Nobody knows how much there is in
        a turn if it has a `while`: so that counts its own turns.
        """
        b, period = self.builder, policy().costs.watch_period
        if not self.held.is_straight:
            cost = max(1, sum(kernel.work for kernel in loop.body))
            every = 1 << (period // cost).bit_length()
            leave_if_stopped(b, watch, (b.add(number, i64(1)), every))
            return
        spent = b.add(b.load(self.spent, typ=I64), i64(max(1, _certain_work(loop.body))))
        b.store(spent, self.spent)
        enough = b.icmp_signed(">=", spent, i64(period))
        with b.if_then(enough, likely=False):
            leave_if_stopped(b, watch)
            b.store(i64(0), self.spent)

    def _leave(self, carry: Carry, end: Buffer, pointers: Pointers) -> None:
        """What is carried, as the last turn left it, brought to where it is expected."""
        for element in self.elements(carry):
            value = self.registers.get(carry.before, Affine(element))
            if self.registers.holds(end):
                self.registers.put(end, Affine(element), value)
            else:
                self.store(end, element, value, pointers)

    # ------------------------------------------------------------ kernels

    def run(self, kernels: Sequence[Kernel], pointers: Pointers, watch: ir.Value | None) -> int:
        """The code of kernels one after the other; bytes of scratch that they need."""
        if not self.held.is_straight:
            return self.scope._run(self.builder, f"{self.name}.in", kernels, pointers, watch)
        scratch = 0
        for kernel in kernels:
            if isinstance(kernel, Nest):
                self._nest(kernel, pointers)
            elif isinstance(kernel, Check):
                self._check(kernel, pointers)
            elif isinstance(kernel, Branch):
                scratch = max(scratch, self._branch(kernel, pointers, watch))
            else:
                assert isinstance(kernel, Loop)
                scratch = max(scratch, self._inner(kernel, pointers, watch))
        return scratch

    def _nest(self, nest: Nest, pointers: Pointers) -> None:
        nest = written_out(nest)
        for buffer in buffers_of(nest):
            if not self.registers.holds(buffer):
                pointers(buffer)
        emitter = NestEmitter(self.builder, self.scope.target, pointers, pointers.counters)
        emitter.values_of = functools.partial(_Values, self.registers)
        emitter.emit(nest)

    def _check(self, check: Check, pointers: Pointers) -> None:
        flag = self.load(check.flag, 0, pointers)
        with self.builder.if_then(self.builder.not_(flag), likely=False):
            self.builder.ret(ir.Constant(I32, check.code))

    def _branch(self, branch: Branch, pointers: Pointers, watch: ir.Value | None) -> int:
        b = self.builder
        test = test_of(b, branch, pointers, self._decides(branch, pointers))
        before = dict(self.registers.values)
        sides: list[tuple[ir.Block, dict[Place, ir.Value]]] = []
        needed = 0
        with b.if_else(test) as ways:
            for way, kernels in zip(ways, (branch.yes, branch.no), strict=True):
                with way:
                    self.registers.values = dict(before)
                    inner = within(pointers, {})  # what is found here is known here alone
                    needed = max(needed, self.run(kernels, inner, watch))
                    sides.append((b.block, self.registers.values))
        self.registers.values = merged = {}
        for place in {**sides[0][1], **sides[1][1]}:
            found = [(values.get(place), block) for block, values in sides]
            if found[0][0] is found[1][0]:
                merged[place] = found[0][0]
                continue
            phi = b.phi(element_type(place[0].dtype))
            for value, block in found:
                phi.add_incoming(_undefined(place) if value is None else value, block)
            merged[place] = phi
        return needed

    def _decides(self, branch: Branch, pointers: Pointers) -> ir.Value | None:
        """The number that decides, where it is not an index."""
        return None if branch.value is None else self.load(branch.value, 0, pointers)

    def _inner(self, loop: Loop, pointers: Pointers, watch: ir.Value | None) -> int:
        """A loop in a turn of another one."""
        begin = self.run(loop.begin, pointers, None)
        turns = self.turns(loop, pointers, watch)
        after = within(pointers, {k: v for k, v in self.left.items() if k in _carried(loop)})
        return max(begin, turns, self.run(loop.join, after, watch))


class _Values(NestValues):
    """The values of a nest, of whose elements some are not in memory."""

    def __init__(self, registers: Registers, *args: Any):
        super().__init__(*args)
        self.registers = registers

    def _leaf(self, expr: Expr) -> ir.Value:
        if isinstance(expr, Load) and self.registers.holds(expr.buffer):
            return self.registers.get(expr.buffer, expr.at)
        return super()._leaf(expr)

    def store(self, store: Store, value: ir.Value, combines: bool) -> None:
        """Store a scalar, or combine it with what is there."""
        if not self.registers.holds(store.buffer):
            super().store(store, value, combines)
            return
        if combines:
            there = self.registers.get(store.buffer, store.at)
            value = combined(self.scalar, store, there, value)
        self.registers.put(store.buffer, store.at, value)


def _certain_work(kernels: Sequence[Kernel]) -> int:
    """The work of kernels, without that of the turns of a `while` and of loops around one."""
    total = 0
    for kernel in kernels:
        if not may_be_endless(kernel):
            total += kernel.work
        elif isinstance(kernel, Branch):
            total += max(_certain_work(kernel.yes), _certain_work(kernel.no))
        elif isinstance(kernel, Loop):
            total += _certain_work([*kernel.begin, *kernel.join])
    return total


def _carried(loop: Loop) -> set[Buffer]:
    return {carry.before for carry in loop.carries}


def _undefined(place: Place) -> ir.Value:
    return ir.Constant(element_type(place[0].dtype), ir.Undefined)


class Span(NamedTuple):
    """Which turns a loop has."""

    first: ir.Value
    stop: ir.Value  # the number after that of the last one
    extent: ir.Value | None  # of the axis, where turns are blocks


def span_of(builder: ir.IRBuilder, loop: Loop, pointers: Pointers) -> Span:
    """Which turns a loop has; a share of them, where threads share them."""
    b, blocks = builder, loop.blocks
    turns: ir.Value = i64(loop.turns)
    extent = None
    if loop.limit is not None:
        turns = b.load(pointers(loop.limit), typ=I64)
        leave_if_too_many(b, loop, turns)
    if blocks is not None:
        extent = i64(blocks.extent)
        if blocks.length is not None:
            extent = b.load(pointers(blocks.length), typ=I64)
            turns = b.udiv(b.add(extent, i64(blocks.width - 1)), i64(blocks.width))
    if loop.share is None:
        return Span(i64(0), turns, extent)
    share = pointers.counters[loop.share]
    first, stop = (
        b.udiv(b.mul(number, turns), i64(loop.share.extent))
        for number in (share, b.add(share, i64(1)))
    )
    return Span(first, stop, extent)


def turn_at(builder: ir.IRBuilder, loop: Loop, number: ir.Value, span: Span) -> ir.Value:
    """What the variable of a loop is at the turn of this number."""
    b = builder
    if loop.reverse:
        return b.sub(b.sub(span.stop, i64(1)), number)
    if loop.going is None or not loop.number:
        return number
    last = i64(loop.turns - 1)
    return b.select(b.icmp_signed("<", number, last), number, last)


def leave_if_too_many(builder: ir.IRBuilder, loop: Loop, turns: ir.Value) -> None:
    """Return a code where there are more turns than there is memory for, of a loop that needs it
    for each."""
    if not loop.number:
        return
    b = builder
    with b.if_then(b.icmp_signed(">", turns, i64(loop.turns)), likely=False):
        zeros = b.ctlz(b.sub(turns, i64(1)), ir.Constant(ir.IntType(1), 0))
        code = b.sub(i64(MORE_STEPS - STEP_CODES * loop.number), b.sub(i64(64), zeros))
        b.ret(b.trunc(code, I32))


def _live(builder: ir.IRBuilder, blocks: Blocks, number: ir.Value, span: Span) -> ir.Value:
    """How many places of a block exist."""
    b, width = builder, i64(blocks.width)
    rest = b.sub(span.extent, b.mul(number, width))
    return b.select(b.icmp_signed("<", width, rest), width, rest)


def test_of(
    builder: ir.IRBuilder, branch: Branch, pointers: Pointers, decides: ir.Value | None
) -> ir.Value:
    """Whether the first side of a branch is taken; what `decides`, if it is not an index."""
    at: ir.Value = i64(branch.test.at.constant)
    for var, factor in branch.test.at.terms:
        at = builder.add(at, builder.mul(pointers.counters[var], i64(factor)))
    at = at if decides is None else decides
    below = builder.icmp_signed("<=", i64(branch.test.low), at)
    above = builder.icmp_signed("<", at, i64(branch.test.high))
    return builder.and_(below, above)


def find_homes(loop: Loop, carry: Carry, pointers: Pointers) -> None:
    """Work out before a loop where it leaves what is carried, as far as this can be."""
    for home in carry.homes:
        fixed = home.base if home.start.coefficient(loop.var) else home
        assert fixed is not None
        pointers(fixed)


def left_at(
    builder: ir.IRBuilder, loop: Loop, carry: Carry, number: ir.Value, pointers: Pointers
) -> ir.Value:
    """Where the turn of this number leaves a value that is carried."""
    b, places = builder, [pointers(place) for place in carry.places]
    after = places[0]
    if len(places) > 1:
        assert len(places) == 2
        after = b.select(b.trunc(number, ir.IntType(1)), places[1], places[0])
    if carry.end is not None:
        last = b.icmp_signed("==", number, i64(loop.turns - 1))
        after = b.select(last, pointers(carry.end), after)
    return after


def may_be_endless(kernel: Kernel) -> bool:
    """Whether a kernel, or one in it, has turns of a number that nobody knows."""
    return any(isinstance(one, Loop) and one.going is not None for one in inside(kernel))
