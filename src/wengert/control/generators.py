"""Generators of the user's: where they yield, what goes over them does with the item what it does.

    def halves(x):                  def halves(x):                for v in halves(x):
        while x > 1:                    while x > 1:                  s = s + v
            x = x / 2       ->              x = x / 2         ->
            yield x                         emit(x)               emit = a turn; halves(x)

So the loops and branches of the generator are operations as those of any function, which carry the
variables of both. What is done with a generator otherwise, ``next`` for example, is done with
Python's own one, as long as it has not begun.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import user_line
from . import conversion
from .comprehensions import Comprehension, taking
from .rewriting import Statement
from .values import failure

if TYPE_CHECKING:
    from .runtime import Runtime


class Generated:
    """What a call of a generator gives."""

    length = None  # nobody knows

    def __init__(self, function: Any, *args: Any, **kwargs: Any):
        self._call = function, args, kwargs
        self._plain = function(*args, **kwargs)  # has not begun, but knows whether it can
        self._begun = False
        if conversion.local.inside is not None:  # where it was not before
            conversion.local.inside.fresh.add(id(self))
        self._count: int | None = None  # the number of the first item, of ``enumerate``

    def enumerated(self, start: int) -> Any:
        """``enumerate(...)`` of it; None if some of its items are taken, or it is that already."""
        if self._begun or self._count is not None:
            return None
        made = copy.copy(self)
        self._begun, made._count, made._plain = True, start, enumerate(self._plain, start)
        return made

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return self._done_plainly(self._plain.__next__)()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._done_plainly(getattr(self._plain, name))

    def _done_plainly(self, method: Any) -> Any:
        """What Python's own generator does, which may have effects on anything."""
        self._begun = True
        inside = conversion.local.inside
        return method if inside is None else inside.watched(method)

    def run(self, consumer: Consumer) -> bool:
        """Run the generator with a turn at each ``yield``; False if it has begun before."""
        if self._begun:
            return False
        self._begun = True
        self._plain = iter(()) if consumer.more is None else _left()
        if self._count is not None:
            consumer = consumer.counting(self._count)
        function, args, kwargs = self._call
        found = conversion.conversion(function, consumer.more is not None)
        assert isinstance(found, conversion.Conversion)
        conversion.bound(function, found, consumer.of(found.runtime))(*args, **kwargs)
        return True

    def items(self) -> Any:
        """The items as a comprehension has them; None if some are taken."""
        if self._begun:
            return None
        found = conversion.conversion(self._call[0])
        assert isinstance(found, conversion.Conversion)
        number = len(found.runtime.statements) - 2
        return Comprehension(found.runtime, self, lambda item: item, None, number, True, False)


def _left() -> Iterator[Any]:
    """What is left of a generator behind a loop that may have stopped before its end."""
    raise failure(
        user_line(),
        "items are taken of a generator that a loop with `break` or `return` has begun: which are "
        "left is not known",
        "Make a list of the items first, or take all of them in one loop.",
    )
    yield  # so that it is raised when an item is taken


@dataclasses.dataclass
class Consumer:
    """A loop over a generator: its turn, whether it goes on, and its variables."""

    runtime: Runtime
    body: Callable[[Any], None]
    more: Callable[[], Any] | None
    get: Callable[[], Sequence[Any]]
    put: Callable[[Sequence[Any]], None]
    statement: Statement

    def of(self, runtime: Runtime) -> Runtime:
        """The runtime of a generator that yields to this loop."""
        made = copy.copy(runtime)
        made.consumer = self
        made.statements = [self._with(one) if one.yields else one for one in runtime.statements]
        return made

    def counting(self, start: int) -> Consumer:
        """What gives its turns the number of the item too."""
        count, body, get, put = start, self.body, self.get, self.put

        def turn(item: Any) -> None:
            nonlocal count
            number = count
            body((number, item))
            count = number + 1

        def set_both(new: Sequence[Any]) -> None:
            nonlocal count
            count = new[0]
            put(new[1:])

        turn.piece = getattr(body, "piece", body)  # type: ignore[attr-defined]
        other = self.statement
        name = f"the count of {other.function}"
        return dataclasses.replace(
            self,
            body=turn,
            get=lambda: (count, *get()),
            put=set_both,
            statement=dataclasses.replace(
                other,
                names=[name, *other.names],
                changed=other.changed + 1,
                enters=other.enters | {name},
            ),
        )

    def _with(self, own: Statement) -> Statement:
        """A statement of the generator in which turns are run."""
        other = self.statement
        name = {
            one: f"{one} of {other.function}" if one in own.names else one for one in other.names
        }

        def known(names: Any) -> frozenset[str]:
            return frozenset(name.get(one, one) for one in names)

        return dataclasses.replace(
            own,
            names=[
                *own.names[: own.changed],
                *(name[one] for one in other.names[: other.changed]),
                *own.names[own.changed :],
                *(name[one] for one in other.names[other.changed :]),
            ],
            changed=own.changed + other.changed,
            live=own.live | known(other.live | other.enters),
            enters=own.enters | known(other.enters),
            touched=own.touched | known(other.touched),
            targets=(*own.targets, *known(other.targets)),
            plain=own.plain and other.plain,
            outside=own.outside | known(other.outside),
            nested=own.nested or other.nested,
            stacks=own.stacks | known(other.stacks),
            filled=own.filled | known(other.filled),
        )

    def roots(self) -> list[Any]:
        """What its turns can reach."""
        return self.runtime._roots(self.body)

    def joined(self, statement: Statement, get: Any, put: Any) -> tuple[Any, Any]:
        """What reads and writes the variables of a statement of the generator, and those of the
        turns that are run in it."""
        if not statement.yields:
            return get, put
        theirs = self.statement.changed
        own = statement.changed - theirs
        read = len(self.statement.names) - theirs

        def both() -> tuple[Any, ...]:
            mine, other = get(), self.get()
            return (*mine[:own], *other[:theirs], *mine[own:], *other[theirs:])

        def set_both(new: Sequence[Any]) -> None:
            end = len(new) - read
            put([*new[:own], *new[own + theirs : end]])
            self.put([*new[own : own + theirs], *new[end:]])

        return both, set_both


def of_items(function: Any, called: Any) -> Any:
    """What is called in place of a function that takes all items of a generator."""

    def call(*args: Any, **kwargs: Any) -> Any:
        items = args[0].items() if args and type(args[0]) is Generated else None
        if items is None:
            return called(*args, **kwargs)
        return taking(function, called)(items, *args[1:], **kwargs)

    return call
