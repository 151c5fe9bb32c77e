"""Making arrays: zeros, arange, linspace, eye, array.

Inside a function that is being traced these give traced arrays, so that traced values can be
written into them; outside they are plain NumPy arrays.
"""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from ..errors import DTypeError, OptionError, ShapeError, explain
from ..ops import elementwise as ew
from ..ops.layout import broadcast_to, convert
from ..ops.logic import floor
from ..ops.logic import sign as sign_of
from ..ops.op import Traced
from ..trace.lying import if_contiguous, lies_as
from ..trace.orders import is_line
from ..trace.tracer import concrete, lift
from ..trace.views import copy_of
from ..types import Function, inexact_dtype, result_dtype, type_of
from .common import as_value, cast, contains_traced, named, named_dtype, strong
from .joining import concatenate, stack
from .structure import (
    broadcast_arrays,
    expand_dims,
    moveaxis,
    ravel,
    reshape,
    transpose,
)

__all__ = [
    "arange", "array", "asanyarray", "asarray", "ascontiguousarray", "can_cast", "copy",
    "diag_indices", "diag_indices_from", "empty", "empty_like", "eye", "fromfunction", "full",
    "full_like", "geomspace", "identity", "indices", "linspace", "logspace", "meshgrid", "ones",
    "ones_like", "result_type", "tri", "tril_indices", "tril_indices_from", "triu_indices",
    "triu_indices_from", "vander", "zeros", "zeros_like",
]  # fmt: skip


# ---------------------------------------------------------------- constant arrays


def _check_device(name: str, device: Any) -> None:
    """Arrays lie in the memory of the processor, as NumPy's."""
    if device not in (None, "cpu"):
        raise OptionError(explain(name, f"got device={device!r}", "Give 'cpu', or leave it out."))


def zeros(shape: Any, dtype: Any = None, order: Any = "C", *, device: Any = None) -> Any:
    """``numpy.zeros``: an array of zeros that can be written to."""
    _check_device("zeros", device)
    return lift(np.zeros(shape, dtype, order))


def ones(shape: Any, dtype: Any = None, order: Any = "C", *, device: Any = None) -> Any:
    """``numpy.ones``: an array of ones that can be written to."""
    _check_device("ones", device)
    return lift(np.ones(shape, dtype, order))


def empty(shape: Any, dtype: Any = None, order: Any = "C", *, device: Any = None) -> Any:
    """``numpy.empty``: an array to write to; its elements are zeros until then."""
    _check_device("empty", device)
    return lift(np.zeros(shape, dtype, order))


def full(
    shape: Any, fill_value: Any, dtype: Any = None, order: Any = "C", *, device: Any = None
) -> Any:
    """``numpy.full``: an array of one value, which may be traced."""
    _check_device("full", device)
    if not contains_traced(fill_value):
        return lift(np.full(shape, fill_value, dtype, order))
    value = as_value(fill_value)
    shape = tuple(shape) if np.iterable(shape) else (shape,)
    value = cast(value, dtype or type_of(value).dtype)
    return _own(broadcast_to(value, shape=tuple(int(n) for n in shape)), order)


def _own(x: Any, order: str = "K") -> Any:
    """New storage with the content of `x`, an array even if it is 0-d."""
    if not isinstance(x, Traced):
        return lift(np.array(x, order=order))  # type: ignore[call-overload]
    copied: Any = copy_of(x, order)
    copied._writable = True
    return copied


def _like(a: Any, dtype: Any, shape: Any) -> tuple[Any, Any]:
    own = type_of(as_value(a))
    return own.shape if shape is None else shape, own.dtype if dtype is None else dtype


def _like_of(make: Function, about: str) -> Function:
    def like(
        a: Any,
        dtype: Any = None,
        order: str = "K",
        subok: bool = True,
        shape: Any = None,
        *,
        device: Any = None,
    ) -> Any:
        made = make(*_like(a, dtype, shape), order if order in "CF" else "C", device=device)
        return made if order in "CF" else lies_as(made, as_value(a), order)

    name = f"{make.__name__}_like"
    return named(like, name, f"``numpy.{name}``: {about} of the shape and dtype of `a`.")


zeros_like = _like_of(zeros, "zeros")
ones_like = _like_of(ones, "ones")
empty_like = _like_of(empty, "an array to write to,")


