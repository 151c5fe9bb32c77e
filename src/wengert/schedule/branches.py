"""A `switch` in the graph -> branches around the programs, of which the index chooses one."""

from __future__ import annotations

from collections.abc import Sequence

from ..graph import Operator
from ..loops import Affine, Branch, Buffer, Host, InRange, Kernel
from .fusion import Scheduler
from .lowering import is_native

# Less than any index.
LEAST = -(1 << 63)


def lower_switch(scheduler: Scheduler, node: Operator) -> None:
    """Native branches; NumPy evaluates what cannot be.

    Without a call of Python, some hundred times as fast as one with it.
    """
    inputs, outputs = scheduler.arrays_of(node)
    kernels = None
    if all(map(is_native, node.inputs)):
        kernels = _branches(scheduler, node, inputs, outputs)
    if kernels is None:
        scheduler.add_host(node, inputs, outputs)
    else:
        scheduler.add(node, kernels)


def _branches(
    scheduler: Scheduler, node: Operator, inputs: Sequence[Buffer], outputs: Sequence[Buffer]
) -> list[Kernel] | None:
    """The first branch for an index below 1, else the second for one below 2, and so on."""
    index, *given = inputs
    sides: list[tuple[Kernel, ...]] = []
    for body in node.params["branches"].bodies:
        strides = [buffer.strides for buffer in given]
        program = scheduler.task.schedule_step(body.graph, strides, ())
        if any(isinstance(kernel, Host) for kernel in program.kernels):
            return None
        for inner, outer in zip(program.inputs, given, strict=True):
            inner.lie_in(outer)
        for inner, outer in zip(program.outputs, outputs, strict=True):
            inner.lie_in(outer)
        sides.append(tuple(program.kernels))
    *before, last = sides
    for number in reversed(range(len(before))):
        test = InRange(Affine(0), LEAST, number + 1)
        last = (Branch(test, before[number], last, node.op.name, index),)
    return list(last)
