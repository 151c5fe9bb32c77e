"""Layers that shift and scale to mean 0 and variance 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from .. import numpy as wnp
from ..errors import ShapeError, explain
from . import functional
from .applied import layer
from .module import Module, Parameter, write

__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "GroupNorm", "InstanceNorm1d",
    "InstanceNorm2d", "InstanceNorm3d", "LayerNorm", "LocalResponseNorm", "RMSNorm",
]  # fmt: skip


class LayerNorm(Module):
    """The last axes of every sample shifted and scaled, then ``* weight + bias``.

    >>> import numpy as np
    >>> from wengert import nn
    >>> nn.LayerNorm(2)(np.array([[1.0, 3.0]], np.float32)).numpy().round(3)
    array([[-1.,  1.]], dtype=float32)
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        dtype: Any = np.float32,
    ):
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else normalized_shape
        self.normalized_shape, self.eps = tuple(shape), eps
        ones, zeros = np.ones(self.normalized_shape, dtype), np.zeros(self.normalized_shape, dtype)
        self.weight = Parameter(ones) if elementwise_affine else None
        self.bias = Parameter(zeros) if elementwise_affine and bias else None

    def forward(self, input: Any) -> Any:
        """(..., *normalized_shape)."""
        return functional.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """The shape."""
        return ", ".join(map(str, self.normalized_shape))


class RMSNorm(Module):
    """The last axes of every sample divided by the root of their mean square, then ``* weight``.

    >>> import numpy as np
    >>> from wengert import nn
    >>> nn.RMSNorm(2)(np.array([[3.0, 3.0]], np.float32)).numpy().round(3)
    array([[1., 1.]], dtype=float32)
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        dtype: Any = np.float32,
    ):
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else normalized_shape
        self.normalized_shape, self.eps = tuple(shape), eps
        ones = np.ones(self.normalized_shape, dtype)
        self.weight = Parameter(ones) if elementwise_affine else None

    def forward(self, input: Any) -> Any:
        """(..., *normalized_shape)."""
        return functional.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """The shape."""
        return ", ".join(map(str, self.normalized_shape))


class GroupNorm(Module):
    """Groups of channels of every sample shifted and scaled, then ``* weight + bias``.

    >>> import numpy as np
    >>> from wengert import nn
    >>> nn.GroupNorm(2, 6)(np.ones((2, 6, 4, 4), np.float32)).shape
    (2, 6, 4, 4)
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        dtype: Any = np.float32,
    ):
        if num_groups < 1 or num_channels % num_groups:
            raise ShapeError(
                explain(
                    "GroupNorm",
                    f"got num_groups={num_groups} and num_channels={num_channels}",
                    "The channels must be a multiple of the groups.",
                )
            )
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        self.affine = affine
        self.weight = Parameter(np.ones(num_channels, dtype)) if affine else None
        self.bias = Parameter(np.zeros(num_channels, dtype)) if affine else None

    def forward(self, input: Any) -> Any:
        """(samples, channels, ...)."""
        return functional.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """The groups and the channels."""
        return f"{self.num_groups}, {self.num_channels}"


LocalResponseNorm = layer("LocalResponseNorm", functional.local_response_norm)


class _RunningNorm(Module):
    """A weight and a bias for each channel; the running statistics are buffers, updated in place
    by training.
    """

    ranks: ClassVar[tuple[int, ...]]
    running_mean: Any
    running_var: Any
    num_batches_tracked: Any

    def __init__(
        self,
        num_features: int,
        eps: float,
        momentum: float | None,
        affine: bool,
        track_running_stats: bool,
        dtype: Any,
    ):
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        ones, zeros = np.ones(num_features, dtype), np.zeros(num_features, dtype)
        self.weight = Parameter(ones) if affine else None
        self.bias = Parameter(zeros) if affine else None
        self.register_buffer("running_mean", zeros if track_running_stats else None)
        self.register_buffer("running_var", ones if track_running_stats else None)
        batches = np.array(0, np.int64) if track_running_stats else None
        self.register_buffer("num_batches_tracked", batches)

    def _wrong(self, shape: tuple[int, ...], expected: str) -> ShapeError:
        return ShapeError(
            explain(type(self).__name__, f"got input of shape {shape}, expected {expected}")
        )

    def extra_repr(self) -> str:
        """The number of channels."""
        return f"{self.num_features}"


