"""Nests over nearly the same loops made one: the loops hold all, guards say where a store is done.

The nest is cut at its guards later, see `shaping.pieces`.
"""

from __future__ import annotations

from typing import Any

from ..loops import InRange


def is_near(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether loops of these extents differ by little."""
    if len(one) != len(other) or 0 in one or 0 in other:
        return False
    return all(
        a == b or (abs(a - b) <= 2 and min(a, b) >= 8) for a, b in zip(one, other, strict=True)
    )


def widen(nest: Any, shape: tuple[int, ...]) -> tuple[InRange, ...]:
    """Widen a `FusedNest` to hold `shape`; the guards for a store over that shape alone."""
    for axis, (var, length) in enumerate(zip(nest.vars, shape, strict=True)):
        if length > var.extent:
            guard = InRange(nest.index[axis], 0, var.extent)
            nest.stores = [s.changed(guards=(*s.guards, guard)) for s in nest.stores]
            nest.members.clear()  # their expressions are no longer known everywhere
            nest.memo.clear()
            var.extent = length
    guards = tuple(
        InRange(at, 0, length)
        for at, var, length in zip(nest.index, nest.vars, shape, strict=True)
        if length < var.extent
    )
    nest.shape = tuple(var.extent for var in nest.vars)
    return guards
