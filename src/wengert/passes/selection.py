"""Elements of certain ranks in long lines, found by halving: no line is sorted.

Numbers are compared as integers in the same order, their keys. The key of a rank lies between the
least and the largest; how many keys are not above the middle tells in which half, until there is
one key left.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..graph import Graph, Node, Operator
from ..ops.cumulative import cumsum
from ..ops.elementwise import select
from ..ops.floats import bits
from ..ops.layout import broadcast_to, convert, permute, reduce_sum, reshape
from ..ops.logic import equal, greater, isnan, less, less_equal, logical_and
from ..ops.reductions import reduce_any, reduce_max, reduce_min
from ..ops.sorting import INDEX, LARGE, ranked
from ..transforms.flow import while_loop
from ..types import type_of
from .expand import composition, insert
from .rewriting import rebuild


def write_out_selections(graph: Graph) -> Graph:
    """ranked(x, ranks) -> a loop that halves the range of keys in which each rank is."""
    if not any(_is_long(node) for node in graph.operators):
        return graph

    def rule(node: Operator) -> Node | None:
        made = composition(node, _selected) if _is_long(node) else None
        return None if made is None else insert(made, node)[0]

    return rebuild(graph, rule)


def _is_long(node: Operator) -> bool:
    if node.op is not ranked:
        return False
    dtype, shape, _ = node.inputs[0].type
    known = dtype.kind in "iu" or (dtype.kind == "f" and dtype.itemsize in (4, 8))
    return known and shape[node.params["axis"]] >= LARGE and bool(node.type.size)


def _keys(x: Any) -> Any:
    """Integers in the order of the numbers; NaN is larger than all else, and zeros are equal."""
    dtype = type_of(x).dtype
    if dtype.kind == "f":
        own = np.dtype(f"i{dtype.itemsize}")
        most = own.type(np.iinfo(own).max)
        raw = bits(x + 0.0, dtype=own)
        return select(isnan(x), most, select(less(raw, 0), raw ^ most, raw))
    if dtype == np.uint64:
        return convert(x, dtype=np.dtype(np.int64)) ^ np.int64(np.iinfo(np.int64).min)
    narrow = dtype.itemsize + (dtype.kind == "u") <= 4
    return convert(x, dtype=np.dtype(np.int32 if narrow else np.int64))


def _selected(x: Any, ranks: Any, axis: int) -> Any:
    keys, line = _keys(x), axis + 1  # of results with an axis of ranks in front
    shape, (count,) = type_of(keys).shape, type_of(ranks).shape
    length, rest = shape[axis], (*shape[:axis], *shape[line:])
    ranks = select(less(ranks, 0), ranks + length, ranks)
    ranks = select(less(ranks, 0), length, ranks)  # such ones become places that do not exist
    ranks = reshape(convert(ranks, dtype=INDEX), shape=(count, *[1] * len(rest)))

    def on_lines(values: Any) -> Any:
        """Numbers for each rank and line, beside the elements."""
        return reshape(values, shape=(count, *shape[:axis], 1, *shape[line:]))

    def turn(state: Any) -> Any:
        low, high, under, upto = state
        middle = (low >> 1) + (high >> 1) + (low & high & 1)
        below = reduce_sum(less_equal(keys, on_lines(middle)), axes=(line,))
        enough = greater(below, ranks)
        ends = select(enough, low, middle + 1), select(enough, middle, high)
        return *ends, select(enough, under, below), select(enough, below, upto)

    def is_open(state: Any) -> Any:
        low, high, under, upto = state
        several = logical_and(less(low, high), greater(upto - under, 1))
        return reduce_any(several, axes=tuple(range(1 + len(rest))))

    ends = [extreme(keys, axes=(axis,), ties="equal") for extreme in (reduce_min, reduce_max)]
    counts = np.array(0, INDEX), np.array(length, INDEX)
    state = tuple(broadcast_to(x, shape=(count, *rest)) for x in (*ends, *counts))
    low = on_lines(while_loop(is_open, turn, state)[0])
    most = np.iinfo(type_of(keys).dtype).max
    found = reduce_min(select(less(keys, low), most, keys), axes=(line,), ties="equal")
    found = on_lines(found)
    left = ranks - reduce_sum(less(keys, found), axes=(line,))
    same = cumsum(convert(equal(keys, found), dtype=INDEX), axis=line, reverse=False)
    left = broadcast_to(left, shape=(count, *rest))
    places = reduce_sum(less_equal(same, on_lines(left)), axes=(line,))
    order = (*range(1, line), 0, *range(line, 1 + len(rest)))
    return permute(places, axes=order)
