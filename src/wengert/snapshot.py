"""What a plain Python value was, to see later that it has not changed.

A module may have a list, a dictionary or an array among its attributes, which change in place: that
it is the same object says nothing. `snapshot` keeps what was inside, as deep as plain data goes:
lists, tuples, dictionaries, sets, arrays, named tuples, dataclasses, namespaces. `unchanged`
compares a value with it, and so does native code (`codegen/unchanged.py`) before it runs a compiled
program. Both are stricter than ``==``: 1, 1.0 and True are three values, and so are 0.0 and -0.0,
because a program may differ.

All other objects stand for themselves, and so does what is nested deeper than `DEPTH`. A container
that is met again stands for itself there: it was looked into before. So rings have an end.

>>> sizes = [1, {"a": 2.0}]
>>> kept = snapshot(sizes)
>>> unchanged([1, {"a": 2.0}], kept), unchanged([True, {"a": 2.0}], kept)
(True, False)
>>> sizes[1]["b"] = 3
>>> unchanged(sizes, kept)
False
"""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterator
from types import MemberDescriptorType, SimpleNamespace
from typing import Any

import numpy as np

from .types import Typed

# Containers inside each other; native code recurses as deep.
DEPTH = 64


class Snapshot(tuple):
    """What was in a container: its class, how that is read, and the pieces.

    A piece is a snapshot, or something that never changes or stands for itself. The way of reading
    is one of these:

        tuple, list, set    the pieces are the items, of a set in its own order
        dict                keys and values in turn, in order
        np.ndarray          the dtype, then the lengths and the content as bytes
        object              the dictionary of attributes
        type                names and values in turn, of an object with slots
        Iterator            what iterating gives; only Python can tell, native code gives up
    """

    __slots__ = ()


_FORMS: dict[type, Any] = {
    tuple: tuple,
    list: list,
    set: set,
    frozenset: set,
    dict: dict,
    SimpleNamespace: object,
} | dict.fromkeys((OrderedDict, defaultdict, Counter, deque, bytearray), Iterator)


def snapshot(value: Any, objects: bool = True) -> Any:
    """What a value is now; without `objects`, dataclasses and the like stand for themselves."""
    return _snapshot(value, objects, DEPTH, set())


def _snapshot(value: Any, objects: bool, depth: int, seen: set[int]) -> Any:
    form = _form(value, objects)
    if form is None or depth == 0 or id(value) in seen:
        return value
    pieces = _pieces(form, value)
    if any(_form(piece, objects) is not None for piece in pieces):  # else it is soon compared
        seen.add(id(value))
    inside = (_snapshot(piece, objects, depth - 1, seen) for piece in pieces)
    return Snapshot((type(value), form, *inside))


def unchanged(value: Any, kept: Any) -> bool:
    """Whether a value is what it was, or another one that cannot be told from it."""
    if type(kept) is not Snapshot:
        return value is kept or (type(value) is type(kept) and _same(value, kept))
    kind, form, *pieces = kept
    if type(value) is not kind:
        return False
    found = _pieces(form, value)
    return len(found) == len(pieces) and all(map(unchanged, found, pieces))


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


def _form(value: Any, objects: bool) -> Any:
    if type(value) is np.ndarray:
        return None if value.dtype.hasobject else np.ndarray
    kind: Any = type(value)
    found = _form_of(kind)
    if found is type and not all(hasattr(value, name) for name in _fields(kind)):
        return None
    return found if objects or found not in (object, type) else None


@functools.lru_cache(1024)
def _form_of(kind: type) -> Any:
    """How the objects of a class are read; None where they stand for themselves."""
    if kind in _FORMS:
        return _FORMS[kind]
    if (kind.__module__, kind.__qualname__) == ("argparse", "Namespace"):  # slow to import
        return object
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return tuple
    if getattr(kind, "_captured_by_jit", False):  # modules
        return object
    if not dataclasses.is_dataclass(kind):
        return None
    slots = [isinstance(getattr(kind, name, None), MemberDescriptorType) for name in _fields(kind)]
    if kind.__dictoffset__:
        return None if any(slots) else object
    return type if all(slots) else None


def _fields(kind: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(kind)]


def _pieces(form: Any, value: Any) -> list[Any]:
    """What is inside of a container of this form, in order."""
    if form is dict:
        return [one for pair in value.items() for one in pair]
    if form is np.ndarray:
        return [value.dtype, np.array(value.shape, np.int64).tobytes(), value.tobytes()]
    if form is object:
        return [vars(value)]
    if form is type:  # an attribute may be gone by now
        names = [name for name in _fields(type(value)) if hasattr(value, name)]
        return [one for name in names for one in (name, getattr(value, name))]
    return list(value.items() if isinstance(value, dict) else value)


def _same(one: Any, other: Any) -> bool:
    """Whether two objects of one class are equal; containers and tensors are compared elsewhere."""
    if isinstance(one, Typed) or _form(one, objects=False) is not None:
        return False
    if isinstance(one, np.generic):
        return one.dtype == other.dtype and bool(one.tobytes() == other.tobytes())
    if isinstance(one, (float, complex)):  # 0.0 is not -0.0, and nan is nan
        return repr(one) == repr(other)
    try:
        return bool(one == other)
    except (TypeError, ValueError, RecursionError):  # arrays inside, rings
        return False
