"""Totals: carries of a loop that every step only adds something to.

    total = total + h.T @ g     in memory of its own that each step adds to, where it lies

Above all these are gradients of weights, sums over all steps and samples. Threads that share the
samples of a loop have memory of their own for them, which is joined at the end in one fixed order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ..graph import Graph, Node, Operator
from ..loops import Affine, Apply, Buffer, Expr, Kernel, Literal, Load, Nest, Rows, Store
from ..ops.contract import contract
from ..ops.elementwise import add
from ..ops.layout import reduce_sum
from ..passes.rewriting import same_type
from .lowering import loop_variables


def find_totals(body: Any) -> dict[int, Operator]:
    """The carries of a body that are totals, each with the sum that a step adds to it."""
    outputs, carry = body.graph.outputs, body.split(body.graph.inputs)[1]
    uses = _count_uses(body.graph)
    found = {}
    for number, start in enumerate(carry):
        total = outputs[number]
        if not isinstance(total, Operator) or total.op is not add or start not in total.inputs:
            continue
        x, y = total.inputs
        term = y if x is start else x
        alone = all(uses[node.serial] == 1 for node in (start, total, term))
        if alone and _is_sum(term) and same_type(start, total.type) and same_type(term, total.type):
            found[number] = term
    return found


def _count_uses(graph: Graph) -> dict[int, int]:
    uses = {node.serial: 0 for node in graph.nodes}
    for node in graph.operators:
        for source in node.inputs:
            uses[source.serial] += 1
    for node in graph.outputs:
        uses[node.serial] += 1
    return uses


def _is_sum(node: Node) -> bool:
    """Whether a value can be added to memory as it is summed."""
    if not isinstance(node, Operator) or node.op not in (contract, reduce_sum):
        return False
    if node.type.dtype.kind != "f" or not node.type.size:
        return False
    return all(source.type.dtype == node.type.dtype for source in node.inputs)


@dataclass
class TotalKernels:
    """What goes before and after a loop for its totals, and where its steps add to them."""

    before: list[Kernel]
    places: list[Rows]
    after: list[Kernel]


def total_kernels(
    node: Operator,
    starts: Sequence[Buffer],
    ends: Sequence[Buffer],
    parts: int,
    new_buffer: Callable[[np.dtype, tuple[int, ...]], Buffer],
) -> TotalKernels:
    """Begin with zeros in each part; in the end add what the totals began with, then the parts."""
    found = TotalKernels([], [], [])
    for start, end in zip(starts, ends, strict=True):
        memory = new_buffer(end.dtype, (parts, *end.shape))
        size = prod(end.shape)
        (var,) = loop_variables((parts * size,))
        zero = Literal(end.dtype.type(0), end.dtype)
        found.before.append(Nest([var], [Store(memory, Affine.of(var), zero)], "fill", [node]))
        found.places.append(Rows(memory, 0, size))
        (var,) = loop_variables((size,))
        total: Expr = Load(start, Affine.of(var))
        for part in range(parts):
            term = Load(memory, Affine.of(var) + part * size)
            total = Apply("add", (total, term), end.dtype)
        found.after.append(Nest([var], [Store(end, Affine.of(var), total)], "join", [node]))
    return found
