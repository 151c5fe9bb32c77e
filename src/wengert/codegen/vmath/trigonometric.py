"""sin, cos, tan and their inverses.

Arguments are brought to |r| <= pi/4: below 2^20 by subtracting n pi/2 in parts whose products with
n are exact; above (rare) with the needed window of the bits of 2/pi, in integers, out of line.
"""

from __future__ import annotations

from llvmlite import ir

from ..llvm_types import declare
from . import coefficients as c
from .cold import WORD, patch
from .doubled import Pair, divide, fast_two_sum, multiply, two_sum
from .lanes import F32, F64, Emitter, Lanes

TWO_OVER_PI = 0.6366197723675814
# pi/2 in parts: three of 33 bits, then a full one (152 bits together).
HALF_PI_PARTS = tuple(
    float.fromhex(h)
    for h in (
        "0x1.921fb544p+0",
        "0x1.0b4611a6p-34",
        "0x1.3198a2ep-69",
        "0x1.b839a252049c1p-104",
    )
)
HALF_PI_REST = 6.077100506506192e-11  # what the first part leaves, to float64
HALF_PI = {64: (1.5707963267948966, 6.123233995736766e-17),
           32: (1.5707963705062866, -4.3711390001862426e-08)}  # fmt: skip
HUGE = 2.0**20
INFINITY, NAN = float("inf"), float("nan")
# 2/pi in words of 64 bits, highest first, after one word of zeros for small exponents.
TWO_OVER_PI_WORDS = (
    0x0000000000000000,
    0xA2F9836E4E441529,
    0xFC2757D1F534DDC0,
    0xDB6295993C439041,
    0xFE5163ABDEBBC561,
    0xB7246E3A424DD2E0,
    0x06492EEA09D1921C,
    0xFE1DEB1CB129A73E,
    0xE88235F52EBB4484,
    0xE99C7026B45F7E41,
    0x3991D639835339F4,
    0x9C845F8BBDF9283B,
    0x1FF897FFDE05980F,
    0xEF2F118B5A0A6D1F,
    0x6D367ECF27CB09B7,
    0x4F463F669E5FEA2D,
    0x7527BAC7EBE5F17B,
    0x3D0739F78A5292EA,
    0x6BFB5FB11F8D5D08,
    0x56033046FC7B6BAB,
)


def _reduce(k: Emitter, x: Lanes) -> tuple[Pair, Lanes]:
    """Return r and the tag of n with x = n pi/2 + r, r a pair with |r| <= pi/4, for |x| < 2^20."""
    if k.format is F32:
        return _reduce_in_double(k, x)
    n, integer = k.round_product(x, TWO_OVER_PI)
    first, second, third, fourth = HALF_PI_PARTS
    head = k.mad(n, -first, x)
    high, low = two_sum(head, n * -second)
    high, error = two_sum(high, n * -third)
    low = low + k.mad(n, -fourth, error)
    return fast_two_sum(high, low), integer


def _reduce_in_double(k: Emitter, x: Lanes) -> tuple[Pair, Lanes]:
    wide = k.sibling(F64)
    wide_x = k.widen(x)
    n, integer = wide.round_product(wide_x, TWO_OVER_PI)
    r = wide.mad(n, -HALF_PI_REST, wide.mad(n, -HALF_PI_PARTS[0], wide_x))
    high = k.narrow(r)
    quadrant = k.wrap(k.builder.trunc(integer.value, k.int_type))
    return (high, k.narrow(r - k.widen(high))), quadrant


def sin_pair(k: Emitter, r: Pair) -> Pair:
    """Return sin(r) as a pair, for |r| <= pi/4."""
    z = r[0] * r[0]
    cube = (z * r[0]) * k.polynomial(z, c.SIN[k.format.bits])
    return r[0], k.mad(r[1], k.mad(z, -0.5, 1.0), cube)


def cos_pair(k: Emitter, r: Pair) -> Pair:
    """Return cos(r) as a pair, for |r| <= pi/4."""
    z = r[0] * r[0]
    half = 0.5 * z
    high = 1.0 - half
    small = k.mad(z * z, k.polynomial(z, c.COS[k.format.bits]), -(r[0] * r[1]))
    return high, ((1.0 - high) - half) + small


def _wave(k: Emitter, r: Pair, n: Lanes) -> Lanes:
    """sin(n pi/2 + r)."""
    sine, cosine = sin_pair(k, r), cos_pair(k, r)
    value = k.select((n & 1).equals(0), sine[0] + sine[1], cosine[0] + cosine[1])
    return k.from_bits(k.bits(value) ^ ((n & 2) << (k.format.bits - 2)))


def _slope(k: Emitter, r: Pair, n: Lanes) -> Lanes:
    """tan(n pi/2 + r)."""
    sine, cosine = fast_two_sum(*sin_pair(k, r)), fast_two_sum(*cos_pair(k, r))
    even = (n & 1).equals(0)
    above = k.select(even, sine[0], -cosine[0]), k.select(even, sine[1], -cosine[1])
    below = k.select(even, cosine[0], sine[0]), k.select(even, cosine[1], sine[1])
    quotient, rest = divide(k, above, below)
    return quotient + rest


