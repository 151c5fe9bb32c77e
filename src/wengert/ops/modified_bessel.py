"""The modified Bessel functions I_v of real orders.

Orders 0 and 1 are polynomials on two intervals. Others are the power series, far out a recurrence
from those or from Hankel's series, and from order 15 on Debye's series everywhere.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from . import special_coefficients as c
from .approximations import (
    LONG_POWERS,
    Array,
    difference,
    pieces,
    polynomial,
    power_of_quotient,
    product,
)


def bessel_i(x: Array, n: float, scaled: bool) -> Array:
    """The modified Bessel function I_n, times exp(-|x|) when scaled.

    Of orders between whole ones it is NaN below 0.
    """
    if n >= _LARGE_ORDER:
        size = np.abs(x) if n % 1 == 0 else x
        value = _debye_i(size, n, scaled)
        return np.where(x < 0, -value, value) if n % 2 == 1 else value
    if n % 1:
        safe = np.where(x < 0, 1.0, x)
        return np.where(x < 0, np.nan, _bessel_between(safe, n, scaled))
    n = int(n)
    result = (_bessel_01 if n < 2 else _bessel_higher)(np.abs(x), n, scaled)
    return np.copysign(result, x) if n % 2 else result


def _bessel_01(x: Array, n: int, scaled: bool) -> Array:
    def small(x: Array) -> Array:
        value = polynomial(0.25 * x * x, (c.BESSEL_I0_SMALL, c.BESSEL_I1_SMALL)[n])
        value = 0.5 * x * value if n else value
        return value * np.exp(-x) if scaled else value

    def large(x: Array) -> Array:
        value = polynomial(16 / x - 1, (c.BESSEL_I0_LARGE, c.BESSEL_I1_LARGE)[n]) / np.sqrt(x)
        return value if scaled else _grown(x, value)

    return pieces(x, (8.0,), small, large)


def _grown(x: Array, y: Array) -> Array:
    """exp(x) y, in two steps so that it overflows no sooner than it must."""
    with np.errstate(over="ignore", invalid="ignore"):
        root = np.exp(0.5 * x)
        return np.where(np.isinf(x), x, root * (root * y))


def _bessel_higher(x: Array, n: int, scaled: bool) -> Array:
    """By the power series, whose terms are positive; far out by recurrence from I_0 and I_1."""
    series = [1 / (math.factorial(k) * math.factorial(k + n)) for k in range(24 + 2 * n)]

    def small(x: Array) -> Array:
        value = polynomial(0.25 * x * x, series) * (0.5 * x) ** n
        return value * np.exp(-x) if scaled else value

    def large(x: Array) -> Array:
        below, here = _bessel_01(x, 0, True), _bessel_01(x, 1, True)
        for order in range(1, n):
            below, here = here, below - 2 * order / x * here
        return here if scaled else _grown(x, here)

    return pieces(x, (8.0 + 2 * n,), small, large)


def _bessel_between(x: Array, v: float, scaled: bool) -> Array:
    """Of a real order: the power series, far out recurrence from Hankel's asymptotic series."""
    far = max(20.0, 8 + 2 * abs(v))
    count = int(40 + 2 * abs(v))
    gammas = [math.lgamma(k + v + 1) for k in range(count)]
    least = max(0, math.ceil(-v))  # of the terms from here on the signs are all the same
    scale = gammas[least]
    series = [
        math.exp(scale - gammas[k] - math.lgamma(k + 1)) * _sign_of_gamma(k + v + 1)
        for k in range(count)
    ]

    def small(x: Array) -> Array:
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            value = polynomial(0.25 * x * x, series) * ((0.5 * x) ** v * math.exp(-scale))
        return value * np.exp(-x) if scaled else value

    def large(x: Array) -> Array:
        start = v - math.floor(v)
        here, above = _hankel_i(x, start), _hankel_i(x, start + 1)
        order = start
        while order < v:
            here, above = above, here - 2 * (order + 1) / x * above
            order += 1
        while order > v:
            here, above = above + 2 * order / x * here, here
            order -= 1
        return here if scaled else _grown(x, here)

    return pieces(x, (far,), small, large)


# From this order on the series of Debye are exact to the last bits.
_LARGE_ORDER = 15


def _debye_i(x: Array, v: float, scaled: bool) -> Array:
    """I_v(x) of a large order by Debye's series, which holds for all x >= 0."""
    z = x / v
    root = np.sqrt(1 + z * z)
    t = 1 / root
    total = polynomial(t, _debye_polynomial(v)) * np.sqrt(t * (0.5 / math.pi / v))
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        if v < LONG_POWERS:
            half, rest = _debye_front(x, v, scaled)
            value = half * (total * np.exp(rest)) * half
        else:
            # one exponential of the difference, whose rounding counts v times
            exponent = (1 / (root + z) if scaled else root) - np.arcsinh(v / x)
            value = np.exp(v * exponent) * total
    far: Array = np.where(x == 0, 0.0, value)
    return np.where(np.isinf(x), 0.0 if scaled else np.inf, far)


def _debye_front(x: Array, v: float, scaled: bool) -> tuple[Array, Array]:
    """(x / (v + s))^v exp(s), where s^2 = v^2 + x^2: the square of a root times exp of a rest."""
    inside = np.minimum(x, 1e10)  # beyond, s is x but for v^2 / 2 x
    order = np.full_like(x, v)
    s = np.sqrt(v * v + inside * inside)
    # s - v is exact or its rest is known, so (s - v) (s + v) shows what is left of x^2
    above, over = difference(s, -order)
    below, under = difference(s, order)
    square, lost = product(inside, inside)
    found, missed = product(below, above)
    left = (square - found) + (lost - missed) - (below * over + under * above)
    low = left / (2 * s)
    root, rest = power_of_quotient(inside, above, order, -(inside / above) * (over + low))
    exponent, rounded = difference(s, inside) if scaled else (s, 0.0)
    half = root * np.exp(0.5 * exponent)
    rest = rest + (rounded + low)
    if scaled:
        return np.where(x > inside, 1.0, half), np.where(x > inside, v * v / x * -0.5, rest)
    return half, rest


@cache
def _debye_polynomial(v: float) -> tuple[float, ...]:
    """The sum of u_k(t) / v^k, as one polynomial in t."""
    from fractions import Fraction  # here: it takes a tenth of the time of importing wengert

    u = [Fraction(1)]
    total = [0.0] * 46
    for k in range(15):
        for power, number in enumerate(u):
            total[power] += float(number) / v**k
        slope = [power * number for power, number in enumerate(u)][1:]
        following = [Fraction(0)] * (len(u) + 3)
        for power, number in enumerate(slope):
            following[power + 2] += number / 2
            following[power + 4] -= number / 2
        for power, number in enumerate(u):
            following[power + 1] += number / 8 / (power + 1)
            following[power + 3] -= 5 * number / 8 / (power + 3)
        u = following
    return tuple(total)


def _sign_of_gamma(x: float) -> float:
    return -1.0 if x < 0 and math.floor(x) % 2 else 1.0


def _hankel_i(x: Array, v: float) -> Array:
    """exp(-x) I_v(x) for x >= 20 and v < 2."""
    terms = [1.0]
    for k in range(1, 24):
        terms.append(terms[-1] * ((2 * k - 1) ** 2 - 4 * v * v) / (8 * k))
    return polynomial(1 / x, terms) / np.sqrt(2 * math.pi * x)
