"""Initial values, written into a parameter in place; the names end in an underscore.

Random ones draw from the stream that `nn.manual_seed` starts.

>>> import numpy as np
>>> from wengert import nn
>>> weight = nn.Parameter(np.zeros((3, 2)))
>>> nn.init.ones_(weight).numpy().sum()
np.float64(6.0)
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..errors import ShapeError, explain
from ..numpy import random
from ..tensor import no_grad
from .choices import one_of
from .seeding import next_key

__all__ = [
    "calculate_gain", "constant_", "glorot_normal_", "glorot_uniform_", "kaiming_normal_",
    "kaiming_uniform_", "normal_", "ones_", "trunc_normal_", "uniform_", "xavier_normal_",
    "xavier_uniform_", "zeros_",
]  # fmt: skip


def _fill(tensor: Any, values: Any) -> Any:
    with no_grad():
        tensor[...] = values
    return tensor


def _drawn(tensor: Any, distribution: Any, **arguments: Any) -> Any:
    """Numbers in the tensor's shape, in its precision where there is such a generator."""
    dtype = np.float32 if tensor.dtype.itemsize <= 4 else np.float64
    return distribution(next_key(), shape=tensor.shape, dtype=dtype, **arguments)


def constant_(tensor: Any, val: float) -> Any:
    """The same value everywhere.

    >>> constant_(np.zeros(2), 3.0)
    array([3., 3.])
    """
    return _fill(tensor, val)


def zeros_(tensor: Any) -> Any:
    """All zeros.

    >>> zeros_(np.ones(2))
    array([0., 0.])
    """
    return _fill(tensor, 0)


def ones_(tensor: Any) -> Any:
    """All ones.

    >>> ones_(np.zeros(2))
    array([1., 1.])
    """
    return _fill(tensor, 1)


def uniform_(tensor: Any, a: float = 0.0, b: float = 1.0) -> Any:
    """Uniform numbers in [a, b).

    >>> bool((uniform_(np.zeros(99), -1.0, 1.0) < 1.0).all())
    True
    """
    unit = _drawn(tensor, random.uniform)
    return _fill(tensor, a + (b - a) * unit)


def normal_(tensor: Any, mean: float = 0.0, std: float = 1.0) -> Any:
    """Normal numbers.

    >>> bool(normal_(np.zeros(99), mean=50.0).min() > 0)
    True
    """
    return _fill(tensor, mean + std * _drawn(tensor, random.normal))


def trunc_normal_(
    tensor: Any, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0
) -> Any:
    """Normal numbers between `a` and `b`.

    >>> bool(abs(trunc_normal_(np.zeros(99), std=5.0)).max() <= 2)
    True
    """
    lower, upper = (a - mean) / std, (b - mean) / std
    inside = _drawn(tensor, random.truncated_normal, lower=lower, upper=upper)
    return _fill(tensor, mean + std * inside)


def fans(tensor: Any) -> tuple[int, int]:
    """The number of inputs that an output sees, and of outputs that an input reaches.

    >>> import numpy as np
    >>> fans(np.zeros((6, 3, 5, 5)))
    (75, 150)
    """
    if len(tensor.shape) < 2:
        raise ShapeError(
            explain(
                "init",
                f"got a tensor of shape {tensor.shape}, expected at least two axes",
                "Use uniform_, normal_ or zeros_ for vectors.",
            )
        )
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def glorot_uniform_(tensor: Any, gain: float = 1.0) -> Any:
    """Uniform with the variance ``2 gain**2 / (fan_in + fan_out)`` (Glorot and Bengio, 2010).

    >>> bool(abs(glorot_uniform_(np.zeros((3, 3)))).max() <= 1)
    True
    """
    bound = gain * math.sqrt(6.0 / sum(fans(tensor)))
    return uniform_(tensor, -bound, bound)


def glorot_normal_(tensor: Any, gain: float = 1.0) -> Any:
    """Normal with the variance ``2 gain**2 / (fan_in + fan_out)`` (Glorot and Bengio, 2010).

    >>> glorot_normal_(np.zeros((3, 3))).shape
    (3, 3)
    """
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(fans(tensor))))


xavier_uniform_ = glorot_uniform_
xavier_normal_ = glorot_normal_

_GAINS = {
    "linear": 1.0,
    "conv1d": 1.0,
    "conv2d": 1.0,
    "conv_transpose2d": 1.0,
    "sigmoid": 1.0,
    "tanh": 5.0 / 3.0,
    "relu": math.sqrt(2.0),
    "selu": 0.75,
}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor by which weights grow to make up for what an activation takes away.

    >>> round(calculate_gain("relu") ** 2, 6)
    2.0
    """
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        return math.sqrt(2.0 / (1.0 + slope**2))
    return _GAINS[one_of("init", "nonlinearity", nonlinearity, (*_GAINS, "leaky_relu"))]


def _kaiming_std(tensor: Any, a: float, mode: str, nonlinearity: str) -> float:
    fan_in, fan_out = fans(tensor)
    one_of("init", "mode", mode, ("fan_in", "fan_out"))
    fan = fan_in if mode == "fan_in" else fan_out
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def kaiming_uniform_(
    tensor: Any, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu"
) -> Any:
    """Uniform with the variance ``gain**2 / fan`` (He and others, 2015).

    >>> bool(abs(kaiming_uniform_(np.zeros((3, 6)))).max() <= 1)
    True
    """
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound)


def kaiming_normal_(
    tensor: Any, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu"
) -> Any:
    """Normal with the variance ``gain**2 / fan`` (He and others, 2015).

    >>> kaiming_normal_(np.zeros((3, 3)), nonlinearity="relu").shape
    (3, 3)
    """
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity))


def default_(weight: Any, bias: Any = None) -> None:
    """What `Linear` and the convolutions start from: uniform within ``1 / sqrt(fan_in)``."""
    kaiming_uniform_(weight, math.sqrt(5.0))
    if bias is not None:
        bound = 1.0 / math.sqrt(fans(weight)[0])
        uniform_(bias, -bound, bound)
