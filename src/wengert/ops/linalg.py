"""Linear algebra on stacks of matrices: solving, inverses, determinants, the exponential.

Matrices are the last two axes; all axes before them are a batch that broadcasts as in NumPy.
Rules are written with `matmul`, `solve` and `triangular_solve`, which are linear in an argument
and so have transposes; the rest follows. `H` is the conjugate transpose. Factorisations are in
`decompositions`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import DTypeError, ShapeError, WengertError, explain
from ..types import ArrayType, Function, type_of
from .contract import contract, normal_spec
from .elementwise import conjugate, select
from .families import batch_elementwise
from .indexing import index
from .layout import broadcast_to, permute, reduce_sum, reshape
from .op import Op

# ---------------------------------------------------------------- errors and types


class LinearAlgebraError(WengertError, np.linalg.LinAlgError):
    """A matrix for which the operation has no result: singular, not positive definite."""


class MatrixShapeError(ShapeError, np.linalg.LinAlgError):
    """An array that is not a (stack of) matrices of the right shape."""


LAPACK = "LAPACK computes it, in NumPy"
SINGULAR = "Use lstsq or pinv for matrices without an inverse."


def guarded(name: str, remedy: str, evaluate: Function, op_of: Callable[[], Op]) -> Function:
    """Evaluation whose LinAlgError names the operation; wrong shapes get the type rule's words."""

    def checked(*args: Any, **params: Any) -> Any:
        try:
            return evaluate(*args, **params)
        except np.linalg.LinAlgError as error:
            op_of().type_rule(*[type_of(arg) for arg in args], **params)
            problem = str(error).strip().rstrip(".")
            raise LinearAlgebraError(explain(name, problem, remedy)) from None

    return checked


def check_matrix(name: str, a: ArrayType, square: bool = False) -> None:
    """Raise unless `a` is a stack of (square) matrices."""
    if a.ndim >= 2 and (not square or a.shape[-1] == a.shape[-2]):
        return
    expected = "(..., n, n): square matrices" if square else "(..., m, n): matrices"
    raise MatrixShapeError(
        explain(
            name,
            f"got an array of shape {a.shape}, expected {expected}",
            "Reshape it so that the last two axes are the matrix.",
        )
    )


def field_dtype(name: str, *types: ArrayType) -> np.dtype:
    """The dtype of the result: NumPy computes in single or double, real or complex."""
    dtype = np.result_type(*[t.dtype if t.dtype.kind in "fc" else np.float64 for t in types])
    if dtype.char not in "fdFD":
        raise DTypeError(
            explain(
                name,
                f"is not defined for {', '.join(map(str, types))}",
                "Convert to float32 or float64 with astype.",
            )
        )
    return dtype


def real_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype of the real part."""
    return np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype


def square_type(name: str) -> Function:
    """The type rule of an operation from square matrices to matrices of the same shape."""

    def rule(a: ArrayType, **params: Any) -> ArrayType:
        check_matrix(name, a, square=True)
        return ArrayType(field_dtype(name, a), a.shape)

    return rule


def batch_leading(op_of: Callable[[], Op]) -> Function:
    """Batching of an operation on one stack of matrices: the stack grows by an axis."""
    return lambda size, flags, a, **params: op_of()(a, **params)


# ---------------------------------------------------------------- pieces of rules


def matmul(x: Any, y: Any) -> Any:
    """The product of (stacks of) matrices."""
    x_shape, y_shape = type_of(x).shape, type_of(y).shape
    batch = np.broadcast_shapes(x_shape[:-2], y_shape[:-2])
    x, y = _stretch(x, batch), _stretch(y, batch)
    return contract(x, y, spec=_product_spec(len(type_of(x).shape), len(type_of(y).shape)))


def _stretch(x: Any, batch: tuple[int, ...]) -> Any:
    """Repeat axes of length 1; `contract` knows missing axes but not short ones."""
    shape = type_of(x).shape
    own = shape[:-2]
    wanted = batch[len(batch) - len(own) :]
    return x if own == wanted else broadcast_to(x, shape=(*wanted, *shape[-2:]))


@functools.cache
def _product_spec(x_rank: int, y_rank: int) -> Any:
    rank = max(x_rank, y_rank) - 2
    row, inner, column = rank, rank + 1, rank + 2
    x_batch = tuple(range(rank - (x_rank - 2), rank))
    y_batch = tuple(range(rank - (y_rank - 2), rank))
    return normal_spec(
        (*x_batch, row, inner), (*y_batch, inner, column), (*range(rank), row, column)
    )


def T(x: Any) -> Any:
    """The transposed matrices."""
    rank = len(type_of(x).shape)
    return permute(x, axes=(*range(rank - 2), rank - 1, rank - 2))


def H(x: Any) -> Any:
    """The conjugate transposes."""
    return conjugate(T(x)) if type_of(x).dtype.kind == "c" else T(x)


def row(x: Any) -> Any:
    """Vectors as matrices of one row."""
    shape = type_of(x).shape
    return reshape(x, shape=(*shape[:-1], 1, shape[-1]))


def column(x: Any) -> Any:
    """Vectors as matrices of one column."""
    return reshape(x, shape=(*type_of(x).shape, 1))


def part(x: Any, rows: slice, columns: slice) -> Any:
    """A block of the matrices."""
    shape = type_of(x).shape
    key = [(0, length, 1) for length in shape[:-2]]
    key += [s.indices(n) for s, n in zip((rows, columns), shape[-2:], strict=True)]
    return index(x, key=tuple(key))


def identity(x: Any) -> np.ndarray:
    """The identity matrix with as many columns as `x`, in its dtype."""
    array_type = type_of(x)
    return np.eye(array_type.shape[-1], dtype=field_dtype("eye", array_type))


def masked(mask: np.ndarray, x: Any) -> Any:
    """`x` where the mask is true, 0 elsewhere."""
    return select(mask, x, 0)


def lower_triangle(x: Any, diagonal: int = 0) -> Any:
    """NumPy's tril."""
    rows, columns = type_of(x).shape[-2:]
    return masked(np.tri(rows, columns, diagonal, dtype=bool), x)


