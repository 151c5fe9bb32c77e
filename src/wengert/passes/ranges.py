"""Integers whose range is known: what they index needs no look whether they are in range.

    for i in range(1, n): table[i] = f(table[i - 1])     i lies in 1 ... n - 1, so both are places

Constants have a range, and counters of loops are rows of constants; what is computed of them has a
range that follows from theirs. Ranges go into the programs of loops and branches, and out of them
with their rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from ..graph import Constant, Graph, Node, Operator
from ..graph.rewrite import New, copied, on_new_inputs, with_nodes
from ..ops import elementwise as ew
from ..ops.indexing import gather, index, scatter_add, scatter_set
from ..ops.layout import broadcast_to, convert, permute, reshape
from ..ops.logic import less, logical_and
from ..ops.python_integers import fits_64_bits
from ..trace.tracer import ITEM
from ..transforms.bodies import Body
from ..transforms.choice import Branches, is_switch
from ..transforms.loop import is_loop
from ..transforms.repetition import is_while
from ..types import ArrayType
from .constants import constant_value
from .loops import is_counted
from .rewriting import same_type
from .simplify import share_common

Range = tuple[int, int]  # the least and the largest
_INTEGERS = np.dtype(np.int64)
_LIMITS = np.iinfo(_INTEGERS)
_MOVED = (index, gather, reshape, permute, broadcast_to, ew.positive)
_COMPUTED: dict[Any, Callable[[int, int], int]] = {
    ew.add: lambda x, y: x + y,
    ew.subtract: lambda x, y: x - y,
    ew.multiply: lambda x, y: x * y,
    ew.minimum: min,
    ew.maximum: max,
}
_BY_NAME = {op.name: op for op in _COMPUTED}
_WRITES = (scatter_set, scatter_add)


def know_ranges(graph: Graph) -> Graph:
    """x[i] with a look whether i is a place of x -> x[i] without, where i is known to be one."""
    if not any(is_loop(node) or _is_at_constants(node) for node in graph.operators):
        return graph
    return _improved(graph, [None] * len(graph.inputs))[0]


def _is_at_constants(node: Operator) -> bool:
    """Whether a node reads or writes at places of which some are fixed."""
    if node.op is not gather and node.op not in _WRITES:
        return False
    places = node.inputs[len(node.inputs) - len(node.params["axes"]) :]
    return any(constant_value(place) is not None for place in places)


def _improved(graph: Graph, given: Sequence[Range | None]) -> tuple[Graph, list[Range | None]]:
    """A graph for inputs in these ranges, and the ranges of its outputs."""
    ranges: dict[int, Any] = {
        node.serial: own for node, own in zip(graph.inputs, given, strict=True)
    }
    new: New = {}
    for node in graph.nodes:
        now = on_new_inputs(node, new)
        if isinstance(now, Constant):
            ranges[node.serial] = _range_of(constant_value(now))
        elif isinstance(now, Operator):
            known = [ranges[source.serial] for source in node.inputs]
            now, ranges[node.serial] = _operator(now, known)
        new[node.serial] = now
    return with_nodes(graph, new), [ranges[node.serial] for node in graph.outputs if node]


def _range_of(value: Any) -> Range | None:
    if value is None or np.size(value) == 0 or np.asarray(value).dtype.kind not in "iu":
        return None
    return int(np.min(value)), int(np.max(value))


def _operator(node: Operator, known: Sequence[Any]) -> tuple[Node, Any]:
    """The operator, or what stands for it, and the range of its result."""
    op = node.op
    if op is ITEM:
        return node, known[0] and known[0][node.params["index"]]
    if is_loop(node):
        return _loop(node, known)
    if is_switch(node):
        return _switch(node, known)
    if is_while(node):
        return _while(node, known)
    if op is fits_64_bits:
        result = _computed(_BY_NAME.get(node.params["operation"]), known)
        if result is not None and same_type(node.inputs[0], node.type):
            return node.inputs[0], known[0]
        return node, known[0]
    if op is gather or op in _WRITES:
        node = _inside(node, known)
    wide = isinstance(node.type, ArrayType) and node.type.dtype == _INTEGERS
    if op in _MOVED or (op is convert and wide):
        return node, known[0]
    return node, _computed(op, known) if wide else None


def _computed(op: Any, known: Sequence[Range | None]) -> Range | None:
    """The range of what an operation makes of two integers, if these 64 bits hold it."""
    rule = _COMPUTED.get(op)
    if rule is None or known[0] is None or known[1] is None:
        return None
    corners = [rule(x, y) for x, y in product(known[0], known[1])]
    low, high = min(corners), max(corners)
    return (low, high) if _LIMITS.min <= low and high <= _LIMITS.max else None


def _inside(node: Operator, known: Sequence[Range | None]) -> Operator:
    """A read or a write that need not look, if all its places are known to exist."""
    axes, count = node.params["axes"], len(node.params["axes"])
    lengths = [node.inputs[0].type.shape[axis] for axis in axes]
    places = list(zip(known[len(known) - count :], lengths, strict=True))
    if not all(own is not None and own[0] >= 0 and own[1] < n for own, n in places):
        return node
    return _with(node, inside=True)


def _with(node: Operator, **params: Any) -> Operator:
    made = copied(node, node.inputs)
    made.params = {**node.params, **params}
    return made


def _body(body: Body, given: Sequence[Range | None]) -> tuple[Body, list[Range | None]]:
    graph, found = _improved(body.graph, given)
    return Body(share_common(graph), body.constants, body.carry), found


def _loop(node: Operator, known: Sequence[Any]) -> tuple[Node, Any]:
    """What a loop carries may have any range; rows that it does not reach hold anything."""
    body: Body = node.params["body"]
    fixed, carry, rows = body.split(known)
    better, found = _body(body, [*fixed, *[None] * len(carry), *rows])
    shown = [None] * len(found) if is_counted(node) else found[body.carry :]
    return _with(node, body=better), (*[None] * body.carry, *shown)[: len(found)]


def _switch(node: Operator, known: Sequence[Any]) -> tuple[Node, Any]:
    pairs = [_body(body, known[1:]) for body in node.params["branches"].bodies]
    columns = zip(*[found for _, found in pairs], strict=True)
    return _with(node, branches=Branches([body for body, _ in pairs])), tuple(map(_union, columns))


def _union(ranges: Sequence[Range | None]) -> Range | None:
    some = [own for own in ranges if own is not None]
    if len(some) < len(ranges):
        return None
    return min(low for low, _ in some), max(high for _, high in some)


def _while(node: Operator, known: Sequence[Any]) -> tuple[Node, Any]:
    """What turns carry may have any range, but for what counts them."""
    turn = node.params["turn"]
    body: Body = turn.body
    counters = _counters(body)
    most = _most_turns(turn, known, counters)
    given = [*known[: body.constants], *[None] * body.carry]
    ends: list[Range | None] = [None] * len(node.type)
    for k in counters if most is not None else ():
        own = known[body.constants + k]
        if own is not None and most is not None and own[1] + most <= _LIMITS.max:
            given[body.constants + k] = own[0], own[1] + max(most - 1, 0)
            ends[k] = own[0], own[1] + most
    blank = [*known[: body.constants], *[None] * body.carry]
    (test, _), (better, _) = _body(turn.test, blank), _body(body, given)
    return _with(node, turn=turn.like(test, better)), tuple(ends)


def _counters(body: Body) -> list[int]:
    """The carries to which a turn adds one."""
    pairs = zip(body.split(body.graph.inputs)[1], body.graph.outputs, strict=False)
    return [k for k, (before, after) in enumerate(pairs) if _is_next(before, after)]


def _is_next(before: Node, after: Any) -> bool:
    adds = isinstance(after, Operator) and after.op is ew.add and before.type.dtype == _INTEGERS
    return (
        adds and after.inputs[0] is before and _range_of(constant_value(after.inputs[1])) == (1, 1)
    )


def _most_turns(turn: Any, known: Sequence[Any], counters: Sequence[int]) -> int | None:
    """The most turns that there can be, where these end with a counter below a known number."""
    inputs = turn.test.graph.inputs
    numbers = {node.serial: number for number, node in enumerate(inputs)}
    found = []
    for counter, bound in _bounds(turn.test.graph.outputs[0]):
        number = numbers.get(counter.serial)
        start = None if number is None else known[number]
        place = numbers.get(bound.serial, -1)
        fixed = 0 <= place < turn.body.constants
        limit = known[place] if fixed else _range_of(constant_value(bound))
        if start and limit and number is not None and number - turn.body.constants in counters:
            found.append(max(limit[1] - start[0], 0))
    return min(found, default=None)


def _bounds(asked: Any) -> list[tuple[Node, Node]]:
    """Pairs of which the first must be less than the second for a condition to hold."""
    if not isinstance(asked, Operator):
        return []
    if asked.op is logical_and:
        return [pair for source in asked.inputs for pair in _bounds(source)]
    if asked.op is not less:
        return []
    counter, bound = asked.inputs
    while isinstance(counter, Operator) and counter.op is ew.positive:
        counter = counter.inputs[0]
    return [(counter, bound)]
