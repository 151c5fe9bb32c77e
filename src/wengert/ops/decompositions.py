"""Factorisations of stacks of matrices: Cholesky, QR, eigenvalues, singular values.

The derivatives of eigenvectors and singular vectors divide by the gaps between values. Where two
values are equal (to rounding) the vectors are not determined and their share is taken as 0.
First derivatives of anything that does not depend on the choice of the vectors, such as a sum of
values or the trace of a function of them, are right there too; second derivatives then lack how
the equal values part. The vectors of complex matrices keep the phases that LAPACK gives them.

`cholesky` and `eigh` take their matrix to be Hermitian and work with its Hermitian part, so the
gradient is Hermitian as well.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import DerivativeError, explain
from ..types import ArrayType, Function, type_of
from .elementwise import absolute, conjugate, imag, over, real, select
from .layout import convert, reduce_sum
from .linalg import (
    LAPACK,
    H,
    T,
    batch_leading,
    check_matrix,
    column,
    diagonal_of,
    field_dtype,
    guarded,
    lower_triangle,
    masked,
    matmul,
    part,
    real_dtype,
    row,
    solve,
    square_type,
    symmetric_part,
    triangular_product,
    triangular_solve,
    upper_triangle,
)
from .logic import less_equal
from .op import Op
from .reductions import reduce_max
from .small_matrices import cholesky_of, is_small

_NOT_FINITE = "Check the matrix for inf and nan."


def _values(name: str, op: Op, place: int, evaluate: Function, **params: Any) -> Op:
    """The operation that gives the values of a decomposition alone, without vectors."""
    made: Op = Op(
        name,
        guarded(name, _NOT_FINITE, evaluate, lambda: made),
        lambda a: op.type_rule(a, **params)[place],
        jvp=(lambda t, ans, a: op.jvp((t,), op(a, **params), a, **params)[place],),  # type: ignore[misc,operator]
        batch=batch_leading(lambda: made),
        hosted=LAPACK,
        samples=lambda rng: [(a, {}) for a, own in op.samples(rng) if own == params],  # type: ignore[misc]
    )
    op.alone[place] = made
    return made


def _hermitian(a: Any) -> np.ndarray:
    """The Hermitian part of plain matrices."""
    turned = np.asarray(a).swapaxes(-1, -2)
    half: np.ndarray = np.add(a, turned.conj() if turned.dtype.kind == "c" else turned)
    half = half if half.dtype.kind in "fc" else half.astype(np.float64)
    half *= 0.5
    return half


# ---------------------------------------------------------------- Cholesky


def _cholesky(a: Any) -> Any:
    return np.linalg.cholesky(_hermitian(a))


def _cholesky_jvp(t: Any, ans: Any, a: Any) -> Any:
    # d(L Lᴴ) = t, so the lower triangle of L⁻¹ t L⁻ᴴ, with half its diagonal, is L⁻¹ dL.
    left = triangular_solve(ans, symmetric_part(t), lower=True, unit_diagonal=False)
    both = triangular_solve(ans, H(left), lower=True, unit_diagonal=False)
    half = 0.5 * lower_triangle(both) + 0.5 * lower_triangle(both, -1)
    return triangular_product(ans, half, lower=True)


def _positive(rng: np.random.Generator, *shape: int, complex_: bool = False) -> np.ndarray:
    a = rng.normal(size=shape)
    if complex_:
        a = a + 1j * rng.normal(size=shape)
    return a @ a.conj().swapaxes(-1, -2) + 2 * np.eye(shape[-1])


def _positive_samples(rng: np.random.Generator) -> Any:
    yield (_positive(rng, 3, 3),), {}
    yield (_positive(rng, 2, 2, 2),), {}
    yield (_positive(rng, 3, 3, complex_=True),), {}
    yield (np.zeros((0, 0)),), {}
    yield (_positive(rng, 3, 3).astype(np.float32),), {}


# The lower triangular L with a = L Lᴴ.
cholesky: Op = Op(
    "cholesky",
    guarded(
        "cholesky",
        "Add a small multiple of the identity, or use eigh for an indefinite matrix.",
        _cholesky,
        lambda: cholesky,
    ),
    square_type("cholesky"),
    jvp=(_cholesky_jvp,),
    batch=batch_leading(lambda: cholesky),
    compose=lambda a: cholesky_of(a) if is_small(type_of(a).shape) else None,
    samples=_positive_samples,
)

# ---------------------------------------------------------------- QR


def _qr_type(a: ArrayType, complete: bool) -> tuple[ArrayType, ArrayType]:
    check_matrix("qr", a)
    *batch, m, n = a.shape
    dtype = field_dtype("qr", a)
    k = m if complete else min(m, n)
    return ArrayType(dtype, (*batch, m, k)), ArrayType(dtype, (*batch, k, n))


def _qr(a: Any, complete: bool) -> Any:
    return tuple(np.linalg.qr(a, "complete" if complete else "reduced"))


def _qr_jvp(tangents: Any, ans: Any, a: Any, complete: bool) -> Any:
    q, r = ans
    (t,) = tangents
    m, n = type_of(a).shape[-2:]
    if complete and m > n:
        raise DerivativeError(
            explain(
                "qr",
                f"the last {m - n} columns of q are not determined by a matrix of shape {(m, n)} "
                "and have no derivative",
                "Use mode='reduced'.",
            )
        )
    k = min(m, n)
    # The first k columns determine q; t r⁻¹ split by qᴴ dq being skew-Hermitian.
    quotient = _right_solve(part(r, slice(None), slice(k)), part(t, slice(None), slice(k)))
    inside = matmul(H(q), quotient)
    below = lower_triangle(inside, -1)
    turn = below - H(below) + _imaginary_diagonal(inside)
    dq = matmul(q, turn - inside) + quotient
    dr = upper_triangle(matmul(H(q), t) - matmul(turn, r))
    return dq, dr


def _right_solve(r: Any, t: Any) -> Any:
    """t r⁻¹ for an upper triangle r."""
    return T(triangular_solve(T(r), T(t), lower=True, unit_diagonal=False))


def _imaginary_diagonal(x: Any) -> Any:
    """The diagonal of r is real: what would turn it is kept out."""
    if type_of(x).dtype.kind != "c":
        return 0.0
    return masked(np.eye(type_of(x).shape[-1], dtype=bool), 1j * imag(x))


# a = q r with qᴴ q = 1 and r upper triangular.
qr: Op = Op(
    "qr",
    guarded("qr", _NOT_FINITE, _qr, lambda: qr),
    _qr_type,
    jvp=_qr_jvp,
    batch=batch_leading(lambda: qr),
    multiple=True,
    hosted=LAPACK,
    samples=lambda rng: [
        ((rng.normal(size=(4, 3)),), {"complete": False}),
        ((rng.normal(size=(2, 3, 3)),), {"complete": True}),
        ((rng.normal(size=(2, 4)),), {"complete": True}),
        ((rng.normal(size=(3, 2)) + 1j * rng.normal(size=(3, 2)),), {"complete": False}),
        ((rng.normal(size=(3, 0)),), {"complete": False}),
        ((rng.normal(size=(3, 2)).astype(np.float32),), {"complete": False}),
    ],
)

# ---------------------------------------------------------------- eigenvalues


def _largest(values: Any) -> Any:
    """The largest absolute value of each vector, as vectors of length 1; 0 for empty ones."""
    array_type = type_of(values)
    if array_type.shape[-1] == 0:
        return np.zeros((*array_type.shape[:-1], 1), real_dtype(array_type.dtype))
    return column(reduce_max(absolute(values), axes=(array_type.ndim - 1,), ties="first"))


def _tolerance(values: Any) -> Any:
    """Differences up to this are rounding: equal values."""
    array_type = type_of(values)
    eps = float(np.finfo(array_type.dtype).eps)
    return array_type.shape[-1] * eps * _largest(values)


def _inverse_gaps(values: Any) -> Any:
    """1 / (values_j - values_i), and 0 where they are equal."""
    gaps = row(values) - column(values)
    equal = less_equal(absolute(gaps), column(_tolerance(values)))
    return select(equal, 0, 1 / select(equal, 1, gaps))


def _eigh_type(a: ArrayType) -> tuple[ArrayType, ArrayType]:
    check_matrix("eigh", a, square=True)
    dtype = field_dtype("eigh", a)
    return ArrayType(real_dtype(dtype), a.shape[:-1]), ArrayType(dtype, a.shape)


def _eigh_jvp(tangents: Any, ans: Any, a: Any) -> Any:
    w, v = ans
    inside = matmul(H(v), matmul(symmetric_part(tangents[0]), v))
    free = matmul(v, _inverse_gaps(w) * inside)
    return real(diagonal_of(inside)), free - _turned(v, _turn_of_first_row(free, v))


def _turn_of_first_row(t: Any, v: Any) -> Any:
    """How fast each column's first element, which LAPACK makes real, leaves the real axis."""
    if type_of(v).dtype.kind != "c" or type_of(v).size == 0:
        return None
    first = slice(0, 1)
    return imag(over(part(t, first, slice(None)), part(v, first, slice(None))))


