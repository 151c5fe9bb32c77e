"""Special functions evaluated in float64: polynomials on intervals, nothing else.

Every function is a few minimax polynomials on fixed intervals (`special_coefficients`), an
asymptotic series beyond them, and a choice by the argument (`pieces`). Of arrays each piece is
evaluated only for the elements in its interval. Traced values get all pieces and select: so the
same recipes are what compiled code does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from ..types import Function
from . import special_coefficients as c
from .floats import bits
from .indexing import gather
from .op import REGISTRY, Traced

Array = Any  # plain or traced
SQRT_HALF = math.sqrt(0.5)
HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
# Where digamma is 0, as a sum of two floats.
DIGAMMA_ROOT = (1.4616321449683623, 9.549995429965697e-17)
# B(2), B(4), ...: the Bernoulli numbers of the asymptotic series.
BERNOULLI = (
    1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798,
    -174611 / 330, 854513 / 138, -236364091 / 2730, 8553103 / 6,
)  # fmt: skip
STIRLING = tuple(b / (2 * k * (2 * k - 1)) for k, b in enumerate(BERNOULLI[:8], 1))
DIGAMMA_TAIL = tuple(b / (2 * k) for k, b in enumerate(BERNOULLI[:8], 1))
FACTORIALS = np.array([float(math.factorial(n)) for n in range(171)])


Piece = Callable[[Array], Array]


def pieces(x: Array, bounds: Sequence[float], *functions: Piece) -> Array:
    """functions[k] for the elements from bounds[k - 1] up to below bounds[k]; NaN for NaN."""
    if isinstance(x, Traced):
        return _selected(x, bounds, functions)
    result = np.full_like(x, np.nan)
    edges = (-np.inf, *bounds, np.inf)
    for k, function in enumerate(functions):
        inside = x >= edges[k]
        if k < len(bounds):
            inside &= x < edges[k + 1]
        if inside.all():
            return function(x)
        if inside.any():
            result[inside] = function(x[inside])
    return result


def _selected(x: Array, bounds: Sequence[float], functions: Sequence[Piece]) -> Array:
    result = functions[-1](x)
    for bound, function in zip(bounds[::-1], functions[-2::-1], strict=True):
        result = np.where(x < bound, function(x), result)
    return np.where(np.isnan(x), x, result)


def choose(mask: Array, yes: Function, no: Function, *args: Array) -> Array:
    """yes(*args) for the elements where the mask holds, no(*args) for the others."""
    traced: bool = isinstance(mask, Traced)
    if traced:
        return np.where(mask, yes(*args), no(*args))
    if mask.all():
        return yes(*args)
    result = no(*args) if not mask.any() else np.empty_like(args[0])
    if mask.any():
        result[mask] = yes(*[arg[mask] for arg in args])
        result[~mask] = no(*[arg[~mask] for arg in args])
    return result


def constant(value: float) -> Piece:
    """The function that is the same everywhere."""
    return lambda x: np.full_like(x, value)


def polynomial(x: Array, coefficients: Sequence[float]) -> Array:
    """Horner's rule, lowest power first."""
    traced: bool = isinstance(x, Traced)
    if traced:
        result = x * coefficients[-1] + coefficients[-2]
        for coefficient in coefficients[-3::-1]:
            result = result * x + coefficient
        return result
    if x.size == 1:
        # Python's numbers are quicker than an array of one
        number, total = x.item(), coefficients[-1]
        for coefficient in coefficients[-2::-1]:
            total = total * number + coefficient
        return np.full_like(x, total)
    result = x * coefficients[-1]
    result += coefficients[-2]
    for coefficient in coefficients[-3::-1]:
        result *= x
        result += coefficient
    return result


def centred(x: Array, centre: float) -> Array:
    """(x - centre) / (x + centre), which maps (0, inf) to (-1, 1)."""
    return (x - centre) / (x + centre)


def exp_minus_square(x: Array, factor: float = 1.0) -> Array:
    """exp(-factor x^2) without the error that rounding x^2 would cause."""
    x = np.minimum(np.abs(x), 60.0)
    high = np.rint(x * 64) / 64
    return np.exp(-factor * high * high) * np.exp(factor * (high - x) * (high + x))


# ---------------------------------------------------------------- powers of quotients

# The bits of a float that are left when its mantissa has half of its length.
HALF_LENGTH = -(1 << 27)


def _shortened(x: Array) -> Array:
    """x without the lower half of its mantissa, so that products of two are exact."""
    return bits(bits(x, dtype=np.dtype(np.int64)) & HALF_LENGTH, dtype=np.dtype(np.float64))


