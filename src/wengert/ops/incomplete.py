"""The incomplete gamma and beta functions, and their derivatives by all arguments.

Each is an integral over one side of a hill. Of the two sides, the smaller is computed: in the
logarithm of its variable, from the end u = 0 where it is cut, the integrand falls all the way,

    P(a, x) = x^a e^-x / gamma(a)   integral of exp(-a u + x (1 - e^-u)),
    Q(a, x) = x^a e^-x / gamma(a)   integral of exp(a u - x (e^u - 1)),
    I(x; a, b) = x^a y^b / beta(a, b)   integral of e^(-a u) (y + x e^-u)^-(a + b),   y = 1 - x,

and one rule of quadrature as far as it matters is exact to the last bits, whatever a and b are.
Derivatives under the integral give factors u or logarithms: they are operations of the same family,
so that every order exists. Where an integrand falls slowly since a < 1, a is raised by one first,
by a recurrence whose terms are positive.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..types import Function
from . import rules
from . import special_coefficients as c
from .approximations import (
    LONG_POWERS,
    STIRLING,
    Array,
    choose,
    difference,
    log1pmx,
    polynomial,
    power_of_quotient,
    stirling_rest,
)
from .elementwise import exp, log, log1p, select, sqrt
from .floats import bits
from .logic import equal, greater_equal, less, less_equal, logical_and, logical_not
from .op import Op
from .special import SHAPE, betaln, polygamma, special

# Nodes and weights: a few, made for these functions themselves, and more for all else.
FEW_GAMMA = np.array(rules.GAMMA_NODES), np.array(rules.GAMMA_WEIGHTS)
FEW_BETA = np.array(rules.BETA_NODES), np.array(rules.BETA_WEIGHTS)
MANY = np.array(c.NODES_36), np.array(c.WEIGHTS_36)
# Added to a number, it leaves the nearest whole one in the last bits.
SHIFT = 1.5 * 2.0**52
# log(2) as a sum of a float of few bits and the rest.
LOG_2 = (0.6931471803691238, 1.9082149292705877e-10)
# Of parameters below this one side is nearly everything, and the other has a series of its own.
TINY = 0.25
# Integrands are followed until they are exp(-ENOUGH), further by MORE for each factor u. The rules
# of few nodes are for all that follows 0, in units of where the integrand is exp(-NEARLY).
ENOUGH, MORE, NEARLY = 37.0, 4.0, 32.0
# Beyond it the logarithm of a level has more digits than its distance from the tangent.
FAR_LEVEL = 1000.0


def exp_square(x: Array) -> Array:
    """exp(x) - 1 - x for |x| < 700, accurate near 0 too: 2^k (1 + r + r^2 p(r)) - 1 - x."""
    shifted = x * (1 / math.log(2)) + SHIFT
    k = shifted - SHIFT
    r = (x - k * LOG_2[0]) - k * LOG_2[1]
    power = bits((bits(shifted, dtype=np.dtype(np.int64)) + 1023) << 52, dtype=x.dtype)
    # where k = 0 all but the polynomial is exactly 0
    return power * (r * r * polynomial(r, c.EXP_SMALL)) + ((power - 1) + (power * r - x))


def _power(x: Array, n: int) -> Array:
    """x^n of a short n by products."""
    result = x
    for _ in range(n - 1):
        result = result * x
    return result


def along(numbers: np.ndarray, x: Array) -> np.ndarray:
    """The numbers along a first axis beside those of x."""
    return numbers.reshape((-1,) + (1,) * x.ndim)


# ---------------------------------------------------------------- gamma


def _is_lower(a: Array, x: Array) -> Array:
    """Whether the integral from 0 to x is the smaller one, or nearly."""
    return (x < a) | (x < 1)


def gamma_density(a: Array, x: Array) -> Array:
    """x^(a - 1) exp(-x) / gamma(a), the derivative of P(a, x)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        value = _raised_density(a, x)
        lower = np.where(a == 0, 0.0, np.where(x == 0, np.inf, a * value / x))
    return np.where(a < 1, lower, value)


def _raised_density(a: Array, x: Array) -> Array:
    """The same, but that of a + 1 where a < 1."""
    raised = a < 1
    above, power = np.where(raised, a + 1, a), np.where(raised, a, a - 1)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        return _gamma_power(above, power, x)


