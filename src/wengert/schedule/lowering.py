"""How a node of the graph lowers to loops."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ..graph import Node, Operator
from ..loops import FEW, Reduction, Var

# Loops shorter than this are not worth vectors of their own.
MANY = 8

NATIVE = frozenset("b1 i1 i2 i4 i8 u1 u2 u4 u8 f4 f8".split())


def is_native(node: Node) -> bool:
    """Whether the elements are of a type that the loop language knows."""
    dtype = getattr(node.type, "dtype", None)
    return dtype is not None and f"{dtype.kind}{dtype.itemsize}" in NATIVE


def lowering_of(node: Operator) -> Any:
    """The loops of an operation, or None: NumPy evaluates it."""
    if node.op.multiple or not all(map(is_native, (node, *node.inputs))):
        return None
    if node.op.name == "power" and node.type.dtype.kind != "f":
        return None  # NumPy refuses negative exponents of integers, which takes a look at them
    loops = node.op.loops
    if callable(loops):
        loops = loops(**node.params)
    if isinstance(loops, Reduction) and _is_short(node):
        return loops.written_out(node.type.dtype)
    return loops


def _is_short(node: Operator) -> bool:
    """Whether a reduction is over too few elements to make vectors of, for many results."""
    shape, axes = node.inputs[0].type.shape, node.params["axes"]
    innermost = shape[-1] if len(shape) - 1 in axes else MANY
    count = prod(shape[axis] for axis in axes)
    return 1 <= count <= FEW and innermost < MANY <= node.type.size


def loop_variables(shape: Sequence[int]) -> list[Var]:
    """A loop variable for each axis."""
    return [Var("ijklmnpq"[axis % 8] + str(axis // 8 or ""), n) for axis, n in enumerate(shape)]
