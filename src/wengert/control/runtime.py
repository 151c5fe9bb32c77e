"""What converted functions call: each decides, while tracing, whether Python goes on as usual.

Where a condition has a number, Python's own statement runs, as it is written. Where it is traced
and has none, it becomes an operation: see `branches.py` and `loop_operations.py`.
"""

from __future__ import annotations

import builtins
import collections.abc
import contextlib
import functools
import operator
import os
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from .. import tree
from ..errors import AbstractValueError, user_line
from ..ops import elementwise as ew
from ..ops import logic
from ..ops.op import Traced
from ..trace.lists import of_lists, of_lists_of_arrays, takes_arrays, takes_one_array
from ..trace.made import adopt
from ..trace.preparing import alike, turn_by_turn
from ..trace.tracer import lift
from ..types import type_of, weaken
from . import conversion, iterators
from .alike import check_fetched, is_same, written
from .all_turns import loops_around, most_turns
from .branches import Variables, choose, decide, truth
from .comprehensions import Comprehension, taking
from .conversion import local
from .counters import as_range
from .generators import Consumer, Generated, of_items
from .growing import Growing
from .held_arrays import ChangedType
from .keyed import Keyed
from .lists import (
    Items,
    exchange,
    exposed,
    is_row,
    items_of,
    no_place,
    one_of,
    place_in,
    row,
    set_item,
)
from .loop_operations import as_scan, as_while
from .pieces import Abandon, Fills, Swaps
from .purity import changing_method, is_plain_class, maker
from .ragged import Ragged, arange, is_ragged, places_of_mask, put, taken
from .repeats import GoneOver, Turns
from .replaced import METHODS, REPLACED, sorter
from .rewriting import Statement
from .stacks import number_of, popped, pushed, some, top, with_stacks
from .tables import Row, Table, read_table, with_tables
from .values import NOTHING, UNDEFINED, failure, is_abstract, is_number, sure
from .weights import MOST, few, is_light, settled, weigh_turns, weighing, weight
from .windows import window

# Attempts of one loop that may fail before it is always run turn by turn.
_TRIES = 3


class Steps:
    """What a loop goes over, where that is traced: a number of items, and how to make each."""

    last: Any = UNDEFINED  # the last item, where it is known

    def __init__(self, length: Any, item: Callable[[Any], Any], plain: Iterable[Any] = ()):
        self.length, self.item, self.plain = length, item, plain

    def __iter__(self) -> Iterator[Any]:
        return iter(self.plain)

    def rows(self, done: int) -> np.ndarray:
        """What stands for each item from one on: its position."""
        return np.arange(done, self.length, dtype=np.int64)

    def of_row(self, row: Any) -> Any:
        """The item for a row."""
        return self.item(row)

    def lists(self, turns: np.ndarray) -> GoneOver:
        """The lists whose items these are, each with the places that some turns take."""
        return []


class _Table:
    """A plain array that is read at a key, which may be traced."""

    __slots__ = ("array",)

    def __init__(self, array: np.ndarray):
        self.array = array

    def __getitem__(self, key: Any) -> Any:
        keys = key if type(key) is tuple else (key,)
        if any(map(is_ragged, keys)):
            found = window(self.array, key)
            return _table_of(lift(self.array))[key] if found is None else found
        return lift(self.array)[key] if any(map(is_abstract, keys)) else self.array[key]


class _TracedArray:
    """A traced array that is read or written at a key, which may start anywhere."""

    __slots__ = ("array", "taken")

    def __init__(self, array: Any):
        self.array = array
        self.taken: Any = None  # what ``x[key] += y`` reads, and then writes

    def __getitem__(self, key: Any) -> Any:
        self.taken = self._part(key)
        return self.array[key] if self.taken is None else self.taken

    def __setitem__(self, key: Any, value: Any) -> None:
        if self.taken is not None and value is self.taken:
            return  # it was changed in place
        part = self._part(key)
        if part is None:
            self.array[key] = value
        else:
            part[...] = value

    def _part(self, key: Any) -> Any:
        keys = key if type(key) is tuple else (key,)
        anywhere = any(isinstance(one, slice) and is_ragged(one) for one in keys)
        return window(self.array, key) if anywhere else None

    def __delitem__(self, key: Any) -> None:
        del self.array[key]


class _TracedTable:
    """A traced array in a loop that is read or written at a key, which may be of any length."""

    __slots__ = ("array",)

    def __init__(self, array: Any):
        self.array = array

    def __getitem__(self, key: Any) -> Any:
        if not any(map(is_ragged, key if type(key) is tuple else (key,))):
            return self.array[key]
        try:
            return self.array[key] if isinstance(key, (slice, tuple)) else taken(self.array, key)
        except AbstractValueError:
            found = window(self.array, key)
            return taken(self.array, key) if found is None else found

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(value, Ragged):
            put(self.array, key, value)
            return
        try:
            self.array[key] = value
        except AbstractValueError:
            if not any(map(is_ragged, key if type(key) is tuple else (key,))):
                raise
            part = window(self.array, key)
            if part is None:
                put(self.array, key, value)
            else:
                part[...] = value

    def __delitem__(self, key: Any) -> None:
        del self.array[key]


