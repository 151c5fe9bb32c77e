"""Slices of the same length in every turn of a loop that is traced once: ``x[i : i + 3]``.

What is taken is an array like any other; of what no turn changes it is one of all windows, which
cannot be written to. The bounds must be known for every turn; all other slices are left to
`ragged`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

import numpy as np

from ..ops import indexing as ops
from ..ops.layout import permute
from ..ops.op import Traced
from ..ops.windows import windows
from ..trace.tracer import lift
from ..types import type_of
from .all_turns import in_all_turns, loops_around
from .pieces import Abandon, TracedPiece
from .ragged import bounds_in_all_turns, is_ragged
from .values import is_abstract

Axes = tuple[int, ...]
# All windows of an array are made, if they are at most so many for each that is read.
_MOST_WINDOWS = 4


class _Window:
    """``x[i : i + 3]``: one of all windows of an array, which do not depend on the turn."""

    name = "window"

    def __call__(self, x: Any, *starts: Any, axes: Axes, sizes: Axes) -> Any:
        rank, count = len(type_of(x).shape), len(axes)
        others = tuple(axis for axis in range(rank) if axis not in axes)
        ones = (1,) * count
        found = windows(permute(x, axes=others + axes), sizes=sizes, strides=ones, dilations=ones)
        taken = ops.gather(found, *starts, axes=tuple(range(rank - count, rank)))
        return permute(taken, axes=tuple(np.argsort(others + axes).tolist()))

    def write_back(self, *args: Any, **params: Any) -> Any:
        """End the attempt: a turn that stands for all cannot write to what all of them read."""
        raise Abandon


class _MovingPart:
    """``x[i : i + 3]`` of an array that turns change, read and written where it lies."""

    name = "part"

    def __call__(self, x: Any, *starts: Any, axes: Axes, sizes: Axes) -> Any:
        rest = tuple(axis for axis in range(len(type_of(x).shape)) if axis not in axes)
        taken = ops.gather(x, *_places(x, starts, sizes), axes=axes)
        return permute(taken, axes=tuple(np.argsort(axes + rest).tolist()))

    def write_back(self, base: Any, new: Any, *starts: Any, axes: Axes, sizes: Axes) -> Any:
        """The array with something else in the place of the part."""
        rest = tuple(axis for axis in range(len(type_of(base).shape)) if axis not in axes)
        value = permute(new, axes=axes + rest)
        places = _places(base, starts, sizes)
        return ops.scatter_set(base, value, *places, axes=axes, apart=True)


def _places(x: Any, starts: Sequence[Any], sizes: Axes) -> list[Any]:
    """The places of a part along each axis."""
    shapes = np.eye(len(sizes), dtype=int) * (np.array(sizes) - 1) + 1
    return [
        _beside(x, start) + np.arange(size).reshape(shape)
        for start, size, shape in zip(starts, sizes, shapes, strict=True)
    ]


def _beside(x: Any, start: Any) -> Any:
    """A number from outside of the trace of an array as one inside, where places are computed of
    it: an array of them from outside would have to be read."""
    outside = all(isinstance(value, Traced) for value in (x, start)) and (
        start._trace.level < x._trace.level
    )
    return x._trace.wrap(x._trace.node_of(start)) if outside else start


_WINDOW: Any = _Window()
_PART: Any = _MovingPart()


def window(array: Any, key: Any) -> Any:
    """The part of an array that a key takes, if it is as long in all turns; else None.

    It is one of all windows of the array where this is the same in all turns, and most of its
    windows are wanted.
    """
    loops = loops_around()
    if not loops:
        return None
    same = _is_same_in_all(array, loops)
    array = array if isinstance(array, Traced) else lift(array)
    keys = key if type(key) is tuple else (key,)
    if not all(map(_is_basic, keys)):
        return None
    moving = [is_ragged(one) or is_abstract(one) for one in keys]
    still = [slice(None) if moves else one for one, moves in zip(keys, moving, strict=True)]
    part = array if all(moving) else array[tuple(still)]
    left = [(one, moves) for one, moves in zip(keys, moving, strict=True) if _stays(one, moves)]
    axes = tuple(axis for axis, (_, moves) in enumerate(left) if moves)
    shape = type_of(part).shape
    spans = [_span(left[axis][0], shape[axis], loops) for axis in axes]
    if None in spans:
        return None
    starts, sizes = zip(*spans, strict=True)
    number = prod(shape[axis] - size + 1 for axis, size in zip(axes, sizes, strict=True))
    few = number <= _MOST_WINDOWS * prod(len(loop.rows) for loop in loops)
    op = _WINDOW if same and few else _PART
    taken = op(part, *starts, axes=axes, sizes=sizes)
    taken._view_of(part, op, {"axes": axes, "sizes": sizes}, starts)
    return taken[tuple(slice(None) if isinstance(one, slice) else 0 for one, _ in left)]


def refuse_windows(leaves: Iterable[Any]) -> None:
    """End the attempt if a turn hands windows on: what is written to one later would be lost."""
    for leaf in leaves:
        _refuse_window(leaf)


def _refuse_window(leaf: Any) -> None:
    while getattr(leaf, "_base", None) is not None:
        if leaf._base.op in (_WINDOW, _PART):
            raise Abandon
        leaf = leaf._base.base


def _is_same_in_all(array: Any, loops: list[TracedPiece]) -> bool:
    """Whether an array was there before the loops."""
    if not isinstance(array, Traced):
        return True
    return bool(array._trace.level < min(loop.trace.level for loop in loops))


def _is_basic(key: Any) -> bool:
    """Whether it is a slice, or an integer that may be traced."""
    if isinstance(key, Traced):
        return type_of(key).shape == () and type_of(key).dtype.kind in "iu"
    return isinstance(key, (slice, int, np.integer)) and not isinstance(key, bool)


def _stays(key: Any, moves: bool) -> bool:
    """Whether the axis of an item of the key is there when those that do not move are taken."""
    return moves or isinstance(key, slice)


def _span(key: Any, length: int, loops: list[TracedPiece]) -> tuple[Any, int] | None:
    """Where it starts in this turn, and its length if that is the same in all; else None."""
    bounds = key if isinstance(key, slice) else slice(key, key + 1)
    if bounds.step not in (None, 1):
        return None
    for loop in loops:
        span = bounds_in_all_turns(bounds, length, loop)
        if span is not None:
            sizes = span.highs - span.lows
            if sizes[0] == 0 or (sizes != sizes[0]).any():
                return None
            written = None if bounds.start is None else in_all_turns(bounds.start, loop)
            as_written = written is not None and np.array_equal(written, span.lows)
            return bounds.start if as_written else span.number(span.lows), int(sizes[0])
    return None
