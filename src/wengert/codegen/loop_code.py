"""Loops around kernels: their turns one after the other, or shared out to threads.

Every kernel inside is a function that gets what the loops around it count, and where the memory of
their turns lies (see `Around`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from llvmlite import ir

from ..loops import Branch, Carry, Kernel, Loop, Nest, can_fail, inside
from ..machine import policy
from ..runtime.limits import MORE_STEPS, STEP_CODES
from . import pool
from .contexts import rounded, within, words_of
from .counted import carried_loop, counted_loop
from .interrupts import leave_if_stopped
from .llvm_types import declare
from .pointers import I32, I64, PTR, Key, Pointers, i64, is_error, moved_bytes
from .products import Products
from .program import values_in_line
from .scope import Code
from .tasks import one_by_one

# Slots for turns that are merged in order, for each worker: a core may be so many times as slow as
# the others, or be taken away for so many turns, before they wait for it.
SLOTS_OF_WORKER = 3


@dataclass(frozen=True)
class Merging:
    """Turns that are merged in order: so many of them have memory, each so many bytes."""

    slots: int
    size: int
    state: ir.Value  # see `pool`

    @property
    def bytes(self) -> int:
        """Of all slots, at the beginning of scratch."""
        return self.slots * self.size

    def place(self, builder: ir.IRBuilder, scratch: ir.Value, slot: ir.Value) -> ir.Value:
        """Where the memory of a slot begins."""
        return builder.gep(scratch, [builder.mul(slot, i64(self.size))], source_etype=ir.IntType(8))


def pool_function(module: ir.Module, name: str, more: int) -> ir.Function:
    """A function of the pool that gets a state, a turn and the slots, and so many pointers."""
    kind = ir.FunctionType(ir.VoidType(), [PTR, I64, I64, *[PTR] * more])
    return declare(module, name, kind)


class Loops(Products):
    """Emits the loops around kernels."""

    def _branch(
        self,
        builder: ir.IRBuilder,
        name: str,
        branch: Branch,
        pointers: Pointers,
        watch: ir.Value | None,
    ) -> int:
        """One side or the other; bytes of scratch for either."""
        value = branch.value
        decides = None if value is None else builder.load(pointers(value), typ=I64)
        with builder.if_else(test_of(builder, branch, pointers, decides)) as (then, otherwise):
            with then:
                yes = self._run(builder, f"{name}.yes", branch.yes, pointers, watch)
            with otherwise:
                no = self._run(builder, f"{name}.no", branch.no, pointers, watch)
        return max(yes, no)

    def _loop(
        self,
        builder: ir.IRBuilder,
        name: str,
        loop: Loop,
        pointers: Pointers,
        watch: ir.Value | None,
    ) -> int:
        """All of a loop; bytes of scratch that it needs."""
        begin = self._run(builder, f"{name}.begin", loop.begin, pointers, None)
        if loop.parallel:
            turns = self._shared(builder, name, loop, pointers, watch)
        else:
            turns, left = self._ordered(builder, name, loop, pointers, watch)
            if loop.going is not None or loop.limit is not None:
                pointers = within(pointers, left)
        join = self._run(builder, f"{name}.join", loop.join, pointers, watch)
        return max(begin, turns, join)

    def _run(
        self,
        builder: ir.IRBuilder,
        name: str,
        kernels: Sequence[Kernel],
        pointers: Pointers,
        watch: ir.Value | None,
        first: int = 0,
    ) -> int:
        """Code for kernels, and calls of them, as ever; but a few numbers in a turn of a loop are
        computed in line: a call would take longer."""
        values = list(map(values_in_line, kernels))
        in_line = pointers.around.keys and sum(values) <= policy().code.most_in_turn
        most = 0
        for number, kernel in enumerate(kernels):
            if in_line and isinstance(kernel, Nest) and values[number]:
                self._nest(builder, kernel, within(pointers, {}), None)
                continue
            scratch = super()._run(builder, name, [kernel], pointers, watch, first + number)
            most = max(most, scratch)
        return most

    # ------------------------------------------------------------ on several threads

    def _shared(
        self,
        builder: ir.IRBuilder,
        name: str,
        loop: Loop,
        pointers: Pointers,
        watch: ir.Value | None,
    ) -> int:
        """Turns that threads share, or one after the other where threads share a loop around."""
        words = list(pointers.words)
        failed = None
        if any(map(can_fail, loop.body)):
            failed = builder.alloca(I32)
            builder.store(ir.Constant(I32, 0), failed)
            words.append(failed)
        merging = self._merging(builder, loop, pointers) if loop.fold else None
        if merging is not None:
            words.append(merging.state)
        task, own = self._task(name, loop, pointers, failed is not None, watch is not None, merging)
        workers = None
        if own or merging:
            workers = min(self.workers, loop.turns)
        if pointers.around.is_shared:
            workers = 1
            one_by_one(builder, task, words, loop.turns, watch)
        elif loop.length is None:
            self._share_out(builder, task, words, loop.turns, watch, workers)
        else:
            extent = builder.load(pointers(loop.length), typ=I64)
            work = builder.mul(extent, i64(max(loop.cost, 1)))
            little = builder.icmp_signed("<", work, i64(policy().threads.least_any_length))
            with builder.if_else(little) as (alone, together):
                with alone:
                    one_by_one(builder, task, words, loop.turns, watch)
                with together:
                    self._share_out(builder, task, words, loop.turns, watch, workers)
        if failed is not None:
            code = builder.load(failed, typ=I32)
            with builder.if_then(is_error(builder, code), likely=False):
                builder.ret(code)
        return own * (workers or 1) + (merging.bytes if merging else 0)

    def _task(
        self,
        name: str,
        loop: Loop,
        pointers: Pointers,
        fails: bool,
        watched: bool,
        merging: Merging | None,
    ) -> tuple[ir.Function, int]:
        """`void name.task(context, turn, worker)`: one turn; and the scratch of each worker."""
        function = self._function(f"{name}.task", [PTR, I64, I64])
        b = ir.IRBuilder(function.append_basic_block())
        context, turn, worker = function.args
        kinds = [
            *(word.type for word in pointers.words),
            *[PTR] * (fails + bool(merging) + watched),
        ]
        words = words_of(b, context, kinds)
        watch = words.pop() if watched else None
        state = words.pop() if merging else None
        failed = words.pop() if fails else None
        around = self._pointers(b, words, pointers.around)
        given: dict[Key, ir.Value] = {loop.var: turn}
        if merging:
            given[loop] = merging.place(b, around.scratch, b.urem(turn, i64(merging.slots)))
        inside = within(around, given, shared=True)
        code, scratch = self._code_of(f"{name}.in", loop.body, inside, watched)
        own = rounded(scratch)
        if own:
            place = b.mul(worker, i64(own))
            place = b.add(place, i64(merging.bytes)) if merging else place
            inside.scratch = b.gep(inside.scratch, [place], source_etype=ir.IntType(8))
        if merging is None:
            if watch is not None:
                leave_if_stopped(b, watch)
            self._call_all(b, code, inside, watch, failed)
        else:
            # what is never merged would be waited for: turns of a call that ends are merged too
            body = self._function(f"{name}.turn", [word.type for word in inside.words] + [PTR, PTR])
            self._turn_alone(body, code, inside, watch is not None, failed is not None)
            nothing = ir.Constant(PTR, None)
            turns = [turn, i64(merging.slots)]
            b.call(pool_function(self.module, pool.AWAIT_SLOT, 0), [state, *turns])
            b.call(body, [*inside.words, failed or nothing, watch or nothing])
            merge = self._merge_task(name, loop, pointers, merging)
            b.call(
                pool_function(self.module, pool.MERGE_IN_ORDER, 2), [state, *turns, merge, context]
            )
        b.ret_void()
        return function, own

    def _turn_alone(
        self, function: ir.Function, code: Code, inside: Pointers, watched: bool, fails: bool
    ) -> None:
        """`void name.turn(..., failed, watch)`: one turn without what comes before and after."""
        b = ir.IRBuilder(function.append_basic_block())
        *words, failed, watch = function.args
        if watched:
            leave_if_stopped(b, watch)
        own = self._pointers(b, words, inside.around)
        self._call_all(b, code, own, watch if watched else None, failed if fails else None)
        b.ret_void()

    def _merging(self, builder: ir.IRBuilder, loop: Loop, pointers: Pointers) -> Merging:
        """What turns need that are merged in order, begun: none is finished."""
        shared = not pointers.around.is_shared
        slots = min(loop.turns, SLOTS_OF_WORKER * self.workers) if shared else 1
        words = (pool.MERGE_SLOTS + slots * pool.MERGE_SLOT) // 8
        state = builder.alloca(I64, size=i64(words))
        state.align, state.type = 64, PTR
        for word in range(words):
            builder.store(i64(0), moved_bytes(builder, state, 8 * word))
        return Merging(slots, rounded(loop.private_bytes), state)

    def _merge_task(
        self, name: str, loop: Loop, pointers: Pointers, merging: Merging
    ) -> ir.Function:
        """`void name.merge(context, turn, slot)`: what a turn has left taken to the results."""
        function = self._function(f"{name}.merge", [PTR, I64, I64])
        b = ir.IRBuilder(function.append_basic_block())
        context, _, slot = function.args
        words = words_of(b, context, [word.type for word in pointers.words])
        around = self._pointers(b, words, pointers.around)
        place = merging.place(b, around.scratch, slot)
        scratch = self._run(
            b, f"{name}.fold", loop.fold, within(around, {loop: place}, shared=True), None
        )
        assert not scratch  # nests need none
        b.ret_void()
        return function

    # ------------------------------------------------------------ in order

    def _ordered(
        self,
        builder: ir.IRBuilder,
        name: str,
        loop: Loop,
        pointers: Pointers,
        watch: ir.Value | None,
    ) -> tuple[int, dict[Key, ir.Value]]:
        """Turns one after the other; also where the last of them has left what is carried."""
        b = builder
        first, stop, extent = self._range(b, loop, pointers)
        own = rounded(loop.private_bytes)
        behind = moved_bytes(b, pointers.scratch, own)
        left = self._begin_carries(b, loop, pointers)
        scratch = 0
        # what is inside may never come back to this loop, which could look itself otherwise
        endless = watch if any(map(may_be_endless, loop.body)) else None

        def turn(number: ir.Value) -> None:
            nonlocal scratch
            if watch is not None:
                self._look(b, loop, number, watch)
            at = turn_at(b, loop, number, stop)
            values: dict[Key, ir.Value] = {loop.var: at}
            afters = self._carry(b, loop, number, within(pointers, values))
            for carry, after, place in zip(loop.carries, afters, left, strict=True):
                values[carry.before], values[carry.after] = b.load(place, typ=PTR), after
            if loop.private:
                values[loop] = pointers.scratch
            if loop.count is not None:
                values[loop.count] = b.sub(number, _value(first))
            if loop.blocks is not None:
                width = i64(loop.blocks.width)
                rest = b.sub(extent, b.mul(number, width))
                values[loop.blocks.live] = b.select(b.icmp_signed("<", width, rest), width, rest)
            inner = within(pointers, values, behind, in_blocks=loop.blocks is not None)
            scratch = self._run(b, f"{name}.in", loop.body, inner, endless)
            if loop.fold:
                assert loop.count is not None
                done = b.add(inner.counters[loop.count], i64(1))
                with b.if_then(b.icmp_unsigned("==", b.urem(done, i64(loop.run)), i64(0))):
                    scratch = max(scratch, self._run(b, f"{name}.fold", loop.fold, inner, None))

            for after, place in zip(afters, left, strict=True):
                b.store(after, place)

        if loop.going is None:
            counted_loop(b, first, stop, 1, turn)
        else:
            self._turns_while(b, loop, left[loop.carries.index(loop.going)], turn)
        places = zip(loop.carries, left, strict=True)
        return own + scratch, {carry.before: b.load(place, typ=PTR) for carry, place in places}

    def _turns_while(
        self,
        builder: ir.IRBuilder,
        loop: Loop,
        place: ir.Value,
        turn: Callable[[ir.Value], None],
    ) -> None:
        """Turns as long as the Boolean is true that lies where the place says."""
        b = builder
        count = None
        if loop.number:
            count = b.alloca(I64)
            b.store(i64(0), count)

        def is_going() -> ir.Value:
            flag = b.load(b.load(place, typ=PTR), typ=ir.IntType(8))
            return b.icmp_unsigned("!=", flag, ir.Constant(ir.IntType(8), 0))

        def step(values: list[ir.Value]) -> tuple[list[ir.Value], ir.Value]:
            turn(values[0])
            following = b.add(values[0], i64(1))
            if count is not None:
                b.store(following, count)
            return [following], is_going()

        carried_loop(b, [i64(0)], step, enters=is_going())
        if count is not None:
            leave_if_too_many(b, loop, b.load(count, typ=I64))

    def _begin_carries(
        self, builder: ir.IRBuilder, loop: Loop, pointers: Pointers
    ) -> list[ir.Value]:
        """Where the turn before has left what is carried: of the first turn, where it starts."""
        found = []
        for carry in loop.carries:
            place = builder.alloca(PTR)
            builder.store(pointers(carry.start), place)
            found.append(place)
            find_homes(loop, carry, pointers)
        return found

    def _carry(
        self, builder: ir.IRBuilder, loop: Loop, number: ir.Value, pointers: Pointers
    ) -> list[ir.Value]:
        """Where the turn of this number leaves what is carried."""
        return [left_at(builder, loop, carry, number, pointers) for carry in loop.carries]

    def _range(
        self, builder: ir.IRBuilder, loop: Loop, pointers: Pointers
    ) -> tuple[int | ir.Value, int | ir.Value, ir.Value | None]:
        """The first turn, the one after the last, and the extent of the axis in blocks."""
        b, blocks = builder, loop.blocks
        turns: int | ir.Value = loop.turns
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
            return 0, turns, extent
        share = pointers.counters[loop.share]
        first, stop = (
            b.udiv(b.mul(number, _value(turns)), i64(loop.share.extent))
            for number in (share, b.add(share, i64(1)))
        )
        return first, stop, extent

    def _look(self, builder: ir.IRBuilder, loop: Loop, turn: ir.Value, watch: ir.Value) -> None:
        """See whether to end early: at every turn, or where these are short at the last of some:
        a loop of few turns does not."""
        cost = max(1, sum(kernel.work for kernel in loop.body))
        period = 1 << (policy().costs.watch_period // cost).bit_length()
        leave_if_stopped(builder, watch, (builder.add(turn, i64(1)), period))


def turn_at(builder: ir.IRBuilder, loop: Loop, number: ir.Value, stop: int | ir.Value) -> ir.Value:
    """What the variable of a loop is at the turn of this number."""
    b = builder
    if loop.reverse:
        return b.sub(b.sub(_value(stop), i64(1)), number)
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


def _value(number: int | ir.Value) -> ir.Value:
    return i64(number) if isinstance(number, int) else number
