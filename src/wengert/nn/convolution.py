"""Convolution layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from .. import numpy as wnp
from ..errors import ShapeError, explain
from . import functional, init
from .choices import one_of
from .functional.convolution import WAYS, border, numbers
from .functional.folding import PADDING_MODES
from .module import Module, Parameter

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]

_MODES = ("zeros", "reflect", "replicate", "circular")


class _Convolution(Module):
    """What the convolutions share: arguments, parameters, printing."""

    rank: ClassVar[int]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        groups: int,
        bias: bool,
        dtype: Any,
        transposed: bool = False,
    ):
        name = type(self).__name__
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise ShapeError(
                explain(
                    name,
                    f"got {in_channels} channels in, {out_channels} out and groups={groups}",
                    "Both numbers of channels must be multiples of the groups.",
                )
            )
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size = numbers(name, "kernel_size", kernel_size, self.rank)
        self.stride = numbers(name, "stride", stride, self.rank)
        self.dilation = numbers(name, "dilation", dilation, self.rank)
        self.padding = (
            one_of(name, "padding", padding, ("same", "valid"))
            if isinstance(padding, str)
            else numbers(name, "padding", padding, self.rank)
        )
        first, second = (in_channels, out_channels) if transposed else (out_channels, in_channels)
        self.weight = Parameter(np.empty((first, second // groups, *self.kernel_size), dtype))
        self.bias = Parameter(np.empty(out_channels, dtype)) if bias else None
        init.default_(self.weight, self.bias)

    def extra_repr(self) -> str:
        """The sizes, and what is not as usual."""
        shown = [str(self.in_channels), str(self.out_channels)]
        shown.append(f"kernel_size={_short(self.kernel_size)}")
        usual = {"stride": 1, "padding": 0, "output_padding": 0, "dilation": 1, "groups": 1}
        for name, value in usual.items():
            given = _short(getattr(self, name, value))
            if given != value:
                shown.append(f"{name}={given!r}")
        return ", ".join(shown)


def _short(value: Any) -> Any:
    """One number for several equal ones."""
    return value[0] if isinstance(value, tuple) and len(set(value)) == 1 else value


class _Forward(_Convolution):
    """A convolution that is not transposed."""

    function: Callable[..., Any]  # of as many axes of space as there are

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        dtype: Any = np.float32,
        method: str = "auto",
    ):
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, dtype
        )
        name = type(self).__name__
        self.padding_mode = one_of(name, "padding_mode", padding_mode, _MODES)
        self.method = one_of(name, "method", method, ("auto", *WAYS))
        if padding == "same" and set(self.stride) != {1}:
            raise ShapeError(
                explain(name, f"got padding='same' with stride={stride!r}", "Give the numbers.")
            )

    def forward(self, input: Any) -> Any:
        """(samples, channels, space); the samples may be left out."""
        x, padding = self._continued(input)
        return self.function(
            x, self.weight, self.bias, self.stride, padding, self.dilation, self.groups, self.method
        )

    def _continued(self, input: Any) -> tuple[Any, Any]:
        """The input with its border, and the zeros that are still to be added."""
        if self.padding_mode == "zeros":
            return input, self.padding
        name = type(self).__name__
        widths = border(name, self.padding, self.kernel_size, self.dilation)
        own = len(np.shape(input)) - self.rank
        mode = PADDING_MODES[self.padding_mode]
        return wnp.pad(input, [(0, 0)] * own + widths, mode=mode), 0


class Conv1d(_Forward):
    """The convolution of (samples, channels, length); arguments as in `Conv2d`.

    >>> import numpy as np
    >>> from wengert import nn
    >>> nn.Conv1d(1, 4, 3, padding=1)(np.ones((2, 1, 8), np.float32)).shape
    (2, 4, 8)
    """

    rank = 1
    function = staticmethod(functional.conv1d)


class Conv2d(_Forward):
    """The convolution of (samples, channels, height, width).

    `padding` is a number for each side, "same" or "valid"; `padding_mode` says what the input is
    continued with: "zeros", "reflect", "replicate" or "circular". `method` is how the evaluated
    mode computes it: "auto", "direct", "im2col" or "fft"; compiled it makes no difference.

    >>> import numpy as np
    >>> from wengert import nn
    >>> nn.Conv2d(1, 6, 3)(np.ones((2, 1, 28, 28), np.float32)).shape
    (2, 6, 26, 26)
    """

    rank = 2
    function = staticmethod(functional.conv2d)


class Conv3d(_Forward):
    """The convolution of (samples, channels, depth, height, width); arguments as in `Conv2d`.

    >>> import numpy as np
    >>> from wengert import nn
    >>> nn.Conv3d(1, 2, 3)(np.ones((2, 1, 8, 8, 8), np.float32)).shape
    (2, 2, 6, 6, 6)
    """

    rank = 3
    function = staticmethod(functional.conv3d)


class _Transposed(_Convolution):
    """A transposed convolution, which makes images larger."""

    function: Callable[..., Any]  # of as many axes of space as there are

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        dtype: Any = np.float32,
    ):
        name = type(self).__name__
        padding = numbers(name, "padding", padding, self.rank)
        self.output_padding = numbers(name, "output_padding", output_padding, self.rank)
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, dtype,
            transposed=True,
        )  # fmt: skip

    def forward(self, input: Any, output_size: Any = None) -> Any:
        """(samples, channels, space); the samples may be left out.

        `output_size` chooses among the sizes that the transpose may have, instead of
        `output_padding`.
        """
        extra = self.output_padding
        if output_size is not None:
            extra = self._extra(np.shape(input)[-self.rank :], tuple(output_size)[-self.rank :])
        return self.function(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups,
            self.dilation,
        )  # fmt: skip

    def _extra(self, space: tuple[int, ...], wanted: tuple[int, ...]) -> tuple[int, ...]:
        sides = zip(space, self.stride, self.padding, self.dilation, self.kernel_size, strict=True)
        least = [(n - 1) * s - 2 * p + d * (k - 1) + 1 for n, s, p, d, k in sides]
        if len(wanted) != self.rank or any(
            not n <= w < n + s for n, w, s in zip(least, wanted, self.stride, strict=False)
        ):
            most = [n + s - 1 for n, s in zip(least, self.stride, strict=True)]
            raise ShapeError(
                explain(
                    type(self).__name__,
                    f"got output_size={wanted}, expected sizes from {least} to {most}",
                )
            )
        return tuple(w - n for w, n in zip(wanted, least, strict=True))


class ConvTranspose1d(_Transposed):
    """The transpose of `Conv1d`; weight (in, out / groups, length).

    >>> import numpy as np
    >>> from wengert import nn
    >>> nn.ConvTranspose1d(3, 1, 2, stride=2)(np.ones((2, 3, 4), np.float32)).shape
    (2, 1, 8)
    """

    rank = 1
    function = staticmethod(functional.conv_transpose1d)


class ConvTranspose2d(_Transposed):
    """The transpose of `Conv2d`; weight (in, out / groups, height, width).

    >>> import numpy as np
    >>> from wengert import nn
    >>> nn.ConvTranspose2d(3, 1, 2, stride=2)(np.ones((2, 3, 4, 4), np.float32)).shape
    (2, 1, 8, 8)
    """

    rank = 2
    function = staticmethod(functional.conv_transpose2d)


class ConvTranspose3d(_Transposed):
    """The transpose of `Conv3d`; weight (in, out / groups, depth, height, width).

    >>> import numpy as np
    >>> from wengert import nn
    >>> nn.ConvTranspose3d(3, 1, 2, stride=2)(np.ones((2, 3, 2, 2, 2), np.float32)).shape
    (2, 1, 4, 4, 4)
    """

    rank = 3
    function = staticmethod(functional.conv_transpose3d)
