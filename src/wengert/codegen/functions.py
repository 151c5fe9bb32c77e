"""The code of elementary functions, one by one: arithmetic, comparisons, logic, integers.

Each is given the `Scalars` that it is for, its arguments and their dtype.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from llvmlite import ir

from . import vmath

if TYPE_CHECKING:
    from .scalars import Scalars

Emit = Callable[["Scalars", list[ir.Value], np.dtype], ir.Value]
EMITTERS: dict[str, Emit] = {}


def _emitter(*names: str) -> Callable[[Emit], Emit]:
    def add(function: Emit) -> Emit:
        for name in names:
            EMITTERS[name] = function
        return function

    return add


def _arithmetic(name: str, for_float: str, for_integer: str, for_bool: str | None = None) -> None:
    def emit(k: Scalars, args: list[ir.Value], dtype: np.dtype) -> ir.Value:
        method = for_float if dtype.kind == "f" else for_integer
        if dtype.kind == "b" and for_bool is not None:
            method = for_bool
        return getattr(k.builder, method)(*args)

    EMITTERS[name] = emit


_arithmetic("add", "fadd", "add", "or_")
_arithmetic("subtract", "fsub", "sub")
_arithmetic("multiply", "fmul", "mul", "and_")
_arithmetic("divide", "fdiv", "sdiv")
_arithmetic("bitwise_and", "and_", "and_")
_arithmetic("bitwise_or", "or_", "or_")
_arithmetic("bitwise_xor", "xor", "xor")


@_emitter("positive", "stop_gradient")
def _same(k: Scalars, args: list[ir.Value], dtype: np.dtype) -> ir.Value:
    return args[0]


def _rounding(name: str) -> None:
    def emit(k: Scalars, args: list[ir.Value], dtype: np.dtype) -> ir.Value:
        """Integers are round already."""
        if dtype.kind != "f":
            return args[0]
        return vmath.emit(k.builder, name, *args, has_fma=k.has_fma)

    EMITTERS[name] = emit


for _name in ("floor", "ceil", "trunc", "rint"):
    _rounding(_name)


@_emitter("negative")
def _negative(k: Scalars, args: list[ir.Value], dtype: np.dtype) -> ir.Value:
    return k.builder.fneg(args[0]) if dtype.kind == "f" else k.builder.neg(args[0])


@_emitter("square")
def _square(k: Scalars, args: list[ir.Value], dtype: np.dtype) -> ir.Value:
    return k.apply("multiply", [args[0], args[0]], [dtype, dtype], dtype)


@_emitter("reciprocal")
def _reciprocal(k: Scalars, args: list[ir.Value], dtype: np.dtype) -> ir.Value:
    if dtype.kind != "f":
        return _integer_reciprocal(k, args[0], dtype)
    return k.builder.fdiv(k.literal(1, dtype), args[0])


def _integer_reciprocal(k: Scalars, x: ir.Value, dtype: np.dtype) -> ir.Value:
    """1 and -1 for themselves, else 0; 1 / 0 is what NumPy's conversion of infinity gives."""
    b, zero = k.builder, k.literal(0, dtype)
    with np.errstate(all="ignore"):
        of_zero = np.reciprocal(np.zeros((), dtype))
    size = _absolute(k, [x], dtype)
    whole = b.select(b.icmp_unsigned("==", size, k.literal(1, dtype)), x, zero)
    return b.select(b.icmp_unsigned("==", x, zero), k.literal(of_zero, dtype), whole)


@_emitter("deg2rad")
def _deg2rad(k: Scalars, args: list[ir.Value], dtype: np.dtype) -> ir.Value:
    return k.builder.fmul(args[0], k.literal(math.pi / 180, dtype))


@_emitter("rad2deg")
def _rad2deg(k: Scalars, args: list[ir.Value], dtype: np.dtype) -> ir.Value:
    return k.builder.fmul(args[0], k.literal(180 / math.pi, dtype))


@_emitter("scale")
def _scale(k: Scalars, args: list[ir.Value], dtype: np.dtype) -> ir.Value:
    """t * d, and zero where either is zero."""
    b, zero = k.builder, k.literal(0, dtype)
    t, d = args
    if dtype.kind != "f":
        return b.mul(t, d)
    # in this form AVX-512 needs two compares and one masked product
    live = b.and_(b.fcmp_unordered("!=", t, zero), b.fcmp_unordered("!=", d, zero))
    return b.select(live, b.fmul(t, d), zero)


@_emitter("absolute", "fabs")
def _absolute(k: Scalars, args: list[ir.Value], dtype: np.dtype) -> ir.Value:
    if dtype.kind == "f":
        return k.intrinsic("llvm.fabs", args[0])
    if dtype.kind in "ub":
        return args[0]
    negative = k.builder.icmp_signed("<", args[0], k.literal(0, dtype))
    return k.builder.select(negative, k.builder.neg(args[0]), args[0])


@_emitter("sign")
def _sign(k: Scalars, args: list[ir.Value], dtype: np.dtype) -> ir.Value:
    if dtype.kind == "f":
        return vmath.emit(k.builder, "sign", args[0], has_fma=k.has_fma)
    b, x = k.builder, args[0]
    zero, one = k.literal(0, dtype), k.literal(1, dtype)
    if dtype.kind == "u":
        return b.select(b.icmp_unsigned("==", x, zero), zero, one)
    positive = b.select(b.icmp_signed(">", x, zero), one, zero)
    return b.select(b.icmp_signed("<", x, zero), k.literal(-1, dtype), positive)


