"""How a node of the graph lowers to loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from ..graph import Node, Operator
from ..loops import (
    FEW,
    Affine,
    Apply,
    Buffer,
    Expr,
    Index,
    Load,
    Nest,
    Operand,
    Pointwise,
    Reduction,
    Store,
    Var,
    cast,
)
from ..machine import policy

# An element of a result, by its index.
Element = Callable[[Index], Expr]

NATIVE = frozenset("b1 i1 i2 i4 i8 u1 u2 u4 u8 f4 f8".split())


def is_native(node: Node) -> bool:
    """Whether the elements are of a type that the loop language knows."""
    dtype = getattr(node.type, "dtype", None)
    return dtype is not None and f"{dtype.kind}{dtype.itemsize}" in NATIVE


def lowering_of(node: Operator) -> Any:
    """The loops of an operation, or None: NumPy evaluates it."""
    if node.op.multiple or not all(map(is_native, (node, *node.inputs))):
        return None
    loops = node.op.loops
    if callable(loops):
        loops = loops(**node.params)
    if isinstance(loops, Pointwise) and node.type.dtype.kind not in loops.kinds:
        return None
    if getattr(loops, "check", None) and any(s.type.size == 0 for s in node.inputs):
        return None  # no loop would come past the indices to check them
    if isinstance(loops, Reduction) and _is_short(node):
        return loops.written_out(node.type.dtype)
    return loops


def _is_short(node: Operator) -> bool:
    """Whether a reduction is over too few elements to make vectors of, for many results."""
    shape, axes = node.inputs[0].type.shape, node.params["axes"]
    many = policy().fusion.short_loop
    innermost = shape[-1] if len(shape) - 1 in axes else many
    count = prod(shape[axis] for axis in axes)
    return 1 <= count <= FEW and innermost < many <= node.type.size


def multiplication(node: Operator) -> Pointwise | None:
    """A product that sums over nothing, element by element: x[:, None] * y; None if it sums.

    So it fuses with whatever reads it, as the update of a weight from a single sample.
    """
    dtype, (x_labels, y_labels, out_labels) = node.type.dtype, node.params["spec"]
    lengths = zip(x_labels, node.inputs[0].type.shape, strict=True)
    summed = [length for label, length in lengths if label not in out_labels]
    if dtype.kind != "f" or any(length != 1 for length in summed):
        return None

    def rule(at: Index, x: Operand, y: Operand, spec: Any) -> Expr:
        place = dict(zip(out_labels, at, strict=True))
        factors = [
            cast(source(place.get(label, Affine(0)) for label in labels), dtype)
            for source, labels in ((x, x_labels), (y, y_labels))
        ]
        return Apply("multiply", tuple(factors), dtype)

    return Pointwise(rule)


def product_extents(node: Operator) -> dict[int, int]:
    """The loops of a product by their labels, those of the result first."""
    x_labels, y_labels, out_labels = node.params["spec"]
    extents: dict[int, int] = {}
    for labels, source in zip((x_labels, y_labels), node.inputs, strict=True):
        extents.update(zip(labels, source.type.shape, strict=True))
    return {label: extents[label] for label in dict.fromkeys([*out_labels, *extents])}


def loop_variables(shape: Sequence[int]) -> list[Var]:
    """A loop variable for each axis."""
    return [Var("ijklmnpq"[axis % 8] + str(axis // 8 or ""), n) for axis, n in enumerate(shape)]


def copied(source: Buffer, target: Buffer, nodes: Sequence[Any], label: str = "copy") -> Nest:
    """A copy of an array, element by element."""
    variables = loop_variables(target.shape)
    index = tuple(map(Affine.of, variables))
    store = Store(target, target.flat(index), Load(source, source.flat(index)))
    return Nest(variables, [store], label, list(nodes))
