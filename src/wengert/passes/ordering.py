"""The order of what is computed again: as late as it was asked for."""

from __future__ import annotations

from ..graph import Constant, Graph, Node, Operator
from ..graph.rewrite import New, copied, rewrite, with_nodes
from ..ops.layout import again
from ..types import ArrayType
from .rewriting import full


def put_in_order(graph: Graph) -> Graph:
    """again(x, after) -> again(x, 0), behind `after`.

    Until here that order was a matter of what depends on what. Now it becomes the order of the
    nodes, all of them new, and `after` is no longer an argument, for which there would have to be
    samples, lanes and strides.
    """
    if not any(map(_waits, graph.operators)):
        return graph

    def change(node: Node, new: New) -> Node | None:
        if not isinstance(node, Operator):
            return None
        inputs = [new[source.serial] for source in node.inputs]
        if _waits(node):
            inputs[1] = full(0, ArrayType(node.type.dtype, ()))
        return copied(node, inputs)

    return with_nodes(graph, rewrite(graph.nodes, change))


def _waits(node: Operator) -> bool:
    return node.op is again and not isinstance(node.inputs[1], Constant)
