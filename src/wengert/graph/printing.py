"""A graph as text: one line a node, types as ``f32[8,2]``, the user's source line at the end."""

from __future__ import annotations

from typing import Any

import numpy as np

from .graph import Graph
from .nodes import Constant, Node, Operator, Variable


def format_graph(graph: Graph) -> str:
    """The graph in single-assignment form."""
    names = node_names(graph)
    header = ", ".join(f"{names[node.serial]}: {node.type}" for node in graph.inputs)
    lines = [f"{graph.name}({header}):"]
    for node in graph.nodes:
        if isinstance(node, Operator):
            lines.append(_operator_line(node, names))
            lines += _inner_lines(node)
        elif isinstance(node, Constant) and not _is_literal(node):
            lines.append(f"  {names[node.serial]}: {node.type} = constant")
    results = ", ".join("0" if n is None else names[n.serial] for n in graph.outputs)
    lines.append(f"  return {results}")
    return "\n".join(lines)


def node_names(graph: Graph) -> dict[int, str]:
    """A short unique name for every node: arguments by their own, the rest %0, %1, ..."""
    names: dict[int, str] = {}
    taken: set[str] = set()
    number = 0
    for node in graph.nodes:
        if isinstance(node, Variable) and node.name and node.name not in taken:
            names[node.serial] = node.name
        elif isinstance(node, Constant) and _is_literal(node):
            names[node.serial] = literal(node.output)
        else:
            names[node.serial] = f"%{number}"
            number += 1
        taken.add(names[node.serial])
    return names


def _operator_line(node: Operator, names: dict[int, str]) -> str:
    arguments = [names[source.serial] for source in node.inputs]
    arguments += [f"{key}={short(value)}" for key, value in node.params.items()]
    types = node.type if not isinstance(node.type, tuple) or hasattr(node.type, "dtype") else None
    shown = str(types) if types is not None else "(" + ", ".join(map(str, node.type)) + ")"
    line = f"  {names[node.serial]}: {shown} = {node.op.name}({', '.join(arguments)})"
    return f"{line}  # {node.source}" if node.source else line


def _inner_lines(node: Operator) -> list[str]:
    """The graphs inside an operation, indented."""
    inside = [one for v in node.params.values() for one in (v, *getattr(v, "programs", ()))]
    inner = [getattr(one, "graph", None) for one in inside]
    texts = [format_graph(graph) for graph in inner if isinstance(graph, Graph)]
    return ["    " + line for text in texts for line in text.splitlines()]


def _is_literal(node: Node) -> bool:
    value = node.output
    return isinstance(value, (bool, int, float, complex, np.generic)) or (
        type(value) is np.ndarray and value.ndim == 0
    )


def literal(value: Any) -> str:
    """A number as text."""
    return repr(value.item()) if isinstance(value, (np.generic, np.ndarray)) else repr(value)


def short(value: Any) -> str:
    """A parameter as text, cut off where it gets long."""
    if isinstance(value, np.dtype):
        return str(value)
    text = getattr(value, "__name__", None) or repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