def _turned(v: Any, turn: Any) -> Any:
    """The columns of `v` times i times `turn`; real ones do not turn."""
    return 0.0 if turn is None else v * (1j * turn)


# The eigenvalues, ascending, and orthonormal eigenvectors of a Hermitian matrix.
eigh: Op = Op(
    "eigh",
    guarded(
        "eigh",
        _NOT_FINITE,
        lambda a: tuple(np.linalg.eigh(_hermitian(a))),
        lambda: eigh,
    ),
    _eigh_type,
    jvp=_eigh_jvp,
    batch=batch_leading(lambda: eigh),
    multiple=True,
    hosted=LAPACK,
    samples=lambda rng: [
        ((_spread(3, 3),), {}),
        ((_spread(2, 2, 2),), {}),
        ((_spread(3, 3, complex_=True),), {}),
        ((np.zeros((0, 0)),), {}),
        ((_spread(3, 3).astype(np.float32),), {}),
    ],
)
eigvalsh = _values("eigvalsh", eigh, 0, lambda a: np.linalg.eigvalsh(_hermitian(a)))


def _eig_type(a: ArrayType) -> tuple[ArrayType, ArrayType]:
    check_matrix("eig", a, square=True)
    dtype = np.result_type(field_dtype("eig", a), np.complex64)
    return ArrayType(dtype, a.shape[:-1]), ArrayType(dtype, a.shape)


