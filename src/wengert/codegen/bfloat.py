"""Float32 numbers as sums of three bfloat16 numbers, in the order in which the matrix unit reads.

A float32 has 24 bits of mantissa, a bfloat16 has 8 and the same exponents: ``a = a0 + a1 + a2`` to
the last bit, each part rounded to nearest from what the ones before it leave. A product of two
numbers is then a sum of nine products, of which the three smallest are less than half a unit in the
last place of the result: six are left, and the sums of the matrix unit are float32. Altogether
errors are no larger than those of multiply-adds in float32.

What this does not hold for is left to other code, which is why packing tells the largest magnitude
it has met: infinities, numbers so large that they round to one, and numbers so small that their
last parts are below what a bfloat16 can be (the matrix unit takes those for zero).

A *panel* holds up to 32 lines (rows of x or columns of y) along all sums, in two halves of at most
16 lines each, because a tile register has 16 rows. For each 32 sums, half and part there is one
tile of 1 KiB, 16 rows of 64 bytes: of a row of x it holds 32 sums side by side; of columns it holds
pairs of sums, the pair of each column side by side. Pairs of bfloat16 are the elements of both, and
one is the transpose of the other. So there are two ways to read a source, by lines or by pairs,
whichever lies side by side there; and tiles are transposed where the other one is wanted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir

from .packing import transpose_square
from .scalars import declare
from .strided import (
    I1,
    I32,
    I64,
    POINTER,
    Memory,
    carried_loop,
    counted_loop,
    lane_order,
    private_function,
    splat,
)
from .unit_tiling import LINES, PARTS, SUMS, TILE_BYTES, panel_bytes

LANES, STEP_BYTES = LINES, panel_bytes(SUMS)

_FLOAT, _WORD = np.dtype(np.float32), np.dtype(np.uint32)
_FLOATS, _WORDS = ir.VectorType(ir.FloatType(), LANES), ir.VectorType(I32, LANES)
_MASK = ir.VectorType(I1, LANES)
_EVEN = lane_order(tuple(range(0, 2 * LANES, 2)))
_ODD = lane_order(tuple(range(1, 2 * LANES, 2)))

# The largest magnitude whose rounding is finite, as bits; and exponents, biased as in the bits: of
# the largest number of a panel at least, and of its product with that of the other panel. 2**-80
# leaves numbers that are 2**20 times smaller whole; products are far from under- and overflow.
_LARGEST = 0x7F7F7FFF
_LEAST = (127 - 80) << 23
_LEAST_PRODUCT, _MOST_PRODUCT = 2 * 127 - 80, 2 * 127 + 100


@dataclass(frozen=True)
class Lines:
    """What one panel is made from: how many lines each half has, and what lies side by side."""

    halves: tuple[int, ...]
    rows: bool  # rows of x, or else columns of y
    by_lines: bool  # the sums of a line lie side by side, or else lines do


def packing_of(module: ir.Module, lines: Lines) -> ir.Function:
    """``i32 pack(panel, steps, source, pitch)``: fill a panel for `steps` sums.

    The pitch leads from line to line, or where lines lie side by side from one position of the sum
    to the next. It returns the largest magnitude, as the bits of a float32. Made once in a module
    for all such lines.
    """
    known: dict[Any, ir.Function] = module.__dict__.setdefault("bfloat packers", {})
    if lines not in known:
        known[lines] = _PanelEmitter(module, lines, f"product.split{len(known)}").emit()
    return known[lines]


def emit_in_range(builder: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """Whether panels with these largest magnitudes can be multiplied in parts."""
    b = builder

    def const(value: int) -> ir.Constant:
        return ir.Constant(I32, value)

    def is_between(value: ir.Value, least: int, most: int) -> ir.Value:
        large = b.icmp_unsigned(">=", value, const(least))
        return b.and_(large, b.icmp_unsigned("<=", value, const(most)))

    finite = b.and_(is_between(x, 0, _LARGEST), is_between(y, 0, _LARGEST))
    large = b.and_(is_between(x, _LEAST, _LARGEST), is_between(y, _LEAST, _LARGEST))
    exponents = b.add(b.lshr(x, const(23)), b.lshr(y, const(23)))
    large = b.and_(large, is_between(exponents, _LEAST_PRODUCT, _MOST_PRODUCT))
    zero = b.or_(is_between(x, 0, 0), is_between(y, 0, 0))
    return b.and_(finite, b.or_(zero, large))


class _PanelEmitter:
    """Emits the function that fills one kind of panel."""

    def __init__(self, module: ir.Module, lines: Lines, name: str):
        self.lines = lines
        kind = ir.FunctionType(I32, [POINTER, I64, POINTER, I64])
        self.function = ir.Function(module, kind, name)
        self.function.linkage = "internal"
        self.builder = ir.IRBuilder(self.function.append_basic_block("entry"))
        self.source, self.words = Memory(self.builder, _FLOAT), Memory(self.builder, _WORD)

    def emit(self) -> ir.Function:
        """All tiles of the panel."""
        b = self.builder
        panel, self.steps, source, self.pitch = self.function.args
        self.blocks = b.lshr(b.add(self.steps, self._i64(SUMS - 1)), self._i64(5))
        largest: ir.Value = ir.Constant(_WORDS, None)
        transpose = _transposing(b.module) if self.lines.by_lines != self.lines.rows else None
        for half, count in enumerate(self.lines.halves):
            first = self._i64(half * LANES)
            at = self.source.at(source, b.mul(first, self.pitch) if self.lines.by_lines else first)
            place = self._bytes(panel, half * PARTS * TILE_BYTES)
            write = self._by_lines if self.lines.by_lines else self._by_pairs
            largest = write(place, at, count, largest)
            if transpose is not None:
                b.call(transpose, [place, self.blocks])
        name = "llvm.vector.reduce.umax.v16i32"
        reduce = declare(b.module, name, ir.FunctionType(I32, [_WORDS]))
        b.ret(b.call(reduce, [largest]))
        return self.function

    # ------------------------------------------------------------ both ways to read

    def _by_lines(
        self, panel: ir.Value, source: ir.Value, count: int, largest: ir.Value
    ) -> ir.Value:
        """Sums lie side by side: for 32 of them, one line after the other."""
        b = self.builder

        def block(number: ir.Value, largest: ir.Value) -> ir.Value:
            start = b.mul(number, self._i64(SUMS))
            left = b.sub(self.steps, start)
            masks = [self._first_lanes(left), self._first_lanes(b.sub(left, self._i64(LANES)))]
            tile = self._block(panel, number)
            here = self.source.at(source, start)

            def line(k: ir.Value, largest: ir.Value) -> ir.Value:
                at = self.source.at(here, b.mul(k, self.pitch))
                ends = at, self.source.at(at, LANES)
                low, high = (
                    self.source.load_masked(end, _FLOATS, mask)
                    for end, mask in zip(ends, masks, strict=True)
                )
                pair = b.shuffle_vector(low, high, _EVEN), b.shuffle_vector(low, high, _ODD)
                return self._split(pair, self._row(tile, k), largest)

            return carried_loop(b, 0, count, 1, largest, line)

        return carried_loop(b, 0, self.blocks, 1, largest, block)

    def _by_pairs(
        self, panel: ir.Value, source: ir.Value, count: int, largest: ir.Value
    ) -> ir.Value:
        """Lines lie side by side: all of them, for one pair of sums after the other."""
        b = self.builder
        real = ir.Constant(_MASK, [k < count for k in range(LANES)])
        none = ir.Constant(_MASK, None)
        whole = b.and_(self.steps, self._i64(-2))

        def place(start: ir.Value) -> ir.Value:
            """Where the pair that begins with a sum goes."""
            tile = self._block(panel, b.lshr(start, self._i64(5)))
            return self._row(tile, b.lshr(b.and_(start, self._i64(SUMS - 1)), self._i64(1)))

        def pair(start: ir.Value, largest: ir.Value, second: ir.Value = real) -> ir.Value:
            at = self.source.at(source, b.mul(start, self.pitch))
            both = (
                self.source.load_masked(at, _FLOATS, real),
                self.source.load_masked(self.source.at(at, self.pitch), _FLOATS, second),
            )
            return self._split(both, place(start), largest)

        def nothing(start: ir.Value) -> None:
            for part in range(PARTS):
                at = self._bytes(place(start), part * TILE_BYTES)
                self.words.store(ir.Constant(_WORDS, None), at, 1, LANES)

        largest = carried_loop(b, 0, whole, 2, largest, pair)
        last = carried_loop(b, whole, self.steps, 2, largest, lambda k, v: pair(k, v, none))
        filled = b.and_(b.add(self.steps, self._i64(1)), self._i64(-2))
        counted_loop(b, filled, b.mul(self.blocks, self._i64(SUMS)), 2, nothing)
        return last

    # ------------------------------------------------------------ vectors

    def _split(self, pair: Sequence[ir.Value], place: ir.Value, largest: ir.Value) -> ir.Value:
        """Store the three parts of two vectors as pairs; the larger of all magnitudes."""
        b = self.builder
        half, high = (ir.Constant(_WORDS, [v] * LANES) for v in (0x8000, 0xFFFF0000))
        sign = ir.Constant(_WORDS, [0x7FFFFFFF] * LANES)
        shift = ir.Constant(_WORDS, [16] * LANES)
        left = list(pair)
        for value in left:
            magnitude = b.and_(b.bitcast(value, _WORDS), sign)
            largest = self._larger(magnitude, largest)
        for part in range(PARTS):
            rounded = [b.and_(b.add(b.bitcast(v, _WORDS), half), high) for v in left]
            joined = b.or_(b.lshr(rounded[0], shift), rounded[1])
            self.words.store(joined, self._bytes(place, part * TILE_BYTES), 1, LANES)
            left = [
                b.fsub(value, b.bitcast(one, _FLOATS))
                for value, one in zip(left, rounded, strict=True)
            ]
        return largest

    def _larger(self, x: ir.Value, y: ir.Value) -> ir.Value:
        kind = ir.FunctionType(_WORDS, [_WORDS, _WORDS])
        return self.builder.call(declare(self.builder.module, "llvm.umax.v16i32", kind), [x, y])

    def _first_lanes(self, count: ir.Value) -> ir.Value:
        lanes = ir.Constant(ir.VectorType(I64, LANES), list(range(LANES)))
        return self.builder.icmp_signed("<", lanes, splat(self.builder, count, LANES))

    # ------------------------------------------------------------ places

    def _bytes(self, pointer: ir.Value, offset: int | ir.Value) -> ir.Value:
        return _bytes_on(self.builder, pointer, offset)

    def _block(self, panel: ir.Value, number: ir.Value) -> ir.Value:
        return self._bytes(panel, self.builder.mul(number, self._i64(STEP_BYTES)))

    def _row(self, tile: ir.Value, number: ir.Value) -> ir.Value:
        return self._bytes(tile, self.builder.mul(number, self._i64(TILE_BYTES // LANES)))

    @staticmethod
    def _i64(value: int) -> ir.Constant:
        return ir.Constant(I64, value)


def _bytes_on(builder: ir.IRBuilder, pointer: ir.Value, offset: int | ir.Value) -> ir.Value:
    """The address some bytes further on."""
    if isinstance(offset, int):
        offset = ir.Constant(I64, offset)
    return builder.gep(pointer, [offset], source_etype=ir.IntType(8))


def _transposing(module: ir.Module) -> ir.Function:
    """``void transpose(half, blocks)``: exchange rows and columns of all tiles of a half, in place.

    Made once in a module.
    """
    name = "product.transpose"
    if name in module.globals:
        return module.globals[name]
    function = private_function(module, name, [POINTER, I64])
    b = ir.IRBuilder(function.append_basic_block("entry"))
    half, blocks = function.args
    memory = Memory(b, _WORD)

    def tile(place: ir.Value) -> None:
        places = [_bytes_on(b, place, k * TILE_BYTES // LANES) for k in range(LANES)]
        rows = [memory.load(place, 1, LANES, LANES) for place in places]
        for value, to in zip(transpose_square(b, rows), places, strict=True):
            memory.store(value, to, 1, LANES)

    def block(number: ir.Value) -> None:
        start = _bytes_on(b, half, b.mul(number, ir.Constant(I64, STEP_BYTES)))

        def part(index: ir.Value) -> None:
            tile(_bytes_on(b, start, b.mul(index, ir.Constant(I64, TILE_BYTES))))

        counted_loop(b, 0, PARTS, 1, part)

    counted_loop(b, ir.Constant(I64, 0), blocks, 1, block)
    b.ret_void()
    return function
