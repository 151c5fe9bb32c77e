"""Shapes: reshape, transpose, tile, repeat, roll, flip, diagonals; joining is in `joining`.

What NumPy makes a view is built from `index`, `reshape` and `permute`, so that writes go through
it. Where nothing is traced NumPy's own function runs (`numpy_if_plain`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

from ..errors import AxisError, ShapeError, explain
from ..ops import layout
from ..ops import structure as ops
from ..ops.elementwise import select
from ..ops.indexing import embed, gather
from ..trace.indexing import getitem
from ..trace.lying import always_view, axes_in_memory, if_contiguous, in_order
from ..trace.orders import C_ORDER
from ..trace.tracer import concrete
from ..trace.views import Views, copy_of, read_only
from ..types import Function, type_of
from .common import as_value, cast, contains_traced, normal_axes, normal_axis

__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "broadcast_shapes",
    "broadcast_to", "diag", "diagflat", "diagonal", "expand_dims", "flip", "fliplr", "flipud",
    "matrix_transpose", "moveaxis", "ndim", "permute_dims", "ravel", "repeat", "reshape", "resize",
    "roll", "rollaxis", "rot90", "shape", "size", "squeeze", "swapaxes", "tile", "trace",
    "transpose", "tril", "triu",
]  # fmt: skip

P = ParamSpec("P")
R = TypeVar("R")


def numpy_if_plain(function: Callable[P, R]) -> Callable[P, R]:
    """Call NumPy's function of the same name where no argument is traced."""
    original = getattr(np, function.__name__)

    @functools.wraps(function)
    def choose(*args: P.args, **kwargs: P.kwargs) -> R:
        if contains_traced(args) or contains_traced(list(kwargs.values())):
            return function(*args, **kwargs)
        found: R = original(*args, **kwargs)
        return found

    return choose


def known(name: str, value: Any) -> Any:
    """The plain value of an argument that decides the shape of the result."""
    if not contains_traced(value):
        return value
    if isinstance(value, (list, tuple)):
        return [known(name, item) for item in value]
    numbers = concrete(value)
    if numbers is None:
        raise ShapeError(
            explain(
                name,
                "the shape of the result depends on a value that is not known while tracing",
                "Give a plain number or array there.",
            )
        )
    return numbers


def into(result: Any, out: Any) -> Any:
    if out is None:
        return result
    out[...] = result
    return out


def part(a: Any, axis: int, start: int | None, stop: int | None) -> Any:
    return getitem(a, (slice(None),) * axis + (slice(start, stop),))


def need_axes(name: str, a: Any, count: int) -> None:
    own = shape(a)
    if len(own) < count:
        raise ShapeError(
            explain(name, f"got an array of shape {own}, expected {count} or more axes")
        )


# ---------------------------------------------------------------- shape and order of axes


def shape(a: Any) -> tuple[int, ...]:
    """``numpy.shape``: the length of each axis."""
    own: tuple[int, ...] = type_of(as_value(a)).shape
    return own


def ndim(a: Any) -> int:
    """``numpy.ndim``: the number of axes."""
    return len(shape(a))


def size(a: Any, axis: Any = None) -> int:
    """``numpy.size``: the number of elements, of all or of some axes."""
    lengths = shape(a)
    return math.prod(lengths[k] for k in normal_axes("size", axis, len(lengths)))


def broadcast_shapes(*args: Any) -> tuple[int, ...]:
    """``numpy.broadcast_shapes``: the shape that arrays of these shapes broadcast to."""
    return np.broadcast_shapes(*args)


@numpy_if_plain
def reshape(a: Any, /, shape: Any, order: str = "C", *, copy: bool | None = None) -> Any:
    """``numpy.reshape``: the same elements in another shape; one length may be -1."""
    a = as_value(a)
    own = type_of(a).shape
    target = _full_shape(own, shape)
    if order == "A":
        order = "F" if axes_in_memory(a, "A") != tuple(range(len(own))) else "C"
    if order == "F":
        turned = layout.permute(a, axes=tuple(range(len(own)))[::-1])
        filled = layout.reshape(turned, shape=target[::-1])
        result = layout.permute(filled, axes=tuple(range(len(target)))[::-1])
    else:
        result = layout.reshape(a, shape=target)
    return copy_of(result) if copy else result


