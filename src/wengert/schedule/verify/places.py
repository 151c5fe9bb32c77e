"""Sets of places in memory: where the turns of loops meet one array.

An index that is affine in loop variables takes the values of a regular grid. These are counted
exactly, as a start and some axes of equal steps, so that "is all of this stored?" and "do these two
meet?" have exact answers without a look at the loops turn by turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np

from ...loops import Affine, Buffer, Var, as_reals

# The values that loop variables take: the first, and how many. A variable that is not there takes
# all of its own.
Box = Mapping[Var, tuple[int, int]]

# Grids of more points than this are not walked through: what depends on them is not decided.
MOST_POINTS = 1 << 26


def values_of(var: Var, box: Box) -> tuple[int, int]:
    """The first value of a variable, and how many there are."""
    return box.get(var, (0, var.extent))


def bounds(at: Affine, box: Box) -> tuple[int, int]:
    """The least and the greatest value of an index, of loops that have turns at all."""
    low = high = at.constant
    for var, step in at.terms:
        first, count = values_of(var, box)
        ends = step * first, step * (first + count - 1)
        low, high = low + min(ends), high + max(ends)
    return low, high


@dataclass(frozen=True)
class Places:
    """A grid: `start` plus multiples of each step, so many as are counted with it."""

    start: int
    axes: tuple[tuple[int, int], ...] = ()  # step and count; steps are positive, the least first

    @staticmethod
    def of(start: int, axes: Iterable[tuple[int, int]]) -> Places | None:
        """The grid with as few axes as can be; None: it has no points.

        >>> Places.of(0, [(10, 3), (1, 10)])
        Places(start=0, axes=((1, 30),))
        >>> Places.of(5, [(-2, 3), (0, 7)])
        Places(start=1, axes=((2, 3),))
        """
        found: list[tuple[int, int]] = []
        upward = []
        for step, count in axes:
            if count <= 0:
                return None
            if step and count > 1:
                start += min(0, step * (count - 1))
                upward.append((abs(step), count))
        for step, count in sorted(upward):
            # steps no longer than what lies before them leave no gaps
            for number, (less, before) in enumerate(found):
                if step % less == 0 and step // less <= before:
                    found[number] = less, before + step // less * (count - 1)
                    break
            else:
                found.append((step, count))
        return Places(start, tuple(found))

    @staticmethod
    def at(index: Affine, box: Box) -> Places | None:
        """The values of an index."""
        pairs = [(step, values_of(var, box)) for var, step in index.terms]
        start = index.constant + sum(step * first for step, (first, _) in pairs)
        return Places.of(start, [(step, count) for step, (_, count) in pairs])

    @property
    def end(self) -> int:
        """The last place."""
        return self.start + sum(step * (count - 1) for step, count in self.axes)

    @property
    def points(self) -> int:
        """How many points the grid has; some may be at one place."""
        return prod(count for _, count in self.axes)

    @property
    def is_range(self) -> bool:
        """Whether it has all places from the start to the end."""
        return not self.axes or (len(self.axes) == 1 and self.axes[0][0] == 1)

    def seen_in(self, line: np.ndarray, first: int) -> np.ndarray:
        """The elements at these places, of a line of memory that begins with the place `first`."""
        part = line[self.start - first : self.end - first + 1]
        shape = [count for _, count in self.axes]
        strides = [step * line.itemsize for step, _ in self.axes]
        return np.lib.stride_tricks.as_strided(part, shape or (1,), strides or (line.itemsize,))

    def meets(self, other: Places) -> bool:
        """Whether some place belongs to both; False where that is too much to find out."""
        first, last = max(self.start, other.start), min(self.end, other.end)
        if first > last:
            return False
        if self.is_range or other.is_range:
            grid = other if self.is_range else self
            if first <= grid.start or grid.end <= last:
                return True
        low, high = min(self.start, other.start), max(self.end, other.end)
        if max(self.points, other.points, high - low) > MOST_POINTS:
            return False
        line = np.zeros(high - low + 1, bool)
        self.seen_in(line, low)[...] = True
        return bool(other.seen_in(line, low).any())

    def __str__(self) -> str:
        if not self.axes:
            return str(self.start)
        steps = "" if self.is_range else ", by " + " and ".join(str(n) for n, _ in self.axes)
        return f"{self.start} to {self.end}{steps}"


def of_buffer(buffer: Buffer, start: int = 0) -> Places | None:
    """Where the elements of a buffer lie from a place on."""
    buffer = as_reals(buffer)
    return Places.of(start, zip(buffer.strides, buffer.shape, strict=True))


def tells_apart(at: Affine, var: Var, box: Box) -> bool:
    """Whether different values of one variable surely give different indices.

    >>> i, j = Var("i", 10), Var("j", 3)
    >>> tells_apart(Affine.of(i) * 2 + Affine.of(j), i, {}), tells_apart(Affine.of(i), j, {})
    (False, False)
    >>> tells_apart(Affine.of(i) * 3 + Affine.of(j), i, {})
    True
    """
    count = values_of(var, box)[1]
    if count <= 1:
        return True
    if not at.coefficient(var):
        return False
    others = Affine(0, tuple((v, step) for v, step in at.terms if v is not var))
    # the distances between two turns: a multiple of the step, and what the others may add to it
    apart = [(step, values_of(v, box)[1]) for v, step in others.terms]
    distances = Places.of(0, [(step, 2 * n - 1) for step, n in apart])
    turns = Places.of(abs(at.coefficient(var)), [(abs(at.coefficient(var)), count - 1)])
    assert distances is not None and turns is not None
    centred = Places(-(distances.end - distances.start) // 2, distances.axes)
    return not centred.meets(turns)


class Missing(NamedTuple):
    """Places that are not written: the first, the last, and how many there are."""

    first: int
    last: int
    number: int

    def of(self, name: str) -> str:
        """In words, of a buffer: 3 elements of t1 (4 to 9) are."""
        where = str(self.first) if self.first == self.last else f"{self.first} to {self.last}"
        if self.number == 1:
            return f"1 element of {name} ({where}) is"
        return f"{self.number} elements of {name} ({where}) are"


class Written:
    """Which elements of an array have been stored."""

    def __init__(self, buffer: Buffer):
        span = of_buffer(buffer)
        self.span = (span.start, span.end) if span else (0, -1)
        self.whole = span is None
        self.mask: np.ndarray | None = None

    def copy(self) -> Written:
        """The same, on its own from now on."""
        other = Written.__new__(Written)
        other.span, other.whole = self.span, self.whole
        other.mask = None if self.mask is None else self.mask.copy()
        return other

    def meet(self, others: Sequence[Written]) -> None:
        """Become what all of these have in common."""
        parts = [other for other in others if not other.whole]
        masks = [other.mask for other in parts if other.mask is not None]
        self.whole = not parts
        self.mask = np.logical_and.reduce(masks) if parts and len(masks) == len(parts) else None

    def holds(self, places: Places) -> bool:
        """Whether the places belong to the array at all."""
        return self.span[0] <= places.start and places.end <= self.span[1]

    def store(self, places: Places) -> None:
        """Note that these places are written."""
        if self.whole:
            return
        if places.is_range and (places.start, places.end) == self.span:
            self.whole, self.mask = True, None
        elif places.points > MOST_POINTS:
            self.whole = True  # not decided
        else:
            if self.mask is None:
                self.mask = np.zeros(self.span[1] - self.span[0] + 1, bool)
            places.seen_in(self.mask, self.span[0])[...] = True

    def missing(self, places: Places) -> Missing | None:
        """Those of these places that are not written."""
        if self.whole or places.points > MOST_POINTS:
            return None
        if self.mask is None:
            return Missing(places.start, places.end, places.points)
        found = places.seen_in(self.mask, self.span[0])
        if found.all():
            return None
        wanted = np.zeros(self.mask.shape, bool)
        places.seen_in(wanted, self.span[0])[...] = True
        left = np.flatnonzero(wanted & ~self.mask) + self.span[0]
        return Missing(int(left[0]), int(left[-1]), len(left))


def boxes_where(tests: Iterable[tuple[Affine, int, int, bool]], box: Box) -> Iterator[Box] | None:
    """The parts of a box in which all tests `low <= index < high` hold, or do not as is said.

    None where a test is of several variables at once, so that no boxes have it.
    """
    parts: list[dict[Var, tuple[int, int]]] = [dict(box)]
    for at, low, high, wanted in tests:
        if len(at.terms) > 1:
            least, most = bounds(at, box)
            inside, outside = low <= least and most < high, most < low or high <= least
            if not (inside or outside):
                return None
            if inside is not wanted:
                return iter(())
            continue
        ranges = [(low, high)] if wanted else [(None, low), (high, None)]
        parts = [
            cut for part in parts for one in ranges if (cut := _cut(part, at, *one)) is not None
        ]
    return iter(parts)


def _cut(
    box: dict[Var, tuple[int, int]], at: Affine, low: int | None, high: int | None
) -> dict[Var, tuple[int, int]] | None:
    """The box with `low <= at < high`, for an index of at most one variable; None: nothing."""
    if not at.terms:
        fits = (low is None or low <= at.constant) and (high is None or at.constant < high)
        return box if fits else None
    ((var, step),) = at.terms
    first, count = values_of(var, box)
    last = first + count - 1
    below = None if low is None else low - at.constant  # step * var >= below
    above = None if high is None else high - 1 - at.constant  # step * var <= above
    if step < 0:
        step, below, above = -step, *(None if n is None else -n for n in (above, below))
    first = first if below is None else max(first, -(-below // step))
    last = last if above is None else min(last, above // step)
    return {**box, var: (first, last - first + 1)} if first <= last else None
