"""Piecewise polynomials, and the cubic ones through given points.

A cubic is fixed by the values and slopes at the ends of its piece. The ways to interpolate differ
in the slopes that they choose: those of `CubicSpline` make the second derivative continuous, those
of `PchipInterpolator` keep what rises rising, and `Akima1DInterpolator` looks at the neighbours.
"""

from __future__ import annotations

from math import factorial
from typing import Any

import numpy as np

from .. import numpy as wnp
from ..errors import OptionError, ShapeError, explain
from ..trace.indexing import getitem
from ..trace.tracer import concrete
from ..transforms import scan
from ..types import type_of


def floats(x: Any) -> Any:
    """An array of floats."""
    x = wnp.asarray(x)
    return x if type_of(x).inexact else x.astype(np.float64)


def checked_points(name: str, x: Any, y: Any, axis: int, least: int = 2) -> tuple[Any, Any, int]:
    """Places, values with the axis of the places first, and the number of that axis."""
    x, y = floats(x), floats(y)
    rank = np.ndim(y)
    if np.ndim(x) != 1 or not -rank <= axis < rank or np.shape(x)[0] != np.shape(y)[axis]:
        raise ShapeError(
            explain(
                name,
                f"got x of shape {np.shape(x)} and y of shape {np.shape(y)} with axis={axis}",
                "x is a vector with a place for each value along that axis of y.",
            )
        )
    if np.shape(x)[0] < least:
        problem = f"got {np.shape(x)[0]} points, expected at least {least}"
        raise ShapeError(explain(name, problem))
    return x, wnp.moveaxis(y, axis, 0), axis % rank


def check_ascending(name: str, x: Any) -> None:
    """Raise unless the places, as far as they are known, ascend."""
    plain = concrete(x)
    if plain is not None and not np.all(np.diff(np.asarray(plain)) > 0):
        raise OptionError(explain(name, "the places x do not ascend", "Sort them, each once."))


def columns(x: Any, rank: int) -> Any:
    """A vector shaped to multiply arrays with more axes after its own."""
    return wnp.reshape(x, (*np.shape(x), *(1,) * (rank - 1)))


def turned(result: Any, rank: int, axis: int) -> Any:
    """The first `rank` axes of a result moved to where the axis of interpolation was."""
    return wnp.moveaxis(result, range(rank), range(axis, axis + rank))


