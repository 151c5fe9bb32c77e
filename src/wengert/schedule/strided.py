"""What kernels need that read and write whole arrays as they lie: memory with any strides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..graph import Node, Operator
from ..loops import Affine, Buffer, Load
from ..trace.tracer import ITEM
from .fused import FusedNest

if TYPE_CHECKING:
    from .fusion import Scheduler


def strided(scheduler: Scheduler, node: Node) -> tuple[Buffer, Sequence[int], int]:
    """A value as a buffer with strides: slices, transposes, windows need no copy."""
    if isinstance(node, Operator) and node.serial not in scheduler.stored:
        nest = FusedNest(scheduler, node.type.shape)
        element = nest.element(node, nest.index)
        if isinstance(element, Load) and element.dtype == node.type.dtype:
            strides = [element.at.coefficient(var) for var in nest.vars]
            return element.buffer, strides, element.at.constant
        scheduler.materialise(node)
    buffer = scheduler.buffer_of(node)
    return buffer, buffer.strides, 0


def view_of(scheduler: Scheduler, node: Node) -> Buffer:
    """A value as memory with any strides."""
    buffer, strides, offset = strided(scheduler, node)
    if tuple(strides) == buffer.strides and not offset:
        return buffer
    return buffer.view(Affine(offset), node.type.shape, tuple(strides))


def items_of(scheduler: Scheduler, node: Operator) -> dict[int, Operator]:
    """The results of an operation that has several, by number."""
    return {
        user.params["index"]: user
        for user in scheduler.graph.operators
        if user.op is ITEM and user.inputs[0] is node
    }
