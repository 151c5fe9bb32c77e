"""Taking and putting elements: take, put, choose, scatter.

The scatter functions are wengert's own: they return new arrays. The functions that NumPy
defines by writing (`put`, `copyto`, ``numpy.add.at``, ...) write to traced arrays in place.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..errors import ConversionError, DTypeError, ShapeError, explain
from ..ops import elementwise as ew
from ..ops import indexing as ops
from ..ops.layout import broadcast_to
from ..ops.logic import floor_divide
from ..ops.op import Op
from ..ops.positions import within
from ..trace.array import Array
from ..trace.indexing import getitem, setitem
from ..trace.views import copy_of
from ..types import Function, result_dtype, type_of
from .common import as_value, cast, contains_traced, named, normal_axis
from .joining import stack
from .structure import into, known, moveaxis, numpy_if_plain, ravel, reshape, resize

__all__ = [
    "choose", "compress", "copyto", "extract", "fill_diagonal", "ix_", "place", "put",
    "put_along_axis", "putmask", "ravel_multi_index", "scatter_add", "scatter_max", "scatter_min",
    "scatter_set", "take", "take_along_axis", "unravel_index",
]  # fmt: skip


# ---------------------------------------------------------------- taking


@numpy_if_plain
def take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Any:
    """``numpy.take``: the slices of an axis at the given indices."""
    a, indices = as_value(a), as_value(indices)
    if axis is None:
        a, axis = ravel(a), 0
    axis = normal_axis("take", axis, len(type_of(a).shape))
    indices = _in_mode("take", indices, type_of(a).shape[axis], mode)
    result = copy_of(getitem(a, (slice(None),) * axis + (indices,)), "C")
    return into(result, out)


def _in_mode(name: str, indices: Any, length: int, mode: str) -> Any:
    """Indices treated as the mode says: refused, wrapped or clipped when out of range."""
    if mode not in ("raise", "wrap", "clip"):
        raise ValueError(f"{name}: mode is 'raise', 'wrap' or 'clip', got {mode!r}.")
    if mode == "raise":
        return indices
    indices = cast(indices, np.int64)  # the length may not fit into the dtype of the indices
    if mode == "wrap":
        return ew.remainder(indices, length)
    return ew.minimum(ew.maximum(indices, 0), length - 1)


def _in_range(name: str, indices: Any, length: int, mode: str) -> Any:
    """The same in 64 bits for functions that refuse negative indices too."""
    positions = _in_mode(name, cast(as_value(indices), np.int64), length, mode)
    return within(positions, length=int(length), name=name) if mode == "raise" else positions


@numpy_if_plain
def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Any:
    """``numpy.take_along_axis``: one element for each index, matched along the other axes."""
    arr, indices = as_value(arr), as_value(indices)
    if axis is None:
        arr, axis = ravel(arr), 0
    return getitem(arr, _along(arr, indices, axis, "take_along_axis"))


def _along(arr: Any, indices: Any, axis: int, name: str) -> tuple[Any, ...]:
    """The key that puts `indices` on one axis and each element's own place on the others."""
    shape, own = type_of(arr).shape, type_of(indices).shape
    axis = normal_axis(name, axis, len(shape))
    if len(own) != len(shape):
        raise ShapeError(
            explain(
                name,
                f"got indices of shape {own} for an array of shape {shape}",
                "Both must have the same number of axes.",
            )
        )
    key: list[Any] = []
    for place, length in enumerate(shape):
        form = [1] * len(shape)
        form[place] = length
        key.append(indices if place == axis else np.arange(length).reshape(form))
    return tuple(key)


@numpy_if_plain
def compress(condition: Any, a: Any, axis: Any = None, out: Any = None) -> Any:
    """``numpy.compress``: the slices of an axis where the condition holds."""
    places = np.flatnonzero(known("compress", condition))
    return take(a, places, axis, out)


