"""What the code of all kernels of a program shares: its module, its memory, its threads."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from ..loops import Buffer, Kernel, LoopProgram, Nest, Var
from ..schedule.memory import buffers_of
from . import pool
from .flat import emit_flat, grid_of
from .interrupts import emit_watch
from .nests import NestEmitter
from .pointers import I64, PTR, Pointers, i64, table_of
from .scalars import declare
from .strided import counted_loop
from .target import Target


class Scope:
    """A program whose kernels are emitted into one module; scratch lies behind its arena."""

    def __init__(
        self,
        module: ir.Module,
        target: Target,
        program: LoopProgram,
        constants: list[Buffer],
        threads: int | None,
    ):
        self.module = module
        self.target, self.threads, self.program = target, threads, program
        buffers = [*program.inputs, *program.outputs, *constants]
        self.slots = {id(buffer): number for number, buffer in enumerate(buffers)}
        if program.length is not None:  # after the room: see `runtime.builtin`
            self.slots[id(program.length)] = len(buffers) + 1
        self.room = len(buffers)
        self.workers = min(target.workers, threads or target.workers)
        self.scratch_start = program.planned_bytes
        self.scratch_bytes = 0

    def kernel(self, name: str, kernel: Kernel, watched: bool) -> ir.Function:
        """The function of any kernel."""
        raise NotImplementedError

    def _function(
        self, name: str, arguments: Sequence[ir.Type], result: ir.Type | None = None
    ) -> ir.Function:
        kind = ir.FunctionType(result or ir.VoidType(), arguments)
        function = ir.Function(self.module, kind, name)
        function.linkage = "internal"
        return function

    def _pointers(
        self,
        builder: ir.IRBuilder,
        args: Sequence[ir.Value],
        slots: dict[int, int] | None = None,
        local: ir.Value | None = None,
        counters: dict[Var, ir.Value] | None = None,
    ) -> Pointers:
        """Pointers to the memory of the program's buffers, or to that in a table of its own."""
        room = None if self.program.length is None else (self.room, self.program.length)
        found = Pointers(builder, args, slots or self.slots, local, counters, room)
        found.own_table = found.slots is self.slots
        return found

    def _nests(
        self,
        builder: ir.IRBuilder,
        nests: Sequence[Nest],
        pointers: Pointers,
        watch: ir.Value | None = None,
        counters: dict[Var, ir.Value] | None = None,
    ) -> None:
        for nest in nests:
            for buffer in buffers_of(nest):
                pointers(buffer)
        for nest in nests:
            grid = None if counters or watch is not None else grid_of(nest, self.target)
            if grid is not None:
                emit_flat(builder, nest, grid, self.target, pointers)
            else:
                NestEmitter(builder, self.target, pointers, counters, watch).emit(nest)

    def _share_out(
        self,
        builder: ir.IRBuilder,
        task: ir.Function,
        words: Sequence[ir.Value],
        count: int,
        watch: ir.Value | None,
        workers: int | None = None,
    ) -> None:
        """Run the tasks 0 to count - 1 on the process's pool.

        Their context are these pointers and the watch, if there is one.
        """
        context = table_of(builder, [*words, *([] if watch is None else [watch])])
        workers = workers or self.threads
        arguments = [task, context, ir.Constant(I64, count)]
        kinds = [PTR, PTR, I64]
        name = pool.PARALLEL_FOR
        if workers is not None or watch is not None:
            name = pool.PARALLEL_FOR_LIMITED
            arguments.append(ir.Constant(I64, workers or pool.MAX_THREADS))
            kinds.append(I64)
        if watch is not None:
            name = pool.PARALLEL_FOR_WATCHED
            arguments += [emit_watch(self.module), watch]
            kinds += [PTR, PTR]
        kind = ir.FunctionType(ir.VoidType(), kinds)
        builder.call(declare(self.module, name, kind), arguments)


def one_by_one(
    builder: ir.IRBuilder,
    task: ir.Function,
    words: Sequence[ir.Value],
    count: int,
    watch: ir.Value | None,
) -> None:
    """Run the tasks on this thread alone."""
    context = table_of(builder, [*words, *([] if watch is None else [watch])])
    counted_loop(builder, 0, count, 1, lambda number: builder.call(task, [context, number, i64(0)]))
