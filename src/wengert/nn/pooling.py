"""Pooling layers."""

from __future__ import annotations

from typing import Any

from . import functional
from .module import Module


class _Pool(Module):
    """The arguments that all of them have."""

    def __init__(self, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool):
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding, self.ceil_mode = padding, ceil_mode

    def extra_repr(self) -> str:
        """The size, and what is not as usual."""
        shown = f"{self.kernel_size}"
        if self.stride != self.kernel_size:
            shown += f", stride={self.stride}"
        usual = {"padding": 0, "dilation": 1, "ceil_mode": False, "count_include_pad": True}
        for name, value in usual.items():
            given = getattr(self, name, value)
            shown += "" if given == value else f", {name}={given}"
        return shown


class _MaxPool(_Pool):
    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
    ):
        super().__init__(kernel_size, stride, padding, ceil_mode)
        self.dilation = dilation


class MaxPool1d(_MaxPool):
    """The largest element of each window of (samples, channels, length).

    >>> import numpy as np
    >>> from wengert import nn
    >>> nn.MaxPool1d(2)(np.array([[[1.0, 3.0, 2.0, 0.0]]]))
    array([[[3., 2.]]])
    """

    def forward(self, input: Any) -> Any:
        """One element for each window."""
        return functional.max_pool1d(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode
        )


class MaxPool2d(_MaxPool):
    """The largest element of each window of (samples, channels, height, width).

    >>> import numpy as np
    >>> from wengert import nn
    >>> nn.MaxPool2d(2)(np.arange(16.0).reshape(1, 1, 4, 4))
    array([[[[ 5.,  7.],
             [13., 15.]]]])
    """

    def forward(self, input: Any) -> Any:
        """One element for each window."""
        return functional.max_pool2d(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode
        )


class AvgPool1d(_Pool):
    """The mean of each window of (samples, channels, length).

    >>> import numpy as np
    >>> from wengert import nn
    >>> nn.AvgPool1d(2)(np.array([[[1.0, 3.0, 2.0, 0.0]]]))
    array([[[2., 1.]]])
    """

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ):
        super().__init__(kernel_size, stride, padding, ceil_mode)
        self.count_include_pad = count_include_pad

    def forward(self, input: Any) -> Any:
        """One mean for each window."""
        return functional.avg_pool1d(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
            self.count_include_pad,
        )  # fmt: skip


class AvgPool2d(_Pool):
    """The mean of each window of (samples, channels, height, width).

    >>> import numpy as np
    >>> from wengert import nn
    >>> nn.AvgPool2d(2)(np.arange(16.0).reshape(1, 1, 4, 4))
    array([[[[ 2.5,  4.5],
             [10.5, 12.5]]]])
    """

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ):
        super().__init__(kernel_size, stride, padding, ceil_mode)
        self.count_include_pad, self.divisor_override = count_include_pad, divisor_override

    def forward(self, input: Any) -> Any:
        """One mean for each window."""
        return functional.avg_pool2d(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
            self.count_include_pad, self.divisor_override,
        )  # fmt: skip
