"""Loops in the graph: what they need not do at all, and what is better done outside of them.

One product over all steps is faster than a product at every step. So products that do not depend
on the carry are computed before the loop (`hoist_products`), and products that the carry does not
depend on, after it (`sink_products`): above all the sum over time that is the gradient of a weight,
where its factors are not too large to be read once more.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any

from ..graph import Graph, Node, Operator, Variable, reachable
from ..graph.rewrite import New, on_new_inputs, rewrite, with_nodes
from ..machine import policy
from ..ops.contract import contract, normal_spec
from ..ops.elementwise import add
from ..ops.layout import reduce_sum
from ..trace import Trace
from ..trace.tracer import ITEM
from ..transforms.batching import evaluate_batched
from ..transforms.bodies import Body, extract
from ..transforms.loop import is_loop
from ..types import ArrayType
from .constants import is_uniform
from .rewriting import apply, users_of

# An edit takes a loop and the results of it that are used, and gives a node for each result (None
# for those that are not used), or nothing where all stays as it is.
Edit = Callable[[Operator, set[int]], Sequence[Node | None] | None]


def edit_loops(graph: Graph, edit: Edit, counted: bool = False) -> Graph:
    """The graph with every loop edited; those that are `counted` only if so asked."""
    return edit_operations(
        graph, edit, lambda node: is_loop(node) and (counted or not is_counted(node))
    )


def is_counted(loop: Any) -> bool:
    """Whether a loop may have fewer steps than rows: what it does not reach holds nothing."""
    return bool(loop.params.get("counted"))


def edit_operations(graph: Graph, edit: Edit, which: Callable[[Node], bool]) -> Graph:
    """The graph with every operation of a kind edited; all have several results."""
    if not any(map(which, graph.operators)):
        return graph
    used: dict[int, set[int]] = {}
    for item in graph.operators:
        if item.op is ITEM:
            used.setdefault(item.inputs[0].serial, set()).add(item.params["index"])
    edited: dict[int, Sequence[Node | None]] = {}

    def change(node: Node, new: New) -> Node | None:
        if isinstance(node, Operator) and node.op is ITEM and node.inputs[0].serial in edited:
            return edited[node.inputs[0].serial][node.params["index"]]
        if not isinstance(node, Operator) or not which(node):
            return None
        now = on_new_inputs(node, new)
        assert isinstance(now, Operator)
        found = edit(now, used.get(node.serial, set()))
        if found is not None:
            edited[node.serial] = found
        return now

    return with_nodes(graph, rewrite(graph.nodes, change))


def loop_items(like: Operator, body: Body, inputs: Iterable[Node]) -> list[Node]:
    """The results of a loop with another body and other inputs."""
    params = {**like.params, "body": body}
    node = apply(like.op, *inputs, params=params)
    node.source = like.source
    return items_of(node)


def items_of(node: Operator) -> list[Node]:
    """The results of an operation that has several."""
    return [Operator(ITEM, (node,), {"index": k}, None, kind) for k, kind in enumerate(node.type)]


def make_body(
    constants: Sequence[Node], carry: Sequence[Node], rows: Sequence[Node], outputs: Sequence[Node]
) -> Body:
    """A body of these inputs and outputs."""
    inputs: list[Any] = [*constants, *carry, *rows]
    return Body(Graph(inputs, outputs), len(constants), len(carry))


# ---------------------------------------------------------------- inside, and dead parts


def optimise_bodies(optimise: Callable[[Graph], Graph]) -> Callable[[Graph], Graph]:
    """The pass that runs all passes on the bodies of loops."""

    def bodies(graph: Graph) -> Graph:
        """scan(body) -> scan(better body)."""

        def edit(node: Operator, used: set[int]) -> list[Node]:
            body = node.params["body"]
            better = Body(optimise(body.graph), body.constants, body.carry)
            return list(loop_items(node, better, node.inputs))

        return edit_loops(graph, edit, counted=True)

    return bodies


def prune_loops(graph: Graph) -> Graph:
    """c, ys = scan(f); use c -> c, _ = scan(f without ys); a carry that stays is a constant."""
    return edit_loops(graph, prune_loop, counted=True)


def prune_loop(node: Operator, used: set[int]) -> list[Node | None]:
    """The results of a loop of which these are used."""
    body: Body = node.params["body"]
    outputs: list[Any] = body.graph.outputs
    constants, carry, rows = body.split(body.graph.inputs)
    fixed, starts, stacks = body.split(node.inputs)
    still = [k for k in range(body.carry) if outputs[k] is carry[k]]
    live = {k for k in range(body.carry) if k in used and k not in still}
    shown = [k for k in range(body.carry, len(outputs)) if k in used]
    while True:
        wanted = [outputs[k] for k in [*sorted(live), *shown]]
        read = {one.serial for one in reachable(wanted)}
        more = {k for k in range(body.carry) if carry[k].serial in read and k not in still}
        if more <= live:
            break
        live |= more
    moving = sorted(live)
    pairs = [
        *zip(constants, fixed, strict=True),
        *[(carry[k], starts[k]) for k in still],
    ]
    counted = is_counted(node)  # its first constant is kept, though no step reads it
    kept = [pair for k, pair in enumerate(pairs) if pair[0].serial in read or (counted and not k)]
    kept_rows = [pair for pair in zip(rows, stacks, strict=True) if pair[0].serial in read]
    distinct = {outputs[k].serial: outputs[k] for k in shown}
    results: list[Node | None] = [None] * len(outputs)
    for k in still:
        results[k] = starts[k]
    if not moving and not distinct:
        return results
    new = make_body(
        [inner for inner, _ in kept],
        [carry[k] for k in moving],
        [inner for inner, _ in kept_rows],
        [*[outputs[k] for k in moving], *distinct.values()],
    )
    inputs = [o for _, o in kept] + [starts[k] for k in moving] + [o for _, o in kept_rows]
    items = loop_items(node, new, inputs)
    for k, item in zip(moving, items, strict=False):
        results[k] = item
    by_row = dict(zip(distinct, items[len(moving) :], strict=True))
    for k in shown:
        results[k] = by_row[outputs[k].serial]
    return results


# ---------------------------------------------------------------- before the loop


def hoist_products(graph: Graph) -> Graph:
    """scan(x_t @ w + ...) -> y = xs @ w; scan(y_t + ...)."""
    return edit_loops(graph, _hoist)


def _hoist(node: Operator, used: set[int]) -> list[Node | None] | None:
    body: Body = node.params["body"]
    if not is_worth_it(node):
        return None
    constants, carry, rows = body.split(body.graph.inputs)
    early = _up_to_products(body.graph, {one.serial for one in carry})
    users = users_of(body.graph)
    outputs = {one.serial for one in body.graph.outputs}  # type: ignore[union-attr]
    frontier = [
        one
        for one in body.graph.operators
        if one.serial in early
        and (one.serial in outputs or any(u.serial not in early for u in users.get(one.serial, ())))
    ]
    if not frontier or not _fits(frontier, node):
        return None
    fixed, starts, stacks = body.split(node.inputs)
    values = [*zip(constants, fixed, [False] * len(fixed), strict=True)]
    values += zip(rows, stacks, [True] * len(stacks), strict=True)
    found = all_steps(frontier, values, node.params["length"])
    stand_ins = {
        one.serial: Variable("", None, ArrayType(*one.type[:2]), active=False) for one in frontier
    }
    results = extract(body.graph.outputs, stand_ins)  # type: ignore[arg-type]
    pairs = [
        (stand_ins[one.serial], value, flag)
        for one, (value, flag) in zip(frontier, found, strict=True)
    ]
    values += pairs
    new = make_body(
        [inner for inner, _, flag in values if not flag],
        carry,
        [inner for inner, _, flag in values if flag],
        results,
    )
    once = [outer for _, outer, flag in values if not flag]
    each = [outer for _, outer, flag in values if flag]
    return list(loop_items(node, new, [*once, *starts, *each]))


def is_worth_it(node: Operator) -> bool:
    """A loop that computes again to save memory must not keep more of it outside."""
    return node.params["length"] > 1 and not node.params["recompute"] and not is_counted(node)


def _fits(kept: Iterable[Node], node: Operator) -> bool:
    """Whether rows for all steps of these values are not too much memory."""
    row = sum(one.type.size * one.type.dtype.itemsize for one in kept)
    return row * node.params["length"] <= policy().scans.most_kept


def _up_to_products(graph: Graph, tainted: set[int]) -> set[int]:
    """The products that depend on no tainted node, and the operators they are computed from.

    What follows the last product stays in the loop, where it is fused with the rest.
    """
    tainted = set(tainted)
    products = []
    for node in graph.operators:
        if node.op.multiple or any(source.serial in tainted for source in node.inputs):
            tainted.add(node.serial)
        elif node.op is contract:
            products.append(node)
    return {node.serial for node in reachable(products) if isinstance(node, Operator)}


def all_steps(
    wanted: Sequence[Node], values: Sequence[tuple[Node, Node, bool]], length: int
) -> list[tuple[Node, bool]]:
    """Values of the body computed for all steps at once: each a node outside, and whether it has
    rows. `values` are pairs of a node in the body and one outside, with the same flag."""
    flags = [flag for _, _, flag in values]
    inner = [Variable("", None, ArrayType(*node.type[:2]), active=False) for node, _, _ in values]
    cut = {node.serial: new for (node, _, _), new in zip(values, inner, strict=True)}
    graph = Graph(inner, extract(wanted, cut))
    with Trace(keep_source=True, lazy=True) as trace:
        inputs = [trace.variable(array_type=outer.type, active=False) for _, outer, _ in values]
        found = evaluate_batched(graph, length, inputs, flags)
        nodes = [trace.node_of(value) for value, _ in found]
    places = {t.node.serial: outer for t, (_, outer, _) in zip(inputs, values, strict=True)}
    placed = extract(nodes, places)
    return [(node, flag) for node, (_, flag) in zip(placed, found, strict=True)]


# ---------------------------------------------------------------- after the loop


def sink_products(graph: Graph) -> Graph:
    """scan(total + u_t @ v_t) -> us, vs = scan(...); total + us @ vs over all steps."""
    return edit_loops(graph, _sink)


def _sink(node: Operator, used: set[int]) -> list[Node | None] | None:
    if not is_worth_it(node):
        return None
    sinking = _Sinking(node)
    return sinking.results() if sinking.sums or sinking.late else None


class _Sinking:
    """One loop, and which of its results are computed after it."""

    def __init__(self, node: Operator):
        self.node = node
        self.body: Body = node.params["body"]
        self.outputs: list[Any] = self.body.graph.outputs
        self.constants, self.carry, self.rows = self.body.split(self.body.graph.inputs)
        self.users = users_of(self.body.graph)
        self.steady = self._steady()
        # carry -> the products that are added to it, and what else is
        self.sums = self._sums()
        self.late = self._late_rows()

    def _sums(self) -> dict[int, tuple[list[Any], list[Node]]]:
        terms = {number: self._terms(number) for number in range(self.body.carry)}
        every = [term for group in terms.values() for term in group]
        products = {one.serial for one in every if self._is_heavy(one)}
        given = [*self.rows, *self.outputs[self.body.carry :]]
        given += [source for one in every if one.serial in products for source in one.inputs]
        rows = {one.serial for one in given}
        found = {}
        for number, group in terms.items():
            after = [
                one
                for one in group
                if one.serial in products or (_is_sum(one) and one.inputs[0].serial in rows)
            ]
            if after:
                done = {one.serial for one in after}
                found[number] = (after, [one for one in group if one.serial not in done])
        return found

    def _steady(self) -> set[int]:
        """What is the same at every step."""
        varying = {one.serial for one in [*self.carry, *self.rows]}
        for one in self.body.graph.operators:
            if any(source.serial in varying for source in one.inputs):
                varying.add(one.serial)
        return {one.serial for one in self.body.graph.nodes if one.serial not in varying}

    def _terms(self, number: int) -> list[Node]:
        """The terms that a step adds to a carry that nothing else reads."""
        start, terms = self.carry[number], []
        if len(self.users.get(start.serial, ())) != 1:
            return []
        shown = [one.serial for one in self.outputs]
        pending, found = [self.outputs[number]], False
        while pending:
            one = pending.pop()
            if one is start:
                found = True
                continue
            once = len(self.users.get(one.serial, ())) + shown.count(one.serial) == 1
            if isinstance(one, Operator) and one.op is add and once and is_plain(one):
                pending.extend(one.inputs)
            else:
                terms.append(one)
        return terms if found else []

    def _is_heavy(self, term: Node) -> bool:
        """A product of two values that vary, and much more work than it takes to keep them."""
        if not isinstance(term, Operator) or term.op is not contract:
            return False
        if any(source.serial in self.steady for source in term.inputs):
            return False
        labels = {
            label: length
            for part, source in zip(term.params["spec"], term.inputs, strict=False)
            for label, length in zip(part, source.type.shape, strict=True)
        }
        kept = sum(source.type.size for source in term.inputs)
        work = 2 * prod(labels.values())
        if work < policy().scans.heavy * kept or not _fits(term.inputs, self.node):
            return False
        summed = prod(n for label, n in labels.items() if label not in term.params["spec"][2])
        return summed < policy().scans.enough_terms or self._stays_near(term)

    def _stays_near(self, term: Operator) -> bool:
        """Whether what a product reads of all steps is in a near cache when the loop is over."""
        row = sum(source.type.size * source.type.dtype.itemsize for source in term.inputs)
        return row * int(self.node.params["length"]) <= policy().scans.most_near

    def _late_rows(self) -> list[int]:
        """The rows that are products, or made of products, that no carry depends on."""
        carries = []
        for number in range(self.body.carry):
            if number in self.sums:
                products, rest = self.sums[number]
                carries += [s for one in products for s in one.inputs] + rest
            else:
                carries.append(self.outputs[number])
        early = {one.serial for one in reachable(carries)}
        late = []
        for number in range(self.body.carry, len(self.outputs)):
            own = [one for one in reachable([self.outputs[number]]) if one.serial not in early]
            operations = [one.op for one in own if isinstance(one, Operator)]
            if contract in operations and not any(op.multiple for op in operations):
                late.append(number)
        self.early = early
        if late and not _fits(self._frontier([self.outputs[k] for k in late]), self.node):
            return []
        return late

    def results(self) -> list[Node | None]:
        """The new loop and what comes after it, as a node for each result of the old."""
        late = [self.outputs[number] for number in self.late]
        needed = self._frontier(late)
        for products, _ in self.sums.values():
            needed += [source for one in products for source in one.inputs]
        shown = [k for k in range(self.body.carry, len(self.outputs)) if k not in self.late]
        given = {self.outputs[k].serial: self.outputs[k] for k in shown}
        outside = {inner.serial: (inner, outer, flag) for inner, outer, flag in self._known()}
        given.update({one.serial: one for one in needed if one.serial not in outside})
        kept = [k for k in range(self.body.carry) if k not in self.sums or self.sums[k][1]]
        steps = [self._left(k) for k in kept]
        body = make_body(
            self.constants, [self.carry[k] for k in kept], self.rows, [*steps, *given.values()]
        )
        fixed, starts, stacks = self.body.split(self.node.inputs)
        items = loop_items(self.node, body, [*fixed, *[starts[k] for k in kept], *stacks])
        for one, item in zip(given.values(), items[len(kept) :], strict=True):
            outside[one.serial] = (one, item, True)
        results: list[Node | None] = [None] * len(self.outputs)
        for k, item in zip(kept, items, strict=False):
            results[k] = item
        for k, (products, _) in self.sums.items():
            terms = [self._summed(product, outside) for product in products]
            if results[k] is not None or not is_uniform(starts[k], 0):
                terms.append(results[k] or starts[k])
            results[k] = functools.reduce(lambda a, b: apply(add, a, b, params={}), terms)
        for k in shown:
            results[k] = outside[self.outputs[k].serial][1]
        if late:
            values = [outside[one.serial] for one in {n.serial: n for n in needed}.values()]
            values += [outside[c.serial] for c in self.constants if c not in needed]
            found = all_steps(late, values, self.node.params["length"])
            for k, (value, _) in zip(self.late, found, strict=True):
                results[k] = value
        return results

    def _known(self) -> list[tuple[Node, Node, bool]]:
        fixed, _, stacks = self.body.split(self.node.inputs)
        return [
            *[(i, o, False) for i, o in zip(self.constants, fixed, strict=True)],
            *[(i, o, True) for i, o in zip(self.rows, stacks, strict=True)],
        ]

    def _frontier(self, late: Sequence[Node]) -> list[Node]:
        """What the rows that are computed later need of the loop."""
        found: dict[int, Node] = {}
        pending, seen = list(late), set()
        while pending:
            one = pending.pop()
            if one.serial in seen:
                continue
            seen.add(one.serial)
            for source in one.inputs:
                if isinstance(source, Variable) or source.serial in self.early:
                    found[source.serial] = source
                else:
                    pending.append(source)
        return list(found.values())

    def _left(self, number: int) -> Node:
        """What a step still does to a carry."""
        if number not in self.sums:
            return self.outputs[number]
        total: Node = self.carry[number]
        for term in self.sums[number][1]:
            total = apply(add, total, term, params={})
        return total

    def _summed(self, term: Operator, outside: dict[int, Any]) -> Node:
        """The sum of a product or a sum over all steps."""
        inputs = [outside[source.serial][1] for source in term.inputs]
        if term.op is reduce_sum:
            axes = (0, *[axis + 1 for axis in term.params["axes"]])
            return apply(reduce_sum, *inputs, params={**term.params, "axes": axes})
        x, y, out = term.params["spec"]
        step = max(*x, *y) + 1
        spec = normal_spec((step, *x), (step, *y), out)
        return apply(contract, *inputs, params={**term.params, "spec": spec})


def _is_sum(node: Node) -> bool:
    return isinstance(node, Operator) and node.op is reduce_sum


def is_plain(node: Operator) -> bool:
    """Whether an addition neither broadcasts nor converts."""
    return all(
        (source.type.dtype, source.type.shape) == (node.type.dtype, node.type.shape)
        for source in node.inputs
    )
