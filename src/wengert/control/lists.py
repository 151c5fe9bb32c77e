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
from ..ops.layout import reshape
from ..ops.op import Traced, uncaptured
from ..trace.conditional import check_current
from ..types import ArrayType, type_of, weaken
from .values import is_abstract, is_number

# Items of a list that come from one array at least, where they are traced.
_FEW = 4


class Items:
    """A list as one array for each leaf of its items."""

    def __init__(self, structure: tree.Structure, columns: Sequence[Any], types: Sequence[Any]):
        self.structure, self.columns, self.types = structure, columns, types

    def at(self, k: Any) -> Any:
        """The item at a place."""
        leaves = [_leaf(row(c, k), t) for c, t in zip(self.columns, self.types, strict=True)]
        return tree.unflatten(self.structure, leaves)

    def array(self) -> Any:
        """The list as one array, as NumPy makes one of it; None where there is none."""
        return _array_of(self.structure, list(self.columns))


class ListedRows(Items):
    """A list that one turn of a comprehension has made for all, before anybody looks at its items.

    An item may be such a list itself.
    """

    def __init__(
        self, length: int, structure: tree.Structure, columns: Sequence[Any], types: Sequence[Any]
    ):
        super().__init__(structure, columns, types)
        self.length = length

    def items(self) -> list[Any]:
        """The list itself."""
        return [exposed(self.at(k)) for k in range(self.length)]

    def joined(self) -> Any:
        """The items of all its items."""
        if self.structure.kind is not ListedRows:
            return [item for items in self.items() for item in items]
        inner, structure, types = self.structure.data
        columns = [_merged(column) for column in self.columns]
        return ListedRows(self.length * inner, structure, columns, types)


tree.register(
    ListedRows,
    lambda one: (one.columns, (one.length, one.structure, tuple(one.types))),
    lambda data, columns: ListedRows(data[0], data[1], columns, data[2]),
)


def exposed(value: Any) -> Any:
    """What a comprehension gives, for everybody to see."""
    if type(value) is ListedRows:
        return value.items()
    return [exposed(item) for item in value] if type(value) is list else value


def as_array(value: Any) -> Any:
    """What a comprehension gives, for a function that makes an array of it."""
    if type(value) is list and any(type(item) is ListedRows for item in value):
        return [as_array(item) for item in value]
    found = value.array() if type(value) is ListedRows else None
    return exposed(value) if found is None else found


def joined(lists: Any) -> Any:
    """The items of all lists that a comprehension gives."""
    if type(lists) is ListedRows:
        return lists.joined()
    return [item for items in exposed(lists) for item in items]


def _array_of(structure: tree.Structure, columns: list[Any]) -> Any:
    if structure is tree.LEAF:
        return columns[0]
    if structure.kind is ListedRows:
        return _array_of(structure.data[1], columns)
    if structure.kind not in (list, tuple):
        return None
    following = iter(columns)
    parts = [
        _array_of(child, [next(following) for _ in range(child.leaf_count)])
        for child in structure.children
    ]
    if not parts or len({None if part is None else type_of(part).shape for part in parts}) > 1:
        return None
    from ..numpy import stack

    return None if parts[0] is None else stack(parts, axis=1)


def _merged(column: Any) -> Any:
    """An array with its first two axes as one."""
    first, second, *rest = type_of(column).shape
    return reshape(column, shape=(first * second, *rest))


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
    for leaf in (leaf for leaves in rows for leaf in leaves if isinstance(leaf, Traced)):
        check_current(leaf)
    with uncaptured():  # once, where the items are from, and not in every turn of a loop
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
    found: Items | None = items if type(items) is ListedRows else None
    if type(items) is list and any(map(is_abstract, items)):
        found = items_of(items)
    if found is None or found.structure is not tree.LEAF:
        return builtins.sum(exposed(items), start)
    from ..numpy import sum as added

    (column,), (own,) = found.columns, found.types
    # Python adds numbers of their own kind, where NumPy widens integers
    kept = None if own.dtype.kind == "b" else own.dtype
    return start + _leaf(added(column, axis=0, dtype=kept), own)
