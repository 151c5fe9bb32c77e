"""Run a function once on traced arguments."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import tree
from ..errors import DTypeError
from ..graph import Graph, Node
from ..ops.op import Traced
from ..types import Function, lost_meaning
from .preparing import called
from .reaching import places_to_change
from .tracer import Trace, Tracer

_LEAVES = (np.ndarray, np.generic, bool, int, float, complex)


def check_leaf(value: Any, operation: str, name: object) -> Any:
    """A leaf that can be traced: an array or a number; anything else is a clear error."""
    if isinstance(value, Traced):
        return unmade(value)
    if isinstance(value, _LEAVES):
        if isinstance(value, np.ndarray):
            _check_array(value, operation, name)
        return value
    if hasattr(value, "__array__"):
        return check_leaf(np.asarray(value), operation, name)
    raise DTypeError(
        f"{operation}: argument {name!r} holds {value!r} of type {type(value).__name__}, expected "
        "arrays or numbers. Pass other things by closure or functools.partial."
    )


def unmade(value: Any) -> Any:
    """The plain array that NumPy made in a function being traced; all else as it is."""
    constant = value._constant() if isinstance(value, Traced) else None
    return value if constant is None else constant


def _check_array(value: np.ndarray, operation: str, name: object) -> None:
    if value.dtype.kind not in "biufc":
        raise DTypeError(
            f"{operation}: argument {name!r} is an array of dtype {value.dtype}, expected "
            "numbers. Convert it with astype."
        )
    kind: Any = type(value)
    lost = None if kind is np.ndarray else lost_meaning(kind)
    if lost is not None:
        raise DTypeError(f"{operation}: argument {name!r} is {lost[0]}. {lost[1]}")


def argument(trace: Trace, value: Any, name: str = "", active: bool = True) -> Tracer:
    """An input tracer for a concrete value. The caller's arrays must not be written to."""
    dtype = getattr(value, "dtype", None)
    inexact = isinstance(value, (float, complex)) if dtype is None else dtype.kind in "fc"
    tracer = trace.variable(value, None, name, active and inexact)
    if isinstance(value, np.ndarray) or (isinstance(value, Traced) and value.type.shape != ()):
        tracer._writable = "argument"
    return tracer


def traced_call(
    trace: Trace,
    function: Function,
    args: Sequence[Any],
    kwargs: dict[str, Any] | None = None,
) -> tuple[list[Node], tree.Structure]:
    """Call the function inside the running trace; the nodes of its result and their structure."""
    result = called(function, *args, **(kwargs or {}))
    leaves, structure = tree.flatten(result)
    checked = [check_leaf(leaf, function_name(function), "result") for leaf in leaves]
    return [trace.node_of(leaf) for leaf in checked], structure


def trace(function: Function, *args: Any) -> Graph:
    """Run `function` once on traced arguments and return its `Graph`.

    The arguments may be any trees of arrays and numbers.

    >>> print(trace(lambda x, y: (x + y) * x, 2.0, 3.0))  # doctest: +ELLIPSIS
    <lambda>(x: f64*, y: f64*):
      %0: f64* = add(x, y)...
      %1: f64* = multiply(%0, x)...
      return %1
    """
    leaves, structure = tree.flatten(args)
    names = argument_names(function, args)
    with Trace(keep_source=True, places=places_to_change(function)) as recording:
        inputs = [
            argument(recording, check_leaf(leaf, "trace", name), name)
            for leaf, name in zip(leaves, names, strict=True)
        ]
        outputs, out_structure = traced_call(recording, function, tree.unflatten(structure, inputs))
    variables: list[Any] = [tracer.node for tracer in inputs]
    return Graph(variables, outputs, structure, out_structure, function_name(function))


def argument_names(function: Function, args: Sequence[Any]) -> list[str]:
    """A name for every leaf of the arguments, from the function's signature."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names = []
    for position, arg in enumerate(args):
        name = f"arg{position}"
        if position < len(parameters) and parameters[position].kind.name.startswith("POSITIONAL"):
            name = parameters[position].name
        count = len(tree.leaves(arg))
        names += [name] if count == 1 else [f"{name}.{leaf}" for leaf in range(count)]
    return names


class LeafName:
    """The name of one leaf of the arguments, worked out only if an error message shows it."""

    __slots__ = ("args", "function", "number")

    def __init__(self, function: Function, args: Sequence[Any], number: int):
        self.function, self.args, self.number = function, args, number

    def __repr__(self) -> str:
        return repr(argument_names(self.function, self.args)[self.number])


class ArgumentName(LeafName):
    """The name of one argument."""

    __slots__ = ()

    def __repr__(self) -> str:
        before = sum(len(tree.leaves(arg)) for arg in self.args[: self.number])
        names = argument_names(self.function, self.args)
        return repr(names[before].split(".")[0] if before < len(names) else f"arg{self.number}")


def function_name(function: Function) -> str:
    """The name of a function for messages and printing."""
    return getattr(function, "__name__", type(function).__name__)
