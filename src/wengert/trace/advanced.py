"""``x[key]`` and ``x[key] = v`` for keys with arrays, masks, traced integers, None, an ellipsis."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from ..errors import AbstractValueError, DTypeError, OutOfRangeError, explain
from ..ops import indexing as ops
from ..ops.layout import broadcast_to, permute, reshape
from ..ops.op import Traced
from ..ops.structure import concatenate
from ..types import type_of
from .array import FUNCTIONS
from .elements import element, fit_value, is_whole, set_element
from .indexing import _PLAIN_VALUES, in_dtype_of, integer_item, with_part
from .masked import Selected, assigned, unknown_count
from .tracer import concrete
from .views import snapshot
from .writes import recalled


def taken_by(x: Any, key: Any) -> Any:
    """``x[key]`` for any key NumPy takes."""
    if _is_mask_of(key, x) and _is_abstract(key):
        return Selected.of(x, snapshot(key))
    basic, arrays, advanced = _parse(x, key)
    known = None if advanced else recalled(x, basic)
    if known is not None:
        return known
    if not advanced:
        taken = ops.index(x, key=basic)
    elif _block_rank(arrays) == 0:
        taken = element(x, basic, arrays, advanced)
    else:
        axes, position = _advanced_axes(basic, advanced)
        taken = x if is_whole(type_of(x).shape, basic) else ops.index(x, key=basic)
        result = ops.gather(taken, *arrays, axes=axes)
        taken = _move_block(result, _block_rank(arrays), position)
    return snapshot(taken) if _is_number(taken, key) else taken


def _is_number(taken: Any, key: Any) -> bool:
    """Whether the key takes one element out: with an ellipsis it would be a 0-d array."""
    if type_of(taken).shape != ():
        return False
    return not any(item is Ellipsis for item in (key if isinstance(key, tuple) else (key,)))


def written_by(x: Any, key: Any, value: Any) -> Any:
    """A copy of `x` with ``x[key] = value`` done to it."""
    if isinstance(value, Selected):
        if not _is_mask_of(key, x):
            raise unknown_count()
        return assigned(x, key, value.astype(type_of(x).dtype))
    if _is_mask_of(key, x):
        value = _value_for(x, value)
        if type_of(value).shape == () or _is_abstract(key):
            return assigned(x, key, value)
    basic, arrays, advanced = _parse(x, key)
    value = _value_for(x, value)
    if not advanced:
        return with_part(x, basic, value)
    if _block_rank(arrays) == 0:
        return set_element(x, basic, arrays, advanced, value)
    axes, position = _advanced_axes(basic, advanced)
    whole = is_whole(type_of(x).shape, basic)
    taken = x if whole else ops.index(x, key=basic)
    shape = type_of(taken).shape
    rank = _block_rank(arrays)
    block = np.broadcast_shapes(*[type_of(a).shape for a in arrays])
    rest = tuple(length for axis, length in enumerate(shape) if axis not in axes)
    numpy_shape = rest[:position] + block + rest[position:]
    full = broadcast_to(fit_value(value, numpy_shape), shape=numpy_shape)
    moved = _unmove_block(full, rank, position)
    written = ops.scatter_set(taken, moved, *arrays, axes=axes)
    return written if whole else ops.index_set(x, written, key=basic)


def _value_for(x: Any, value: Any) -> Any:
    """The value in the array's dtype; a list, maybe of traced values, becomes an array first."""
    return in_dtype_of(x, value if isinstance(value, _PLAIN_VALUES) else FUNCTIONS["array"](value))


def _is_mask_of(key: Any, x: Any) -> bool:
    if not isinstance(key, (np.ndarray, Traced)):
        return False
    mask = type_of(key)
    return bool(mask.dtype.kind == "b" and mask.shape == type_of(x).shape[: len(mask.shape)] != ())


def _is_abstract(mask: Any) -> bool:
    return isinstance(mask, Traced) and concrete(mask) is None


def _parse(x: Any, key: Any) -> tuple[ops.Key, list[Any], list[int]]:
    """Split a key: its basic normal form (a full slice where an array stands), the index arrays,
    and the positions in the key of those arrays."""
    shape = type_of(x).shape
    items = _expand(list(key) if isinstance(key, tuple) else [key], shape)
    basic: list[Any] = []
    arrays: list[Any] = []
    advanced: list[int] = []
    has_array = any(_is_array(item) for item in items)
    axis = 0
    for item in items:
        if item is None:
            basic.append(None)
        elif isinstance(item, slice):
            basic.append(_slice_item(item, shape[axis]))
            axis += 1
        elif _is_array(item) or (has_array and not isinstance(item, slice)):
            # beside an array an integer counts as an array, as in NumPy
            advanced.append(len(basic))
            arrays.append(_index_array(item, shape[axis], axis))
            basic.append((0, shape[axis], 1))
            axis += 1
        else:
            basic.append(integer_item(_as_int(item), shape[axis], axis))
            axis += 1
    _check_broadcast(arrays)
    return tuple(basic), arrays, advanced


def _check_broadcast(arrays: list[Any]) -> None:
    shapes = [type_of(array).shape for array in arrays]
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        raise OutOfRangeError(
            explain(
                "index",
                f"got index arrays of shapes {' and '.join(map(str, shapes))}, which do not "
                "broadcast together",
                "Give arrays of one shape, or use ix_ for a grid.",
            )
        ) from None


