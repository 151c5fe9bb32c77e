"""The code of elementary functions, one by one: arithmetic, comparisons, logic, integers.

Each is given the `Scalars` that it is for, its arguments and their dtype; functions that are alike
are one, told apart by what comes before these.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from llvmlite import ir

from . import vmath
from .llvm_types import type_suffix

if TYPE_CHECKING:
    from .scalars import Scalars

Values = list[ir.Value]
Emit = Callable[["Scalars", Values, np.dtype], ir.Value]
BOOL = np.dtype(bool)


def _instruction(
    for_float: str, for_integer: str, for_bool: str, k: Scalars, args: Values, dtype: np.dtype
) -> ir.Value:
    method = {"f": for_float, "b": for_bool}.get(dtype.kind, for_integer)
    return getattr(k.builder, method)(*args)


def _same(k: Scalars, args: Values, dtype: np.dtype) -> ir.Value:
    return args[0]


def _rounded(name: str, k: Scalars, args: Values, dtype: np.dtype) -> ir.Value:
    """Integers are round already."""
    if dtype.kind != "f":
        return args[0]
    return vmath.emit(k.builder, name, *args, has_fma=k.has_fma)


def _square(k: Scalars, args: Values, dtype: np.dtype) -> ir.Value:
    return k.apply("multiply", [args[0], args[0]], [dtype, dtype], dtype)


def _reciprocal(k: Scalars, args: Values, dtype: np.dtype) -> ir.Value:
    """Of integers 1 and -1 for themselves, else 0; 1 / 0 is what NumPy makes of infinity."""
    b, (x,), zero, one = k.builder, args, k.literal(0, dtype), k.literal(1, dtype)
    if dtype.kind == "f":
        return b.fdiv(one, x)
    with np.errstate(all="ignore"):
        of_zero = np.reciprocal(np.zeros((), dtype))
    whole = b.select(b.icmp_unsigned("==", _absolute(k, args, dtype), one), x, zero)
    return b.select(b.icmp_unsigned("==", x, zero), k.literal(of_zero, dtype), whole)


def _times(factor: float, k: Scalars, args: Values, dtype: np.dtype) -> ir.Value:
    return k.builder.fmul(args[0], k.literal(factor, dtype))


def _scale(k: Scalars, args: Values, dtype: np.dtype) -> ir.Value:
    """t * d, and zero where either is zero."""
    b, zero = k.builder, k.literal(0, dtype)
    t, d = args
    if dtype.kind != "f":
        return b.mul(t, d)
    # in this form AVX-512 needs two compares and one masked product
    live = b.and_(b.fcmp_unordered("!=", t, zero), b.fcmp_unordered("!=", d, zero))
    return b.select(live, b.fmul(t, d), zero)


def _absolute(k: Scalars, args: Values, dtype: np.dtype) -> ir.Value:
    if dtype.kind == "f":
        return k.intrinsic("llvm.fabs", args[0])
    if dtype.kind in "ub":
        return args[0]
    negative = k.builder.icmp_signed("<", args[0], k.literal(0, dtype))
    return k.builder.select(negative, k.builder.neg(args[0]), args[0])


def _sign(k: Scalars, args: Values, dtype: np.dtype) -> ir.Value:
    if dtype.kind == "f":
        return vmath.emit(k.builder, "sign", args[0], has_fma=k.has_fma)
    b, x = k.builder, args[0]
    zero, one = k.literal(0, dtype), k.literal(1, dtype)
    if dtype.kind == "u":
        return b.select(b.icmp_unsigned("==", x, zero), zero, one)
    positive = b.select(b.icmp_signed(">", x, zero), one, zero)
    return b.select(b.icmp_signed("<", x, zero), k.literal(-1, dtype), positive)


def _compared(symbol: str, k: Scalars, args: Values, dtype: np.dtype) -> ir.Value:
    if dtype.kind == "f":
        ordered = k.builder.fcmp_unordered if symbol == "!=" else k.builder.fcmp_ordered
        return ordered(symbol, *args)
    compare = k.builder.icmp_signed if dtype.kind == "i" else k.builder.icmp_unsigned
    return compare(symbol, *args)


def _extreme(name: str, symbol: str, k: Scalars, args: Values, dtype: np.dtype) -> ir.Value:
    if dtype.kind == "f":
        return vmath.emit(k.builder, name, *args, has_fma=k.has_fma)
    return k.builder.select(_compared(symbol, k, args, dtype), args[0], args[1])


def _logical(method: str, k: Scalars, args: Values, dtype: np.dtype) -> ir.Value:
    return getattr(k.builder, method)(*[k.convert(arg, dtype, BOOL) for arg in args])


def _shifted(left: bool, k: Scalars, args: Values, dtype: np.dtype) -> ir.Value:
    """A shift by the width or more gives what repeated shifting would."""
    b, (x, n) = k.builder, args
    width = k.literal(dtype.itemsize * 8, dtype)
    far = b.icmp_unsigned(">=", n, width)
    safe = b.select(far, k.literal(0, dtype), n)
    if left:
        return b.select(far, k.literal(0, dtype), b.shl(x, safe))
    if dtype.kind == "u":
        return b.select(far, k.literal(0, dtype), b.lshr(x, safe))
    last = k.literal(dtype.itemsize * 8 - 1, dtype)
    return b.select(far, b.ashr(x, last), b.ashr(x, safe))


def _isnan(k: Scalars, args: Values, dtype: np.dtype) -> ir.Value:
    if dtype.kind != "f":
        return k.literal(False, BOOL)
    return k.builder.fcmp_unordered("uno", args[0], args[0])


def _infinite(value: float, k: Scalars, args: Values, dtype: np.dtype) -> ir.Value:
    if dtype.kind != "f":
        return k.literal(False, BOOL)
    return k.builder.fcmp_ordered("==", args[0], k.literal(value, dtype))


def _by_size(symbol: str, k: Scalars, args: Values, dtype: np.dtype) -> ir.Value:
    """How the size of a number compares with infinity; that of an integer is less."""
    if dtype.kind != "f":
        return k.literal(symbol == "<", BOOL)
    size = k.intrinsic("llvm.fabs", args[0])
    return k.builder.fcmp_ordered(symbol, size, k.literal(math.inf, dtype))


def _signbit(k: Scalars, args: Values, dtype: np.dtype) -> ir.Value:
    if dtype.kind in "bu":
        return k.literal(False, BOOL)
    bits = np.dtype(f"i{dtype.itemsize}")
    pattern = k.builder.bitcast(args[0], k.type(bits)) if dtype.kind == "f" else args[0]
    return k.builder.icmp_signed("<", pattern, k.literal(0, bits))


def _fmod(k: Scalars, args: Values, dtype: np.dtype) -> ir.Value:
    """The remainder with the sign of the dividend; for integers 0 for division by zero."""
    if dtype.kind == "f":
        return vmath.emit(k.builder, "fmod", *args, has_fma=k.has_fma)
    b, (x, y) = k.builder, args
    zero, one = k.literal(0, dtype), k.literal(1, dtype)
    idle = b.icmp_unsigned("==", y, zero)
    if dtype.kind == "i":
        idle = b.or_(idle, b.icmp_signed("==", y, k.literal(-1, dtype)))
    safe = b.select(idle, one, y)
    rest = b.srem(x, safe) if dtype.kind == "i" else b.urem(x, safe)
    return b.select(idle, zero, rest)


def _divided(part: int, k: Scalars, args: Values, dtype: np.dtype) -> ir.Value:
    """The quotient or the remainder."""
    divide = _float_divmod if dtype.kind == "f" else _integer_divmod
    x, y = args
    return divide(k, x, y, dtype)[part]


def power_of_two(value: ir.Value) -> int | None:
    """The exponent of a constant that is a power of two, the same on all lanes."""
    if not isinstance(value, ir.Constant):
        return None
    several = isinstance(value.constant, (list, tuple))
    lanes = value.constant if several else [value.constant]
    found = {one.constant if isinstance(one, ir.Constant) else one for one in lanes}
    (number,) = found if len(found) == 1 else (0,)
    known = isinstance(number, int) and number > 0 and number & (number - 1) == 0
    return number.bit_length() - 1 if known else None


def _integer_divmod(
    k: Scalars, x: ir.Value, y: ir.Value, dtype: np.dtype
) -> tuple[ir.Value, ir.Value]:
    """Floor division, with NumPy's 0 for division by zero and no overflow for MIN / -1."""
    b = k.builder
    power = power_of_two(y)
    if power is not None and dtype.kind == "i":  # bits to the right, and what they were
        return b.ashr(x, k.literal(power, dtype)), b.and_(x, k.literal((1 << power) - 1, dtype))
    zero, one = k.literal(0, dtype), k.literal(1, dtype)
    by_zero = b.icmp_unsigned("==", y, zero)
    if dtype.kind != "i":
        safe = b.select(by_zero, one, y)
        quotient, rest = b.udiv(x, safe), b.urem(x, safe)
        return b.select(by_zero, zero, quotient), b.select(by_zero, zero, rest)
    by_minus_one = b.icmp_signed("==", y, k.literal(-1, dtype))
    safe = b.select(b.or_(by_zero, by_minus_one), one, y)
    quotient, rest = b.sdiv(x, safe), b.srem(x, safe)
    crooked = b.and_(b.icmp_signed("!=", rest, zero), b.icmp_signed("<", b.xor(rest, safe), zero))
    quotient = b.select(crooked, b.sub(quotient, one), quotient)
    rest = b.select(crooked, b.add(rest, safe), rest)
    quotient = b.select(by_minus_one, b.neg(x), quotient)
    rest = b.select(by_minus_one, zero, rest)
    return b.select(by_zero, zero, quotient), b.select(by_zero, zero, rest)