class PPoly:
    """``scipy.interpolate.PPoly``: the sum over k of ``c[k] (x - x[i])**(last - k)`` in piece i.

    `c` has shape (order + 1, pieces, ...), and `x` the ends of the pieces. Outside, the first and
    last piece go on, unless `extrapolate` is False (nan) or "periodic".

    >>> parabola = PPoly(np.array([[1.0], [0.0], [0.0]]), np.array([0.0, 2.0]))
    >>> parabola(1.5), parabola.derivative()(1.5), parabola.integrate(0.0, 3.0)
    (np.float64(2.25), np.float64(3.0), np.float64(9.0))
    """

    axis = 0

    def __init__(self, c: Any, x: Any, extrapolate: Any = None, axis: int = 0):
        self.c, self.x = floats(c), floats(x)
        if np.ndim(self.x) != 1 or np.shape(self.c)[1] != np.shape(self.x)[0] - 1:
            raise ShapeError(
                explain(
                    "PPoly",
                    f"got c of shape {np.shape(self.c)} and x of shape {np.shape(self.x)}",
                    "c has a column for each piece, and x one number more.",
                )
            )
        self.extrapolate = True if extrapolate is None else extrapolate
        self.axis = axis

    def __call__(self, x: Any, nu: int = 0, extrapolate: Any = None) -> Any:
        """The value at `x`, or the derivative of order `nu`."""
        places = floats(x)
        if extrapolate is None:
            extrapolate = self.extrapolate
        first, last = self.x[0], self.x[-1]
        outside = (places < first) | (places > last)
        if isinstance(extrapolate, str):
            places = first + wnp.remainder(places - first, last - first)
        piece = wnp.searchsorted(self.x[1:-1], places, side="right")
        rank = np.ndim(self.c) - 2
        local = wnp.reshape(places - getitem(self.x, piece), (*np.shape(places), *(1,) * rank))
        coefficients = self._derived(nu)
        total = (
            getitem(coefficients[0], piece) + 0 * local
        )  # of the shape of all, and nan where x is
        for coefficient in coefficients[1:]:
            total = total * local + getitem(coefficient, piece)
        if not extrapolate:
            mask = wnp.reshape(outside, (*np.shape(places), *(1,) * rank))
            total = wnp.where(mask, np.nan, total)
        return turned(total, np.ndim(places), self.axis)

    def _derived(self, nu: int) -> list[Any]:
        """The coefficients of a derivative, from the highest power on."""
        count = np.shape(self.c)[0]
        powers = [count - 1 - k for k in range(count)]
        if nu >= count:
            return [self.c[0] * 0.0]
        return [
            self.c[k] * (factorial(power) / factorial(power - nu))
            for k, power in enumerate(powers)
            if power >= nu
        ]

    def derivative(self, nu: int = 1) -> PPoly:
        """The derivative of order `nu`, as a piecewise polynomial."""
        return PPoly(wnp.stack(self._derived(nu)), self.x, self.extrapolate, self.axis)

    def antiderivative(self, nu: int = 1) -> PPoly:
        """The integral from the first place on, `nu` times."""
        count = np.shape(self.c)[0]
        raised = [self.c[k] / (count - k) for k in range(count)]
        steps = columns(wnp.diff(self.x), np.ndim(self.c) - 1)
        whole = raised[0] * steps
        for coefficient in raised[1:]:
            whole = (whole + coefficient) * steps
        sums = wnp.cumsum(whole, axis=0)
        before = wnp.concatenate([wnp.zeros_like(sums[:1]), sums[:-1]])
        beyond = False if isinstance(self.extrapolate, str) else self.extrapolate
        found = PPoly(wnp.stack([*raised, before]), self.x, beyond, self.axis)
        return found if nu <= 1 else found.antiderivative(nu - 1)

    def integrate(self, a: Any, b: Any) -> Any:
        """The integral from a to b."""
        if isinstance(self.extrapolate, str):
            raise OptionError(
                explain(
                    "PPoly.integrate",
                    "the polynomial is periodic",
                    "Integrate antiderivative() over one period, and add whole ones.",
                )
            )
        whole = self.antiderivative()
        return whole(b) - whole(a)


class CubicHermiteSpline(PPoly):
    """``scipy.interpolate.CubicHermiteSpline``: cubics with given values and slopes.

    >>> CubicHermiteSpline([0.0, 1.0], [0.0, 1.0], [0.0, 0.0])(0.5)
    np.float64(0.5)
    """

    def __init__(self, x: Any, y: Any, dydx: Any, axis: int = 0, extrapolate: Any = None):
        x, y, axis = checked_points(type(self).__name__, x, y, axis)
        check_ascending(type(self).__name__, x)
        slopes = wnp.moveaxis(floats(dydx), axis, 0)
        if np.shape(slopes) != np.shape(y):
            problem = f"got values of shape {np.shape(y)} and slopes of shape {np.shape(slopes)}"
            raise ShapeError(explain(type(self).__name__, problem))
        super().__init__(_cubics(x, y, slopes), x, extrapolate, axis)


def _cubics(x: Any, y: Any, slopes: Any) -> Any:
    """The coefficients of the cubics with these values and slopes."""
    steps = columns(wnp.diff(x), np.ndim(y))
    rise = wnp.diff(y, axis=0) / steps
    bend = (slopes[:-1] + slopes[1:] - 2 * rise) / steps
    return wnp.stack([bend / steps, (rise - slopes[:-1]) / steps - bend, slopes[:-1], y[:-1]])


