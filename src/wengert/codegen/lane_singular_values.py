"""Singular values and vectors of small matrices, one lane a matrix.

As LAPACK's `dgesdd` does for small ones: reflections make a matrix bidiagonal, and QR steps make
that diagonal (`lane_bidiagonal.py`). All choices are LAPACK's, so that vectors come out with the
same signs.
"""

from __future__ import annotations

import functools
import math

from llvmlite import ir

from .lane_bidiagonal import BidiagonalSteps, Sides
from .lane_factorisations import COLUMNS, into_range, largest_of, reflected, reflection, sort_rows
from .lane_rotations import Column, forget, rotate_rows, rotation
from .side_by_side import LaneNumber, Matrices, SideBySide


def singular_values(
    v: SideBySide,
    m: int,
    n: int,
    a: Matrices,
    d: Matrices,
    e: Matrices,
    w: Matrices,
    state: Matrices,
    good: Matrices,
) -> None:
    """d are the singular values of a, which has no more columns than rows."""
    largest, up = _brought_into_range(v, m, n, a)
    _bidiagonal(v, m, n, a, d, e, w)
    steps = BidiagonalSteps(v, n, d, e, state, ())
    steps.run()
    _finish(v, n, d, up, steps, largest, good, ())


def decomposition(
    v: SideBySide,
    m: int,
    n: int,
    is_wide: int,
    a: Matrices,
    d: Matrices,
    e: Matrices,
    w: Matrices,
    state: Matrices,
    good: Matrices,
    large: Matrices,
    small: Matrices,
    r: Matrices,
) -> None:
    """The same with vectors: `large`, with as many rows as a, and `small` were the identity. They
    are the vectors on the left, as columns, and on the right, as rows.

    With `is_wide` a is the transpose of the matrix that is meant, and LAPACK's choices for that are
    taken. A tall matrix becomes a triangle in r first.
    """
    largest, up = _brought_into_range(v, m, n, a)
    is_tall = is_tall_enough(m, n)
    if is_tall:
        _triangle(v, m, n, a, w, r, is_wide)
    rows, given = (n, r) if is_tall else (m, a)
    _bidiagonal(v, rows, n, given, d, e, w)
    one, other = (large.transposed(), rows), (small, n)
    if is_wide and is_tall:
        _products(v, rows, n, given, w, small.transposed(), large.transposed())
    else:
        _products(v, rows, n, given, w, large, small)
    if is_wide and not is_tall:
        _turn_around(v, n, d, e, small)
    sides = (one, other) if is_wide else (other, one)
    steps = BidiagonalSteps(v, n, d, e, state, sides)
    steps.run()
    _finish(v, n, d, up, steps, largest, good, sides)
    if is_tall:

        def reflect(k: ir.Value) -> None:
            v.together(0, n, COLUMNS, functools.partial(reflected, v, m, a, k, k, w[k, 2], large))

        v.down(0, n, reflect)


def least_squares(
    v: SideBySide,
    m: int,
    n: int,
    is_wide: int,
    k: int,
    a: Matrices,
    d: Matrices,
    e: Matrices,
    w: Matrices,
    state: Matrices,
    good: Matrices,
    large: Matrices,
    small: Matrices,
    r: Matrices,
    ratio: Matrices,
    b: Matrices,
    x: Matrices,
) -> None:
    """The shortest x with the shortest a x - b, for k columns; singular values that are not larger
    than the largest one times `ratio` count as 0."""
    decomposition(v, m, n, is_wide, a, d, e, w, state, good, large, small, r)
    left, right = (small, large.transposed()) if is_wide else (large.transposed(), small)
    rows, columns = (n, m) if is_wide else (m, n)
    along, least = Column(v, e), LaneNumber(v, v.builder.fmul(ratio[0, 0], d[0, 0]))

    def column(c: ir.Value) -> None:
        def multiply(i: ir.Value) -> None:
            add = lambda r, now: [v.plus_product(now[0], left[i, r], b[r, c])]
            total = LaneNumber(v, v.inverse(d[i, 0])(v.carried(0, rows, [v.number(0.0)], add)[0]))
            along[i] = (LaneNumber(v, d[i, 0]) > least).choose(total, 0.0)

        def combine(js: list[ir.Value]) -> None:
            def add(i: ir.Value, now: list[ir.Value]) -> list[ir.Value]:
                y = along[i].value
                return [v.plus_product(x, y, right[i, j]) for x, j in zip(now, js, strict=True)]

            sums = v.carried(0, n, [v.number(0.0)] * len(js), add)
            for j, total in zip(js, sums, strict=True):
                x[j, c] = total

        v.loop(0, n, multiply)
        v.together(0, columns, COLUMNS, combine)

    v.loop(0, k, column)


def is_tall_enough(m: int, n: int) -> bool:
    """Whether LAPACK makes a triangle of a matrix first."""
    return m >= 11 * n // 6


