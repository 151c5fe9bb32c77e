"""Whole derivative matrices: `jacobian`, `jacfwd`, `jacrev`, `hessian`, `hvp`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

from .. import tree
from ..errors import DTypeError, StructureError
from ..graph import Node
from ..ops.layout import permute, reshape
from ..trace import called
from ..trace.tracing import function_name
from ..types import Function
from .batching import evaluate_batched, vmap
from .forward import jvp, linear_graph
from .modes import owned, pull, zero_like
from .reverse import Recording, argument_numbers, argument_positions, grad

P = ParamSpec("P")
X = TypeVar("X")

MODES = ("auto", "forward", "reverse")


def jacobian(
    f: Callable[P, Any], argnums: int | Sequence[int] = 0, mode: str = "auto"
) -> Callable[P, Any]:
    """The Jacobian: for each result of shape R and argument of shape A an array of shape R + A.

    `mode` is ``"forward"`` (one pass for each input element, batched), ``"reverse"`` (one for
    each output element) or ``"auto"``, which takes the fewer passes.

    >>> import numpy as np
    >>> jacobian(lambda x: x**2)(np.array([1.0, 2.0, 3.0]))
    array([[2., 0., 0.],
           [0., 4., 0.],
           [0., 0., 6.]])
    """
    if mode not in MODES:
        raise StructureError(f"jacobian: got mode {mode!r}, expected one of {', '.join(MODES)}.")

    function: Function = f

    @functools.wraps(f)
    def jacobian_of_f(*args: P.args, **kwargs: P.kwargs) -> Any:
        given, single = argument_numbers(argnums)
        numbers = argument_positions(given, len(args), "jacobian")
        chosen = tuple(args[number] for number in numbers)

        def restricted(*values: Any) -> Any:
            full: list[Any] = list(args)
            for number, value in zip(numbers, values, strict=True):
                full[number] = value
            return called(function, *full, **kwargs)

        recording = Recording(restricted, chosen, "jacobian")
        _check_types(recording, function_name(f))
        forward = mode == "forward" or (mode == "auto" and _forward_is_cheaper(recording))
        blocks = _forward_blocks(recording) if forward else _reverse_blocks(recording)
        return _assemble(recording, blocks, single=single)

    return jacobian_of_f


def jacfwd(f: Callable[P, Any], argnums: int | Sequence[int] = 0) -> Callable[P, Any]:
    """The Jacobian by forward mode; see `jacobian`."""
    return jacobian(f, argnums, "forward")


def jacrev(f: Callable[P, Any], argnums: int | Sequence[int] = 0) -> Callable[P, Any]:
    """The Jacobian by reverse mode; see `jacobian`."""
    return jacobian(f, argnums, "reverse")


def hessian(f: Callable[P, Any], argnums: int | Sequence[int] = 0) -> Callable[P, Any]:
    """The matrix of second derivatives of a scalar function: forward over reverse.

    >>> import numpy as np
    >>> hessian(lambda x: x[0] ** 2 * x[1])(np.array([1.0, 2.0]))
    array([[4., 2.],
           [2., 0.]])
    """
    return jacfwd(grad(f, argnums), argnums)


def hvp(f: Callable[[X], Any], x: X, v: X) -> X:
    """The Hessian of a scalar function times a vector, without the Hessian.

    >>> import numpy as np
    >>> hvp(lambda x: x[0] ** 2 * x[1], np.array([1.0, 2.0]), np.array([1.0, 0.0]))
    array([4., 2.])
    """
    product: X = jvp(grad(f), (x,), (v,))[1]
    return product


def _check_types(recording: Recording, name: str) -> None:
    for node in recording.inputs:
        if node.type.dtype.kind != "f":
            raise DTypeError(
                f"jacobian: an argument of {name} is {node.type}, expected real floats. "
                "Convert it with astype(float), or leave it out of argnums."
            )
    for node in recording.outputs:
        if node.type.dtype.kind == "c":
            raise DTypeError(
                f"jacobian: {name} returned {node.type}, expected real values. "
                "Return real and imaginary parts."
            )


def _size(nodes: Sequence[Node]) -> int:
    return sum(node.type.size for node in nodes)


def _forward_is_cheaper(recording: Recording) -> bool:
    return _size(recording.inputs) <= _size(recording.outputs)


def _basis(node: Node) -> np.ndarray:
    size = node.type.size
    return np.eye(size, dtype=node.type.dtype).reshape((size, *node.type.shape))


def _forward_blocks(recording: Recording) -> list[list[Any]]:
    """Block [output][input] of shape output + input, one batched push for each input."""
    graph = linear_graph(recording)
    columns = []
    for number, node in enumerate(recording.inputs):
        size = node.type.size
        values = [
            _basis(other) if position == number else zero_like(other.output)
            for position, other in enumerate(recording.inputs)
        ]
        flags = [position == number for position in range(len(values))]
        results = evaluate_batched(graph, size, values, flags)
        columns.append(
            [
                _batch_last(value, out, node) if flag else _zero_block(out, node)
                for (value, flag), out in zip(results, recording.outputs, strict=True)
            ]
        )
    return [list(row) for row in zip(*columns, strict=True)]


def _batch_last(value: Any, out: Node, node: Node) -> Any:
    rank = len(out.type.shape)
    moved = permute(value, axes=(*range(1, rank + 1), 0))
    return reshape(moved, shape=out.type.shape + node.type.shape)


def _reverse_blocks(recording: Recording) -> list[list[Any]]:
    blocks = []
    for number, out in enumerate(recording.outputs):
        if not out.active or out.type.size == 0:
            blocks.append([_zero_block(out, node) for node in recording.inputs])
            continue
        rows = vmap(_pullback_of(recording, number))(_basis(out))
        blocks.append(
            [
                reshape(row, shape=out.type.shape + node.type.shape)
                for row, node in zip(rows, recording.inputs, strict=True)
            ]
        )
    return blocks


def _pullback_of(recording: Recording, number: int) -> Function:
    def pullback(seed: Any) -> list[Any]:
        found = pull([recording.outputs[number]], [seed], recording.inputs)
        return [
            zero_like(node.output) if g is None else g
            for node, g in zip(recording.inputs, found, strict=True)
        ]

    return pullback


def _zero_block(out: Node, node: Node) -> np.ndarray:
    dtype = out.type.dtype if out.type.inexact else node.type.dtype
    return np.zeros(out.type.shape + node.type.shape, dtype)


def _assemble(recording: Recording, blocks: list[list[Any]], single: bool) -> Any:
    rows = []
    for row in blocks:
        arguments = tree.unflatten(recording.in_structure, owned(row))
        rows.append(arguments[0] if single else arguments)
    return tree.unflatten(recording.out_structure, rows)