def sin(k: Emitter, x: Lanes) -> Lanes:
    """Sine."""
    return _keep_small(k, x, _periodic(k, x, "sin", lambda k, r, n: _wave(k, r, n)))


def cos(k: Emitter, x: Lanes) -> Lanes:
    """Cosine."""
    return _periodic(k, x, "cos", lambda k, r, n: _wave(k, r, n + 1))


def tan(k: Emitter, x: Lanes) -> Lanes:
    """Tangent."""
    return _keep_small(k, x, _periodic(k, x, "tan", _slope))


def _keep_small(k: Emitter, x: Lanes, result: Lanes) -> Lanes:
    """Return x itself where f(x) = x to the last bit: keeps -0 and subnormal numbers."""
    return k.select(k.absolute(x) < 2.0 ** (-k.format.fraction / 2 - 2), x, result)


def _periodic(k: Emitter, x: Lanes, name: str, kernel) -> Lanes:
    usual = kernel(k, *_reduce(k, x))
    huge = k.absolute(x) >= HUGE

    def of_huge(scalar: Emitter, args) -> Lanes:
        (number,) = args
        value = kernel(scalar, *_reduce_huge(scalar, number))
        return scalar.select(scalar.absolute(number) < INFINITY, value, NAN)

    return patch(k, f"{name}.huge", of_huge, huge, [x], usual)


def _two_over_pi_table(module: ir.Module) -> ir.GlobalVariable:
    """2/pi as 64-bit words, highest first, after one word of zeros."""
    name = "wengert.two_over_pi"
    found = module.globals.get(name)
    if found is not None:
        return found
    kind = ir.ArrayType(WORD, len(TWO_OVER_PI_WORDS))
    table = ir.GlobalVariable(module, kind, name)
    table.initializer = ir.Constant(kind, TWO_OVER_PI_WORDS)
    table.linkage = "internal"
    table.global_constant = True
    return table


def _window(builder: ir.IRBuilder, start: ir.Value) -> list[ir.Value]:
    """Return the 192 bits of the table that begin at bit `start`, as three words."""
    table = _two_over_pi_table(builder.module)
    first = builder.lshr(start, WORD(6))
    words = []
    for i in range(4):
        place = builder.gep(table, [WORD(0), builder.add(first, WORD(i))], inbounds=True)
        words.append(builder.load(place))
    funnel = declare(builder.module, "llvm.fshl.i64", ir.FunctionType(WORD, [WORD] * 3))
    shift = builder.and_(start, WORD(63))
    return [builder.call(funnel, [words[i], words[i + 1], shift]) for i in range(3)]


def _reduce_huge(k: Emitter, x: Lanes) -> tuple[Pair, Lanes]:
    """Payne and Hanek: return (r, n) with x = n pi/2 + r modulo 2 pi, for finite |x| >= 2^20.

    With x = m 2^e, bits of 2/pi that give multiples of 4 are skipped; the next 192 times m, modulo
    2^192, hold the quadrant (2 bits) and a fraction that is good to 2^-128, while no float64 comes
    nearer to a multiple of pi/2 than 2^-62.
    """
    builder, long = k.builder, ir.IntType(128)
    bits = k.bits(k.absolute(x))
    exponent = bits.logical_shift(52) - 1075
    significand = ((bits & ((1 << 52) - 1)) | (1 << 52)).value
    # An infinity's exponent would read past the table; its result is replaced anyway.
    exponent = k.select(exponent > 971, k.integer(971), exponent)
    high, middle, low = _window(builder, (exponent + 62).value)
    m, middle, low = (builder.zext(v, long) for v in (significand, middle, low))
    carried = builder.add(builder.mul(m, middle), builder.lshr(builder.mul(m, low), long(64)))
    top = builder.add(builder.mul(m, builder.zext(high, long)), builder.lshr(carried, long(64)))
    top = builder.trunc(top, WORD)
    product = builder.or_(
        builder.shl(builder.zext(top, long), long(64)),
        builder.and_(carried, long((1 << 64) - 1)),
    )
    lowest = builder.and_(builder.mul(m, low), long((1 << 64) - 1))
    fraction = builder.or_(builder.shl(product, long(2)), builder.lshr(lowest, long(62)))
    turned = builder.lshr(fraction, long(127))  # the fraction is above 1/2: count one quadrant more
    quadrant = builder.add(builder.lshr(top, WORD(62)), builder.trunc(turned, WORD))
    r = _fraction_times_half_pi(k, fraction, turned)
    negative = x < 0.0
    r = (k.select(negative, -r[0], r[0]), k.select(negative, -r[1], r[1]))
    n = k.wrap(quadrant)
    return r, k.select(negative, 0 - n, n)