def upper_triangle(x: Any, diagonal: int = 0) -> Any:
    """NumPy's triu."""
    rows, columns = type_of(x).shape[-2:]
    return masked(~np.tri(rows, columns, diagonal - 1, dtype=bool), x)


def diagonal_of(x: Any) -> Any:
    """The diagonals of square matrices as vectors."""
    rank = len(type_of(x).shape)
    kept = masked(np.eye(type_of(x).shape[-1], dtype=bool), x)
    return reduce_sum(kept, axes=(rank - 1,))


def trace_of(x: Any) -> Any:
    """The traces of square matrices."""
    return reduce_sum(diagonal_of(x), axes=(len(type_of(x).shape) - 2,))


def symmetric_part(x: Any) -> Any:
    """(x + xᴴ) / 2."""
    return 0.5 * x + 0.5 * H(x)


# ---------------------------------------------------------------- solving


def _solve_type(name: str) -> Function:
    def rule(a: ArrayType, b: ArrayType, **params: Any) -> ArrayType:
        check_matrix(name, a, square=True)
        check_matrix(name, b)
        try:
            batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        except ValueError:
            batch = None
        if batch is None or a.shape[-1] != b.shape[-2]:
            raise MatrixShapeError(
                explain(
                    name,
                    f"got matrices of shape {a.shape} and right-hand sides of shape {b.shape}",
                    "The right-hand sides need as many rows as the matrix, and the axes before "
                    "the last two must broadcast.",
                )
            )
        return ArrayType(field_dtype(name, a, b), (*batch, *b.shape[-2:]))

    return rule


def _regular(rng: np.random.Generator, *shape: int, complex_: bool = False) -> np.ndarray:
    """Well-conditioned square matrices."""
    a = rng.normal(size=shape) * 0.4
    if complex_:
        a = a + 0.4j * rng.normal(size=shape)
    return a + 2 * np.eye(shape[-1])


def _solve_samples(rng: np.random.Generator, **params: Any) -> Any:
    yield (_regular(rng, 3, 3), rng.normal(size=(3, 2))), params
    yield (_regular(rng, 2, 3, 3), rng.normal(size=(3, 1))), params
    yield (_regular(rng, 3, 3), rng.normal(size=(2, 3, 2))), params
    yield (_regular(rng, 2, 2, complex_=True), rng.normal(size=(2, 2))), params
    yield (_regular(rng, 0, 0), rng.normal(size=(0, 2))), params
    yield (_regular(rng, 2, 2).astype(np.float32), np.ones((2, 1), np.float32)), params


# x with a x = b.
solve: Op = Op(
    "solve",
    guarded("solve", SINGULAR, np.linalg.solve, lambda: solve),
    _solve_type("solve"),
    jvp=(
        lambda t, ans, a, b: -solve(a, matmul(t, ans)),
        lambda t, ans, a, b: solve(a, t),
    ),
    transpose=(None, lambda g, a, b: solve(T(a), g)),
    batch=batch_elementwise(lambda: solve),
    hosted=LAPACK,
    samples=_solve_samples,
)

