"""Arrays that a loop fills place by place: what the turns write is carried on, not the array.

    for i in range(1, n):              h = c[0]
        c[i] = f(c[i - 1])     ->      for i in range(1, n): v = f(h); h = v      c[1:] = all v

Each turn writes one place that is known for it, another one every time, and reads places that were
written a fixed number of turns before, or are not written before they are read. So it needs the
last few values that were written; the array itself is put together after the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..graph import Graph, Node, Operator
from ..ops.indexing import gather, index_set, scatter_set, stretch_of
from ..types import ArrayType, type_of
from .reads import are_distinct, inputs_of, places_of, read_places

# Turns that a value is carried on.
_LONGEST = 4


class History:
    """What a loop writes to one array, and when it reads it again."""

    def __init__(self, write: Operator, places: np.ndarray, reads: dict[int, tuple[Operator, int]]):
        self.write, self.places, self.reads = write, places, reads
        self.value = write.inputs[1]
        self.length = max([0, *[distance for _, distance in reads.values()]])
        self.early: list[tuple[Operator, np.ndarray]] = []  # reads of what was there before
        self.first: list[int] = []  # the places whose values are carried on at first

    @property
    def type(self) -> ArrayType:
        """The type of what a turn writes."""
        own = self.value.type
        return ArrayType(own.dtype, own.shape)

    def starts(self, array: Any) -> list[Any]:
        """The values that are carried on at first, the latest first."""
        return [gather(array, np.int64(place), axes=(0,)) for place in self.first]

    def filled(self, array: Any, rows: Any) -> Any:
        """The array with what all turns have written."""
        shape = type_of(array).shape
        stretch = stretch_of(self.places, shape[0])
        if stretch is None:
            return scatter_set(array, rows, self.places, axes=(0,))
        key = (stretch, *[(0, length, 1) for length in shape[1:]])
        return index_set(array, rows, key=key)


def history(
    before: Node, after: Node, outputs: Sequence[Node], counter: Node, rows: np.ndarray
) -> History | None:
    """The history of an array, given its nodes before and after a turn; None where it has none."""
    if not isinstance(after, Operator) or after.op is not scatter_set:
        return None
    if after.inputs[0] is not before or after.params["axes"] != (0,) or len(after.inputs) != 3:
        return None
    if sum(node is after for node in outputs) > 1 or any(node is before for node in outputs):
        return None
    users = [
        node
        for node in Graph([], list(outputs)).nodes
        if node is not after and any(source in (before, after) for source in node.inputs)
    ]
    if not all(map(_is_read, users)) or after.inputs[2].type.shape != ():
        return None
    nodes = [after.inputs[2], *[user.inputs[1] for user in users]]
    if any(inputs_of(node) not in (set(), {counter.serial}) for node in nodes):
        return None
    length = before.type.shape[0]
    found = [places_of(node, counter, rows, length) for node in nodes]
    places, *read = [one for one in found if one is not None]
    if len(read) < len(users) or not are_distinct(places):
        return None
    return _told(after, places, users, read, length)


def _is_read(node: Node) -> bool:
    return (
        isinstance(node, Operator)
        and node.op is gather
        and node.params["axes"] == (0,)
        and len(node.inputs) == 2
        and node.inputs[1].type.shape == ()
    )


def _told(
    write: Operator, places: Any, users: Sequence[Any], read: Sequence[Any], length: int
) -> History | None:
    """The history, if each read is of one distance."""
    turns = np.arange(len(places))
    when = np.full(length, len(places))  # never
    when[places] = turns
    reads: dict[int, tuple[Operator, int]] = {}
    early: list[tuple[Operator, np.ndarray]] = []
    starts: dict[int, int] = {}
    for user, own in zip(users, read, strict=True):
        distance = turns - when[own]
        passed = distance > 0 if user.inputs[0] is not write else distance >= 0
        if not passed.any():
            early.append((user, own))
            continue
        known = int(distance[-1])
        steady = passed[known:].all() and (distance[known:] == known).all()
        if known > _LONGEST or not steady or passed[:known].any():
            return None
        reads[user.serial] = user, known
        for turn in range(known):
            if starts.setdefault(known - turn, int(own[turn])) != own[turn]:
                return None
    made = History(write, places, reads)
    made.early = early
    made.first = [starts.get(number, 0) for number in range(1, made.length + 1)]
    return made


def early_rows(array: Any, told: History) -> list[tuple[Operator, Any]]:
    """The reads of what was in an array before the loop, with their rows."""
    return [(node, read_places(array, [places], (0,))) for node, places in told.early]
