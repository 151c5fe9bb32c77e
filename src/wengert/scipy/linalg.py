"""Linear algebra under SciPy's names (``scipy.linalg``), on stacks of matrices.

What `wengert.numpy.linalg` has is taken from there. As in SciPy, `cholesky` and `eigh` read one
triangle of their matrix. Options of SciPy that say how to compute and not what (`overwrite_a`,
`check_finite`, `lapack_driver`, ...) are taken and not needed.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .. import numpy as wnp
from ..errors import OptionError, ShapeError, explain
from ..numpy import linalg
from ..numpy.linalg import det, expm, inv, norm, svdvals
from ..ops import equations, matrix_roots
from ..ops import linalg as ops
from ..trace.tracer import concrete
from ..transforms import scan, stop_gradient
from ..types import Function, type_of

__all__ = [
    "LinAlgError", "block_diag", "cho_factor", "cho_solve", "cholesky", "circulant", "det", "eig",
    "eigh", "eigvals", "eigvalsh", "expm", "hankel", "inv", "logm", "lstsq", "lu", "lu_factor",
    "lu_solve", "norm", "pinv", "polar", "qr", "schur", "solve", "solve_banded",
    "solve_sylvester", "solve_triangular", "sqrtm", "svd", "svdvals", "toeplitz",
]  # fmt: skip

LinAlgError = linalg.LinAlgError
_HOW = {
    "check_finite", "driver", "lapack_driver", "overwrite_a", "overwrite_ab", "overwrite_b",
    "overwrite_c", "work",
}  # fmt: skip


def _lapacks(function: Function) -> Function:
    """Take the options that say how SciPy computes; they change no result."""

    @functools.wraps(function)
    def taking(*args: Any, **options: Any) -> Any:
        return function(*args, **{k: v for k, v in options.items() if k not in _HOW})

    return taking


def _choice(name: str, option: str, got: Any, known: tuple[Any, ...]) -> None:
    if got not in known:
        words = ", ".join(map(repr, known))
        raise OptionError(explain(name, f"got {option}={got!r}", f"Use one of {words}."))


# ---------------------------------------------------------------- solving


@_lapacks
def solve(a: Any, b: Any, lower: bool = False, *, assume_a: Any = None) -> Any:
    """``scipy.linalg.solve``: x with ``a @ x = b``; `assume_a` as "pos" or "sym" reads a triangle.

    >>> solve(np.array([[2.0, 0.0], [0.0, 4.0]]), np.array([2.0, 2.0]))
    array([1. , 0.5])
    """
    kinds = (None, "gen", "general", "sym", "symmetric", "her", "hermitian", "pos")
    _choice("solve", "assume_a", assume_a, (*kinds, "positive definite"))
    if assume_a in kinds[:3]:
        return linalg.solve(a, b)
    if assume_a in ("sym", "symmetric"):
        a = ops.lower_triangle(a) + ops.T(ops.lower_triangle(a, -1)) if lower else (
            ops.upper_triangle(a) + ops.T(ops.upper_triangle(a, 1))
        )  # fmt: skip
        return linalg.solve(a, b)
    if assume_a in ("her", "hermitian"):
        return linalg.solve(_hermitian(a, lower), b)
    return cho_solve(cho_factor(a, lower), b)


@_lapacks
def solve_triangular(
    a: Any, b: Any, trans: int | str = 0, lower: bool = False, unit_diagonal: bool = False
) -> Any:
    """``scipy.linalg.solve_triangular``: x with ``a @ x = b``; only one triangle of a is read.

    >>> solve_triangular(np.array([[2.0, 0.0], [1.0, 4.0]]), np.array([2.0, 9.0]), lower=True)
    array([1., 2.])
    """
    return linalg.solve_triangular(a, b, trans, lower, unit_diagonal)


@_lapacks
def solve_banded(l_and_u: tuple[int, int], ab: Any, b: Any) -> Any:
    """``scipy.linalg.solve_banded``: x with ``a @ x = b`` for a matrix given by its diagonals.

    The rows of `ab` are the diagonals, the uppermost first: ``ab[u + i - j, j] = a[i, j]``. What a
    diagonal has outside of the matrix is not read.

    >>> ab = np.array([[0.0, -1.0, -1.0], [2.0, 2.0, 2.0], [-1.0, -1.0, 0.0]])
    >>> solve_banded((1, 1), ab, np.array([1.0, 0.0, 1.0]))
    array([1., 1., 1.])
    """
    lower, upper = (int(number) for number in l_and_u)
    return linalg._solve_with(equations.banded_solve, ab, b, lower=lower, upper=upper)


def solve_sylvester(a: Any, b: Any, q: Any) -> Any:
    """``scipy.linalg.solve_sylvester``: x with ``a @ x + x @ b = q``.

    >>> solve_sylvester(np.array([[2.0]]), np.array([[1.0]]), np.array([[6.0]]))
    array([[2.]])
    """
    return equations.sylvester(wnp.asarray(a), wnp.asarray(b), wnp.asarray(q))


@_lapacks
def lstsq(a: Any, b: Any, cond: float | None = None) -> Any:
    """``scipy.linalg.lstsq``: solution, residuals, rank, singular values.

    >>> x, *_ = lstsq(np.array([[1.0], [1.0]]), np.array([1.0, 3.0]))
    >>> x
    array([2.])
    """
    eps = float(np.finfo(ops.field_dtype("lstsq", type_of(a), type_of(b))).eps)
    x, residuals, rank, s = linalg.lstsq(a, b, eps if cond is None else cond)
    m, n = np.shape(a)
    if m > n and np.shape(residuals) == (1,) and np.ndim(b) == 1:
        residuals = wnp.reshape(residuals, ())
    return x, residuals, rank, s


@_lapacks
def pinv(a: Any, *, atol: Any = None, rtol: Any = None, return_rank: bool = False) -> Any:
    """``scipy.linalg.pinv``: the pseudo-inverse; differentiable where the rank is constant.

    >>> pinv(np.array([[2.0, 0.0], [0.0, 0.0]]))
    array([[0.5, 0. ],
           [0. , 0. ]])
    """
    a = wnp.asarray(a)
    largest = svdvals(a)[..., 0] if np.size(a) else 1.0
    eps = float(np.finfo(ops.field_dtype("pinv", type_of(a))).eps)
    share = (max(np.shape(a)[-2:]) * eps if atol is None else 0.0) if rtol is None else rtol
    least = (0.0 if atol is None else atol) + share * largest
    result = linalg.pinv(a, stop_gradient(least / wnp.maximum(largest, np.finfo(float).tiny)))
    if not return_rank:
        return result
    return result, wnp.sum(svdvals(a) > wnp.expand_dims(least, -1), axis=-1)


# ---------------------------------------------------------------- factorisations


def _hermitian(a: Any, lower: bool) -> Any:
    return linalg._hermitian("eigh", a, "L" if lower else "U")


@_lapacks
def cholesky(a: Any, lower: bool = False) -> Any:
    """``scipy.linalg.cholesky``: the upper triangular U with a = Uᴴ U, or L with a = L Lᴴ.

    >>> cholesky(np.array([[4.0, 2.0], [2.0, 5.0]]), lower=True)
    array([[2., 0.],
           [1., 2.]])
    """
    return linalg.cholesky(_hermitian(a, lower), upper=not lower)


@_lapacks
def cho_factor(a: Any, lower: bool = False) -> tuple[Any, bool]:
    """``scipy.linalg.cho_factor``: what `cho_solve` takes; the other triangle is 0.

    >>> cho_solve(cho_factor(np.array([[4.0, 2.0], [2.0, 5.0]])), np.array([6.0, 7.0]))
    array([1., 1.])
    """
    return cholesky(a, lower), lower


@_lapacks
def cho_solve(c_and_lower: tuple[Any, bool], b: Any) -> Any:
    """``scipy.linalg.cho_solve``: x with ``a @ x = b`` from the factor of a.

    >>> cho_solve((np.array([[2.0]]), True), np.array([8.0]))
    array([2.])
    """
    c, lower = c_and_lower
    first = linalg.solve_triangular(c, b, trans=0 if lower else 2, lower=lower)
    return linalg.solve_triangular(c, first, trans=2 if lower else 0, lower=lower)


def _factors(a: Any) -> tuple[Any, Any, Any, Any]:
    """L and U with 1 on the diagonal of L, for matrices of any shape, as one matrix.

    The second and third are the rows that were swapped, and their order in the product; the last
    one is the inverse of that order.
    """
    a = wnp.asarray(a)
    ops.check_matrix("lu", type_of(a))
    m, n = np.shape(a)[-2:]
    if m <= n:
        factors, pivots, order, back = ops.lu(a[..., :m])
        if m == n:
            return factors, pivots, order, back
        rest = ops._rows(a[..., m:], order)
        params = {"lower": True, "unit_diagonal": True}
        return (
            wnp.concatenate([factors, ops.triangular_solve(factors, rest, **params)], -1),
            pivots, order, back,
        )  # fmt: skip
    # The order does not depend on further columns; with it the first rows are factors alone.
    square = wnp.concatenate([a, np.zeros((*np.shape(a)[:-1], m - n), type_of(a).dtype)], -1)
    _, pivots, order, back = ops.lu(stop_gradient(square))
    ordered = ops._rows(a, order)
    top, *_ = ops.lu(ordered[..., :n, :])
    under = ops.triangular_solve(
        ops.T(top), ops.T(ordered[..., n:, :]), lower=True, unit_diagonal=False
    )
    return wnp.concatenate([top, ops.T(under)], -2), pivots[..., :n], order, back


@_lapacks
def lu_factor(a: Any) -> tuple[Any, Any]:
    """``scipy.linalg.lu_factor``: L and U in one matrix, and the row that was swapped with each.

    >>> factors, pivots = lu_factor(np.array([[1.0, 2.0], [2.0, 2.0]]))
    >>> factors, pivots
    (array([[2. , 2. ],
           [0.5, 1. ]]), array([1, 1], dtype=int32))
    """
    factors, pivots, *_ = _factors(a)
    return factors, wnp.astype(pivots, np.int32)


@_lapacks
def lu_solve(lu_and_piv: tuple[Any, Any], b: Any, trans: int = 0) -> Any:
    """``scipy.linalg.lu_solve``: x with ``a @ x = b`` from the factors of a.

    `trans` is 0, 1 (``a.T @ x = b``) or 2 (the conjugate transpose).

    >>> lu_solve(lu_factor(np.array([[1.0, 2.0], [2.0, 2.0]])), np.array([3.0, 4.0]))
    array([1., 1.])
    """
    _choice("lu_solve", "trans", trans, (0, 1, 2))
    factors, pivots = (wnp.asarray(one) for one in lu_and_piv)
    if np.ndim(b) == 1:
        return wnp.squeeze(lu_solve((factors, pivots), wnp.expand_dims(b, -1), trans), -1)
    b, order = wnp.asarray(b), _order_of(pivots)
    if trans == 0:
        below = ops.triangular_solve(factors, ops._rows(b, order), lower=True, unit_diagonal=True)
        return ops.triangular_solve(factors, below, lower=False, unit_diagonal=False)
    turned = ops.T(factors) if trans == 1 else ops.H(factors)
    above = ops.triangular_solve(turned, b, lower=True, unit_diagonal=False)
    below = ops.triangular_solve(turned, above, lower=False, unit_diagonal=True)
    return ops._rows(below, wnp.argsort(order, axis=-1))


def _order_of(pivots: Any) -> Any:
    """The order of the rows after each was swapped with the one that `pivots` names."""
    count = np.shape(pivots)[-1]
    places = np.arange(count)

    def swap(order: Any, step: Any) -> Any:
        here, other = step
        at_other = wnp.sum(wnp.where(places == other[..., None], order, 0), -1, keepdims=True)
        at_here = wnp.sum(wnp.where(places == here, order, 0), -1, keepdims=True)
        order = wnp.where(places == other[..., None], at_here, order)
        return wnp.where(places == here, at_other, order), None

    start = np.broadcast_to(places, np.shape(pivots)) + 0
    order, _ = scan(swap, start, (places, wnp.moveaxis(pivots, -1, 0)))
    return order


@_lapacks
def lu(a: Any, permute_l: bool = False, p_indices: bool = False) -> Any:
    """``scipy.linalg.lu``: p, l and u with ``a = p @ l @ u``.

    With `permute_l` there are two, ``p @ l`` and u; with `p_indices` the first is the order of the
    rows: ``a = l[p] @ u``.

    >>> p, l, u = lu(np.array([[1.0, 2.0], [2.0, 2.0]]))
    >>> l, u
    (array([[1. , 0. ],
           [0.5, 1. ]]), array([[2., 2.],
           [0., 1.]]))
    """
    factors, _, _, back = _factors(a)
    m, n = np.shape(factors)[-2:]
    k = min(m, n)
    eye = np.eye(m, k, dtype=type_of(factors).dtype)
    lower = ops.lower_triangle(factors[..., :, :k], -1) + eye
    upper = ops.upper_triangle(factors[..., :k, :])
    if permute_l:
        return ops._rows(lower, back), upper
    if p_indices:
        return wnp.astype(back, np.int32), lower, upper
    rows = np.eye(m, dtype=ops.real_dtype(type_of(factors).dtype))
    return ops._rows(rows, back), lower, upper


@_lapacks
def qr(a: Any, mode: str = "full") -> Any:
    """``scipy.linalg.qr``: q and r; modes "full", "economic", and "r", which gives (r,).

    Differentiable with ``mode="economic"``, or where a has no more rows than columns.

    >>> q, r = qr(np.array([[3.0], [4.0]]), mode="economic")
    >>> abs(r)
    array([[5.]])
    """
    _choice("qr", "mode", mode, ("full", "economic", "r"))
    if mode == "r":
        return (linalg.qr(a, "complete").R,)
    return tuple(linalg.qr(a, "complete" if mode == "full" else "reduced"))


@_lapacks
def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    """``scipy.linalg.svd``: u, s and vh; differentiable with ``full_matrices=False``.

    >>> svd(np.diag([3.0, 4.0]), compute_uv=False)
    array([4., 3.])
    """
    found = linalg.svd(a, full_matrices, compute_uv)
    return tuple(found) if compute_uv else found


@_lapacks
def eigh(a: Any, b: Any = None, *, lower: bool = True, eigvals_only: bool = False) -> Any:
    """``scipy.linalg.eigh``: eigenvalues and eigenvectors of a Hermitian matrix.

    With a positive definite `b` they are those of ``a @ v = w * b @ v``.

    >>> values, vectors = eigh(np.array([[2.0, 0.0], [0.0, 1.0]]))
    >>> values
    array([1., 2.])
    """
    matrix = _hermitian(a, lower)
    if b is None:
        return linalg.eigvalsh(matrix) if eigvals_only else tuple(linalg.eigh(matrix))
    factor = cholesky(b, lower=True) if lower else ops.H(cholesky(b))
    left = linalg.solve_triangular(factor, matrix, lower=True)
    both = linalg.solve_triangular(factor, ops.H(left), lower=True)
    if eigvals_only:
        return linalg.eigvalsh(both)
    values, vectors = linalg.eigh(both)
    return values, linalg.solve_triangular(factor, vectors, trans=2, lower=True)


@_lapacks
def eigvalsh(a: Any, b: Any = None, *, lower: bool = True) -> Any:
    """``scipy.linalg.eigvalsh``: the eigenvalues of a Hermitian matrix, ascending.

    >>> eigvalsh(np.array([[2.0, 0.0], [0.0, 1.0]]))
    array([1., 2.])
    """
    return eigh(a, b, lower=lower, eigvals_only=True)


@_lapacks
def eig(a: Any) -> tuple[Any, Any]:
    """``scipy.linalg.eig``: eigenvalues, always complex, and right eigenvectors.

    >>> values, _ = eig(np.array([[0.0, 1.0], [-1.0, 0.0]]))
    >>> sorted(values.imag.tolist())
    [-1.0, 1.0]
    """
    values, vectors = linalg.eig(a)
    return wnp.asarray(values) + 0j, vectors


@_lapacks
def eigvals(a: Any) -> Any:
    """``scipy.linalg.eigvals``: the eigenvalues, always complex.

    >>> eigvals(np.array([[2.0]]))
    array([2.+0.j])
    """
    return wnp.asarray(linalg.eigvals(a)) + 0j


@_lapacks
def schur(a: Any, output: str = "real") -> tuple[Any, Any]:
    """``scipy.linalg.schur``: a triangular T and a unitary Z with ``a = Z @ T @ Zᴴ``.

    The real form of a matrix with complex eigenvalues has blocks of two rows on its diagonal; it
    has no derivative here, but the form of ``output="complex"`` has. The derivative of Z is the one
    that turns no column by itself; where eigenvalues are equal there is none.

    >>> t, z = schur(np.array([[1.0, 2.0], [0.0, 3.0]]))
    >>> t
    array([[1., 2.],
           [0., 3.]])
    """
    _choice("schur", "output", output, ("real", "complex"))
    a = wnp.asarray(a)
    kind = type_of(a).dtype
    if output == "complex" and kind.kind != "c":
        a = a.astype(np.complex64 if kind == np.float32 else np.complex128)
    triangle, unitary = equations.schur(a)
    return triangle, unitary


def polar(a: Any, side: str = "right") -> tuple[Any, Any]:
    """``scipy.linalg.polar``: u and p with ``a = u @ p`` ("left": ``p @ u``), p not negative.

    >>> u, p = polar(np.array([[0.0, -2.0], [2.0, 0.0]]))
    >>> abs(p.round(12))
    array([[2., 0.],
           [0., 2.]])
    """
    _choice("polar", "side", side, ("right", "left"))
    left, values, right = linalg.svd(a, full_matrices=False)
    rotation = ops.matmul(left, right)
    if side == "right":
        return rotation, ops.matmul(ops.H(right) * ops.row(values), right)
    return rotation, ops.matmul(left * ops.row(values), ops.H(left))


def sqrtm(a: Any) -> Any:
    """``scipy.linalg.sqrtm``: the matrix r with ``r @ r = a``.

    The root of a real matrix with a negative eigenvalue is complex. Compiled, where this is not
    known beforehand, it is an error; convert such a matrix with astype(complex).

    >>> sqrtm(np.array([[4.0, 0.0], [0.0, -9.0]]))
    array([[2.+0.j, 0.+0.j],
           [0.+0.j, 0.+3.j]])
    """
    return matrix_roots.sqrtm(_complex_if_negative(a))


def _complex_if_negative(a: Any) -> Any:
    """Real matrices as complex ones, where one is known to have a negative eigenvalue."""
    a = wnp.asarray(a)
    known = concrete(a)
    if known is None or type_of(a).dtype.kind == "c" or np.ndim(known) < 2 or 0 in np.shape(known):
        return a
    if not np.isfinite(known).all():
        return a
    values = np.linalg.eigvals(known)
    if not np.any((values.imag == 0) & (values.real < 0)):
        return a
    return a.astype(np.complex64 if type_of(a).dtype == np.float32 else np.complex128)


def logm(A: Any) -> Any:
    """``scipy.linalg.logm``: the matrix l with ``expm(l) = A``.

    The logarithm of a real matrix with a negative eigenvalue is complex. Compiled, where this is
    not known beforehand, it is an error; convert such a matrix with astype(complex).

    >>> logm(np.eye(2))
    array([[0., 0.],
           [0., 0.]])
    """
    return matrix_roots.logm(_complex_if_negative(A))


# ---------------------------------------------------------------- special matrices


def _vector(name: str, x: Any) -> Any:
    x = wnp.atleast_1d(x)
    if np.ndim(x) != 1:
        raise ShapeError(
            explain(
                name,
                f"got an array of shape {np.shape(x)}, expected a vector",
                "Use vmap for several, or ravel it.",
            )
        )
    return x


def block_diag(*arrs: Any) -> Any:
    """``scipy.linalg.block_diag``: matrices along the diagonal of one; a vector is a row.

    >>> block_diag(np.array([[1.0, 2.0]]), 3.0)
    array([[1., 2., 0.],
           [0., 0., 3.]])
    """
    blocks = [wnp.atleast_2d(block) for block in arrs] or [np.zeros((1, 0))]
    dtype = np.result_type(*[type_of(block).dtype for block in blocks])
    heights, widths = zip(*[np.shape(block)[-2:] for block in blocks], strict=True)
    width, before = sum(widths), np.cumsum([0, *widths])
    rows = []
    for block, height, start in zip(blocks, heights, before, strict=False):
        batch, own = np.shape(block)[:-2], np.shape(block)[-1]
        left = np.zeros((*batch, height, start), dtype)
        right = np.zeros((*batch, height, width - start - own), dtype)
        rows.append(wnp.concatenate([left, block, right], -1))
    return wnp.concatenate(rows, -2)


def toeplitz(c: Any, r: Any = None) -> Any:
    """``scipy.linalg.toeplitz``: the first column is c, the first row r, each diagonal constant.

    >>> toeplitz(np.array([1.0, 2.0, 3.0]), np.array([1.0, 4.0]))
    array([[1., 4.],
           [2., 1.],
           [3., 2.]])
    """
    c = _vector("toeplitz", c)
    r = wnp.conj(c) if r is None else _vector("toeplitz", r)
    values = wnp.concatenate([c[::-1], r[1:]])
    height, width = np.shape(c)[0], np.shape(r)[0]
    return values[height - 1 - np.arange(height)[:, None] + np.arange(width)]


def circulant(c: Any) -> Any:
    """``scipy.linalg.circulant``: each column is the one before, turned by one place.

    >>> circulant(np.array([1.0, 2.0, 3.0]))
    array([[1., 3., 2.],
           [2., 1., 3.],
           [3., 2., 1.]])
    """
    c = wnp.atleast_1d(c)
    places = np.arange(np.shape(c)[-1])
    return c[..., (places[:, None] - places) % max(len(places), 1)]


def hankel(c: Any, r: Any = None) -> Any:
    """``scipy.linalg.hankel``: the first column is c, the last row r, each anti-diagonal constant.

    >>> hankel(np.array([1.0, 2.0, 3.0]))
    array([[1., 2., 3.],
           [2., 3., 0.],
           [3., 0., 0.]])
    """
    c = _vector("hankel", c)
    r = wnp.zeros_like(c) if r is None else _vector("hankel", r)
    values = wnp.concatenate([c, r[1:]])
    return values[np.arange(np.shape(c)[0])[:, None] + np.arange(np.shape(r)[0])]
