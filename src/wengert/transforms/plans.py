"""Derived rules: what forward and reverse mode do at one operation, worked out once and kept.

An operation states its tangent (`jvp`, `derivative` or `linear`) and, if it is linear, its
transpose. From these two its pullback is derived by tracing the tangent on abstract values,
which gives a small graph that is linear in the tangents, and transposing that graph. The result
is a short list of operations; it depends only on the types, so it is derived once for each
signature and then replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import DerivativeError, explain
from ..graph import Constant, Graph, Node, Operator, reachable
from ..keeping import PLAIN
from ..ops.elementwise import add, scale
from ..ops.layout import fit
from ..ops.op import Op, Traced
from ..trace import Trace, Tracer
from ..trace.tracer import ITEM
from ..types import ArrayType, Function, is_weak, type_of, weaken

PLANS_PER_OPERATION = 4096
# Values whose class says all about their type.
_SCALARS = frozenset({bool, int, float, complex, np.float64, np.float32, np.int64, np.bool_})


class Replay:
    """A graph flattened to steps over numbered slots: quick to replay.

    On plain values the steps are replayed as Python code of one line each. It comes in two
    kinds: careful, and quick, which takes the chain rule's product `scale` for a plain one and
    `unless` for its last argument. The two differ only where the quick one gives a NaN; see `pull`.
    """

    __slots__ = ("careful", "constants", "inputs", "outputs", "quick", "sources", "steps", "types")

    def __init__(self, graph: Graph):
        slots = {node.serial: slot for slot, node in enumerate(graph.inputs)}
        inputs = set(slots)
        self.inputs = len(graph.inputs)
        self.constants: list[Any] = []
        constants = [node for node in graph.nodes if isinstance(node, Constant)]
        for constant in constants:
            slots[constant.serial] = len(slots)
            self.constants.append(constant.output)
        # what to call on traced values, what on plain ones, where its arguments are
        self.steps: list[tuple[Function, Function, tuple[int, ...], dict[str, Any]]] = []
        self.types: list[Any] = []
        self.sources: list[str | None] = []
        for node in graph.nodes:
            if isinstance(node, Operator) and node.serial not in inputs:
                sources = tuple(slots[source.serial] for source in node.inputs)
                slots[node.serial] = len(slots)
                functions = (node.op, node.op.evaluate)
                if is_weak(node.type):
                    functions = tuple(map(_then_weaken, functions))  # type: ignore[assignment]
                self.steps.append((*functions, sources, node.params))
                self.types.append(node.type)
                self.sources.append(node.source)
        self.outputs = [None if node is None else slots[node.serial] for node in graph.outputs]
        # on plain values; written when it is first called
        self.quick: Callable[..., list[Any]] = lambda *values: self._write(True)(*values)
        self.careful: Callable[..., list[Any]] = lambda *values: self._write(False)(*values)

    def __call__(self, values: Sequence[Any]) -> list[Any]:
        """The outputs for flat inputs, whatever they are; None stays None."""
        for value in values:
            if type(value) not in PLAIN and isinstance(value, Traced):
                return self._apply(values)
        return self.careful(*values)

    def _write(self, quick: bool) -> Function:
        from .replaying import as_function  # traced values alone need none

        function = as_function(self, quick)
        setattr(self, "quick" if quick else "careful", function)
        return function

    def _apply(self, values: Sequence[Any]) -> list[Any]:
        """Replay on values some of which are traced."""
        env = [*values, *self.constants]
        for apply, _, sources, params in self.steps:
            env.append(apply(*[env[slot] for slot in sources], **params))
        return [None if slot is None else env[slot] for slot in self.outputs]


def _then_weaken(function: Function) -> Function:
    return lambda *args, **params: weaken(function(*args, **params))


def tangent_of(
    op: Op, tangents: Sequence[Any], ans: Any, args: Sequence[Any], params: dict[str, Any]
) -> Any:
    """The tangent of an operation's result; tangents and result are None where they are zero."""
    if callable(op.jvp):
        result = op.jvp(tangents, ans, *args, **params)
        if op.multiple or result is None:
            return result
        return fit(result, type_of(ans))
    total = None
    for position, tangent in enumerate(tangents):
        if tangent is None:
            continue
        term = _tangent_term(op, position, tangent, ans, args, params)
        if term is not None:
            term = fit(term, type_of(ans))
            total = term if total is None else add(total, term)
    return total


def _tangent_term(
    op: Op, position: int, t: Any, ans: Any, args: Sequence[Any], params: dict[str, Any]
) -> Any:
    if op.jvp is not None:
        rule = op.jvp[position]  # type: ignore[index]
        return rule and rule(t, ans, *args, **params)
    if op.derivative is not None:
        rule = op.derivative[position]
        return rule and scale(t, rule(ans, *args, **params))
    if position in op.linear:
        return op(*args[:position], t, *args[position + 1 :], **params)
    raise missing_derivative(op)


def missing_derivative(op: Op) -> DerivativeError:
    """The error for an operation that has no derivative rule."""
    reason = op.absent.get("jvp", "no rule is defined")
    return DerivativeError(
        explain(
            op.name,
            f"has no derivative: {reason}",
            "Use wg.stop_gradient on its argument, or wg.custom_rule to define one.",
        )
    )


