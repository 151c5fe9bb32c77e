"""Lists, dicts, objects and variables from outside that a branch changes: they hold what one side
or the other has put there.

    if x > 0:                             kept = {"speed": self.speed}
        self.speed = -self.speed   ->     then, orelse = trace(...), trace(...)
                                          self.speed = choose(x > 0, then, orelse)["speed"]

While a side is traced it changes the very thing, and what was in there is put back behind it. Both
sides must leave the same keys, attributes, or number of items. What no rule is known for, such as a
function of another package, is *watched*: what it has changed is found by comparing.
"""

from __future__ import annotations

import collections
import contextlib
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

# Containers whose content can be put back.
_SEQUENCES = (list, collections.deque)
_MAPPINGS = (dict, collections.defaultdict, collections.Counter)
# What calls may change besides.
_OTHERS = (set, bytearray)


class Changed:
    """What something held before a branch changed it, and how it did."""

    def __init__(self, thing: Any, how: str, before: dict[Any, Any]):
        self.thing, self.how, self.before = thing, how, before


class Contents:
    """All that one side of a branch changes of what was there before it."""

    def __init__(self, outer_of: Callable[[Any], Any]):
        self.outer_of = outer_of  # a value as it is outside; raises `MadeInsideError` if it is not
        self.kept: dict[int, Changed] = {}  # by the `id` of the thing, which is held by its record

    def keep(self, thing: Any, how: str, before: dict[Any, Any] | None = None) -> bool:
        """Whether a thing that is about to be changed can be put back."""
        if not can_be_put_back(thing):
            return False
        if id(thing) not in self.kept:
            held = content(thing) if before is None else before
            try:
                held = {slot: self.outer_of(value) for slot, value in held.items()}
            except MadeInsideError:
                return True  # nobody outside has it
            self.kept[id(thing)] = Changed(thing, how, held)
        return True

    def left(self, of: Callable[[Any], Any]) -> dict[int, dict[Any, Any]]:
        """What is in each of them now, by its slots; of what was put there, what `of` makes."""
        found = {}
        for key, one in self.kept.items():
            now = content(one.thing)
            found[key] = {
                slot: None if slot in one.before and one.before[slot] is value else of(value)
                for slot, value in now.items()
            }
        return found

    @contextlib.contextmanager
    def applied(self, left: dict[int, dict[Any, Any]]) -> Iterator[None]:
        """While it lasts all of them hold again what the branch has left."""
        for key, one in self.kept.items():
            slots = left[key].items()
            put(one.thing, {k: one.before[k] if v is None else v.value for k, v in slots})
        try:
            yield
        finally:
            self.restore()

    def restore(self) -> None:
        """Put back what was in all of them."""
        for one in self.kept.values():
            put(one.thing, one.before)


class MadeInsideError(Exception):
    """A value that is made in a branch itself."""


def can_be_put_back(thing: Any) -> bool:
    """Whether all that something holds is known, and can be put there again."""
    if type(thing) in (*_SEQUENCES, *_MAPPINGS, types.CellType):
        return True
    return not isinstance(thing, type) and is_plain_object(thing)


def content(thing: Any) -> dict[Any, Any]:
    """What something holds, by its places, keys or attributes; a variable holds one value."""
    if isinstance(thing, types.CellType):
        try:
            return {"": thing.cell_contents}
        except ValueError:  # it has no value yet
            return {}
    if isinstance(thing, _SEQUENCES):
        return dict(enumerate(thing))
    return dict(thing if isinstance(thing, dict) else vars(thing))


def put(thing: Any, new: dict[Any, Any]) -> None:
    """Give something another content."""
    if isinstance(thing, types.CellType):
        if new:
            thing.cell_contents = new[""]
        else:
            del thing.cell_contents
    elif isinstance(thing, list):
        thing[:] = new.values()
    elif isinstance(thing, collections.deque):
        thing.clear()
        thing.extend(new.values())
    else:
        held = thing if isinstance(thing, dict) else vars(thing)
        held.clear()
        dict.update(held, new)  # that of a counter adds


def described(thing: Any, slots: Iterable[Any]) -> str:
    """What slots something has, for messages."""
    found = [*slots]
    if isinstance(thing, _SEQUENCES):
        return f"{len(found)} item{'s' * (len(found) != 1)}"
    what = "keys" if isinstance(thing, dict) else "attributes"
    return f"the {what} {', '.join(map(repr, found))}" if found else f"no {what}"


def slot_name(thing: Any, slot: Any) -> str:
    """What a slot is called, for messages."""
    if isinstance(thing, types.CellType):
        return "a variable of the function around is"
    what = "item" if isinstance(thing, (*_SEQUENCES, dict)) else "attribute"
    return f"the {what} {slot!r} of a {type(thing).__name__} is"


def is_plain_object(thing: Any) -> bool:
    """Whether attributes of an object are no more than what was put there."""
    kind: Any = type(thing)
    own = is_users_kind(kind) and hasattr(thing, "__dict__")
    return own and kind.__setattr__ is object.__setattr__


def is_users_kind(kind: type) -> bool:
    """Whether a class is no one of Python's, NumPy's or ours."""
    module = kind.__module__
    if getattr(kind, "stands_for_lists", False):
        return True
    # the programs that are measured are written as users write
    ours = module.partition(".")[0] in ("wengert", "numpy", "builtins")
    return not ours or module.startswith("wengert.bench.programs")


# ---------------------------------------------------------------- what calls do


class Comparison:
    """What many things hold before a call that may change them."""

    def __init__(self, things: Iterable[Any]):
        self.before = [(thing, _shallow(thing)) for thing in things if _may_change(thing)]

    def changed(self) -> Iterator[tuple[Any, dict[Any, Any]]]:
        """The things that hold something else now, with what they have held."""
        for thing, before in self.before:
            now = _shallow(thing)
            same = before.keys() == now.keys() and all(now[k] is v for k, v in before.items())
            if not same or [*before] != [*now]:
                yield thing, before


def _may_change(thing: Any) -> bool:
    return isinstance(thing, _OTHERS) or can_be_put_back(thing)


def _shallow(thing: Any) -> dict[Any, Any]:
    return dict(enumerate(thing)) if isinstance(thing, _OTHERS) else content(thing)
