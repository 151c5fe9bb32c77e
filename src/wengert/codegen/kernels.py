"""The kernels of a program that are there for speed: products, tasks, loops around programs.

A program for any length finds that length in the last slot of its buffers, and before it the
address of its *room*: three words, the room's capacity in bytes, where it begins, and where the
table of the lengths is that the program is known to be right for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from ..loops import (
    BlockLoop,
    Buffer,
    Contraction,
    Kernel,
    LoopProgram,
    Nest,
    ParallelNest,
    Repeat,
)
from ..runtime.limits import KNOWN_LENGTHS, NEW_LENGTH, NO_ELEMENTS, ROOM_TOO_SMALL
from ..schedule.memory import buffers_of
from .block_loops import BlockLoops
from .forms import repeated_forms
from .interrupts import leave_if_stopped
from .nests import NestEmitter
from .pointers import (
    I32,
    I64,
    PTR,
    Pointers,
    i64,
    is_error,
    moved_bytes,
    room_length,
    rounded,
    table_of,
    words_of,
)
from .program import Segments, constants_of
from .repeat import emit_repeat


class ProgramEmitter(BlockLoops, Segments):
    """Emits the kernels of one program; those that differ only in their memory share code."""

    def __init__(self, *args: Any):
        super().__init__(*args)
        self.repeated = repeated_forms(self.program.kernels)
        self.bodies: dict[Any, ir.Function] = {}

    def begin(self, builder: ir.IRBuilder, pointers: Pointers) -> None:
        """Look at the length, where the program is for any."""
        if self.program.length is not None:
            self._check_length(builder, self.program.length, pointers)

    def _check_length(self, builder: ir.IRBuilder, buffer: Buffer, pointers: Pointers) -> None:
        """Return a code where the length is new or the room too small, or there is no answer for
        nothing."""
        length = builder.load(pointers(buffer), typ=I64)
        known = builder.load(
            builder.gep(pointers.word(self.room), [i64(2)], source_etype=I64), typ=PTR
        )
        place = builder.and_(length, i64(KNOWN_LENGTHS - 1))
        found = builder.load(builder.gep(known, [place], source_etype=I64), typ=I64)
        with builder.if_then(builder.icmp_signed("!=", found, length), likely=False):
            builder.ret(ir.Constant(I32, NEW_LENGTH))
        if self.program.room_bytes:
            needed = builder.mul(room_length(builder, length), i64(self.program.room_bytes))
            capacity = builder.load(pointers.word(self.room), typ=I64)
            short = builder.icmp_signed("<", capacity, needed)
            with builder.if_then(short, likely=False):
                builder.ret(ir.Constant(I32, ROOM_TOO_SMALL))
        if _needs_elements(self.program):
            none = builder.icmp_signed("==", length, i64(0))
            with builder.if_then(none, likely=False):
                builder.ret(ir.Constant(I32, NO_ELEMENTS))

    def kernel(self, name: str, kernel: Kernel, watched: bool) -> ir.Function:
        """`void name(buffers, arena)`, and a watch if it is to end early when that says so."""
        if isinstance(kernel, Repeat):
            return self._repeat(name, kernel, watched)
        if id(kernel) not in self.repeated:
            return self._body(name, kernel, watched, self.slots)
        form, roots = self.repeated[id(kernel)]
        if (form, watched) not in self.bodies:
            slots = {id(buffer): number for number, buffer in enumerate(roots)}
            self.bodies[form, watched] = self._body(f"{name}.form", kernel, watched, slots)
        function = self._function(name, [PTR] * (3 if watched else 2))
        builder = ir.IRBuilder(function.append_basic_block())
        pointers = self._pointers(builder, function.args[:2])
        table = table_of(builder, [pointers(buffer) for buffer in roots])
        builder.call(self.bodies[form, watched], [table, *function.args[1:]])
        builder.ret_void()
        return function

    def _emit(
        self,
        builder: ir.IRBuilder,
        name: str,
        kernel: Kernel,
        pointers: Pointers,
        watch: ir.Value | None,
    ) -> None:
        args, watched = list(builder.function.args[:2]), watch is not None
        if isinstance(kernel, Contraction):
            self._contraction(builder, name, kernel, pointers, watch)
        elif isinstance(kernel, ParallelNest):
            task = self._nest_task(name, kernel, watched, pointers.slots)
            count = kernel.task.extent + (kernel.rest is not None)
            self._share_out(builder, task, args, count, watch)
            self._nests(builder, kernel.joins, pointers, watch)
        elif isinstance(kernel, BlockLoop):
            self._block_loop(builder, name, kernel, args, watch)
        else:
            super()._emit(builder, name, kernel, pointers, watch)

    # ------------------------------------------------------------ loops with a program inside

    def _repeat(self, name: str, kernel: Repeat, watched: bool) -> ir.Function:
        """`i32 name(buffers, arena)`: a loop that calls the body with a table of its buffers."""
        last = [PTR] * watched
        part, room = self._repeated_part(name, kernel, kernel.body, last)
        if kernel.wider is not None:
            wider, more = self._repeated_part(f"{name}.wider", kernel, kernel.wider, last)
            part, room = self._either_part(name, kernel, part, wider), max(room, more)
        workers = min(self.workers, kernel.parts)
        self.scratch_bytes = max(self.scratch_bytes, room * workers)
        function = self._function(name, [PTR, PTR, *last], I32)
        builder = ir.IRBuilder(function.append_basic_block())
        buffers, arena, *watch = function.args
        if kernel.parts == 1:
            place = moved_bytes(builder, arena, self.scratch_start)
            builder.ret(builder.call(part, [buffers, arena, place, i64(0), *watch]))
            return function
        code = builder.alloca(I32)
        builder.store(ir.Constant(I32, 0), code)
        task = self._part_task(name, part, room)
        words = [buffers, arena, code]
        self._share_out(builder, task, words, kernel.parts, watch[0] if watched else None, workers)
        builder.ret(builder.load(code, typ=I32))
        return function

    def _repeated_part(
        self, name: str, kernel: Repeat, body: LoopProgram, last: Sequence[ir.Type]
    ) -> tuple[ir.Function, int]:
        """`i32 name.part(buffers, arena, room, part)`: all steps of one part, and the bytes of the
        room that it needs."""
        constants = constants_of(body)
        threads = 1 if kernel.parts > 1 else self.threads  # parts are shared out already
        inner = ProgramEmitter(self.module, self.target, body, constants, threads)
        step = self.module.globals[inner.segment(f"{name}.step", body.kernels)]
        step.linkage = "internal"
        part = self._function(f"{name}.part", [PTR, PTR, PTR, I64, *last], I32)
        builder = ir.IRBuilder(part.append_basic_block())
        pointers = self._pointers(builder, part.args[:2])
        emit_repeat(builder, kernel, pointers, step, [pointers(c) for c in constants])
        return part, rounded(body.planned_bytes + inner.scratch_bytes)

    def _either_part(
        self, name: str, kernel: Repeat, part: ir.Function, wider: ir.Function
    ) -> ir.Function:
        """The part with the body for its width."""
        function = self._function(f"{name}.any", part.function_type.args, I32)
        builder = ir.IRBuilder(function.append_basic_block())
        is_wide = builder.icmp_signed("<", function.args[3], i64(kernel.wide))
        with builder.if_then(is_wide):
            builder.ret(builder.call(wider, function.args))
        builder.ret(builder.call(part, function.args))
        return function

    def _part_task(self, name: str, part: ir.Function, room: int) -> ir.Function:
        """`void name.task(context, part, worker)`: all steps for one part of the samples."""
        function = self._function(f"{name}.task", [PTR, I64, I64])
        b = ir.IRBuilder(function.append_basic_block())
        context, number, worker = function.args
        buffers, arena, code, *watch = words_of(b, context, len(part.args) - 1)
        place = b.add(b.mul(worker, i64(room)), i64(self.scratch_start))
        own = b.gep(arena, [place], source_etype=ir.IntType(8))
        found = b.call(part, [buffers, arena, own, number, *watch])
        with b.if_then(is_error(b, found), likely=False):
            b.store(found, code)
        b.ret_void()
        return function

    def _nest_task(
        self, name: str, kernel: ParallelNest, watched: bool, slots: dict[int, int]
    ) -> ir.Function:
        """`void name.task(context, task, worker)`; the context holds buffers, arena and watch."""
        function = self._function(f"{name}.task", [PTR, I64, I64])
        builder = ir.IRBuilder(function.append_basic_block())
        context, number, _ = function.args
        buffers, arena, *rest = words_of(builder, context, 3 if watched else 2)
        watch = rest[0] if watched else None
        if watched:
            leave_if_stopped(builder, watch)
        pointers = self._pointers(builder, [buffers, arena], slots)
        for buffer in buffers_of(kernel.body):
            pointers(buffer)
        given = {kernel.task: number}
        if kernel.rest is None:
            NestEmitter(builder, self.target, pointers, given, watch).emit(kernel.body)
        else:
            whole = builder.icmp_signed("<", number, ir.Constant(I64, kernel.task.extent))
            with builder.if_else(whole) as (then, otherwise):
                with then:
                    NestEmitter(builder, self.target, pointers, given, watch).emit(kernel.body)
                with otherwise:
                    NestEmitter(builder, self.target, pointers, None, watch).emit(kernel.rest)
        builder.ret_void()
        return function


def _needs_elements(program: LoopProgram) -> bool:
    """Whether something is the largest or smallest of all along the axis of any length."""
    loops = [kernel for kernel in program.kernels if isinstance(kernel, BlockLoop)]
    joins = [nest for loop in loops for join in loop.joins for nest in _nests_of(join)]
    return any(store.combine in ("largest", "smallest") for nest in joins for store in nest.stores)


def _nests_of(kernel: Kernel) -> list[Nest]:
    return kernel.parts() if isinstance(kernel, ParallelNest) else [kernel]  # type: ignore[list-item]