def _whole_power(k: Scalars, args: Values, dtype: np.dtype) -> ir.Value:
    """Integers to powers that are not negative, modulo the width of their dtype as NumPy has them.

    A function of its own, with a loop over the bits of the exponents.
    """
    module, kind = k.builder.module, args[0].type
    name = f"wengert.whole_power.{type_suffix(kind)}"
    function = module.globals.get(name)
    if function is None:
        function = ir.Function(module, ir.FunctionType(kind, [kind, kind]), name)
        function.linkage = "internal"
        _emit_whole_power(function, k, dtype)
    return k.builder.call(function, args)


def _emit_whole_power(function: ir.Function, k: Scalars, dtype: np.dtype) -> None:
    """x**n = (x * x)**(n // 2), times x if n is odd."""
    zero, one = k.literal(0, dtype), k.literal(1, dtype)
    entry, turn, end = (function.append_basic_block(name) for name in ("entry", "turn", "end"))
    ir.IRBuilder(entry).branch(turn)
    b = ir.IRBuilder(turn)
    starts = (one, *function.args)
    result, x, n = held = [b.phi(one.type) for _ in starts]
    is_odd = b.icmp_unsigned("!=", b.and_(n, one), zero)
    after = b.select(is_odd, b.mul(result, x), result), b.mul(x, x), b.lshr(n, one)
    for phi, start, following in zip(held, starts, after, strict=True):
        phi.add_incoming(start, entry)
        phi.add_incoming(following, turn)
    left = b.icmp_unsigned("!=", after[2], zero)
    if k.lanes > 1:  # as long as one of them needs
        bits = b.bitcast(left, ir.IntType(k.lanes))
        left = b.icmp_unsigned("!=", bits, ir.Constant(bits.type, 0))
    b.cbranch(left, turn, end)
    ir.IRBuilder(end).ret(after[0])


