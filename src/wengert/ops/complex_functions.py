"""Special functions of complex numbers: error and gamma functions, exponential integrals.

All are made of one evaluation in a quarter or a half of the plane, and symmetries: Faddeeva's
function w by the rules of trapezoids and midpoints with what their poles add, the logarithm of
gamma by Stirling's series, and exp(z) E_1(z) as an integral along a ray away from its pole. Sums
are taken over an axis, so that compiled code is a loop. Derivatives are closed.
"""

from __future__ import annotations

import math
from itertools import islice
from typing import Any

import numpy as np

from ..types import ArrayType, Function, type_of
from .approximations import BERNOULLI, DIGAMMA_TAIL, HALF_LOG_2PI, STIRLING, Array, polynomial
from .approximations import _cotangent_derivative as cotangent_derivative
from .elementwise import absolute, exp, real
from .families import Interval, batch_elementwise, broadcast_samples
from .incomplete import MANY, along
from .integrals import EULER, spence_slope
from .layout import convert
from .logic import greater, greater_equal, logical_and
from .op import Op
from .special import erfcx_slope

TWO_OVER_ROOT_PI = 2 / math.sqrt(math.pi)
ROOT_HALF = math.sqrt(0.5)
WIDE = np.dtype(np.complex128)


def holomorphic(
    name: str,
    function: Function,
    derivative: Function,
    domain: Interval = (0.3, 2.0),
    params: tuple[dict[str, Any], ...] = ({},),
    most: int | None = None,
) -> Op:
    """An elementwise operation on complex numbers, computed in complex128.

    Of samples there are at most so many for each choice of parameters.
    """

    def compose(z: Any, **chosen: Any) -> Any:
        return convert(function(convert(z, dtype=WIDE), **chosen), dtype=type_of(z).dtype)

    def evaluate(z: Any, **chosen: Any) -> Any:
        wide = np.asarray(z, WIDE)
        with np.errstate(all="ignore"):
            value = function(wide.reshape(-1), **chosen)
        return np.asarray(value.reshape(wide.shape), type_of(z).dtype)[()]

    def samples(rng: np.random.Generator) -> Any:
        for chosen in params:
            for args, _ in islice(broadcast_samples((domain,), ("complex128",))(rng), most):
                yield args, chosen

    op: Op = Op(
        name,
        evaluate,
        lambda z, **_: ArrayType(z.dtype, z.shape),
        derivative=(derivative,),
        batch=batch_elementwise(lambda: op),
        compose=compose,
        samples=samples,
    )
    op.composes_complex = True
    return op


def _of_parts(re: Array, im: Array) -> Array:
    return re + 1j * im


def _upper_half(z: Array, function: Function) -> Array:
    """A function that is real on the real axis, from its values above."""
    below = z.imag < 0
    value = function(np.where(below, np.conj(z), z))
    return np.where(below, np.conj(value), value)


def log1p(w: Array) -> Array:
    """log(1 + w), accurate near 0, where NumPy's is not."""
    x, y = w.real, w.imag
    return _of_parts(0.5 * np.log1p(x * (2 + x) + y * y), np.arctan2(y, 1 + x))


log1p_op = holomorphic("complex_log1p", log1p, lambda ans, w: 1 / (1 + w))

# ---------------------------------------------------------------- error functions

STEP = math.sqrt(math.pi / 12)
_K = np.arange(12)
# Squares of the places and weights of both rules: trapezoids at 0, h, 2 h, ..., midpoints between.
TRAPEZOIDS = (_K * STEP) ** 2, np.where(_K == 0, 0.5, 1.0) * np.exp(-((_K * STEP) ** 2))
MIDPOINTS = ((_K + 0.5) * STEP) ** 2, np.exp(-(((_K + 0.5) * STEP) ** 2))


def exp_minus_square(z: Array, factor: float = 1.0) -> Array:
    """exp(-factor z^2) without the error that rounding z^2 would cause."""
    high = _of_parts(np.rint(z.real * 64) / 64, np.rint(z.imag * 64) / 64)
    return np.exp(-factor * (high * high)) * np.exp(factor * ((high - z) * (high + z)))


