"""Operations without loops of their own, written out as the operations they are made of.

What an operation is made of its entry says as `compose`; without that its NumPy evaluation is
traced. So is a program inside of an operation (`checkpoint`, `custom_rule`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..graph import Graph, Node, Operator
from ..graph.rewrite import New, copy_of, rewrite
from ..ops.layout import convert
from ..ops.op import Op
from ..trace import Trace
from ..trace.tracer import ITEM
from ..types import type_of
from .rewriting import rebuild


def expand(graph: Graph, within: frozenset[Op] = frozenset()) -> Graph:
    """logsumexp(x) -> log(sum(exp(x - max(x)))) + max(x), and whatever else says how.

    `within` are the operations whose parts these are: nothing is made of itself.
    """
    several: dict[int, Sequence[Node]] = {}  # the results of operations that have several

    def rule(node: Operator) -> Node | None:
        if node.op is ITEM and node.inputs[0].serial in several:
            return several[node.inputs[0].serial][node.params["index"]]
        if node.op in within or not _is_composed(node):
            return None
        made = composition(node, node.op.compose)
        if made is None:
            return None
        results = insert(expand(made, within | {node.op}), node)
        if not node.op.multiple:
            return results[0]
        several[node.serial] = results
        return None

    return rebuild(graph, rule)


def _is_composed(node: Operator) -> bool:
    if node.op.compose is None or _has_loops(node):
        return False
    if node.op.pull_rule is not None:
        return True  # a program is the same for all values
    kinds = "biufc" if node.op.composes_complex else "biuf"
    return all(source.type.dtype.kind in kinds for source in node.inputs)


def _has_loops(node: Operator) -> bool:
    loops = node.op.loops(**node.params) if callable(node.op.loops) else node.op.loops
    return bool(loops) and (not hasattr(loops, "kinds") or node.type.dtype.kind in loops.kinds)


def composition(node: Operator, compose: Callable[..., Any]) -> Graph | None:
    """The node's operation written out; None where that would not pay, or cannot be done."""
    types = node.type if node.op.multiple else (node.type,)
    with Trace(lazy=True) as trace, np.errstate(all="ignore"):
        inputs = [trace.variable(array_type=source.type, active=False) for source in node.inputs]
        variables = [tracer.node for tracer in inputs]
        try:
            composed = compose(*inputs, **node.params)
        except Exception:
            # it looks at values, takes the largest of no elements, calls what is not NumPy's:
            # whatever is wrong with it, its evaluation will tell
            return None
        if composed is None:
            return None
        results = composed if node.op.multiple else (composed,)
        if any(type_of(x).shape != kind.shape for x, kind in zip(results, types, strict=True)):
            return None
        nodes = [
            trace.node_of(x if type_of(x).dtype == kind.dtype else convert(x, dtype=kind.dtype))
            for x, kind in zip(results, types, strict=True)
        ]
    graph = Graph(variables, nodes)  # type: ignore[arg-type]
    return None if any(inner.op is node.op for inner in graph.operators) else graph


def insert(graph: Graph, place: Operator) -> list[Node]:
    """The graph's results, computed from the inputs of `place`."""

    def change(node: Node, new: New) -> Node:
        made = copy_of(node, new)
        if isinstance(made, Operator):
            made.source = place.source
        return made

    given: New = {v.serial: source for v, source in zip(graph.inputs, place.inputs, strict=True)}
    new = rewrite(graph.nodes, change, given)
    return [new[result.serial] for result in graph.outputs if result is not None]
