"""Pooling, its inverse, and other sizes."""

from __future__ import annotations

from typing import Any

from . import functional as f
from .applied import layer
from .functional.pooling import max_unpool
from .module import Module

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "LPPool1d",
    "LPPool2d", "LPPool3d", "MaxPool1d", "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d",
    "MaxUnpool3d", "Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d",
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
