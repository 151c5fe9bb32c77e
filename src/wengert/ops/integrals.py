"""Exponential integrals, the dilogarithm and binomial coefficients.

E_1 and Ei are their logarithm beside a polynomial near 0, and polynomials times exp(x) / x beyond.
The higher E_n follow from E_1 by the recurrence where it is stable, x < 1, and are integrals of
`incomplete` elsewhere. Derivatives are closed.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..types import Function
from . import special_coefficients as c
from .approximations import (
    Array,
    centred,
    choose,
    constant,
    gamma,
    gamma_large,
    log_gamma,
    pieces,
    polynomial,
)
from .elementwise import absolute, cos, exp, log, select
from .incomplete import inverse_beta, upper_gamma
from .logic import equal, less, logical_and, logical_not, logical_or, rint
from .op import Op
from .special import betaln, polygamma, special
from .special import gamma as gamma_op

EULER = 0.5772156649015329
# Where Ei is 0, as a sum of two floats.
EI_ROOT = (0.3725074107813666, 1.3140183414386028e-17)


def exp1(x: Array) -> Array:
    """E_1(x); infinite at 0, NaN below."""

    def small(x: Array) -> Array:
        with np.errstate(divide="ignore"):
            return x * polynomial(-x, c.EI_LEFT) - np.log(x) - EULER

    def large(x: Array) -> Array:
        with np.errstate(invalid="ignore"):
            value = np.exp(-x) * polynomial(centred(np.minimum(x, 1e300), 2.0), c.EXP1) / (1 + x)
        return value

    return pieces(x, (0.0, 1.0), constant(np.nan), small, large)


def expi(x: Array) -> Array:
    """Ei(x), the principal value."""
    negative = lambda x: -exp1(-x)

    def beside_root(x: Array) -> Array:
        factor = (x - EI_ROOT[0]) - EI_ROOT[1]
        return factor * polynomial(centred(x, 0.375), c.EI_ROOT)

    def beyond(x: Array) -> Array:
        with np.errstate(divide="ignore"):
            return x * polynomial(x * (1 / 3) - 1, c.EI_SMALL) + (np.log(x) + EULER)

    def small(x: Array) -> Array:
        return choose(np.abs(x - 0.375) < 0.0625, beside_root, beyond, x)

    def far(x: Array) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            value = np.exp(x - 1) * math.e * (polynomial(60 / x - 1, c.EI_FAR) / x)
        return np.where(np.isinf(x), x, value)

    parts = negative, small, _scaled(c.EI_MID, 6, 12), _scaled(c.EI_LARGE, 12, 30), far
    return pieces(x, (0.0, 6.0, 12.0, 30.0), *parts)


def _scaled(coefficients: tuple[float, ...], low: int, high: int) -> Any:
    """exp(x) / x times a polynomial in 1 / x, for x from low to high."""
    first, second = 2 * low * high / (high - low), (high + low) / (high - low)
    return lambda x: np.exp(x) / x * polynomial(first / x - second, coefficients)


def expn(x: Array, n: int) -> Array:
    """E_n(x), the integral of exp(-x t) / t^n from 1 to infinity."""
    if n == 0:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(x < 0, np.nan, np.exp(-x) / x)
    if n == 1:
        return exp1(x)

    def small(x: Array) -> Array:
        with np.errstate(invalid="ignore"):
            value = np.where(x == 0, 0.0, x * exp1(x))  # x E_k
        for k in range(1, n):
            value = (np.exp(-x) - value) / k * (x if k + 1 < n else 1.0)
        return value

    large = lambda x: np.exp(-x) * upper_gamma(np.full_like(x, 1.0 - n), _finite(x))
    return pieces(x, (0.0, 1.0), constant(np.nan), small, large)


def _finite(x: Array) -> Array:
    """At least 1 and not infinite, where the integral of `incomplete` is one."""
    return np.clip(x, 1.0, 1e100)


def dilogarithm(z: Array) -> Array:
    """The integral of log(t) / (1 - t) from 1 to z, which is Li_2(1 - z)."""
    sixth = math.pi**2 / 6

    def low(z: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.where(z == 0, 0.0, np.log(z) * np.log1p(-z))
        return sixth - logs - _li2(z)

    def high(z: Array) -> Array:
        logarithm = np.log(z - 1)
        return -sixth - 0.5 * logarithm * logarithm - _li2(1 / (1 - z))

    return pieces(z, (0.0, 0.5, 2.0), constant(np.nan), low, lambda z: _li2(1 - z), high)


def _li2(w: Array) -> Array:
    """Li_2(w) for -1 <= w <= 1/2."""
    return w * polynomial((4 * w + 1) * (1 / 3), c.SPENCE)


def spence_slope(ans: Any, x: Any) -> Any:
    """log(x) / (1 - x), around 1 by its series."""
    away = x - 1
    near = less(absolute(away), 0.01)
    series: Any = 0.0
    inside = select(near, away, 0.0)
    for k in range(10, 0, -1):
        series = series * inside + (-1) ** k / k
    return select(near, series, log(select(near, 2.0, x)) / select(near, -1.0, 1 - x))


expi_op: Op = special("expi", expi, lambda ans, x: exp(x) / x, domains=((0.5, 5.0),))
expn_op: Op = special(
    "expn",
    expn,
    lambda ans, x, n: -expn_op(x, n=n - 1) if n else -ans * (1 + 1 / x),
    domains=((0.3, 3.0),),
    params=({"n": 0}, {"n": 1}, {"n": 3}),
)
spence: Op = special("spence", dilogarithm, spence_slope, domains=((0.2, 4.0),))

# ---------------------------------------------------------------- binomial coefficients


def combinations(n: Array, k: Array) -> Array:
    """gamma(n + 1) / (gamma(k + 1) gamma(n - k + 1)) for 0 <= k <= n; whole where n and k are."""
    return _whole(n, k, inverse_beta(n - k + 1, k + 1, n + 1))


def _whole(n: Array, k: Array, value: Array) -> Array:
    whole = (n == np.rint(n)) & (k == np.rint(k)) & (np.abs(value) < 1e15)
    return np.where(whole, np.rint(value), value)


def binomial(n: Array, k: Array) -> Array:
    """The same of any numbers.

    Gamma functions of negative numbers are mirrored. Then sines are left, whose periods cancel
    exactly, beside such a number of ways, or beside a beta function of positive numbers.
    """
    within, low, right = (k >= 0) & (k <= n), k < 0, n > -1
    # k and n - k are alike; of those outside one is below 0
    above, below = np.where(low, n - k, k), np.where(low, k, n - k)
    between = ~right & (above < 0)
    is_beta = ~within & (right | between)
    a, b = np.where(right, -below, -above), np.where(right, n + 1, -below)
    a, b = np.where(is_beta, a, 1.0), np.where(is_beta, b, 1.0)
    first = np.where(a < 1, a + 1, a), np.where(within, n - k + 1, -n)
    second = np.where(b < 1, b + 1, b), np.where(within, k, above) + 1
    top = np.where(is_beta, first[0], first[1]), np.where(is_beta, second[0], second[1])
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        value = inverse_beta(*top, np.where(is_beta, 1.0, np.where(within, n + 1, -below)))
        lowered = np.where(a < 1, (a + b) / a, 1.0) * np.where(b < 1, (first[0] + b) / b, 1.0)
        value = np.where(is_beta, lowered / value, value)
        inside = lambda n, k, value: value
        return _whole(n, k, choose(within, inside, _turned, n, k, value))


def _turned(n: Array, k: Array, value: Array) -> Array:
    """The value times the sines of `binomial`, for k below 0 or above n."""
    of_k, of_rest, pole = (_sin_pi_of_sum(x, y) for x, y in ((-k, 0.0), (k, -n), (-n, 0.0)))
    low, right = k < 0, n > -1
    between = ~right & (np.where(low, n - k, k) < 0)
    value = value * np.where(low, of_k, of_rest)
    value = value * np.where(between, np.where(low, of_rest, of_k), 1.0)
    value = value * np.where(right | between, 1 / math.pi, 1.0)
    return value / np.where(right, 1.0, np.where(pole == 0, np.nan, pole)) + 0.0


def _inverse_gamma_of_sum(whole: float, x: Array, y: Array) -> tuple[Array, Array]:
    """1 / gamma(whole + x + y) as a logarithm and a factor, exact near its zeros too.

    There the sum, rounded, would not be near enough: by the formula of reflection, the sine of a
    sum whose periods are taken out of each part.
    """
    total = x + y + whole
    mirrored = total < 0.5
    size = log_gamma(np.where(mirrored, 1 - total, total))
    sine = _sin_pi_of_sum(x, y) * (1 - 2 * (whole % 2))
    return np.where(mirrored, size, -size), np.where(mirrored, sine * (1 / math.pi), 1.0)


def _sin_pi_of_sum(x: Array, y: Array) -> Array:
    """sin(pi (x + y))."""
    with np.errstate(invalid="ignore"):
        whole = np.rint(x) + np.rint(y)
        rest_x, rest_y = x - np.rint(x), y - np.rint(y)
        rest = rest_x + rest_y
        half = np.copysign(0.5, rest)
        rest = np.where(np.abs(rest) > 0.5, (half - rest_x) + (half - rest_y), rest)
        value = np.sin(math.pi * rest)
        return np.where(whole == 2 * np.rint(0.5 * whole), value, -value)


def _gamma_sign(x: Array) -> Array:
    """The sign of gamma(x)."""
    return np.where((x < 0) & (np.floor(x) != 2 * np.floor(0.5 * np.floor(x))), -1.0, 1.0)


def rising(z: Array, m: Array) -> Array:
    """gamma(z + m) / gamma(z); of negative m from the other end."""
    down = m < 0
    start, step = np.where(down, z + m, z), np.abs(m)
    # of whole steps below 0 mirrored, where gamma has no poles
    other = np.where(down, 1 - z, (1 - m) - z)
    turned = (start <= 0) & (m == np.rint(m)) & (other > 0)
    odd = turned & (step != 2 * np.floor(0.5 * step))
    start = np.where(turned, other, start)
    right = start > 0
    value = _rising_right(np.where(right, start, 1.0), np.where(right, step, 1.0))
    value = np.where(odd, -value, value)
    with np.errstate(divide="ignore", over="ignore"):
        value = np.where(down, 1 / value, value)
    return choose(right, lambda z, m, value: value, _rising_left, z, m, value)


def _rising_right(z: Array, m: Array) -> Array:
    """For z > 0 and m >= 0, by gamma(m) and the beta function of numbers of at least 1."""
    first, second = np.where(z < 1, z + 1, z), np.where(m < 1, m + 1, m)
    divisor = np.where(m < 1, first + m, 1.0) / np.where(z < 1, z / (z + m), 1.0)
    long = second > 171  # where gamma overflows before the product does
    low, high = gamma_large(np.where(long, second, 1.0))
    with np.errstate(over="ignore"):
        inverse = inverse_beta(first, second, divisor)
        return np.where(long, low * inverse * high, gamma(second) * inverse)


def _rising_left(z: Array, m: Array, value: Array) -> Array:
    """Where z or z + m is negative."""
    size, sign = _inverse_gamma_of_sum(0.0, z, m)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        value = np.exp(-size - log_gamma(z)) * _gamma_sign(z) / sign
    return np.where(sign == 0, np.inf, value)


def _digamma(x: Any) -> Any:
    return polygamma(x, n=0)


def _cos_pi(x: Any) -> Any:
    return cos(math.pi * (x - 2 * rint(0.5 * x)))


def _is_whole(x: Any) -> Any:
    return equal(x, rint(x))


def _by_sine(n: Any, k: Any) -> tuple[Any, Any, Any]:
    """Where k is above n or below 0 while n > -1, and pi times the slope of what it is there.

    One of the three gamma functions has poles there. By its reflection the value is
    sin(pi u) beta(n + 1, u) / pi, with u = k - n or u = -k.
    """
    right = less(-1, n)
    above, low = logical_and(right, less(n - k, -0.5)), logical_and(right, less(k, -0.5))
    some = logical_or(above, low)
    u = select(some, select(above, k - n, -k), 1.0)
    turn = exp(betaln(select(some, n, 0.0) + 1, u)) * _cos_pi(u)
    return above, low, select(some, turn, 0.0)


def _counting_by_n(ans: Any, n: Any, k: Any) -> Any:
    above, _, turn = _by_sine(n, k)
    # of whole k it is a polynomial, and that of k - n - 1 but for its sign
    left = logical_and(logical_not(less(-1, n)), logical_and(_is_whole(k), less(-1, k)))
    first = _digamma(select(left, -n, n + 1))
    rest = _digamma(select(logical_or(above, left), k - n, n - k + 1))
    return ans * (first - rest) - select(above, turn, 0.0)


def _counting_by_k(ans: Any, n: Any, k: Any) -> Any:
    above, low, turn = _by_sine(n, k)
    rest, last = _digamma(select(above, k - n, n - k + 1)), _digamma(select(low, -k, k + 1))
    return ans * (rest - last) + select(above, turn, -turn)


def _counting(name: str, function: Function) -> Op:
    domains = ((4.0, 6.0), (0.5, 3.0))
    return special(name, function, _counting_by_n, _counting_by_k, domains=domains)


comb = _counting("comb", combinations)
binom = _counting("binom", binomial)


def _poch_by_z(ans: Any, z: Any, m: Any) -> Any:
    """With the poles of gamma(z), where its reciprocal is 0, and of gamma(z + m) mirrored."""
    both = logical_and(_is_whole(m), logical_and(less(z, 0.25), less(z + m, 0.25)))
    left = less(z, 0.25)
    first = _digamma(select(both, 1 - z - m, z + m))
    slope = ans * (first - _digamma(select(left, 1 - z, z)))
    crossing = logical_and(left, logical_not(both))
    z, m = select(crossing, z, 0.5), select(crossing, m, 0.5)
    return slope + select(crossing, _cos_pi(z) * gamma_op(z + m) * gamma_op(1 - z), 0.0)


poch: Op = special(
    "poch",
    rising,
    _poch_by_z,
    lambda ans, z, m: ans * _digamma(z + m),
    domains=((0.5, 4.0), (0.5, 3.0)),
)
