"""What LAPACK computes, and how it is called for it; see `library`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from math import log2
from typing import Any

import numpy as np

from ..loops import (
    BOOL,
    Affine,
    Apply,
    Buffer,
    Choose,
    Expr,
    Index,
    IndexValue,
    InRange,
    Literal,
    Load,
    Operand,
    as_reals,
    cast,
    reals_in,
)
from .library import Stack, by_calls

# The blocks in which LAPACK works are at most so wide; more work memory than that is of no use.
_BLOCK = 64

# ---------------------------------------------------------------- expressions


def _number(value: float, dtype: np.dtype) -> Expr:
    return Literal(dtype.type(value), dtype)


def _same(index: Index, x: Operand, *rest: Operand) -> Expr:
    """The first argument as it is."""
    return x.broadcast(index)


def symmetric(stack: Stack) -> Callable[..., Expr]:
    """(x + xᴴ) / 2, as the operations on symmetric matrices take it."""
    dtype = stack.real

    def value(index: Index, x: Operand) -> Expr:
        *front, i, j = index
        pair = cast(x((*front, i, j)), dtype), cast(x((*front, j, i)), dtype)
        both = Apply("subtract" if stack.part else "add", pair, dtype)
        return Apply("multiply", (both, _number(0.5, dtype)), dtype)

    return value


def where(test: Expr, value: Expr) -> Expr:
    """The value, or 0."""
    return Apply("where", (test, value, _number(0, value.dtype)), value.dtype)


def is_lower(index: Index) -> Expr:
    """Whether an element is in the lower triangle."""
    return Apply("greater_equal", (IndexValue(index[-2]), IndexValue(index[-1])), BOOL)


def is_upper(index: Index) -> Expr:
    """Whether an element is in the upper triangle."""
    return Apply("less_equal", (IndexValue(index[-2]), IndexValue(index[-1])), BOOL)


# ---------------------------------------------------------------- triangles


@by_calls
def cholesky(stack: Stack) -> None:
    """The lower triangle of its factors, row by row."""
    *batch, n, _ = stack.types[0].shape
    stack.over(batch)
    out, info = stack.result(), stack.info()
    half = symmetric(stack)
    stack.put(out, lambda at, x: where(is_lower(at), half(at, x)))
    matrix, said = stack.at(out, n, n), stack.at(info)
    # row by row, the lower triangle is what LAPACK calls the upper one
    stack.call(
        "potrf", "U", n, matrix, n, said, reads=[matrix], writes=[matrix, said], flops=n**3 // 3
    )
    stack.check_info(info)
    stack.finish(out)


@by_calls
def triangular_solve(stack: Stack) -> None:
    """Solutions with one triangle, which is read as it lies."""
    *batch, n, _ = stack.types[0].shape
    stack.over(batch)
    lower, unit = stack.params["lower"], stack.params["unit_diagonal"]
    a, strides, offset = _triangle(stack, n)
    out = stack.result()
    stack.put(out, lambda at, a, b: b.broadcast(at))
    if not unit:
        step = strides[-1] + strides[-2]

        zero = _number(0, as_reals(a).dtype)

        def diagonal(index: Index) -> Expr:
            place = Affine(offset) + index[-1] * step
            for at, stride in zip(index[:-1], strides, strict=False):
                place = place + at * stride
            parts = as_reals(a)
            tests = [
                Apply("not_equal", (Load(parts, place * reals_in(a) + k), zero), BOOL)
                for k in range(reals_in(a))
            ]
            return functools.reduce(lambda x, y: Apply("logical_or", (x, y), BOOL), tests)

        stack.check((*batch, n), diagonal)
    _work_with_triangle(stack, "trs", lower, unit, (a, strides, offset), out)
    stack.finish(out)


@by_calls
def triangular_product(stack: Stack) -> None:
    """Products with one triangle, which is read as it lies: half the work."""
    *batch, n, _ = stack.types[0].shape
    stack.over(batch)
    triangle, out = _triangle(stack, n), stack.result()
    stack.put(out, lambda at, a, b: b.broadcast(at))
    _work_with_triangle(stack, "trm", stack.params["lower"], False, triangle, out)
    stack.finish(out)


def _work_with_triangle(
    stack: Stack,
    name: str,
    lower: bool,
    unit: bool,
    place: tuple[Buffer, Sequence[int], int],
    out: Buffer,
) -> None:
    """Multiply with a triangle, or its inverse, where the other factor lies.

    That is, row by row, what BLAS calls its transpose: it stands on the left of the triangle.
    """
    (a, strides, offset), (n, m) = place, out.shape[-2:]
    by_rows = strides[-1] == 1
    leading = max(strides[-2] if by_rows else strides[-1], n)
    uplo, diagonal_kind = "LU"[by_rows == lower], "NU"[unit]
    triangle = stack.at(a, n, n, strides=strides, offset=offset)
    x = stack.at(out, n, m)
    reads, writes, flops = [triangle, x], [x], n * n * m
    if m == 1:
        given: list[Any] = [uplo, "NT"[by_rows], diagonal_kind, n, triangle, leading, x, 1]
        stack.call(f"{name}v", *given, reads=reads, writes=writes, flops=flops)
    else:
        trans, one = "TN"[by_rows], stack.dtype.type(1)
        given = ["R", uplo, trans, diagonal_kind, m, n, one, triangle, leading, x, m]
        stack.call(f"{name}m", *given, reads=reads, writes=writes, flops=flops)


def _triangle(stack: Stack, n: int) -> tuple[Buffer, Sequence[int], int]:
    """The matrices as they lie, if rows or columns are in one piece; else copied."""
    if stack.node.inputs[0].type.dtype == stack.dtype:
        buffer, strides, offset = stack.matrices(0)
        ends = strides[-2:]
        if n == 1 or (min(ends) == 1 and max(ends) >= n):
            return buffer, (*strides[:-2], *(ends if n > 1 else (1, 1))), offset
    copy = stack.memory(n, n)
    stack.put(copy, _same)
    return copy, copy.strides, 0


@by_calls
def solve(stack: Stack) -> None:
    """Solutions of many systems, of which nothing else is kept."""
    *batch, n, m = stack.types[0].shape
    stack.over(batch)
    matrix, sides, swaps = stack.work(n, n), stack.work(n, m), stack.work(n, dtype=stack.integer)
    info, out = stack.info(), stack.result()
    said = stack.at(info)

    def chosen(at: Index, a: Operand, b: Operand) -> Expr:
        *front, i, j = at
        return a.broadcast((*front, j, i) if stack.params["transposed"] else at)

    stack.put(matrix, chosen)
    stack.put(sides, lambda at, a, b: b.broadcast(at))
    stack.call(
        "gesv", n, m, matrix, n, swaps, sides, n, said,
        reads=[matrix, sides], writes=[matrix, sides, swaps, said],
        flops=2 * n**3 // 3 + 2 * n * n * m,
    )  # fmt: skip
    stack.put(out, lambda at, a, b: stack.load(sides, sides.flat(at[-2:])))
    stack.check_info(info)
    stack.finish(out)


@by_calls
def banded_solve(stack: Stack) -> None:
    """Solutions with banded matrices; elimination with swapped rows fills more diagonals above."""
    *batch, n, m = stack.types[0].shape
    stack.over(batch)
    lower, upper = stack.params["lower"], stack.params["upper"]
    height = 2 * lower + upper + 1
    bands, sides = stack.work(height, n), stack.work(n, m)
    swaps, info, out = stack.work(n, dtype=stack.integer), stack.info(), stack.result()
    said = stack.at(info)

    def below_room(at: Index, ab: Operand, b: Operand) -> Expr:
        *front, i, j = at
        row = i + -lower
        found = cast(ab.broadcast((*front, row, j)), stack.real)
        return Choose(InRange(row, 0, height - lower), found, _number(0, stack.real), stack.real)

    stack.put(bands, below_room if lower else _same)
    stack.put(sides, lambda at, ab, b: b.broadcast(at))
    stack.call(
        "gbsv", n, lower, upper, m, bands, height, swaps, sides, n, said,
        reads=[bands, sides], writes=[bands, sides, swaps, said],
        flops=2 * n * height * (lower + m),
    )  # fmt: skip
    stack.put(out, lambda at, ab, b: stack.load(sides, sides.flat(at[-2:])))
    stack.check_info(info)
    stack.finish(out)


@by_calls
def triangular_sylvester(stack: Stack) -> None:
    """Solutions of a x + x bᴴ = q with matrices in Schur's form."""
    *batch, m, n = stack.types[0].shape
    stack.over(batch)
    first, second, sides = stack.work(m, m), stack.work(n, n), stack.work(m, n)
    scale, info, out = stack.work(1, dtype=stack.real), stack.info(), stack.result()
    said = stack.at(info)
    for target, number in ((first, 0), (second, 1), (sides, 2)):
        stack.put(target, lambda at, *given, number=number: given[number].broadcast(at))
    stack.call(
        "trsyl", "N", "C" if stack.is_complex else "T", 1, m, n, first, m, second, n, sides, m,
        scale, said,
        reads=[first, second, sides], writes=[sides, scale, said], flops=m * n * (m + n),
    )  # fmt: skip

    def solution(at: Index, *given: Operand) -> Expr:
        # LAPACK scales the right-hand side where the solution would overflow
        found = stack.load(sides, sides.flat(at[-2:]))
        return Apply("divide", (found, Load(scale, Affine(0))), stack.real)

    stack.put(out, solution)
    if not stack.params["singular"]:
        stack.check_info(info)
    stack.finish(out)