class PchipInterpolator(CubicHermiteSpline):
    """``scipy.interpolate.PchipInterpolator``: cubics that rise where the values rise.

    >>> PchipInterpolator([0.0, 1.0, 2.0], [0.0, 1.0, 1.0])([0.5, 1.5])
    array([0.6875, 1.    ])
    """

    def __init__(self, x: Any, y: Any, axis: int = 0, extrapolate: Any = None):
        x, y, axis = checked_points("PchipInterpolator", x, y, axis)
        slopes = wnp.moveaxis(_keeping_slopes(x, y), 0, axis)
        super().__init__(x, wnp.moveaxis(y, 0, axis), slopes, axis, extrapolate)


def _keeping_slopes(x: Any, y: Any) -> Any:
    """Harmonic means of the slopes beside a point, 0 at an extremum (Fritsch and Butland)."""
    steps = columns(wnp.diff(x), np.ndim(y))
    rise = wnp.diff(y, axis=0) / steps
    if np.shape(y)[0] == 2:
        return wnp.concatenate([rise, rise])
    before, after = rise[:-1], rise[1:]
    flat = (wnp.sign(before) != wnp.sign(after)) | (before == 0) | (after == 0)
    one, other = 2 * steps[1:] + steps[:-1], steps[1:] + 2 * steps[:-1]
    safe = [wnp.where(flat, 1.0, slope) for slope in (before, after)]
    mean = (one + other) / (one / safe[0] + other / safe[1])
    inner = wnp.where(flat, 0.0, mean)
    start = _end_slope(steps[:1], steps[1:2], rise[:1], rise[1:2])
    end = _end_slope(steps[-1:], steps[-2:-1], rise[-1:], rise[-2:-1])
    return wnp.concatenate([start, inner, end])


def _end_slope(near: Any, far: Any, rise: Any, next_rise: Any) -> Any:
    slope = ((2 * near + far) * rise - near * next_rise) / (near + far)
    turns = wnp.sign(slope) != wnp.sign(rise)
    steep = (wnp.sign(rise) != wnp.sign(next_rise)) & (wnp.abs(slope) > 3 * wnp.abs(rise))
    return wnp.where(turns, 0.0, wnp.where(steep, 3 * rise, slope))


class Akima1DInterpolator(CubicHermiteSpline):
    """``scipy.interpolate.Akima1DInterpolator``: cubics whose slopes five points decide.

    Outside of the points it is nan, unless `extrapolate` is True. The `method` "makima" bends less
    beside level stretches than "akima".

    >>> Akima1DInterpolator([0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 4.0, 9.0])(1.5)
    np.float64(2.25)
    """

    def __init__(
        self, x: Any, y: Any, axis: int = 0, *, method: str = "akima", extrapolate: Any = None
    ):
        if method not in ("akima", "makima"):
            known = "Use 'akima' or 'makima'."
            raise OptionError(explain("Akima1DInterpolator", f"got method={method!r}", known))
        x, y, axis = checked_points("Akima1DInterpolator", x, y, axis)
        slopes = wnp.moveaxis(_akima_slopes(x, y, method == "makima"), 0, axis)
        beyond = False if extrapolate is None else extrapolate
        super().__init__(x, wnp.moveaxis(y, 0, axis), slopes, axis, beyond)


def _akima_slopes(x: Any, y: Any, modified: bool) -> Any:
    rise = wnp.diff(y, axis=0) / columns(wnp.diff(x), np.ndim(y))
    if np.shape(y)[0] == 2:
        return wnp.concatenate([rise, rise])
    second = 2 * rise[:1] - rise[1:2]
    before = [2 * second - rise[:1], second]
    second = 2 * rise[-1:] - rise[-2:-1]
    slopes = wnp.concatenate([*before, rise, second, 2 * second - rise[-1:]])
    changes = wnp.abs(wnp.diff(slopes, axis=0))
    if modified:
        changes = changes + 0.5 * wnp.abs(slopes[1:] + slopes[:-1])
    one, other = changes[2:], changes[:-2]
    total = one + other
    plain = total <= 1e-9 * wnp.max(total)
    weighted = (one * slopes[1:-2] + other * slopes[2:-1]) / wnp.where(plain, 1.0, total)
    return wnp.where(plain, 0.5 * (slopes[3:] + slopes[:-3]), weighted)