def _table_of(array: Any) -> _TracedArray | _TracedTable:
    return _TracedTable(array) if _in_loop() else _TracedArray(array)


def _places_or(function: Any) -> Any:
    """``np.nonzero(mask)`` and ``np.where(mask)``, also of one that is traced."""

    def call(*args: Any, **kwargs: Any) -> Any:
        one = len(args) == 1 and not kwargs and is_ragged(args[0])
        return places_of_mask(args[0]) if one else function(*args, **kwargs)

    return call


def _arange_or(function: Any) -> Any:
    """``np.arange``, also with bounds that are traced."""

    def call(*args: Any, **kwargs: Any) -> Any:
        traced = any(map(is_abstract, args)) and not kwargs
        return arange(*args) if traced else function(*args, **kwargs)

    return call


def _length(thing: Any) -> Any:
    """``len``, also of a list to which a loop appends."""
    return weaken(thing._length()) if type(thing) is Growing else len(thing)


def _in_loop() -> bool:
    return local.inside is not None and local.inside.attempt and bool(loops_around())


class _Listed:
    """A list that is read at a key, which may be traced."""

    __slots__ = ("items",)

    def __init__(self, items: Any):
        self.items = items

    def __getitem__(self, key: Any) -> Any:
        if not is_abstract(key) or type_of(key).shape != ():
            return self.items[key]
        inside = local.inside
        if inside is not None and inside.attempt and local.tables:
            table = read_table(self.items, inside)
            if table is not None:
                return table[key]
        found = items_of(self.items)
        if found is None and type(self.items) is list and _is_attempt():
            raise Fills(self.items)  # it may be one that the loop fills
        found = found or items_of(self.items, copied=True)
        if found is None:
            raise no_place("reading", "they are no numbers or arrays, or not of one shape")
        return one_of(self.items, found.at(key))


class _Defaults:
    """A dict that is read at a key, which puts a value there if there is none."""

    __slots__ = ("items",)

    def __init__(self, items: Any):
        self.items = items

    def __getitem__(self, key: Any) -> Any:
        if key not in self.items and local.inside is not None:
            if local.inside.attempt:
                raise ChangedType  # the first turn may put it there
            local.inside.changes(self.items, "reading a missing key")
        return self.items[key]


class _Assigned(_Listed):
    """A list of which an item is set."""

    __slots__ = ("taken",)

    def __init__(self, items: Any):
        super().__init__(items)
        self.taken: Any = None  # the copy of an array that ``x[key] += y`` changes

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        if is_abstract(key) and not _is_attempt() and is_row(found) and type(found) is not list:
            found = self.taken = found.copy()
        return found

    def __setitem__(self, key: Any, item: Any) -> None:
        if self.taken is not None and item is self.taken:
            place = place_in(self.items, key)
            for number, one in enumerate(self.items):
                one[...] = ew.select(logic.equal(place, number), item, one)
        elif not is_abstract(key) or type_of(key).shape != ():
            self.items[key] = item
        elif _is_attempt():
            raise Fills(self.items)
        else:
            set_item(self.items, key, item)

    def __delitem__(self, key: Any) -> None:
        del self.items[key]


