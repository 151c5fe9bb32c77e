"""A step length along a direction that satisfies the strong Wolfe conditions.

The function must fall enough for the length of the step, and its slope must flatten. The search
first goes on until such a length, or a bracket around one, is found; then it narrows the bracket.
Lengths to try are minima of the cubic through values and slopes at two points. See Nocedal and
Wright, Numerical Optimization, algorithms 3.5 and 3.6.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

DECREASE = 1e-4  # of the first-order prediction, that the value must reach
FLATTEN = 0.9  # of the slope at the start, that may be left
MAX_TRIALS = 25


class Point(NamedTuple):
    """A step length, with value, gradient and slope there."""

    length: float
    value: float
    gradient: np.ndarray
    slope: float


def strong_wolfe(
    evaluate: Callable[[float], Point], start: Point, length: float, reach: float, tolerance: float
) -> tuple[Point, int]:
    """The point found, and how often the function was evaluated.

    `reach` is the largest element of the direction; a bracket that moves no element by more than
    `tolerance` is not narrowed further.
    """
    search = _Search(evaluate, start)
    low, high = search.bracket(length)
    if high is not None:
        low = search.narrow(low, high, reach, tolerance)
    return low, search.evaluations


class _Search:
    def __init__(self, evaluate: Callable[[float], Point], start: Point):
        self.evaluate, self.start = evaluate, start
        self.evaluations = 0
        self.trials = 0

    def try_length(self, length: float) -> Point:
        self.evaluations += 1
        return self.evaluate(length)

    def falls_short(self, point: Point) -> bool:
        """Whether the value has not fallen enough for the length."""
        return point.value > self.start.value + DECREASE * point.length * self.start.slope

    def is_flat(self, point: Point) -> bool:
        return abs(point.slope) <= -FLATTEN * self.start.slope

    def bracket(self, length: float) -> tuple[Point, Point | None]:
        """Two points with an acceptable one in between; or such a one alone."""
        before, here = self.start, self.try_length(length)
        while self.trials < MAX_TRIALS:
            rises = self.trials > 1 and here.value >= before.value
            if self.falls_short(here) or rises:
                return before, here
            if self.is_flat(here):
                return here, None
            if here.slope >= 0:
                return before, here
            least = here.length + 0.01 * (here.length - before.length)
            length = _minimum(before, here, least, 10.0 * here.length)
            before, here = here, self.try_length(length)
            self.trials += 1
        return self.start, here

    def narrow(self, first: Point, second: Point, reach: float, tolerance: float) -> Point:
        """Shrink a bracket until its better end is acceptable."""
        low, high = _ordered(first, second)
        stuck = False
        while self.trials < MAX_TRIALS and abs(high.length - low.length) * reach >= tolerance:
            length, stuck = _inside(low, high, stuck)
            new = self.try_length(length)
            self.trials += 1
            if self.falls_short(new) or new.value >= low.value:
                low, high = _ordered(low, new)
                continue
            if self.is_flat(new):
                return new
            if new.slope * (high.length - low.length) >= 0:
                high = low
            low = new
        return low


def _ordered(one: Point, other: Point) -> tuple[Point, Point]:
    """The point with the lower value first."""
    return (one, other) if one.value <= other.value else (other, one)


def _inside(low: Point, high: Point, stuck: bool) -> tuple[float, bool]:
    """The next length in a bracket; two in a row close to an end are moved away from it."""
    left, right = sorted((low.length, high.length))
    first, second = (low, high) if low.length <= high.length else (high, low)
    length = _minimum(first, second, left, right)
    margin = 0.1 * (right - left)
    if min(right - length, length - left) >= margin:
        return length, False
    if not stuck and left < length < right:
        return length, True
    near_right = abs(length - right) < abs(length - left)
    return (right - margin if near_right else left + margin), False


def _minimum(one: Point, other: Point, least: float, most: float) -> float:
    """Where the cubic through two points has its minimum, within limits."""
    width = other.length - one.length
    chord = one.slope + other.slope - 3.0 * (other.value - one.value) / width
    square = chord * chord - one.slope * other.slope
    if not square >= 0:
        return 0.5 * (least + most)
    root = np.sqrt(square)
    above, below = other.slope + root - chord, other.slope - one.slope + 2.0 * root
    if below == 0:  # a straight line
        return most if above < 0 else least
    turn = above / below
    return float(min(max(other.length - width * turn, least), most))
