"""Riemann's zeta function of real and complex numbers with all its derivatives, and Hurwitz's.

On the right of 0 it is its first terms and Euler and Maclaurin's sum for the others, of which each
part is a product of powers and factors: a derivative is that of a product. On the left it is
mirrored, and a derivative is that of the mirror's factors, which are other operations.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import complex_functions as cf
from . import special as sp
from .approximations import (
    BERNOULLI,
    Array,
    choose,
    gamma_large,
    hurwitz,
    pieces,
    sin_pi,
    whole_hurwitz,
)
from .elementwise import cos, exp, real, select, sin
from .incomplete import along
from .logic import less
from .op import Op

LOG_2PI = math.log(2 * math.pi)
# How far from the real axis the sums have enough terms.
HIGHEST = 100.0


# Below it is mirrored: nearer to 0 rounding 1 - s would show, beside the pole at 1.
MIRROR = -0.3


def riemann(s: Array) -> Array:
    """zeta(s); below 0 mirrored."""
    left = s < MIRROR
    right = _riemann_right(np.where(left, 1 - s, s))
    return choose(left, _riemann_mirrored, lambda s, right: right, s, right)


def _riemann_right(s: Array) -> Array:
    """The first terms, then Euler and Maclaurin's sum, which holds for s < 1 too."""
    count = 10
    with np.errstate(divide="ignore", invalid="ignore", under="ignore"):
        two, three, five, seven = (np.exp(s * -math.log(prime)) for prime in (2, 3, 5, 7))
        four = two * two
        # the others, 6 to 9, are products of these; the smallest first
        total = three * three + four * two + seven + two * three + five + four + three + two + 1
        total = total + _others(s, count, two * five)
    return np.where(s > 60, 1.0, np.where(s == 1, np.inf, total))


def _others(s: Array, count: int, power: Array) -> Array:
    """The terms from `count` on; `power` is count^-s."""
    total = power * (count / (s - 1) + 0.5)
    rising = s
    for k, bernoulli in enumerate(BERNOULLI[:12], 1):
        factor = bernoulli / math.factorial(2 * k) / count ** (2 * k - 1)
        total = total + factor * rising * power
        rising = rising * ((s + (2 * k - 1)) * (s + 2 * k))
    return total


def _riemann_mirrored(s: Array, right: Array) -> Array:
    wave = sin_pi(0.5 * s)
    with np.errstate(over="ignore", invalid="ignore"):
        first, second = gamma_large(1 - s, unit=2 * math.pi)
        value = first * (wave * right * math.sqrt(2 / math.pi)) * second
        return np.where(wave == 0, 0.0, value)


# ---------------------------------------------------------------- derivatives

Series = list[Any]  # the coefficients of the powers of a small step


def _times(left: Series, right: Series) -> Series:
    return [
        sum((left[k] * right[n - k] for k in range(1, n + 1)), left[0] * right[n])
        for n in range(len(left))
    ]


def _linear(value: Any, n: int) -> Series:
    """value + step."""
    return [value, 1.0 + 0.0 * value, *([0.0 * value] * (n - 1))][: n + 1]


def derivative(s: Array, n: int, most: int, count: Any) -> Array:
    """The n-th derivative of zeta on the right: `count` terms, at most `most`, and a rest."""
    whole = np.arange(2, most)
    logs = np.log(whole)
    terms = along(logs**n * (-1.0) ** n, s) * np.exp(-along(logs, s) * s)
    total = np.sum(np.where(along(whole, s) < count, terms, 0.0), axis=0) + (1.0 if n == 0 else 0.0)
    step = np.log(count)
    power = [np.exp(-step * s)]
    for k in range(1, n + 1):
        power.append(power[-1] * (step * (-1 / k)))
    pole, part = 1 / (s - 1), 1 / count
    inverse = [count * pole]
    for _ in range(n):
        inverse.append(inverse[-1] * -pole)
    rest = [inverse[0] + 0.5, *inverse[1:]]
    rising = [part * value for value in _linear(s, n)]
    for k, bernoulli in enumerate(BERNOULLI, 1):
        factor = bernoulli / math.factorial(2 * k)
        rest = [a + factor * b for a, b in zip(rest, rising, strict=True)]
        for above in (2 * k - 1, 2 * k):
            rising = _times(rising, [part * value for value in _linear(s + above, n)])
    return total + _times(rest, power)[n] * math.factorial(n)


