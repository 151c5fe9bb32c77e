"""What the code of all kernels of a program shares: its module, its memory, its threads."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from ..loops import Buffer, Kernel, LoopProgram, Nest, Var
from ..schedule.memory import buffers_of
from .nests import NestEmitter
from .pointers import Pointers
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
            self._nest(builder, nest, pointers, watch, counters)

    def _nest(
        self,
        builder: ir.IRBuilder,
        nest: Nest,
        pointers: Pointers,
        watch: ir.Value | None,
        counters: dict[Var, ir.Value] | None,
    ) -> None:
        NestEmitter(builder, self.target, pointers, counters, watch).emit(nest)
