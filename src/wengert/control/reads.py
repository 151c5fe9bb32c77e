"""Reads of arrays from outside at places that are known for every turn: one read for all turns.

``x[i]`` and ``x[n - 1 - i]`` in a loop over `i` become rows that the loop goes along, taken before
it. So the cotangent of `x` is put together from rows after the loop, not in each turn. With a `k`
from outside, of ``x[k, i]`` is taken ``x[k]`` first: a loop over `k` around does the same with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..graph import Constant, Graph, Node, Operator, Variable
from ..ops.indexing import gather, index, stretch_of
from ..ops.op import Traced
from ..transforms.batching import evaluate_batched
from ..types import type_of
from .pieces import closed


def inputs_of(node: Node) -> set[int] | None:
    """The inputs that a node depends on; None where it reads a traced value from outside."""
    found = set()
    for one in Graph([], [node]).nodes:
        if isinstance(one, Constant):
            if isinstance(one.output, Traced):
                return None
        elif isinstance(one, Variable):
            found.add(one.serial)
    return found


def known_reads(outputs: Sequence[Node], counter: Node) -> list[Operator]:
    """The reads of arrays from outside at places that depend on the counter of the turns alone, or
    along some axes on nothing that changes from turn to turn."""
    return [
        node
        for node in Graph([], list(outputs)).nodes
        if isinstance(node, Operator) and node.op is gather and _is_known(node, counter)
    ]


def _is_known(node: Operator, counter: Node) -> bool:
    array, *places = node.inputs
    if not isinstance(array, Constant) or any(place.type.shape != () for place in places):
        return False
    moving = [place for place in places if not isinstance(place, Constant)]
    return bool(moving) and all(inputs_of(place) == {counter.serial} for place in moving)


def read_rows(node: Operator, counter: Node, rows: np.ndarray) -> Any:
    """What a read gives in all turns, one row each."""
    array, axes = node.inputs[0].output, node.params["axes"]
    pairs = list(zip(axes, node.inputs[1:], strict=True))
    fixed = {axis: place.output for axis, place in pairs if isinstance(place, Constant)}
    if fixed:
        array = gather(array, *fixed.values(), axes=tuple(fixed))
    moving = [(axis, place) for axis, place in pairs if axis not in fixed]
    places = [in_turns(place, counter, rows) for _, place in moving]
    left = tuple(axis - sum(gone < axis for gone in fixed) for axis, _ in moving)
    return read_places(array, places, left)


def read_places(array: Any, places: Sequence[np.ndarray], axes: tuple[int, ...]) -> Any:
    """The elements of an array at some places, a slice where they lie at equal distances."""
    shape = type_of(array).shape
    stretch = stretch_of(places[0], shape[0]) if axes == (0,) else None
    if stretch is None:
        return gather(array, *places, axes=axes)
    return index(array, key=(stretch, *[(0, length, 1) for length in shape[1:]]))


def in_turns(place: Node, counter: Node, rows: np.ndarray) -> np.ndarray:
    """The values of a node that depends on the counter of the turns, in each turn."""
    graph = closed([place], [counter], [], {}, {})
    ((value, _),) = evaluate_batched(graph, len(rows), [rows], [True])
    return np.broadcast_to(np.asarray(value), rows.shape)


def places_of(place: Node, counter: Node, rows: np.ndarray, length: int) -> np.ndarray | None:
    """The places that a node stands for in each turn, from the front; None if one is outside."""
    found = in_turns(place, counter, rows)
    if found.min() < -length or found.max() >= length:
        return None
    return np.where(found < 0, found + length, found)


def are_distinct(places: np.ndarray) -> bool:
    """Whether none is there twice; places that rise or fall from turn to turn need no table."""
    steps = np.diff(places)
    return bool((steps > 0).all() or (steps < 0).all()) or len(np.unique(places)) == len(places)
