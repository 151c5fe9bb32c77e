"""Convolutions, with a choice of ways to compute them while they are evaluated.

All ways give the same values, up to rounding, and derivatives follow from the operations that they
are written with:

- "auto": one operation over sliding windows, the one that is compiled; evaluated it is "im2col";
- "direct": a loop over the places of the kernel; each adds a shifted copy of the input times one
  slice of the kernel, and no patches are copied;
- "im2col": the patches under the kernel as the rows of a matrix, then one product of matrices;
- "fft": a product of Fourier transforms, for kernels about as large as the input.

Inside `jit` the choice is ignored: the compiler makes its own loops.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from ... import numpy as wnp
from ...errors import ShapeError, explain
from ...jit import is_tracing
from ...types import Function
from ..choices import one_of
from .ranks import by_rank

__all__ = ["conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"]

Numbers = tuple[int, ...]


def numbers(operation: str, name: str, value: Any, rank: int) -> Numbers:
    """One integer for each axis of space; a single one counts for all.

    >>> numbers("conv2d", "stride", 2, 2)
    (2, 2)
    """
    given = (value,) * rank if isinstance(value, (int, np.integer)) else tuple(value)
    if len(given) != rank:
        raise ShapeError(
            explain(operation, f"got {name}={value!r}, expected an integer or {rank} of them")
        )
    return tuple(int(item) for item in given)


def conv(
    rank: int,
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    method: str = "auto",
) -> Any:
    """The convolution of (samples, channels, SPACE) with a kernel of shape
    (channels out, channels in / groups, SPACE); the sample axis may be left out.

    `padding` is a number of zeros on each side, "same" or "valid"; `method` is how the evaluated
    mode computes it: "auto", "direct", "im2col" or "fft".

    >>> import numpy as np
    >>> conv2d(np.ones((1, 1, 3, 3)), np.ones((1, 1, 2, 2)), method="fft").round(6)
    array([[[[4., 4.],
             [4., 4.]]]])
    >>> conv1d(np.arange(5.0).reshape(1, 1, 5), np.ones((1, 1, 2)), stride=2)
    array([[[1., 5.]]])
    """
    name = f"conv{rank}d"
    one_of(name, "method", method, ("auto", *WAYS))
    strides = numbers(name, "stride", stride, rank)
    dilations = numbers(name, "dilation", dilation, rank)
    if method == "auto" or is_tracing():
        result = wnp.conv(input, weight, strides, padding, dilations, groups)
        return result if bias is None else result + _per_channel(bias, rank)
    single = len(np.shape(input)) == rank + 1
    x = wnp.expand_dims(input, 0) if single else input
    widths = border(name, padding, np.shape(weight)[2:], dilations)
    x = wnp.pad(x, [(0, 0), (0, 0), *widths])
    result = _by_group(WAYS[method], x, weight, strides, dilations, groups)
    result = wnp.squeeze(result, 0) if single else result
    return result if bias is None else result + _per_channel(bias, rank)


def _per_channel(bias: Any, rank: int) -> Any:
    return wnp.reshape(bias, (-1,) + (1,) * rank)


def border(name: str, padding: Any, sizes: Numbers, dilations: Numbers) -> list[tuple[int, int]]:
    """How much is added before and after each axis of space.

    >>> border("conv2d", "same", (3, 4), (1, 1))
    [(1, 1), (1, 2)]
    """
    if padding == "valid":
        return [(0, 0)] * len(sizes)
    if padding == "same":
        reach = [d * (n - 1) for n, d in zip(sizes, dilations, strict=True)]
        return [(total // 2, total - total // 2) for total in reach]
    return [(one, one) for one in numbers(name, "padding", padding, len(sizes))]


def _by_group(
    way: Function, x: Any, weight: Any, strides: Numbers, dilations: Numbers, groups: int
) -> Any:
    if groups == 1:
        return way(x, weight, strides, dilations)
    inputs, kernels = wnp.split(x, groups, axis=1), wnp.split(weight, groups, axis=0)
    parts = [way(*pair, strides, dilations) for pair in zip(inputs, kernels, strict=True)]
    return wnp.concatenate(parts, axis=1)


def _lengths(x: Any, weight: Any, strides: Numbers, dilations: Numbers) -> Numbers:
    """How many places the kernel has along each axis."""
    sizes = zip(np.shape(x)[2:], np.shape(weight)[2:], strides, dilations, strict=True)
    return tuple((n - d * (k - 1) - 1) // s + 1 for n, k, s, d in sizes)


def _shifts(
    x: Any, weight: Any, strides: Numbers, dilations: Numbers
) -> Iterator[tuple[Numbers, Any]]:
    """For each place in the kernel the part of the input that it meets."""
    lengths = _lengths(x, weight, strides, dilations)
    for place in product(*map(range, np.shape(weight)[2:])):
        starts = [k * d for k, d in zip(place, dilations, strict=True)]
        key = [
            slice(start, start + (n - 1) * s + 1, s)
            for start, n, s in zip(starts, lengths, strides, strict=True)
        ]
        yield place, x[(slice(None), slice(None), *key)]


def _direct(x: Any, weight: Any, strides: Numbers, dilations: Numbers) -> Any:
    total = None
    for place, part in _shifts(x, weight, strides, dilations):
        term = wnp.einsum("nc...,oc->no...", part, weight[(slice(None), slice(None), *place)])
        total = term if total is None else total + term
    return total


def _im2col(x: Any, weight: Any, strides: Numbers, dilations: Numbers) -> Any:
    samples, out_channels = np.shape(x)[0], np.shape(weight)[0]
    lengths = _lengths(x, weight, strides, dilations)
    patches = wnp.stack([part for _, part in _shifts(x, weight, strides, dilations)], axis=2)
    columns = wnp.reshape(patches, (samples, -1, int(np.prod(lengths))))
    result = wnp.matmul(wnp.reshape(weight, (out_channels, -1)), columns)
    return wnp.reshape(result, (samples, out_channels, *lengths))


def _fft(x: Any, weight: Any, strides: Numbers, dilations: Numbers) -> Any:
    """The correlation theorem; the kernel is spread out where it is dilated."""
    lengths = _lengths(x, weight, strides, dilations)
    space = np.shape(x)[2:]
    axes = tuple(range(2, 2 + len(space)))
    kernel = _spread_out(weight, dilations)
    far = wnp.fft.rfftn(x, s=space, axes=axes)
    near = wnp.fft.rfftn(kernel, s=space, axes=axes)
    correlation = wnp.einsum("nc...,oc...->no...", far, wnp.conj(near))
    result = wnp.fft.irfftn(correlation, s=space, axes=axes)
    key = [slice(0, (n - 1) * s + 1, s) for n, s in zip(lengths, strides, strict=True)]
    return result[(slice(None), slice(None), *key)]


def _spread_out(weight: Any, dilations: Numbers) -> Any:
    """The kernel with zeros between its elements."""
    for axis, dilation in enumerate(dilations, start=2):
        if dilation > 1:
            own = np.shape(weight)
            gaps = [(0, 0)] * (len(own) + 1)
            gaps[axis + 1] = (0, dilation - 1)
            padded = wnp.pad(wnp.expand_dims(weight, axis + 1), gaps)
            weight = wnp.reshape(padded, (*own[:axis], own[axis] * dilation, *own[axis + 1 :]))
            keep = [slice(None)] * len(own)
            keep[axis] = slice(0, (own[axis] - 1) * dilation + 1)
            weight = weight[tuple(keep)]
    return weight


WAYS: dict[str, Function] = {"direct": _direct, "im2col": _im2col, "fft": _fft}


def conv_transpose(
    rank: int,
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """The transpose of a convolution: each element of (samples, channels, SPACE) lays down the
    kernel, of shape (channels in, channels out / groups, SPACE).

    >>> import numpy as np
    >>> conv_transpose2d(np.ones((1, 1, 1, 2)), np.array([[[[1.0, 2.0]]]]), stride=2)
    array([[[[1., 2., 1., 2.]]]])
    """
    _check_output_padding(rank, output_padding, stride, dilation)
    result = wnp.conv_transpose(input, weight, stride, padding, output_padding, dilation, groups)
    return result if bias is None else result + _per_channel(bias, rank)


def _check_output_padding(rank: int, output_padding: Any, stride: Any, dilation: Any) -> None:
    """More than a stride or dilation would add places that nothing is laid on."""
    name = f"conv_transpose{rank}d"
    given = {"output_padding": output_padding, "stride": stride, "dilation": dilation}
    sides = [numbers(name, what, value, rank) for what, value in given.items()]
    if any(extra >= max(s, d) for extra, s, d in zip(*sides, strict=True)):
        raise ShapeError(
            explain(
                name,
                f"got output_padding={output_padding!r} with stride={stride!r} and "
                f"dilation={dilation!r}",
                "It must be smaller than the stride or the dilation.",
            )
        )


conv1d, conv2d, conv3d = by_rank(conv)
conv_transpose1d, conv_transpose2d, conv_transpose3d = by_rank(conv_transpose)
