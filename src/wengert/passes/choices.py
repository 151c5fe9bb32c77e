"""Arrays of which each branch reads and writes but one place -> what is there.

    if c: x[i] = u              x[i] = u if c else x[i]
    else: x[i] = v    ->        x[i] = u if c else v

Where the place is looked at all the same, or is known to exist, it need not be looked at by the
branches: what a choice gives is a number then, and it is seen what the array is to other steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..graph import Graph, Node, Operator, Variable
from ..graph.rewrite import New, rewrite
from ..ops.indexing import gather, scatter_set
from ..transforms.bodies import Body
from ..transforms.choice import Branches, is_switch
from .loops import edit_operations
from .own_rows import OwnRow, accesses_of
from .programs import program_items
from .rewriting import apply, users_of


def choose_what_is_written(graph: Graph) -> Graph:
    """x = switch(x with u at [i], x) -> x with switch(u, x[i]) at [i]."""
    return edit_operations(graph, _edit, is_switch)


def _edit(node: Operator, used: set[int]) -> Sequence[Node | None] | None:
    better = [choose_what_is_written(body.graph) for body in node.params["branches"].bodies]
    tables = [_ChosenRow.of(node, better, place) for place in range(1, len(node.inputs))]
    found = [one for one in tables if one is not None]
    if not found:
        return None
    inputs = [*node.inputs]
    for one in found:
        table = inputs[one.place]
        inputs[one.place] = apply(gather, table, *one.places, params=one.params)
    branches = Branches([_on_rows(one, k, found) for k, one in enumerate(better)])
    items = program_items(node, {"branches": branches}, inputs)
    for one in found:
        row: Any = items[one.number]
        table = node.inputs[one.place]
        items[one.number] = apply(scatter_set, table, row, *one.places, params=one.params)
    return items


class _ChosenRow(NamedTuple):
    """An input of branches that is a table, the result that it becomes, and the place in it."""

    place: int
    number: int
    places: list[Node]  # outside
    params: dict[str, Any]
    rows: list[OwnRow]  # of each branch

    @classmethod
    def of(cls, node: Operator, graphs: Sequence[Graph], place: int) -> _ChosenRow | None:
        """That of an input; None where a branch does anything else with it."""
        if not node.inputs[place].type.shape:
            return None
        for number in range(len(node.type)):
            groups = [_accesses(graph, place - 1, number) for graph in graphs]
            known = [group for group in groups if group is not None]
            if any(known) and len(known) == len(groups):
                return cls._at_one_place(node, graphs, place, number, known)
        return None

    @classmethod
    def _at_one_place(
        cls,
        node: Operator,
        graphs: Sequence[Graph],
        place: int,
        number: int,
        groups: Sequence[Sequence[Operator]],
    ) -> _ChosenRow | None:
        every = [one for group in groups for one in group]
        axes = every[0].params["axes"]
        outer = _outer(node, graphs)
        known = [_places_outside(one, outer) for one in every if one.params["axes"] == axes]
        first = known[0]
        if len(known) < len(every) or first is None or any(one != first for one in known):
            return None
        inside = all(one.params.get("inside") for one in every)
        if not (inside or all(groups)):
            return None
        params = {"axes": axes, **({"inside": True} if inside else {})}
        at = {axis: (one, None) for axis, one in zip(axes, first, strict=True)}
        rows = [OwnRow({one.serial: one for one in group}, at) for group in groups]
        return cls(place, number, first, params, rows)


def _outer(node: Operator, graphs: Sequence[Graph]) -> dict[int, Node]:
    """What is given to branches, by the inputs that stand for it in these."""
    pairs = [zip(graph.inputs, node.inputs[1:], strict=True) for graph in graphs]
    return {inner.serial: outer for pair in pairs for inner, outer in pair}


def _places_outside(access: Operator, outer: dict[int, Node]) -> list[Node] | None:
    """The places of a read or a write in a branch, which are one number each, as they are outside;
    None where the branch computes them."""
    places = access.inputs[len(access.inputs) - len(access.params["axes"]) :]
    if any(one.type.shape or one.serial not in outer for one in places):
        return None
    return [outer[one.serial] for one in places]


def _accesses(graph: Graph, place: int, number: int) -> list[Operator] | None:
    start = graph.inputs[place]
    found = accesses_of(graph, start, graph.outputs[number], users_of(graph))
    return None if found is None else [*found.values()]


def _on_rows(graph: Graph, branch: int, tables: Sequence[_ChosenRow]) -> Body:
    """A branch that is given rows of tables, and gives rows."""
    owner = {serial: one.rows[branch] for one in tables for serial in one.rows[branch].accesses}
    own: dict[int, Variable] = {}
    for one in tables:
        table = graph.inputs[one.place - 1]
        own[table.serial] = one.rows[branch].row(table)

    def change(node: Node, new: New) -> Node | None:
        if isinstance(node, Operator) and node.serial in owner:
            return owner[node.serial].on_row(node, new)
        return own.get(node.serial)

    new = rewrite(graph.nodes, change)
    inputs = [own.get(one.serial, one) for one in graph.inputs]
    return Body(Graph(inputs, [new[one.serial] for one in graph.outputs if one]), 0, 0)
