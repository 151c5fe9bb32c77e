"""Arrays that programs write to: which results are later versions of which arguments.

Of a batch some samples may not count, in one branch of several or in a loop that has ended for
them. What is written to their arrays is then what stood there: so a batch needs no copy of all
arrays to choose from, but one more reading at each place that is written to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..graph import Graph, Node, Operator
from ..ops.elementwise import select
from ..ops.indexing import gather, scatter_add, scatter_set
from ..ops.layout import reshape
from ..trace.tracer import ITEM
from ..types import type_of


def version_before(node: Node | None) -> Node | None:
    """What an array was before it was last written to, at some places."""
    if not isinstance(node, Operator):
        return None
    if node.op in (scatter_set, scatter_add):
        return node.inputs[0]
    inner: Any = node.inputs[0] if node.op is ITEM else None
    if inner is None or inner.op.writes_to is None:
        return None
    place = inner.op.writes_to(inner).get(node.params["index"])
    return None if place is None else inner.inputs[place]


def origins(graph: Graph) -> dict[int, int]:
    """The outputs that are inputs with something written to them, or as they were, and the numbers
    of these; no two of the same one."""
    numbers = {node.serial: number for number, node in enumerate(graph.inputs)}
    found: dict[int, int] = {}
    for output, node in enumerate(graph.outputs):
        start = _versions(node)[-1]
        number = None if start is None else numbers.get(start.serial)
        if number is not None and number not in found.values():
            found[output] = number
    return found


def _versions(node: Node | None) -> list[Node | None]:
    """An array and what it was before, back to the first."""
    found = [node]
    while (before := version_before(found[-1])) is not None:
        found.append(before)
    return found


def writes(graph: Graph) -> set[int]:
    """The operators, by serial, that write to such inputs."""
    return {
        node.serial
        for output in origins(graph)
        for node in _versions(graph.outputs[output])
        if isinstance(node, Operator) and node.op is not ITEM
    }


def as_it_stood(node: Operator, args: Sequence[Any], going: Any, batched: Any) -> list[Any]:
    """The arguments of a write, all of them batches, where samples that are not `going` write what
    stands there; `batched` applies an operation to batches."""
    base, value, *indices = args
    there = np.zeros((), type_of(base).dtype)[()]
    size = type_of(going).shape[0]
    if node.op is scatter_set:
        there = batched(gather, [base, *indices], {"axes": node.params["axes"]})
    rank = max(type_of(value).ndim, type_of(there).ndim)
    own = type_of(value).shape
    value = reshape(value, shape=(size, *[1] * (rank - len(own)), *own[1:]))
    return [base, select(reshape(going, shape=(size, *[1] * (rank - 1))), value, there), *indices]