@by_calls
def lu(stack: Stack) -> None:
    """Elimination with swapped rows, column by column; see `ops.linalg.lu`."""
    *batch, n, _ = stack.types[0].shape
    stack.over(batch)
    factors, info = stack.memory(n, n, turned=True), stack.info()
    found = stack.memory(n, dtype=stack.integer)
    stack.put(factors, _same)
    matrix, said, swaps = stack.at(factors, n, n), stack.at(info), stack.at(found, n)
    stack.call(
        "getrf", n, n, matrix, n, swaps, said,
        reads=[matrix], writes=[matrix, swaps, said], flops=2 * n**3 // 3,
    )  # fmt: skip
    pivots, *orders = (stack.result(number) for number in (1, 2, 3))
    first = _number(1, stack.integer)

    def place(at: Index, x: Operand) -> Expr:
        return Apply("subtract", (Load(found, found.flat(at)), first), stack.integer)

    stack.put(pivots, place)
    # numbers of rows that are swapped one after the other, and back
    for number, direction in ((2, 1), (3, -1)):
        if stack.is_wanted(number):
            rows = stack.work(n, dtype=stack.real)
            _swap(stack, rows, swaps, direction, orders[number - 2])
    stack.finish(factors, pivots, *orders)


@by_calls
def pivots(stack: Stack) -> None:
    """What elimination leaves on the diagonal, and the row swapped with each."""
    *batch, n = stack.types[0].shape
    stack.over(batch)
    matrix, found, info = stack.work(n, n), stack.work(n, dtype=stack.integer), stack.info()
    left, swaps = stack.result(0), stack.result(1)
    said = stack.at(info)
    stack.put(matrix, _same)
    stack.call(
        "getrf", n, n, matrix, n, found, said,
        reads=[matrix], writes=[matrix, found, said], flops=2 * n**3 // 3,
    )  # fmt: skip
    stack.put(left, lambda at, x: stack.load(matrix, matrix.flat((at[-1], at[-1]))))
    first = _number(1, stack.integer)
    stack.put(swaps, lambda at, x: Apply("subtract", (Load(found, at[-1]), first), stack.integer))
    stack.finish(left, swaps)


