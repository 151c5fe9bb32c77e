"""Square roots and logarithms of matrices.

SciPy evaluates them, one matrix of a stack after the other. Compiled code takes square roots
itself: of Schur's form, made triangular, the roots of small blocks on the diagonal element by
element, then of two blocks and what is between them, by Sylvester's equation, until one is left.
The derivative of a square root solves Sylvester's equation too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import explain
from ..machine import current
from ..types import Function, type_of
from .elementwise import real, select, sqrt
from .equations import (
    BY_SCIPY,
    NOT_FINITE,
    one_by_one,
    schur,
    scipy_linalg,
    sylvester,
    triangular_sylvester,
)
from .indexing import index
from .layout import as_dtype, reduce_sum, reshape
from .linalg import (
    H,
    LinearAlgebraError,
    T,
    _regular,
    batch_leading,
    diagonal_of,
    guarded,
    matmul,
    part,
    row,
    square_type,
)
from .logic import equal, greater_equal, logical_or, not_equal
from .matrix_functions import tangent_of
from .op import Op
from .positions import provided
from .small_matrices import elements_of, matrices_of
from .structure import concatenate

# Roots of blocks up to this size are written out. Matrices up to the other one are native; of
# larger ones SciPy's is the faster root (of 20 rows by a tenth), and takes no time to compile.
_WRITTEN, _NATIVE = 6, 16


def _by_scipy(name: str, what: str) -> Function:
    """SciPy's function of that name; the one of real matrices must be real."""

    def evaluate(a: Any) -> Any:
        own = square_type(name)(type_of(a))
        function = getattr(scipy_linalg(name), name)

        def one(matrix: np.ndarray) -> Any:
            found = function(matrix.astype(np.result_type(own.dtype, np.float64)))
            if np.iscomplexobj(found) and own.dtype.kind != "c":
                raise LinearAlgebraError(explain(*_refusal(name, what).values()))
            return (found,)

        if 0 in own.shape:
            return np.zeros(own.shape, own.dtype)
        return one_by_one(one, (own,), (a,))[0]

    return evaluate


def _refusal(name: str, what: str) -> dict[str, str]:
    return {
        "name": name,
        "problem": f"the matrix has no {what} of real numbers",
        "remedy": "Convert it with astype(complex).",
    }


def _sqrtm_by_schur(a: Any) -> Any:
    """z r zᴴ with r r = u, the form of a; real matrices must have a real root."""
    own = square_type("sqrtm")(type_of(a))
    if not current().lapack or own.shape[-1] > _NATIVE or 0 in own.shape:
        return None
    wide = np.dtype(np.complex128 if own.dtype.kind == "c" else np.float64)
    u, z = schur(as_dtype(a, wide))
    if wide.kind == "c":
        return as_dtype(matmul(z, matmul(_root(u), H(z))), own.dtype)
    on, beside, allowed = _turn_of(u)
    triangle = _turned(_turned(u, on, beside), on, -beside, rows=True)
    root = real(_turned(_turned(_root(triangle), on, -beside), on, beside, rows=True))
    refusal = {"error": "LinearAlgebraError", **_refusal("sqrtm", "square root")}
    found = provided(matmul(z, matmul(root, T(z))), row(allowed), **refusal)
    return as_dtype(found, own.dtype)


def _turn_of(u: Any) -> tuple[Any, Any, Any]:
    """The matrix q with qᴴ u q triangular, of a real form u; which eigenvalues are not negative.

    A block [[a, b], [c, a]] of u has the eigenvector (b, i root of -bc), so q is symmetric: real
    numbers on the diagonal, imaginary ones beside it.
    """
    values, above, below = (_diagonal(u, offset) for offset in (0, 1, -1))
    is_block = not_equal(below, 0)
    root = select(is_block, sqrt(select(is_block, -above * below, 1.0)), 0.0)
    size = sqrt(select(is_block, above * above + root * root, 1.0))
    cosine = select(is_block, above / size, 1.0)
    none, one = np.zeros((*type_of(u).shape[:-2], 1)), np.ones((*type_of(u).shape[:-2], 1))
    last = type_of(u).ndim - 2
    on = concatenate(cosine, one, axis=last) * concatenate(one, cosine, axis=last)
    blocks = as_dtype(is_block, np.dtype(np.float64))
    inside = concatenate(blocks, none, axis=last) + concatenate(none, blocks, axis=last)
    allowed = logical_or(greater_equal(values, 0), not_equal(inside, 0))
    return on, root / size, allowed


def _diagonal(x: Any, offset: int) -> Any:
    """A diagonal of matrices, that many places above the main one."""
    n = type_of(x).shape[-1]
    rows, columns = slice(max(-offset, 0), n - max(offset, 0)), slice(max(offset, 0), None)
    return diagonal_of(part(x, rows, slice(columns.start, n - max(-offset, 0))))


def _turned(x: Any, on: Any, beside: Any, rows: bool = False) -> Any:
    """x q, or q x by rows; q has these numbers on its diagonal and i times those beside it."""
    if rows:
        return T(_turned(T(x), on, beside))
    n, axis = type_of(x).shape[-1], type_of(x).ndim - 1
    none = np.zeros((*type_of(x).shape[:-1], 1), type_of(x).dtype)
    before = concatenate(none, part(x, slice(None), slice(0, n - 1)), axis=axis)
    after = concatenate(part(x, slice(None), slice(1, n)), none, axis=axis)
    end = np.zeros((*type_of(beside).shape[:-1], 1))
    first = concatenate(end, beside, axis=axis - 1)
    second = concatenate(beside, end, axis=axis - 1)
    return x * row(on) + 1j * (before * row(first) + after * row(second))


