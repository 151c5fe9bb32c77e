"""Least squares and the pseudo-inverse of stacks of matrices, by singular values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import explain
from ..machine import current
from ..types import ArrayType, type_of
from .decompositions import eigh, svd
from .elementwise import absolute, select
from .layout import broadcast_to, reshape
from .linalg import (
    LAPACK,
    H,
    MatrixShapeError,
    _regular,
    check_matrix,
    column,
    field_dtype,
    guarded,
    matmul,
    row,
)
from .logic import greater
from .op import Op
from .reductions import reduce_max

# Singular values below this part of the largest count as zero, as NumPy's pinv has it.
LEAST_RATIO = 1e-15


def _pinv_type(a: ArrayType, rcond: ArrayType, hermitian: bool) -> ArrayType:
    check_matrix("pinv", a, square=hermitian)
    stack = a.shape[:-2]
    if rcond.ndim > len(stack) or any(
        n not in (1, m) for n, m in zip(rcond.shape[::-1], stack[::-1], strict=False)
    ):
        raise MatrixShapeError(
            explain(
                "pinv",
                f"got rcond of shape {rcond.shape} for a stack of shape {stack}",
                "Give one number, or one for each matrix.",
            )
        )
    return ArrayType(field_dtype("pinv", a), (*stack, a.shape[-1], a.shape[-2]))


def _pinv_jvp(t: Any, ans: Any, a: Any, rcond: Any, hermitian: bool) -> Any:
    # Golub and Pereyra; right where the rank stays the same. The last two terms are the parts
    # of t outside the row and the column space of a.
    outside = H(t) - matmul(matmul(H(t), a), ans)
    aside = H(t) - matmul(ans, matmul(a, H(t)))
    return (
        -matmul(matmul(ans, t), ans)
        + matmul(matmul(ans, H(ans)), outside)
        + matmul(aside, matmul(H(ans), ans))
    )


def _rectangular_samples(rng: np.random.Generator) -> Any:
    """Matrices of full rank, well away from losing it."""
    for shape in ((4, 2), (2, 2, 3), (3, 2)):
        yield 0.3 * rng.normal(size=shape) + np.eye(*shape[-2:])
    yield 0.3 * rng.normal(size=(3, 2)) + np.eye(3, 2) * (1 + 1j)
    yield (rng.normal(size=(3, 2)) + np.eye(3, 2)).astype(np.float32)


def _pinv_by_values(a: Any, rcond: Any, hermitian: bool) -> Any:
    """Inverse singular values, or eigenvalues, of which those near zero are left out."""
    if not current().lapack or 0 in type_of(a).shape:
        return None
    if hermitian:
        values, left = eigh(a)
        right = H(left)
    else:
        left, values, right = svd(a, full_matrices=False)
    sizes = absolute(values)
    rank = type_of(values).ndim
    largest = reduce_max(sizes, axes=(rank - 1,), ties="first")
    is_large = greater(sizes, column(rcond * largest))
    inverse = select(is_large, 1 / select(is_large, values, 1), 0)
    return matmul(H(right) * row(inverse), H(left))


pinv: Op = Op(
    "pinv",
    guarded(
        "pinv",
        "Check the matrix for inf and nan.",
        lambda a, rcond, hermitian: np.linalg.pinv(a, rcond, hermitian),
        lambda: pinv,
    ),
    _pinv_type,
    jvp=(_pinv_jvp, None),
    batch=lambda size, flags, a, rcond, hermitian: _batch_pinv(size, flags, a, rcond, hermitian),
    compose=_pinv_by_values,
    samples=lambda rng: [
        *[((a, np.float64(LEAST_RATIO)), {"hermitian": False}) for a in _rectangular_samples(rng)],
        ((_regular(rng, 3, 3), np.float64(1e-10)), {"hermitian": False}),
        ((_regular(rng, 2, 3, 3), np.array([1e-10, 1e-12])), {"hermitian": False}),
        ((np.zeros((0, 2)), np.float64(LEAST_RATIO)), {"hermitian": False}),
    ],
)
pinv.composes_complex = True


def _batch_pinv(size: int, flags: Sequence[bool], a: Any, rcond: Any, hermitian: bool) -> Any:
    if not flags[0]:
        a = broadcast_to(a, shape=(size, *type_of(a).shape))
    if flags[1]:
        own = type_of(rcond).shape[1:]
        missing = type_of(a).ndim - 3 - len(own)
        rcond = reshape(rcond, shape=(size, *(1,) * missing, *own))
    return pinv(a, rcond, hermitian=hermitian)


def _ratio(a: Any, rcond: float | None) -> float:
    """The part of the largest singular value below which lstsq takes one for zero."""
    own = type_of(a)
    eps = float(np.finfo(field_dtype("lstsq", own)).eps)
    return eps * max(own.shape[-2:]) if rcond is None else eps if rcond == -1 else rcond


def _lstsq_type(a: ArrayType, b: ArrayType, rcond: float | None) -> ArrayType:
    check_matrix("lstsq", a)
    check_matrix("lstsq", b)
    if a.shape[:-1] != b.shape[:-1]:
        raise MatrixShapeError(
            explain(
                "lstsq",
                f"got matrices of shape {a.shape} and right-hand sides of shape {b.shape}",
                "Both need the same number of rows (and the same axes before).",
            )
        )
    return ArrayType(field_dtype("lstsq", a, b), (*a.shape[:-2], a.shape[-1], b.shape[-1]))


def _lstsq(a: Any, b: Any, rcond: float | None) -> Any:
    result = _lstsq_type(type_of(a), type_of(b), rcond)
    x = np.empty(result.shape, result.dtype)
    for place in np.ndindex(result.shape[:-2]):
        x[place] = np.linalg.lstsq(a[place], b[place], rcond=rcond)[0]
    return x


def _lstsq_by_a(t: Any, ans: Any, a: Any, b: Any, rcond: float | None) -> Any:
    # The tangent of pinv(a) times b, without forming large projections.
    p = pinv(a, _ratio(a, rcond), hermitian=False)
    residual = matmul(H(t), b - matmul(a, ans))
    aside = matmul(H(t), matmul(H(p), ans))
    return (
        -matmul(p, matmul(t, ans))
        + matmul(p, matmul(H(p), residual))
        + aside
        - matmul(p, matmul(a, aside))
    )


def _batch_lstsq(size: int, flags: Sequence[bool], a: Any, b: Any, rcond: float | None) -> Any:
    a, b = (
        x if flag else broadcast_to(x, shape=(size, *type_of(x).shape))
        for x, flag in zip((a, b), flags, strict=True)
    )
    return lstsq(a, b, rcond=rcond)


# The x of least norm among those that make |a x - b| least.
lstsq: Op = Op(
    "lstsq",
    guarded("lstsq", "Check the matrix for inf and nan.", _lstsq, lambda: lstsq),
    _lstsq_type,
    jvp=(
        _lstsq_by_a,
        lambda t, ans, a, b, rcond: matmul(pinv(a, _ratio(a, rcond), hermitian=False), t),
    ),
    batch=_batch_lstsq,
    hosted=LAPACK,
    samples=lambda rng: [
        ((a, rng.normal(size=(*a.shape[:-1], 2)).astype(a.real.dtype)), {"rcond": None})
        for a in _rectangular_samples(rng)
    ],
)