class _BatchNorm(_RunningNorm):
    """Mean and variance of each channel over all samples."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        dtype: Any = np.float32,
    ):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, dtype)

    def forward(self, input: Any) -> Any:
        """Statistics of the batch in training, the running ones in evaluation."""
        self._check(np.shape(input))
        tracking = self.training and self.num_batches_tracked is not None
        momentum: Any = self.momentum
        if tracking:
            write(self.num_batches_tracked, self.num_batches_tracked + 1)
            if momentum is None:  # the mean over all batches
                dtype = self.running_mean.dtype
                momentum = 1 / self.num_batches_tracked.astype(dtype)
        return functional.batch_norm(
            input, self.running_mean, self.running_var, self.weight, self.bias, self.training,
            momentum, self.eps,
        )  # fmt: skip

    def _check(self, shape: tuple[int, ...]) -> None:
        if len(shape) not in self.ranks or shape[1] != self.num_features:
            ranks = " or ".join(map(str, self.ranks))
            raise self._wrong(shape, f"{ranks} axes and {self.num_features} channels in axis 1")


class BatchNorm1d(_BatchNorm):
    """Every channel of (samples, channels) or (samples, channels, length) shifted and scaled.

    >>> import numpy as np
    >>> from wengert import nn
    >>> layer = nn.BatchNorm1d(1)
    >>> layer(np.array([[1.0], [3.0]], np.float32)).numpy().round(3).ravel()
    array([-1.,  1.], dtype=float32)
    >>> layer.running_mean
    tensor([0.2], dtype=float32)
    """

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Every channel of (samples, channels, height, width) shifted and scaled.

    >>> import numpy as np
    >>> from wengert import nn
    >>> nn.BatchNorm2d(3)(np.ones((2, 3, 4, 4), np.float32)).shape
    (2, 3, 4, 4)
    """

    ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """Every channel of (samples, channels, depth, height, width) shifted and scaled.

    >>> import numpy as np
    >>> from wengert import nn
    >>> nn.BatchNorm3d(3)(np.ones((2, 3, 4, 4, 4), np.float32)).shape
    (2, 3, 4, 4, 4)
    """

    ranks = (5,)


class _InstanceNorm(_RunningNorm):
    """Mean and variance of each channel of each sample."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        dtype: Any = np.float32,
    ):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, dtype)

    def forward(self, input: Any) -> Any:
        """Statistics of the sample, or in evaluation the running ones, if there are any."""
        shape = np.shape(input)
        (rank,) = self.ranks
        single = len(shape) == rank - 1
        if len(shape) not in (rank - 1, rank) or shape[1 - single] != self.num_features:
            raise self._wrong(
                shape,
                f"{rank} axes, or {rank - 1} without samples, and {self.num_features} channels",
            )
        x = wnp.expand_dims(input, 0) if single else input
        result = functional.instance_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias,
            self.training or not self.track_running_stats, self.momentum or 0.0, self.eps,
        )  # fmt: skip
        return wnp.squeeze(result, 0) if single else result


class InstanceNorm1d(_InstanceNorm):
    """Every channel of every sample of (samples, channels, length) shifted and scaled.

    >>> import numpy as np
    >>> from wengert import nn
    >>> nn.InstanceNorm1d(1, eps=0.0)(np.array([[[1.0, 3.0]]]))
    array([[[-1.,  1.]]])
    """

    ranks = (3,)


class InstanceNorm2d(_InstanceNorm):
    """Every channel of every sample of (samples, channels, height, width) shifted and scaled.

    >>> import numpy as np
    >>> from wengert import nn
    >>> nn.InstanceNorm2d(3)(np.ones((2, 3, 4, 4))).shape
    (2, 3, 4, 4)
    """

    ranks = (4,)


class InstanceNorm3d(_InstanceNorm):
    """Every channel of every sample of (samples, channels, depth, height, width) shifted and
    scaled.

    >>> import numpy as np
    >>> from wengert import nn
    >>> nn.InstanceNorm3d(3)(np.ones((2, 3, 4, 4, 4))).shape
    (2, 3, 4, 4, 4)
    """

    ranks = (5,)
