"""The kernels of a program that are there for speed: products, and loops around kernels.

A program for any length finds that length in the last slot of its buffers, and before it the
address of its *room*: three words, the room's capacity in bytes, where it begins, and where the
table of the lengths is that the program is known to be right for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from llvmlite import ir

from ..loops import (
    Branch,
    Buffer,
    Contraction,
    Kernel,
    LibraryCall,
    Loop,
    LoopProgram,
    Nest,
    Transfer,
    inside,
)
from ..machine import policy
from ..runtime.limits import KNOWN_LENGTHS, NEW_LENGTH, NO_ELEMENTS, ROOM_TOO_SMALL
from ..schedule.memory import loops_of
from .calls import emit_call
from .contexts import room_length, table_of
from .equal_kernels import repeated_forms
from .loop_code import Loops
from .ordering import as_written
from .pointers import I32, I64, PTR, Around, Pointers, i64
from .program import Segments
from .transfer import emit_transfer


def minor_nests(kernels: Sequence[Kernel]) -> set[Kernel]:
    """The nests that matter so little for a program's time that LLVM need not improve them.

    None with elements of one byte: where LLVM 22.1 for AVX-512 chooses among lanes of these, in
    code that it is not to improve, it ends the process.
    """
    most = policy().code.minor * sum(kernel.work for kernel in kernels)
    found: set[Kernel] = set()
    candidates = [k for k in kernels if isinstance(k, Nest) and not _has_bytes(k)]
    for kernel in sorted(candidates, key=lambda k: k.work):
        most -= kernel.work
        if most < 0:
            break
        found.add(kernel)
    return found


def _has_bytes(nest: Nest) -> bool:
    return any(buffer.dtype.itemsize == 1 for buffer in (*nest.reads, *nest.writes))


class ProgramEmitter(Loops, Segments):
    """Emits the kernels of one program; those that differ only in their memory share code."""

    def __init__(self, *args: Any):
        super().__init__(*args)
        self.repeated = repeated_forms(self.program.kernels)
        for loop in loops_of(self.program.kernels):
            if loop.blocks is None:  # kernels of blocks are short: each has what it needs at hand
                self.repeated |= repeated_forms(loop.body)
        self.bodies: dict[Any, tuple[ir.Function, int]] = {}
        self.minor = minor_nests(self.program.kernels)

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

    def kernel(
        self, name: str, kernel: Kernel, around: Around, watched: bool
    ) -> tuple[ir.Function, int]:
        """The function of a kernel; those of one form have one body."""
        if kernel not in self.repeated:
            function, scratch = super().kernel(name, kernel, around, watched)
            if kernel in self.minor:
                as_written(function)
            return function, scratch
        form, roots = self.repeated[kernel]
        key = form, around, watched
        if key not in self.bodies:
            slots = {buffer: number for number, buffer in enumerate(roots)}
            within = replace(around, slots=slots)
            self.bodies[key] = super().kernel(f"{name}.form", kernel, within, watched)
        body, scratch = self.bodies[key]
        function = self._function(name, around.arguments(watched))
        builder = ir.IRBuilder(function.append_basic_block())
        pointers = self._pointers(builder, function.args, around)
        table = table_of(builder, [pointers(buffer) for buffer in roots])
        builder.call(body, [table, *function.args[1:]])
        builder.ret_void()
        return function, scratch

    def _emit(
        self,
        builder: ir.IRBuilder,
        name: str,
        kernel: Kernel,
        pointers: Pointers,
        watch: ir.Value | None,
    ) -> int:
        if isinstance(kernel, Contraction):
            return self._contraction(builder, name, kernel, pointers, watch)
        if isinstance(kernel, Loop):
            return self._loop(builder, name, kernel, pointers, watch)
        if isinstance(kernel, Branch):
            return self._branch(builder, name, kernel, pointers, watch)
        if isinstance(kernel, LibraryCall):
            emit_call(builder, kernel, pointers, self.target)
            return 0
        if isinstance(kernel, Transfer):
            self._transfer(builder, kernel, pointers)
            return 0
        return super()._emit(builder, name, kernel, pointers, watch)

    def _transfer(self, builder: ir.IRBuilder, kernel: Transfer, pointers: Pointers) -> None:
        outer, near = pointers(kernel.outer), pointers(kernel.inner)
        length = None
        if kernel.scaled:
            assert self.program.length is not None
            length = builder.load(pointers(self.program.length), typ=I64)
        emit_transfer(builder, kernel, outer, near, pointers.counters[kernel.blocks.live], length)


def _needs_elements(program: LoopProgram) -> bool:
    """Whether something is the largest or smallest of all along the axis of any length."""
    loops = [loop for loop in loops_of(program.kernels) if loop.length is not None]
    joins = [part for loop in loops for join in loop.join for part in inside(join)]
    nests = [part for part in joins if isinstance(part, Nest)]
    return any(store.combine in ("largest", "smallest") for nest in nests for store in nest.stores)
