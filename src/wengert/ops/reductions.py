"""Reductions over any axes at once; the sum, which every rule needs, is in `layout`.

Where several elements reach the extreme, each gets an equal share of the derivative, or with
``ties="first"`` the first of them (in C order) gets all of it. The derivative of a product
multiplies the other factors and never divides, so zeros among them do no harm.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import ShapeError, explain
from ..loops import Reduction
from ..types import ArrayType, Function, type_of
from .cumulative import cumprod, shifted, spread
from .elementwise import divide, scale, select
from .layout import (
    batch_axes,
    convert,
    expand_over,
    permute,
    reduce_sum,
    reshape,
    with_axes,
    without_axes,
)
from .logic import DISCRETE, attains, equal
from .op import Op
from .sorting import INDEX

Axes = tuple[int, ...]
# Up to this many slices of at least so many elements are combined one by one.
_FEW, _MANY = 16, 512


def reduction_samples(rng: np.random.Generator) -> Any:
    """Arguments for a reduction that needs at least one element."""
    yield (spread(rng, 3, 4),), {"axes": (1,)}
    yield (spread(rng, 2, 3, 2),), {"axes": (0, 2)}
    yield (spread(rng, 5).astype(np.float32),), {"axes": (0,)}
    yield (spread(rng),), {"axes": ()}
    yield (spread(rng, 0, 3),), {"axes": (1,)}
    yield (rng.integers(0, 9, size=(2, 3)),), {"axes": (0, 1)}


def _with(**params: Any) -> Function:
    """The samples of a reduction with further parameters."""
    return lambda rng: [(args, {**own, **params}) for args, own in reduction_samples(rng)]


def _check_elements(name: str, x: ArrayType, axes: Axes) -> None:
    if any(x.shape[axis] == 0 for axis in axes):
        raise ShapeError(
            explain(
                name,
                f"got an array of shape {x.shape} to reduce over the axes {axes}: there is no "
                "element to choose",
                "Give max and min an `initial` value, or check the size first.",
            )
        )


# ---------------------------------------------------------------- extremes


def _extreme_type(name: str) -> Function:
    def rule(x: ArrayType, axes: Axes, ties: str) -> ArrayType:
        result = ArrayType(x.dtype, without_axes(x.shape, axes))
        if result.size:
            _check_elements(name, x, axes)
        return result

    return rule


def _position_array(shape: tuple[int, ...], axes: Axes) -> np.ndarray:
    """The number of each element among those it is reduced with, in C order.

    In the narrowest dtype: positions are compared and kept with elements that are narrow too.
    """
    kept = tuple(length if axis in axes else 1 for axis, length in enumerate(shape))
    count = math.prod(kept)
    dtype = next(d for d in (np.int8, np.int16, np.int32, np.int64) if count <= np.iinfo(d).max)
    return np.arange(count, dtype=dtype).reshape(kept)


def _extreme_jvp(argument_of: Callable[[], Op]) -> Function:
    def rule(t: Any, ans: Any, x: Any, axes: Axes, ties: str) -> Any:
        shape = type_of(x).shape
        if ties == "first":
            positions = _position_array(shape, axes)
            chosen = convert(argument_of()(x, axes=axes), dtype=positions.dtype)
            mask = equal(positions, expand_over(chosen, shape, axes))
            return reduce_sum(select(mask, t, 0.0), axes=axes)
        mask = attains(x, with_axes(ans, shape, axes))
        count = convert(reduce_sum(mask, axes=axes), dtype=type_of(ans).dtype)
        return divide(reduce_sum(select(mask, t, 0.0), axes=axes), count)

    return rule


def _reduced(ufunc: np.ufunc, x: Any, axes: Axes) -> Any:
    shape = np.shape(x)
    count = math.prod([shape[axis] for axis in axes]) if axes else 0
    if not 1 < count <= _FEW or math.prod(shape) < count * _MANY:
        return ufunc.reduce(x, axis=axes)
    # NumPy goes through short axes (a pooling window) element by element; slices are faster.
    whole = [slice(None)] * len(shape)
    result: Any = None
    for place in np.ndindex(*[shape[axis] for axis in axes]):
        key = whole.copy()
        for axis, number in zip(axes, place, strict=True):
            key[axis] = number
        part = x[tuple(key)]
        result = np.array(part) if result is None else ufunc(result, part, out=result)
    return result


def _with_sign(result: Any, x: Any, axes: Axes) -> Any:
    """Of zeros of both signs -0.0; which one NumPy gives depends on length and processor."""
    without_zeros = np.count_nonzero(result) == result.size if result.ndim else bool(result)
    if without_zeros:
        return result
    doubtful = (result == 0) & ~np.signbit(result)
    if not doubtful.any():
        return result
    negative = np.signbit(x)
    if not negative.any():
        return result
    found = np.logical_or.reduce(negative & np.equal(x, 0), axis=axes)
    return np.where(doubtful & found, result.dtype.type(-0.0), result)[()]


def _extreme(name: str, ufunc: np.ufunc, combine: str, argument_of: Callable[[], Op]) -> Op:
    def evaluate(x: Any, axes: Axes, ties: str) -> Any:
        result = _reduced(ufunc, x, axes)
        return _with_sign(result, x, axes) if result.dtype.kind == "f" else result

    op: Op = Op(
        name,
        evaluate,
        _extreme_type(name),
        jvp=(_extreme_jvp(argument_of),),
        batch=batch_axes(lambda: op),
        loops=Reduction(combine),
        samples=lambda rng: [*_with(ties="equal")(rng), *_with(ties="first")(rng)],
    )
    return op


# `ties`: "equal" shares the derivative among equal extremes, "first" gives it to the first.
reduce_max = _extreme("max", np.maximum, "largest", lambda: argmax)
reduce_min = _extreme("min", np.minimum, "smallest", lambda: argmin)


def _argument_samples(rng: np.random.Generator) -> Any:
    yield from reduction_samples(rng)
    nan = float("nan")
    yield (np.array([[2.0, nan, 3.0, nan], [-0.0, 0.0, -1.0, 0.0]]),), {"axes": (1,)}
    yield (np.array([[1.0, np.inf], [np.inf, 1.0], [-np.inf, -np.inf]]),), {"axes": (1,)}
    yield (rng.integers(0, 3, size=(40, 2, 2)).astype(np.float32),), {"axes": (1, 2)}
    yield (rng.integers(0, 2, size=(5, 300)).astype(bool),), {"axes": (1,)}
    yield (rng.integers(0, 9, size=(300, 3)).astype(np.uint8),), {"axes": (0, 1)}


def _first_place(extreme: Op) -> Function:
    """The least position of an element that equals the extreme; the first NaN, if there is one."""

    def compose(x: Any, axes: Axes) -> Any:
        shape = type_of(x).shape
        reached = attains(x, with_axes(extreme(x, axes=axes, ties="equal"), shape, axes))
        positions = _position_array(shape, axes)
        last = positions.dtype.type(positions.size - 1)
        first = reduce_min(select(reached, positions, last), axes=axes, ties="equal")
        return convert(first, dtype=INDEX)

    return compose


def _argument(name: str, function: Function, extreme: Op) -> Op:
    """The position of an extreme among the elements reduced together, in C order."""

    def evaluate(x: Any, axes: Axes) -> Any:
        if len(axes) == 1:
            return function(x, axes[0])
        shape = np.shape(x)
        if len(axes) == len(shape):
            return function(x)
        kept = without_axes(shape, axes)
        last = np.moveaxis(x, axes, range(len(kept), len(shape)))
        return function(last.reshape(*kept, math.prod([shape[axis] for axis in axes])), -1)

    def type_rule(x: ArrayType, axes: Axes) -> ArrayType:
        _check_elements(name, x, axes)
        return ArrayType(INDEX, without_axes(x.shape, axes))

    op: Op = Op(
        name,
        evaluate,
        type_rule,
        zero=DISCRETE,
        batch=batch_axes(lambda: op),
        compose=_first_place(extreme),
        samples=_argument_samples,
    )
    return op


argmax: Op = _argument("argmax", np.argmax, reduce_max)
argmin: Op = _argument("argmin", np.argmin, reduce_min)

# ---------------------------------------------------------------- products


def one_axis(x: Any, axes: Axes) -> tuple[Any, int]:
    """`x` with the axes merged into one (in C order), and where that one is."""
    if len(axes) == 1:
        return x, axes[0]
    shape = type_of(x).shape
    kept = tuple(axis for axis in range(len(shape)) if axis not in axes)
    merged = math.prod([shape[axis] for axis in axes])
    if kept + axes != tuple(range(len(shape))):
        x = permute(x, axes=kept + axes)
    return reshape(x, shape=(*[shape[axis] for axis in kept], merged)), len(kept)


def _prod_jvp(t: Any, ans: Any, x: Any, axes: Axes) -> Any:
    (x, axis), (t, _) = one_axis(x, axes), one_axis(t, axes)
    before = cumprod(shifted(x, 1, axis, False), axis=axis, reverse=False)
    behind = cumprod(shifted(x, 1, axis, True), axis=axis, reverse=True)
    return reduce_sum(scale(t, scale(before, behind)), axes=(axis,))


reduce_prod: Op = Op(
    "prod",
    lambda x, axes: np.multiply.reduce(x, axis=axes),
    lambda x, axes: reduce_sum.type_rule(x, axes=axes),
    jvp=(_prod_jvp,),
    batch=batch_axes(lambda: reduce_prod),
    loops=Reduction("multiply"),
    samples=lambda rng: [
        *reduction_samples(rng),
        ((rng.normal(size=(0, 2)),), {"axes": (0,)}),
        ((np.array([1.5, 0.0, -2.0]),), {"axes": (0,)}),
        ((np.array([[1.5, 0.0, -2.0, 0.0], [0.0, 0.0, 0.0, 2.0]]),), {"axes": (1,)}),
        ((np.array([[1.5, 0.0], [-2.0, 0.0]]),), {"axes": (0, 1)}),
    ],
)

# ---------------------------------------------------------------- truth


def _truth(name: str, ufunc: np.ufunc) -> Op:
    op: Op = Op(
        name,
        lambda x, axes: ufunc.reduce(x, axis=axes),
        lambda x, axes: ArrayType(np.dtype(bool), without_axes(x.shape, axes)),
        zero=DISCRETE,
        batch=batch_axes(lambda: op),
        loops=Reduction(ufunc.__name__),
        samples=lambda rng: [
            *reduction_samples(rng),
            ((rng.integers(0, 2, size=(3, 2)).astype(bool),), {"axes": (0,)}),
            ((np.zeros((0, 2), bool),), {"axes": (0,)}),
        ],
    )
    return op


reduce_any = _truth("any", np.logical_or)
reduce_all = _truth("all", np.logical_and)
