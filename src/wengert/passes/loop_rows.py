"""What a loop reads and writes at every step: made less, and laid out well.

A recurrent step does little with each element that it keeps for later, so that memory is a large
part of its time. Here rows that nobody needs one by one become single values (`last_rows`,
`first_rows`), two rows that follow from one become that one (`fold_sigmoids`), what is quickly
computed from rows is computed where it is read (`absorb_rows`), and constants that products read
at every step are brought into the order in which they are read, once (`lay_out_constants`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..functions import Cost
from ..graph import Constant, Graph, Node, Operator, Variable
from ..graph.rewrite import New, rewrite
from ..ops.contract import contract, normal_spec
from ..ops.elementwise import add, negative, select, subtract
from ..ops.indexing import embed, index
from ..ops.layout import permute
from ..ops.logic import signbit
from ..ops.op import Op
from ..ops.special import expit, expit_tail
from ..trace.tracer import ITEM
from ..transforms.bodies import Body, extract
from ..transforms.loop import is_loop
from ..types import ArrayType
from .loops import edit_loops, is_counted, loop_items, make_body
from .rewriting import apply, full, rebuild, same_type, users_of


def _step_of(key: Any, shape: tuple[int, ...]) -> int | None:
    """The row that a key takes as a whole, if it is one."""
    rest = tuple((0, n, 1) for n in shape[1:])
    if isinstance(key[0], int) and tuple(key[1:]) == rest:
        return int(key[0])
    return None


# ---------------------------------------------------------------- single rows


def last_rows(graph: Graph) -> Graph:
    """c, ys = scan(f), ys the carry of each step; use ys[-1] -> use c."""

    def rule(node: Operator) -> Node | None:
        if node.op is not index:
            return None
        item = node.inputs[0]
        if not (isinstance(item, Operator) and item.op is ITEM and is_loop(item.inputs[0])):
            return None
        loop: Any = item.inputs[0]
        body, number = loop.params["body"], item.params["index"]
        last = 0 if loop.params["reverse"] else loop.params["length"] - 1
        if (
            number < body.carry
            or is_counted(loop)
            or _step_of(node.params["key"], item.type.shape) != last
        ):
            return None
        for k in range(body.carry):
            if body.graph.outputs[k] is body.graph.outputs[number]:
                return Operator(ITEM, (loop,), {"index": k}, None, loop.type[k])
        return None

    return rebuild(graph, rule)


def first_rows(graph: Graph) -> Graph:
    """scan(carry + x_t, ...) where all x_t but the first are zero -> scan(carry), begun with
    carry + x_0."""
    return edit_loops(graph, _begin_with_rows)


def _begin_with_rows(node: Operator, used: set[int]) -> list[Node] | None:
    body: Body = node.params["body"]
    constants, carry, rows = body.split(body.graph.inputs)
    fixed, starts, stacks = body.split(node.inputs)
    first = node.params["length"] - 1 if node.params["reverse"] else 0
    users = _Uses(body.graph)
    replaced: dict[int, Node] = {}
    left = []
    for row, stack in zip(rows, stacks, strict=True):
        value, total = _only_row(stack, first), users.only_user(row)
        k = None if total is None else _carry_added(total, row, carry, users)
        if value is None or k is None:
            left.append((row, stack))
            continue
        assert total is not None
        starts[k] = apply(add, starts[k], value, params={})
        replaced[total.serial] = carry[k]
    if not replaced:
        return None
    outputs = extract(body.graph.outputs, replaced)  # type: ignore[arg-type]
    new = make_body(constants, carry, [row for row, _ in left], outputs)
    return loop_items(node, new, [*fixed, *starts, *[stack for _, stack in left]])


def _only_row(stack: Node, first: int) -> Node | None:
    """The row of a stack for the step `first`, if all others are zero."""
    if not isinstance(stack, Operator) or stack.op is not embed:
        return None
    place = _step_of(stack.params["key"], stack.type.shape)
    return stack.inputs[0] if place == first else None


def _carry_added(total: Operator, row: Node, carry: Sequence[Node], users: _Uses) -> int | None:
    """The number of the carry that a sum adds to the row, and that nothing else reads."""
    if total.op is not add:
        return None
    x, y = total.inputs
    other = y if x is row else x
    for k, one in enumerate(carry):
        if one is other and users.only_user(one) is total and same_type(one, total.type):
            return k
    return None


class _Uses:
    """Who reads the values of a body."""

    def __init__(self, graph: Graph):
        self.users = users_of(graph)
        self.shown = {node.serial for node in graph.outputs if node is not None}

    def only_user(self, node: Node) -> Operator | None:
        """The operator that alone reads a value, once."""
        found = self.users.get(node.serial, [])
        if len(found) != 1 or node.serial in self.shown:
            return None
        return found[0]


# ---------------------------------------------------------------- two rows in one


def fold_sigmoids(graph: Graph) -> Graph:
    """rows expit(x) and expit(-x) -> one row t, the smaller of both with the sign of x.

    The derivative of a sigmoid needs both to full relative precision, far from 0 too. One minus
    the smaller is the larger, and to compute them takes one exponential.
    """
    return edit_loops(graph, _fold)


def _fold(node: Operator, used: set[int]) -> list[Node] | None:
    body: Body = node.params["body"]
    outputs: list[Any] = body.graph.outputs
    pairs = _sigmoid_pairs(outputs[body.carry :])
    if not pairs:
        return None
    plus = {one.serial: one.inputs[0].serial for one, _ in pairs}
    minus = {other.serial: one.inputs[0].serial for one, other in pairs}
    tails: dict[int, Node] = {}

    def change(one: Node, new: New) -> Node | None:
        source = plus.get(one.serial, minus.get(one.serial))
        if source is None:
            return None
        if source not in tails:
            tails[source] = apply(expit_tail, new[source], params={})
        return _unfolded(tails[source], one.serial in plus)

    new = rewrite(body.graph.nodes, change)
    kept = [
        k
        for k, one in enumerate(outputs)
        if k < body.carry or (one.serial not in plus and one.serial not in minus)
    ]
    results = [*[new[outputs[k].serial] for k in kept], *tails.values()]
    body = make_body(*body.split(body.graph.inputs), results)
    items = loop_items(node, body, node.inputs)
    by_source = dict(zip(tails, items[len(kept) :], strict=True))
    found: dict[int, Node] = dict(zip(kept, items, strict=False))
    for k, one in enumerate(outputs):
        if k not in found:
            source = plus.get(one.serial, minus.get(one.serial))
            assert source is not None
            found[k] = _unfolded(by_source[source], one.serial in plus)
    return [found[k] for k in range(len(outputs))]


def _sigmoid_pairs(rows: Sequence[Node]) -> list[tuple[Operator, Operator]]:
    """Rows that are expit(x) and expit(-x) for the same x."""
    mirrored = {}
    for row in rows:
        if _is(row, expit) and _is(row.inputs[0], negative):
            mirrored[row.inputs[0].inputs[0].serial] = row
    return [
        (row, mirrored[row.inputs[0].serial])  # type: ignore[misc]
        for row in {one.serial: one for one in rows}.values()
        if _is(row, expit) and row.inputs[0].serial in mirrored
    ]


def _is(node: Node, op: Op) -> bool:
    return isinstance(node, Operator) and node.op is op


def _unfolded(tail: Node, plus: bool) -> Node:
    """expit(x) or, not `plus`, expit(-x), by the tail of x; its sign counts even if it is 0."""
    one = full(1, tail.type)
    below = apply(signbit, tail, params={})
    if plus:
        small, large = apply(negative, tail, params={}), apply(subtract, one, tail, params={})
        return apply(select, below, small, large, params={})
    return apply(select, below, apply(add, one, tail, params={}), tail, params={})


# ---------------------------------------------------------------- computed where they are read


def absorb_rows(graph: Graph) -> Graph:
    """scan(f(y_t, z_t)) with ys = g(xs), zs = h(xs) -> scan(f(g(x_t), h(x_t)))."""
    return edit_loops(graph, _absorb)


def _absorb(node: Operator, used: set[int]) -> list[Node] | None:
    body: Body = node.params["body"]
    constants, carry, rows = body.split(body.graph.inputs)
    fixed, starts, stacks = body.split(node.inputs)
    quick = [(row, stack) for row, stack in zip(rows, stacks, strict=True) if _is_quick(stack)]
    if not quick:
        return None
    given: dict[int, Any] = {}  # the row of each stack that is read
    outer: dict[int, Node] = {}
    replaced: dict[int, Node] = {}
    for row, stack in zip(rows, stacks, strict=True):
        if not _is_quick(stack):
            replaced[row.serial] = given.setdefault(stack.serial, row)
            outer[stack.serial] = stack
    before = len(outer)
    for row, stack in quick:
        replaced[row.serial] = _inside(stack, given, outer)
    more = sum(given[serial].type.size for serial in list(outer)[before:])
    if more > sum(row.type.size for row, _ in quick):
        return None
    outputs = extract(body.graph.outputs, replaced)  # type: ignore[arg-type]
    new = make_body(constants, carry, [given[serial] for serial in outer], outputs)
    return loop_items(node, new, [*fixed, *starts, *outer.values()])


def _is_quick(node: Node) -> bool:
    """Whether every element is quickly computed from the same elements of others."""
    if not isinstance(node, Operator) or node.op.cost is not Cost.QUICK or node.op.moves:
        return False
    return all(s.type.shape == node.type.shape or _is_number(s) for s in node.inputs)


def _is_number(node: Node) -> bool:
    return isinstance(node, Constant) and node.type.shape == ()


def _inside(stack: Node, given: dict[int, Any], outer: dict[int, Node]) -> Node:
    """What stands for a row of the stack in the body; new rows are added to both tables."""
    order, pending = [], [stack]
    while pending:
        one = pending.pop()
        order.append(one)
        if one.serial not in given and _is_quick(one):
            pending.extend(one.inputs)
    new: dict[int, Any] = {}
    for one in sorted({one.serial: one for one in order}.values(), key=lambda one: one.serial):
        if one.serial in given:
            new[one.serial] = given[one.serial]
        elif _is_number(one):
            new[one.serial] = one
        elif isinstance(one, Constant) and not any(np.asarray(one.output).strides):
            new[one.serial] = full(np.asarray(one.output).flat[0], _row_type(one))
        elif _is_quick(one):
            assert isinstance(one, Operator)
            inputs = tuple(new[source.serial] for source in one.inputs)
            new[one.serial] = Operator(one.op, inputs, one.params, None, _row_type(one))
        else:
            new[one.serial] = given[one.serial] = Variable("", None, _row_type(one), active=False)
            outer[one.serial] = one
    return new[stack.serial]


def _row_type(node: Node) -> ArrayType:
    return ArrayType(node.type.dtype, node.type.shape[1:])


# ---------------------------------------------------------------- constants of products


def lay_out_constants(graph: Graph) -> Graph:
    """scan(x_t @ w.T) -> v = w.T; scan(x_t @ v): what is read at every step is transposed once."""
    return edit_loops(graph, _lay_out)


def _lay_out(node: Operator, used: set[int]) -> list[Node] | None:
    body: Body = node.params["body"]
    if node.params["length"] == 1:
        return None
    constants, carry, rows = body.split(body.graph.inputs)
    fixed, starts, stacks = body.split(node.inputs)
    places = {one.serial: k for k, one in enumerate(constants)}
    turned: dict[tuple[int, tuple[int, ...]], Variable] = {}

    def constant(one: Node, axes: tuple[int, ...]) -> Node:
        if (one.serial, axes) not in turned:
            outside = apply(permute, fixed[places[one.serial]], params={"axes": axes})
            fixed.append(outside)
            variable = Variable("", None, ArrayType(*outside.type[:2]), active=False)
            turned[one.serial, axes] = variable
        return turned[one.serial, axes]

    def rule(one: Operator) -> Node | None:
        for place in (0, 1):
            if one.op is contract and one.inputs[place].serial in places:
                axes = _read_order(one, place)
                if axes is not None:
                    return _with_operand(one, place, constant(one.inputs[place], axes), axes)
        return None

    changed = rebuild(body.graph, rule)
    if not turned:
        return None
    outputs: list[Any] = changed.outputs
    new = make_body([*constants, *turned.values()], carry, rows, outputs)
    return loop_items(node, new, [*fixed, *starts, *stacks])


def _read_order(product: Operator, place: int) -> tuple[int, ...] | None:
    """The order of axes in which a product reads an operand best: what is summed before what is
    kept. None where it is so already, or where vectors are along an axis of the other operand."""
    spec = product.params["spec"]
    own, other, out = spec[place], spec[1 - place], spec[2]
    summed = [axis for axis, label in enumerate(own) if label not in out]
    kept = [axis for axis, label in enumerate(own) if label in out]
    if not summed or not kept or not other or own[-1] in out or other[-1] in out:
        return None
    return (*summed, *kept)


def _with_operand(product: Operator, place: int, new: Node, axes: tuple[int, ...]) -> Operator:
    x, y, out = product.params["spec"]
    parts, inputs = [x, y], list(product.inputs)
    parts[place] = tuple(parts[place][axis] for axis in axes)
    inputs[place] = new
    spec = normal_spec(*parts, out)
    return apply(product.op, *inputs, params={**product.params, "spec": spec}, like=product)