def _swap(stack: Stack, rows: Buffer, swaps: Buffer, direction: int, result: Buffer) -> None:
    n = rows.size
    stack.put(rows, lambda at, x: IndexValue(at[-1]))
    stack.call(
        "laswp", 1, rows, n, 1, n, swaps, direction,
        reads=[rows, swaps], writes=[rows], flops=n, kind="d",
    )  # fmt: skip
    stack.put(result, lambda at, x: Load(rows, at[-1]))


# ---------------------------------------------------------------- orthogonal factors


@by_calls
def qr(stack: Stack) -> None:
    """Reflections, and the orthogonal matrix that they make."""
    *batch, m, n = stack.node.inputs[0].type.shape
    stack.over(batch)
    k, columns = min(m, n), stack.types[0].shape[-1]
    factors, q = stack.memory(m, n, turned=True), stack.memory(m, columns, turned=True)
    scales, info = stack.memory(k), stack.info()
    length = _BLOCK * max(n, columns)
    work = stack.work(length)
    stack.put(factors, _same)
    matrix, scale, said = stack.at(factors, m, n), stack.at(scales, k), stack.at(info)
    stack.call(
        "geqrf", m, n, matrix, m, scale, work, length, said,
        reads=[matrix], writes=[matrix, scale, work, said], flops=2 * m * n * k,
    )  # fmt: skip

    def first_columns(at: Index, x: Operand) -> Expr:
        # what is right of the reflections does not matter
        if columns <= n:
            return stack.load(factors, factors.flat(at))
        column = InRange(at[-1], 0, n)
        found = stack.load(factors, factors.flat(at))
        return Choose(column, found, _number(0, stack.real), stack.real)

    stack.put(q, first_columns)
    matrix = stack.at(q, m, columns)
    stack.call(
        "ungqr" if stack.is_complex else "orgqr", m, columns, k,
        matrix, m, scale, work, length, said,
        reads=[matrix, scale], writes=[matrix, work, said], flops=2 * m * columns * k,
    )  # fmt: skip
    stack.check_info(info)
    r = stack.result(1)
    stack.put(r, lambda at, x: where(is_upper(at), stack.load(factors, factors.flat(at))))
    stack.finish(q, r)


