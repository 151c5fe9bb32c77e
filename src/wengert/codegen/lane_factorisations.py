"""Factorisations of small matrices, one lane a matrix, by LAPACK's algorithms; see `side_by_side`.

Rows are exchanged
where they are read and written anyway: which of them is the pivot of a lane, a mask tells.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from llvmlite import ir

from .side_by_side import Matrices, Place, SideBySide

# Columns that are worked on at once: what is read of others is read for all of them.
COLUMNS = 4


# ---------------------------------------------------------------- elimination


def _eliminate(
    v: SideBySide,
    n: int,
    a: Matrices,
    good: Matrices | None,
    sides: Sequence[tuple[Matrices, int]] = (),
    kept: Sequence[tuple[Matrices, int]] = (),
    swaps: Matrices | None = None,
    keeps_factors: bool = False,
) -> None:
    """L U in place of a; what L takes the sides, so many columns, to; `kept` has rows swapped only.

    `swaps` is told which row came to the diagonal, and `good` where all pivots are not 0.
    """
    b = v.builder
    if good is not None:
        good[0, 0] = v.number(1.0)

    def step(k: ir.Value) -> None:
        pivot, place = _pivot(v, n, a, k)
        if swaps is not None:
            swaps[k, 0] = place
        _note(v, good, b.fcmp_ordered("==", pivot, v.number(0.0)))
        divided, old, below = v.inverse(pivot), a[k, k], v.next(k)

        def factor(i: ir.Value, number: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
            x = b.select(b.fcmp_ordered("==", number, place), old, a[i, k])
            a[i, k] = divided(x)
            return []

        v.rows(below, n, [], factor)
        a[k, k] = pivot
        for target, start, stop in ((a, below, n), *((one, 0, m) for one, m in sides)):
            take_off = functools.partial(_take_off, v, n, a, target, k, place)
            v.together(start, stop, COLUMNS, take_off)
        swap = functools.partial(swap_rows, v, n, k, place)
        if keeps_factors:
            v.loop(0, k, functools.partial(swap, a))
        for target, columns in kept:
            v.loop(0, columns, functools.partial(swap, target))

    v.loop(0, n - 1, step)
    last = a[n - 1, n - 1]
    _note(v, good, b.fcmp_ordered("==", last, v.number(0.0)))
    if swaps is not None:
        swaps[n - 1, 0] = v.number(n - 1)


def _note(v: SideBySide, good: Matrices | None, wrong: ir.Value) -> None:
    if good is None:
        return
    good[0, 0] = v.builder.select(wrong, v.number(0.0), good[0, 0])


def _pivot(v: SideBySide, n: int, a: Matrices, k: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The largest element of a column from row k on, the first of equals, and its row."""
    b, first = v.builder, a[k, k]

    def look(i: ir.Value, number: ir.Value, now: list[ir.Value]) -> list[ir.Value]:
        largest, pivot, place = now
        x = a[i, k]
        size = v.absolute(x)
        larger = b.fcmp_ordered(">", size, largest)
        pairs = (size, largest), (x, pivot), (number, place)
        return [b.select(larger, new, old) for new, old in pairs]

    _, pivot, place = v.rows(v.next(k), n, [v.absolute(first), first, v.place(k)], look)
    return pivot, place