def full_like(
    a: Any,
    fill_value: Any,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    *,
    device: Any = None,
) -> Any:
    """``numpy.full_like``: one value in the shape and dtype of `a`."""
    shape, dtype = _like(a, dtype, shape)
    made = full(shape, fill_value, dtype, order if order in "CF" else "C", device=device)
    return made if order in "CF" else lies_as(made, as_value(a), order)


def eye(
    N: int,
    M: int | None = None,
    k: int = 0,
    dtype: Any = None,
    order: Any = "C",
    *,
    device: Any = None,
) -> Any:
    """``numpy.eye``: ones on a diagonal."""
    _check_device("eye", device)
    return lift(np.eye(N, M, k, dtype or float, order))


def identity(n: int, dtype: Any = None) -> Any:
    """``numpy.identity``: the identity matrix."""
    return lift(np.identity(n, dtype))


def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = float) -> Any:
    """``numpy.tri``: ones at and below a diagonal."""
    return lift(np.tri(N, M, k, dtype))


def indices(dimensions: Any, dtype: Any = int, sparse: bool = False) -> Any:
    """``numpy.indices``: the index of every element, one array for each axis."""
    found: Any = np.indices(dimensions, dtype, sparse)  # type: ignore[call-overload]
    return tuple(lift(part) for part in found) if sparse else lift(found)


def fromfunction(function: Function, shape: Any, *, dtype: Any = float, **kwargs: Any) -> Any:
    """``numpy.fromfunction``: a function of the index arrays."""
    return function(*indices(shape, dtype=dtype), **kwargs)


# ---------------------------------------------------------------- index constants

# NumPy's own: they take no arrays
diag_indices, tril_indices, triu_indices = np.diag_indices, np.tril_indices, np.triu_indices


def diag_indices_from(arr: Any) -> tuple[np.ndarray, ...]:
    """``numpy.diag_indices_from``: the places of the main diagonal of `arr`."""
    return np.diag_indices_from(_shadow(arr))


def tril_indices_from(arr: Any, k: int = 0) -> tuple[np.ndarray, ...]:
    """``numpy.tril_indices_from``: the places of the lower triangle of `arr`."""
    return np.tril_indices_from(_shadow(arr), k)


def triu_indices_from(arr: Any, k: int = 0) -> tuple[np.ndarray, ...]:
    """``numpy.triu_indices_from``: the places of the upper triangle of `arr`."""
    return np.triu_indices_from(_shadow(arr), k)


def _shadow(arr: Any) -> np.ndarray:
    """A plain array of the same shape that takes no memory."""
    return np.broadcast_to(np.zeros((), np.int8), type_of(as_value(arr)).shape)


# ---------------------------------------------------------------- from other values


def array(
    object: Any, dtype: Any = None, *, copy: bool = True, order: str = "K", ndmin: int = 0
) -> Any:
    """``numpy.array``: a new array; (nested) lists of traced values are stacked."""
    if not copy and not isinstance(object, Traced) and isinstance(object, np.ndarray):
        result = object if dtype is None else object.astype(dtype, copy=False)
    elif not contains_traced(object):
        result = lift(np.array(as_value(object), dtype, order=order))  # type: ignore[call-overload]
    else:
        _check_even(object)
        value = as_value(object)
        result = cast(value, dtype or type_of(value).dtype)
        if not isinstance(object, Traced):
            result = _own(result, "F" if order == "F" else "C")
        elif copy or result is not object:
            result = _own(result, order)
    missing = ndmin - len(type_of(result).shape)
    return result if missing <= 0 else reshape(result, (1,) * missing + type_of(result).shape)


def _check_even(items: Any) -> tuple[int, ...]:
    """The shape of nested lists, or an error where their parts differ."""
    if not isinstance(items, (list, tuple)):
        own: tuple[int, ...] = type_of(items).shape
        return own
    shapes = [_check_even(item) for item in items]
    for shape in shapes:
        if shape != shapes[0]:
            raise ShapeError(
                explain(
                    "array",
                    f"got a list of parts with shapes {shapes[0]} and {shape}",
                    "All parts must have the same shape; concatenate joins unequal ones.",
                )
            )
    return (len(items), *shapes[0]) if shapes else (0,)


