"""Lists of numbers and arrays as arrays: read at a traced place, gone over by a loop, added up.

The items must be alike, in structure, shape and dtype. Traced items are taken so where they are the
rows of a few arrays, as what a loop has appended is; others would be copied together first.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import tree
from ..ops.op import Traced
from ..types import ArrayType, type_of, weaken
from .values import is_abstract, is_number

# Items of a list that come from one array at least, where they are traced.
_FEW = 4

# Functions of an array that NumPy would make of a list; of the items of a list it asks none.
_NAMES = (
    "all any amax amin argmax argmin argsort average cumprod cumsum diff dot inner max mean median "
    "min outer prod ptp sort std sum trapezoid var vdot"
)
OF_ARRAYS = frozenset([*[getattr(np, name) for name in _NAMES.split()], np.linalg.norm])


class Items:
    """A list as one array for each leaf of its items."""

    def __init__(self, structure: tree.Structure, columns: Sequence[Any], types: Sequence[Any]):
        self.structure, self.columns, self.types = structure, columns, types

    def at(self, k: Any) -> Any:
        """The item at a place."""
        leaves = [_leaf(row(c, k), t) for c, t in zip(self.columns, self.types, strict=True)]
        return tree.unflatten(self.structure, leaves)


def _leaf(value: Any, own: ArrayType) -> Any:
    return weaken(value) if own.weak else value


def row(array: Any, k: Any) -> Any:
    """A row of an array at a place that may be traced."""
    if isinstance(array, Traced):
        return array[k]  # type: ignore[index]
    from ..numpy import take

    return take(array, k, axis=0)


def items_of(items: Sequence[Any]) -> Items | None:
    """A list as arrays; None where its items are no numbers, not alike, or too far apart."""
    if not items:
        return None
    first, structure = tree.flatten(items[0])
    if not first or not all(map(is_number, first)):
        return None
    types = [type_of(leaf) for leaf in first]
    rows = [first]
    for item in items[1:]:
        leaves, own = tree.flatten(item)
        if own != structure or not all(map(is_number, leaves)):
            return None
        if any(type_of(leaf) != t for leaf, t in zip(leaves, types, strict=True)):
            return None
        rows.append(leaves)
    columns = [_column(list(column)) for column in zip(*rows, strict=True)]
    return None if any(column is None for column in columns) else Items(structure, columns, types)


def _column(items: list[Any]) -> Any:
    """Items that are alike as an array; None where that would copy traced ones together."""
    from ..numpy.common import stretches
    from ..ops.structure import concatenate

    if not any(isinstance(item, Traced) for item in items):
        plain = np.array(items)
        return plain if plain.dtype == type_of(items[0]).dtype else None
    parts = stretches(items)
    if len(parts) * _FEW > len(items):
        return None
    return parts[0] if len(parts) == 1 else concatenate(*parts, axis=0)


def total(items: Any, /, start: Any = 0) -> Any:
    """``sum`` of a list."""
    found = items_of(items) if type(items) is list and any(map(is_abstract, items)) else None
    if found is None or found.structure is not tree.LEAF:
        return builtins.sum(items, start)
    from ..numpy import sum as added

    return start + added(found.columns[0], axis=0)


def of_lists(function: Any) -> Any:
    """A function of arrays that takes lists of traced values too."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*[_array(arg) for arg in args], **kwargs)

    return call


def _array(arg: Any) -> Any:
    if type(arg) is not list and type(arg) is not tuple:
        return arg
    from ..numpy.common import as_value, contains_traced

    return as_value(arg) if contains_traced(arg) else arg