def _gamma_power(a: Array, power: Array, x: Array) -> Array:
    """x^power exp(-x) / gamma(a) for a >= 1, where the power is a - 1 but for rounding.

    That is (x / a)^power exp(a - x) and a factor that is neither large nor small. Around the
    maximum both are joined, since they cancel there.
    """
    rest = stirling_rest(a)

    def far(a: Array, power: Array, x: Array, rest: Array) -> Array:
        tiny = x < 1e-280  # the quotient would be shorter than x
        root, left = power_of_quotient(x, np.where(tiny, 1.0, a), power)
        left = np.where(tiny, -power * np.log(a), left)
        exponent, lost = difference(a, x)
        half = np.where(exponent < -3000, 0.0, root) * np.exp(0.5 * exponent)
        return half * (np.exp(left + lost - rest) / np.sqrt(2 * math.pi * a)) * half

    def near(a: Array, power: Array, x: Array, rest: Array) -> Array:
        exponent = a * log1pmx((x - a) / a, x / a) - rest
        return np.exp(exponent) * np.sqrt(a / (2 * math.pi)) / x

    apart = (a < 12) | ((a < LONG_POWERS) & ((x < 0.5 * a) | (x > 2 * a)))
    value = choose(apart, far, near, a, power, x, rest)
    return np.where(x == 0, np.where(power == 0, 1.0, 0.0), np.where(x == np.inf, 0.0, value))


def gamma_moment(a: Array, x: Array, n: int, k: int) -> Array:
    """The integral of u^n (1 - e^v)^k exp(a v + x (1 - e^v)), v = u, or -u on the lower side."""
    enough = ENOUGH + MORE * n if n or k else NEARLY
    return _gamma_integral(*gamma_span(a, x, enough), enough, n, k)


def gamma_span(a: Array, x: Array, enough: float) -> tuple[Array, Array, Array, Array]:
    """The exponent's slope at 0, x, the sign of v, and the u where the exponent is -enough."""
    lower = _is_lower(a, x)
    a = np.where(lower & (a < 1), a + 1, a)
    slope, turn = np.abs(x - a), np.where(lower, -1.0, 1.0)
    end = _lower_or_upper_end(lower, slope, np.maximum(a, 1.0), x, enough)
    return slope, x, turn, _refined(end, slope, x, turn, enough)


def upper_gamma(a: Array, x: Array) -> Array:
    """The integral of exp(a u + x (1 - e^u)) for x >= 1, x >= a."""
    slope = x - a
    end = _no_further(2 * ENOUGH / (slope + np.sqrt(slope * slope + 2 * ENOUGH * x)), x, ENOUGH)
    turn = np.ones_like(x)
    return _gamma_integral(slope, x, turn, _refined(end, slope, x, turn, ENOUGH), ENOUGH)


def _refined(end: Array, slope: Array, x: Array, turn: Array, enough: float) -> Array:
    """One step of Newton's method to the u where the exponent is -enough."""
    square = exp_square(turn * end)
    rest = slope * end + x * square - enough
    return end - rest / (slope + x * (end + turn * square))


def _gamma_integral(
    slope: Array, x: Array, turn: Array, end: Array, enough: float, n: int = 0, k: int = 0
) -> Array:
    """The moment from what `gamma_span` says."""
    nodes, weights = FEW_GAMMA if enough == NEARLY else MANY
    u = along(nodes, end) * end
    v = turn * u
    value = along(weights, end) * np.exp(-slope * u - x * exp_square(v))
    value = value * _power(u, n) if n else value
    value = value * _power(-np.expm1(v), k) if k else value
    return end * np.sum(value, axis=0)


def _lower_or_upper_end(lower: Array, slope: Array, a: Array, x: Array, enough: float) -> Array:
    """Beyond which u the integrand is nothing.

    On the upper side e^u - 1 - u >= u^2 / 2, on the lower one u - 1 + e^-u >= u^2 / (2 + u): both
    give an equation square u^2 + linear u = rest, solved without cancellation.
    """
    square, rest = np.where(lower, a, 0.5 * x), np.where(lower, 2 * enough, enough)
    linear = np.where(lower, 2 * slope - enough, slope)
    root = np.abs(linear) + np.sqrt(linear * linear + 4 * square * rest)
    rising = linear > 0
    end = np.where(rising, 2 * rest, root) / np.where(rising, root, 2 * square)
    return np.where(lower, end, _no_further(end, x, enough))


