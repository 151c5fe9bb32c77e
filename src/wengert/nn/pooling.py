"""Pooling, other sizes, borders, and patches."""

from __future__ import annotations

from typing import Any

from . import functional as f
from .applied import layer
from .functional.pooling import max_unpool
from .module import Module

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d",
    "ChannelShuffle", "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d",
    "ConstantPad2d", "ConstantPad3d", "Fold", "LPPool1d", "LPPool2d", "LPPool3d", "MaxPool1d",
    "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d", "PixelShuffle",
    "PixelUnshuffle", "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d",
    "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d", "Unfold", "Upsample",
    "UpsamplingBilinear2d", "UpsamplingNearest2d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip

# PyTorch's layers have the last two in another order than its functions
_MAX = ("kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode")

MaxPool1d = layer("MaxPool1d", f.max_pool1d, order=_MAX)
MaxPool2d = layer("MaxPool2d", f.max_pool2d, order=_MAX)
MaxPool3d = layer("MaxPool3d", f.max_pool3d, order=_MAX)
AvgPool1d = layer("AvgPool1d", f.avg_pool1d)
AvgPool2d = layer("AvgPool2d", f.avg_pool2d)
AvgPool3d = layer("AvgPool3d", f.avg_pool3d)
LPPool1d = layer("LPPool1d", f.lp_pool1d)
LPPool2d = layer("LPPool2d", f.lp_pool2d)
LPPool3d = layer("LPPool3d", f.lp_pool3d)
AdaptiveAvgPool1d = layer("AdaptiveAvgPool1d", f.adaptive_avg_pool1d)
AdaptiveAvgPool2d = layer("AdaptiveAvgPool2d", f.adaptive_avg_pool2d)
AdaptiveAvgPool3d = layer("AdaptiveAvgPool3d", f.adaptive_avg_pool3d)
AdaptiveMaxPool1d = layer("AdaptiveMaxPool1d", f.adaptive_max_pool1d)
AdaptiveMaxPool2d = layer("AdaptiveMaxPool2d", f.adaptive_max_pool2d)
AdaptiveMaxPool3d = layer("AdaptiveMaxPool3d", f.adaptive_max_pool3d)


class _MaxUnpool(Module):
    """What the inverses of max pooling share."""

    rank: int

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0):
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding

    def forward(self, input: Any, indices: Any, output_size: Any = None) -> Any:
        """What was pooled, the indices that came with it, and the size before."""
        return max_unpool(
            self.rank, input, indices, self.kernel_size, self.stride, self.padding, output_size
        )

    def extra_repr(self) -> str:
        """The size, and what is not as usual."""
        stride = "" if self.stride is None else f", stride={self.stride}"
        return f"{self.kernel_size}{stride}{f', padding={self.padding}' if self.padding else ''}"


class MaxUnpool1d(_MaxUnpool):
    """Puts the elements that `MaxPool1d(..., return_indices=True)` found back in their places.

    >>> import numpy as np
    >>> from wengert import nn
    >>> pooled, places = nn.MaxPool1d(2, return_indices=True)(np.array([[[1.0, 3.0, 2.0, 0.0]]]))
    >>> nn.MaxUnpool1d(2)(pooled, places)
    array([[[0., 3., 2., 0.]]])
    """

    rank = 1


class MaxUnpool2d(_MaxUnpool):
    """Puts the elements that `MaxPool2d(..., return_indices=True)` found back in their places.

    >>> import numpy as np
    >>> from wengert import nn
    >>> pooled, places = nn.MaxPool2d(2, return_indices=True)(np.ones((1, 2, 4, 4)))
    >>> nn.MaxUnpool2d(2)(pooled, places).shape
    (1, 2, 4, 4)
    """

    rank = 2


class MaxUnpool3d(_MaxUnpool):
    """Puts the elements that `MaxPool3d(..., return_indices=True)` found back in their places.

    >>> import numpy as np
    >>> from wengert import nn
    >>> pooled, places = nn.MaxPool3d(2, return_indices=True)(np.ones((1, 2, 4, 4, 4)))
    >>> nn.MaxUnpool3d(2)(pooled, places).shape
    (1, 2, 4, 4, 4)
    """

    rank = 3


# ---------------------------------------------------------------- other sizes

Upsample = layer(
    "Upsample", f.interpolate,
    order=("size", "scale_factor", "mode", "align_corners", "recompute_scale_factor"),
)  # fmt: skip
UpsamplingNearest2d = layer(
    "UpsamplingNearest2d", f.interpolate, order=("size", "scale_factor"), mode="nearest"
)
UpsamplingBilinear2d = layer(
    "UpsamplingBilinear2d", f.interpolate, order=("size", "scale_factor"), mode="bilinear",
    align_corners=True,
)  # fmt: skip

# ---------------------------------------------------------------- patches and channels

Unfold = layer("Unfold", f.unfold)
Fold = layer("Fold", f.fold)
PixelShuffle = layer("PixelShuffle", f.pixel_shuffle)
PixelUnshuffle = layer("PixelUnshuffle", f.pixel_unshuffle)
ChannelShuffle = layer("ChannelShuffle", f.channel_shuffle)

# ---------------------------------------------------------------- borders


class _Pad(Module):
    """What the borders share: a width for all sides, or one for each."""

    rank: int
    mode: str

    def __init__(self, padding: Any):
        several = isinstance(padding, (tuple, list))
        self.padding = tuple(padding) if several else (padding,) * (2 * self.rank)

    def forward(self, input: Any) -> Any:
        """The last axes with a border."""
        return f.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        """The widths."""
        return f"{self.padding}"


class _ConstantPad(_Pad):
    mode = "constant"

    def __init__(self, padding: Any, value: float):
        super().__init__(padding)
        self.value = value

    def forward(self, input: Any) -> Any:
        """The last axes with a border."""
        return f.pad(input, self.padding, self.mode, self.value)

    def extra_repr(self) -> str:
        """The widths and the value."""
        return f"{self.padding}, {self.value}"


def _pads(
    name: str, base: type[Module], mode: str, about: str
) -> tuple[type[Module], type[Module], type[Module]]:
    def pad(rank: int) -> type[Module]:
        text = (
            f"A border of {about} around the last {'axis' if rank == 1 else f'{rank} axes'}.\n\n"
            "    `padding` is a width for all sides, or those before and after the last axis, then "
            "those of\n    the one before it, and so on.\n    "
        )
        body = {"__doc__": text, "__module__": "wengert.nn", "rank": rank, "mode": mode}
        return type(f"{name}Pad{rank}d", (base,), body)

    return pad(1), pad(2), pad(3)


ConstantPad1d, ConstantPad2d, ConstantPad3d = _pads(
    "Constant", _ConstantPad, "constant", "one value"
)
ZeroPad1d, ZeroPad2d, ZeroPad3d = _pads("Zero", _Pad, "constant", "zeros")
ReflectionPad1d, ReflectionPad2d, ReflectionPad3d = _pads(
    "Reflection", _Pad, "reflect", "the elements mirrored at the last one"
)
ReplicationPad1d, ReplicationPad2d, ReplicationPad3d = _pads(
    "Replication", _Pad, "replicate", "the last element"
)
CircularPad1d, CircularPad2d, CircularPad3d = _pads(
    "Circular", _Pad, "circular", "the elements of the other end"
)
