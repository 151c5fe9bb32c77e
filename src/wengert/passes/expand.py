"""Operations without loops of their own, written out as the operations they are made of."""

from __future__ import annotations

from ..graph import Graph, Node, Operator
from ..trace import Trace
from .rewriting import apply, rebuild


def expand(graph: Graph) -> Graph:
    """logsumexp(x) -> log(sum(exp(x - max(x)))) + max(x), and whatever else says how."""

    def rule(node: Operator) -> Node | None:
        if (
            node.op.compose is None
            or _has_loops(node)
            or not all(s.type.dtype.kind in "biuf" for s in node.inputs)
        ):
            return None
        if any(0 in source.type.shape for source in node.inputs):
            return None  # there is no largest of no elements
        composition = _composition(node)
        return None if composition is None else _insert(composition, node)

    return rebuild(graph, rule)


def _has_loops(node: Operator) -> bool:
    loops = node.op.loops
    return bool(loops(**node.params) if callable(loops) else loops)


def _composition(node: Operator) -> Graph | None:
    """The node's operation written out; None where that would not pay."""
    with Trace(lazy=True) as trace:
        inputs = [trace.variable(array_type=source.type, active=False) for source in node.inputs]
        variables = [tracer.node for tracer in inputs]
        composed = node.op.compose(*inputs, **node.params)
        if composed is None:
            return None
        result = trace.node_of(composed)
    return Graph(variables, [result])  # type: ignore[arg-type]


def _insert(graph: Graph, place: Operator) -> Node:
    """The graph's result, computed from the inputs of `place`."""
    new: dict[int, Node] = {
        variable.serial: source for variable, source in zip(graph.inputs, place.inputs, strict=True)
    }
    for node in graph.nodes:
        if isinstance(node, Operator):
            inputs = [new[source.serial] for source in node.inputs]
            new[node.serial] = apply(node.op, *inputs, params=node.params, like=node)
            new[node.serial].source = place.source
        else:
            new.setdefault(node.serial, node)
    result = graph.outputs[0]
    assert result is not None
    return new[result.serial]
