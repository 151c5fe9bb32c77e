"""log and its relatives, and power.

x = 2^e (1 + f) with 1 + f between sqrt(1/2) and sqrt(2), so that e is 0 near x = 1 and nothing
cancels. log(1 + f) comes as a pair high + low: float64 takes Pade's variable s = f / (2 + f), one
division for a short polynomial; float32 takes a polynomial in f.
"""

from __future__ import annotations

from . import coefficients as c
from .doubled import Pair, divide, fast_two_sum, multiply, square_root, two_sum
from .exponential import EXP_RANGE, LN2_PARTS, exp_of_wide, exp_pair, reduce
from .lanes import F32, F64, Emitter, Lanes

INFINITY, NAN = float("inf"), float("nan")
SQRT_HALF_BITS = {64: 0x3FE6A09E667F3BCD, 32: 0x3F3504F3}
LN2 = 0.6931471805599453
# Factors in two parts: 1/ln(2), 1/ln(10), log10(2), 2/3; the first log10(2) leaves room for e.
INVERSE_LN2 = {
    64: (1.4426950408889634, 2.0355273740931033e-17),
    32: (1.4426950216293335, 1.9259629911266175e-08),
}
INVERSE_LN10 = {
    64: (0.4342944819032518, 1.098319650216765e-17),
    32: (0.4342944920063019, -1.0103050052231683e-08),
}
LOG10_2 = {
    64: (float.fromhex("0x1.34413509f7800p-2"), float.fromhex("0x1.fef311f12b358p-46")),
    32: (float.fromhex("0x1.3440p-2"), float.fromhex("0x1.3509f79fef312p-18")),
}
TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)


def split(k: Emitter, x: Lanes) -> tuple[Lanes, Lanes]:
    """Return f and e (both float) with x = 2^e (1 + f), for positive x, subnormal ones too."""
    layout = k.format
    shift = layout.fraction + 2
    tiny = x < 2.0 ** (1 - layout.bias)
    fraction, exponent = _split_normal(k, k.select(tiny, x * 2.0**shift, x))
    return fraction - 1.0, exponent - k.select(tiny, float(shift), 0.0)


def _split_normal(k: Emitter, x: Lanes) -> tuple[Lanes, Lanes]:
    layout = k.format
    root = SQRT_HALF_BITS[layout.bits]
    moved = k.bits(x) + ((layout.bias << layout.fraction) - root)
    exponent = moved.logical_shift(layout.fraction) - layout.bias
    fraction = (moved & ((1 << layout.fraction) - 1)) + root
    return k.from_bits(fraction), k.small_int_to_float(exponent)


def log_of_fraction(k: Emitter, f: Lanes, f_low: Lanes | None = None) -> Pair:
    """Return log(1 + f + f_low) as a pair."""
    half_square = (0.5 * f) * f
    high = f - half_square
    low = (f - high) - half_square
    if k.has_fma:
        low = low - k.exact_fma(0.5 * f, f, -half_square)
    if k.format is F64:
        s = f / (2.0 + f)
        z = s * s
        rest = s * k.mad(z, k.polynomial(z, c.LOG[64]), half_square)
    else:
        rest = (f * f * f) * k.polynomial(f, c.LOG1P[32])
    low = low + rest
    if f_low is not None:
        low = low + f_low * k.mad(f, f - 1.0, 1.0)
    return high, low


def log_pair(k: Emitter, x: Lanes, low: Lanes | None = None, add: float = 0.0) -> Pair:
    """Return log(x + low) + add * ln(2) as a pair, for positive finite x."""
    f, e = split(k, x)
    f_low = None
    if low is not None:
        f_low = low * _inverse_power(k, e)
    high, rest = log_of_fraction(k, f, f_low)
    if add:
        e = e + add
    ln2_high, ln2_low = LN2_PARTS[k.format.bits]
    total, error = fast_two_sum(e * ln2_high, high)
    return total, error + k.mad(e, ln2_low, rest)


def _inverse_power(k: Emitter, e: Lanes) -> Lanes:
    """Return 2^-e within the normal range, which is enough for the low part of a pair."""
    limit = float(k.format.bias - 1)
    return k.power_of_two(k.round_to_int(k.clamp(-e, -limit, limit))[1])


def _with_domain(k: Emitter, x: Lanes, result: Lanes) -> Lanes:
    """Put in what a logarithm does at 0, at infinity, below 0 and at NaN."""
    result = k.select(x < INFINITY, result, x)
    return k.select(x > 0.0, result, k.select(x.equals(0.0), k.constant(-INFINITY), NAN))