def _root(u: Any) -> Any:
    """The root of triangular matrices: of blocks on the diagonal, then of two and two."""
    *batch, n, _ = type_of(u).shape
    count = 1
    while count * _WRITTEN < n:
        count *= 2
    size = -(-n // count)
    u = _padded(u, size * count - n)
    r = _written_root(_blocks(u, size, 0))
    while count > 1:
        count, rank = count // 2, type_of(r).ndim
        first, second = (_every_second(r, start) for start in (0, 1))
        # x with first x + x second = corner, in the form that LAPACK's routine asks for
        flipped = part(H(second), slice(None, None, -1), slice(None, None, -1))
        corner = part(_blocks(u, size, 1), slice(None), slice(None, None, -1))
        x = triangular_sylvester(first, flipped, corner, singular=True)
        x = part(x, slice(None), slice(None, None, -1))
        top = concatenate(first, x, axis=rank - 1)
        bottom = concatenate(np.zeros(type_of(x).shape, type_of(x).dtype), second, axis=rank - 1)
        r = concatenate(top, bottom, axis=rank - 2)
        size *= 2
    return part(reshape(r, shape=(*batch, size, size)), slice(0, n), slice(0, n))


def _padded(u: Any, more: int) -> Any:
    """Matrices with as many more rows of the unit matrix."""
    if not more:
        return u
    *batch, n, _ = type_of(u).shape
    dtype, rank = type_of(u).dtype, type_of(u).ndim
    right = np.zeros((*batch, n, more), dtype)
    below = np.broadcast_to(np.eye(more, n + more, n, dtype), (*batch, more, n + more))
    return concatenate(concatenate(u, right, axis=rank - 1), below, axis=rank - 2)


def _blocks(u: Any, size: int, offset: int) -> Any:
    """Blocks on the diagonal of matrices, stacked; or those right of every second of them."""
    *batch, n, _ = type_of(u).shape
    count = n // (size * (1 + offset))
    front = [(0, length, 1) for length in batch]
    u = reshape(u, shape=(*batch, *(count, 1 + offset, size) * 2))
    key = (*front, (0, count, 1), 0, (0, size, 1), (0, count, 1), offset, (0, size, 1))
    kept = select(np.eye(count, dtype=bool)[:, None, :, None], index(u, key=key), 0.0)
    return reduce_sum(kept, axes=(len(batch) + 2,))


def _every_second(x: Any, start: int) -> Any:
    """Every second matrix of the last axis of the stack."""
    *batch, count, _, _ = type_of(x).shape
    whole = [(0, length, 1) for length in type_of(x).shape]
    whole[len(batch)] = (start, count, 2)
    return index(x, key=tuple(whole))


def _written_root(u: Any) -> Any:
    """Element by element: r_ij (r_ii + r_jj) = u_ij less the products in between."""
    given = elements_of(u)
    n = len(given)
    zero = np.zeros(type_of(u).shape[:-2], type_of(u).dtype)
    r: list[list[Any]] = [[zero] * n for _ in range(n)]
    for j in range(n):
        r[j][j] = sqrt(given[j][j])
        for i in reversed(range(j)):
            rest = given[i][j]
            for k in range(i + 1, j):
                rest = rest - r[i][k] * r[k][j]
            both = r[i][i] + r[j][j]
            vanished = equal(both, 0)  # of two zeros on the diagonal, whose corner is 0 too
            r[i][j] = rest / select(vanished, 1.0, both)
    return matrices_of(r)


# The matrix r with r r = a whose eigenvalues have positive real parts.
sqrtm: Op = Op(
    "sqrtm",
    guarded("sqrtm", NOT_FINITE, _by_scipy("sqrtm", "square root"), lambda: sqrtm),
    square_type("sqrtm"),
    jvp=(lambda t, ans, a: sylvester(ans, ans, t),),
    batch=batch_leading(lambda: sqrtm),
    compose=_sqrtm_by_schur,
    samples=lambda rng: [
        ((_regular(rng, 3, 3),), {}),
        ((_regular(rng, 2, 2, 2),), {}),
        ((_regular(rng, 2, 2, complex_=True),), {}),
        ((np.eye(2, dtype=np.float32),), {}),
    ],
)


sqrtm.composes_complex = True


_logm = _by_scipy("logm", "logarithm")
# The matrix l with expm(l) = a whose eigenvalues have imaginary parts between -pi and pi.
logm: Op = Op(
    "logm",
    guarded("logm", NOT_FINITE, _logm, lambda: logm),
    square_type("logm"),
    jvp=(lambda t, ans, a: logm_tangent(a, t),),
    batch=batch_leading(lambda: logm),
    hosted=BY_SCIPY,
    samples=lambda rng: [
        ((_regular(rng, 3, 3),), {}),
        ((_regular(rng, 2, 2, 2),), {}),
        ((_regular(rng, 2, 2, complex_=True),), {}),
        ((np.eye(2, dtype=np.float32),), {}),
    ],
)
logm_tangent: Op = tangent_of("logm", _logm, BY_SCIPY)
