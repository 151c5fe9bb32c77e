"""Dictionaries that are read at a traced key: the values as arrays, at the place of the key."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import tree
from ..ops import logic
from ..ops.positions import provided
from ..types import type_of, weaken
from .lists import items_of, one_of
from .values import failure, is_abstract

_MISSING = {"error": "KeyError", "name": "", "problem": "the key is not there", "remedy": ""}


def is_traced_key(key: Any) -> bool:
    """Whether a key, or a part of it, has no number yet."""
    return any(map(is_abstract, key)) if type(key) is tuple else is_abstract(key)


class Keyed:
    """A dictionary whose keys may be traced."""

    __slots__ = ("items",)

    def __init__(self, items: dict[Any, Any]):
        self.items = items

    def __getitem__(self, key: Any) -> Any:
        return _at(self.items, key) if is_traced_key(key) else self.items[key]

    def __setitem__(self, key: Any, item: Any) -> None:
        if is_traced_key(key):
            raise _no_key("setting", "which item it is, and whether it is a new one, is not known")
        self.items[key] = item

    def __delitem__(self, key: Any) -> None:
        del self.items[key]


def _no_key(doing: str, reason: str) -> Exception:
    return failure(
        f"{doing} an item of a dictionary",
        f"the key is traced: {reason}",
        "Use a list or an array, and a number for each key.",
    )


def _at(items: dict[Any, Any], key: Any) -> Any:
    """The item at a key of numbers."""
    parts = key if type(key) is tuple else (key,)
    keys = [one if type(one) is tuple else (one,) for one in items]
    numbers = all(isinstance(one, (int, float, np.number)) for own in keys for one in own)
    if not all(type_of(part).shape == () for part in parts if is_abstract(part)) or not numbers:
        raise _no_key("reading", "it is compared with keys that are no numbers")
    if any(len(own) != len(parts) for own in keys) or not items:
        raise KeyError(key)
    values = list(items.values())
    found = items_of(values, copied=True)
    if found is None:
        raise _no_key("reading", "the items cannot be taken as one array")
    from ..numpy import argmax

    same = None
    for column, part in zip(zip(*keys, strict=True), parts, strict=True):
        equal = logic.equal(np.array(column), part)
        same = equal if same is None else logic.logical_and(same, equal)
    place = argmax(same)
    item = found.at(place)
    leaves, structure = tree.flatten(item)
    there = same[place]  # type: ignore[index]
    sure = [provided(leaf, there, **_MISSING) for leaf in leaves]
    pairs = zip(sure, leaves, strict=True)
    kept = [weaken(new) if type_of(old).weak else new for new, old in pairs]
    return one_of(values, tree.unflatten(structure, kept))
