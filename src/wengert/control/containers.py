"""Containers that a turn of a loop changes: what it leaves goes back into the very same ones.

A turn works on copies of the containers that it carries, with traced values in them. What it has
put into such a copy is put into the container itself behind the loop, and what it has written to an
array in there is written to that array: whoever else holds them sees it, as without a loop.

An object of the user's is changed itself while a turn is traced, and gets its attributes back.
Those that a turn sets, or whose array it writes to, are carried.
"""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .. import tree
from ..types import type_of
from .alike import SameContainers, containers_in, written
from .contents import is_plain_object
from .conversion import local
from .pieces import Abandon
from .values import ATOMS, is_number, is_own_array

# Objects that are looked at for a container that is held twice.
_MOST = 20000


class Twin:
    """A value from outside and what stands for it in a turn, with their parts, if they have any."""

    def __init__(self, original: Any, copy: Any):
        self.original, self.copy = original, copy
        whole, inner = tree.take_apart(original), tree.take_apart(copy)
        self.parts: list[Twin] | None = None
        if whole is not None and inner is not None:
            self.parts = [Twin(a, b) for a, b in zip(whole[0], inner[0], strict=True)]

    def changed(self, after: Any) -> list[Any]:
        """The containers and arrays from outside that a turn has changed, and not replaced."""
        if after is not self.copy:
            return []
        if self.parts is None:
            written = is_own_array(self.original) and after._storage()._version > 0
            return [self.original] if written else []
        left = list(tree.take_apart(after)[0])  # type: ignore[index]
        pairs = list(zip(self.parts, left, strict=True))
        found = [one for part, now in pairs for one in part.changed(now)]
        replaced = any(part.copy is not now for part, now in pairs)
        return [*found, *([self.original] if replaced else [])]

    def grown(self, after: Any) -> list[Any] | None:
        """A list from outside to which a turn has added items, and nothing else."""
        if self.parts is None or after is not self.copy:
            return None
        left = tree.take_apart(after)[0]  # type: ignore[index]
        if type(after) is list and len(left) > len(self.parts):
            found: list[Any] = self.original
            return found
        pairs = zip(self.parts, left, strict=False)
        return next((one for one in (p.grown(now) for p, now in pairs) if one is not None), None)

    def lost(self, after: Any) -> list[Any]:
        """The containers of the turn that it has changed and then replaced by others."""
        if self.parts is None:
            return []
        left = tree.take_apart(self.copy)[0]  # type: ignore[index]
        alike = len(left) == len(self.parts)
        changed = not alike or any(
            part.copy is not now for part, now in zip(self.parts, left, strict=True)
        )
        kept = after is self.copy
        following = left if kept and alike else [None] * len(self.parts)
        pairs = zip(self.parts, following, strict=True)
        found = [one for part, now in pairs for one in part.lost(now)]
        return [*found, *([self.copy] if changed and not kept else [])]

    def copies(self) -> dict[int, Any]:
        """What the containers of the turn stand for, by their `id`."""
        parts = [part.copies() for part in self.parts or ()]
        own = {} if self.parts is None else {id(self.copy): self.original}
        return {key: value for found in (own, *parts) for key, value in found.items()}

    def kept(self, after: Any) -> dict[int, Any]:
        """The same for those that are still where they were after a turn."""
        if self.parts is None or after is not self.copy:
            return {}
        left = tree.take_apart(after)[0]  # type: ignore[index]
        parts = [part.kept(now) for part, now in zip(self.parts, left, strict=False)]
        own = {id(self.copy): self.original}
        return {key: value for found in (own, *parts) for key, value in found.items()}

    def kept_arrays(self, after: Any) -> dict[int, Any]:
        """The arrays from outside that are still where they were after a turn, by the `id` of what
        stands for them in it."""
        if after is not self.copy:
            return {}
        if self.parts is None:
            return {id(self.copy): self.original} if is_own_array(self.original) else {}
        left = tree.take_apart(after)[0]  # type: ignore[index]
        parts = [part.kept_arrays(now) for part, now in zip(self.parts, left, strict=False)]
        return {key: value for found in parts for key, value in found.items()}

    def back(self, after: Any, result: Any) -> Any:
        """What is there behind the loop: the value itself with the results in it, or another."""
        if after is not self.copy:
            return result
        if self.parts is None:
            if is_own_array(self.original) and after._storage()._version > 0:
                self.original._write(result)
            return self.original
        left, (found, data) = tree.take_apart(after)[0], tree.take_apart(result)  # type: ignore[index, misc]
        new = [p.back(a, r) for p, a, r in zip(self.parts, left, found, strict=True)]
        if all(one is part.original for one, part in zip(new, self.parts, strict=True)):
            return self.original
        shape = tree.Structure(type(result), data, (tree.LEAF,) * len(new))
        if local.inside is not None:
            local.inside.changes(self.original, "a loop")
        written(self.original)
        return refilled(self.original, tree.unflatten(shape, new))

    def keep_alike(self, after: Any, made: SameContainers) -> None:
        """Let what a turn has put into the value hold the same containers as others do."""
        if self.parts is None or after is not self.copy:
            return
        left, (now, data) = tree.take_apart(after)[0], tree.take_apart(self.original)  # type: ignore[index, misc]
        new = []
        for part, end, value in zip(self.parts, left, now, strict=True):
            if end is part.copy:
                part.keep_alike(end, made)
                new.append(value)
            else:
                new.append(made.replaced(value, end, part.original))
        if any(one is not other for one, other in zip(new, now, strict=True)):
            shape = tree.Structure(type(self.original), data, (tree.LEAF,) * len(new))
            refilled(self.original, tree.unflatten(shape, new))


