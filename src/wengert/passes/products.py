"""Products whose result is needed with its axes in another order are computed in that order."""

from __future__ import annotations

from ..graph import Graph, Node, Operator
from ..ops.contract import contract
from ..ops.layout import permute
from ..types import ArrayType
from .rewriting import rebuild, users_of


def turn_products(graph: Graph) -> Graph:
    """permute(contract(x, y)) -> contract(x, y) with its axes in that order."""
    turns = _turns(graph)
    # the rule sees rebuilt nodes, in the order of those that the turns are found for
    before = iter(graph.operators)

    def rule(node: Operator) -> Node | None:
        old = next(before)
        if old.serial in turns:
            return _turned(node, turns[old.serial])
        if old.op is permute and old.inputs[0].serial in turns:
            return node.inputs[0]
        return None

    return rebuild(graph, rule)


def _turns(graph: Graph) -> dict[int, tuple[int, ...]]:
    """The order that is wanted of products that are needed in one order alone, by serial."""
    users = users_of(graph)
    shown = {node.serial for node in graph.outputs if node is not None}
    found = {}
    for node in graph.operators:
        readers = users.get(node.serial, [])
        alone = len(readers) == 1 and node.serial not in shown
        if node.op is contract and alone and readers[0].op is permute:
            found[node.serial] = readers[0].params["axes"]
    return found


def _turned(product: Operator, axes: tuple[int, ...]) -> Operator:
    x, y, out = product.params["spec"]
    spec = (x, y, tuple(out[axis] for axis in axes))
    shape = tuple(product.type.shape[axis] for axis in axes)
    kind = ArrayType(product.type.dtype, shape)
    made = Operator(contract, product.inputs, {"spec": spec}, None, kind)
    made.source = product.source
    return made