def _full_shape(own: tuple[int, ...], given: Any) -> tuple[int, ...]:
    """The target of a reshape with -1 worked out."""
    lengths = [given] if not np.iterable(given) else list(given)
    lengths = [int(length.__index__()) for length in lengths]
    if lengths.count(-1) > 1 or min(lengths, default=0) < -1:
        raise ShapeError(
            explain("reshape", f"got the shape {tuple(lengths)}", "Only one length may be -1.")
        )
    if -1 in lengths:
        others = math.prod(length for length in lengths if length != -1)
        total = math.prod(own)
        if others and total % others == 0:
            lengths[lengths.index(-1)] = total // others
        else:
            raise ShapeError(
                explain(
                    "reshape",
                    f"got an array of shape {own} ({total} elements) for the shape "
                    f"{tuple(lengths)}",
                    f"The number of elements must be a multiple of {others}.",
                )
            )
    return tuple(lengths)


@numpy_if_plain
def ravel(a: Any, order: str = "C") -> Any:
    """``numpy.ravel``: all elements in one axis; a view where NumPy gives one."""
    a = as_value(a)
    own = type_of(a)
    axes = tuple(range(len(own.shape)))
    if order != "C":
        turned = axes[::-1] if order == "F" else axes_in_memory(a, order)
        a = a if turned == axes else layout.permute(a, axes=turned)
    return if_contiguous(layout.reshape(a, shape=(own.size,)))


@numpy_if_plain
def transpose(a: Any, axes: Any = None) -> Any:
    """``numpy.transpose``: the axes in another order, by default reversed."""
    a = as_value(a)
    rank = len(type_of(a).shape)
    if axes is None:
        return layout.permute(a, axes=tuple(range(rank))[::-1])
    order = tuple(normal_axis("transpose", axis, rank) for axis in axes)
    if sorted(order) != list(range(rank)):
        raise AxisError(
            explain(
                "transpose",
                f"got the axes {tuple(axes)} for an array with {rank} axes",
                "Name each axis once.",
            )
        )
    return layout.permute(a, axes=order)


@numpy_if_plain
def permute_dims(a: Any, axes: Any = None) -> Any:
    """``numpy.permute_dims``: the axes in another order."""
    return transpose(a, axes)


@numpy_if_plain
def matrix_transpose(x: Any, /) -> Any:
    """``numpy.matrix_transpose``: the last two axes swapped."""
    x = as_value(x)
    if len(type_of(x).shape) < 2:
        raise ShapeError(
            explain(
                "matrix_transpose",
                f"got an array of shape {type_of(x).shape}, expected at least two axes",
            )
        )
    return swapaxes(x, -1, -2)


@numpy_if_plain
def moveaxis(a: Any, source: Any, destination: Any) -> Any:
    """``numpy.moveaxis``: axes moved to new places, the others in order."""
    a = as_value(a)
    rank = len(type_of(a).shape)
    sources = _axis_list("moveaxis", source, rank)
    targets = _axis_list("moveaxis", destination, rank)
    if len(sources) != len(targets):
        raise ShapeError(
            explain(
                "moveaxis",
                f"got {len(sources)} source and {len(targets)} destination axes",
                "Give as many places as axes.",
            )
        )
    order = [axis for axis in range(rank) if axis not in sources]
    for target, axis in sorted(zip(targets, sources, strict=True)):
        order.insert(target, axis)
    return layout.permute(a, axes=tuple(order))


def _axis_list(name: str, axis: Any, rank: int) -> list[int]:
    """Axes in the order given, each once."""
    given = tuple(axis) if np.iterable(axis) else (axis,)
    normal_axes(name, given, rank)
    return [normal_axis(name, item, rank) for item in given]


