"""Lists of numbers and arrays as arrays: read at a traced place, gone over by a loop, added up.

The items must be alike, in structure, shape and dtype. Traced items are taken so where they are the
rows of a few arrays, as what a loop has appended is; others would be copied together first.
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import tree
from ..ops import elementwise as ew
from ..ops import logic
from ..ops.layout import reshape
from ..ops.op import Traced, uncaptured
from ..ops.positions import provided
from ..trace.conditional import check_current
from ..trace.either import may_be
from ..trace.indexing import setitem
from ..trace.tracer import lift
from ..trace.views import read_only, snapshot
from ..types import ArrayType, type_of, weaken
from . import packed
from .alike import are_alike, containers_in, fetched, others, written
from .conversion import local
from .held_arrays import storages_before
from .values import common, failure, is_abstract, is_number, is_own_array

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


def no_place(doing: str, reason: str) -> Exception:
    """The error for a list at a traced place."""
    return failure(
        f"{doing} an item of a list",
        f"the place is traced, and the items cannot be taken as one array: {reason}",
        "Keep them in an array, such as np.zeros((n, m)), and use x[i, j].",
    )


def one_of(items: Sequence[Any], made: Any) -> Any:
    """What is an item of a list, but which one is traced: a write to it, or to one of them, makes
    unreadable what may have been changed."""
    leaves, structure = tree.flatten(made)
    columns = zip(*map(tree.leaves, items), strict=True)
    related = [_array_of_these(leaf, held) for leaf, held in zip(leaves, columns, strict=True)]
    same = all(new is old for new, old in zip(related, leaves, strict=True))
    return fetched(made if same else tree.unflatten(structure, related), items)


def _array_of_these(leaf: Any, held: Sequence[Any]) -> Any:
    """An array that is one of those that a list holds."""
    if not type_of(leaf).shape:
        return leaf
    storages = [storage for item in held for storage in storages_before(item)]
    if any(leaf._storage() is storage for storage in storages):
        return leaf  # a row of the array that all of them are rows of
    leaf = snapshot(leaf)
    return may_be(leaf if all(map(is_own_array, held)) else read_only(leaf), storages)


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
    """What a comprehension gives, for everybody to see; lists of the user's are what they are."""
    if type(value) is ListedRows:
        return value.items()
    if type(value) is not list:
        return value
    items = [exposed(item) for item in value]
    return items if any(map(operator.is_not, items, value)) else value


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


def items_of(items: Sequence[Any], copied: bool = False) -> Items | None:
    """A list as arrays; None where its items are no numbers, not alike, or too far apart.

    With `copied`, traced items are copied together, in the type that NumPy gives all of them.
    """
    if not items:
        return None
    found = None if copied else _of_rows(items)
    if found is not None:
        return found
    first, structure = tree.flatten(items[0])
    if not first or not all(map(is_number, first)):
        return None
    types = [type_of(leaf) for leaf in first]
    rows = [first]
    for item in items[1:]:
        leaves, own = tree.flatten(item)
        if own != structure or not all(map(is_number, leaves)):
            return None
        for place, (leaf, known) in enumerate(zip(leaves, types, strict=True)):
            wanted = common(known, type_of(leaf)) if copied else type_of(leaf)
            if wanted is None or not (copied or wanted == known):
                return None
            types[place] = wanted
        rows.append(leaves)
    for leaf in (leaf for leaves in rows for leaf in leaves if isinstance(leaf, Traced)):
        check_current(leaf)
    if copied:
        from ..numpy import stack

        columns = [
            stack(column, dtype=t.dtype)
            for column, t in zip(zip(*rows, strict=True), types, strict=True)
        ]
        return Items(structure, columns, types)
    with uncaptured():  # once, where the items are from, and not in every turn of a loop
        columns = [_column(list(column)) for column in zip(*rows, strict=True)]
    return None if any(column is None for column in columns) else Items(structure, columns, types)


