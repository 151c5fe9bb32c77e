"""A `scan` in the graph -> a native loop around the program of its body.

The body is scheduled once, as a program of its own whose buffers lie elsewhere at every step. A
carry that is given out row by row, before or after each step, lives in those rows; any other goes
back and forth between two buffers. What steps only add to stays where it is (`totals`). Where
samples never meet but in such sums, threads share them (`splitting`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
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
from .fusion import Scheduler
from .lowering import Element, is_native
from .memory import plan
from .splitting import Split, split_body
from .totals import NewBuffer, find_totals, join_parts, total_places


def lower_scan(scheduler: Scheduler, node: Operator) -> None:
    """A loop around the program of the body; NumPy evaluates what cannot be one."""
    inputs, outputs = scheduler.arrays_of(node)
    loop = None
    if all(map(is_native, node.inputs)):
        schedule = scheduler.task.schedule_step
        loop = repeat_kernels(node, inputs, outputs, schedule, scheduler._arena_buffer)
    if loop is None:
        scheduler.add_host(node, inputs, outputs)
        return
    kernels, joins = loop
    scheduler.unjoined |= {(node.serial, number): element for number, element in joins.items()}
    scheduler.add(node, kernels)


def repeat_kernels(
    node: Operator,
    inputs: Sequence[Buffer],
    outputs: Sequence[Buffer],
    schedule: Callable[..., LoopProgram],
    new_buffer: NewBuffer,
) -> tuple[list[Kernel], dict[int, Element]] | None:
    """The loop from buffers to buffers and what goes before and after it, and the results that are
    still to be put together of what its parts leave; None: not native."""
    body, steps = node.params["body"], node.params["length"]
    if not steps or any(buffer.size == 0 for buffer in [*inputs, *outputs]):
        return None
    totals = find_totals(body)
    moving = [k for k in range(body.carry) if k not in totals]
    homes, kept = _homes(body, totals)
    places = [k for k in range(len(inputs)) if k - body.constants not in totals]
    graph = Graph(
        [body.graph.inputs[k] for k in places],
        [*[body.graph.outputs[k] for k in kept], *totals.values()],
    )
    split = split_body(graph, body.constants, len(moving), steps, len(totals))
    first_row = body.constants + body.carry
    strides = [inputs[k].strides[k >= first_row :] for k in places]
    programs = [
        plan(schedule(one, strides, one.outputs[len(kept) :]))
        for one in ([graph] if split is None else split.graphs)
    ]
    if any(isinstance(kernel, Host) for program in programs for kernel in program.kernels):
        return None
    where = _Places(body, inputs, outputs, split, places)
    parts = 1 if split is None else split.parts
    sums = total_places(totals, outputs, parts, new_buffer)
    before: list[Kernel] = []
    after: list[Kernel] = []
    carries = []
    for number in moving:
        start, end = where.start(number), where.end(number)
        place, ahead = homes.get(number, (None, False))
        if place is None:
            like = end.buffer
            spare = (new_buffer(like.dtype, like.shape), new_buffer(like.dtype, like.shape))
            carries.append(Carried(start, end, None, False, tuple(map(where.first, spare))))
            continue
        home = where.result(place)
        first, last = (steps - 1, 0) if node.params["reverse"] else (0, steps - 1)
        if ahead:
            before.append(_copy(start.buffer, 0, home.buffer, first * home.stride, node))
        else:
            after.append(_copy(home.buffer, last * home.stride, end.buffer, 0, node))
        carries.append(Carried(start, end, home, ahead))
    loop = Repeat(
        steps,
        node.params["reverse"],
        programs[0],
        where.fixed(),
        carries,
        where.rows(),
        [where.result(k - body.carry) for k in kept[len(moving) :]],
        list(sums.values()),
        parts,
        0 if split is None else split.width,
        0 if split is None else split.wide,
        programs[1] if len(programs) > 1 else None,
        node.op.name,
        [node],
    )
    starts = inputs[body.constants :]
    joins: dict[int, Element] = {
        number: functools.partial(join_parts, node, number, starts[number], place.buffer)
        for number, place in sums.items()
    }
    return [*before, loop, *after], joins


class _Places:
    """Where the arrays of a body lie."""

    def __init__(
        self,
        body: Any,
        inputs: Sequence[Buffer],
        outputs: Sequence[Buffer],
        split: Split | None,
        places: Sequence[int],
    ):
        self.body, self.inputs, self.outputs, self.split = body, inputs, outputs, split
        # by the number of an input, which axis is that of the samples
        self.axes = {} if split is None else dict(zip(places, split.axes, strict=True))

    def fixed(self) -> list[Rows]:
        """Constants of the loop."""
        return [self._input(number) for number in range(self.body.constants)]

    def start(self, number: int) -> Rows:
        """A carry, before the first step."""
        return self._input(self.body.constants + number)

    def rows(self) -> list[Rows]:
        """Arrays with a row for each step."""
        first = self.body.constants + self.body.carry
        return [self._input(number, 1) for number in range(first, len(self.inputs))]

    def end(self, number: int) -> Rows:
        """A carry, after the last step."""
        return self.first(self.outputs[number])

    def result(self, number: int) -> Rows:
        """An array with a row from each step."""
        return self.first(self.outputs[self.body.carry + number], 1)

    def first(self, buffer: Buffer, front: int = 0) -> Rows:
        """A buffer whose first axis, after `front` others, is that of the samples."""
        return self._place(buffer, 0, front)

    def _input(self, number: int, front: int = 0) -> Rows:
        return self._place(self.inputs[number], self.axes.get(number), front)

    def _place(self, buffer: Buffer, axis: int | None, front: int) -> Rows:
        stride = buffer.strides[0] if front else 0
        if self.split is None or axis is None:
            return Rows(buffer, stride)
        return Rows(buffer, stride, buffer.strides[axis + front])


def _homes(body: Any, totals: Iterable[int]) -> tuple[dict[int, tuple[int, bool]], list[int]]:
    """For a carry that is a row of the results, which one, and whether as it was before the step;
    and the outputs of the body that are left to be stored, without the totals."""
    outputs, carry = body.graph.outputs, body.carry
    homes: dict[int, tuple[int, bool]] = {}
    for ahead, nodes in ((False, outputs[:carry]), (True, body.split(body.graph.inputs)[1])):
        for number, node in enumerate(nodes):
            taken = {place for place, _ in homes.values()}
            for place, row in enumerate(outputs[carry:]):
                if row.serial == node.serial and number not in homes and place not in taken:
                    homes[number] = (place, ahead)
    taken = {carry + place for place, _ in homes.values()}
    return homes, [k for k in range(len(outputs)) if k not in taken and k not in totals]


def _copy(source: Buffer, start: int, target: Buffer, place: int, node: Operator) -> Nest:
    """Copy one row, which is contiguous in both."""
    shape = min(source.shape, target.shape, key=len)
    var = Var("i", int(np.prod(shape, dtype=np.int64)))
    value = Load(source, Affine.of(var) + start)
    return Nest([var], [Store(target, Affine.of(var) + place, value)], "copy", [node])
