"""A `scan` in the graph -> a native loop around the program of its body.

The body is scheduled once, as a program of its own whose buffers lie elsewhere at every step. A
carry that is given out row by row, before or after each step, lives in those rows; any other goes
back and forth between two buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..graph import Graph, Operator
from ..loops import (
    Affine,
    Buffer,
    Carried,
    Host,
    Kernel,
    Load,
    LoopProgram,
    Nest,
    Repeat,
    Rows,
    Store,
    Var,
)
from .memory import plan

_BYTE = np.dtype(np.uint8)

NewBuffer = Callable[[np.dtype, tuple[int, ...]], Buffer]


def repeat_kernels(
    node: Operator,
    inputs: Sequence[Buffer],
    outputs: Sequence[Buffer],
    schedule: Callable[..., LoopProgram],
    new_buffer: NewBuffer,
) -> list[Kernel] | None:
    """The loop from buffers to buffers and what goes before and after it; None: not native."""
    body, steps = node.params["body"], node.params["length"]
    if not steps or any(buffer.size == 0 for buffer in [*inputs, *outputs]):
        return None
    fixed, starts, rows = body.split(inputs)
    ends, stacks = outputs[: body.carry], outputs[body.carry :]
    homes, kept = _homes(body)
    graph = Graph(body.graph.inputs, [body.graph.outputs[k] for k in kept])
    strides = [b.strides for b in [*fixed, *starts]] + [b.strides[1:] for b in rows]
    program = plan(schedule(graph, strides))
    if any(isinstance(kernel, Host) for kernel in program.kernels):
        return None
    reverse = node.params["reverse"]
    before: list[Kernel] = []
    after: list[Kernel] = []
    carries = []
    for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
        place, ahead = homes.get(number, (None, False))
        if place is None:
            spare = tuple(new_buffer(end.dtype, end.shape) for _ in range(2))
            carries.append(Carried(start, end, None, False, spare))
            continue
        home = _rows(stacks[place])
        first, last = (steps - 1, 0) if reverse else (0, steps - 1)
        if ahead:
            before.append(_copy(start, 0, home.buffer, first * home.stride, node))
        else:
            after.append(_copy(home.buffer, last * home.stride, end, 0, node))
        carries.append(Carried(start, end, home, ahead))
    loop = Repeat(
        steps,
        reverse,
        program,
        fixed,
        carries,
        [_rows(buffer) for buffer in rows],
        [_rows(stacks[k - body.carry]) for k in kept[body.carry :]],
        new_buffer(_BYTE, (program.planned_bytes,)),
        node.op.name,
        [node],
    )
    return [*before, loop, *after]


def _homes(body: Any) -> tuple[dict[int, tuple[int, bool]], list[int]]:
    """For a carry that is a row of the results, which one, and whether as it was before the step;
    and the outputs of the body that are left to be stored."""
    outputs, carry = body.graph.outputs, body.carry
    homes: dict[int, tuple[int, bool]] = {}
    for ahead, nodes in ((False, outputs[:carry]), (True, body.split(body.graph.inputs)[1])):
        for number, node in enumerate(nodes):
            taken = {place for place, _ in homes.values()}
            for place, row in enumerate(outputs[carry:]):
                if row.serial == node.serial and number not in homes and place not in taken:
                    homes[number] = (place, ahead)
    taken = {carry + place for place, _ in homes.values()}
    return homes, [k for k in range(len(outputs)) if k not in taken]


def _rows(buffer: Buffer) -> Rows:
    return Rows(buffer, buffer.strides[0])


def _copy(source: Buffer, start: int, target: Buffer, place: int, node: Operator) -> Nest:
    """Copy one row, which is contiguous in both."""
    shape = min(source.shape, target.shape, key=len)
    var = Var("i", int(np.prod(shape, dtype=np.int64)))
    value = Load(source, Affine.of(var) + start)
    return Nest([var], [Store(target, Affine.of(var) + place, value)], "copy", [node])
