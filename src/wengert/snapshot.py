"""What a Python value was, to see later that it has not changed.

A module may have a list, a dictionary, an array or an object among its attributes, which change in
place: that it is the same object says nothing. `snapshot` keeps what was inside: of lists, tuples,
dictionaries, sets, arrays and what is derived from them, of objects with their attributes and
classes with theirs, of functions with what they hold (defaults, closures, attributes). `unchanged`
compares a value with it, and so does native code (`codegen/unchanged.py`) before it runs a compiled
program. Both are stricter than ``==``: 1, 1.0 and True are three values, and so are 0.0 and -0.0,
because a program may differ.

Objects without anything that Python could read inside stand for themselves, and so do tensors,
Python's modules, and the classes of known packages. A container that is met again stands for itself
there: it was looked into before. So rings have an end. What is nested deeper than `DEPTH` counts as
changed at every time.

>>> sizes = [1, {"a": 2.0}]
>>> kept = snapshot(sizes)
>>> unchanged([1, {"a": 2.0}], kept), unchanged([True, {"a": 2.0}], kept)
(True, False)
>>> sizes[1]["b"] = 3
>>> unchanged(sizes, kept)
False
"""

from __future__ import annotations

import enum
import functools
import sys
from array import array
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterator
from types import (
    BuiltinFunctionType,
    CellType,
    FunctionType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    MethodWrapperType,
    SimpleNamespace,
)
from typing import Any

import numpy as np

from .types import Typed

# Containers inside each other; native code recurses as deep.
DEPTH = 64


class Snapshot(tuple[Any, ...]):
    """What was in a container: its class, how that is read, and the pieces.

    A piece is a snapshot, or something that never changes or stands for itself. The way of reading
    is one of these:

        tuple, list, set    the pieces are the items, of a set in its own order
        dict                keys and values in turn, in order
        np.ndarray          the dtype, then the lengths and the content as bytes
        object              the dictionary of attributes
        type                names of attributes and their values in turn
        MappingProxyType    keys and values in turn, of what a class holds
        Iterator            whatever is inside; only Python can tell, native code gives up
    """

    __slots__ = ()


_FORMS: dict[type, Any] = {
    tuple: tuple,
    list: list,
    set: set,
    frozenset: set,
    dict: dict,
    SimpleNamespace: object,
    MappingProxyType: MappingProxyType,
} | dict.fromkeys((OrderedDict, defaultdict, Counter, deque, bytearray, array), Iterator)

# What is read of objects of Python's own.
_READ: dict[type, tuple[str, ...]] = {
    FunctionType: ("__code__", "__defaults__", "__kwdefaults__", "__closure__", "__dict__"),
    MethodType: ("__func__", "__self__"),
    functools.partial: ("func", "args", "keywords", "__dict__"),
    CellType: ("cell_contents",),
}
_BOUND = (BuiltinFunctionType, MethodWrapperType)
_READ |= dict.fromkeys(_BOUND, ("__name__", "__self__"))
# Classes that may be derived from: then there are attributes beside what they hold.
_NUMBERS = (int, float, complex, str, bytes, np.generic)
_CONTAINERS = (tuple, list, set, frozenset, dict, deque, bytearray, array)
# Packages whose classes are taken to stay as they are.
_KNOWN = sys.stdlib_module_names | {"numpy", "wengert"}


class _TooDeep:
    """No value is of this class, so that nothing is equal to a snapshot of it."""


def snapshot(value: Any) -> Any:
    """What a value is now."""
    return _snapshot(value, DEPTH, set())


def _snapshot(value: Any, depth: int, seen: set[int]) -> Any:
    form = _form(value)
    if form is None or id(value) in seen:
        return value
    if depth == 0:
        return Snapshot((_TooDeep, Iterator))
    pieces = _pieces(form, value)
    if any(_form(piece) is not None for piece in pieces):  # else it is soon compared
        seen.add(id(value))
    if form is MappingProxyType:  # a class has its methods; those are what they are
        inside = [p if type(p) is FunctionType else _snapshot(p, depth - 1, seen) for p in pieces]
    else:
        inside = [_snapshot(piece, depth - 1, seen) for piece in pieces]
    return Snapshot((type(value), form, *inside))


def unchanged(value: Any, kept: Any) -> bool:
    """Whether a value is what it was, or another one that cannot be told from it."""
    if type(kept) is not Snapshot:
        return value is kept or (type(value) is type(kept) and _same(value, kept))
    kind, form, *pieces = kept
    if type(value) is not kind or (isinstance(value, type) and _is_known(value)):
        return False
    found = _pieces(form, value)
    return len(found) == len(pieces) and all(map(unchanged, found, pieces))


def alike(one: Any, other: Any) -> bool:
    """Whether two snapshots are of values that cannot be told apart."""
    if type(one) is not Snapshot or type(other) is not Snapshot:
        return one is other or (type(one) is type(other) and _same(one, other))
    same = one[0] is other[0] and one[0] is not _TooDeep and len(one) == len(other)
    return same and all(map(alike, one[2:], other[2:]))


def hash_of(kept: Any) -> int:
    """A number that is the same for snapshots that are `alike`."""
    if type(kept) is Snapshot:
        return hash((kept[0], *map(hash_of, kept[2:])))
    try:
        return 0 if kept != kept else hash(kept)  # a nan is like any other here
    except (TypeError, ValueError, RecursionError):
        return 0


def identities(kept: Any) -> tuple[int, ...]:
    """The objects in a snapshot that stand for themselves, by `id`."""
    if type(kept) is Snapshot:
        return tuple(one for piece in kept[2:] for one in identities(piece))
    return () if type(kept) in _COMPARED else (id(kept),)


