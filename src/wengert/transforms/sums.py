"""Sums that programs inside operations add to where they are.

The cotangent of an array that is read at some places is zero elsewhere. A loop or a branch that
reads so does not give out an array of zeros with something added, for others to add as a whole: it
is given the sum so far, adds to some places of it, and gives that out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..graph import Constant, Graph, Node, Operator, reachable
from ..graph.rewrite import rewrite
from ..ops.indexing import scatter_add
from ..trace.tracer import ITEM


def start_of(node: Node) -> Node | None:
    """What a sum was before something was added to some places of it, one step back."""
    if not isinstance(node, Operator):
        return None
    if node.op is scatter_add:
        return node.inputs[0]
    inner: Any = node.inputs[0] if node.op is ITEM else None
    if inner is None or inner.op.adds_to is None:
        return None
    place = inner.op.adds_to(inner).get(node.params["index"])
    return None if place is None else inner.inputs[place]


def first_of(node: Node, uses: dict[int, int]) -> Node | None:
    """What a sum was at first, if nobody else reads it on the way."""
    found: Node | None = node
    while found is not None and uses.get(found.serial) == 1:
        before = start_of(found)
        if before is None:
            return found
        found = before
    return None


def count_uses(outputs: Iterable[Node | None]) -> dict[int, int]:
    """How often each value is read, or given out."""
    uses: dict[int, int] = {}
    shown = [node for node in outputs if node is not None]
    for node in [*shown, *[s for one in reachable(shown) for s in one.inputs]]:
        uses[node.serial] = uses.get(node.serial, 0) + 1
    return uses


def added_to(graph: Graph) -> dict[int, int]:
    """The outputs that are sums added to inputs that nobody else reads: numbers of both."""
    uses = count_uses(graph.outputs)
    numbers = {node.serial: number for number, node in enumerate(graph.inputs)}
    found = {}
    for number, node in enumerate(graph.outputs):
        first = None if node is None else first_of(node, uses)
        if first is not None and first.serial in numbers:
            found[number] = numbers[first.serial]
    return found


def is_zero(node: Node | None) -> bool:
    """Whether a node is a constant of zeros."""
    return isinstance(node, Constant) and not np.any(node.output)


def begun_with(nodes: Sequence[Node], starts: dict[int, Node]) -> list[Node]:
    """Nodes computed anew where some others, by their serial, make way for those given."""
    new = rewrite(reachable(nodes), lambda node, new: None, dict(starts))
    return [new[node.serial] for node in nodes]
