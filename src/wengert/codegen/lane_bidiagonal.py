"""Bidiagonal matrices to diagonal ones, one lane a matrix, as LAPACK's `dbdsqr` does.

QR steps with a shift or without, from above or from below. As with eigenvalues, each lane has a
part of the matrix of its own that it works on; in every round all lanes take a step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from ..schedule.lanes import NUMBERS_FOR_SINGULAR_VALUES
from .lane_rotations import Column, picked, rotate_rows, rotation
from .side_by_side import LaneNumber, Matrices, Place, SideBySide

_EPS, _LEAST = 2.0**-53, 2.0**-1022
_TOLERANCE = max(10.0, min(100.0, _EPS**-0.125)) * _EPS
# LAPACK gives up after so many steps for each pair of rows.
_MOST_STEPS = 6
# What is known of the part that a lane works on: its last and first row; those of the part before,
# and from which end steps go, which is kept as long as the part is; the least singular value, by
# an estimate, and the largest element; below what an element is nothing; what is chased.
_END, _START, _OLD_END, _OLD_START, _DOWN, _SMALLEST, _LARGEST, _NOTHING, _CHASED = range(
    NUMBERS_FOR_SINGULAR_VALUES
)
# Vectors on the right and on the left, as rows, of so many columns.
Sides = Sequence[tuple[Matrices, int]]


class BidiagonalSteps:
    """QR steps, until e vanishes; vectors on both sides are rotated with it, if there are any."""

    def __init__(
        self, v: SideBySide, n: int, d: Matrices, e: Matrices, state: Matrices, sides: Sides
    ):
        self.v, self.n, self.sides = v, n, sides
        self.d, self.e, self.state = Column(v, d), Column(v, e), Column(v, state)

    def run(self) -> None:
        """All parts, one after the other, in each lane."""
        state, n = self.state, self.n
        for place in range(NUMBERS_FOR_SINGULAR_VALUES):
            state[place] = self._number(0.0)
        state[_END] = self._number(n - 1.0)
        state[_OLD_END] = state[_OLD_START] = self._number(-1.0)
        state[_NOTHING] = self._nothing()
        self.v.repeat(_MOST_STEPS * n * n, self._round)

    def unfinished(self) -> LaneNumber:
        """Whether a lane still has rows to work on."""
        return self.state[_END] > 0.0

    def _number(self, value: float) -> LaneNumber:
        return LaneNumber(self.v, self.v.number(value))

    def _nothing(self) -> LaneNumber:
        """Below what elements beside the diagonal are nothing: no singular value changes by much
        of itself."""

        def look(i: ir.Value, now: list[ir.Value]) -> list[ir.Value]:
            least, mu = (LaneNumber(self.v, x) for x in now)
            mu = abs(self.d[self.v.next(i)]) * _ratio(mu, mu + abs(self.e[i]))
            return [_lesser(least, mu).value, mu.value]

        first = abs(self.d[0]).value
        least = LaneNumber(self.v, self.v.carried(0, self.n - 1, [first, first], look)[0])
        small = least * (_TOLERANCE / math.sqrt(self.n))
        return _greater(small, self._number(_MOST_STEPS * self.n * self.n * _LEAST))

    def _round(self) -> ir.Value:
        """A step in all lanes that have not finished; whether there is one."""
        self.v.repeat(4 * self.n, self._find)
        busy = self.unfinished()
        going = busy.anywhere()
        with self.v.builder.if_then(going):
            self._step(busy)
        return going

    # ------------------------------------------------------------ what a step is about

    def _find(self) -> ir.Value:
        """The part that the next step of a lane is about; whether to look again."""
        state, v = self.state, self.v
        end = state[_END]
        busy = end > 0.0

        def look(i: ir.Value, number: ir.Value, now: list[ir.Value]) -> list[ir.Value]:
            start, largest = (LaneNumber(v, x) for x in now)
            at, e, after = LaneNumber(v, number), self.e[i], abs(self.d[v.next(i)])
            inside = busy & (at < end)
            none = inside & (abs(e) <= state[_NOTHING])
            self.e[i] = none.choose(0.0, e)
            most = _greater(_greater(largest, abs(e)), after)
            largest = none.choose(after, inside.choose(most, largest))
            return [none.choose(at + 1.0, start).value, largest.value]

        first = abs(self.d[0]).value
        found = v.rows(0, self.n - 1, [v.number(0.0), first], look)
        start, state[_LARGEST] = LaneNumber(v, found[0]), LaneNumber(v, found[1])
        state[_START] = start
        single = busy & start.equals(end)
        state[_END] = single.choose(end - 1.0, end)
        several = busy & ~single & ~end.equals(start + 1.0)
        at_start, at_end = picked(v, self.n, self.d, start, end)
        fresh = several & ((start > state[_OLD_END]) | (end < state[_OLD_START]))
        side = (abs(at_start) >= abs(at_end)).choose(1.0, 0.0)
        state[_DOWN] = fresh.choose(side, state[_DOWN])
        down = state[_DOWN].equals(1.0)
        again = single & (state[_END] > 0.0)
        for goes_down in (True, False):
            mine = several & (down if goes_down else ~down)
            again = again | self._converged(goes_down, mine, start, end, at_start, at_end)
        settled = several & ~again
        state[_OLD_START] = settled.choose(start, state[_OLD_START])
        state[_OLD_END] = settled.choose(end, state[_OLD_END])
        return again.anywhere()

    def _converged(
        self,
        goes_down: bool,
        mine: LaneNumber,
        start: LaneNumber,
        end: LaneNumber,
        at_start: LaneNumber,
        at_end: LaneNumber,
    ) -> LaneNumber:
        """Whether an element off the diagonal is nothing beside those before it: it is 0 then."""
        v, state = self.v, self.state
        near, far = (at_start, at_end) if goes_down else (at_end, at_start)
        last = end - 1.0 if goes_down else start

        def look(i: ir.Value, now: list[ir.Value]) -> list[ir.Value]:
            found, least, mu = (LaneNumber(v, x) for x in now)
            at, e = LaneNumber(v, v.place(i)), abs(self.e[i])
            inside = mine & (at >= start) & (at < end)
            by_end = at.equals(last) & (e <= abs(far) * _TOLERANCE)
            none = inside & found.equals(0.0) & ((e <= mu * _TOLERANCE) | by_end)
            self.e[i] = none.choose(0.0, self.e[i])
            following = abs(self.d[v.next(i) if goes_down else i]) * _ratio(mu, mu + e)
            going = inside & ~none
            mu = going.choose(following, mu)
            return [none.choose(1.0, found).value, _lesser(least, mu).value, mu.value]

        first = [v.number(0.0), abs(near).value, abs(near).value]
        top = ir.Constant(v.one.type, self.n - 2)
        turn = look if goes_down else lambda i, now: look(v.builder.sub(top, i), now)
        found, least, _ = (LaneNumber(v, x) for x in v.carried(0, self.n - 1, first, turn))
        state[_SMALLEST] = mine.choose(least, state[_SMALLEST])
        return found.equals(1.0)

    # ------------------------------------------------------------ steps

    def _step(self, busy: LaneNumber) -> None:
        state, v, n = self.state, self.v, self.n
        start, end, down = state[_START], state[_END], state[_DOWN].equals(1.0)
        pair = busy & end.equals(start + 1.0)
        at_start, after, before, at_end = picked(v, n, self.d, start, start + 1.0, end - 1.0, end)
        first_e, last_e = picked(v, n, self.e, start, end - 1.0)
        with v.builder.if_then(pair.anywhere()):
            self._two(pair, start, at_start, first_e, at_end)
        near = abs(down.choose(at_start, at_end))
        shift = _least_of_two(
            down.choose(before, at_start), down.choose(last_e, first_e), down.choose(at_end, after)
        )
        ratio = _ratio(shift, near)
        useless = state[_SMALLEST] * (n * _TOLERANCE) <= state[_LARGEST] * max(
            _EPS, 0.01 * _TOLERANCE
        )
        useless = useless | (ratio * ratio < _EPS)
        several = busy & ~pair
        given = down.choose(at_start, at_end)
        # what the first rotation of a step with a shift is about
        f = (abs(given) - shift) * (self._number(1.0).with_sign_of(given) + shift / given)
        g = down.choose(first_e, last_e)
        for goes_down in (True, False):
            side = several & (down if goes_down else ~down)
            for has_shift in (True, False):
                mine = side & (~useless if has_shift else useless)
                with v.builder.if_then(mine.anywhere()):
                    self._sweep(goes_down, has_shift, mine, start, end, f, g)
        state[_END] = pair.choose(end - 2.0, end)

    def _two(
        self,
        pair: LaneNumber,
        start: LaneNumber,
        f: LaneNumber,
        g: LaneNumber,
        h: LaneNumber,
    ) -> None:
        """The singular values of two rows, at once."""
        v = self.v
        small, large, *turns = _of_two(f, g, h)
        right, left = turns[:2], turns[2:]

        def each(i: ir.Value, number: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
            here, after = pair & LaneNumber(v, number).equals(start), v.next(i)
            with v.builder.if_then(here.anywhere()):
                self.d[i] = here.choose(large, self.d[i])
                self.d[after] = here.choose(small, self.d[after])
                self.e[i] = here.choose(0.0, self.e[i])
                self._rotate(i, here, right, left)
            return []

        v.rows(0, self.n - 1, [], each)

    def _rotate(
        self, i: Place, here: LaneNumber, right: Sequence[LaneNumber], left: Sequence[LaneNumber]
    ) -> None:
        """Vectors on both sides, by cosines and sines."""
        for (rows, columns), (c, s) in zip(self.sides, (right, left), strict=False):
            turns = here.choose(c, 1.0), here.choose(s, 0.0)
            rotate_rows(self.v, columns, rows, i, *turns)

    def _sweep(
        self,
        goes_down: bool,
        has_shift: bool,
        mine: LaneNumber,
        start: LaneNumber,
        end: LaneNumber,
        f: LaneNumber,
        g: LaneNumber,
    ) -> None:
        """The rotations of a step, one pair after the other, from one end of the part to the
        other."""
        v = self.v
        turn = (self._with_shift if has_shift else self._without)(goes_down, mine, start, end)
        values = (f, g) if has_shift else (self._number(1.0), self._number(1.0), self._number(0.0))
        low, high = v.bounds(mine, start, end)
        top = v.builder.sub(v.builder.add(low, high), v.one)

        def each(i: ir.Value, now: list[ir.Value]) -> list[ir.Value]:
            i = i if goes_down else v.builder.sub(top, i)
            at = LaneNumber(v, v.place(i))
            here = mine & (at >= start) & (at < end)
            old = [LaneNumber(v, x) for x in now]
            new = turn(i, at, here, *old)
            return [here.choose(x, y).value for x, y in zip(new, old, strict=True)]

        v.carried(low, high, [x.value for x in values], each)

    def _places(self, goes_down: bool, i: Place) -> tuple[Place, Place, Place]:
        """The elements of d that a rotation leaves behind and takes up, and the one of e behind."""
        b, after = self.v.builder, self.v.next(i)
        return (i, after, b.sub(i, self.v.one)) if goes_down else (after, i, after)

    def _ends(
        self, goes_down: bool, at: LaneNumber, start: LaneNumber, end: LaneNumber
    ) -> tuple[LaneNumber, LaneNumber]:
        """Whether a rotation is the first of a step, or the last."""
        ends = at.equals(start), at.equals(end - 1.0)
        return ends if goes_down else ends[::-1]

    def _leave(self, place: Place, where: LaneNumber, value: LaneNumber) -> None:
        """Store in e, where that is wanted at all: else there may be no such place."""
        with self.v.builder.if_then(where.anywhere()):
            self.e[place] = where.choose(value, self.e[place])

    def _none_if_small(self, x: LaneNumber) -> LaneNumber:
        return (abs(x) <= self.state[_NOTHING]).choose(0.0, x)

    def _turn(
        self,
        goes_down: bool,
        i: Place,
        here: LaneNumber,
        one: tuple[LaneNumber, LaneNumber],
        other: tuple[LaneNumber, LaneNumber],
    ) -> None:
        """Rotations of a step on both sides; from below, sides are exchanged and signs turned."""
        if goes_down:
            self._rotate(i, here, one, other)
        else:
            self._rotate(i, here, (other[0], -other[1]), (one[0], -one[1]))

    def _without(
        self, goes_down: bool, mine: LaneNumber, start: LaneNumber, end: LaneNumber
    ) -> Callable[..., Sequence[LaneNumber]]:
        """A rotation of a step without a shift: it is exact in each element."""
        d, e = self.d, self.e

        def turn(
            i: Place, at: LaneNumber, here: LaneNumber, cs: Any, old_cs: Any, old_sn: Any
        ) -> Sequence[LaneNumber]:
            behind, ahead, e_behind = self._places(goes_down, i)
            first, last = self._ends(goes_down, at, start, end)
            new_cs, sn, r = rotation(d[behind] * cs, e[i])
            self._leave(e_behind, here & ~first, old_sn * r)
            new_old, new_sn, left = rotation(old_cs * r, d[ahead] * sn)
            d[behind] = here.choose(left, d[behind])
            h = d[ahead] * new_cs
            ends = here & last
            d[ahead] = ends.choose(h * new_old, d[ahead])
            e[i] = ends.choose(self._none_if_small(h * new_sn), e[i])
            self._turn(goes_down, i, here, (new_cs, sn), (new_old, new_sn))
            return new_cs, new_old, new_sn

        return turn

    def _with_shift(
        self, goes_down: bool, mine: LaneNumber, start: LaneNumber, end: LaneNumber
    ) -> Callable[..., Sequence[LaneNumber]]:
        """A rotation of a step with a shift, which chases what is beside the two diagonals."""
        d, e, v = self.d, self.e, self.v

        def turn(
            i: Place, at: LaneNumber, here: LaneNumber, f: Any, g: Any
        ) -> Sequence[LaneNumber]:
            behind, ahead, e_behind = self._places(goes_down, i)
            e_ahead = v.next(i) if goes_down else v.builder.sub(i, v.one)
            first, last = self._ends(goes_down, at, start, end)
            cr, sr, r = rotation(f, g)
            self._leave(e_behind, here & ~first, r)
            x, y, z = d[behind], e[i], d[ahead]
            f, beside = cr * x + sr * y, cr * y - sr * x
            g, z = sr * z, cr * z
            cl, sl, r = rotation(f, g)
            d[behind] = here.choose(r, d[behind])
            f, z = cl * beside + sl * z, cl * z - sl * beside
            d[ahead] = here.choose(z, d[ahead])
            e[i] = here.choose(last.choose(self._none_if_small(f), f), e[i])
            goes_on = here & ~last
            with v.builder.if_then(goes_on.anywhere()):
                following = e[e_ahead]
                self.state[_CHASED] = sl * following
                e[e_ahead] = goes_on.choose(cl * following, following)
            self._turn(goes_down, i, here, (cr, sr), (cl, sl))
            return f, self.state[_CHASED]

        return turn


# ---------------------------------------------------------------- numbers


def _lesser(x: LaneNumber, y: LaneNumber) -> LaneNumber:
    return (y < x).choose(y, x)


def _greater(x: LaneNumber, y: LaneNumber) -> LaneNumber:
    return (y > x).choose(y, x)


def _ratio(x: LaneNumber, y: LaneNumber) -> LaneNumber:
    """x / y, and 0 if y is."""
    none = y.equals(0.0)
    return none.choose(0.0, x / none.choose(1.0, y))


def _least_of_two(f: LaneNumber, g: LaneNumber, h: LaneNumber) -> LaneNumber:
    """The smaller singular value of [[f, g], [0, h]]."""
    fa, ga, ha = abs(f), abs(g), abs(h)
    least, most = _lesser(fa, ha), _greater(fa, ha)
    part, rest = _ratio(least, most) + 1.0, _ratio(most - least, most)
    flat = ga < most
    small = _ratio(flat.choose(ga, most), flat.choose(most, ga))
    square = small * small
    wide = (part * part + square).root() + (rest * rest + square).root()
    high = (part * part * square + 1.0).root() + (rest * rest * square + 1.0).root()
    scale = flat.choose(1.0, small)
    return least / flat.choose(wide, high) * scale * 2.0


def _of_two(f: LaneNumber, g: LaneNumber, h: LaneNumber) -> list[LaneNumber]:
    """The singular values of [[f, g], [0, h]], the smaller one first, and the cosines and sines of
    the rotations on the right and on the left."""
    one = f.like(1.0)
    swap = abs(h) > abs(f)
    ft, ht = swap.choose(h, f), swap.choose(f, h)
    fa, ha, ga = abs(ft), abs(ht), abs(g)
    above = ga > fa
    huge = above & (_ratio(fa, ga) < _EPS)
    # where nothing is beside the diagonal, and where everything is
    safe_f, safe_g = fa.equals(0.0).choose(1.0, ft), ga.equals(0.0).choose(1.0, g)
    apart = fa - ha
    relative = apart.equals(fa).choose(1.0, _ratio(apart, fa))
    slope = g / safe_f
    t = -relative + 2.0
    square = slope * slope
    s = (t * t + square).root()
    r = relative.equals(0.0).choose(abs(slope), (relative * relative + square).root())
    mean = (s + r) * 0.5
    tiny = square.equals(0.0)
    signed = relative.equals(0.0).choose(
        one.with_sign_of(ft) * one.with_sign_of(g) * 2.0,
        _ratio(g, apart.with_sign_of(ft)) + slope / t,
    )
    sum_of = (r + relative).equals(0.0).choose(1.0, r + relative)
    t = tiny.choose(signed, (slope / (s + t) + slope / sum_of) * (mean + 1.0))
    length = (t * t + 4.0).root()
    crt, srt = one * 2.0 / length, t / length
    safe_mean = mean.equals(0.0).choose(1.0, mean)
    clt, slt = (crt + srt * slope) / safe_mean, ht / safe_f * srt / safe_mean
    small, large = ha / safe_mean, fa * mean
    # hardly anything but g
    small = huge.choose((ha > 1.0).choose(_ratio(fa, _ratio(ga, ha)), fa / abs(safe_g) * ha), small)
    large = huge.choose(ga, large)
    clt, slt = huge.choose(1.0, clt), huge.choose(ht / safe_g, slt)
    srt, crt = huge.choose(1.0, srt), huge.choose(ft / safe_g, crt)
    none = ga.equals(0.0)
    small, large = none.choose(ha, small), none.choose(fa, large)
    clt, crt, slt, srt = (
        none.choose(x, y) for x, y in ((1.0, clt), (1.0, crt), (0.0, slt), (0.0, srt))
    )
    csl, snl = swap.choose(srt, clt), swap.choose(crt, slt)
    csr, snr = swap.choose(slt, crt), swap.choose(clt, srt)
    sign = lambda x: one.with_sign_of(x)
    by_f, by_g, by_h = (
        sign(x) * sign(y) * sign(z) for x, y, z in ((csr, csl, f), (snr, csl, g), (snr, snl, h))
    )
    total = (above & ~none).choose(by_g, swap.choose(by_h, by_f))
    large = large.with_sign_of(total)
    small = small.with_sign_of(total * sign(f) * sign(h))
    return [small, large, csr, snr, csl, snl]
