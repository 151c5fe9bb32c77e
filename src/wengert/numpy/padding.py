"""``numpy.pad`` in all its modes.

Axes are padded one after the other. Where the padding repeats elements of the array, NumPy pads
the numbers 0, 1, 2, ... of the axis instead, and the elements are taken from those places.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import DTypeError, ShapeError, explain
from ..ops.layout import broadcast_to, convert
from ..ops.logic import rint
from ..ops.structure import concatenate
from ..trace.array import FUNCTIONS
from ..trace.indexing import getitem
from ..trace.lying import in_order_of
from ..trace.views import copy_of
from ..types import Function, type_of
from .common import as_value, cast
from .structure import known, moveaxis, numpy_if_plain, take_places

__all__ = ["pad"]

Widths = tuple[int, int]

# Of more runs than this a padded axis is not put together.
_MOST_RUNS = 8

_OPTIONS: dict[str, dict[str, Any]] = {
    "constant": {"constant_values": 0},
    "edge": {},
    "empty": {},
    "linear_ramp": {"end_values": 0},
    "maximum": {"stat_length": None},
    "mean": {"stat_length": None},
    "median": {"stat_length": None},
    "minimum": {"stat_length": None},
    "reflect": {"reflect_type": "even"},
    "symmetric": {"reflect_type": "even"},
    "wrap": {},
}


@numpy_if_plain
def pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Any:
    """``numpy.pad``: the array with elements added around it."""
    array = as_value(array)
    options = _options(mode, kwargs)
    shape = type_of(array).shape
    widths = _widths(known("pad", pad_width), len(shape))
    array = own = copy_of(array, "A")
    for axis, pair in enumerate(widths):
        if pair == (0, 0):
            continue
        if shape[axis] == 0 and mode not in ("constant", "empty"):
            raise ShapeError(
                explain(
                    "pad",
                    f"cannot extend the empty axis {axis} with mode {mode!r}",
                    "Use mode 'constant'.",
                )
            )
        # each rule pads the first axis
        front = moveaxis(array, axis, 0)
        array = moveaxis(_RULES[mode](front, pair, axis, len(shape), **options), 0, axis)
    return array if array is own else in_order_of(array, own)


def _options(mode: Any, given: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(mode, str):
        raise DTypeError(
            explain(
                "pad",
                "a function as mode writes into plain arrays, the array is traced",
                f"Use one of the modes {', '.join(_OPTIONS)}.",
            )
        )
    if mode not in _OPTIONS:
        raise ValueError(f"pad: mode {mode!r} is not one of {', '.join(_OPTIONS)}.")
    unknown = set(given) - set(_OPTIONS[mode])
    if unknown:
        raise ValueError(f"pad: mode {mode!r} takes no {', '.join(sorted(unknown))}.")
    return {**_OPTIONS[mode], **given}


def _widths(given: Any, rank: int) -> list[Widths]:
    if isinstance(given, dict):
        pairs = [(0, 0)] * rank
        for axis, width in given.items():
            before, after = np.broadcast_to(width, (2,)).tolist()
            pairs[axis] = (before, after)
        return pairs
    array = np.asarray(given)
    if array.dtype.kind not in "iu":
        raise DTypeError(explain("pad", f"got the widths {given!r}, expected integers"))
    try:
        rows = np.broadcast_to(array, (rank, 2)).tolist()
    except ValueError:
        raise ShapeError(
            explain(
                "pad",
                f"got widths of shape {array.shape} for an array with {rank} axes",
                "Give one number, a pair (before, after), or a pair for each axis.",
            )
        ) from None
    if any(width < 0 for row in rows for width in row):
        raise ShapeError(explain("pad", f"got the widths {given!r}, which must not be negative"))
    return [(before, after) for before, after in rows]


def _pair(values: Any, axis: int, rank: int) -> tuple[Any, Any]:
    """The two values, before and after, that an option gives for an axis."""
    table = broadcast_to(as_value(values), shape=(rank, 2))
    return getitem(table, (axis, 0)), getitem(table, (axis, 1))


def _rows(value: Any, count: int, x: Any) -> Any:
    """`count` rows of one value, in the dtype and width of `x`."""
    value = _whole(value) if type_of(x).dtype.kind in "iu" else value
    target = (count, *type_of(x).shape[1:])
    return broadcast_to(cast(value, type_of(x).dtype), shape=target)


def _whole(value: Any) -> Any:
    return rint(value) if type_of(value).inexact else value


def _join(before: Any, x: Any, after: Any) -> Any:
    return concatenate(before, x, after, axis=0)


def _constant(x: Any, widths: Widths, axis: int, rank: int, constant_values: Any) -> Any:
    dtype = type_of(x).dtype
    values = as_value(constant_values)
    if type_of(values).weak:
        values = cast(values, dtype)
    low, high = (cast(v, dtype) for v in _pair(values, axis, rank))
    return _join(_rows(low, widths[0], x), x, _rows(high, widths[1], x))


def _empty(x: Any, widths: Widths, axis: int, rank: int) -> Any:
    return _constant(x, widths, axis, rank, 0)


def _repeating(mode: str) -> Function:
    def rule(x: Any, widths: Widths, axis: int, rank: int, reflect_type: str = "even") -> Any:
        length = type_of(x).shape[0]
        places = np.pad(np.arange(length), widths, mode=mode)  # type: ignore[call-overload]
        taken = _taken(x, places)
        return taken if reflect_type == "even" else _odd(x, taken, widths, mode == "reflect")

    return rule


def _taken(x: Any, places: np.ndarray) -> Any:
    """The rows at some places: cut out, where they are a few runs of neighbours or of equals, which
    is quick in both directions; else looked up."""
    runs: list[list[int]] = []  # first place, step, count
    for place in places.tolist():
        last = runs[-1] if runs else None
        if last and last[2] == 1 and abs(place - last[0]) <= 1:
            last[1:] = [place - last[0], 2]
        elif last and place == last[0] + last[1] * last[2]:
            last[2] += 1
        else:
            runs.append([place, 0, 1])
    if len(runs) > _MOST_RUNS:
        return take_places(x, places, 0)
    pieces = [_run(x, *run) for run in runs]
    return concatenate(*pieces, axis=0) if len(pieces) > 1 else pieces[0]


def _run(x: Any, first: int, step: int, count: int) -> Any:
    if step:
        end = first + step * count
        return getitem(x, slice(first, None if end < 0 else end, step))
    return broadcast_to(getitem(x, slice(first, first + 1)), shape=(count, *type_of(x).shape[1:]))


def _odd(x: Any, taken: Any, widths: Widths, reflect: bool) -> Any:
    """Odd reflection: continued as if turned by half a turn around each end.

    Two reflections move by a period and add twice the difference of the ends. So an element
    `n` periods away is its even reflection, turned or not, plus a multiple of the ends.
    """
    length = type_of(x).shape[0]
    if length == 1:
        return take_places(x, np.zeros(sum(widths) + 1, int), 0)
    half = length - 1 if reflect else length
    position = np.arange(-widths[0], length + widths[1])
    periods, within = np.divmod(position, 2 * half)
    turned = within >= length
    shape = (-1,) + (1,) * (len(type_of(x).shape) - 1)
    dtype = type_of(x).dtype
    sign = np.where(turned, -1, 1).astype(dtype).reshape(shape)
    low = (-2 * periods).astype(dtype).reshape(shape)
    high = (2 * periods + 2 * turned).astype(dtype).reshape(shape)
    return sign * taken + low * x[:1] + high * x[-1:]


def _linear_ramp(x: Any, widths: Widths, axis: int, rank: int, end_values: Any) -> Any:
    low, high = _pair(end_values, axis, rank)
    before = _ramp(low, getitem(x, slice(0, 1)), widths[0])
    after = getitem(_ramp(high, getitem(x, slice(-1, None)), widths[1]), slice(None, None, -1))
    return _join(before, x, after)


def _ramp(end: Any, edge: Any, count: int) -> Any:
    """Rows from `end` towards the edge, the edge itself left out."""
    dtype = type_of(edge).dtype
    counts = np.arange(count).reshape((-1,) + (1,) * (len(type_of(edge).shape) - 1))
    weight = counts / max(count, 1)
    weight = weight.astype(dtype) if dtype.kind in "fc" else weight
    end = cast(end, dtype) if dtype.kind in "fc" else end
    values = end + (edge - end) * weight
    if dtype.kind in "fc":
        return cast(values, dtype)
    return convert(FUNCTIONS["floor"](values), dtype=dtype)


def _statistic(name: str) -> Function:
    def rule(x: Any, widths: Widths, axis: int, rank: int, stat_length: Any) -> Any:
        length = type_of(x).shape[0]
        near = (None, None) if stat_length is None else known("pad", _pair(stat_length, axis, rank))
        counts = [length if n is None else min(int(n), length) for n in near]
        if min(counts) < 1:
            raise ShapeError(explain("pad", "got stat_length 0", "Give 1 or more elements."))
        reduce = FUNCTIONS[name]
        low = reduce(getitem(x, slice(0, counts[0])), axis=0)
        high = reduce(getitem(x, slice(length - counts[1], None)), axis=0)
        return _join(_rows(low, widths[0], x), x, _rows(high, widths[1], x))

    return rule


_RULES: dict[str, Function] = {
    "constant": _constant,
    "edge": _repeating("edge"),
    "empty": _empty,
    "linear_ramp": _linear_ramp,
    "maximum": _statistic("max"),
    "mean": _statistic("mean"),
    "median": _statistic("median"),
    "minimum": _statistic("min"),
    "reflect": _repeating("reflect"),
    "symmetric": _repeating("symmetric"),
    "wrap": _repeating("wrap"),
}
