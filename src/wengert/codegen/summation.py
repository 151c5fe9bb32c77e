"""Long sums: short runs in registers, whose totals are added up without loss.

A number that is added to a large sum loses its last digits, so the error of an accumulator grows
with how many it takes. Therefore none takes more than `RUN` of them: what it holds then goes to a
total of two parts, the sum so far and all that rounding took from it (Knuth's exact addition), and
it starts again from zero. The error stays that of a short run, whatever the length, and the half a
dozen instructions more come once in a run.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from llvmlite import ir

from ..loops import Store, add_exactly
from .scalars import Scalars

# What an accumulator adds up before it hands it on; it goes on to the end where that is near.
RUN, LONGEST_RUN = 16, 24

# The two parts of a total: the sum so far, and what rounding took from it.
Total = tuple[ir.Value, ir.Value]


def loses(store: Store) -> bool:
    """Whether combining many numbers loses digits."""
    return store.combine == "add" and store.buffer.dtype.kind == "f"


def place_folds(outer: Sequence[int], run: int) -> tuple[int, int]:
    """The loop at which accumulators are folded into totals, and after how many of its turns.

    `outer` are the lengths of the loops around the innermost one, in which an accumulator takes
    `run` numbers. -1: they are so short that nothing is folded.

    >>> place_folds([], 16)
    (-1, 0)
    >>> place_folds([7], 1000)
    (1, 16)
    >>> place_folds([1000], 8)
    (0, 2)
    """
    if run > LONGEST_RUN:
        return len(outer), RUN
    for level in range(len(outer) - 1, -1, -1):
        if run * outer[level] > LONGEST_RUN:
            return level, max(1, RUN // run)
        run *= outer[level]
    return -1, 0


def fold(scalars: Scalars, total: Total, value: ir.Value, dtype: np.dtype) -> Total:
    """The total with a value added, and what that lost with what was lost before."""

    def apply(name: str, x: ir.Value, y: ir.Value) -> ir.Value:
        return scalars.apply(name, [x, y], [dtype, dtype], dtype)

    after, lost = add_exactly(apply, total[0], value)
    return after, apply("add", total[1], lost)


def settled(scalars: Scalars, total: Total, dtype: np.dtype) -> ir.Value:
    """A finished total as one number; infinities have lost nothing that could be told."""
    value, lost = total
    sane = scalars.apply("equal", [lost, lost], [dtype, dtype], np.dtype(bool))
    whole = scalars.apply("add", [value, lost], [dtype, dtype], dtype)
    return scalars.builder.select(sane, whole, value)
