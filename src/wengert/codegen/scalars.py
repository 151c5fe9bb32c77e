"""The elementary functions of the loop language as LLVM instructions.

`emit_apply` works on scalars and on vectors alike: a value is an LLVM value of the element type
or of a vector of it, booleans are i1. Transcendental functions come from `vmath`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir

from ..errors import WengertError
from ..loops import float_range, not_an_integer
from ..machine import policy
from . import vmath
from .llvm_types import element_type, intrinsic, type_suffix
from .vectors import splat, vector_type, width_of


class Scalars:
    """Emits elementary functions with one builder, for a number of lanes (1: plain scalars)."""

    def __init__(self, builder: ir.IRBuilder, lanes: int, has_fma: bool):
        self.builder = builder
        self.lanes = lanes
        self.has_fma = has_fma

    @classmethod
    def like(cls, builder: ir.IRBuilder, value: ir.Value, has_fma: bool) -> Scalars:
        """Those for as many lanes as a value has."""
        return cls(builder, width_of(value), has_fma)

    def type(self, dtype: np.dtype) -> ir.Type:
        """The LLVM type of a value."""
        return vector_type(element_type(dtype), self.lanes)

    def literal(self, value: Any, dtype: np.dtype) -> ir.Constant:
        """A constant on all lanes."""
        element = ir.Constant(element_type(dtype), _literal(value, dtype))
        return element if self.lanes == 1 else ir.Constant(self.type(dtype), [element] * self.lanes)

    def splat(self, value: ir.Value) -> ir.Value:
        """A scalar on all lanes."""
        return splat(self.builder, value, self.lanes)

    def apply(
        self, name: str, args: list[ir.Value], dtypes: list[np.dtype], dtype: np.dtype
    ) -> ir.Value:
        """One elementary function; `dtypes` are those of the arguments."""
        if name == "convert":
            return self.convert(args[0], dtypes[0], dtype)
        if name == "where":
            return self.builder.select(*args)
        if name == "bits":
            return self.builder.bitcast(args[0], self.type(dtype))
        own = _EMITTERS.get(name)
        if own is not None:
            return own(self, args, dtypes[0])
        if dtypes[0].kind == "f":
            return self.elementary(_VMATH_NAMES.get(name, name), args)
        raise WengertError(f"codegen: no code for {name} of {dtypes[0]}")

    def elementary(self, name: str, args: list[ir.Value]) -> ir.Value:
        """A function of `vmath`: in line, or as a call once the program has many of them.

        One of them is a hundred instructions; LLVM's time grows faster than the size of a body.
        """
        module = self.builder.module
        full_name = f"wengert.{name}.{type_suffix(args[0].type)}"
        uses = module.__dict__.setdefault("elementary_uses", {})
        uses[full_name] = uses.get(full_name, 0) + 1
        if uses[full_name] <= policy().code.in_line:
            return vmath.emit(self.builder, name, *args, has_fma=self.has_fma)
        function = module.globals.get(full_name) or self._outlined(name, full_name, args)
        return self.builder.call(function, args)

    def _outlined(self, name: str, full_name: str, args: list[ir.Value]) -> ir.Function:
        kind = args[0].type
        signature = ir.FunctionType(kind, [kind] * len(args))
        function = ir.Function(self.builder.module, signature, full_name)
        function.linkage = "internal"
        function.attributes.add("noinline")
        builder = ir.IRBuilder(function.append_basic_block())
        builder.ret(vmath.emit(builder, name, *function.args, has_fma=self.has_fma))
        return function

    def intrinsic(self, name: str, *args: ir.Value) -> ir.Value:
        """Call an LLVM intrinsic overloaded by the type of its arguments."""
        return intrinsic(self.builder, name, *args)

    def convert(self, x: ir.Value, source: np.dtype, target: np.dtype) -> ir.Value:
        """NumPy's cast between real dtypes."""
        b, kind = self.builder, self.type(target)
        if source == target:
            return x
        if target.kind == "b":
            zero = self.literal(0, source)
            if source.kind == "f":
                return b.fcmp_unordered("!=", x, zero)
            return b.icmp_unsigned("!=", x, zero)
        if source.kind == "f" and target.kind == "f":
            return b.fpext(x, kind) if target.itemsize > source.itemsize else b.fptrunc(x, kind)
        if source.kind == "f":
            return self._to_integer(x, source, target)
        if target.kind == "f":
            return b.uitofp(x, kind) if source.kind in "bu" else b.sitofp(x, kind)
        if source.kind == "b" or target.itemsize > source.itemsize:
            return b.zext(x, kind) if source.kind in "bu" else b.sext(x, kind)
        return b.trunc(x, kind) if target.itemsize < source.itemsize else x

    def _to_integer(self, x: ir.Value, source: np.dtype, target: np.dtype) -> ir.Value:
        """A float as an integer; LLVM leaves open what becomes of those out of range."""
        b, kind = self.builder, self.type(target)
        low, high = float_range(target)
        lost = not_an_integer(target)
        if lost == low:  # the lowest is then the same whether it counts or not
            size = self.intrinsic("llvm.fabs", x)
            defined = b.fcmp_ordered("<", size, self.literal(high, source))
        else:
            above = b.fcmp_ordered(">=", x, self.literal(low, source))
            defined = b.and_(above, b.fcmp_ordered("<", x, self.literal(high, source)))
        zero = self.literal(0, source)
        safe = b.select(defined, x, zero)
        if str(target) == "uint64":
            negative = b.fcmp_ordered("<", safe, zero)
            below = b.fptosi(b.select(negative, safe, zero), kind)
            number = b.select(negative, below, b.fptoui(b.select(negative, zero, safe), kind))
        else:
            dtype = np.dtype("i4" if high == 2.0**31 else "i8")
            wide = self.type(dtype)
            number = b.select(defined, b.fptosi(safe, wide), self.literal(lost, dtype))
            return number if wide == kind else b.trunc(number, kind)
        return b.select(defined, number, self.literal(lost, target))


