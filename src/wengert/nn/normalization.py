"""Layers that shift and scale to mean 0 and variance 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ..errors import ShapeError, explain
from . import functional
from .module import Module, Parameter, write


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


class _BatchNorm(Module):
    """What both have; the running statistics are buffers, updated in place by training."""

    ranks: ClassVar[tuple[int, ...]]
    running_mean: Any
    running_var: Any
    num_batches_tracked: Any

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        dtype: Any = np.float32,
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
            raise ShapeError(
                explain(
                    type(self).__name__,
                    f"got input of shape {shape}, expected {ranks} axes and "
                    f"{self.num_features} channels in axis 1",
                )
            )

    def extra_repr(self) -> str:
        """The number of channels."""
        return f"{self.num_features}"


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
