"""How objects that are trees are read from their attributes, as native entries do."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

from . import tree
from .snapshot import identities


class Same(NamedTuple):
    """A part of an object that must be the very same in another one."""

    value: Any


class Unchanged(NamedTuple):
    """A part of an object that must be as it was when this `snapshot` of it was taken."""

    kept: Any


ANYTHING = object()  # a part that must be there, whatever it is


class Parts(NamedTuple):
    """How the children of an object are read from its attributes, without calling `take_apart`.

    Each child is the number of one of the children that `take_apart` gives, the `Parts` of another
    object, a `Same`, an `Unchanged`, or `ANYTHING`. Objects of the class whose parts are of these
    kinds must have equal structures. Without names the object is a tuple of another class. `own` is
    a `snapshot` of the class, where its attributes count.
    """

    kind: type
    names: tuple[str, ...] | None
    children: tuple[Any, ...]
    whole: bool = False  # whether the object's dictionary has these names and no others
    own: Any = None


def parts(value: Any) -> Parts | None:
    """The parts of an object that is a tree; None where only `take_apart` knows them.

    >>> import dataclasses
    >>> @dataclasses.dataclass
    ... class Point:
    ...     x: float
    ...     y: float
    >>> parts(Point(1.0, 2.0)).names
    ('x', 'y')
    """
    if tree.take_apart(value) is None:
        return None
    kind = type(value)
    found = tree._parts.get(kind)
    if found is not None:
        answer: Parts | None = found(value)
        return answer
    if kind in tree._plain_kinds and issubclass(kind, tuple):
        return Parts(kind, None, tuple(range(len(value))))
    if kind in tree._plain_kinds:
        names = tuple(field.name for field in dataclasses.fields(kind))
        return Parts(kind, names, tuple(range(len(names))))
    return None


def readings(value: Any) -> list[Any]:
    """How the objects in a tree are read whose class has told: equal for objects read alike."""
    found: list[Any] = []
    if not tree._parts or type(value) in tree._leaf_kinds:
        return found
    if type(value) in tree._parts:
        return [_comparable(parts(value))]
    taken = tree.take_apart(value)
    for child in () if taken is None else taken[0]:
        found += readings(child)
    return found


def _comparable(part: Any) -> Any:
    if isinstance(part, Same):
        return ("same", id(part.value))
    if isinstance(part, Unchanged):
        return ("unchanged", *identities(part.kept))
    if isinstance(part, Parts):
        inside = [_comparable(child) for child in part.children]
        return (part.kind, part.names, part.whole, identities(part.own), *inside)
    return part