def _real_derivative(s: Array, n: int) -> Array:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        return np.where(s > 1000, 0.0, derivative(np.minimum(s, 1000.0), n, 10, 10.0))


def _complex_derivative(s: Array, n: int) -> Array:
    """NaN where the sums have too few terms."""
    inside = np.abs(s.imag) <= HIGHEST
    far = s.real > 1000
    within = np.where(inside & ~far, s, 2.0)
    # enough for the rest to converge, and no more, since terms cancel
    count = np.minimum(np.rint(8 + 0.7 * np.abs(within)), 8 + 0.7 * HIGHEST)
    value = derivative(within, n, 8 + int(0.7 * HIGHEST), count)
    return np.where(inside, np.where(far, 1.0 if n == 0 else 0.0, value), np.nan)


def _mirrored_slope(s: Any, right: Op, gamma: Any, digamma: Any) -> Any:
    """The derivative of 2 (2 pi)^(s - 1) sin(pi s / 2) gamma(1 - s) zeta(1 - s), which is zeta."""
    angle = s * (0.5 * math.pi)
    front = 2 * exp((s - 1) * LOG_2PI) * gamma(1 - s)
    wave, other = sin(angle), cos(angle) * (0.5 * math.pi)
    first = (other + wave * (LOG_2PI - digamma(1 - s))) * right(1 - s, n=0)
    return front * (first - wave * right(1 - s, n=1))


def _slope(right: Op, gamma: Op, digamma: Any) -> Any:
    def rule(ans: Any, s: Any) -> Any:
        left = less(real(s), MIRROR)
        mirrored = _mirrored_slope(select(left, s, -1.0), right, gamma, digamma)
        return select(left, mirrored, right(select(left, 2.0, s), n=1))

    return rule


derivative_right: Op = sp.special(
    "zeta_derivative",
    _real_derivative,
    lambda ans, s, n: derivative_right(s, n=n + 1),
    domains=((1.5, 6.0),),
    params=({"n": 0}, {"n": 2}),
)
riemann_zeta: Op = sp.special(
    "riemann_zeta",
    riemann,
    _slope(derivative_right, sp.gamma, lambda x: sp.polygamma(x, n=0)),
    domains=((1.5, 6.0),),
)


def complex_riemann(s: Array) -> Array:
    """zeta of complex numbers at most `HIGHEST` from the real axis; NaN beyond."""
    left = s.real < MIRROR
    mirror = np.where(left, s, -0.5)
    right = _complex_derivative(np.where(left, 1 - s, s), 0)
    wave = np.sin(mirror * (0.5 * math.pi))
    front = np.exp((mirror - 1) * LOG_2PI + cf.loggamma(1 - mirror)) * 2
    return np.where(left, front * wave * right, right)


complex_derivative_right: Op = cf.holomorphic(
    "complex_zeta_derivative",
    _complex_derivative,
    lambda ans, s, n: complex_derivative_right(s, n=n + 1),
    params=({"n": 0}, {"n": 2}),
)
complex_riemann_zeta: Op = cf.holomorphic(
    "complex_riemann_zeta",
    complex_riemann,
    _slope(complex_derivative_right, cf.gamma_op, lambda z: cf.polygamma_op(z, n=0)),
)


# Of whole exponents up to it the factorials are floats.
WHOLE = 170


def hurwitz_of(x: Array, s: float) -> Array:
    """Hurwitz's zeta(s, x) for a number s > 1; of x < 0 NaN but for whole s and at the poles."""
    if s.is_integer() and s <= WHOLE:
        return whole_hurwitz(int(s), x)
    poles = lambda x: np.where(x == np.floor(x), np.inf, np.nan)
    return pieces(x, (0.0,), poles, lambda x: hurwitz(s, np.abs(x)))


hurwitz_zeta: Op = sp.special(
    "hurwitz_zeta",
    hurwitz_of,
    lambda ans, x, s: -s * hurwitz_zeta(x, s=s + 1),
    domains=((0.5, 5.0),),
    params=({"s": 2.5}, {"s": 4.0}),
)
