"""exp and its relatives: x = n ln(2) + r, a polynomial for exp(r), a shift of the exponent by n."""

from __future__ import annotations

from . import coefficients as c
from .doubled import fast_two_sum
from .lanes import F64, Emitter, Lanes

LOG2_E = 1.4426950408889634
# ln(2) in two parts; n times the first is exact for every exponent n of the format.
LN2_PARTS = {
    64: (float.fromhex("0x1.62e42fefa3800p-1"), float.fromhex("0x1.ef35793c76730p-45")),
    32: (float.fromhex("0x1.62e4p-1"), float.fromhex("0x1.7f7d1cf79abcap-20")),
}
# Beyond these exp is 0 or infinite, also after rounding.
EXP_RANGE = {64: (-746.0, 710.0), 32: (-104.0, 89.0)}
# e^-|x| times 2 to this is no subnormal number in that range.
SIGMOID_SHIFT = {64: 54, 32: 25}
# Up to here tanh is below 1/4; beyond the other it is 1.
TANH_NEAR, TANH_LIMIT = 0.2554, 22.0
EXP2_RANGE = {64: (-1076.0, 1025.0), 32: (-151.0, 129.0)}


def reduce(k: Emitter, x: Lanes, low: Lanes | None = None) -> tuple[Lanes, Lanes, Lanes]:
    """Return r, its rounding error and the tag of n with x + low = n ln(2) + r."""
    ln2_high, ln2_low = LN2_PARTS[k.format.bits]
    n, integer = k.round_product(x, LOG2_E)
    head = k.mad(n, -ln2_high, x)
    tail = n * ln2_low
    if low is not None:
        tail = tail - low
    r = head - tail
    return r, (head - r) - tail, integer


def exp_pair(k: Emitter, x: Lanes, low: Lanes | None = None) -> tuple[Lanes, Lanes, Lanes]:
    """Return (high, low, tag of n): exp(x + low) = (high + low) 2^n, to more bits than a float."""
    r, error, n = reduce(k, x, low)
    small = k.mad(r * r, k.polynomial(r, c.EXP[k.format.bits]), error)
    high, lost = fast_two_sum(k.constant(1.0), r)
    return *fast_two_sum(high, lost + small), n


def exp(k: Emitter, x: Lanes) -> Lanes:
    """e^x."""
    x = k.clamp(x, *EXP_RANGE[k.format.bits])
    near, _, n = _exp_near_one(k, x)
    return k.scale(near, n)