def _brought_into_range(v: SideBySide, m: int, n: int, a: Matrices) -> tuple[ir.Value, ir.Value]:
    """The largest element, and by what all have been multiplied."""
    largest = largest_of(v, a, m, n)
    up = into_range(v, largest)

    def each(i: ir.Value, j: ir.Value) -> None:
        a[i, j] = v.builder.fmul(a[i, j], up)

    v.loop(0, m, lambda i: v.loop(0, n, functools.partial(each, i)))
    return largest, up


def _finish(
    v: SideBySide,
    n: int,
    d: Matrices,
    up: ir.Value,
    steps: BidiagonalSteps,
    largest: ir.Value,
    good: Matrices,
    sides: Sides,
) -> None:
    """Singular values as they are wanted, and whether there are any."""
    b = v.builder
    unfinished = steps.unfinished()
    _make_positive(v, n, d, sides[:1])
    sort_rows(v, n, d, ">", sides)
    v.loop(0, n, lambda i: d.__setitem__((i, 0), b.fdiv(d[i, 0], up)))
    # as in NumPy, what is infinite has no singular values, and what is NaN is an error
    endless = unfinished & LaneNumber(v, largest).equals(math.inf)
    good[0, 0] = (unfinished & ~endless).choose(0.0, 1.0).value
    with b.if_then(endless.anywhere()):
        forget(v, n, 1, d, endless)
        for rows, columns in sides:
            forget(v, n, columns, rows, endless)


def _triangle(
    v: SideBySide, m: int, n: int, a: Matrices, w: Matrices, r: Matrices, turned: int
) -> None:
    """The triangle that reflections of columns, which are left in a, lead to, or its transpose."""
    r = r.transposed() if turned else r

    def step(k: ir.Value) -> None:
        tau = w[k, 2] = reflection(v, m, a, k, k)
        columns = functools.partial(reflected, v, m, a, k, k, tau, a)
        v.together(v.next(k), n, COLUMNS, columns)

    def row(i: ir.Value) -> None:
        v.loop(0, i, lambda j: r.__setitem__((i, j), v.number(0.0)))
        v.loop(i, n, lambda j: r.__setitem__((i, j), a[i, j]))

    v.loop(0, n, step)
    v.loop(0, n, row)


def _turn_around(v: SideBySide, n: int, d: Matrices, e: Matrices, rows: Matrices) -> None:
    """What is below a diagonal comes above it, by rotations, which rows take part in."""
    diagonal, beside = Column(v, d), Column(v, e)

    def turn(i: ir.Value) -> None:
        after = v.next(i)
        c, s, r = rotation(diagonal[i], beside[i])
        diagonal[i], beside[i] = r, s * diagonal[after]
        diagonal[after] = c * diagonal[after]
        rotate_rows(v, n, rows, i, c, s)

    v.loop(0, n - 1, turn)


def _bidiagonal(
    v: SideBySide, m: int, n: int, a: Matrices, d: Matrices, e: Matrices, w: Matrices
) -> None:
    """The diagonal and the one above it, by reflections of columns and rows, which are left beside
    them in a, and their factors in w."""
    turned = a.transposed()

    def step(k: ir.Value) -> None:
        after = v.next(k)
        tau = reflection(v, m, a, k, k)
        w[k, 0], d[k, 0] = tau, a[k, k]
        columns = functools.partial(reflected, v, m, a, k, k, tau, a)
        v.together(after, n, COLUMNS, columns)
        with v.builder.if_then(v.builder.icmp_signed("<", after, ir.Constant(after.type, n))):
            tau = reflection(v, n, turned, after, k)
            w[k, 1], e[k, 0] = tau, a[k, after]
            rows = functools.partial(reflected, v, n, turned, after, k, tau, turned)
            v.together(after, m, COLUMNS, rows)

    v.loop(0, n, step)


def _products(
    v: SideBySide, m: int, n: int, a: Matrices, w: Matrices, u: Matrices, vt: Matrices
) -> None:
    """The products of all reflections of columns, times u, and of rows, times the transpose."""
    turned, right = a.transposed(), vt.transposed()

    def columns(k: ir.Value) -> None:
        v.together(k, n, COLUMNS, functools.partial(reflected, v, m, a, k, k, w[k, 0], u))

    def rows(k: ir.Value) -> None:
        top = v.next(k)
        v.together(
            top, n, COLUMNS, functools.partial(reflected, v, n, turned, top, k, w[k, 1], right)
        )

    v.down(0, n, columns)
    if n > 1:
        v.down(0, n - 1, rows)


def _make_positive(v: SideBySide, n: int, d: Matrices, sides: Sides) -> None:
    """Singular values are not negative: where one is, its vector on the right is turned."""
    b = v.builder

    def each(i: ir.Value) -> None:
        x = d[i, 0]
        negative = b.fcmp_ordered("<", x, v.number(0.0))
        d[i, 0] = v.absolute(x)
        for rows, columns in sides:
            with b.if_then(v.any(negative)):
                v.loop(0, columns, functools.partial(turn, rows, i, negative))

    def turn(rows: Matrices, i: ir.Value, negative: ir.Value, j: ir.Value) -> None:
        rows[i, j] = b.select(negative, b.fneg(rows[i, j]), rows[i, j])

    v.loop(0, n, each)
