"""The machinery of the passes: rebuild a graph node by node, replacing some.

A rule sees an operator with its new inputs and gives the node that stands for it: a new one, one
of the inputs, or None to keep the operator. Rebuilding drops what nothing uses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..graph import Constant, Graph, Node, Operator
from ..graph.rewrite import New, on_new_inputs, rewrite, with_nodes
from ..lines import hand_on
from ..types import ArrayType

Rule = Callable[[Operator], Node | None]


def rebuild(graph: Graph, rule: Rule, instead: Mapping[int, Operator] | None = None) -> Graph:
    """The graph with the rule applied to every operator, inputs first.

    Before that an operator with a place in `instead`, by its serial, makes way for the one there,
    which reads nodes of the old graph.
    """

    def change(old: Node, new: New) -> Node:
        node = on_new_inputs(instead.get(old.serial, old) if instead else old, new)
        if isinstance(node, Operator):
            made = rule(node) or node
            if made is not node:
                hand_on(node.source, made)
            return made
        return compact(node) if isinstance(node, Constant) else node

    return with_nodes(graph, rewrite(graph.nodes, change))


def users_of(graph: Graph) -> dict[int, list[Operator]]:
    """The operators that read each value, by its serial, once for each time they do."""
    users: dict[int, list[Operator]] = {}
    for node in graph.operators:
        for source in node.inputs:
            users.setdefault(source.serial, []).append(node)
    return users


def apply(op: Any, *inputs: Node, params: dict[str, Any], like: Node | None = None) -> Operator:
    """A new operator node; its type comes from `like` or from the type rule."""
    if like is not None:
        array_type = like.type
    else:
        array_type = op.type_rule(*[source.type for source in inputs], **params)
    node = Operator(op, inputs, params, None, array_type)
    node.source = like.source if like is not None else None
    return node


def compact(node: Constant) -> Constant:
    """zeros((1000, 10)) -> one number, read everywhere: such a constant takes no memory."""
    value = node.output
    if type(value) is not np.ndarray or value.size < 2 or not any(value.strides):
        return node
    few = slice(None, None, max(1, value.size // 64))  # every pass asks: these settle most arrays
    same = value.flat[0] == value.flat[-1] and _all_equal(value.flat[few])
    same = same and _all_equal(np.ascontiguousarray(value).reshape(value.size))
    return full(value.flat[0], node.type) if same else node


def _all_equal(line: np.ndarray) -> bool:
    """Whether all elements are one, compared by their bits: 0.0 is not -0.0."""
    bits = line.view(f"u{min(line.itemsize, 8)}").reshape(line.size, -1)
    return bool(np.all(bits == bits[0]))


def same_type(node: Node, array_type: ArrayType) -> bool:
    """Whether a node has this type, weak or not: what reads it instead keeps its own dtype."""
    return bool(node.type == array_type)


def full(value: Any, array_type: ArrayType) -> Constant:
    """A constant of one number, as a broadcast view: it takes no memory."""
    scalar = np.asarray(value, array_type.dtype)
    return Constant(np.broadcast_to(scalar, array_type.shape), array_type)