def power_of_quotient(x: Array, y: Array, power: Array, low: Array = 0.0) -> tuple[Array, Array]:
    """A root and a rest: ((x + low) / y)^power is root^2 exp(rest), where `low` is what x lost.

    A long power is sensitive to the last bits of its base. Here that is a number of few bits, whose
    product with y is exact, and what is left of the quotient goes to the rest, with |rest| < 1e-7
    times the power. The root is half of the way to overflow.
    """
    quotient, high = x / y, _shortened(y)
    # the smallest numbers have no longer mantissa than that
    base = np.where(quotient < 1e-290, quotient, _shortened(quotient))
    part = ((x - base * high) - base * (y - high) + low) / (base * y)
    rest = power * part * (1 - part * (0.5 - part * (1 / 3)))
    return np.power(base, 0.5 * power), rest


def difference(x: Array, y: Array) -> tuple[Array, Array]:
    """x - y, and what rounding it lost."""
    value = x - y
    other = value - x
    return value, (x - (value - other)) - (y + other)


def product(x: Array, y: Array) -> tuple[Array, Array]:
    """x y, and what rounding it lost."""
    value, left, right = x * y, _shortened(x), _shortened(y)
    low, other = x - left, y - right
    return value, ((left * right - value) + left * other + low * right) + low * other


# Above this power halves of it leave the range of numbers, before a product of two powers does.
LONG_POWERS = 600.0


# ---------------------------------------------------------------- error functions


def _erfcx_right(x: Array) -> Array:
    """exp(x^2) erfc(x) for x >= 1/2."""
    q = centred(np.minimum(x, 1e300), 4.0)
    return 0.5 * polynomial(q, c.ERFCX) / (0.5 + x)


def _erfc_right(x: Array) -> Array:
    """erfc(x) for x >= 1/2."""
    return exp_minus_square(x) * _erfcx_right(x)


def _erf_centre(x: Array) -> Array:
    """erf(x) for |x| <= 1."""
    return x + x * polynomial(x * x, c.ERF)


def erf(x: Array) -> Array:
    """The error function."""
    far = lambda x: 1 - _erfc_right(x)
    return np.copysign(pieces(np.abs(x), (1.0, 6.0), _erf_centre, far, constant(1.0)), x)


def erfc(x: Array) -> Array:
    """1 - erf(x), accurate where it is small."""
    left = lambda x: 2 - _erfc_right(-x)
    centre = lambda x: 1 - _erf_centre(x)
    return pieces(x, (-0.5, 0.5), left, centre, _erfc_right)


def erfcx(x: Array) -> Array:
    """exp(x^2) erfc(x), which falls like 1 / x."""
    left = lambda x: 2 / exp_minus_square(x) - _erfcx_right(-x)
    bounds = (-26.62, -0.5, 0.5)
    return pieces(x, bounds, constant(np.inf), left, _erfcx_centre, _erfcx_right)


def _erfcx_centre(x: Array) -> Array:
    """exp(x^2) erfc(x) for |x| <= 1/2."""
    return np.exp(x * x) * (1 - _erf_centre(x))


def erfinv(x: Array) -> Array:
    """The inverse of erf."""
    tail = lambda x: _erfcinv_tail(1 - x)
    size = pieces(np.abs(x), (0.75, 1.0), _erfinv_centre, tail, _infinite_at(1.0))
    return np.copysign(size, x)


def erfcinv(x: Array) -> Array:
    """The inverse of erfc."""
    centre = lambda x: _erfinv_centre(1 - x)
    right = lambda x: -_erfcinv_tail(2 - x)
    end = lambda x: -_infinite_at(2.0)(x)
    bounds = (5e-324, 0.25, 1.75, 2.0)
    return pieces(x, bounds, _infinite_at(0.0), _erfcinv_tail, centre, right, end)


def _infinite_at(place: float) -> Piece:
    return lambda x: np.where(x == place, np.inf, np.nan)


def _erfinv_centre(x: Array) -> Array:
    """erfinv(x) for |x| <= 3/4."""
    return x * polynomial(x * x, c.ERFINV)


def _erfcinv_tail(x: Array) -> Array:
    """erfcinv(x) for 0 < x <= 1/4."""
    s = np.sqrt(-np.log(x))
    return s * polynomial(centred(s, 4.0), c.ERFCINV)


