"""Windows over arrays: sliding windows, n-dimensional convolution, pooling.

Layouts and arguments are PyTorch's: arrays are (samples, channels, *space), kernels
(channels out, channels in / groups, *space); space has one axis or more, as the kernel says. The
sample axis may be left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ..errors import DTypeError, ShapeError, explain
from ..ops.contract import contract, normal_spec
from ..ops.indexing import embed, index, index_set
from ..ops.layout import permute, reduce_sum, reshape
from ..ops.reductions import reduce_max
from ..ops.windows import fold, window_positions, windows, windows_of
from ..trace.views import Views, read_only
from ..types import inexact_dtype, lowest, type_of
from .common import as_value, cast, normal_axis, shape

__all__ = ["avg_pool", "conv", "conv_transpose", "max_pool", "sliding_window_view"]

Numbers = tuple[int, ...]
Pads = list[tuple[int, int]]


def sliding_window_view(x: Any, window_shape: Any, axis: Any = None) -> Any:
    """``numpy.lib.stride_tricks.sliding_window_view``: a window at every position, as a view."""
    x = as_value(x)
    sizes = (window_shape,) if isinstance(window_shape, (int, np.integer)) else tuple(window_shape)
    rank = len(shape(x))
    given = range(rank) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
    axes = [normal_axis("sliding_window_view", item, rank) for item in given]
    if len(axes) != len(sizes):
        raise ShapeError(
            explain(
                "sliding_window_view",
                f"got {len(sizes)} window lengths for {len(axes)} axes of an array of shape "
                f"{shape(x)}",
                "Give one length for each axis, and name the axes with axis=.",
            )
        )
    for place, size in zip(axes, sizes, strict=True):
        # The new axis goes last; the one that it slides along stays where it was.
        order = [k for k in range(len(shape(x))) if k != place]
        base = permute(x, axes=(*order, place))
        made = windows_of(base, (int(size),))
        if isinstance(made, Views) and not made.made:  # whose views are NumPy's own
            made._view_of(
                base, windows, {"sizes": (int(size),), "strides": (1,), "dilations": (1,)}
            )
        x = permute(made, axes=(*_inserted(len(order), place), len(order) + 1))
    return read_only(x)


def _inserted(last: int, place: int) -> list[int]:
    """The permutation that moves axis `last` to `place`."""
    order = list(range(last))
    order.insert(place, last)
    return order


# ---------------------------------------------------------------- arguments


def _numbers(name: str, what: str, value: Any, rank: int, least: int) -> Numbers:
    """One integer for each axis of space; a single one counts for all."""
    given = (value,) * rank if isinstance(value, (int, np.integer)) else tuple(value)
    numbers = tuple(int(item) for item in given)
    if len(numbers) != rank or any(item < least for item in numbers):
        raise ShapeError(
            explain(
                name,
                f"got {what}={value!r}, expected an integer of at least {least}, or {rank} of them",
            )
        )
    return numbers


def _conv_arguments(name: str, x: Any, w: Any) -> tuple[Any, Any, int, bool]:
    """Both arrays, the number of axes of space, and whether the sample axis was added."""
    x, w = as_value(x), as_value(w)
    rank = len(shape(w)) - 2
    if rank < 1 or len(shape(x)) not in (rank + 1, rank + 2):
        raise ShapeError(
            explain(
                name,
                f"got an array of shape {shape(x)} and a kernel of shape {shape(w)}",
                "Expected (samples, channels, *space) and a kernel with as many axes.",
            )
        )
    single = len(shape(x)) == rank + 1
    return (reshape(x, shape=(1, *shape(x))) if single else x), w, rank, single


def _check_channels(name: str, x: Any, w: Any, per_group: int, groups: int, axis: int) -> None:
    channels = shape(x)[1]
    divides = groups >= 1 and channels % groups == 0 and shape(w)[0] % groups == 0
    if not divides or per_group * groups != channels:
        raise ShapeError(
            explain(
                name,
                f"got {channels} channels of an array of shape {shape(x)}, a kernel of shape "
                f"{shape(w)} and groups={groups}",
                f"Axis {axis} of the kernel must have the channels "
                + ("divided by the groups." if axis else "of the array, a multiple of the groups."),
            )
        )


def _conv_padding(padding: Any, spans: Numbers, strides: Numbers) -> Pads:
    if padding == "valid":
        return [(0, 0)] * len(spans)
    if padding == "same":
        if set(strides) != {1}:
            raise ShapeError(explain("conv", "padding='same' needs stride=1", "Give the numbers."))
        return [((span - 1) // 2, span - 1 - (span - 1) // 2) for span in spans]
    if isinstance(padding, str):
        raise DTypeError(
            explain("conv", f"got padding={padding!r}", "Use integers, 'same' or 'valid'.")
        )
    return [(n, n) for n in _numbers("conv", "padding", padding, len(spans), 0)]


def _placed(x: Any, pads: Pads, fill: Any = None) -> Any:
    """The last axes padded with zeros (or `fill`), or cut where the numbers are negative."""
    own = shape(x)
    leading = len(own) - len(pads)
    cut = [
        (max(-before, 0), length - max(-after, 0), 1)
        for (before, after), length in zip(pads, own[leading:], strict=True)
    ]
    front = [(0, length, 1) for length in own[:leading]]
    if any(min(pad) < 0 for pad in pads):
        x = index(x, key=(*front, *cut))
    if not any(max(pad) > 0 for pad in pads):
        return x
    places = []
    lengths = list(own[:leading])
    for (before, after), length in zip(pads, shape(x)[leading:], strict=True):
        start = max(before, 0)
        places.append((start, start + length, 1))
        lengths.append(start + length + max(after, 0))
    key, target = (*front, *places), tuple(lengths)
    if fill is None:
        return embed(x, key=key, shape=target)
    return index_set(np.full(target, fill, type_of(x).dtype), x, key=key)


# ---------------------------------------------------------------- convolution


def conv(
    x: Any, w: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
    """The n-dimensional convolution (without flipping the kernel) of (samples, channels, *space)
    with a kernel (channels out, channels in / groups, *space).

    `padding` is a number of zeros for each side, 'same' or 'valid'.

    >>> import numpy as np
    >>> conv(np.arange(5.0).reshape(1, 1, 5), np.array([[[1.0, 1.0]]]), stride=2)
    array([[[1., 5.]]])
    """
    x, w, rank, single = _conv_arguments("conv", x, w)
    _check_channels("conv", x, w, shape(w)[1], groups, axis=1)
    sizes = shape(w)[2:]
    strides = _numbers("conv", "stride", stride, rank, 1)
    dilations = _numbers("conv", "dilation", dilation, rank, 1)
    spans = tuple(d * (n - 1) + 1 for n, d in zip(sizes, dilations, strict=True))
    x = _placed(x, _conv_padding(padding, spans, strides))
    _check_fits("conv", shape(x), spans)
    patches = windows(x, sizes=sizes, strides=strides, dilations=dilations)
    result = _conv_product(patches, w, rank, groups)
    return reshape(result, shape=shape(result)[1:]) if single else result


def _check_fits(name: str, own: Numbers, spans: Numbers) -> None:
    if any(length < span for length, span in zip(own[-len(spans) :], spans, strict=True)):
        raise ShapeError(
            explain(
                name,
                f"a window that spans {spans} does not fit into the padded shape {own}",
                "Make the window or its dilation smaller, or the padding larger.",
            )
        )


def _conv_product(patches: Any, w: Any, rank: int, groups: int) -> Any:
    """Contract (samples, channels, *positions, *sizes) with the kernel."""
    samples, channels, *rest = shape(patches)
    out_channels = shape(w)[0]
    positions = tuple(range(4, 4 + rank))
    sizes = tuple(range(4 + rank, 4 + 2 * rank))
    sample, group, inside, out = (0,), (1,), (2,), (3,)
    if groups == 1:
        x_labels, w_labels = sample + inside + positions + sizes, out + inside + sizes
        spec = normal_spec(x_labels, w_labels, sample + out + positions)
        return contract(patches, w, spec=spec)
    patches = reshape(patches, shape=(samples, groups, channels // groups, *rest))
    w = reshape(w, shape=(groups, out_channels // groups, *shape(w)[1:]))
    x_labels, w_labels = sample + group + inside + positions + sizes, group + out + inside + sizes
    spec = normal_spec(x_labels, w_labels, sample + group + out + positions)
    result = contract(patches, w, spec=spec)
    return reshape(result, shape=(samples, out_channels, *rest[:rank]))


def conv_transpose(
    x: Any,
    w: Any,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """The transpose of `conv`: every element of (samples, channels, *space) lays down the kernel
    (channels in, channels out / groups, *space).

    >>> import numpy as np
    >>> conv_transpose(np.ones((1, 1, 3)), np.array([[[1.0, 2.0]]]), stride=2)
    array([[[1., 2., 1., 2., 1., 2.]]])
    """
    x, w, rank, single = _conv_arguments("conv_transpose", x, w)
    _check_channels("conv_transpose", x, w, shape(w)[0] // max(groups, 1), groups, axis=0)
    strides = _numbers("conv_transpose", "stride", stride, rank, 1)
    dilations = _numbers("conv_transpose", "dilation", dilation, rank, 1)
    pads = _numbers("conv_transpose", "padding", padding, rank, 0)
    extra = _numbers("conv_transpose", "output_padding", output_padding, rank, 0)
    patches = _transposed_product(x, w, rank, groups)
    sizes = shape(w)[2:]
    lengths = tuple(
        (n - 1) * s + d * (k - 1) + 1
        for n, s, d, k in zip(shape(x)[2:], strides, dilations, sizes, strict=True)
    )
    result = fold(patches, shape=lengths, strides=strides, dilations=dilations)
    result = _placed(result, [(-p, e - p) for p, e in zip(pads, extra, strict=True)])
    return reshape(result, shape=shape(result)[1:]) if single else result


def _transposed_product(x: Any, w: Any, rank: int, groups: int) -> Any:
    """The patches (samples, channels out, *positions, *sizes) that are laid down."""
    positions = tuple(range(4, 4 + rank))
    sizes = tuple(range(4 + rank, 4 + 2 * rank))
    if groups == 1:
        spec = normal_spec((0, 2, *positions), (2, 3, *sizes), (0, 3, *positions, *sizes))
        return contract(x, w, spec=spec)
    samples, channels, *space = shape(x)
    x = reshape(x, shape=(samples, groups, channels // groups, *space))
    w = reshape(w, shape=(groups, channels // groups, *shape(w)[1:]))
    spec = normal_spec((0, 1, 2, *positions), (1, 2, 3, *sizes), (0, 1, 3, *positions, *sizes))
    patches = contract(x, w, spec=spec)
    out_channels = groups * shape(w)[2]
    return reshape(patches, shape=(samples, out_channels, *space, *shape(w)[3:]))


# ---------------------------------------------------------------- pooling


def _pool_arguments(
    name: str, x: Any, size: Any, stride: Any, padding: Any, dilation: Any
) -> tuple[Any, Numbers, Numbers, Numbers, Numbers]:
    x = as_value(x)
    own = shape(x)
    rank = len(own) - 2 if isinstance(size, (int, np.integer)) else len(size)
    if rank < 1 or len(own) < rank:
        raise ShapeError(
            explain(
                name,
                f"got an array of shape {own} and size={size!r}",
                "Expected (samples, channels, *space), or one size for each axis of space.",
            )
        )
    sizes = _numbers(name, "size", size, rank, 1)
    strides = sizes if stride is None else _numbers(name, "stride", stride, rank, 1)
    pads = _numbers(name, "padding", padding, rank, 0)
    if any(2 * pad > n for pad, n in zip(pads, sizes, strict=True)):
        raise ShapeError(
            explain(
                name, f"got padding={pads} for size={sizes}", "At most half the size can be padded."
            )
        )
    return x, sizes, strides, pads, _numbers(name, "dilation", dilation, rank, 1)


def _pool_windows(
    name: str,
    x: Any,
    sizes: Numbers,
    strides: Numbers,
    pads: Numbers,
    dilations: Numbers,
    fill: Any = None,
) -> Any:
    x = _placed(x, [(pad, pad) for pad in pads], fill)
    spans = tuple(d * (n - 1) + 1 for n, d in zip(sizes, dilations, strict=True))
    _check_fits(name, shape(x), spans)
    return windows(x, sizes=sizes, strides=strides, dilations=dilations)


def _last_axes(x: Any, count: int) -> Numbers:
    rank = len(shape(x))
    return tuple(range(rank - count, rank))


def max_pool(x: Any, size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1) -> Any:
    """The largest element of each window; windows that do not fit at the end are dropped.

    An integer `size` counts for all axes after the first two, a tuple for the last axes. The
    stride is the size unless given. Of equal elements the first gets the derivative.

    >>> import numpy as np
    >>> max_pool(np.array([[[1.0, 3.0, 2.0, 5.0, 9.0]]]), 2)
    array([[[3., 5.]]])
    """
    arguments = _pool_arguments("max_pool", x, size, stride, padding, dilation)
    x, sizes, strides, pads, dilations = arguments
    fill = lowest(type_of(x).dtype)
    patches = _pool_windows("max_pool", x, sizes, strides, pads, dilations, fill)
    return reduce_max(patches, axes=_last_axes(patches, len(sizes)), ties="first")


def avg_pool(
    x: Any, size: Any, stride: Any = None, padding: Any = 0, count_include_pad: bool = True
) -> Any:
    """The mean of each window; windows that do not fit at the end are dropped.

    An integer `size` counts for all axes after the first two, a tuple for the last axes. The
    stride is the size unless given. Zeros of the padding count, unless `count_include_pad` is
    False.

    >>> import numpy as np
    >>> avg_pool(np.array([[[1.0, 3.0, 2.0, 5.0, 9.0]]]), 2)
    array([[[2. , 3.5]]])
    """
    x, sizes, strides, pads, ones = _pool_arguments("avg_pool", x, size, stride, padding, 1)
    dtype = inexact_dtype(type_of(x).dtype)
    space = shape(x)[len(shape(x)) - len(sizes) :]
    patches = _pool_windows("avg_pool", cast(x, dtype), sizes, strides, pads, ones)
    total = reduce_sum(patches, axes=_last_axes(patches, len(sizes)))
    if count_include_pad or not any(pads):
        return total / float(prod(sizes))
    return total / _counts(space, sizes, strides, pads).astype(dtype)


def _counts(space: Sequence[int], sizes: Numbers, strides: Numbers, pads: Numbers) -> np.ndarray:
    """How many elements of the array itself each window holds."""
    result = np.ones(())
    for length, size, stride, pad in zip(space, sizes, strides, pads, strict=True):
        (count,) = window_positions((length + 2 * pad,), (size,), (stride,), (1,))
        starts = np.arange(count) * stride - pad
        inside = np.minimum(starts + size, length) - np.maximum(starts, 0)
        result = np.multiply.outer(result, inside)
    return result
