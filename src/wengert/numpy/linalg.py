"""Linear algebra under NumPy's names (``numpy.linalg``), on stacks of matrices.

Beyond NumPy there are `solve_triangular` and `expm`. `cholesky`, `eigh` and `eigvalsh` take
the Hermitian part ``(a + aᴴ) / 2`` of their matrix, which is the matrix itself where it is
Hermitian, and their gradients are Hermitian; with ``UPLO`` given, one triangle is read as in
NumPy. Singular matrices raise an error that is also NumPy's ``LinAlgError``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import DTypeError, WengertError, explain
from ..ops import decompositions, least_squares, matrix_functions
from ..ops import linalg as ops
from ..ops.elementwise import absolute, select
from ..ops.layout import convert, permute, reduce_sum, reshape
from ..ops.linalg import H, T, check_matrix, lower_triangle, symmetric_part, upper_triangle
from ..ops.linalg import LinearAlgebraError as LinAlgError
from ..ops.logic import equal, greater, isnan, logical_and, logical_not, not_equal
from ..ops.op import Traced
from ..ops.reductions import reduce_any
from ..trace.lying import in_order, in_order_of
from ..trace.orders import UNKNOWN
from ..trace.tracer import concrete
from ..types import type_of
from . import contractions, structure
from .common import as_value, ndim, normal_axis, shape
from .contractions import matmul, tensordot, vecdot
from .norms import matrix_norm, norm, singular_values, vector_norm
from .reductions import max as _largest
from .structure import matrix_transpose

__all__ = [
    "LinAlgError", "cholesky", "cond", "cross", "det", "diagonal", "eig", "eigh", "eigvals",
    "eigvalsh", "expm", "inv", "lstsq", "matmul", "matrix_norm", "matrix_power", "matrix_rank",
    "matrix_transpose", "multi_dot", "norm", "outer", "pinv", "qr", "slogdet", "solve",
    "solve_triangular", "svd", "svdvals", "tensordot", "tensorinv", "tensorsolve", "trace",
    "vecdot", "vector_norm",
]  # fmt: skip


class EigResult(NamedTuple):
    """What `eig` returns."""

    eigenvalues: Any
    eigenvectors: Any


class EighResult(NamedTuple):
    """What `eigh` returns."""

    eigenvalues: Any
    eigenvectors: Any


class QRResult(NamedTuple):
    """What `qr` returns."""

    Q: Any
    R: Any


class SlogdetResult(NamedTuple):
    """What `slogdet` returns."""

    sign: Any
    logabsdet: Any


class SVDResult(NamedTuple):
    """What `svd` returns."""

    U: Any
    S: Any
    Vh: Any


class _OptionError(WengertError, ValueError):
    """An option that is not one of those offered."""


def _option_error(name: str, option: str, got: Any, offered: str) -> _OptionError:
    return _OptionError(explain(name, f"got {option}={got!r}", f"Use {offered}."))


# ---------------------------------------------------------------- solving


def _solve_with(op: Any, a: Any, b: Any, **params: Any) -> Any:
    a, b = as_value(a), as_value(b)
    if ndim(b) != 1:
        return op(a, b, **params)
    solution = op(a, reshape(b, shape=(*shape(b), 1)), **params)
    return reshape(solution, shape=shape(solution)[:-1])


def solve(a: Any, b: Any) -> Any:
    """``numpy.linalg.solve``: x with ``a @ x = b``."""
    return _solve_with(ops.solve, a, b, transposed=False)


def solve_triangular(
    a: Any, b: Any, trans: int | str = 0, lower: bool = False, unit_diagonal: bool = False
) -> Any:
    """x with ``a @ x = b``, where only one triangle of `a` is read.

    `trans` is 0 (or "N"), 1 ("T": ``a.T @ x = b``) or 2 ("C": the conjugate transpose).

    >>> solve_triangular(np.array([[2.0, 0.0], [1.0, 4.0]]), np.array([2.0, 9.0]), lower=True)
    array([1., 2.])
    """
    a = as_value(a)
    kind = {0: 0, 1: 1, 2: 2, "N": 0, "T": 1, "C": 2}.get(trans)
    if kind is None:
        raise _option_error("solve_triangular", "trans", trans, "0, 1 or 2 ('N', 'T' or 'C')")
    if kind:
        a, lower = (T(a) if kind == 1 else H(a)), not lower
    params = {"lower": bool(lower), "unit_diagonal": bool(unit_diagonal)}
    return _solve_with(ops.triangular_solve, a, b, **params)


def inv(a: Any) -> Any:
    """``numpy.linalg.inv``: the inverse."""
    return ops.inv(as_value(a))


_INDEX = np.dtype(np.intp)
_UNSET: Any = object()


def pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = _UNSET) -> Any:
    """``numpy.linalg.pinv``: the pseudo-inverse; differentiable where the rank is constant."""
    a = as_value(a)
    if rcond is None and rtol is not _UNSET:
        field = ops.field_dtype("pinv", type_of(a))
        rcond = max(shape(a)[-2:]) * np.finfo(field).eps if rtol is None else rtol
    a = symmetric_part(a) if hermitian else a
    cutoff = least_squares.LEAST_RATIO if rcond is None else as_value(rcond)
    return least_squares.pinv(a, cutoff, hermitian=bool(hermitian))


def lstsq(a: Any, b: Any, rcond: float | None = None) -> Any:
    """``numpy.linalg.lstsq``: solution, residuals, rank, singular values.

    The solution is differentiable where the rank of `a` is constant.
    """
    a, b = as_value(a), as_value(b)
    if ndim(a) != 2 or ndim(b) not in (1, 2):
        raise ops.MatrixShapeError(
            explain(
                "lstsq",
                f"got arrays of shapes {shape(a)} and {shape(b)}, expected a matrix and a matrix "
                "or vector",
                "Use vmap for a stack of problems.",
            )
        )
    columns = b if ndim(b) == 2 else reshape(b, shape=(*shape(b), 1))
    x = least_squares.lstsq(a, columns, rcond=None if rcond is None else float(rcond))
    s = svdvals(a)
    rank = convert(_count_above(s, rcond, max(shape(a))), dtype=np.dtype(np.int32))
    m, n = shape(a)
    full = concrete(rank) in (n, None)
    residuals: Any = np.zeros(0, type_of(s).dtype)
    if m > n and full:
        residuals = reduce_sum(absolute(columns - matmul(a, x)) ** 2, axes=(0,))
    return (x if ndim(b) == 2 else reshape(x, shape=(n,))), residuals, rank, s


def _count_above(s: Any, rcond: float | None, size: int) -> Any:
    """How many of the descending values are above ``rcond`` times the first."""
    if shape(s)[-1] == 0:
        return np.zeros(shape(s)[:-1], np.intp)[()]
    eps = float(np.finfo(type_of(s).dtype).eps)
    limit = eps * size if rcond is None else eps if rcond == -1 else float(rcond)
    return reduce_sum(greater(s, s[..., :1] * limit), axes=(ndim(s) - 1,))


def tensorsolve(a: Any, b: Any, axes: Any = None) -> Any:
    """``numpy.linalg.tensorsolve``: x with ``tensordot(a, x, x.ndim) = b``."""
    a, b = as_value(a), as_value(b)
    if axes is not None:
        moved = [normal_axis("tensorsolve", axis, ndim(a)) for axis in axes]
        rest = [axis for axis in range(ndim(a)) if axis not in moved]
        a = permute(a, axes=(*rest, *moved))
    unknown = shape(a)[ndim(b) :]
    size = int(np.prod(unknown))
    if size != type_of(b).size:
        raise ops.MatrixShapeError(
            explain(
                "tensorsolve",
                f"got a of shape {shape(a)} and b of shape {shape(b)}",
                "The axes of a after those of b must have as many elements as b.",
            )
        )
    flat = reshape(a, shape=(size, size))
    return reshape(solve(flat, reshape(b, shape=(size,))), shape=unknown)


def tensorinv(a: Any, ind: int = 2) -> Any:
    """``numpy.linalg.tensorinv``: the inverse with regard to ``tensordot(a, b, ind)``."""
    a = as_value(a)
    if ind <= 0:
        raise _option_error("tensorinv", "ind", ind, "a positive number of axes")
    first, rest = shape(a)[:ind], shape(a)[ind:]
    flat = reshape(a, shape=(int(np.prod(first)), int(np.prod(rest))))
    return reshape(inv(flat), shape=(*rest, *first))


# ---------------------------------------------------------------- functions of a matrix


def det(a: Any) -> Any:
    """``numpy.linalg.det``: the determinant; its derivatives exist at singular matrices too."""
    return matrix_functions.det(as_value(a))


def slogdet(a: Any) -> SlogdetResult:
    """``numpy.linalg.slogdet``: sign and logarithm of the absolute value of the determinant."""
    return SlogdetResult(*matrix_functions.slogdet(as_value(a)))


def expm(a: Any) -> Any:
    """The matrix exponential ``1 + a + a @ a / 2 + ...``.

    >>> expm(np.array([[0.0, 1.0], [0.0, 0.0]]))
    array([[1., 1.],
           [0., 1.]])
    """
    return matrix_functions.expm(as_value(a))


def matrix_power(a: Any, n: int) -> Any:
    """``numpy.linalg.matrix_power``: the product of n copies; of the inverse for negative n."""
    a = as_value(a)
    check_matrix("matrix_power", type_of(a), square=True)
    try:
        power = n.__index__()
    except AttributeError:
        raise DTypeError(
            explain("matrix_power", f"got the exponent {n!r}", "Use a whole number.")
        ) from None
    if power == 0:
        eye = np.eye(shape(a)[-1], dtype=type_of(a).dtype)
        return np.array(np.broadcast_to(eye, shape(a)))
    square = a if power > 0 else inv(a)
    power = abs(power)
    result = None
    while power:
        if power % 2:
            result = square if result is None else matmul(result, square)
        power //= 2
        square = matmul(square, square) if power else square
    return result


def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    """``numpy.linalg.matrix_rank``: the number of singular values above a tolerance."""
    A = as_value(A)
    if ndim(A) < 2:
        return convert(reduce_any(not_equal(A, 0), axes=tuple(range(ndim(A)))), dtype=_INDEX)
    s = absolute(eigvalsh(A)) if hermitian else svdvals(A)
    if tol is None:
        eps = max(shape(A)[-2:]) * float(np.finfo(type_of(s).dtype).eps)
        largest = structure.expand_dims(_largest(s, axis=-1, initial=0), -1)
        tol = largest * (eps if rtol is None else structure.expand_dims(as_value(rtol), -1))
    else:
        tol = structure.expand_dims(as_value(tol), -1)
    return reduce_sum(greater(s, tol), axes=(ndim(s) - 1,))


def cond(x: Any, p: Any = None) -> Any:
    """``numpy.linalg.cond``: the norm times the norm of the inverse; inf without an inverse."""
    x = as_value(x)
    if not isinstance(x, Traced):
        return np.linalg.cond(x, p)
    if 0 in shape(x)[-2:]:
        raise ops.LinearAlgebraError(explain("cond", f"got empty matrices: {type_of(x)}"))
    if p in (None, 2, -2):
        s = svdvals(x)
        with np.errstate(divide="ignore", invalid="ignore"):
            result = s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    else:
        # a pivot of the elimination is exactly 0: the inverse would not be there
        singular = equal(slogdet(x).sign, 0)
        identity = np.eye(shape(x)[-1], dtype=type_of(x).dtype)
        regular = select(singular[..., None, None], identity, x)
        result = norm(x, p, (-2, -1)) * norm(inv(regular), p, (-2, -1))
        result = select(singular, np.inf, result)
    unknown = reduce_any(isnan(x), axes=(ndim(x) - 2, ndim(x) - 1))
    return select(logical_and(isnan(result), logical_not(unknown)), np.inf, result)


# ---------------------------------------------------------------- factorisations


def cholesky(a: Any, /, *, upper: bool = False) -> Any:
    """``numpy.linalg.cholesky``: the lower triangular L with a = L Lᴴ, or Lᴴ if `upper`."""
    factor = decompositions.cholesky(as_value(a))
    return in_order_of(H(factor), a) if upper else factor


def qr(a: Any, mode: str = "reduced") -> Any:
    """``numpy.linalg.qr``: modes ``"reduced"``, ``"complete"`` and ``"r"``."""
    if mode not in ("reduced", "complete", "r"):
        raise _option_error("qr", "mode", mode, "'reduced', 'complete' or 'r'")
    result = QRResult(*decompositions.qr(as_value(a), complete=mode == "complete"))
    return result.R if mode == "r" else result


def _hermitian(name: str, a: Any, UPLO: str | None) -> Any:
    """The Hermitian matrix that one triangle describes; all of `a` when UPLO is None."""
    a = as_value(a)
    if UPLO is None:
        return a
    if UPLO.upper() not in ("L", "U"):
        raise _option_error(name, "UPLO", UPLO, "'L' or 'U'")
    check_matrix(name, type_of(a), square=True)
    if UPLO.upper() == "L":
        return lower_triangle(a) + H(lower_triangle(a, -1))
    return upper_triangle(a) + H(upper_triangle(a, 1))


def eigh(a: Any, UPLO: str | None = None) -> EighResult:
    """``numpy.linalg.eigh``: eigenvalues and eigenvectors of a Hermitian matrix."""
    return EighResult(*decompositions.eigh(_hermitian("eigh", a, UPLO)))


def eigvalsh(a: Any, UPLO: str | None = None) -> Any:
    """``numpy.linalg.eigvalsh``: the eigenvalues of a Hermitian matrix, ascending."""
    return decompositions.eigh(_hermitian("eigvalsh", a, UPLO))[0]


def eig(a: Any) -> EigResult:
    """``numpy.linalg.eig``: eigenvalues and eigenvectors; always complex on traced values."""
    a = as_value(a)
    if isinstance(a, Traced):
        return EigResult(*decompositions.eig(a))
    check_matrix("eig", type_of(a), square=True)
    return EigResult(*np.linalg.eig(a))


def eigvals(a: Any) -> Any:
    """``numpy.linalg.eigvals``: the eigenvalues; always complex on traced values."""
    return eig(a).eigenvalues


def svd(
    a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False
) -> Any:
    """``numpy.linalg.svd``: singular values and vectors.

    Differentiable with ``full_matrices=False``, or for square matrices.
    """
    a = symmetric_part(as_value(a)) if hermitian else as_value(a)
    if not compute_uv:
        return svdvals(a)
    parts = decompositions.svd(a, full_matrices=bool(full_matrices))
    return SVDResult(*[in_order(part, UNKNOWN) for part in parts] if hermitian else parts)


def svdvals(x: Any, /) -> Any:
    """``numpy.linalg.svdvals``: the singular values, descending."""
    return singular_values(as_value(x))


# ---------------------------------------------------------------- products and parts


def multi_dot(arrays: Sequence[Any], *, out: Any = None) -> Any:
    """``numpy.linalg.multi_dot``: the product of a chain of matrices in the cheapest order."""
    matrices = [as_value(array) for array in arrays]
    if len(matrices) < 2:
        raise _option_error("multi_dot", "arrays", len(matrices), "at least two arrays")
    lengths = [shape(m)[0] if ndim(m) == 2 else 1 for m in matrices[:1]]
    lengths += [shape(m)[0] for m in matrices[1:]]
    lengths += [shape(matrices[-1])[1] if ndim(matrices[-1]) == 2 else 1]
    splits = _cheapest_splits(lengths)

    def product(first: int, last: int) -> Any:
        if first == last:
            return matrices[first]
        split = splits[first, last]
        return matmul(product(first, split), product(split + 1, last))

    return product(0, len(matrices) - 1)


def _cheapest_splits(lengths: Sequence[int]) -> dict[tuple[int, int], int]:
    """Where to split each run of a matrix chain so that the multiplications are fewest."""
    count = len(lengths) - 1
    cost = {(i, i): 0 for i in range(count)}
    splits: dict[tuple[int, int], int] = {}
    for span in range(1, count):
        for first in range(count - span):
            last = first + span
            cost[first, last], splits[first, last] = min(
                (
                    cost[first, split]
                    + cost[split + 1, last]
                    + lengths[first] * lengths[split + 1] * lengths[last + 1],
                    split,
                )
                for split in range(first, last)
            )
    return splits


def outer(x1: Any, x2: Any, /) -> Any:
    """``numpy.linalg.outer``: all products of elements of two vectors."""
    x1, x2 = as_value(x1), as_value(x2)
    if ndim(x1) != 1 or ndim(x2) != 1:
        raise ops.MatrixShapeError(
            explain(
                "linalg.outer",
                f"got arrays of shapes {shape(x1)} and {shape(x2)}, expected vectors",
                "Use wnp.outer, which flattens.",
            )
        )
    return contractions.outer(x1, x2)


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """``numpy.linalg.cross``: the cross product of vectors of three elements."""
    x1, x2 = as_value(x1), as_value(x2)
    lengths = [shape(x)[normal_axis("cross", axis, ndim(x))] for x in (x1, x2)]
    if lengths != [3, 3]:
        raise ops.MatrixShapeError(
            explain(
                "linalg.cross",
                f"got vectors of {lengths[0]} and {lengths[1]} elements, expected 3",
                "Check the axis.",
            )
        )
    return contractions.cross(x1, x2, axis=axis)


def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """``numpy.linalg.diagonal``: the diagonal of each matrix."""
    return structure.diagonal(x, offset, -2, -1)


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """``numpy.linalg.trace``: the sum of the diagonal of each matrix."""
    return structure.trace(x, offset, -2, -1, dtype=dtype)
