"""Plain arrays as values: what is captured is what it was when it was used.

A function may use a NumPy array and write to it afterwards, or its caller may, before a derivative
is taken. So what a trace records is a copy of its own. A large array that is used again is compared
with its copy, as long as there is one: that takes no longer, and no memory. Large copies are
shared, so they are read-only, and known: a trace further out takes them as they are.

What it costs: a fraction of a microsecond for small arrays; for large ones one pass over memory
where an evaluated gradient makes two or more. The most is two fifths, for a matrix that is
multiplied by a vector and used for nothing else; with a hundred columns it is two percent. (Memory
set aside for copies made it slower: what the allocator gives is what was in use last.) So `grad`
takes large arrays as they are where the function is proved to write to none (`trace/proving.py`).
And a large array that cannot be written to, all the way down to its memory
(``a.flags.writeable = False``, a memory map of mode "r"), is recorded as it is, unless it is for a
compiled program, which outlives the call.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from .types import Typed, check_class

# Bytes from which on copies are known; smaller ones are sooner made than found.
LARGE = 1 << 15

# The usual numbers, to be seen at once.
NUMBERS = frozenset({float, int, bool, np.float64, np.int64})
# Classes that are seen at once not to be traced: `isinstance` takes half as long again to say no.
PLAIN = NUMBERS | {np.ndarray, np.float32}

# The latest copies of large arrays, by the `id` of the array; and how many are looked after.
_latest: dict[int, tuple[weakref.ref[Any], weakref.ref[Any]]] = {}
LOOKED_AFTER = 64


class _Kept(np.ndarray):
    """The memory of a large copy, which is a plain view of it: this is how it is known."""


def keep(
    value: Any, operation: str = "trace", takes: Callable[[np.ndarray], bool] | None = None
) -> Any:
    """An array as it is now, whatever is written to it later; numbers as they are.

    Large arrays that `takes` says are not written to are taken as they are.
    """
    if type(value) is not np.ndarray:
        if type(value) in NUMBERS or isinstance(value, Typed) or not isinstance(value, np.ndarray):
            return value
        check_class(value, operation)
        value = np.asarray(value)
    if value.nbytes < LARGE:
        return small_copy(value)
    return value if takes is not None and takes(value) else _keep_large(value)


def small_copy(value: np.ndarray) -> np.ndarray:
    """A copy that repeats its elements where the array does: NumPy's results lie by that."""
    if 0 not in value.strides:
        return value.copy("K")
    pairs = zip(value.strides, value.shape, strict=True)
    once = value[tuple([slice(None) if stride or not n else slice(1) for stride, n in pairs])]
    return np.broadcast_to(once.copy("K"), value.shape)


def read_only(value: Any) -> Any:
    """A view of an array that cannot be written to; numbers and traced values as they are."""
    if type(value) is not np.ndarray:
        return value
    view = value.view()
    view.setflags(write=False)
    return view


def is_kept(array: np.ndarray) -> bool:
    """Whether an array is a large copy, or a view of one: nobody writes to it."""
    owner: Any = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    return type(owner) is _Kept


def is_locked(array: np.ndarray) -> bool:
    """Whether an array and all that it is a view of are read-only."""
    owner: Any = array
    while isinstance(owner, np.ndarray):
        if owner.flags.writeable:
            return False
        owner = owner.base
    if owner is None:
        return True
    try:
        return memoryview(owner).readonly
    except TypeError:  # no buffer: who can write to the memory is not known
        return False


def _keep_large(value: np.ndarray) -> np.ndarray:
    if is_kept(value):
        return value
    found = _latest.get(id(value))
    if found is not None and found[0]() is value:
        copy: np.ndarray | None = found[1]()
        if copy is not None and _same(value, copy):
            return copy
    copy = _copy(value)
    if len(_latest) >= LOOKED_AFTER:
        _forget()
    _latest[id(value)] = (weakref.ref(value), weakref.ref(copy))
    return copy


def _forget() -> None:
    """Forget arrays and copies that are gone, or the oldest."""
    for key, (value, copy) in list(_latest.items()):
        if value() is None or copy() is None:
            _latest.pop(key, None)
    while len(_latest) >= LOOKED_AFTER:
        _latest.pop(next(iter(_latest), 0), None)


def _copy(value: np.ndarray) -> np.ndarray:
    """A copy that lies in memory as the array does; elements that share memory share it again."""
    dense = value.flags.forc
    low, high = (0, value.nbytes) if dense else np.lib.array_utils.byte_bounds(value)
    if high - low >= value.nbytes:
        strides = value.strides if dense else np.empty_like(value).strides
        owner = np.ndarray.__new__(_Kept, value.shape, value.dtype, strides=strides)
        copy = owner.view(np.ndarray)
        np.copyto(copy, value)
    else:
        owner = np.ndarray.__new__(_Kept, high - low, np.uint8)
        ctypes.memmove(owner.ctypes.data, low, owner.nbytes)
        start = value.ctypes.data - low
        copy = np.ndarray(value.shape, value.dtype, owner, start, value.strides)
    copy.setflags(write=False)
    return copy


def _same(value: np.ndarray, copy: np.ndarray) -> bool:
    """Whether two arrays have the same bits: 0.0 is not -0.0, and a NaN is itself."""
    if value.dtype != copy.dtype or value.shape != copy.shape:
        return False
    if value.dtype.itemsize in (1, 2, 4, 8):
        bits = np.dtype(f"u{value.dtype.itemsize}")
        return bool(np.equal(value.view(bits), copy.view(bits)).all())
    return value.tobytes() == copy.tobytes()
