"""A graph once more with some of its nodes replaced: the one walk that all rewriting is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import is_

from .graph import Graph
from .nodes import Node, Operator

New = dict[int, Node]  # what stands for a node now, by its serial
Change = Callable[[Node, New], Node | None]


def rewrite(nodes: Iterable[Node], change: Change, new: New | None = None) -> New:
    """What stands for each of the nodes, which come inputs first.

    `change(node, new)` gives that, or None for the node itself, on what stands for its inputs. What
    is in `new` already stays.
    """
    new = {} if new is None else new
    for node in nodes:
        if node.serial not in new:
            made = change(node, new)
            new[node.serial] = on_new_inputs(node, new) if made is None else made
    return new


def on_new_inputs(node: Node, new: New) -> Node:
    """A node on what stands for its inputs; itself where these are what they were."""
    if not isinstance(node, Operator):
        return node
    inputs = tuple(new[source.serial] for source in node.inputs)
    return node if all(map(is_, inputs, node.inputs)) else copied(node, inputs)


def copy_of(node: Node, new: New) -> Node:
    """A copy of a node, on what stands for its inputs; what has no inputs is itself."""
    if not isinstance(node, Operator):
        return node
    return copied(node, [new[source.serial] for source in node.inputs])


def copied(node: Operator, inputs: Iterable[Node]) -> Operator:
    """A new operator like one that there is, on other inputs."""
    made = Operator(node.op, tuple(inputs), node.params, None, node.type)
    made.source = node.source
    return made


def with_nodes(graph: Graph, new: New) -> Graph:
    """The graph whose outputs are what stands for them now; the same where nothing has changed."""
    outputs = [None if node is None else new[node.serial] for node in graph.outputs]
    if all(map(is_, outputs, graph.outputs)):
        return graph
    return Graph(graph.inputs, outputs, graph.in_structure, graph.out_structure, graph.name)
