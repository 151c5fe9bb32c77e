"""Trees of arrays (tuples, lists, deques, dicts, dataclasses, None), taken apart, rebuilt.

`flatten` gives the leaves and a structure, `unflatten` puts leaves back. Structures compare
equal when the trees have the same shape, whatever their leaves are. Classes of one's own join
with `register`.

Leaves of dicts come by sorted key, but dicts are rebuilt in their own order, which programs that
go over them see: structures that differ in it alone are not equal, but one `fits` the other.

>>> leaves, structure = flatten({"b": (1, 2), "a": [3]})
>>> leaves
[3, 1, 2]
>>> unflatten(structure, [30, 10, 20])
{'b': (10, 20), 'a': [30]}
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .errors import StructureError
from .types import Function


class Structure:
    """The shape of a tree: a kind, what that kind needs to be rebuilt, and its children."""

    __slots__ = ("children", "data", "kind", "leaf_count")

    def __init__(self, kind: Any, data: Any, children: tuple[Structure, ...]):
        self.kind = kind
        self.data = data
        self.children = children
        self.leaf_count: int = 1 if kind is None else sum(child.leaf_count for child in children)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Structure) and (
            self.kind is other.kind and self.data == other.data and self.children == other.children
        )

    def __hash__(self) -> int:
        return hash((self.kind, self.leaf_count, len(self.children)))

    def fits(self, other: Structure) -> bool:
        """Whether leaves of one belong to those of the other: dicts may be in another order."""
        alike = self.kind is other.kind and same_data(self.kind, self.data, other.data)
        alike = alike and len(self.children) == len(other.children)
        return alike and all(a.fits(b) for a, b in zip(self.children, other.children, strict=True))

    def frozen(self) -> Structure:
        """This structure for good, whatever changes in the objects it was taken from."""
        freeze = getattr(type(self.data), "frozen_data", None)
        data = self.data if freeze is None else freeze(self.data)
        return Structure(self.kind, data, tuple(child.frozen() for child in self.children))

    def __repr__(self) -> str:
        return str(unflatten(self, [_Star()] * self.leaf_count))


class Keys(tuple[Any, ...]):
    """The keys of a dict, sorted; they stand in it in `order`."""

    order: tuple[Any, ...]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Keys) and self.order == other.order

    __hash__ = tuple.__hash__


def same_data(kind: Any, one: Any, other: Any) -> bool:
    """Whether trees of a kind are rebuilt alike, dicts perhaps in another order."""
    return bool(tuple.__eq__(one, other) if kind is dict else one == other)


class _Star:
    def __repr__(self) -> str:
        return "*"


LEAF = Structure(None, None, ())

# kind -> (children and data of a value, value of data and children)
_Registered = tuple[Callable[[Any], tuple[Sequence[Any], Any]], Callable[[Any, list[Any]], Any]]
_registry: dict[type, _Registered] = {
    tuple: (lambda value: (value, None), lambda data, children: tuple(children)),
    list: (lambda value: (value, None), lambda data, children: children),
    dict: (lambda value: _of_dict(value), lambda data, children: _dict(data, children)),
    deque: (lambda value: ([*value], value.maxlen), lambda most, children: deque(children, most)),
    type(None): (lambda value: ((), None), lambda data, children: None),
}


# classes that were met and are leaves: most values are, so this is asked first
_leaf_kinds: set[type] = set()
# named tuples and dataclasses that were met and nobody has registered
_plain_kinds: set[type] = set()
_parts: dict[type, Callable[[Any], Any]] = {}


def _of_dict(mapping: dict[Any, Any]) -> tuple[list[Any], Keys]:
    try:
        keys = Keys(sorted(mapping))
    except TypeError:  # keys of several types have no order of their own
        keys = Keys(sorted(mapping, key=lambda key: (type(key).__name__, repr(key))))
    keys.order = tuple(mapping)
    return [mapping[key] for key in keys], keys


def _dict(keys: Keys, children: list[Any]) -> dict[Any, Any]:
    made = dict(zip(keys, children, strict=True))
    return {key: made[key] for key in keys.order}


def register(
    kind: type,
    take_apart: Function,
    rebuild: Function,
    parts: Callable[[Any], Any] | None = None,
) -> None:
    """Make a class a tree: ``take_apart(value)`` gives children and data, ``rebuild`` undoes it.

    With ``parts(value)`` compiled functions take such arguments apart natively; see `parts`.
    """
    _registry[kind] = (take_apart, rebuild)
    _leaf_kinds.discard(kind)
    _plain_kinds.discard(kind)
    _parts.pop(kind, None)
    if parts is not None:
        _parts[kind] = parts


def take_apart(value: Any) -> tuple[Sequence[Any], Any] | None:
    """The children of a value and what else it needs to be rebuilt; None for a leaf."""
    handlers = _handlers(value)
    return None if handlers is None else handlers[0](value)


def _handlers(value: Any) -> _Registered | None:
    kind = type(value)
    if kind in _leaf_kinds:
        return None
    found = _registry.get(kind)
    if found is None:
        if issubclass(kind, tuple) and hasattr(kind, "_fields"):
            found = (lambda v: (v, None), lambda data, children: kind(*children))
        elif dataclasses.is_dataclass(kind):
            found = _dataclass_handlers(kind)
        else:
            _leaf_kinds.add(kind)
            return None
        _registry[kind] = found
        _plain_kinds.add(kind)
    return found


def _dataclass_handlers(kind: type) -> _Registered:
    names = [field.name for field in dataclasses.fields(kind)]
    # straight into the dictionary, where nothing of the class stands between
    direct = kind.__dictoffset__ != 0 and not any(
        hasattr(getattr(kind, name, None), "__set__") for name in names
    )

    def rebuild(data: Any, children: list[Any]) -> Any:
        value: Any = object.__new__(kind)
        if direct:
            value.__dict__.update(zip(names, children, strict=True))
            return value
        for name, child in zip(names, children, strict=True):
            object.__setattr__(value, name, child)
        return value

    return (lambda value: ([getattr(value, name) for name in names], None), rebuild)


def flatten(tree: Any) -> tuple[list[Any], Structure]:
    """The leaves of a tree from left to right (dicts by sorted key), and its structure."""
    leaves: list[Any] = []
    return leaves, _flatten_into(tree, leaves)


def _flatten_into(tree: Any, leaves: list[Any]) -> Structure:
    handlers = _handlers(tree)
    if handlers is None:
        leaves.append(tree)
        return LEAF
    children, data = handlers[0](tree)
    return Structure(type(tree), data, tuple(_flatten_into(child, leaves) for child in children))


def unflatten(structure: Structure, leaves: Iterable[Any]) -> Any:
    """The tree of that structure with these leaves."""
    return _unflatten_from(structure, iter(leaves))


def _unflatten_from(structure: Structure, leaves: Any) -> Any:
    if structure.kind is None:
        return next(leaves)
    children = [
        next(leaves) if child.kind is None else _unflatten_from(child, leaves)
        for child in structure.children
    ]
    return _registry[structure.kind][1](structure.data, children)


def leaves(tree: Any) -> list[Any]:
    """The leaves alone.

    >>> leaves((1, {"x": 2}, None))
    [1, 2]
    """
    return flatten(tree)[0]


def map(function: Function, tree: Any, *others: Any) -> Any:
    """Apply a function leaf by leaf to trees of one structure.

    >>> map(lambda x, y: x + y, (1, [2]), (10, [20]))
    (11, [22])
    """
    first, structure = flatten(tree)
    rest = [flatten_like(structure, other, "tree.map") for other in others]
    return unflatten(structure, [function(*row) for row in zip(first, *rest, strict=True)])


def flatten_like(structure: Structure, tree: Any, operation: str) -> list[Any]:
    """The leaves of a tree that must have the given structure, or a clear error."""
    found, other = flatten(tree)
    if not other.fits(structure):
        raise StructureError(
            f"{operation}: got a tree of structure {other}, expected {structure}. "
            "Give a tree with the same tuples, lists and dict keys."
        )
    return found