# ---------------------------------------------------------------- splines


class CubicSpline(CubicHermiteSpline):
    """``scipy.interpolate.CubicSpline``: cubics with a continuous second derivative.

    `bc_type` says what holds at the ends: "not-a-knot", "natural", "clamped", "periodic", or a
    pair of these or of (order, value of the derivative).

    >>> spline = CubicSpline(np.array([0.0, 1.0, 2.0, 3.0]), np.array([0.0, 1.0, 8.0, 27.0]))
    >>> print(f"{spline(1.5):.12f}, {spline(1.5, 1):.12f}")
    3.375000000000, 6.750000000000
    """

    def __init__(
        self,
        x: Any,
        y: Any,
        axis: int = 0,
        bc_type: Any = "not-a-knot",
        extrapolate: Any = None,
    ):
        x, y, axis = checked_points("CubicSpline", x, y, axis)
        check_ascending("CubicSpline", x)
        ends = _checked_ends(bc_type, y)
        if extrapolate is None and ends[0] == "periodic":
            extrapolate = "periodic"
        slopes = _spline_slopes(x, y, ends)
        super().__init__(
            x, wnp.moveaxis(y, 0, axis), wnp.moveaxis(slopes, 0, axis), axis, extrapolate
        )


def _checked_ends(bc_type: Any, y: Any) -> list[Any]:
    """The conditions at both ends: a word, or (order, value)."""
    given = [bc_type, bc_type] if isinstance(bc_type, str) else list(bc_type)
    zero = np.zeros(np.shape(y)[1:])
    words: dict[str, Any] = {
        "clamped": (1, zero), "natural": (2, zero), "not-a-knot": "not-a-knot",
        "periodic": "periodic",
    }  # fmt: skip
    periodic = [isinstance(end, str) and end == "periodic" for end in given]
    found = [words.get(end) if isinstance(end, str) else end for end in given]
    known = all(end is not None and (isinstance(end, str) or end[0] in (1, 2)) for end in found)
    if len(given) != 2 or not known or len(set(periodic)) > 1:
        raise OptionError(
            explain(
                "CubicSpline",
                f"got bc_type={bc_type!r}",
                f"Use one of {', '.join(map(repr, words))}, or a pair of these or of (1, slope) "
                "and (2, second derivative); periodic are both ends or none.",
            )
        )
    if any(periodic):
        _check_period(y)
    return found


def _check_period(y: Any) -> None:
    plain = concrete(y)
    if plain is not None and not np.allclose(plain[0], plain[-1], rtol=1e-15, atol=1e-15):
        problem = "the first and the last value differ, with bc_type='periodic'"
        raise OptionError(explain("CubicSpline", problem, "Give the same value at both ends."))


def _spline_slopes(x: Any, y: Any, ends: list[Any]) -> Any:
    count, rank = np.shape(y)[0], np.ndim(y)
    steps = wnp.diff(x)
    wide = columns(steps, rank)
    rise = wnp.diff(y, axis=0) / wide
    words = [isinstance(end, str) for end in ends]
    if count == 2:
        ends = [(1, rise[0]) if word else end for word, end in zip(words, ends, strict=True)]
    elif count == 3 and ends[0] == "periodic":
        mean = wnp.sum(rise / wide, axis=0) / wnp.sum(1 / wide, axis=0)
        return wnp.broadcast_to(mean, np.shape(y))
    elif count == 3 and all(words):
        return _parabola_slopes(wide, rise)
    inner = 3 * (wide[1:] * rise[:-1] + wide[:-1] * rise[1:])
    middle = 2 * (steps[:-1] + steps[1:])
    if ends[0] == "periodic" and count > 2:
        return _periodic_slopes(steps, rise, inner, middle, rank)
    first = _end_row(ends[0], steps[:2], wide[:2], rise[:2], 1.0)
    last = _end_row(ends[1], steps[::-1][:2], wide[::-1][:2], rise[::-1][:2], -1.0)
    lower = wnp.concatenate([np.zeros(1), steps[1:], last[1][None]])
    main = wnp.concatenate([first[0][None], middle, last[0][None]])
    upper = wnp.concatenate([first[1][None], steps[:-1], np.zeros(1)])
    return tridiagonal(lower, main, upper, wnp.concatenate([first[2][None], inner, last[2][None]]))


