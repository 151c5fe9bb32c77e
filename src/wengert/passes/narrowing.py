"""Operations of which only a part is wanted become those that give that part alone.

Derivatives need the order that sorting found and the vectors of a decomposition, so these are what
a trace records. Where nobody reads them in the end, NumPy need not compute them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..graph import Graph, Operator
from ..ops.indexing import gather
from ..ops.sorting import argsort, sort
from ..trace.tracer import ITEM
from .constants import constant_value
from .rewriting import apply, rebuild, users_of
from .simplify import share_common


def narrow(graph: Graph) -> Graph:
    """eigh(x)[0] -> eigvalsh(x), x[argsort(x)] -> sort(x), where nothing else reads the rest."""
    if not any(node.op.alone or node.op is argsort for node in graph.operators):
        return graph
    graph = share_common(graph)  # or the same would be computed once with and once without
    users = users_of(graph)
    wanted = {node.serial for node in graph.outputs if node is not None}
    instead: dict[int, Operator] = {}
    for node in graph.operators:
        readers = users.get(node.serial, ())
        if node.serial in wanted:
            continue
        if node.op.alone:
            instead |= _one_result(node, readers)
        elif node.op is argsort and all(_follows(reader, node) for reader in readers):
            for reader in readers:
                instead[reader.serial] = apply(sort, *node.inputs, params=node.params, like=reader)
    return rebuild(graph, lambda node: None, instead) if instead else graph


def _one_result(node: Operator, readers: Sequence[Operator]) -> dict[int, Operator]:
    """What stands for the items of a node, if all of them are the same one."""
    numbers = {reader.params["index"] for reader in readers if reader.op is ITEM}
    alone = node.op.alone.get(min(numbers)) if len(numbers) == 1 else None
    if alone is None:
        return {}
    return {r.serial: apply(alone, *node.inputs, params={}, like=r) for r in readers}


def _follows(node: Operator, order: Operator) -> bool:
    """Whether the node gathers what `order` is the order of, line by line, as `along` does."""
    x, *places = node.inputs
    axis, rank = order.params["axis"], len(x.type.shape)
    if node.op is not gather or x is not order.inputs[0]:
        return False
    if node.params["axes"] != tuple(range(rank)) or places[axis] is not order:
        return False
    for k, (place, length) in enumerate(zip(places, x.type.shape, strict=True)):
        numbers = np.arange(length).reshape((length,) + (1,) * (rank - 1 - k))
        if k != axis and not np.array_equal(constant_value(place), numbers):
            return False
    return True
