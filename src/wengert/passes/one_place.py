"""Writes to one place of an array and reads of it, where both are known to be the same place, or
the same places, of which no two are one.

``acc[i] += v`` writes what it reads, and Python writes it once more; its derivative takes the
cotangent of the place away, and adds it there again. Turn by turn each of these waits for the one
before, so that they take longer than the arithmetic between them.
"""

from __future__ import annotations

from collections.abc import Callable

from ..graph import Graph, Node, Operator
from ..graph.rewrite import New, on_new_inputs, rewrite, with_nodes
from ..lines import hand_on
from ..ops.indexing import gather, scatter_add, scatter_set
from ..ops.layout import broadcast_to
from ..ops.op import Op
from .constants import is_uniform
from .rewriting import apply, same_type, users_of


def join_writes(graph: Graph) -> Graph:
    """y = x with v at [i]; y[i] -> v; y with w at [i] -> x with w at [i]; x[i][j] -> x[i, j].

    Every place that is looked at, whether it exists, is still looked at by an operation that stays.
    """
    while any(node.op in _RULES for node in graph.operators):
        changed = _once(graph)
        if changed is graph:
            break
        graph = changed
    return graph


def _once(graph: Graph) -> Graph:
    users = users_of(graph)
    shown = {node.serial for node in graph.outputs if node is not None}
    origin: dict[int, int] = {}  # the serials in the old graph of nodes of the new one
    found = False

    def stays(node: Node, *without: Op) -> bool:
        """Whether somebody besides operators of these kinds reads a value."""
        serial = origin.get(node.serial, node.serial)
        others = [user for user in users.get(serial, ()) if user.op not in without]
        return serial in shown or bool(others)

    def change(old: Node, new: New) -> Node:
        nonlocal found
        node = on_new_inputs(old, new)
        if not isinstance(node, Operator):
            return node
        results = (rule(node, stays) for rule in _RULES.get(node.op, ()))
        made = next((result for result in results if result is not None), node)
        if made is not node:
            found = True
            hand_on(node.source, made)
        origin.setdefault(made.serial, old.serial)
        return made

    changed = with_nodes(graph, rewrite(graph.nodes, change))
    return changed if found else graph


_Stays = Callable[..., bool]


def read_what_was_written(node: Operator, stays: _Stays) -> Node | None:
    """y = x with v at [i]; y[i] -> v, where y is needed besides, or v is x[i]."""
    written = _write(node.inputs[0], node)
    if written is None:
        return None
    x, value = written.inputs[:2]
    if not (stays(written, gather) or _reads(value, x, node)):
        return None
    if same_type(value, node.type):
        return value
    if value.type.dtype != node.type.dtype:
        return None
    return apply(broadcast_to, value, params={"shape": node.type.shape}, like=node)


def read_at_once(node: Operator, stays: _Stays) -> Node | None:
    """x[i][j] -> x[i, j]: no row is copied for one element of it."""
    row = node.inputs[0]
    if not isinstance(row, Operator) or row.op is not gather:
        return None
    places = (*row.inputs[1:], *node.inputs[1:])
    if any(place.type.shape for place in places):
        return None
    left = [axis for axis in range(len(row.inputs[0].type.shape)) if axis not in row.params["axes"]]
    axes = (*row.params["axes"], *[left[axis] for axis in node.params["axes"]])
    inside = bool(row.params.get("inside") and node.params.get("inside"))
    params = {"axes": axes, **({"inside": True} if inside else {})}
    return apply(gather, row.inputs[0], *places, params=params, like=node)


def write_over(node: Operator, stays: _Stays) -> Node | None:
    """x with v at [i], then with w at [i] -> x with w at [i]."""
    written = _write(node.inputs[0], node)
    if written is None:
        return None
    inputs = (written.inputs[0], *node.inputs[1:])
    return apply(scatter_set, *inputs, params=node.params, like=node)


def write_back(node: Operator, stays: _Stays) -> Node | None:
    """x with x[i] at [i] -> x, where x[i] is needed besides."""
    x, value = node.inputs[:2]
    is_own = _reads(value, x, node) and stays(value, scatter_set)
    return x if is_own and same_type(x, node.type) else None


def add_to_nothing(node: Operator, stays: _Stays) -> Node | None:
    """x with 0 at [i], and v added at [i] -> x with v at [i], for cotangents: there the sign of a
    zero means nothing. What is added between comes after it."""
    between: list[Operator] = []
    base = node.inputs[0]
    while isinstance(base, Operator) and base.op is scatter_add and not stays(base, scatter_add):
        between.append(base)
        base = base.inputs[0]
    written = _write(base, node)
    if written is None or not written.params.get("cleared") or not is_uniform(written.inputs[1], 0):
        return None
    inputs = (written.inputs[0], *node.inputs[1:])
    made = apply(scatter_set, *inputs, params=written.params, like=node)
    for add in reversed(between):
        made = apply(scatter_add, made, *add.inputs[1:], params=add.params, like=add)
    return made


_RULES: dict[Op, tuple[Callable[[Operator, _Stays], Node | None], ...]] = {
    gather: (read_what_was_written, read_at_once),
    scatter_set: (write_over, write_back),
    scatter_add: (add_to_nothing,),
}


def _write(node: Node, like: Operator) -> Operator | None:
    """The node, if it writes to the places that another operator reads or writes."""
    if isinstance(node, Operator) and node.op is scatter_set and same_places(node, like):
        return node
    return None


def _reads(node: Node, x: Node, like: Operator) -> bool:
    """Whether a node is the part of x that another operator writes."""
    is_read = isinstance(node, Operator) and node.op is gather and node.inputs[0] is x
    return is_read and same_places(node, like)  # type: ignore[arg-type]


def same_places(one: Operator, other: Operator) -> bool:
    """Whether two operators read or write the same places of an array, of which no two are one."""
    mine, theirs = _places(one), _places(other)
    same = len(mine) == len(theirs) and all(a is b for a, b in zip(mine, theirs, strict=True))
    single = all(place.type.shape == () for place in mine)
    apart = single or one.params.get("apart") or other.params.get("apart")
    return bool(same and apart) and one.params["axes"] == other.params["axes"]


def _places(node: Operator) -> tuple[Node, ...]:
    return node.inputs[1:] if node.op is gather else node.inputs[2:]
