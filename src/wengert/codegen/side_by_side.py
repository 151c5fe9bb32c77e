"""Matrices that lie side by side, one lane each, in a few words: what algorithms on them need.

Element (i, j) of as many matrices as a vector has lanes is one vector in memory. So an algorithm is
loops of ordinary length around vectors, and takes as long to compile for 16 rows as for 6. Where
matrices differ in what is done to them, a mask tells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from .counted import accumulating_loop, carried_loop, counted_loop
from .lanes import multiply_add
from .llvm_types import I64, as_i64, declare, i64, intrinsic, type_suffix
from .vectors import splat

DOUBLE = ir.DoubleType()
Place = Any  # of a row or column: a number that is known, or what a loop counts


class SideBySide:
    """Vectors of numbers, and loops around them, in the function that a builder writes."""

    def __init__(self, builder: ir.IRBuilder, width: int, has_fma: bool):
        self.builder, self.width, self.has_fma = builder, width, has_fma
        self.kind = ir.VectorType(DOUBLE, width)
        self.one = i64(1)

    # ------------------------------------------------------------ numbers

    def number(self, value: float) -> ir.Constant:
        """One number on all lanes."""
        return ir.Constant(self.kind, [ir.Constant(DOUBLE, value)] * self.width)

    def place(self, at: Place) -> ir.Value:
        """The number of a row on all lanes."""
        if isinstance(at, int):
            return self.number(at)
        return splat(self.builder, self.builder.sitofp(at, DOUBLE), self.width)

    def less_product(self, total: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
        """total - x y."""
        return multiply_add(self.builder, self.builder.fneg(x), y, total, self.has_fma)

    def plus_product(self, total: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
        """total + x y."""
        return multiply_add(self.builder, x, y, total, self.has_fma)

    def absolute(self, x: ir.Value) -> ir.Value:
        """|x|."""
        return intrinsic(self.builder, "llvm.fabs", x)

    def root(self, x: ir.Value) -> ir.Value:
        """The square root."""
        return intrinsic(self.builder, "llvm.sqrt", x)

    def larger(self, x: ir.Value, y: ir.Value) -> ir.Value:
        """The larger of two numbers; the first one where one of them is none."""
        return self.builder.select(self.builder.fcmp_ordered(">", y, x), y, x)

    def with_sign(self, size: ir.Value, sign: ir.Value) -> ir.Value:
        """A number as large as one, with the sign of another."""
        return intrinsic(self.builder, "llvm.copysign", size, sign)

    def inverse(self, x: ir.Value) -> Callable[[ir.Value], ir.Value]:
        """How to divide by x, which is divided by once; what is divided by 0 stays as it is.

        The inverses of the smallest numbers are none: they are scaled first.
        """
        b = self.builder
        one, zero = self.number(1.0), self.number(0.0)
        tiny = b.fcmp_ordered("<", self.absolute(x), self.number(2.0**-1022))
        up = b.select(tiny, self.number(2.0**60), one)
        known = b.select(b.fcmp_ordered("==", x, zero), one, b.fmul(x, up))
        inverse = b.fdiv(one, known)
        return lambda y: b.fmul(b.fmul(y, up), inverse)

    def any(self, mask: ir.Value) -> ir.Value:
        """Whether a mask is true on any lane."""
        bits = self.builder.bitcast(mask, ir.IntType(self.width))
        return self.builder.icmp_unsigned("!=", bits, ir.Constant(bits.type, 0))

    # ------------------------------------------------------------ loops

    def next(self, place: Place) -> Place:
        """The place behind one."""
        return place + 1 if isinstance(place, int) else self.builder.add(place, i64(1))

    def loop(self, start: Place, stop: Place, body: Callable[[ir.Value], Any]) -> None:
        """body(i) for i from `start` to before `stop`."""
        counted_loop(self.builder, start, stop, 1, body)

    def down(self, start: Place, stop: Place, body: Callable[[ir.Value], Any]) -> None:
        """The same from the last one down."""
        b = self.builder
        last = b.sub(as_i64(stop), i64(1))
        self.loop(start, stop, lambda i: body(b.sub(b.add(as_i64(start), last), i)))

    def together(
        self, start: Place, stop: int, most: int, body: Callable[[list[ir.Value]], Any]
    ) -> None:
        """body([i, i + 1, ...]) for `most` places at a time, a power of 2, and then one by one."""
        b = self.builder
        while most > 1 and isinstance(start, int) and stop - start < most:
            most //= 2  # there are not so many
        counted_loop(
            b, start, stop - most + 1, most,
            lambda i: body([b.add(i, i64(more)) for more in range(most)]),
        )  # fmt: skip
        if not isinstance(start, int):
            rest = b.and_(b.sub(i64(stop), start), i64(most - 1))
            self.loop(b.sub(i64(stop), rest), stop, lambda i: body([i]))
        elif (stop - start) % most:
            self.loop(stop - (stop - start) % most, stop, lambda i: body([i]))

    def carried(
        self,
        start: Place,
        stop: Place,
        values: Sequence[ir.Value],
        body: Callable[[ir.Value, list[ir.Value]], list[ir.Value]],
    ) -> list[ir.Value]:
        """values = body(i, values) for i from `start` to before `stop`, of which there are some."""
        return accumulating_loop(self.builder, start, stop, 1, values, body)

    def carried_or(
        self,
        start: ir.Value,
        stop: ir.Value,
        values: Sequence[ir.Value],
        body: Callable[[ir.Value, list[ir.Value]], list[ir.Value]],
    ) -> list[ir.Value]:
        """The same where there may be none: then the values stay."""
        b, before, ends = self.builder, self.builder.block, []

        def turn(i: ir.Value, now: list[ir.Value]) -> list[ir.Value]:
            found = body(i, now)
            ends.append(b.block)
            return found

        enters = b.icmp_signed("<", start, stop)
        after = accumulating_loop(b, start, stop, 1, values, turn, enters)
        joined = []
        for old, new in zip(values, after, strict=True):
            joined.append(b.phi(old.type))
            joined[-1].add_incoming(old, before)
            joined[-1].add_incoming(new, ends[0])
        return joined

    def repeat(self, most: int, body: Callable[[], ir.Value]) -> None:
        """body() as long as it says so, but at most so often."""
        b = self.builder

        def turn(now: list[ir.Value]) -> tuple[list[ir.Value], ir.Value]:
            more, count = body(), b.add(now[0], i64(1))
            return [count], b.and_(more, b.icmp_signed("<", count, i64(most)))

        carried_loop(b, [i64(0)], turn)

    def bounds(
        self, wanted: LaneNumber, low: LaneNumber, high: LaneNumber
    ) -> tuple[ir.Value, ir.Value]:
        """The least and the largest place of all lanes where something holds, as loops count."""
        b = self.builder
        found = []
        for name, number, none in (("fmin", low, 1e9), ("fmax", high, -1.0)):
            chosen = wanted.choose(number, none).value
            kind = ir.FunctionType(DOUBLE, [self.kind])
            reduce = declare(b.module, f"llvm.vector.reduce.{name}.{type_suffix(self.kind)}", kind)
            found.append(b.fptosi(b.call(reduce, [chosen]), I64))
        return found[0], found[1]

    def rows(
        self,
        start: Place,
        stop: Place,
        values: Sequence[ir.Value],
        body: Callable[[ir.Value, ir.Value, list[ir.Value]], list[ir.Value]],
    ) -> list[ir.Value]:
        """The same, with the number of the row on all lanes besides."""
        one = self.number(1.0)

        def turn(i: ir.Value, now: list[ir.Value]) -> list[ir.Value]:
            number, *rest = now
            return [self.builder.fadd(number, one), *body(i, number, rest)]

        return self.carried(start, stop, [self.place(start), *values], turn)[1:]


class LaneNumber:
    """A number on each lane, or whether something holds there, written as in formulas."""

    def __init__(self, lanes: SideBySide, value: ir.Value):
        self.lanes, self.value, self.builder = lanes, value, lanes.builder

    def _of(self, other: LaneNumber | float) -> ir.Value:
        return other.value if isinstance(other, LaneNumber) else self.lanes.number(other)

    def _made(self, value: ir.Value) -> LaneNumber:
        return LaneNumber(self.lanes, value)

    def like(self, value: float) -> LaneNumber:
        """A number on the same lanes."""
        return self._made(self.lanes.number(value))

    def __add__(self, other: LaneNumber | float) -> LaneNumber:
        return self._made(self.builder.fadd(self.value, self._of(other)))

    def __sub__(self, other: LaneNumber | float) -> LaneNumber:
        return self._made(self.builder.fsub(self.value, self._of(other)))

    def __mul__(self, other: LaneNumber | float) -> LaneNumber:
        return self._made(self.builder.fmul(self.value, self._of(other)))

    def __truediv__(self, other: LaneNumber | float) -> LaneNumber:
        return self._made(self.builder.fdiv(self.value, self._of(other)))

    def __neg__(self) -> LaneNumber:
        return self._made(self.builder.fneg(self.value))

    def __abs__(self) -> LaneNumber:
        return self._made(self.lanes.absolute(self.value))

    def _compared(self, how: str, other: LaneNumber | float) -> LaneNumber:
        return self._made(self.builder.fcmp_ordered(how, self.value, self._of(other)))

    def __lt__(self, other: LaneNumber | float) -> LaneNumber:
        return self._compared("<", other)

    def __le__(self, other: LaneNumber | float) -> LaneNumber:
        return self._compared("<=", other)

    def __gt__(self, other: LaneNumber | float) -> LaneNumber:
        return self._compared(">", other)

    def __ge__(self, other: LaneNumber | float) -> LaneNumber:
        return self._compared(">=", other)

    def equals(self, other: LaneNumber | float) -> LaneNumber:
        """Whether two numbers are equal."""
        return self._compared("==", other)

    def __and__(self, other: LaneNumber) -> LaneNumber:
        return self._made(self.builder.and_(self.value, other.value))

    def __or__(self, other: LaneNumber) -> LaneNumber:
        return self._made(self.builder.or_(self.value, other.value))

    def __invert__(self) -> LaneNumber:
        return self._made(self.builder.not_(self.value))

    def root(self) -> LaneNumber:
        """The square root."""
        return self._made(self.lanes.root(self.value))

    def with_sign_of(self, other: LaneNumber) -> LaneNumber:
        """The number with the sign of another."""
        return self._made(self.lanes.with_sign(self.value, other.value))

    def choose(self, yes: LaneNumber | float, no: LaneNumber | float) -> LaneNumber:
        """One number where this holds, and another where it does not."""
        return self._made(self.builder.select(self.value, self._of(yes), self._of(no)))

    def anywhere(self) -> ir.Value:
        """Whether this holds on any lane."""
        return self.lanes.any(self.value)


class Matrices:
    """As many matrices as there are lanes, element by element a vector."""

    def __init__(self, lanes: SideBySide, pointer: ir.Value, columns: int, turned: bool = False):
        self.lanes, self.pointer, self.columns, self.turned = lanes, pointer, columns, turned

    def transposed(self) -> Matrices:
        """The same, with rows as columns."""
        return Matrices(self.lanes, self.pointer, self.columns, not self.turned)

    def _address(self, place: tuple[Place, Place]) -> ir.Value:
        (i, j), b = place[::-1] if self.turned else place, self.lanes.builder
        row = i * self.columns if isinstance(i, int) else b.mul(i, i64(self.columns))
        both_known = isinstance(row, int) and isinstance(j, int)
        number = row + j if both_known else b.add(as_i64(row), as_i64(j))
        return b.gep(self.pointer, [as_i64(number)], source_etype=self.lanes.kind)

    def __getitem__(self, place: tuple[Place, Place]) -> ir.Value:
        return self.lanes.builder.load(self._address(place), typ=self.lanes.kind, align=8)

    def __setitem__(self, place: tuple[Place, Place], value: ir.Value) -> None:
        self.lanes.builder.store(value, self._address(place), align=8)