def _float_divmod(
    k: Scalars, x: ir.Value, y: ir.Value, dtype: np.dtype
) -> tuple[ir.Value, ir.Value]:
    """NumPy's divmod: the remainder by fmod with the divisor's sign, the quotient rounded to it."""
    b = k.builder
    zero, one = k.literal(0, dtype), k.literal(1, dtype)
    rest = vmath.emit(b, "fmod", x, y, has_fma=k.has_fma)
    b = k.builder
    has_rest = b.fcmp_unordered("!=", rest, zero)
    opposite = b.xor(b.fcmp_ordered("<", y, zero), b.fcmp_ordered("<", rest, zero))
    shift = b.and_(has_rest, opposite)
    quotient = b.fdiv(b.fsub(x, rest), y)
    rest = b.select(shift, b.fadd(rest, y), rest)
    quotient = b.select(shift, b.fsub(quotient, one), quotient)
    rest = b.select(has_rest, rest, k.intrinsic("llvm.copysign", zero, y))
    down = k.intrinsic("llvm.floor", quotient)
    nearer = b.fcmp_ordered(">", b.fsub(quotient, down), k.literal(0.5, dtype))
    rounded = b.select(nearer, b.fadd(down, one), down)
    flat = b.fcmp_ordered("==", quotient, zero)
    signed_zero = k.intrinsic("llvm.copysign", zero, b.fdiv(x, y))
    rounded = b.select(flat, signed_zero, rounded)
    by_zero = b.fcmp_ordered("==", y, zero)
    return b.select(by_zero, b.fdiv(x, y), rounded), rest