def refilled(container: Any, new: Any) -> Any:
    """A container with another content; a new one where it cannot be changed."""
    if isinstance(container, list):
        container[:] = new
    elif isinstance(container, collections.deque):
        container.clear()
        container.extend(new)
    elif isinstance(container, dict):
        container.update(new)
    elif dataclasses.is_dataclass(container):
        for field in dataclasses.fields(container):
            object.__setattr__(container, field.name, getattr(new, field.name))
    else:
        return new
    return container


# The leaves of a value and its structure; with whether a turn has made it.
Flatten = Callable[[Any, bool], tuple[list[Any], tree.Structure]]


class Attributes:
    """An object from outside some of whose attributes a turn changes."""

    def __init__(self, thing: Any):
        self.thing = thing
        self.names: list[str] = []

    def first(self, flatten: Flatten) -> list[Any]:
        """The leaves of the attributes that are carried."""
        self.flatten = flatten
        self.before = dict(vars(self.thing))
        self.shapes, found = [], []
        for name in self.names:
            leaves, structure = flatten(self.before[name], False)
            if not all(map(is_number, leaves)):
                raise Abandon
            self.shapes.append(structure)
            found += leaves
        self.leaves = found
        return found

    def enter(self, inner: Callable[[Any], Any]) -> None:
        """Put what stands for leaves into the attributes."""
        self.twins, self.inner = [], []
        following = iter(self.leaves)
        for name, structure in zip(self.names, self.shapes, strict=True):
            own = self.before[name]
            leaves = [inner(next(following)) for _ in range(structure.leaf_count)]
            self.inner += leaves
            copy = tree.unflatten(structure, leaves)
            self.twins.append(Twin(own, copy))
            vars(self.thing)[name] = copy

    def left(self) -> list[Any] | None:
        """The leaves of the attributes after a turn; None where it has set others too."""
        self.after = dict(vars(self.thing))
        if self.after.keys() != self.before.keys():
            raise Abandon
        rest = [name for name in self.before if name not in self.names]
        changed = [name for name in rest if self.after[name] is not self.before[name]]
        self.names += changed
        if changed:
            return None
        found: list[Any] = []
        for name, shape in zip(self.names, self.shapes, strict=True):
            leaves, structure = self.flatten(self.after[name], True)
            if structure != shape or not all(map(is_number, leaves)):
                raise Abandon
            found += leaves
        return found

    def changed(self) -> list[Any]:
        """What is in the attributes and is changed itself."""
        pairs = zip(self.names, self.twins, strict=True)
        return [one for name, twin in pairs for one in twin.changed(self.after[name])]

    def moves(self) -> list[tuple[Any, Any]]:
        """What stands for the attributes in a turn, each with what is there now."""
        now = vars(self.thing)
        return [
            (twin.copy, now.get(name)) for name, twin in zip(self.names, self.twins, strict=True)
        ]

    def is_shared(self) -> bool:
        """Whether a container that a turn changes is replaced then, or held twice."""
        left = [self.after[name] for name in self.names]
        pairs = list(zip(self.twins, left, strict=True))
        held = [one for value in left for one in containers_in(value)]
        changed = any(twin.changed(now) for twin, now in pairs) and held_twice(held, left)
        return changed or any(twin.lost(now) for twin, now in pairs)

    @property
    def has_arrays(self) -> bool:
        """Whether some of what is carried is arrays, to which others may write."""
        own = getattr(type(self.thing), "stands_for_lists", False)
        return not own and any(type_of(leaf).shape for leaf in self.leaves)

    def leave(self) -> None:
        """Give the object its attributes back."""
        vars(self.thing).clear()
        vars(self.thing).update(self.before)

    def settle(self, results: Sequence[Any]) -> None:
        """Tell what stands for lists what will be in it."""
        if getattr(type(self.thing), "stands_for_lists", False):
            self.thing.settle(results)

    def finish(self, following: Any) -> None:
        """Give the object its attributes behind the loop."""
        if local.inside is not None:
            local.inside.changes(self.thing, "a loop")
        written(self.thing)
        for name, shape, twin in zip(self.names, self.shapes, self.twins, strict=True):
            made = tree.unflatten(shape, [next(following) for _ in range(shape.leaf_count)])
            vars(self.thing)[name] = twin.back(self.after[name], made)

    def keep_alike(self, made: SameContainers) -> None:
        """Let attributes hold the same containers as others, where they did after a turn."""
        own = vars(self.thing)
        for name, twin in zip(self.names, self.twins, strict=True):
            if own[name] is self.before[name]:
                twin.keep_alike(self.after[name], made)
            else:
                own[name] = made.replaced(own[name], self.after[name], self.before[name])


