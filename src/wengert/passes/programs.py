"""Programs inside of operations: branches and turns that do no more than they must.

All passes run on them, as on the bodies of loops. What nobody reads is neither computed nor carried
along, and a choice that is known is made.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from ..graph import Graph, Node, Operator, reachable
from ..transforms.bodies import Body, extract
from ..transforms.choice import Branches, is_switch, taken
from ..transforms.loop import is_loop
from ..transforms.repetition import Turn, is_while
from .constants import constant_value
from .loops import edit_operations, items_of, loop_items, prune_loop
from .rewriting import apply
from .simplify import share_common, simplify
from .small_arrays import write_out_turn


def optimise_programs(optimise: Callable[[Graph], Graph]) -> Callable[[Graph], Graph]:
    """The pass that runs all passes on branches and turns."""

    def programs(graph: Graph) -> Graph:
        """switch(f, g) -> switch(better f, better g), and while_loop likewise."""

        def edit(node: Operator, used: set[int]) -> list[Node | None]:
            if is_switch(node):
                bodies = node.params["branches"].bodies
                better = [Body(optimise(body.graph), 0, 0) for body in bodies]
                return program_items(node, {"branches": Branches(better)}, node.inputs)
            turn: Turn = node.params["turn"]
            body = Body(optimise(turn.body.graph), turn.body.constants, turn.body.carry)
            test = Body(optimise(turn.test.graph), 0, 0)
            return program_items(node, {"turn": turn.like(test, body)}, node.inputs)

        return edit_operations(graph, edit, _has_programs)

    return programs


def write_out_turns(graph: Graph) -> Graph:
    """scan(dot(carry, carry)) -> scan(carry0 * carry0 + carry1 * carry1); programs likewise."""

    def edit(node: Operator, used: set[int]) -> list[Node] | list[Node | None] | None:
        if is_loop(node):
            body: Body = node.params["body"]
            better = _written_out(body)
            return None if better is body else loop_items(node, better, node.inputs)
        if is_switch(node):
            bodies = node.params["branches"].bodies
            written = [_written_out(body) for body in bodies]
            same = all(map(operator.is_, written, bodies))
            return (
                None if same else program_items(node, {"branches": Branches(written)}, node.inputs)
            )
        turn: Turn = node.params["turn"]
        test, inner = _written_out(turn.test), _written_out(turn.body)
        if test is turn.test and inner is turn.body:
            return None
        return program_items(node, {"turn": turn.like(test, inner)}, node.inputs)

    return edit_operations(graph, edit, lambda node: is_loop(node) or _has_programs(node))


def _written_out(body: Body) -> Body:
    graph = write_out_turn(body.graph)
    if graph is body.graph:
        return body
    return Body(share_common(simplify(graph)), body.constants, body.carry)


def prune_programs(graph: Graph) -> Graph:
    """a, b = switch(f, g); use a -> a = switch(f without b, g without b); while_loop likewise."""
    return edit_operations(graph, _prune, _has_programs)


def _prune(node: Operator, used: set[int]) -> list[Node | None]:
    if is_loop(node):
        return prune_loop(node, used)
    return (_prune_switch if is_switch(node) else _prune_while)(node, used)


def part_results(graph: Graph) -> Graph:
    """a, b = scan(f) -> a = scan(f without b); b = scan(f without a); branches and loops without
    end likewise. It is more work, and tells what each result depends on."""

    def edit(node: Operator, used: set[int]) -> list[Node | None]:
        whole = _with_parted(node)
        found: list[Node | None] = [None] * len(node.type)
        for k in used:
            found[k] = _prune(whole, {k})[k]
        return found

    return edit_operations(graph, edit, lambda node: is_loop(node) or _has_programs(node))


def _with_parted(node: Operator) -> Operator:
    """An operation with the results of its programs computed each by itself."""

    def parted(body: Body) -> Body:
        return Body(part_results(body.graph), body.constants, body.carry)

    if is_loop(node):
        item: Any = loop_items(node, parted(node.params["body"]), node.inputs)[0]
    elif is_switch(node):
        branches = Branches([parted(body) for body in node.params["branches"].bodies])
        item = program_items(node, {"branches": branches}, node.inputs)[0]
    else:
        turn: Turn = node.params["turn"]
        better = turn.like(parted(turn.test), parted(turn.body))
        item = program_items(node, {"turn": better}, node.inputs)[0]
    found: Operator = item.inputs[0]
    return found


def _has_programs(node: Node) -> bool:
    return is_switch(node) or is_while(node)


def program_items(
    node: Operator, params: dict[str, Any], inputs: Sequence[Node]
) -> list[Node | None]:
    """The results of an operation with other programs and inputs."""
    made = apply(node.op, *inputs, params=params)
    made.source = node.source
    return [*items_of(made)]


def _prune_switch(node: Operator, used: set[int]) -> list[Node | None]:
    bodies: Sequence[Body] = node.params["branches"].bodies
    index = constant_value(node.inputs[0])
    results: list[Node | None] = [None] * len(node.type)
    shown = sorted(used)
    if not shown:
        return results
    if index is not None:
        graph = bodies[taken(index, len(bodies))].graph
        outer = dict(zip([n.serial for n in graph.inputs], node.inputs[1:], strict=True))
        found: Sequence[Node | None] = extract([graph.outputs[k] for k in shown], outer)  # type: ignore[misc]
    else:
        columns = [[body.graph.outputs[k] for k in shown] for body in bodies]
        read = [{one.serial for one in reachable(column)} for column in columns]  # type: ignore[arg-type]
        kept = [
            k
            for k in range(len(node.inputs) - 1)
            if any(b.graph.inputs[k].serial in r for b, r in zip(bodies, read, strict=True))
        ]
        new = [
            Body(Graph([body.graph.inputs[k] for k in kept], column), 0, 0)
            for body, column in zip(bodies, columns, strict=True)
        ]
        inputs = [node.inputs[0], *[node.inputs[k + 1] for k in kept]]
        found = program_items(node, {"branches": Branches(new)}, inputs)
    for k, item in zip(shown, found, strict=True):
        results[k] = item
    return results


def _prune_while(node: Operator, used: set[int]) -> list[Node | None]:
    turn: Turn = node.params["turn"]
    body, test = turn.body, turn.test
    outputs: list[Any] = body.graph.outputs
    _, carry, _ = body.split(body.graph.inputs)
    fixed, starts, _ = body.split(node.inputs)
    tested = {one.serial for one in reachable(test.graph.outputs)}  # type: ignore[arg-type]
    asked = [k for k in range(body.carry) if test.graph.inputs[body.constants + k].serial in tested]
    still = [k for k in range(body.carry) if outputs[k] is carry[k]]
    rows = sorted(k for k in used if k >= body.carry)
    live = {k for k in (*used, *asked) if k < body.carry} - {*still}
    while True:
        read = {one.serial for one in reachable([outputs[k] for k in (*live, *rows)])}
        more = {k for k in range(body.carry) if carry[k].serial in read and k not in still}
        if more <= live:
            break
        live |= more
    moving = sorted(live)
    results: list[Node | None] = [None] * len(outputs)
    for k in still:
        results[k] = starts[k]
    if not moving and not (used - {*still}):
        return results
    order = [*range(body.constants), *[body.constants + k for k in still]]
    kept = [
        k
        for k in order
        if body.graph.inputs[k].serial in read or test.graph.inputs[k].serial in tested
    ]
    places = [*kept, *[body.constants + k for k in moving]]
    new_body = Body(
        Graph([body.graph.inputs[k] for k in places], [outputs[k] for k in (*moving, *rows)]),
        len(kept),
        len(moving),
    )
    new_test = Body(Graph([test.graph.inputs[k] for k in places], test.graph.outputs), 0, 0)
    inputs = [[*fixed, *starts][k] for k in places]
    items = program_items(node, {"turn": turn.like(new_test, new_body)}, inputs)
    for k, item in zip((*moving, *rows), items, strict=True):
        results[k] = item
    return results
