"""Lanes as products and copies need them: widened, squares transposed, multiplied and added."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from .llvm_types import i32, intrinsic
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
