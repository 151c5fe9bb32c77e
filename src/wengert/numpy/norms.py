"""Norms of vectors and matrices.

At the zero vector, where a norm has a corner, the derivatives are 0 to second order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import WengertError, explain
from ..ops.decompositions import svd
from ..ops.elementwise import absolute, imag, real, sqrt, square
from ..ops.indexing import index
from ..ops.layout import convert, permute, reduce_sum, reshape
from ..ops.logic import not_equal
from ..ops.reductions import reduce_max, reduce_min
from ..types import ArrayType, inexact_dtype, type_of
from .common import as_value, ndim, normal_axes, normal_axis, shape


class NormError(WengertError, ValueError):
    """An `ord` or number of axes for which no norm is defined."""


def singular_values(x: Any) -> Any:
    """The singular values, descending."""
    return svd(x, full_matrices=False)[1]


def _as_field(x: Any) -> Any:
    x = as_value(x)
    own = type_of(x)
    return convert(x, dtype=inexact_dtype(own.dtype)) if not own.inexact else x


def _squares(x: Any) -> Any:
    if type_of(x).dtype.kind != "c":
        return square(x)
    return square(real(x)) + square(imag(x))


def _keep(result: Any, own: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> Any:
    if not keepdims:
        return result
    kept = tuple(1 if axis in axes else length for axis, length in enumerate(own))
    return reshape(result, shape=kept)


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """``numpy.linalg.norm``: norms of vectors (one axis) and of matrices (two axes)."""
    x = _as_field(x)
    rank = ndim(x)
    if axis is None:
        axes = tuple(range(rank))
        if ord is None or (ord in ("f", "fro") and rank == 2):
            result = sqrt(reduce_sum(_squares(x), axes=axes))
            return _keep(result, shape(x), axes, keepdims)
    else:
        given = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
        axes = tuple(normal_axis("norm", item, rank) for item in given)
        normal_axes("norm", axes, rank)
    if len(axes) == 1:
        return _keep(_vector_norm(x, ord, axes), shape(x), axes, keepdims)
    if len(axes) == 2:
        return _keep(_matrix_norm(x, ord, axes), shape(x), axes, keepdims)
    raise NormError(
        explain(
            "norm",
            f"got {len(axes)} axes with ord={ord!r}, expected one (a vector) or two (a matrix)",
            "Name them with axis=, or leave ord out for the root of the sum of squares.",
        )
    )


def _vector_norm(x: Any, ord: Any, axes: tuple[int, ...]) -> Any:
    if ord is None or ord == 2:
        return sqrt(reduce_sum(_squares(x), axes=axes))
    if isinstance(ord, str):
        raise NormError(
            explain("norm", f"got ord={ord!r} for vectors", "Use a number, inf or -inf.")
        )
    size = absolute(x)
    if ord in (np.inf, -np.inf):
        reduce = reduce_max if ord > 0 else reduce_min
        return reduce(size, axes=axes, ties="equal")
    if ord == 0:
        count = convert(not_equal(x, 0), dtype=type_of(size).dtype)
        return reduce_sum(count, axes=axes)
    if ord == 1:
        return reduce_sum(size, axes=axes)
    power = int(ord) if float(ord).is_integer() else float(ord)
    return reduce_sum(size**power, axes=axes) ** (1 / power)


def _matrix_norm(x: Any, ord: Any, axes: tuple[int, ...]) -> Any:
    rows, columns = axes
    if ord in (None, "f", "fro"):
        return sqrt(reduce_sum(_squares(x), axes=tuple(sorted(axes))))
    if ord in (1, -1, np.inf, -np.inf):
        summed, compared = (rows, columns) if abs(ord) == 1 else (columns, rows)
        sums = reduce_sum(absolute(x), axes=(summed,))
        reduce = reduce_max if ord > 0 else reduce_min
        return reduce(sums, axes=(compared - (compared > summed),), ties="equal")
    if ord in (2, -2, "nuc"):
        rest = [axis for axis in range(ndim(x)) if axis not in axes]
        s = singular_values(permute(x, axes=(*rest, rows, columns)))
        # the absolute value gives zero singular values the subgradient 0
        return _sum_last(absolute(s)) if ord == "nuc" else _one_of(s, 0 if ord > 0 else -1)
    raise NormError(
        explain(
            "norm",
            f"got ord={ord!r} for matrices",
            "Use 'fro', 'nuc', 1, -1, 2, -2, inf or -inf.",
        )
    )


def _sum_last(x: Any) -> Any:
    return reduce_sum(x, axes=(ndim(x) - 1,))


def _one_of(s: Any, place: int) -> Any:
    own: ArrayType = type_of(s)
    if own.shape[-1] == 0:
        raise NormError(explain("norm", "got empty matrices", "Check the size first."))
    key = (*[(0, length, 1) for length in own.shape[:-1]], place % own.shape[-1])
    return index(s, key=key)


def vector_norm(
    x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: float | None = 2
) -> Any:
    """``numpy.linalg.vector_norm``: the norm over any axes, taken together as one vector."""
    x = _as_field(x)
    axes = normal_axes("vector_norm", axis, ndim(x))
    return _keep(_vector_norm(x, ord, axes), shape(x), axes, keepdims)


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """``numpy.linalg.matrix_norm``: the norm of each matrix."""
    return norm(x, ord, (-2, -1), keepdims)
