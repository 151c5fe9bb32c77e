"""A whole program of loops -> one LLVM module.

Every kernel becomes a function of its own; `kernel(buffers, arena)` calls them in order. Where
NumPy must evaluate an operation in between, the program is cut into segments, `kernel0`,
`kernel1`, ..., and the caller runs NumPy between them.

Nests are emitted here; `kernels` knows all others, and is imported where there are any.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from ..loops import (
    Buffer,
    Check,
    Host,
    Kernel,
    LoopProgram,
    MemoryKind,
    Nest,
    Repeat,
    has_checks,
)
from ..machine import compiling_for, policy
from ..schedule.cost import kernel_cost
from ..schedule.memory import buffers_of, root
from ..schedule.steps import is_on
from .interrupts import INTERRUPTED, start_watch, stopped
from .pointers import I32, PTR, Pointers, is_error
from .scope import Scope
from .target import Target


@dataclass
class ProgramModule:
    """The LLVM module of a program, its segments, and the constants it wants pointers to."""

    module: ir.Module
    segments: list[str | Host]
    constants: list[Buffer]


def emit_program(program: LoopProgram, target: Target, threads: int | None = None) -> ProgramModule:
    """Generate code for all kernels; decides how much scratch they need behind the arena.

    `threads` is the most that any kernel may use.
    """
    module = ir.Module("wengert")
    module.triple = target.triple
    constants = constants_of(program)
    segments: list[str | Host] = []
    with compiling_for(target):
        emitter = _emitter_for(program)(module, target, program, constants, threads)
        for group in _segments(program.kernels):
            if isinstance(group, Host):
                segments.append(group)
            else:
                segments.append(emitter.segment(f"kernel{len(segments)}", group))
    program.scratch_bytes = emitter.scratch_bytes
    return ProgramModule(module, segments, constants)


def _emitter_for(program: LoopProgram) -> type[Segments]:
    """What emits the kernels of a program."""
    nests = all(isinstance(kernel, (Nest, Check, Host)) for kernel in program.kernels)
    if nests and not is_on("kernels"):
        return Segments
    from .kernels import ProgramEmitter

    return ProgramEmitter


def constants_of(program: LoopProgram) -> list[Buffer]:
    """The constants that the kernels of a program read."""
    found: dict[int, Buffer] = {}
    for kernel in program.kernels:
        for buffer in map(root, buffers_of(kernel)):
            if buffer.kind is MemoryKind.CONSTANT:
                found[id(buffer)] = buffer
    return list(found.values())


def _segments(kernels: Sequence[Kernel]) -> list[Any]:
    """Runs of native kernels, and the host operations between them."""
    groups: list[Any] = []
    for kernel in kernels:
        if isinstance(kernel, Host):
            groups.append(kernel)
        elif groups and isinstance(groups[-1], list):
            groups[-1].append(kernel)
        else:
            groups.append([kernel])
    return groups or [[]]


class Segments(Scope):
    """Emits the kernels of one program."""

    def __init__(self, *args: Any):
        super().__init__(*args)
        program = self.program
        self.watched = {id(kernel) for kernel in program.kernels[: program.watched]}

    def segment(self, name: str, kernels: Sequence[Kernel]) -> str:
        """`i32 name(buffers, arena)`: the kernels one after the other."""
        function = ir.Function(self.module, ir.FunctionType(I32, [PTR, PTR]), name)
        builder = ir.IRBuilder(function.append_basic_block())
        pointers = self._pointers(builder, function.args)
        self.begin(builder, pointers)
        watch, unwatched, long = None, 0, policy().costs.watched_loop
        if any(id(kernel) in self.watched for kernel in kernels):
            watch = start_watch(builder)
        for number, kernel in enumerate(kernels):
            if isinstance(kernel, Check):
                _emit_check(builder, kernel, pointers)
                continue
            cost = kernel_cost(kernel)
            is_watched = id(kernel) in self.watched
            may_be_long = cost >= long or getattr(kernel, "length", None) is not None
            own = [watch] if is_watched and may_be_long else []
            code = builder.call(
                self.kernel(f"{name}.{number}", kernel, bool(own)), [*function.args, *own]
            )
            if isinstance(kernel, Repeat) and has_checks(kernel):
                with builder.if_then(is_error(builder, code), likely=False):
                    builder.ret(code)
            unwatched += cost
            if own or (is_watched and unwatched >= long):
                unwatched = 0
                with builder.if_then(stopped(builder, watch), likely=False):
                    builder.ret(ir.Constant(I32, INTERRUPTED))
        builder.ret(ir.Constant(I32, 0))
        return name

    def begin(self, builder: ir.IRBuilder, pointers: Pointers) -> None:
        """What comes before all kernels."""

    def kernel(self, name: str, kernel: Kernel, watched: bool) -> ir.Function:
        """`void name(buffers, arena)`, and a watch if it is to end early when that says so."""
        return self._body(name, kernel, watched, self.slots)

    def _body(self, name: str, kernel: Kernel, watched: bool, slots: dict[int, int]) -> ir.Function:
        """The function of a kernel; `slots` say where in `buffers` its memory is found."""
        function = self._function(name, [PTR] * (3 if watched else 2))
        builder = ir.IRBuilder(function.append_basic_block())
        watch = function.args[2] if watched else None
        pointers = self._pointers(builder, function.args[:2], slots)
        self._emit(builder, name, kernel, pointers, watch)
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
        assert isinstance(kernel, Nest)
        self._nests(builder, [kernel], pointers, watch)


def _emit_check(builder: ir.IRBuilder, kernel: Check, pointers: Pointers) -> None:
    flag = builder.load(pointers(kernel.flag), typ=ir.IntType(8))
    wrong = builder.icmp_unsigned("==", flag, ir.Constant(ir.IntType(8), 0))
    with builder.if_then(wrong, likely=False):
        builder.ret(ir.Constant(I32, kernel.code))