def _expand(items: list[Any], shape: tuple[int, ...]) -> list[Any]:
    """Write out the ellipsis and boolean masks; one item for each axis."""
    items = _expand_masks([_as_array(item) for item in items], shape)
    used = sum(item is not None and item is not Ellipsis for item in items)
    if sum(item is Ellipsis for item in items) > 1:
        raise OutOfRangeError(explain("index", "got more than one ellipsis ('...')"))
    if used > len(shape):
        raise OutOfRangeError(explain("index", f"got {used} indices for an array of shape {shape}"))
    missing = [slice(None)] * (len(shape) - used)
    for position, item in enumerate(items):
        if item is Ellipsis:
            return items[:position] + missing + items[position + 1 :]
    return items + missing


def _as_array(item: Any) -> Any:
    """Sequences in a key become index arrays, also those of traced integers."""
    if isinstance(item, (bool, np.bool_)) or (
        isinstance(item, (np.ndarray, Traced))
        and type_of(item).dtype.kind == "b"
        and type_of(item).shape == ()
    ):
        raise DTypeError(
            explain("index", "got a single boolean", "Use where(), or a mask of the array's shape.")
        )
    if not isinstance(item, (list, tuple, range)):
        return item
    if len(item) == 0:
        return np.zeros(0, int)
    parts = [_as_array(part) for part in item]
    if not any(isinstance(part, Traced) for part in parts):
        return np.asarray(item)
    rows = [reshape(part, shape=(1, *type_of(part).shape)) for part in parts]
    return concatenate(*rows, axis=0)


def _expand_masks(items: list[Any], shape: tuple[int, ...]) -> list[Any]:
    """Masks written as the integer arrays they stand for."""
    axis = 0
    expanded: list[Any] = []
    rest = len(shape) - sum(_axes_used(item) for item in items)
    for item in items:
        if _axes_used(item) and _is_mask(item):
            _check_mask(item, axis, shape)
            expanded += _places(item)
        else:
            expanded.append(item)
        axis += rest if item is Ellipsis else _axes_used(item)
    return expanded


def _is_mask(item: Any) -> bool:
    return isinstance(item, (np.ndarray, Traced)) and type_of(item).dtype.kind == "b"


def _axes_used(item: Any) -> int:
    if item is None or item is Ellipsis:
        return 0
    return len(type_of(item).shape) if _is_mask(item) else 1


def _check_mask(mask: Any, axis: int, shape: tuple[int, ...]) -> None:
    own = type_of(mask).shape
    if own != shape[axis : axis + len(own)]:
        raise OutOfRangeError(
            explain(
                "index",
                f"got a mask of shape {own} for an array of shape {shape}"
                + (f" at axis {axis}" if axis else ""),
                "The mask must have the lengths of the axes it selects from.",
            )
        )


def _places(array: Any) -> list[Any]:
    mask = concrete(array)
    if mask is None:
        raise unknown_count()
    return list(np.nonzero(mask))


def _is_array(item: Any) -> bool:
    return isinstance(item, Traced) or (isinstance(item, np.ndarray) and item.ndim > 0)


def _slice_item(item: slice, length: int) -> tuple[int, int, int]:
    bounds = slice(*[None if b is None else _as_int(b) for b in (item.start, item.stop, item.step)])
    start, stop, step = bounds.indices(length)
    if len(range(start, stop, step)) == 0:
        return (0, 0, 1)
    return (start, stop, step)


def _as_int(item: Any) -> int:
    try:
        return int(item.__index__())
    except AbstractValueError:
        raise
    except (AttributeError, TypeError):
        raise DTypeError(
            explain(
                "index",
                f"got {item!r} of type {type(item).__name__}",
                "Use integers, slices, None, '...', integer arrays or boolean masks.",
            )
        ) from None


def _index_array(item: Any, length: int, axis: int) -> Any:
    if not isinstance(item, (np.ndarray, Traced)):
        return np.asarray(integer_item(_as_int(item), length, axis))
    if type_of(item).dtype.kind not in "iu":
        raise DTypeError(
            explain(
                "index",
                f"got an index array of type {type_of(item)}, expected integers or booleans",
                "Convert it with astype(int).",
            )
        )
    return item


def _advanced_axes(basic: ops.Key, advanced: list[int]) -> tuple[tuple[int, ...], int]:
    """The axes of the basic result that the arrays index, and where NumPy puts their result."""
    kept = [p for p, item in enumerate(basic) if item is None or isinstance(item, tuple)]
    axes = tuple(kept.index(position) for position in advanced)
    adjacent = all(b == a + 1 for a, b in itertools.pairwise(advanced))
    return axes, (axes[0] if adjacent else 0)


def _block_rank(arrays: list[Any]) -> int:
    return max(len(type_of(a).shape) for a in arrays)


def _move_block(x: Any, rank: int, position: int) -> Any:
    """Move the first `rank` axes behind the `position` axes that follow them."""
    if position == 0 or rank == 0:
        return x
    total = len(type_of(x).shape)
    order = (*range(rank, rank + position), *range(rank), *range(rank + position, total))
    return permute(x, axes=order)


def _unmove_block(x: Any, rank: int, position: int) -> Any:
    if position == 0 or rank == 0:
        return x
    total = len(type_of(x).shape)
    block = range(position, position + rank)
    order = (*block, *[axis for axis in range(total) if axis not in block])
    return permute(x, axes=order)
