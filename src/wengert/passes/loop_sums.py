"""Sums over all steps of what a loop gives out row by row -> totals that the loop adds up itself.

    gs = scan(f); dw = contract(xs, gs) over steps     ->     dw = scan(f, dw + contract(x_t, g_t))

One product over all steps is faster than many (see `loops`), but not where the rows are so many
that they have left the near caches by then: there every step adds its own part, and rows that
nothing else reads are not kept at all.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from ..graph import Graph, Node, Operator, Variable
from ..graph.rewrite import New, on_new_inputs, rewrite, with_nodes
from ..machine import policy
from ..ops.contract import contract, normal_spec
from ..ops.elementwise import add
from ..ops.layout import permute, reduce_sum
from ..trace.tracer import ITEM
from ..transforms.bodies import Body
from ..transforms.loop import is_loop
from ..types import ArrayType
from .constants import is_uniform
from .loops import is_counted, is_worth_it, loop_items, make_body
from .rewriting import apply, full, users_of


def take_in_totals(graph: Graph) -> Graph:
    """gs = scan(f); sum(gs) -> scan(f, total + g_t)."""
    found = _find_sums(graph)
    changes = {}
    for loop, sums in found.items():
        make = functools.partial(_with_totals, sums=sums)
        changes[loop] = _Change(make, len(sums), {one.serial: k for k, one in enumerate(sums)})
    return _changed(graph, changes) if changes else graph


def turn_totals(graph: Graph) -> Graph:
    """permute(scan(total + x_t.T @ y_t)) -> scan(total + y_t.T @ x_t)."""
    users = users_of(graph)
    wanted = {node.serial for node in graph.outputs if node is not None}
    changes = {}
    for loop in graph.operators:
        if not is_loop(loop) or is_counted(loop):
            continue
        turned = _find_turned(loop, users, wanted)
        if turned:
            make = functools.partial(_with_turned, turned=turned)
            items = [one for one in users[loop.serial] if one.params["index"] in turned]
            gone = {u.serial: i.params["index"] for i in items for u in users[i.serial]}
            changes[loop.serial] = _Change(make, 0, gone)
    return _changed(graph, changes) if changes else graph


@dataclass
class _Change:
    """What becomes of a loop."""

    make: Callable[[Operator, dict[int, Any]], list[Node]]  # the results of the new one
    first: int  # the place among them of the first that there was before
    gone: dict[int, int]  # operators that results stand for now


def _changed(graph: Graph, changes: dict[int, _Change]) -> Graph:
    items: dict[int, list[Node]] = {}  # results of new loops, by the serial of the old
    gone = {serial: (loop, k) for loop, c in changes.items() for serial, k in c.gone.items()}

    def change(node: Node, new: New) -> Node | None:
        if node.serial in gone:
            loop, number = gone[node.serial]
            return items[loop][number]
        if isinstance(node, Operator) and node.op is ITEM and node.inputs[0].serial in items:
            source = node.inputs[0].serial
            return items[source][changes[source].first + node.params["index"]]
        if node.serial not in changes:
            return None
        now = new[node.serial] = on_new_inputs(node, new)
        assert isinstance(now, Operator)
        items[node.serial] = changes[node.serial].make(now, new)
        return now

    return with_nodes(graph, rewrite(graph.nodes, change))


# ---------------------------------------------------------------- which sums


def _find_sums(graph: Graph) -> dict[int, list[Operator]]:
    """For loops, by serial, the sums of their rows that they can add up themselves."""
    order = {node.serial: number for number, node in enumerate(graph.nodes)}
    users = users_of(graph)
    found: dict[int, list[Operator]] = {}
    for loop in graph.operators:
        if not is_loop(loop) or not is_worth_it(loop):
            continue
        items = [one for one in users.get(loop.serial, []) if one.params["index"] >= _carry(loop)]
        sums: list[Operator] = []
        for number in {one.params["index"] for one in items}:
            own = [one for one in items if one.params["index"] == number]
            readers = [user for one in own for user in users.get(one.serial, [])]
            if _is_large(own[0]):
                place = order[loop.serial]
                sums += [user for user in readers if _can_take(user, own[0], order, place)]
        if sums:
            found[loop.serial] = list({one.serial: one for one in sums}.values())
    return found


def _carry(loop: Operator) -> int:
    return int(loop.params["body"].carry)


def _is_large(stack: Node) -> bool:
    return stack.type.size * stack.type.dtype.itemsize > policy().scans.most_near


def _can_take(user: Operator, stack: Operator, order: dict[int, int], place: int) -> bool:
    """Whether an operator is a sum over all steps that can be had from the rows one by one."""
    if user.op is reduce_sum:
        return 0 in user.params["axes"] and len(user.params["axes"]) > 1
    if user.op is not contract or user.type.dtype.kind != "f":
        return False
    x, y, out = user.params["spec"]
    if not x or not y or x[0] != y[0] or x[0] in out or user.inputs[0] is user.inputs[1]:
        return False
    extents = dict(zip(x, user.inputs[0].type.shape, strict=True))
    extents.update(zip(y, user.inputs[1].type.shape, strict=True))
    terms = prod(n for label, n in extents.items() if label not in out and label != x[0])
    other = user.inputs[1] if _is_row_of(user.inputs[0], stack) else user.inputs[0]
    return terms >= policy().scans.enough_terms and order[other.serial] < place


def _is_row_of(node: Node, stack: Operator) -> bool:
    """Whether a node is the same result of the same loop."""
    if not isinstance(node, Operator) or node.op is not ITEM:
        return False
    return node.inputs[0] is stack.inputs[0] and node.params == stack.params


# ---------------------------------------------------------------- taking them in


def _with_totals(node: Operator, new: dict[int, Any], sums: Sequence[Operator]) -> list[Node]:
    """The results of a loop with totals: first these, then those it has had before."""
    body: Body = node.params["body"]
    constants, carry, rows = body.split(body.graph.inputs)
    fixed, starts, stacks = body.split(node.inputs)
    inside = {stack.serial: row for row, stack in zip(rows, stacks, strict=True)}
    outputs: list[Any] = body.graph.outputs
    totals, steps = [], []

    def row_of(source: Node) -> Node:
        """What stands for one row of a factor in the body."""
        if isinstance(source, Operator) and source.op is ITEM and source.serial not in new:
            return outputs[source.params["index"]]
        stack = new[source.serial]
        if stack.serial not in inside:
            kind = ArrayType(stack.type.dtype, stack.type.shape[1:])
            inside[stack.serial] = Variable("", None, kind, active=False)
            rows.append(inside[stack.serial])
            stacks.append(stack)
        return inside[stack.serial]

    for one in sums:
        kind = ArrayType(*one.type[:2])
        totals.append(Variable("", None, kind, active=False))
        factors = [row_of(source) for source in one.inputs]
        term = apply(one.op, *factors, params=_for_one_step(one), like=one)
        steps.append(apply(add, totals[-1], term, params={}))
    zeros = [full(0, one.type) for one in sums]
    made = make_body(constants, [*totals, *carry], rows, [*steps, *outputs])
    return loop_items(node, made, [*fixed, *zeros, *starts, *stacks])


def _for_one_step(node: Operator) -> dict[str, Any]:
    """The parameters of a sum without its first axis, that of the steps."""
    if node.op is reduce_sum:
        axes = tuple(axis - 1 for axis in node.params["axes"] if axis)
        return {**node.params, "axes": axes}
    x, y, out = node.params["spec"]
    return {**node.params, "spec": normal_spec(x[1:], y[1:], out)}


# ---------------------------------------------------------------- turning them


def _find_turned(
    loop: Operator, users: dict[int, list[Operator]], wanted: set[int]
) -> dict[int, tuple[int, ...]]:
    """The carries that are totals of products and that are only read in another order of axes."""
    body: Body = loop.params["body"]
    inner = users_of(body.graph)
    shown = [node.serial for node in body.graph.outputs if node is not None]
    found = {}
    for number, start in enumerate(body.split(body.graph.inputs)[1]):
        items = [one for one in users.get(loop.serial, []) if one.params["index"] == number]
        readers = [user for one in items for user in users.get(one.serial, [])]
        orders: set[Any] = {u.params["axes"] if u.op is permute else None for u in readers}
        if len(orders) != 1 or None in orders or any(one.serial in wanted for one in items):
            continue
        total: Any = body.graph.outputs[number]
        reads = inner.get(start.serial, [])
        if reads != [total] or total.op is not add or shown.count(total.serial) != 1:
            continue
        term = total.inputs[1] if total.inputs[0] is start else total.inputs[0]
        once = inner.get(total.serial) is None and inner.get(term.serial) == [total]
        if once and isinstance(term, Operator) and term.op is contract and term.serial not in shown:
            found[number] = orders.pop()
    return found


def _with_turned(
    node: Operator, new: dict[int, Any], turned: dict[int, tuple[int, ...]]
) -> list[Node]:
    """The results of a loop whose totals have their axes in another order."""
    body: Body = node.params["body"]
    constants, carry, rows = body.split(body.graph.inputs)
    fixed, starts, stacks = body.split(node.inputs)
    outputs: list[Any] = list(body.graph.outputs)
    for number, axes in turned.items():
        total = outputs[number]
        term = total.inputs[1] if total.inputs[0] is carry[number] else total.inputs[0]
        x, y, out = term.params["spec"]
        spec = normal_spec(x, y, tuple(out[axis] for axis in axes))
        product = apply(contract, *term.inputs, params={**term.params, "spec": spec})
        kind = ArrayType(*product.type[:2])
        zero = is_uniform(starts[number], 0)
        order = {"axes": axes}
        starts[number] = full(0, kind) if zero else apply(permute, starts[number], params=order)
        carry[number] = Variable("", None, kind, active=False)
        outputs[number] = apply(add, carry[number], product, params={})
    made = make_body(constants, carry, rows, outputs)
    return loop_items(node, made, [*fixed, *starts, *stacks])