def is_native(kept: Any) -> bool:
    """Whether native code can tell that nothing has changed."""
    return type(kept) is not Snapshot or (kept[1] is not Iterator and all(map(is_native, kept[2:])))


# Compared by value, natively too.
_COMPARED = (int, float, complex, str, bytes)


def _form(value: Any) -> Any:
    """How a value is read; None where it stands for itself."""
    kind: Any = type(value)
    if kind is np.ndarray:
        return Iterator if value.dtype.hasobject else np.ndarray
    if isinstance(value, type):
        return None if _is_known(value) else type
    if kind is CellType and not _is_filled(value):
        return None
    if kind in _BOUND:  # a function of C, or a method of something
        return None if _form(value.__self__) is None else type
    found = _form_of(kind)
    # native code does not see that an attribute comes into being
    empty = found is type and not all(hasattr(value, name) for name in _slots(kind))
    return Iterator if empty and kind not in _READ else found


@functools.lru_cache(1024)
def _form_of(kind: type) -> Any:
    """How the objects of a class are read; None where they stand for themselves."""
    if kind in _FORMS:
        return _FORMS[kind]
    if (kind.__module__, kind.__qualname__) == ("argparse", "Namespace"):  # slow to import
        return object
    if kind in _READ:
        return type
    if kind in _NUMBERS or issubclass(kind, (Typed, enum.Enum)) or _is_scalar(kind):
        return None
    if issubclass(kind, tuple) and hasattr(kind, "_fields") and not kind.__dictoffset__:
        return tuple
    if issubclass(kind, (*_NUMBERS, *_CONTAINERS, np.ndarray, functools.partial)):
        return Iterator
    return type if _is_plain(kind) else None


def _is_scalar(kind: type) -> bool:
    return issubclass(kind, (np.generic, bool)) and kind.__module__ in ("numpy", "builtins")


def _is_plain(kind: Any) -> bool:
    """Whether the attributes are all that an object of a class has: nothing is hidden in C."""
    words = len(_slots(kind)) + (kind.__dictoffset__ > 0) + (kind.__weakrefoffset__ > 0)
    size = object.__basicsize__ + words * np.dtype(np.intp).itemsize
    return kind.__basicsize__ == size and (bool(kind.__dictoffset__) or bool(_slots(kind)))


def _is_known(kind: type) -> bool:
    """Whether a class is of a package whose classes stay as they are."""
    return kind.__module__.partition(".")[0] in _KNOWN


@functools.lru_cache(1024)
def _slots(kind: type) -> tuple[str, ...]:
    """The names of the attributes that have places of their own in an object."""
    return tuple(
        name
        for one in kind.__mro__
        for name, held in vars(one).items()
        if type(held) is MemberDescriptorType
    )


def _is_filled(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - asks
    except ValueError:
        return False
    return True


def _names(value: Any) -> list[str]:
    """The attributes that are read of an object."""
    kind: Any = type(value)
    if isinstance(value, type):
        return ["__dict__", "__bases__"]
    if kind in _READ:
        return [name for name in _READ[kind] if kind is not CellType or _is_filled(value)]
    # one that is gone by now is no longer among them
    names = [name for name in _slots(kind) if hasattr(value, name)]
    return ["__class__", *names, *(["__dict__"] if kind.__dictoffset__ else [])]


def _pieces(form: Any, value: Any) -> list[Any]:
    """What is inside of a value of this form, in order."""
    if form is dict or form is MappingProxyType:
        return [one for pair in value.items() for one in pair]
    if form is np.ndarray:
        return [value.dtype, np.array(value.shape, np.int64).tobytes(), value.tobytes()]
    if form is object:
        return [vars(value)]
    if form is type:
        return [one for name in _names(value) for one in (name, getattr(value, name))]
    return _in_python(value) if form is Iterator else list(value)


def _in_python(value: Any) -> list[Any]:
    """What is inside of a value that native code does not look into."""
    kind = type(value)
    plain = kind in _FORMS or kind is np.ndarray
    found = [] if plain else [one for n in _names(value) for one in (n, getattr(value, n))]
    if isinstance(value, np.ndarray) and not isinstance(value, Typed):
        held = value.ravel().tolist() if value.dtype.hasobject else [value.tobytes()]
        return [*found, value.dtype, value.shape, *held]
    if isinstance(value, functools.partial):
        return [*found, value.func, value.args, value.keywords]
    base: Any = next((one for one in (*_NUMBERS, *_CONTAINERS) if isinstance(value, one)), None)
    if base is None:
        return found
    if base is np.generic:
        return [*found, value.dtype, value.tobytes()]
    if base in _NUMBERS:
        return [*found, base.__repr__(value)]
    ordered = OrderedDict if isinstance(value, OrderedDict) else dict
    items: Any = ordered.items(value) if base is dict else base.__iter__(value)
    extra = [
        getattr(value, name)
        for name in ("default_factory", "maxlen", "typecode")
        if hasattr(kind, name)
    ]
    return [*found, *extra, *(tuple(one) if base is dict else one for one in items)]


def _same(one: Any, other: Any) -> bool:
    """Whether two objects of one class are equal; containers and tensors are compared elsewhere."""
    if isinstance(one, Typed) or _form(one) is not None:
        return False
    if isinstance(one, np.generic):
        return one.dtype == other.dtype and bool(one.tobytes() == other.tobytes())
    if isinstance(one, (float, complex)):  # 0.0 is not -0.0, and nan is nan
        return repr(one) == repr(other)
    try:
        return bool(one == other)
    except (TypeError, ValueError, RecursionError):  # arrays inside, rings
        return False