def asarray(
    a: Any, dtype: Any = None, order: str | None = None, *, device: Any = None, copy: Any = None
) -> Any:
    """``numpy.asarray``: an array; arrays and traced values are not copied."""
    _check_device("asarray", device)
    if copy or not isinstance(a, (np.ndarray, Traced)):
        return array(a, dtype, order=order or "K")
    # a Python number that is traced becomes one of 64 bits, as NumPy's arrays of such numbers are
    value = strong(as_value(a)) if dtype is None else cast(as_value(a), dtype)
    return _lying(value, order) if order in ("C", "F") else value


def _lying(a: Any, order: str) -> Any:
    """The array in C or Fortran order: itself where it lies so, otherwise a copy."""
    if not isinstance(a, Traced):
        return np.asarray(a, order=order)  # type: ignore[call-overload]
    if is_line(a.shape) and a._base is None:  # type: ignore[attr-defined]
        return a
    turned = a if order == "C" else transpose(a)
    found = if_contiguous(turned[...])  # type: ignore[index]
    return found if order == "C" else transpose(found)


def asanyarray(
    a: Any, dtype: Any = None, order: str | None = None, *, device: Any = None, copy: Any = None
) -> Any:
    """``numpy.asanyarray``: an array; arrays and traced values are not copied."""
    return asarray(a, dtype, order, device=device, copy=copy)


def ascontiguousarray(a: Any, dtype: Any = None) -> Any:
    """``numpy.ascontiguousarray``: the array with at least one axis."""
    return _as_lying(a, dtype, "C")


def asfortranarray(a: Any, dtype: Any = None) -> Any:
    """``numpy.asfortranarray``: the array with at least one axis."""
    return _as_lying(a, dtype, "F")


def _as_lying(a: Any, dtype: Any, order: str) -> Any:
    a = cast(as_value(a), dtype)
    if not type_of(a).shape:
        return reshape(a, (1,))
    return _lying(a, order)


def copy(a: Any, order: str = "K", subok: bool = False) -> Any:
    """``numpy.copy``: a copy that can be written to."""
    return array(a, order=order)


# ---------------------------------------------------------------- dtypes


def result_type(*arrays_and_dtypes: Any) -> np.dtype:
    """``numpy.result_type``: the dtype that NumPy's promotion gives."""
    return np.result_type(*[_promotion_stand_in(item) for item in arrays_and_dtypes])


def _promotion_stand_in(item: Any) -> Any:
    if not isinstance(item, Traced):
        return item
    own = type_of(item)
    return own.dtype.type(0).item() if own.weak else own.dtype


def can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    """``numpy.can_cast``: whether a cast is allowed by the casting rule."""
    return np.can_cast(type_of(from_).dtype if isinstance(from_, Traced) else from_, to, casting)


# ---------------------------------------------------------------- ranges


def arange(
    start: Any, stop: Any = None, step: Any = 1, dtype: Any = None, *, device: Any = None
) -> Any:
    """``numpy.arange``: evenly spaced values; differentiable in `start` and `step`."""
    _check_device("arange", device)
    start, stop = (0, start) if stop is None else (start, stop)
    if not contains_traced([start, stop, step]):
        return lift(np.arange(start, stop, step, dtype))  # type: ignore[call-overload]
    numbers = [concrete(value) for value in (start, stop, step)]
    if any(number is None for number in numbers):
        raise DTypeError(
            explain(
                "arange",
                "the number of elements depends on a value that is not known while tracing",
                "Give arange plain numbers, or use linspace with a fixed number of elements.",
            )
        )
    count = len(np.arange(*numbers))
    values = as_value(start) + np.arange(count) * as_value(step)
    return _own(cast(values, dtype))


