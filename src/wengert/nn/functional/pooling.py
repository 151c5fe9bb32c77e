"""Pooling: the largest or the mean element under a window that slides over the last axes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import numpy as wnp
from ...errors import ShapeError, explain
from ...transforms import stop_gradient
from ...types import lowest, type_of
from .convolution import Numbers, numbers
from .ranks import by_rank

__all__ = [
    "avg_pool1d", "avg_pool2d", "avg_pool3d", "lp_pool1d", "lp_pool2d", "lp_pool3d",
    "max_pool1d", "max_pool2d", "max_pool3d", "max_unpool1d", "max_unpool2d", "max_unpool3d",
]  # fmt: skip


def max_pool(
    rank: int,
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window of (samples, channels, SPACE).

    The stride is the kernel size unless given. With `ceil_mode` a window that starts inside may
    reach over the end. Of equal elements the first gets the derivative. With `return_indices`
    also where each was found, as positions in the space laid flat: what `max_unpool2d` takes.

    >>> import numpy as np
    >>> x = np.arange(16.0).reshape(1, 1, 4, 4)
    >>> max_pool2d(x, 2)
    array([[[[ 5.,  7.],
             [13., 15.]]]])
    >>> max_pool2d(x, 2, return_indices=True)[1]
    array([[[[ 5,  7],
             [13, 15]]]])
    """
    name = f"max_pool{rank}d"
    sizes, strides, pads = _arguments(name, rank, input, kernel_size, stride, padding)
    dilations = numbers(name, "dilation", dilation, rank)
    spans = tuple(d * (n - 1) + 1 for n, d in zip(sizes, dilations, strict=True))
    extra = _overhang(input, spans, strides, pads) if ceil_mode else (0,) * rank
    x, left = input, pads
    if any(extra):
        x, left = _padded(x, pads, extra, lowest(type_of(x).dtype)), (0,) * rank
    pooled = wnp.max_pool(x, sizes, strides, left, dilations)
    if not return_indices:
        return pooled
    places = window_places(np.shape(input)[-rank:], sizes, strides, pads, dilations, extra)
    return pooled, where_largest(input, places, rank)


def window_places(
    space: Numbers, sizes: Numbers, strides: Numbers, pads: Numbers, dilations: Numbers,
    extra: Numbers,
) -> list[np.ndarray]:  # fmt: skip
    """For each axis (windows, size of a window), the places of the elements; outside are others.

    >>> window_places((4,), (2,), (2,), (0,), (1,), (0,))
    [array([[0, 1],
           [2, 3]])]
    """
    found = []
    axes = zip(space, sizes, strides, pads, dilations, extra, strict=True)
    for length, size, stride, pad, dilation, more in axes:
        count = (length + 2 * pad + more - dilation * (size - 1) - 1) // stride + 1
        starts = np.arange(count) * stride - pad
        found.append(starts[:, None] + np.arange(size) * dilation)
    return found


def where_largest(input: Any, places: list[np.ndarray], rank: int) -> Any:
    """The position, in the space laid flat, of the first of the largest elements of each window.

    `places` has for each axis the windows as rows; a place outside of the axis never counts.
    """
    own = np.shape(input)
    space, lead = own[len(own) - rank :], own[: len(own) - rank]
    flat: np.ndarray = np.zeros((), np.int64)
    inside: np.ndarray = np.ones((), bool)
    for axis, (length, rows) in enumerate(zip(space, places, strict=True)):
        # the axes are (windows of each axis, places in a window of each axis)
        form = [1] * (2 * rank)
        form[axis], form[rank + axis] = rows.shape
        flat = flat * length + np.clip(rows, 0, length - 1).reshape(form)
        inside = inside & ((rows >= 0) & (rows < length)).reshape(form)
    windows, size = flat.shape[:rank], math.prod(flat.shape[rank:])
    flat, inside = (array.reshape(-1, size) for array in (flat, inside))
    values = wnp.take(wnp.reshape(stop_gradient(input), (*lead, math.prod(space))), flat, axis=-1)
    if not inside.all():
        values = wnp.where(inside, values, lowest(type_of(input).dtype))
    best = wnp.argmax(values, axis=-1)
    picked = wnp.take(flat.ravel(), best + np.arange(len(flat)) * size)
    return wnp.reshape(picked, (*lead, *windows))


