"""Formulas over SIMD lanes: operators on LLVM values, so that emitted code reads like mathematics.

A `Lanes` wraps one LLVM value (scalar or vector; float, integer or mask) together with the
`Emitter` that builds instructions for it. Python numbers mix in as constants. Nothing branches.

Without hardware FMA, `llvm.fma` would become a library call. So there are two kinds of it:
`mad` is for polynomials (one rounding or two, whichever is cheap), and `exact_fma` keeps the low
bits by other means (through float64 for float32, by Dekker's splitting for float64).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from llvmlite import ir

from ..llvm_types import declare, intrinsic


class Format(NamedTuple):
    """The layout of a binary floating-point number."""

    bits: int
    fraction: int  # stored bits of the significand
    bias: int

    @property
    def type(self) -> ir.Type:
        """The LLVM scalar type of this layout."""
        return ir.DoubleType() if self.bits == 64 else ir.FloatType()

    @property
    def unit(self) -> float:
        """Half a unit in the last place of 1."""
        return 2.0 ** -(self.fraction + 1)

    @property
    def round_magic(self) -> float:
        """Adding this rounds a small number to an integer, left in the low bits of the sum."""
        return 1.5 * 2.0**self.fraction


F32 = Format(32, 23, 127)
F64 = Format(64, 52, 1023)

Operator = Callable[["Lanes", Any], "Lanes"]


def _binary(for_float: str, for_integer: str, swapped: bool = False) -> Operator:
    """The operator that builds one instruction."""

    def build(self: Lanes, other: Any) -> Lanes:
        left, right = self.value, self.emitter.constant_like(self, other).value
        if swapped:
            left, right = right, left
        name = for_float if _is_float(self.value.type) else for_integer
        return Lanes(self.emitter, getattr(self.emitter.builder, name)(left, right))

    return build


def _comparison(symbol: str) -> Operator:
    """The operator that gives a mask."""

    def build(self: Lanes, other: Any) -> Lanes:
        builder = self.emitter.builder
        compare = builder.fcmp_unordered if symbol == "!=" else builder.fcmp_ordered
        if not _is_float(self.value.type):
            compare = builder.icmp_signed
        right = self.emitter.constant_like(self, other).value
        return Lanes(self.emitter, compare(symbol, self.value, right))

    return build


class Lanes:
    """One LLVM value with arithmetic; comparisons give masks for `Emitter.select`."""

    __slots__ = ("emitter", "value")

    def __init__(self, emitter: Emitter, value: ir.Value) -> None:
        self.emitter = emitter
        self.value = value

    def __neg__(self) -> Lanes:
        return Lanes(self.emitter, self.emitter.builder.fneg(self.value))

    def __invert__(self) -> Lanes:
        return Lanes(self.emitter, self.emitter.builder.not_(self.value))

    __add__, __radd__ = _binary("fadd", "add"), _binary("fadd", "add", swapped=True)
    __sub__, __rsub__ = _binary("fsub", "sub"), _binary("fsub", "sub", swapped=True)
    __mul__ = __rmul__ = _binary("fmul", "mul")
    __truediv__, __rtruediv__ = _binary("fdiv", "sdiv"), _binary("fdiv", "sdiv", swapped=True)
    __and__, __or__, __xor__ = (_binary(name, name) for name in ("and_", "or_", "xor"))
    __lshift__ = _binary("shl", "shl")
    __rshift__ = _binary("ashr", "ashr")  # keeps the sign
    logical_shift = _binary("lshr", "lshr")  # fills with zeros
    __lt__, __le__, __gt__, __ge__ = (_comparison(symbol) for symbol in ("<", "<=", ">", ">="))
    _is_equal, _is_different = _comparison("=="), _comparison("!=")

    def equals(self, other: Any) -> Lanes:
        """Mask of equal lanes (a NaN equals nothing)."""
        return self._is_equal(other)

    def differs(self, other: Any) -> Lanes:
        """Mask of unequal lanes (a NaN differs from everything)."""
        return self._is_different(other)

    def is_nan(self) -> Lanes:
        """Mask of the lanes that hold NaN."""
        return self._is_different(self)


class Emitter:
    """Builds the instructions of one function on lanes of one float type and width."""

    def __init__(self, builder: ir.IRBuilder, like: ir.Type, has_fma: bool) -> None:
        self.builder = builder
        self.has_fma = has_fma
        self.width = like.count if isinstance(like, ir.VectorType) else 0
        self.format = F64 if isinstance(_element(like), ir.DoubleType) else F32
        self.float_type = like
        self.int_type = self.shaped(ir.IntType(self.format.bits))

    def shaped(self, element: ir.Type) -> ir.Type:
        """Return the element type, or the vector of it that has as many lanes as the arguments."""
        return ir.VectorType(element, self.width) if self.width else element

    def sibling(self, layout: Format) -> Emitter:
        """Return an emitter of the same width for another float layout."""
        return Emitter(self.builder, self.shaped(layout.type), self.has_fma)

    def wrap(self, value: ir.Value) -> Lanes:
        """Give an LLVM value arithmetic."""
        return Lanes(self, value)

    def constant(self, number: float) -> Lanes:
        """Return a float in every lane."""
        return Lanes(self, _splat(self.float_type, float(number)))

    def integer(self, number: int) -> Lanes:
        """Return an integer, as wide as the float, in every lane."""
        return Lanes(self, _splat(self.int_type, number))

    def constant_like(self, lanes: Lanes, other: Any) -> Lanes:
        """Return `other` as lanes: unchanged, or a Python number in the type of `lanes`."""
        if isinstance(other, Lanes):
            return other
        return Lanes(self, _splat(lanes.value.type, other))

    def _intrinsic(self, name: str, *args: Lanes) -> Lanes:
        return Lanes(self, intrinsic(self.builder, f"llvm.{name}", *(a.value for a in args)))

    def select(self, mask: Lanes, yes: Any, no: Any) -> Lanes:
        """Return `yes` where the mask holds, else `no`; one of them may be a Python number."""
        like = yes if isinstance(yes, Lanes) else no
        if not isinstance(like, Lanes):
            like = self.constant(0.0)
        yes, no = self.constant_like(like, yes), self.constant_like(like, no)
        return Lanes(self, self.builder.select(mask.value, yes.value, no.value))

    def absolute(self, x: Lanes) -> Lanes:
        """Clear the sign bit."""
        return self._intrinsic("fabs", x)

    def copysign(self, magnitude: Lanes, sign: Lanes) -> Lanes:
        """Return the magnitude of one argument with the sign bit of the other."""
        return self._intrinsic("copysign", magnitude, sign)

    def sqrt(self, x: Lanes) -> Lanes:
        """Return the correctly rounded square root."""
        return self._intrinsic("sqrt", x)

    def mad(self, a: Any, b: Any, c: Any) -> Lanes:
        """Return a * b + c with one rounding where the hardware can, else with two."""
        if not self.has_fma:
            return a * b + c
        a, b, c = (v if isinstance(v, Lanes) else self.constant(v) for v in (a, b, c))
        return self._intrinsic("fma", a, b, c)

    def two_product(self, a: Lanes, b: Lanes) -> tuple[Lanes, Lanes]:
        """Return (p, e): p = a * b rounded, and its rounding error, exactly."""
        product = a * b
        if self.has_fma:
            return product, self._intrinsic("fma", a, b, -product)
        if self.format is F32:
            wide = self.widen(a) * self.widen(b)
            return product, self.narrow(wide - self.widen(product))
        ah, al = self._halves(a)
        bh, bl = self._halves(b)
        return product, al * bl - (((product - ah * bh) - al * bh) - ah * bl)

    def _halves(self, a: Lanes) -> tuple[Lanes, Lanes]:
        scaled = a * 134217729.0  # 2^27 + 1: Veltkamp's splitting of 53 bits
        high = scaled - (scaled - a)
        return high, a - high

    def exact_fma(self, a: Lanes, b: Lanes, c: Lanes) -> Lanes:
        """Return a * b + c where the sum nearly cancels and every bit of the product counts."""
        if self.has_fma:
            return self._intrinsic("fma", a, b, c)
        if self.format is F32:
            return self.narrow(self.widen(a) * self.widen(b) + self.widen(c))
        product, error = self.two_product(a, b)
        return (product + c) + error

    def widen(self, x: Lanes) -> Lanes:
        """Convert float32 lanes to float64 lanes."""
        other = self.sibling(F64)
        return Lanes(other, self.builder.fpext(x.value, other.float_type))

    def narrow(self, x: Lanes) -> Lanes:
        """Round float64 lanes to float32 lanes."""
        other = self.sibling(F32)
        return Lanes(other, self.builder.fptrunc(x.value, other.float_type))

    def bits(self, x: Lanes) -> Lanes:
        """Return the integer with the bits of a float."""
        return Lanes(self, self.builder.bitcast(x.value, self.int_type))

    def from_bits(self, i: Lanes) -> Lanes:
        """Return the float with the bits of an integer."""
        return Lanes(self, self.builder.bitcast(i.value, self.float_type))

    def small_int_to_float(self, i: Lanes) -> Lanes:
        """Convert integers below 2^20."""
        if self.format is F32:
            return Lanes(self, self.builder.sitofp(i.value, self.float_type))
        # AVX2 has no 64-bit conversion, so the integer goes into the low bits of a float.
        magic = self.format.round_magic
        return self.from_bits(i + _float_bits(self.format, magic)) - magic

    def round_to_int(self, x: Lanes) -> tuple[Lanes, Lanes]:
        """Return a small x rounded to the nearest integer, as a float and as its tag.

        The tag is the integer plus a multiple of 2^12 (float64) or 2^9 (float32): the bits of a
        float, enough for `power_of_two`, `scale` and the low bits; `untag` gives the integer.
        """
        return self._split_rounded(x + self.format.round_magic)

    def round_product(self, x: Lanes, factor: float) -> tuple[Lanes, Lanes]:
        """Return x * factor rounded to the nearest integer, as a float and as its tag."""
        return self._split_rounded(self.mad(x, factor, self.format.round_magic))

    def _split_rounded(self, shifted: Lanes) -> tuple[Lanes, Lanes]:
        return shifted - self.format.round_magic, self.bits(shifted)

    def untag(self, tag: Lanes) -> Lanes:
        """Return the integer of a tag."""
        return tag - _float_bits(self.format, self.format.round_magic)

    def power_of_two(self, k: Lanes, shift: int = 0) -> Lanes:
        """Return 2^(k + shift) for the integers, or tags, k + shift of normal numbers."""
        layout = self.format
        return self.from_bits((k << layout.fraction) + (layout.bias + shift << layout.fraction))

    def scale(self, x: Lanes, k: Lanes) -> Lanes:
        """Return x * 2^k for an integer or tag k up to twice the exponent range.

        x must be near 1, so that only the second of the two factors rounds, also into subnormal
        numbers. (Adding to the exponent of x would be no shorter, and would spoil NaN.)
        """
        half = k >> 1
        return x * self.power_of_two(half) * self.power_of_two(k - half)

    def scale_down(self, x: Lanes, k: Lanes) -> Lanes:
        """The same for k at most 0, and not below what the smallest subnormal numbers have."""
        shift = (self.format.bias + 1) // 2
        return x * self.power_of_two(k, shift) * 2.0**-shift

    def clamp(self, x: Lanes, low: float, high: float) -> Lanes:
        """Limit x to [low, high]; NaN stays."""
        return self.select(x > high, high, self.select(x < low, low, x))

    def polynomial(self, x: Lanes, coefficients: Sequence[float]) -> Lanes:
        """Evaluate by Estrin's scheme: short dependency chains keep wide machines busy."""
        terms: list[Any] = list(coefficients)
        power = x
        while len(terms) > 1:
            paired = [self.mad(power, terms[i + 1], terms[i]) for i in range(0, len(terms) - 1, 2)]
            terms = paired + (terms[-1:] if len(terms) % 2 else [])
            if len(terms) > 1:
                power = power * power
        return terms[0]

    def rounded(self, mode: str, x: Lanes) -> Lanes:
        """Return x rounded to an integer; mode is floor, ceil, trunc or rint."""
        if self.has_fma:
            return self._intrinsic(mode, x)
        # Processors without FMA may also lack rounding instructions: round by adding 2^fraction.
        limit = 2.0**self.format.fraction
        size = self.absolute(x)
        nearest = self.copysign((size + limit) - limit, x)
        if mode == "floor":
            nearest = nearest - self.select(nearest > x, 1.0, 0.0)
        elif mode == "ceil":
            nearest = nearest + self.select(nearest < x, 1.0, 0.0)
        elif mode == "trunc":
            beyond = self.absolute(nearest) > size
            nearest = nearest - self.select(beyond, self.copysign(self.constant(1.0), x), 0.0)
        return self.select(size < limit, self.copysign(nearest, x), x)

    def any_lane(self, mask: Lanes) -> ir.Value:
        """Return one bit: whether the mask holds in any lane."""
        if not self.width:
            return mask.value
        kind = ir.VectorType(ir.IntType(1), self.width)
        name = f"llvm.vector.reduce.or.v{self.width}i1"
        function = declare(self.builder.module, name, ir.FunctionType(ir.IntType(1), [kind]))
        return self.builder.call(function, [mask.value])