def objects_in(values: Iterable[Any]) -> list[Any]:
    """The objects of the user's that can be reached."""
    pending, found = list(values), {}
    seen: set[int] = set()
    while pending and len(seen) < _MOST:
        now = pending.pop()
        if id(now) in seen:
            continue
        seen.add(id(now))
        taken = tree.take_apart(now)
        if taken is not None:
            pending += [one for one in taken[0] if not isinstance(one, ATOMS)]
        elif is_plain_object(now) and not isinstance(now, type):
            found[id(now)] = now
            pending += vars(now).values()
    return list(found.values())


def holder_of(asked: Callable[[Any], bool], values: Iterable[Any]) -> tuple[Any, str] | None:
    """The object among some that has what is asked for in an attribute, and its name."""
    for thing in objects_in(values):
        for name, value in vars(thing).items():
            if asked(value):
                return thing, name
    return None


def owner_of(storage: Any, values: Iterable[Any]) -> tuple[Any, str] | None:
    """The object among some that has an array in an attribute, and its name."""
    return holder_of(lambda one: is_own_array(one) and one._storage() is storage, values)


def period(moves: Iterable[tuple[Any, Any]]) -> int:
    """After how many turns things are where they were, if a turn puts the second of each pair in
    the place of the first; 1 where none changes its place with others."""
    following = {id(one): id(other) for one, other in moves}
    found = 1
    for start in following:
        length, place = 1, following[start]
        while place != start and place in following and length <= len(following):
            length, place = length + 1, following[place]
        found = math.lcm(found, length) if place == start else found
    return found


def held_twice(things: Iterable[Any], values: Iterable[Any]) -> bool:
    """Whether one of some containers and arrays can be reached in two ways."""
    wanted = {id(thing): 0 for thing in things}
    pending = list(values)
    seen: set[int] = set()
    while pending and wanted and len(seen) < _MOST:
        now = pending.pop()
        if id(now) in wanted:
            wanted[id(now)] += 1
            if wanted[id(now)] > 1:
                return True
        elif id(now) in seen:
            continue
        seen.add(id(now))
        taken = tree.take_apart(now)
        if taken is not None:
            pending += taken[0]
        elif not (hasattr(type(now), "is_stand_in") or hasattr(type(now), "stands_for_lists")):
            pending += getattr(now, "__dict__", {}).values()
    return False


def holders(array: Any, values: Iterable[Any]) -> int:
    """How many of some values and of what they contain are an array, or views of its memory."""
    own = array._storage()
    leaves = (leaf for value in values for leaf in tree.leaves(value))
    return sum(is_own_array(leaf) and leaf._storage() is own for leaf in leaves)
