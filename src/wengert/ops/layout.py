"""The linear operations that move, repeat, sum and retype elements; every rule is made from them.

`fit` brings a cotangent or tangent to a given type: what broadcasting repeated is summed, what
promotion widened is narrowed, the real part is taken where the value was real.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import ShapeError, explain
from ..functions import Cost
from ..loops import Alias, Pointwise, Reduction, cast, float_range, not_an_integer
from ..types import ArrayType, type_of
from .op import Op, Traced
from .python_integers import to_integer


def _convert(x: Any, dtype: np.dtype) -> Any:
    array = np.asarray(x)
    if array.dtype.kind == "c" and dtype.kind != "c":
        array = array.real  # the real part on purpose, so without NumPy's warning
    result = array.astype(dtype)
    if dtype.kind in "iu" and array.dtype.kind == "f":
        result = _without_undefined(array, result)
    return result if result.ndim else result[()]


def as_dtype(x: Any, dtype: np.dtype) -> Any:
    """`x` in another dtype, unchanged when it has it; a Python integer must fit into it."""
    own = type_of(x)
    if own.dtype == dtype and not own.weak:
        return x
    if own.weak and own.dtype.kind == "i" and dtype.kind in "iu":
        return to_integer(x, dtype=dtype)
    return convert(x, dtype=dtype)


def _without_undefined(floats: np.ndarray, integers: np.ndarray) -> np.ndarray:
    """Converted floats; what C leaves undefined, and NumPy with it, is `not_an_integer`."""
    low, high = float_range(integers.dtype)
    wide = floats if floats.dtype.itemsize >= 4 else floats.astype(np.float32)
    defined = (wide >= low) & (wide < high)
    if defined.all():
        return integers
    return np.where(defined, integers, integers.dtype.type(not_an_integer(integers.dtype)))


convert: Op = Op(
    "convert",
    _convert,
    lambda x, dtype: ArrayType(dtype, x.shape),
    jvp=(lambda t, ans, x, dtype: convert(t, dtype=dtype) if dtype.kind in "fc" else None,),
    linear=(0,),
    transpose=(lambda g, x, dtype: convert(g, dtype=x.dtype),),
    batch=lambda size, flags, x, dtype: convert(x, dtype=dtype),
    loops=Pointwise(lambda index, x, dtype: cast(x(index), dtype)),
    samples=lambda rng: [
        ((rng.normal(size=(2, 3)),), {"dtype": np.dtype(np.float32)}),
        ((rng.normal(size=(2, 3)).astype(np.float32),), {"dtype": np.dtype(np.float64)}),
        ((rng.normal(size=4),), {"dtype": np.dtype(np.complex128)}),
        ((rng.normal(size=4),), {"dtype": np.dtype(np.int64)}),
    ],
)


def resize_shape(axis: int, length: int, shape: tuple[int, ...]) -> dict[str, Any]:
    """The parameter `shape` of a result with another length along an axis."""
    return {"shape": (*shape[:axis], length, *shape[axis + 1 :])}


def _reshape_type(x: ArrayType, shape: tuple[int, ...]) -> ArrayType:
    if ArrayType(x.dtype, shape).size != x.size:
        raise ShapeError(
            explain(
                "reshape",
                f"got an array of shape {x.shape} ({x.size} elements) for the shape {shape}",
                "Give a shape with the same number of elements, or one -1.",
            )
        )
    return ArrayType(x.dtype, shape)


def _reshaped(x: Any, shape: tuple[int, ...]) -> Any:
    # the method takes a third of the function's time
    return x.reshape(shape) if type(x) is np.ndarray else np.reshape(x, shape)


def _transposed(x: Any, axes: tuple[int, ...]) -> Any:
    return x.transpose(axes) if type(x) is np.ndarray else np.transpose(x, axes)


reshape: Op = Op(
    "reshape",
    _reshaped,
    _reshape_type,
    linear=(0,),
    transpose=(lambda g, x, shape: reshape(g, shape=x.shape),),
    batch=lambda size, flags, x, shape: reshape(x, shape=(size, *shape)),
    loops=Alias(),
    cost=Cost.QUICK,
    resize=resize_shape,
    write_back=lambda base, new, shape: reshape(new, shape=type_of(base).shape),
    samples=lambda rng: [
        ((rng.normal(size=(2, 3)),), {"shape": (6,)}),
        ((rng.normal(size=(2, 3)),), {"shape": (3, 1, 2)}),
        ((rng.normal(size=()),), {"shape": (1, 1)}),
        ((rng.normal(size=(0, 3)),), {"shape": (3, 0, 2)}),
    ],
)


def inverse_permutation(axes: Sequence[int]) -> tuple[int, ...]:
    """The permutation that undoes `axes`."""
    inverse = [0] * len(axes)
    for position, axis in enumerate(axes):
        inverse[axis] = position
    return tuple(inverse)


permute: Op = Op(
    "permute",
    _transposed,
    lambda x, axes: ArrayType(x.dtype, tuple(x.shape[axis] for axis in axes)),
    linear=(0,),
    transpose=(lambda g, x, axes: permute(g, axes=inverse_permutation(axes)),),
    batch=lambda size, flags, x, axes: permute(x, axes=(0, *[axis + 1 for axis in axes])),
    loops=Pointwise(
        lambda index, x, axes: x(index[place] for place in inverse_permutation(axes)), free=True
    ),
    cost=Cost.QUICK,
    write_back=lambda base, new, axes: permute(new, axes=inverse_permutation(axes)),
    samples=lambda rng: [
        ((rng.normal(size=(2, 3)),), {"axes": (1, 0)}),
        ((rng.normal(size=(2, 3, 4)),), {"axes": (2, 0, 1)}),
        ((rng.normal(size=()),), {"axes": ()}),
    ],
)


def _broadcast_type(x: ArrayType, shape: tuple[int, ...]) -> ArrayType:
    try:
        fits = np.broadcast_shapes(x.shape, shape) == tuple(shape)
    except ValueError:
        fits = False
    if not fits:
        raise ShapeError(
            explain(
                "broadcast_to",
                f"got an array of shape {x.shape} for the shape {shape}",
                "Each axis, counted from the right, must be equal or 1.",
            )
        )
    return ArrayType(x.dtype, shape)


def _batch_broadcast(size: int, flags: Sequence[bool], x: Any, shape: tuple[int, ...]) -> Any:
    own = type_of(x).shape[1:]
    aligned = reshape(x, shape=(size, *(1,) * (len(shape) - len(own)), *own))
    return broadcast_to(aligned, shape=(size, *shape))


def _broadcast_to(x: Any, shape: tuple[int, ...]) -> np.ndarray:
    x = np.asarray(x)
    if not x.flags.c_contiguous or len(shape) < x.ndim:
        return np.broadcast_to(x, shape)
    # The same view, made several times as fast; every reduction's pullback makes one.
    missing = len(shape) - x.ndim
    strides = [0] * missing
    for have, want, stride in zip(x.shape, shape[missing:], x.strides, strict=True):
        if have != want and have != 1:
            return np.broadcast_to(x, shape)
        strides.append(stride if have == want else 0)
    view: np.ndarray = np.ndarray(shape, x.dtype, x, 0, strides)
    view.flags.writeable = False
    return view


broadcast_to: Op = Op(
    "broadcast_to",
    _broadcast_to,
    _broadcast_type,
    linear=(0,),
    transpose=(lambda g, x, shape: sum_to(g, x.shape),),
    batch=_batch_broadcast,
    loops=Pointwise(lambda index, x, shape: x.broadcast(index), free=True),
    cost=Cost.QUICK,
    resize=resize_shape,
    samples=lambda rng: [
        ((rng.normal(size=(3,)),), {"shape": (2, 3)}),
        ((rng.normal(size=(2, 1)),), {"shape": (4, 2, 3)}),
        ((rng.normal(size=()),), {"shape": (2, 2)}),
        ((rng.normal(size=(1,)),), {"shape": (0,)}),
    ],
)


class _Again(Op):
    """No derivative flows to what is only waited for."""

    def __call__(self, x: Any, after: Any) -> Any:
        result = super().__call__(x, after)
        if isinstance(result, Traced):
            node = result._node  # type: ignore[attr-defined]
            node.active = node.inputs[0].active
        return result


# x, to compute from it anew: nothing of that is shared with what else is computed from x, and it
# begins when `after` is there. So a value need not be kept until then (`checkpoint`).
again: Op = _Again(
    "again",
    lambda x, after: x,
    lambda x, after: x,
    jvp=(lambda t, ans, x, after: t, None),
    transpose=(lambda g, x, after: g, None),
    batch=lambda size, flags, x, after: again(
        x if flags[0] else broadcast_to(x, shape=(size, *type_of(x).shape)), after
    ),
    loops=Alias(),
    samples=lambda rng: [
        ((rng.normal(size=(2, 3)), rng.normal(size=4)), {}),
        ((rng.normal(size=()), rng.normal(size=(2, 1))), {}),
        ((rng.normal(size=(0, 2)), rng.normal(size=())), {}),
    ],
)


def without_axes(shape: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    """The shape that is left after reducing over the axes."""
    return tuple(length for axis, length in enumerate(shape) if axis not in axes)


def with_axes(x: Any, shape: Sequence[int], axes: Sequence[int]) -> Any:
    """The result of a reduction that broadcasts against what was reduced."""
    if len(axes) == len(shape):
        return x
    kept = [1 if axis in axes else length for axis, length in enumerate(shape)]
    return reshape(x, shape=tuple(kept))


def expand_over(x: Any, shape: Sequence[int], axes: Sequence[int]) -> Any:
    """Undo the shape change of a reduction: `x` repeated along the reduced axes."""
    return broadcast_to(with_axes(x, shape, axes), shape=tuple(shape))


def batch_axes(op_of: Any) -> Any:
    """Batching of an operation with an ``axes`` tuple: they move up by one."""

    def rule(size: int, flags: Sequence[bool], x: Any, axes: tuple[int, ...], **params: Any) -> Any:
        return op_of()(x, axes=tuple(axis + 1 for axis in axes), **params)

    return rule


def _sum_type(x: ArrayType, axes: tuple[int, ...]) -> ArrayType:
    dtype = x.dtype
    if dtype.kind in "bi" and dtype.itemsize < 8:
        dtype = np.dtype(np.int64)
    elif dtype.kind == "u" and dtype.itemsize < 8:
        dtype = np.dtype(np.uint64)
    return ArrayType(dtype, without_axes(x.shape, axes))


reduce_sum: Op = Op(
    "sum",
    lambda x, axes: np.add.reduce(x, axis=axes),
    _sum_type,
    linear=(0,),
    transpose=(lambda g, x, axes: expand_over(g, x.shape, axes),),
    batch=batch_axes(lambda: reduce_sum),
    loops=Reduction("add"),
    samples=lambda rng: [
        ((rng.normal(size=(2, 3)),), {"axes": (0,)}),
        ((rng.normal(size=(2, 3, 4)),), {"axes": (0, 2)}),
        ((rng.normal(size=(3,)),), {"axes": (0,)}),
        ((rng.normal(size=(0, 2)),), {"axes": (0,)}),
        ((rng.normal(size=(3,)),), {"axes": ()}),
        ((rng.integers(0, 5, size=(3,)).astype(np.int8),), {"axes": (0,)}),
    ],
)


def sum_to(x: Any, shape: tuple[int, ...]) -> Any:
    """Sum over what broadcasting from `shape` repeated."""
    own = type_of(x).shape
    if own == shape:
        return x
    extra = len(own) - len(shape)
    axes = tuple(range(extra)) + tuple(
        axis + extra for axis, length in enumerate(shape) if length == 1 and own[axis + extra] != 1
    )
    summed = reduce_sum(x, axes=axes) if axes else x
    return summed if type_of(summed).shape == shape else reshape(summed, shape=shape)


def fit(x: Any, target: ArrayType) -> Any:
    """Bring a (co)tangent to the type of the value it belongs to."""
    own = type_of(x)
    if own.shape != target.shape:
        if len(own.shape) < len(target.shape) or _must_repeat(own.shape, target.shape):
            x = broadcast_to(x, shape=target.shape)
        else:
            x = sum_to(x, target.shape)
    return x if own.dtype == target.dtype else convert(x, dtype=target.dtype)


def _must_repeat(own: tuple[int, ...], target: tuple[int, ...]) -> bool:
    return len(own) == len(target) and any(
        have == 1 != want for have, want in zip(own, target, strict=True)
    )
