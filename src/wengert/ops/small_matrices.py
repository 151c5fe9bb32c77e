"""Matrices of a few rows, element by element: each is an array over the stack.

So elimination is arithmetic that fuses with all around it, one lane a matrix. Rows are swapped by
choosing, such that the largest element of a column comes to the diagonal, as in LAPACK; the others
may follow in another order, which changes no number. What is not `regular` raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ..errors import explain
from ..loops import NO_RESULT, Expr, Index, Operand, Pointwise
from ..types import ArrayType, type_of
from .elementwise import absolute, select, sqrt
from .indexing import index
from .layout import broadcast_to, convert, reshape
from .logic import equal, greater, less_equal, logical_not, logical_or, not_equal
from .op import Op
from .structure import concatenate

# Beyond so many rows the expressions get too long to be written out: of one matrix, which LAPACK
# takes little time for, and of a stack, where it takes twenty times as long.
MOST_ROWS, MOST_ROWS_OF_STACKS = 4, 5
_DOUBLE = np.dtype(np.float64)

Elements = list[list[Any]]


def is_small(*shapes: tuple[int, ...]) -> bool:
    """Whether matrices, with their right-hand sides, are so small that they are written out."""
    is_stack = any(prod(shape[:-2]) > 1 for shape in shapes)
    most = MOST_ROWS_OF_STACKS if is_stack else MOST_ROWS
    return all(1 <= length <= most for shape in shapes for length in shape[-2:])


# ---------------------------------------------------------------- what must be so


def _regular(x: Any, is_right: Any, name: str, problem: str) -> Any:
    from .linalg import LinearAlgebraError

    if not np.all(is_right):
        raise LinearAlgebraError(explain(name, problem))
    return x


def _check(at: Index, x: Operand, is_right: Operand, **params: Any) -> Expr:
    return is_right.broadcast(at)


# The first argument, where the second one is true everywhere.
regular: Op = Op(
    "regular",
    _regular,
    lambda x, is_right, name, problem: ArrayType(x.dtype, x.shape),
    jvp=(lambda t, ans, x, is_right, **params: t, None),
    batch=lambda size, flags, x, is_right, **params: regular(
        x if flags[0] else broadcast_to(x, shape=(size, *type_of(x).shape)), is_right, **params
    ),
    loops=Pointwise(lambda at, x, is_right, **params: x(at), check=_check, code=NO_RESULT),
    samples=lambda rng: [
        ((rng.normal(size=shape), np.ones(shape, bool)), {"name": "solve", "problem": "Singular"})
        for shape in ((2, 3), (), (0, 2))
    ],
)


# ---------------------------------------------------------------- elements


def _elements(a: Any) -> Elements:
    """The rows of matrices, in double precision as NumPy computes."""
    return elements_of(convert(a, dtype=_DOUBLE))


def elements_of(a: Any) -> Elements:
    """The rows of matrices."""
    *batch, rows, columns = type_of(a).shape
    front = [(0, length, 1) for length in batch]

    def element(i: int, j: int) -> Any:
        key = (*front, (i, i + 1, 1), (j, j + 1, 1))
        return reshape(index(a, key=key), shape=tuple(batch))

    return [[element(i, j) for j in range(columns)] for i in range(rows)]


def matrices_of(elements: Elements) -> Any:
    """Matrices of these elements, which broadcast."""
    flat = [x for row in elements for x in row]
    batch = np.broadcast_shapes(*[type_of(x).shape for x in flat])
    columns = [reshape(_stretched(x, batch), shape=(*batch, 1)) for x in flat]
    together = concatenate(*columns, axis=len(batch)) if len(columns) > 1 else columns[0]
    return reshape(together, shape=(*batch, len(elements), len(elements[0])))


def _stretched(x: Any, batch: tuple[int, ...]) -> Any:
    return x if type_of(x).shape == batch else x + np.zeros(batch)


def _eliminate(a: Elements, b: Elements) -> tuple[Elements, Elements, Any]:
    """What elimination makes of matrices and right-hand sides; whether an odd number of rows was
    swapped."""
    a, b = [list(row) for row in a], [list(row) for row in b]
    odd: Any = False
    for k in range(len(a)):
        for i in range(k + 1, len(a)):
            swap = greater(absolute(a[i][k]), absolute(a[k][k]))
            odd = not_equal(odd, swap)
            for rows, first in ((a, k), (b, 0)):
                rows[k][first:], rows[i][first:] = _swapped(swap, rows[k][first:], rows[i][first:])
        pivot = select(equal(a[k][k], 0), 1, a[k][k])
        for i in range(k + 1, len(a)):
            factor = a[i][k] / pivot
            a[i][k + 1 :] = [x - factor * y for x, y in zip(a[i], a[k], strict=True)][k + 1 :]
            b[i] = [x - factor * y for x, y in zip(b[i], b[k], strict=True)]
    return a, b, odd


def _swapped(swap: Any, one: Sequence[Any], other: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    pairs = list(zip(one, other, strict=True))
    return [select(swap, y, x) for x, y in pairs], [select(swap, x, y) for x, y in pairs]


def _substituted(a: Elements, b: Elements, rows: Sequence[int], unit: bool = False) -> Elements:
    """x with a x = b, whose rows are found in this order: each needs only those before it."""
    x: dict[int, list[Any]] = {}
    for i in rows:
        found = b[i]
        for j in x:
            found = [one - a[i][j] * other for one, other in zip(found, x[j], strict=True)]
        x[i] = found if unit else [one / a[i][i] for one in found]
    return [x[i] for i in range(len(a))]


def _demanded(elements: Elements, wrong: Sequence[Any], name: str, problem: str) -> Elements:
    """The elements, which are there only where nothing is wrong."""
    some = wrong[0]
    for one in wrong[1:]:
        some = logical_or(some, one)
    first, *rest = elements[0]
    first = regular(first, logical_not(some), name=name, problem=problem)
    return [[first, *rest], *elements[1:]]


# ---------------------------------------------------------------- operations


def solved(a: Any, b: Any, transposed: bool) -> Any:
    """`solve` of small matrices."""
    rows, sides = _elements(a), _elements(b)
    if transposed:
        rows = [list(column) for column in zip(*rows, strict=True)]
    rows, sides, _ = _eliminate(rows, sides)
    diagonal = [rows[k][k] for k in range(len(rows))]
    x = _substituted(rows, sides, range(len(rows))[::-1])
    return matrices_of(_demanded(x, [equal(d, 0) for d in diagonal], "solve", "Singular matrix"))


def solved_triangle(a: Any, b: Any, lower: bool, unit_diagonal: bool) -> Any:
    """`solve_triangular` of small matrices."""
    rows = _elements(a)
    order = range(len(rows)) if lower else range(len(rows))[::-1]
    x = _substituted(rows, _elements(b), order, unit_diagonal)
    if not unit_diagonal:
        zero = [equal(rows[k][k], 0) for k in order]
        x = _demanded(x, zero, "solve_triangular", "Singular matrix")
    return matrices_of(x)


def pivots_of(a: Any) -> tuple[list[Any], Any]:
    """What elimination leaves on the diagonal of small matrices, and whether it changed signs."""
    rows, _, odd = _eliminate(_elements(a), [[] for _ in range(type_of(a).shape[-1])])
    return [rows[k][k] for k in range(len(rows))], odd


def cholesky_of(a: Any) -> Any:
    """`cholesky` of small matrices."""
    given = _elements(a)
    n = len(given)
    a = [[0.5 * (given[i][j] + given[j][i]) for j in range(n)] for i in range(n)]
    zero = np.zeros(type_of(given[0][0]).shape)
    found: Elements = [[zero] * n for _ in range(n)]
    wrong = []
    for j in range(n):
        for i in range(j, n):
            rest = a[i][j]
            for k in range(j):
                rest = rest - found[i][k] * found[j][k]
            if i == j:
                wrong.append(less_equal(rest, 0))
                rest = sqrt(select(wrong[-1], 1, rest))
            found[i][j] = rest if i == j else rest / found[j][j]
    return matrices_of(_demanded(found, wrong, "cholesky", "Matrix is not positive definite"))
