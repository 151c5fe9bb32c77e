"""Products whose result is needed with its axes in another order are computed in that order."""

from __future__ import annotations

from collections import Counter

from ..graph import Graph, Node, Operator
from ..ops.contract import contract
from ..ops.layout import permute
from .rewriting import apply, rebuild


def turn_products(graph: Graph) -> Graph:
    """permute(contract(x, y)) -> contract(x, y) with its axes in that order."""
    users = Counter(source.serial for node in graph.operators for source in node.inputs)
    users.update(node.serial for node in graph.outputs if node is not None)
    # the rule sees rebuilt nodes, in the order of those that the users are counted for
    before = iter(graph.operators)

    def rule(node: Operator) -> Node | None:
        old = next(before)
        if old.op is not permute or users[old.inputs[0].serial] > 1:
            return None  # as it is it is needed too
        product = node.inputs[0]
        if not isinstance(product, Operator) or product.op is not contract:
            return None
        x, y, out = product.params["spec"]
        turned = tuple(out[axis] for axis in node.params["axes"])
        return apply(contract, *product.inputs, params={"spec": (x, y, turned)}, like=node)

    return rebuild(graph, rule)