EMITTERS: dict[str, Emit] = {
    "add": partial(_instruction, "fadd", "add", "or_"),
    "subtract": partial(_instruction, "fsub", "sub", "sub"),
    "multiply": partial(_instruction, "fmul", "mul", "and_"),
    "divide": partial(_instruction, "fdiv", "sdiv", "sdiv"),
    "negative": partial(_instruction, "fneg", "neg", "neg"),
    "bitwise_and": partial(_instruction, "and_", "and_", "and_"),
    "bitwise_or": partial(_instruction, "or_", "or_", "or_"),
    "bitwise_xor": partial(_instruction, "xor", "xor", "xor"),
    "invert": partial(_instruction, "not_", "not_", "not_"),
    "positive": _same,
    "stop_gradient": _same,
    **{name: partial(_rounded, name) for name in ("floor", "ceil", "trunc", "rint")},
    "square": _square,
    "reciprocal": _reciprocal,
    "deg2rad": partial(_times, math.pi / 180),
    "rad2deg": partial(_times, 180 / math.pi),
    "scale": _scale,
    "absolute": _absolute,
    "fabs": _absolute,
    "sign": _sign,
    "equal": partial(_compared, "=="),
    "not_equal": partial(_compared, "!="),
    "less": partial(_compared, "<"),
    "less_equal": partial(_compared, "<="),
    "greater": partial(_compared, ">"),
    "greater_equal": partial(_compared, ">="),
    **{name: partial(_extreme, name, ">") for name in ("largest", "maximum", "fmax")},
    **{name: partial(_extreme, name, "<") for name in ("smallest", "minimum", "fmin")},
    "logical_and": partial(_logical, "and_"),
    "logical_or": partial(_logical, "or_"),
    "logical_xor": partial(_logical, "xor"),
    "logical_not": partial(_logical, "not_"),
    "left_shift": partial(_shifted, True),
    "right_shift": partial(_shifted, False),
    "isnan": _isnan,
    "isposinf": partial(_infinite, math.inf),
    "isneginf": partial(_infinite, -math.inf),
    "isinf": partial(_by_size, "=="),
    "isfinite": partial(_by_size, "<"),
    "signbit": _signbit,
    "fmod": _fmod,
    "floor_divide": partial(_divided, 0),
    "remainder": partial(_divided, 1),
    "whole_power": _whole_power,
}
