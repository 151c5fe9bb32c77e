"""Determinants and the matrix exponential, differentiable to any order.

The derivative of a determinant is its matrix of cofactors, which exists for singular matrices
too. Of small matrices it is a matrix of polynomials; of larger ones it is computed from
`b = a + u v`, where the product of thin matrices u v lifts the smallest singular values of `a`:
``det(a) = det(b) det(1 - v b⁻¹ u)`` holds for any fixed u and v, the matrix b can be inverted, and
the other determinant is small enough to write out.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from ..machine import current
from ..types import ArrayType, Function, type_of
from .decompositions import svd
from .elementwise import absolute, exp, imag, log, real, scale, select, subtract
from .indexing import index
from .layout import broadcast_to, convert, reduce_sum, reshape
from .linalg import (
    LAPACK,
    SINGULAR,
    T,
    _regular,
    _square_samples,
    batch_leading,
    check_matrix,
    column,
    diagonal_by_elimination,
    field_dtype,
    guarded,
    identity,
    inv,
    matmul,
    part,
    real_dtype,
    row,
    solve,
    square_type,
    trace_of,
)
from .logic import bitwise_and, equal, greater, less, less_equal, logical_and, logical_or, not_equal
from .op import Op
from .reductions import reduce_any
from .small_matrices import elements_of, is_small, matrices_of, pivots_of
from .structure import concatenate

# Determinants up to this size are written out as arrays; as many singular values are lifted.
_SMALL = 3
# Cofactors up to this size are written out element by element: twice as many terms for each row.
_WRITTEN = 5
_NEXT = np.roll(np.eye(3), 1, axis=1)


def _scalar(x: Any) -> Any:
    """One number for each matrix, shaped to multiply the matrices."""
    return reshape(x, shape=(*type_of(x).shape, 1, 1))


def _sum_matrix(x: Any) -> Any:
    rank = type_of(x).ndim
    return reduce_sum(x, axes=(rank - 2, rank - 1))


def _small_cofactors(a: Any) -> Any:
    """The cofactors of matrices with up to 3 rows, as polynomials of the elements."""
    n = type_of(a).shape[-1]
    if n <= 1:
        return np.ones(type_of(a).shape, type_of(a).dtype)
    if n == 2:
        turned = part(a, slice(None, None, -1), slice(None, None, -1))
        return turned * np.array([[1, -1], [-1, 1]])
    rows = matmul(_NEXT.astype(type_of(a).dtype), a)
    after = matmul(_NEXT.astype(type_of(a).dtype), rows)
    return _cross_rows(rows, after)


def _cross_rows(x: Any, y: Any) -> Any:
    """The cross product of each row of x with the row of y."""
    turn = _NEXT.T.astype(type_of(x).dtype)
    x1, y1 = matmul(x, turn), matmul(y, turn)
    return x1 * matmul(y1, turn) - matmul(x1, turn) * y1


def _written_cofactors(a: Any) -> Any:
    """The cofactors of matrices with few rows: sums of minors above a row times those below it."""
    rows = elements_of(a)
    n = len(rows)
    above = [_minors(rows[:i][::-1]) for i in range(n)]
    below = [_minors(rows[i + 1 :]) for i in range(n)]
    return matrices_of(
        [[_cofactor(above[i], below[i], i, j, n) for j in range(n)] for i in range(n)]
    )


def _minors(rows: list[list[Any]]) -> dict[tuple[int, ...], Any]:
    """The determinants of these rows in every choice of as many columns, along the first row."""
    found: dict[tuple[int, ...], Any] = {(): 1.0}
    for size, x in enumerate(rows[::-1], 1):
        found = {
            chosen: _alternating(
                [x[j] * found[chosen[:k] + chosen[k + 1 :]] for k, j in enumerate(chosen)]
            )
            for chosen in combinations(range(len(x)), size)
        }
    return found


def _alternating(terms: list[Any]) -> Any:
    total = terms[0]
    for number, term in enumerate(terms[1:]):
        total = total + term if number % 2 else total - term
    return total


def _cofactor(above: dict[Any, Any], below: dict[Any, Any], i: int, j: int, n: int) -> Any:
    """Without row i and column j: the columns are shared out to the rows above and below."""
    columns = [k for k in range(n) if k != j]
    total: Any = 0.0
    for places in combinations(range(n - 1), i):
        mine = tuple(columns[place] for place in places)
        rest = tuple(k for k in columns if k not in mine)
        # the rows above stand in reverse, which the sum of their numbers makes up for
        term = above[mine] * below[rest]
        total = total + term if (sum(places) + i + j) % 2 == 0 else total - term
    return total


def _lift(a: Any) -> Any:
    """u (n, 3), v (3, n), and what else b needs where more than 3 singular values vanish."""
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    top = s[..., :1]
    size = np.where(top > 0, top, 1)
    lowest = np.arange(s.shape[-1]) >= s.shape[-1] - _SMALL
    vanished = (s <= s.shape[-1] * np.finfo(s.dtype).eps * top) & ~lowest
    left = u[..., :, -_SMALL:] * size[..., None]
    rest = (u * (vanished * size)[..., None, :]) @ vh
    return left, np.ascontiguousarray(vh[..., -_SMALL:, :]), rest


def lift_by_svd(a: Any) -> Any:
    """`lift` for the compiler."""
    if not current().lapack:
        return None
    u, s, vh = svd(a, full_matrices=False)
    n = type_of(s).shape[-1]
    top = index(s, key=(*[(0, length, 1) for length in type_of(s).shape[:-1]], (0, 1, 1)))
    size = select(greater(top, 0), top, 1)
    lowest = np.arange(n) >= n - _SMALL
    eps = float(np.finfo(type_of(s).dtype).eps)
    vanished = logical_and(less_equal(s, n * eps * top), ~lowest)
    left = part(u, slice(None), slice(n - _SMALL, n)) * column(size)
    rest = matmul(u * row(select(vanished, size, 0)), vh)
    return left, part(vh, slice(n - _SMALL, n), slice(None)), rest


def _lift_type(a: ArrayType) -> tuple[ArrayType, ...]:
    check_matrix("det", a, square=True)
    *batch, n, _ = a.shape
    dtype = field_dtype("det", a)
    shapes = ((*batch, n, _SMALL), (*batch, _SMALL, n), a.shape)
    return tuple(ArrayType(dtype, tuple(shape)) for shape in shapes)


lift: Op = Op(
    "lift_singular_values",
    guarded("det", "Check the matrix for inf and nan.", _lift, lambda: lift),
    _lift_type,
    batch=batch_leading(lambda: lift),
    multiple=True,
    zero="the cofactors computed with it do not depend on which matrices lift",
    compose=lift_by_svd,
    # singular: of others any lift will do, and compiled code takes none
    samples=lambda rng: [((_regular(rng, 4, 4)[[0, 1, 2, 0]],), {}), ((np.ones((2, 5, 5)),), {})],
)
lift.composes_complex = True


def cofactors(a: Any) -> Any:
    """The matrix of cofactors: the derivative of the determinant by each element."""
    if type_of(a).shape[-1] <= _SMALL:
        return _small_cofactors(a)
    if type_of(a).shape[-1] <= _WRITTEN:
        return _written_cofactors(a)
    u, v, rest = lift(a)
    # Where more than 3 singular values vanish, so does the determinant up to its third
    # derivative; with `rest` in b that is what comes out.
    b = a + matmul(u, v) + rest
    inverse = inv(b)
    right, left = matmul(inverse, u), matmul(v, inverse)
    small = subtract(identity(u), matmul(v, right))
    small_cofactors = _small_cofactors(small)
    small_det = _small_determinant(small, small_cofactors)
    outer = matmul(matmul(T(left), small_cofactors), T(right))
    return _scalar(det(b)) * (_scalar(small_det) * T(inverse) + outer)


def _small_determinant(a: Any, cofactor: Any) -> Any:
    first = slice(0, 1)
    product = part(a, first, slice(None)) * part(cofactor, first, slice(None))
    return _sum_matrix(product)


def _det_type(a: ArrayType) -> ArrayType:
    check_matrix("det", a, square=True)
    return ArrayType(field_dtype("det", a), a.shape[:-2])


def _small_slogdet(a: Any) -> Any:
    pivots, odd = pivots_of(a)
    size: Any = 0.0
    zero: Any = False
    for pivot in pivots:
        odd = not_equal(odd, less(pivot, 0))
        zero = logical_or(zero, equal(pivot, 0))
        size = size + log(absolute(pivot))
    return select(zero, 0.0, select(odd, -1.0, 1.0)), select(zero, -np.inf, size)


def _slogdet_by_lu(a: Any) -> Any:
    """The product of what elimination leaves on the diagonal, and a sign for each swap of rows."""
    if is_small(type_of(a).shape):
        return _small_slogdet(a)
    if not current().lapack or type_of(a).shape[-1] == 0:
        return None
    left, swapped = diagonal_by_elimination(a)
    last = type_of(left).ndim - 1
    turned = not_equal(less(left, 0), not_equal(swapped, np.arange(type_of(a).shape[-1])))
    zero = convert(reduce_any(equal(left, 0), axes=(last,)), dtype=np.dtype(bool))
    swaps = reduce_sum(convert(turned, dtype=np.dtype(np.int64)), axes=(last,))
    sign = convert(1 - 2 * bitwise_and(swaps, 1), dtype=type_of(left).dtype)
    size = reduce_sum(log(absolute(left)), axes=(last,))
    return select(zero, 0, sign), select(zero, -np.inf, size)


def _det_by_lu(a: Any) -> Any:
    found = _slogdet_by_lu(a)
    return None if found is None else found[0] * exp(found[1])


det: Op = Op(
    "det",
    guarded("det", SINGULAR, np.linalg.det, lambda: det),
    _det_type,
    jvp=(lambda t, ans, a: _sum_matrix(scale(t, cofactors(a))),),
    batch=batch_leading(lambda: det),
    compose=_det_by_lu,
    samples=lambda rng: [
        *_square_samples(rng),
        ((np.diag([1.0, 2.0, 0.0, 3.0]),), {}),
        ((np.diag([1.0, 2.0, 0.0, 0.0]),), {}),
        ((np.diag([1.0, 0.0, 2.0, 0.0, 3.0, 4.0]),), {}),
        ((np.zeros((6, 6)),), {}),
    ],
)


def _slogdet_type(a: ArrayType) -> tuple[ArrayType, ArrayType]:
    check_matrix("slogdet", a, square=True)
    dtype = field_dtype("slogdet", a)
    return ArrayType(dtype, a.shape[:-2]), ArrayType(real_dtype(dtype), a.shape[:-2])


def _slogdet_jvp(tangents: Any, ans: Any, a: Any) -> Any:
    slope = trace_of(solve(a, tangents[0], transposed=False))
    if type_of(a).dtype.kind != "c":
        return None, slope
    return ans[0] * (1j * imag(slope)), real(slope)


# The sign (or phase) and the logarithm of the absolute value of the determinant.
slogdet: Op = Op(
    "slogdet",
    guarded("slogdet", SINGULAR, lambda a: tuple(np.linalg.slogdet(a)), lambda: slogdet),
    _slogdet_type,
    jvp=_slogdet_jvp,
    batch=batch_leading(lambda: slogdet),
    multiple=True,
    compose=_slogdet_by_lu,
    samples=_square_samples,
)

# ---------------------------------------------------------------- the exponential

# Numerator of the diagonal Padé approximant of degree 13, and the norm up to which it is exact
# to double precision (Higham, 2005).
PADE = (
    64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0,
    129060195264000.0, 10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0,
    40840800.0, 960960.0, 16380.0, 182.0, 1.0,
)  # fmt: skip
PADE_NORM = 5.371920351148152


def _expm(a: Any) -> Any:
    """Scaling and squaring: the exponential of a / 2ᵏ, squared k times."""
    a = np.asarray(a)
    a = a.astype(field_dtype("expm", type_of(a)))
    norms = np.abs(a).sum(-2).max(-1, initial=0)
    with np.errstate(divide="ignore"):
        halvings = np.ceil(np.log2(norms / PADE_NORM))
    halvings = np.where(np.isfinite(halvings), np.maximum(halvings, 0), 0).astype(int)
    result = _pade(a * np.exp2(-halvings).astype(norms.dtype)[..., None, None])
    for done in range(int(halvings.max(initial=0))):
        result = np.where((done < halvings)[..., None, None], result @ result, result)
    return result


def _pade(a: np.ndarray) -> np.ndarray:
    p = PADE
    eye = np.eye(a.shape[-1], dtype=a.dtype)
    a2 = a @ a
    a4 = a2 @ a2
    a6 = a4 @ a2
    odd = a6 @ (p[13] * a6 + p[11] * a4 + p[9] * a2)
    odd = a @ (odd + p[7] * a6 + p[5] * a4 + p[3] * a2 + p[1] * eye)
    even = a6 @ (p[12] * a6 + p[10] * a4 + p[8] * a2)
    even = even + p[6] * a6 + p[4] * a4 + p[2] * a2 + p[0] * eye
    return np.linalg.solve(even - odd, even + odd)


expm: Op = Op(
    "expm",
    guarded("expm", "Check the matrix for inf and nan.", _expm, lambda: expm),
    square_type("expm"),
    jvp=(lambda t, ans, a: expm_tangent(a, t),),
    batch=batch_leading(lambda: expm),
    hosted=LAPACK,
    samples=_square_samples,
)


def blocks(a: Any, b: Any, c: Any) -> Any:
    """The matrices [[a, b], [0, c]]."""
    rank = type_of(a).ndim
    zero = np.zeros(type_of(a).shape, type_of(a).dtype)
    top = concatenate(a, b, axis=rank - 1)
    return concatenate(top, concatenate(zero, c, axis=rank - 1), axis=rank - 2)


def corner(x: Any) -> Any:
    """The block on the upper right."""
    half = type_of(x).shape[-1] // 2
    return part(x, slice(half), slice(half, None))


def tangent_of(name: str, evaluate: Function, hosted: str) -> Op:
    """The derivative of a function of matrices at `a` in the direction `t`.

    It is the corner of the function of [[a, t], [0, a]], and its own derivative a corner of itself.
    """

    def by_a(s: Any, ans: Any, a: Any, t: Any) -> Any:
        zero = np.zeros(type_of(a).shape, type_of(a).dtype)
        return corner(made(blocks(a, t, a), blocks(s, zero, s)))

    def own_type(a: ArrayType, t: ArrayType) -> ArrayType:
        check_matrix(name, a, square=True)
        return ArrayType(field_dtype(name, a, t), a.shape)

    def batch(size: int, flags: Any, a: Any, t: Any) -> Any:
        a, t = (
            x if flag else broadcast_to(x, shape=(size, *type_of(x).shape))
            for x, flag in zip((a, t), flags, strict=True)
        )
        return made(a, t)

    made: Op = Op(
        f"{name}_tangent",
        lambda a, t: np.ascontiguousarray(corner(evaluate(blocks(a, t, a)))),
        own_type,
        jvp=(by_a, lambda s, ans, a, t: made(a, s)),
        transpose=(None, lambda g, a, t: made(T(a), g)),
        batch=batch,
        hosted=hosted,
        samples=lambda rng: [
            ((_regular(rng, 3, 3), rng.normal(size=(3, 3))), {}),
            ((_regular(rng, 2, 2, 2), rng.normal(size=(2, 2, 2))), {}),
            ((_regular(rng, 2, 2, complex_=True), _regular(rng, 2, 2, complex_=True)), {}),
        ],
    )
    return made


expm_tangent: Op = tangent_of("expm", _expm, LAPACK)