def _faddeeva_quarter(z: Array) -> Array:
    """exp(-z^2) erfc(-i z) for real and imaginary parts of at least 0."""
    x, y = z.real, z.imag
    place = x * (1 / STEP)
    away = np.abs(place - np.rint(place)) > 0.25
    high = y >= math.pi / STEP
    between = away & (y < x) & ~high  # the nearest of the trapezoids' poles is not near
    squares, weights = (
        np.where(between, along(first, x), along(second, x))
        for first, second in zip(TRAPEZOIDS, MIDPOINTS, strict=True)
    )
    total = np.sum(weights / (z * z - squares), axis=0) * z * (2j * STEP / math.pi)
    turn = np.exp(-2j * math.pi / STEP * _of_parts(x, np.where(high, 0.0, y)))
    poles = 2 * exp_minus_square(z) / np.where(between, 1 - turn, 1 + turn)
    return np.where(high, total, total + poles)


def _faddeeva(z: Array) -> Array:
    """exp(-z^2) erfc(-i z) for an imaginary part of at least 0."""
    left = z.real < 0
    value = _faddeeva_quarter(_of_parts(np.abs(z.real), z.imag))
    return np.where(left, np.conj(value), value)


def _right_half(z: Array) -> tuple[Array, Array]:
    """Where the real part is negative, and z with a real part of at least 0."""
    left = z.real < 0
    return left, np.where(left, -z, z)


def erfcx(z: Array) -> Array:
    """exp(z^2) erfc(z)."""
    left, right = _right_half(z)
    value = _faddeeva(1j * right)
    return np.where(left, 2 * exp_minus_square(1j * z) - value, value)


def erfc(z: Array) -> Array:
    """1 - erf(z), accurate where it is small."""
    left, right = _right_half(z)
    value = exp_minus_square(z) * _faddeeva(1j * right)
    return np.where(left, 2 - value, value)


ERF_SERIES = [TWO_OVER_ROOT_PI * (-1) ** k / (math.factorial(k) * (2 * k + 1)) for k in range(18)]


def erf(z: Array) -> Array:
    """The error function."""
    left, right = _right_half(z)
    value = 1 - exp_minus_square(z) * _faddeeva(1j * right)
    near = np.abs(z) < 1
    small = np.where(near, z, 0.0)
    series = small * polynomial(small * small, ERF_SERIES)
    return np.where(near, series, np.where(left, -value, value))


erf_op = holomorphic("complex_erf", erf, lambda ans, z: TWO_OVER_ROOT_PI * exp(-z * z))
erfc_op = holomorphic("complex_erfc", erfc, lambda ans, z: -TWO_OVER_ROOT_PI * exp(-z * z))
erfcx_op: Op = holomorphic(
    "complex_erfcx",
    erfcx,
    lambda ans, z: erfcx_slope(
        ans, z, logical_and(greater(absolute(z), 12.0), greater_equal(real(z), 0.0))
    ),
)


def ndtr(z: Array) -> Array:
    """The distribution function of the standard normal."""
    left, right = _right_half(-z)
    value = 0.5 * exp_minus_square(z, 0.5) * _faddeeva(1j * right * ROOT_HALF)
    return np.where(left, 1 - value, value)


def log_ndtr(z: Array) -> Array:
    """log(ndtr(z)), the main branch."""
    left, right = _right_half(-z)
    scaled = 0.5 * _faddeeva(1j * right * ROOT_HALF)
    tail = exp_minus_square(np.where(left, z, 0.0), 0.5) * scaled
    value = np.log(scaled) - 0.5 * z * z
    turns = np.rint(value.imag * (0.5 / math.pi))
    value = _of_parts(value.real, value.imag - turns * (2 * math.pi))
    return np.where(left, log1p(-np.where(left, tail, 0.0)), value)


