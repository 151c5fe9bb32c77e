"""Functions applied element by element, and softmax and its relatives."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import numpy as wnp
from ...errors import ShapeError, explain
from ...numpy import random
from ..choices import one_of
from ..seeding import next_key

__all__ = [
    "celu", "elu", "gelu", "glu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh",
    "leaky_relu", "log_softmax", "logsigmoid", "mish", "normalize", "prelu", "relu", "relu6",
    "rrelu", "selu", "sigmoid", "silu", "softmax", "softmax2d", "softmin", "softplus",
    "softshrink", "softsign", "tanh", "tanhshrink", "threshold",
]  # fmt: skip

relu, sigmoid, silu, tanh, elu = wnp.relu, wnp.sigmoid, wnp.silu, wnp.tanh, wnp.elu
logsigmoid = wnp.log_sigmoid

# Networks of layers with this activation keep mean 0 and variance 1 (Klambauer et al. 2017).
SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805


def gelu(input: Any, approximate: str = "none") -> Any:
    """``x`` times the normal distribution function at `x`; "tanh" is a faster approximation.

    >>> import numpy as np
    >>> gelu(np.array([0.0, 10.0]))
    array([ 0., 10.])
    """
    one_of("gelu", "approximate", approximate, ("none", "tanh"))
    return wnp.gelu(input, approximate=approximate == "tanh")


def leaky_relu(input: Any, negative_slope: float = 0.01) -> Any:
    """`input` where it is positive, elsewhere `negative_slope` times it.

    >>> import numpy as np
    >>> leaky_relu(np.array([-2.0, 3.0]), 0.5)
    array([-1.,  3.])
    """
    return wnp.where(input > 0, input, input * negative_slope)


def prelu(input: Any, weight: Any) -> Any:
    """`leaky_relu` with slopes that are learned: one, or one for each channel (axis 1).

    >>> import numpy as np
    >>> prelu(np.array([[-2.0, -2.0]]), np.array([0.5, 0.25]))
    array([[-1. , -0.5]])
    """
    own, slopes = np.shape(input), np.shape(weight)
    if slopes not in ((), (1,)):
        channels = own[1] if len(own) > 1 else 1
        if slopes != (channels,):
            raise ShapeError(
                explain(
                    "prelu",
                    f"got input of shape {own} and weight of shape {slopes}",
                    "Give one slope, or one for each channel in axis 1.",
                )
            )
        weight = wnp.reshape(weight, (-1, *(1,) * (len(own) - 2)))
    return wnp.where(input > 0, input, input * weight)


def rrelu(
    input: Any,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    key: Any = None,
) -> Any:
    """`leaky_relu` with random slopes in training, and their mean otherwise.

    >>> import numpy as np
    >>> rrelu(np.array([-2.0, 3.0]), 0.25, 0.75)
    array([-1.,  3.])
    """
    if not training:
        return leaky_relu(input, (lower + upper) / 2)
    dtype = np.float32 if input.dtype.itemsize <= 4 else np.float64
    key = next_key() if key is None else key
    slopes = random.uniform(key, np.shape(input), dtype=dtype, low=lower, high=upper)
    return wnp.where(input > 0, input, input * slopes.astype(input.dtype))


def celu(input: Any, alpha: float = 1.0) -> Any:
    """`elu` stretched by `alpha`, so that its derivative has no jump.

    >>> import numpy as np
    >>> celu(np.array([-200.0, 3.0]), 2.0)
    array([-2.,  3.])
    """
    return alpha * elu(input * (1.0 / alpha))


def selu(input: Any) -> Any:
    """A scaled `elu` that keeps mean 0 and variance 1 from layer to layer.

    >>> import numpy as np
    >>> selu(np.array([1.0])).round(4)
    array([1.0507])
    """
    return SELU_SCALE * elu(input, SELU_ALPHA)


def hardtanh(input: Any, min_val: float = -1.0, max_val: float = 1.0) -> Any:
    """`input`, but not below `min_val` or above `max_val`.

    >>> import numpy as np
    >>> hardtanh(np.array([-2.0, 0.5, 3.0]))
    array([-1. ,  0.5,  1. ])
    """
    # the derivative is 0 at both ends, as in PyTorch
    return wnp.where(input <= min_val, min_val, wnp.where(input >= max_val, max_val, input))


def relu6(input: Any) -> Any:
    """`relu`, but not above 6.

    >>> import numpy as np
    >>> relu6(np.array([-1.0, 2.0, 9.0]))
    array([0., 2., 6.])
    """
    return hardtanh(input, 0.0, 6.0)


def hardsigmoid(input: Any) -> Any:
    """A straight line from 0 at -3 to 1 at 3.

    >>> import numpy as np
    >>> hardsigmoid(np.array([-5.0, 0.0, 5.0]))
    array([0. , 0.5, 1. ])
    """
    return relu6(input + 3.0) * (1 / 6)


def hardswish(input: Any) -> Any:
    """``x * hardsigmoid(x)``.

    >>> import numpy as np
    >>> hardswish(np.array([-5.0, 3.0, 5.0]))
    array([-0.,  3.,  5.])
    """
    line = (input + 3.0) * (1 / 6)
    return input * wnp.where(input <= -3.0, 0.0, wnp.where(input >= 3.0, 1.0, line))


def hardshrink(input: Any, lambd: float = 0.5) -> Any:
    """`input`, but 0 where it is within `lambd` of 0.

    >>> import numpy as np
    >>> hardshrink(np.array([-1.0, 0.3]))
    array([-1.,  0.])
    """
    return wnp.where(wnp.abs(input) <= lambd, 0.0, input)


def softshrink(input: Any, lambd: float = 0.5) -> Any:
    """`input` moved towards 0 by `lambd`, and not beyond.

    >>> import numpy as np
    >>> softshrink(np.array([-1.0, 0.3]))
    array([-0.5,  0. ])
    """
    return wnp.where(wnp.abs(input) <= lambd, 0.0, input - lambd * wnp.sign(input))


def tanhshrink(input: Any) -> Any:
    """``x - tanh(x)``.

    >>> import numpy as np
    >>> tanhshrink(np.array([0.0, 99.0]))
    array([ 0., 98.])
    """
    return input - wnp.tanh(input)


def softsign(input: Any) -> Any:
    """``x / (1 + |x|)``.

    >>> import numpy as np
    >>> softsign(np.array([-1.0, 3.0]))
    array([-0.5 ,  0.75])
    """
    return input / (1.0 + wnp.abs(input))


def softplus(input: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    """``log(1 + exp(beta * x)) / beta``.

    Beyond a `threshold` of one's own it is `input` itself; the usual one is where that makes no
    difference in single precision, and needs no case here.

    >>> import numpy as np
    >>> softplus(np.array([-999.0, 99.0]))
    array([ 0., 99.])
    """
    scaled = input if beta == 1.0 else input * beta
    smooth = wnp.softplus(scaled)
    smooth = smooth if beta == 1.0 else smooth * (1.0 / beta)
    return smooth if threshold == 20.0 else wnp.where(scaled > threshold, input, smooth)


def mish(input: Any) -> Any:
    """``x * tanh(softplus(x))``.

    >>> import numpy as np
    >>> mish(np.array([0.0, 99.0]))
    array([ 0., 99.])
    """
    return input * wnp.tanh(wnp.softplus(input))


def threshold(input: Any, threshold: float, value: float) -> Any:
    """`input` where it is above the threshold, elsewhere `value`.

    >>> import numpy as np
    >>> threshold(np.array([0.5, 2.0]), 1.0, -1.0)
    array([-1.,  2.])
    """
    return wnp.where(input <= threshold, value, input)


def glu(input: Any, dim: int = -1) -> Any:
    """The first half of an axis times the sigmoid of the second.

    >>> import numpy as np
    >>> glu(np.array([4.0, 0.0]))
    array([2.])
    """
    length = np.shape(input)[dim]
    if length % 2:
        raise ShapeError(
            explain(
                "glu",
                f"got input of shape {np.shape(input)} and dim={dim}",
                "The axis is split in two halves: its length must be even.",
            )
        )
    first, second = wnp.split(input, 2, axis=dim)
    return first * sigmoid(second)


# ---------------------------------------------------------------- along an axis


def softmax(input: Any, dim: int | None = None) -> Any:
    """Exponentials along an axis, scaled to the sum 1.

    >>> import numpy as np
    >>> softmax(np.zeros((1, 4)), dim=1)
    array([[0.25, 0.25, 0.25, 0.25]])
    """
    return wnp.softmax(input, axis=_class_axis(input, dim))


def softmin(input: Any, dim: int | None = None) -> Any:
    """`softmax` of minus the input: the smallest gets most.

    >>> import numpy as np
    >>> softmin(np.array([0.0, 999.0]), dim=0)
    array([1., 0.])
    """
    return softmax(-input, dim)


def softmax2d(input: Any) -> Any:
    """`softmax` over the channels of (samples, channels, height, width).

    >>> import numpy as np
    >>> softmax2d(np.zeros((2, 1, 1)))
    array([[[0.5]],
    <BLANKLINE>
           [[0.5]]])
    """
    if len(np.shape(input)) not in (3, 4):
        raise ShapeError(
            explain(
                "softmax2d",
                f"got input of shape {np.shape(input)}, expected 4 axes, or 3 without samples",
            )
        )
    return softmax(input, -3)


def log_softmax(input: Any, dim: int | None = None) -> Any:
    """The logarithm of `softmax`, accurate where that is close to 0 or 1.

    >>> import numpy as np
    >>> log_softmax(np.array([0.0, -1000.0]), dim=0)
    array([    0., -1000.])
    """
    return wnp.log_softmax(input, axis=_class_axis(input, dim))


def _class_axis(input: Any, dim: int | None) -> int:
    """Without `dim`: the classes of (samples, classes), or of one sample."""
    return (0 if len(np.shape(input)) in (0, 1, 3) else 1) if dim is None else dim


def normalize(input: Any, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Any:
    """Vectors along an axis, divided by their norms, or by `eps` where that is larger.

    >>> import numpy as np
    >>> normalize(np.array([[3.0, 4.0]]))
    array([[0.6, 0.8]])
    """
    norm = wnp.linalg.norm(input, ord=p, axis=dim, keepdims=True)
    return input / wnp.maximum(norm, eps)
