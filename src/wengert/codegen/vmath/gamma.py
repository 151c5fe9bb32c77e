"""The logarithm of the gamma function and its derivative.

From 4 on an asymptotic series, fitted; below, steps of the recurrence to an interval of length 1,
where a polynomial keeps the function's zero exact. Positive arguments keep the bound of 2 ulp.
Negative ones go through the reflection formula, whose terms cancel at a zero between each two
poles; there the error is a few ulp of the larger term.
"""

from __future__ import annotations

from . import coefficients as c
from .doubled import Pair, divide, fast_two_sum, multiply, two_sum
from .lanes import Emitter, Lanes
from .logarithm import log, log_pair
from .trigonometric import HALF_PI, cos_pair, sin_pair

INFINITY, NAN = float("inf"), float("nan")
PI, LOG_PI = 3.141592653589793, 1.1447298858494002
# In two parts: 1 minus Euler's constant, (log(2 pi) - 1) / 2, the positive zero of digamma.
ONE_MINUS_EULER = {
    64: (0.42278433509846713, 4.942915152430645e-18),
    32: (0.42278432846069336, 6.637773780018488e-09),
}
STIRLING_CONSTANT = {
    64: (0.4189385332046727, 1.6728209650585413e-17),
    32: (0.418938547372818, -1.4168145251383733e-08),
}
DIGAMMA_ROOT = {
    64: (1.4616321449683622, 9.549995429965697e-17),
    32: (1.4616321325302124, 1.2438149938918909e-08),
}


def gammaln(k: Emitter, x: Lanes) -> Lanes:
    """log(|gamma(x)|)."""
    a = k.absolute(x)
    positive = _gammaln_positive(k, a)
    sine, _ = _half_turns(k, a)
    reflected = (LOG_PI - log(k, a * k.absolute(sine))) - positive
    # Near 0 both signs agree to the last bit, and the product above would underflow.
    result = k.select((x < 0.0) & (a > 2.0**-60), reflected, positive)
    pole = (x <= 0.0) & sine.equals(0.0)
    result = k.select(pole | a.equals(INFINITY), INFINITY, result)
    return k.select(x.is_nan(), x, result)


def _gammaln_positive(k: Emitter, a: Lanes) -> Lanes:
    """gammaln(a) = log of the recurrence's product + gammaln(2 + t), or Stirling's formula."""
    series = a >= 4.0
    below_half, below_three_halves = a < 0.5, a < 1.5
    first = k.select(below_three_halves, a, k.select(a < 2.5, 1.0, a - 1.0))
    raised = 1.0 + a
    second = k.select(below_half, raised, k.select(a < 3.5, 1.0, a - 2.0))
    product, low = k.two_product(first, second)
    low = k.mad(first, k.select(below_half, a - (raised - 1.0), 0.0), low)
    logarithm = log_pair(k, k.select(series, a, product), k.select(series, 0.0, low))
    steps = k.select(below_half, 0.0, k.select(below_three_halves, 1.0, k.constant(2.0)))
    steps = k.select(a < 2.5, steps, k.select(a < 3.5, k.constant(3.0), 4.0))
    high, rest = (k.select(below_three_halves, -part, part) for part in logarithm)
    central = _central(k, a - steps, (high, rest))
    return k.select(series, _stirling(k, a, logarithm), central)


def _central(k: Emitter, t: Lanes, logarithm: Pair) -> Lanes:
    """gammaln(2 + t) plus a logarithm, for |t| <= 1/2; pairs, since the two nearly cancel."""
    slope_high, slope_low = ONE_MINUS_EULER[k.format.bits]
    curvature, *others = c.GAMMALN[k.format.bits]
    bent = fast_two_sum(k.constant(curvature), t * k.polynomial(t, others))
    bent = _times(k, t, bent)
    slope, lost = fast_two_sum(k.constant(slope_high), bent[0])
    high, low = _times(k, t, (slope, lost + (bent[1] + slope_low)))
    total, error = two_sum(logarithm[0], high)
    return total + (error + (logarithm[1] + low))


