"""A module without its parameters: what is compared, and filled with other values.

`Skeleton.of` walks a module and everything below it once. Parameters and submodules that stand in
several places are kept once and put back in all of them, so tied weights stay tied and get one
gradient, the sum. Two skeletons are equal when a program traced for one is right for the other:
the same classes, as they were, names and plain attributes, and the very same buffers, which
programs read and write as state.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..flag import Flag
from ..parts import ANYTHING, Parts, Same, Unchanged
from ..snapshot import is_native, snapshot, unchanged
from ..tensor import Tensor, tensor_parts

_COPIED = (list, dict, set)  # an attribute that may be changed in place
_CLASS = ""  # among what was kept of the attributes; no name of one


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

    __slots__ = ("bones", "kept")

    def __init__(self, bones: list[Bones], kept: list[dict[str, Any]] | None = None):
        self.bones = bones
        self.kept = kept  # of each of them what the plain attributes were; see `frozen_data`

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

    def frozen_data(self) -> Skeleton:
        """This skeleton for good: attributes may be changed in place later."""
        return self if self.kept else Skeleton(self.bones, self._snapshots())

    def _snapshots(self) -> list[dict[str, Any]]:
        classes = {one.kind: snapshot(one.kind) for one in self.bones}
        return [
            {name: snapshot(v) for name, v in one.plain.items()} | {_CLASS: classes[one.kind]}
            for one in self.bones
        ]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Skeleton) or len(self.bones) != len(other.bones):
            return False
        if not all(map(_same_bones, self.bones, other.bones)):
            return False
        if self.kept is None and other.kept is not None:
            return other == self
        return all(map(_same_plain, other.bones, self.kept or self._snapshots()))

    def __hash__(self) -> int:
        return hash(tuple((one.kind, *one.places) for one in self.bones))


class _LeftToPython(Exception):  # noqa: N818 - steers, never seen
    """An attribute that native code cannot compare."""


def parts_of(root: Any) -> Parts | None:
    """How compiled functions read the parameters of a module natively, or None if they cannot.

    They check that nothing else has changed: classes, names, modes, buffers, and all other
    attributes as far as a `snapshot` can tell.
    """
    _, parameters = Skeleton.of(root)
    numbers = {id(parameter): number for number, parameter in enumerate(parameters)}
    try:
        return _parts_of(root, numbers, set(), set())
    except _LeftToPython:
        return None


def _parts_of(module: Any, numbers: dict[int, int], above: set[int], seen: set[type]) -> Parts:
    """`seen` has the classes that were met: each is compared once."""
    values, above = vars(module), above | {id(module)}
    children: list[Any] = []
    for name, value in values.items():
        kind = module._kinds.get(name)
        if name == "_mode":
            children.append(value.parts())
        elif name == "_transient":
            children.append(ANYTHING)
        elif kind == "module" and id(value) in above:  # a ring, which has no end
            children.append(Same(value))
        elif kind == "module" and value is not None:
            children.append(_parts_of(value, numbers, above, seen))
        elif kind == "parameter" and value is not None:
            number = numbers[id(value)]
            children.append(tensor_parts(value, number) if isinstance(value, Tensor) else number)
        elif kind == "buffer":
            children.append(Same(value))
        else:
            children.append(Unchanged(_native(value)))
    kind = type(module)
    own = None if kind in seen or snapshot(kind) is kind else _native(kind)
    seen.add(kind)
    return Parts(kind, tuple(values), tuple(children), whole=True, own=own)


def _native(value: Any) -> Any:
    kept = snapshot(value)
    if not is_native(kept):
        raise _LeftToPython
    return kept


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
        and list(one.places) == list(other.places)
        and all(_same_place(one.places[name], other.places[name]) for name in one.places)
    )


def _same_plain(one: Bones, kept: dict[str, Any]) -> bool:
    """Whether the plain attributes are what they were."""
    found = {**one.plain, _CLASS: one.kind}
    return found.keys() == kept.keys() and all(
        unchanged(value, kept[name]) for name, value in found.items()
    )


def _same_place(one: tuple[str, Any], other: tuple[str, Any]) -> bool:
    (kind, place), (other_kind, other_place) = one, other
    if kind != other_kind:
        return False
    return place is other_place if kind == "buffer" else place == other_place
