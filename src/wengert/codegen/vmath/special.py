"""The error function, its complement and its inverse."""

from __future__ import annotations

from . import coefficients as c
from .doubled import divide, fast_two_sum, multiply, square_root, two_sum
from .exponential import exp_of_wide, exp_pair
from .lanes import F32, F64, Emitter, Lanes
from .logarithm import log_pair

INFINITY, NAN = float("inf"), float("nan")


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
    q = (a - 4.0) / (a + 4.0)
    first, *others = c.ERFCX[64]
    value = fast_two_sum(k.constant(first), q * k.polynomial(q, others))
    quotient, rest = divide(k, multiply(k, (high, low), value), two_sum(k.constant(1.0), a + a))
    return k.scale(quotient + rest, n)


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


FUNCTIONS = {"erf": erf, "erfc": erfc, "erfinv": erfinv}
