"""A `while` in the graph -> a native loop around the program of its turn.

Whether there is a first turn is found before the loop, and every turn says whether there is another
one: so the loop has one program, and looks at one Boolean that it carries along.

Of a batch each sample has turns of its own number, and those that have ended are carried along
until the last one has. So such a loop runs for one block of samples after the other, as many as
fill some vectors: a block ends with its own samples, and stays near while it is worked on.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

from ..graph import Graph, Node, Operator, Variable
from ..loops import Affine, Buffer, Host, Kernel, Loop, MemoryKind, Var
from ..machine import policy
from ..ops.reductions import reduce_any
from ..passes.rewriting import apply
from ..transforms.bodies import Body, extract
from ..transforms.repetition import Turn
from .cost_model import time_apart
from .fusion import Scheduler
from .inner import back_and_forth, schedule_step
from .lowering import copied, is_native
from .memory import temporaries
from .overwriting import find_tables, overwrite
from .splitting import Samples
from .strided import items_of

# So many turns are taken for granted where a cost is estimated: Ctrl-C ends loops of any length.
MANY = 1 << 40


def lower_while(scheduler: Scheduler, node: Operator) -> None:
    """A loop around the program of a turn; NumPy evaluates what cannot be one.

    Without a call of Python, some hundred times as fast as one with it.
    """
    inputs, outputs = scheduler.arrays_of(node)
    kernels = None
    if all(map(is_native, node.inputs)) and all(buffer.size for buffer in [*inputs, *outputs]):
        turn: Turn = node.params["turn"]
        blocks = _blocks(turn) if turn.masks else None
        if blocks is None:
            found = _while_kernels(scheduler, node, turn, inputs, outputs)
            kernels = None if found is None else found.kernels
        else:
            kernels = _in_blocks(scheduler, node, blocks, inputs, outputs)
    if kernels is None:
        scheduler.add_host(node, inputs, outputs)
    else:
        scheduler.add(node, kernels)


class _While(NamedTuple):
    """The kernels of a loop, and the memory that they need for themselves."""

    kernels: list[Kernel]
    private: list[Buffer]


def _while_kernels(
    scheduler: Scheduler,
    node: Operator,
    turn: Turn,
    inputs: Sequence[Buffer],
    outputs: Sequence[Buffer],
) -> _While | None:
    """The loop from buffers to buffers; None: not native."""
    body = turn.body
    strides = [buffer.strides for buffer in inputs]
    first = schedule_step(scheduler.task, turn.test.graph, strides)
    tables = body.derived(find_tables)
    over = overwrite(_turn_and_test(turn), {k + 1: body.constants + k for k in tables})
    for k in tables:
        strides[body.constants + k] = outputs[k].strides
    again = schedule_step(scheduler.task, over.graph, strides, places=over.places, reads=over.reads)
    if any(isinstance(kernel, Host) for kernel in [*first.kernels, *again.kernels]):
        return None
    own = [*temporaries(first.kernels)]
    private = temporaries(again.kernels)
    for program in (first, again):
        for inner, outer in zip(program.inputs[: body.constants], inputs, strict=False):
            inner.lie_in(outer)
    starts = inputs[body.constants :]
    for inner, outer in zip(first.inputs[body.constants :], starts, strict=True):
        inner.lie_in(outer)
    (found,) = first.outputs
    flag = scheduler._arena_buffer(found.dtype, ())
    found.lie_in(flag)
    asked, *after = again.outputs
    before = Buffer("going", asked.dtype, (), (), MemoryKind.CARRIED)
    going = back_and_forth(before, asked, flag, scheduler._arena_buffer)
    wanted = items_of(scheduler, node)
    carries, copies, begin = [going], [], []
    row = Var("turn", turn.room or MANY)
    for number, inner in enumerate(after[body.carry :], body.carry):
        inner.lie_in(outputs[number], Affine.of(row) * outputs[number].strides[0])
    for number, before in enumerate(again.inputs[body.constants :]):
        start, end = starts[number], outputs[number]
        if number in tables:
            before.lie_in(end)
            begin += [] if start is end else [copied(start, end, [node])]
            continue
        new_buffer = scheduler._arena_buffer
        carries.append(back_and_forth(before, after[number], start, new_buffer))
        if number in wanted:
            copies.append(copied(before, end, [node]))
    loop = Loop(
        row,
        tuple(again.kernels),
        join=tuple(copies),
        private=private,
        label=node.op.name,
        nodes=(node,),
        carries=tuple(carries),
        going=going,
        number=turn.number,
    )
    own += [flag, *[place for carry in carries for place in carry.places]]
    return _While([*first.kernels, *begin, loop], own)


def _turn_and_test(turn: Turn) -> Graph:
    """A turn, and whether there is another one after it, which is its first result."""
    body = turn.body
    inputs, outputs = body.graph.inputs, body.graph.outputs
    now = [*inputs[: body.constants], *outputs[: body.carry]]
    pairs = zip(turn.test.graph.inputs, now, strict=True)
    replaced: dict[int, Any] = {old.serial: new for old, new in pairs}
    (asked,) = extract(turn.test.graph.outputs, replaced)  # type: ignore[arg-type]
    return Graph(inputs, [asked, *outputs])


# ---------------------------------------------------------------- blocks of samples


class _Blocks(NamedTuple):
    """A loop for a block of samples, and for those that are left, if there are any."""

    turns: list[Turn]
    width: int
    whole: int  # so many blocks
    axes: list[int | None]  # of samples, by the number of an input


def _blocks(turn: Turn) -> _Blocks | None:
    """The turns for blocks of samples; None where these meet, or are few."""
    body = turn.body
    if any(node.op.multiple for node in body.graph.operators):
        return None
    samples = Samples.of(body.graph, body.constants, body.carry)
    if samples is None:
        return None
    wide = [prod(node.type.shape[1:]) for node in body.graph.outputs if node is not None]
    lanes = policy().scans.lanes
    width = policy().scans.block_of_turns // max(wide)
    width = max(width // lanes * lanes, min(width, lanes), 1)
    count, rest = divmod(samples.length, width)
    if count < 2:
        return None
    graphs = samples.cut(body.graph, [width, rest] if rest else [width])
    if graphs is None:
        return None
    axes = [samples.axes.get(node.serial) for node in body.graph.inputs]
    return _Blocks([_of_block(turn, graph) for graph in graphs], width, count, axes)


def _of_block(turn: Turn, graph: Graph) -> Turn:
    """The turn of a block, which there is as long as one of its samples goes on."""
    inputs = [Variable("", None, node.type, active=False) for node in graph.inputs]
    live = inputs[turn.body.constants]
    asked: Node = apply(reduce_any, live, params={"axes": (0,)})
    return turn.like(
        Body(Graph(inputs, [asked]), 0, 0), Body(graph, turn.body.constants, turn.body.carry)
    )


def _in_blocks(
    scheduler: Scheduler,
    node: Operator,
    blocks: _Blocks,
    inputs: Sequence[Buffer],
    outputs: Sequence[Buffer],
) -> list[Kernel] | None:
    """A loop over the blocks, which threads share where there is enough to do, and one block of
    those that are left."""
    var = Var("block", blocks.whole)
    places = [Affine.of(var) * blocks.width, Affine(blocks.whole * blocks.width)]
    made: list[_While] = []
    for turn, first in zip(blocks.turns, places, strict=False):
        parts = [
            _part(buffer, axis, first, inner.type.shape)
            for buffer, axis, inner in zip(inputs, blocks.axes, turn.body.graph.inputs, strict=True)
        ]
        results = [
            _part(buffer, 0, first, inner.shape)
            for buffer, inner in zip(outputs, turn.types, strict=True)
        ]
        found = _while_kernels(scheduler, node, turn, parts, results)
        if found is None:
            return None
        made.append(found)
    limits = policy().scans
    time = time_apart(blocks.turns[0].body.graph.operators) * blocks.whole
    share = Var("share", min(limits.shares_of_blocks, blocks.whole))
    is_shared = time >= limits.least_time
    kernels, private = made[0]
    around: dict[str, Any] = {"label": node.op.name, "nodes": (node,)}
    own = share if is_shared else None
    loop = Loop(var, tuple(kernels), private=tuple(private), share=own, **around)
    if is_shared:
        loop = Loop(share, (loop,), parallel=True, **around)
    rest = [kernel for one in made[1:] for kernel in one.kernels]
    return [loop, *rest]


def _part(buffer: Buffer, axis: int | None, first: Affine, shape: tuple[int, ...]) -> Buffer:
    """The samples of a buffer from one on."""
    if axis is None:
        return buffer
    return buffer.view(first * buffer.strides[axis], shape)