@numpy_if_plain
def rollaxis(a: Any, axis: int, start: int = 0) -> Any:
    """``numpy.rollaxis``: one axis moved before another."""
    a = as_value(a)
    rank = len(type_of(a).shape)
    axis = normal_axis("rollaxis", axis, rank)
    start = start + rank if start < 0 else start
    normal_axis("rollaxis", start, rank + 1)
    return moveaxis(a, axis, start - 1 if axis < start else start)


@numpy_if_plain
def swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    """``numpy.swapaxes``: two axes exchanged."""
    a = as_value(a)
    rank = len(type_of(a).shape)
    first, second = (normal_axis("swapaxes", axis, rank) for axis in (axis1, axis2))
    order = list(range(rank))
    order[first], order[second] = second, first
    return layout.permute(a, axes=tuple(order))


@numpy_if_plain
def expand_dims(a: Any, axis: Any) -> Any:
    """``numpy.expand_dims``: new axes of length 1."""
    a = as_value(a)
    own = list(type_of(a).shape)
    given = tuple(axis) if np.iterable(axis) else (axis,)
    axes = normal_axes("expand_dims", given, len(own) + len(given))
    for place in axes:
        own.insert(place, 1)
    return layout.reshape(a, shape=tuple(own))


@numpy_if_plain
def squeeze(a: Any, axis: Any = None) -> Any:
    """``numpy.squeeze``: without axes of length 1."""
    a = as_value(a)
    own = type_of(a).shape
    if axis is None:
        return layout.reshape(a, shape=tuple(n for n in own if n != 1))
    axes = normal_axes("squeeze", axis, len(own))
    for place in axes:
        if own[place] != 1:
            raise ShapeError(
                explain(
                    "squeeze",
                    f"got axis {place} of length {own[place]} of an array of shape {own}",
                    "Only axes of length 1 can be dropped.",
                )
            )
    return layout.reshape(a, shape=layout.without_axes(own, axes))


def _at_least(arys: Sequence[Any], full: Function) -> Any:
    results = []
    for item in arys:
        a = as_value(item)
        own = type_of(a).shape
        target = full(own)
        results.append(a if target == own else reshape(a, target))
    return results[0] if len(results) == 1 else tuple(results)


@numpy_if_plain
def atleast_1d(*arys: Any) -> Any:
    """``numpy.atleast_1d``: arrays with at least one axis."""
    return _at_least(arys, lambda own: own or (1,))


@numpy_if_plain
def atleast_2d(*arys: Any) -> Any:
    """``numpy.atleast_2d``: arrays with at least two axes, new ones first."""
    return _at_least(arys, lambda own: (1,) * (2 - len(own)) + own)


@numpy_if_plain
def atleast_3d(*arys: Any) -> Any:
    """``numpy.atleast_3d``: arrays with at least three axes, new ones around."""
    return _at_least(arys, _three_axes)


def _three_axes(own: tuple[int, ...]) -> tuple[int, ...]:
    if len(own) == 0:
        return (1, 1, 1)
    if len(own) == 1:
        return (1, own[0], 1)
    return (*own, 1) if len(own) == 2 else own


@numpy_if_plain
def broadcast_to(array: Any, shape: Any, subok: bool = False) -> Any:
    """``numpy.broadcast_to``: a read-only view in a larger shape."""
    array = as_value(array)
    target = tuple(int(n) for n in shape) if np.iterable(shape) else (int(shape),)
    result: Any = layout.broadcast_to(array, shape=target)
    result._view_of(array, layout.broadcast_to, {"shape": target})
    return read_only(result)


@numpy_if_plain
def broadcast_arrays(*args: Any, subok: bool = False) -> Any:
    """``numpy.broadcast_arrays``: all arrays in their common shape, as read-only views."""
    arrays = [as_value(arg) for arg in args]
    common = np.broadcast_shapes(*[type_of(a).shape for a in arrays])
    return tuple(a if type_of(a).shape == common else broadcast_to(a, common) for a in arrays)


# ---------------------------------------------------------------- repeating, moving


