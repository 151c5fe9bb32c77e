"""What processes do together -> calls of the native functions of `codegen/collectives.py`."""

from __future__ import annotations

from ..graph import Operator
from ..loops import LibraryCall
from ..ops.collectives import native
from .fusion import Scheduler
from .lowering import is_native

# What a message takes and what an element does, in units of `Kernel.work`.
_MESSAGE, _ELEMENT = 1000, 4


def lower_collective(scheduler: Scheduler, node: Operator) -> None:
    """A call from an array in one piece to another, with memory to work in beside them."""
    if not is_native(node) or not node.inputs[0].type.size:
        scheduler._schedule_host(node)
        return
    (source,), (target,) = scheduler.arrays_of(node)
    call = native(node.op.name, node.inputs[0].type, **node.params)
    work = scheduler._arena_buffer(source.dtype, (max(call.work, 1),))
    cost = _MESSAGE + _ELEMENT * max(source.size, target.size)
    kernel = LibraryCall(
        call.function,
        (source, target, work, call.length, call.element, call.extra),
        (source,),
        (target, work),
        cost,
        node.op.name,
        [node],
        by_value=True,
    )
    scheduler.add(node, [kernel])
