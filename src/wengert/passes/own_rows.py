"""Arrays that a loop carries, of which each step reads and writes but its own row -> rows.

    for i in range(n):                          for a row of each of out, x:
        for j in range(m):              ->          for a number of each of these rows:
            out[i, j] += f(x[i, j])                     the number += f(that of x)

A table that is carried makes each step wait for the one before, though no step meets what another
one has written: the places are known now, and no two are the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import WengertError
from ..graph import Constant, Graph, Node, Operator, Variable, reachable
from ..graph.rewrite import New, rewrite
from ..ops.elementwise import add
from ..ops.indexing import gather, scatter_add, scatter_set
from ..ops.layout import broadcast_to, convert
from ..transforms.batching import evaluate_batched
from ..transforms.bodies import Body, extract
from ..types import ArrayType
from .constants import constant_value
from .loops import all_steps, edit_loops, is_worth_it, loop_items, make_body
from .rewriting import apply, users_of

_ACCESSES = (gather, scatter_set, scatter_add)


def part_rows(graph: Graph) -> Graph:
    """c = scan(c with f(c[i_t]) at [i_t]) -> c with scan(f)(c[i]) at [i]."""
    return edit_loops(graph, _part)


def _part(node: Operator, used: set[int]) -> Sequence[Node] | None:
    body: Body = node.params["body"]
    if not is_worth_it(node) or not any(one.op in _ACCESSES for one in body.graph.operators):
        return None
    steps = _PartedLoop(node)
    users = users_of(body.graph)
    parts = {}
    for number in range(body.carry):
        table = body.graph.inputs[body.constants + number]
        accesses = accesses_of(body.graph, table, body.graph.outputs[number], users) or {}
        axes = steps.own_places(accesses)
        if axes:
            parts[number] = OwnRow(accesses, axes)
    return steps.parted(parts) if parts else None


def accesses_of(
    graph: Graph, start: Node, end: Any, users: Mapping[int, Sequence[Operator]]
) -> dict[int, Operator] | None:
    """What reads and writes a table from an input to an output, by serial; None where anything else
    is done with it."""
    found: dict[int, Operator] = {}
    pending: list[Node] = [start]
    shown = [one.serial for one in graph.outputs if one is not None]
    while pending:
        state = pending.pop()
        if shown.count(state.serial) != (state is end):
            return None
        for user in users.get(state.serial, ()):
            given = [source.serial for source in user.inputs]
            if user.op not in _ACCESSES or given.count(state.serial) > 1 or user.inputs[0] != state:
                return None
            if user.serial not in found and user.op is not gather:
                pending.append(user)
            found[user.serial] = user
    return found if end is start or end.serial in found else None


def _places(access: Operator) -> dict[int, Node]:
    """The places of an access, by the axis that they index."""
    axes = access.params["axes"]
    return dict(zip(axes, access.inputs[len(access.inputs) - len(axes) :], strict=True))


class OwnRow:
    """A table of which a program has its own row: the axes that tell which, with the place of it,
    inside and, for all steps of a loop, outside."""

    def __init__(self, accesses: dict[int, Operator], places: dict[int, tuple[Node, Any]]):
        self.accesses = accesses
        self.axes = tuple(places)
        self.places = [inside for inside, _ in places.values()]
        self.known = [outside for _, outside in places.values()]

    def row(self, table: Node) -> Variable:
        """What stands for the row of a table."""
        shape = tuple(n for axis, n in enumerate(table.type.shape) if axis not in self.axes)
        return Variable("", None, ArrayType(table.type.dtype, shape), active=False)

    def on_row(self, access: Operator, new: New) -> Node:
        """What a read or a write of the table is to the row."""
        own, *given = (new[source.serial] for source in access.inputs)
        kept = [k for k, axis in enumerate(access.params["axes"]) if axis not in self.axes]
        first = len(given) - len(access.params["axes"])
        left = [access.params["axes"][k] for k in kept]
        axes = tuple(axis - sum(one < axis for one in self.axes) for axis in left)
        value = given[:first]
        if left:
            params = {**access.params, "axes": axes}
            return apply(access.op, own, *value, *[given[first + k] for k in kept], params=params)
        if access.op is gather:
            return own
        (found,) = value
        if found.type.dtype != own.type.dtype:
            found = apply(convert, found, params={"dtype": own.type.dtype})
        if access.op is scatter_add:
            return apply(add, own, found, params={})
        return apply(broadcast_to, found, params={"shape": own.type.shape})


class _PartedLoop:
    """The steps of a loop, and what is known now of all of them."""

    def __init__(self, node: Operator):
        self.node = node
        self.length = node.params["length"]
        self.body: Body = node.params["body"]
        self.constants, self.carry, self.rows = self.body.split(self.body.graph.inputs)
        self.fixed, self.starts, self.stacks = self.body.split(node.inputs)
        outer = [
            *[
                (inner, outer, False)
                for inner, outer in zip(self.constants, self.fixed, strict=True)
            ],
            *[(inner, outer, True) for inner, outer in zip(self.rows, self.stacks, strict=True)],
        ]
        self.given = {inner.serial: (inner, outer, flag) for inner, outer, flag in outer}

    def own_places(self, accesses: dict[int, Operator]) -> dict[int, tuple[Node, Any]]:
        """The axes of a table that all accesses index at one place, if this is another one in every
        step: the place in the body, and in all steps where that is known."""
        if not accesses:
            return {}
        first, *others = [_places(access) for access in accesses.values()]
        table = next(iter(accesses.values())).inputs[0]
        common = {
            axis: place
            for axis, place in first.items()
            if place.type.shape == ()
            and all(one.get(axis) is place for one in others)
            and all(one.serial in self.given for one in _variables(place))
        }
        known = {axis: self._known(place) for axis, place in common.items()}
        apart = [_are_apart(values, table.type.shape[axis]) for axis, values in known.items()]
        if not any(apart):
            return {}
        return {axis: (common[axis], known[axis]) for axis in sorted(common)}

    def _known(self, place: Node) -> Any:
        """A place in all steps, where it follows from constants; else None."""
        given = [self.given[one.serial] for one in _variables(place)]
        values = [constant_value(outer) for _, outer, _ in given]
        if any(value is None for value in values) or not any(flag for *_, flag in given):
            return None
        inner = [Variable("", None, ArrayType(*one.type[:2]), active=False) for one, *_ in given]
        cut = {one.serial: new for (one, *_), new in zip(given, inner, strict=True)}
        graph = Graph(inner, extract([place], cut))
        try:
            ((found, _),) = evaluate_batched(graph, self.length, values, [f for *_, f in given])
        except (WengertError, ArithmeticError, LookupError, ValueError):
            return None  # an error of the program, where it comes to that
        return found

    def parted(self, parts: dict[int, OwnRow]) -> Sequence[Node]:
        """The loop with rows in place of these carries, and its results put in their places."""
        owner = {serial: part for part in parts.values() for serial in part.accesses}
        own = {self.carry[k].serial: part.row(self.carry[k]) for k, part in parts.items()}

        def change(node: Node, new: New) -> Node | None:
            if node.serial in owner:
                return owner[node.serial].on_row(node, new)  # type: ignore[arg-type]
            return own.get(node.serial)

        graph = self.body.graph
        new = rewrite(graph.nodes, change)
        outputs = [new[one.serial] for one in graph.outputs if one is not None]
        kept = [k for k in range(self.body.carry) if k not in parts]
        body = make_body(
            self.constants,
            [self.carry[k] for k in kept],
            [*self.rows, *own.values()],
            [
                *[outputs[k] for k in kept],
                *outputs[self.body.carry :],
                *[outputs[k] for k in parts],
            ],
        )
        places = {k: self._outside(part) for k, part in parts.items()}
        rows = [
            apply(gather, self.starts[k], *places[k], params={"axes": part.axes})
            for k, part in parts.items()
        ]
        inputs = [*self.fixed, *[self.starts[k] for k in kept], *self.stacks, *rows]
        items = loop_items(self.node, body, inputs)
        results = dict(zip(kept, items, strict=False))
        made = items[len(items) - len(parts) :]
        for (k, part), row in zip(parts.items(), made, strict=True):
            params = {"axes": part.axes, "apart": True}
            results[k] = apply(scatter_set, self.starts[k], row, *places[k], params=params)
        shown = items[len(kept) : len(items) - len(parts)]
        return [*[results[k] for k in range(self.body.carry)], *shown]

    def _outside(self, part: OwnRow) -> list[Node]:
        """The places of a part in all steps."""
        found = all_steps(part.places, [*self.given.values()], self.length)
        return [
            node if known is None else Constant(np.asarray(known))
            for (node, _), known in zip(found, part.known, strict=True)
        ]


def _variables(node: Node) -> list[Node]:
    return [one for one in reachable([node]) if isinstance(one, Variable)]


def _are_apart(places: Any, length: int) -> bool:
    """Whether places all exist and no two of them are the same."""
    if places is None or np.ndim(places) != 1:
        return False
    line = np.asarray(places).astype(np.int64)
    line = np.where(line < 0, line + length, line)
    inside = bool((line >= 0).all() and (line < length).all())
    return inside and len(np.unique(line)) == len(line)