@numpy_if_plain
def tile(A: Any, reps: Any) -> Any:
    """``numpy.tile``: the array repeated like tiles."""
    A = as_value(A)
    counts = tuple(int(n) for n in known("tile", reps)) if np.iterable(reps) else (int(reps),)
    own = type_of(A).shape
    rank = max(len(counts), len(own))
    counts = (1,) * (rank - len(counts)) + counts
    own = (1,) * (rank - len(own)) + own
    if all(count == 1 for count in counts):
        return copy_of(layout.reshape(A, shape=own))
    spread = layout.reshape(A, shape=tuple(n for pair in own for n in (1, pair)))
    pairs = tuple(n for pair in zip(counts, own, strict=True) for n in pair)
    tiled = layout.broadcast_to(spread, shape=pairs)
    total = tuple(count * n for count, n in zip(counts, own, strict=True))
    return in_order(layout.reshape(tiled, shape=total), C_ORDER)


@numpy_if_plain
def repeat(a: Any, repeats: Any, axis: Any = None) -> Any:
    """``numpy.repeat``: each element (slice) repeated, by one number or a number each."""
    a = as_value(a)
    if axis is None:
        a, axis = ravel(a), 0
    own = type_of(a).shape
    axis = normal_axis("repeat", axis, len(own))
    counts = np.asarray(known("repeat", repeats))
    if counts.ndim == 0 or counts.size == 1:
        times = int(counts.reshape(()))
        spread = layout.reshape(a, shape=(*own[: axis + 1], 1, *own[axis + 1 :]))
        wide = layout.broadcast_to(spread, shape=(*own[: axis + 1], times, *own[axis + 1 :]))
        total = (*own[:axis], own[axis] * times, *own[axis + 1 :])
        return copy_of(layout.reshape(wide, shape=total))
    if counts.shape != (own[axis],):
        raise ShapeError(
            explain(
                "repeat",
                f"got counts of shape {counts.shape} for axis {axis} of length {own[axis]}",
                "Give one number, or one for each element of the axis.",
            )
        )
    return take_places(a, np.repeat(np.arange(own[axis]), counts), axis)


def take_places(a: Any, places: np.ndarray, axis: int) -> Any:
    """The slices of an axis at the given places (valid and known), as a new array."""
    return in_order(moveaxis(gather(a, places, axes=(axis,)), 0, axis), C_ORDER)


@numpy_if_plain
def resize(a: Any, new_shape: Any) -> Any:
    """``numpy.resize``: a new shape filled with the elements, repeated as needed."""
    a, new_shape = ravel(as_value(a)), known("resize", new_shape)
    target = tuple(new_shape) if np.iterable(new_shape) else (new_shape,)
    length = type_of(a).shape[0]
    total = math.prod(target)
    if length == 0 or total == 0:
        return reshape(cast(np.zeros(total), type_of(a).dtype), target)
    return reshape(gather(a, np.arange(total) % length, axes=(0,)), target)


@numpy_if_plain
def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    """``numpy.roll``: elements moved along axes, around the ends."""
    a = as_value(a)
    shift = known("roll", shift)
    if axis is None:
        if np.iterable(shift):
            shift = sum(int(amount) for amount in shift)
        return reshape(roll(ravel(a), shift, 0), type_of(a).shape)
    shifts, axes = np.broadcast_arrays(np.atleast_1d(shift), np.atleast_1d(axis))
    result = copy_of(a)
    for amount, place in zip(shifts.tolist(), axes.tolist(), strict=True):
        place = normal_axis("roll", place, len(type_of(a).shape))
        length = type_of(a).shape[place]
        cut = -amount % length if length else 0
        if cut:
            ends = [part(result, place, cut, None), part(result, place, None, cut)]
            result = ops.concatenate(*ends, axis=place)
    return in_order(result, ("K", a.node)) if isinstance(a, Views) else result


@numpy_if_plain
def flip(m: Any, axis: Any = None) -> Any:
    """``numpy.flip``: axes in reverse order; a view."""
    m = as_value(m)
    rank = len(type_of(m).shape)
    axes = normal_axes("flip", axis, rank)
    key = tuple(slice(None, None, -1) if k in axes else slice(None) for k in range(rank))
    return getitem(m, (*key, ...))


