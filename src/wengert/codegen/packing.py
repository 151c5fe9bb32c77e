"""Copies of an operand in the order in which tiles read it.

A packed *panel* holds, for each position of the sums, the elements that one tile needs there, side
by side: a tile then walks through memory from one end to the other. A panel is filled in *strips*,
each one vector wide and as long as the sums. Where the source is contiguous along the innermost
sum instead, squares of elements are transposed in registers on the way; and a strip of a single
element's width that is contiguous on both sides is copied by vectors along its length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from llvmlite import ir

from .tiles import I64, POINTER, Memory, counted_loop, lane_order, private_function


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


def emit_packing(module: ir.Module, dtype: np.dtype, strip: Strip, name: str) -> ir.Function:
    """Add ``void name(panel, source, steps)``: fill a strip for `steps` of the outermost sum."""
    return _StripEmitter(module, dtype, strip, name).emit()


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

    def _level(
        self, level: int, panel: ir.Value, source: ir.Value, steps: int | ir.Value
    ) -> None:
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
