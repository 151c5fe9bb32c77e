"""Operations with a program inside: `checkpoint` and `custom_rule`.

Both record one operator for a whole function. `checkpoint` keeps nothing but the function's
inputs and runs it again when derivatives are wanted. `custom_rule` replaces the derivative of
the function by one that the user gives.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

from .. import tree
from ..errors import AbstractValueError, DerivativeError, ShapeError, StructureError
from ..graph import Constant, Graph, Node, Operator
from ..keeping import read_only
from ..ops.layout import again, reduce_sum
from ..ops.op import Op, Traced
from ..trace import Trace, called, current_trace
from ..trace.reaching import places_to_change
from ..trace.tracing import argument, check_leaf, function_name, unmade
from ..trace.views import snapshot
from ..types import ArrayType, Function, type_of
from .batching import vmap
from .modes import pull, push, zero_like
from .plans import strong, transpose_linear

P = ParamSpec("P")
R = TypeVar("R")

# ---------------------------------------------------------------- checkpoint


def checkpoint(f: Callable[P, R]) -> Callable[P, R]:
    """`f`, but its intermediate values are computed again for the derivative, not stored.

    >>> import wengert as wg
    >>> wg.grad(checkpoint(lambda x: wg.numpy.sin(x) ** 2))(0.5)
    np.float64(0.8414709848078965)
    """

    @functools.wraps(f)
    def checkpointed(*args: P.args, **kwargs: P.kwargs) -> R:
        if current_trace() is None:
            return f(*args, **kwargs)
        every, structure = tree.flatten((args, kwargs))
        places = [place for place, leaf in enumerate(every) if _is_array(leaf)]
        leaves = [snapshot(unmade(every[place])) for place in places]

        def of_arrays(*arrays: Any) -> Any:
            filled = list(every)
            for place, array in zip(places, arrays, strict=True):
                filled[place] = array
            args, kwargs = tree.unflatten(structure, filled)
            return called(f, *args, **kwargs)

        try:
            graph = _inner_graph(of_arrays, leaves, abstract=True)
        except AbstractValueError:  # the function looks at values: run it on them
            graph = _inner_graph(of_arrays, leaves, abstract=False)
        captured = [node for node in graph.nodes if _is_captured(node)]
        outputs = call(*leaves, *[node.output for node in captured], graph=_closed(graph, captured))
        result: R = tree.unflatten(graph.out_structure, outputs)  # type: ignore[arg-type]
        return result

    return checkpointed


def _is_array(leaf: Any) -> bool:
    """Whether a derivative may flow; integers, flags and names are passed on as they are."""
    return isinstance(leaf, (np.ndarray, np.inexact, float, complex, Traced))


def _inner_graph(f: Function, leaves: Sequence[Any], abstract: bool) -> Graph:
    with Trace(places=places_to_change(f)) as trace:
        inputs = [argument(trace, leaf) for leaf in leaves]
        variables = [tracer.node for tracer in inputs]
        if abstract:
            _forget_values(variables)
        out_leaves, out_structure = tree.flatten(f(*inputs))
        nodes = [trace.node_of(check_leaf(leaf, "checkpoint", "result")) for leaf in out_leaves]
    graph = Graph(variables, nodes, out_structure=out_structure)  # type: ignore[arg-type]
    _forget_values(node for node in graph.nodes if not isinstance(node, Constant))
    return graph


def _forget_values(nodes: Iterable[Node]) -> None:
    """Keep the types alone: the values are what a checkpoint does not store."""
    for node in nodes:
        node.type  # noqa: B018  # found from the value on first use
        node.output = None


def _is_captured(node: Any) -> bool:
    return isinstance(node, Constant) and isinstance(node.output, Traced)


class ClosedGraph:
    """A graph with its captured values as further inputs. Compared by identity as a param."""

    def __init__(self, graph: Graph, captured: Sequence[Any]):
        self.graph = graph
        self.captured = [node.serial for node in captured]

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        """The outputs for the inputs, followed by the captured values."""
        count = len(self.graph.inputs)
        env = dict(zip(self.captured, values[count:], strict=True))
        for variable, value in zip(self.graph.inputs, values[:count], strict=True):
            env[variable.serial] = value
        for node in self.graph.nodes:
            if node.serial in env:
                continue
            if isinstance(node, Operator):
                env[node.serial] = node.apply([env[s.serial] for s in node.inputs])
            else:
                env[node.serial] = node.output
        return tuple(env[node.serial] for node in self.graph.outputs)  # type: ignore[union-attr]


def _closed(graph: Graph, captured: Sequence[Any]) -> ClosedGraph:
    return ClosedGraph(graph, captured)


def _result_types(function: Function, types: Sequence[ArrayType]) -> tuple[ArrayType, ...]:
    """The types of a function's results, found by tracing it on abstract arguments."""
    with Trace() as trace:
        inputs = [trace.variable(array_type=t) for t in types]
        return tuple(strong(type_of(leaf)) for leaf in function(*inputs))