@numpy_if_plain
def extract(condition: Any, arr: Any) -> Any:
    """``numpy.extract``: the elements where the condition holds."""
    return take(ravel(arr), np.flatnonzero(known("extract", condition)))


@numpy_if_plain
def choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Any:
    """``numpy.choose``: each element from the choice that `a` names there."""
    a = as_value(a)
    parts = [as_value(choice) for choice in choices]
    shape = np.broadcast_shapes(type_of(a).shape, *[type_of(part).shape for part in parts])
    dtype = result_dtype(*[type_of(part) for part in parts])
    table = stack([broadcast_to(cast(part, dtype), shape=shape) for part in parts])
    numbers = broadcast_to(_in_range("choose", a, len(parts), mode), shape=shape)
    picked = take_along_axis(table, reshape(numbers, (1, *shape)), 0)
    return into(getitem(picked, (0, ...)), out)


def ix_(*args: Any) -> tuple[Any, ...]:
    """``numpy.ix_``: index vectors shaped to name a grid."""
    if not contains_traced(args):
        return np.ix_(*args)
    grid = []
    for axis, arg in enumerate(args):
        values = as_value(arg)
        if type_of(values).dtype.kind == "b":
            values = np.flatnonzero(known("ix_", values))
        shape = [1] * len(args)
        shape[axis] = type_of(values).size
        grid.append(reshape(values, tuple(shape)))
    return tuple(grid)


def unravel_index(indices: Any, shape: Any, order: str = "C") -> Any:
    """``numpy.unravel_index``: flat positions as an index for each axis."""
    if not contains_traced(indices):
        return np.unravel_index(indices, shape, order)  # type: ignore[call-overload]
    lengths = tuple(shape) if np.iterable(shape) else (shape,)
    found, rest = [], _in_range("unravel_index", indices, math.prod(lengths), "raise")
    for length in lengths if order == "F" else lengths[::-1]:
        found.append(ew.remainder(rest, length))
        rest = floor_divide(rest, length)
    return tuple(found if order == "F" else found[::-1])


def ravel_multi_index(multi_index: Any, dims: Any, mode: str = "raise", order: str = "C") -> Any:
    """``numpy.ravel_multi_index``: an index for each axis as flat positions."""
    if not contains_traced(multi_index):
        return np.ravel_multi_index(multi_index, dims, mode, order)  # type: ignore[call-overload]
    strides = np.ones(len(dims), int)
    if order == "F":
        strides[1:] = np.cumprod(dims[:-1])
    else:
        strides[:-1] = np.cumprod(dims[:0:-1])[::-1]
    # one mode is for all axes or each has its own
    modes = (mode,) * len(dims) if isinstance(mode, str) else mode
    parts = [
        _in_range("ravel_multi_index", values, length, own) * int(stride)
        for values, length, stride, own in zip(multi_index, dims, strides, modes, strict=True)
    ]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


# ---------------------------------------------------------------- writing in place


def write(name: str, target: Any, new: Any) -> None:
    """Replace the whole content of an array; a plain array cannot take a traced content."""
    if not isinstance(target, Array):
        raise ConversionError(
            explain(
                name,
                "the array written to is a plain NumPy array, the values are traced",
                "Make the array in the function, with np.zeros or np.array(x) for a copy.",
            )
        )
    target._write(new)


def _write_flat(name: str, target: Any, change: Function) -> None:
    """Apply a change to the elements laid flat and write the result back."""
    shape = type_of(target).shape
    changed = change(reshape(target, (math.prod(shape),)))
    write(name, target, reshape(changed, shape))


@numpy_if_plain
def put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    """``numpy.put``: write values at flat positions; values are repeated as needed."""
    ind, v = ravel(as_value(ind)), ravel(as_value(v))
    count = type_of(ind).shape[0]
    if count == 0 or type_of(v).shape[0] == 0:
        return
    ind = _in_mode("put", ind, type_of(a).size, mode)
    _write_flat("put", a, lambda flat: setitem(flat, ind, resize(v, count)))


