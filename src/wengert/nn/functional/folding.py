"""Patches of images as columns, and other ways to move elements between space and channels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import numpy as wnp
from ...errors import ShapeError, explain
from ...transforms import vjp
from ...types import type_of
from ..choices import one_of
from .convolution import Numbers, numbers

__all__ = ["channel_shuffle", "fold", "pad", "pixel_shuffle", "pixel_unshuffle", "unfold"]


def unfold(
    input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Any:
    """The patches of (samples, channels, height, width) as columns: (samples, channels times
    places in a patch, patches).

    >>> import numpy as np
    >>> unfold(np.arange(6.0).reshape(1, 2, 3), 2)
    array([[0., 1.],
           [1., 2.],
           [3., 4.],
           [4., 5.]])
    """
    x, single = _with_samples("unfold", input, 4, "(samples, channels, height, width)")
    sizes, dilations, pads, strides = _sides("unfold", kernel_size, dilation, padding, stride)
    x = wnp.pad(x, [(0, 0), (0, 0), *((pad, pad) for pad in pads)])
    columns = _columns(x, sizes, dilations, strides)
    return wnp.squeeze(columns, 0) if single else columns


def _with_samples(name: str, x: Any, axes: int, expected: str) -> tuple[Any, bool]:
    """The input with its axis of samples, and whether that was added."""
    own = np.shape(x)
    if len(own) not in (axes - 1, axes):
        raise ShapeError(explain(name, f"got input of shape {own}, expected {expected}"))
    return (wnp.expand_dims(x, 0), True) if len(own) == axes - 1 else (x, False)


def _sides(name: str, *given: Any) -> list[Numbers]:
    names = ("kernel_size", "dilation", "padding", "stride")
    return [numbers(name, what, value, 2) for what, value in zip(names, given, strict=True)]


def _columns(x: Any, sizes: Numbers, dilations: Numbers, strides: Numbers) -> Any:
    samples, channels, *space = np.shape(x)
    spans = tuple(d * (n - 1) + 1 for n, d in zip(sizes, dilations, strict=True))
    if any(n < span for n, span in zip(space, spans, strict=True)):
        raise ShapeError(
            explain(
                "unfold",
                f"a patch that spans {spans} does not fit into the padded shape {np.shape(x)}",
                "Make the patch or its dilation smaller, or the padding larger.",
            )
        )
    windows = wnp.sliding_window_view(x, spans, axis=(2, 3))
    key = [slice(None, None, step) for step in (*strides, *dilations)]
    patches = windows[(slice(None), slice(None), *key)]
    moved = wnp.transpose(patches, (0, 1, 4, 5, 2, 3))
    places = np.shape(patches)[2:4]
    return wnp.reshape(moved, (samples, channels * math.prod(sizes), math.prod(places)))


def fold(
    input: Any,
    output_size: Any,
    kernel_size: Any,
    dilation: Any = 1,
    padding: Any = 0,
    stride: Any = 1,
) -> Any:
    """The transpose of `unfold`: columns laid down as patches, which add up where they overlap.

    >>> import numpy as np
    >>> fold(np.ones((4, 2)), (2, 3), 2)
    array([[[1., 2., 1.],
            [1., 2., 1.]]])
    """
    x, single = _with_samples("fold", input, 3, "(samples, elements of a patch, patches)")
    sizes, dilations, pads, strides = _sides("fold", kernel_size, dilation, padding, stride)
    lengths = numbers("fold", "output_size", output_size, 2)
    padded = tuple(n + 2 * pad for n, pad in zip(lengths, pads, strict=True))
    samples, rows, patches = np.shape(x)
    counts = [
        (n - d * (k - 1) - 1) // s + 1
        for n, d, k, s in zip(padded, dilations, sizes, strides, strict=True)
    ]
    if rows % math.prod(sizes) or patches != math.prod(counts):
        raise ShapeError(
            explain(
                "fold",
                f"got input of shape {np.shape(input)}, expected (samples, channels * "
                f"{math.prod(sizes)}, {math.prod(counts)}) for output_size={lengths} and "
                f"kernel_size={sizes}",
            )
        )
    empty = np.zeros((samples, rows // math.prod(sizes), *padded), type_of(x).dtype)
    _, lay_down = vjp(lambda image: _columns(image, sizes, dilations, strides), empty)
    (image,) = lay_down(x)
    key = [slice(pad, pad + n) for n, pad in zip(lengths, pads, strict=True)]
    image = image[(slice(None), slice(None), *key)]
    return wnp.squeeze(image, 0) if single else image


# ---------------------------------------------------------------- shuffling channels


def _divided(name: str, x: Any, length: int, factor: int, what: str) -> int:
    if factor < 1 or length % factor:
        raise ShapeError(
            explain(
                name,
                f"got input of shape {np.shape(x)}: {length} {what} are no multiple of {factor}",
            )
        )
    return length // factor


def pixel_shuffle(input: Any, upscale_factor: int) -> Any:
    """(..., channels * r * r, height, width) as (..., channels, height * r, width * r).

    >>> import numpy as np
    >>> pixel_shuffle(np.arange(4.0).reshape(4, 1, 1), 2)
    array([[[0., 1.],
            [2., 3.]]])
    """
    *lead, channels, height, width = np.shape(input)
    r = upscale_factor
    left = _divided("pixel_shuffle", input, channels, r * r, "channels")
    apart = wnp.reshape(input, (*lead, left, r, r, height, width))
    n = len(lead)
    moved = wnp.transpose(apart, (*range(n), n, n + 3, n + 1, n + 4, n + 2))
    return wnp.reshape(moved, (*lead, left, height * r, width * r))


def pixel_unshuffle(input: Any, downscale_factor: int) -> Any:
    """The inverse of `pixel_shuffle`.

    >>> import numpy as np
    >>> pixel_unshuffle(np.arange(4.0).reshape(1, 2, 2), 2).ravel()
    array([0., 1., 2., 3.])
    """
    *lead, channels, height, width = np.shape(input)
    r = downscale_factor
    rows = _divided("pixel_unshuffle", input, height, r, "rows")
    columns = _divided("pixel_unshuffle", input, width, r, "columns")
    apart = wnp.reshape(input, (*lead, channels, rows, r, columns, r))
    n = len(lead)
    moved = wnp.transpose(apart, (*range(n), n, n + 2, n + 4, n + 1, n + 3))
    return wnp.reshape(moved, (*lead, channels * r * r, rows, columns))


def channel_shuffle(input: Any, groups: int) -> Any:
    """The channels (axis 1) dealt out anew: the first of each group, then the second, and so on.

    >>> import numpy as np
    >>> channel_shuffle(np.arange(4.0).reshape(1, 4, 1, 1), 2).ravel()
    array([0., 2., 1., 3.])
    """
    samples, channels, *space = np.shape(input)
    size = _divided("channel_shuffle", input, channels, groups, "channels")
    apart = wnp.reshape(input, (samples, groups, size, *space))
    return wnp.reshape(wnp.swapaxes(apart, 1, 2), (samples, channels, *space))


# ---------------------------------------------------------------- borders

# PyTorch's names of what an array is continued with, and NumPy's
PADDING_MODES = {
    "constant": "constant", "zeros": "constant", "reflect": "reflect", "replicate": "edge",
    "circular": "wrap",
}  # fmt: skip


def pad(input: Any, pad: Any, mode: str = "constant", value: float | None = None) -> Any:
    """The last axes with a border: `pad` has the widths before and after the last axis, then
    those of the one before it, and so on; negative ones cut.

    `mode` is "constant" (`value`, by default 0), "reflect", "replicate" or "circular".

    >>> import numpy as np
    >>> pad(np.array([1.0, 2.0, 3.0]), (1, -1), value=9.0)
    array([9., 1., 2.])
    """
    one_of("pad", "mode", mode, PADDING_MODES)
    rank, own = len(np.shape(input)), np.shape(input)
    if len(pad) % 2 or len(pad) > 2 * rank:
        raise ShapeError(
            explain(
                "pad",
                f"got pad={tuple(pad)} for input of shape {own}",
                "Give two widths for each of the last axes, the last one first.",
            )
        )
    widths = [(int(a), int(b)) for a, b in zip(pad[-2::-2], pad[::-2], strict=True)]
    widths = [(0, 0)] * (rank - len(widths)) + widths
    key = tuple(slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(widths, own, strict=True))
    x = input[key] if any(min(pair) < 0 for pair in widths) else input
    widths = [(max(a, 0), max(b, 0)) for a, b in widths]
    if PADDING_MODES[mode] == "constant":
        return wnp.pad(x, widths, constant_values=0.0 if value is None else value)
    return wnp.pad(x, widths, mode=PADDING_MODES[mode])
