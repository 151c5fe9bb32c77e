"""Bessel functions of complex numbers: J_n, Y_n and I_v.

All come from two in the right half of the plane. I_v there by its recurrence downward from far
above (Miller), with powers and factorials taken out so that nothing overflows, and normalized by
a sum of terms that is exp(z); far out by Hankel's asymptotic series. K_n there by the recurrence
downward of Tricomi's functions with another such sum (Temme), and near 0 by the power series
with their logarithm. Derivatives are differences of neighbours, so every order exists.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..errors import DTypeError, explain
from ..types import Function
from .approximations import Array, polynomial
from .bessel import slope
from .complex_functions import holomorphic
from .integrals import EULER
from .op import Op

LARGEST_ORDER = 30


def check_order(name: str, n: float) -> None:
    """The steps downward are written out one by one, so that there must not be too many."""
    if n > LARGEST_ORDER or n < 0:
        raise DTypeError(
            explain(
                name,
                f"got the order {n:g} for complex numbers, expected one from 0 to {LARGEST_ORDER}",
                "Each derivative needs the order above too; of real numbers any order is there.",
            )
        )


# ---------------------------------------------------------------- the first kind


def scaled_i(z: Array, n: float) -> Array:
    """exp(-z) I_n(z) for a real part of at least 0 and an order of at least 0."""
    check_order("bessel_i", n)
    bound = max(25.0, n * n / 4)
    far = np.abs(z) > bound
    near = _miller(np.where(far, 1.0, z), n, bound)
    return np.where(far, _hankel(np.where(far, z, bound), n, bound), near)


def _miller(z: Array, n: float, bound: float) -> Array:
    """For |z| up to the bound, by h_k = I_(k + f)(z) gamma(k + f + 1) (z / 2)^-(k + f).

    f is the part of the order behind its point. Their sum with the weights (2 f)_k / (f)_k and
    (z / 2)^k / k! is exp(z).
    """
    whole = math.floor(n)
    part = n - whole
    square, half = 0.25 * z * z, 0.5 * z
    count = math.ceil(bound + 7 * bound ** (1 / 3) + 15)
    weights = [1.0, *(_weight(part, count))]
    above = here = total = 1.0 + 0.0 * z
    total = weights[count] * total
    wanted = here
    for k in range(count, 0, -1):
        above, here = here, here + square * (1 / ((k + part) * (k + 1 + part))) * above
        total = weights[k - 1] * here + half * (1 / k) * total
        wanted = here if k - 1 == whole else wanted
    front = wanted / total
    for k in range(1, whole + 1):
        front = front * (half * (1 / (k + part)))
    return front * _root(half, part) if part else front


def _weight(part: float, count: int) -> list[float]:
    """(2 f)_k / (f)_k for k from 1; of f = 0 all are 2."""
    weights = [2.0]
    for k in range(1, count):
        weights.append(weights[-1] * (2 * part + k) / (part + k))
    return weights


def _root(half: Array, part: float) -> Array:
    """half^part / gamma(part + 1), which is 0 at 0."""
    zero = half == 0
    power = np.exp(part * np.log(np.where(zero, 1.0, half)) - math.lgamma(part + 1))
    return np.where(zero, 0.0, power)


def _hankel(z: Array, n: float, bound: float) -> Array:
    """Beyond the bound, by the asymptotic series of both exponentials."""
    terms, size = [1.0], 1.0
    for k in range(1, 60):
        term = terms[-1] * (4 * n * n - (2 * k - 1) ** 2) / (8 * k)
        size /= bound
        if abs(term) * size < 1e-18:
            break
        terms.append(term)
    r = 1 / z
    terms.append(0.0)
    turn = 1j * np.exp(1j * math.pi * n)
    turn = np.where(z.imag < 0, np.conj(turn), turn)
    other = turn * np.exp(-2 * z) * polynomial(r, terms)
    return (polynomial(-r, terms) + other) / np.sqrt(2 * math.pi * z)


# ---------------------------------------------------------------- the third kind

STEPS = 54
# prod of (k - 1/2)^2 / k^2, which their sum is weighted with
TRICOMI = np.cumprod([1.0, *((1 - 0.5 / k) ** 2 for k in range(1, STEPS + 1))])
_FACTORIALS = [float(math.factorial(k)) for k in range(28)]
_HARMONIC = np.cumsum([0.0, *(1 / k for k in range(1, 29))]) - EULER
I0_SERIES = [1 / f**2 for f in _FACTORIALS]
I1_SERIES = [1 / (f * f * (k + 1)) for k, f in enumerate(_FACTORIALS)]
K0_SERIES = [h * a for h, a in zip(_HARMONIC, I0_SERIES, strict=False)]
K1_SERIES = [-0.5 * (_HARMONIC[k] + _HARMONIC[k + 1]) * a for k, a in enumerate(I1_SERIES)]


def kinds_01(z: Array) -> tuple[Array, Array]:
    """K_0(z) and K_1(z) for a real part of at least 0."""
    near = np.abs(z) + z.real < 5  # beyond terms cancel, within steps converge slowly
    first, second = _near_01(np.where(near, z, 1.0))
    zero, one = _far_01(np.where(near, 5.0, z))
    return np.where(near, first, zero), np.where(near, second, one)


def _near_01(z: Array) -> tuple[Array, Array]:
    half = 0.5 * z
    square, logarithm = half * half, np.log(half)
    zero = polynomial(square, K0_SERIES) - logarithm * polynomial(square, I0_SERIES)
    one = polynomial(square, K1_SERIES) + logarithm * polynomial(square, I1_SERIES)
    return zero, 1 / z + half * one


def _far_01(z: Array) -> tuple[Array, Array]:
    """By steps downward, of functions of which the sum is known; scaled by 1 + |z| each."""
    r = 1 / (1 + np.abs(z))
    turn, square = z * r, r * r
    above: Array = 0.0 * z
    here = 1.0 + 0.0 * z
    total = TRICOMI[STEPS] * here
    for k in range(STEPS, 0, -1):
        below = (2 * r + turn * (2 / k)) * here - square * ((k + 0.5) ** 2 / (k * (k + 1))) * above
        above, here = here, below
        total = TRICOMI[k - 1] * here + r * total
    zero = np.exp(-z) * np.sqrt(math.pi / 2 / z) * here / total
    return zero, zero * (0.5 + z - 0.25 * r * above / here) / z


def bessel_k(z: Array, n: int) -> Array:
    """K_n(z) for a real part of at least 0."""
    below, here = kinds_01(z)
    if n == 0:
        return below
    for order in range(1, n):
        below, here = here, below + (2 * order) / z * here
    return here


# ---------------------------------------------------------------- whole orders, everywhere


def _above(z: Array, function: Function) -> Array:
    """A function that is real on the positive axis, of numbers turned into the right half."""
    below = z.imag < 0
    upper: Array = np.where(below, np.conj(z), z)
    value = function(-1j * upper)
    return np.where(below, np.conj(value), value)


def bessel_j(z: Array, n: int) -> Array:
    """J_n(z)."""
    return _above(z, lambda turned: 1j**n * np.exp(turned) * scaled_i(turned, n))


def bessel_y(z: Array, n: int) -> Array:
    """Y_n(z), continuous but for the negative axis: from J_n and Hankel's function."""

    def value(turned: Array) -> Array:
        zero = turned == 0
        safe = np.where(zero, 1.0, turned)
        first = 1j**n * np.exp(safe) * scaled_i(safe, n)
        third = (2 / math.pi) * (-1j) ** (n + 1) * bessel_k(safe, n)
        return np.where(zero, -np.inf, 1j * (first - third))

    return _above(z, value)


j: Op = holomorphic(
    "complex_bessel_j",
    bessel_j,
    lambda ans, z, n: slope(j)(ans, z, n),
    params=({"n": 0}, {"n": 3}),
    most=1,
)
y: Op = holomorphic(
    "complex_bessel_y",
    bessel_y,
    lambda ans, z, n: slope(y)(ans, z, n),
    params=({"n": 0}, {"n": 3}),
    most=1,
)


def _scaled_slope(ans: Any, z: Any, n: float) -> Any:
    """I_(n+1) + (n / z) I_n, or half the sum of neighbours where there are both."""
    above = i(z, n=n + 1)
    if n == 0:
        return above - ans
    return (0.5 * (above + i(z, n=n - 1)) if n >= 1 else above + ans * (n / z)) - ans


# exp(-z) I_n(z) for a real part of at least 0
i: Op = holomorphic(
    "complex_bessel_i", scaled_i, _scaled_slope, params=({"n": 0}, {"n": 0.7}), most=1
)
