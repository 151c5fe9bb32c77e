"""A `switch` in the graph -> branches around the programs, of which the index chooses one."""

from __future__ import annotations

from collections.abc import Sequence

from ..graph import Operator
from ..loops import Affine, Branch, Buffer, Host, InRange, Kernel
from .fusion import Scheduler
from .inner import schedule_step
from .lowering import copied, is_native
from .overwriting import find_targets, overwrite

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
    branches = node.params["branches"]
    targets = branches.derived(find_targets)
    copies: list[Kernel] = []
    for number, place in targets.items():
        if given[place] is not outputs[number]:
            copies.append(copied(given[place], outputs[number], [node]))
            given[place] = outputs[number]
    sides: list[tuple[Kernel, ...]] = []
    for body in branches.bodies:
        strides = [buffer.strides for buffer in given]
        found = overwrite(body.graph, targets, unchanged=True)
        program = schedule_step(
            scheduler.task, found.graph, strides, places=found.places, reads=found.reads
        )
        if any(isinstance(kernel, Host) for kernel in program.kernels):
            return None
        for inner, outer in zip(program.inputs, given, strict=True):
            inner.lie_in(outer)
        for number, inner in enumerate(program.outputs):
            if number not in targets:
                inner.lie_in(outputs[number])
        sides.append(tuple(program.kernels))
    *before, last = sides
    for number in reversed(range(len(before))):
        test = InRange(Affine(0), LEAST, number + 1)
        last = (Branch(test, before[number], last, node.op.name, index),)
    return [*copies, *last]
