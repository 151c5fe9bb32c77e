"""Sums, means, extremes, and their running forms.

Every function takes `axis` (one, several, or None for all) and `keepdims` as NumPy does. Equal
extremes share the derivative equally; the derivative of `std` where all elements are equal is 0.
"""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from ..errors import DTypeError, OptionError, ShapeError, explain
from ..ops import cumulative as running
from ..ops import elementwise as ew
from ..ops import logic
from ..ops.layout import broadcast_to, reduce_sum, reshape
from ..ops.op import Op
from ..ops.positions import within
from ..ops.reductions import argmax as argmax_op
from ..ops.reductions import argmin as argmin_op
from ..ops.reductions import (
    reduce_all,
    reduce_any,
    reduce_max,
    reduce_min,
    reduce_prod,
)
from ..ops.structure import concatenate
from ..types import Function, type_of
from .common import as_value, cast, named_dtype, ndim, normal_axes, normal_axis, shape

__all__ = [
    "all", "amax", "amin", "any", "argmax", "argmin", "count_nonzero",
    "cummax", "cummin", "cumprod", "cumsum", "cumulative_prod", "cumulative_sum",
    "logcumsumexp", "max", "mean", "min", "nanargmax", "nanargmin", "nancumprod",
    "nancumsum", "nanmax", "nanmean", "nanmin", "nanprod", "nanstd", "nansum", "nanvar", "prod",
    "ptp", "std", "sum", "var",
]  # fmt: skip