def _rerun_pull(node: Operator, g: Sequence[Any], take: Any) -> list[Any]:
    """Run the program again at the node's inputs and pull the cotangents through it.

    Not before these are there: a compiled program would do both at once, and keep everything.
    """
    first = next(part for part in g if part is not None)
    with Trace() as trace:
        inputs = [argument(trace, again(source.output, first)) for source in node.inputs]
        variables = [tracer.node for tracer in inputs]
        outputs = [trace.node_of(leaf) for leaf in node.params["graph"](*inputs)]
    return pull(outputs, g, variables)


def _rerun_push(node: Operator, tangents: Sequence[Any]) -> list[Any]:
    with Trace() as trace:
        inputs = [argument(trace, source.output) for source in node.inputs]
        variables = [tracer.node for tracer in inputs]
        outputs = [trace.node_of(leaf) for leaf in node.params["graph"](*inputs)]
    return push(outputs, variables, tangents)


class BatchedCall:
    """A program of one sample as a program of a batch."""

    def __init__(self, inner: Function, size: int, flags: Sequence[bool]):
        self.inner = inner
        self.size = size
        self.flags = tuple(flags)

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        """The outputs for a batch."""
        axes = tuple(0 if flag else None for flag in self.flags)
        return tuple(vmap(self.inner, in_axes=axes)(*values))


# A program as one operation; its derivative runs it again.
call: Op = Op(
    "call",
    lambda *values, graph: graph(*values),
    lambda *types, graph: _result_types(graph, types),
    batch=lambda size, flags, *args, graph: call(*args, graph=BatchedCall(graph, size, flags)),
    multiple=True,
    absent={"samples": "its program is made by checkpoint; tests/transforms/test_calls.py"},
)
call.pull_rule = _rerun_pull
call.push_rule = _rerun_push

# ---------------------------------------------------------------- custom_rule


