"""Forward mode: `jvp` and `linearize`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, TypeVarTuple

from .. import tree
from ..errors import StructureError
from ..graph import Graph
from ..trace import Trace
from .modes import owned
from .plans import strong
from .reverse import Recording, match_tangents

R = TypeVar("R")
Primals = TypeVarTuple("Primals")


def jvp(f: Callable[..., R], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[R, R]:
    """``(f(*primals), tangent)``: the directional derivative along `tangents`.

    >>> jvp(lambda x, y: x * y, (2.0, 5.0), (1.0, 0.0))
    (np.float64(10.0), np.float64(5.0))
    """
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise StructureError(
            "jvp: primals and tangents must be tuples with one entry for each argument, got "
            f"{type(primals).__name__} and {type(tangents).__name__}. Write jvp(f, (x,), (t,))."
        )
    recording = Recording(f, primals, "jvp")
    given = match_tangents(
        tuple(tangents), recording.inputs, recording.in_structure, "jvp", "tangent"
    )
    out = owned(recording.push(given), given)
    return recording.value(), tree.unflatten(recording.out_structure, out)


def linear_graph(recording: Recording) -> Graph:
    """The derivative at the point as a graph from tangents to tangents."""
    with Trace() as trace:
        tangents = [
            trace.variable(array_type=strong(node.type)) if node.type.inexact else None
            for node in recording.inputs
        ]
        live = [tangent for tangent in tangents if tangent is not None]
        variables = [tangent.node for tangent in live]
        outputs = [trace.node_of(t) for t in recording.push(tangents)]
    return Graph(variables, outputs, name="linear")  # type: ignore[arg-type]


def linearize(f: Callable[[*Primals], R], *primals: *Primals) -> tuple[R, Callable[[*Primals], R]]:
    """``(f(*primals), jvp_at_point)``: the derivative at the point as a linear function.

    The function is run once; the linear function repeats only the linear part.

    >>> value, derivative = linearize(lambda x: x * x, 3.0)
    >>> derivative(1.0), derivative(10.0)
    (np.float64(6.0), np.float64(60.0))
    """
    recording = Recording(f, primals, "linearize")
    graph = linear_graph(recording)

    def jvp_at_point(*tangents: *Primals) -> R:
        given = match_tangents(
            tangents, recording.inputs, recording.in_structure, "linearize", "tangent"
        )
        live = [tangent for tangent in given if tangent is not None]
        tangent: R = tree.unflatten(recording.out_structure, owned(graph.evaluate(live), live))
        return tangent

    return recording.value(), jvp_at_point
