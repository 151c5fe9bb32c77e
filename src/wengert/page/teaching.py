"""A run with numbers: the value and the adjoint of every node, to be stepped through.

Forward, each node gets its value, inputs first. Backward, beginning with 1 at the output, each node
gets its adjoint: the derivative of the output by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..graph import Graph, Node, Operator, Variable, reachable
from ..lines import in_detail
from ..types import ArrayType, Typed
from .graphs import Graphs, first_of_floats, value_of

_MOST_NUMBERS = 24  # of an array, that are shown
_MOST_ELEMENTS = 4_000_000  # of all nodes together: a run is for small inputs
_MOST_NODES = 1500


def run(graph: Graph, values: Sequence[Any], graphs: Graphs) -> dict[str, Any] | None:
    """Values and adjoints of what the value of a function is computed from; None: too large, or
    nothing is computed."""
    output = _output(graph)
    if output is None:
        return None
    part = Graph(_inputs(graph, output), [output], None, None, graph.name)
    known = {node.serial: value for node, value in zip(graph.inputs, values, strict=True)}
    sizes = sum(getattr(node.type, "size", 1) for node in part.nodes)
    if sizes > _MOST_ELEMENTS or len(part.nodes) > _MOST_NODES:
        return None
    again, recorded = _traced(part, [known[node.serial] for node in part.inputs])
    if output.type.dtype.kind == "f":
        again.backward(np.ones(output.type.shape, output.type.dtype)[()])
    stage = graphs.stage(again)
    nodes = {node.serial: node for node in again.nodes}
    stage["nodes"] = [serial for serial in stage["nodes"] if serial in nodes]  # no inner ones
    return {
        **stage,
        "scalar": output.type.shape == (),
        "exact": output.type.dtype.kind != "f",  # integers have no derivative
        "values": {serial: _shown(nodes[serial].output) for serial in stage["nodes"]},
        "adjoints": {
            serial: _shown(nodes[serial].gradient)
            for serial in stage["nodes"]
            if nodes[serial].gradient is not None
        },
        "steps": recorded,
    }


def _output(graph: Graph) -> Node | None:
    """The value, also where only its derivative is returned; else the first result."""
    outputs = [node for node in graph.outputs if isinstance(node, Operator)]
    plain = [node for node in outputs if isinstance(node.type, ArrayType)]
    found = value_of(graph) or _differentiated(graph) or first_of_floats(outputs)
    return found or next(iter(plain), None)


def _differentiated(graph: Graph) -> Node | None:
    """The value whose derivative a graph has, if it is computed from the inputs of the graph."""
    inputs, seen = {node.serial for node in graph.inputs}, set()
    for node in reversed(graph.operators):
        value = getattr(node.source, "differentiated", None)
        while value is not None and value.serial not in seen:
            seen.add(value.serial)
            leaves = [one for one in reachable([value]) if isinstance(one, Variable)]
            if isinstance(value, Operator) and all(one.serial in inputs for one in leaves):
                return value
            value = getattr(value.output, "node", None)  # what it was outside of that mode
    return None


def _inputs(graph: Graph, output: Node) -> list[Variable]:
    used = {node.serial for node in reachable([output])}
    return [node for node in graph.inputs if node.serial in used]


def _traced(part: Graph, values: Sequence[Any]) -> tuple[Graph, list[int]]:
    """The part once more, each node with its value; and its nodes in the order of evaluation."""
    from ..trace import Trace

    with in_detail(), Trace(keep_source=True) as trace:
        inputs: list[Any] = []
        for node, value in zip(part.inputs, values, strict=True):
            number = np.asarray(value, node.type.dtype)[()]
            inputs.append(trace.variable(number, name=node.name))
        (result,) = part.evaluate(inputs)
        graph = Graph([one.node for one in inputs], [trace.node_of(result)], None, None, part.name)
    order = [node.serial for node in graph.nodes if isinstance(node, Operator)]
    return graph, order


def _shown(value: Any) -> dict[str, Any]:
    """A value as text: numbers, or what is to be said of many."""
    if isinstance(value, (tuple, list)):
        return {"text": ", ".join(_shown(part)["text"] for part in value if part is not None)}
    if isinstance(value, Typed):
        return {"text": str(value)}
    array = np.asarray(value)
    if array.ndim == 0:
        return {"text": f"{array.item():.6g}" if array.dtype.kind == "f" else str(array.item())}
    text = np.array2string(
        array, precision=4, threshold=_MOST_NUMBERS, edgeitems=2, separator=", ", max_line_width=80
    )
    found = {"text": text}
    if array.size > _MOST_NUMBERS and array.dtype.kind == "f":
        with np.errstate(all="ignore"):
            found["about"] = f"from {array.min():.4g} to {array.max():.4g}, mean {array.mean():.4g}"
    return found
