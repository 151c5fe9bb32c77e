"""``x[key]`` and ``x[key] = v`` for integers and slices; `advanced` knows all other keys."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import DTypeError, OutOfRangeError, explain
from ..ops import indexing as ops
from ..ops.layout import as_dtype
from ..ops.op import Traced
from ..types import type_of
from .elements import fit_value
from .views import snapshot
from .writes import recalled, remember

_PLAIN_VALUES = (np.ndarray, np.generic, Traced, bool, int, float, complex)
_PLAIN_BOUNDS = {int, type(None)}


def getitem(x: Any, key: Any) -> Any:
    """``x[key]`` for any key NumPy takes."""
    basic = _plain_key(key, type_of(x).shape)
    if basic is None:
        from .advanced import taken_by

        return taken_by(x, key)
    known = recalled(x, basic)
    if known is not None:
        return known
    taken = ops.index(x, key=basic)
    return snapshot(taken) if type_of(taken).shape == () else taken


def put(x: Any, key: Any, value: Any) -> bool:
    """Do ``x[key] = value`` where the key is numbers; False where it must be written another way.

    What else is written at numbers is remembered with it (see `writes`).
    """
    if x._base is not None or not isinstance(value, _PLAIN_VALUES):
        return False
    items = key if type(key) is tuple else (key,)
    if not items or any(type(item) is not int for item in items):
        return False
    shape = x.type.shape
    if len(items) > len(shape) or not x._trace.is_innermost:
        return False
    pairs = enumerate(zip(items, shape, strict=False))
    place = tuple([integer_item(item, length, axis) for axis, (item, length) in pairs])
    value = in_dtype_of(x, value)
    if type_of(value).weak:  # an element has the array's dtype wherever it goes
        value = as_dtype(value, x.type.dtype)
    # now: it may be a part of this array
    remember(x, place, snapshot(fit_value(value, shape[len(place) :])))
    return True


def setitem(x: Any, key: Any, value: Any) -> Any:
    """A copy of `x` with ``x[key] = value`` done to it."""
    basic = _plain_key(key, type_of(x).shape)
    if basic is None or not isinstance(value, _PLAIN_VALUES):
        from .advanced import written_by

        return written_by(x, key, value)
    return with_part(x, basic, in_dtype_of(x, value))


def with_part(x: Any, basic: ops.Key, value: Any) -> Any:
    """A copy of `x` with a value at a key in its normal form."""
    if _is_own_part(x, basic, value):
        return x
    shape = ops.key_shape(type_of(x).shape, basic)
    return ops.index_set(x, fit_value(value, shape), key=basic)


def _is_own_part(x: Any, key: ops.Key, value: Any) -> bool:
    """Whether the value is the part itself, as Python assigns at the end of ``x[key] += y``."""
    made = getattr(value, "_base", None)
    if made is None or made.base is not x:
        return False
    return made.op is ops.index and made.params["key"] == key


def _plain_key(key: Any, shape: tuple[int, ...]) -> ops.Key | None:
    """The normal form of most keys, slices and integers alone; None for all that is not so easy.

    Errors are left to `advanced`, which knows how to tell them.
    """
    items = key if isinstance(key, tuple) else (key,)
    if len(items) > len(shape):
        return None
    basic: list[Any] = []
    for item, length in zip(items, shape, strict=False):
        kind = type(item)
        if kind is slice:
            if not {type(item.start), type(item.stop), type(item.step)} <= _PLAIN_BOUNDS:
                return None
            if item.step == 0:
                return None
            start, stop, step = item.indices(length)
            empty = start >= stop if step > 0 else start <= stop
            basic.append((0, 0, 1) if empty else (start, stop, step))
        elif kind is int and -length <= item < length:
            basic.append(item % length)
        else:
            return None
    for length in shape[len(items) :]:
        basic.append((0, length, 1))
    return tuple(basic)


def integer_item(number: int, length: int, axis: int) -> int:
    """An integer of a key, counted from the front."""
    if not -length <= number < length:
        raise OutOfRangeError(
            explain(
                "index",
                f"got the index {number} for axis {axis} of length {length}",
                f"Valid indices are {-length} to {length - 1}." if length else "The axis is empty.",
            )
        )
    return number % length


def in_dtype_of(x: Any, value: Any) -> Any:
    """The value in the array's dtype, as an assignment casts it."""
    target, own = type_of(x).dtype, type_of(value)
    if own.dtype.kind == "c" and target.kind != "c":
        raise DTypeError(
            explain(
                "index_set",
                f"cannot put {own} into an array of {type_of(x)}: the imaginary part would be lost",
                "Use wnp.real(value).",
            )
        )
    return value if own.dtype == target else as_dtype(value, target)
