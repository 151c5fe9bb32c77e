"""A `scan` in the graph -> a native loop around the program of its body.

The body is scheduled once, as a program of its own whose buffers lie elsewhere at every step. A
carry that is given out row by row, before or after each step, lives in those rows; any other goes
back and forth between two buffers, unless steps write to parts of it where it lies (`tables`, see
`overwriting`). What steps only add to stays where it is (`totals`). Where
samples never meet but in such sums, threads share them (`splitting`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..graph import Graph, Operator
from ..loops import (
    Affine,
    Branch,
    Buffer,
    Carry,
    Host,
    InRange,
    Kernel,
    Load,
    Loop,
    LoopProgram,
    Nest,
    Store,
    Var,
)
from .fusion import Scheduler
from .inner import filled, schedule_step
from .loop_sums import NewBuffer, find_totals, join_parts, total_places
from .lowering import Element, copied, is_native
from .memory import temporaries
from .overwriting import find_tables, overwrite
from .splitting import Split, split_body


def lower_scan(scheduler: Scheduler, node: Operator) -> None:
    """A loop around the program of the body; NumPy evaluates what cannot be one.

    On one thread twice as fast on `recurrent: RNN 64, 28 x 28, batch 100`.
    """
    inputs, outputs = scheduler.arrays_of(node)
    loop = None
    if all(map(is_native, node.inputs)):
        schedule = functools.partial(schedule_step, scheduler.task)
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
    counted = node.params.get("counted", 0)
    totals, tables = find_totals(body), body.derived(find_tables)
    moving = [k for k in range(body.carry) if k not in totals]
    homes, kept = _homes(body, totals)
    if counted:  # there may be no step at all, and nobody knows the last one
        homes, kept = {}, [k for k in range(len(outputs)) if k not in totals]
    places = [k for k in range(len(inputs)) if k - body.constants not in totals]
    graph = Graph(
        [body.graph.inputs[k] for k in places],
        [*[body.graph.outputs[k] for k in kept], *totals.values()],
    )
    split = None
    if not counted:
        split = split_body(graph, body.constants, len(moving), steps, len(totals))
    first_row = body.constants + body.carry
    strides = [inputs[k].strides[k >= first_row :] for k in places]
    chosen = {place: body.constants + place for place, k in enumerate(moving) if k in tables}
    programs = []
    for one in [graph] if split is None else split.graphs:
        found = overwrite(one, chosen)
        assert len(set(found.places.values())) == len(chosen), "a part has the tables of the whole"
        sums_of = found.graph.outputs[len(kept) :]
        own = {"places": found.places, "reads": found.reads}
        programs.append(schedule(found.graph, strides, sums_of, **own))
    if any(isinstance(kernel, Host) for program in programs for kernel in program.kernels):
        return None
    parts = 1 if split is None else split.parts
    sums = total_places(totals, outputs, parts, new_buffer)
    before: list[Kernel] = []
    after: list[Kernel] = []
    spare: dict[int, list[Buffer]] = {}
    first, last = (steps - 1, 0) if node.params["reverse"] else (0, steps - 1)
    for number in moving:
        start, end = inputs[body.constants + number], outputs[number]
        if number in tables:
            if start is not end:  # a loop around does not write to it as well
                before.append(copied(start, end, [node]))
            continue
        if number not in homes:
            spare[number] = [new_buffer(end.dtype, end.shape) for _ in range(2)]
            continue
        place, ahead = homes[number]
        home = outputs[body.carry + place]
        if ahead:
            before.append(_copy(start, 0, home, first * home.strides[0], node))
        else:
            after.append(_copy(home, last * home.strides[0], end, 0, node))
    axes = {} if split is None else dict(zip(places, split.axes, strict=True))
    make = _Steps(node, inputs, outputs, moving, homes, spare, kept, sums, axes, tables)
    if split is None:
        loop = make.loop(programs[0], None, Affine(0), Affine(0))
    else:
        part = Var("part", parts)
        at = Affine.of(part)
        inside: Kernel = make.loop(programs[0], split, at * split.width + split.wide, at)
        if split.wide:
            wider = make.loop(programs[1], split, at * (split.width + 1), at)
            inside = Branch(InRange(at, 0, split.wide), (wider,), (inside,))
        loop = Loop(part, (inside,), True, label=node.op.name, nodes=(node,))
    starts = inputs[body.constants :]
    joins: dict[int, Element] = {
        number: functools.partial(join_parts, node, number, starts[number], memory)
        for number, memory in sums.items()
    }
    return [*before, loop, *after], joins


class _Steps:
    """Makes the loop over steps, for all samples or for those of a part."""

    def __init__(
        self,
        node: Operator,
        inputs: Sequence[Buffer],
        outputs: Sequence[Buffer],
        moving: Sequence[int],
        homes: Mapping[int, tuple[int, bool]],
        spare: Mapping[int, Sequence[Buffer]],
        kept: Sequence[int],
        sums: Mapping[int, Buffer],
        axes: Mapping[int, int | None],
        tables: Collection[int],
    ):
        self.node, self.body = node, node.params["body"]
        self.inputs, self.outputs = inputs, outputs
        self.moving, self.homes, self.spare, self.kept, self.sums = moving, homes, spare, kept, sums
        self.axes = axes  # of samples, by the number of an input
        self.tables = tables  # carries that steps write to where they lie
        self.reverse = node.params["reverse"]
        self.step = Var("step", node.params["length"])

    def loop(self, program: LoopProgram, split: Split | None, sample: Affine, part: Affine) -> Loop:
        """The loop around the program of a step, which begins with this sample."""
        self.split, self.sample = split, sample
        private = temporaries(program.kernels)
        row, body = Affine.of(self.step), self.body
        carried = program.inputs[body.constants : body.constants + len(self.moving)]
        rows = program.inputs[body.constants + len(self.moving) :]
        results = program.outputs[len(self.moving) : len(self.kept)]
        totals = program.outputs[len(self.kept) :]
        for number, inner in enumerate(program.inputs[: body.constants]):
            inner.lie_in(self.inputs[number], self._start(number))
        for number, inner in enumerate(rows, body.constants + body.carry):
            outer = self.inputs[number]
            inner.lie_in(outer, row * outer.strides[0] + self._start(number, 1))
        for number, inner in zip(self.kept[len(self.moving) :], results, strict=True):
            outer = self.outputs[number]
            inner.lie_in(outer, row * outer.strides[0] + self._first(outer, 1))
        begin = []
        for memory, inner in zip(self.sums.values(), totals, strict=True):
            inner.lie_in(memory, part * inner.size)
            begin.append(filled(inner, "add", "zeros", [self.node]))
        carries = []
        for number, before, after in zip(self.moving, carried, program.outputs, strict=False):
            if number in self.tables:
                before.lie_in(self.outputs[number], self._first(self.outputs[number]))
            else:
                carries.append(self._carry(number, before, after))
        counted = self.node.params.get("counted", 0)
        ends = [self.outputs[k] for k in self.moving if k not in self.tables] if counted else []
        copies = [
            copied(carry.before, end, [self.node])
            for carry, end in zip(carries, ends, strict=False)
        ]
        return Loop(
            self.step,
            tuple(program.kernels),
            begin=tuple(begin),
            join=tuple(copies),
            limit=self.inputs[0] if counted else None,
            number=counted,
            private=private,
            label=self.node.op.name,
            nodes=(self.node,),
            carries=tuple(carries),
            reverse=self.reverse,
        )

    def _carry(self, number: int, before: Buffer, after: Buffer) -> Carry:
        """Where a carry lies from step to step."""
        before.be_carried()
        after.be_carried()
        place = self.body.constants + number
        start = self.inputs[place].view(self._start(place))
        end: Buffer | None = self.outputs[number]
        assert end is not None
        end = end.view(self._first(end))
        if number not in self.homes:
            places = [one.view(self._first(one)) for one in self.spare[number]]
            last = None if self.node.params.get("counted") else end
            return Carry(before, after, start, tuple(places), last)
        result, ahead = self.homes[number]
        home = self.outputs[self.body.carry + result]
        row, stride, sample = Affine.of(self.step), home.strides[0], self._first(home, 1)
        if not ahead:
            return Carry(before, after, start, (home.view(row * stride + sample),))
        first = self.step.extent - 1 if self.reverse else 0
        start = home.view(sample + first * stride)
        following = row + (-1 if self.reverse else 1)
        return Carry(before, after, start, (home.view(following * stride + sample),), end)

    def _start(self, number: int, front: int = 0) -> Affine:
        """Where in an input the first sample is."""
        axis = self.axes.get(number)
        if axis is None:
            return Affine(0)
        return self.sample * self.inputs[number].strides[axis + front]

    def _first(self, buffer: Buffer, front: int = 0) -> Affine:
        """The same in a buffer whose first axis, after `front` others, is that of the samples."""
        return Affine(0) if self.split is None else self.sample * buffer.strides[front]


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
