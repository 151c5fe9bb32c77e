"""Interpolation under SciPy's names (``scipy.interpolate``).

The classes take traced values for places, for values and for where they are asked: the derivative
goes through all of them. Where a place lies outside of the points is an error only where it is
known; inside of `jit` it is the fill value.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from .. import numpy as wnp
from ..errors import OptionError, OutOfRangeError, ShapeError, explain
from ..trace.indexing import getitem
from ..trace.tracer import concrete
from .piecewise import (
    Akima1DInterpolator,
    CubicHermiteSpline,
    CubicSpline,
    PchipInterpolator,
    PPoly,
    check_ascending,
    checked_points,
    floats,
    turned,
)

__all__ = [
    "Akima1DInterpolator", "CubicHermiteSpline", "CubicSpline", "PPoly", "PchipInterpolator",
    "RegularGridInterpolator", "interp1d", "interpn", "pchip_interpolate",
]  # fmt: skip


def pchip_interpolate(xi: Any, yi: Any, x: Any, der: int = 0, axis: int = 0) -> Any:
    """``scipy.interpolate.pchip_interpolate``: a `PchipInterpolator`, asked once.

    >>> pchip_interpolate([0.0, 1.0, 2.0], [0.0, 1.0, 1.0], [0.5, 1.5])
    array([0.6875, 1.    ])
    """
    return PchipInterpolator(xi, yi, axis)(x, der)


class interp1d:  # noqa: N801  # SciPy's name
    """``scipy.interpolate.interp1d``: between values along an axis, by default linearly.

    `kind` is "linear" (also "slinear"), "nearest", "nearest-up", "previous" (also "zero"), "next"
    or "cubic". Outside of the points is an error; where `bounds_error` is False, it is
    `fill_value`, a number or a pair for both sides. With ``fill_value="extrapolate"`` the ends go
    on.

    >>> line = interp1d([0.0, 1.0, 3.0], [0.0, 2.0, 0.0])
    >>> line([0.5, 2.0])
    array([1., 1.])
    """

    def __init__(
        self,
        x: Any,
        y: Any,
        kind: str = "linear",
        axis: int = -1,
        *,
        bounds_error: bool | None = None,
        fill_value: Any = np.nan,
        assume_sorted: bool = False,
    ):
        kinds = ("linear", "slinear", "nearest", "nearest-up", "previous", "zero", "next", "cubic")
        if kind not in kinds:
            words = ", ".join(map(repr, kinds))
            raise OptionError(explain("interp1d", f"got kind={kind!r}", f"Use one of {words}."))
        self.kind = kind
        x, y, self.axis = checked_points("interp1d", x, y, axis, 4 if kind == "cubic" else 1)
        if not assume_sorted:
            order = wnp.argsort(x)
            x, y = wnp.take(x, order, 0), wnp.take(y, order, 0)
        self.x, self._y = x, y
        self.fill_value = fill_value
        extrapolated = isinstance(fill_value, str)
        self.bounds_error = not extrapolated if bounds_error is None else bounds_error
        self._spline = CubicSpline(x, y) if kind == "cubic" else None

    @property
    def y(self) -> Any:
        """The values."""
        return wnp.moveaxis(self._y, 0, self.axis)

    def __call__(self, x: Any) -> Any:
        """The values at `x`."""
        places = floats(x)
        found = self._inside(places)
        if not isinstance(self.fill_value, str):
            found = self._filled(places, found, self.fill_value)
        elif self.kind in ("previous", "next"):  # there is none before the first, or after the last
            found = self._filled(places, found, self._steps_beyond())
        return turned(found, np.ndim(places), self.axis)

    def _inside(self, places: Any) -> Any:
        x, y, last = self.x, self._y, np.shape(self.x)[0] - 1
        if self._spline is not None:
            return self._spline(places)
        if self.kind in ("linear", "slinear"):
            before = wnp.clip(wnp.searchsorted(x, places) - 1, 0, max(last - 1, 0))
            after = wnp.minimum(before + 1, last)
            rank = np.ndim(places) + np.ndim(y) - 1
            start, y_start = getitem(x, before), getitem(y, before)
            slope = (getitem(y, after) - y_start) / _spread(getitem(x, after) - start, rank)
            return slope * _spread(places - start, rank) + y_start
        if self.kind.startswith("nearest"):
            middles = x[:-1] + wnp.diff(x) / 2
            side = "left" if self.kind == "nearest" else "right"
            return getitem(y, wnp.searchsorted(middles, places, side=side))
        if self.kind == "next":
            return getitem(y, wnp.minimum(wnp.searchsorted(x, places), last))
        return getitem(y, wnp.maximum(wnp.searchsorted(x, places, side="right") - 1, 0))

    def _steps_beyond(self) -> tuple[Any, Any]:
        return (np.nan, self._y[-1]) if self.kind == "previous" else (self._y[0], np.nan)

    def _filled(self, places: Any, found: Any, fill_value: Any) -> Any:
        below, above = places < self.x[0], places > self.x[-1]
        outside = concrete(below | above)
        if self.bounds_error and outside is not None and np.any(outside):
            raise OutOfRangeError(
                explain(
                    "interp1d",
                    "got places outside of the points",
                    'Use bounds_error=False, or fill_value="extrapolate".',
                )
            )
        pair = isinstance(fill_value, tuple) and len(fill_value) == 2
        low, high = fill_value if pair else (fill_value, fill_value)
        rank = np.ndim(found)
        found = wnp.where(_spread(below, rank), low, found)
        return wnp.where(_spread(above, rank), high, found)


def _spread(x: Any, rank: int) -> Any:
    """With axes after its own, `rank` in all."""
    return wnp.reshape(x, (*np.shape(x), *(1,) * (rank - np.ndim(x))))


# ---------------------------------------------------------------- grids


class RegularGridInterpolator:
    """``scipy.interpolate.RegularGridInterpolator``: between values on a grid of any places.

    `points` has the places along each axis. `method` is "linear" or "nearest". Outside of the grid
    is an error, or `fill_value` where `bounds_error` is False; None goes on linearly.

    >>> grid = (np.array([0.0, 1.0]), np.array([0.0, 2.0]))
    >>> plane = RegularGridInterpolator(grid, np.array([[0.0, 2.0], [10.0, 12.0]]))
    >>> plane([[0.5, 1.0], [1.0, 0.5]])
    array([ 6. , 10.5])
    """

    def __init__(
        self,
        points: Any,
        values: Any,
        method: str = "linear",
        bounds_error: bool = True,
        fill_value: Any = np.nan,
    ):
        _check_method(method)
        self.grid = tuple(floats(places) for places in points)
        self.values = floats(values)
        shape = np.shape(self.values)
        lengths = tuple(np.shape(places) for places in self.grid)
        if len(shape) < len(lengths) or any(
            own != (n,) for own, n in zip(lengths, shape, strict=False)
        ):
            raise ShapeError(
                explain(
                    "RegularGridInterpolator",
                    f"got places of shapes {lengths} and values of shape {shape}",
                    "Give a vector of places for each of the first axes of the values.",
                )
            )
        for places in self.grid:
            check_ascending("RegularGridInterpolator", places)
        self.method, self.bounds_error, self.fill_value = method, bounds_error, fill_value

    def __call__(self, xi: Any, method: str | None = None) -> Any:
        """The values at places xi, whose last axis has one number for each axis of the grid."""
        method = self.method if method is None else method
        _check_method(method)
        places = _as_places(xi)
        count = len(self.grid)
        if not np.ndim(places) or np.shape(places)[-1] != count:
            problem = f"got places of shape {np.shape(places)} for a grid of {count} axes"
            remedy = f"The last axis must have {count} numbers."
            raise ShapeError(explain("RegularGridInterpolator", problem, remedy))
        along = [places[..., k] for k in range(count)]
        single = np.ndim(places) == 1
        found = self._interpolated(along, method)
        if self.bounds_error or self.fill_value is not None:
            found = self._filled(along, found)
        return found[None] if single else found

    def _interpolated(self, along: list[Any], method: str) -> Any:
        corners = []
        for places, own in zip(along, self.grid, strict=True):
            last = np.shape(own)[0] - 1
            place = wnp.clip(wnp.searchsorted(own, places, side="right") - 1, 0, max(last - 1, 0))
            after = wnp.minimum(place + 1, last)
            start = getitem(own, place)
            width = getitem(own, after) - start if last else 1.0
            corners.append((place, after, (places - start) / width))
        rest = np.ndim(self.values) - len(self.grid)
        if method == "nearest":
            chosen = [wnp.where(share <= 0.5, one, two) for one, two, share in corners]
            return getitem(self.values, tuple(chosen))
        total: Any = 0.0
        for sides in product((0, 1), repeat=len(corners)):
            weight: Any = 1.0
            for side, (_, _, share) in zip(sides, corners, strict=True):
                weight = weight * (share if side else 1 - share)
            index = tuple(corner[side] for side, corner in zip(sides, corners, strict=True))
            total = total + _spread(weight, np.ndim(weight) + rest) * getitem(self.values, index)
        return total

    def _filled(self, along: list[Any], found: Any) -> Any:
        outside: Any = False
        for places, own in zip(along, self.grid, strict=True):
            outside = outside | (places < own[0]) | (places > own[-1])
        known = concrete(outside)
        if self.bounds_error and known is not None and np.any(known):
            raise OutOfRangeError(
                explain(
                    "RegularGridInterpolator",
                    "got places outside of the grid",
                    "Use bounds_error=False; fill_value=None goes on linearly.",
                )
            )
        fill = np.nan if self.fill_value is None else self.fill_value
        return wnp.where(_spread(outside, np.ndim(found)), fill, found)


def _as_places(xi: Any) -> Any:
    """Places with their coordinates along the last axis; a tuple has one array for each."""
    if isinstance(xi, tuple):
        return wnp.stack(wnp.broadcast_arrays(*[floats(x) for x in xi]), -1)
    return floats(xi)


def _check_method(method: str) -> None:
    if method not in ("linear", "nearest"):
        problem = f"got method={method!r}"
        raise OptionError(explain("RegularGridInterpolator", problem, "Use 'linear' or 'nearest'."))


def interpn(
    points: Any,
    values: Any,
    xi: Any,
    method: str = "linear",
    bounds_error: bool = True,
    fill_value: Any = np.nan,
) -> Any:
    """``scipy.interpolate.interpn``: a `RegularGridInterpolator`, asked once.

    >>> interpn(([0.0, 1.0],), np.array([2.0, 4.0]), np.array([[0.25]]))
    array([2.5])
    """
    return RegularGridInterpolator(points, values, method, bounds_error, fill_value)(xi)