@numpy_if_plain
def fliplr(m: Any) -> Any:
    """``numpy.fliplr``: the second axis reversed."""
    need_axes("fliplr", m, 2)
    return flip(m, 1)


@numpy_if_plain
def flipud(m: Any) -> Any:
    """``numpy.flipud``: the first axis reversed."""
    need_axes("flipud", m, 1)
    return flip(m, 0)


@numpy_if_plain
def rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Any:
    """``numpy.rot90``: turned by quarter turns in the plane of two axes."""
    m = as_value(m)
    first, second = _axis_list("rot90", axes, len(type_of(m).shape))
    if k % 4 == 0:
        return m[...]
    if k % 4 == 2:
        return flip(m, (first, second))
    if k % 4 == 1:
        return swapaxes(flip(m, second), first, second)
    return flip(swapaxes(m, first, second), second)


# ---------------------------------------------------------------- diagonals, triangles


@numpy_if_plain
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """``numpy.diagonal``: the diagonal of two axes, as the last axis; read-only."""
    a = as_value(a)
    rank = len(type_of(a).shape)
    need_axes("diagonal", a, 2)
    first, second = _axis_list("diagonal", (axis1, axis2), rank)
    moved = moveaxis(a, (first, second), (-2, -1))
    return read_only(diagonal_part(moved, offset))


def diagonal_part(a: Any, offset: int) -> Any:
    """A diagonal of the last two axes: every so many elements of the two axes laid flat."""
    *rest, rows, columns = type_of(a).shape
    count = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    start = max(offset, 0) + max(-offset, 0) * columns
    flat = always_view(reshape(a, (*rest, rows * columns)))
    stop = start + (count - 1) * (columns + 1) + 1 if count else start
    return getitem(flat, (..., slice(start, stop, columns + 1)))


@numpy_if_plain
def diag(v: Any, k: int = 0) -> Any:
    """``numpy.diag``: the diagonal of a matrix, or the matrix with this diagonal."""
    v = as_value(v)
    own = type_of(v).shape
    if len(own) == 2:
        return diagonal(v, k)
    if len(own) != 1:
        raise ShapeError(explain("diag", f"got an array of shape {own}, expected 1 or 2 axes"))
    side = own[0] + abs(k)
    start = k if k >= 0 else -k * side
    key = ((start, start + (own[0] - 1) * (side + 1) + 1, side + 1) if own[0] else (0, 0, 1),)
    flat = embed(v, key=key, shape=(side * side,))
    return layout.reshape(flat, shape=(side, side))


@numpy_if_plain
def diagflat(v: Any, k: int = 0) -> Any:
    """``numpy.diagflat``: the matrix with all elements as its diagonal."""
    return diag(ravel(as_value(v)), k)


@numpy_if_plain
def trace(
    a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None
) -> Any:
    """``numpy.trace``: the sum of the diagonal."""
    found = cast(diagonal(a, offset, axis1, axis2), dtype)
    result = layout.reduce_sum(found, axes=(len(type_of(found).shape) - 1,))
    return into(result, out)


@numpy_if_plain
def tril(m: Any, k: int = 0) -> Any:
    """``numpy.tril``: zero above a diagonal."""
    m = _squared(m)
    return select(_triangle(m, k), m, _nothing(m))


@numpy_if_plain
def triu(m: Any, k: int = 0) -> Any:
    """``numpy.triu``: zero below a diagonal."""
    m = _squared(m)
    return select(_triangle(m, k - 1), _nothing(m), m)


def _triangle(m: Any, k: int) -> np.ndarray:
    rows, columns = type_of(m).shape[-2:]
    return np.tri(rows, columns, k, dtype=bool)


def _nothing(m: Any) -> Any:
    """The zero of m's dtype; a Python 0 would make integers of booleans."""
    return np.zeros((), type_of(m).dtype)[()]


def _squared(m: Any) -> Any:
    """NumPy repeats a vector to a square before it takes a triangle."""
    m = as_value(m)
    own = type_of(m).shape
    need_axes("tril", m, 1)
    return layout.broadcast_to(m, shape=(own[0], own[0])) if len(own) == 1 else m
