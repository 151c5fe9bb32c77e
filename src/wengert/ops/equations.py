"""Matrix equations that NumPy does not solve: Sylvester's, banded, Schur's.

SciPy evaluates them, one matrix of a stack after the other; compiled code calls LAPACK itself for
Schur's form and what is solved with it, and for banded matrices. Their derivatives are the same
equations with other right-hand sides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import MissingPackageError, explain
from ..machine import current
from ..types import ArrayType, type_of
from .families import batch_elementwise
from .indexing import embed
from .layout import as_dtype
from .linalg import (
    H,
    LinearAlgebraError,
    MatrixShapeError,
    T,
    _regular,
    batch_leading,
    check_matrix,
    field_dtype,
    guarded,
    identities,
    lower_triangle,
    matmul,
    part,
    square_type,
    upper_triangle,
)
from .op import Op
from .structure import concatenate

BY_SCIPY = "LAPACK computes it, called by SciPy"
NOT_FINITE = "Check the matrix for inf and nan."


def scipy_linalg(name: str) -> Any:
    """SciPy's linear algebra, or a clear error without SciPy."""
    try:
        import scipy.linalg
    except ImportError:
        raise MissingPackageError(
            explain(
                name,
                "SciPy is not installed",
                "Install it: pip install scipy, or pip install 'wengert[sparse]'.",
            )
        ) from None
    return scipy.linalg


def one_by_one(
    evaluate: Callable[..., Any], types: tuple[ArrayType, ...], args: Any
) -> tuple[np.ndarray, ...]:
    """Evaluate for each matrix of a stack; axes before the last two broadcast."""
    arrays = [np.asarray(arg) for arg in args]
    batch = np.broadcast_shapes(*[array.shape[:-2] for array in arrays])
    arrays = [np.broadcast_to(array, (*batch, *array.shape[-2:])) for array in arrays]
    results = tuple(np.empty(own.shape, own.dtype) for own in types)
    for place in np.ndindex(batch):
        found = evaluate(*[array[place] for array in arrays])
        for result, value in zip(results, found, strict=True):
            result[place] = value
    return results


def _batch_shape(name: str, *types: ArrayType) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*[own.shape[:-2] for own in types])
    except ValueError:
        shapes = ", ".join(str(own.shape) for own in types)
        remedy = "The axes before the last two must broadcast."
        raise MatrixShapeError(explain(name, f"got shapes {shapes}", remedy)) from None


# ---------------------------------------------------------------- Sylvester's equation


def _sylvester_type(a: ArrayType, b: ArrayType, q: ArrayType, singular: bool = False) -> ArrayType:
    check_matrix("solve_sylvester", a, square=True)
    check_matrix("solve_sylvester", b, square=True)
    check_matrix("solve_sylvester", q)
    if q.shape[-2:] != (a.shape[-1], b.shape[-1]):
        raise MatrixShapeError(
            explain(
                "solve_sylvester",
                f"got a of shape {a.shape}, b of shape {b.shape} and q of shape {q.shape}",
                "q needs as many rows as a and as many columns as b.",
            )
        )
    batch = _batch_shape("solve_sylvester", a, b, q)
    return ArrayType(field_dtype("solve_sylvester", a, b, q), (*batch, *q.shape[-2:]))


def _sylvester(a: Any, b: Any, q: Any, singular: bool = False) -> Any:
    own = _sylvester_type(type_of(a), type_of(b), type_of(q))
    scipy = scipy_linalg("solve_sylvester")
    if 0 in own.shape[-2:]:
        return np.zeros(own.shape, own.dtype)
    kind = "complex" if own.dtype.kind == "c" else "real"

    def solve(a: np.ndarray, b: np.ndarray, q: np.ndarray) -> Any:
        # as SciPy does, which does not look whether LAPACK had to change an eigenvalue
        (first, left), (second, right) = (scipy.schur(x, kind) for x in (a, b.conj().T))
        inside = left.conj().T @ q @ right
        (trsyl,) = scipy.get_lapack_funcs(("trsyl",), (first, second, inside))
        found, scale, info = trsyl(first, second, inside, tranb="C")
        if info and not singular:
            raise np.linalg.LinAlgError("an eigenvalue of a is one of -b, to rounding")
        return (left @ (found / scale) @ right.conj().T,)

    return one_by_one(solve, (own,), (a, b, q))[0]