def _exp_near_one(k: Emitter, x: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """Return e^r, e^r - 1 and the tag of n with x = n ln(2) + r."""
    ln2_high, ln2_low = LN2_PARTS[k.format.bits]
    n, integer = k.round_product(x, LOG2_E)
    r = k.mad(n, -ln2_low, k.mad(n, -ln2_high, x))
    tail = k.mad(r * r, k.polynomial(r, c.EXP[k.format.bits]), r)
    return tail + 1.0, tail, integer


def exp2(k: Emitter, x: Lanes) -> Lanes:
    """2^x."""
    x = k.clamp(x, *EXP2_RANGE[k.format.bits])
    n, integer = k.round_to_int(x)
    r = x - n
    return k.scale(k.mad(r, k.polynomial(r, c.EXP2[k.format.bits]), 1.0), integer)


def expm1(k: Emitter, x: Lanes) -> Lanes:
    """e^x - 1."""
    bits = k.format.bits
    limited = k.clamp(x, -60.0, EXP_RANGE[bits][1])
    r, error, n = reduce(k, limited)
    small = r + k.mad(r * r, k.polynomial(r, c.EXP[bits]), error)
    # Half of the power of two, so that the largest results do not overflow on the way.
    half = k.power_of_two(n - 1)
    result = 2.0 * k.mad(half, small, half - 0.5)
    result = k.select(k.untag(n).equals(0), small, result)
    return k.select(k.absolute(x) < k.format.unit, x, result)


def sigmoid(k: Emitter, x: Lanes) -> Lanes:
    """1 - s for x >= 0 and e - e s for x < 0, with e = e^-|x| and s = e / (1 + e)."""
    e, small, s, unit = _sigmoid_parts(k, k.absolute(x))
    negative = x < 0.0
    whole, part = k.select(negative, e, unit), k.select(negative, small, 1.0)
    return k.mad(-part, s, whole) * (1.0 / unit)


def sigmoid_tail(k: Emitter, x: Lanes) -> Lanes:
    """The sigmoid of -|x|, with the sign of x."""
    e, small, s, unit = _sigmoid_parts(k, k.absolute(x))
    return k.copysign(k.mad(-small, s, e) * (1.0 / unit), x)


def _sigmoid_parts(k: Emitter, size: Lanes) -> tuple[Lanes, Lanes, Lanes, float]:
    """Return u e, e, u s and the number u, a power of two, with e = e^-size and s = e / (1 + e).

    Times u no e is subnormal. The sigmoid of -size is e - e s rather than s: subtracting s makes
    less of the errors of the division than s itself would.
    """
    limit, shift = -EXP_RANGE[k.format.bits][0], SIGMOID_SHIFT[k.format.bits]
    _, tail, n = _exp_near_one(k, -k.select(size > limit, limit, size))
    power = k.power_of_two(n, shift)
    e = k.mad(power, tail, power)
    small = e * 2.0**-shift
    return e, small, e / (small + 1.0), 2.0**shift


def sinh(k: Emitter, x: Lanes) -> Lanes:
    """(e^x - e^-x) / 2."""
    size = k.absolute(x)
    high, low, n, mirrored = _exp_and_inverse(k, size)
    large = k.scale(high + (low - mirrored), n - 1)
    square = x * x
    small = k.mad(x * square, k.polynomial(square, c.SINH[k.format.bits]), x)
    return k.select(size < 1.0, k.copysign(small, x), k.copysign(large, x))


def cosh(k: Emitter, x: Lanes) -> Lanes:
    """(e^x + e^-x) / 2."""
    high, low, n, mirrored = _exp_and_inverse(k, k.absolute(x))
    return k.scale(high + (low + mirrored), n - 1)


def _exp_and_inverse(k: Emitter, size: Lanes) -> tuple[Lanes, Lanes, Lanes, Lanes]:
    """Return exp(size) = (high + low) 2^n and exp(-size) 2^-n, both for size >= 0."""
    limit = EXP_RANGE[k.format.bits][1] + 1.5
    high, low, n = exp_pair(k, k.select(size > limit, limit, size))
    exponent = k.untag(n)
    shrunk = k.power_of_two((0 - k.select(exponent > 60, k.integer(60), exponent)) << 1)
    return high, low, n, shrunk / high


def tanh(k: Emitter, x: Lanes) -> Lanes:
    """q = m / (m + 1), and near 0 m - m q, with m = (e^2|x| - 1) / 2.

    With 2 |x| = n ln(2) + 2 r and p = (e^2r - 1) / 2, m is 2^n p + (2^n - 1) / 2: there p must not
    be near -1/4 where n is 1, so n is 0 for somewhat longer than to be nearest.
    """
    bits = k.format.bits
    size = k.absolute(x)
    near = size < TANH_NEAR
    limited = k.select(size > TANH_LIMIT, TANH_LIMIT, size)
    ln2_high, ln2_low = LN2_PARTS[bits]
    n, integer = k.round_product(limited, 2.0 * LOG2_E)
    n, power = k.select(near, 0.0, n), k.select(near, 1.0, k.power_of_two(integer))
    r = k.mad(n, -0.5 * ln2_low, k.mad(n, -0.5 * ln2_high, limited))
    p = k.mad(r * r, k.polynomial(r, c.HALF_EXPM1[bits]), r)
    m = k.mad(power, p, k.mad(power, 0.5, -0.5))
    q = m / (m + 1.0)
    return k.copysign(k.select(near, k.exact_fma(-m, q, m), q), x)


def exp_of_wide(k: Emitter, x: Lanes) -> Lanes:
    """e^x in float64 to the accuracy that a float32 result needs, for |x| < 700."""
    assert k.format is F64
    n, integer = k.round_product(x, LOG2_E)
    r = k.mad(n, -0.6931471805599453, x)
    return k.mad(r, k.polynomial(r, c.EXP_WIDE[64]), 1.0) * k.power_of_two(integer)


FUNCTIONS = {
    "exp": exp,
    "exp2": exp2,
    "expm1": expm1,
    "sigmoid": sigmoid,
    "sigmoid_tail": sigmoid_tail,
    "sinh": sinh,
    "cosh": cosh,
    "tanh": tanh,
}
