"""A function on abstract values -> its graph, and what it does to tensors outside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import tree
from ..errors import DTypeError
from ..graph import Constant, Graph, Node, Variable
from ..ops.op import Traced
from ..trace.orders import C_ORDER, UNKNOWN
from ..trace.preparing import called
from ..trace.reaching import places_to_change
from ..trace.tracer import Trace
from ..trace.tracing import argument_names, function_name
from .arguments import Call, Leaf
from .state import UNCHANGED, Change, StatefulTrace, strip

# Results that are returned as they are, without a buffer.
STATIC_RESULTS = (bool, int, float, complex, str, bytes)


class CapturesTraced(Exception):  # noqa: N818 - steers, never seen
    """The function closes over values of a trace around it: it can only be a part of that."""


class StaticResult(NamedTuple):
    """A leaf of the result that is the same object for every call."""

    value: Any


class Captured(NamedTuple):
    """A function as a graph: inputs are the arguments, then the state that is read; outputs the
    arrays of the result, then the new contents of the state that is written."""

    graph: Graph
    structure: tree.Structure
    results: list[Any]  # for each leaf of the result its node, or a StaticResult
    changes: list[Change]
    family: Any = None  # for any length: a `passes.lengths.Family`, `graph` is its first
    # for any length: whether the function, traced at another one, is an instance of this
    alike: Callable[[Captured, int], bool] | None = None

    @property
    def read(self) -> list[Change]:
        """The state that is an input."""
        return [change for change in self.changes if change.before is not None]

    @property
    def written(self) -> list[Change]:
        """The state that is an output."""
        return [change for change in self.changes if isinstance(change.after, Node)]


def capture(
    function: Callable,
    call: Call,
    leaves: Sequence[Leaf],
    structure: tree.Structure,
    shares: bool = True,
) -> Captured:
    """Run the function once on abstract arguments of these kinds.

    Without `shares` the graph has a node for each operation, whatever the lengths are.
    """
    names = _names(function, call, len(leaves))
    places = places_to_change(function)
    recording = Trace(keep_source=True, lazy=True, places=places, shares=shares)
    with recording as trace, StatefulTrace(trace) as running:
        inputs = []
        for leaf, name in zip(leaves, names, strict=True):
            tracer = trace.variable(array_type=leaf.type, name=name, active=False)
            tracer._writable = "argument" if leaf.type.shape else None
            tracer.node.order = (UNKNOWN if leaf.turned else leaf.strides or C_ORDER,)
            inputs.append(tracer)
        variables: list[Variable] = [tracer.node for tracer in inputs]  # type: ignore[misc]
        args, kwargs = call.replace(*tree.unflatten(structure, inputs))
        leaves_out, out_structure = tree.flatten(called(function, *args, **kwargs))
        results = [_result(trace, leaf, function) for leaf in leaves_out]
        changes = running.changes()
    nodes = [result for result in results if isinstance(result, Node)]
    return _captured(function_name(function), variables, nodes, out_structure, results, changes)


def _captured(
    name: str,
    variables: list[Variable],
    nodes: list[Node],
    out_structure: tree.Structure,
    results: list[Any],
    changes: list[Change],
) -> Captured:
    outputs = nodes + [change.after for change in changes if isinstance(change.after, Node)]
    used = {node.serial for node in Graph(variables, outputs).nodes}
    for change in changes:
        if change.before is not None and change.before.serial not in used:
            change.before = None
    changes = [c for c in changes if _matters(c)]
    state = [change.before for change in changes if change.before is not None]
    graph = Graph(variables + state, outputs, None, None, name)
    for node in graph.nodes:
        if isinstance(node, Constant) and isinstance(node.output, Traced):
            raise CapturesTraced
    return Captured(graph, out_structure, results, changes)


def _matters(change: Change) -> bool:
    observed = change.kind == "grad" and change.present is not None
    return change.before is not None or change.after is not UNCHANGED or observed


def _names(function: Callable, call: Call, count: int) -> list[str]:
    args, kwargs = call.dynamic()
    if call.statics():
        names = [f"x{number}" for number in range(len(tree.leaves(args)))]
    else:
        names = argument_names(function, args)
    for name in sorted(kwargs):
        leaves = len(tree.leaves(kwargs[name]))
        names += [name] if leaves == 1 else [f"{name}.{number}" for number in range(leaves)]
    return names[:count]


def _result(trace: Trace, leaf: Any, function: Callable) -> Any:
    leaf = strip(leaf, trace)
    if type(leaf) in STATIC_RESULTS:
        return StaticResult(leaf)
    if isinstance(leaf, (np.ndarray, np.generic, Traced)):
        return trace.node_of(leaf, function_name(function))
    if hasattr(leaf, "__array__"):
        return trace.node_of(np.array(leaf))
    raise DTypeError(
        f"{function_name(function)}: the result holds {leaf!r} of type {type(leaf).__name__}, "
        "expected arrays, numbers, strings or None in tuples, lists, dicts and dataclasses. "
        "Return the arrays, and make the object outside the compiled function."
    )
