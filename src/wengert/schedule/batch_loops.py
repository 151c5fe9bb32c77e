"""A region of the graph -> a loop over blocks of samples."""

from __future__ import annotations

from ..graph import Node, Operator
from ..loops import Buffer, MemoryKind
from .blocks import BlockScheduler
from .channels import strides_outside
from .fusion import Scheduler
from .strided import items_of, view_of


def lower_region(scheduler: Scheduler, node: Operator) -> None:
    """A loop over blocks of samples, with the program of one block inside."""
    inputs = [view_of(scheduler, source) for source in node.inputs]
    items = items_of(scheduler, node)
    region = node.op.region
    outputs = [
        _result_buffer(scheduler, items[number], axis, strides_outside(region, number))
        for number, axis in enumerate(region.out_axes)
    ]
    body = BlockScheduler(scheduler, region, inputs, outputs)
    scheduler.add(node, [body.loop(node)])
    for flag, member in body.flags:
        scheduler._add_check(flag, member)


def _result_buffer(
    scheduler: Scheduler, node: Node, axis: int | None, strides: tuple[int, ...] | None
) -> Buffer:
    """Memory for a result of a region, with strides that suit it if nobody else minds."""
    if (axis is not None or strides) and node.serial not in scheduler.buffers:
        kind = MemoryKind.ARENA if scheduler.length is None else MemoryKind.ROOM
        scheduler.buffers[node.serial] = scheduler._new_buffer(node.type, kind, "t", strides)
    return scheduler.buffer_of(node)