# Rows that are eliminated at once; the rest of the work is matrix products.
_BLOCK = 64


def _substitute(a: np.ndarray, b: np.ndarray, lower: bool, unit_diagonal: bool) -> np.ndarray:
    """Solve with one triangle of `a`, block by block."""
    n = a.shape[-1]
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    dtype = field_dtype("solve_triangular", type_of(a), type_of(b))
    x = np.array(np.broadcast_to(b, (*batch, *b.shape[-2:])), dtype)
    starts = range(0, n, _BLOCK)
    for start in starts if lower else reversed(starts):
        here = slice(start, min(start + _BLOCK, n))
        done = slice(0, start) if lower else slice(here.stop, n)
        known = a[..., here, done] @ x[..., done, :]
        block = _one_triangle(a[..., here, here], lower, unit_diagonal)
        x[..., here, :] = _back_substitute(block, x[..., here, :] - known, lower)
    return x


def _one_triangle(a: np.ndarray, lower: bool, unit_diagonal: bool) -> np.ndarray:
    triangle = np.tril(a) if lower else np.triu(a)
    if unit_diagonal:
        places = np.arange(a.shape[-1])
        triangle[..., places, places] = 1
    return triangle


def _back_substitute(a: np.ndarray, b: np.ndarray, lower: bool) -> np.ndarray:
    """For an upper triangle elimination has nothing to do; a lower one is turned around."""
    if not lower:
        return np.linalg.solve(a, b)
    return np.linalg.solve(a[..., ::-1, ::-1], b[..., ::-1, :])[..., ::-1, :]


def _triangle_tangent(t: Any, lower: bool, unit_diagonal: bool) -> Any:
    if lower:
        return lower_triangle(t, -1 if unit_diagonal else 0)
    return upper_triangle(t, 1 if unit_diagonal else 0)


def _triangular_samples(rng: np.random.Generator) -> Any:
    for lower, unit_diagonal in ((True, False), (False, True)):
        yield from _solve_samples(rng, lower=lower, unit_diagonal=unit_diagonal)


# x with a x = b, where only one triangle of a is read.
triangular_solve: Op = Op(
    "solve_triangular",
    guarded("solve_triangular", SINGULAR, _substitute, lambda: triangular_solve),
    _solve_type("solve_triangular"),
    jvp=(
        lambda t, ans, a, b, lower, unit_diagonal: (
            -triangular_solve(
                a,
                matmul(_triangle_tangent(t, lower, unit_diagonal), ans),
                lower=lower,
                unit_diagonal=unit_diagonal,
            )
        ),
        lambda t, ans, a, b, **params: triangular_solve(a, t, **params),
    ),
    transpose=(
        None,
        lambda g, a, b, lower, unit_diagonal: triangular_solve(
            T(a), g, lower=not lower, unit_diagonal=unit_diagonal
        ),
    ),
    batch=batch_elementwise(lambda: triangular_solve),
    hosted=LAPACK,
    samples=_triangular_samples,
)


# ---------------------------------------------------------------- inverses


def _square_samples(rng: np.random.Generator) -> Any:
    yield (_regular(rng, 3, 3),), {}
    yield (_regular(rng, 2, 5, 5),), {}
    yield (_regular(rng, 2, 2, complex_=True),), {}
    yield (_regular(rng, 1, 1),), {}
    yield (_regular(rng, 0, 0),), {}
    yield (_regular(rng, 3, 3).astype(np.float32),), {}


inv: Op = Op(
    "inv",
    guarded("inv", SINGULAR, np.linalg.inv, lambda: inv),
    square_type("inv"),
    jvp=(lambda t, ans, a: -matmul(matmul(ans, t), ans),),
    batch=batch_leading(lambda: inv),
    hosted=LAPACK,
    samples=_square_samples,
)


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
    hosted=LAPACK,
    samples=lambda rng: [
        *[((a, np.float64(LEAST_RATIO)), {"hermitian": False}) for a in _rectangular_samples(rng)],
        ((_regular(rng, 3, 3), np.float64(1e-10)), {"hermitian": False}),
        ((_regular(rng, 2, 3, 3), np.array([1e-10, 1e-12])), {"hermitian": False}),
        ((np.zeros((0, 2)), np.float64(LEAST_RATIO)), {"hermitian": False}),
    ],
)


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