def _comparison(name: str, symbol: str) -> None:
    def emit(k: Scalars, args: list[ir.Value], dtype: np.dtype) -> ir.Value:
        if dtype.kind == "f":
            ordered = k.builder.fcmp_unordered if symbol == "!=" else k.builder.fcmp_ordered
            return ordered(symbol, *args)
        compare = k.builder.icmp_signed if dtype.kind == "i" else k.builder.icmp_unsigned
        return compare(symbol, *args)

    EMITTERS[name] = emit


for _name, _symbol in {
    "equal": "==", "not_equal": "!=", "less": "<", "less_equal": "<=", "greater": ">",
    "greater_equal": ">=",
}.items():  # fmt: skip
    _comparison(_name, _symbol)


def _extreme(name: str, symbol: str) -> None:
    def emit(k: Scalars, args: list[ir.Value], dtype: np.dtype) -> ir.Value:
        if dtype.kind == "f":
            return vmath.emit(k.builder, name, *args, has_fma=k.has_fma)
        compare = k.builder.icmp_signed if dtype.kind == "i" else k.builder.icmp_unsigned
        return k.builder.select(compare(symbol, *args), args[0], args[1])

    EMITTERS[name] = emit


_extreme("largest", ">")
_extreme("smallest", "<")
_extreme("maximum", ">")
_extreme("minimum", "<")
_extreme("fmax", ">")
_extreme("fmin", "<")


def _logic(name: str, method: str) -> None:
    def emit(k: Scalars, args: list[ir.Value], dtype: np.dtype) -> ir.Value:
        flags = [k.convert(arg, dtype, np.dtype(bool)) for arg in args]
        return getattr(k.builder, method)(*flags)

    EMITTERS[name] = emit


_logic("logical_and", "and_")
_logic("logical_or", "or_")
_logic("logical_xor", "xor")
_logic("logical_not", "not_")


@_emitter("invert")
def _invert(k: Scalars, args: list[ir.Value], dtype: np.dtype) -> ir.Value:
    return k.builder.not_(args[0])


def _shift(name: str) -> None:
    def emit(k: Scalars, args: list[ir.Value], dtype: np.dtype) -> ir.Value:
        """A shift by the width or more gives what repeated shifting would."""
        b, (x, n) = k.builder, args
        width = k.literal(dtype.itemsize * 8, dtype)
        far = b.icmp_unsigned(">=", n, width)
        safe = b.select(far, k.literal(0, dtype), n)
        if name == "left_shift":
            return b.select(far, k.literal(0, dtype), b.shl(x, safe))
        if dtype.kind == "u":
            return b.select(far, k.literal(0, dtype), b.lshr(x, safe))
        last = k.literal(dtype.itemsize * 8 - 1, dtype)
        return b.select(far, b.ashr(x, last), b.ashr(x, safe))

    EMITTERS[name] = emit


_shift("left_shift")
_shift("right_shift")


@_emitter("isnan")
def _isnan(k: Scalars, args: list[ir.Value], dtype: np.dtype) -> ir.Value:
    if dtype.kind != "f":
        return k.literal(False, np.dtype(bool))
    return k.builder.fcmp_unordered("uno", args[0], args[0])


def _infinite(name: str, value: float) -> None:
    def emit(k: Scalars, args: list[ir.Value], dtype: np.dtype) -> ir.Value:
        if dtype.kind != "f":
            return k.literal(False, np.dtype(bool))
        return k.builder.fcmp_ordered("==", args[0], k.literal(value, dtype))

    EMITTERS[name] = emit


_infinite("isposinf", math.inf)
_infinite("isneginf", -math.inf)


def _by_size(name: str, symbol: str) -> None:
    """How the size of a number compares with infinity; that of an integer is less."""

    def emit(k: Scalars, args: list[ir.Value], dtype: np.dtype) -> ir.Value:
        if dtype.kind != "f":
            return k.literal(symbol == "<", np.dtype(bool))
        size = k.intrinsic("llvm.fabs", args[0])
        return k.builder.fcmp_ordered(symbol, size, k.literal(math.inf, dtype))

    EMITTERS[name] = emit


_by_size("isinf", "==")
_by_size("isfinite", "<")


@_emitter("signbit")
def _signbit(k: Scalars, args: list[ir.Value], dtype: np.dtype) -> ir.Value:
    if dtype.kind in "bu":
        return k.literal(False, np.dtype(bool))
    bits = np.dtype(f"i{dtype.itemsize}")
    pattern = k.builder.bitcast(args[0], k.type(bits)) if dtype.kind == "f" else args[0]
    return k.builder.icmp_signed("<", pattern, k.literal(0, bits))


@_emitter("fmod")
def _fmod(k: Scalars, args: list[ir.Value], dtype: np.dtype) -> ir.Value:
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


def _division(name: str, part: int) -> None:
    def emit(k: Scalars, args: list[ir.Value], dtype: np.dtype) -> ir.Value:
        divide = _float_divmod if dtype.kind == "f" else _integer_divmod
        x, y = args
        return divide(k, x, y, dtype)[part]

    EMITTERS[name] = emit


_division("floor_divide", 0)
_division("remainder", 1)


def _integer_divmod(
    k: Scalars, x: ir.Value, y: ir.Value, dtype: np.dtype
) -> tuple[ir.Value, ir.Value]:
    """Floor division, with NumPy's 0 for division by zero and no overflow for MIN / -1."""
    b = k.builder
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
