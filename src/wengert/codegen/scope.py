"""What the code of all kernels of a program shares: its module, its memory, its threads."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from ..loops import Buffer, Check, Kernel, LoopProgram, Nest, can_fail
from ..schedule.memory import buffers_of, loops_of
from .nests import NestEmitter
from .pointers import I32, NO_LOOPS, Around, Pointers, is_error
from .target import Target

# Kernels with their functions; a check has none.
Code = list[tuple[Kernel, ir.Function | None]]


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
        self.slots = {buffer: number for number, buffer in enumerate(buffers)}
        if program.length is not None:  # after the room: see `runtime.builtin`
            self.slots[program.length] = len(buffers) + 1
        self.homes = {buffer: loop for loop in loops_of(program.kernels) for buffer in loop.private}
        self.room = len(buffers)
        self.workers = min(target.cores, threads or target.cores)
        self.workspace_bytes = 0
        self.names: dict[str, Kernel] = {}  # which kernel a function is

    def kernel(
        self, name: str, kernel: Kernel, around: Around, watched: bool
    ) -> tuple[ir.Function, int]:
        """The function of any kernel, and the bytes of scratch that it needs."""
        raise NotImplementedError

    def _function(
        self, name: str, arguments: Sequence[ir.Type], result: ir.Type | None = None
    ) -> ir.Function:
        kind = ir.FunctionType(result or ir.VoidType(), arguments)
        function = ir.Function(self.module, kind, name)
        function.linkage = "internal"
        return function

    def _pointers(
        self, builder: ir.IRBuilder, words: Sequence[ir.Value], around: Around = NO_LOOPS
    ) -> Pointers:
        """Pointers to the memory of the program's buffers."""
        room = None if self.program.length is None else (self.room, self.program.length)
        return Pointers(builder, words, self.slots, self.homes, around, room)

    def _nest(
        self, builder: ir.IRBuilder, nest: Nest, pointers: Pointers, watch: ir.Value | None
    ) -> None:
        for buffer in buffers_of(nest):
            pointers(buffer)
        NestEmitter(builder, self.target, pointers, pointers.counters, watch).emit(nest)

    def _code_of(
        self,
        name: str,
        kernels: Sequence[Kernel],
        pointers: Pointers,
        watched: bool,
        first: int = 0,
    ) -> tuple[Code, int]:
        """The functions of kernels that run one after the other, and the scratch that they need."""
        code: Code = []
        most = 0
        for number, kernel in enumerate(kernels, first):
            if isinstance(kernel, Check):
                code.append((kernel, None))
                continue
            self.names[f"{name}{number}"] = kernel
            function, scratch = self.kernel(f"{name}{number}", kernel, pointers.around, watched)
            code.append((kernel, function))
            most = max(most, scratch)
        return code, most

    def _call_all(
        self,
        builder: ir.IRBuilder,
        code: Code,
        pointers: Pointers,
        watch: ir.Value | None,
        failed: ir.Value | None = None,
    ) -> None:
        """Call kernels one after the other; with an error code the function ends at once."""
        for kernel, function in code:
            if isinstance(kernel, Check):
                flag = builder.load(pointers(kernel.flag), typ=ir.IntType(8))
                wrong = builder.icmp_unsigned("==", flag, ir.Constant(ir.IntType(8), 0))
                found: ir.Value = ir.Constant(I32, kernel.code)
            else:
                found = builder.call(
                    function, [*pointers.words, *([] if watch is None else [watch])]
                )
                if not can_fail(kernel):
                    continue
                wrong = is_error(builder, found)
            with builder.if_then(wrong, likely=False):
                _fail(builder, found, failed)

    def _run(
        self,
        builder: ir.IRBuilder,
        name: str,
        kernels: Sequence[Kernel],
        pointers: Pointers,
        watch: ir.Value | None,
        first: int = 0,
    ) -> int:
        """Code for kernels, numbered from `first` on, and calls of them; bytes of scratch."""
        code, scratch = self._code_of(name, kernels, pointers, watch is not None, first)
        self._call_all(builder, code, pointers, watch)
        return scratch


def _fail(builder: ir.IRBuilder, code: ir.Value, failed: ir.Value | None) -> None:
    """End a function with an error code, which it returns, or leaves where it was told."""
    if failed is None:
        builder.ret(code)
    else:
        builder.store(code, failed)
        builder.ret_void()
