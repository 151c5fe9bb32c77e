"""Roots, rounding, remainders, signs, larger and smaller."""

from __future__ import annotations

from llvmlite import ir

from ..counted import carried_loop
from ..llvm_types import declare
from . import coefficients as c
from .cold import patch
from .lanes import F64, Emitter, Lanes

INFINITY, NAN = float("inf"), float("nan")
CUBE_ROOT_2, CUBE_ROOT_4 = 2.0 ** (-1 / 3), 2.0 ** (-2 / 3)


def sign(k: Emitter, x: Lanes) -> Lanes:
    """-1, 0 or 1; NaN stays."""
    signed = k.select(x > 0.0, k.constant(1.0), k.select(x < 0.0, k.constant(-1.0), 0.0))
    return k.select(x.is_nan(), x, signed)


def copysign(k: Emitter, x: Lanes, y: Lanes) -> Lanes:
    """Magnitude of x, sign of y."""
    return k.copysign(x, y)


def maximum(k: Emitter, x: Lanes, y: Lanes) -> Lanes:
    """The larger one, NaN if either is."""
    return k.select(x.is_nan(), x, k.select(x > y, x, y))


def minimum(k: Emitter, x: Lanes, y: Lanes) -> Lanes:
    """The smaller one, NaN if either is."""
    return k.select(x.is_nan(), x, k.select(x < y, x, y))


def largest(k: Emitter, x: Lanes, y: Lanes) -> Lanes:
    """The larger one, -0.0 of both zeros, NaN if either is: the same in any order.

    Two ways to ask differ where the numbers are zeros or NaN; all bits that either answer has are
    those of -0.0 or of a NaN there. That takes no more instructions than looking for NaN.
    """
    return k.from_bits(k.bits(k.select(x > y, x, y)) | k.bits(k.select(y > x, y, x)))


def smallest(k: Emitter, x: Lanes, y: Lanes) -> Lanes:
    """The smaller one, -0.0 of both zeros, NaN if either is: the same in any order."""
    return k.from_bits(k.bits(k.select(x < y, x, y)) | k.bits(k.select(y < x, y, x)))


def fmax(k: Emitter, x: Lanes, y: Lanes) -> Lanes:
    """The larger one, ignoring NaN; the second of equals, as NumPy has it for zeros."""
    return k.select(y.is_nan(), x, k.select(x > y, x, y))


def fmin(k: Emitter, x: Lanes, y: Lanes) -> Lanes:
    """The smaller one, ignoring NaN; the second of equals, as NumPy has it for zeros."""
    return k.select(y.is_nan(), x, k.select(x < y, x, y))


def sqrt(k: Emitter, x: Lanes) -> Lanes:
    """Square root."""
    return k.sqrt(x)


