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
    can_fail,
    roots_of,
    walk,
)
from ..machine import compiling_for, policy
from ..schedule.memory import buffers_of, root
from ..schedule.steps import is_on
from .interrupts import INTERRUPTED, leave, start_watch, stopped
from .ordering import as_written
from .pointers import I32, PTR, Around, Pointers, moved_bytes
from .scope import Scope
from .target import Target


@dataclass
class ProgramModule:
    """The LLVM module of a program, its segments, the constants it wants pointers to, and the
    kernels by the names of their functions."""

    module: ir.Module
    segments: list[str | Host]
    constants: list[Buffer]
    workspace_bytes: int  # behind the arena, for the kernels themselves
    names: dict[str, Kernel]


def emit_program(program: LoopProgram, target: Target, threads: int | None = None) -> ProgramModule:
    """Generate code for all kernels, which may need workspace behind the arena.

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
    return ProgramModule(module, segments, constants, emitter.workspace_bytes, emitter.names)


def _emitter_for(program: LoopProgram) -> type[Segments]:
    """What emits the kernels of a program."""
    nests = all(isinstance(kernel, (Nest, Check, Host)) for kernel in program.kernels)
    if nests and not is_on("kernels"):
        return Segments
    from .kernels import ProgramEmitter

    return ProgramEmitter


def constants_of(program: LoopProgram) -> list[Buffer]:
    """The constants that the kernels of a program read."""
    used = dict.fromkeys(root(b) for kernel in program.kernels for b in buffers_of(kernel))
    return [buffer for buffer in used if buffer.kind is MemoryKind.CONSTANT]


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


def values_in_line(kernel: Kernel) -> int:
    """The values that a kernel computes outside of all loops."""
    if not isinstance(kernel, Nest) or kernel.vars:
        return 0
    return len(walk(roots_of(kernel.stores)))


class Segments(Scope):
    """Emits the kernels of one program."""

    def __init__(self, *args: Any):
        super().__init__(*args)
        self.watched = {*self.program.kernels[: self.program.watched]}
        straight = sum(map(values_in_line, self.program.kernels))
        self.is_long = straight > policy().code.most_straight

    def segment(self, name: str, kernels: Sequence[Kernel]) -> str:
        """`i32 name(buffers, arena)`: the kernels one after the other."""
        function = ir.Function(self.module, ir.FunctionType(I32, [PTR, PTR]), name)
        builder = ir.IRBuilder(function.append_basic_block())
        scratch = moved_bytes(builder, function.args[1], self.program.arena_bytes)
        pointers = self._pointers(builder, [*function.args, scratch])
        self.begin(builder, pointers)
        watch, unwatched, long = None, 0, policy().costs.watched_loop
        if any(kernel in self.watched for kernel in kernels):
            watch = start_watch(builder)
        for number, kernel in enumerate(kernels):
            cost = kernel.work
            is_watched = kernel in self.watched
            may_be_long = cost >= long or getattr(kernel, "length", None) is not None
            own = watch if is_watched and may_be_long else None
            needed = self._run(builder, f"{name}.", [kernel], pointers, own, number)
            self.workspace_bytes = max(self.workspace_bytes, needed)
            if isinstance(kernel, Check):
                continue
            unwatched += cost
            if own is not None or (is_watched and unwatched >= long):
                unwatched = 0
                with builder.if_then(stopped(builder, watch), likely=False):
                    builder.ret(ir.Constant(I32, INTERRUPTED))
        builder.ret(ir.Constant(I32, 0))
        return name

    def begin(self, builder: ir.IRBuilder, pointers: Pointers) -> None:
        """What comes before all kernels."""

    def kernel(
        self, name: str, kernel: Kernel, around: Around, watched: bool
    ) -> tuple[ir.Function, int]:
        """`void name(buffers, arena, scratch, ...)`, and a watch if it is to end early when that
        says so; `i32` if it can fail."""
        result = I32 if can_fail(kernel) else None
        function = self._function(name, around.arguments(watched), result)
        if self.is_long and values_in_line(kernel):
            as_written(function)
        builder = ir.IRBuilder(function.append_basic_block())
        watch = function.args[-1] if watched else None
        pointers = self._pointers(builder, function.args, around)
        scratch = self._emit(builder, name, kernel, pointers, watch)
        leave(builder)
        return function, scratch

    def _emit(
        self,
        builder: ir.IRBuilder,
        name: str,
        kernel: Kernel,
        pointers: Pointers,
        watch: ir.Value | None,
    ) -> int:
        """The code of a kernel, in a function of its own; bytes of scratch that it needs."""
        assert isinstance(kernel, Nest)
        self._nest(builder, kernel, pointers, watch)
        return 0