ndtr_op = holomorphic(
    "complex_ndtr", ndtr, lambda ans, z: exp(-0.5 * z * z) * (0.5 * ROOT_HALF * TWO_OVER_ROOT_PI)
)
log_ndtr_op = holomorphic(
    "complex_log_ndtr",
    log_ndtr,
    lambda ans, z: (ROOT_HALF * TWO_OVER_ROOT_PI) / erfcx_op(z * -ROOT_HALF),
)

# ---------------------------------------------------------------- gamma functions

SHIFT = 8


def _turned(z: Array) -> Array:
    """exp(2 pi i z) - 1, with the period taken out exactly, for an imaginary part of at least 0."""
    part = z.real - np.rint(z.real)
    grown = np.expm1(-2 * math.pi * z.imag)
    half = np.sin(math.pi * part)
    real = grown * np.cos(2 * math.pi * part) - 2 * half * half
    return _of_parts(real, (grown + 1) * np.sin(2 * math.pi * part))


# log gamma(2 + w) = w (1 - Euler's constant) + sum of (-1)^k (zeta(k) - 1) w^k / k.
def _zeta_less_one(k: int) -> float:
    """By its first terms and the integral of the others."""
    last = 40.0
    terms = math.fsum(n ** float(-k) for n in range(2, int(last)))
    rest, rising = last / (k - 1) + 0.5, float(k)
    for j, bernoulli in enumerate(BERNOULLI[:5], 1):
        rest += bernoulli / math.factorial(2 * j) * rising * last ** (1 - 2 * j)
        rising *= (k + 2 * j - 1) * (k + 2 * j)
    return terms + rest * last**-k


NEAR_TWO = (1 - EULER, *((-1) ** k * _zeta_less_one(k) / k for k in range(2, 30)))