def _take_off(
    v: SideBySide,
    n: int,
    a: Matrices,
    target: Matrices,
    k: Place,
    place: ir.Value,
    js: Sequence[Place],
) -> None:
    """Swap row k of some columns with that of the pivot, and take multiples of it off all below."""
    b = v.builder
    old, new = _chosen(v, n, target, js, k, place)
    for j, x in zip(js, new, strict=True):
        target[k, j] = x

    def row(i: ir.Value, number: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
        factor, is_swapped = a[i, k], b.fcmp_ordered("==", number, place)
        for j, x, y in zip(js, old, new, strict=True):
            target[i, j] = v.less_product(b.select(is_swapped, x, target[i, j]), factor, y)
        return []

    v.rows(v.next(k), n, [], row)


def swap_rows(v: SideBySide, n: int, k: Place, place: ir.Value, target: Matrices, j: Place) -> None:
    """Swap row k of a column with that of the pivot."""
    b = v.builder
    (old,), (new,) = _chosen(v, n, target, [j], k, place)
    target[k, j] = new

    def row(i: ir.Value, number: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
        target[i, j] = b.select(b.fcmp_ordered("==", number, place), old, target[i, j])
        return []

    v.rows(v.next(k), n, [], row)


def sort_rows(
    v: SideBySide, n: int, d: Matrices, first: str, sides: Sequence[tuple[Matrices, int]]
) -> None:
    """The least of a column first, or the largest, and rows of the sides, so long, with it."""
    b = v.builder

    def step(k: ir.Value) -> None:
        def look(i: ir.Value, number: ir.Value, now: list[ir.Value]) -> list[ir.Value]:
            best, x = now[0], d[i, 0]
            better = b.fcmp_ordered(first, x, best)
            return [b.select(better, x, best), b.select(better, number, now[1])]

        _, place = v.rows(v.next(k), n, [d[k, 0], v.place(k)], look)
        with b.if_then(v.any(b.fcmp_ordered("!=", place, v.place(k)))):
            swap_rows(v, n, k, place, d, 0)
            for rows, columns in sides:
                v.loop(0, columns, functools.partial(swap_rows, v, n, k, place, rows))

    v.loop(0, n - 1, step)


def _chosen(
    v: SideBySide, n: int, target: Matrices, js: Sequence[Place], k: Place, place: ir.Value
) -> tuple[list[ir.Value], list[ir.Value]]:
    """Row k of some columns, and the row of the pivot."""
    b, old = v.builder, [target[k, j] for j in js]

    def look(i: ir.Value, number: ir.Value, now: list[ir.Value]) -> list[ir.Value]:
        is_here = b.fcmp_ordered("==", number, place)
        return [b.select(is_here, target[i, j], x) for j, x in zip(js, now, strict=True)]

    return old, v.rows(v.next(k), n, old, look)


def _substitute(
    v: SideBySide, n: int, m: int, a: Matrices, x: Matrices, lower: bool, unit: bool = False
) -> None:
    """x with a x = what x was, for one triangle of a."""
    b = v.builder

    def known(j: ir.Value) -> None:
        divide: Callable[[ir.Value], ir.Value] = lambda y: y
        if not unit:
            pivot = a[j, j]
            divide = v.inverse(pivot) if m > 1 else lambda y: b.fdiv(y, pivot)

        def columns(cs: list[ir.Value]) -> None:
            found = [divide(x[j, c]) for c in cs]
            for c, one in zip(cs, found, strict=True):
                x[j, c] = one

            def take_off(i: ir.Value) -> None:
                factor = a[i, j]
                for c, one in zip(cs, found, strict=True):
                    x[i, c] = v.less_product(x[i, c], factor, one)

            start, stop = (v.next(j), n) if lower else (0, j)
            v.loop(start, stop, take_off)

        v.together(0, m, COLUMNS, columns)

    (v.loop if lower else v.down)(0, n, known)


def solve(v: SideBySide, n: int, m: int, a: Matrices, x: Matrices, good: Matrices) -> None:
    """x with a x = what x was."""
    _eliminate(v, n, a, good, sides=[(x, m)])
    _substitute(v, n, m, a, x, lower=False)


def lu(
    v: SideBySide, n: int, a: Matrices, swaps: Matrices, order: Matrices, back: Matrices
) -> None:
    """L U in place of a; the row swapped with each; the order of the rows, and its inverse."""
    b = v.builder
    v.rows(0, n, [], lambda i, number, _: _set(order, (i, 0), number))
    _eliminate(v, n, a, None, kept=[(order, 1)], swaps=swaps, keeps_factors=True)

    def place(k: ir.Value, number: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
        found = order[k, 0]

        def look(i: ir.Value, row: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
            is_here = b.fcmp_ordered("==", found, row)
            return _set(back, (i, 0), b.select(is_here, number, back[i, 0]))

        return v.rows(0, n, [], look)

    v.loop(0, n, lambda i: _set(back, (i, 0), v.number(0.0)))
    v.rows(0, n, [], place)


def pivots(v: SideBySide, n: int, a: Matrices, left: Matrices, swaps: Matrices) -> None:
    """What elimination leaves on the diagonal, and the row swapped with each."""
    _eliminate(v, n, a, None, swaps=swaps)
    v.loop(0, n, lambda i: _set(left, (i, 0), a[i, i]))


def _set(target: Matrices, place: tuple[Place, Place], value: ir.Value) -> list[ir.Value]:
    target[place] = value
    return []


# ---------------------------------------------------------------- triangles


def cholesky(v: SideBySide, n: int, a: Matrices, good: Matrices) -> None:
    """The lower triangle L with L Lᵀ = a in place of that of a; above it is anything."""
    b = v.builder
    good[0, 0] = v.number(1.0)

    def step(k: ir.Value) -> None:
        left = a[k, k]
        wrong = b.fcmp_ordered("<=", left, v.number(0.0))
        _note(v, good, wrong)
        root = v.root(b.select(wrong, v.number(1.0), left))
        divided = v.inverse(root)
        a[k, k] = root
        v.loop(v.next(k), n, lambda i: _set(a, (i, k), divided(a[i, k])))
        v.together(v.next(k), n, COLUMNS, lambda js: columns(k, js))

    def columns(k: ir.Value, js: list[ir.Value]) -> None:
        factors = [a[j, k] for j in js]

        def row(i: ir.Value) -> None:
            x = a[i, k]
            for j, y in zip(js, factors, strict=True):
                a[i, j] = v.less_product(a[i, j], x, y)

        v.loop(js[0], n, row)

    v.loop(0, n, step)


def triangle(lower: bool, unit: bool) -> Callable[..., None]:
    """The algorithm for one triangle, which may have a diagonal of ones that nobody reads."""

    def substituted(
        v: SideBySide, n: int, m: int, a: Matrices, x: Matrices, good: Matrices
    ) -> None:
        """x with a x = what x was."""
        good[0, 0] = v.number(1.0)
        if not unit:
            zero = v.number(0.0)
            v.loop(0, n, lambda i: _note(v, good, v.builder.fcmp_ordered("==", a[i, i], zero)))
        _substitute(v, n, m, a, x, lower, unit)

    return substituted


# ---------------------------------------------------------------- reflections


def qr(
    v: SideBySide, m: int, n: int, columns: int, a: Matrices, q: Matrices, tau: Matrices
) -> None:
    """R in the upper triangle of a, and the reflections that lead to it below; their product times
    what q was. `tau` has the factors of the reflections."""
    k = min(m, n)

    def reflect(j: ir.Value) -> None:
        scale = reflection(v, m, a, j, j)
        tau[j, 0] = scale
        v.together(v.next(j), n, COLUMNS, lambda cs: reflected(v, m, a, j, j, scale, a, cs))

    def product(j: ir.Value) -> None:
        v.together(j, columns, COLUMNS, lambda cs: reflected(v, m, a, j, j, tau[j, 0], q, cs))

    v.loop(0, k, reflect)
    v.down(0, k, product)


def reflection(v: SideBySide, m: int, a: Matrices, top: ir.Value, j: ir.Value) -> ir.Value:
    """1 - tau u uᵀ makes column j vanish below row `top`, where u, which begins with 1, is left.

    Lengths are those of numbers whose squares are neither too large nor too small.
    """
    b, zero, one = v.builder, v.number(0.0), v.number(1.0)
    first = a[top, j]
    below, last = v.next(top), ir.Constant(j.type, m)
    (largest,) = v.carried_or(
        below, last, [v.absolute(first)], lambda i, now: [v.larger(now[0], v.absolute(a[i, j]))]
    )
    up = into_range(v, largest)

    def add(i: ir.Value, now: list[ir.Value]) -> list[ir.Value]:
        x = b.fmul(a[i, j], up)
        return [v.plus_product(now[0], x, x)]

    (rest,) = v.carried_or(below, last, [zero], add)
    first = b.fmul(first, up)
    length = v.root(v.plus_product(rest, first, first))
    none = b.fcmp_ordered("==", rest, zero)
    beta = b.select(none, first, b.fneg(v.with_sign(length, first)))
    tau = b.select(none, zero, b.fdiv(b.fsub(beta, first), b.select(none, one, beta)))
    scale = b.select(none, zero, b.fdiv(one, b.select(none, one, b.fsub(first, beta))))
    a[top, j] = b.fdiv(beta, up)
    v.loop(below, m, lambda i: _set(a, (i, j), b.fmul(b.fmul(a[i, j], up), scale)))
    return tau


def reflected(
    v: SideBySide,
    m: int,
    a: Matrices,
    top: ir.Value,
    j: ir.Value,
    tau: ir.Value,
    x: Matrices,
    cs: Sequence[ir.Value],
) -> None:
    """Some columns of x, reflected by column j of a below row `top`."""
    b, below = v.builder, v.next(top)
    last = ir.Constant(j.type, m)

    def add(i: ir.Value, now: list[ir.Value]) -> list[ir.Value]:
        u = a[i, j]
        return [v.plus_product(total, u, x[i, c]) for total, c in zip(now, cs, strict=True)]

    firsts = [x[top, c] for c in cs]
    sums = [b.fmul(tau, total) for total in v.carried_or(below, last, firsts, add)]
    for c, first, total in zip(cs, firsts, sums, strict=True):
        x[top, c] = b.fsub(first, total)

    def row(i: ir.Value) -> None:
        u = a[i, j]
        for c, total in zip(cs, sums, strict=True):
            x[i, c] = v.less_product(x[i, c], u, total)

    v.loop(below, m, row)


def into_range(v: SideBySide, largest: ir.Value) -> ir.Value:
    """A power of two that makes squares of numbers of this size neither too large nor too small."""
    b = v.builder
    small = b.fcmp_ordered("<", largest, v.number(2.0**-480))
    up = b.select(small, v.number(2.0**600), v.number(1.0))
    return b.select(b.fcmp_ordered(">", largest, v.number(2.0**480)), v.number(2.0**-600), up)


def largest_of(v: SideBySide, a: Matrices, m: int, n: int) -> ir.Value:
    """The largest of all elements of matrices, by their size."""

    def row(i: ir.Value, now: list[ir.Value]) -> list[ir.Value]:
        look = lambda j, x: [v.larger(x[0], v.absolute(a[i, j]))]
        return v.carried(0, n, now, look)

    return v.carried(0, m, [v.number(0.0)], row)[0]
