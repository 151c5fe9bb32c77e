"""Totals: carries of a loop that every step only adds something to.

    total = total + h.T @ g     in memory of its own that each step adds to, where it lies

Above all these are gradients of weights, sums over all steps and samples. Threads that share the
samples of a loop have memory of their own for them, which is joined at the end in one fixed order.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..graph import Graph, Node, Operator
from ..loops import Affine, Apply, Buffer, Expr, Index, Load
from ..ops.contract import contract
from ..ops.elementwise import add
from ..ops.layout import reduce_sum
from ..passes.constants import is_uniform
from ..passes.rewriting import same_type

NewBuffer = Callable[[np.dtype, tuple[int, ...]], Buffer]


def find_totals(body: Any) -> dict[int, Node]:
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
    for shown in graph.outputs:
        if shown is not None:
            uses[shown.serial] += 1
    return uses


def _is_sum(node: Node) -> bool:
    """Whether a value can be added to memory as it is summed."""
    if not isinstance(node, Operator) or node.op not in (contract, reduce_sum):
        return False
    if node.type.dtype.kind != "f" or not node.type.size:
        return False
    return all(source.type.dtype == node.type.dtype for source in node.inputs)


def total_places(
    numbers: Iterable[int], outputs: Sequence[Buffer], parts: int, new_buffer: NewBuffer
) -> dict[int, Buffer]:
    """Memory in which each part of a loop adds to its totals, from zero on."""
    return {
        number: new_buffer(outputs[number].dtype, (parts, *outputs[number].shape))
        for number in numbers
    }


def join_parts(node: Operator, number: int, start: Buffer, memory: Buffer, index: Index) -> Expr:
    """An element of a total: what it began with, then one part after the other."""
    parts = range(memory.shape[0])
    terms: list[Expr] = [Load(memory, memory.flat((Affine(k), *index))) for k in parts]
    if not is_uniform(node.inputs[node.params["body"].constants + number], 0):
        terms.insert(0, Load(start, start.flat(index)))
    return functools.reduce(lambda a, b: Apply("add", (a, b), memory.dtype), terms)
