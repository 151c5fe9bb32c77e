"""Differences, interpolation and integration of sampled functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import DTypeError, ShapeError, explain
from ..ops import elementwise as ew
from ..ops import logic
from ..ops.cumulative import cumsum
from ..ops.indexing import gather, index
from ..ops.layout import broadcast_to, reduce_sum, reshape
from ..ops.op import Traced
from ..ops.sorting import searchsorted
from ..ops.structure import concatenate
from ..trace.lying import in_order
from ..trace.orders import UNKNOWN
from ..trace.tracer import concrete
from ..trace.views import Views
from ..types import dtype_name, inexact_dtype, result_dtype, type_of
from .common import as_value, cast, ndim, normal_axes, normal_axis, shape, strong

__all__ = ["diff", "ediff1d", "gradient", "interp", "trapezoid", "unwrap"]


def _part(x: Any, axis: int, start: int, stop: int) -> Any:
    """x[start:stop] along an axis."""
    key = tuple(
        (start, max(stop, start), 1) if k == axis else (0, n, 1) for k, n in enumerate(shape(x))
    )
    return index(x, key=key)


def _steps(x: Any, axis: int) -> Any:
    """The differences of neighbours along an axis."""
    length = shape(x)[axis]
    if length == 0:
        return x
    combine = logic.not_equal if type_of(x).dtype.kind == "b" else ew.subtract
    return combine(_part(x, axis, 1, length), _part(x, axis, 0, length - 1))


def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """``numpy.diff``: the n-th differences along an axis."""
    a = as_value(a)
    if n < 0:
        raise ValueError(f"diff: the order must be at least 0, got {n}")
    if n == 0:
        return a
    axis = normal_axis("diff", axis, ndim(a))
    edges = [_edge(prepend, a, axis), a, _edge(append, a, axis)]
    given = [part for part in edges if part is not None]
    x = concatenate(*given, axis=axis) if len(given) > 1 else a
    for _ in range(n):
        x = _steps(x, axis)
    return x


def _edge(values: Any, a: Any, axis: int) -> Any:
    if values is None:
        return None
    values = strong(as_value(values))
    if ndim(values):
        return values
    one = tuple(1 if k == axis else n for k, n in enumerate(shape(a)))
    return broadcast_to(values, shape=one)


def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """``numpy.ediff1d``: the differences of neighbours, in one line."""
    ary = as_value(ary)
    flat = reshape(ary, shape=(type_of(ary).size,))
    begin, end = _end("to_begin", to_begin, flat), _end("to_end", to_end, flat)
    parts = [part for part in (begin, _steps(flat, 0), end) if part is not None]
    return concatenate(*parts, axis=0) if len(parts) > 1 else parts[0]


def _end(name: str, values: Any, flat: Any) -> Any:
    """What `ediff1d` puts at one of its ends, in the dtype of the differences."""
    if values is None:
        return None
    values, dtype = strong(as_value(values)), type_of(flat).dtype
    if not np.can_cast(type_of(values).dtype, dtype, "same_kind"):
        raise DTypeError(
            explain(
                "ediff1d",
                f"got {name} of {type_of(values)} for differences of {dtype_name(dtype)}",
                "Convert it with astype.",
            )
        )
    return reshape(cast(values, dtype), shape=(type_of(values).size,))


def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """``numpy.gradient``: second-order differences inside, one-sided ones at the edges."""
    f = as_value(f)
    f = cast(f, inexact_dtype(type_of(f).dtype))
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = normal_axes("gradient", None, ndim(f))
    if axis is not None:
        axes = tuple(normal_axis("gradient", item, ndim(f)) for item in given)
    spacings = _spacings(varargs, len(axes))
    if edge_order not in (1, 2):
        raise ValueError(f"gradient: edge_order must be 1 or 2, got {edge_order}")
    results = [
        _gradient_along(f, _real(as_value(spacing)), k, edge_order)
        for k, spacing in zip(axes, spacings, strict=True)
    ]
    order = ("K", f.node) if isinstance(f, Views) else UNKNOWN
    results = [in_order(result, order) for result in results]
    return results[0] if len(results) == 1 else tuple(results)


def _real(spacing: Any) -> Any:
    """Coordinates as floats: differences of unsigned integers would wrap around."""
    return spacing if type_of(spacing).inexact else cast(spacing, np.float64)


def _spacings(given: Sequence[Any], count: int) -> Sequence[Any]:
    if not given:
        return [1.0] * count
    if len(given) == 1 and (ndim(as_value(given[0])) == 0 or count == 1):
        return list(given) * count
    if len(given) == count:
        return given
    raise TypeError(f"gradient() takes no spacing, one, or one for each of {count} axes")


def _gradient_along(f: Any, spacing: Any, axis: int, edge_order: int) -> Any:
    length = shape(f)[axis]
    if length < edge_order + 1:
        raise ShapeError(
            explain(
                "gradient",
                f"axis {axis} has {length} elements, expected at least {edge_order + 1}",
                "Use edge_order=1, or more samples.",
            )
        )
    if ndim(spacing) == 0:
        slopes = _steps(f, axis) / spacing
        inner = (_part(f, axis, 2, length) - _part(f, axis, 0, length - 2)) / (2 * spacing)
        first, last = 0.5, 0.5
    elif shape(spacing) == (length,):
        across = tuple(length - 1 if k == axis else 1 for k in range(ndim(f)))
        widths = reshape(_steps(spacing, 0), shape=across)
        slopes = _steps(f, axis) / widths
        before, after = _neighbours(widths, axis)
        left, right = _neighbours(slopes, axis)
        inner = (left * after + right * before) / (before + after)
        first, last = _edge_weights(before, after, axis)
    else:
        raise ShapeError(
            explain(
                "gradient",
                f"got coordinates of shape {shape(spacing)} for axis {axis} of length {length}",
                "Give a number, or one coordinate for each element.",
            )
        )
    edges = _edge_slopes(slopes, axis, edge_order, first, last)
    return cast(concatenate(edges[0], inner, edges[1], axis=axis), type_of(f).dtype)


def _neighbours(x: Any, axis: int) -> tuple[Any, Any]:
    """All elements along the axis but the last, and all but the first."""
    length = shape(x)[axis]
    return _part(x, axis, 0, length - 1), _part(x, axis, 1, length)


def _edge_weights(before: Any, after: Any, axis: int) -> tuple[Any, Any]:
    """The share of the outer interval in the outer two, at both edges."""
    count = shape(before)[axis]
    first = before / (before + after)
    last = after / (before + after)
    return _part(first, axis, 0, min(1, count)), _part(last, axis, max(count - 1, 0), count)


def _edge_slopes(slopes: Any, axis: int, edge_order: int, *weights: Any) -> tuple[Any, Any]:
    """One-sided slopes; of the second order those of the parabola through three points."""
    count = shape(slopes)[axis]
    first, last = _part(slopes, axis, 0, 1), _part(slopes, axis, count - 1, count)
    if edge_order == 2:
        first, last = (
            first + (first - _part(slopes, axis, 1, 2)) * weights[0],
            last + (last - _part(slopes, axis, count - 2, count - 1)) * weights[1],
        )
    return first, last


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """``numpy.trapezoid``: the integral of samples by the trapezoidal rule."""
    y = as_value(y)
    axis = normal_axis("trapezoid", axis, ndim(y))
    widths = as_value(dx)
    if x is not None:
        x = as_value(x)
        if ndim(x) == 1:
            widths = reshape(
                _steps(x, 0),
                shape=tuple(shape(x)[0] - 1 if k == axis else 1 for k in range(ndim(y))),
            )
        else:
            widths = _steps(x, normal_axis("trapezoid", axis - ndim(y), ndim(x)))
    length = shape(y)[axis]
    heights = _part(y, axis, 1, length) + _part(y, axis, 0, length - 1)
    return reduce_sum(widths * heights / 2.0, axes=(axis,))


def interp(
    x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None
) -> Any:
    """``numpy.interp``: piecewise linear interpolation, differentiable in x, xp and fp."""
    x, xp, fp = as_value(x), as_value(xp), as_value(fp)
    if ndim(xp) != 1 or shape(xp) != shape(fp) or shape(xp)[0] == 0:
        raise ShapeError(
            explain(
                "interp",
                f"got xp of shape {shape(xp)} and fp of shape {shape(fp)}",
                "Give two lines of the same length, at least 1.",
            )
        )
    wide = np.dtype(np.complex128 if type_of(fp).dtype.kind == "c" else np.float64)
    x, xp, fp = cast(x, np.float64), cast(xp, np.float64), cast(fp, wide)
    if period is not None:
        x, xp, fp = _periodic(x, xp, fp, period)
    return _interpolate(x, xp, fp, left, right)


def _interpolate(x: Any, xp: Any, fp: Any, left: Any, right: Any) -> Any:
    count = shape(xp)[0]
    low, high = index(fp, key=(0,)), index(fp, key=(count - 1,))
    below, above = logic.less(x, index(xp, key=(0,))), logic.greater(x, index(xp, key=(count - 1,)))
    if count == 1:
        result = broadcast_to(low, shape=shape(x))
    else:
        place = _interval(x, xp)
        start, stop = gather(xp, place, axes=(0,)), gather(xp, place + 1, axes=(0,))
        f_start, f_stop = gather(fp, place, axes=(0,)), gather(fp, place + 1, axes=(0,))
        slope = ew.over(f_stop - f_start, stop - start)
        # at a point fp itself is met exactly, whatever the slope
        at_start, at_end = logic.equal(x, start), logic.equal(x, stop)
        forward, backward = f_start + slope * (x - start), f_stop + slope * (x - stop)
        # beside an infinity the line may be known from one end only
        inside = ew.select(logic.isnan(forward), backward, forward)
        inside = ew.select(at_start, f_start + ew.scale(slope, x - start), inside)
        inside = ew.select(at_end, f_stop + ew.scale(slope, x - stop), inside)
        both = logic.logical_and(logic.equal(f_start, f_stop), logic.isnan(slope))
        inside = ew.select(both, f_start, inside)
        result = ew.select(below, low, ew.select(above, high, inside))
    if left is not None:
        result = ew.select(below, as_value(left), result)
    if right is not None:
        result = ew.select(above, as_value(right), result)
    return cast(result, type_of(fp).dtype)


def _interval(x: Any, xp: Any) -> Any:
    """The number of the interval of `xp` that holds x; the first or last one outside."""
    inner = index(xp, key=((1, shape(xp)[0] - 1, 1),))
    return searchsorted(inner, x, side="right", leading=0)


def _periodic(x: Any, xp: Any, fp: Any, period: Any) -> tuple[Any, Any, Any]:
    """Arguments brought into one period, which is extended by one sample on each side."""
    period = abs(float(period))
    x, xp = ew.remainder(x, period), ew.remainder(xp, period)
    places = concrete(xp)
    if places is None:
        raise DTypeError(explain("interp", "period= needs xp values that are known while tracing"))
    order = np.argsort(places)
    count = len(order)
    xp, fp = gather(xp, order, axes=(0,)), gather(fp, order, axes=(0,))
    ends = [_part(xp, 0, count - 1, count) - period, xp, _part(xp, 0, 0, 1) + period]
    values = [_part(fp, 0, count - 1, count), fp, _part(fp, 0, 0, 1)]
    return x, concatenate(*ends, axis=0), concatenate(*values, axis=0)


def unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: Any = 2 * np.pi) -> Any:
    """``numpy.unwrap``: jumps larger than half a period removed by adding whole periods."""
    p = as_value(p)
    axis = normal_axis("unwrap", axis, ndim(p))
    dtype = result_dtype(type_of(p), type_of(period))
    limit = period / 2 if discont is None else discont
    jumps = _steps(p, axis)
    whole = dtype.kind in "iu"
    half = period // 2 if whole else period / 2
    ambiguous = type_of(period).dtype.kind not in "iu" or period % 2 == 0
    wrapped = ew.remainder(jumps + half, period) - half
    if ambiguous:
        at_edge = logic.logical_and(logic.equal(wrapped, -half), logic.greater(jumps, 0))
        wrapped = ew.select(at_edge, half, wrapped)
    correction = ew.select(logic.less(ew.absolute(jumps), limit), 0, wrapped - jumps)
    first = _part(p, axis, 0, 1)
    correction = _whole_periods(logic.stop_gradient(correction), period)
    shifts = cumsum(correction, axis=axis, reverse=False)
    rest = _part(p, axis, 1, shape(p)[axis]) + shifts
    return cast(concatenate(cast(first, dtype), cast(rest, dtype), axis=axis), dtype)


def _whole_periods(correction: Any, period: Any) -> Any:
    """So many whole periods as the number is, which grow as the period does."""
    if not isinstance(period, Traced) or not type_of(period).inexact:
        return correction
    fixed = logic.stop_gradient(period)
    return correction + correction / fixed * (period - fixed)