def max_unpool(
    rank: int,
    input: Any,
    indices: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Any:
    """(samples, channels, SPACE) with each element put where `max_pool2d` or its relatives
    found it, and zeros elsewhere.

    `output_size` is the size that was pooled, where that is not as large as it could have been.

    >>> import numpy as np
    >>> pooled, indices = max_pool2d(np.arange(4.0).reshape(1, 2, 2), 2, return_indices=True)
    >>> max_unpool2d(pooled, indices, 2)
    array([[[0., 0.],
            [0., 3.]]])
    """
    name = f"max_unpool{rank}d"
    sizes, strides, pads = _arguments(name, rank, input, kernel_size, stride, padding)
    own = np.shape(input)
    lead, space = own[: len(own) - rank], own[len(own) - rank :]
    usual = tuple(
        (n - 1) * s + k - 2 * p for n, k, s, p in zip(space, sizes, strides, pads, strict=True)
    )
    wanted = usual if output_size is None else tuple(output_size)[-rank:]
    far = any(abs(w - n) >= s for w, n, s in zip(wanted, usual, strides, strict=True))
    if np.shape(indices) != own or len(wanted) != rank or far:
        raise ShapeError(
            explain(
                name,
                f"got input of shape {own}, indices of shape {np.shape(indices)} and "
                f"output_size={output_size!r}",
                f"Give the indices of max_pool{rank}d, of the same shape, and an output_size "
                f"within a stride of {usual}.",
            )
        )
    rows, count, size = math.prod(lead), math.prod(space), math.prod(wanted)
    starts = np.arange(rows)[:, None] * size
    places = wnp.reshape(wnp.reshape(indices, (rows, count)) + starts, (-1,))
    empty = np.zeros(rows * size, type_of(input).dtype)
    filled = wnp.scatter_set(empty, places, wnp.reshape(input, (-1,)))
    return wnp.reshape(filled, (*lead, *wanted))


def avg_pool(
    rank: int,
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """The mean of each window of (samples, channels, SPACE).

    Zeros of the padding count unless `count_include_pad` is False; `divisor_override` divides the
    sums by another number. What reaches over the end in `ceil_mode` never counts.

    >>> import numpy as np
    >>> avg_pool2d(np.arange(16.0).reshape(1, 1, 4, 4), 2)
    array([[[[ 2.5,  4.5],
             [10.5, 12.5]]]])
    """
    name, x, divisor = f"avg_pool{rank}d", input, divisor_override
    sizes, strides, pads = _arguments(name, rank, x, kernel_size, stride, padding)
    extra = _overhang(x, sizes, strides, pads) if ceil_mode else (0,) * rank
    if divisor is None and not any(extra):
        return wnp.avg_pool(x, sizes, strides, pads, count_include_pad)
    space = np.shape(x)[-rank:]
    mean = wnp.avg_pool(_padded(x, pads, extra, 0), sizes, strides)
    if divisor is None:
        counted = np.ones(space)
        counted = _padded(counted, pads, (0,) * rank, 1.0 if count_include_pad else 0.0)
        share = wnp.avg_pool(_padded(counted, (0,) * rank, extra, 0), sizes, strides)
        return mean / share.astype(mean.dtype)
    return mean * (float(np.prod(sizes)) / divisor)


def lp_pool(
    rank: int,
    input: Any,
    norm_type: float,
    kernel_size: Any,
    stride: Any = None,
    ceil_mode: bool = False,
) -> Any:
    """The sum of each window of (samples, channels, SPACE), of powers `norm_type`, and the root.

    >>> import numpy as np
    >>> lp_pool1d(np.array([[3.0, 4.0, 6.0, 8.0]]), 2, 2)
    array([[ 5., 10.]])
    """
    power = input**norm_type
    count = math.prod(numbers(f"lp_pool{rank}d", "kernel_size", kernel_size, rank))
    total = avg_pool(rank, power, kernel_size, stride, 0, ceil_mode) * float(count)
    nothing = total <= 0
    return wnp.where(nothing, 0.0, wnp.where(nothing, 1.0, total) ** (1.0 / norm_type))


def _arguments(
    name: str, rank: int, x: Any, kernel_size: Any, stride: Any, padding: Any
) -> tuple[Numbers, Numbers, Numbers]:
    """Sizes, strides and padding, one for each axis."""
    if len(np.shape(x)) not in (rank + 1, rank + 2):
        raise ShapeError(
            explain(
                name,
                f"got input of shape {np.shape(x)}, expected {rank + 2} axes, or {rank + 1} "
                "without samples",
            )
        )
    sizes = numbers(name, "kernel_size", kernel_size, rank)
    strides = sizes if stride is None else numbers(name, "stride", stride, rank)
    return sizes, strides, numbers(name, "padding", padding, rank)


def _overhang(x: Any, spans: Numbers, strides: Numbers, pads: Numbers) -> Numbers:
    """How far the last window reaches over the end when the number of windows is rounded up."""
    extra = []
    lengths = np.shape(x)[-len(spans) :]
    for n, span, stride, pad in zip(lengths, spans, strides, pads, strict=True):
        count = -(-(n + 2 * pad - span) // stride) + 1
        if (count - 1) * stride >= n + pad:
            count -= 1  # it would start beyond the input
        extra.append(max((count - 1) * stride + span - (n + 2 * pad), 0))
    return tuple(extra)


def _padded(x: Any, pads: Numbers, extra: Numbers, fill: float) -> Any:
    own = len(np.shape(x)) - len(pads)
    widths = [(pad, pad + more) for pad, more in zip(pads, extra, strict=True)]
    return wnp.pad(x, [(0, 0)] * own + widths, constant_values=fill)


max_pool1d, max_pool2d, max_pool3d = by_rank(max_pool)
max_unpool1d, max_unpool2d, max_unpool3d = by_rank(max_unpool)
avg_pool1d, avg_pool2d, avg_pool3d = by_rank(avg_pool)
lp_pool1d, lp_pool2d, lp_pool3d = by_rank(lp_pool)
