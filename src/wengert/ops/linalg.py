"""Linear algebra on stacks of matrices: solving, inverses, determinants, the exponential.

Matrices are the last two axes; all axes before them are a batch that broadcasts as in NumPy.
Rules are written with `matmul`, `solve` and `triangular_solve`, which are linear in an argument
and so have transposes; the rest follows. `H` is the conjugate transpose. Factorisations are in
`decompositions`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ..errors import DTypeError, ShapeError, WengertError, explain
from ..machine import current
from ..types import ArrayType, Function, type_of
from .contract import contract, normal_spec
from .elementwise import conjugate, select
from .families import batch_elementwise
from .indexing import gather, index
from .layout import broadcast_to, convert, permute, reduce_sum, reshape
from .op import Op
from .small_matrices import is_small, solved, solved_triangle

# ---------------------------------------------------------------- errors and types


class LinearAlgebraError(WengertError, np.linalg.LinAlgError):
    """A matrix for which the operation has no result: singular, not positive definite."""


class MatrixShapeError(ShapeError, np.linalg.LinAlgError):
    """An array that is not a (stack of) matrices of the right shape."""


LAPACK = "LAPACK computes it: called by schedule/library.py, or by NumPy"
SINGULAR = "Use lstsq or pinv for matrices without an inverse."


def guarded(
    name: str,
    remedy: str,
    evaluate: Function,
    op_of: Callable[[], Op],
    accepted: Function | None = None,
) -> Function:
    """Evaluation whose LinAlgError names the operation; wrong shapes get the type rule's words.

    `accepted(*types, **params)` gives arguments, by their numbers, with which there is none: the
    identity for the first one, unless said otherwise.
    """

    def checked(*args: Any, **params: Any) -> Any:
        try:
            return evaluate(*args, **params)
        except LinearAlgebraError:
            raise
        except np.linalg.LinAlgError as error:
            op_of().type_rule(*[type_of(arg) for arg in args], **params)
            problem = str(error).strip().rstrip(".")
            raise LinearAlgebraError(explain(name, problem, remedy)) from None

    checked.accepted = accepted or identities(0)  # type: ignore[attr-defined]
    return checked


def identities(*numbers: int) -> Function:
    """The rule that these arguments are identities."""

    def rule(*types: ArrayType, **_: Any) -> dict[int, np.ndarray]:
        return {one: np.eye(*types[one].shape[-2:], dtype=types[one].dtype) for one in numbers}

    return rule


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


# From so many rows on, right-hand sides of one matrix are its columns; below, they are lanes.
_LEAST_BESIDE = 8


def _batch_of_sides(op_of: Callable[[], Op]) -> Function:
    """Batching of solutions: with one matrix for all samples, theirs are columns beside each other.

    So the matrix is eliminated, and read, once.
    """
    each = batch_elementwise(op_of)

    def rule(size: int, flags: Any, a: Any, b: Any, **params: Any) -> Any:
        shapes = type_of(a).shape, type_of(b).shape
        alone = not flags[0] and len(shapes[0]) == 2 and len(shapes[1]) == 3
        if not alone or shapes[0][0] < _LEAST_BESIDE:
            return each(size, flags, a, b, **params)
        _, rows, columns = shapes[1]
        beside = reshape(permute(b, axes=(1, 0, 2)), shape=(rows, size * columns))
        found = reshape(op_of()(a, beside, **params), shape=(rows, size, columns))
        return permute(found, axes=(1, 0, 2))

    return rule


# Of many matrices with at most so many rows, none is eliminated for later: keeping what comes of it
# takes longer than doing it again.
MOST_ALONE = 32
# What NumPy computes in, whatever it is given.
_DOUBLE = np.dtype(np.float64)


def _solve_by_lu(a: Any, b: Any, transposed: bool) -> Any:
    """P a = L U, which all that is done with the same matrix shares; small ones are written out."""
    if is_small(type_of(a).shape, type_of(b).shape):
        return solved(a, b, transposed)
    batch = np.broadcast_shapes(type_of(a).shape[:-2], type_of(b).shape[:-2])
    if not current().lapack or (prod(batch) > 1 and type_of(a).shape[-1] <= MOST_ALONE):
        return None
    factors, _, order, back = lu(convert(a, dtype=_DOUBLE))
    b = convert(b, dtype=_DOUBLE)
    if transposed:
        b = triangular_solve(T(factors), b, lower=True, unit_diagonal=False)
        b = triangular_solve(T(factors), b, lower=False, unit_diagonal=True)
        return _rows(b, back)
    b = triangular_solve(factors, _rows(b, order), lower=True, unit_diagonal=True)
    return triangular_solve(factors, b, lower=False, unit_diagonal=False)


# x with a x = b, or aᵀ x = b.
solve: Op = Op(
    "solve",
    guarded(
        "solve",
        SINGULAR,
        lambda a, b, transposed: np.linalg.solve(a.swapaxes(-1, -2) if transposed else a, b),
        lambda: solve,
    ),
    _solve_type("solve"),
    jvp=(
        lambda t, ans, a, b, transposed: (
            -solve(a, matmul(T(t) if transposed else t, ans), transposed=transposed)
        ),
        lambda t, ans, a, b, transposed: solve(a, t, transposed=transposed),
    ),
    transpose=(None, lambda g, a, b, transposed: solve(a, g, transposed=not transposed)),
    batch=_batch_of_sides(lambda: solve),
    mixes=lambda a, b, transposed: (-2, -1),
    compose=_solve_by_lu,
    samples=lambda rng: [
        sample
        for transposed in (False, True)
        for sample in _solve_samples(rng, transposed=transposed)
    ],
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
    batch=_batch_of_sides(lambda: triangular_solve),
    mixes=lambda a, b, **params: (-2, -1),
    compose=lambda a, b, **params: (
        solved_triangle(a, b, **params) if is_small(type_of(a).shape, type_of(b).shape) else None
    ),
    reads_views=True,
    samples=_triangular_samples,
)


# a b, where only one triangle of a is read.
triangular_product: Op = Op(
    "triangular_product",
    lambda a, b, lower: np.matmul(
        _one_triangle(a, lower, False), b, dtype=field_dtype("matmul", type_of(a), type_of(b))
    ),
    _solve_type("triangular_product"),
    linear=(0, 1),
    transpose=(
        lambda g, a, b, lower: _triangle_tangent(matmul(g, T(b)), lower, False),
        lambda g, a, b, lower: triangular_product(T(a), g, lower=not lower),
    ),
    batch=batch_elementwise(lambda: triangular_product),
    compose=lambda a, b, lower: (
        None
        if current().lapack and type_of(a).shape[-1] > MOST_ALONE
        else matmul(_triangle_tangent(a, lower, False), b)
    ),
    reads_views=True,
    samples=lambda rng: [
        sample for lower in (True, False) for sample in _solve_samples(rng, lower=lower)
    ],
)


# ---------------------------------------------------------------- elimination


def _rows(x: Any, order: Any) -> Any:
    """The rows of matrices in another order, for each matrix of its own."""
    batch = np.broadcast_shapes(type_of(x).shape[:-2], type_of(order).shape[:-1])
    x = _stretch(x, batch)
    if len(type_of(x).shape) - 2 < len(batch):
        x = broadcast_to(x, shape=(*batch, *type_of(x).shape[-2:]))
    order = broadcast_to(order, shape=(*batch, type_of(order).shape[-1]))
    rank = len(batch)
    stack = [np.arange(n).reshape((n,) + (1,) * (rank - k)) for k, n in enumerate(batch)]
    return gather(x, *stack, order, axes=tuple(range(rank + 1)))


def _eliminate(a: Any) -> Any:
    """Column by column, with the largest element that is left on the diagonal."""
    dtype, shape, _ = _lu_type(type_of(a))[0]
    n = shape[-1]
    factors = np.array(a, dtype).reshape(prod(shape[:-2]), n, n)
    count = np.arange(len(factors))
    pivots = np.zeros((len(factors), n), np.int64)
    order = np.tile(np.arange(n), (len(factors), 1))
    for k in range(n):
        largest = np.argmax(np.abs(factors[:, k:, k]), axis=1) + k
        pivots[:, k] = largest
        for rows in (factors, order):
            rows[count, largest], rows[:, k] = rows[:, k].copy(), rows[count, largest]
        pivot = factors[:, k, k, None]
        factors[:, k + 1 :, k] /= np.where(pivot == 0, 1, pivot)
        factors[:, k + 1 :, k + 1 :] -= factors[:, k + 1 :, k, None] * factors[:, None, k, k + 1 :]
    back = np.argsort(order, axis=1)
    return (factors.reshape(shape), *[x.reshape(shape[:-1]) for x in (pivots, order, back)])


def _lu_type(a: ArrayType) -> tuple[ArrayType, ...]:
    check_matrix("lu", a, square=True)
    numbers = ArrayType(np.dtype(np.int64), a.shape[:-1])
    return ArrayType(field_dtype("lu", a), a.shape), numbers, numbers, numbers


def _lu_jvp(tangents: Any, ans: Any, a: Any) -> Any:
    # With P a = L U, L⁻¹ P t U⁻¹ is the sum of L⁻¹ dL, below the diagonal, and dU U⁻¹.
    factors, _, order, _ = ans
    left = triangular_solve(factors, _rows(tangents[0], order), lower=True, unit_diagonal=True)
    both = triangular_solve(T(factors), T(left), lower=True, unit_diagonal=False)
    unit = lower_triangle(factors, -1) + identity(factors)
    below = matmul(unit, lower_triangle(T(both), -1))
    return below + matmul(upper_triangle(T(both)), upper_triangle(factors)), None, None, None


# P a = L U by elimination: L below the diagonal, where it is 1, and U in one matrix; which row was
# swapped with each, one after the other; the order of the rows in P a; and that of its inverse.
lu: Op = Op(
    "lu",
    guarded("lu", SINGULAR, _eliminate, lambda: lu),
    _lu_type,
    jvp=_lu_jvp,
    batch=batch_leading(lambda: lu),
    multiple=True,
    hosted=LAPACK,
    samples=lambda rng: [
        *[sample for sample in _square_samples(rng) if sample[0][0].dtype.kind != "c"],
        ((rng.normal(size=(4, 4)) + np.eye(4)[::-1] * 4,), {}),
    ],
)


def _pivots_type(a: ArrayType) -> tuple[ArrayType, ArrayType]:
    factors, numbers, *_ = _lu_type(a)
    return ArrayType(factors.dtype, numbers.shape), numbers


def _pivots(a: Any) -> Any:
    factors, numbers, *_ = _eliminate(a)
    return np.diagonal(factors, axis1=-2, axis2=-1).copy(), numbers


# What elimination leaves on the diagonal, and which row was swapped with each: determinants need no
# more of it.
pivots: Op = Op(
    "pivots",
    guarded("pivots", SINGULAR, _pivots, lambda: pivots),
    _pivots_type,
    jvp=lambda tangents, ans, a: (diagonal_of(_lu_jvp(tangents, lu(a), a)[0]), None),
    batch=batch_leading(lambda: pivots),
    multiple=True,
    hosted=LAPACK,
    samples=lambda rng: lu.samples(rng),  # type: ignore[misc]
)


def diagonal_by_elimination(a: Any) -> Any:
    """The results of `pivots`; of a matrix that others eliminate too, those of `lu`."""
    a = convert(a, dtype=_DOUBLE)
    *batch, n, _ = type_of(a).shape
    if prod(batch) > 1 and n <= MOST_ALONE:
        return pivots(a)
    factors, numbers, *_ = lu(a)
    return diagonal_of(factors), numbers


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
    compose=lambda a: solve(a, identity(a), transposed=False),
    samples=_square_samples,
)
