"""Plain arrays as values: what is captured is what it was when it was used.

A function may use a NumPy array and write to it afterwards, or its caller may, before a derivative
is taken. So what a trace records is a copy of its own. A large array that is used again is compared
with its copy, as long as there is one: that takes no longer, and no memory. Large copies are
shared, so they are read-only, and known: a trace further out takes them as they are.
"""

from __future__ import annotations

import ctypes
import weakref
from typing import Any

import numpy as np

from .types import Typed, check_class

# Bytes from which on copies are known; smaller ones are sooner made than found.
LARGE = 1 << 17

# The copies of large arrays, by their own `id`, and by that of the array that was copied.
_copies: weakref.WeakValueDictionary[int, np.ndarray] = weakref.WeakValueDictionary()
_latest: dict[int, tuple[weakref.ref, weakref.ref]] = {}


def keep(value: Any, operation: str = "trace") -> Any:
    """An array as it is now, whatever is written to it later; numbers as they are."""
    if type(value) is not np.ndarray:
        if isinstance(value, Typed) or not isinstance(value, np.ndarray):
            return value
        check_class(value, operation)
        value = np.asarray(value)
    return _keep_large(value) if value.nbytes >= LARGE else value.copy("K")


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
    return _copies.get(id(owner)) is owner


def _keep_large(value: np.ndarray) -> np.ndarray:
    if is_kept(value):
        return value
    found = _latest.get(id(value))
    if found is not None and found[0]() is value:
        copy = found[1]()
        if copy is not None and _same(value, copy):
            return copy
    copy = _copy(value)
    key = id(value)
    _latest[key] = (weakref.ref(value, lambda gone: _forget(key, gone)), weakref.ref(copy))
    return copy


def _forget(key: int, gone: weakref.ref) -> None:
    found = _latest.get(key)
    if found is not None and found[0] is gone:
        del _latest[key]


def _copy(value: np.ndarray) -> np.ndarray:
    """A copy that lies in memory as the array does; elements that share memory share it again."""
    low, high = (0, value.nbytes) if value.flags.forc else np.lib.array_utils.byte_bounds(value)
    if high - low >= value.nbytes:
        copy = owner = value.copy("K")
    else:
        owner = np.empty(high - low, np.uint8)
        ctypes.memmove(owner.ctypes.data, low, owner.nbytes)
        start = value.ctypes.data - low
        copy = np.ndarray(value.shape, value.dtype, owner, start, value.strides)
    _copies[id(owner)] = owner
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