def log(k: Emitter, x: Lanes) -> Lanes:
    """Natural logarithm; shorter than a pair, as nothing is done with the low part."""
    f, e = split(k, x)
    ln2_high, ln2_low = LN2_PARTS[k.format.bits]
    square = f * f
    if k.format is F64:
        s = f / (2.0 + f)
        z = s * s
        half = 0.5 * square
        bent = k.mad(s, k.mad(z, k.polynomial(z, c.LOG[64]), half), e * ln2_low)
        result = k.mad(e, ln2_high, f - (half - bent))
    else:
        bent = k.mad(f, k.polynomial(f, c.LOG1P[32]), -0.5)
        result = k.mad(e, ln2_high, f + k.mad(square, bent, e * ln2_low))
    return _with_domain(k, x, result)


def _log_in_base(k: Emitter, x: Lanes, inverse: Pair, per_octave: Pair) -> Lanes:
    f, e = split(k, x)
    high, low = multiply(k, log_of_fraction(k, f), inverse)
    total, error = fast_two_sum(e * per_octave[0], high)
    return _with_domain(k, x, total + (error + k.mad(e, per_octave[1], low)))


def log2(k: Emitter, x: Lanes) -> Lanes:
    """Logarithm to base 2, exact at powers of 2."""
    inverse = INVERSE_LN2[k.format.bits]
    pair = (k.constant(inverse[0]), k.constant(inverse[1]))
    return _log_in_base(k, x, pair, (k.constant(1.0), k.constant(0.0)))


def log10(k: Emitter, x: Lanes) -> Lanes:
    """Logarithm to base 10."""
    inverse, octave = INVERSE_LN10[k.format.bits], LOG10_2[k.format.bits]
    pair = (k.constant(inverse[0]), k.constant(inverse[1]))
    return _log_in_base(k, x, pair, (k.constant(octave[0]), k.constant(octave[1])))


def log1p(k: Emitter, x: Lanes) -> Lanes:
    """log(1 + x)."""
    total, error = two_sum(k.constant(1.0), x)
    high, low = log_pair(k, total, error)
    result = _with_domain(k, total, high + low)
    return k.select(k.absolute(x) < k.format.unit, x, result)


def logaddexp(k: Emitter, x: Lanes, y: Lanes) -> Lanes:
    """log(e^x + e^y); 2 ulp of the larger argument where the sum nearly cancels it."""
    larger, smaller = k.select(x > y, x, y), k.select(x > y, y, x)
    distance, error = two_sum(smaller, -larger)
    high, low = _log1p_exp(k, distance, error)
    total, rest = two_sum(larger, high)
    result = total + (rest + low)
    # Far apart the larger one is the answer; so for equal infinities, whose distance is NaN.
    # What is added to it is +0, which makes +0 of -0.
    result = k.select(distance > EXP_RANGE[k.format.bits][0], result, larger + 0.0)
    return k.select(x.is_nan() | y.is_nan(), x + y, result)


def _log1p_exp(k: Emitter, x: Lanes, low: Lanes) -> Pair:
    """Return log(1 + e^(x + low)) as a pair, for x <= 0."""
    limit = EXP_RANGE[k.format.bits][0]
    outside = x < limit
    low = k.select(outside, 0.0, low)
    high, rest, n = exp_pair(k, k.select(outside, limit, x), low)
    power = k.scale(high, n)
    total, error = fast_two_sum(k.constant(1.0), power)
    exponent = k.untag(n)
    far = exponent < -100
    near = k.power_of_two(k.select(far, k.integer(-100), exponent))
    return log_pair(k, total, error + k.select(far, 0.0, rest * near))


def arcsinh(k: Emitter, x: Lanes) -> Lanes:
    """log(|x| + sqrt(x^2 + 1)) with the sign of x."""
    size = k.absolute(x)
    large = _log_with_root(k, size, 1.0)
    z = x * x
    small = k.mad(x * z, k.polynomial(z, c.ASINH[k.format.bits]), x)
    result = k.copysign(k.select(size < 0.5, small, large), x)
    return k.select(size < INFINITY, result, x)


def arccosh(k: Emitter, x: Lanes) -> Lanes:
    """log(x + sqrt(x^2 - 1))."""
    result = _log_with_root(k, x, -1.0)
    result = k.select(x > 1.0, result, k.select(x.equals(1.0), k.constant(0.0), NAN))
    return k.select(x < INFINITY, result, x)


def _log_with_root(k: Emitter, x: Lanes, sign: float) -> Lanes:
    """log(x + sqrt(x^2 + sign)); of huge x log(2 x)."""
    huge = x > 2.0**30
    limited = k.select(huge, 2.0, x)
    square = k.two_product(limited, limited)
    high, error = two_sum(square[0], k.constant(sign))
    root = square_root(k, fast_two_sum(high, error + square[1]))
    total, rest = two_sum(root[0], limited)
    low = k.select(huge, 0.0, rest + root[1])
    log_high, log_low = log_pair(k, k.select(huge, x, total), low)
    ln2_high, ln2_low = LN2_PARTS[k.format.bits]
    log_low = log_low + k.select(huge, ln2_low, 0.0)
    return log_high + k.select(huge, ln2_high, 0.0) + log_low


