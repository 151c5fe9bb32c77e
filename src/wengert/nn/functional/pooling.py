"""Pooling: the largest or the mean element under a window that slides over the last axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import numpy as wnp
from ...errors import ShapeError, explain
from ...types import lowest, type_of
from .convolution import Numbers, numbers


def max_pool1d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Any:
    """The largest element of each window of (samples, channels, length); see `max_pool2d`.

    >>> import numpy as np
    >>> max_pool1d(np.array([[[1.0, 3.0, 2.0]]]), 2, ceil_mode=True)
    array([[[3., 2.]]])
    """
    return _max_pool("max_pool1d", 1, input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Any:
    """The largest element of each window of (samples, channels, height, width).

    The stride is the kernel size unless given. With `ceil_mode` a window that starts inside may
    reach over the end. Of equal elements the first gets the derivative.

    >>> import numpy as np
    >>> max_pool2d(np.arange(16.0).reshape(1, 1, 4, 4), 2)
    array([[[[ 5.,  7.],
             [13., 15.]]]])
    """
    return _max_pool("max_pool2d", 2, input, kernel_size, stride, padding, dilation, ceil_mode)


def _max_pool(
    name: str, rank: int, x: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
    ceil_mode: bool,
) -> Any:  # fmt: skip
    sizes, strides, pads = _arguments(name, rank, x, kernel_size, stride, padding)
    dilations = numbers(name, "dilation", dilation, rank)
    spans = tuple(d * (n - 1) + 1 for n, d in zip(sizes, dilations, strict=True))
    extra = _overhang(x, spans, strides, pads) if ceil_mode else (0,) * rank
    if any(extra):
        x = _padded(x, pads, extra, lowest(type_of(x).dtype))
        pads = (0,) * rank
    return wnp.max_pool(x, sizes, strides, pads, dilations)


def avg_pool1d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:
    """The mean of each window of (samples, channels, length); see `avg_pool2d`.

    >>> import numpy as np
    >>> avg_pool1d(np.array([[[1.0, 3.0, 2.0]]]), 2, ceil_mode=True)
    array([[[2., 2.]]])
    """
    return _avg_pool(
        "avg_pool1d", 1, input, kernel_size, stride, padding, ceil_mode, count_include_pad
    )


def avg_pool2d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """The mean of each window of (samples, channels, height, width).

    Zeros of the padding count unless `count_include_pad` is False; `divisor_override` divides the
    sums by another number. What reaches over the end in `ceil_mode` never counts.

    >>> import numpy as np
    >>> avg_pool2d(np.arange(16.0).reshape(1, 1, 4, 4), 2)
    array([[[[ 2.5,  4.5],
             [10.5, 12.5]]]])
    """
    return _avg_pool(
        "avg_pool2d", 2, input, kernel_size, stride, padding, ceil_mode, count_include_pad,
        divisor_override,
    )  # fmt: skip


def _avg_pool(
    name: str, rank: int, x: Any, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool,
    count_include_pad: bool, divisor: int | None = None,
) -> Any:  # fmt: skip
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