def _eig(a: Any) -> Any:
    types = _eig_type(type_of(a))
    return tuple(x.astype(t.dtype) for x, t in zip(np.linalg.eig(a), types, strict=True))


def _eig_jvp(tangents: Any, ans: Any, a: Any) -> Any:
    w, v = ans
    inside = solve(v, matmul(tangents[0], v), transposed=False)
    free = matmul(v, _inverse_gaps(w) * inside)
    # LAPACK gives each vector the norm 1 and makes its largest element real.
    size = real(_column_sums(conjugate(v) * free))
    turn = imag(_at_largest(over(free, v), v))
    return diagonal_of(inside), free - v * row(convert(size, dtype=type_of(v).dtype) + 1j * turn)


def _column_sums(x: Any) -> Any:
    return reduce_sum(x, axes=(type_of(x).ndim - 2,))


def _at_largest(x: Any, v: Any) -> Any:
    """The element of each column of `x` where the column of `v` is largest."""
    if type_of(v).size == 0:
        return _column_sums(x)
    lengths = absolute(v)
    rank = type_of(v).ndim
    largest = row(reduce_max(lengths, axes=(rank - 2,), ties="first"))
    first = less_equal(largest, lengths)
    return _column_sums(select(first, x, 0)) / _column_sums(convert(first, dtype=type_of(x).dtype))


def _spread(*shape: int, complex_: bool = False) -> np.ndarray:
    """Matrices with values far from each other.

    They are always the same, because the signs that LAPACK gives to vectors jump at some
    matrices; these are not near one.
    """
    rng = np.random.default_rng(3)
    a = 0.2 * rng.normal(size=shape)
    if complex_:
        a = a + 0.2j * rng.normal(size=shape)
    places = np.arange(min(shape[-2:]))
    a[..., places, places] += places + 1
    return a