def _literal(value: Any, dtype: np.dtype) -> Any:
    number = dtype.type(value).item()
    if dtype.kind == "f" and dtype.itemsize == 4:
        return float(np.float32(number))
    return int(number) if dtype.kind in "biu" else number


_VMATH_NAMES = {"expit": "sigmoid", "expit_tail": "sigmoid_tail"}
Emit = Callable[[Scalars, list[ir.Value], np.dtype], ir.Value]
_EMITTERS: dict[str, Emit] = {}


def _emitter(*names: str) -> Callable[[Emit], Emit]:
    def add(function: Emit) -> Emit:
        for name in names:
            _EMITTERS[name] = function
        return function

    return add


def _arithmetic(name: str, for_float: str, for_integer: str, for_bool: str | None = None) -> None:
    def emit(k: Scalars, args: list[ir.Value], dtype: np.dtype) -> ir.Value:
        method = for_float if dtype.kind == "f" else for_integer
        if dtype.kind == "b" and for_bool is not None:
            method = for_bool
        return getattr(k.builder, method)(*args)

    _EMITTERS[name] = emit


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

    _EMITTERS[name] = emit


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

    _EMITTERS[name] = emit


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

    _EMITTERS[name] = emit


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

    _EMITTERS[name] = emit


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

    _EMITTERS[name] = emit


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

    _EMITTERS[name] = emit


_infinite("isposinf", math.inf)
_infinite("isneginf", -math.inf)


def _by_size(name: str, symbol: str) -> None:
    """How the size of a number compares with infinity; that of an integer is less."""

    def emit(k: Scalars, args: list[ir.Value], dtype: np.dtype) -> ir.Value:
        if dtype.kind != "f":
            return k.literal(symbol == "<", np.dtype(bool))
        size = k.intrinsic("llvm.fabs", args[0])
        return k.builder.fcmp_ordered(symbol, size, k.literal(math.inf, dtype))

    _EMITTERS[name] = emit


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

    _EMITTERS[name] = emit


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
