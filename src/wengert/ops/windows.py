"""Sliding windows and their transpose: what convolutions and pooling are made of.

`windows` lays a window at every position along the last axes; a convolution is a contraction of
the windows with the kernel, pooling a reduction over them. It copies nothing: the windows are a
strided view. `fold`, its transpose, adds overlapping windows back to where they were taken from.
Both work on the last axes, so axes in front (samples, channels, a batch) are free.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ..errors import ShapeError, explain
from ..loops import FEW, Accumulate, Affine, Index, Pointwise
from ..types import ArrayType
from .op import Op

Numbers = tuple[int, ...]


def window_positions(
    lengths: Numbers, sizes: Numbers, strides: Numbers, dilations: Numbers
) -> Numbers:
    """How many whole windows fit along each axis; what is left over at the end is dropped."""
    return tuple(
        (length - dilation * (size - 1) - 1) // stride + 1
        for length, size, stride, dilation in zip(lengths, sizes, strides, dilations, strict=True)
    )


def _windows(x: Any, sizes: Numbers, strides: Numbers, dilations: Numbers) -> np.ndarray:
    leading = x.ndim - len(sizes)
    positions = window_positions(x.shape[leading:], sizes, strides, dilations)
    if any(count < 1 for count in positions):
        raise ValueError  # the type rule says why
    steps = x.strides[leading:]
    shape = x.shape[:leading] + positions + sizes
    moves = (
        x.strides[:leading]
        + tuple(step * stride for step, stride in zip(steps, strides, strict=True))
        + tuple(step * dilation for step, dilation in zip(steps, dilations, strict=True))
    )
    if x.flags.c_contiguous and x.size:
        view: np.ndarray = np.ndarray(shape, x.dtype, x, 0, moves)
        view.flags.writeable = False
        return view
    return np.lib.stride_tricks.as_strided(x, shape, moves, writeable=False)


def _windows_type(x: ArrayType, sizes: Numbers, strides: Numbers, dilations: Numbers) -> ArrayType:
    leading = x.ndim - len(sizes)
    fits = leading >= 0
    if fits:
        positions = window_positions(x.shape[leading:], sizes, strides, dilations)
        fits = all(count >= 1 for count in positions)
    if not fits:
        dilated = f", dilated by {dilations}," if set(dilations) != {1} else ""
        raise ShapeError(
            explain(
                "windows",
                f"windows of size {sizes}{dilated} do not fit into the last axes of an array of "
                f"shape {x.shape}",
                "Make the windows smaller, or pad the array.",
            )
        )
    return ArrayType(x.dtype, x.shape[:leading] + positions + sizes)


def _window_samples(rng: np.random.Generator) -> Any:
    yield (rng.normal(size=(5,)),), {"sizes": (2,), "strides": (1,), "dilations": (1,)}
    yield (rng.normal(size=(2, 7)),), {"sizes": (3,), "strides": (2,), "dilations": (2,)}
    yield (rng.normal(size=(2, 5, 4)),), {"sizes": (2, 3), "strides": (2, 1), "dilations": (1, 1)}
    yield (rng.normal(size=(4, 5)).T,), {"sizes": (2,), "strides": (3,), "dilations": (1,)}
    yield (rng.normal(size=(0, 5)),), {"sizes": (2,), "strides": (1,), "dilations": (1,)}
    yield (rng.normal(size=(3,)),), {"sizes": (), "strides": (), "dilations": ()}


def _place_of(at: Index, strides: Numbers, dilations: Numbers) -> list[Affine]:
    """Where an element of a window comes from, or goes back to."""
    count = len(strides)
    leading = len(at) - 2 * count
    positions, places = at[leading : leading + count], at[leading + count :]
    moved = [
        position * stride + place * dilation
        for position, place, stride, dilation in zip(
            positions, places, strides, dilations, strict=True
        )
    ]
    return [*at[:leading], *moved]


def _are_apart(sizes: Numbers, strides: Numbers, dilations: Numbers) -> bool:
    """Whether no two windows have an element in common: each is then read once."""
    return all(
        dilation * (size - 1) < stride
        for size, stride, dilation in zip(sizes, strides, dilations, strict=True)
    )


windows: Op = Op(
    "windows",
    lambda x, sizes, strides, dilations: _windows(np.asarray(x), sizes, strides, dilations),
    _windows_type,
    linear=(0,),
    transpose=(
        lambda g, x, sizes, strides, dilations: fold(
            g, shape=x.shape[x.ndim - len(sizes) :], strides=strides, dilations=dilations
        ),
    ),
    batch=lambda size, flags, x, **params: windows(x, **params),
    loops=lambda sizes, strides, dilations: Pointwise(
        lambda at, x, **params: x(_place_of(at, strides, dilations)),
        free=True,
        whole=() if _are_apart(sizes, strides, dilations) and prod(sizes) <= FEW else (0,),
    ),
    samples=_window_samples,
)


def _fold(x: Any, shape: Numbers, strides: Numbers, dilations: Numbers) -> np.ndarray:
    leading = x.ndim - 2 * len(shape)
    positions, sizes = _split(x.shape[leading:])
    result = np.zeros(x.shape[:leading] + shape, x.dtype)
    # Loop over the places in the window, or over its positions, whichever are fewer; the other
    # axes are added at once.
    if prod(sizes) <= prod(positions):
        for place in itertools.product(*map(range, sizes)):
            starts = [i * d for i, d in zip(place, dilations, strict=True)]
            result[_slices(starts, strides, positions)] += x[(..., *place)]
    else:
        every = (slice(None),) * len(shape)
        for place in itertools.product(*map(range, positions)):
            starts = [i * s for i, s in zip(place, strides, strict=True)]
            result[_slices(starts, dilations, sizes)] += x[(..., *place, *every)]
    return result


def _split(items: Numbers) -> tuple[Numbers, Numbers]:
    half = len(items) // 2
    return items[:half], items[half:]


def _slices(starts: Sequence[int], steps: Numbers, counts: Numbers) -> tuple[Any, ...]:
    slices = [
        slice(start, start + step * (count - 1) + 1, step)
        for start, step, count in zip(starts, steps, counts, strict=True)
    ]
    return (..., *slices)


def _fold_type(x: ArrayType, shape: Numbers, strides: Numbers, dilations: Numbers) -> ArrayType:
    leading = x.ndim - 2 * len(shape)
    positions, sizes = _split(x.shape[max(leading, 0) :])
    if leading < 0 or window_positions(shape, sizes, strides, dilations) != positions:
        raise ShapeError(
            explain(
                "fold",
                f"an array of shape {x.shape} does not hold the windows of axes of length {shape} "
                f"with strides {strides} and dilations {dilations}",
                "The last axes must be the window positions, then the window sizes.",
            )
        )
    return ArrayType(x.dtype, x.shape[:leading] + shape)


def _fold_samples(rng: np.random.Generator) -> Any:
    for (x,), params in _window_samples(rng):
        sizes = params.pop("sizes")
        shape = x.shape[x.ndim - len(sizes) :]
        given = windows(x, sizes=sizes, **params)
        yield (rng.normal(size=given.shape),), {"shape": shape, **params}


def _positions_last(ndim: int, rank: int) -> Sequence[int]:
    """The axes with the places in the window before its positions."""
    leading = ndim - 2 * rank
    return *range(leading), *range(leading + rank, ndim), *range(leading, leading + rank)


fold: Op = Op(
    "fold",
    lambda x, shape, strides, dilations: _fold(np.asarray(x), shape, strides, dilations),
    _fold_type,
    linear=(0,),
    transpose=(
        lambda g, x, shape, strides, dilations: windows(
            g,
            sizes=_split(x.shape[x.ndim - 2 * len(shape) :])[1],
            strides=strides,
            dilations=dilations,
        ),
    ),
    batch=lambda size, flags, x, **params: fold(x, **params),
    loops=Accumulate(
        lambda at, shape, strides, dilations: _place_of(at, strides, dilations),
        axes=lambda x, shape, **params: _positions_last(x.ndim, len(shape)),
    ),
    samples=_fold_samples,
)


def windows_of(x: Any, sizes: Numbers, strides: Numbers | None = None) -> Any:
    """Windows without dilation; at every position unless strides are given."""
    ones = (1,) * len(sizes)
    return windows(x, sizes=sizes, strides=strides or ones, dilations=ones)