# Eigenvalues and eigenvectors of any square matrix, always complex.
eig: Op = Op(
    "eig",
    guarded("eig", _NOT_FINITE, _eig, lambda: eig),
    _eig_type,
    jvp=_eig_jvp,
    batch=batch_leading(lambda: eig),
    multiple=True,
    hosted=LAPACK,
    samples=lambda rng: [
        ((_spread(3, 3),), {}),
        ((_spread(2, 3, 3),), {}),
        ((np.array([[1.0, 2.0], [-3.0, 0.5]]),), {}),
        ((_spread(3, 3, complex_=True),), {}),
        ((_spread(3, 3).astype(np.float32),), {}),
    ],
)
eigvals = _values(
    "eigvals", eig, 0, lambda a: np.linalg.eigvals(a).astype(_eig_type(type_of(a))[0].dtype)
)

# ---------------------------------------------------------------- singular values


def _svd_type(a: ArrayType, full_matrices: bool) -> tuple[ArrayType, ...]:
    check_matrix("svd", a)
    *batch, m, n = a.shape
    k = min(m, n)
    dtype = field_dtype("svd", a)
    rows, columns = (m, n) if full_matrices else (k, k)
    return (
        ArrayType(dtype, (*batch, m, rows)),
        ArrayType(real_dtype(dtype), (*batch, k)),
        ArrayType(dtype, (*batch, columns, n)),
    )


def _svd_jvp(tangents: Any, ans: Any, a: Any, full_matrices: bool) -> Any:
    u, s, vh = ans
    (t,) = tangents
    m, n = type_of(a).shape[-2:]
    if full_matrices and m != n:
        raise DerivativeError(
            explain(
                "svd",
                f"the last {abs(m - n)} singular vectors of a matrix of shape {(m, n)} are not "
                "determined and have no derivative",
                "Use full_matrices=False.",
            )
        )
    inside = matmul(matmul(H(u), t), H(vh))
    values = real(diagonal_of(inside))
    factors = _inverse_square_gaps(s)
    right, left = inside * row(s), column(s) * inside
    inverse = _inverse_values(s)
    du = matmul(u, factors * (right + H(right)) + _phase(inside, inverse))
    dv = matmul(H(vh), factors * (left + H(left)))
    if m > n:
        outside = matmul(t, H(vh)) - matmul(u, inside)
        du = du + outside * row(inverse)
    if n > m:
        outside = matmul(H(t), u) - matmul(H(vh), H(inside))
        dv = dv + outside * row(inverse)
    turn = _turn_of_first_row(du, u) if n > m else _turn_of_first_row(dv, H(vh))
    return du - _turned(u, turn), values, H(dv - _turned(H(vh), turn))


def _inverse_square_gaps(s: Any) -> Any:
    """1 / (s_j² - s_i²), and 0 where they are equal."""
    total = row(s) + column(s)
    return _inverse_gaps(s) * over(1.0, total)


def _inverse_values(s: Any) -> Any:
    """1 / s, and 0 for singular values that are 0 (to rounding)."""
    zero = less_equal(s, _tolerance(s))
    return select(zero, 0, 1 / select(zero, 1, s))


def _phase(inside: Any, inverse: Any) -> Any:
    """How u turns against v, which the complex phase of t decides."""
    if type_of(inside).dtype.kind != "c":
        return 0.0
    eye = np.eye(type_of(inside).shape[-1], dtype=bool)
    return masked(eye, 1j * imag(inside) * row(inverse))


# a = u diag(s) vh, the singular values descending.
svd: Op = Op(
    "svd",
    guarded(
        "svd",
        _NOT_FINITE,
        lambda a, full_matrices: tuple(np.linalg.svd(a, full_matrices)),
        lambda: svd,
    ),
    _svd_type,
    jvp=_svd_jvp,
    batch=batch_leading(lambda: svd),
    multiple=True,
    hosted=LAPACK,
    samples=lambda rng: [
        ((_spread(4, 2),), {"full_matrices": False}),
        ((_spread(2, 2, 3),), {"full_matrices": False}),
        ((_spread(3, 3),), {"full_matrices": True}),
        ((_spread(3, 2, complex_=True),), {"full_matrices": False}),
        ((_spread(2, 3, complex_=True),), {"full_matrices": False}),
        ((np.zeros((0, 3)),), {"full_matrices": False}),
        ((_spread(3, 2).astype(np.float32),), {"full_matrices": False}),
    ],
)
svdvals = _values(
    "svdvals", svd, 1, lambda a: np.linalg.svd(a, compute_uv=False), full_matrices=False
)