def _fraction_times_half_pi(k: Emitter, fraction: ir.Value, turned: ir.Value) -> Pair:
    """Return fraction / 2^128 * pi/2 as a pair; the fraction is a signed 128-bit integer."""
    builder, long = k.builder, ir.IntType(128)
    size = builder.sub(builder.xor(fraction, builder.neg(turned)), builder.neg(turned))
    counter = ir.FunctionType(long, [long, ir.IntType(1)])
    count = declare(builder.module, "llvm.ctlz.i128", counter)
    zeros = builder.call(count, [size, ir.Constant(ir.IntType(1), 0)])
    size = builder.shl(size, builder.and_(zeros, long(127)))
    head = builder.trunc(builder.lshr(size, long(75)), WORD)
    tail = builder.and_(builder.trunc(builder.lshr(size, long(22)), WORD), WORD((1 << 53) - 1))
    sign = builder.trunc(turned, ir.IntType(1))
    scale = k.power_of_two(0 - k.wrap(builder.trunc(zeros, WORD)))
    scale = k.select(k.wrap(sign), -scale, scale)
    high = k.wrap(builder.sitofp(head, k.float_type)) * 2.0**-53 * scale
    low = k.wrap(builder.sitofp(tail, k.float_type)) * 2.0**-106 * scale
    half_pi = (k.constant(HALF_PI[64][0]), k.constant(HALF_PI[64][1]))
    return fast_two_sum(*multiply(k, (high, low), half_pi))


def arcsin(k: Emitter, x: Lanes) -> Lanes:
    """Inverse sine: pi/2 - 2 asin(sqrt((1 - |x|) / 2)) above 1/2."""
    size = k.absolute(x)
    inner = size <= 0.5
    s, bent = _arcsin_parts(k, size, inner)
    high, low = HALF_PI[k.format.bits]
    total, error = fast_two_sum(k.constant(high), -2.0 * s)
    outer = total + (error - (2.0 * bent - low))
    return k.copysign(k.select(inner, s + bent, outer), x)


def arccos(k: Emitter, x: Lanes) -> Lanes:
    """Inverse cosine."""
    inner = k.absolute(x) <= 0.5
    s, bent = _arcsin_parts(k, k.absolute(x), inner)
    high, low = HALF_PI[k.format.bits]
    s, bent = k.copysign(s, x), k.copysign(bent, x)
    middle = (high - s) - (bent - low)
    near_one = 2.0 * (s + bent)
    near_minus_one = (2.0 * high + 2.0 * s) + (2.0 * bent + 2.0 * low)
    return k.select(inner, middle, k.select(x < 0.0, near_minus_one, near_one))


def _arcsin_parts(k: Emitter, size: Lanes, inner: Lanes) -> Pair:
    """Return s and asin(s) - s, for s = size or sqrt((1 - size) / 2)."""
    halved = 0.5 * (1.0 - size)
    z = k.select(inner, size * size, halved)
    s = k.select(inner, size, k.sqrt(halved))
    return s, (s * z) * k.polynomial(z, c.ASIN[k.format.bits])


def arctan(k: Emitter, x: Lanes) -> Lanes:
    """Inverse tangent: pi/2 - atan(1/|x|) above 1."""
    size = k.absolute(x)
    inner = size <= 1.0
    t = k.select(inner, size, 1.0 / size)
    bent = _arctan_rest(k, t)
    high, low = HALF_PI[k.format.bits]
    return k.copysign(k.select(inner, t + bent, (high - t) - (bent - low)), x)


def _arctan_rest(k: Emitter, t: Lanes) -> Lanes:
    z = t * t
    return (t * z) * k.polynomial(z, c.ATAN[k.format.bits])


def arctan2(k: Emitter, y: Lanes, x: Lanes) -> Lanes:
    """Angle of the point (x, y)."""
    rise, run = k.absolute(y), k.absolute(x)
    steep = rise > run
    larger, smaller = k.select(steep, rise, run), k.select(steep, run, rise)
    t = k.select(larger.equals(0.0), 0.0, smaller / larger)
    t = k.select(smaller.equals(INFINITY), 1.0, t)
    bent = _arctan_rest(k, t)
    left = k.bits(x) < 0
    # The angle is base + sign * atan(t): 0 + t, pi/2 -+ t or pi - t.
    high, low = HALF_PI[k.format.bits]
    base_high = k.select(steep, high, k.select(left, k.constant(2.0 * high), 0.0))
    base_low = k.select(steep, low, k.select(left, k.constant(2.0 * low), 0.0))
    minus = k.wrap(k.builder.xor(steep.value, left.value))
    t, bent = k.select(minus, -t, t), k.select(minus, -bent, bent)
    total, error = fast_two_sum(base_high, t)
    angle = k.copysign(total + (error + (bent + base_low)), y)
    return k.select(x.is_nan() | y.is_nan(), x + y, angle)


FUNCTIONS = {
    "sin": sin,
    "cos": cos,
    "tan": tan,
    "arcsin": arcsin,
    "arccos": arccos,
    "arctan": arctan,
    "arctan2": arctan2,
}
