"""Products: dot, matmul, tensordot, convolve. All label axes and hand over to `contract`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import DTypeError, ShapeError, explain
from ..ops.contract import (
    INNER,
    MATRIX_MATRIX,
    MATRIX_VECTOR,
    OUTER,
    STACK_STACK,
    VECTOR_MATRIX,
    Labels,
    Spec,
    contract,
)
from ..ops.elementwise import add, conjugate, multiply
from ..ops.indexing import embed, index
from ..ops.layout import permute, reshape
from ..ops.structure import concatenate
from ..ops.windows import windows_of
from ..trace.lying import in_order_of
from ..types import Function, type_of
from .common import as_factors, as_value, cast, ndim, normal_axis, shape
from .elementwise import loop_dtypes
from .labels import einsum, product

__all__ = [
    "convolve", "correlate", "cross", "dot", "einsum", "inner", "kron", "matmul", "matvec",
    "outer", "tensordot", "vdot", "vecdot", "vecmat",
]  # fmt: skip


def _conjugated(x: Any) -> Any:
    return conjugate(x) if type_of(x).dtype.kind == "c" else x


_RANKS: dict[tuple[int, int], Spec] = {
    (1, 1): INNER,
    (2, 1): MATRIX_VECTOR,
    (1, 2): VECTOR_MATRIX,
    (2, 2): MATRIX_MATRIX,
}


def _small_product(x: Any, y: Any) -> Spec | None:
    """The spec for vectors and matrices that fit, without a look at anything else."""
    try:
        a, b = x.shape, y.shape
    except AttributeError:  # a list or a number
        return None
    spec = _RANKS.get((len(a), len(b)))
    return spec if spec is not None and a[-1] == b[0] else None


def _stack_product(x: Any, y: Any) -> Spec | None:
    """The spec for two equally long stacks of matrices that fit."""
    try:
        (n, _, k), (m, j, _) = x.shape, y.shape
    except (AttributeError, ValueError):
        return None
    return STACK_STACK if n == m and k == j else None


def dot(a: Any, b: Any) -> Any:
    """``numpy.dot``: the last axis of a against the last but one of b."""
    spec = _small_product(a, b)
    if spec is not None:
        return contract(a, b, spec=spec)
    a, b = as_factors(a, b)
    if not shape(a) or not shape(b):
        return multiply(a, b)
    a_labels, b_labels, out = _dot_labels(len(shape(a)), len(shape(b)))
    return product("dot", a, a_labels, b, b_labels, out)


@functools.cache
def _dot_labels(a: int, b: int) -> Spec:
    rows, summed = tuple(range(1, a)), (0,)
    columns = tuple(range(a, a + b - 1))
    return rows + summed, columns[:-1] + summed + columns[-1:], rows + columns


def matmul(x: Any, y: Any, /, *, axes: Any = None, dtype: Any = None) -> Any:
    """``numpy.matmul``: the product of matrices, of stacks of them, or of vectors."""
    if dtype is not None:
        x, y = _for_loop(np.matmul, x, y, dtype)
    if axes is not None:
        left, right = (2 if ndim(as_value(factor)) > 1 else 1 for factor in (x, y))
        return _along("matmul", matmul, x, y, axes, (left, right, left + right - 2))
    spec = _small_product(x, y) or _stack_product(x, y)
    if spec is not None:
        return contract(x, y, spec=spec)
    x, y = as_value(x), as_value(y)
    a, b = shape(x), shape(y)
    if not a or not b:
        raise ShapeError(
            explain(
                "matmul",
                f"got arrays of shapes {a} and {b}, expected at least one axis each",
                "Use * to multiply by a number.",
            )
        )
    x_core = (1, 0) if len(a) > 1 else (0,)
    y_core = (0, 2) if len(b) > 1 else (0,)
    out = x_core[:-1] + y_core[1:]
    return _stacked("matmul", x, x_core, y, y_core, out)


def _stacked(name: str, x: Any, x_core: Labels, y: Any, y_core: Labels, out: Labels) -> Any:
    """The product of stacks: axes before the core axes broadcast."""
    a, b = shape(x), shape(y)
    if len(a) < len(x_core) or len(b) < len(y_core):
        raise ShapeError(
            explain(
                name,
                f"got arrays of shapes {a} and {b}, expected at least {len(x_core)} and "
                f"{len(y_core)} axes",
            )
        )
    x_stack = tuple(range(len(x_core) - len(a), 0))
    y_stack = tuple(range(len(y_core) - len(b), 0))
    stack = min(x_stack, y_stack, key=lambda labels: -len(labels))
    return product(name, x, x_stack + x_core, y, y_stack + y_core, stack + out)


def _for_loop(ufunc: np.ufunc, x: Any, y: Any, dtype: Any) -> list[Any]:
    """The factors of a product that is computed in a dtype."""
    factors = as_value(x), as_value(y)
    dtypes = loop_dtypes(ufunc, factors, dtype, "same_kind")
    return [cast(factor, own) for factor, own in zip(factors, dtypes, strict=False)]


def vecdot(
    x1: Any,
    x2: Any,
    /,
    *,
    axis: int = -1,
    axes: Any = None,
    keepdims: bool = False,
    dtype: Any = None,
) -> Any:
    """``numpy.vecdot``: the inner products of vectors along an axis; the first is conjugated.

    >>> import numpy as np, wengert.numpy as wnp
    >>> wnp.vecdot(np.ones((2, 3)), np.arange(2.0), axes=[0, 0])
    array([1., 1., 1.])
    """
    if dtype is not None:
        x1, x2 = _for_loop(np.vecdot, x1, x2, dtype)
    if axes is not None:
        return _along("vecdot", vecdot, x1, x2, axes, (1, 1, 0))
    x1, x2 = (_axis_last("vecdot", as_value(x), axis) for x in (x1, x2))
    result = _stacked("vecdot", _conjugated(x1), (0,), x2, (0,), ())
    if not keepdims:
        return result
    place = normal_axis("vecdot", axis, ndim(result) + 1)
    return reshape(result, shape=(*shape(result)[:place], 1, *shape(result)[place:]))


def _axis_last(name: str, x: Any, axis: int) -> Any:
    return _axes_last(name, x, (axis,))


def _axes_last(name: str, x: Any, axes: tuple[int, ...]) -> Any:
    """`x` with the axes at its end, in the order in which they are named."""
    rank = len(shape(x))
    axes = tuple(normal_axis(name, axis, rank) for axis in axes)
    order = (*[k for k in range(rank) if k not in axes], *axes)
    if len(set(order)) != rank or len(order) != rank:
        raise ShapeError(explain(name, f"got the same axis twice in {axes}"))
    return x if order == tuple(range(rank)) else permute(x, axes=order)


def _along(
    name: str, product_of: Function, x: Any, y: Any, axes: Any, ranks: tuple[int, int, int]
) -> Any:
    """The product along the axes that are named: of both factors, and where those of it go."""
    given = [tuple(one) if np.iterable(one) else (one,) for one in axes]
    if len(given) == 2 and ranks[2] == 0:
        given.append(())
    if tuple(map(len, given)) != ranks:
        raise ShapeError(
            explain(
                name,
                f"got axes={axes!r}",
                f"Give three tuples of {ranks[0]}, {ranks[1]} and {ranks[2]} axes: of both "
                "factors and of the result.",
            )
        )
    x, y = (_axes_last(name, as_value(v), own) for v, own in zip((x, y), given, strict=False))
    result = product_of(x, y)
    rank = ndim(result)
    places = [normal_axis(name, axis, rank) for axis in given[2]]
    source = iter(range(rank - len(places)))
    last = {place: rank - len(places) + k for k, place in enumerate(places)}
    order = tuple(last[k] if k in last else next(source) for k in range(rank))
    return result if order == tuple(range(rank)) else permute(result, axes=order)


def matvec(x1: Any, x2: Any, /, *, axes: Any = None, dtype: Any = None) -> Any:
    """``numpy.matvec``: matrices times vectors.

    >>> import numpy as np, wengert.numpy as wnp
    >>> wnp.matvec(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, 10.0]))
    array([21., 43.])
    """
    if dtype is not None:
        x1, x2 = _for_loop(np.matvec, x1, x2, dtype)
    if axes is not None:
        return _along("matvec", matvec, x1, x2, axes, (2, 1, 1))
    return _stacked("matvec", as_value(x1), (1, 0), as_value(x2), (0,), (1,))


def vecmat(x1: Any, x2: Any, /, *, axes: Any = None, dtype: Any = None) -> Any:
    """``numpy.vecmat``: vectors (conjugated) times matrices.

    >>> import numpy as np, wengert.numpy as wnp
    >>> wnp.vecmat(np.array([1.0, 10.0]), np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([31., 42.])
    """
    if dtype is not None:
        x1, x2 = _for_loop(np.vecmat, x1, x2, dtype)
    if axes is not None:
        return _along("vecmat", vecmat, x1, x2, axes, (1, 2, 1))
    return _stacked("vecmat", _conjugated(as_value(x1)), (0,), as_value(x2), (0, 1), (1,))


def vdot(a: Any, b: Any) -> Any:
    """``numpy.vdot``: the inner product of all elements; the first array is conjugated."""
    a, b = map(_flat, as_factors(a, b))
    return product("vdot", _conjugated(a), (0,), b, (0,), ())


def _flat(x: Any) -> Any:
    own = type_of(x)
    return x if len(own.shape) == 1 else reshape(x, shape=(own.size,))


def inner(a: Any, b: Any) -> Any:
    """``numpy.inner``: the last axis of a against the last axis of b."""
    a, b = as_factors(a, b)
    if not shape(a) or not shape(b):
        return multiply(a, b)
    rank = len(shape(a))
    rows = tuple(range(1, rank))
    columns = tuple(range(rank, rank + len(shape(b)) - 1))
    return product("inner", a, (*rows, 0), b, (*columns, 0), rows + columns)


def outer(a: Any, b: Any) -> Any:
    """``numpy.outer``: every element of a times every element of b."""
    return contract(*map(_flat, as_factors(a, b)), spec=OUTER)


def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """``numpy.tensordot``: sum over the given axes of a against those of b."""
    a, b = as_factors(a, b)
    rank_a, rank_b = len(shape(a)), len(shape(b))
    if isinstance(axes, (int, np.integer)):
        if not 0 <= axes <= min(rank_a, rank_b):
            raise ShapeError(
                explain("tensordot", f"cannot sum over {axes} axes of {shape(a)} and {shape(b)}")
            )
        given: tuple[Any, ...] = (range(rank_a - int(axes), rank_a), range(int(axes)))
    else:
        given = tuple((side,) if isinstance(side, (int, np.integer)) else side for side in axes)
    a_axes = [normal_axis("tensordot", axis, rank_a) for axis in given[0]]
    b_axes = [normal_axis("tensordot", axis, rank_b) for axis in given[1]]
    if len(a_axes) != len(b_axes):
        raise ShapeError(
            explain("tensordot", f"got {len(a_axes)} axes of a but {len(b_axes)} axes of b")
        )
    a_labels = tuple(range(rank_a))
    b_labels = tuple(
        a_axes[b_axes.index(axis)] if axis in b_axes else rank_a + axis for axis in range(rank_b)
    )
    out = tuple(label for label in a_labels if label not in a_axes)
    out += tuple(label for label in b_labels if label >= rank_a)
    return product("tensordot", a, a_labels, b, b_labels, out)


def kron(a: Any, b: Any) -> Any:
    """``numpy.kron``: the Kronecker product."""
    a, b = as_factors(a, b)
    rank = max(len(shape(a)), len(shape(b)))
    a_shape, b_shape = ((1,) * (rank - len(shape(x))) + shape(x) for x in (a, b))
    a_labels, b_labels = tuple(range(rank)), tuple(range(rank, 2 * rank))
    pairs = tuple(label for pair in zip(a_labels, b_labels, strict=True) for label in pair)
    result = contract(
        reshape(a, shape=a_shape), reshape(b, shape=b_shape), spec=(a_labels, b_labels, pairs)
    )
    total = tuple(n * m for n, m in zip(a_shape, b_shape, strict=True))
    return in_order_of(reshape(result, shape=total), a, b)


def cross(
    a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Any:
    """``numpy.cross``: the vector product of vectors with three components."""
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = _axis_last("cross", as_value(a), axisa), _axis_last("cross", as_value(b), axisb)
    if shape(a)[-1] != 3 or shape(b)[-1] != 3:
        raise ShapeError(
            explain(
                "cross",
                f"got {shape(a)[-1]} and {shape(b)[-1]} components, expected 3 and 3",
                "Give vectors of the plane a third component that is 0.",
            )
        )
    (a0, a1, a2), (b0, b1, b2) = _components(a), _components(b)
    parts = [a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0]
    common = shape(parts[0])
    place = normal_axis("cross", axisc, len(common) + 1)
    with_axis = (*common[:place], 1, *common[place:])
    return concatenate(*[reshape(part, shape=with_axis) for part in parts], axis=place)


def _components(x: Any) -> list[Any]:
    whole = tuple((0, length, 1) for length in shape(x)[:-1])
    return [index(x, key=(*whole, number)) for number in range(3)]


# ---------------------------------------------------------------- one-dimensional convolution


def convolve(a: Any, v: Any, mode: str = "full") -> Any:
    """``numpy.convolve``: the convolution of two sequences."""
    a, v = (reshape(x, shape=(1,)) if shape(x) == () else x for x in (as_value(a), as_value(v)))
    a, v = _sequence("convolve", a), _sequence("convolve", v)
    if shape(v)[0] > shape(a)[0]:
        a, v = v, a
    return _slide("convolve", a, _reversed(v), mode)


def correlate(a: Any, v: Any, mode: str = "valid") -> Any:
    """``numpy.correlate``: the cross-correlation of two sequences; v is conjugated."""
    a, v = _sequence("correlate", a), _conjugated(_sequence("correlate", v))
    if shape(v)[0] > shape(a)[0]:
        return _reversed(_slide("correlate", v, a, mode))
    return _slide("correlate", a, v, mode)


def _sequence(name: str, x: Any) -> Any:
    x = as_value(x)
    if len(shape(x)) != 1 or shape(x)[0] == 0:
        raise ShapeError(
            explain(name, f"got an array of shape {shape(x)}, expected a sequence", "Ravel it.")
        )
    return x


def _reversed(x: Any) -> Any:
    return index(x, key=((shape(x)[0] - 1, -1, -1),))


_PADDING: dict[str, Callable[[int], tuple[int, int]]] = {
    "full": lambda size: (size - 1, size - 1),
    "same": lambda size: (size // 2, size - size // 2 - 1),
    "valid": lambda size: (0, 0),
}


# The most elements that the derivative of a convolution may write out at once.
_LARGEST = 2**24


def _slide(name: str, a: Any, v: Any, mode: str) -> Any:
    """The products of `v` with every window of `a`, the longer one."""
    if mode not in _PADDING:
        raise DTypeError(explain(name, f"got the mode {mode!r}", "Use full, same or valid."))
    length, size = shape(a)[0], shape(v)[0]
    before, after = _PADDING[mode](size)
    if before or after:
        place = (before, before + length, 1)
        a = embed(a, key=(place,), shape=(before + length + after,))
    return _slide_inside(a, v)


def _slide_inside(a: Any, v: Any) -> Any:
    """The products of `v` with the windows of `a`.

    The derivative writes the windows out; a long `v` is taken in pieces to bound their size.
    """
    size = shape(v)[0]
    positions = shape(a)[0] - size + 1
    piece = max(_LARGEST // positions, 1)
    total = None
    for start in range(0, size, piece):
        stop = min(start + piece, size)
        whole = stop - start == size
        part = a if whole else index(a, key=((start, positions + stop - 1, 1),))
        factor = v if whole else index(v, key=((start, stop, 1),))
        term = contract(windows_of(part, (stop - start,)), factor, spec=MATRIX_VECTOR)
        total = term if total is None else add(total, term)
    return total
