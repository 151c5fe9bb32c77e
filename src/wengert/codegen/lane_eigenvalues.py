"""Eigenvalues and eigenvectors of small symmetric matrices, one lane a matrix.

As LAPACK's `dsyevd` does for small ones: reflections make a matrix tridiagonal, and QL or QR steps
make that diagonal. All choices are LAPACK's, so that vectors come out with the same signs. Each
lane has a block of the matrix of its own that it works on; in every round all lanes take a step,
some from below and some from above, and rotations of those that have nothing to do turn by 0.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

from llvmlite import ir

from ..schedule.lanes import NUMBERS_FOR_EIGENVALUES
from .lane_factorisations import COLUMNS, into_range, largest_of, reflected, reflection, sort_rows
from .lane_rotations import Column, forget, picked, rotate_rows, rotation
from .side_by_side import LaneNumber, Matrices, Place, SideBySide

_EPS, _LEAST = 2.0**-53, 2.0**-1022
# LAPACK gives up after so many steps for each row.
_MOST_STEPS = 30
# What is known of the block of a lane: its ends, from where steps begin and where to; where the
# part ends that the next step is about; where the next block begins; whether steps go down, and
# whether there is a block at all. If a part has two rows: its eigenvalues and a vector.
_FIRST, _LAST, _END, _NEXT, _DOWN, _BUSY, *_TWO = range(NUMBERS_FOR_EIGENVALUES)


def eigenvalues(
    v: SideBySide,
    n: int,
    a: Matrices,
    d: Matrices,
    e: Matrices,
    w: Matrices,
    state: Matrices,
    good: Matrices,
    z: Matrices | None = None,
) -> None:
    """d are the eigenvalues of a, and z, which was the identity, its vectors."""
    largest = largest_of(v, a, n, n)
    up = into_range(v, largest)
    v.loop(0, n, lambda i: v.loop(0, n, lambda j: _scaled(v, a, i, j, up)))
    _tridiagonal(v, n, a, d, e, w)
    if z is not None:
        _product(v, n, a, w, z)
    _RotationSteps(v, n, d, e, state, None if z is None else z.transposed()).run()
    at = _reader(v, state)
    unfinished = at(_BUSY).equals(1.0) | (at(_NEXT) < float(n))
    sort_rows(v, n, d, "<", [] if z is None else [(z.transposed(), n)])
    v.loop(0, n, lambda i: d.__setitem__((i, 0), v.builder.fdiv(d[i, 0], up)))
    # as in NumPy, what is infinite has no eigenvalues, and what is NaN is an error
    endless = unfinished & LaneNumber(v, largest).equals(math.inf)
    good[0, 0] = (unfinished & ~endless).choose(0.0, 1.0).value
    with v.builder.if_then(endless.anywhere()):
        for memory, columns in ((d, 1), (z, n)):
            if memory is not None:
                forget(v, n, columns, memory, endless)


def _reader(v: SideBySide, of: Matrices) -> Callable[[Place], LaneNumber]:
    return lambda place: LaneNumber(v, of[place, 0])


def _scaled(v: SideBySide, a: Matrices, i: Place, j: Place, up: ir.Value) -> None:
    a[i, j] = v.builder.fmul(a[i, j], up)


# ---------------------------------------------------------------- to three diagonals


def _tridiagonal(v: SideBySide, n: int, a: Matrices, d: Matrices, e: Matrices, w: Matrices) -> None:
    """The diagonal and the one below it, by reflections, which are left below that in a.

    Their factors are left in the first column of w; its second is memory to work with.
    """
    b = v.builder
    zero = v.number(0.0)

    def step(k: ir.Value) -> None:
        top = v.next(k)
        tau = reflection(v, n, a, top, k)
        w[k, 0], e[k, 0], d[k, 0] = tau, a[top, k], a[k, k]
        a[top, k] = v.number(1.0)

        def multiply(rs: list[ir.Value]) -> None:
            def add(c: ir.Value, now: list[ir.Value]) -> list[ir.Value]:
                u = a[c, k]
                return [v.plus_product(x, u, a[c, r]) for r, x in zip(rs, now, strict=True)]

            sums = v.carried(top, n, [zero] * len(rs), add)
            for r, x in zip(rs, sums, strict=True):
                w[r, 1] = b.fmul(tau, x)

        v.together(top, n, COLUMNS, multiply)
        (along,) = v.carried(top, n, [zero], lambda r, x: [v.plus_product(x[0], w[r, 1], a[r, k])])
        half = b.fmul(b.fmul(v.number(0.5), tau), along)
        v.loop(top, n, lambda r: w.__setitem__((r, 1), v.less_product(w[r, 1], half, a[r, k])))

        def take_off(cs: list[ir.Value]) -> None:
            pairs = [(a[c, k], w[c, 1]) for c in cs]

            def row(r: ir.Value) -> None:
                u, x = a[r, k], w[r, 1]
                for c, (other_u, other_x) in zip(cs, pairs, strict=True):
                    a[r, c] = v.less_product(v.less_product(a[r, c], u, other_x), x, other_u)

            v.loop(top, n, row)

        v.together(top, n, COLUMNS, take_off)

    v.loop(0, n - 1, step)
    d[n - 1, 0] = a[n - 1, n - 1]
    e[n - 1, 0] = zero


def _product(v: SideBySide, n: int, a: Matrices, w: Matrices, z: Matrices) -> None:
    """The product of all reflections, times what z was."""

    def reflect(k: ir.Value) -> None:
        top = v.next(k)
        v.together(top, n, COLUMNS, functools.partial(reflected, v, n, a, top, k, w[k, 0], z))

    v.down(0, n - 1, reflect)


# ---------------------------------------------------------------- to one


class _RotationSteps:
    """QL and QR steps, until e vanishes; `rows` are vectors that are rotated with it, if any."""

    def __init__(
        self,
        v: SideBySide,
        n: int,
        d: Matrices,
        e: Matrices,
        state: Matrices,
        rows: Matrices | None,
    ):
        self.v, self.n, self.rows = v, n, rows
        self.d, self.e, self.state = Column(v, d), Column(v, e), Column(v, state)

    def run(self) -> None:
        """All blocks, one after the other, in each lane."""
        for place in range(NUMBERS_FOR_EIGENVALUES):
            self.state[place] = self._number(0.0)
        self.v.repeat((_MOST_STEPS + 3) * self.n, self._round)

    def _number(self, value: float) -> LaneNumber:
        return LaneNumber(self.v, self.v.number(value))

    def _round(self) -> ir.Value:
        """A step in all lanes that have not finished; whether there is one."""
        self.v.repeat(3 * self.n, self._find)
        busy = self.state[_BUSY].equals(1.0)
        going = busy.anywhere()
        with self.v.builder.if_then(going):
            self._step(busy)
        return going

    # ------------------------------------------------------------ what a step is about

    def _find(self) -> ir.Value:
        """The part of its block that the next step of a lane is about; whether to look again."""
        self._find_blocks()
        state, n = self.state, self.n
        busy, down = state[_BUSY].equals(1.0), state[_DOWN].equals(1.0)
        first, last = state[_FIRST], state[_LAST]

        def look(i: ir.Value, number: ir.Value, now: list[ir.Value]) -> list[ir.Value]:
            end, e, after = LaneNumber(self.v, now[0]), self.e[i], self.v.next(i)
            at, behind = LaneNumber(self.v, number), LaneNumber(self.v, number) + 1.0
            room = abs(self.d[i]) * _EPS**2 * abs(self.d[after]) + _LEAST
            small = busy & (e * e <= room)
            ahead = small & down & (at >= first) & (at < last)
            above = small & ~down & (behind <= first) & (behind > last)
            self.e[i] = (ahead | above).choose(0.0, e)
            end = (ahead & end.equals(last)).choose(at, above.choose(behind, end))
            return [end.value]

        end = LaneNumber(self.v, self.v.rows(0, n - 1, [last.value], look)[0])
        state[_END] = end
        found = busy & end.equals(first)
        self._go_on(found, 1.0)
        more = ~state[_BUSY].equals(1.0) & (state[_NEXT] < float(n))
        more = more | (found & state[_BUSY].equals(1.0))
        return more.anywhere()

    def _go_on(self, found: LaneNumber, count: float) -> None:
        """So many eigenvalues of the block have been found."""
        state = self.state
        down = state[_DOWN].equals(1.0)
        first = state[_FIRST] + found.choose(down.choose(count, -count), 0.0)
        over = found & (down.choose(first - state[_LAST], state[_LAST] - first) > 0.0)
        state[_FIRST] = first
        state[_BUSY] = over.choose(0.0, state[_BUSY])

    def _find_blocks(self) -> None:
        """The next block of each lane that has none."""
        state, n = self.state, self.n
        start = state[_NEXT]
        wanted = ~state[_BUSY].equals(1.0) & (start < float(n))
        with self.v.builder.if_then(wanted.anywhere()):

            def look(i: ir.Value, number: ir.Value, now: list[ir.Value]) -> list[ir.Value]:
                end, e, at = LaneNumber(self.v, now[0]), self.e[i], LaneNumber(self.v, number)
                room = abs(self.d[i]).root() * abs(self.d[self.v.next(i)]).root() * _EPS
                here = wanted & (at >= start) & end.equals(n - 1.0) & (abs(e) <= room)
                self.e[i] = (here | (wanted & at.equals(start - 1.0))).choose(0.0, e)
                return [here.choose(at, end).value]

            last = self._number(n - 1.0)
            end = LaneNumber(self.v, self.v.rows(0, n - 1, [last.value], look)[0])
            one, other = picked(self.v, self.n, self.d, start, end)
            # towards the smaller end
            turned = abs(other) < abs(one)
            busy = wanted & (end > start)
            for place, value in (
                (_FIRST, turned.choose(end, start)),
                (_LAST, turned.choose(start, end)),
                (_DOWN, turned.choose(0.0, 1.0)),
            ):
                state[place] = busy.choose(value, state[place])
            state[_BUSY] = busy.choose(1.0, state[_BUSY])
            state[_NEXT] = wanted.choose(end + 1.0, start)

    # ------------------------------------------------------------ steps

    def _step(self, busy: LaneNumber) -> None:
        state = self.state
        down = state[_DOWN].equals(1.0)
        first, end = state[_FIRST], state[_END]
        beside = down.choose(first + 1.0, first - 1.0)
        pair = busy & end.equals(beside)
        at_first, at_beside, at_end = picked(self.v, self.n, self.d, first, beside, end)
        (between,) = picked(self.v, self.n, self.e, down.choose(first, beside))
        g = (at_beside - at_first) / (between * 2.0)
        r = (g * g + 1.0).root()
        shift = at_end - at_first + between / (g + r.with_sign_of(g))
        ends = down.choose(at_first, at_beside), down.choose(at_beside, at_first)
        with self.v.builder.if_then(pair.anywhere()):
            for place, value in zip(_TWO, _of_two(ends[0], between, ends[1]), strict=True):
                state[place] = value
        two = [state[place] for place in _TWO]
        for goes_down in (True, False):
            mine = busy & (down if goes_down else ~down)
            with self.v.builder.if_then(mine.anywhere()):
                self._sweep(goes_down, mine, pair, first, end, shift, two)
        self._go_on(pair, 2.0)

    def _sweep(
        self,
        goes_down: bool,
        mine: LaneNumber,
        pair: LaneNumber,
        first: LaneNumber,
        end: LaneNumber,
        shift: LaneNumber,
        two: Sequence[LaneNumber],
    ) -> None:
        """The rotations of a step, one after the other, from the end of the part to the first."""
        v, d, e = self.v, self.d, self.e
        low, high = (first, end) if goes_down else (end, first)
        begin = high - 1.0 if goes_down else low
        finish = low if goes_down else high - 1.0
        one, zero = self._number(1.0), self._number(0.0)

        def rotate(i: ir.Value, now: list[ir.Value]) -> list[ir.Value]:
            g, s, c, p = (LaneNumber(v, x) for x in now)
            at, after = LaneNumber(v, v.place(i)), v.next(i)
            here = mine & (at >= low) & (at < high)
            turning = here & ~pair
            # the element that becomes final, and the one that the next rotation takes up
            done, coming = (after, i) if goes_down else (i, after)
            beside = after if goes_down else v.builder.sub(i, v.one)
            f, b = s * e[i], c * e[i]
            new_c, new_s, r = rotation(g, f)
            before = turning & ~at.equals(begin)
            with v.builder.if_then(before.anywhere()):
                e[beside] = before.choose(r, e[beside])
            taken = d[done] - p
            r = (d[coming] - taken) * new_s + new_c * b * 2.0
            new_p, new_g = new_s * r, new_c * r - b
            last = turning & at.equals(finish)
            at_pair = here & pair
            d[done] = at_pair.choose(two[goes_down], turning.choose(taken + new_p, d[done]))
            d[coming] = at_pair.choose(
                two[not goes_down], last.choose(d[coming] - new_p, d[coming])
            )
            e[i] = at_pair.choose(0.0, last.choose(new_g, e[i]))
            if self.rows is not None:
                turned = -new_s if goes_down else new_s
                cosine = at_pair.choose(two[2], turning.choose(new_c, one))
                sine = at_pair.choose(two[3], turning.choose(turned, zero))
                rotate_rows(v, self.n, self.rows, i, cosine, sine)
            pairs = zip((new_g, new_s, new_c, new_p), (g, s, c, p), strict=True)
            return [turning.choose(new, old).value for new, old in pairs]

        start, stop = v.bounds(mine, low, high)
        values = [x.value for x in (shift, one, one, zero)]
        if goes_down:
            top = v.builder.sub(v.builder.add(start, stop), v.one)
            v.carried(start, stop, values, lambda i, now: rotate(v.builder.sub(top, i), now))
        else:
            v.carried(start, stop, values, rotate)


def _of_two(
    a: LaneNumber, b: LaneNumber, c: LaneNumber
) -> tuple[LaneNumber, LaneNumber, LaneNumber, LaneNumber]:
    """The eigenvalues of [[a, b], [b, c]], the larger one first, and the vector of that."""
    total, apart, twice = a + c, a - c, b + b
    width, height = abs(apart), abs(twice)
    wide = width > height
    most, least = wide.choose(width, height), wide.choose(height, width)
    ratio = least / most.equals(0.0).choose(1.0, most)
    root = most * (ratio * ratio + 1.0).root()
    larger = abs(a) > abs(c)
    large, small = larger.choose(a, c), larger.choose(c, a)
    minus = total < 0.0
    first = minus.choose(total - root, total + root) * 0.5
    safe = first.equals(0.0).choose(1.0, first)
    second = large / safe * small - b / safe * b
    middle = total.equals(0.0)
    first, second = middle.choose(root * 0.5, first), middle.choose(root * -0.5, second)
    is_right = apart >= 0.0
    along = is_right.choose(apart + root, apart - root)
    steep = abs(along) > height
    flat = height.equals(0.0)
    top = steep.choose(twice, along)
    bottom = steep.choose(along, flat.choose(1.0, twice))
    slope = -(top / bottom.equals(0.0).choose(1.0, bottom))
    size = slope.like(1.0) / (slope * slope + 1.0).root()
    sine = steep.choose(size, flat.choose(0.0, slope * size))
    cosine = steep.choose(slope * size, flat.choose(1.0, size))
    same = (is_right & ~minus) | (~is_right & minus)
    return first, second, same.choose(-sine, cosine), same.choose(cosine, sine)
