"""Layer norm and batch norm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import numpy as wnp
from ...errors import ShapeError, explain
from ...transforms import stop_gradient
from ..module import write


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
    own, wanted = np.shape(input), tuple(normalized_shape)
    if not wanted or own[-len(wanted) :] != wanted:
        raise ShapeError(
            explain(
                "layer_norm",
                f"got input of shape {own} and normalized_shape={wanted}",
                "The input must end in the normalized shape.",
            )
        )
    axes = tuple(range(len(own) - len(wanted), len(own)))
    return _affine(_standardised(input, *_moments(input, axes), eps), weight, bias)


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
    form = (1, -1) + (1,) * (len(np.shape(input)) - 2)
    if training or running_mean is None:
        mean, variance = _batch_moments(input)
        if training and running_mean is not None:
            count = math.prod(np.shape(input)) // np.shape(input)[1]
            _move_towards(running_mean, mean, momentum)
            _move_towards(running_var, variance * (count / (count - 1)), momentum)
    else:
        mean, variance = (wnp.reshape(one, form) for one in (running_mean, running_var))
    weight, bias = (one if one is None else wnp.reshape(one, form) for one in (weight, bias))
    return _affine(_standardised(input, mean, variance, eps), weight, bias)


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
