"""Lists that the turns of a loop append to, or to whose front they insert: what all turns add comes
out of the loop as rows.

    outs = []                             outs = []
    for x in xs:                 ->       h, rows = loop(...)
        h = f(h, x)                       outs.extend(rows)
        outs.append(h)

While a turn is traced a *growing* list stands for the list: it takes what is appended, and knows
the last items, of this turn and of those before, which the loop carries on. Whatever else is done
with it ends the attempt.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import tree
from ..graph import Node
from ..trace.either import may_be
from ..types import ArrayType, weaken
from . import packed
from .alike import is_fetched, written
from .containers import Twin
from .conversion import local
from .lists import ListedRows
from .pieces import Abandon, Grows, Outward, TracedPiece
from .read_back import ReadBack
from .reads import in_turns, inputs_of
from .values import as_node, is_abstract, is_number, is_own_array
from .windows import refuse_windows

# Turns that an item is carried on.
LONGEST = 4


class Deeper(Outward):
    """One more of the last items of a list has to be carried on."""

    def __init__(self, grown: Growing):
        self.grown = grown


class Collector:
    """The list that a comprehension appends to, of which nobody else knows."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self.rows: ListedRows | None = None

    def __len__(self) -> int:
        return len(self.items)

    def append(self, item: Any) -> None:
        """Take an item."""
        self.items.append(item)

    def take(self, appended: Sequence[Any], rows: Sequence[Any], types: Any, turns: int) -> None:
        """Take the items of all turns, of which each appends one or none."""
        for structure, _ in appended:
            found = ListedRows(turns, structure, rows, types)
            if self.items:
                self.items += [found.at(k) for k in range(turns)]
            else:
                self.rows = found

    def result(self) -> Any:
        """The list, or what stands for it."""
        return self.items if self.rows is None else self.rows


