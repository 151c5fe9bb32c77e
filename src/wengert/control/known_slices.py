"""Slices whose bounds are known for every turn of a loop: ``x[i:]``, ``x[i::2]``, ``x[i::-1]``.

A slice that goes backwards is one that goes forwards through the rows in their opposite order. One
with a step takes rows at equal distances; where their number changes from turn to turn, as many are
taken as there are in any turn.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ops import indexing as ops
from ..trace.tracer import lift
from ..types import type_of
from .all_turns import Loops, in_all_turns
from .pieces import Abandon


class RowSpan:
    """Rows from one place to another, known for every turn."""

    def __init__(self, loop: Loops, lows: np.ndarray, highs: np.ndarray):
        self.loop, self.lows, self.highs = loop, lows, highs

    def is_same(self, other: Any) -> bool:
        """Whether another extent is of the same rows in every turn."""
        if not isinstance(other, RowSpan) or self.loop is not other.loop:
            return False
        return np.array_equal(self.lows, other.lows) and np.array_equal(self.highs, other.highs)

    def never_empty(self) -> bool:
        """Whether there are rows in every turn."""
        return bool((self.highs > self.lows).all())

    def number(self, values: np.ndarray) -> Any:
        """A number that is known for every turn, in this one."""
        if (values == values[0]).all():
            return int(values[0])
        return lift(np.ascontiguousarray(values))[self.loop.turn()]

    def count(self) -> Any:
        """The number of rows in this turn."""
        return self.number(self.highs - self.lows)

    def flags(self, length: int) -> Any:
        """Which of so many rows count; None: all of them."""
        found: Any = None
        places = np.arange(length)
        if (self.lows > 0).any():
            found = places >= self.number(self.lows)
        if (self.highs < length).any():
            below = places < self.number(self.highs)
            found = below if found is None else np.logical_and(found, below)
        return found


class _RowsInSteps:
    """``x[i::2]``: so many rows at equal distances, beyond the last one this one again."""

    name = "steps"

    def __call__(self, x: Any, start: Any, step: Any, count: int) -> Any:
        places = np.minimum(start + step * np.arange(count), type_of(x).shape[0] - 1)
        return ops.gather(x, places, axes=(0,))

    def write_back(self, *args: Any, **params: Any) -> Any:
        """End the attempt: rows that are not there stand for others."""
        raise Abandon


_STEPS: Any = _RowsInSteps()


class KnownSlice:
    """What a slice takes, known for every turn: from `lows` to `highs` in `steps`, through the rows
    in their opposite order where it goes `back`."""

    def __init__(
        self, loop: Loops, lows: np.ndarray, highs: np.ndarray, steps: np.ndarray, back: bool
    ):
        self.span, self.steps, self.back = RowSpan(loop, lows, highs), steps, back
        self.counts = -((lows - highs) // steps)
        self.is_plain = bool((steps == 1).all())
        zeros = np.zeros_like(lows)
        self.extent = self.span if self.is_plain else RowSpan(loop, zeros, self.counts)

    def rows_of(self, rows: Any) -> Any:
        """The rows that it takes of some, and with them those that its extent does not count."""
        rows = rows[::-1] if self.back else rows
        if self.is_plain or not type_of(rows).shape[0]:
            return rows
        start, step = self.span.number(self.span.lows), self.span.number(self.steps)
        count = max(int(self.counts.max()), 1)
        taken = _STEPS(rows, start, step, count=count)
        taken._view_of(rows, _STEPS, {"count": count}, (start, step))
        return taken

    def with_rows(self, rows: Any, new: Any) -> Any:
        """The rows with others in place of those that it takes."""
        rows = rows[::-1] if self.back else rows
        length, rank = type_of(rows).shape[0], len(type_of(rows).shape)
        flags = self.span.flags(length)
        if not self.is_plain:
            new, apart = self._spread(new, length, rank)
            flags = apart if flags is None else np.logical_and(flags, apart)
        if flags is not None:
            new = np.where(flags.reshape(length, *[1] * (rank - 1)), new, rows)
        return new[::-1] if self.back and len(type_of(new).shape) == rank else new

    def _spread(self, new: Any, length: int, rank: int) -> tuple[Any, Any]:
        """For all rows what is put there, and which of them are so many steps behind the first."""
        step = self.span.number(self.steps)
        away = np.arange(length) - self.span.number(self.span.lows)
        own = type_of(new).shape
        if len(own) == rank and own[0] > 1:
            new = new[np.clip(away // step, 0, own[0] - 1)]
        return new, away % step == 0


def slice_in_all_turns(bounds: slice, length: int, loop: Loops) -> KnownSlice | None:
    """What a slice takes of so many rows; None where that depends on more than the turn."""
    steps = _integers(1 if bounds.step is None else bounds.step, loop)
    if steps is None or (not (steps > 0).all() and not (steps < 0).all()):
        return None
    back = bool(steps[0] < 0)
    start = _bound(bounds.start, 0, length, loop, back)
    stop = _bound(bounds.stop, length, length, loop, back)
    if start is None or stop is None:
        return None
    return KnownSlice(loop, start, np.maximum(start, stop), np.abs(steps), back)


def _bound(bound: Any, default: int, length: int, loop: Loops, back: bool) -> np.ndarray | None:
    """The first or last row in every turn, in the order in which they are taken."""
    if bound is None:
        return np.full(len(loop.rows), default)
    found = _integers(bound, loop)
    if found is None:
        return None
    places = np.where(found < 0, found + length, found)
    placed: np.ndarray = np.clip(length - 1 - places if back else places, 0, length)
    return placed


def _integers(value: Any, loop: Loops) -> np.ndarray | None:
    """An integer in every turn, as Python has it; None where that is not known."""
    found = in_all_turns(value, loop)
    if found is None or found.ndim != 1 or found.dtype.kind not in "iu":
        return None
    integers: np.ndarray = found.astype(np.int64)
    return integers