def transpose_linear(
    trace: Trace, outputs: Sequence[Tracer | None], seeds: Sequence[Any], inputs: Sequence[Tracer]
) -> list[Any]:
    """Cotangents of the `inputs` for cotangents `seeds` of the `outputs`.

    The nodes between are active exactly where they are linear in the inputs.
    """
    cotangents: dict[int, Any] = {}
    roots = []
    for output, seed in zip(outputs, seeds, strict=True):
        if output is not None and output.node.active and seed is not None:
            _accumulate(cotangents, output.node, seed)
            roots.append(output.node)
    for node in reversed(reachable(roots, active_only=True)):
        if isinstance(node, Operator) and node.serial in cotangents:
            _transpose_node(trace, node, cotangents.pop(node.serial), cotangents)
    return [cotangents.get(tracer.node.serial) for tracer in inputs]


def _accumulate(cotangents: dict[int, Any], node: Node, g: Any) -> None:
    held = cotangents.get(node.serial)
    cotangents[node.serial] = g if held is None else add(held, g)


def _transpose_node(trace: Trace, node: Operator, g: Any, cotangents: dict[int, Any]) -> None:
    if node.op is ITEM:
        _collect_item(node, g, cotangents)
        return
    for position, source in enumerate(node.inputs):
        if not source.active:
            continue
        args = [s.type if s.active else trace.wrap(s) for s in node.inputs]
        result = apply_transpose(node.op, position, g, args, node.params)
        _accumulate(cotangents, source, fit(result, source.type))


def _collect_item(node: Operator, g: Any, cotangents: dict[int, Any]) -> None:
    source = node.inputs[0]
    held = cotangents.setdefault(source.serial, [None] * len(source.type))
    index = node.params["index"]
    held[index] = g if held[index] is None else add(held[index], g)


def apply_transpose(
    op: Op, position: int, g: Any, args: Sequence[Any], params: dict[str, Any]
) -> Any:
    """The cotangent of one argument of a linear operation."""
    if op.transpose is None:
        raise DerivativeError(
            explain(
                op.name,
                "has no transpose: a derivative rule applied it to a tangent",
                "Write the jvp rule with linear operations, or give custom_rule a vjp.",
            )
        )
    if callable(op.transpose):
        return op.transpose(g, position, *args, **params)
    rule = op.transpose[position]
    if rule is None:
        raise DerivativeError(
            explain(op.name, f"is not linear in argument {position}", "Check the jvp rule.")
        )
    return rule(g, *args, **params)


def vjp_plan(
    op: Op, types: Sequence[ArrayType], ans: Any, params: dict[str, Any], active: tuple[Any, ...]
) -> Replay:
    """Inputs: the arguments, the result(s), the cotangent(s). Outputs: argument cotangents."""
    with Trace() as trace:
        primals = [trace.variable(array_type=t, active=False) for t in types]
        results = _result_variables(trace, op, ans)
        seeds = _result_variables(trace, op, ans)
        tangents = [
            trace.variable(array_type=strong(t)) if live else None
            for t, live in zip(types, active, strict=True)
        ]
        inputs = [*primals, *results, *seeds]
        variables = [tracer.node for tracer in inputs]
        value = tuple(results) if op.multiple else results[0]
        out = tangent_of(op, tangents, value, primals, params)
        outs = list(out or [None] * len(results)) if op.multiple else [out]
        live = [t for t in tangents if t is not None]
        cotangents = iter(transpose_linear(trace, outs, seeds, live))
        outputs = [None if t is None else next(cotangents) for t in tangents]
        nodes = [None if g is None else trace.node_of(g) for g in outputs]
    return Replay(Graph(variables, nodes))  # type: ignore[arg-type]


def jvp_plan(
    op: Op, types: Sequence[ArrayType], ans: Any, params: dict[str, Any], active: tuple[Any, ...]
) -> Replay:
    """Inputs: the arguments, the result(s), the live tangents. Outputs: the result tangent(s)."""
    with Trace() as trace:
        primals = [trace.variable(array_type=t, active=False) for t in types]
        results = _result_variables(trace, op, ans)
        tangents = [
            trace.variable(array_type=strong(t)) if live else None
            for t, live in zip(types, active, strict=True)
        ]
        inputs = [*primals, *results, *[t for t in tangents if t is not None]]
        variables = [tracer.node for tracer in inputs]
        value = tuple(results) if op.multiple else results[0]
        out = tangent_of(op, tangents, value, primals, params)
        outs = list(out or [None] * len(results)) if op.multiple else [out]
        nodes = [None if t is None else trace.node_of(t) for t in outs]
    return Replay(Graph(variables, nodes))  # type: ignore[arg-type]


def strong(array_type: ArrayType) -> ArrayType:
    """The type of a tangent: the same, but never weak."""
    return ArrayType(array_type.dtype, array_type.shape)


def _result_variables(trace: Trace, op: Op, ans: Any) -> list[Tracer]:
    types = ans if op.multiple else (ans,)
    return [trace.variable(array_type=strong(t), active=False) for t in types]


def cached_plan(
    make: Callable[..., Replay],
    op: Op,
    values: Sequence[Any],
    ans: Any,
    params: dict[str, Any],
    active: tuple[Any, ...],
) -> tuple[Replay, bool]:
    """The program for this signature, derived on first use; and whether the values are plain."""
    signature: list[Any] = [make, active]
    plain = True
    for value in values:
        kind = type(value)
        if kind is np.ndarray:
            signature.append(value.dtype)
            signature.append(value.shape)
        elif kind in _SCALARS:
            signature.append(kind)
        else:
            signature.append(type_of(value))
            plain = plain and not isinstance(value, Traced)
    key = (*signature, *params.values()) if params else tuple(signature)
    plan = op.plans.get(key)
    if plan is None:
        if len(op.plans) >= PLANS_PER_OPERATION:
            op.plans.clear()
        types = [type_of(value) for value in values]
        plan = op.plans[key] = make(op, types, type_of(ans), params, active)
    return plan, plain
