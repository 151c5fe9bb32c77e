"""Forward and reverse mode over a recorded graph: tangents pushed, cotangents pulled.

Both walk the nodes that depend on the inputs, once, in order, and bind operations to whatever
the nodes hold: plain arrays are computed with, traced values are recorded into the trace around.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import DerivativeError, evaluates, explain
from ..graph import Graph, Node, Operator, reachable
from ..keeping import PLAIN
from ..ops.elementwise import add
from ..ops.indexing import gather, index
from ..ops.layout import fit
from ..ops.op import Op
from ..trace.tracer import ITEM
from ..trace.views import Views, copy_of, snapshot
from ..types import ArrayType, type_of
from ..unwarned import unwarned
from .places import Collected, collect, taken
from .plans import apply_transpose, cached_plan, jvp_plan, tangent_of, vjp_plan

# How cotangents that are plain arrays are added up; `debug_nans` looks at each sum.
add_arrays: Callable[[Any, Any], Any] = np.add
# Signatures after which a linear operation is transposed directly.
LINEAR_PLANS = 64
_APART = frozenset({ITEM, index, gather})  # operations whose cotangents come piece by piece


def pull(
    outputs: Sequence[Node], seeds: Sequence[Any], inputs: Sequence[Node], keep: bool = False
) -> list[Any]:
    """Cotangents of the inputs (None: zero) for cotangents of the outputs. Reverse mode.

    With `keep`, every node on the way keeps its cotangent as its `gradient`.
    """
    # A zero times an infinite factor is zero in a derivative, and a NaN in floating point. A
    # NaN stays one down to the inputs or is dropped on the way, so one look at the end is
    # enough: without a NaN there the quick way was right.
    if not keep:
        results = _walk_back(outputs, seeds, inputs, quick=True)
        if not any(map(_may_hold_nan, results)):
            return results
    return _walk_back(outputs, seeds, inputs, keep)


def _may_hold_nan(result: Any) -> bool:
    if type(result) is np.ndarray:
        if result.flags.c_contiguous:
            probe = np.vdot(result, result)
        else:
            probe = np.add.reduce(result, axis=None)
        return bool(probe != probe)
    return isinstance(result, np.generic) and bool(result != result)


@evaluates
def _walk_back(
    outputs: Sequence[Node],
    seeds: Sequence[Any],
    inputs: Sequence[Node],
    keep: bool = False,
    quick: bool = False,
) -> list[Any]:
    cotangents: dict[int, Any] = {}
    roots = []
    for node, seed in zip(outputs, seeds, strict=True):
        if node.active and seed is not None:
            held = cotangents.get(node.serial)
            cotangents[node.serial] = seed if held is None else add(held, seed)
            roots.append(node)
    wanted = {node.serial for node in inputs}
    # The derivative of a branch that was not taken may divide by zero; its zero wins.
    with unwarned():
        for node in reversed(reachable(roots, active_only=True)):
            serial = node.serial
            stays = keep or serial in wanted
            g = cotangents.get(serial) if stays else cotangents.pop(serial, None)
            if type(g) is Collected:
                g = g.total()
                if stays:
                    cotangents[serial] = g
            if keep:
                node.gradient = g
            if g is not None and isinstance(node, Operator):
                _pull_node(node, g, cotangents, quick)
    return [cotangents.get(node.serial) for node in inputs]


def _pull_node(node: Operator, g: Any, cotangents: dict[int, Any], quick: bool) -> None:
    inputs, op = node._inputs, node.op
    if op in _APART:
        if op is not ITEM:
            collect(node, g, cotangents)
            return
        source = inputs[0]
        held = cotangents.setdefault(source.serial, [None] * len(source.type))
        held[node.params["index"]] = g
        return
    if op.pull_rule is None:
        results = _derived_pull(node, g, quick)
    else:  # with defaults: variables that a function inside refers to are slower for all
        results = op.pull_rule(node, g, lambda k, at=inputs, c=cotangents: taken(at[k], c))
    for source, result in zip(inputs, results, strict=True):
        if result is not None and source.active:
            held = cotangents.get(source.serial)
            if held is None:
                cotangents[source.serial] = result
            elif type(held) is Collected:
                held.add(None, result)
            elif type(held) is type(result) is np.ndarray:
                cotangents[source.serial] = add_arrays(held, result)
            else:
                cotangents[source.serial] = add(held, result)


def _derived_pull(node: Operator, g: Any, quick: bool = False) -> Sequence[Any]:
    op = node.op
    active = []
    values = []
    for source in node._inputs:
        active.append(source.active)
        values.append(source.output)
    if len(op.plans) >= LINEAR_PLANS and _is_linear(op, active):
        return _linear_pull(op, node, g, active, values)
    plan, plain = cached_plan(vjp_plan, op, values, node.output, node.params, tuple(active))
    if op.multiple:
        seeds = [_zeros(t) if part is None else part for part, t in zip(g, node.type, strict=True)]
        plain = plain and PLAIN.issuperset(map(type, seeds))
        values += node.output
        values += seeds
    else:
        plain = plain and type(g) in PLAIN
        values += (node.output, g)
    if plain:
        return (plan.quick if quick else plan.careful)(*values)
    return plan(values)


def _is_linear(op: Op, active: Sequence[bool]) -> bool:
    if op.jvp is not None or op.derivative is not None:
        return False
    return all(position in op.linear for position, live in enumerate(active) if live)


def _linear_pull(
    op: Op, node: Operator, g: Any, active: Sequence[bool], values: Sequence[Any]
) -> Sequence[Any]:
    """A linear operation needs no derivation: its transpose is its pullback.

    A plan is quicker to replay, but where signatures never end (x[0], x[1], ...) each would be
    derived for a single use.
    """
    results: list[Any] = []
    for position, live in enumerate(active):
        if not live:
            results.append(None)
            continue
        own = node._inputs[position].type
        args = [*values]
        args[position] = own
        results.append(fit(apply_transpose(op, position, g, args, node.params), own))
    return results


def _zeros(array_type: ArrayType) -> np.ndarray:
    return np.zeros(array_type.shape, array_type.dtype)


@evaluates
def push(outputs: Sequence[Node], inputs: Sequence[Node], tangents: Sequence[Any]) -> list[Any]:
    """Tangents of the outputs (None: zero) for tangents of the inputs. Forward mode."""
    known: dict[int, Any] = {}
    for node, tangent in zip(inputs, tangents, strict=True):
        if tangent is not None:
            known[node.serial] = tangent
    with unwarned():
        for node in reachable(outputs, active_only=True):
            if isinstance(node, Operator):
                tangent = _push_node(node, known)
                if tangent is not None:
                    known[node.serial] = tangent
    return [known.get(node.serial) for node in outputs]


def _push_node(node: Operator, known: dict[int, Any]) -> Any:
    tangents: list[Any] = [known.get(source.serial) for source in node.inputs]
    if all(tangent is None for tangent in tangents):
        return None
    if node.op is ITEM:
        return tangents[0][node.params["index"]]
    values = [source.output for source in node.inputs]
    if node.op.push_rule is not None:
        return node.op.push_rule(node, tangents)
    op = node.op
    if op.jvp is None and op.derivative is None:
        return tangent_of(op, tangents, node.output, values, node.params)
    active = tuple([tangent is not None for tangent in tangents])
    plan, _ = cached_plan(jvp_plan, op, values, node.output, node.params, active)
    live = [tangent for tangent in tangents if tangent is not None]
    if op.multiple:
        return plan([*values, *node.output, *live])
    return plan([*values, node.output, *live])[0]


def _reverse_graph(graph: Graph, seed: Any) -> None:
    """`Graph.backward`: all gradients, kept in the nodes."""
    output = graph.outputs[0]
    if output is None or output.output is None:
        raise DerivativeError(
            explain("backward", "the graph holds no values", "Call graph.forward(...) first.")
        )
    seed = fit(seed, ArrayType(output.type.dtype, output.type.shape))
    pull([output], [seed], graph.inputs, keep=True)
    for node in graph.inputs:
        if node.gradient is None and node.type.inexact:
            node.gradient = np.zeros(node.type.shape, node.type.dtype)[()]


Graph.reverse = staticmethod(_reverse_graph)


def zero_like(value: Any) -> Any:
    """Zeros of the type of a value, as a plain array or scalar."""
    array_type = type_of(value)
    return np.zeros(array_type.shape, array_type.dtype)[()]


def released(value: Any) -> Any:
    """A result for the caller to change at will: what the derivative needs of it stays as it is."""
    return value.copy() if type(value) is np.ndarray else snapshot(value)


def owned(results: Sequence[Any], given: Sequence[Any] = ()) -> list[Any]:
    """Results as arrays of the caller's own: writable, sharing memory with nothing `given`.

    Derivatives of sums are broadcast views, and those of x + y the seed itself. Traced values are
    different objects too: a module whose parameters are one object is one with tied parameters.
    """
    taken = {id(value) for value in given}
    own = []
    for result in results:
        if type(result) is np.ndarray and (
            result.base is not None or id(result) in taken or not result.flags.writeable
        ):
            result = np.array(result)
        elif isinstance(result, Views) and id(result) in taken:
            result = copy_of(result)
        taken.add(id(result))
        own.append(result)
    return own