class _AnyRow:
    """One of the rows in a list, of which an element is set: which row is traced.

    The element is set in each row, to what it is but in that one.
    """

    def __init__(self, runtime: Runtime, rows: list[Any], place: Any):
        self.runtime, self.rows, self.place = runtime, rows, place

    def __getitem__(self, key: Any) -> Any:
        return self.runtime.table(self.runtime.table(self.rows)[self.place])[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        if not is_number(value):
            self.runtime.item(self.runtime.table(self.rows)[self.place])[key] = value
            return
        place = place_in(self.rows, self.place)
        for number, one in enumerate(self.rows):
            old = self.runtime.table(one)[key]
            self.runtime.item(one)[key] = ew.select(logic.equal(place, number), value, old)


def _is_attempt() -> bool:
    """Whether a turn is traced to see if all can be made one loop."""
    return local.inside is not None and local.inside.attempt


class Runtime:
    """The runtime of one function."""

    UNDEFINED, NOTHING = UNDEFINED, NOTHING
    consumer: Consumer | None = None  # of a generator: the loop that it yields to

    def __init__(self, statements: Sequence[Statement], code: types.CodeType):
        self.statements = statements
        self.file = os.path.basename(code.co_filename)
        self.is_ours = code.co_filename == iterators.__file__
        self.names = [*code.co_names]
        self.line = code.co_firstlineno
        self.failed = [0] * len(statements)

    # ------------------------------------------------------------ variables, calls, writes

    def values(self, *reads: Callable[[], Any]) -> tuple[Any, ...]:
        """The values of variables."""
        found = []
        for read in reads:
            try:
                found.append(read())
            except NameError:
                found.append(UNDEFINED)
        return tuple(found)

    def of(self, function: Any) -> Any:
        """What is called in place of a function."""
        kind = type(function)
        replaced = REPLACED.get(function) if kind in _KINDS else None
        if kind in _KINDS and function in _TAKING:
            return of_items(function, replaced or conversion.called(function))
        if replaced is not None:
            return replaced
        if kind in _KINDS and function in iterators.WRITTEN:
            return conversion.called(iterators.WRITTEN[function])
        if function is builtins.len and local.inside is not None:
            return _length
        if kind is types.BuiltinFunctionType and function.__name__ == "setdefault":
            return self._setdefault(function)
        called = conversion.called(function)
        if kind is type and called is function and is_plain_class(function):
            return maker(function)
        if kind is types.BuiltinFunctionType and alike():
            written(changing_method(function))
        if (function is np.where or function is np.nonzero) and _in_loop():
            return _places_or(called)
        if getattr(function, "__wrapped__", function) is np.arange and _in_loop():
            return _arange_or(called)
        if kind is types.MethodType and function.__func__ in METHODS:
            return types.MethodType(METHODS[function.__func__], function.__self__)
        if kind is types.BuiltinFunctionType and function.__name__ == "sort":
            return sorter(function.__self__) if type(function.__self__) is list else called
        if kind is types.BuiltinFunctionType and function.__name__ in _COPYING:
            return _copying(called) if type(function.__self__) is np.ndarray else called
        if takes_one_array(function):
            return of_lists(called)
        return of_lists_of_arrays(called) if takes_arrays(function) else called

    def _setdefault(self, function: Any) -> Any:
        """``items.setdefault``, which changes nothing if there is such a key."""

        def call(key: Any, *default: Any) -> Any:
            items = function.__self__
            if type(items) in (dict, collections.defaultdict):
                if key in items:
                    return items[key]
                if local.inside is not None and local.inside.attempt:
                    raise ChangedType  # the first turn may put it there
            return conversion.called(function)(key, *default)

        return call

    def table(self, value: Any) -> Any:
        """What is read at a key: NumPy's own arrays and lists know no traced keys."""
        kind = type(value)
        if kind is np.ndarray:
            return _Table(value)
        if isinstance(value, Traced):
            return _table_of(value)
        if kind is collections.defaultdict and local.inside is not None:
            return _Defaults(value)
        if kind is dict:
            return Keyed(value)
        return _Listed(value) if kind is list or kind is tuple else value

    def owner(self, thing: Any) -> Any:
        """An object whose attribute is written."""
        if not isinstance(thing, Row):
            check_fetched(thing)
            written(thing)
            if local.inside is not None:
                local.inside.changes(thing, "an assignment")
        return thing

    def item(self, thing: Any) -> Any:
        """An object whose element is written."""
        self.owner(thing)
        if isinstance(thing, Traced):
            return _table_of(thing)
        if type(thing) is dict:
            return Keyed(thing)
        return _Assigned(thing) if type(thing) is list else thing

    def row(self, thing: Any, key: Any) -> Any:
        """The item of something of which an element is written: ``x[key]`` of ``x[key][i] = y``."""
        traced = type(thing) is list and is_abstract(key) and not _is_attempt()
        if traced and thing and all(map(is_row, thing)):
            return _AnyRow(self, thing, key)
        return self.item(self.table(thing)[key])

    def _is_exchanged(self, thing: Any, first: Any, second: Any) -> bool:
        """Whether two rows of a list could be exchanged, one of them at a traced place."""
        if isinstance(thing, Table):
            return thing.exchange(first, second)
        if type(thing) is not list or not (is_abstract(first) or is_abstract(second)):
            return False
        if _is_attempt() and thing and type(thing[0]) is list:
            raise Fills(thing)
        return not _is_attempt() and exchange(thing, first, second)

    def exchange_by(self, thing: Any, first: Any, second: Any) -> Any:
        """``held = x[first]; x[first] = x[second]; x[second] = held``: what is held then."""
        if self._is_exchanged(thing, first, second):
            return self.table(thing)[second]
        held = self.table(thing)[first]
        self.item(thing)[first] = self.table(thing)[second]
        self.item(thing)[second] = held
        return held

    def exchange(self, thing: Any, first: Any, second: Any) -> None:
        """``x[first], x[second] = x[second], x[first]``."""
        if self._is_exchanged(thing, first, second):
            return
        taken = self.table(thing)[second], self.table(thing)[first]
        self.item(thing)[first] = taken[0]
        self.item(thing)[second] = taken[1]

    def in_place(self, kind: str, thing: Any, value: Any) -> Any:
        """What a variable holds after ``x += y`` and its like."""
        if type(thing) is list and kind == "Add" and type(value) in (list, tuple):
            for item in value:
                conversion.called(thing.append)(item)
            return thing
        if isinstance(thing, _CHANGED_IN_PLACE):
            written(thing)
        if local.inside is not None and isinstance(thing, _CHANGED_IN_PLACE):
            local.inside.changes(thing, "an assignment")
        return _IN_PLACE[kind](thing, value)

    def outside(self, held: Any, names: str) -> None:
        """A function that changes variables of those around it, or of the module: those `names`."""
        if local.inside is None:
            return
        if names and not local.inside.attempt:
            raise failure(
                self._here(),
                f"the global variable {names} is changed in a branch or loop that a traced "
                "condition decides on",
                "Return the new value, and assign it outside of the compiled function.",
            )
        if local.inside.attempt:
            raise Abandon
        for cell in held.__closure__ or ():
            local.inside.changes(cell, "a function inside")

    def _variables(self, number: int, get: Any, put: Any, piece: Any) -> Variables:
        roots = self._roots(piece)
        return Variables(self.statements[number], get, put, self.place(number), roots)

    def _roots(self, *pieces: Any) -> list[Any]:
        own = [getattr(piece, "piece", piece) for piece in pieces]
        found = [root for piece in own for root in self.roots_of(piece)]
        return found if self.consumer is None else [*found, *self.consumer.roots()]

    def _globals(self, piece: Any) -> list[Any]:
        known = piece.__globals__
        return [known[name] for name in self.names if name in known]

    def roots_of(self, turn: Any) -> list[Any]:
        """What a piece of a function can reach: of the module, and of the functions around it."""
        return [*self._globals(turn), *(turn.__closure__ or ())]

    def place(self, number: int) -> str:
        """Where a statement stands, for messages."""
        if self.is_ours:
            return self._here()
        statement = self.statements[number]
        return f"{statement.function} ({self.file}:{statement.line})"

    def _here(self) -> str:
        return user_line() or self.file

    sure = staticmethod(sure)

    def told(self, value: Any) -> Any:
        """What the text of an error says of a value."""
        return _Told(value) if is_abstract(value) else value

    # ------------------------------------------------------------ statements

    def if_(self, test: Any, then: Any, orelse: Any, get: Any, put: Any, number: int) -> None:
        """An `if` statement."""
        get, put = self._joined(get, put, number)
        if is_abstract(test):
            decide(self._variables(number, get, put, then), test, then, orelse)
        elif test:
            then()
        else:
            orelse()

    def counting(
        self,
        bounds: Callable[[], tuple[Any, Any, Any]],
        compared: str,
        turn: Any,
        test: Any,
        body: Any,
        get: Any,
        put: Any,
        number: int,
    ) -> None:
        """A `while` whose text counts, as a `for` where these are integers."""
        found = as_range(*bounds(), compared)
        plainly = functools.partial(self.while_, test, body, get, put, number)
        if found is None:
            plainly()
            return
        first = bounds()[1:]

        def once(item: Any) -> None:
            turn(item)
            if _is_attempt() and not all(map(_is_same, first, bounds()[1:])):
                raise Abandon  # the loop changes the list whose length it compares with

        once.piece = turn  # type: ignore[attr-defined] # what it can reach
        traced = any(map(is_abstract, found))
        over = _traced_range(*found) if traced else _Counting(range(*found), plainly)
        self.for_(over, once, None, get, put, number)

    def while_(self, test: Any, body: Any, get: Any, put: Any, number: int) -> None:
        """A `while` statement."""
        get, put = self._joined(get, put, number)
        certain = False  # whether Python knows how many turns there are
        while True:
            more = test()
            if is_abstract(more):
                try:
                    self._whole(False, test, body, get, put, number)
                except ChangedType:
                    rest = functools.partial(self._loop, False, test, body, get, put, number, True)
                    self._first_apart(more, body, rest, get, put, number)
                return
            if not more:
                return
            if not certain and self._begin(test, body, get, put, number):
                return
            certain = True
            body()

    def _begin(self, test: Any, body: Any, get: Any, put: Any, number: int) -> bool:
        """Whether the whole of a loop with a first turn could be made an operation."""
        statement = self.statements[number]
        if not statement.plain or self.failed[number] >= _TRIES:
            return False
        try:
            with_tables(lambda _: self._whole(True, test, body, get, put, number), get, put)
        except (Abandon, Exception) as problem:
            if _is_for_outer(problem):
                raise
            self.failed[number] += 1
            return False
        self.failed[number] = 0
        return True

    def _whole(self, runs: bool, test: Any, body: Any, get: Any, put: Any, number: int) -> None:
        """A loop as an operation, with stacks in place of lists where it can be."""
        if self.statements[number].stacks:
            try:
                self._with_stacks(runs, test, body, get, put, number)
                return
            except Abandon:
                if runs:
                    raise
        self._loop(runs, test, body, get, put, number)

    def _with_stacks(
        self, runs: bool, test: Any, body: Any, get: Any, put: Any, number: int
    ) -> None:
        """A loop that takes items off lists, whose lengths are traced then."""
        names = self.statements[number].names
        lists = {n: get()[names.index(n)] for n in self.statements[number].stacks}

        def work(stacks: dict[str, Any]) -> None:
            own = dict(zip(names, get(), strict=True)) | stacks
            put([own[name] for name in names])
            self._loop(runs, test, body, get, put, number)

        before = get()
        try:
            with_stacks(lists, self.place(number), work)
        except BaseException:
            put(before)
            raise

    def _loop(
        self, runs: bool, test: Any, body: Any, get: Any, put: Any, number: int, done: bool = False
    ) -> None:
        variables = self._variables(number, get, put, body)
        variables.roots += self._roots(test)

        def work() -> None:
            turns = Turns(variables, lambda _: body(), lambda _: None, runs, runs)
            turns.first_is_done = done
            as_while(turns, lambda _: test(), False)

        variables.retrying(work)

    def _first_apart(
        self, runs: Any, first: Any, rest: Any, get: Any, put: Any, number: int
    ) -> None:
        """A loop whose first turn, if it `runs`, writes to an array that was there before and each
        other one to that of the turn before it."""

        def turns() -> None:
            first()
            rest()

        decide(self._variables(number, get, put, first), runs, turns, lambda: None)

    def for_(self, over: Any, body: Any, more: Any, get: Any, put: Any, number: int) -> None:
        """A `for` statement."""
        get, put = self._joined(get, put, number)
        if local.inside is not None and isinstance(over, Iterator):
            local.inside.changes(over, "a loop")
        if type(over) is Generated:
            statement = self.statements[number]
            if over.run(Consumer(self, body, more, get, put, statement)):
                return
        if weighing():
            self._weigh(over, body, get(), number)
            return
        if type(over) is Growing:
            over = Steps(over._length(), over._anywhere)
        if isinstance(over, Steps) and is_abstract(over.length):
            self._counted(over, body, more, get, put, number)
            return
        alike = self.statements[number].plain and not turn_by_turn()
        steps = self._steps(over) if alike else None
        if steps is None or self.failed[number] >= _TRIES:
            self._plainly(over, 0, body, more, get, put, number)
        elif steps.length > few():
            done = self._attempt(steps, body, more, get, put, number)
            self._plainly(over, done, body, more, get, put, number)
        else:
            self._few_turns(over, steps, body, more, get, put, number)

    def _few_turns(
        self, over: Any, steps: Steps, body: Any, more: Any, get: Any, put: Any, number: int
    ) -> None:
        """Turn by turn, unless that is too much with the turns of the loops inside."""
        found = None
        if steps.length > 1 and self.statements[number].nested and not is_light():
            variables = self._variables(number, get, put, body)
            found = weight(variables, lambda k: body(steps.item(k)), steps.length)
        done = 0
        if found is not None and found > MOST:
            with settled(heavy=True):
                done = self._attempt(steps, body, more, get, put, number)
            found = None  # loops inside may be light
        with contextlib.nullcontext() if found is None else settled(heavy=False):
            self._plainly(over, done, body, more, get, put, number)

    def _weigh(self, over: Any, body: Any, values: Sequence[Any], number: int) -> None:
        """Weigh a loop inside of another."""
        lists = [value for value in values if type(value) is list]
        steps = over if isinstance(over, Steps) else self._steps(over)
        if steps is not None:
            loops = is_abstract(steps.length) or (
                steps.length > few() and self.statements[number].plain
            )
            count = 1 if is_abstract(steps.length) else steps.length
            weigh_turns(lambda k: body(steps.item(k)), count, lists, loops)
        elif isinstance(over, (list, tuple)):
            weigh_turns(lambda k: body(over[k]), len(over), lists)
        else:
            raise Abandon  # its items may be there but once

    def _plainly(
        self, over: Any, done: int, body: Any, more: Any, get: Any, put: Any, number: int
    ) -> None:
        """Turn by turn, from the item `done` on."""
        if done < 0:
            return
        if isinstance(over, _Counting):
            over.go_on()
            return
        iterator = iter(over)
        for _ in range(done):
            next(iterator)
        for item in iterator:
            if more is not None:
                going = more()
                if is_abstract(going):
                    self._skipping(item, going, body, get, put, number)
                    continue
                if not going:
                    return
            body(item)

    def _skipping(self, item: Any, going: Any, body: Any, get: Any, put: Any, number: int) -> None:
        """A turn that a traced `break` may have ended before."""
        variables = self._variables(number, get, put, body)
        variables.statement = _with_next_turn(variables.statement)
        decide(variables, going, lambda: body(item), lambda: None)

    def _attempt(self, steps: Steps, body: Any, more: Any, get: Any, put: Any, number: int) -> int:
        """One turn for all, if it can be: the number of turns that were run, or -1 for all."""
        for done in (0, 1):
            try:
                self._together(steps, done, body, more, get, put, number)
            except ChangedType:
                if done == 1:
                    break
                body(next(iter(steps)))
                if more is not None and (is_abstract(more()) or not more()):
                    return 1
            except Swaps as found:
                several = _Several(steps, done, found.period)
                enough = more is None and several.turns > few()
                if enough and self._several(several, body, get, put, number):
                    self.failed[number] = 0
                    return done + several.turns * found.period
                break
            except (Abandon, Exception) as problem:
                if _is_for_outer(problem):
                    raise
                break
            else:
                self.failed[number] = 0
                return -1
        self.failed[number] += 1
        return done

    def _several(self, steps: _Several, body: Any, get: Any, put: Any, number: int) -> bool:
        """Whether several turns at a time could be made one of a loop."""

        def bodies(items: Any) -> None:
            for item in items:
                body(item)

        try:
            self._together(steps, 0, bodies, None, get, put, number)
        except (Abandon, Exception) as problem:
            if _is_for_outer(problem):
                raise
            return False
        return True

    def _together(
        self, steps: Steps, done: int, body: Any, more: Any, get: Any, put: Any, number: int
    ) -> None:
        def once(growing: Sequence[Growing]) -> None:
            self._once(steps, done, body, more, get, put, number, growing)

        with_tables(once, get, put)

    def _once(
        self,
        steps: Steps,
        done: int,
        body: Any,
        more: Any,
        get: Any,
        put: Any,
        number: int,
        growing: Sequence[Growing],
    ) -> None:
        variables = self._variables(number, get, put, body)

        def work() -> None:
            if more is None:
                turns = Turns(variables, body, steps.of_row, True, True, growing)
                turns.first_is_done = done > 0
                turns.over = steps.lists(np.arange(done, steps.length))
                as_scan(turns, steps.rows(done), steps.last)
            else:
                count = steps.length - done
                item = lambda k: steps.item(k + done)
                turns = Turns(variables, body, item, True, True, growing)
                turns.first_is_done = done > 0
                turns.over = steps.lists(np.arange(done, steps.length))
                as_while(turns, _ends(count, more), True)

        variables.retrying(work)

    def _counted(self, over: Steps, body: Any, more: Any, get: Any, put: Any, number: int) -> None:
        """A loop over a number of items that is traced."""

        def from_item(done: int) -> None:
            variables = self._variables(number, get, put, body)

            def work() -> None:
                turns = Turns(variables, body, lambda k: over.item(k + done), False, False)
                turns.first_is_done = done > 0
                length = over.length - done
                turns.at_most, turns.length = most_turns(length), length
                as_while(turns, _ends(length, more), True)

            variables.retrying(work)

        try:
            if local.inside is not None and local.inside.attempt:
                with_tables(lambda _: from_item(0), get, put)
            else:
                from_item(0)
        except ChangedType:
            first = lambda: body(over.item(np.int64(0)))
            self._first_apart(over.length > 0, first, lambda: from_item(1), get, put, number)

    def subject(self, value: Any) -> Any:
        """What a `match` compares with `True` or `False`: nothing traced is either of them."""
        leaves = filter(is_abstract, tree.leaves(value))
        if any(type_of(leaf).dtype.kind == "b" for leaf in leaves):
            raise failure(
                self._here(),
                "`match` compares a traced condition with True or False, and it is neither yet",
                "Write it as an `if`.",
            )
        return value

    def is_sequence(self, value: Any, length: int) -> bool:
        """Whether a pattern of so many items fits a value."""
        texts = (str, bytes, bytearray)
        found = isinstance(value, collections.abc.Sequence) and not isinstance(value, texts)
        return found and len(value) == length

    def classed(self, value: Any) -> Any:
        """What a `match` asks the class of: that of a traced number is none of Python's."""
        if any(not type_of(leaf).shape for leaf in filter(is_abstract, tree.leaves(value))):
            raise failure(
                self._here(),
                "`match` asks for the class of a traced number, which is none of Python's",
                "Write it as an `if`.",
            )
        return value

    # ------------------------------------------------------------ generators

    def _joined(self, get: Any, put: Any, number: int) -> tuple[Any, Any]:
        """What reads and writes the variables of a statement."""
        if self.consumer is None:
            return get, put
        return self.consumer.joined(self.statements[number], get, put)

    def emit(self, item: Any) -> None:
        """``yield``: a turn of the loop over the generator."""
        assert self.consumer is not None
        self.consumer.body(item)

    def stopped(self) -> Any:
        """Whether the loop over the generator has ended."""
        assert self.consumer is not None and self.consumer.more is not None
        return self.not_(self.consumer.more())

    # ------------------------------------------------------------ stacks

    pushed = staticmethod(pushed)
    popped = staticmethod(popped)
    some = staticmethod(some)
    number_of = staticmethod(number_of)
    top = staticmethod(top)

    # ------------------------------------------------------------ what loops go over

    def over(self, kind: Any, *args: Any, **kwargs: Any) -> Any:
        """``range(...)`` and its like as a `for` statement goes over them."""
        if kind is builtins.range and any(map(is_abstract, args)) and not kwargs:
            return _traced_range(*args)
        if kind is builtins.reversed and len(args) == 1:
            if isinstance(args[0], range):
                return args[0][::-1]
            inner = self._steps(args[0])
            if inner is not None:
                return _Reversed(inner)
        if kind is builtins.enumerate and len(args) + len(kwargs) <= 2 and args:
            inner, start = self._steps(args[0]), kwargs.get("start", (*args, 0)[1])
            if type(args[0]) is Generated and type(start) is int and set(kwargs) <= {"start"}:
                return args[0].enumerated(start) or builtins.enumerate(args[0], start)
            if inner is not None and isinstance(start, int) and set(kwargs) <= {"start"}:
                return _Enumerated(inner, start)
        if kind is builtins.zip and args and set(kwargs) <= {"strict"}:
            parts = [self._steps(arg) for arg in args]
            known = all(part is not None for part in parts)
            if known and (not kwargs.get("strict") or len({p.length for p in parts}) == 1):
                return _Zipped(parts)
        if weighing() and all(isinstance(arg, (list, tuple, range)) for arg in args):
            return list(kind(*args, **kwargs))
        return self.of(kind)(*args, **kwargs)

    def _steps(self, over: Any) -> Any:
        """Something whose items are found by an index, or None."""
        if isinstance(over, Steps):
            return None if is_abstract(over.length) else over
        if type(over) is range:
            return _Range(over)
        if isinstance(over, (Traced, np.ndarray)) and type_of(over).shape:
            return _Rows(over)
        if isinstance(over, Row):
            return Steps(len(over), over.__getitem__, over)
        found = items_of(over) if type(over) in (list, tuple) and len(over) > few() else None
        return None if found is None else _Items(found, over)

    # ------------------------------------------------------------ comprehensions

    def generate(self, *parts: Any) -> Any:
        """A generator expression that is an argument."""
        return Comprehension(self, *parts)

    def counted(self, *parts: Any) -> Any:
        """A list comprehension whose items are added up or counted."""
        found = Comprehension(self, *parts)
        found.is_list = True
        return found

    def collect(self, *parts: Any) -> Any:
        """A list comprehension whose items are taken in place."""
        return self.generate(*parts).collected()

    def listed(self, *parts: Any) -> Any:
        """A list comprehension."""
        return exposed(self.collect(*parts))

    def taking(self, function: Any) -> Any:
        """What is called in place of a function that is given comprehensions."""
        return taking(function, self.of(function))

    # ------------------------------------------------------------ expressions

    def choose(self, test: Any, then: Any, orelse: Any) -> Any:
        """A conditional expression."""
        if is_abstract(test):
            return choose(test, then, orelse, self._here(), self._roots(then, orelse))
        return then() if test else orelse()

    def and_(self, value: Any, *later: Any) -> Any:
        """``a and b``."""
        for place, following in enumerate(later):
            if is_abstract(value):
                return self._junction(value, later[place:], True)
            if not value:
                return value
            value = following()
        return value

    def or_(self, value: Any, *later: Any) -> Any:
        """``a or b``."""
        for place, following in enumerate(later):
            if is_abstract(value):
                return self._junction(value, later[place:], False)
            if value:
                return value
            value = following()
        return value

    def _junction(self, value: Any, later: Sequence[Any], conjunction: bool) -> Any:
        """``a and b`` or ``a or b`` of a traced `a`."""
        own = type_of(value)
        # of a Boolean it is known here what it is
        shortcut = np.bool_(not conjunction) if own.dtype.kind == "b" and not own.shape else value
        further = self.and_ if conjunction else self.or_

        def rest() -> Any:
            return further(later[0](), *later[1:])

        sides = (rest, lambda: shortcut) if conjunction else (lambda: shortcut, rest)
        return choose(value, sides[0], sides[1], self._here(), self._roots(*later))

    is_ = staticmethod(is_same)

    def not_(self, value: Any) -> Any:
        """``not a``."""
        if is_abstract(value):
            return logic.logical_not(truth(value, self._here()))
        return not value

    def chain(self, left: Any, *pairs: Any) -> Any:
        """``a < b < c``."""
        compare, following, *rest = pairs
        right = following()
        held = compare(left, right)
        if not rest:
            return held
        return self.and_(held, lambda: self.chain(right, *rest))


def _is_for_outer(problem: BaseException) -> bool:
    return isinstance(problem, Abandon) and problem.is_for_outer()


def _with_next_turn(statement: Statement) -> Statement:
    from dataclasses import replace

    return replace(statement, live=statement.live | statement.enters)


def _ends(count: Any, more: Any) -> Callable[[Any], Any]:
    """The condition of a loop over `count` items that may be left before."""

    def test(k: Any) -> Any:
        going = logic.less(k, count)
        return going if more is None else logic.logical_and(going, more())

    return test


class _Range(Steps):
    def __init__(self, numbers: range):
        super().__init__(len(numbers), lambda k: numbers.start + k * numbers.step, numbers)
        self.numbers = numbers
        self.last = numbers[-1] if len(numbers) else UNDEFINED

    def rows(self, done: int) -> np.ndarray:
        """The numbers themselves."""
        rest = self.numbers[done:]
        return np.arange(rest.start, rest.stop, rest.step, dtype=np.int64)

    def of_row(self, row: Any) -> Any:
        """The item for a row."""
        return row


class _Counting(_Range):
    """The range that a `while` goes over, which also goes on by itself from where it is."""

    def __init__(self, numbers: range, go_on: Callable[[], None]):
        super().__init__(numbers)
        self.go_on = go_on


class _Rows(Steps):
    def __init__(self, array: Any):
        super().__init__(type_of(array).shape[0], lambda k: _row(array, k), array)


class _Items(Steps):
    def __init__(self, items: Items, plain: Sequence[Any]):
        super().__init__(len(plain), self._item, plain)
        self.items, self.list, self.last = items, plain, plain[-1]

    def _item(self, k: Any) -> Any:
        table = local.standing.get(id(self.list))
        return one_of(self.list, self.items.at(k)) if table is None else table[k]

    def lists(self, turns: np.ndarray) -> GoneOver:
        """The list itself."""
        return [(self.list, turns)]


class _Reversed(Steps):
    def __init__(self, inner: Steps):
        super().__init__(inner.length, lambda k: inner.item(inner.length - 1 - k))
        self.inner = inner

    def __iter__(self) -> Iterator[Any]:
        plain: Any = self.inner.plain  # a list may change on the way
        found: Iterator[Any] = builtins.reversed(plain)
        return found

    def lists(self, turns: np.ndarray) -> GoneOver:
        """Those of the inner ones, from behind."""
        return self.inner.lists(self.length - 1 - turns)


class _Enumerated(Steps):
    def __init__(self, inner: Steps, start: int):
        super().__init__(inner.length, lambda k: (k + start, inner.item(k)))
        self.inner, self.start = inner, start

    def __iter__(self) -> Iterator[Any]:
        return builtins.enumerate(self.inner, self.start)

    def lists(self, turns: np.ndarray) -> GoneOver:
        """Those of the inner ones."""
        return self.inner.lists(turns)


class _Zipped(Steps):
    def __init__(self, parts: Sequence[Steps]):
        length = min(part.length for part in parts)
        super().__init__(length, lambda k: tuple(part.item(k) for part in parts))
        self.parts = parts

    def __iter__(self) -> Iterator[Any]:
        return builtins.zip(*self.parts, strict=False)

    def lists(self, turns: np.ndarray) -> GoneOver:
        """Those of all parts."""
        return [found for part in self.parts for found in part.lists(turns)]


class _Several(Steps):
    """Some turns at a time, from one on; those that are left over are run one by one."""

    def __init__(self, inner: Steps, done: int, period: int):
        self.inner, self.first, self.period = inner, done, period
        self.turns: int = (inner.length - done) // period
        super().__init__(self.turns, self._items)

    def _items(self, k: Any) -> tuple[Any, ...]:
        start = k * self.period + self.first
        return tuple(self.inner.item(start + number) for number in range(self.period))

    def lists(self, turns: np.ndarray) -> GoneOver:
        """Those of the inner ones, several places for each turn."""
        places = [turns * self.period + self.first + number for number in range(self.period)]
        return [found for one in places for found in self.inner.lists(one)]


def _is_same(first: Any, now: Any) -> bool:
    """Whether a bound is what it was; what is traced is made of numbers that stay."""
    return is_abstract(first) == is_abstract(now) and (is_abstract(now) or first == now)


class _Told:
    """The type of a traced value, whatever it is to be formatted as."""

    def __init__(self, value: Any):
        self.type = type_of(value)

    def __repr__(self) -> str:
        return f"<{self.type}>"

    def __format__(self, how: str) -> str:
        return repr(self)


def _row(array: Any, k: Any) -> Any:
    return array[k] if isinstance(array, Traced) or not isinstance(k, Traced) else row(array, k)


def _traced_range(*args: Any) -> Steps:
    start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
    for arg in args:
        own = type_of(arg)
        if own.dtype.kind not in "iu" or own.shape:
            raise TypeError(f"'{own}' object cannot be interpreted as an integer")
    if is_abstract(step) or step == 0:
        raise failure(
            "range", "its step is traced or zero, expected a known number", "Use a `while`."
        )
    low, high = (start, stop) if step > 0 else (stop, start)
    count = high if type(low) is int and low == 0 else high - low
    if abs(step) > 1:
        count = -(-count // abs(step))

    def item(k: Any) -> Any:
        # between both ends, so that it is not asked whether it fits into 64 bits; where the last
        # one is known, the compiler is told so
        far = k if step == 1 else ew.multiply(k, step)
        if type(start) is int and start == 0:
            return far
        if type(stop) is not int:
            return ew.add(start, far)
        nearest = ew.minimum if step > 0 else ew.maximum
        return nearest(ew.add(start, far), stop - 1 if step > 0 else stop + 1)

    return Steps(ew.maximum(count, 0), item)


def _copying(method: Any) -> Any:
    """A method that makes a new array of a plain one: traced values can be written to it."""

    def function(*args: Any, **kwargs: Any) -> Any:
        made = method(*args, **kwargs)
        return made if made is method.__self__ else adopt(made)

    return function


_IN_PLACE: dict[str, Callable[[Any, Any], Any]] = {
    "Add": operator.iadd,
    "Sub": operator.isub,
    "Mult": operator.imul,
    "MatMult": operator.imatmul,
    "Div": operator.itruediv,
    "Mod": operator.imod,
    "Pow": operator.ipow,
    "LShift": operator.ilshift,
    "RShift": operator.irshift,
    "BitOr": operator.ior,
    "BitXor": operator.ixor,
    "BitAnd": operator.iand,
    "FloorDiv": operator.ifloordiv,
}
_CHANGED_IN_PLACE = (list, dict, set, bytearray, collections.deque, collections.Counter)
_COPYING = frozenset(("astype", "copy", "flatten"))
_KINDS = (types.BuiltinFunctionType, types.FunctionType, type)
# Functions that take all items of a generator, and do nothing else meanwhile.
_TAKING = frozenset(
    getattr(builtins, name) for name in "sum list tuple any all max min sorted".split()
)