def ndtr(x: Array) -> Array:
    """The normal distribution function."""
    left: Piece = lambda x: 0.5 * exp_minus_square(x, 0.5) * _erfcx_right(x * -SQRT_HALF)
    centre = lambda x: 0.5 + 0.5 * _erf_centre(x * SQRT_HALF)
    right = lambda x: 1 - left(-x)
    return pieces(x, (-1.0, 1.0), left, centre, right)


def mills(x: Array) -> Array:
    """exp(x^2 / 2) ndtr(-|x|)."""
    return 0.5 * pieces(np.abs(x) * SQRT_HALF, (0.5,), _erfcx_centre, _erfcx_right)


def log_ndtr(x: Array) -> Array:
    """The logarithm of the normal distribution function."""

    def left(x: Array) -> Array:
        with np.errstate(over="ignore", divide="ignore"):
            return np.log(0.5 * _erfcx_right(x * -SQRT_HALF)) - 0.5 * x * x

    return pieces(x, (-1.0,), left, lambda x: np.log1p(-ndtr(-x)))


# ---------------------------------------------------------------- gamma functions


def sin_pi(x: Array) -> Array:
    """sin(pi x) with the period taken out exactly."""
    r = x - 2 * np.rint(0.5 * x)
    return np.sin(math.pi * np.where(np.abs(r) > 0.5, np.copysign(1, r) - r, r))


def cot_pi(x: Array) -> Array:
    """cot(pi x) with the period taken out exactly; infinite at the integers."""
    r = x - np.rint(x)
    with np.errstate(divide="ignore", over="ignore"):
        near = 1 / np.tan(math.pi * r)
    # around a half the tangent is large and its argument's rounding would show
    away = np.tan(math.pi * (np.copysign(0.5, r) - r))
    return np.where(np.abs(r) > 0.25, away, near)


def gammaln(x: Array) -> Array:
    """log |gamma(x)|; infinite at 0 and the negative integers."""
    return pieces(x, (-0.5,), _gammaln_mirrored, _gammaln_right)


def _gammaln_right(x: Array) -> Array:
    """For x >= -1/2."""
    parts = _gammaln_small, _gammaln_low, _gammaln_mid, _gammaln_large
    return pieces(x, (0.5, 3.0, 12.0), *parts)