def cbrt(k: Emitter, x: Lanes) -> Lanes:
    """Cube root: Newton's iteration for m^(-1/3), which needs no division, then one correction."""
    size = k.absolute(x)
    layout = k.format
    shift = 54 if layout is F64 else 24  # a multiple of 3 that lifts subnormal numbers
    tiny = size < 2.0 ** (1 - layout.bias)
    bits = k.bits(k.select(tiny, size * 2.0**shift, size))
    fraction_mask = (1 << layout.fraction) - 1
    m = k.from_bits((bits & fraction_mask) | (layout.bias << layout.fraction))
    e = k.small_int_to_float(bits.logical_shift(layout.fraction) - layout.bias)
    third, integer = k.round_to_int(k.mad(e, 1.0 / 3.0, -1.0 / 3.0))
    left = e - 3.0 * third
    one, two = left.equals(1.0), left.equals(2.0)
    a = m * k.select(one, k.constant(2.0), k.select(two, k.constant(4.0), 1.0))
    start = k.select(one, k.constant(CUBE_ROOT_2), k.select(two, k.constant(CUBE_ROOT_4), 1.0))
    z = k.polynomial(m, c.RCBRT[layout.bits]) * start
    for _ in range(2 if layout is F64 else 1):
        z = k.mad(z * (1.0 / 3.0), k.mad(-(a * z), z * z, 1.0), z)
    z2 = z * z
    y = a * z2
    square, error = k.two_product(y, y)
    rest = k.exact_fma(-square, y, a) - error * y
    y = k.mad(rest, z2 * (1.0 / 3.0), y)
    shifted = integer - k.select(tiny, k.integer(shift // 3), k.integer(0))
    root = k.copysign(y * k.power_of_two(shifted), x)
    return k.select((size > 0.0) & (size < INFINITY), root, x)


def hypot(k: Emitter, x: Lanes, y: Lanes) -> Lanes:
    """sqrt(x^2 + y^2), scaled where the squares would leave the range."""
    ax, ay = k.absolute(x), k.absolute(y)
    large, small = k.select(ax > ay, ax, ay), k.select(ax > ay, ay, ax)
    if k.format is F64:
        top, down, bottom, up = 2.0**500, 2.0**-600, 2.0**-400, 2.0**600
    else:
        top, down, bottom, up = 2.0**60, 2.0**-70, 2.0**-40, 2.0**90
    high, low = large > top, large < bottom
    factor = k.select(high, k.constant(down), k.select(low, k.constant(up), 1.0))
    back = k.select(high, k.constant(1.0 / down), k.select(low, k.constant(1.0 / up), 1.0))
    large, small = large * factor, small * factor
    result = k.sqrt(k.mad(large, large, small * small)) * back
    infinite = ax.equals(INFINITY) | ay.equals(INFINITY)
    result = k.select(ax.is_nan() | ay.is_nan(), ax + ay, result)
    return k.select(infinite, INFINITY, result)


def fmod(k: Emitter, x: Lanes, y: Lanes) -> Lanes:
    """x - trunc(x / y) y, exactly; a quotient too long for one step goes out of line."""
    ax, ay = k.absolute(x), k.absolute(y)
    quotient = ax / ay
    long = ~(quotient < 2.0 ** (k.format.fraction - 1))
    if not k.has_fma and k.format is F64:
        long = long | (ax > 2.0**960) | (ay < 2.0**-900)  # Dekker's product would leave the range
    finite = (ax < INFINITY) & (ay > 0.0)
    rest = k.exact_fma(-k.rounded("trunc", quotient), ay, ax)
    rest = k.select(rest < 0.0, rest + ay, rest)
    rest = k.select(ax < ay, ax, rest)
    rest = patch(k, "fmod.long", _fmod_long, long & finite & (ax >= ay), [ax, ay], rest)
    rest = k.select(finite & ~ay.is_nan(), rest, NAN)
    return k.copysign(rest, x)


def _fmod_long(k: Emitter, args) -> Lanes:
    """Schoolbook division of the significands, ten bits a step; both arguments are positive."""
    ax, ay = args
    builder, word = k.builder, ir.IntType(64)
    mx, ex = _integer_and_exponent(k, ax)
    my, ey = _integer_and_exponent(k, ay)

    def digits(now: list[ir.Value]) -> tuple[list[ir.Value], ir.Value]:
        rest, left = now
        step = builder.select(builder.icmp_signed("<", left, word(10)), left, word(10))
        rest = builder.urem(builder.shl(rest, step), my.value)
        left = builder.sub(left, step)
        return [rest, left], builder.icmp_signed(">", left, word(0))

    start = [builder.urem(mx.value, my.value), (ex - ey).value]
    rest, _ = carried_loop(builder, start, digits, "digits")
    return _times_power(k, k.wrap(rest), ey)


def _integer_and_exponent(k: Emitter, x: Lanes) -> tuple[Lanes, Lanes]:
    """Return integers m and e with x = m 2^(e - 1075)."""
    bits = k.bits(x)
    field = bits.logical_shift(52)
    fraction = bits & ((1 << 52) - 1)
    normal = field > 0
    m = k.select(normal, fraction | (1 << 52), fraction)
    return m, k.select(normal, field, k.integer(1))


def _times_power(k: Emitter, m: Lanes, e: Lanes) -> Lanes:
    """Return m 2^(e - 1075), which is a float64 exactly, normal or not."""
    kind = ir.FunctionType(ir.IntType(64), [ir.IntType(64), ir.IntType(1)])
    count = declare(k.builder.module, "llvm.ctlz.i64", kind)
    zeros = k.wrap(k.builder.call(count, [m.value, ir.Constant(ir.IntType(1), 0)])) - 11
    room = k.select(zeros < e - 1, zeros, e - 1)  # shifts that keep the exponent field positive
    shifted = m << k.select(room < 0, k.integer(0), room)
    field = (e - room) << 52
    normal = shifted >= (1 << 52)
    bits = k.select(normal, (shifted & ((1 << 52) - 1)) | field, shifted)
    return k.from_bits(bits)


def _rounding(mode: str):
    def rounded(k: Emitter, x: Lanes) -> Lanes:
        return k.rounded(mode, x)

    rounded.__doc__ = f"{mode} to an integer."
    return rounded


FUNCTIONS = {
    "sign": sign,
    "copysign": copysign,
    "largest": largest,
    "smallest": smallest,
    "maximum": maximum,
    "minimum": minimum,
    "fmax": fmax,
    "fmin": fmin,
    "sqrt": sqrt,
    "cbrt": cbrt,
    "hypot": hypot,
    "fmod": fmod,
    "floor": _rounding("floor"),
    "ceil": _rounding("ceil"),
    "trunc": _rounding("trunc"),
    "rint": _rounding("rint"),
}
