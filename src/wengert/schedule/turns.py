"""A `while` in the graph -> a native loop around the program of its turn.

Whether there is a first turn is found before the loop, and every turn says whether there is another
one: so the loop has one program, and looks at one Boolean that it carries along.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..graph import Graph, Operator
from ..loops import (
    Buffer,
    Carry,
    Host,
    Kernel,
    Loop,
    MemoryKind,
    Var,
)
from ..transforms.bodies import extract
from .fusion import Scheduler
from .lowering import is_native
from .memory import temporaries
from .repeat import copied

# So many turns are taken for granted where a cost is estimated: Ctrl-C ends loops of any length.
MANY = 1 << 40


def lower_while(scheduler: Scheduler, node: Operator) -> None:
    """A loop around the program of a turn; NumPy evaluates what cannot be one.

    Without a call of Python, some hundred times as fast as one with it.
    """
    inputs, outputs = scheduler.arrays_of(node)
    kernels = None
    if all(map(is_native, node.inputs)) and all(buffer.size for buffer in [*inputs, *outputs]):
        kernels = _while_kernels(scheduler, node, inputs, outputs)
    if kernels is None:
        scheduler.add_host(node, inputs, outputs)
    else:
        scheduler.add(node, kernels)


def _while_kernels(
    scheduler: Scheduler, node: Operator, inputs: Sequence[Buffer], outputs: Sequence[Buffer]
) -> list[Kernel] | None:
    turn = node.params["turn"]
    body = turn.body
    strides = [buffer.strides for buffer in inputs]
    first = scheduler.task.schedule_step(turn.test.graph, strides, ())
    again = scheduler.task.schedule_step(_turn_and_test(turn), strides, ())
    if any(isinstance(kernel, Host) for kernel in [*first.kernels, *again.kernels]):
        return None
    private = temporaries(again.kernels)
    for program in (first, again):
        for inner, outer in zip(program.inputs[: body.constants], inputs, strict=False):
            inner.lie_in(outer)
    for inner, outer in zip(first.inputs[body.constants :], inputs[body.constants :], strict=True):
        inner.lie_in(outer)
    (found,) = first.outputs
    flag = scheduler._arena_buffer(found.dtype, ())
    found.lie_in(flag)
    asked, *after = again.outputs
    before = Buffer("going", asked.dtype, (), (), MemoryKind.CARRIED)
    going = _carry(scheduler, before, asked, flag)
    carries = [
        _carry(scheduler, *three)
        for three in zip(
            again.inputs[body.constants :], after, inputs[body.constants :], strict=True
        )
    ]
    copies = [copied(carry, end, node) for carry, end in zip(carries, outputs, strict=True)]
    loop = Loop(
        Var("turn", MANY),
        tuple(again.kernels),
        join=tuple(copies),
        private=private,
        label=node.op.name,
        nodes=(node,),
        carries=(going, *carries),
        going=going,
    )
    return [*first.kernels, loop]


def _turn_and_test(turn: Any) -> Graph:
    """A turn, and whether there is another one after it, which is its first result."""
    body = turn.body
    inputs, outputs = body.graph.inputs, body.graph.outputs
    now = [*inputs[: body.constants], *outputs]
    pairs = zip(turn.test.graph.inputs, now, strict=True)
    (asked,) = extract(turn.test.graph.outputs, {old.serial: new for old, new in pairs})
    return Graph(inputs, [asked, *outputs])


def _carry(scheduler: Scheduler, before: Buffer, after: Buffer, start: Buffer) -> Carry:
    """A value that goes back and forth between two places."""
    before.kind = after.kind = MemoryKind.CARRIED
    places = tuple(scheduler._arena_buffer(after.dtype, after.shape) for _ in range(2))
    return Carry(before, after, start, places)
