"""Joining and splitting: concatenate, stack, block, split, insert, delete."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from ..errors import ShapeError, explain
from ..ops import layout
from ..ops import structure as ops
from ..trace.indexing import getitem
from ..trace.lying import in_order
from ..trace.orders import UNKNOWN
from ..trace.views import copy_of
from ..types import Function, result_dtype, type_of
from .common import as_value, cast, normal_axis, stretches
from .structure import (
    atleast_1d,
    atleast_2d,
    atleast_3d,
    expand_dims,
    into,
    known,
    moveaxis,
    need_axes,
    numpy_if_plain,
    part,
    ravel,
    reshape,
    shape,
    take_places,
)

__all__ = [
    "append", "apply_along_axis", "apply_over_axes", "array_split", "block", "column_stack",
    "concat", "concatenate", "delete", "dsplit", "dstack", "hsplit", "hstack", "insert",
    "row_stack", "split", "stack", "unstack", "vsplit", "vstack",
]  # fmt: skip


# ---------------------------------------------------------------- joining


@numpy_if_plain
def concatenate(
    arrays: Any, /, axis: int | None = 0, out: Any = None, *, dtype: Any = None, casting: str = ""
) -> Any:
    """``numpy.concatenate``: arrays joined along an axis they have."""
    parts = _parts("concatenate", arrays)
    if axis is None:
        parts, axis = [ravel(part) for part in parts], 0
    rank = len(type_of(parts[0]).shape)
    if any(type_of(part).shape == () for part in parts):
        raise ShapeError(
            explain("concatenate", "got a 0-d array", "Use stack, or atleast_1d on each part.")
        )
    joined = ops.concatenate(*parts, axis=normal_axis("concatenate", axis, rank))
    return into(cast(joined, dtype), out)


def _parts(name: str, arrays: Any) -> list[Any]:
    parts = [as_value(item) for item in arrays]
    if not parts:
        raise ShapeError(explain(name, "got no arrays", "Give at least one."))
    # as in NumPy a number among them is an array of its own dtype, and promotes the others
    return [cast(part, type_of(part).dtype) for part in parts]


@numpy_if_plain
def concat(
    arrays: Any, /, axis: int | None = 0, out: Any = None, *, dtype: Any = None, casting: str = ""
) -> Any:
    """``numpy.concat``: arrays joined along an axis they have."""
    return concatenate(arrays, axis, out, dtype=dtype)


@numpy_if_plain
def stack(
    arrays: Any, axis: int = 0, out: Any = None, *, dtype: Any = None, casting: str = ""
) -> Any:
    """``numpy.stack``: arrays of one shape joined along a new axis."""
    parts = _parts("stack", arrays)
    shapes = {type_of(part).shape for part in parts}
    if len(shapes) > 1:
        first, second = sorted(shapes)[:2]
        raise ShapeError(
            explain(
                "stack", f"got arrays of shapes {first} and {second}", "All shapes must be equal."
            )
        )
    axis = normal_axis("stack", axis, len(shapes.pop()) + 1)
    common = result_dtype(*[type_of(part) for part in parts])
    if axis == 0:
        rows = [cast(part, common) for part in stretches(parts)]
        return into(cast(ops.concatenate(*rows, axis=0), dtype), out)
    raised = [expand_dims(cast(part, common), axis) for part in parts]
    return into(cast(ops.concatenate(*raised, axis=axis), dtype), out)


@numpy_if_plain
def vstack(tup: Any, *, dtype: Any = None, casting: str = "") -> Any:
    """``numpy.vstack``: arrays joined as rows."""
    return concatenate([atleast_2d(part) for part in _parts("vstack", tup)], 0, dtype=dtype)


def row_stack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    """The old name of `vstack`, which NumPy has up to 2.4."""
    return vstack(tup, dtype=dtype, casting=casting)


@numpy_if_plain
def hstack(tup: Any, *, dtype: Any = None, casting: str = "") -> Any:
    """``numpy.hstack``: arrays joined side by side."""
    parts = [atleast_1d(part) for part in _parts("hstack", tup)]
    return concatenate(parts, 0 if len(type_of(parts[0]).shape) == 1 else 1, dtype=dtype)


@numpy_if_plain
def dstack(tup: Any) -> Any:
    """``numpy.dstack``: arrays joined along the third axis."""
    return concatenate([atleast_3d(part) for part in _parts("dstack", tup)], 2)


@numpy_if_plain
def column_stack(tup: Any) -> Any:
    """``numpy.column_stack``: vectors joined as columns."""
    parts = []
    for column in _parts("column_stack", tup):
        own = type_of(column).shape
        parts.append(column if len(own) >= 2 else reshape(column, (math.prod(own), 1)))
    return concatenate(parts, 1)


@numpy_if_plain
def block(arrays: Any) -> Any:
    """``numpy.block``: an array put together from nested lists of blocks."""
    depth = _depth(arrays)
    rank = max([depth, *[len(shape(leaf)) for leaf in _leaves(arrays)]])
    return copy_of(_block(arrays, depth, rank))


def _depth(arrays: Any) -> int:
    if not isinstance(arrays, list):
        return 0
    depths = {_depth(item) for item in arrays}
    if len(depths) != 1:
        raise ShapeError(
            explain("block", "got lists of different depths", "Nest all blocks equally deep.")
        )
    return depths.pop() + 1


def _leaves(arrays: Any) -> list[Any]:
    if not isinstance(arrays, list):
        return [arrays]
    return [leaf for item in arrays for leaf in _leaves(item)]


def _block(arrays: Any, depth: int, rank: int) -> Any:
    if not isinstance(arrays, list):
        own = shape(arrays)
        return reshape(as_value(arrays), (1,) * (rank - len(own)) + own)
    return concatenate([_block(item, depth - 1, rank) for item in arrays], axis=-depth)


# ---------------------------------------------------------------- splitting


@numpy_if_plain
def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """``numpy.array_split``: nearly equal parts, or parts between the given indices; views."""
    ary = as_value(ary)
    own = type_of(ary).shape
    axis = normal_axis("array_split", axis, len(own))
    if np.iterable(indices_or_sections):
        cuts = [None, *[int(i) for i in indices_or_sections], None]
    else:
        count = int(indices_or_sections)
        if count <= 0:
            raise ShapeError(explain("array_split", f"got {count} sections, expected 1 or more"))
        each, extra = divmod(own[axis], count)
        cuts = [min(k, extra) + k * each for k in range(count + 1)]
    return [part(ary, axis, a, b) for a, b in itertools.pairwise(cuts)]


@numpy_if_plain
def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """``numpy.split``: equal parts, or parts between the given indices; views."""
    ary = as_value(ary)
    own = type_of(ary).shape
    axis = normal_axis("split", axis, len(own))
    if not np.iterable(indices_or_sections) and own[axis] % int(indices_or_sections):
        raise ShapeError(
            explain(
                "split",
                f"axis {axis} of length {own[axis]} has no {indices_or_sections} equal parts",
                "Use array_split for parts of unequal length.",
            )
        )
    return array_split(ary, indices_or_sections, axis)


@numpy_if_plain
def hsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """``numpy.hsplit``: parts side by side."""
    ary = as_value(ary)
    return split(ary, indices_or_sections, 0 if len(type_of(ary).shape) == 1 else 1)


@numpy_if_plain
def vsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """``numpy.vsplit``: parts one below the other."""
    need_axes("vsplit", ary, 2)
    return split(ary, indices_or_sections, 0)


@numpy_if_plain
def dsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """``numpy.dsplit``: parts along the third axis."""
    need_axes("dsplit", ary, 3)
    return split(ary, indices_or_sections, 2)


@numpy_if_plain
def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    """``numpy.unstack``: the slices along an axis."""
    x = as_value(x)
    axis = normal_axis("unstack", axis, len(type_of(x).shape))
    before = (slice(None),) * axis
    return tuple(getitem(x, (*before, k)) for k in range(type_of(x).shape[axis]))


# ---------------------------------------------------------------- adding and removing


@numpy_if_plain
def delete(arr: Any, obj: Any, axis: Any = None) -> Any:
    """``numpy.delete``: without the named slices."""
    arr = as_value(arr)
    if axis is None:
        arr, axis = ravel(arr), 0
    axis = normal_axis("delete", axis, len(type_of(arr).shape))
    kept = np.delete(np.arange(type_of(arr).shape[axis]), known("delete", obj))
    return in_order(take_places(arr, kept, axis), UNKNOWN)


@numpy_if_plain
def insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Any:
    """``numpy.insert``: with values put in before the named places."""
    arr, values = as_value(arr), as_value(values)
    if axis is None:
        arr, axis = ravel(arr), 0
    own = type_of(arr).shape
    axis = normal_axis("insert", axis, len(own))
    values = cast(values, type_of(arr).dtype)
    place = known("insert", obj)
    places = np.arange(own[axis])[place] if isinstance(place, slice) else np.asarray(place)
    if places.dtype.kind == "b":
        places = np.flatnonzero(places)
    missing = len(own) - len(type_of(values).shape)
    values = reshape(values, (1,) * max(missing, 0) + type_of(values).shape)
    if places.ndim == 0:
        values = moveaxis(values, 0, axis)
    count = type_of(values).shape[axis] if places.size == 1 else places.size
    block = layout.broadcast_to(values, shape=(*own[:axis], count, *own[axis + 1 :]))
    joined = ops.concatenate(arr, block, axis=axis)
    new = own[axis] + np.arange(count)
    marks = np.repeat(places.reshape(-1), count) if places.size == 1 else places
    order = np.insert(np.arange(own[axis]), marks.astype(int), new)
    return in_order(take_places(joined, order, axis), UNKNOWN)


@numpy_if_plain
def append(arr: Any, values: Any, axis: Any = None) -> Any:
    """``numpy.append``: with values put at the end."""
    arr, values = as_value(arr), as_value(values)
    if axis is None:
        arr, values, axis = ravel(arr), ravel(values), 0
    return concatenate([arr, values], axis)


# ---------------------------------------------------------------- applying functions


def apply_along_axis(func1d: Function, axis: int, arr: Any, *args: Any, **kwargs: Any) -> Any:
    """``numpy.apply_along_axis``: a function of each vector along an axis."""
    arr = as_value(arr)
    axis = normal_axis("apply_along_axis", axis, len(type_of(arr).shape))
    last = moveaxis(arr, axis, -1)
    outer = type_of(last).shape[:-1]
    if 0 in outer:
        raise ShapeError(
            explain("apply_along_axis", f"got an array of shape {shape(arr)} with no vectors")
        )
    rows = [as_value(func1d(last[place], *args, **kwargs)) for place in np.ndindex(outer)]
    result = reshape(stack(rows), outer + type_of(rows[0]).shape)
    for number in range(len(type_of(rows[0]).shape)):
        result = moveaxis(result, len(outer) + number, axis + number)
    return result


def apply_over_axes(func: Function, a: Any, axes: Any) -> Any:
    """``numpy.apply_over_axes``: a reducing function over axes in turn."""
    value = as_value(a)
    rank = len(type_of(value).shape)
    for axis in np.atleast_1d(axes).tolist():
        axis = normal_axis("apply_over_axes", axis, rank)
        found = as_value(func(value, axis))
        if len(type_of(found).shape) != rank:
            found = expand_dims(found, axis)
        value = found
    return value
