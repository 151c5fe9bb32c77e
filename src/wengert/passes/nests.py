"""Loops around loops, whose steps need nothing of each other -> the inner loops for all steps.

    for i in range(n):                         t = zeros(n)
        t = 0.0                                for k in range(m):
        for k in range(m):            ->           t = f(t, x)
            t = f(t, x[i])                     y = t
        y[i] = t

The steps of the inner loop wait for each other, those of the outer one do not: a vector has one of
these in each lane. That is done as soon as a loop is recorded, since the derivative of a loop for
all steps is one as well, while nobody sees it of the derivative of a step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ..graph import Constant, Graph, Node, Operator
from ..graph.rewrite import rewrite
from ..machine import policy
from ..ops.elementwise import add, remainder, select, subtract
from ..ops.indexing import gather, index, index_set, scatter_add, scatter_set
from ..ops.logic import floor_divide
from ..ops.op import Op
from ..ops.python_integers import fits_64_bits
from ..trace.tracer import ITEM
from ..transforms.bodies import Body, zeros
from ..transforms.choice import is_switch
from ..transforms.loop import ROOM, is_loop
from ..transforms.repetition import is_while
from .all_at_once import is_independent, is_simple, of_all_steps
from .choices import choose_what_is_written
from .lane_blocks import in_blocks
from .loops import edit_loops, is_worth_it, make_body, optimise_bodies, prune_loops
from .own_rows import part_rows
from .ranges import know_ranges
from .rewriting import apply
from .simplify import share_common

# Operations that add to what they read, by the places where they read it.
_ADDING: dict[Op, tuple[tuple[int, ...], ...]] = {
    add: ((0,), (1,)),
    subtract: ((0,),),
    select: ((1, 2),),
    scatter_add: ((0,),),
    fits_64_bits: ((0,),),
}
# Those of a write, and of the read before it.
_WRITES = {scatter_set: gather, index_set: index}
# What nobody adds up for all steps if it stands between the sum and what is added.
_LIFTED = (select, ITEM, fits_64_bits)
# Python's integers that so many turns as there may be do not add up to one that does not fit.
_SMALL = 1 << 16


def nest_at_once(graph: Graph) -> Graph | None:
    """The graph of one loop, ys = scan(scan(f))(xs) -> ys = scan(f for all xs), or of the loops in
    it; None where that cannot be, or is not worth it."""
    if not any(is_loop(node) and _is_nest(node) for node in graph.operators):
        return None
    nests = _Nests()
    graph = nests.improved(know_ranges(graph))
    return graph if nests.found else None


class _Nests:
    """Loops and the loops in them, the inner ones first."""

    def __init__(self) -> None:
        self.found = 0

    def improved(self, graph: Graph) -> Graph:
        """The graph with all loops for all steps that can be, at any depth."""
        if not any(map(is_loop, graph.operators)):
            return graph
        for step in (optimise_bodies(self._body), prune_loops, part_rows, prune_loops):
            graph = step(graph)
        return edit_loops(graph, self._at_once)

    def _body(self, graph: Graph) -> Graph:
        """A body where places that are told twice are one, and what is written to them is seen."""
        return self.improved(choose_what_is_written(share_common(graph)))

    def _at_once(self, node: Operator, used: set[int]) -> Sequence[Node] | None:
        body: Body = node.params["body"]
        count = _lanes(node)
        fits = is_worth_it(node) and _is_nest(node) and count > 1
        if not fits or not all(map(_fits_a_lane, body.graph.operators)):
            return None
        params = {**node.params, "body": _with_sums_outside(body, body.split(node.inputs)[1])}
        node = apply(node.op, *node.inputs, params=params, like=node)
        found = of_all_steps(node) if count == params["length"] else in_blocks(node, count)
        self.found += found is not None
        return found


# ---------------------------------------------------------------- what is worth it


def _is_nest(node: Operator) -> bool:
    """Whether there are enough steps, each with a program inside that has an order of its own."""
    enough: bool = node.params["length"] >= policy().scans.fewest_lanes
    return enough and any(map(_waits, node.params["body"].graph.operators))


def _waits(node: Operator) -> bool:
    """Whether there is a program inside of an operation that is not one for all its own steps."""
    return bool(_programs(node)) and not (is_loop(node) and is_independent(node.params["body"]))


def _lanes(node: Operator) -> int:
    """For how many steps at a time there is memory for what derivatives keep of their turns: all of
    them, or so many that blocks of them stay near."""
    limits, length = policy().scans, int(node.params["length"])
    graph: Graph = node.params["body"].graph
    row = max(_kept(graph), 1)
    sizes = [one.type.size for one in _all_operators(graph) if not one.op.multiple]
    block = max(limits.block_of_turns // max([1, *sizes]), 1)
    if any(map(is_while, _all_operators(graph))):  # turns of their own number: to end together
        return min(block, limits.most_kept // row, length)
    if row * length <= limits.most_kept_near:
        return length
    return min(max(limits.most_in_block // row, block), limits.most_kept // row, length)


def _kept(graph: Graph) -> int:
    """The bytes of all values of a step, of all turns inside."""
    found = 0
    for node in graph.operators:
        turns = node.params["length"] if is_loop(node) else ROOM if is_while(node) else 1
        found += turns * sum(map(_kept, _graphs(node)))
        found += 0 if node.op.multiple else node.type.size * node.type.dtype.itemsize
    return found


def _fits_a_lane(node: Operator) -> bool:
    """Whether an operation of a step is one for all lanes, and its programs compute with few
    numbers in each turn."""
    limits = policy().scans
    known = all(
        _programs(one) or one.op is ITEM or is_simple(one)
        for one in [node, *_all_operators(*_graphs(node))]
    )
    turns = [*_of_each_turn(node)]
    small = all(one.op.multiple or one.type.size <= limits.most_in_lane for one in turns)
    if is_switch(node) and (len(turns) > limits.most_in_branches or any(map(is_loop, turns))):
        return False
    return known and small and not (is_while(node) and any(map(_is_one_by_one, turns)))


def _programs(node: Operator) -> Sequence[Body]:
    """The programs of a loop or a choice."""
    if is_loop(node):
        return (node.params["body"],)
    if is_while(node):
        return node.params["turn"].programs
    return node.params["branches"].programs if is_switch(node) else ()


def _of_each_turn(node: Operator) -> Iterator[Operator]:
    """The operators of programs that depend on what turns hand to each other, or go along, and
    those of programs inside."""
    for body in _programs(node):
        first = 0 if is_switch(node) else _programs(node)[-1].constants
        moving = {one.serial for one in body.graph.inputs[first:]}
        for one in body.graph.operators:
            if any(source.serial in moving for source in one.inputs):
                moving.add(one.serial)
                yield one
            yield from _all_operators(*_graphs(one))


def _is_one_by_one(node: Operator) -> bool:
    """Whether lanes gain nothing: each has places of its own, or processors have no vectors for it.
    In turns of a number of their own they would still wait for the last one."""
    is_division = node.op in (floor_divide, remainder) and node.type.dtype.kind in "iu"
    return is_division or node.op in (gather, scatter_set, scatter_add)


def _all_operators(*graphs: Graph) -> Iterator[Operator]:
    """Those of graphs and of all programs inside."""
    pending = [*graphs]
    while pending:
        for node in pending.pop().operators:
            yield node
            pending += _graphs(node)


def _graphs(node: Operator) -> list[Graph]:
    return [body.graph for body in _programs(node)]


# ---------------------------------------------------------------- sums


def _with_sums_outside(body: Body, starts: Sequence[Node]) -> Body:
    """total = total + v if c else total -> total = total + (0 + v if c else 0), and so where
    programs inside add to it."""
    graph = body.graph
    outputs: list[Any] = graph.outputs
    carry = body.split(graph.inputs)[1]
    sums = {
        k: one
        for k, (one, start) in enumerate(zip(carry, starts, strict=True))
        if _is_exact(start) and any(n.op in _LIFTED for n in _sum_of(graph, one, outputs[k]) or ())
    }
    if not sums:
        return body
    inside = {one.serial: Constant(zeros(one.type)) for one in sums.values()}
    new = rewrite(graph.nodes, lambda node, _: inside.get(node.serial))
    found = [new[one.serial] for one in outputs]
    for k, start in sums.items():
        found[k] = apply(add, start, found[k], params={})
    return make_body(*body.split(graph.inputs), found)


def _is_exact(start: Node) -> bool:
    """Whether what begins as this is still the same number if all is added up at the end."""
    if not start.type.weak or start.type.dtype.kind != "i":
        return True
    return isinstance(start, Constant) and abs(int(start.output)) <= _SMALL


def _sum_of(graph: Graph, start: Node, end: Node) -> list[Operator] | None:
    """The operators by which an output is an input and what is added to that; None where it is
    something else, or anything else is done with the input."""
    reading = _reading(graph, start)
    shown = [one.serial for one in graph.outputs if one is not None and one.serial in reading]
    if shown != [end.serial] or start.type.dtype.kind not in "iufc":
        return None
    found: dict[int, Operator] = {}
    pending = [end]
    while pending:
        node = pending.pop()
        if isinstance(node, Operator) and node.serial not in found:
            step = _summing(node, reading)
            if step is None:
                return None
            found.update({one.serial: one for one in [node, *step.on_the_way]})
            pending += step.sums
    return [*found.values()] if {start.serial, *found} == reading else None


def _reading(graph: Graph, start: Node) -> set[int]:
    """What depends on an input; of results of programs only the one to which they add."""
    found = {start.serial}
    for node in graph.operators:
        if not any(one.serial in found for one in node.inputs):
            continue
        number = _result(node.inputs[0], found) if node.op is ITEM else None
        if number is None or number == node.params["index"]:
            found.add(node.serial)
    return found


class _Summing(NamedTuple):
    """The sums that an operator adds to, or chooses from, and what else it takes for that."""

    sums: list[Node]
    on_the_way: list[Operator]


def _summing(node: Operator, reading: set[int]) -> _Summing | None:
    """How an operator adds to what it reads; None where it does not."""
    places = tuple(k for k, one in enumerate(node.inputs) if one.serial in reading)
    first = node.inputs[0]
    if node.op is ITEM and isinstance(first, Operator):
        sums = [one for one in first.inputs if one.serial in reading]
        return None if _result(first, reading) is None else _Summing(sums, [first])
    if node.op in _WRITES and isinstance(node.inputs[1], Operator):
        return _added_in_place(node, node.inputs[1], reading)
    if node.op is fits_64_bits and not _is_small(node.inputs[1]):
        return None
    own = [node.inputs[k] for k in places]
    same = all(one.type[:2] == node.type[:2] for one in own)
    return _Summing(own, []) if places in _ADDING.get(node.op, ()) and same else None


def _added_in_place(write: Operator, value: Operator, reading: set[int]) -> _Summing | None:
    """``x[i] += v`` as a read and a write of the same place."""
    table = write.inputs[0]
    reads = [one for one in value.inputs if one.serial in reading]
    if len(reads) != 1 or table.serial not in reading:
        return None
    read: Any = reads[0]
    same = isinstance(read, Operator) and read.op is _WRITES[write.op]
    same = same and read.inputs == (table, *write.inputs[2:])
    same = same and all(
        read.params[name] == write.params[name] for name in ("axes", "key") if name in read.params
    )
    at_one = all(place.type.shape == () for place in write.inputs[2:])
    adds = _summing(value, {read.serial}) is not None
    return _Summing([table], [value, read]) if same and at_one and adds else None


def _result(program: Node, reading: set[int]) -> int | None:
    """The number of the result that is one of the inputs and what programs add to that, where they
    do nothing else with it, and read no other one of these."""
    assert isinstance(program, Operator)
    places = [k for k, one in enumerate(program.inputs) if one.serial in reading]
    if len(places) != 1 or not _programs(program):
        return None
    (place,) = places
    if is_switch(program):
        sides, numbers = _graphs(program), range(len(program.type) if place else 0)
        return next((k for k in numbers if all(_adds(g, place - 1, k) for g in sides)), None)
    *tests, body = _programs(program)
    number = place - body.constants
    if any(len(_reading(test.graph, test.graph.inputs[place])) > 1 for test in tests):
        return None
    return number if 0 <= number < body.carry and _adds(body.graph, place, number) else None


def _adds(graph: Graph, place: int, number: int) -> bool:
    end: Any = graph.outputs[number]
    return _sum_of(graph, graph.inputs[place], end) is not None


def _is_small(node: Node) -> bool:
    return isinstance(node, Constant) and node.type.shape == () and abs(int(node.output)) <= _SMALL
