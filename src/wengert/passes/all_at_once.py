"""Loops whose steps need nothing of each other -> operations on the rows of all steps.

    for i in range(n): y[i] = sin(x[i]) * a     ->     y = sin(x) * a
    for i in range(n): s += sin(x[i])           ->     s += sum(sin(x))
    for i in range(n): y[p[i]] += sin(x[i])     ->     np.add.at(y, p, sin(x))

The steps of a loop run one after the other, number by number. What is done with whole arrays is
done with a vector of elements at a time, shared out to threads, and joined with what comes before
and after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..graph import Graph, Node, Operator, reachable
from ..machine import policy
from ..ops.elementwise import add, negative, subtract
from ..ops.indexing import gather, index, index_set, scatter_add, scatter_set
from ..ops.layout import broadcast_to, convert, reduce_sum, reshape
from ..transforms.bodies import Body
from .loops import all_steps, edit_loops, is_plain, is_worth_it
from .rewriting import apply, same_type, users_of

# Arrays of at most so many elements are shorter than the loop around them is worth: of these there
# are many at a time, with one step in each lane of a vector.
_SMALL = 64


def all_at_once(graph: Graph) -> Graph:
    """ys = scan(f)(xs) -> ys = f(xs); total = scan(total + f(x_t)) -> total + sum(f(xs))."""
    return edit_loops(graph, _at_once)


def _at_once(node: Operator, used: set[int]) -> Sequence[Node] | None:
    if not is_worth_it(node) or not all(map(is_simple, node.params["body"].graph.operators)):
        return None
    return of_all_steps(node)


def is_independent(body: Body) -> bool:
    """Whether steps of a loop need nothing of each other, and are no loops themselves."""
    return all(map(is_simple, body.graph.operators)) and _totals(body) is not None


def of_all_steps(node: Operator) -> Sequence[Node] | None:
    """The results of a loop as operations on the rows of all steps; None where a step needs what
    another one has done, or all of that would be too much memory."""
    body: Body = node.params["body"]
    length: int = node.params["length"]
    totals = _totals(body)
    if totals is None or not _fits(_besides(body, totals), length):
        return None
    shown: list[Any] = body.graph.outputs[body.carry :]
    steps = _AllSteps(node, [*shown, *[one for total in totals for one in total.reads]])
    starts = body.split(node.inputs)[1]
    ends = [steps.summed(start, total) for start, total in zip(starts, totals, strict=True)]
    return [
        one if same_type(one, kind) else apply(convert, one, params={"dtype": kind.dtype})
        for one, kind in zip([*ends, *map(steps.of, shown)], node.type, strict=True)
    ]


class _Total(NamedTuple):
    """What a step adds to a carry: a value to all of it, and others where it is written."""

    term: Node | None
    parts: list[tuple[Operator, Node]]

    @property
    def reads(self) -> list[Node]:
        """What is to be known of all steps."""
        places = [source for write, _ in self.parts for source in write.inputs[2:]]
        return [
            *([] if self.term is None else [self.term]),
            *places,
            *[value for _, value in self.parts],
        ]


def _totals(body: Body) -> list[_Total] | None:
    """What a step adds to each carry, if it does nothing else with any of them."""
    users = users_of(body.graph)
    outputs: list[Any] = body.graph.outputs
    carry = body.split(body.graph.inputs)[1]
    ends = [one.serial for one in outputs]
    found = []
    for start, end in zip(carry, outputs, strict=False):
        total, one = _Total(None, []), start
        while one is not end:
            more = None if one.serial in ends else _with_more(total, one, users, ends)
            if more is None:
                return None
            total, one = more
        if one is start or one.serial in users or ends.count(one.serial) != 1:
            return None
        found.append(total)
    return found


def _with_more(
    total: _Total, so_far: Node, users: Mapping[int, Sequence[Operator]], ends: Sequence[int]
) -> tuple[_Total, Operator] | None:
    """What has been added to a total when the next operator has read it, with that operator; None:
    something else is done with it."""
    readers = users.get(so_far.serial, ())
    if not readers or readers[-1].op.multiple or readers[-1].type.dtype.kind not in "iufc":
        return None
    if len(readers) == 2:
        return _added_in_place(total, readers[0], readers[1], users, ends)
    if len(readers) > 1:
        return None
    (reader,) = readers
    if reader.op is scatter_add and reader.inputs[0] is so_far:
        return _Total(total.term, [*total.parts, (reader, reader.inputs[1])]), reader
    other = _summand(reader, so_far, total.term)
    return None if other is None else (_Total(other, total.parts), reader)


def _summand(node: Operator, total: Node, before: Node | None = None) -> Node | None:
    """What a node adds to a total, with what was added before; None where it does not."""
    if node.op not in (add, subtract) or not is_plain(node):
        return None
    x, y = node.inputs
    if (node.op is subtract and y is total) or x is y:
        return None
    other = y if x is total else x
    if before is not None:
        return apply(node.op, before, other, params={})
    return other if node.op is add else apply(negative, other, params={})


def _added_in_place(
    total: _Total,
    read: Operator,
    write: Operator,
    users: Mapping[int, Sequence[Operator]],
    ends: Sequence[int],
) -> tuple[_Total, Operator] | None:
    """``x[i] += v`` as a read and a write of the same place."""
    if (read.op, write.op) not in ((gather, scatter_set), (index, index_set)):
        return None
    value = write.inputs[1]
    at_one = all(place.type.shape == () for place in write.inputs[2:])
    same = read.inputs[1:] == write.inputs[2:] and all(
        read.params[name] == write.params[name] for name in ("axes", "key") if name in read.params
    )
    alone = all(
        list(users.get(one.serial, ())) == [reader] and one.serial not in ends
        for one, reader in ((read, value), (value, write))
    )
    if not (at_one and same and alone) or not isinstance(value, Operator):
        return None
    other = _summand(value, read)
    return None if other is None else (_Total(total.term, [*total.parts, (write, other)]), write)


def _besides(body: Body, totals: Sequence[_Total]) -> list[Operator]:
    """What a step computes besides the totals themselves."""
    shown: list[Any] = body.graph.outputs[body.carry :]
    kept = reachable([*shown, *[one for total in totals for one in total.reads]])
    return [one for one in kept if isinstance(one, Operator)]


class _AllSteps:
    """Values of the body in all steps."""

    def __init__(self, node: Operator, wanted: Sequence[Node]):
        body: Body = node.params["body"]
        self.length: int = node.params["length"]
        fixed, _, stacks = body.split(node.inputs)
        constants, _, rows = body.split(body.graph.inputs)
        values = [*zip(constants, fixed, [False] * len(fixed), strict=True)]
        values += zip(rows, stacks, [True] * len(stacks), strict=True)
        found = all_steps(wanted, values, self.length)
        self.known = {one.serial: pair for one, pair in zip(wanted, found, strict=True)}

    def of(self, node: Node, rank: int = 0) -> Node:
        """The rows of a value, of at least so many axes each."""
        value, flag = self.known[node.serial]
        own = value.type.shape[flag:]
        shape = (self.length if flag else 1, *(1,) * (rank - len(own)), *own)
        found = apply(reshape, value, params={"shape": shape})
        if flag:
            return found
        return apply(broadcast_to, found, params={"shape": (self.length, *shape[1:])})

    def summed(self, start: Node, total: _Total) -> Node:
        """What a total is after all steps."""
        if total.term is not None:
            term = apply(reduce_sum, self.of(total.term), params={"axes": (0,)})
            start = apply(add, start, term, params={})
        for write, value in total.parts:
            start = self._added(start, write, value)
        return start

    def _added(self, start: Node, write: Operator, value: Node) -> Node:
        """A total with what all steps add where they write."""
        places = write.inputs[2:]
        if write.op is index_set:
            key = {"key": write.params["key"]}
            term = apply(reduce_sum, self.of(value), params={"axes": (0,)})
            term = apply(add, apply(index, start, params=key), term, params={})
            return apply(index_set, start, term, params=key)
        params = {name: own for name, own in write.params.items() if name in ("axes", "inside")}
        if not any(self.known[place.serial][1] for place in places):  # the same in every step
            term = apply(reduce_sum, self.of(value), params={"axes": (0,)})
            known = [self.known[place.serial][0] for place in places]
            return apply(scatter_add, start, term, *known, params=params)
        rank = max(len(place.type.shape) for place in places)
        rest = len(write.type.shape) - len(places)
        known = [self.of(place, rank) for place in places]
        rows = self.of(value, rank + rest)
        around = np.broadcast_shapes(*[place.type.shape for place in known])
        shape = np.broadcast_shapes(rows.type.shape, (*around, *(1,) * rest))
        rows = apply(broadcast_to, rows, params={"shape": shape})
        return apply(scatter_add, start, rows, *known, params=params)


def is_simple(node: Operator) -> bool:
    """Whether an operation has a form for all steps that does no more than they do."""
    op = node.op
    return not (op.multiple or op.collective or op.hosted) and op.batch is not None


def _fits(operators: Sequence[Operator], length: int) -> bool:
    """Whether what is made of arrays stays near, or is small; numbers need no memory."""
    arrays = [one for one in operators if not one.op.multiple and one.type.shape]
    small = all(one.type.size <= _SMALL for one in arrays)
    limits = policy().scans
    row = sum(one.type.size * one.type.dtype.itemsize for one in arrays)
    return row * length <= (limits.most_kept if small else limits.most_near)