def _with_schur(a: Any, b: Any, q: Any) -> Any:
    """By the forms of a and bᴴ, with which the equation is triangular."""
    if not current().lapack or 0 in (*type_of(a).shape, *type_of(b).shape):
        return None
    own = _sylvester_type(type_of(a), type_of(b), type_of(q)).dtype
    a, b, q = (as_dtype(one, own) for one in (a, b, q))
    (first, left), (second, right) = schur(a), schur(H(b))
    inside = triangular_sylvester(first, second, matmul(H(left), matmul(q, right)), singular=False)
    return matmul(left, matmul(inside, H(right)))


def _triangular_sylvester(a: Any, b: Any, q: Any, singular: bool) -> Any:
    return _sylvester(a, H(b), q, True) if singular else sylvester(a, H(b), q)


# x with a x + x bᴴ = q, where a and b are in Schur's form. Where an eigenvalue of a is one of -bᴴ
# there is an error, or, if `singular` says so, what LAPACK finds: 0 where q is 0.
triangular_sylvester: Op = Op(
    "triangular_sylvester",
    _triangular_sylvester,
    _sylvester_type,
    jvp=(
        lambda t, ans, a, b, q, singular: -sylvester(a, H(b), matmul(t, ans)),
        lambda t, ans, a, b, q, singular: -sylvester(a, H(b), matmul(ans, H(t))),
        lambda t, ans, a, b, q, singular: triangular_sylvester(a, b, t, singular=singular),
    ),
    transpose=(None, None, lambda g, a, b, q, singular: sylvester(T(a), T(H(b)), g)),
    batch=batch_elementwise(lambda: triangular_sylvester),
    hosted=BY_SCIPY,
    samples=lambda rng: [
        (
            (upper_triangle(_regular(rng, 3, 3)), np.diag([2.0, 3.0]), rng.normal(size=(3, 2))),
            {"singular": False},
        ),
        (
            (np.diag([1 + 1j, 2 - 1j]), np.diag([2.0, 3.0]), rng.normal(size=(2, 2))),
            {"singular": True},
        ),
    ],
)


# x with a x + x b = q.
sylvester: Op = Op(
    "solve_sylvester",
    guarded(
        "solve_sylvester",
        "It has one solution only where no eigenvalue of a is one of -b.",
        _sylvester,
        lambda: sylvester,
        identities(0, 1),
    ),
    _sylvester_type,
    jvp=(
        lambda t, ans, a, b, q: -sylvester(a, b, matmul(t, ans)),
        lambda t, ans, a, b, q: -sylvester(a, b, matmul(ans, t)),
        lambda t, ans, a, b, q: sylvester(a, b, t),
    ),
    transpose=(None, None, lambda g, a, b, q: sylvester(T(a), T(b), g)),
    batch=batch_elementwise(lambda: sylvester),
    compose=_with_schur,
    samples=lambda rng: [
        ((_regular(rng, 3, 3), _regular(rng, 2, 2), rng.normal(size=(3, 2))), {}),
        ((_regular(rng, 2, 2, 2), _regular(rng, 2, 2), rng.normal(size=(2, 2))), {}),
        (
            (
                _regular(rng, 2, 2, complex_=True),
                _regular(rng, 2, 2, complex_=True),
                rng.normal(size=(2, 2)) + 0j,
            ),
            {},
        ),
        ((np.eye(2, dtype=np.float32),) * 3, {}),
    ],
)


sylvester.composes_complex = True


# ---------------------------------------------------------------- banded matrices


def shifted(x: Any, down: int) -> Any:
    """The rows of matrices moved down by some places (up, where negative), zeros after them."""
    *batch, rows, columns = type_of(x).shape
    kept = slice(max(-down, 0), rows - max(down, 0))
    start = max(down, 0)
    key = [(0, length, 1) for length in batch]
    key += [(start, start + kept.stop - kept.start, 1), (0, columns, 1)]
    return embed(part(x, kept, slice(None)), key=tuple(key), shape=(*batch, rows, columns))


def _bands(ab: Any, lower: int, upper: int) -> list[tuple[int, Any]]:
    """The diagonals as columns, each with how far below the main one it lies.

    Those longer than the matrix is wide have no element.
    """
    size = type_of(ab).shape[-1]
    return [
        (number - upper, T(part(ab, slice(number, number + 1), slice(None))))
        for number in range(lower + upper + 1)
        if abs(number - upper) < size
    ]


def banded_product(ab: Any, x: Any, lower: int, upper: int) -> Any:
    """The product of banded matrices with matrices."""
    total: Any = 0.0
    for below, diagonal in _bands(ab, lower, upper):
        total = total + shifted(diagonal * x, below)
    return total