def _loggamma_right(z: Array) -> Array:
    """For a real part of at least 1/2."""
    near_one, near_two = np.abs(z - 1) < 0.5, np.abs(z - 2) < 0.5
    w = np.where(near_one, z - 1, np.where(near_two, z - 2, 0.0))
    series = w * polynomial(w, NEAR_TWO) - np.where(near_one, log1p(w), 0.0)
    small = np.abs(z) < SHIFT
    up = np.where(small, z + SHIFT, z)
    # the logarithms of products of two, whose angles are within half a turn
    first = along(np.arange(SHIFT // 2), z)
    product = (z + first) * (z + (SHIFT - 1 - first))
    logs = np.where(small, np.sum(np.log(product), axis=0), 0.0)
    r = 1 / up
    value = (up - 0.5) * np.log(up) - up + HALF_LOG_2PI + r * polynomial(r * r, STIRLING) - logs
    return np.where(near_one | near_two, series, value)


def loggamma(z: Array) -> Array:
    """The logarithm of gamma, continuous but for the negative axis."""
    return _upper_half(z, _loggamma_upper)


def _loggamma_upper(z: Array) -> Array:
    left = z.real < 0.5
    right = _loggamma_right(np.where(left, 1 - z, z))
    mirrored = 2 * HALF_LOG_2PI + 1j * math.pi * (z - 0.5) - np.log(-_turned(z)) - right
    return np.where(left, mirrored, right)


def gamma(z: Array) -> Array:
    """The gamma function."""
    return np.exp(loggamma(z))


def rgamma(z: Array) -> Array:
    """1 / gamma(z), which is 0 at 0 and the negative integers."""
    pole = (z.imag == 0) & (z.real <= 0) & (z.real == np.rint(z.real))
    return np.where(pole, 0.0, np.exp(-loggamma(np.where(pole, 1.0, z))))


def polygamma(z: Array, n: int) -> Array:
    """The n-th derivative of digamma."""
    return _upper_half(z, lambda z: _polygamma_upper(z, n))


def _polygamma_upper(z: Array, n: int) -> Array:
    left = z.real < 0.5
    right = _polygamma_right(np.where(left, 1 - z, z), n)
    rest = _cotangent(np.where(left, z, 0.5), n) * math.pi ** (n + 1)
    return np.where(left, (-1) ** n * right - rest, right)


def _cotangent(z: Array, n: int) -> Array:
    """The n-th derivative of cot(u) at u = pi z, for an imaginary part of at least 0."""
    turned = _turned(z)
    cot = 1j * (turned + 2) / turned
    if n == 0:
        return cot
    # a polynomial in cot that 1 + cot^2 = 1 / sin^2 divides, which is small high above the axis
    quotient = list(cotangent_derivative(n)[:-2])
    for k in range(2, len(quotient)):
        quotient[k] -= quotient[k - 2]
    part = _of_parts(z.real - np.rint(z.real), z.imag)
    inverse_square = -4 * np.exp(2j * math.pi * part) / (turned * turned)
    return inverse_square * polynomial(cot, [*quotient, 0.0])


def _polygamma_right(z: Array, n: int) -> Array:
    """For a real part of at least 1/2: the first terms, then the asymptotic series."""
    count = SHIFT + 2 * n
    terms = 1 / (z + along(np.arange(count), z))
    up = z + count
    r = 1 / up
    size = (-1.0) ** (n + 1) * math.factorial(n)
    first = np.sum(_whole_power(terms, n + 1), axis=0) * size
    if n == 0:
        return np.log(up) - 0.5 * r - r * r * polynomial(r * r, DIGAMMA_TAIL) + first
    series = [
        b * math.factorial(2 * k + n - 1) / (math.factorial(2 * k) * math.factorial(n))
        for k, b in enumerate(BERNOULLI, 1)
    ]
    tail = 1.0 / n + r * (0.5 + r * polynomial(r * r, series))
    return first + size * _whole_power(r, n) * tail


def _whole_power(x: Array, n: int) -> Array:
    result = x
    for _ in range(n - 1):
        result = result * x
    return result


polygamma_op: Op = holomorphic(
    "complex_polygamma",
    polygamma,
    lambda ans, z, n: polygamma_op(z, n=n + 1),
    params=({"n": 0}, {"n": 2}),
)
loggamma_op = holomorphic("complex_loggamma", loggamma, lambda ans, z: polygamma_op(z, n=0))
gamma_op = holomorphic("complex_gamma", gamma, lambda ans, z: ans * polygamma_op(z, n=0))
rgamma_op = holomorphic("complex_rgamma", rgamma, lambda ans, z: -ans * polygamma_op(z, n=0))

# ---------------------------------------------------------------- exponential integrals

EIN_SERIES = [(-1) ** k / ((k + 1) * math.factorial(k + 1)) for k in range(58)]
RAY = 0.25 * math.pi


def _exp1_upper(z: Array) -> Array:
    """E_1(z) for an imaginary part of at least 0."""
    size = np.abs(z)
    # where no large terms cancel
    near = (size < 3) | ((size + z.real < 2) & (size < 14))
    small = np.where(near, z, 1.0)
    series = small * polynomial(small, EIN_SERIES) - np.log(small) - EULER
    far = np.where(near, 3.0, z)
    # away from the pole at -z, which is below the positive axis
    ray = np.where(far.real < 0, np.exp(1j * RAY), 1.0)
    nodes, weights = MANY
    length = np.where(far.real < 0, 37 / math.cos(RAY), 37.0)
    s = along(nodes, length) * length * ray
    integral = np.sum(along(weights, length) * np.exp(-s) / (far + s), axis=0) * length * ray
    return np.where(near, series, np.exp(-far) * integral)


def exp1(z: Array) -> Array:
    """The exponential integral E_1, continuous but for the negative axis."""
    return _upper_half(z, _exp1_upper)


def expi(z: Array) -> Array:
    """The exponential integral Ei, continuous but for the negative axis."""
    jump = np.where(z.imag > 0, 1j * math.pi, np.where(z.imag < 0, -1j * math.pi, 0.0))
    return jump - exp1(-z)


exp1_op = holomorphic("complex_exp1", exp1, lambda ans, z: -exp(-z) / z)
expi_op = holomorphic("complex_expi", expi, lambda ans, z: exp(z) / z)

# ---------------------------------------------------------------- the dilogarithm

# Li_2(w) = u - u^2 / 4 + u^3 times this in u^2, u = -log(1 - w)
DILOGARITHM = [b / math.factorial(2 * k + 1) for k, b in enumerate(BERNOULLI[:12], 1)]


def spence(z: Array) -> Array:
    """Li_2(1 - z), continuous but for the negative axis."""
    w = 1 - z
    far = (np.abs(w) > 1) & (np.abs(z) > 1)
    mirrored = (w.real > 0.5) & ~far
    safe = np.where(w == 0, 0.5, w)
    inner = np.where(far, 1 / safe, np.where(mirrored, z, w))
    u = -log1p(-inner)
    square = u * u
    value = u - 0.25 * square + u * square * polynomial(square, DILOGARITHM)
    sixth = math.pi**2 / 6
    logarithm = np.log(np.where(far, z - 1, 1.0))
    zero = z == 0
    product = np.log(np.where(mirrored & ~zero, z, 1.0)) * log1p(np.where(mirrored, -z, 0.0))
    value = np.where(far, -sixth - 0.5 * logarithm * logarithm - value, value)
    return np.where(mirrored, sixth - product - value, value)


spence_op = holomorphic("complex_spence", spence, spence_slope)

# ---------------------------------------------------------------- Lambert's W


def lambertw(z: Array, k: int) -> Array:
    """The w with w exp(w) = z of a branch, by steps of Halley's from near it."""
    w = _near_lambertw(z, k)
    for _ in range(8):
        grown = np.exp(w)
        rest = w * grown - z
        above = w + 1
        step = rest / (grown * above - (w + 2) * rest / (2 * above))
        w = np.where(np.abs(rest) <= 1e-16 * np.abs(z), w, w - step)
    at_zero = 0.0 if k == 0 else -np.inf
    endless = np.isinf(z.real) | np.isinf(z.imag)
    return np.where(z == 0, at_zero, np.where(endless, np.log(z) + 2j * math.pi * k, w))


def _near_lambertw(z: Array, k: int) -> Array:
    safe = np.where(z == 0, 1.0, z)
    logarithm = np.log(safe) + 2j * math.pi * k
    far = logarithm - np.log(np.where(logarithm == 0, 1.0, logarithm))
    if abs(k) > 1:
        return far
    # around -1/e, where branches meet, by the root of the distance
    root = np.sqrt(2 * (math.e * z + 1))
    meet = -1 + root - root * root / 3 if k == 0 else -1 - root - root * root / 3
    near = np.abs(z + math.exp(-1)) < 0.3
    if k == 0:
        small = z * (1 + z * (4 / 3)) / (1 + z * (7 / 3 + z * (5 / 6)))
        inside = (np.abs(z.imag) < 1) & (z.real > -1) & (z.real < 1.5)
        inside &= z.real > -0.2 - 2.5 * np.abs(z.imag)  # beside the axis, not on it
        return np.where(near, meet, np.where(inside, small, far))
    # these meet the main branch from one side each; the negative axis belongs to the upper one
    side = z.imag >= 0 if k == -1 else z.imag < 0
    if k == -1:
        low = (z.imag == 0) & (z.real < 0) & (z.real > -math.exp(-1))
        size = np.log(np.where(low, -z.real, 0.1))
        far = np.where(low, size - np.log(-size), far)
    return np.where(near & side, meet, far)


def _lambertw_slope(ans: Any, z: Any, k: int) -> Any:
    """1 / (exp(w) (1 + w)), which is right at 0 too."""
    return exp(-ans) / (1 + ans)


lambertw_op: Op = holomorphic(
    "lambertw", lambertw, _lambertw_slope, params=({"k": 0}, {"k": -1}, {"k": 2})
)