def _gammaln_mirrored(x: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        shifts = math.log(math.pi) - np.log(-x) - np.log(np.abs(sin_pi(x)))
        return np.where(x == np.floor(x), np.inf, shifts - _gammaln_right(-x))


def _gammaln_small(x: Array) -> Array:
    with np.errstate(divide="ignore"):
        return _gammaln_low(x + 1) - np.log(np.abs(x))


def _gammaln_low(x: Array) -> Array:
    """For 1/2 <= x <= 3; the zeros at 1 and 2 are exact."""
    return (1 - x) * (2 - x) * polynomial(centred(x, 1.25), c.GAMMALN_LOW) + 0.0


def _gammaln_mid(x: Array) -> Array:
    return (x - 1) * (x - 2) * polynomial(centred(x, 6.0), c.GAMMALN_MID)


def _gammaln_large(x: Array) -> Array:
    with np.errstate(over="ignore"):
        return (x - 0.5) * (np.log(x) - 1) + (stirling(x) + (HALF_LOG_2PI - 0.5))


def stirling(x: Array) -> Array:
    """log gamma(x) - (x - 1/2) log(x) + x - log(2 pi)/2 for x >= 12."""
    r = 1 / x
    return r * polynomial(r * r, STIRLING)


def stirling_rest(x: Array) -> Array:
    """The same for x >= 1."""
    r = 1 / x
    return r * polynomial(2 * r - 1, c.STIRLING)


def gamma(x: Array) -> Array:
    """The gamma function, factorials exactly rounded; NaN at the negative integers."""
    return choose(_is_factorial(x), _factorial, _gamma_between, x)


def _is_factorial(x: Array) -> Array:
    return (x == np.floor(x)) & (x >= 1) & (x <= 171)


def _factorial(x: Array) -> Array:
    """gamma(x) for whole numbers from 1 to 171; any number for others."""
    number = np.where((x >= 1) & (x <= 171), x, 1.0)
    return gather(FACTORIALS, number.astype(np.int64) - 1, axes=(0,))


def _gamma_between(x: Array) -> Array:
    """From that of a number of at least 1 by the recurrence, below 0 mirrored."""
    size = np.abs(x)
    first, second = _gamma_factors(size)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        value = np.where(size < 1, first / x, first * second)
        mirrored = -math.pi / (sin_pi(x) * _mirror(x, first)) / second
    return np.where(x < 0, np.where(x == np.floor(x), np.nan, mirrored), value)


def rgamma(x: Array) -> Array:
    """1 / gamma(x), which is 0 at 0 and the negative integers."""
    return choose(_is_factorial(x), lambda x: 1 / _factorial(x), _rgamma_between, x)


def _rgamma_between(x: Array) -> Array:
    size = np.abs(x)
    first, second = _gamma_factors(size)
    with np.errstate(invalid="ignore", over="ignore"):
        value = np.where(size < 1, x / first, 1 / first / second)
        mirrored = sin_pi(x) * (-1 / math.pi) * _mirror(x, first) * second
    return np.where(x < 0, np.where(np.isinf(x), np.nan, mirrored), value)


def _gamma_factors(size: Array) -> tuple[Array, Array]:
    """Two numbers whose product is gamma(size), without overflow; of size + 1 where size < 1."""
    small = size < 1
    first, second = gamma_large(np.minimum(np.where(small, size + 1, size), 200.0))
    return first * np.where(small, second, 1.0), np.where(small, 1.0, second)


def _mirror(x: Array, first: Array) -> Array:
    """x times the first factor of gamma(-x)."""
    return np.where(x > -1, -first, x * first)


def gamma_large(x: Array, unit: float = 1.0) -> tuple[Array, Array]:
    """Two numbers whose product is gamma(x) / unit^(x - 1/2), for x of at least 1.

    With x^(x - 1/2) in two halves, and what rounding their exponent lost.
    """
    half = 0.5 * x - 0.25
    lost = (0.5 * x - half) - 0.25
    base = x if unit == 1 else x / unit
    with np.errstate(over="ignore"):
        root = np.power(base, half)
    tail = math.sqrt(2 * math.pi) * np.exp(stirling_rest(x) + 2 * lost * np.log(base))
    return root * np.exp(-x) * tail, root


def betaln(x: Array, y: Array) -> Array:
    """log |beta(x, y)| without cancellation for large arguments."""
    a, b = np.minimum(x, y), np.maximum(x, y)
    large = lambda a, b: choose(a < 12, _betaln_one_large, _betaln_both_large, a, b)
    return choose((b >= 12) & (a > 0), large, _betaln_plain, a, b)


def log_gamma(x: Array) -> Array:
    """`gammaln`, which compiled code has as a function of its own."""
    return REGISTRY["gammaln"](x) if isinstance(x, Traced) else gammaln(x)


def _betaln_plain(a: Array, b: Array) -> Array:
    with np.errstate(invalid="ignore"):
        return log_gamma(a) + (log_gamma(b) - log_gamma(a + b))


def _betaln_one_large(a: Array, b: Array) -> Array:
    rest = stirling(b) - stirling(a + b)
    return log_gamma(a) - (b - 0.5) * np.log1p(a / b) - a * (np.log(a + b) - 1) + rest


def _betaln_both_large(a: Array, b: Array) -> Array:
    h = a / b
    rest = stirling(b) - stirling(a + b) + stirling(a)
    powers = (a - 0.5) * np.log(h / (1 + h)) - b * np.log1p(h)
    return powers - 0.5 * np.log(b) + HALF_LOG_2PI + rest


def digamma(x: Array) -> Array:
    """The derivative of log gamma."""
    return pieces(x, (0.0,), _digamma_mirrored, _digamma_right)


def _digamma_right(x: Array) -> Array:
    """For x >= 0."""
    mid = lambda x: polynomial(centred(x, 6.0), c.DIGAMMA_MID)
    return pieces(x, (0.5, 3.0, 12.0), _digamma_small, _digamma_low, mid, _digamma_large)


def _digamma_mirrored(x: Array) -> Array:
    size = np.maximum(-x, 1e-300)  # of less both terms are infinite
    with np.errstate(divide="ignore", invalid="ignore"):
        value = _digamma_right(size) + 1 / size - math.pi * cot_pi(x)
    return np.where(x == np.floor(x), np.nan, value)


def _digamma_small(x: Array) -> Array:
    with np.errstate(divide="ignore", over="ignore"):
        return _digamma_low(x + 1) - 1 / x


def _digamma_low(x: Array) -> Array:
    factor = (x - DIGAMMA_ROOT[0]) - DIGAMMA_ROOT[1]
    return factor * polynomial(centred(x, 1.25), c.DIGAMMA_LOW)


def _digamma_large(x: Array) -> Array:
    r = 1 / x
    return np.log(x) - 0.5 * r - r * r * polynomial(r * r, DIGAMMA_TAIL)


def polygamma(x: Array, n: int) -> Array:
    """The n-th derivative of digamma."""
    if n == 0:
        return digamma(x)
    size = (1.0 if n % 2 else -1.0) * math.factorial(n)
    value = size * whole_hurwitz(n + 1, x)
    return value if n % 2 else np.where((x < 0) & (x == np.floor(x)), np.nan, value)


def whole_hurwitz(s: int, x: Array) -> Array:
    """Hurwitz's zeta(s, x) for whole s > 1; of any x, infinite at the poles."""
    size = (-1.0 if s % 2 else 1.0) * math.factorial(s - 1)

    def mirrored(x: Array) -> Array:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            turned = polynomial(cot_pi(x), _cotangent_derivative(s - 1)) * (math.pi**s / size)
            # 1 - x would round: the sum of the powers of k - x starts with k = 1
            rest = hurwitz(s, -x, start=1)
            value = (-rest if s % 2 == 0 else rest) - turned
        return np.where(x == np.floor(x), np.inf, value)

    return pieces(x, (0.0,), mirrored, lambda x: hurwitz(s, np.abs(x)))  # -0.0 as 0.0


def hurwitz(s: float, x: Array, start: int = 0) -> Array:
    """Hurwitz's zeta(s, x) for x >= 0: the first terms, then Euler and Maclaurin's sum.

    The terms are powers of x + k, from k = `start`.
    """
    count = 10 + int(s) // 2
    with np.errstate(divide="ignore", over="ignore", under="ignore", invalid="ignore"):
        total = (x + start if start else x) ** float(-s)
        for k in range(start + 1, count):
            total = total + (x + k) ** float(-s)
        y = x + count
        # that of which the sum is far out, where the power of the terms vanishes before it
        integral = y ** float(1 - s)
        power = integral / y
        total = total + (integral * (1 / (s - 1)) + 0.5 * power)
        rising = float(s)
        for k, bernoulli in enumerate(BERNOULLI, 1):
            power = power / (y if k == 1 else y * y)
            total = total + bernoulli / math.factorial(2 * k) * rising * power
            rising *= (s + 2 * k - 1) * (s + 2 * k)
    return total


@cache
def _cotangent_derivative(n: int) -> tuple[float, ...]:
    """The polynomial P with d^n cot(u) / du^n = P(cot(u)), lowest power first."""
    poly = [0.0, 1.0]
    for _ in range(n):
        slope = [k * value for k, value in enumerate(poly)][1:]
        poly = [0.0] * (len(slope) + 2)
        for k, value in enumerate(slope):
            poly[k] -= value
            poly[k + 2] -= value
    return tuple(poly)


# ---------------------------------------------------------------- others


def log1pmx(x: Array, above: Array) -> Array:
    """log(1 + x) - x, accurate near 0 too; `above` is 1 + x, which is known better near 0."""

    def near(x: Array, above: Array) -> Array:
        r = x / (2 + x)
        s = r * r
        return r * (2 * s * polynomial(s, c.ATANH) - x)

    def far(x: Array, above: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.log(above) - x

    inside = (x > -0.5) & (x < 1)
    return choose(inside, near, far, x, above)


def sinc_derivative(x: Array, n: int) -> Array:
    """The n-th derivative of sin(pi x) / (pi x)."""
    first = (n + 1) // 2
    powers = range(first, first + 14 + n)
    series = [(-1.0) ** k / ((2 * k + 1) * math.factorial(2 * k - n)) for k in powers]

    def near(u: Array) -> Array:
        value = polynomial(u * u, series)
        return u * value if n % 2 else value

    def far(u: Array) -> Array:
        with np.errstate(invalid="ignore"):
            value = np.sin(u) / u
            for order in range(1, n + 1):
                value = (np.sin(u + 0.5 * math.pi * order) - order * value) / u
        return value

    result = math.pi**n * pieces(math.pi * np.abs(x), (1 + 0.5 * n,), near, far)
    return np.where(x < 0, -result, result) if n % 2 else result


def logit(x: Array) -> Array:
    """log(x / (1 - x))."""

    def outer(x: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log(x / (1 - x))

    def inner(x: Array) -> Array:
        s = 2 * x - 1
        return np.log1p(s) - np.log1p(-s)

    return pieces(x, (0.3, 0.65), outer, inner, outer)


def expit(x: Array) -> Array:
    """1 / (1 + exp(-x))."""
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, e) / (1 + e)