def banded_transpose(ab: Any, lower: int, upper: int) -> Any:
    """The diagonals of the transposed matrices: `lower` and `upper` change places."""
    size = type_of(ab).shape[-1]
    found = dict(_bands(ab, lower, upper))
    empty = np.zeros((*type_of(ab).shape[:-2], 1, size), type_of(ab).dtype)
    rows = [
        T(shifted(found[below], below)) if below in found else empty
        for below in range(lower, -upper - 1, -1)
    ]
    return concatenate(*rows, axis=type_of(ab).ndim - 2)


def _banded_type(ab: ArrayType, b: ArrayType, lower: int, upper: int) -> ArrayType:
    check_matrix("solve_banded", ab)
    check_matrix("solve_banded", b)
    if ab.shape[-2] != lower + upper + 1 or ab.shape[-1] != b.shape[-2]:
        raise MatrixShapeError(
            explain(
                "solve_banded",
                f"got {lower} diagonals below and {upper} above, ab of shape {ab.shape} and "
                f"right-hand sides of shape {b.shape}",
                f"ab needs {lower + upper + 1} rows and as many columns as b has rows.",
            )
        )
    batch = _batch_shape("solve_banded", ab, b)
    return ArrayType(field_dtype("solve_banded", ab, b), (*batch, *b.shape[-2:]))


def _solve_banded(ab: Any, b: Any, lower: int, upper: int) -> Any:
    own = _banded_type(type_of(ab), type_of(b), lower, upper)
    solve = scipy_linalg("solve_banded").solve_banded
    if 0 in own.shape:
        return np.zeros(own.shape, own.dtype)
    pair = (lower, upper)
    return one_by_one(lambda *one: (solve(pair, *one),), (own,), (ab, b))[0]


def _identity_in_bands(
    ab: ArrayType, b: ArrayType, lower: int, upper: int
) -> dict[int, np.ndarray]:
    made = np.zeros(ab.shape[-2:], ab.dtype)
    made[upper] = 1
    return {0: made}


def _banded_transposed(g: Any, ab: Any, b: Any, lower: int, upper: int) -> Any:
    return banded_solve(banded_transpose(ab, lower, upper), g, lower=upper, upper=lower)


def _banded_samples(rng: np.random.Generator) -> Any:
    def bands(*shape: int, main: int = 1) -> np.ndarray:
        made = 0.4 * rng.normal(size=shape)
        made[..., main, :] += 3
        return made

    yield (bands(3, 4), rng.normal(size=(4, 2))), {"lower": 1, "upper": 1}
    yield (bands(2, 3, 5), rng.normal(size=(5, 1))), {"lower": 1, "upper": 1}
    yield (bands(5, 4, main=2), rng.normal(size=(2, 4, 2))), {"lower": 2, "upper": 2}
    yield (bands(3, 2), np.ones((2, 1))), {"lower": 1, "upper": 1}
    yield (bands(3, 4) + 0.1j, rng.normal(size=(4, 1)) + 0j), {"lower": 1, "upper": 1}
    yield (bands(3, 4).astype(np.float32), np.ones((4, 1), np.float32)), {"lower": 1, "upper": 1}


# x with a x = b, where the rows of ab are the diagonals of a, the uppermost first.
banded_solve: Op = Op(
    "solve_banded",
    guarded("solve_banded", NOT_FINITE, _solve_banded, lambda: banded_solve, _identity_in_bands),
    _banded_type,
    jvp=(
        lambda t, ans, ab, b, lower, upper: (
            -banded_solve(ab, banded_product(t, ans, lower, upper), lower=lower, upper=upper)
        ),
        lambda t, ans, ab, b, **params: banded_solve(ab, t, **params),
    ),
    transpose=(None, _banded_transposed),
    batch=batch_elementwise(lambda: banded_solve),
    hosted=BY_SCIPY,
    samples=_banded_samples,
)


# ---------------------------------------------------------------- Schur's form


def _below(triangle: Any, w: Any, lower: bool) -> Any:
    """x, below its diagonal, where x u - u x is w there; u is upper or lower triangular."""
    own = _below_type(type_of(triangle), type_of(w), lower)

    def one(u: np.ndarray, right: np.ndarray) -> Any:
        n = len(u)
        x = np.zeros((n, n), own.dtype)
        for i in range(n) if lower else reversed(range(n)):
            for j in reversed(range(i)) if lower else range(i):
                rest = right[i, j] - x[i] @ u[:, j] + u[i] @ x[:, j]
                x[i, j] = rest / (u[j, j] - u[i, i])
        return (x,)

    return one_by_one(one, (own,), (triangle, w))[0]


