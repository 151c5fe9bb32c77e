"""Two loops over the same values are one loop.

Forward mode makes, of a loop over values, another one over values and tangents. What reads the
values of the first one finds them in the second as well, so the first need not run.

Reverse mode of a `while` makes a loop that repeats its turns and keeps what the way back reads. The
turns can do that themselves, if there is room for so many.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..graph import Graph, Node, Operator
from ..graph.rewrite import New, copied, rewrite, with_nodes
from ..trace.tracer import ITEM
from ..transforms.bodies import Body, Primal
from ..transforms.loop import is_loop
from ..transforms.repetition import Turn, is_while
from .constants import constant_value
from .rewriting import apply
from .simplify import share_common

# Constants of more elements are compared by what they are, not by what they hold.
SMALL = 4096


def join_forward(graph: Graph) -> Graph:
    """ys = scan(f); ys, dys = scan(f and its tangent) -> ys, dys = scan(f and its tangent)."""
    if all(_primal(node) is None for node in graph.operators):
        return graph
    graph = share_common(graph)  # they read the same values
    found = _pairs(graph)
    if not found:
        return graph
    items: dict[int, Operator] = {}  # of loops over values, by serial: those that stand for them
    sources: dict[int, Sequence[Node]] = {}
    for node in graph.operators:
        if node.op is ITEM and node.inputs[0].serial in found:
            loop, primal = found[node.inputs[0].serial]
            place = primal.results[node.params["index"]]
            items[node.serial] = Operator(ITEM, (loop,), {"index": place}, None, node.type)
            sources[node.serial] = (loop,)

    def change(node: Node, new: New) -> Node | None:
        now = items.get(node.serial, node)
        if not isinstance(now, Operator):
            return None
        return copied(now, [new[source.serial] for source in now.inputs])

    return with_nodes(graph, rewrite(_in_order(graph, sources), change))


def join_turns(graph: Graph) -> Graph:
    """n = while(f); rows = scan(f, n steps) -> n, rows = while(f)."""
    repeated: dict[int, Operator] = {}  # the loop of steps, by the serial of that of turns
    joined: dict[int, Node] = {}
    for node in graph.operators:
        turns = _repeated_by(node)
        if turns is not None and turns.serial not in repeated:
            repeated[turns.serial], joined[node.serial] = node, turns
    if not repeated:
        return graph

    def change(node: Node, new: New) -> Node | None:
        if node.serial in joined:
            return new[joined[node.serial].serial]
        steps = repeated.get(node.serial)
        if steps is None:
            return None
        turn = _with_rows(node.params["turn"], steps)  # type: ignore[attr-defined]
        made = apply(node.op, *[new[s.serial] for s in node.inputs], params={"turn": turn})  # type: ignore[attr-defined]
        made.source = node.source
        return made

    return with_nodes(graph, rewrite(graph.nodes, change))


def _repeated_by(node: Operator) -> Operator | None:
    """The `while` whose turns a loop repeats from the same values on, as often."""
    body: Body | None = node.params["body"].repeats if is_loop(node) else None
    count = node.inputs[0] if body is not None else None
    if not isinstance(count, Operator) or count.op is not ITEM or node.params["counted"] < 1:
        return None
    turns: Any = count.inputs[0]
    if not is_while(turns) or turns.params["turn"].body is not body:
        return None
    if count.params["index"] != len(turns.type) - 1:
        return None
    same = list(map(_value, node.inputs[1:])) == list(map(_value, turns.inputs))
    return turns if same else None


def _with_rows(turn: Turn, steps: Operator) -> Turn:
    """Turns that give out rows, as the steps do, which are told how many there are first."""
    body: Body = steps.params["body"]
    graph = Graph(body.graph.inputs[1:], body.graph.outputs)
    made = turn.like(turn.test, Body(graph, body.constants - 1, body.carry))
    made.room, made.number = steps.params["length"], steps.params["counted"]
    return made


def _pairs(graph: Graph) -> dict[int, tuple[Operator, Primal]]:
    """Loops over values, by serial, each with the one over values and tangents."""
    plain: dict[Any, Operator] = {}
    for node in graph.operators:
        if node.op.multiple:
            plain.setdefault(_key(node, _program(node), node.inputs), node)
    found: dict[int, tuple[Operator, Primal]] = {}
    taken: set[int] = set()
    for node in graph.operators:
        primal = _primal(node)
        if primal is None:
            continue
        inputs = [node.inputs[k] for k in primal.inputs]
        other = plain.get(_key(node, primal.program, inputs))
        if other is None or other.serial in found or {other.serial, node.serial} & taken:
            continue
        # its tangents may come of what the other one gives
        if not _reads(node.inputs, other, {k: (loop,) for k, (loop, _) in found.items()}):
            found[other.serial] = (node, primal)
            taken |= {other.serial, node.serial}
    return found


def _reads(nodes: Iterable[Node], wanted: Node, instead: dict[int, Sequence[Node]]) -> bool:
    """Whether one of the nodes depends on another, where loops read what they will read then."""
    pending, seen = list(nodes), set()
    while pending:
        node = pending.pop()
        if node is wanted:
            return True
        if node.serial not in seen:
            seen.add(node.serial)
            pending += [*node.inputs, *instead.get(node.serial, ())]
    return False


def _primal(node: Operator) -> Primal | None:
    return getattr(_program(node), "primal", None) if node.op.multiple else None


def _program(node: Operator) -> Any:
    """What is inside an operation; None: nothing that has a forward mode of its own."""
    return next((v for v in node.params.values() if hasattr(v, "primal")), None)


def _key(node: Operator, program: Any, inputs: Sequence[Node]) -> Any:
    """What two loops have in common that do the same to the same values."""
    params = {k: v for k, v in node.params.items() if not hasattr(v, "primal")}
    return node.op.name, id(program), *params.items(), *map(_value, inputs)


def _value(node: Node) -> Any:
    """What is equal for nodes that stand for one value: each use of a constant has a node."""
    value = constant_value(node)
    if value is None or np.size(value) == 0:
        return node.serial
    array = np.asarray(value)
    if not any(array.strides):  # one number, read everywhere
        return node.type, array.flat[0].tobytes()
    return (node.type, array.tobytes()) if array.size <= SMALL else node.serial


def _in_order(graph: Graph, sources: dict[int, Sequence[Node]]) -> list[Node]:
    """All nodes, each after those it reads, where some read others than before."""
    order: list[Node] = []
    state: dict[int, bool] = {}  # of nodes that were met, whether they are in the list
    pending: list[Node] = [node for node in reversed(graph.outputs) if node is not None]
    pending += reversed(graph.inputs)
    while pending:
        node = pending[-1]
        inputs = sources.get(node.serial, node.inputs)
        if node.serial not in state:
            state[node.serial] = False
            pending += [one for one in inputs if one.serial not in state]
        else:
            pending.pop()
            if not state[node.serial]:
                state[node.serial] = True
                order.append(node)
    return order
