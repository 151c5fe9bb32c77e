"""Rotations of small matrices, one lane each, of which every lane has its own place."""

from __future__ import annotations

import functools
import math

from llvmlite import ir

from .side_by_side import LaneNumber, Matrices, Place, SideBySide


class Column:
    """A vector of each lane, in numbers."""

    def __init__(self, v: SideBySide, memory: Matrices):
        self.v, self.memory = v, memory

    def __getitem__(self, place: Place) -> LaneNumber:
        return LaneNumber(self.v, self.memory[place, 0])

    def __setitem__(self, place: Place, value: LaneNumber) -> None:
        self.memory[place, 0] = value.value


def rotation(f: LaneNumber, g: LaneNumber) -> tuple[LaneNumber, LaneNumber, LaneNumber]:
    """c, s, r with c f + s g = r and c g = s f, c not negative; none where both are next to 0."""
    square = f * f + g * g
    none = square < 2.0**-960
    length = none.choose(1.0, square).root()
    r = length.with_sign_of(f + 0.0)
    c, s = abs(f) / length, g / r
    return none.choose(1.0, c), none.choose(0.0, s), none.choose(f, r)


def picked(v: SideBySide, n: int, column: Column, *places: LaneNumber) -> list[LaneNumber]:
    """The elements of a column at places that every lane has of its own."""

    def look(i: ir.Value, number: ir.Value, now: list[ir.Value]) -> list[ir.Value]:
        x, at = column[i], LaneNumber(v, number)
        pairs = zip(places, now, strict=True)
        return [at.equals(one).choose(x, LaneNumber(v, old)).value for one, old in pairs]

    nothing = [v.number(0.0)] * len(places)
    return [LaneNumber(v, x) for x in v.rows(0, n, nothing, look)]


def rotate_rows(
    v: SideBySide, columns: int, rows: Matrices, i: Place, c: LaneNumber, s: LaneNumber
) -> None:
    """Two rows, this one and the next, turned."""
    after = v.next(i)

    def turn(r: ir.Value) -> None:
        x, y = LaneNumber(v, rows[i, r]), LaneNumber(v, rows[after, r])
        rows[after, r] = v.less_product((c * y).value, s.value, x.value)
        rows[i, r] = v.plus_product((s * y).value, c.value, x.value)

    v.loop(0, columns, turn)


def forget(v: SideBySide, rows: int, columns: int, memory: Matrices, where: LaneNumber) -> None:
    """NaN in place of all elements."""

    def each(i: ir.Value, j: ir.Value) -> None:
        memory[i, j] = where.choose(math.nan, LaneNumber(v, memory[i, j])).value

    v.loop(0, rows, lambda i: v.loop(0, columns, functools.partial(each, i)))