def _below_type(u: ArrayType, w: ArrayType, lower: bool) -> ArrayType:
    check_matrix("schur", u, square=True)
    return ArrayType(field_dtype("schur", u, w), (*_batch_shape("schur", u, w), *w.shape[-2:]))


def _triangle(x: Any, lower: bool) -> Any:
    return lower_triangle(x) if lower else upper_triangle(x)


def _below_by_triangle(t: Any, ans: Any, u: Any, w: Any, lower: bool) -> Any:
    t = _triangle(t, lower)
    return -below(u, matmul(ans, t) - matmul(t, ans), lower=lower)


# The part below the diagonal that turns a triangular matrix: x u - u x = w below the diagonal, x
# being 0 on it and above.
below: Op = Op(
    "below_diagonal",
    lambda u, w, lower: _below(u, w, lower),
    _below_type,
    jvp=(_below_by_triangle, lambda t, ans, u, w, lower: below(u, t, lower=lower)),
    transpose=(None, lambda g, u, w, lower: below(T(u), lower_triangle(g, -1), lower=not lower)),
    batch=batch_elementwise(lambda: below),
    hosted="element after element, as LAPACK's trsyl does; NumPy computes it",
    samples=lambda rng: [
        (
            (_triangle(_regular(rng, 3, 3) + np.diag([0.0, 2, 5]), lower), rng.normal(size=(3, 3))),
            {"lower": lower},
        )
        for lower in (True, False)
    ],
)


def _schur_type(a: ArrayType) -> tuple[ArrayType, ArrayType]:
    own = square_type("schur")(a)
    return own, own


def _schur(a: Any) -> Any:
    types = _schur_type(type_of(a))
    decompose = scipy_linalg("schur").schur
    output = "complex" if types[0].dtype.kind == "c" else "real"
    return one_by_one(lambda one: decompose(one, output=output), types, (a,))


def _check_triangular(u: Any) -> Any:
    if np.any(np.diagonal(u, -1, -2, -1)):
        raise LinearAlgebraError(
            explain(
                "schur",
                "the matrix has complex eigenvalues: its real form, with blocks of two rows, has "
                "no derivative here",
                "Use output='complex'.",
            )
        )
    return np.array(u)


# A triangular matrix as it is; one that is not is an error.
triangular: Op = Op(
    "triangular_only",
    _check_triangular,
    lambda u: u,
    linear=(0,),
    transpose=(lambda g, u: g,),
    batch=batch_leading(lambda: triangular),
    hosted="it looks whether the elements below the diagonal are 0",
    absent={"jvp": "it is linear on triangular matrices, which finite differences leave"},
    samples=lambda rng: [((np.eye(3),), {}), ((np.zeros((2, 2, 2)),), {})],
)


def _schur_jvp(tangents: Any, ans: Any, a: Any) -> Any:
    # zᴴ da z = du + w u - u w, where w = zᴴ dz is skew-Hermitian: below the diagonal, where du is
    # 0, this gives w. Its diagonal is free; LAPACK's choice is not to be differentiated.
    u, z = triangular(ans[0]), ans[1]
    inside = matmul(H(z), matmul(tangents[0], z))
    lower = below(u, inside, lower=False)
    turn = lower - H(lower)
    return upper_triangle(inside - matmul(turn, u) + matmul(u, turn)), matmul(z, turn)


# The triangular u and unitary z with a = z u zᴴ.
schur: Op = Op(
    "schur",
    guarded("schur", NOT_FINITE, _schur, lambda: schur),
    _schur_type,
    jvp=_schur_jvp,
    batch=batch_leading(lambda: schur),
    multiple=True,
    hosted=BY_SCIPY,
    samples=lambda rng: [
        ((_apart(3),), {}),
        ((np.stack([_apart(2), 2 * _apart(2)]),), {}),
        # whose vectors have signs that rounding does not choose
        ((np.triu(_apart(3)).astype(np.float32),), {}),
    ],
)


def _apart(size: int) -> np.ndarray:
    """A matrix with real eigenvalues far from each other."""
    made: np.ndarray = 0.1 * np.arange(size * size).reshape(size, size)
    return made + np.diag(2.0 * np.arange(1, size + 1))