@numpy_if_plain
def put_along_axis(arr: Any, indices: Any, values: Any, axis: Any) -> None:
    """``numpy.put_along_axis``: write one value for each index, matched along the others."""
    indices = as_value(indices)
    if axis is None:
        _write_flat("put_along_axis", arr, lambda flat: setitem(flat, ravel(indices), values))
        return
    key = _along(arr, indices, axis, "put_along_axis")
    write("put_along_axis", arr, setitem(arr, key, as_value(values)))


@numpy_if_plain
def place(arr: Any, mask: Any, vals: Any) -> None:
    """``numpy.place``: write the values one after the other where the mask holds."""
    places = np.flatnonzero(known("place", mask))
    if len(places):
        put(arr, places, vals)


@numpy_if_plain
def putmask(a: Any, mask: Any, values: Any) -> None:
    """``numpy.putmask``: write the values of the same places where the mask holds."""
    shape = type_of(a).shape
    values = cast(resize(as_value(values), shape), type_of(a).dtype)
    write("putmask", a, ew.select(reshape(as_value(mask), shape), values, a))


@numpy_if_plain
def copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    """``numpy.copyto``: write an array into another, where the mask holds."""
    src = as_value(src)
    target = type_of(dst)
    source = type_of(src).dtype
    if not type_of(src).weak and not np.can_cast(source, target.dtype, casting):  # type: ignore[arg-type]
        raise DTypeError(
            explain(
                "copyto",
                f"cannot put {type_of(src)} into {target} with casting {casting!r}",
                "Convert it with astype.",
            )
        )
    values = broadcast_to(cast(src, target.dtype), shape=target.shape)
    write("copyto", dst, values if where is True else ew.select(where, values, dst))


@numpy_if_plain
def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    """``numpy.fill_diagonal``: write values to the main diagonal."""
    shape = type_of(a).shape
    if len(shape) < 2 or (len(shape) > 2 and len(set(shape)) > 1):
        raise ShapeError(
            explain(
                "fill_diagonal",
                f"got an array of shape {shape}",
                "Give a matrix, or an array whose axes have equal lengths.",
            )
        )
    step, end = sum(math.prod(shape[k + 1 :]) for k in range(len(shape))), None
    if len(shape) == 2 and not wrap:
        end = shape[1] * shape[1]
    count = len(range(*slice(None, end, step).indices(math.prod(shape))))
    values = resize(ravel(as_value(val)), count)
    _write_flat("fill_diagonal", a, lambda flat: setitem(flat, slice(None, end, step), values))


# ---------------------------------------------------------------- scatter


def _scatter(op: Op, x: Any, indices: Any, values: Any, axis: int) -> Any:
    x, indices, values = as_value(x), as_value(indices), as_value(values)
    shape = type_of(x).shape
    axis = normal_axis(op.name, axis, len(shape))
    block = type_of(indices).shape
    target = shape[:axis] + block + shape[axis + 1 :]
    try:
        values = broadcast_to(cast(values, type_of(x).dtype), shape=target)
    except ValueError:
        raise ShapeError(
            explain(
                op.name,
                f"got values of shape {type_of(values).shape} for {type_of(indices).size} places "
                f"of shape {target}",
                "The values must broadcast to the shape of take(x, indices, axis).",
            )
        ) from None
    places = tuple(range(axis, axis + len(block)))
    return op(x, moveaxis(values, places, range(len(block))), indices, axes=(axis,))


def _scattering(op: Op, about: str, example: str, result: str) -> Function:
    def scatter(x: Any, indices: Any, values: Any, axis: int = 0) -> Any:
        return _scatter(op, x, indices, values, axis)

    run = f">>> {op.name}({example}, np.array([0, 1, 1]), np.array([1.0, 2.0, 3.0]))\n{result}"
    return named(scatter, op.name, f"A copy of `x` with {about}.\n\n{run}\n")


