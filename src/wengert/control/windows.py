"""Slices of the same length in every turn of a loop that is traced once: ``x[i : i + 3]``.

What is taken is an array like any other; of what no turn changes it is one of all windows, which
cannot be written to. The bounds must be known for every turn; all other slices are left to
`ragged`. Where they are not known, the distance between them may be: ``x[k : k + 3]`` with any `k`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ..graph import Constant, Graph, Variable
from ..ops import indexing as ops
from ..ops import logic
from ..ops.layout import permute
from ..ops.op import Traced
from ..ops.positions import provided
from ..ops.windows import windows
from ..trace.tracer import Tracer, lift
from ..types import type_of
from .all_turns import Loops, in_all_turns, loops_and_pairs, loops_around
from .conversion import local
from .distances import known_distance
from .known_slices import KnownSlice, slice_in_all_turns
from .pieces import Abandon, TracedPiece
from .ragged import is_ragged
from .values import is_abstract

Axes = tuple[int, ...]
# All windows of an array are made, if they are at most so many for each that is read.
_MOST_WINDOWS = 4


class _Window:
    """``x[i : i + 3]``: one of all windows of an array, which do not depend on the turn."""

    name = "window"

    def __call__(self, x: Any, *starts: Any, axes: Axes, sizes: Axes, steps: Axes) -> Any:
        rank, count = len(type_of(x).shape), len(axes)
        others = tuple(axis for axis in range(rank) if axis not in axes)
        moved, ones = permute(x, axes=others + axes), (1,) * count
        found = windows(moved, sizes=sizes, strides=ones, dilations=steps)
        taken = ops.gather(found, *starts, axes=tuple(range(rank - count, rank)))
        return permute(taken, axes=tuple(np.argsort(others + axes).tolist()))

    def write_back(self, *args: Any, **params: Any) -> Any:
        """End the attempt: a turn that stands for all cannot write to what all of them read."""
        raise Abandon


class _MovingPart:
    """``x[i : i + 3]`` of an array that turns change, read and written where it lies."""

    name = "part"

    def __call__(self, x: Any, *starts: Any, axes: Axes, sizes: Axes, steps: Axes) -> Any:
        rest = tuple(axis for axis in range(len(type_of(x).shape)) if axis not in axes)
        taken = ops.gather(x, *_places(x, starts, sizes, steps), axes=axes)
        return permute(taken, axes=tuple(np.argsort(axes + rest).tolist()))

    def write_back(
        self, base: Any, new: Any, *starts: Any, axes: Axes, sizes: Axes, steps: Axes
    ) -> Any:
        """The array with something else in the place of the part."""
        rest = tuple(axis for axis in range(len(type_of(base).shape)) if axis not in axes)
        value = permute(new, axes=axes + rest)
        places = _places(base, starts, sizes, steps)
        return ops.scatter_set(base, value, *places, axes=axes, apart=True)


def _places(x: Any, starts: Sequence[Any], sizes: Axes, steps: Axes) -> list[Any]:
    """The places of a part along each axis."""
    shapes = np.eye(len(sizes), dtype=int) * (np.array(sizes) - 1) + 1
    return [
        _beside(x, start) + (np.arange(size) * step).reshape(shape)
        for start, size, step, shape in zip(starts, sizes, steps, shapes, strict=True)
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
    same = bool(loops) and _is_same_in_all(array, loops)
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
    found = [_span(left[axis][0], shape[axis]) for axis in axes]
    spans = [span for span in found if span is not None]
    if len(spans) < len(found):
        return None
    back = {axis for axis, span in zip(axes, spans, strict=True) if span.back}
    if back:
        part = part[tuple(slice(None, None, -1 if k in back else 1) for k in range(len(shape)))]
    sizes, steps = tuple(span.size for span in spans), tuple(span.step for span in spans)
    number = prod(shape[k] - (s.size - 1) * s.step for k, s in zip(axes, spans, strict=True))
    few = number <= _MOST_WINDOWS * prod(len(loop.rows) for loop in loops)
    op, params = _WINDOW if same and few else _PART, {"axes": axes, "sizes": sizes, "steps": steps}
    starts = tuple(span.start for span in spans)
    taken = op(part, *starts, **params)
    taken._view_of(part, op, params, starts)
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


@dataclass
class _Span:
    """What a key takes along an axis: so many rows from a place on, in steps; in their opposite
    order where it goes `back`."""

    start: Any
    size: int
    step: int = 1
    back: bool = False


def _span(key: Any, length: int) -> _Span | None:
    """What an item of a key takes, if it is as many in all turns; else None."""
    bounds = key if isinstance(key, slice) else slice(key, key + 1)
    for loop in loops_and_pairs():
        known = slice_in_all_turns(bounds, length, loop)
        if known is not None:
            return _as_known(known, bounds, length, loop)
    if not isinstance(key, slice):
        return _Span(key, 1)
    return None if _may_be_known_in_turns(key.start) else _anywhere(key, length)


def _as_known(known: KnownSlice, bounds: slice, length: int, loop: Loops) -> _Span | None:
    counts, steps, lows = known.counts, known.steps, known.span.lows
    if counts[0] == 0 or (counts != counts[0]).any() or (steps != steps[0]).any():
        return None
    start = None
    if bounds.start is not None:
        start = length - 1 - bounds.start if known.back else bounds.start
        told = in_all_turns(start, loop)
        start = None if told is None or not np.array_equal(told, lows) else start
    start = known.span.number(lows) if start is None else start
    return _Span(start, int(counts[0]), int(steps[0]), known.back)


def _anywhere(bounds: slice, length: int) -> _Span | None:
    """What a slice takes that starts where nobody knows: so many as its bounds are apart.

    NumPy takes fewer beyond the ends of an array. Here that is an error, when it happens.
    """
    start, stop, step = bounds.start, bounds.stop, 1 if bounds.step is None else bounds.step
    if is_abstract(step) or not step or start is None or stop is None:
        return None
    far = known_distance(start, stop)
    if far is None or far * step <= 0:
        return None
    size = -(-abs(far) // abs(step))
    last = (size - 1) * abs(step)
    low = logic.greater_equal(start if step > 0 else stop, 0)
    high = logic.less(start, length - last if step > 0 else length)
    problem = f"the slice is not all inside of its axis of length {length}"
    remedy = "Where it starts is known at run time alone: its length must not change there."
    texts = {"error": "OutOfRangeError", "name": "index", "problem": problem, "remedy": remedy}
    start = provided(start, logic.logical_and(low, high), **texts)
    return _Span(start if step > 0 else length - 1 - start, size, abs(step), step < 0)


def _may_be_known_in_turns(value: Any) -> bool:
    """Whether Python may know a number when turns are run one by one that are traced as one: it is
    computed of counters, and of numbers that the turns carry."""
    piece, first = local.inside, None
    while piece is not None:
        first, piece = piece if piece.attempt else first, piece.outer
    if first is None or not isinstance(value, Tracer):
        return False
    pending, seen = [value], set()
    while pending:
        now = pending.pop()
        if now._trace.level < first.trace.level:
            return False
        for node in Graph([], [now.node]).nodes:
            if isinstance(node, Variable) and node.type.shape:
                return False
            held = node.output if isinstance(node, Constant) else None
            if isinstance(held, Tracer) and node.serial not in seen:
                seen.add(node.serial)
                pending.append(held)
    return True
