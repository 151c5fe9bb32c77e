"""Memory of its own: buffers that are needed at the same time do not overlap in the arena.

Who needs what is noted while the kernels are gone through; it is not what the planner took it for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ...errors import LoopError
from ...loops import Buffer, MemoryKind


class _Life(NamedTuple):
    first: int  # kernel
    last: int
    buffer: Buffer


class Lives:
    """The first and the last kernel that use a buffer, for all buffers of one kind."""

    def __init__(self, kind: MemoryKind):
        self.kind = kind
        self.found: dict[int, _Life] = {}

    def note(self, number: int, buffers: Iterable[Buffer]) -> None:
        """The kernel of this number uses these."""
        for buffer in buffers:
            if buffer.kind is self.kind and buffer.nbytes:
                known = self.found.get(id(buffer))
                first = number if known is None else known.first
                self.found[id(buffer)] = _Life(first, number, buffer)

    def verify(self, most: int, where: str) -> None:
        """Check the places that a plan of so many bytes has given them."""
        alive: list[_Life] = []
        for life in sorted(self.found.values(), key=lambda life: life[:2]):
            buffer = life.buffer
            if buffer.offset < 0 or buffer.offset + buffer.nbytes > most:
                raise LoopError(
                    f"{where}: {buffer.name} lies at bytes {buffer.offset} to "
                    f"{buffer.offset + buffer.nbytes}, but there are {most}"
                )
            alive = [other for other in alive if other.last >= life.first]
            for other in alive:
                if _overlap(buffer, other.buffer):
                    raise LoopError(
                        f"{where}: {buffer.name} and {other.buffer.name} overlap, and kernel "
                        f"{life.first} needs both"
                    )
            alive.append(life)


def _overlap(one: Buffer, other: Buffer) -> bool:
    return one.offset < other.offset + other.nbytes and other.offset < one.offset + one.nbytes
