"""Medians, quantiles and percentiles, of all elements and of those that are not NaN.

A quantile is made of sorted elements: the derivative follows the elements it lies between, and `q`
where a method interpolates. NaN is sorted to the end, so that leaving it out is to count fewer
elements, as many as each line has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import DTypeError, OptionError, ShapeError, explain
from ..ops import elementwise as ew
from ..ops import logic
from ..ops.cumulative import cumsum
from ..ops.indexing import gather, index
from ..ops.layout import broadcast_to, convert, permute, reduce_sum, reshape
from ..ops.reductions import one_axis, reduce_any
from ..ops.sorting import LARGE, along, argsort, ranked
from ..trace.lying import in_order
from ..trace.orders import UNKNOWN
from ..trace.tracer import concrete
from ..types import type_of
from .common import as_value, cast, ndim, normal_axes, normal_axis, shape
from .reductions import keep_axes, mean
from .sorting import sort
from .statistics import aligned_weights

__all__ = ["median", "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile"]

# Of up to so many quantiles the elements of long lines are found one by one.
_FEW = 4


def _part(x: Any, axis: int, start: int, stop: int) -> Any:
    key = tuple((start, stop, 1) if k == axis else (0, n, 1) for k, n in enumerate(shape(x)))
    return index(x, key=key)


class _InOrder:
    """Lines of elements in order: all of them, or of long ones those that are asked for."""

    def __init__(self, x: Any, line: int, asked: int):
        self.x, self.line = x, line
        self.length, self.ndim = shape(x)[line], ndim(x)
        few = self.length >= LARGE and asked <= _FEW and type_of(x).dtype.kind in "fiu"
        self.ordered = None if few else sort(x, axis=line)

    def at(self, places: Any, q_shape: tuple[int, ...]) -> Any:
        """The elements at places, whose axes come first; see `_at`."""
        if self.ordered is None:
            count, lengths = type_of(places).size, shape(self.x)
            ranks = reshape(places, shape=(count,))
            found = along(self.x, ranked(self.x, ranks, axis=self.line), self.line)
            rest = [k for k in range(self.ndim) if k != self.line]
            found = permute(found, axes=(self.line, *rest))
            return reshape(found, shape=(*shape(places), *[lengths[k] for k in rest]))
        return _at(self.ordered, self.line, places, q_shape)

    def nan_where_any(self, result: Any) -> Any:
        """The result, and NaN where the elements contain one (NaN is sorted to the end)."""
        if self.ordered is not None:
            return _nan_where_any(self.ordered, self.line, result)
        if not type_of(self.x).inexact:
            return result
        return ew.select(reduce_any(logic.isnan(self.x), axes=(self.line,)), np.nan, result)


def _asked(x: Any, count: int) -> int:
    """How many elements are asked for without NaN: of several lines, which differ in length then,
    all."""
    return count if ndim(x) == 1 else _FEW + 1


def _nan_where_any(ordered: Any, axis: int, result: Any) -> Any:
    if not type_of(ordered).inexact:
        return result
    length = shape(ordered)[axis]
    last = reduce_sum(_part(ordered, axis, length - 1, length), axes=(axis,))
    return ew.select(logic.isnan(last), np.nan, result)


def median(
    a: Any, axis: Any = None, *, keepdims: bool = False, overwrite_input: bool = False
) -> Any:
    """``numpy.median``: the middle element, or the mean of the two middle ones."""
    x = as_value(a)
    axes = normal_axes("median", axis, ndim(x))
    merged, line = one_axis(x, axes)
    length = shape(merged)[line]
    if length == 0:
        return mean(x, axes, keepdims=keepdims)
    lines, first, end = _InOrder(merged, line, 1), (length - 1) // 2, length // 2 + 1
    if lines.ordered is None:
        middle = mean(lines.at(np.arange(first, end), (end - first,)), 0)
    else:
        middle = mean(_part(lines.ordered, line, first, end), line)
    return keep_axes(lines.nan_where_any(middle), x, axes, keepdims)


def nanmedian(
    a: Any, axis: Any = None, *, keepdims: bool = False, overwrite_input: bool = False
) -> Any:
    """``numpy.nanmedian``: the median of the elements that are not NaN.

    >>> import numpy as np, wengert.numpy as wnp
    >>> wnp.nanmedian(np.array([3.0, np.nan, 1.0, 5.0]))
    np.float64(3.0)
    """
    x = as_value(a)
    axes = normal_axes("nanmedian", axis, ndim(x))
    if not type_of(x).inexact or type_of(x).size == 0:
        return median(x, axes, keepdims=keepdims)
    merged, line = one_axis(x, axes)
    lines, count = _InOrder(merged, line, _asked(merged, 1)), _count(merged, line)
    places = [logic.floor_divide(ew.add(count, shift), 2) for shift in (-1, 0)]
    low, high = (lines.at(ew.maximum(place, 0), ()) for place in places)
    # as `mean` of two, which are added first
    middle = ew.select(logic.equal(*places), low, ew.divide(ew.add(low, high), 2))
    result = keep_axes(ew.select(logic.equal(count, 0), np.nan, middle), x, axes, keepdims)
    return in_order(result, UNKNOWN)


# ---------------------------------------------------------------- quantiles


def quantile(
    a: Any,
    q: Any,
    axis: Any = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
    weights: Any = None,
    overwrite_input: bool = False,
) -> Any:
    """``numpy.quantile``, by any of its methods; differentiable by `a`, and by `q`.

    >>> import wengert.numpy as wnp
    >>> wnp.quantile([1.0, 2.0, 4.0, 8.0], 0.5, method="weibull")
    np.float64(3.0)

    With `weights`, for ``method="inverted_cdf"``, it is the first element up to which their sum
    reaches the part `q` of the whole; the weights have no derivative.
    """
    return _quantile("quantile", a, q, axis, method, keepdims, weights, False)


def percentile(
    a: Any,
    q: Any,
    axis: Any = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
    weights: Any = None,
    overwrite_input: bool = False,
) -> Any:
    """``numpy.percentile``: the `quantile` of ``q / 100``."""
    return _quantile("percentile", a, _hundredths(q, a), axis, method, keepdims, weights, False)


def nanquantile(
    a: Any,
    q: Any,
    axis: Any = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
    weights: Any = None,
    overwrite_input: bool = False,
) -> Any:
    """``numpy.nanquantile``: the `quantile` of the elements that are not NaN.

    >>> import numpy as np, wengert.numpy as wnp
    >>> wnp.nanquantile(np.array([1.0, np.nan, 2.0]), 0.25)
    np.float64(1.25)
    """
    return _quantile("nanquantile", a, q, axis, method, keepdims, weights, True)


def nanpercentile(
    a: Any,
    q: Any,
    axis: Any = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
    weights: Any = None,
    overwrite_input: bool = False,
) -> Any:
    """``numpy.nanpercentile``: the `nanquantile` of ``q / 100``.

    >>> import numpy as np, wengert.numpy as wnp
    >>> wnp.nanpercentile(np.array([1.0, np.nan, 2.0]), 25)
    np.float64(1.25)
    """
    return _quantile("nanpercentile", a, _hundredths(q, a), axis, method, keepdims, weights, True)


def _hundredths(q: Any, a: Any) -> Any:
    """q / 100; a Python number in the precision of `a`, as NumPy has it."""
    q, own = as_value(q), type_of(as_value(a))
    narrow = type_of(q).weak and own.dtype.kind == "f"
    return ew.divide(cast(q, own.dtype) if narrow else q, 100)


def _quantile(
    name: str, a: Any, q: Any, axis: Any, method: str, keepdims: bool, weights: Any, leave_nan: bool
) -> Any:
    if method not in METHODS:
        raise OptionError(
            explain(name, f"got method={method!r}", f"Methods are {', '.join(METHODS)}.")
        )
    x, q = as_value(a), as_value(q)
    if type_of(x).dtype.kind == "c":
        raise DTypeError(explain(name, f"got {type_of(x)}", "Give real numbers."))
    if type_of(q).weak and type_of(x).dtype.kind == "f":
        q = cast(q, type_of(x).dtype)
    axes = normal_axes(name, axis, ndim(x))
    _check_quantile(name, q)
    leave_nan = leave_nan and type_of(x).inexact
    merged, line = one_axis(x, axes)
    if weights is not None:
        weights = _weights(name, x, as_value(weights), axis, method)
        result = _weighted(merged, line, q, one_axis(weights, axes)[0], leave_nan)
    else:
        asked = type_of(q).size
        lines = _InOrder(merged, line, _asked(merged, asked) if leave_nan else asked)
        count: Any = lines.length
        if leave_nan:  # in the precision of q, as where it is a number
            count = cast(_count(merged, line), type_of(q).dtype if type_of(q).inexact else None)
        result = METHODS[method](lines, count, q)
        if leave_nan:
            result = ew.select(logic.equal(count, 0), np.nan, result)
        else:
            result = lines.nan_where_any(result)
    if keepdims:
        kept = tuple(1 if k in axes else n for k, n in enumerate(shape(x)))
        result = reshape(result, shape=shape(q) + kept)
    return in_order(result, UNKNOWN) if leave_nan else result


def _check_quantile(name: str, q: Any) -> None:
    value = concrete(q)
    if value is not None and not np.all((np.asarray(value) >= 0) & (np.asarray(value) <= 1)):
        raise ShapeError(
            explain(name, f"got q={value}", "Quantiles are between 0 and 1, percentiles 100.")
        )


def _count(ordered: Any, line: int) -> Any:
    """How many elements of each line are not NaN."""
    return reduce_sum(logic.logical_not(logic.isnan(ordered)), axes=(line,))


def _at(ordered: Any, line: int, places: Any, q_shape: tuple[int, ...]) -> Any:
    """The elements at places that are the same for all lines, or that each line has of its own."""
    if shape(places) == q_shape and ndim(ordered) > 1:
        return gather(ordered, places, axes=(line,))
    lengths = shape(ordered)
    rest = [k for k in range(len(lengths)) if k != line]
    indices: list[Any] = [places] * len(lengths)
    for number, k in enumerate(rest):
        indices[k] = np.arange(lengths[k]).reshape((-1,) + (1,) * (len(rest) - 1 - number))
    return gather(ordered, *indices, axes=tuple(range(len(lengths))))


# ---------------------------------------------------------------- methods


def _beside(q: Any, count: Any) -> Any:
    """`q` in front of the axes of a count for each line."""
    return q if type(count) is int else reshape(q, shape=shape(q) + (1,) * ndim(count))


def _valid(places: Any, q: Any, count: Any, length: int) -> Any:
    """Places as indices; out of range, which is an error, where `q` is known only later and is."""
    places = convert(places, dtype=np.dtype(np.intp))
    if concrete(q) is not None:
        return places
    q = _beside(q, count)
    inside = logic.logical_and(logic.greater_equal(q, 0), logic.less_equal(q, 1))
    return ew.select(inside, places, length)


def _floating(q: Any) -> Any:
    return q if type_of(q).inexact else cast(q, np.float64)


def _between(lines: _InOrder, count: Any, q: Any, place: Any, weight: Any = None) -> Any:
    """Between the two elements around a place, as NumPy rounds it."""
    last = count - 1
    below = logic.floor(place)
    if weight is None:
        weight = ew.subtract(place, below)
    # beyond the ends there is the first or the last element alone
    ends = logic.logical_or(logic.less(place, 0), logic.greater_equal(place, last))
    weight = ew.select(ends, 0, weight)
    lower = ew.maximum(ew.minimum(below, last), 0)
    upper = ew.maximum(ew.minimum(ew.add(below, 1), last), 0)
    upper = ew.select(logic.less(place, 0), 0, upper)
    places = [_valid(each, q, count, lines.length) for each in (lower, upper)]
    low, high = (lines.at(each, shape(q)) for each in places)
    if type(count) is int:
        weight = reshape(weight, shape=shape(q) + (1,) * (lines.ndim - 1))
    step = ew.subtract(high, low)
    from_low = ew.add(low, ew.multiply(step, weight))
    from_high = ew.subtract(high, ew.multiply(step, ew.subtract(1, weight)))
    return ew.select(logic.greater_equal(weight, 0.5), from_high, from_low)


def _linear(lines: _InOrder, count: Any, q: Any) -> Any:
    if type_of(q).dtype.kind in "biu":
        places = ew.multiply(cast(_beside(q, count), np.intp), count - 1)
        places = _valid(ew.maximum(places, 0), q, count, lines.length)
        return lines.at(places, shape(q))
    return _between(lines, count, q, ew.multiply(_beside(q, count), count - 1))


def _continuous(alpha: float, beta: float) -> Callable[..., Any]:
    """A method that interpolates, by the two numbers that Hyndman and Fan have for it."""

    def method(lines: _InOrder, count: Any, q: Any) -> Any:
        q = _floating(q)
        wide = _beside(q, count)
        shift = ew.add(alpha, ew.multiply(wide, 1 - alpha - beta))
        place = ew.subtract(ew.add(ew.multiply(wide, count), shift), 1)
        return _between(lines, count, q, place)

    return method


def _averaged(lines: _InOrder, count: Any, q: Any) -> Any:
    q = _floating(q)
    place = ew.subtract(ew.multiply(_beside(q, count), count), 1)
    whole = logic.equal(place, logic.floor(place))
    weight = ew.select(whole, type_of(q).dtype.type(0.5), type_of(q).dtype.type(1))
    return _between(lines, count, q, logic.stop_gradient(place), weight)


def _midpoint(lines: _InOrder, count: Any, q: Any) -> Any:
    q = _floating(q)
    place = ew.multiply(_beside(q, count), count - 1)
    place = ew.multiply(ew.add(logic.floor(place), logic.ceil(place)), 0.5)
    return _between(lines, count, q, place)


def _discrete(place_of: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """A method that takes one of the elements."""

    def method(lines: _InOrder, count: Any, q: Any) -> Any:
        q = _floating(q)
        place = ew.maximum(place_of(_beside(q, count), count), 0)
        places = _valid(place, q, count, lines.length)
        return lines.at(places, shape(q))

    return method


def _inverted(q: Any, count: Any) -> Any:
    return ew.subtract(logic.ceil(ew.multiply(q, count)), 1)


def _closest(q: Any, count: Any) -> Any:
    place = ew.subtract(ew.subtract(ew.multiply(q, count), 1), 0.5)
    below = logic.floor(place)
    odd = logic.equal(ew.remainder(below, 2), 1)
    return ew.select(logic.logical_and(logic.equal(place, below), odd), below, ew.add(below, 1))


# NumPy's methods: functions of lines in order, how many of their elements count, and `q`.
METHODS: dict[str, Callable[..., Any]] = {
    "inverted_cdf": _discrete(_inverted),
    "averaged_inverted_cdf": _averaged,
    "closest_observation": _discrete(_closest),
    "interpolated_inverted_cdf": _continuous(0, 1),
    "hazen": _continuous(0.5, 0.5),
    "weibull": _continuous(0, 0),
    "linear": _linear,
    "median_unbiased": _continuous(1 / 3.0, 1 / 3.0),
    "normal_unbiased": _continuous(3 / 8.0, 3 / 8.0),
    "lower": _discrete(lambda q, count: logic.floor(ew.multiply(q, count - 1))),
    "higher": _discrete(lambda q, count: logic.ceil(ew.multiply(q, count - 1))),
    "midpoint": _midpoint,
    "nearest": _discrete(lambda q, count: logic.rint(ew.multiply(q, count - 1))),
}


# ---------------------------------------------------------------- with weights


def _weights(name: str, x: Any, weights: Any, axis: Any, method: str) -> Any:
    """The weights in the shape of `x`."""
    if method != "inverted_cdf":
        raise OptionError(
            explain(name, f"got weights for method={method!r}", "Give method='inverted_cdf'.")
        )
    if type_of(weights).dtype.kind == "c":
        raise DTypeError(explain(name, f"got weights {type_of(weights)}", "Give real numbers."))
    value = concrete(weights)
    if value is not None and np.any(np.asarray(value) < 0):
        raise ShapeError(explain(name, "got weights below 0", "Give weights of at least 0."))
    return broadcast_to(aligned_weights(name, x, weights, axis), shape=shape(x))


def _weighted(x: Any, line: int, q: Any, weights: Any, leave_nan: bool) -> Any:
    """The first element where the sum of the weights reaches the part `q` of their total."""
    line = normal_axis("quantile", line, ndim(x))
    length = shape(x)[line]
    weights = logic.stop_gradient(cast(weights, np.float64))
    if leave_nan:
        weights = ew.select(logic.isnan(x), 0, weights)
    order = argsort(x, axis=line, descending=False)
    ordered, weights = along(x, order, line), along(weights, order, line)
    sums = cumsum(weights, axis=line, reverse=False)
    total = _part(sums, line, length - 1, length)
    parts = ew.divide(sums, total)
    if type_of(q).dtype.kind == "f":
        parts = cast(parts, type_of(q).dtype)
    lengths = shape(x)
    parts = reshape(parts, shape=(1,) * ndim(q) + lengths)
    wide = reshape(q, shape=shape(q) + (1,) * len(lengths))
    # elements without weight in front are none of the first
    before = logic.logical_or(logic.less(parts, wide), logic.equal(parts, 0))
    places = reduce_sum(before, axes=(ndim(q) + line,))
    count = _count(ordered, line) if leave_nan else length
    places = ew.minimum(places, count - 1)
    total = reduce_sum(total, axes=(line,))
    right = logic.logical_and(logic.greater(total, 0), logic.isfinite(total))
    none = logic.equal(count, 0)
    # without weights to go by there is no such element: a place out of range is an error
    places = ew.select(logic.logical_or(right, none), ew.maximum(places, 0), length)
    result = _at(ordered, line, places, shape(q))
    if leave_nan:
        return ew.select(none, np.nan, result)
    return _nan_where_any(ordered, line, result)