# ---------------------------------------------------------------- values and vectors


@by_calls
def eigenvalues(stack: Stack) -> None:
    """Eigenvalues of symmetric matrices, and vectors if they are wanted."""
    *batch, n, _ = stack.node.inputs[0].type.shape
    stack.over(batch)
    vectors = len(stack.types) > 1
    matrices, info, values = stack.memory(n, n, turned=True), stack.info(), stack.result()
    stack.put(matrices, symmetric(stack))
    length = 1 + 6 * n + 2 * n * n + _BLOCK * n
    count = 3 + 5 * n
    work, numbers = stack.work(length), stack.work(count, dtype=stack.integer)
    matrix, found, said = stack.at(matrices, n, n), stack.at(values, n), stack.at(info)
    more = _real_work(stack, 1 + 5 * n + 2 * n * n)
    stack.call(
        "heevd" if stack.is_complex else "syevd", "NV"[vectors], "L", n, matrix, n, found,
        work, length, *more, *[one.size for one in more], numbers, count, said,
        reads=[matrix], writes=[matrix, found, work, *more, numbers, said], flops=9 * n**3,
    )  # fmt: skip
    stack.check_info(info)
    stack.finish(*([values, matrices] if vectors else [values]))


def _real_work(stack: Stack, length: int) -> list[Buffer]:
    """The real memory that functions of complex matrices want besides."""
    return [stack.work(length, dtype=stack.real)] if stack.is_complex else []


