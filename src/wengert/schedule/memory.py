"""The memory plan: one arena, offsets by liveness, space used again as soon as it is free."""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..loops import Buffer, Host, Kernel, LoopProgram, MemoryKind, inside, root
from .task import Task

if TYPE_CHECKING:
    from ..loops import Loop

ALIGNMENT = 64
STRETCH = 64  # kernels


def buffers_of(kernel: Kernel) -> list[Buffer]:
    """Every buffer a kernel reads or writes."""
    return [*kernel.writes, *kernel.reads]


def plan(program: LoopProgram, task: Task | None = None) -> LoopProgram:
    """Every buffer in its place, one arena for all."""
    for loop in loops_of(program.kernels):
        _place(lives_of((*loop.body, *loop.fold), set(loop.private)))
    _leave_to_numpy(program.kernels)
    program.arena_bytes = _place(lives_of(program.kernels, set(temporaries(program.kernels))))
    if program.length is not None:
        used = {root(b) for kernel in program.kernels for b in buffers_of(kernel)}
        growing = {buffer for buffer in used if buffer.kind is MemoryKind.ROOM}
        lives = lives_of(program.kernels, growing)
        program.room_bytes = _place_large(lives, program.length.value)
    return program


def arena_bytes(program: LoopProgram) -> int:
    """Bytes of the arena that the loops need as they are now."""
    return _place(lives_of(program.kernels, set(temporaries(program.kernels))))


def temporaries(kernels: Sequence[Kernel]) -> tuple[Buffer, ...]:
    """The memory that kernels need for themselves, but for that which loops inside have."""
    private = {buffer for loop in loops_of(kernels) for buffer in loop.private}
    used = dict.fromkeys(root(buffer) for kernel in kernels for buffer in buffers_of(kernel))
    return tuple(b for b in used if b.kind is MemoryKind.ARENA and b not in private)


def loops_of(kernels: Iterable[Kernel]) -> list[Loop]:
    """All loops around kernels, at any depth."""
    around = [one for kernel in kernels for one in inside(kernel) if one.parts()]
    if not around:
        return []
    from ..loops import Loop

    return [one for one in around if isinstance(one, Loop)]


def _leave_to_numpy(kernels: Sequence[Kernel]) -> None:
    """What only operations read and write that NumPy evaluates needs no memory of ours."""
    hosts = [kernel for kernel in kernels if isinstance(kernel, Host)]
    # an array without elements may be read although nobody writes it
    written = {root(buffer) for kernel in hosts for buffer in kernel.outputs}
    for buffer in numpys_own(kernels):
        if buffer.kind is MemoryKind.ARENA and buffer in written:
            buffer.kind = MemoryKind.HOST


def numpys_own(kernels: Sequence[Kernel]) -> list[Buffer]:
    """The memory that operations alone touch which NumPy evaluates."""
    native: set[Buffer] = set()
    hosted: dict[Buffer, None] = {}
    for kernel in kernels:
        owners = dict.fromkeys(map(root, buffers_of(kernel)))
        if isinstance(kernel, Host):
            hosted |= owners
        else:
            native |= owners.keys()
    return [buffer for buffer in hosted if buffer not in native]


class Life(NamedTuple):
    """A buffer, and the first and the last kernel that use it."""

    buffer: Buffer
    start: int
    end: int


def lives_of(kernels: Sequence[Kernel], wanted: Container[Buffer]) -> list[Life]:
    """From when to when the wanted buffers are used."""
    lives: dict[Buffer, Life] = {}
    for position, kernel in enumerate(kernels):
        for buffer in map(root, buffers_of(kernel)):
            if buffer in wanted:
                start = lives[buffer].start if buffer in lives else position
                lives[buffer] = Life(buffer, start, position)
    return list(lives.values())


def _place(lives: Sequence[Life]) -> int:
    """Offsets for buffers, by the intervals of their use; bytes in all."""
    large = [life for life in lives if life.buffer.nbytes > ALIGNMENT]
    small = [life for life in lives if life.buffer.nbytes <= ALIGNMENT]
    return _place_small(small, _place_large(large))


def _place_large(lives: Sequence[Life], length: int | None = None) -> int:
    """The largest first, each where it fits first among those alive at the same time.

    Where memory grows with a length, everything is counted in bytes for each unit of it.
    """
    # by stretches of the program: most buffers live for a short time and meet few others
    placed: dict[int, list[tuple[int, int, int, int]]] = {}  # offset, end, first use, last use
    total = 0
    for buffer, start, end in sorted(lives, key=lambda life: -life.buffer.nbytes):
        size = _round(buffer.nbytes) if length is None else buffer.nbytes // length
        stretches = range(start // STRETCH, end // STRETCH + 1)
        near = {one for stretch in stretches for one in placed.get(stretch, ())}
        taken = sorted((o, e) for o, e, s, t in near if s <= end and start <= t)
        offset = 0
        for used_from, used_to in taken:
            if offset + size <= used_from:
                break
            offset = max(offset, used_to)
        buffer.offset = offset
        for stretch in stretches:
            placed.setdefault(stretch, []).append((offset, offset + size, start, end))
        total = max(total, offset + size)
    return total


def _place_small(lives: Sequence[Life], first: int) -> int:
    """Places of one size, from the offset `first` on, each given again as soon as it is free."""
    total = first
    free: list[int] = []
    ending: list[tuple[int, int]] = []  # last use, offset
    for buffer, start, end in sorted(lives, key=lambda life: life.start):
        while ending and ending[0][0] < start:
            heapq.heappush(free, heapq.heappop(ending)[1])
        if free:
            buffer.offset = heapq.heappop(free)
        else:
            buffer.offset, total = total, total + ALIGNMENT
        heapq.heappush(ending, (end, buffer.offset))
    return total


def _round(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
