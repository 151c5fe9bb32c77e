"""Lists whose items the turns of a loop set, one each: what all turns set comes out as rows.

    outs = [None] * n                        outs = [None] * n
    outs[0] = x                              h, rows = loop(...)
    for i in range(1, n):           ->       outs[1:] = rows
        outs[i] = f(outs[i - 1])

The places must be known for every turn, and another one every time. While a turn is traced a
*filled* list stands for the list: it takes the item that is set, and knows those that were set a
fixed number of turns before, which the loop carries on. Whatever else is done with it ends the
attempt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import tree
from .conversion import local
from .growing import LONGEST, Deeper, Growing
from .pieces import Abandon, Grows, TracedPiece
from .reads import are_distinct, inputs_of, places_of
from .values import is_abstract, is_number, is_own_array
from .windows import refuse_windows


class Filled(Growing):
    """What stands for a list in a turn that sets an item of it."""

    def __init__(self, original: list[Any]):
        super().__init__(original)
        self._how = "an assignment"
        # where the turns set items: as it is, or as reads let think
        self._places, self._sure, self._guesses = np.zeros(0, np.int64), False, 0
        self._starts: dict[int, int] = {}  # the places of items that are carried on at first

    # ------------------------------------------------------------ for the loop

    def _early(self, number: int) -> Any:
        """An item that is carried on at first, the latest first."""
        return self._original[self._starts[number + 1]]

    def _enter(self, inside: TracedPiece, leaves: Any, rows: Any) -> None:
        if rows is None:
            raise Abandon
        super()._enter(inside, leaves, rows)

    def _check(self) -> None:
        if len(self._nodes) != 1:
            raise Abandon
        for leaf in tree.leaves(self._held):
            if is_own_array(leaf) and leaf._storage()._version > 0:
                raise Abandon  # the list's own array would be another one then

    def _latest_item(self, place: int) -> Any:
        """What the last turn has put into the list, as it is there."""
        return self._original[self._places[-1]]

    def _put(self, items: Sequence[Any]) -> None:
        for place, item in zip(self._places, items, strict=True):
            self._original[place] = item

    def sets_before(self, taken: np.ndarray) -> bool:
        """Whether a turn sets an item at a place that a later turn takes one of."""
        turns = np.arange(len(taken))
        when = np.full(len(self._original), -1)
        when[taken] = turns
        return bool((when[self._places[: len(turns)]] > turns).any())

    # ------------------------------------------------------------ for the turn

    insert = Growing._refuse  # type: ignore[assignment]

    def append(self, item: Any) -> None:
        """It is a list that grows."""
        raise Grows(self, False)  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self._original)

    _so_far = __len__

    def __setitem__(self, key: Any, item: Any) -> None:
        places, leaves = self._in_turns(key), tree.leaves(item)
        refuse_windows(leaves)
        if local.inside is not self._inside or self._new or not all(map(is_number, leaves)):
            raise Abandon
        if not are_distinct(places):
            raise Abandon
        if not np.array_equal(places, self._places):
            self._take(places, sure=True)
        self._sure = True
        self._note(item)

    def __getitem__(self, key: Any) -> Any:
        places = self._in_turns(key)
        if self._new and np.array_equal(places, self._places):
            return self._new[0]
        if not len(self._places):
            self._take(_following(places))
        distance = self._distance(places)
        if distance == 0 and not self._sure:
            self._take(_following(places))
        if not 0 < distance <= LONGEST:
            raise Abandon
        for turn in range(min(distance, len(places))):
            if self._starts.setdefault(distance - turn, int(places[turn])) != places[turn]:
                raise Abandon
        return self._carried(distance)

    def _take(self, places: np.ndarray, sure: bool = False) -> None:
        """Trace once more, with items set at other places than it was thought."""
        self._guesses += 1
        wrong = (places < 0) | (places >= len(self._original))
        if self._sure or self._guesses > LONGEST or wrong[:-1].any():
            raise Abandon
        self._places, self._sure = np.where(wrong, 0, places), sure
        self._depth, self._starts = 0, {}
        raise Deeper(self)

    def _in_turns(self, key: Any) -> np.ndarray:
        """The places that a key stands for in all turns."""
        node = self._inside.trace.node_of(key) if is_abstract(key) else None
        if node is None or inputs_of(node) != {self._inside.counter.serial}:
            raise Abandon
        places = places_of(node, self._inside.counter, self._rows, len(self))
        if places is None:
            raise Abandon
        return places

    def _distance(self, read: np.ndarray) -> int:
        """The number of turns since what is read was set; 0 where that is not one number."""
        turns = np.arange(len(read))
        when = np.full(len(self._original), len(turns))  # never
        when[self._places] = turns
        distance = turns - when[read]
        known = int(distance[-1])
        steady = known > 0 and bool((distance[known:] == known).all())
        return known if steady and not (distance[:known] > 0).any() else 0


def _following(places: np.ndarray) -> np.ndarray:
    """Where items are set, if those of the turn before are read at some places."""
    return np.append(places[1:], 2 * places[-1] - places[-2 if len(places) > 1 else -1])
