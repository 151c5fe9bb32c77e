"""The items of a list that a loop appends to, as arrays, where turns read them at any place.

    basis = [b]                             columns = stack([b, 0, 0, ...])
    for k in range(n):                      for k in range(n):
        v = f(basis[k])            ->           v = f(columns[k])
        for j in range(k + 1):                  for j in range(k + 1):
            v = g(v, basis[j])                      v = g(v, columns[j])
        basis.append(v)                         columns[k + 1] = v

The arrays are as long as the list is behind the loop. What is not there yet is not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import tree
from ..ops import elementwise as ew
from ..ops import logic
from ..ops.layout import convert
from ..ops.op import Traced
from ..ops.positions import provided
from ..trace.indexing import setitem
from ..types import ArrayType, type_of, weaken
from .all_turns import in_all_turns, loops_and_pairs
from .held_arrays import ChangedType
from .pieces import Abandon
from .values import common, is_fixed, is_number, is_own_array


class ReadBack:
    """The items of a list, those that are there before the loop first."""

    def __init__(self, items: Sequence[Any]):
        if not items:
            raise ChangedType  # the first turn tells what they are
        found = [tree.flatten(item) for item in items]
        self.structure = found[0][1]
        alike = all(own == self.structure for _, own in found) and is_fixed(self.structure)
        if not alike or not all(is_number(leaf) for leaves, _ in found for leaf in leaves):
            raise Abandon
        self.items = list(zip(*[leaves for leaves, _ in found], strict=True))
        self.types = [_common_of(map(type_of, column)) for column in self.items]
        self.taken: list[Any] = []  # arrays that a turn has read

    def first(self, turns: int) -> list[Any]:
        """The arrays before the loop."""
        from ..numpy import concatenate, stack

        made = []
        for column, own in zip(self.items, self.types, strict=True):
            rest = np.zeros((turns, *own.shape), own.dtype)
            made.append(concatenate([stack(column, dtype=own.dtype), rest]))
        return made

    def enter(self, columns: Sequence[Any]) -> None:
        """Stand for the arrays in a turn."""
        self.columns, self.taken = list(columns), []

    def put(self, place: Any, leaves: Sequence[Any], structure: tree.Structure) -> bool:
        """Set an item; False if it is of a wider type than those before."""
        if structure != self.structure:
            raise Abandon
        pairs = zip(self.types, map(type_of, leaves), strict=True)
        types = [_common_of(pair) for pair in pairs]
        if types != self.types:
            self.types = types
            return False
        self.columns = [
            setitem(column, place, convert(leaf, dtype=column.type.dtype))
            for column, leaf in zip(self.columns, leaves, strict=True)
        ]
        return True

    def at(self, key: Any, length: Any) -> Any:
        """The item at a place, of as many as there are."""
        if not _always(logic.greater_equal(key, 0)):
            key = ew.select(logic.less(key, 0), ew.add(key, length), key)
        flag = logic.logical_and(logic.greater_equal(key, 0), logic.less(key, length))
        found = [column[key] for column in self.columns]
        if not _always(flag):
            found = [provided(leaf, flag, **_OUTSIDE) for leaf in found]
        self.taken += [leaf for leaf in found if type_of(leaf).shape]
        pairs = zip(found, self.types, strict=True)
        return tree.unflatten(self.structure, [weaken(x) if t.weak else x for x, t in pairs])

    def are_kept(self, values: Sequence[Any]) -> bool:
        """Whether arrays that a turn has read are written to, or among some values: those of the
        list would be written to, now or later."""
        storages = {
            id(leaf._storage())
            for value in values
            for leaf in tree.leaves(value)
            if is_own_array(leaf)
        }
        return any(
            is_own_array(one) and (one._storage()._version or id(one._storage()) in storages)
            for one in self.taken
        )


_OUTSIDE = {
    "error": "IndexError",
    "name": "",
    "problem": "list index out of range",
    "remedy": "",
}


def _common_of(types: Any) -> ArrayType:
    found, *rest = types
    for one in rest:
        wider = common(found, one)
        if wider is None:
            raise Abandon
        found = wider
    own: ArrayType = found
    return own


def _always(flag: Any) -> bool:
    """Whether a condition is known to hold in all turns."""
    if not isinstance(flag, Traced):
        return bool(flag)
    for loop in loops_and_pairs():
        known = in_all_turns(flag, loop)
        if known is not None:
            return bool(known.all())
    return False