def keep_axes(result: Any, x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    """The result of a reduction of `x`, with length-1 axes in place of the reduced ones."""
    if not keepdims:
        return result
    return reshape(result, shape=tuple(1 if k in axes else n for k, n in enumerate(shape(x))))


def _axes(name: str, axis: Any, x: Any) -> tuple[int, ...]:
    """The axes of a reduction; a number takes the axes 0 and -1 for none, as NumPy's ufuncs do."""
    return () if _of_number(axis, x) else normal_axes(name, axis, ndim(x))


def _of_number(axis: Any, x: Any) -> bool:
    return axis is not None and not ndim(x) and axis in (0, -1)


def _reduce(name: str, op: Op, x: Any, axis: Any, keepdims: bool, **params: Any) -> Any:
    axes = _axes(name, axis, x)
    result = op(x, axes=axes, **params)
    return keep_axes(result, x, axes, keepdims) if keepdims else result


def _everywhere(where: Any) -> bool:
    return where is None or where is True


def _included(x: Any, where: Any, fill: Any) -> Any:
    """`x`, with `fill` where it does not count."""
    return x if _everywhere(where) else ew.select(_mask(x, where), x, fill)


def _mask(x: Any, where: Any) -> Any:
    """`where` as an array of bool; it may have fewer axes than `x`, but makes it no larger."""
    mask, lengths = cast(as_value(where), bool), shape(x)
    own = shape(mask)
    if len(own) > len(lengths) or builtins.any(
        mine not in (1, n) for mine, n in zip(own[::-1], lengths[::-1], strict=False)
    ):
        raise ShapeError(
            explain(
                "where",
                f"got a mask of shape {own} for an array of shape {lengths}",
                "Each axis of the mask, counted from the right, must be equal or 1.",
            )
        )
    return mask


def _like(initial: Any, x: Any) -> Any:
    """The value to start from, in the dtype in which is reduced, as NumPy has it."""
    return cast(as_value(initial), type_of(x).dtype)


def count_of(x: Any, axes: tuple[int, ...], where: Any) -> Any:
    """How many elements each result is made of: an int, or an array with the axes kept."""
    if _everywhere(where):
        return math.prod([shape(x)[axis] for axis in axes])
    mask = broadcast_to(_mask(x, where), shape=shape(x))
    return keep_axes(reduce_sum(mask, axes=axes), x, axes, True)


# ---------------------------------------------------------------- sums and products


def sum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    *,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """``numpy.sum``: the sum of the elements over the axes."""
    if dtype is None and initial is None and where is None:  # mostly
        return _reduce("sum", reduce_sum, as_value(a), axis, keepdims)
    x = _included(cast(as_value(a), dtype), where, 0)
    result = cast(_reduce("sum", reduce_sum, x, axis, keepdims), dtype)
    return result if initial is None else ew.add(result, _like(initial, result))


def prod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    *,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """``numpy.prod``: the product of the elements over the axes."""
    x = _included(cast(as_value(a), dtype), where, 1)
    result = cast(_reduce("prod", reduce_prod, x, axis, keepdims), dtype)
    return result if initial is None else ew.multiply(result, _like(initial, result))


def _inexact(a: Any, dtype: Any) -> Any:
    """`a` in the dtype, or else in one that has fractions."""
    x = as_value(a)
    if dtype is None and type_of(x).inexact:
        return x
    return cast(x, dtype or np.float64)


def mean(
    a: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False, where: Any = None
) -> Any:
    """``numpy.mean``: the mean over the axes; of integers in float64."""
    x = _inexact(a, dtype)
    axes = _axes("mean", axis, x)
    total = keep_axes(reduce_sum(_included(x, where, 0), axes=axes), x, axes, keepdims)
    count = count_of(x, axes, where)
    if dtype is None:
        return _divided(total, count)
    total = cast(total, dtype)
    if not type_of(total).inexact:
        total = cast(total, np.float64)  # small integers may not hold the count
    return cast(_divided(total, count), dtype)


def _divided(total: Any, count: Any) -> Any:
    """total / count in the dtype of the total."""
    if isinstance(count, (int, float)):
        return ew.divide(total, count)
    count = reshape(count, shape=shape(total))
    return ew.divide(total, cast(count, type_of(total).dtype))


def var(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    *,
    ddof: float = 0,
    keepdims: bool = False,
    where: Any = None,
    mean: Any = None,
    correction: float | None = None,
) -> Any:
    """``numpy.var``: the mean squared distance from the mean, over ``n - ddof``."""
    if dtype is not None and named_dtype(dtype).kind in "biu":
        return _refuse_fractions("var", dtype)
    x = _inexact(a, dtype)
    axes = _axes("var", axis, x)
    count = count_of(x, axes, where)
    if mean is None:
        total = keep_axes(reduce_sum(_included(x, where, 0), axes=axes), x, axes, True)
        mean = _divided(total, count)
    squares = _squared(ew.subtract(x, mean))
    total = keep_axes(reduce_sum(_included(squares, where, 0), axes=axes), x, axes, keepdims)
    freedom = count - _freedom("var", ddof, correction)
    if isinstance(freedom, (int, float)):
        return ew.divide(total, freedom if freedom > 0 else 0)
    return _divided(total, ew.maximum(freedom, 0))


def _freedom(name: str, ddof: float, correction: float | None) -> float:
    """What is taken off the number of elements, under either of its names."""
    if correction is None:
        return ddof
    if ddof:
        raise OptionError(
            explain(name, f"got ddof={ddof} and correction={correction}", "Give one of the two.")
        )
    return correction


def _refuse_fractions(name: str, dtype: Any) -> Any:
    raise DTypeError(
        explain(
            name,
            f"got dtype={named_dtype(dtype)}, which holds no fractions: the mean would be cut off "
            "before the distances from it are taken",
            "Leave dtype out, and convert the result with astype.",
        )
    )


def _squared(x: Any) -> Any:
    if type_of(x).dtype.kind == "c":
        return ew.add(ew.square(ew.real(x)), ew.square(ew.imag(x)))
    return ew.square(x)


def std(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    *,
    ddof: float = 0,
    keepdims: bool = False,
    where: Any = None,
    mean: Any = None,
    correction: float | None = None,
) -> Any:
    """``numpy.std``: the square root of `var`."""
    ddof = _freedom("std", ddof, correction)
    return ew.sqrt(var(a, axis, dtype, ddof=ddof, keepdims=keepdims, where=where, mean=mean))


# ---------------------------------------------------------------- extremes and truth


def _extreme(
    name: str, op: Op, pairwise: Op, a: Any, axis: Any, keepdims: bool, initial: Any, where: Any
) -> Any:
    x = as_value(a)
    if initial is None:
        if not _everywhere(where):
            raise ShapeError(
                explain(name, "got `where` without `initial`", "Give the result for no element.")
            )
        return _reduce(name, op, x, axis, keepdims, ties="equal")
    axes, initial = _axes(name, axis, x), _like(initial, x)
    if count_of(x, axes, None) == 0:
        return broadcast_to(initial, shape=shape(sum(x, axes, keepdims=keepdims)))
    x = _included(x, where, initial)
    return pairwise(_reduce(name, op, x, axes, keepdims, ties="equal"), initial)


def max(
    a: Any, axis: Any = None, *, keepdims: bool = False, initial: Any = None, where: Any = None
) -> Any:
    """``numpy.max``: the largest element; equal ones share the derivative."""
    return _extreme("max", reduce_max, ew.maximum, a, axis, keepdims, initial, where)


def min(
    a: Any, axis: Any = None, *, keepdims: bool = False, initial: Any = None, where: Any = None
) -> Any:
    """``numpy.min``: the smallest element; equal ones share the derivative."""
    return _extreme("min", reduce_min, ew.minimum, a, axis, keepdims, initial, where)


amax = max
amin = min


def ptp(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """``numpy.ptp``: the largest minus the smallest element."""
    x = as_value(a)
    return ew.subtract(max(x, axis, keepdims=keepdims), min(x, axis, keepdims=keepdims))


def argmax(a: Any, axis: int | None = None, *, keepdims: bool = False) -> Any:
    """``numpy.argmax``: where the largest element is; the first of equal ones."""
    return _reduce("argmax", argmax_op, as_value(a), axis, keepdims)


def argmin(a: Any, axis: int | None = None, *, keepdims: bool = False) -> Any:
    """``numpy.argmin``: where the smallest element is; the first of equal ones."""
    return _reduce("argmin", argmin_op, as_value(a), axis, keepdims)


def any(a: Any, axis: Any = None, *, keepdims: bool = False, where: Any = None) -> Any:
    """``numpy.any``: whether an element is true (not zero)."""
    return _reduce("any", reduce_any, _included(as_value(a), where, False), axis, keepdims)


def all(a: Any, axis: Any = None, *, keepdims: bool = False, where: Any = None) -> Any:
    """``numpy.all``: whether all elements are true (not zero)."""
    return _reduce("all", reduce_all, _included(as_value(a), where, True), axis, keepdims)


def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """``numpy.count_nonzero``: how many elements are not zero."""
    return _reduce("count_nonzero", reduce_sum, logic.not_equal(as_value(a), 0), axis, keepdims)


# ---------------------------------------------------------------- without NaN


def _without_nan(a: Any, fill: Any) -> Any:
    x = as_value(a)
    return ew.select(logic.isnan(x), fill, x) if type_of(x).inexact else x


def _numbers(x: Any, where: Any = None) -> Any:
    """Which elements count: those of `where` that are not NaN."""
    if not type_of(x).inexact:
        return where
    numbers = logic.logical_not(logic.isnan(x))
    return numbers if _everywhere(where) else logic.logical_and(numbers, as_value(where))


def nansum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    *,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """``numpy.nansum``: the sum of the elements that are not NaN."""
    x = _without_nan(a, 0)
    return sum(x, axis, dtype, keepdims=keepdims, initial=initial, where=where)


def nanprod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    *,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """``numpy.nanprod``: the product of the elements that are not NaN."""
    x = _without_nan(a, 1)
    return prod(x, axis, dtype, keepdims=keepdims, initial=initial, where=where)


def nanmean(
    a: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False, where: Any = None
) -> Any:
    """``numpy.nanmean``: the mean of the elements that are not NaN."""
    x = as_value(a)
    return mean(x, axis, dtype, keepdims=keepdims, where=_numbers(x, where))


def nanvar(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    *,
    ddof: float = 0,
    keepdims: bool = False,
    where: Any = None,
    mean: Any = None,
    correction: float | None = None,
) -> Any:
    """``numpy.nanvar``: the variance of the elements that are not NaN; NaN where too few are."""
    x = as_value(a)
    ddof = _freedom("nanvar", ddof, correction)
    numbers = _numbers(x, where)
    result = var(x, axis, dtype, ddof=ddof, keepdims=keepdims, where=numbers, mean=mean)
    if not type_of(x).inexact:
        return result
    count = count_of(x, _axes("nanvar", axis, x), numbers)
    freedom = reshape(ew.subtract(count, ddof), shape=shape(result))
    return ew.select(logic.greater(freedom, 0), result, np.nan)


def nanstd(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    *,
    ddof: float = 0,
    keepdims: bool = False,
    where: Any = None,
    mean: Any = None,
    correction: float | None = None,
) -> Any:
    """``numpy.nanstd``: the square root of `nanvar`."""
    ddof = _freedom("nanstd", ddof, correction)
    return ew.sqrt(nanvar(a, axis, dtype, ddof=ddof, keepdims=keepdims, where=where, mean=mean))


def _nan_extreme(
    op: Function, pairwise: Op, worst: float, a: Any, axis: Any, keepdims: bool, **options: Any
) -> Any:
    x, initial, where = as_value(a), options["initial"], options["where"]
    if not type_of(x).inexact or (initial is None and not _everywhere(where)):
        return op(x, axis, keepdims=keepdims, **options)
    numbers = _numbers(x, where)
    start = None if initial is None else worst
    result = op(ew.select(numbers, x, worst), axis, keepdims=keepdims, initial=start)
    result = ew.select(any(numbers, axis, keepdims=keepdims), result, np.nan)
    return result if initial is None else pairwise(result, _like(initial, x))


def nanmax(
    a: Any, axis: Any = None, *, keepdims: bool = False, initial: Any = None, where: Any = None
) -> Any:
    """``numpy.nanmax``: the largest of the elements that are not NaN."""
    options = {"initial": initial, "where": where}
    return _nan_extreme(max, ew.fmax, -np.inf, a, axis, keepdims, **options)


def nanmin(
    a: Any, axis: Any = None, *, keepdims: bool = False, initial: Any = None, where: Any = None
) -> Any:
    """``numpy.nanmin``: the smallest of the elements that are not NaN."""
    options = {"initial": initial, "where": where}
    return _nan_extreme(min, ew.fmin, np.inf, a, axis, keepdims, **options)


def nanargmax(a: Any, axis: int | None = None, *, keepdims: bool = False) -> Any:
    """``numpy.nanargmax``: where the largest of the elements is that are not NaN.

    >>> import numpy as np, wengert.numpy as wnp
    >>> wnp.nanargmax(np.array([1.0, np.nan, 3.0, 2.0]))
    np.int64(2)
    """
    return _nan_place("nanargmax", argmax, -np.inf, as_value(a), axis, keepdims)


def nanargmin(a: Any, axis: int | None = None, *, keepdims: bool = False) -> Any:
    """``numpy.nanargmin``: where the smallest of the elements is that are not NaN.

    >>> import numpy as np, wengert.numpy as wnp
    >>> wnp.nanargmin(np.array([2.0, np.nan, 3.0, 1.0]))
    np.int64(3)
    """
    return _nan_place("nanargmin", argmin, np.inf, as_value(a), axis, keepdims)


def _nan_place(
    name: str, find: Function, worst: float, x: Any, axis: int | None, keepdims: bool
) -> Any:
    place = find(_without_nan(x, worst), axis, keepdims=keepdims)
    if not type_of(x).inexact:
        return place
    axes = _axes(name, axis, x)
    # a line of NaN alone has no such place, and one out of range is an error
    place = ew.select(any(_numbers(x), axis, keepdims=keepdims), place, -1)
    return within(place, length=count_of(x, axes, None), name=name)


# ---------------------------------------------------------------- running


def _accumulate(name: str, op: Op, a: Any, axis: Any, dtype: Any = None) -> Any:
    x = cast(as_value(a), dtype)
    if axis is None or _of_number(axis, x):
        x, axis = reshape(x, shape=(type_of(x).size,)), 0
    result = op(x, axis=normal_axis(name, axis, ndim(x)), reverse=False)
    return cast(result, dtype)


def cumsum(a: Any, axis: int | None = None, dtype: Any = None) -> Any:
    """``numpy.cumsum``: the sum of each element and all before it."""
    return _accumulate("cumsum", running.cumsum, a, axis, dtype)


def cumprod(a: Any, axis: int | None = None, dtype: Any = None) -> Any:
    """``numpy.cumprod``: the product of each element and all before it."""
    return _accumulate("cumprod", running.cumprod, a, axis, dtype)


def nancumsum(a: Any, axis: int | None = None, dtype: Any = None) -> Any:
    """``numpy.nancumsum``: `cumsum` with NaN counted as 0."""
    return cumsum(_without_nan(a, 0), axis, dtype)


def nancumprod(a: Any, axis: int | None = None, dtype: Any = None) -> Any:
    """``numpy.nancumprod``: `cumprod` with NaN counted as 1."""
    return cumprod(_without_nan(a, 1), axis, dtype)


def cummax(a: Any, axis: int | None = None) -> Any:
    """The largest element so far; the derivative follows the first that reached it.

    >>> import wengert.numpy as wnp
    >>> wnp.cummax([1.0, 3.0, 2.0, 5.0])
    array([1., 3., 3., 5.])
    """
    return _accumulate("cummax", running.cummax, a, axis)


def cummin(a: Any, axis: int | None = None) -> Any:
    """The smallest element so far; the derivative follows the first that reached it.

    >>> import wengert.numpy as wnp
    >>> wnp.cummin([4.0, 3.0, 5.0, 1.0])
    array([4., 3., 3., 1.])
    """
    return _accumulate("cummin", running.cummin, a, axis)


def logcumsumexp(a: Any, axis: int | None = None) -> Any:
    """``log(cumsum(exp(a)))`` without overflow.

    >>> import wengert.numpy as wnp
    >>> wnp.logcumsumexp([1000.0, 1000.0])
    array([1000.        , 1000.69314718])
    """
    return _accumulate("logcumsumexp", running.logcumsumexp, a, axis)


def _with_initial(
    name: str,
    function: Function,
    start: int,
    x: Any,
    axis: Any,
    dtype: Any,
    include: bool,
) -> Any:
    x = as_value(x)
    if axis is None:
        if ndim(x) != 1:
            raise ShapeError(
                explain(name, f"got an array of {ndim(x)} axes and no axis", "Say which: axis=...")
            )
        axis = 0
    axis = normal_axis(name, axis, ndim(x))
    result = function(x, axis, dtype)
    if not include:
        return result
    lengths = shape(result)
    edge = np.full((*lengths[:axis], 1, *lengths[axis + 1 :]), start, type_of(result).dtype)
    return concatenate(edge, result, axis=axis)


def cumulative_sum(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Any:
    """``numpy.cumulative_sum``: `cumsum`, on request with the 0 it starts from."""
    return _with_initial("cumulative_sum", cumsum, 0, x, axis, dtype, include_initial)


def cumulative_prod(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Any:
    """``numpy.cumulative_prod``: `cumprod`, on request with the 1 it starts from."""
    return _with_initial("cumulative_prod", cumprod, 1, x, axis, dtype, include_initial)
