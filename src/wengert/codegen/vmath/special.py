"""The error function and its complement; the tail of the normal distribution."""

from __future__ import annotations

from . import coefficients as c
from .doubled import Pair, divide, fast_two_sum, multiply, two_sum
from .exponential import exp_of_wide, exp_pair, reduce
from .lanes import F32, F64, Emitter, Lanes

ROOT_HALF = 0.7071067811865476
# The root of 2 in two parts.
ROOT_TWO, ROOT_TWO_REST = 1.4142135623730951, -9.667293313452913e-17
# Of x times `mills`, in 1 / x^2.
MILLS_SERIES = tuple(0.3989422804014327 * n for n in (1, -1, 3, -15, 105, -945, 10395))


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


def gauss(k: Emitter, x: Lanes) -> Lanes:
    """exp(-x^2 / 2), with the error of the square."""
    wide = k.format is F64
    size = k.absolute(x)
    limit = 39.0 if wide else 14.5
    a = k.select(size > limit, limit, size)
    square, error = k.two_product(a, a)
    if wide:
        high, low, n = exp_pair(k, square * -0.5, error * -0.5)
        return k.scale_down(high + low, n)
    r, rest, n = reduce(k, square * -0.5, error * -0.5)
    return k.scale_down(1.0 + (r + k.mad(r * r, k.polynomial(r, c.EXP[32]), rest)), n)


def mills(k: Emitter, x: Lanes) -> Lanes:
    """exp(x^2 / 2) times the normal distribution function at -|x|: it falls like 0.4 / |x|."""
    size = k.absolute(x)
    return _mills_wide(k, size) if k.format is F64 else _mills_narrow(k, size)


def _mills_narrow(k: Emitter, size: Lanes) -> Lanes:
    """P(q) / (1 + x) with q = (x - 3) / (x + 3)."""
    huge = size > 1e18  # the product of the denominators would overflow
    centred, bottom = k.select(huge, 1.0, size + 3.0), size + 1.0
    both = 1.0 / (centred * bottom)  # one division serves two quotients
    q, reciprocal = (size - 3.0) * (bottom * both), centred * both
    missing = k.exact_fma(-reciprocal, size, 1.0 - reciprocal)
    first, *others = c.MILLS[32]
    value, low = fast_two_sum(k.constant(first), q * k.polynomial(q, others))
    quotient, rest = k.two_product(reciprocal, value)
    result = quotient + k.mad(reciprocal, k.mad(value, missing, low), rest)
    return k.select(huge, reciprocal * MILLS_SERIES[0], result)


def _mills_wide(k: Emitter, size: Lanes) -> Lanes:
    """exp(x^2 / 2) erfc(x / sqrt(2)) / 2 as `erfc` has it; beyond, the asymptotic series."""
    a = k.select(size > 39.0, 39.0, size)
    double, lost = k.two_product(a, k.constant(ROOT_TWO))
    bottom, rest = two_sum(k.constant(1.0), double)
    above = _erfcx_above(k, a * ROOT_HALF)
    quotient, more = divide(k, above, (bottom, rest + k.mad(a, ROOT_TWO_REST, lost)))
    half = 0.5 * a * a
    tail = 0.5 - (0.5 * ROOT_HALF) * k.mad(a, k.polynomial(half, c.ERF[64]), a)
    high, low, n = exp_pair(k, half)
    central = k.scale(high + low, n) * tail
    near = k.select(size < 0.75, central, 0.5 * (quotient + more))
    inverse = 1.0 / size
    far = inverse * k.polynomial(inverse * inverse, MILLS_SERIES)
    return k.select(size > 39.0, far, near)


FUNCTIONS = {"erf": erf, "erfc": erfc, "gauss": gauss, "mills": mills}
