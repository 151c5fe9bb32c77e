"""Copies of an operand in the order in which tiles read it.

A packed *panel* holds, for each position of the sums, the elements that one tile needs there, side
by side: a tile then walks through memory from one end to the other. Where the source is contiguous
along the innermost sum instead, squares of elements are transposed in registers on the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from llvmlite import ir

from .tiles import I32, I64, POINTER, Memory, counted_loop, private_function
from .tiling import Piece

I64_ZERO = ir.Constant(I64, 0)


@dataclass(frozen=True)
class Panel:
    """What one panel is made of.

    `groups` are vectors across the panel: (element offset in the source, place in the panel); the
    lanes of each are `stride` apart in the source.
    """

    groups: tuple[tuple[int, Piece], ...]
    stride: int
    width: int  # elements of the panel for each position of the sums
    extents: tuple[int, ...]  # of the sums
    strides: tuple[int, ...]  # of the sums, in the source

    @property
    def sums(self) -> tuple[int, ...]:
        """Strides of the sums in the panel."""
        return tuple(
            self.width * prod(self.extents[level + 1 :]) for level in range(len(self.extents))
        )


def emit_packing(module: ir.Module, dtype: np.dtype, panel: Panel, name: str) -> ir.Function:
    """Add ``void name(panel, source, steps)``, which fills a panel for `steps` outermost sums."""
    return _PanelEmitter(module, dtype, panel, name).emit()


class _PanelEmitter:
    def __init__(self, module: ir.Module, dtype: np.dtype, panel: Panel, name: str):
        self.panel = panel
        self.function = private_function(module, name, [POINTER, POINTER, I64])
        self.builder = ir.IRBuilder(self.function.append_basic_block("entry"))
        self.memory = Memory(self.builder, dtype)
        self.transposed = panel.strides[-1] == 1 and panel.stride != 1

    def emit(self) -> ir.Function:
        destination, source, steps = self.function.args
        if self.transposed:
            for group in self.panel.groups:
                self._level(0, destination, source, steps, [group])
        else:
            self._level(0, destination, source, steps, self.panel.groups)
        self.builder.ret_void()
        return self.function

    def _level(
        self,
        level: int,
        destination: ir.Value,
        source: ir.Value,
        steps: int | ir.Value,
        groups: Sequence[tuple[int, Piece]],
    ) -> None:
        """The loops of the sums from `level` inwards."""
        panel, b = self.panel, self.builder

        def inside(position: ir.Value) -> None:
            to, at = self._moved(level, position, destination, source)
            if level + 1 == len(panel.extents):
                for group in groups:
                    self._copy(to, at, *group)
            else:
                self._level(level + 1, to, at, panel.extents[level + 1], groups)

        start: int | ir.Value = 0
        if level + 1 == len(panel.extents) and self.transposed:
            side = groups[0][1].width

            def square(position: ir.Value) -> None:
                to, at = self._moved(level, position, destination, source)
                self._transpose(to, at, *groups[0])

            if isinstance(steps, int):
                start = steps - steps % side
            else:
                start = b.and_(steps, ir.Constant(I64, -side))
            counted_loop(b, 0, start, side, square)
        counted_loop(b, start, steps, 1, inside)

    def _moved(
        self, level: int, position: ir.Value, destination: ir.Value, source: ir.Value
    ) -> tuple[ir.Value, ir.Value]:
        def move(pointer: ir.Value, stride: int) -> ir.Value:
            step = self.builder.mul(position, ir.Constant(I64, stride))
            return self.memory.at(pointer, step)

        panel = self.panel
        return move(destination, panel.sums[level]), move(source, panel.strides[level])

    def _copy(self, to: ir.Value, at: ir.Value, offset: int, piece: Piece) -> None:
        memory = self.memory
        value = memory.load(memory.at(at, offset), self.panel.stride, piece.width, piece.count)
        memory.store(value, memory.at(to, piece.start), 1, self._stored(piece))

    def _stored(self, piece: Piece) -> int:
        """Lanes to write: the padding too, where the panel has room for it."""
        return min(piece.width, self.panel.width - piece.start)

    def _transpose(self, to: ir.Value, at: ir.Value, offset: int, piece: Piece) -> None:
        """A square of the panel: vectors along the sum become vectors across the panel."""
        memory, side = self.memory, piece.width
        kind = memory.element if side == 1 else ir.VectorType(memory.element, side)
        rows = [
            memory.load(memory.at(at, offset + lane * self.panel.stride), 1, side, side)
            if lane < piece.count
            else ir.Constant(kind, None)
            for lane in range(side)
        ]
        for position, value in enumerate(transpose_square(self.builder, rows)):
            place = memory.at(to, position * self.panel.width + piece.start)
            memory.store(value, place, 1, self._stored(piece))


def transpose_square(builder: ir.IRBuilder, rows: Sequence[ir.Value]) -> list[ir.Value]:
    """The columns of a square of vectors: halves, quarters, ... are exchanged in turn."""
    side = len(rows)
    found = list(rows)
    half = side // 2
    while half:
        low = [k if k & half == 0 else side + k - half for k in range(side)]
        high = [k + half if k & half == 0 else side + k for k in range(side)]
        for first in range(side):
            if first & half:
                continue
            pair = found[first], found[first + half]
            found[first] = builder.shuffle_vector(*pair, _lanes(low))
            found[first + half] = builder.shuffle_vector(*pair, _lanes(high))
        half //= 2
    return found


def _lanes(order: Sequence[int]) -> ir.Constant:
    return ir.Constant(ir.VectorType(I32, len(order)), list(order))
