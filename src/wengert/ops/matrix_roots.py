"""Square roots and logarithms of matrices.

SciPy evaluates them, one matrix of a stack after the other. Compiled code takes the square root of
a small matrix itself, of Schur's form, element by element. The derivative of a square root solves
Sylvester's equation.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import explain
from ..machine import current
from ..types import Function, type_of
from .decompositions import eigvals
from .elementwise import imag, real, select, sqrt
from .equations import (
    BY_SCIPY,
    NOT_FINITE,
    one_by_one,
    schur,
    scipy_linalg,
    sylvester,
)
from .layout import as_dtype
from .linalg import (
    H,
    LinearAlgebraError,
    _regular,
    batch_leading,
    guarded,
    matmul,
    row,
    square_type,
)
from .logic import equal, less, logical_and, logical_not
from .matrix_functions import tangent_of
from .op import Op
from .positions import provided
from .small_matrices import elements_of, matrices_of

# Roots up to this size are written out; of larger matrices SciPy's is faster, whose form is real.
_WRITTEN = 6


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
    """z r zᴴ with r r = u, the triangular form of a; real matrices must have a real root."""
    own = square_type("sqrtm")(type_of(a))
    if not current().lapack or own.shape[-1] > _WRITTEN or 0 in own.shape:
        return None
    u, z = schur(as_dtype(a, np.dtype(np.complex128)))
    found = matmul(z, matmul(_written_root(u), H(z)))
    if own.dtype.kind == "c":
        return as_dtype(found, own.dtype)
    values = eigvals(as_dtype(a, np.dtype(np.float64)))
    below = logical_and(equal(imag(values), 0), less(real(values), 0))
    flags = {"error": "LinearAlgebraError", **_refusal("sqrtm", "square root")}
    return as_dtype(provided(real(found), row(logical_not(below)), **flags), own.dtype)


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
