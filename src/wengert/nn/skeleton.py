"""A module without its parameters: what is compared, and filled with other values.

`Skeleton.of` walks a module and everything below it once. Parameters and submodules that stand in
several places are kept once and put back in all of them, so tied weights stay tied and get one
gradient, the sum. Two skeletons are equal when a program traced for one is right for the other:
the same classes, names and plain attributes, and the very same buffers, which programs read and
write as state.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..ops.op import Traced
from .flag import Flag

_COPIED = (list, dict, set)  # an attribute that may be changed in place


class Bones(NamedTuple):
    """One module: its class, plain attributes, mode, and where its registered attributes are.

    `places` has for each a kind and a number (a parameter, a module) or the buffer itself.
    """

    kind: type
    plain: dict[str, Any]
    training: bool
    transient: frozenset[str]
    places: dict[str, tuple[str, Any]]


class Skeleton:
    """A whole module taken apart, the root first."""

    __slots__ = ("bones",)

    def __init__(self, bones: list[Bones]):
        self.bones = bones

    @classmethod
    def of(cls, root: Any) -> tuple[Skeleton, list[Any]]:
        """The skeleton of a module and its parameters, each once."""
        modules: list[Any] = [root]
        numbers = {id(root): 0}
        parameters: list[Any] = []
        slots: dict[int, int] = {}
        bones = []
        for module in modules:  # grows while it is walked
            values = vars(module)
            places: dict[str, tuple[str, Any]] = {}
            for name, kind in module._kinds.items():
                value = values[name]
                if value is None or kind == "buffer":
                    places[name] = (kind, value)
                elif kind == "parameter":
                    places[name] = (kind, _number(value, slots, parameters))
                else:
                    places[name] = (kind, _number(value, numbers, modules))
            bones.append(_bones(module, places))
        return cls(bones), parameters

    def rebuild(self, leaves: list[Any]) -> Any:
        """The module with other values in the places of the parameters."""
        made: list[Any] = [object.__new__(one.kind) for one in self.bones]
        for module, one in zip(made, self.bones, strict=True):
            values = vars(module)
            values.update(
                _kinds={name: kind for name, (kind, _) in one.places.items()},
                _transient=set(one.transient),
                _mode=Flag(one.training),
            )
            values.update({name: _own(value) for name, value in one.plain.items()})
            for name, (kind, place) in one.places.items():
                if place is None or kind == "buffer":
                    values[name] = place
                else:
                    values[name] = leaves[place] if kind == "parameter" else made[place]
        return made[0]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Skeleton) or len(self.bones) != len(other.bones):
            return False
        return all(_same_bones(a, b) for a, b in zip(self.bones, other.bones, strict=True))

    def __hash__(self) -> int:
        return hash(tuple((one.kind, *one.places) for one in self.bones))


def _number(value: Any, numbers: dict[int, int], kept: list[Any]) -> int:
    """The number of an object in a list of different ones; a new one is added."""
    if id(value) not in numbers:
        numbers[id(value)] = len(kept)
        kept.append(value)
    return numbers[id(value)]


_BOOKKEEPING = {"_kinds", "_transient", "_mode"}


def _bones(module: Any, places: dict[str, tuple[str, Any]]) -> Bones:
    plain = {
        name: _own(value)
        for name, value in vars(module).items()
        if name not in places and name not in _BOOKKEEPING
    }
    return Bones(type(module), plain, module._mode.value, frozenset(module._transient), places)


def _own(value: Any) -> Any:
    return value.copy() if type(value) in _COPIED else value


def _same_bones(one: Bones, other: Bones) -> bool:
    return (
        one.kind is other.kind
        and one.training == other.training
        and one.plain.keys() == other.plain.keys()
        and list(one.places) == list(other.places)
        and all(_same_place(one.places[name], other.places[name]) for name in one.places)
        and all(_same(value, other.plain[name]) for name, value in one.plain.items())
    )


def _same_place(one: tuple[str, Any], other: tuple[str, Any]) -> bool:
    (kind, place), (other_kind, other_place) = one, other
    if kind != other_kind:
        return False
    return place is other_place if kind == "buffer" else place == other_place


def _same(one: Any, other: Any) -> bool:
    """Whether two plain attributes are equal; arrays and tensors only where they are one."""
    if one is other:
        return True
    if type(one) is not type(other) or isinstance(one, (np.ndarray, Traced)):
        return False
    try:
        return bool(one == other)
    except (TypeError, ValueError):  # arrays inside
        return False