def _no_further(end: Array, x: Array, enough: float) -> Array:
    """Far out on the upper side, where e^u - 1 - u >= (e^u - 1) / 2."""
    far = np.log(1 + 2 * enough / np.maximum(x, 1e-300))
    return np.where(far > 1.3, np.minimum(end, far), end)


def _smaller_gamma(a: Array, x: Array) -> Array:
    """P(a, x) on the lower side, Q(a, x) on the upper one."""
    lower, small = _is_lower(a, x), a < 1
    raised, value = lower & small, _raised_density(a, x)
    front = np.where(small & ~lower, a * value / x, value)
    return front * (x * gamma_moment(a, x, 0, 0) + np.where(raised, 1.0, 0.0))


def gammainc(a: Array, x: Array, upper: bool) -> Array:
    """P(a, x), or Q(a, x) = 1 - P(a, x) if upper."""
    inside = (a > 0) & (x > 0) & (a < np.inf) & (x < np.inf)
    safe_a, safe_x = np.where(inside, a, 1.0), np.where(inside, x, 1.0)
    value, lower = _smaller_gamma(safe_a, safe_x), _is_lower(safe_a, safe_x)
    if upper:
        value = np.where(lower, 1 - value, value)
        small = lower & (safe_a < 0.5)
        value = choose(small, _gammaincc_small, lambda a, x, value: value, safe_a, safe_x, value)
    else:
        value = np.where(lower, value, 1 - value)
    # outside both are equal where both are 0 or infinite
    known = np.where((a >= 0) & (x >= 0) & (a != x), 0.0, np.nan)
    known = known + np.where((a == 0) | (x == np.inf), 1.0, 0.0)
    return np.where(inside, value, 1 - known if upper else known)


def _gammaincc_small(a: Array, x: Array, value: Array) -> Array:
    """Q(a, x) for small a and x < 1, without the cancellation of 1 - P."""
    exponent = a * np.log(x) - _log_gamma_above_one(a)
    total, term = np.zeros_like(x), np.ones_like(x)
    for k in range(1, 18):
        term = term * x * (-1 / k)
        total = total + term / (a + k)
    return -np.expm1(exponent) - np.exp(exponent) * a * total


def _log_gamma_above_one(a: Array) -> Array:
    """log gamma(1 + a) for 0 < a < 1/2, as in `approximations` without rounding 1 + a."""
    return -a * (1 - a) * polynomial((a - 0.25) / (a + 2.25), c.GAMMALN_LOW)


def _gamma_density_by_x(ans: Any, a: Any, x: Any) -> Any:
    at_zero = equal(x, 0)
    inside = ans * ((a - 1) / select(at_zero, 1.0, x) - 1)
    return select(at_zero, density(select(at_zero, a, 2.0) - 1, x) - ans, inside)


def _times_log(y: Any, x: Any) -> Any:
    """y log(x), and 0 for x = 0, where y is 0 too."""
    zero = equal(x, 0)
    return select(zero, 0.0, y * log(select(zero, 1.0, x)))


density: Op = special(
    "gamma_density",
    gamma_density,
    lambda ans, a, x: _times_log(ans, x) - ans * polygamma(a, n=0),
    _gamma_density_by_x,
    domains=((1.2, 4.0), (0.2, 4.0)),
)


def _turn(a: Any, x: Any) -> Any:
    """-1 on the lower side, 1 on the upper one."""
    return select(_lower(a, x), -1.0, 1.0)


def _lower(a: Any, x: Any) -> Any:
    return logical_not(logical_and(greater_equal(x, a), greater_equal(x, 1)))


moment: Op = special(
    "gamma_moment",
    gamma_moment,
    lambda ans, a, x, n, k: _turn(a, x) * moment(a, x, n=n + 1, k=k),
    lambda ans, a, x, n, k: moment(a, x, n=n, k=k + 1),
    domains=((2.2, 4.0), (0.2, 1.9)),
    params=({"n": 0, "k": 0}, {"n": 1, "k": 1}),
)


def _gammainc_by_a(ans: Any, a: Any, x: Any, upper: bool) -> Any:
    """By the factors in front of the integral and by the integral itself."""
    lower = _lower(a, x)
    raised = logical_and(lower, less(a, 1))
    zero = equal(x, 0)
    x = select(zero, 1.0, x)
    above = select(raised, a + 1, a)
    front = x * moment(a, x, n=0, k=0) + select(raised, 1.0, 0.0)
    inner = select(lower, -x, x) * moment(a, x, n=1, k=0)
    slope = density(above, x) * ((log(x) - polygamma(above, n=0)) * front + inner)
    return select(zero, 0.0, select(lower, -slope if upper else slope, slope if upper else -slope))