def _times(k: Emitter, factor: Lanes, pair: Pair) -> Pair:
    high, low = k.two_product(factor, pair[0])
    return high, k.mad(factor, pair[1], low)


def _stirling(k: Emitter, a: Lanes, logarithm: Pair) -> Lanes:
    high, error = two_sum(logarithm[0], k.constant(-1.0))
    below = (high, error + logarithm[1])
    leading = multiply(k, below, two_sum(a, k.constant(-0.5)))
    constant_high, constant_low = STIRLING_CONSTANT[k.format.bits]
    inverse = 1.0 / a
    rest = k.mad(inverse, k.polynomial(inverse * inverse, c.STIRLING[k.format.bits]), constant_low)
    total, lost = fast_two_sum(leading[0], k.constant(constant_high))
    usual = total + (lost + (leading[1] + rest))
    # Far out only the first term is left, and the pair's products might leave the range.
    return k.select(a > 2.0**60, a * (below[0] + below[1]), usual)


def digamma(k: Emitter, x: Lanes) -> Lanes:
    """Derivative of gammaln."""
    a = k.absolute(x)
    positive = k.select(a >= 4.0, _digamma_series(k, a), _digamma_central(k, a))
    positive = k.select(a < INFINITY, positive, a)
    sine, cosine = _half_turns(k, a)
    reflected = positive + (1.0 / a + PI * (cosine / sine))
    reflected = k.select(sine.equals(0.0), NAN, reflected)
    result = k.select(x < 0.0, reflected, positive)
    # Near 0 only the pole is left.
    return k.select(a < 2.0**-60, -1.0 / x, result)


def _digamma_series(k: Emitter, a: Lanes) -> Lanes:
    high, low = log_pair(k, a)
    inverse = 1.0 / a
    square = inverse * inverse
    rest = k.mad(square, k.polynomial(square, c.DIGAMMA_REST[k.format.bits]), 0.5 * inverse)
    return high + (low - rest)


def _digamma_central(k: Emitter, a: Lanes) -> Lanes:
    """digamma(y) for y in [1, 2] plus the fractions of the recurrence, as one quotient."""
    below_one, below_two, below_three = a < 1.0, a < 2.0, a < 3.0
    raised = 1.0 + a
    y = k.select(below_one, raised, k.select(below_two, a, k.select(below_three, a - 1.0, a - 2.0)))
    y_low = k.select(below_one, a - (raised - 1.0), 0.0)
    top = k.select(below_two, k.constant(0.0), k.select(below_three, 1.0, a + (a - 3.0)))
    top = k.select(below_one, -1.0, top)
    first = k.select(below_one, a, k.select(below_two, 1.0, a - 1.0))
    bottom = k.two_product(first, k.select(below_three, 1.0, a - 2.0))
    fractions = divide(k, (top, k.constant(0.0)), bottom)
    root_high, root_low = DIGAMMA_ROOT[k.format.bits]
    away, away_low = y - root_high, y_low - root_low
    first_coefficient, *others = c.DIGAMMA[k.format.bits]
    v = y - 1.5
    slope = fast_two_sum(k.constant(first_coefficient), v * k.polynomial(v, others))
    high, low = multiply(k, (away, away_low), slope)
    total, error = two_sum(fractions[0], high)
    return total + (error + (fractions[1] + low))


def _half_turns(k: Emitter, a: Lanes) -> Pair:
    """Return sin(pi a) and cos(pi a), both up to one common sign."""
    r = a - k.rounded("rint", a)
    size = k.absolute(r)
    outer = size > 0.25
    w = k.select(outer, 0.5 - size, size)
    half_pi = HALF_PI[k.format.bits]
    pi = (k.constant(2.0 * half_pi[0]), k.constant(2.0 * half_pi[1]))
    angle = _times(k, w, pi)
    sine, cosine = sin_pair(k, angle), cos_pair(k, angle)
    s, t = sine[0] + sine[1], cosine[0] + cosine[1]
    return k.copysign(k.select(outer, t, s), r), k.select(outer, s, t)


FUNCTIONS = {"gammaln": gammaln, "digamma": digamma}
