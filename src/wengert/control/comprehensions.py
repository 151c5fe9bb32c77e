"""Comprehensions and generator expressions: loops that append to a list nobody else knows.

    [f(x[i]) for i in range(n) if c(i)]  ->  collect(range(n), lambda i: f(x[i]), lambda i: c(i))

The loop is that of a `for` statement: run turn by turn, or one turn for all. What one turn for all
gives stays an array for each leaf of the items, as long as it is taken by a function of arrays or
by another comprehension. A generator expression is converted where ``sum``, ``any`` or another
function takes it in place; a traced condition then decides which items count.
"""

from __future__ import annotations

import builtins
import dataclasses
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import tree
from ..ops import logic
from ..trace.lists import takes_one_array
from ..trace.reaching import numpys_own
from ..types import type_of
from .branches import choose, truth
from .conversion import local
from .growing import Collector
from .lists import ListedRows, as_array, exposed, joined, total
from .pieces import Grows
from .replaced import REPLACED
from .values import failure, is_abstract
from .weights import weighing

if TYPE_CHECKING:
    from .runtime import Runtime

_MAKERS = ("array", "asarray", "asanyarray")


class _Decided(Exception):  # noqa: N818 - steers
    """An item tells the result, whatever the others are."""


@dataclasses.dataclass
class Comprehension:
    """A comprehension that has not been run: what it goes over, and what it does with an item."""

    runtime: Runtime
    over: Any
    turn: Callable[[Any], Any]  # the element; of several `for`, the rest as a comprehension
    condition: Callable[[Any], Any] | None
    number: int
    pure: bool  # whether the text of the condition shows that it has no effects
    flat: bool  # whether there are more `for`
    is_list: bool = False

    def __iter__(self) -> Iterator[Any]:
        """The items one by one, as Python's generator gives them."""
        if is_abstract(getattr(self.over, "length", 0)):
            raise self._unknown_length()
        for item in self.over:
            kept = True if self.condition is None else self.condition(item)
            if is_abstract(kept):
                raise self._unknown_length()
            if kept:
                found = self.turn(item)
                if self.flat:
                    yield from found
                else:
                    yield exposed(found)

    @property
    def where(self) -> str:
        """The place, for messages."""
        return self.runtime.place(self.number)

    def _unknown_length(self) -> Exception:
        what = "generator" if getattr(self.over, "length", 0) is None else "comprehension"
        return failure(
            self.where,
            f"the number of items that a {what} gives depends on a traced value",
            "Give each item a value (a if c else b), use sum(), any() or all() of a generator, or "
            "choose by wnp.where.",
        )

    # ------------------------------------------------------------ lists

    def collected(self, absent: Any = None, item: Callable[[Any], Any] | None = None) -> Any:
        """The items: a list, or a `ListedRows`.

        `item` makes what is kept of an element. Where a traced condition leaves an item out,
        ``absent`` stands in its place, if there is one.
        """
        if is_abstract(getattr(self.over, "length", 0)):
            raise self._unknown_length()
        self._select()
        held = [Collector()]

        def body(given: Any) -> None:
            kept = True if self.condition is None else self.condition(given)
            if is_abstract(kept) and absent is None:
                raise self._unknown_length()
            if is_abstract(kept):
                self._append(held[0], self._if_kept(kept, given, item, absent))
            elif kept:
                self._append(held[0], self._item(given, item))

        def put(values: Any) -> None:
            held[0] = values[0]

        self._run(body, lambda: tuple(held), put, self.number)
        found = held[0].result()
        if weighing() and found:
            found = [found[k % len(found)] for k in range(self._length(len(found)))]
        return joined(found) if self.flat and item is None else found

    def _run(self, body: Any, get: Any, put: Any, number: int) -> None:
        body.piece = self.turn
        self.runtime.for_(self.over, body, None, get, put, number)

    def _length(self, least: int) -> int:
        known = getattr(self.over, "length", None)
        if isinstance(known, int) or not hasattr(self.over, "__len__"):
            return known or least
        return max(least, len(self.over))

    def _item(self, given: Any, item: Callable[[Any], Any] | None) -> Any:
        found = self.turn(given)
        if item is not None:
            return item(found)
        return found.collected() if isinstance(found, Comprehension) else found

    def _if_kept(self, kept: Any, given: Any, item: Any, absent: Any) -> Any:
        """An item that a traced condition may leave out."""
        roots = self.runtime.roots_of(self.turn)
        own = type_of(self._item(given, item))  # nobody needs the value
        blank = np.full(own.shape, absent, own.dtype)[()]
        return choose(
            truth(kept, self.where), lambda: self._item(given, item), lambda: blank, "", roots
        )

    def _append(self, held: Any, item: Any) -> None:
        inside = local.inside
        if inside is not None and isinstance(held, Collector) and inside.is_old(held):
            if inside.attempt:
                raise Grows(held, False)  # type: ignore[arg-type]
            raise self._unknown_length()
        held.append(item)

    def _select(self) -> None:
        """Leave out beforehand what a condition without traced values leaves out."""
        if self.condition is None or not self.pure or not isinstance(self.over, (range, list)):
            return
        kept = []
        for item in self.over:
            answer = self.condition(item)
            if is_abstract(answer):
                return
            if answer:
                kept.append(item)
        self.over, self.condition = kept, None

    # ------------------------------------------------------------ what is made of all items

    def total(self, start: Any = 0) -> Any:
        """``sum`` of the items."""
        inner = (lambda found: found.total()) if self.flat else None
        if self._is_counted():
            return self._added_up(lambda so_far, item: so_far + item, start, inner)
        return total(self.collected(absent=0, item=inner), start)

    def count(self) -> Any:
        """``len`` of the items."""
        inner = (lambda found: found.count()) if self.flat else (lambda _: 1)
        if self._is_counted():
            return self._added_up(lambda so_far, item: so_far + item, 0, inner)
        return total(self.collected(absent=0, item=inner))

    def junction(self, plain: Any) -> Any:
        """``any`` or ``all`` of the items."""
        decides = plain is builtins.any

        def asked(found: Any) -> Any:
            found = found.junction(plain) if self.flat else found
            if is_abstract(found):
                return truth(found, plain.__name__ + "()")
            if bool(found) is decides:
                raise _Decided  # Python asks no further items
            return bool(found)

        if self._is_counted():
            both = logic.logical_or if decides else logic.logical_and
            return self._added_up(both, not decides, asked)
        try:
            flags = self.collected(absent=not decides, item=asked)
        except _Decided:
            return decides
        if type(flags) is ListedRows:
            from .. import numpy as wnp

            return getattr(wnp, plain.__name__)(flags.columns[0])
        return REPLACED[plain](flags)

    def first(self, *default: Any) -> Any:
        """``next`` of the items: the first of them, or else the default."""
        if not default or self.flat or self.condition is None:
            return next(iter(self), *default)
        ask, decide = self.condition, self.runtime
        held: list[Any] = [(False, default[0])]

        def body(given: Any) -> None:
            found, value = held[0]
            taken = decide.and_(decide.not_(found), lambda: ask(given))
            if is_abstract(taken):
                roots = self.runtime.roots_of(self.turn)
                taken = truth(taken, self.where)
                item = choose(taken, lambda: self._item(given, None), lambda: value, "", roots)
                held[0] = decide.or_(found, lambda: taken), item
            elif taken:
                held[0] = True, self._item(given, None)

        def put(values: Any) -> None:
            held[0] = values[0]

        self._run(body, lambda: tuple(held), put, self.number + 1)
        return held[0][1]

    def _is_counted(self) -> bool:
        length = getattr(self.over, "length", 0)
        return length is None or is_abstract(length)

    def _added_up(self, added: Any, start: Any, item: Callable[[Any], Any] | None) -> Any:
        """What comes of all items one after the other, where nobody knows how many there are."""
        held = [start]

        def body(given: Any) -> None:
            kept = True if self.condition is None else self.condition(given)
            so_far = held[0]
            if is_abstract(kept):
                roots = self.runtime.roots_of(self.turn)
                held[0] = choose(
                    truth(kept, self.where),
                    lambda: added(so_far, self._item(given, item)),
                    lambda: so_far,
                    "",
                    roots,
                )
            elif kept:
                held[0] = added(so_far, self._item(given, item))

        def put(values: Any) -> None:
            held[0] = values[0]

        self._run(body, lambda: tuple(held), put, self.number + 1)
        return held[0]


