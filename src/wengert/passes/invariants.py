"""What is the same in every turn of a loop and takes long: matrices are factored once, before it.

    for b in bs: x = solve(a, x + b)     ->     factors = lu(a); for b in bs: x = ...

Before a loop that may have no turn this is a branch, which is taken if there is one: a matrix that
no turn would have read may be singular.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..graph import Constant, Graph, Node, Operator, Variable
from ..ops.elementwise import imag, real
from ..ops.layout import convert
from ..trace.tracer import ITEM
from ..transforms.bodies import Body, extract, zeros
from ..transforms.choice import Branches, switch_op
from ..transforms.loop import is_loop
from ..transforms.repetition import Turn, is_while
from ..types import ArrayType
from .loops import edit_operations, is_counted, is_worth_it, items_of, loop_items, make_body
from .programs import program_items
from .rewriting import apply


def hoist_invariants(graph: Graph) -> Graph:
    """scan(lu(a), ...) -> factors = lu(a); scan(factors, ...), for all that a library computes."""
    return edit_operations(graph, _hoist, lambda node: is_loop(node) or is_while(node))


def _hoist(node: Operator, used: set[int]) -> Sequence[Node | None] | None:
    turn: Turn | None = node.params.get("turn")
    body: Body = node.params["body"] if turn is None else turn.body
    found = _invariants(body) if _may_hoist(node) else []
    if not found:
        return None
    constants, carry, rows = body.split(body.graph.inputs)
    fixed, starts, stacks = body.split(node.inputs)
    before = _computed(found, constants, fixed, _turns(node))
    known = [_stand_in(one) for one in found]
    outputs: Any = body.graph.outputs
    results = extract(outputs, dict(zip([one.serial for one in found], known, strict=True)))
    new = make_body([*constants, *known], carry, rows, results)
    inputs = [*fixed, *before, *starts, *stacks]
    if turn is None:
        return loop_items(node, new, inputs)
    asked = turn.test.graph.inputs
    idle = [_stand_in(one) for one in found]
    asked = [*asked[: len(fixed)], *idle, *asked[len(fixed) :]]
    test = Body(Graph(asked, turn.test.graph.outputs), 0, 0)
    return program_items(node, {"turn": turn.like(test, new)}, inputs)


def _may_hoist(node: Operator) -> bool:
    return is_while(node) or is_counted(node) or is_worth_it(node)


def _invariants(body: Body) -> list[Node]:
    """The results of library functions that neither the carry nor a row has a part in."""
    _, carry, rows = body.split(body.graph.inputs)
    varying = {one.serial for one in [*carry, *rows]}
    found: list[Node] = []
    for one in body.graph.operators:
        if any(source.serial in varying for source in one.inputs):
            varying.add(one.serial)
        elif _by_library(one):
            found.append(one)
    return found


def _by_library(node: Operator) -> bool:
    """Whether a value is what a library has computed, or a part of that: complex numbers are handed
    to a loop in parts."""
    if node.op.multiple or node.type.dtype.kind == "c":
        return False
    while node.op is ITEM or node.op in (real, imag):
        source = node.inputs[0]
        if not isinstance(source, Operator):
            return False
        node = source
    return bool(node.op.hosted) and not node.op.collective


def _turns(node: Operator) -> Node | None:
    """Whether there is a turn, as a number; None: there is."""
    if is_while(node):
        test: Graph = node.params["turn"].test.graph
        places = dict(zip([one.serial for one in test.inputs], node.inputs, strict=True))
        outputs: Any = test.outputs
        return apply(convert, *extract(outputs, places), params={"dtype": np.dtype(np.int64)})
    return node.inputs[0] if is_counted(node) else None


def _computed(
    wanted: Sequence[Node], constants: Sequence[Node], fixed: Sequence[Node], turns: Node | None
) -> list[Node]:
    """Values of a body computed before its loop, if that has a turn."""
    if turns is None:
        return extract(wanted, dict(zip([one.serial for one in constants], fixed, strict=True)))
    inputs: list[Any] = [*map(_stand_in, constants)]
    places = dict(zip([one.serial for one in constants], inputs, strict=True))
    idle = [Constant(zeros(one.type), ArrayType(*one.type[:2])) for one in wanted]
    bodies = [Body(Graph(inputs, outputs), 0, 0) for outputs in (idle, extract(wanted, places))]
    return items_of(apply(switch_op, turns, *fixed, params={"branches": Branches(bodies)}))


def _stand_in(node: Node) -> Variable:
    return Variable("", None, ArrayType(*node.type[:2]), active=False)
