"""A picture of a graph: an SVG that needs no other program, or Graphviz's dot language.

Nodes stand in layers: each one below the last of its inputs. Every node shows its operation and
type, and the value and gradient it holds if they are scalars.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from ..displays import text
from .graph import Graph
from .nodes import Node, Operator
from .printing import node_names

_WIDTH, _HEIGHT, _GAP_X, _GAP_Y = 150, 52, 30, 46
_MOST_DRAWN = 80  # nodes, in a notebook
_COLOURS = {
    "Constant": "#eceff1",
    "Variable": "#c8e6c9",
    "ScalarOperator": "#ffe0b2",
    "BroadcastedOperator": "#bbdefb",
}


def draw(graph: Graph, path: str) -> str:
    """Write the picture; the ending of the path chooses ``.svg`` or ``.dot``."""
    suffix = Path(path).suffix
    if suffix == ".svg":
        text = to_svg(graph)
    elif suffix in (".dot", ".gv"):
        text = to_dot(graph)
    else:
        raise ValueError(
            f"draw: the path {str(path)!r} ends in {suffix!r}, expected .svg, .dot or .gv."
        )
    Path(path).write_text(text, encoding="utf-8")
    return str(path)


def to_dot(graph: Graph) -> str:
    """The graph in Graphviz's language."""
    lines = ["digraph {", '  node [shape=box, style="filled,rounded", fontname="sans-serif"];']
    names = node_names(graph)
    for node in graph.nodes:
        label = "\\n".join(line.replace('"', "'") for line in _labels(node, names[node.serial]))
        lines.append(f'  n{node.serial} [label="{label}", fillcolor="{_COLOURS[node.kind]}"];')
    lines += [f"  n{s.serial} -> n{node.serial};" for node in graph.nodes for s in node.inputs]
    return "\n".join([*lines, "}"]) + "\n"


def to_html(graph: Graph) -> str:
    """The graph for a notebook: a picture, or text where that would be too large to look at."""
    if len(graph.nodes) > _MOST_DRAWN:
        return text(str(graph))
    return f'<div style="overflow-x:auto;background:#fff">{to_svg(graph)}</div>'


def to_svg(graph: Graph) -> str:
    """The graph as a self-contained SVG."""
    places, width, height = _layout(graph)
    shapes = [_edge(places, source, node) for node in graph.nodes for source in node.inputs]
    names = node_names(graph)
    shapes += [
        _box(places[node.serial], node, _labels(node, names[node.serial])) for node in graph.nodes
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">\n'
        '<defs><marker id="arrow" markerWidth="8" markerHeight="8" refX="7" refY="3" '
        'orient="auto"><path d="M0,0 L7,3 L0,6 z" fill="#546e7a"/></marker></defs>\n'
        + "\n".join(shapes)
        + "\n</svg>\n"
    )


def _layout(graph: Graph) -> tuple[dict[int, tuple[float, float]], int, int]:
    """Layers by depth; within a layer, nodes near the average of their inputs."""
    depth = _depths(graph)
    layers: list[list[Node]] = [[] for _ in range(1 + max(depth.values(), default=0))]
    for node in graph.nodes:
        layers[depth[node.serial]].append(node)
    widest = max((len(layer) for layer in layers), default=1)
    width = widest * (_WIDTH + _GAP_X) + _GAP_X
    places: dict[int, tuple[float, float]] = {}
    for level, layer in enumerate(layers):
        layer.sort(key=lambda node: _average([places[s.serial][0] for s in node.inputs]))
        left = (width - len(layer) * (_WIDTH + _GAP_X) + _GAP_X) / 2
        for column, node in enumerate(layer):
            x = left + column * (_WIDTH + _GAP_X)
            places[node.serial] = (x, _GAP_Y / 2 + level * (_HEIGHT + _GAP_Y))
    return places, width, len(layers) * (_HEIGHT + _GAP_Y)


def _depths(graph: Graph) -> dict[int, int]:
    """Each node below its inputs; one without inputs just above the first node that uses it."""
    depth: dict[int, int] = {}
    first_use: dict[int, int] = {}
    for node in graph.nodes:
        level = 1 + max((depth[s.serial] for s in node.inputs), default=-1)
        depth[node.serial] = level
        for source in node.inputs:
            first_use[source.serial] = min(level, first_use.get(source.serial, level))
    for node in graph.nodes:
        if not node.inputs and node.serial in first_use:
            depth[node.serial] = first_use[node.serial] - 1
    return depth


def _average(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _labels(node: Node, name: str) -> list[str]:
    head = node.op.name if isinstance(node, Operator) else name
    lines = [head, str(node.type) if hasattr(node.type, "dtype") else "tuple"]
    if _is_number(node.output):
        lines.append(f"= {float(np.real(node.output)):.6g}")
    if _is_number(node.gradient):
        lines[-1] += f"   grad {float(np.real(node.gradient)):.6g}"
    return lines


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float, np.generic)) or (
        type(value) is np.ndarray and value.ndim == 0
    )


def _edge(places: dict[int, tuple[float, float]], source: Node, target: Node) -> str:
    x1, y1 = places[source.serial]
    x2, y2 = places[target.serial]
    x1, x2, y1 = x1 + _WIDTH / 2, x2 + _WIDTH / 2, y1 + _HEIGHT
    middle = (y1 + y2) / 2
    return (
        f'<path d="M{x1:.0f},{y1:.0f} C{x1:.0f},{middle:.0f} {x2:.0f},{middle:.0f} '
        f'{x2:.0f},{y2:.0f}" fill="none" stroke="#546e7a" marker-end="url(#arrow)"/>'
    )


def _box(place: tuple[float, float], node: Node, labels: list[str]) -> str:
    x, y = place
    shapes = [
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{_WIDTH}" height="{_HEIGHT}" rx="8" '
        f'fill="{_COLOURS[node.kind]}" stroke="#546e7a"/>'
    ]
    top = y + _HEIGHT / 2 - 7 * (len(labels) - 1) + 4
    for number, line in enumerate(labels):
        weight = ' font-weight="bold"' if number == 0 else ""
        shapes.append(
            f'<text x="{x + _WIDTH / 2:.0f}" y="{top + 15 * number:.0f}" '
            f'text-anchor="middle"{weight}>{escape(line)}</text>'
        )
    return "\n".join(shapes)