@by_calls
def singular_values(stack: Stack) -> None:
    """Singular values, and vectors if they are wanted."""
    *batch, m, n = stack.node.inputs[0].type.shape
    stack.over(batch)
    least, most = min(m, n), max(m, n)
    vectors = len(stack.types) > 1
    matrices, info = stack.memory(m, n, turned=True), stack.info()
    values = stack.result(1 if vectors else 0)
    stack.put(matrices, _same)
    rows, columns = (m, n) if stack.params.get("full_matrices") else (least, least)
    rows, columns = (rows, columns) if vectors else (1, 1)
    left, right = (
        stack.memory(*shape, turned=True) if vectors else stack.work(1)
        for shape in ((m, rows), (columns, n))
    )
    job = "N" if not vectors else "A" if stack.params["full_matrices"] else "S"
    length = 4 * least * least + 7 * least + _BLOCK * (m + n) + most
    work, numbers = stack.work(length), stack.work(8 * least, dtype=stack.integer)
    matrix, found, said = stack.at(matrices, m, n), stack.at(values, least), stack.at(info)
    u = stack.at(left, m, rows) if vectors else left
    v = stack.at(right, columns, n) if vectors else right
    leading = (m, columns) if vectors else (1, 1)
    more = _real_work(stack, 7 * least * (least + 1) + 2 * most * least)
    stack.call(
        "gesdd", job, m, n, matrix, m, found, u, leading[0], v, leading[1],
        work, length, *more, numbers, said,
        reads=[matrix], writes=[matrix, found, u, v, work, *more, numbers, said],
        flops=9 * most * least * least,
    )  # fmt: skip
    stack.check_info(info)
    stack.finish(*([left, values, right] if vectors else [values]))


@by_calls
def schur(stack: Stack) -> None:
    """Schur's form, and the unitary matrices that give it."""
    *batch, n, _ = stack.types[0].shape
    stack.over(batch)
    matrices, unitary = (stack.memory(n, n, turned=True) for _ in range(2))
    info, length = stack.info(), _BLOCK * n + 4 * n
    stack.put(matrices, _same)
    work, count = stack.work(length), stack.work(1, dtype=stack.integer)
    values = [stack.work(n) for _ in range(1 if stack.is_complex else 2)]
    more = _real_work(stack, n)
    form, z, said = stack.at(matrices, n, n), stack.at(unitary, n, n), stack.at(info)
    # nothing is selected: neither the function that would, nor the memory for it, is looked at
    stack.call(
        "gees", "V", "N", count, n, form, n, count, *values, z, n, work, length, *more, count, said,
        reads=[form], writes=[form, z, count, *values, work, *more, said], flops=25 * n**3,
    )  # fmt: skip
    stack.check_info(info)
    stack.finish(matrices, unitary)


@by_calls
def general_eigenvalues(stack: Stack) -> None:
    """Eigenvalues of any matrices, which are complex, and vectors if they are wanted."""
    *batch, n, _ = stack.node.inputs[0].type.shape
    stack.over(batch)
    vectors = len(stack.types) > 1
    dtype = stack.dtype if stack.node.inputs[0].type.dtype.kind == "c" else stack.real
    matrices, info = stack.memory(n, n, dtype=dtype, turned=True), stack.info()
    stack.put(matrices, _same)
    is_complex = dtype.kind == "c"
    found = [stack.memory(n, dtype=dtype) for _ in range(1 if is_complex else 2)]
    length = _BLOCK * n + 4 * n
    work, none = stack.work(length, dtype=dtype), stack.work(1, dtype=dtype)
    more = [stack.work(2 * n, dtype=stack.real)] if is_complex else []
    right = stack.memory(n, n, dtype=dtype, turned=True) if vectors else none
    matrix, said, values = stack.at(matrices, n, n), stack.at(info), [stack.at(w, n) for w in found]
    v = stack.at(right, n, n) if vectors else none
    stack.call(
        "geev", "N", "NV"[vectors], n, matrix, n, *values, none, 1, v, n if vectors else 1,
        work, length, *more, said,
        reads=[matrix], writes=[matrix, *values, none, v, work, *more, said],
        flops=25 * n**3, kind="z" if is_complex else "d",
    )  # fmt: skip
    stack.check_info(info)
    results = [stack.result(number) for number in range(len(stack.types))]
    if is_complex:
        stack.put(results[0], lambda at, x: stack.load(found[0], found[0].flat(at)))
    else:
        stack.put(results[0], lambda at, x: Load(found[stack.part], found[0].flat(at)))
    if vectors and is_complex:
        stack.put(results[1], lambda at, x: stack.load(right, right.flat(at)))
    elif vectors:
        stack.put(results[1], lambda at, x: _one_of_pairs(stack, right, found[1], at))
    stack.finish(*results)