def arctanh(k: Emitter, x: Lanes) -> Lanes:
    """log((1 + |x|) / (1 - |x|)) / 2 with the sign of x."""
    size = k.absolute(x)
    top = fast_two_sum(k.constant(1.0), size)
    bottom = 1.0 - size
    ratio = fast_two_sum(*divide(k, top, (bottom, k.constant(0.0))))
    high, low = log_pair(k, *ratio)
    large = 0.5 * (high + low)
    z = x * x
    small = k.mad(x * z, k.polynomial(z, c.ATANH[k.format.bits]), x)
    result = k.select(size < 0.5, small, large)
    result = k.select(size < 1.0, result, k.select(size.equals(1.0), k.constant(INFINITY), NAN))
    return k.copysign(result, x)


def power(k: Emitter, x: Lanes, y: Lanes) -> Lanes:
    """x^y with the special values of C99."""
    size = k.absolute(x)
    magnitude = (_power_narrow if k.format is F32 else _power_wide)(k, size, y)
    falling = y < 0.0
    magnitude = k.select(size.equals(0.0), k.select(falling, k.constant(INFINITY), 0.0), magnitude)
    at_infinity = k.select(falling, k.constant(0.0), INFINITY)
    magnitude = k.select(size.equals(INFINITY), at_infinity, magnitude)
    is_integer = k.rounded("trunc", y).equals(y)
    half = 0.5 * y
    is_odd = is_integer & k.rounded("trunc", half).differs(half)
    signed = k.select(is_odd, k.copysign(magnitude, x), magnitude)
    undefined = (x < 0.0) & (x > -INFINITY) & ~is_integer
    signed = k.select(undefined, NAN, signed)
    signed = k.select(x.is_nan() | y.is_nan(), x + y, signed)
    return k.select(y.equals(0.0) | x.equals(1.0), 1.0, signed)


def _power_narrow(k: Emitter, size: Lanes, y: Lanes) -> Lanes:
    """float32: plain float64 has bits to spare."""
    wide = k.sibling(F64)
    fraction, exponent = _split_normal(wide, k.widen(size))
    f = fraction - 1.0
    log_fraction = wide.mad(f * f, wide.polynomial(f, c.LOG1P_WIDE[64]), f)
    exponent = wide.mad(exponent, LN2, log_fraction) * k.widen(k.clamp(y, -1e20, 1e20))
    return k.narrow(exp_of_wide(wide, wide.clamp(exponent, -200.0, 200.0)))


def _power_wide(k: Emitter, size: Lanes, y: Lanes) -> Lanes:
    """float64: exp of a pair, because an error of the logarithm grows a thousandfold."""
    log_high, log_low = _log_pair_for_power(k, size)
    y = k.clamp(y, -1e20, 1e20)
    high, low = k.two_product(y, log_high)
    low = k.mad(y, log_low, low)
    lowest, highest = EXP_RANGE[64]
    outside = ~((high > lowest) & (high < highest))
    low = k.select(outside, 0.0, low)
    r, error, n = reduce(k, k.clamp(high, lowest, highest), low)
    return k.scale(1.0 + (r + k.mad(r * r, k.polynomial(r, c.EXP[64]), error)), n)


def _log_pair_for_power(k: Emitter, x: Lanes) -> Pair:
    """Return log(x) to about 2^-66: 2s + s^3 (2/3 + s^2 T(s^2)), all but T in pairs."""
    f, e = split(k, x)
    bottom = fast_two_sum(k.constant(2.0), f)
    s = divide(k, (f, k.constant(0.0)), bottom)
    z = multiply(k, s, s)
    tail = z[0] * k.polynomial(z[0], c.LOG_TAIL[64])
    factor, error = fast_two_sum(k.constant(TWO_THIRDS[0]), tail)
    cube = multiply(k, multiply(k, z, s), (factor, error + TWO_THIRDS[1]))
    high, rest = fast_two_sum(2.0 * s[0], cube[0])
    rest = rest + k.mad(s[1], 2.0, cube[1])
    total, lost = fast_two_sum(e * LN2_PARTS[64][0], high)
    rest = lost + k.mad(e, LN2_PARTS[64][1], rest)
    return fast_two_sum(total, rest)


FUNCTIONS = {
    "log": log,
    "log2": log2,
    "log10": log10,
    "log1p": log1p,
    "logaddexp": logaddexp,
    "arcsinh": arcsinh,
    "arccosh": arccosh,
    "arctanh": arctanh,
    "power": power,
}
