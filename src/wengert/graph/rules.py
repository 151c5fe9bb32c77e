"""The rules a graph must keep, checked after every transform in the tests."""

from __future__ import annotations

from typing import Any

from ..errors import GraphError
from ..types import type_of
from .graph import Graph
from .nodes import Constant, Node, Operator, Variable


def verify(graph: Graph) -> Graph:
    """Check definitions before uses, known inputs and types; returns the graph.

    >>> import wengert as wg
    >>> verify(wg.trace(lambda x: x * x, 3.0))
    <Graph <lambda>: 1 inputs, 1 operators>
    """
    declared = {node.serial for node in graph.inputs}
    defined: set[int] = set()
    for node in graph.nodes:
        _verify_definition(node, declared, defined)
        _verify_type(node)
        defined.add(node.serial)
    return graph


def _verify_definition(node: Node, declared: set[int], defined: set[int]) -> None:
    if isinstance(node, Variable) and node.serial not in declared:
        raise GraphError(f"{node!r} is a variable but not an input of the graph")
    for source in node.inputs:
        if source.serial not in defined:
            raise GraphError(f"{node!r} uses {source!r} before it is defined")


def _verify_type(node: Node) -> None:
    if isinstance(node, Operator):
        expected = _type_by_rule(node)
        if not _same_type(expected, node.type):
            raise GraphError(f"{node!r} has type {node.type}, its operation says {expected}")
    elif (
        isinstance(node, Constant)
        and node.output is not None
        and not _same_type(type_of(node.output), node.type)
    ):
        raise GraphError(f"{node!r} does not have the type of its value")


def _type_by_rule(node: Operator) -> Any:
    try:
        return node.op.type_rule(*[source.type for source in node.inputs], **node.params)
    except (TypeError, ValueError) as error:
        raise GraphError(f"{node!r} is not valid: {error}") from error


def _same_type(one: Any, other: Any) -> Any:
    if hasattr(one, "dtype") and hasattr(other, "dtype"):
        return one.dtype == other.dtype and one.shape == other.shape
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_same_type, one, other))
    return False
