"""Functions applied element by element, and softmax."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import numpy as wnp
from ..choices import one_of

relu, sigmoid, silu, softplus = wnp.relu, wnp.sigmoid, wnp.silu, wnp.softplus
tanh, elu = wnp.tanh, wnp.elu


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


def softmax(input: Any, dim: int | None = None) -> Any:
    """Exponentials along an axis, scaled to the sum 1.

    >>> import numpy as np
    >>> softmax(np.zeros((1, 4)), dim=1)
    array([[0.25, 0.25, 0.25, 0.25]])
    """
    return wnp.softmax(input, axis=_class_axis(input, dim))


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
