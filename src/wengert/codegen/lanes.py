"""Lanes as products and copies need them: loaded once, widened, transposed, multiplied, added."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from llvmlite import ir

from .llvm_types import POINTER, i32, intrinsic
from .memory import Memory
from .vectors import lane_order, width_of


def widened(builder: ir.IRBuilder, value: ir.Value, lanes: int) -> ir.Value:
    """A narrow vector, or a scalar, with zeros behind it."""
    width = width_of(value)
    if width == 1:
        zeros = ir.Constant(ir.VectorType(value.type, lanes), None)
        return builder.insert_element(zeros, value, i32(0))
    order = tuple(min(lane, width) for lane in range(lanes))
    return builder.shuffle_vector(value, ir.Constant(value.type, None), lane_order(order))


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


def multiply_add(
    builder: ir.IRBuilder, x: ir.Value, y: ir.Value, total: ir.Value | None, has_fma: bool
) -> ir.Value:
    """total + x * y, rounded once where the processor can; None stands for nothing yet."""
    if total is None:
        return builder.fmul(x, y)
    if not has_fma:
        return builder.fadd(total, builder.fmul(x, y))
    return intrinsic(builder, "llvm.fma", x, y, total)


class Loads(Memory):
    """Memory that is read again and again: vectors are loaded the first time they are wanted."""

    def __init__(self, builder: ir.IRBuilder, dtype: np.dtype):
        super().__init__(builder, dtype)
        self.loaded: dict[tuple, ir.Value] = {}

    def load_once(
        self, pointer: ir.Value, offset: int, stride: int, width: int, count: int
    ) -> ir.Value:
        """A vector some elements further on."""
        key = (pointer, offset, stride, width, count)
        if key not in self.loaded:
            self.loaded[key] = self.load(self.at(pointer, offset), stride, width, count)
        return self.loaded[key]


def stack_memory(memory: Memory, count: int) -> ir.Value:
    """Memory for so many elements on the stack."""
    place = memory.builder.alloca(ir.ArrayType(memory.element, count))
    place.align = 64
    place.type = POINTER  # vectors and single elements are stored there
    return place
