"""Memory of its own: buffers that are needed at the same time do not overlap in the arena.

Who needs what is noted while the kernels are gone through; it is not what the planner took it for.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from typing import NamedTuple

from ...errors import LoopError
from ...loops import Buffer


class _Life(NamedTuple):
    first: int  # kernel
    last: int
    buffer: Buffer


class Lives:
    """The first and the last kernel that use a buffer, for all buffers that are wanted."""

    def __init__(self, wanted: Callable[[Buffer], bool]):
        self.wanted = wanted
        self.found: dict[Buffer, _Life] = {}

    def note(self, number: int, buffers: Iterable[Buffer]) -> None:
        """The kernel of this number uses these."""
        for buffer in buffers:
            if self.wanted(buffer) and buffer.nbytes:
                known = self.found.get(buffer)
                first = number if known is None else known.first
                self.found[buffer] = _Life(first, number, buffer)

    def verify(self, most: int, where: str) -> None:
        """Check the places that a plan of so many bytes has given them."""
        alive: list[tuple[int, int]] = []  # places and numbers of lives that do not meet, in order
        ends: list[tuple[int, int, int]] = []  # the last kernel of each of them first
        lives = sorted(self.found.values(), key=lambda life: life[:2])
        for number, (first, last, buffer) in enumerate(lives):
            if buffer.offset < 0 or buffer.offset + buffer.nbytes > most:
                raise LoopError(
                    f"{where}: {buffer.name} lies at bytes {buffer.offset} to "
                    f"{buffer.offset + buffer.nbytes}, but there are {most}"
                )
            while ends and ends[0][0] < first:
                del alive[bisect_left(alive, heappop(ends)[1:])]
            place = bisect_left(alive, (buffer.offset, number))
            for _, neighbour in alive[max(place - 1, 0) : place + 1]:
                other = lives[neighbour].buffer
                if _overlap(buffer, other):
                    raise LoopError(
                        f"{where}: {buffer.name} and {other.name} overlap, and kernel "
                        f"{first} needs both"
                    )
            alive.insert(place, (buffer.offset, number))
            heappush(ends, (last, buffer.offset, number))


def _overlap(one: Buffer, other: Buffer) -> bool:
    return one.offset < other.offset + other.nbytes and other.offset < one.offset + one.nbytes
