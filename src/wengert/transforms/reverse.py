"""Reverse mode: `vjp`, `grad`, `value_and_grad`."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, TypeVarTuple, overload

import numpy as np

from .. import tree
from ..errors import DTypeError, ShapeError, StructureError
from ..graph import Node
from ..ops import logic
from ..ops.layout import fit
from ..ops.op import Traced
from ..trace import Trace, called
from ..trace.reaching import places_to_change
from ..trace.tracer import lazily
from ..trace.tracing import ArgumentName, LeafName, argument, check_leaf, function_name
from ..types import ArrayType, Function, type_of
from .modes import owned, pull, push, released, zero_like

X = TypeVar("X")
R = TypeVar("R")
Aux = TypeVar("Aux")
P = ParamSpec("P")
Primals = TypeVarTuple("Primals")


# What is differentiated by is given by position; where `argnums` names it, its type is not known.
@overload
def value_and_grad(
    f: Callable[Concatenate[X, P], tuple[R, Aux]], *, has_aux: Literal[True]
) -> Callable[Concatenate[X, P], tuple[tuple[R, Aux], X]]: ...
@overload
def value_and_grad(
    f: Callable[Concatenate[X, P], R], *, has_aux: Literal[False] = False
) -> Callable[Concatenate[X, P], tuple[R, X]]: ...
@overload
def value_and_grad(
    f: Callable[P, Any], argnums: int | Sequence[int], has_aux: bool = False
) -> Callable[P, tuple[Any, Any]]: ...
def value_and_grad(
    f: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Function:
    """A function that returns ``(f(...), gradient)``.

    `argnums` names the positional arguments to differentiate by (one, or a tuple); the gradient
    has the structure of the argument. With `has_aux`, `f` returns ``(value, extra)`` and the
    result is ``((value, extra), gradient)``.

    >>> value_and_grad(lambda x: x * x)(3.0)
    (np.float64(9.0), np.float64(6.0))
    """
    name = function_name(f)
    numbers, single = argument_numbers(argnums)

    @functools.cache
    def proof() -> Any:
        from ..trace.proving import Proof  # needed where an array is large

        return Proof(f)

    @functools.wraps(f)
    def value_and_gradient(*args: Any, **kwargs: Any) -> Any:
        with Trace(places=places_to_change(f, args, kwargs)) as trace:
            trace.call = proof, args, kwargs
            traced, inputs, rebuild = _differentiate_by(trace, f, args, numbers, single)
            result = called(f, *traced, **kwargs)
            output, aux = _split_aux(result, has_aux, name)
            node = trace.node_of(_check_scalar(output, name))
            aux = lower(trace, aux) if has_aux else None
        seed = lazily(node.output, node.type.dtype.type(1))
        cotangents = pull([node], [seed], inputs)
        gradient = rebuild(owned(filled(inputs, cotangents), trace.taken))
        value = strong_value(node)
        return ((value, aux), gradient) if has_aux else (value, gradient)

    return value_and_gradient


@overload
def grad(
    f: Callable[Concatenate[X, P], tuple[Any, Aux]], *, has_aux: Literal[True]
) -> Callable[Concatenate[X, P], tuple[X, Aux]]: ...
@overload
def grad(
    f: Callable[Concatenate[X, P], Any], *, has_aux: Literal[False] = False
) -> Callable[Concatenate[X, P], X]: ...
@overload
def grad(
    f: Callable[P, Any], argnums: int | Sequence[int], has_aux: bool = False
) -> Callable[P, Any]: ...
def grad(f: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Function:
    """The gradient of a scalar function, with the structure of the argument.

    >>> import numpy as np
    >>> grad(lambda x: np.sum(np.sin(x) * x))(np.array([0.0, np.pi]))
    array([ 0.        , -3.14159265])

    With `has_aux`, `f` returns ``(value, extra)`` and the result is ``(gradient, extra)``.
    """
    both = value_and_grad(f, argnums, has_aux)

    @functools.wraps(f)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, result = both(*args, **kwargs)
        return (result, value[1]) if has_aux else result

    return gradient


class Recording:
    """A function run once at a point: input and output nodes, which hold their values."""

    def __init__(self, f: Function, primals: Sequence[Any], operation: str):
        leaves, self.in_structure = tree.flatten(tuple(primals))
        with Trace(places=places_to_change(f)) as trace:
            trace.stores = operation != "jvp"
            tracers = [
                argument(trace, check_leaf(leaf, operation, LeafName(f, primals, number)))
                for number, leaf in enumerate(leaves)
            ]
            self.inputs: list[Node] = [tracer.node for tracer in tracers]
            out = called(f, *tree.unflatten(self.in_structure, tracers))
            out_leaves, self.out_structure = tree.flatten(out)
            self.outputs = [
                trace.node_of(check_leaf(leaf, operation, "result")) for leaf in out_leaves
            ]

    def value(self) -> Any:
        """The result at the point."""
        values = [released(strong_value(node)) for node in self.outputs]
        return tree.unflatten(self.out_structure, values)

    def push(self, tangents: Sequence[Any]) -> list[Any]:
        """Output tangents for flat input tangents; zeros are filled in."""
        return filled(self.outputs, push(self.outputs, self.inputs, tangents))


def filled(nodes: Sequence[Node], found: Sequence[Any]) -> list[Any]:
    """Derivatives of nodes, with zeros for None."""
    pairs = zip(nodes, found, strict=True)
    return [zero_like(node.output) if one is None else one for node, one in pairs]


def vjp(f: Callable[[*Primals], R], *primals: *Primals) -> tuple[R, Callable[[R], tuple[*Primals]]]:
    """``(f(*primals), pullback)``: the pullback takes a cotangent of the result to cotangents
    of the arguments, as a tuple.

    >>> out, pullback = vjp(lambda x, y: x * y, 2.0, 5.0)
    >>> pullback(1.0)
    (np.float64(5.0), np.float64(2.0))
    """
    recording = Recording(f, primals, "vjp")

    def pullback(cotangent: Any) -> Any:
        nodes, structure = recording.outputs, recording.out_structure
        seeds = match_tangents(cotangent, nodes, structure, "pullback", "cotangent")
        cotangents = filled(recording.inputs, pull(nodes, seeds, recording.inputs))
        return tree.unflatten(recording.in_structure, owned(cotangents, seeds))

    return recording.value(), pullback


def stop_gradient(x: X) -> X:
    """The value of an array (or of every array in a tree), with no derivative.

    >>> grad(lambda x: x * stop_gradient(x))(3.0)
    np.float64(3.0)
    """
    stopped: X = tree.map(logic.stop_gradient, x)
    return stopped


def match_tangents(
    given: Any, nodes: Sequence[Node], structure: tree.Structure, operation: str, what: str
) -> list[Any]:
    """The leaves of a tangent or cotangent, checked against the values they belong to."""
    leaves, own = tree.flatten(given)
    if not own.fits(structure):
        raise StructureError(
            f"{operation}: the {what} has the structure {own}, expected {structure}. "
            f"Give the {what} the same structure as the value it belongs to."
        )
    return [
        _match_leaf(leaf, node, operation, what) for leaf, node in zip(leaves, nodes, strict=True)
    ]


def _match_leaf(leaf: Any, node: Node, operation: str, what: str) -> Any:
    target = node.type
    leaf_type = type_of(check_leaf(leaf, operation, what))
    if leaf_type.shape != target.shape:
        raise ShapeError(
            f"{operation}: the {what} has shape {leaf_type.shape}, expected {target.shape}. "
            f"Give the {what} the same shape as the value it belongs to."
        )
    if not target.inexact:
        return None
    return fit(leaf, ArrayType(target.dtype, target.shape))


def _differentiate_by(
    trace: Trace,
    f: Function,
    args: tuple[Any, ...],
    numbers: Sequence[int],
    single: bool,
) -> tuple[list[Any], list[Node], Function]:
    """Trace the arguments of these numbers; the other arguments stay as they are."""
    traced = list(args)
    inputs: list[Node] = []
    structures = []
    for position in argument_positions(numbers, len(args), "grad"):
        leaves, structure = tree.flatten(args[position])
        label = ArgumentName(f, args, position)
        tracers = [
            argument(trace, _check_inexact(check_leaf(leaf, "grad", label), label))
            for leaf in leaves
        ]
        inputs += [tracer.node for tracer in tracers]
        structures.append(structure)
        traced[position] = (
            tracers[0] if structure is tree.LEAF else tree.unflatten(structure, tracers)
        )

    def rebuild(gradients: list[Any]) -> Any:
        if single and structures[0] is tree.LEAF:
            return gradients[0]
        parts, start = [], 0
        for structure in structures:
            parts.append(tree.unflatten(structure, gradients[start : start + structure.leaf_count]))
            start += structure.leaf_count
        return parts[0] if single else tuple(parts)

    return traced, inputs, rebuild


def argument_numbers(argnums: Any) -> tuple[tuple[int, ...], bool]:
    """The numbers that `argnums` gives, and whether it is a single one."""
    if hasattr(argnums, "__index__"):
        return (operator.index(argnums),), True
    return tuple(operator.index(number) for number in argnums), False


def argument_positions(numbers: Sequence[int], count: int, operation: str) -> list[int]:
    """The positions that `argnums` names, counted from the front, or a clear error."""
    for number in numbers:
        if not -count <= number < count:
            raise StructureError(
                f"{operation}: argnums names argument {number}, but {count} positional arguments "
                "were given. Pass the arguments to differentiate by position."
            )
    positions = [number % count for number in numbers]
    if len(positions) > 1 and len(set(positions)) != len(positions):
        raise StructureError(
            f"{operation}: argnums {tuple(numbers)} names the same argument twice. "
            "Name each argument once."
        )
    return positions


def _check_inexact(value: Any, name: object) -> Any:
    if type(value) is np.ndarray and value.dtype.kind in "fc":
        return value
    array_type = type_of(value)
    if not array_type.inexact:
        raise DTypeError(
            f"grad: argument {name!r} is {array_type}, expected a float or complex array. "
            "Convert it with astype(float), or leave it out of argnums."
        )
    return value


def _split_aux(result: Any, has_aux: bool, name: str) -> tuple[Any, Any]:
    if not has_aux:
        return result, None
    if not (isinstance(result, tuple) and len(result) == 2):
        raise StructureError(
            f"grad: {name} returned {type(result).__name__}, expected a pair (value, extra) "
            "because has_aux=True."
        )
    return result


def _check_scalar(output: Any, name: str) -> Any:
    structure = tree.LEAF if isinstance(output, Traced) else tree.flatten(output)[1]
    if structure is not tree.LEAF:
        raise StructureError(
            f"grad: {name} returned {structure}, expected one scalar. Use has_aux=True for extra "
            "results, or wg.jacobian or wg.vjp for several outputs."
        )
    check_leaf(output, name, "result")
    array_type = type_of(output)
    if array_type.shape != ():
        raise ShapeError(
            f"grad: {name} returned {array_type}, expected a scalar. Use wg.jacobian or wg.vjp "
            "for a function with array output, or sum the result."
        )
    if array_type.dtype.kind != "f":
        raise DTypeError(
            f"grad: {name} returned {array_type}, expected a real float. "
            "Return a float, such as the real part or the absolute value."
        )
    return output


def strong_value(node: Node) -> Any:
    """The value of a result node; Python numbers become NumPy scalars."""
    value = node.output
    if isinstance(value, (bool, int, float, complex)):
        return node.type.dtype.type(value)
    return value


def lower(trace: Trace, result: Any) -> Any:
    """A tree of results with the tracers of this trace replaced by their values."""

    def lowered(leaf: Any) -> Any:
        is_own = getattr(leaf, "_trace", None) is trace
        return owned([strong_value(leaf.node)], trace.taken)[0] if is_own else leaf

    return tree.map(lowered, result)
