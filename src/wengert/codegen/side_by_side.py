"""Matrices that lie side by side, one lane each, in a few words: what algorithms on them need.

Element (i, j) of as many matrices as a vector has lanes is one vector in memory. So an algorithm is
loops of ordinary length around vectors, and takes as long to compile for 16 rows as for 6. Where
matrices differ in what is done to them, a mask tells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from .counted import accumulating_loop, counted_loop
from .lanes import multiply_add
from .llvm_types import I64, as_i64, i64, intrinsic
from .vectors import splat

DOUBLE = ir.DoubleType()
Place = Any  # of a row or column: a number that is known, or what a loop counts


class SideBySide:
    """Vectors of numbers, and loops around them, in the function that a builder writes."""

    def __init__(self, builder: ir.IRBuilder, width: int, has_fma: bool):
        self.builder, self.width, self.has_fma = builder, width, has_fma
        self.kind = ir.VectorType(DOUBLE, width)
        self.counts = ir.VectorType(I64, width)

    # ------------------------------------------------------------ numbers

    def number(self, value: float) -> ir.Constant:
        """One number on all lanes."""
        return ir.Constant(self.kind, [ir.Constant(DOUBLE, value)] * self.width)

    def count(self, value: Place) -> ir.Value:
        """One whole number on all lanes."""
        if isinstance(value, int):
            return ir.Constant(self.counts, [value] * self.width)
        return splat(self.builder, value, self.width)

    def as_number(self, counted: ir.Value) -> ir.Value:
        """Whole numbers as numbers."""
        return self.builder.sitofp(counted, self.kind)

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

    def rows(
        self,
        start: Place,
        stop: Place,
        values: Sequence[ir.Value],
        body: Callable[[ir.Value, ir.Value, list[ir.Value]], list[ir.Value]],
    ) -> list[ir.Value]:
        """The same, with the number of the row on all lanes besides."""
        one = self.count(1)

        def turn(i: ir.Value, now: list[ir.Value]) -> list[ir.Value]:
            number, *rest = now
            return [self.builder.add(number, one), *body(i, number, rest)]

        return self.carried(start, stop, [self.count(start), *values], turn)[1:]


class Matrices:
    """As many matrices as there are lanes, element by element a vector."""

    def __init__(self, lanes: SideBySide, pointer: ir.Value, columns: int):
        self.lanes, self.pointer, self.columns = lanes, pointer, columns

    def _address(self, place: tuple[Place, Place]) -> ir.Value:
        (i, j), b = place, self.lanes.builder
        row = i * self.columns if isinstance(i, int) else b.mul(i, i64(self.columns))
        both_known = isinstance(row, int) and isinstance(j, int)
        number = row + j if both_known else b.add(as_i64(row), as_i64(j))
        return b.gep(self.pointer, [as_i64(number)], source_etype=self.lanes.kind)

    def __getitem__(self, place: tuple[Place, Place]) -> ir.Value:
        return self.lanes.builder.load(self._address(place), typ=self.lanes.kind, align=8)

    def __setitem__(self, place: tuple[Place, Place], value: ir.Value) -> None:
        self.lanes.builder.store(value, self._address(place), align=8)