scatter_add = _scattering(
    ops.scatter_add,
    "`values` added at `indices` of an axis; repeated indices add up",
    "np.zeros(4)",
    "array([1., 5., 0., 0.])",
)
scatter_set = _scattering(
    ops.scatter_set,
    "`values` at `indices` of an axis; of repeated indices the last counts",
    "np.zeros(4)",
    "array([1., 3., 0., 0.])",
)
scatter_max, scatter_min = (
    _scattering(
        op,
        f"the {kind} of the old and the new values at `indices` of an axis;\n"
        "in the derivative all that reach it share it equally",
        "np.array([5.0, 0.0, 0.0])",
        result,
    )
    for op, kind, result in (
        (ops.scatter_max, "larger", "array([5., 3., 0.])"),
        (ops.scatter_min, "smaller", "array([1., 0., 0.])"),
    )
)


# ---------------------------------------------------------------- numpy.add.at and its like


def _positions(x: Any, key: Any) -> Any:
    """The flat positions that a key names."""
    shape = type_of(x).shape
    key = tuple(key) if isinstance(key, tuple) else key
    return getitem(np.arange(math.prod(shape)).reshape(shape), key)


def _at(name: str, change: Function) -> Function:
    def at(a: Any, indices: Any, b: Any) -> None:
        found = _positions(a, indices)
        values = cast(as_value(b), type_of(a).dtype)
        values = broadcast_to(values, shape=type_of(found).shape)
        flat_places, flat_values = reshape(found, (-1,)), reshape(values, (-1,))
        _write_flat(name, a, lambda flat: change(flat, flat_values, flat_places))

    at.__doc__ = f"``numpy.{name}``: in place, repeated indices count each time."
    return at


def _multiply_places(flat: Any, values: Any, places: Any) -> Any:
    """Multiply elements at known places, repeated ones too.

    Factors of the same place are multiplied pair by pair, so that no division is needed and
    zeros are exact to every order.
    """
    known_places = np.asarray(known("multiply.at", places))
    order = np.argsort(known_places, kind="stable")
    sorted_places, values = known_places[order], getitem(values, order)
    while len(sorted_places) > 1 and (sorted_places[1:] == sorted_places[:-1]).any():
        rank = _rank_in_run(sorted_places)
        first = np.flatnonzero(rank % 2 == 0)
        alone = np.append(sorted_places, -1)[first + 1] != sorted_places[first]
        product = getitem(values, first) * getitem(values, np.where(alone, first, first + 1))
        values = ew.select(alone, getitem(values, first), product)
        sorted_places = sorted_places[first]
    product = getitem(flat, sorted_places) * values
    return setitem(flat, sorted_places, product)


def _rank_in_run(places: np.ndarray) -> np.ndarray:
    """0, 1, 2, ... within each run of equal numbers."""
    starts = np.flatnonzero(np.append(True, places[1:] != places[:-1]))
    lengths = np.diff(np.append(starts, len(places)))
    return np.arange(len(places)) - np.repeat(starts, lengths)


UFUNC_METHODS: dict[str, Function] = {
    "add.at": _at("add.at", lambda x, v, i: ops.scatter_add(x, v, i, axes=(0,))),
    "subtract.at": _at("subtract.at", lambda x, v, i: ops.scatter_add(x, -v, i, axes=(0,))),
    "maximum.at": _at("maximum.at", lambda x, v, i: ops.scatter_max(x, v, i, axes=(0,))),
    "minimum.at": _at("minimum.at", lambda x, v, i: ops.scatter_min(x, v, i, axes=(0,))),
    "multiply.at": _at("multiply.at", _multiply_places),
    "divide.at": _at("divide.at", lambda x, v, i: _multiply_places(x, 1 / v, i)),
}
