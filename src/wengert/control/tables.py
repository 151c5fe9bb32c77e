"""Lists of numbers, and lists of such lists, as arrays while a loop is made that sets their items.

    table = [[0.0] * m for _ in range(n)]
    for i in range(1, n):                           for i in range(1, n):
        for j in range(1, m):                ->         for j in range(1, m):
            table[i][j] = f(table[i - 1][j])                array[i, j] = f(array[i - 1, j])

A `Table` takes the place of a list in variables, attributes and containers as long as the loop is
made; a turn changes it as it would an object of the user's. Behind the loop the lists get their
items back. Meanwhile nothing can be done with what is in them: who has them by another way ends the
attempt. So does all that is done to a table beyond reading and setting items.
"""

from __future__ import annotations

import contextlib
import math
import operator
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from .. import tree
from ..ops import logic
from ..ops.layout import reshape
from ..ops.op import Traced, uncaptured
from ..trace.indexing import setitem
from ..trace.tracer import lift
from ..types import ArrayType, type_of, weaken
from .alike import forget, others, written
from .blanks import known_values
from .containers import objects_in
from .conversion import local
from .growing import Growing
from .packed import SHORT, column_of, elements, joined, numbers_in, shape_of
from .pieces import Abandon, Fills, Grown, Outward, Tabled, TracedPiece
from .values import ATOMS, Partial, can_be_written, common, is_abstract, is_fixed, is_number

# What items are taken for until one is set.
_NUMBER = ArrayType(np.dtype(np.float64), ())
# How often a loop is made again, with one table more or with wider types.
_MOST = 24


class _Widened(Outward):
    """Ends all attempts up to the loop that has a table, whose items have other types."""

    def __init__(self, table: Table, types: Sequence[ArrayType], structure: tree.Structure | None):
        self.table, self.types, self.structure = table, types, structure


class _Regrown(Outward):
    """Ends all attempts up to the loop that has a table, to which a turn adds items."""

    def __init__(self, table: Table, front: bool):
        self.table, self.front = table, front


