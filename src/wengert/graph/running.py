"""Graphs run for arguments as users give them: at once, or node by node, forward and backward."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import tree
from ..errors import GraphError, ShapeError, StructureError, evaluates
from ..keeping import keep
from ..types import type_of, weaken
from .graph import Graph
from .nodes import Operator, Variable


def call(graph: Graph, args: tuple[Any, ...]) -> Any:
    """The result for new arguments of the structure that was traced."""
    return _rebuild(graph, graph.evaluate(_leaves(graph, args)))


@evaluates
def forward(graph: Graph, args: tuple[Any, ...]) -> Any:
    """Evaluate and keep every node's `output`."""
    if args:
        for variable, value in zip(graph.inputs, _leaves(graph, args), strict=True):
            variable.output = keep(value)
    for node in graph.nodes:
        if isinstance(node, Operator):
            node.output = node.apply([source.output for source in node.inputs])
        node.gradient = None
    return _rebuild(graph, [None if node is None else node.output for node in graph.outputs])


def backward(graph: Graph, seed: Any) -> None:
    """Fill in every node's `gradient`."""
    if len(graph.outputs) != 1 or graph.outputs[0] is None:
        raise GraphError(
            f"backward: the graph has {len(graph.outputs)} outputs, expected one. "
            "Trace a function that returns a single value."
        )
    if graph.outputs[0].type.shape != type_of(seed).shape:
        raise GraphError(
            f"backward: the output is {graph.outputs[0].type}, the seed {type_of(seed)}; "
            "expected the same shape. Give `seed` an array of the output's shape."
        )
    for node in graph.nodes:
        node.gradient = None
    type(graph).reverse(graph, seed)  # type: ignore[misc]


def _leaves(graph: Graph, args: tuple[Any, ...]) -> list[Any]:
    if graph.in_structure is None:
        if len(args) != len(graph.inputs):
            raise StructureError(
                f"{graph.name}: got {len(args)} arguments, expected {len(graph.inputs)}."
            )
        leaves = list(args)
    else:
        leaves = tree.flatten_like(graph.in_structure, args, graph.name)
    for node, value in zip(graph.inputs, leaves, strict=True):
        if node.type.shape != type_of(value).shape:
            raise ShapeError(
                f"{graph.name}: argument {node.name!r} has shape {type_of(value).shape}, the "
                f"graph was traced for {node.type.shape}. "
                "Trace the function again for the new shape."
            )
    return [_as_traced(node, value) for node, value in zip(graph.inputs, leaves, strict=True)]


def _rebuild(graph: Graph, values: list[Any]) -> Any:
    # the caller may write to the result, which nodes hold
    values = [np.array(v) if type(v) is np.ndarray else v for v in values]
    if graph.out_structure is None:
        return tuple(values)
    return tree.unflatten(graph.out_structure, values)


def _as_traced(node: Variable, value: Any) -> Any:
    """Where a Python number was traced, a number of NumPy counts as one: it must not promote."""
    plain = isinstance(value, np.generic) or type(value) is np.ndarray
    return weaken(value) if plain and node.type.weak else value
