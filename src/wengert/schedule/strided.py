"""What kernels need that read and write whole arrays as they lie: memory with any strides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..graph import Node, Operator
from ..loops import Affine, Buffer, Load, c_strides
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


def strides_with_inner(shape: tuple[int, ...], inner: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of an array without gaps in which some axes lie innermost, the last one closest.

    >>> strides_with_inner((2, 3, 4), (1,))
    (12, 1, 3)
    """
    order = (*[axis for axis in range(len(shape)) if axis not in inner], *inner)
    steps = c_strides(tuple(shape[axis] for axis in order))
    return tuple(steps[order.index(axis)] for axis in range(len(shape)))


def strides_under(
    shape: Sequence[int], strides: Sequence[int], wanted: Sequence[int]
) -> tuple[int, ...] | None:
    """The strides of an array under another shape; None where its elements lie otherwise.

    >>> strides_under((2, 3, 4), (12, 1, 3), (2, 3, 2, 2, 1))
    (12, 1, 6, 3, 0)
    >>> strides_under((2, 3, 4), (12, 1, 3), (2, 12)) is None
    True
    """
    if 0 in wanted:
        return c_strides(tuple(wanted))
    old = [(n, step) for n, step in zip(shape, strides, strict=True) if n != 1]
    found: list[int] = []
    for length in reversed(wanted):
        if length == 1:
            found.append(0)
            continue
        while len(old) > 1 and old[-1][0] % length and _is_one(old[-2], old[-1]):
            old[-2:] = [(old[-2][0] * old[-1][0], old[-1][1])]
        if not old or old[-1][0] % length:
            return None
        n, step = old.pop()
        found.append(step)
        if n != length:
            old.append((n // length, step * length))
    return tuple(reversed(found)) if not old else None


def _is_one(outer: tuple[int, int], inner: tuple[int, int]) -> bool:
    """Whether two axes are one in memory."""
    return outer[1] == inner[0] * inner[1]