# P(a, x), or Q(a, x) = 1 - P(a, x) if upper.
incomplete_gamma: Op = special(
    "incomplete_gamma",
    gammainc,
    _gammainc_by_a,
    lambda ans, a, x, upper: -density(a, x) if upper else density(a, x),
    domains=((1.2, 4.0), (0.2, 6.0)),
    params=({"upper": False}, {"upper": True}),
)

# ---------------------------------------------------------------- beta


def _is_left(a: Array, b: Array, x: Array) -> Array:
    """Whether the integral from 0 to x is the one computed: x is below the mean, or nearly."""
    above, below = np.maximum(a, 1.0), np.maximum(b, 1.0)
    return x * below <= (1 - x) * above


def beta_density(a: Array, b: Array, x: Array) -> Array:
    """x^(a - 1) (1 - x)^(b - 1) / beta(a, b), the derivative of I(x; a, b)."""
    above = np.where(a < 1, a + 1, a)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        value = np.where(b < 1, b / (above + b) / (1 - x), 1.0) * _raised_beta(a, b, x)
        return np.where(a < 1, a / (a + b) / x, 1.0) * value


def _raised_beta(a: Array, b: Array, x: Array) -> Array:
    """The same, but that of a + 1 where a < 1, and of b + 1 where b < 1."""
    first, second = np.where(a < 1, a + 1, a), np.where(b < 1, b + 1, b)
    return _beta_power(first, second, np.where(a < 1, a, a - 1), np.where(b < 1, b, b - 1), x)


# Up to this sum of parameters half of the way to overflow holds all powers.
LONG_SUM = 1000.0


