"""The Bessel functions J_n and Y_n of whole orders.

Orders 0 and 1 are polynomials in x^2 below 8, beside the logarithm that Y has, and beyond an
amplitude and a phase. Other orders follow by the recurrence, upward where it is stable, J_n for
x < n downward. Each derivative is half a difference of neighbours, so every order exists.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import special_coefficients as c
from .approximations import Array, pieces, polynomial
from .op import Op
from .special import special


def bessel_j(x: Array, n: int) -> Array:
    """J_n(x) for n >= 0."""
    size = np.abs(x)
    if n < 2:
        value = _j01(size, n)
        value = value if n else np.where(size == 0, 1.0, value)
    else:
        value = pieces(size, (float(n),), lambda x: _down(x, n), lambda x: _up(x, n, _j01))
    return np.where(x < 0, -value, value) if n % 2 else value


def _j01(x: Array, n: int) -> Array:
    low, mid = ((c.BESSEL_J0_LOW, c.BESSEL_J0_MID), (c.BESSEL_J1_LOW, c.BESSEL_J1_MID))[n]
    return pieces(x, (4.0, 8.0), _even(low, 0, 16, n), _even(mid, 16, 64, n), _waves(n, False))


def bessel_y(x: Array, n: int) -> Array:
    """Y_n(x) for n >= 0; -inf at 0, NaN below."""
    value = _y01(x, n) if n < 2 else _up(x, n, _y01)
    if n > 1:  # below where it is finite, differences of infinities
        value = np.where(np.isnan(value) & (x < n), -np.inf, value)
    return np.where(x > 0, value, np.where(x == 0, -np.inf, np.nan))


def _y01(x: Array, n: int) -> Array:
    low, mid = ((c.BESSEL_Y0_LOW, c.BESSEL_Y0_MID), (c.BESSEL_Y1_LOW, c.BESSEL_Y1_MID))[n]

    def with_log(entire: Any) -> Any:
        def value(x: Array) -> Array:
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                logarithm = np.log(x) * _j01(x, n)
                return entire(x) + (2 / math.pi) * (logarithm - 1 / x if n else logarithm)

        return value

    parts = with_log(_even(low, 0, 16, n)), with_log(_even(mid, 16, 64, n)), _waves(n, True)
    return pieces(x, (4.0, 8.0), *parts)


def _even(coefficients: tuple[float, ...], low: int, high: int, n: int) -> Any:
    """x^n times a polynomial in x^2, for x^2 from low to high."""
    centre, half = (low + high) / 2, (high - low) / 2

    def value(x: Array) -> Array:
        even = polynomial((x * x - centre) * (1 / half), coefficients)
        return x * even if n else even

    return value


def _waves(n: int, second: bool) -> Any:
    """For x >= 8: an amplitude times the cosine of a phase, or its sine for Y.

    The phase is x - pi/4, or x - 3 pi/4 for order 1, of which the sum formulas take care.
    """
    along, across = ((c.BESSEL_0_COSINE, c.BESSEL_0_SINE), (c.BESSEL_1_COSINE, c.BESSEL_1_SINE))[n]

    def value(x: Array) -> Array:
        ratio = 8 / x
        t = 2 * ratio * ratio - 1
        p, q = polynomial(t, along), ratio * polynomial(t, across)
        with np.errstate(invalid="ignore"):
            sin, cos = np.sin(x), np.cos(x)
        if n:  # cos(x - 3 pi/4) = (sin - cos) / root 2, sin(x - 3 pi/4) = -(sin + cos) / root 2
            turned_cos, turned_sin = sin - cos, -(sin + cos)
        else:
            turned_cos, turned_sin = sin + cos, sin - cos
        wave = p * turned_sin + q * turned_cos if second else p * turned_cos - q * turned_sin
        with np.errstate(invalid="ignore"):
            return np.where(np.isinf(x), 0.0, wave / np.sqrt(math.pi * x))

    return value


def _up(x: Array, n: int, first: Any) -> Array:
    """By the recurrence from orders 0 and 1."""
    below, here = first(x, 0), first(x, 1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for order in range(1, n):
            below, here = here, (2 * order / x) * here - below
    return here


def _down(x: Array, n: int) -> Array:
    """J_n(x) for x < n: as ratios of neighbours, from far above downward, times J_0 or J_1.

    Where J_0 is near a zero, J_1 is not.
    """
    r = np.zeros_like(x)
    product = np.ones_like(x)
    for order in range(n + 24 + n // 4, 1, -1):
        r = x / (2 * order - x * r)  # J_order / J_(order - 1)
        product = product * r if order <= n else product
    low, high = _j01(x, 0), _j01(x, 1)
    # J_1 / J_0 = x / (2 - x r) too; of both ways the one with the larger start
    by_zero = product * low * x / np.where(np.abs(low) > np.abs(high), 2 - x * r, 1.0)
    return np.where(np.abs(low) > np.abs(high), by_zero, product * high)


def slope(op: Any) -> Any:
    """The derivative of a function of order n: -f_1 for 0, else half of f_(n-1) - f_(n+1)."""

    def rule(ans: Any, x: Any, n: int) -> Any:
        return 0.5 * (op(x, n=n - 1) - op(x, n=n + 1)) if n else -op(x, n=1)

    return rule


j: Op = special(
    "bessel_j",
    bessel_j,
    lambda ans, x, n: slope(j)(ans, x, n),
    domains=((-12.0, 12.0),),
    params=({"n": 0}, {"n": 1}, {"n": 3}),
)
y: Op = special(
    "bessel_y",
    bessel_y,
    lambda ans, x, n: slope(y)(ans, x, n),
    domains=((0.5, 12.0),),
    params=({"n": 0}, {"n": 1}, {"n": 3}),
)
