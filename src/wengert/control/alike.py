"""Lists, dicts and objects of which a branch or loop decides whether two of them are one.

``best = state`` under a traced condition gives a list that has the numbers of `state` then, but
whether a write to it is one to `state` is not known. It is as with arrays (`trace/either.py`): as
long as nobody looks, it does not matter. What is written to one makes the other unreadable.

Where it is certain that two variables hold the same, they do.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .. import tree
from ..errors import MutationError, explain
from ..trace.conditional import storages_of
from ..trace.either import Either, undecided
from ..trace.preparing import alike
from .conversion import local
from .pieces import Abandon, Fills, TracedPiece
from .values import Partial, attributes, is_own_array

# Classes of what stands for a list while an attempt lasts have one of these.
_STANDING = ("stands_for_lists", "is_stand_in")


class _Undecided(Partial):
    """Stands for what may have been changed by a write to something else; to use it is an error."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("", "")

    def __repr__(self) -> str:
        return "<unknown>"

    def refuse(self, *args: Any, **kwargs: Any) -> Any:
        """Raise the error."""
        raise undecided()


for _name in [name for name, value in vars(Partial).items() if value is Partial.refuse]:
    setattr(_Undecided, _name, _Undecided.refuse)


def is_container(value: Any) -> bool:
    """Whether it is a list, a dict or an object that is a tree and can be changed."""
    if isinstance(value, (tuple, type(None))):
        return False
    return tree.take_apart(value) is not None or attributes(value) is not None


def containers_in(value: Any) -> Iterator[Any]:
    """The containers in a tree, from the outermost on."""
    if is_container(value):
        yield value
    taken = tree.take_apart(value)
    for part in () if taken is None else taken[0]:
        yield from containers_in(part)


def may_be_alike(made: Any, *containers: Any) -> None:
    """Take down that what is made may be one of some containers, and so all that these may be."""
    every = {id(one): one for thing in containers for one in (thing, *others(thing))}
    taken = {id(made), *map(id, others(made))}
    for one in [one for key, one in every.items() if key not in taken]:
        are_alike(made, one)


def are_alike(made: Any, one: Any) -> None:
    """Take down that two containers may be the same."""
    for this, that in ((made, one), (one, made)):
        alike().setdefault(id(this), (this, []))[1].append(that)


def fetched(made: Any, items: Sequence[Any]) -> Any:
    """What was read at a traced place, which is one of some items: nobody knows which."""
    if is_container(made):
        for one, *held in zip(containers_in(made), *map(containers_in, items), strict=False):
            may_be_alike(one, *held)
    if local.inside is not None and (is_container(made) or is_own_array(made)):
        local.inside.fetched[id(made)] = made, items
        local.inside.roots.append(items)
    return made


def is_fetched(thing: Any) -> bool:
    """Whether it was read at a traced place, or something in it was."""
    piece = local.inside
    while piece is not None:
        if id(thing) in piece.fetched:
            return True
        piece = piece.outer
    taken = tree.take_apart(thing)
    return taken is not None and any(map(is_fetched, taken[0]))


def forget_fetched(piece: TracedPiece) -> None:
    """Let go of what a turn has read at traced places, once nobody has it any more."""
    known = alike()
    for made, _ in piece.fetched.values():
        for one in containers_in(made):
            for other in known.pop(id(one), (one, ()))[1]:
                held = known.get(id(other), (other, []))[1]
                held[:] = [this for this in held if this is not one]


def check_fetched(thing: Any) -> None:
    """End an attempt that changes what was read at a traced place: the list has to be a table."""
    piece = local.inside
    while piece is not None and piece.attempt:
        _, items = piece.fetched.get(id(thing), (thing, None))
        if type(items) is list:
            raise Fills(items)
        piece = piece.outer


def others(thing: Any) -> Sequence[Any]:
    """What a container may be, beside itself."""
    return alike().get(id(thing), (thing, ()))[1]