def _of_rows(items: Sequence[Any]) -> Items | None:
    """Long lists of numbers, all of one length, as one array; None where they are something else.

    An array for each place in them would be many, and an item of one row would come from all.
    """
    if type(items[0]) is not list or type(items) not in (list, tuple):
        return None
    shape = packed.shape_of(list(items))
    if shape is None or not packed.is_long(shape[1:]):
        return None
    with uncaptured():
        column = packed.column_of(list(items), True)
    if column is None:
        return None
    size = column.type.size // len(items)
    own = ArrayType(column.type.dtype, (size,), column.type.weak)
    column = reshape(column, shape=(len(items), size))
    return Items(packed.structure_of(shape[1:]), [column], [own])


def set_item(items: list[Any], k: Any, value: Any) -> None:
    """Set the item of a list at a traced place; all of them are of one type then."""
    every = [*items, value]
    if all(map(is_row, every)):
        _set_row(items, k, value)
        return
    # others may hold an item that can be changed: which one is replaced has to be known
    fixed = not any(type_of(leaf).shape for leaf in filter(is_number, tree.leaves(every)))
    fixed = fixed and next(containers_in(tuple(every)), None) is None
    found = items_of(every, copied=True) if fixed else None
    if found is None:
        raise no_place("setting", "they are no numbers, or not of one kind")
    found.columns = [setitem(column[:-1], k, column[-1]) for column in found.columns]
    items[:] = [found.at(place) for place in range(len(items))]


def is_row(value: Any) -> bool:
    """Whether it is a list of numbers, or an array that can be written to."""
    if type(value) is list:
        return all(is_number(item) and not type_of(item).shape for item in value)
    return is_own_array(value) and len(type_of(value).shape) > 0


def place_in(items: Sequence[Any], k: Any) -> Any:
    """A traced place in a list, counted from the front; an error where there is none."""
    place = ew.select(logic.less(k, 0), k + len(items), k)
    there = logic.logical_and(logic.greater_equal(place, 0), logic.less(place, len(items)))
    texts = {"name": "", "problem": "list assignment index out of range", "remedy": ""}
    return provided(place, there, error="IndexError", **texts)


def exchange(items: list[Any], i: Any, j: Any) -> bool:
    """Exchange two lists or arrays in a list, one of them at a traced place; False where the items
    are others.

    The list holds new ones then. Each may be any that was there before, but they are not the same
    among each other.
    """
    if not all(map(is_row, items)):
        return False
    if local.inside is not None:
        local.inside.changes(items, "an assignment")
    written(items)

    def exchanged(whole: Any) -> Any:
        first, second = row(whole, i), row(whole, j)
        return setitem(setitem(whole, i, second), j, first)

    _rearrange(items, items, exchanged)
    return True


def _set_row(items: list[Any], k: Any, value: Any) -> None:
    """Put another list or array into a list, in the place of one that is traced."""
    place = place_in(items, k)
    _rearrange(items, [*items, value], lambda whole: setitem(whole[:-1], place, whole[-1]))


def _rearrange(items: list[Any], every: Sequence[Any], rearranged: Callable[[Any], Any]) -> None:
    """Put new items into a list, each of which may be any of some that there are."""
    found = items_of(every) or items_of(every, copied=True)
    if found is None or len({*map(id, every)}) < len(every):
        raise no_place("setting", "they are not of one shape, or one is there twice")
    columns = [rearranged(c if isinstance(c, Traced) else lift(c)) for c in found.columns]
    made = Items(found.structure, columns, found.types)
    before = [(one, *others(one)) for one in every]
    storages = [storage for item in every for storage in storages_before(item)]
    bumps = [0]
    items[:] = [_made_of(made.at(place), before, storages, bumps) for place in range(len(items))]


def _made_of(
    value: Any, before: Sequence[Sequence[Any]], storages: Sequence[Any], bumps: list[int]
) -> Any:
    """A list or an array that may be any that was there before."""
    if type(value) is not list:
        return may_be(snapshot(value), storages, bumps)
    for one in (thing for things in before for thing in things):
        are_alike(value, one)
    return value


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
