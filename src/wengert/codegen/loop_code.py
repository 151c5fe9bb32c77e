"""Branches, and loops around kernels: their turns one after the other (see `ordered_loops`), or
shared out to threads.

Every kernel inside is a function that gets what the loops around it count, and where the memory of
their turns lies (see `Around`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llvmlite import ir

from ..loops import Branch, Kernel, Loop, Nest, can_fail
from ..machine import policy
from . import pool
from .contexts import rounded, within, words_of
from .interrupts import leave_if_stopped
from .llvm_types import declare
from .ordered_loops import emit_ordered, test_of
from .pointers import I32, I64, PTR, Key, Pointers, i64, is_error, moved_bytes
from .products import Products
from .program import values_in_line
from .scope import Code
from .tasks import one_by_one

# Slots for turns that are merged in order, for each worker: a core may be so many times as slow as
# the others, or be taken away for so many turns, before they wait for it.
SLOTS_OF_WORKER = 3
_HEAD = (0, pool.MERGE_LOCK)  # where the words of a piece of the results are


@dataclass(frozen=True)
class Merging:
    """Turns that are merged in order: so many of them have memory, each so many bytes."""

    slots: int
    size: int
    pieces: list[list[Kernel]]  # what merges a piece of the results each
    state: ir.Value  # see `pool`

    @property
    def bytes(self) -> int:
        """Of all slots, at the beginning of scratch."""
        return self.slots * self.size

    def place(self, builder: ir.IRBuilder, scratch: ir.Value, slot: ir.Value) -> ir.Value:
        """Where the memory of a slot begins."""
        return builder.gep(scratch, [builder.mul(slot, i64(self.size))], source_etype=ir.IntType(8))


def pool_function(module: ir.Module, name: str, more: int) -> ir.Function:
    """A function of the pool that gets a state, a turn, slots and pieces, and so many pointers."""
    kind = ir.FunctionType(ir.VoidType(), [PTR, I64, I64, I64, *[PTR] * more])
    return declare(module, name, kind)


def merged_apart(fold: Sequence[Kernel]) -> list[list[Kernel]]:
    """What merges results, in pieces that threads do at the same time."""
    pieces: list[list[Kernel]] = []
    room = 0
    for kernel in fold:
        assert isinstance(kernel, Nest)
        if room <= 0:
            pieces.append([])
            room = policy().regions.merged_at_once
        pieces[-1].append(kernel)
        room -= kernel.iterations
    return pieces


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
            turns, pointers = emit_ordered(self, builder, name, loop, pointers, watch)
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
            turns = [turn, i64(merging.slots), i64(len(merging.pieces))]
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
        pieces = merged_apart(loop.fold) if shared else [list(loop.fold)]
        heads = len(pieces) * pool.MERGE_PIECE
        state = builder.alloca(ir.IntType(8), size=i64(heads + slots * pool.MERGE_SLOT))
        state.align, state.type = 64, PTR
        words = [head + word for head in range(0, heads, pool.MERGE_PIECE) for word in _HEAD]
        words += [heads + pool.MERGE_SLOT * slot for slot in range(slots)]
        for place in words:
            builder.store(i64(0), moved_bytes(builder, state, place))
        return Merging(slots, rounded(loop.private_bytes), pieces, state)

    def _merge_task(
        self, name: str, loop: Loop, pointers: Pointers, merging: Merging
    ) -> ir.Function:
        """`void name.merge(context, piece, slot)`: a piece of what is in a slot is merged."""
        function = self._function(f"{name}.merge", [PTR, I64, I64])
        b = ir.IRBuilder(function.append_basic_block())
        context, piece, slot = function.args
        words = words_of(b, context, [word.type for word in pointers.words])
        around = self._pointers(b, words, pointers.around)
        place = merging.place(b, around.scratch, slot)
        inside = within(around, {loop: place}, shared=True)
        done = function.append_basic_block("done")
        chosen = b.switch(piece, done)
        for number, kernels in enumerate(merging.pieces):
            chosen.add_case(i64(number), block := function.append_basic_block())
            b.position_at_end(block)
            scratch = self._run(b, f"{name}.fold{number}.", kernels, inside, None)
            assert not scratch  # nests need none
            b.branch(done)
        b.position_at_end(done)
        b.ret_void()
        return function