class Growing:
    """What stands for a list in a turn."""

    is_stand_in = True  # whose methods have no effects outside of the turn

    def __init__(self, original: Any, front: bool = False):
        self._original, self._front = original, front
        self._how = "insert()" if front else "append()"
        self._depth = 0
        self._back: ReadBack | None = None  # all items, where turns read them at any place

    # ------------------------------------------------------------ for the loop

    def _first(self, rows: Any) -> list[Any]:
        """What is carried on, as it is at first."""
        found = self._first_items()
        if self._back is not None:
            if rows is None:
                raise Abandon  # nobody knows how long the list will be
            found += self._back.first(len(rows))
        self._count = len(found)
        return found

    def _first_items(self) -> list[Any]:
        """The leaves of the items that are carried on, the latest first."""
        if type(self._original) is list and len(self._original) < self._depth:
            raise Abandon
        self._kinds: list[tree.Structure] = []
        found: list[Any] = []
        for place in range(self._depth):
            leaves, structure = tree.flatten(self._early(place))
            if not all(map(is_number, leaves)):
                raise Abandon
            self._kinds.append(structure)
            found += leaves
        return found

    def _early(self, number: int) -> Any:
        """An item that is carried on at first, the latest first."""
        return self._original[number if self._front else -1 - number]

    def _enter(self, inside: TracedPiece, leaves: Any, rows: Any) -> None:
        self._inside, self._rows = inside, rows
        self._held = [
            tree.unflatten(kind, [next(leaves) for _ in range(kind.leaf_count)])
            for kind in self._kinds
        ]
        if self._back is not None:
            self._back.enter([next(leaves) for _ in self._back.types])
        self._given = [Twin(item, item) for item in self._held]
        self._new: list[Any] = []
        self._contents: list[list[int]] = []  # what is in the new items
        self._nodes: list[tuple[tree.Structure, list[Node]]] = []
        # arrays that the leaves of what is appended may be, or be views of
        self._outside: list[list[list[Any]]] = []

    def _latest(self) -> list[Node]:
        """The nodes of the items that are carried on, after a turn."""
        found: list[Node] = []
        new = [one for item in reversed(self._new) for one in self._last_of(item)]
        items = [*new, *self._held]
        for kind, item in zip(self._kinds, items, strict=False):
            leaves, structure = tree.flatten(item)
            if structure != kind:
                raise Abandon
            found += [self._inside.trace.node_of(leaf) for leaf in leaves]
        if self._back is not None:
            found += [self._inside.trace.node_of(column) for column in self._back.columns]
        return found

    def _last_of(self, item: Any) -> list[Any]:
        """An item, or the last of those that an inner loop has appended, the latest first."""
        if type(item) is not ListedRows:
            return [item]
        return [item.at(item.length - 1 - k) for k in range(min(item.length, self._depth))]

    def _appended(self) -> list[Node]:
        """What a turn appends, in order; it must be then what it is at the end of the turn."""
        if any(twin.changed(twin.copy) for twin in self._given):
            raise Abandon  # an item of the list would be another one then
        if [self._content(item) for item in self._new] != self._contents:
            raise Abandon
        every = [node for _, nodes in self._nodes for node in nodes]
        self._types = [node.type for node in every]
        return [as_node(node, ArrayType(node.type.dtype, node.type.shape)) for node in every]

    def _content(self, item: Any) -> list[int]:
        """What tells whether an item was changed: its leaves, and what is written in arrays."""
        node_of = self._inside.trace.node_of
        return [id(node_of(one) if is_own_array(one) else one) for one in tree.leaves(item)]

    def _extend(self, rows: Sequence[Any], turns: int) -> None:
        """Give the list the items of all turns."""
        for row, storages in zip(rows, itertools.chain(*self._outside), strict=True):
            may_be(row, storages)
        if isinstance(self._original, Collector):
            self._original.take(self._nodes, rows, self._types, turns)
            return
        if isinstance(self._original, Growing):
            self._original._take_all(self._nodes, rows, self._types, turns)
            return
        if local.inside is not None:
            local.inside.changes(self._original, self._how)
        written(self._original)
        if len(self._nodes) == 1 and self._nodes[0][0].kind is ListedRows:
            ((structure, _),) = self._nodes
            self._put(ListedRows(turns, structure, rows, self._types).joined().items())
            return
        items = []
        columns = [_rows_of(row, t) for row, t in zip(rows, self._types, strict=True)]
        for turn in range(turns):
            leaves = iter([_row(c[turn], t) for c, t in zip(columns, self._types, strict=True)])
            for structure, nodes in self._nodes:
                items.append(tree.unflatten(structure, [next(leaves) for _ in nodes]))
        self._put(items)

    def _take_all(self, nodes: Sequence[Any], rows: Sequence[Any], types: Any, turns: int) -> None:
        """Note what the turns of an inner loop append, one each."""
        if len(nodes) != 1 or self._front or nodes[0][0].kind is ListedRows:
            raise Abandon
        ((structure, _),) = nodes
        self._note(ListedRows(turns, structure, rows, types))

    def _latest_item(self, place: int) -> Any:
        """What the last turn has put into the list, as it is there."""
        if self._front:
            return self._original[len(self._new) - 1 - place]
        return self._original[place - len(self._new)]

    def _put(self, items: Sequence[Any]) -> None:
        if self._front:
            self._original[:0] = items[::-1]
        else:
            self._original.extend(items)

    # ------------------------------------------------------------ for the turn

    def append(self, item: Any) -> None:
        """Note an item at the end."""
        if self._front:
            raise Abandon
        self._note(item)

    def __iadd__(self, items: Any) -> Any:  # type: ignore[misc] # no other sum is allowed
        if type(items) not in (list, tuple):
            raise Abandon
        for item in items:
            self.append(item)
        return self

    def insert(self, place: Any, item: Any) -> None:
        """Note an item at the front."""
        if not self._front or type(place) is not int or place != 0:
            raise Abandon
        self._note(item)

    def __setitem__(self, key: Any, item: Any) -> None:
        if (
            type(key) is not int
            or not -len(self._new) <= key < 0
            or self._front
            or self._has_blocks
        ):
            raise Abandon  # it is no item of this turn
        self._note(item, key)

    def _note(self, item: Any, place: int = 0) -> None:
        """Take down a new item, or another one in the place of one, from the end on."""
        leaves, structure = tree.flatten(item)
        if local.inside is not self._inside:
            raise Grows(self, self._front)  # type: ignore[arg-type] # in a loop inside
        if not all(map(is_number, leaves)):
            raise Abandon
        if is_fetched(item):
            raise Abandon  # which one of another list it is, is known turn by turn
        refuse_windows(leaves)
        if self._back is not None and not self._back.put(self._length() + place, leaves, structure):
            raise Deeper(self)
        leaves, structure = packed.flatten(item, True) if local.tables else (leaves, structure)
        nodes = [self._inside.trace.node_of(leaf) for leaf in leaves]
        where = slice(place, place + 1 or None) if place else slice(len(self._new), None)
        self._contents[where] = [self._content(item)]
        self._nodes[where] = [(structure, nodes)]
        self._outside[where] = [[self._inside.seen_outside(leaf) for leaf in leaves]]
        self._new[where] = [item]

    def __getitem__(self, key: Any) -> Any:
        if is_abstract(key):
            return self._at(key)
        if type(key) is int and key >= 0 and not self._front:
            early = key < len(self._original)
            return self._original[key] if early else self._anywhere(key)
        if type(key) is not int or (key < 0) is self._front:
            raise Abandon
        back = key + 1 if self._front else -key
        for item in reversed(self._new):
            known = item.length if type(item) is ListedRows else 1
            if back <= known:
                return item.at(known - back) if type(item) is ListedRows else item
            back -= known
        return self._carried(back)

    def _carried(self, distance: int) -> Any:
        if distance > LONGEST:
            return self._anywhere(-distance)
        if distance <= 0:
            raise Abandon
        if distance > self._depth:
            self._depth = distance
            raise Deeper(self)
        return self._held[distance - 1]

    def _anywhere(self, key: Any) -> Any:
        """An item at any place, of those that are there now."""
        if self._front or type(self._original) is not list:
            raise Abandon
        if self._back is None:
            self._back = ReadBack(self._original)
            raise Deeper(self)
        return self._back.at(key, self._length())

    def _length(self) -> Any:
        """The number of items that are there now, if a turn appends one."""
        self._one = True
        return self._inside.turn() + (len(self._original) + len(self._new))

    def _so_far(self) -> Any:
        """How many items there are by now."""
        if isinstance(self._original, Growing):
            raise Abandon
        return weaken(self._length())

    def _at(self, key: Any) -> Any:
        """An item at a place that the number of the turn tells; a turn appends one."""
        own = key._trace is self._inside.trace
        node = self._inside.trace.node_of(key) if own else None
        if node is None or self._rows is None or self._new:
            return self._anywhere(key)
        counter = self._inside.counter
        if inputs_of(node) != {counter.serial}:
            return self._anywhere(key)
        places = in_turns(node, counter, self._rows)
        length = len(self._original) + np.arange(len(self._rows))
        back = places + 1 if self._front else length - places
        distances = np.unique(np.where(places < 0, length + back if self._front else -places, back))
        if len(distances) > 1 or distances[0] > LONGEST:
            return self._anywhere(key)
        self._one = True
        return self._carried(int(distances[0]))

    _one = False  # whether a turn must append one item

    def _check(self) -> None:
        if (self._one or self._has_blocks) and len(self._nodes) != 1:
            raise Abandon
        if self._has_blocks and self._one:
            raise Abandon

    @property
    def _has_blocks(self) -> bool:
        """Whether an inner loop has appended all that its turns do."""
        return any(type(one) is ListedRows for one in self._new)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # asked by those who look at all values
            raise AttributeError(name)
        raise Abandon

    def _refuse(self, *args: Any) -> Any:
        raise Abandon

    __len__ = __iter__ = __bool__ = __contains__ = __reversed__ = __array__ = _refuse
    __add__ = __radd__ = __mul__ = __eq__ = __delitem__ = _refuse
    __array_ufunc__ = __array_function__ = _refuse
    __hash__ = object.__hash__


def _row(row: Any, own: ArrayType) -> Any:
    """A row of an array, of Python's own numbers if they are."""
    return weaken(row) if own.weak and own.shape else row


def _rows_of(rows: Any, own: ArrayType) -> Any:
    """The rows of an array, as a list where they are numbers."""
    return rows if own.shape else packed.elements(rows, own.weak)
