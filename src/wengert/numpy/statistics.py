"""Weighted means and covariances."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ShapeError, explain
from ..ops import elementwise as ew
from ..ops.indexing import gather, index
from ..ops.layout import broadcast_to, permute, reshape
from ..ops.structure import concatenate
from ..types import inexact_dtype, result_dtype, type_of
from .common import as_value, cast, ndim, normal_axes, normal_axis, shape
from .reductions import count_of, mean, sum

__all__ = ["average", "corrcoef", "cov"]


def average(
    a: Any,
    axis: Any = None,
    weights: Any = None,
    returned: bool = False,
    *,
    keepdims: bool = False,
) -> Any:
    """``numpy.average``: the mean, weighted; with `returned` also the sum of the weights."""
    x = as_value(a)
    axes = normal_axes("average", axis, ndim(x))
    if weights is None:
        result = mean(x, axes, keepdims=keepdims)
        total = np.full(shape(result), count_of(x, axes, None), type_of(result).dtype)[()]
        return (result, total) if returned else result
    weights = aligned_weights("average", x, as_value(weights), axis)
    dtype = result_dtype(type_of(x), type_of(weights))
    dtype = inexact_dtype(dtype) if type_of(x).inexact else np.result_type(dtype, np.float64)
    total = sum(broadcast_to(weights, shape=shape(x)), axes, dtype, keepdims=keepdims)
    weighted = ew.multiply(cast(x, dtype), cast(weights, dtype))
    result = ew.divide(sum(weighted, axes, keepdims=keepdims), total)
    return (result, total) if returned else result


def aligned_weights(name: str, x: Any, weights: Any, axis: Any) -> Any:
    """The weights with their axes where those of `x` are that they belong to."""
    if shape(weights) == shape(x):
        return weights
    given = () if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,)
    order = [normal_axis(name, item, ndim(x)) for item in given]
    if axis is None or shape(weights) != tuple(shape(x)[k] for k in order):
        raise ShapeError(
            explain(
                name,
                f"got weights of shape {shape(weights)} for an array of shape {shape(x)}, "
                f"axis={axis}",
                "Give weights of the array's shape, or of its lengths along `axis`.",
            )
        )
    weights = permute(weights, axes=tuple(int(k) for k in np.argsort(order)))
    return reshape(weights, shape=tuple(n if k in order else 1 for k, n in enumerate(shape(x))))


# ---------------------------------------------------------------- covariance


def cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Any = None,
    aweights: Any = None,
    *,
    dtype: Any = None,
) -> Any:
    """``numpy.cov``: the covariances of the rows (of the columns with ``rowvar=False``)."""
    if ddof is None:
        ddof = 0 if bias else 1
    if ddof != int(ddof):
        raise ValueError(f"cov: ddof must be an integer, got {ddof}")
    rows = _variables(as_value(m), None if y is None else as_value(y), rowvar, dtype)
    if shape(rows)[0] == 0:
        return np.zeros((0, 0))
    weights = None
    for given in (fweights, aweights):
        if given is not None:
            given = cast(as_value(given), np.float64)
            weights = given if weights is None else ew.multiply(weights, given)
    centre, total = average(rows, 1, weights, returned=True, keepdims=True)
    total = index(total, key=(0, 0))
    if weights is None:
        freedom = shape(rows)[1] - ddof
    elif ddof == 0 or aweights is None:
        freedom = ew.subtract(total, ddof)
    else:
        spread = sum(ew.multiply(weights, as_value(aweights)))
        freedom = ew.subtract(total, ew.divide(ew.multiply(spread, ddof), total))
    rows = cast(ew.subtract(rows, centre), type_of(rows).dtype)
    right = rows if weights is None else ew.multiply(rows, weights)
    products = rows @ ew.conjugate(permute(right, axes=(1, 0)))
    # with no degree of freedom left the covariances are infinite, without data NaN
    factor = ew.divide(1.0, ew.maximum(freedom, 0))
    result = ew.multiply(products, cast(factor, type_of(products).dtype))
    return reshape(result, shape=()) if shape(result) == (1, 1) else result


def _variables(m: Any, y: Any, rowvar: bool, dtype: Any) -> Any:
    """A matrix with one variable in each row."""
    given = [m] if y is None else [m, y]
    if dtype is None:
        dtype = np.result_type(np.float64, *[type_of(x).dtype for x in given])
    rows = []
    for x in given:
        if ndim(x) > 2:
            raise ShapeError(
                explain("cov", f"got an array of shape {shape(x)}", "Give one or two axes.")
            )
        x = cast(x, dtype)
        if ndim(x) < 2:
            x = reshape(x, shape=(1, type_of(x).size))
        elif not rowvar:
            x = permute(x, axes=(1, 0))
        rows.append(x)
    return rows[0] if y is None else concatenate(*rows, axis=0)


def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Any:
    """``numpy.corrcoef``: the covariances divided by the standard deviations."""
    covariance = cov(x, y, rowvar, dtype=dtype)
    if ndim(covariance) == 0:
        return ew.divide(covariance, covariance)
    count = shape(covariance)[0]
    diagonal = gather(covariance, np.arange(count), np.arange(count), axes=(0, 1))
    deviation = ew.sqrt(ew.real(diagonal))
    result = ew.divide(covariance, reshape(deviation, shape=(count, 1)))
    result = ew.divide(result, reshape(deviation, shape=(1, count)))
    if type_of(result).dtype.kind == "c":
        return result
    # rounding may leave the interval
    return ew.minimum(ew.maximum(result, -1.0), 1.0)