def _element(kind: ir.Type) -> ir.Type:
    return kind.element if isinstance(kind, ir.VectorType) else kind


def _is_float(kind: ir.Type) -> bool:
    return isinstance(_element(kind), (ir.FloatType, ir.DoubleType))


def _float_bits(layout: Format, number: float) -> int:
    pair = ("<d", "<q") if layout.bits == 64 else ("<f", "<i")
    return struct.unpack(pair[1], struct.pack(pair[0], number))[0]


class _Formatted(ir.Constant):
    """A constant whose text is ready; llvmlite would format a number once for every lane."""

    def __init__(self, kind: ir.Type, text: str) -> None:
        self.type = kind
        self.constant = text

    def get_reference(self) -> str:
        return self.constant

    _get_reference = get_reference


def _splat(kind: ir.Type, number: float) -> ir.Constant:
    """Return the number in every lane."""
    element = _element(kind)
    if isinstance(element, ir.IntType):
        text = str(int(number))
    else:
        if isinstance(element, ir.FloatType):
            number = struct.unpack("<f", struct.pack("<f", number))[0]
        text = f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016x}"
    if isinstance(kind, ir.VectorType):
        text = "<" + ", ".join([f"{element} {text}"] * kind.count) + ">"
    return _Formatted(kind, text)
