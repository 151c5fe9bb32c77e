"""What the nodes of a graph become: an expression, a reduction, a product, a call of NumPy."""

from __future__ import annotations

from math import prod
from typing import Any

from ..graph import Node, Operator
from ..loops import FEW, Assembled, Pointwise, Product, Reduction
from ..machine import policy
from ..ops.elementwise import complex_of, imag, real
from .lowering import lowering_of, multiplication
from .task import Task


class NodeLowerings:
    """How the nodes of one graph lower, each looked at once."""

    def __init__(self, task: Task):
        self.task = task
        self._known: dict[int, Any] = {}

    def lowering(self, node: Operator) -> Any:
        """How the node lowers to loops, or None: NumPy evaluates it."""
        if node.serial not in self._known:
            self._known[node.serial] = self._lowering(node)
        return self._known[node.serial]

    def _lowering(self, node: Operator) -> Any:
        if self.task.kind == "block" and isinstance(node.op.loops, Reduction):
            return self._in_lanes(node, node.op.loops)
        found = lowering_of(node)
        if isinstance(found, Pointwise) and node.serial in self.task.places:
            return found.write
        if found is None and node.op in (real, imag):
            parts = self.task.rule(self.task, node.op.name)
            found = parts and parts(node)
        if isinstance(found, Product) and not self.continues(node):
            found = multiplication(node) or found
        if isinstance(found, Pointwise) and found.corners is not None and _has_many_parts(node):
            found = Assembled(found.corners)
        return found

    def is_interleaved(self, node: Operator) -> bool:
        """Whether the node puts the parts of complex numbers together, element by element."""
        return node.op is complex_of and self.task.rule(self.task, node.op.name) is not None

    def _in_lanes(self, node: Operator, loops: Reduction) -> Any:
        """One lane a sample: a reduction of a few elements is an expression of them all."""
        terms = prod(node.inputs[0].type.shape[axis] for axis in node.params["axes"])
        few = 0 < terms <= FEW and not self.continues(node)
        return loops.written_out(node.type.dtype) if few else loops

    def continues(self, node: Operator) -> bool:
        """Whether the memory of a sum already holds a part of it."""
        return node.serial in self.task.continued

    def is_pointwise(self, node: Node) -> bool:
        """Whether the node's elements are expressions, computed where they are needed."""
        return isinstance(node, Operator) and isinstance(self.lowering(node), Pointwise)

    def is_free(self, node: Operator) -> bool:
        """Whether the node only changes where elements are read."""
        return bool(getattr(self.lowering(node), "free", False))

    def is_aligned(self, node: Operator) -> bool:
        """Whether the element at an index depends on the operands at that index alone."""
        loops = self.lowering(node)
        if isinstance(loops, Reduction):
            return True
        if not isinstance(loops, Pointwise) or loops.free or loops.whole:
            return self.is_interleaved(node)
        if isinstance(node.op.loops, Product):
            *factors, out = node.params["spec"]  # as long axes may be exchanged
            return all(labels in ((), out) for labels in factors)
        shape = node.type.shape
        return all(source.type.shape == shape for source in node.inputs if source.type.shape)


def _has_many_parts(node: Operator) -> bool:
    """Whether so many arguments are put together, or so short ones, that no loop over the result
    should look for the one that an element is of."""
    limits, count = policy().fusion, len(node.inputs)
    length = node.type.shape[node.params["axis"]]
    short = count >= limits.some_parts and length <= limits.short_part * count
    return count > limits.most_parts or short


def reads_views(node: Node) -> bool:
    """Whether an operation, of the scheduler's own, reads arguments with any strides."""
    return isinstance(node, Operator) and bool(getattr(node.op, "reads_views", False))
