"""Programs inside a program: a step of a scan, a chunk or a block of samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..graph import Graph, Node
from ..loops import Affine, Buffer, Carry, Literal, LoopProgram, Nest, Store, identity_of
from .lowering import loop_variables
from .task import Strides, Task


def inside(task: Task, kind: str, graph: Graph, **given: Any) -> Task:
    """The task for a program inside of that of another task."""
    alone: dict[str, Any] = {
        "input_strides": None,
        "output_strides": None,
        "any_length": None,
        "continued": frozenset(),
        "places": {},
        "reads": frozenset(),
        "watch": None,
    }
    return task.replace(kind=kind, graph=graph, **(alone | given))


def schedule_step(
    task: Task, graph: Graph, strides: Strides, totals: Sequence[Node] = (), **given: Any
) -> LoopProgram:
    """The loops of one step of a scan; `totals` are added to where they lie."""
    continued = frozenset(node.serial for node in totals)
    return task.run(
        inside(task, "step", graph, input_strides=strides, continued=continued, **given)
    )


def schedule_chunk(task: Task, graph: Graph, strides: Strides, results: Strides) -> LoopProgram:
    """The loops of one chunk of samples."""
    return task.run(inside(task, "chunk", graph, input_strides=strides, output_strides=results))


def filled(buffer: Buffer, combine: str, label: str, nodes: Sequence[Any] = ()) -> Nest:
    """Memory filled with what changes nothing when it is combined."""
    variables = loop_variables(buffer.shape)
    place = buffer.flat(tuple(Affine.of(var) for var in variables))
    nothing = Literal(identity_of(combine, buffer.dtype), buffer.dtype)
    return Nest(variables, [Store(buffer, place, nothing)], label, list(nodes))


def back_and_forth(
    before: Buffer,
    after: Buffer,
    start: Buffer,
    new_buffer: Callable[..., Buffer],
    end: Buffer | None = None,
) -> Carry:
    """A value that a loop hands on between two places of its own."""
    before.be_carried()
    after.be_carried()
    places = tuple(new_buffer(after.dtype, after.shape) for _ in range(2))
    return Carry(before, after, start, places, end)
