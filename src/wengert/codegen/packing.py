"""Copies of an operand in the order in which tiles read it.

A packed *panel* holds, for each position of the sums, the elements that one tile needs there, side
by side: a tile then walks through memory from one end to the other. A panel is filled in *strips*,
each one vector wide and as long as the sums. Where the source is contiguous along the innermost
sum instead, squares of elements are transposed in registers on the way; and a strip of a single
element's width that is contiguous on both sides is copied by vectors along its length.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from llvmlite import ir

from .strided import I64, POINTER, Memory, counted_loop, lane_order, private_function
from .tiles import Operand
from .tiling import Plan, VectorSegment, pieces_of

_ALIGNMENT = 64


@dataclass(frozen=True)
class Strip:
    """A vector of elements for each position of the sums."""

    width: int  # lanes written
    count: int  # lanes read; the others are zero
    stride: int  # from lane to lane in the source
    pitch: int  # from one position of the sums to the next in the panel
    extents: tuple[int, ...]  # of the sums
    strides: tuple[int, ...]  # of the sums in the source
    lanes: int  # of a whole vector

    @property
    def sums(self) -> tuple[int, ...]:
        """Strides of the sums in the panel."""
        return packed_strides(self.extents, self.pitch)


def packed_strides(extents: Sequence[int], pitch: int) -> tuple[int, ...]:
    """Strides of the sums in a panel that has `pitch` elements for each position.

    >>> packed_strides((5, 3, 3), 32)
    (288, 96, 32)
    """
    return tuple(pitch * prod(extents[level + 1 :]) for level in range(len(extents)))


# ---------------------------------------------------------------- where panels lie


class Layout:
    """Panels of packed operands and their places in the scratch memory, counted in elements."""

    def __init__(self, plan: Plan):
        self.plan = plan
        self.extents = tuple(axis.extent for axis in plan.sums)
        self.steps = prod((plan.block or self.extents[0], *self.extents[1:]))
        self.column_pitch = self.row_pitch = self.columns = self.rows = 0
        if plan.pack_y:
            widths = [self.across(vectors) for vectors in plan.vector_segments]
            most = plan.column_segments[0].size
            self.column_pitch = self._aligned(max(widths) * most * self.steps)
            tiles = sum(segment.tiles for segment in plan.column_segments)
            self.columns = tiles * plan.column_block * self.column_pitch
        if plan.pack_x:
            rows = plan.row_segments[0].size
            last = pieces_of(rows, plan.lanes, plan.masked)[-1]
            self.row_pitch = self._aligned((last.start + last.width) * self.row_length)
            tiles = max(segment.tiles for segment in plan.row_segments)
            self.rows = min(plan.row_block, tiles) * self.row_pitch
        self.bytes = (self.columns + self.rows) * plan.dtype.itemsize

    def _aligned(self, elements: int) -> int:
        unit = _ALIGNMENT // self.plan.dtype.itemsize
        return -(-elements // unit) * unit

    @property
    def row_length(self) -> int:
        """Elements of one packed row; a line more than needed, against conflicts in the cache."""
        return self._aligned(self.steps) + _ALIGNMENT // self.plan.dtype.itemsize

    @staticmethod
    def across(vectors: VectorSegment) -> int:
        """Elements of the vectors of a tile side by side."""
        return max(piece.start + piece.width for piece in vectors.pieces)

    def column_strips(
        self, columns: int, vectors: VectorSegment
    ) -> Iterator[tuple[int, int, Strip]]:
        """(offset in y, offset in the panel, strip) for all of a panel of columns."""
        plan, across = self.plan, self.across(vectors)
        strides = tuple(axis.y for axis in plan.sums)
        for c in range(columns):
            for piece in vectors.pieces:
                source = c * plan.column.y + piece.start * plan.vector.y
                strip = Strip(
                    piece.width,
                    piece.count,
                    plan.vector.y,
                    across * columns,
                    self.extents,
                    strides,
                    plan.lanes,
                )
                yield source, c * across + piece.start, strip

    def columns_of(self, columns: int, vectors: VectorSegment) -> Operand:
        """How a tile reads its packed columns."""
        across = self.across(vectors)
        strides = packed_strides(self.extents, across * columns)
        return Operand(across, 1, strides, padded=True)

    def row_strips(self, rows: int) -> Iterator[tuple[int, int, Strip]]:
        """(offset in x, offset in the panel, strip) for all of a panel of rows.

        Rows that are contiguous along the sums stay rows, the others lie side by side.
        """
        plan = self.plan
        strides = tuple(axis.x for axis in plan.sums)
        if self.whole_rows:
            strip = Strip(1, 1, 0, 1, self.extents, strides, plan.lanes)
            for r in range(rows):
                yield r * plan.row.x, r * self.row_length, strip
            return
        pieces = pieces_of(rows, plan.lanes, plan.masked)
        pitch = pieces[-1].start + pieces[-1].width
        for piece in pieces:
            strip = Strip(
                piece.width, piece.count, plan.row.x, pitch, self.extents, strides, plan.lanes
            )
            yield piece.start * plan.row.x, piece.start, strip

    @property
    def whole_rows(self) -> bool:
        """Whether a packed row lies in one piece."""
        return self.plan.sums[-1].x == 1

    def rows_of(self, rows: int) -> Operand:
        """How a tile reads its packed rows."""
        if self.whole_rows:
            return Operand(self.row_length, 0, packed_strides(self.extents, 1))
        last = pieces_of(rows, self.plan.lanes, self.plan.masked)[-1]
        return Operand(1, 0, packed_strides(self.extents, last.start + last.width))


# ---------------------------------------------------------------- code


def packing_of(module: ir.Module, dtype: np.dtype, strip: Strip) -> ir.Function:
    """``void pack(panel, source, steps)``: fill a strip for `steps` of the outermost sum.

    Made once in a module for all products that have such strips.
    """
    known: dict[Any, ir.Function] = module.__dict__.setdefault("packers", {})
    if (dtype, strip) not in known:
        name = f"product.pack{len(known)}"
        known[dtype, strip] = _StripEmitter(module, dtype, strip, name).emit()
    return known[dtype, strip]


class _StripEmitter:
    def __init__(self, module: ir.Module, dtype: np.dtype, strip: Strip, name: str):
        self.strip = strip
        self.function = private_function(module, name, [POINTER, POINTER, I64])
        self.builder = ir.IRBuilder(self.function.append_basic_block("entry"))
        self.memory = Memory(self.builder, dtype)
        self.along = strip.strides[-1] == 1 and strip.width == 1 and strip.pitch == 1
        self.transposed = strip.strides[-1] == 1 and strip.stride != 1 and strip.width > 1

    def emit(self) -> ir.Function:
        self._level(0, *self.function.args)
        self.builder.ret_void()
        return self.function

    def _level(self, level: int, panel: ir.Value, source: ir.Value, steps: int | ir.Value) -> None:
        """The loops of the sums from `level` inwards."""
        strip, last = self.strip, level + 1 == len(self.strip.extents)

        def inside(position: ir.Value) -> None:
            to, at = self._moved(level, position, panel, source)
            if last:
                self._copy(to, at, strip.width, strip.count)
            else:
                self._level(level + 1, to, at, strip.extents[level + 1])

        def several(position: ir.Value) -> None:
            to, at = self._moved(level, position, panel, source)
            if self.along:
                self._copy(to, at, strip.lanes, strip.lanes)
            else:
                self._transpose(to, at)

        start: int | ir.Value = 0
        if last and (self.along or self.transposed):
            together = strip.lanes if self.along else strip.width
            start = self._whole(steps, together)
            counted_loop(self.builder, 0, start, together, several)
        counted_loop(self.builder, start, steps, 1, inside)

    def _whole(self, steps: int | ir.Value, unit: int) -> int | ir.Value:
        """The largest multiple of a power of two that is not beyond `steps`."""
        if isinstance(steps, int):
            return steps - steps % unit
        return self.builder.and_(steps, ir.Constant(I64, -unit))

    def _moved(
        self, level: int, position: ir.Value, panel: ir.Value, source: ir.Value
    ) -> tuple[ir.Value, ir.Value]:
        def move(pointer: ir.Value, stride: int) -> ir.Value:
            step = self.builder.mul(position, ir.Constant(I64, stride))
            return self.memory.at(pointer, step)

        return move(panel, self.strip.sums[level]), move(source, self.strip.strides[level])

    def _copy(self, to: ir.Value, at: ir.Value, width: int, count: int) -> None:
        stride = 1 if self.along else self.strip.stride
        self.memory.store(self.memory.load(at, stride, width, count), to, 1, width)

    def _transpose(self, to: ir.Value, at: ir.Value) -> None:
        """A square: vectors along the sum become vectors across the panel."""
        memory, strip = self.memory, self.strip
        side = strip.width
        nothing = ir.Constant(ir.VectorType(memory.element, side), None)
        rows = [
            memory.load(memory.at(at, lane * strip.stride), 1, side, side)
            if lane < strip.count
            else nothing
            for lane in range(side)
        ]
        for position, value in enumerate(transpose_square(self.builder, rows)):
            memory.store(value, memory.at(to, position * strip.pitch), 1, side)


def transpose_square(builder: ir.IRBuilder, rows: Sequence[ir.Value]) -> list[ir.Value]:
    """The columns of a square of vectors: halves, quarters, ... are exchanged in turn."""
    side = len(rows)
    found = list(rows)
    half = side // 2
    while half:
        low = tuple(k if k & half == 0 else side + k - half for k in range(side))
        high = tuple(k + half if k & half == 0 else side + k for k in range(side))
        for first in range(side):
            if first & half:
                continue
            pair = found[first], found[first + half]
            found[first] = builder.shuffle_vector(*pair, lane_order(low))
            found[first + half] = builder.shuffle_vector(*pair, lane_order(high))
        half //= 2
    return found
