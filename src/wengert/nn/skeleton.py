"""A module without its parameters: what is compared, and filled with other values.

`Skeleton.of` walks a module and everything below it once. Parameters and submodules that stand in
several places are kept once and put back in all of them, so tied weights stay tied and get one
gradient, the sum. Two skeletons are equal when a program traced for one is right for the other:
the same classes, names and plain attributes, and the very same buffers, which programs read and
write as state.
"""

from __future__ import annotations

from types import BuiltinFunctionType, FunctionType
from typing import Any, NamedTuple

import numpy as np

from ..ops.op import Traced
from ..tensor import Tensor
from ..tree import ANYTHING, Parts, Same
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


# Attributes that stay what they are: where two objects have the same one, nothing has changed.
_FIXED = (int, float, complex, str, bytes, type, FunctionType, BuiltinFunctionType, np.ufunc)


def parts_of(root: Any) -> Parts | None:
    """How compiled functions read the parameters of a module natively, or None if they cannot.

    They check that nothing else has changed: classes, names, modes, every other attribute, which
    must be the same object and one that cannot change in place.
    """
    _, parameters = Skeleton.of(root)
    numbers = {id(parameter): number for number, parameter in enumerate(parameters)}
    try:
        return _parts_of(root, numbers, set())
    except _CanChange:
        return None


class _CanChange(Exception):  # noqa: N818 - steers, never seen
    """An attribute whose content may change unnoticed."""


def _parts_of(module: Any, numbers: dict[int, int], above: set[int]) -> Parts:
    if id(module) in above:
        raise _CanChange  # a ring of modules has no end
    values, above = vars(module), above | {id(module)}
    children: list[Any] = []
    for name, value in values.items():
        kind = module._kinds.get(name)
        if name == "_kinds":
            children.append({one: Same(what) for one, what in value.items()})
        elif name == "_mode":
            children.append(value.parts())
        elif name == "_transient":
            children.append(ANYTHING)
        elif kind == "module" and value is not None:
            children.append(_parts_of(value, numbers, above))
        elif kind == "parameter" and value is not None:
            number = numbers[id(value)]
            children.append(value._parts(number) if isinstance(value, Tensor) else number)
        elif kind == "buffer" or _is_fixed(value):
            children.append(Same(value))
        else:
            raise _CanChange
    return Parts(type(module), tuple(values), tuple(children), whole=True)


def _is_fixed(value: Any) -> bool:
    if type(value) in (tuple, frozenset):
        return all(map(_is_fixed, value))
    return value is None or isinstance(value, (bool, *_FIXED))


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
