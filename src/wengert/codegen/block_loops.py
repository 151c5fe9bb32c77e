"""The batch loop: all kernels of its body for one block of samples after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from llvmlite import ir

from ..loops import BlockLoop, Contraction, Kernel, Nest, Transfer
from ..machine import policy
from ..schedule.cost import kernel_cost
from .counted import counted_loop
from .interrupts import leave_if_stopped
from .pointers import I64, PTR, Pointers, i64, moved_bytes, rounded, words_of
from .products import Products
from .tasks import one_by_one
from .transfer import emit_transfer


class BlockLoops(Products):
    """Emits the batch loops of a program."""

    def _block_loop(
        self,
        builder: ir.IRBuilder,
        name: str,
        kernel: BlockLoop,
        args: list[ir.Value],
        watch: ir.Value | None,
    ) -> None:
        """Groups of blocks shared out to threads, then what joins their sums."""
        body = [self._inside(f"{name}.in{n}", kernel, part) for n, part in enumerate(kernel.body)]
        fills, folds, ends = (
            [self._inside(f"{name}.{what}{n}", kernel, part)[0] for n, part in enumerate(parts)]
            for what, parts in (
                ("fill", kernel.fills),
                ("fold", kernel.folds),
                ("end", kernel.ends),
            )
        )
        scratch = max((bytes_ for _, bytes_ in body), default=0)
        own = rounded(kernel.planned_bytes + scratch)
        workers = min(self.workers, kernel.groups)
        self.scratch_bytes = max(self.scratch_bytes, own * workers)
        around = fills, folds, ends
        task = self._block_task(name, kernel, around, body, own, watch is not None)
        if kernel.length is None:
            self._share_out(builder, task, args, kernel.groups, watch, workers)
        else:
            extent = builder.load(self._pointers(builder, args)(kernel.length), typ=I64)
            work = builder.mul(extent, i64(max(kernel.cost, 1)))
            little = builder.icmp_signed("<", work, i64(policy().threads.least_any_length))
            with builder.if_else(little) as (alone, together):
                with alone:
                    one_by_one(builder, task, args, kernel.groups, watch)
                with together:
                    self._share_out(builder, task, args, kernel.groups, watch, workers)
        for number, join in enumerate(kernel.joins):
            builder.call(self.kernel(f"{name}.join{number}", join, False), args)

    def _block_task(
        self,
        name: str,
        kernel: BlockLoop,
        around: tuple[Sequence[ir.Function], ...],
        body: Sequence[tuple[ir.Function, int]],
        own: int,
        watched: bool,
    ) -> ir.Function:
        """`void name.task(context, group, worker)`: the blocks of one group, one after another."""
        function = self._function(f"{name}.task", [PTR, I64, I64])
        b = ir.IRBuilder(function.append_basic_block())
        context, group, worker = function.args
        *words, watch = words_of(b, context, 3) if watched else [*words_of(b, context, 2), None]
        place = b.add(b.mul(worker, i64(own)), i64(self.scratch_start))
        local = b.gep(words[1], [place], source_etype=ir.IntType(8))
        fills, folds, ends = around
        of_group = [*words, local, group, i64(0), i64(0)]
        for fill in fills:
            b.call(fill, of_group)
        extent: ir.Value = i64(kernel.extent)
        blocks: ir.Value = i64(kernel.blocks)
        if kernel.length is not None:
            extent = b.load(self._pointers(b, words)(kernel.length), typ=I64)
            blocks = b.udiv(b.add(extent, i64(kernel.width - 1)), i64(kernel.width))
        first, last = (
            b.udiv(b.mul(number, blocks), i64(kernel.groups))
            for number in (group, b.add(group, i64(1)))
        )

        def one(block: ir.Value) -> None:
            if watched:
                self._look(b, kernel, block, watch)
            left = b.sub(extent, b.mul(block, i64(kernel.width)))
            whole = b.icmp_signed("<", i64(kernel.width), left)
            live = b.select(whole, i64(kernel.width), left)
            for part, _ in body:
                b.call(part, [*words, local, group, block, live])
            if folds:
                number = b.add(b.sub(block, first), i64(1))
                with b.if_then(b.icmp_unsigned("==", b.urem(number, i64(kernel.run)), i64(0))):
                    for fold in folds:
                        b.call(fold, of_group)

        counted_loop(b, first, last, 1, one)
        for end in ends:
            b.call(end, of_group)
        b.ret_void()
        return function

    def _look(
        self, builder: ir.IRBuilder, kernel: BlockLoop, block: ir.Value, watch: ir.Value
    ) -> None:
        """See whether to end early: at every block, or where these are cheap at some of them."""
        period = 1
        if kernel.length is not None:
            cost = sum(map(kernel_cost, kernel.body))
            period = 1 << (policy().costs.watched_loop // max(cost, 1)).bit_length()
        leave_if_stopped(builder, watch, (block, period))

    def _inside(self, name: str, loop: BlockLoop, kernel: Kernel) -> tuple[ir.Function, int]:
        """`void name(buffers, arena, own arena, group, block, live)`, and the scratch it needs."""
        function = self._function(name, [PTR, PTR, PTR, I64, I64, I64])
        builder = ir.IRBuilder(function.append_basic_block())
        *_, local, group, block, live = function.args
        counters = {loop.group: group, loop.block: block, loop.live: live}
        pointers = self._pointers(builder, function.args[:2], None, local, counters)
        scratch = 0
        if isinstance(kernel, Contraction):
            room = moved_bytes(builder, local, loop.planned_bytes)
            scratch = self._product_inside(builder, name, loop, kernel, pointers, room)
        elif isinstance(kernel, Transfer):
            outer, near = pointers(kernel.outer), pointers(kernel.inner)
            length = None
            if kernel.scaled:
                assert self.program.length is not None
                length = builder.load(pointers(self.program.length), typ=I64)
            emit_transfer(builder, kernel, outer, near, live, length)
        else:
            assert isinstance(kernel, Nest)
            self._nests(builder, [kernel], pointers, counters=counters)
        builder.ret_void()
        return function, scratch

    def _product_inside(
        self,
        builder: ir.IRBuilder,
        name: str,
        loop: BlockLoop,
        kernel: Contraction,
        pointers: Pointers,
        room: ir.Value,
    ) -> int:
        """A product of a block; the first block of a group may begin its sums."""
        later = self._product(name, kernel, False)
        args = self._product_arguments(builder, kernel, pointers, room, later.unfinished)
        scratch = later.unfinished + later.scratch
        if not kernel.begins:
            builder.call(self.module.globals[later.name], args)
            return scratch
        alone = replace(kernel, accumulates=False, begins=False)
        begin = self._product(f"{name}.begin", alone, False)
        group, block = (pointers.counters[var] for var in (loop.group, loop.block))
        first = builder.udiv(builder.mul(group, i64(loop.blocks)), i64(loop.groups))
        with builder.if_else(builder.icmp_signed("==", block, first)) as (then, otherwise):
            with then:
                others = self._product_arguments(builder, alone, pointers, room, begin.unfinished)
                builder.call(self.module.globals[begin.name], others)
            with otherwise:
                builder.call(self.module.globals[later.name], args)
        return max(scratch, begin.unfinished + begin.scratch)