class _Absent(Partial):
    """An item of a list for which a table stands."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("", "")

    def refuse(self, *args: Any, **kwargs: Any) -> Any:
        """End the attempt."""
        raise Abandon

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.refuse()


for _name in [name for name, value in vars(Partial).items() if value is Partial.refuse]:
    setattr(_Absent, _name, _Absent.refuse)


class _Lists:
    """Those for which a table stands, with what was in them, kept where nobody looks."""

    def __init__(self, owner: list[Any], lists: Sequence[list[Any]]):
        self.owner = owner  # the list for which the table stands
        self.pairs = [(one, list(one)) for one in lists]
        self.rows: list[weakref.ref[Row]] = []  # those that somebody may have
        self.are_exchanged = False  # whether turns exchange rows

    def put(self, contents: Iterable[list[Any]]) -> None:
        """Put other items into them."""
        for (one, _), items in zip(self.pairs, contents, strict=True):
            one[:] = items

    def replace(self, contents: Iterable[list[Any]]) -> None:
        """Put other lists in their place: which of them these are is not known."""
        self.owner[:] = contents
        for one, _ in self.pairs:
            forget(one)

    def lose_rows(self) -> None:
        """End the use of all rows that somebody has; and the attempt, if a turn could use one that
        was there before it."""
        around, piece = [], local.inside
        while piece is not None:
            piece = piece.outer
            around.append(piece)
        for row in [found for one in self.rows if (found := one()) is not None]:
            if any(row.piece is one for one in around):
                raise Abandon
            row.is_lost = True
        self.rows.clear()


class Row:
    """What stands for a list in a table."""

    stands_for_lists = True

    def __init__(self, table: Table, key: tuple[Any, ...]):
        self.table, self.key = table, key
        self.piece, self.is_lost = local.inside, False

    def __len__(self) -> int:
        if self.is_lost:
            raise Abandon
        return self.table.shape[len(self.key)]

    def __getitem__(self, key: Any) -> Any:
        if type(key) is slice and all(type(k) in (int, type(None)) for k in _ends(key)):
            return [self._at(k) for k in range(*key.indices(len(self)))]
        return self._at(key)

    def _at(self, key: Any) -> Any:
        key = (*self.key, self._checked(key))
        if len(key) == len(self.table.shape):
            return self.table.item(key)
        row = Row(self.table, key)
        self.table.note(row)
        return row

    def _checked(self, key: Any) -> Any:
        if self.is_lost:
            raise Abandon
        if type(key) is int:
            if not -len(self) <= key < len(self):
                raise IndexError("list index out of range")
            return key
        if not is_abstract(key) or type_of(key).shape or type_of(key).dtype.kind not in "iu":
            raise Abandon
        return key

    def __setitem__(self, key: Any, item: Any) -> None:
        key = (*self.key, self._checked(key))
        if len(key) < len(self.table.shape):
            raise Abandon
        self.table.set(key, item)

    def __iter__(self) -> Iterator[Any]:
        return map(self._at, range(len(self)))

    def __reversed__(self) -> Iterator[Any]:
        return map(self._at, range(len(self))[::-1])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # asked by those who look at all values
            raise AttributeError(name)
        if self is self.table and name in ("append", "extend", "insert"):
            raise _Regrown(self.table, name == "insert")
        raise Abandon

    def _refuse(self, *args: Any) -> Any:
        raise Abandon

    __bool__ = __contains__ = __array__ = __add__ = __radd__ = __mul__ = __rmul__ = _refuse
    __iadd__ = __imul__ = __eq__ = __lt__ = __gt__ = __le__ = __ge__ = __delitem__ = _refuse
    __array_ufunc__ = __array_function__ = _refuse
    __hash__ = object.__hash__


class Table(Row):
    """What stands for a list: an array for each number in an item; see `blanks` for the others."""

    has_blanks = False

    def __init__(
        self,
        owner: list[Any],
        lists: Sequence[list[Any]],
        shape: tuple[int, ...],
        structure: tree.Structure | None,
        types: Sequence[ArrayType],
    ):
        super().__init__(self, ())
        self.lists = _Lists(owner, lists)  # it, or the lists in it: those that have the items
        self.shape, self.piece = shape, local.inside
        there = [item is not None for _, items in self.lists.pairs for item in items]
        self.there = np.array(there).reshape(shape)  # what is not there is None
        self.has_blanks = not all(there)
        self.in_types(types, structure)

    def in_types(self, types: Sequence[ArrayType], structure: tree.Structure | None) -> None:
        """Take the items of the lists, in some types."""
        self.is_guess = structure is None  # nobody knows what the items are
        self.types = list(types)
        self.structure = tree.LEAF if types and structure is None else structure
        blank = [t.dtype.type(0) for t in types]
        leaves = [
            blank if item is None else tree.leaves(item)
            for _, items in self.lists.pairs
            for item in items
        ]
        columns = zip(*leaves, strict=True)
        self.columns = tuple(
            _column(column, own, self.shape) for column, own in zip(columns, types, strict=True)
        )
        if self.has_blanks:
            self.columns += self.there, np.bool_(True)

    def item(self, key: tuple[Any, ...]) -> Any:
        """The item at a place."""
        columns = self._traced()
        if self.has_blanks:
            self._change()
            *_, there, all_were_there = columns
            self.columns = (*columns[:-1], logic.logical_and(all_were_there, there[key]))
        if self.structure is None:
            raise _Widened(self, [_NUMBER], None)
        pairs = zip(columns, self.types, strict=False)
        found = [weaken(column[key]) if t.weak else column[key] for column, t in pairs]
        return tree.unflatten(self.structure, found)

    def set(self, key: tuple[Any, ...], item: Any) -> None:
        """Put an item at a place."""
        self._change()
        leaves, structure = _taken(item)
        if structure != self.structure and not self.is_guess:
            raise Abandon
        types = [type_of(leaf) for leaf in leaves]
        types = types if self.is_guess else _wider(self.types, leaves)
        if types != self.types or structure != self.structure:
            raise _Widened(self, types, structure)
        leaves += [True] if self.has_blanks else []
        columns = self._traced()
        made = [setitem(column, key, leaf) for column, leaf in zip(columns, leaves, strict=False)]
        self.columns = (*made, *columns[len(made) :])

    def _change(self) -> None:
        if local.inside is not None:
            local.inside.changes(self, "an assignment")

    def settle(self, columns: Sequence[Any]) -> None:
        """Take down what is there behind the loop; end the attempt if that is not known, or if
        something was read that was not."""
        if self.has_blanks and self.piece is local.inside:
            self.left, all_were_there = known_values(columns[-2:])
            if not all_were_there:
                raise Abandon

    def exchange(self, first: Any, second: Any) -> bool:
        """Exchange two rows; False where the items are no rows."""
        if len(self.shape) < 2:
            return False
        if len(self.shape) > 2 or self.has_blanks:
            raise Abandon
        self._change()
        first, second = self._checked(first), self._checked(second)
        self.lists.lose_rows()
        self.lists.are_exchanged = True
        self.columns = tuple(
            setitem(setitem(one, first, one[second]), second, one[first]) for one in self._traced()
        )
        return True

    def note(self, row: Row) -> None:
        """Take down that somebody has a row."""
        self.lists.rows.append(weakref.ref(row))

    def _traced(self) -> list[Any]:
        return [one if isinstance(one, Traced) else lift(one) for one in self.columns]

    # ------------------------------------------------------------ for the loop

    def has(self, other: Table) -> bool:
        """Whether another one stands for a list for which this one does."""
        own = {id(one) for one, _ in self.lists.pairs}
        return any(id(one) in own for one, _ in other.lists.pairs)

    @contextlib.contextmanager
    def standing(self) -> Iterator[None]:
        """While it lasts nobody can use what is in the lists; behind it is what the table has."""
        before = self.columns
        if local.inside is not None:
            for one in [*(one for one, _ in self.lists.pairs), self.lists.owner]:
                local.inside.changes(one, "an assignment")
        self.lists.put([_Absent() for _ in items] for _, items in self.lists.pairs)
        try:
            yield
        except BaseException:
            self.columns = before
            raise
        finally:
            kept = (items for _, items in self.lists.pairs)
            if self.lists.are_exchanged and self.columns is not before:
                self.lists.replace(self._all_items())
            else:
                self.lists.put(kept if self.columns is before else self._all_items())
            for one, _ in self.lists.pairs if self.columns is not before else ():
                written(one)

    def _all_items(self) -> Iterator[list[Any]]:
        assert self.structure is not None
        own = self.columns[: len(self.types)]
        whole = [reshape(column, shape=(math.prod(self.shape),)) for column in own]
        columns = [elements(one, own.weak) for one, own in zip(whole, self.types, strict=True)]
        found = zip(*columns, strict=True)
        items = [tree.unflatten(self.structure, leaves) for leaves in found]
        if self.has_blanks:
            pairs = zip(items, self.left.flat, strict=True)
            items = [item if there else None for item, there in pairs]
        following = iter(items)
        return ([next(following) for _ in before] for _, before in self.lists.pairs)


class ReadTable(Table):
    """What stands for lists of lists, or of tuples, that are read at a traced place, as long as
    they stay so."""

    def __init__(self, owner: list[Any], shape: tuple[int, ...]):
        Row.__init__(self, self, ())
        items = numbers_in(owner)
        leaves, structures = zip(*map(_taken, items), strict=True)
        if any(one != structures[0] for one in structures):
            raise Abandon
        made = len(items) > SHORT
        columns = [column_of(list(one), made) for one in zip(*leaves, strict=True)]
        if any(one is None for one in columns):
            raise Abandon
        self.shape, self.structure = shape, structures[0]
        self.types = [ArrayType(one.type.dtype, (), one.type.weak) for one in columns]
        self.columns = tuple(reshape(one, shape=shape) for one in columns)
        self.owner = [owner, items]

    def item(self, key: tuple[Any, ...]) -> Any:
        """The item at a place."""
        if not self.is_true():
            raise Abandon
        return super().item(key)

    def is_true(self) -> bool:
        """Whether the lists have the items that they had."""
        owner, numbers = self.owner
        now = numbers_in(owner)
        return len(now) == len(numbers) and all(map(operator.is_, now, numbers))

    def set(self, key: tuple[Any, ...], item: Any) -> None:
        """They have to be a table that can be written to."""
        raise Fills(self.owner[0])

    def exchange(self, first: Any, second: Any) -> bool:
        """They have to be a table that can be written to."""
        raise Fills(self.owner[0])

    def note(self, row: Row) -> None:
        """Their rows stay what they are."""


def read_table(items: Any, inside: TracedPiece) -> ReadTable | None:
    """What stands for such lists while they are read; None where there is no such thing."""
    outermost = inside
    while outermost.outer is not None:
        outermost = outermost.outer
    known: ReadTable | None = outermost.read.get(id(items))
    if known is not None and known.is_true():
        local.packed = True
        return known
    if type(items) is not list or not items or type(items[0]) not in (list, tuple):
        return None
    shape = shape_of(items)
    if shape is None:
        return None
    try:
        with uncaptured():  # once, where the items are from, and not in every turn of a loop
            found = ReadTable(items, shape)
    except Abandon:
        return None
    local.packed = True
    outermost.read[id(items)] = found
    return found


def _ends(key: slice) -> tuple[Any, ...]:
    return key.start, key.stop, key.step


def _taken(item: Any) -> tuple[list[Any], tree.Structure]:
    """The numbers of an item, which is a number or a tuple of such: nobody can change it."""
    leaves, structure = tree.flatten(item)
    numbers = all(is_number(leaf) and type_of(leaf).shape == () for leaf in leaves)
    if not leaves or not numbers or any(map(can_be_written, leaves)) or not is_fixed(structure):
        raise Abandon
    return leaves, structure


def _wider(types: Sequence[ArrayType], leaves: Sequence[Any]) -> list[ArrayType]:
    """The types that numbers have beside others."""
    found = [common(t, type_of(leaf)) for t, leaf in zip(types, leaves, strict=True)]
    return [one for one in found if one is not None]


def _column(items: Sequence[Any], own: ArrayType, shape: tuple[int, ...]) -> Any:
    """Numbers as an array."""
    from ..numpy.common import stretches

    if not any(isinstance(item, Traced) for item in items):
        return np.array(items, own.dtype).reshape(shape)
    return reshape(joined(stretches(items), own.dtype), shape=shape)


def table_of(thing: list[Any]) -> Table | None:
    """What can stand for a list; None where its items are not alike, or one list is in it twice."""
    lists, shape = [thing], [len(thing)]
    while lists[0] and type(lists[0][0]) is list:
        inner = [item for one in lists for item in one]
        if any(type(one) is not list or len(one) != len(inner[0]) for one in inner):
            return None
        lists = inner
        shape.append(len(inner[0]))
    if not lists[0] or len({id(one) for one in lists}) < len(lists):
        return None
    if any(map(others, (thing, *lists))):
        return None  # what is written to those that may be the same is not seen in a table
    try:
        items = [item for one in lists for item in one if item is not None]
        if not items:
            return Table(thing, lists, tuple(shape), None, [])
        first, structure = _taken(items[0])
        types = [type_of(leaf) for leaf in first]
        for item in items:
            leaves, own = _taken(item)
            if own != structure:
                return None
            types = _wider(types, leaves)
    except Abandon:
        return None
    return Table(thing, lists, tuple(shape), structure, types)


# ---------------------------------------------------------------- loops


def with_tables(
    work: Callable[[Sequence[Growing]], None],
    get: Callable[[], Sequence[Any]],
    put: Callable[[Sequence[Any]], None],
) -> None:
    """Make a loop, with tables in place of the lists that it asks for, and in place of lists in
    containers those that grow; without if that fails."""
    standing: list[tuple[list[Any], Any]] = []  # tables and growing lists, with what they stand for
    local.packed = False
    for _ in range(_MOST if local.tables else 0):
        try:
            with contextlib.ExitStack() as stack:
                for thing, one in standing:
                    stack.enter_context(_in_place_of(thing, one, get, put))
                work([one for _, one in standing if isinstance(one, Growing)])
            return
        except Tabled as found:
            whole = _whole(found.thing, get())
            table = table_of(whole)
            if table is None and not any(thing is whole for thing, _ in standing):
                standing.append((whole, Growing(whole)))  # it may be one that grows
                continue
            if table is None or any(_overlap(one, table) for _, one in standing):
                break
            standing = [(thing, one) for thing, one in standing if not _overlap(table, one)]
            standing.append((whole, table))
        except _Regrown as found:
            if not any(found.table is one for _, one in standing):
                raise
            standing = [
                (thing, Growing(thing, found.front) if one is found.table else one)
                for thing, one in standing
            ]
        except Grown as found:
            if any(thing is found.thing for thing, _ in standing):
                break
            standing.append((found.thing, Growing(found.thing, found.front)))
        except _Widened as found:
            if not any(found.table is one for _, one in standing):
                raise
            found.table.in_types(found.types, found.structure)
        except (Abandon, Exception) as problem:
            outer = isinstance(problem, Abandon) and problem.is_for_outer()
            if outer or not (standing or local.packed):
                raise
            break
    before, local.tables = local.tables, False
    try:
        work(())
    finally:
        local.tables = before


def _whole(thing: list[Any], values: Sequence[Any]) -> list[Any]:
    """A list, or the list of lists of which it is a row."""
    for value in values:
        if type(value) is list and any(one is thing for one in value):
            return thing if table_of(value) is None else value
    return thing


def _overlap(one: Any, other: Any) -> bool:
    """Whether a table stands for a list for which another one does."""
    return isinstance(one, Table) and isinstance(other, Table) and one.has(other)


@contextlib.contextmanager
def _in_place_of(
    thing: list[Any],
    stand_in: Table | Growing,
    get: Callable[[], Sequence[Any]],
    put: Callable[[Sequence[Any]], None],
) -> Iterator[None]:
    """While it lasts, something stands in all places where a list is found."""
    places = _exchange(thing, stand_in, get, put)
    if not places:
        raise Abandon  # it was made in a turn
    before = local.standing
    if isinstance(stand_in, Table):
        local.standing = {**before, id(thing): stand_in}
    try:
        with stand_in.standing() if isinstance(stand_in, Table) else contextlib.nullcontext():
            yield
    finally:
        local.standing = before
        _exchange(stand_in, thing, get, put, places)


def _exchange(
    old: Any,
    new: Any,
    get: Callable[[], Sequence[Any]],
    put: Callable[[Sequence[Any]], None],
    further: Sequence[Any] = (),
) -> list[Any]:
    """Put something in all places of variables, and of what they hold, and of further containers,
    where something else is; those in which it was."""
    values = get()
    found: list[Any] = [values] if any(value is old for value in values) else []
    put([new if value is old else value for value in values])
    objects = [one for one in objects_in(values) if not isinstance(one, Row)]
    pending: list[Any] = [*values, *map(vars, objects), *further]
    seen: set[int] = set()
    while pending:
        now = pending.pop()
        if id(now) in seen or not isinstance(now, (dict, list)):
            continue
        seen.add(id(now))
        for slot, value in list(now.items() if isinstance(now, dict) else enumerate(now)):
            if value is old:
                now[slot] = new
                found.append(now)
            if not isinstance(value, ATOMS):
                pending.append(value)
    return found