def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any:
    """``numpy.linspace``: `num` even steps; differentiable in `start` and `stop`."""
    _check_device("linspace", device)
    if not contains_traced([start, stop]):
        found: Any = np.linspace(  # type: ignore[call-overload]
            start, stop, num, endpoint, retstep, dtype, axis
        )
        return (lift(found[0]), found[1]) if retstep else lift(found)
    start, stop = as_value(start), as_value(stop)
    common = inexact_dtype(result_dtype(type_of(start), type_of(stop)))
    start, stop = broadcast_arrays(cast(start, common), cast(stop, common))
    divisions = num - 1 if endpoint else num
    step = (stop - start) / divisions if divisions > 0 else stop * float("nan")
    shape = (num,) + (1,) * len(type_of(start).shape)
    counts = np.arange(num, dtype=type_of(start).dtype).reshape(shape)
    result = counts * (step if divisions > 0 else stop - start) + start
    if endpoint and num > 1:
        # exactly `stop`, whatever the rounding of the steps
        result = concatenate([result[:-1], expand_dims(stop, 0)])
    result = moveaxis(result, 0, axis)
    if dtype is not None and named_dtype(dtype).kind in "iu":
        result = convert(floor(result), dtype=named_dtype(dtype))
    result = _own(cast(result, dtype))
    return (result, step) if retstep else result


def logspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    base: Any = 10.0,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    """``numpy.logspace``: powers of `base` with evenly spaced exponents."""
    if not contains_traced([start, stop, base]):
        return lift(np.logspace(start, stop, num, endpoint, base, dtype, axis))
    exponents = linspace(start, stop, num, endpoint, axis=axis)
    base = as_value(base)
    if type_of(base).shape:
        start, stop, base = broadcast_arrays(start, stop, base)
        exponents = linspace(start, stop, num, endpoint, axis=axis)
        base = expand_dims(base, axis)
    return cast(ew.power(base, exponents), dtype)


def geomspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    """``numpy.geomspace``: a geometric progression from `start` to `stop`."""
    if not contains_traced([start, stop]):
        return lift(np.geomspace(start, stop, num, endpoint, dtype, axis))
    start, stop = (as_value(end) for end in (start, stop))
    wide = np.result_type(type_of(start).dtype, type_of(stop).dtype, np.float64)
    start, stop = broadcast_arrays(cast(start, wide), cast(stop, wide))
    if type_of(start).dtype.kind == "c" or type_of(stop).dtype.kind == "c":
        raise DTypeError(
            explain("geomspace", "got complex ends", "Use exp(linspace(log(start), log(stop))).")
        )
    sign = sign_of(start)
    low, high = ew.log10(start * sign), ew.log10(stop * sign)
    inner = 10.0 ** linspace(low, high, num, endpoint) * sign
    parts = [expand_dims(start * 1.0, 0), inner[1 : -1 if endpoint else None]]
    if endpoint and num > 1:
        parts.append(expand_dims(stop * 1.0, 0))
    result = concatenate(parts) if num > 0 else inner
    return _own(cast(moveaxis(result, 0, axis), dtype))


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """``numpy.vander``: the matrix of the powers of `x`."""
    if not contains_traced(x):
        return lift(np.vander(x, N, increasing))
    x = as_value(x)
    if len(type_of(x).shape) != 1:
        raise ShapeError(
            explain("vander", f"got an array of shape {type_of(x).shape}, expected one axis")
        )
    length = type_of(x).shape[0]
    count = length if N is None else N
    dtype = result_dtype(type_of(x), type_of(np.int64(0)))
    if count == 0:
        return zeros((length, 0), dtype)
    columns = [np.ones(length, dtype)]
    for _ in range(count - 1):
        columns.append(columns[-1] * x)
    return stack(columns if increasing else columns[::-1], axis=1)


def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> Any:
    """``numpy.meshgrid``: coordinate arrays from coordinate vectors."""
    if not contains_traced(xi):
        options: Any = {"copy": copy, "sparse": sparse, "indexing": indexing}
        return tuple(np.meshgrid(*xi, **options))
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing is 'xy' or 'ij', got {indexing!r}.")
    count = builtins.len(xi)
    places = list(range(count))
    if indexing == "xy" and count > 1:
        places[:2] = [1, 0]
    parts = []
    for place, x in zip(places, xi, strict=True):
        flat = ravel(as_value(x))
        shape = [1] * count
        shape[place] = type_of(flat).shape[0]
        parts.append(reshape(flat, tuple(shape)))
    if sparse:
        return tuple(_own(part, "C") for part in parts) if copy else tuple(parts)
    full_parts = broadcast_arrays(*parts)
    return tuple(_own(part, "C") for part in full_parts) if copy else tuple(full_parts)
