"""The memory plan: one arena, offsets by liveness, space used again as soon as it is free."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..loops import (
    BlockLoop,
    Buffer,
    Check,
    Contraction,
    Host,
    Kernel,
    Load,
    LoadAt,
    LoopProgram,
    ParallelNest,
    Repeat,
    Transfer,
    roots_of,
    walk,
)

ALIGNMENT = 64


def root(buffer: Buffer) -> Buffer:
    """The buffer that owns the memory of an alias."""
    while buffer.base is not None:
        buffer = buffer.base
    return buffer


def buffers_of(kernel: Kernel) -> Iterable[Buffer]:
    """Every buffer a kernel reads or writes."""
    if isinstance(kernel, Host):
        return [*kernel.inputs, *kernel.outputs]
    if isinstance(kernel, Repeat):
        inside = [b for part in kernel.body.kernels for b in buffers_of(part)]
        constants = [b for b in inside if root(b).kind == "constant"]
        return [*kernel.inputs, *kernel.outputs, *kernel.spare, *constants]
    if isinstance(kernel, Contraction):
        return [kernel.out, kernel.x, kernel.y]
    if isinstance(kernel, Check):
        return [kernel.flag]
    if isinstance(kernel, Transfer):
        return [kernel.outer, kernel.inner]
    if isinstance(kernel, (ParallelNest, BlockLoop)):
        parts = kernel.parts()
        return [buffer for part in parts for buffer in buffers_of(part)]
    found = [store.buffer for store in kernel.stores]
    values = walk(roots_of(kernel.stores))
    return found + [expr.buffer for expr in values if isinstance(expr, (Load, LoadAt))]


def plan(program: LoopProgram) -> LoopProgram:
    """Give every buffer in an arena its offset."""
    for kernel in program.kernels:
        if isinstance(kernel, BlockLoop):
            kernel.planned_bytes = _place(kernel.body, "block")
    program.planned_bytes = _place(program.kernels, "arena")
    return program


def _place(kernels: Sequence[Kernel], kind: str) -> int:
    """Offsets for the buffers of one kind, first fit over the intervals of use; bytes in all."""
    lives: dict[int, tuple[Buffer, int, int]] = {}
    for position, kernel in enumerate(kernels):
        for buffer in map(root, buffers_of(kernel)):
            if buffer.kind == kind:
                _, start, _ = lives.get(id(buffer), (buffer, position, position))
                lives[id(buffer)] = (buffer, start, position)
    placed: list[tuple[int, int, int, int]] = []  # offset, end, first use, last use
    total = 0
    for buffer, start, end in sorted(lives.values(), key=lambda life: -life[0].nbytes):
        size = max(_round(buffer.nbytes), ALIGNMENT)
        taken = sorted((o, e) for o, e, s, t in placed if s <= end and start <= t)
        offset = 0
        for used_from, used_to in taken:
            if offset + size <= used_from:
                break
            offset = max(offset, used_to)
        buffer.offset = offset
        placed.append((offset, offset + size, start, end))
        total = max(total, offset + size)
    return total


def _round(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