def _beta_power(a: Array, b: Array, left: Array, right: Array, x: Array) -> Array:
    """x^left (1 - x)^right / beta(a, b) for a, b >= 1; of powers a - 1, b - 1 but for rounding."""

    def plain(a: Array, b: Array, left: Array, right: Array, x: Array) -> Array:
        y, lost = difference(np.ones_like(x), x)
        root, rest = power_of_quotient(y, np.ones_like(y), right, lost)
        half, factor = _beta_parts(a, b)
        half = half * np.power(x, 0.5 * left) * root
        return half * (factor * np.exp(rest)) * half

    short = (a + b < LONG_SUM) | (a < 2) | (b < 2)
    inside = (x > 0) & (x < 1)
    power: Array = np.where(x == 0, left, right)
    end = np.where(power == 0, inverse_beta(a, b), 0.0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        large = lambda a, b, left, right, x: _beta_density_large(a, b, x)
        value = choose(short, plain, large, a, b, left, right, np.where(inside, x, 0.5))
    return np.where(inside, value, end)


def inverse_beta(a: Array, b: Array, divisor: Array = 1.0) -> Array:
    """1 / beta(a, b) / divisor for a, b >= 1."""
    half, factor = _beta_parts(a, b)
    return half * (factor / divisor) * half


def _beta_parts(a: Array, b: Array) -> tuple[Array, Array]:
    """Two numbers: the first twice times the second is 1 / beta(a, b), without overflow."""
    both = a + b
    lost = np.minimum(a, b) - (both - np.maximum(a, b))
    first, left = power_of_quotient(both, a, a, lost)
    second, right = power_of_quotient(both, b, b, lost)
    return first * second, np.exp(left + right + _beta_rest(a, b)) * _beta_root(a, b)


def _beta_density_large(a: Array, b: Array, x: Array) -> Array:
    """For a, b >= 1, as a deviation from the mean: nothing large cancels."""
    y = 1 - x
    away, both = x * b - y * a, a + b
    exponent = a * log1pmx(away / a, both * x / a) + b * log1pmx(-away / b, both * y / b)
    return np.exp(exponent + _beta_rest(a, b)) * _beta_root(a, b) / (x * y)


def _beta_rest(a: Array, b: Array) -> Array:
    return stirling_rest(a + b) - stirling_rest(a) - stirling_rest(b)


def _beta_root(a: Array, b: Array) -> Array:
    return np.sqrt(a / (a + b) * b / (2 * math.pi))


def beta_curve(u: Array, share: Array, turn: Array) -> tuple[Array, Array, Array]:
    """What the logarithm of 1 + share (e^v - 1), v = turn u, is above its tangent at u = 0.

    With that logarithm's argument, and e^v - 1. Of x and y `share` is the smaller one: so neither
    the argument nor the difference is one of large numbers.
    """
    v = turn * u
    square = exp_square(v)
    grown = v + square
    level = 1 + share * grown
    return share * square + log1pmx(share * grown, level), level, grown


def beta_moment(a: Array, b: Array, x: Array, m: int, n: int, k: int) -> Array:
    """The integral of L^m M^n R^k e^(-a u) q^-(a + b), q = y + x e^-u, over the smaller side.

    L and M are the derivatives of the logarithm by a and b, (a + b) R that by x.
    """
    enough = ENOUGH + MORE * (m + n) if m or n or k else NEARLY
    both, slope, share, turn, end = beta_span(a, b, x, enough)
    left = _is_left(a, b, x)
    nodes, weights = MANY if m or n or k else FEW_BETA
    u = along(nodes, end) * end
    curve, level, grown = beta_curve(u, share, turn)
    if m or n or k:
        # far out, where the integrand of the value itself does not reach, that is a difference of
        # large numbers, and what it has lost would be in an exponent
        logarithm = np.log(level)
        curve = np.where(level > FAR_LEVEL, logarithm - share * (turn * u), curve)
    value = along(weights, end) * np.exp(-slope * u - both * curve)
    if m or n:
        inner, outer = np.where(turn < 0, -u, 0.0), np.where(turn < 0, 0.0, u)
        for by_near, count in ((left, m), (~left, n)):
            factor = np.where(by_near, inner, outer) - logarithm
            value = value * _power(factor, count) if count else value
    if k:
        away = np.abs(grown) / level
        value = value * _power(np.where(left, away, -away), k)
    return end * np.sum(value, axis=0)


def beta_span(a: Array, b: Array, x: Array, enough: float) -> tuple[Array, ...]:
    """a + b, the exponent's slope at 0, what `beta_curve` asks for, and where it is -enough."""
    left, y = _is_left(a, b, x), 1 - x
    near: Array = np.where(left, a, b)
    near, far = np.where(near < 1, near + 1, near), np.where(left, b, a)
    share, turn = np.minimum(x, y), np.where(left == (x < y), -1.0, 1.0)
    slope = np.where(left, near * y - far * x, near * x - far * y)
    most = (enough - (near + far) * np.log(np.where(left, y, x))) / near
    return near + far, slope, share, turn, _beta_end(near + far, slope, share, turn, most, enough)


def _beta_end(
    both: Array, slope: Array, share: Array, turn: Array, most: Array, enough: float
) -> Array:
    """Beyond which u the integrand is nothing, by steps of Newton's method.

    They start from where a parabola ends; where e^v is large, from where half of the logarithm of
    `beta_curve` does, whatever the other half: there they would be many, each a step of one in v.
    """
    square = 2 * enough * both * share * (1 - share)
    end = np.minimum(2 * enough / (slope + np.sqrt(slope * slope + square)), most)
    far = np.log1p(np.expm1(2 * enough / both) / share)
    end = np.where((turn > 0) & (far > 1.3), np.minimum(end, far), end)
    for _ in range(2):
        # as `beta_curve`, but for the cancellation near 0, which does not matter here
        v = turn * end
        grown = np.expm1(v)
        level = 1 + share * grown
        rest = slope * end + both * (np.log(level) - share * v) - enough
        steeper = both * share * (1 - share) * np.abs(grown) / level
        end = np.minimum(end - rest / (slope + steeper), most)
    return end


def betainc(a: Array, b: Array, x: Array, upper: bool = False) -> Array:
    """I(x; a, b), the regularized incomplete beta function, or 1 less it if upper."""
    inside = (a > 0) & (b > 0) & (x > 0) & (x < 1) & (a < np.inf) & (b < np.inf)
    first, second = np.where(inside, a, 0.5), np.where(inside, b, 0.5)
    at: Array = np.where(inside, x, 0.5)
    left = _is_left(first, second, at)
    near, far = np.where(left, first, second), np.where(left, second, first)
    side = np.where(left, 1 - at, at)
    step = np.where(near < 1, side / (first + second), 0.0)
    front = at * (1 - at) * beta_moment(first, second, at, 0, 0, 0) + step
    lowered = np.where(far < 1, far / (np.where(near < 1, near + 1, near) + far) / side, 1.0)
    value = _raised_beta(first, second, at) * lowered * front
    value = np.where(left != upper, value, 1 - value)
    allowed = (a >= 0) & (b >= 0) & (a + b > 0) & (a < np.inf) & (b < np.inf)
    known = np.where((x == 0) | (b == 0), 0.0, np.where((x == 1) | (a == 0), 1.0, np.nan))
    known = np.where(allowed & (x >= 0) & (x <= 1), known, np.nan)
    return np.where(inside, value, 1 - known if upper else known)


def _betainc_small(a: Array, b: Array, y: Array) -> Array:
    """1 - I(y; b, a) for small b and y < 1/2, without the cancellation.

    I is y^b / (b beta(a, b)) times the series 1 + b sum of (1 - a)_k y^k / (k! (b + k)).
    """
    q, total = a * y, 1 / (b + 44)
    for k in range(43, 0, -1):
        total = 1 / (b + k) + (y - q * (1 / (k + 1))) * total
    total = (y - q) * total
    exponent = b * np.log(y) - _log_gamma_above_one(b) + _log_gamma_step(a, b)
    return -np.expm1(exponent) - np.exp(exponent) * b * total


def _log_gamma_step(a: Array, b: Array) -> Array:
    """log gamma(a + b) - log gamma(a) for b < 1, accurate as a part of b."""
    # the product of 1 + b / (a + k) less 1, two factors by one division
    grown = np.zeros_like(a)
    for k in range(0, 8, 2):
        low, high = a + k, a + (k + 1)
        pair = b * (low + high + b) / (low * high)
        grown = grown + pair + grown * pair
    up = a + 8
    total = (up - 0.5) * np.log1p(b / up) + b * (np.log(up + b) - 1) - np.log1p(grown)
    # Stirling's series: differences of powers of 1 / (up + b) and 1 / up as products
    first, second = 1 / up, 1 / (up + b)
    difference, power, rest = np.ones_like(a), first, np.zeros_like(a)
    for coefficient in STIRLING[:6]:
        rest = rest + coefficient * difference
        for _ in range(2):
            difference, power = second * difference + power, power * first
    return total - b * first * second * rest


def _left(a: Any, b: Any, x: Any) -> Any:
    above, below = (select(less(value, 1), 1.0, value) for value in (a, b))
    return less_equal(x * below, (1 - x) * above)


def _beta_density_by_x(ans: Any, a: Any, b: Any, x: Any) -> Any:
    inside = logical_and(less(0.0, x), less(x, 1.0))
    safe = select(inside, x, 0.5)
    return select(inside, ans * ((a - 1) / safe - (b - 1) / (1 - safe)), np.nan)


def _by_parameter(a: Any, b: Any) -> Any:
    """The derivative of -log beta(a, b) by a."""
    return polygamma(a + b, n=0) - polygamma(a, n=0)


density_beta: Op = special(
    "beta_density",
    beta_density,
    lambda ans, a, b, x: _times_log(ans, x) + ans * _by_parameter(a, b),
    lambda ans, a, b, x: _times_log(ans, 1 - x) + ans * _by_parameter(b, a),
    _beta_density_by_x,
    domains=(SHAPE, SHAPE, (0.1, 0.9)),
)


def _beta_moment_by_x(ans: Any, a: Any, b: Any, x: Any, m: int, n: int, k: int) -> Any:
    left = _left(a, b, x)
    raised = less(select(left, a, b), 1)
    both = a + b + k + select(raised, 1.0, 0.0)
    slope = both * moment_beta(a, b, x, m=m, n=n, k=k + 1)
    slope = slope + m * moment_beta(a, b, x, m=m - 1, n=n, k=k + 1) if m else slope
    return slope + n * moment_beta(a, b, x, m=m, n=n - 1, k=k + 1) if n else slope


moment_beta: Op = special(
    "beta_moment",
    beta_moment,
    lambda ans, a, b, x, m, n, k: moment_beta(a, b, x, m=m + 1, n=n, k=k),
    lambda ans, a, b, x, m, n, k: moment_beta(a, b, x, m=m, n=n + 1, k=k),
    _beta_moment_by_x,
    domains=((1.2, 2.0), (2.2, 4.0), (0.05, 0.2)),
    params=({"m": 0, "n": 0, "k": 0}, {"m": 1, "n": 1, "k": 1}),
)


def _betainc_by(parameter: str) -> Function:
    """The derivative by a or b: of the factors in front of the integral and of itself."""

    def rule(ans: Any, a: Any, b: Any, x: Any, upper: bool = False) -> Any:
        edge = logical_not(logical_and(less(0.0, x), less(x, 1.0)))
        x = select(edge, 0.5, x)
        left = _left(a, b, x)
        raised = less(select(left, a, b), 1)
        above = select(logical_and(left, raised), a + 1, a)
        below = select(logical_and(logical_not(left), raised), b + 1, b)
        step = select(raised, select(left, 1 - x, x) / (a + b), 0.0)
        by_a = parameter == "a"
        inner = moment_beta(a, b, x, m=int(by_a), n=int(not by_a), k=0)
        front = x * (1 - x) * moment_beta(a, b, x, m=0, n=0, k=0) + step
        outer = log(x) + _by_parameter(above, below)
        outer = outer if by_a else log(1 - x) + _by_parameter(below, above)
        slope = outer * front + x * (1 - x) * inner - step / (a + b)
        slope = density_beta(above, below, x) * slope
        slope = select(edge, 0.0, select(left, slope, -slope))
        return -slope if upper else slope

    return rule


# I(x; a, b), or 1 less it if upper.
incomplete_beta: Op = special(
    "incomplete_beta",
    betainc,
    _betainc_by("a"),
    _betainc_by("b"),
    lambda ans, a, b, x, upper: -density_beta(a, b, x) if upper else density_beta(a, b, x),
    domains=((1.2, 3.0), (1.2, 3.0), (0.1, 0.9)),
    params=({"upper": False}, {"upper": True}),
)

# 1 - I(y; b, a) for b < TINY and y < 1/2.
rest_beta: Op = special(
    "incomplete_beta_rest",
    _betainc_small,
    lambda ans, a, b, y: _betainc_by("a")(ans, a, b, 1 - y),
    lambda ans, a, b, y: _betainc_by("b")(ans, a, b, 1 - y),
    lambda ans, a, b, y: -density_beta(a, b, 1 - y),
    domains=(SHAPE, (0.1, 0.24), (0.1, 0.4)),
)


def regularized_beta(a: Any, b: Any, x: Any, upper: bool) -> Any:
    """I(x; a, b), or 1 less it if upper: the rest of a tiny parameter by its own operation."""
    value, left = incomplete_beta(a, b, x, upper=upper), _left(a, b, x)
    other, small, y = (b, a, x) if upper else (a, b, 1 - x)
    side = left if upper else logical_not(left)
    tiny = logical_and(side, logical_and(less(0.0, small), less(small, TINY)))
    tiny = logical_and(tiny, logical_and(less(0.0, y), less(0.0, other)))
    other, small, y = (select(tiny, one, 0.2) for one in (other, small, y))
    return select(tiny, rest_beta(other, small, y), value)


# ---------------------------------------------------------------- Student's t


def student_t(df: Array, x: Array) -> Array:
    """The distribution function of Student's t, by the one of two parts that is small."""
    square = x * x
    with np.errstate(invalid="ignore", over="ignore"):
        centre = square < df
        part = np.where(centre, square, df) / (df + square)
        part = np.where(np.isinf(square), 0.0, part)
        half, other = np.full_like(df, 0.5), 0.5 * df
        near, far = betainc(half, other, part, upper=True), betainc(other, half, part)
    tail: Array = np.where(centre, 0.5 * near, 0.5 * far)
    return np.where(x > 0, 1 - tail, tail)


def _student_density(df: Any, x: Any) -> Any:
    root = sqrt(df) * exp(betaln(df * 0.5, 0.5))
    return exp(log1p(x * x / df) * (df + 1) * -0.5) / root


def _student_by_df(ans: Any, df: Any, x: Any) -> Any:
    zero = equal(x, 0)
    square = select(zero, 1.0, x * x)
    share = df / (df + square)
    by_share = density_beta(0.5 * df, 0.5, share) * square / (df + square) ** 2
    slope = 0.25 * _betainc_by("a")(None, 0.5 * df, 0.5, share) + 0.5 * by_share
    return select(zero, 0.0, select(less(x, 0.0), slope, -slope))


student: Op = special(
    "student_t",
    student_t,
    _student_by_df,
    lambda ans, df, x: _student_density(df, x),
    domains=((1.5, 6.0), (0.3, 4.0)),
)