def custom_rule(
    jvp: Function | None = None, vjp: Function | None = None
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorator that gives a function derivatives of one's own: either rule, or both.

    The rules have the form of `wengert.jvp` and `wengert.vjp`: ``jvp(primals, tangents)`` returns
    ``(out, tangent_out)``, and ``vjp(*primals)`` returns ``(out, pullback)``, where the pullback
    takes a cotangent of the result to a tuple of cotangents (None: zero). The other mode is
    derived by transposing the rule that is given.

    >>> import numpy as np
    >>> import wengert as wg
    >>> def log1pexp_vjp(x):
    ...     return np.logaddexp(x, 0), lambda g: (g / (1 + np.exp(-x)),)
    >>> @custom_rule(vjp=log1pexp_vjp)
    ... def log1pexp(x):
    ...     return np.log1p(np.exp(x))
    >>> wg.grad(log1pexp)(0.0)
    np.float64(0.5)
    """
    if jvp is None and vjp is None:
        raise StructureError("custom_rule: got no rule. Give jvp=, vjp=, or both.")
    if (jvp is not None and not callable(jvp)) or (vjp is not None and not callable(vjp)):
        raise StructureError("custom_rule: rules must be functions. Write @custom_rule(jvp=rule).")

    def decorate(f: Function) -> Any:
        @functools.wraps(f)
        def with_rule(*args: Any, **kwargs: Any) -> Any:
            if kwargs:  # the rules take all arguments by position
                bound = inspect.signature(f).bind(*args, **kwargs)
                bound.apply_defaults()
                args = bound.args
            leaves, structure = tree.flatten(args)
            leaves = [check_leaf(leaf, function_name(f), "argument") for leaf in leaves]
            if not any(isinstance(leaf, Traced) for leaf in leaves):
                return f(*args)
            rule = Rule(f, jvp, vjp, structure)
            outputs = custom(*leaves, rule=rule)
            return tree.unflatten(rule.out_structure, outputs)

        return with_rule

    return decorate


class Rule:
    """A function of flat leaves together with its own derivatives."""

    def __init__(
        self,
        f: Function,
        jvp: Function | None,
        vjp: Function | None,
        structure: tree.Structure,
    ):
        self.f = f
        self.jvp = jvp
        self.vjp = vjp
        self.structure = structure
        self.out_structure: Any = None

    def __call__(self, *leaves: Any) -> tuple[Any, ...]:
        """The results as flat leaves."""
        out, self.out_structure = tree.flatten(called(self.f, *self._own(leaves)))
        out = list(map(unmade, out))
        self._check_captures(leaves, out)
        return tuple(map(snapshot, out))

    def _own(self, leaves: Sequence[Any]) -> Any:
        """The arguments for the user's functions, which must not write to what is recorded."""
        return tree.unflatten(self.structure, map(read_only, leaves))

    def _check_captures(self, leaves: Sequence[Any], out: Sequence[Any]) -> None:
        """A result of a higher level than the arguments depends on a captured traced value."""
        level = max((leaf._trace.level for leaf in leaves if isinstance(leaf, Traced)), default=0)
        for leaf in out:
            if isinstance(leaf, Traced) and leaf._trace.level > level:
                raise DerivativeError(
                    f"custom_rule: {function_name(self.f)} uses a traced value from outside, "
                    "whose derivative its rule cannot know. Pass the value as an argument."
                )

    def tangents(self, values: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        """Result tangents by the user's jvp, or by transposing the user's vjp."""
        if self.jvp is None:
            return self._transposed_pullback(values, tangents)
        out, tangent = self.jvp(self._own(values), self._own(tangents))
        return self._checked(tangent, tree.leaves(out), "jvp", "tangent")

    def cotangents(self, values: Sequence[Any], g: Sequence[Any]) -> list[Any]:
        """Argument cotangents by the user's vjp, or by transposing the user's jvp."""
        if self.vjp is None:
            return self._transposed_jvp(values, g)
        args = self._own(values)
        _, pullback = self.vjp(*args)
        found = pullback(tree.unflatten(self.out_structure, map(read_only, g)))
        found = found if isinstance(found, tuple) else (found,)
        if len(found) == len(args):  # None stands for the zeros of a whole argument
            pairs = zip(found, args, strict=True)
            found = tuple(tree.map(zero_like, arg) if c is None else c for c, arg in pairs)
        return self._checked(found, values, "vjp", "cotangent")

    def _checked(self, found: Any, values: Sequence[Any], rule: str, what: str) -> list[Any]:
        leaves = list(map(unmade, tree.leaves(found)))
        if len(leaves) != len(values):
            raise StructureError(
                f"custom_rule: the {rule} of {function_name(self.f)} gave {len(leaves)} "
                f"{what}s, expected {len(values)}. Return one for each value."
            )
        for leaf, value in zip(leaves, values, strict=True):
            if type_of(leaf).shape != type_of(value).shape:
                raise ShapeError(
                    f"custom_rule: the {rule} of {function_name(self.f)} gave a {what} of shape "
                    f"{type_of(leaf).shape}, expected {type_of(value).shape}."
                )
        return leaves

    def _transposed_pullback(self, values: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        outputs = self(*values)
        with Trace() as trace:
            seeds = [trace.variable(array_type=strong(type_of(out))) for out in outputs]
            results = [as_tracer(trace, g) for g in self.cotangents(values, seeds)]
            found = transpose_linear(trace, results, tangents, seeds)
            return self._lowered(trace, found, outputs)

    def _transposed_jvp(self, values: Sequence[Any], g: Sequence[Any]) -> list[Any]:
        with Trace() as trace:
            inputs = [trace.variable(array_type=strong(type_of(value))) for value in values]
            results = [as_tracer(trace, t) for t in self.tangents(values, inputs)]
            found = transpose_linear(trace, results, g, inputs)
            return self._lowered(trace, found, values)

    def _lowered(self, trace: Trace, found: Sequence[Any], like: Sequence[Any]) -> list[Any]:
        """Cotangents computed inside a helper trace, as values of the trace around it."""
        return [
            zero_like(value) if g is None else (g.value if _belongs(trace, g) else g)
            for g, value in zip(found, like, strict=True)
        ]


def as_tracer(trace: Trace, value: Any) -> Any:
    """A value as a traced value of this trace."""
    return value if _belongs(trace, value) else trace.constant(value)


def _belongs(trace: Trace, value: Any) -> bool:
    return isinstance(value, Traced) and value._trace is trace


def _custom_pull(node: Operator, g: Sequence[Any], take: Any) -> list[Any]:
    values = [source.output for source in node.inputs]
    seeds = [
        zero_like(out) if part is None else part for out, part in zip(node.output, g, strict=True)
    ]
    found: list[Any] = node.params["rule"].cotangents(values, seeds)
    return found


def _custom_push(node: Operator, tangents: Sequence[Any]) -> list[Any]:
    values = [source.output for source in node.inputs]
    filled = [zero_like(v) if t is None else t for v, t in zip(values, tangents, strict=True)]
    found: list[Any] = node.params["rule"].tangents(values, filled)
    return found


def _batch_custom(size: int, flags: Sequence[bool], *args: Any, rule: Rule) -> Any:
    axes = tuple(0 if flag else None for flag in flags)
    flat = tree.flatten(tuple(args))[1]

    def batched(*leaves: Any) -> Any:
        return list(vmap(rule, in_axes=axes)(*leaves))

    def batched_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        def one(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
            return list(rule.tangents(primals, tangents))

        return batched(*primals), vmap(one, in_axes=(axes, axes))(tuple(primals), tuple(tangents))

    def batched_vjp(*primals: Any) -> Any:
        def one(primals: Sequence[Any], g: Any) -> Any:
            return tuple(rule.cotangents(primals, g))

        def pullback(g: Any) -> Any:
            found = vmap(one, in_axes=(axes, 0))(tuple(primals), list(g))
            pairs = zip(found, flags, strict=True)
            return tuple(c if flag else reduce_sum(c, axes=(0,)) for c, flag in pairs)

        return batched(*primals), pullback

    outer = Rule(batched, rule.jvp and batched_jvp, rule.vjp and batched_vjp, flat)
    return custom(*args, rule=outer)


# A function with derivatives of the user's own.
custom = Op(
    "custom",
    lambda *values, rule: rule(*values),
    lambda *types, rule: _result_types(rule, types),
    batch=_batch_custom,
    multiple=True,
    absent={"samples": "its rules are the user's; tests/transforms/test_calls.py"},
)
custom.pull_rule = _custom_pull
custom.push_rule = _custom_push