def _one_of_pairs(stack: Stack, vectors: Buffer, imaginary: Buffer, at: Index) -> Expr:
    """Of two eigenvalues that are conjugates, the first one with the positive imaginary part, the
    real parts of the vectors are in the first column, and the imaginary ones in the second."""
    *front, i, j = at
    n, zero = imaginary.shape[-1], _number(0, stack.real)
    turn = Load(imaginary, imaginary.flat((*front, j)))
    first, second = (Apply(name, (turn, zero), BOOL) for name in ("greater", "less"))

    def column(step: int) -> Expr:
        found = Load(vectors, vectors.flat((*front, i, j + step)))
        return Choose(InRange(j + step, 0, n), found, zero, stack.real) if step else found

    if stack.part == 0:
        return Apply("where", (second, column(-1), column(0)), stack.real)
    negative = Apply("negative", (column(0),), stack.real)
    return Apply("where", (first, column(1), where(second, negative)), stack.real)


def least_ratio(stack: Stack) -> float:
    """Singular values are counted as 0 up to the largest one times this."""
    if stack.params["rcond"] is not None:
        return float(stack.params["rcond"])
    return float(np.finfo(stack.types[0].dtype).eps) * max(stack.node.inputs[0].type.shape[-2:])


@by_calls
def least_squares(stack: Stack) -> None:
    """Solutions of least squares, by singular values."""
    *batch, m, n = stack.node.inputs[0].type.shape
    columns = stack.types[0].shape[-1]
    stack.over(batch)
    least, most = min(m, n), max(m, n)
    matrices, sides = stack.memory(m, n, turned=True), stack.memory(most, columns, turned=True)
    info = stack.info()
    stack.put(matrices, _same)

    def below_zeros(at: Index, a: Operand, b: Operand) -> Expr:
        if m == most:
            return b(at)
        found = cast(b(at), stack.real)
        return Choose(InRange(at[-2], 0, m), found, _number(0, stack.real), stack.real)

    stack.put(sides, below_zeros)
    ratio = least_ratio(stack)
    # as LAPACK documents it, where problems of up to 25 rows are not divided any further
    levels = max(0, int(log2(least / 26)) + 1)
    length = 12 * least + 58 * least + 8 * least * levels + least * columns + 26 * 26
    length += _BLOCK * (m + n + columns) + 2 * most
    count = 3 * least * levels + 11 * least
    work, numbers = stack.work(length), stack.work(count, dtype=stack.integer)
    values, rank = stack.work(least, dtype=stack.real), stack.work(1, dtype=stack.integer)
    more = _real_work(
        stack, most * (73 + 8 * levels + columns) + 80 * columns + 26 * 26 + 9 * _BLOCK
    )
    matrix, side, said = stack.at(matrices, m, n), stack.at(sides, most, columns), stack.at(info)
    stack.call(
        "gelsd", m, n, columns, matrix, m, side, most, values, stack.real.type(ratio), rank,
        work, length, *more, numbers, said,
        reads=[matrix, side], writes=[matrix, side, values, rank, work, *more, numbers, said],
        flops=4 * most * least * least,
    )  # fmt: skip
    stack.check_info(info)
    out = stack.result()
    stack.put(out, lambda at, a, b: stack.load(sides, sides.flat(at)))
    stack.finish(out)