def is_same(one: Any, other: Any) -> bool:
    """``a is b``; an error, or the end of an attempt, where nobody knows."""
    if one is other:
        return True
    if any(hasattr(type(thing), name) for thing in (one, other) for name in _STANDING):
        raise Abandon
    if type(one) is not type(other) and not (is_own_array(one) and is_own_array(other)):
        return False
    array = is_own_array(one) and bool(one.type.shape)
    if not array and not is_container(one):
        return False
    inside = local.inside
    if inside is not None and inside.attempt and (array or not inside.are_old(one, other)):
        raise Abandon
    if array:
        either = isinstance(one._storage(), Either) or isinstance(other._storage(), Either)
        unknown = either and not set(storages_of(one)).isdisjoint(storages_of(other))
    else:
        unknown = any(thing is other for thing in others(one))
    if unknown or (inside is not None and inside.has_copies(one, other)):
        raise _unknown()
    return False


def _unknown() -> MutationError:
    return MutationError(
        explain(
            "`is`",
            "whether two arrays or containers are one is not known: a traced condition, or the "
            "turn of a loop, decides",
            "Keep the place of each in a variable, and compare the places.",
        )
    )


def written(thing: Any) -> None:
    """A container is changed: nobody may read what may be the same any more."""
    for other in alike().pop(id(thing), (thing, ()))[1]:
        forget(other)


def forget(thing: Any) -> None:
    """Let nobody read a container any more."""
    if local.inside is not None:
        local.inside.changes(thing, "a write to what may be the same")
    if isinstance(thing, list):
        thing[:] = [_Undecided() for _ in thing]
    elif isinstance(thing, dict):
        thing.update({key: _Undecided() for key in thing})
    elif isinstance(thing, collections.deque):
        for place in range(len(thing)):
            thing[place] = _Undecided()
    elif dataclasses.is_dataclass(thing):
        for field in dataclasses.fields(thing):
            object.__setattr__(thing, field.name, _Undecided())
    else:
        for name in attributes(thing) or ():
            setattr(thing, name, _Undecided())


class SameContainers:
    """What variables hold behind a branch or loop, beside what they held at its end.

    There may be several ends: those of both sides of a branch.
    """

    def __init__(
        self, sure: bool, same: Callable[[Any], Any], outside: Callable[[Any], Sequence[Any]]
    ):
        self.sure = sure  # whether one of these ends was reached
        self.same = same  # for a container at an end what it is behind it, where that is known
        self.outside = outside  # the containers from outside that it may be
        self.held: dict[int, tuple[Any, list[Any]]] = {}  # results, by the containers at an end
        self.whole: dict[tuple[int, ...], Any] = {}

    def add(self, result: Any, ends: Sequence[Any]) -> Any:
        """What a variable holds: the result, or what was added before and is the same."""
        if not is_container(result):
            self._take_down(result, ends)
            return result
        key = tuple(map(id, ends))
        same = self.whole.get(key)
        if same is None and all(end is ends[0] for end in ends):
            same = self.same(ends[0])
        if self.sure and same is not None:
            return same
        self.whole[key] = result
        self._take_down(result, ends)
        return result

    def replaced(self, result: Any, end: Any, before: Any) -> Any:
        """What a variable holds that held something else before, if the end was not reached."""
        found = self.add(result, [end])
        if not self.sure:
            for new, old in zip(containers_in(found), containers_in(before), strict=False):
                may_be_alike(new, old)
        return found

    def _take_down(self, result: Any, ends: Sequence[Any]) -> None:
        for made, *inside in zip(*map(containers_in, (result, *ends)), strict=False):
            for end in inside:
                for thing in (end, *others(end)):
                    _, known = self.held.get(id(thing), (thing, ()))
                    may_be_alike(made, *self.outside(thing), *known)
                self.held.setdefault(id(end), (end, []))[1].append(made)