def _end_row(end: Any, steps: Any, wide: Any, rise: Any, sign: float) -> tuple[Any, Any, Any]:
    """The equation at an end: the factors of its slope and of the next one, and the right side."""
    if isinstance(end, str):  # the third derivative is continuous at the next point
        both = wide[0] + wide[1]
        right = ((wide[0] + 2 * both) * wide[1] * rise[0] + wide[0] ** 2 * rise[1]) / both
        return steps[1], steps[0] + steps[1], right
    order, value = end
    value = wnp.broadcast_to(wnp.asarray(value), np.shape(rise)[1:])
    if order == 1:
        return steps[0] * 0 + 1.0, steps[0] * 0, value
    return 2 * steps[0], steps[0], 3 * rise[0] * wide[0] - sign * 0.5 * value * wide[0] ** 2


def _parabola_slopes(steps: Any, rise: Any) -> Any:
    """The slopes of the parabola through three points."""
    bend = (rise[1] - rise[0]) / (steps[0] + steps[1])
    middle = rise[0] + bend * steps[0]
    return wnp.stack([rise[0] - bend * steps[0], middle, rise[1] + bend * steps[1]])


def _periodic_slopes(steps: Any, rise: Any, inner: Any, middle: Any, rank: int) -> Any:
    """One equation for each of the points but the last, the first and last of which are joined.

    The slope before the end is set apart: the others depend on it linearly.
    """
    wide = columns(steps, rank)
    around = 3 * (wide[:1] * rise[-1:] + wide[-1:] * rise[:1])
    right = wnp.concatenate([around, inner])
    main = wnp.concatenate([2 * (steps[-1:] + steps[:1]), middle])
    upper = wnp.concatenate([steps[-1:], steps[:-1]])
    lower = wnp.concatenate([steps[:1], steps[1:]])
    size = np.shape(main)[0] - 1
    places = np.arange(size)
    joined = wnp.where(places == 0, -steps[0], 0.0) + wnp.where(
        places == size - 1, -upper[size - 1], 0.0
    )
    sides = (lower[:size], main[:size], upper[:size])
    alone = tridiagonal(*sides, right[:size])
    with_last = columns(tridiagonal(*sides, joined), rank)
    numerator = right[-1] - upper[-1] * alone[0] - lower[-1] * alone[-1]
    last = numerator / (main[-1] + upper[-1] * with_last[0] + lower[-1] * with_last[-1])
    found = alone + last * with_last
    return wnp.concatenate([found, last[None], found[:1]])


def tridiagonal(lower: Any, main: Any, upper: Any, right: Any) -> Any:
    """The solution of a system with three diagonals, by elimination from top to bottom and back.

    ``lower[i]`` stands before ``main[i]``, and ``upper[i]`` after it. Without a search for pivots,
    which the systems of splines do not need.

    >>> tridiagonal(np.zeros(2), np.array([2.0, 4.0]), np.zeros(2), np.array([2.0, 8.0]))
    array([1., 2.])
    """
    zero = wnp.zeros_like(right[0])

    def down(before: Any, row: Any) -> Any:
        share, value = before
        under, here, over, wanted = row
        pivot = here - under * share
        now = (over / pivot, (wanted - under * value) / pivot)
        return now, now

    def up(after: Any, row: Any) -> Any:
        share, value = row
        found = value - share * after
        return found, found

    start = (wnp.zeros_like(main[0]), zero)
    _, rows = scan(down, start, (lower, main, upper, right))
    _, found = scan(up, zero, rows, reverse=True)
    return found
