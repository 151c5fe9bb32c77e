"""The graph after each pass and step as plain data: nodes by number, stages as lists of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..graph import Constant, Graph, Node, Operator, Variable
from ..graph.printing import literal, short
from ..lines import is_derived
from ..schedule.building import RegionOp
from .sources import Sources, graphs_in, source_of


class Graphs:
    """Nodes of all stages; what is inside a region or a loop stands in its place."""

    def __init__(self, sources: Sources):
        self.sources = sources
        self.nodes: dict[int, dict[str, Any]] = {}
        self.boxes: dict[int, str] = {}  # what a node with others inside is

    def stage(self, graph: Graph) -> dict[str, Any]:
        """The nodes that a graph consists of now, its outputs, and the one that is the value."""
        found: list[int] = []
        stands: dict[int, int] = {}
        outputs = self._add(graph, stands, None, found)
        value = value_of(graph)
        serial = None if value is None else stands.get(value.serial, value.serial)
        return {"nodes": found, "outputs": outputs, "value": serial}

    def _add(
        self, graph: Graph, stands: dict[int, int], parent: int | None, found: list[int]
    ) -> list[int]:
        """Add the nodes of a graph; `stands` has what is in the place of others."""
        results: dict[tuple[int, int], int] = {}
        for node in graph.nodes:
            serial = node.serial
            if serial in stands:
                continue
            if isinstance(node, Operator) and isinstance(node.op, RegionOp):
                self._add_region(node, stands, results, found)
                continue
            item = _item(node)
            if item is not None and item in results:
                stands[serial] = results[item]
                continue
            self._node(node, stands, parent)
            found.append(serial)
            for inner in graphs_in(node):
                self.boxes[serial] = node.op.name  # type: ignore[attr-defined]
                # what a program begins with are the last inputs of the node, one for one
                outer = node.inputs[max(len(node.inputs) - len(inner.inputs), 0) :]
                begins = {
                    one.serial: stands.get(other.serial, other.serial)
                    for one, other in zip(inner.inputs, outer, strict=False)
                }
                self.nodes[serial]["inside"] += self._add(inner, begins, serial, found)
        return [stands.get(n.serial, n.serial) for n in graph.outputs if n is not None]

    def _add_region(
        self,
        node: Operator,
        stands: dict[int, int],
        results: dict[tuple[int, int], int],
        found: list[int],
    ) -> None:
        region = node.op.region
        blocks = -(-region.length // region.width)
        self.boxes[node.serial] = f"region: {blocks} blocks of {region.width}"
        inside = {
            inner.serial: stands.get(outer.serial, outer.serial)
            for inner, outer in zip(region.graph.inputs, node.inputs, strict=False)
        }
        for number, serial in enumerate(self._add(region.graph, inside, node.serial, found)):
            results[node.serial, number] = serial

    def _node(self, node: Node, stands: dict[int, int], parent: int | None) -> None:
        inputs = [stands.get(s.serial, s.serial) for s in node.inputs]
        known = self.nodes.get(node.serial)
        if known is not None:  # of an earlier stage
            known["inputs"], known["parent"], known["inside"] = inputs, parent, []
            return
        self.nodes[node.serial] = {
            "op": _title(node),
            "kind": node.kind,
            "type": _type(node),
            "inputs": inputs,
            "inside": [],  # the results of the programs that it runs
            "group": self.sources.of(node),
            "parent": parent,
            "params": _params(node),
            "state": bool(re.fullmatch(r"s\d+", getattr(node, "name", ""))),
        }


def value_of(graph: Graph) -> Node | None:
    """The output that no derivative is part of: the first of floats, a number rather than an
    array."""
    derived: set[int] = set()
    for node in graph.operators:
        if is_derived(source_of(node)) or any(one.serial in derived for one in node.inputs):
            derived.add(node.serial)
    outputs = [node for node in graph.outputs if node is not None]
    return first_of_floats(node for node in outputs if node.serial not in derived)


def first_of_floats(nodes: Iterable[Node]) -> Node | None:
    """The first operator among nodes that gives floats; rather a number than an array."""
    found = [
        node
        for node in nodes
        if isinstance(node, Operator)
        and getattr(getattr(node.type, "dtype", None), "kind", "") == "f"
    ]
    numbers = [node for node in found if node.type.shape == ()]
    return next(iter([*numbers, *found]), None)


def _item(node: Node) -> tuple[int, int] | None:
    """Which result of which operation a node is."""
    if isinstance(node, Operator) and "index" in node.params and len(node.inputs) == 1:
        number = node.params["index"]
        return (node.inputs[0].serial, number) if isinstance(number, int) else None
    return None


def _title(node: Node) -> str:
    if isinstance(node, Operator):
        return str(node.op.name)
    if isinstance(node, Variable):
        return node.name or "input"
    assert isinstance(node, Constant)
    return literal(node.output) if np.ndim(node.output) == 0 else "constant"


def _type(node: Node) -> str:
    several = isinstance(node.type, tuple) and not hasattr(node.type, "dtype")
    return ", ".join(map(str, node.type)) if several else str(node.type)


def _params(node: Node) -> str:
    params = node.params if isinstance(node, Operator) else {}
    return ", ".join(f"{key}={short(value)}" for key, value in params.items())
