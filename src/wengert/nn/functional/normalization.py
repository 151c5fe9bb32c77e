"""Shifting and scaling to mean 0 and variance 1, over one part of the axes or another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import numpy as wnp
from ...errors import ShapeError, explain
from ...transforms import stop_gradient
from ...types import type_of
from ..module import write

__all__ = [
    "batch_norm", "group_norm", "instance_norm", "layer_norm", "local_response_norm", "rms_norm",
]  # fmt: skip


def layer_norm(
    input: Any,
    normalized_shape: Sequence[int],
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
) -> Any:
    """The last axes shifted and scaled to mean 0 and variance 1, then ``* weight + bias``.

    >>> import numpy as np
    >>> layer_norm(np.array([[1.0, 3.0]]), (2,), eps=0.0)
    array([[-1.,  1.]])
    """
    axes = _last_axes("layer_norm", input, normalized_shape)
    return _affine(_standardised(input, *_moments(input, axes), eps), weight, bias)


def _last_axes(name: str, input: Any, normalized_shape: Sequence[int]) -> tuple[int, ...]:
    own, wanted = np.shape(input), tuple(normalized_shape)
    if not wanted or own[-len(wanted) :] != wanted:
        raise ShapeError(
            explain(
                name,
                f"got input of shape {own} and normalized_shape={wanted}",
                "The input must end in the normalized shape.",
            )
        )
    return tuple(range(len(own) - len(wanted), len(own)))


def rms_norm(
    input: Any, normalized_shape: Sequence[int], weight: Any = None, eps: float | None = None
) -> Any:
    """The last axes divided by the root of their mean square, then ``* weight``.

    `eps` is added to the mean square; unless given it is the distance from 1 to the next number.

    >>> import numpy as np
    >>> rms_norm(np.array([[3.0, 3.0]]), (2,), eps=0.0)
    array([[1., 1.]])
    """
    axes = _last_axes("rms_norm", input, normalized_shape)
    eps = float(np.finfo(type_of(input).dtype).eps) if eps is None else eps
    mean = wnp.mean(wnp.square(input), axis=axes, keepdims=True)
    return _affine(input * (1.0 / wnp.sqrt(mean + eps)), weight, None)


def group_norm(
    input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    """The channels (axis 1) of every sample in groups, each shifted and scaled to mean 0 and
    variance 1; then ``* weight + bias``, one for each channel.

    >>> import numpy as np
    >>> group_norm(np.array([[1.0, 3.0, 5.0, 9.0]]), 2, eps=0.0)
    array([[-1.,  1., -1.,  1.]])
    """
    own = np.shape(input)
    if len(own) < 2 or num_groups < 1 or own[1] % num_groups:
        raise ShapeError(
            explain(
                "group_norm",
                f"got input of shape {own} and num_groups={num_groups}",
                "The channels in axis 1 must be a multiple of the groups.",
            )
        )
    apart = wnp.reshape(input, (own[0], num_groups, own[1] // num_groups, *own[2:]))
    axes = tuple(range(2, len(own) + 1))
    result = wnp.reshape(_standardised(apart, *_moments(apart, axes), eps), own)
    return _affine(result, _per_channel(weight, own), _per_channel(bias, own))


def _per_channel(one: Any, shape: tuple[int, ...]) -> Any:
    return one if one is None else wnp.reshape(one, (1, -1) + (1,) * (len(shape) - 2))


def instance_norm(
    input: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """Every channel (axis 1) of every sample shifted and scaled to mean 0 and variance 1, then
    ``* weight + bias``.

    With `use_input_stats` mean and variance are those of the input, and the running ones, if
    there are any, move towards their means over the samples; otherwise these are used.

    >>> import numpy as np
    >>> instance_norm(np.array([[[1.0, 3.0]]]), eps=0.0)
    array([[[-1.,  1.]]])
    """
    own = np.shape(input)
    if use_input_stats:
        count = math.prod(own[2:])
        if count < 2:
            raise ShapeError(
                explain(
                    "instance_norm",
                    f"got input of shape {own}: one value for each channel has no variance",
                    "Give an input with more than one element of space.",
                )
            )
        mean, variance = _moments(input, tuple(range(2, len(own))))
        if running_mean is not None:
            unbiased = variance * (count / (count - 1))
            _move_towards(running_mean, wnp.mean(mean, axis=0), momentum)
            _move_towards(running_var, wnp.mean(unbiased, axis=0), momentum)
    else:
        mean, variance = (_per_channel(one, own) for one in (running_mean, running_var))
    result = _standardised(input, mean, variance, eps)
    return _affine(result, _per_channel(weight, own), _per_channel(bias, own))


def local_response_norm(
    input: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Any:
    """``x / (k + alpha * m) ** beta``, with `m` the mean of the squares of `size` channels around
    (axis 1).

    >>> import numpy as np
    >>> local_response_norm(np.array([[[1.0], [2.0]]]), 1, alpha=1.0, beta=1.0)
    array([[[0.5],
            [0.4]]])
    """
    own = np.shape(input)
    if len(own) < 3:
        raise ShapeError(
            explain(
                "local_response_norm",
                f"got input of shape {own}, expected (samples, channels, space)",
            )
        )
    widths = [(0, 0)] * len(own)
    widths[1] = (size // 2, (size - 1) // 2)
    around = wnp.moveaxis(wnp.pad(wnp.square(input), widths), 1, -1)
    mean = wnp.moveaxis(wnp.avg_pool(around, (size,), (1,)), -1, 1)
    return input / (k + alpha * mean) ** beta


def _moments(x: Any, axes: tuple[int, ...]) -> tuple[Any, Any]:
    """Mean and variance over some axes, which stay with length 1."""
    mean = wnp.mean(x, axis=axes, keepdims=True)
    return mean, wnp.mean(wnp.square(x - mean), axis=axes, keepdims=True)


def _standardised(x: Any, mean: Any, variance: Any, eps: float) -> Any:
    return (x - mean) * (1.0 / wnp.sqrt(variance + eps))


def _affine(x: Any, weight: Any, bias: Any) -> Any:
    x = x if weight is None else x * weight
    return x if bias is None else x + bias


def batch_norm(
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: Any = 0.1,
    eps: float = 1e-5,
) -> Any:
    """Every channel (axis 1) shifted and scaled to mean 0 and variance 1, then
    ``* weight + bias``.

    In training, or without running statistics, mean and variance are those of the batch, and the
    running ones (tensors) move towards them by the share `momentum`; otherwise these are used.

    >>> import numpy as np
    >>> batch_norm(np.array([[1.0], [3.0]]), None, None, training=True, eps=0.0)
    array([[-1.],
           [ 1.]])
    """
    own = np.shape(input)
    if training or running_mean is None:
        mean, variance = _batch_moments(input)
        if training and running_mean is not None:
            count = math.prod(own) // own[1]
            _move_towards(running_mean, mean, momentum)
            _move_towards(running_var, variance * (count / (count - 1)), momentum)
    else:
        mean, variance = (_per_channel(one, own) for one in (running_mean, running_var))
    result = _standardised(input, mean, variance, eps)
    return _affine(result, _per_channel(weight, own), _per_channel(bias, own))


def _batch_moments(x: Any) -> tuple[Any, Any]:
    own = np.shape(x)
    if math.prod(own) <= own[1]:
        raise ShapeError(
            explain(
                "batch_norm",
                f"got input of shape {own}: one value for each channel has no variance",
                "Give more than one sample in training, or call eval().",
            )
        )
    return _moments(x, (0, *range(2, len(own))))


def _move_towards(running: Any, now: Any, momentum: Any) -> None:
    now = stop_gradient(wnp.reshape(now, np.shape(running)))
    write(running, ((1 - momentum) * running + momentum * now).astype(running.dtype))