def taking(function: Any, called: Any) -> Any:
    """What is called in place of a function that is given comprehensions."""

    def call(*args: Any, **kwargs: Any) -> Any:
        first = args[0] if args else None
        if isinstance(first, Comprehension):
            if function is builtins.sum:
                return first.total(*args[1:], **kwargs)
            if function is builtins.len:
                return first.count()
            if function is builtins.next:
                return first.first(*args[1:])
            if function in (builtins.any, builtins.all) and len(args) == 1:
                return first.junction(function)
            if function in (builtins.max, builtins.min):
                return called(_numbers(first.collected()), *args[1:], **kwargs)
            if function in (builtins.list, builtins.tuple, builtins.sorted):
                return called(exposed(first.collected()), *args[1:], **kwargs)
        makes = takes_one_array(function) or _makes_array(function)
        made = as_array if makes else _plain
        return called(*map(made, args), **kwargs)

    return call


def _makes_array(function: Any) -> bool:
    from .. import numpy as wnp

    function = numpys_own(function)
    return any(function is getattr(module, name) for name in _MAKERS for module in (np, wnp))


def _numbers(found: Any) -> Any:
    """Items as an array, where they are numbers."""
    if type(found) is not ListedRows or found.structure is not tree.LEAF:
        return exposed(found)
    (own,) = found.types
    return exposed(found) if own.shape or own.weak else found.columns[0]


def _plain(value: Any) -> Any:
    """An argument as Python has it."""
    if isinstance(value, Comprehension):
        return exposed(value.collected()) if value.is_list else iter(value)
    return exposed(value) if type(value) in (ListedRows, list) else value
