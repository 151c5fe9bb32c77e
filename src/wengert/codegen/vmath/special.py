"""The error function, its complement and its inverse; the normal distribution function."""

from __future__ import annotations

from . import coefficients as c
from .doubled import Pair, divide, fast_two_sum, multiply, square_root, two_sum
from .exponential import exp_of_wide, exp_pair, reduce
from .lanes import F32, F64, Emitter, Lanes
from .logarithm import log_pair

INFINITY, NAN = float("inf"), float("nan")
ROOT_HALF = 0.7071067811865476
# The root of 2 in two parts.
ROOT_TWO, ROOT_TWO_REST = 1.4142135623730951, -9.667293313452913e-17


def erf(k: Emitter, x: Lanes) -> Lanes:
    """Error function: x + x Q(x^2) below 1, above it 1 - exp(log(erfc(|x|)))."""
    bits = k.format.bits
    size = k.absolute(x)
    square = x * x
    small = k.mad(x, k.polynomial(square, c.ERF[bits]), x)
    limit = 6.0 if k.format is F64 else 4.0
    beyond = k.select(size > limit, limit, size) - 1.0
    high, low, n = exp_pair(k, -k.polynomial(beyond, c.MINUS_LOG_ERFC[bits]))
    large = 1.0 - (high + low) * k.power_of_two(n)
    return k.copysign(k.select(size < 1.0, small, large), x)


def erfc(k: Emitter, x: Lanes) -> Lanes:
    """Complementary error function: exp(-x^2) P(q) / (1 + 2|x|) with q = (|x| - 4) / (|x| + 4).

    float32 goes through float64; float64 keeps pairs, and takes 1 - erf(x) below 1/2.
    """
    size = k.absolute(x)
    falling = _erfc_narrow(k, size) if k.format is F32 else _erfc_wide(k, size)
    result = k.select(x < 0.0, 2.0 - falling, falling)
    if k.format is F32:
        return result
    total, error = fast_two_sum(k.constant(1.0), -x)
    central = total + (error - x * k.polynomial(x * x, c.ERF[64]))
    return k.select(size < 0.5, central, result)


def _erfc_narrow(k: Emitter, size: Lanes) -> Lanes:
    wide = k.sibling(F64)
    a = k.widen(k.select(size > 10.5, 10.5, size))
    centred, bottom = a + 4.0, wide.mad(a, 2.0, 1.0)
    both = 1.0 / (centred * bottom)  # one division serves two quotients
    q = (a - 4.0) * (bottom * both)
    value = wide.polynomial(q, c.ERFCX_WIDE[64]) * (centred * both)
    return k.narrow(exp_of_wide(wide, -(a * a)) * value)


def _erfc_wide(k: Emitter, size: Lanes) -> Lanes:
    a = k.select(size > 28.0, 28.0, size)
    square, error = k.two_product(a, a)
    high, low, n = exp_pair(k, -square, -error)
    above = multiply(k, (high, low), _erfcx_above(k, a))
    quotient, rest = divide(k, above, two_sum(k.constant(1.0), a + a))
    return k.scale(quotient + rest, n)


def _erfcx_above(k: Emitter, a: Lanes) -> Pair:
    """(1 + 2a) exp(a^2) erfc(a) for a >= 1/2."""
    q = (a - 4.0) / (a + 4.0)
    first, *others = c.ERFCX[64]
    return fast_two_sum(k.constant(first), q * k.polynomial(q, others))


def ndtr(k: Emitter, x: Lanes) -> Lanes:
    """Normal distribution function: its lower tail at -|x|, or 1 less that."""
    tail = _tail_narrow(k, k.absolute(x)) if k.format is F32 else _tail_wide(k, k.absolute(x))
    return k.select(x > 0.0, 1.0 - tail, tail)


def _tail_narrow(k: Emitter, size: Lanes) -> Lanes:
    """exp(-x^2 / 2) P(q) / (1 + x) with q = (x - 3) / (x + 3)."""
    a = k.select(size > 14.5, 14.5, size)
    square, error = k.two_product(a, a)
    r, rest, n = reduce(k, square * -0.5, error * -0.5)
    near = fast_two_sum(k.constant(1.0), r + k.mad(r * r, k.polynomial(r, c.EXP[32]), rest))
    centred, (bottom, lost) = a + 3.0, two_sum(k.constant(1.0), a)
    both = 1.0 / (centred * bottom)  # one division serves two quotients
    q, reciprocal = (a - 3.0) * (bottom * both), centred * both
    missing = k.exact_fma(-reciprocal, bottom, k.constant(1.0)) - reciprocal * lost
    first, *others = c.NDTR[32]
    value = fast_two_sum(k.constant(first), q * k.polynomial(q, others))
    high, low = multiply(k, near, value)
    total, rounded = k.two_product(reciprocal, high)
    return k.scale(total + k.mad(reciprocal, k.mad(high, missing, low), rounded), n)


def _tail_wide(k: Emitter, size: Lanes) -> Lanes:
    """erfc(x / sqrt(2)) / 2 as `erfc` has it, but with the square of x itself."""
    a = k.select(size > 39.0, 39.0, size)
    square, error = k.two_product(a, a)
    high, low, n = exp_pair(k, square * -0.5, error * -0.5)
    above = multiply(k, (high, low), _erfcx_above(k, a * ROOT_HALF))
    double, lost = k.two_product(a, k.constant(ROOT_TWO))
    bottom, rest = two_sum(k.constant(1.0), double)
    quotient, more = divide(k, above, (bottom, rest + k.mad(a, ROOT_TWO_REST, lost)))
    far = k.scale(quotient + more, n - 1)
    central = 0.5 - (0.5 * ROOT_HALF) * k.mad(a, k.polynomial(0.5 * square, c.ERF[64]), a)
    return k.select(size < 0.75, central, far)


def erfinv(k: Emitter, x: Lanes) -> Lanes:
    """Inverse of erf: x + x R(x^2) below 1/2, above it t + G(t) with t = sqrt(-log(1 - |x|))."""
    bits = k.format.bits
    size = k.absolute(x)
    central = k.mad(size, k.polynomial(x * x, c.ERFINV[bits]), size)
    high, low = log_pair(k, 1.0 - size)
    root, rest = square_root(k, fast_two_sum(-high, -low))
    q = (root - 2.0) / (root + 2.0)
    first, *others = c.ERFINV_TAIL[bits]
    total, error = fast_two_sum(root, k.constant(first))
    tail = total + (error + k.mad(q, k.polynomial(q, others), rest))
    result = k.select(size < 0.5, central, tail)
    result = k.select(size < 1.0, result, k.select(size.equals(1.0), k.constant(INFINITY), NAN))
    return k.copysign(result, x)


FUNCTIONS = {"erf": erf, "erfc": erfc, "erfinv": erfinv, "ndtr": ndtr}
