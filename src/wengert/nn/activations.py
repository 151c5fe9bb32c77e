"""Activations and dropout: layers without parameters."""

from __future__ import annotations

from typing import Any

from . import functional
from .choices import one_of
from .module import Module


class ReLU(Module):
    """The positive part.

    >>> import numpy as np
    >>> from wengert import nn
    >>> nn.ReLU()(np.array([-1.0, 2.0]))
    array([0., 2.])
    """

    def forward(self, input: Any) -> Any:
        """Element by element."""
        return functional.relu(input)


class LeakyReLU(Module):
    """`negative_slope` times what is negative, the rest as it is.

    >>> import numpy as np
    >>> from wengert import nn
    >>> nn.LeakyReLU(0.5)(np.array([-2.0, 3.0]))
    array([-1.,  3.])
    """

    def __init__(self, negative_slope: float = 0.01):
        self.negative_slope = negative_slope

    def forward(self, input: Any) -> Any:
        """Element by element."""
        return functional.leaky_relu(input, self.negative_slope)

    def extra_repr(self) -> str:
        """The slope."""
        return f"{self.negative_slope}"


class Tanh(Module):
    """The hyperbolic tangent.

    >>> import numpy as np
    >>> from wengert import nn
    >>> nn.Tanh()(np.array([0.0, 99.0]))
    array([0., 1.])
    """

    def forward(self, input: Any) -> Any:
        """Element by element."""
        return functional.tanh(input)


class Sigmoid(Module):
    """1 / (1 + exp(-x)).

    >>> import numpy as np
    >>> from wengert import nn
    >>> nn.Sigmoid()(np.array([0.0, 99.0]))
    array([0.5, 1. ])
    """

    def forward(self, input: Any) -> Any:
        """Element by element."""
        return functional.sigmoid(input)


class SiLU(Module):
    """x * sigmoid(x).

    >>> import numpy as np
    >>> from wengert import nn
    >>> nn.SiLU()(np.array([0.0, 99.0]))
    array([ 0., 99.])
    """

    def forward(self, input: Any) -> Any:
        """Element by element."""
        return functional.silu(input)


class GELU(Module):
    """x times the normal distribution function at x; `approximate` is "none" or "tanh".

    >>> import numpy as np
    >>> from wengert import nn
    >>> nn.GELU()(np.array([0.0, 99.0]))
    array([ 0., 99.])
    """

    def __init__(self, approximate: str = "none"):
        self.approximate = one_of("GELU", "approximate", approximate, ("none", "tanh"))

    def forward(self, input: Any) -> Any:
        """Element by element."""
        return functional.gelu(input, self.approximate)

    def extra_repr(self) -> str:
        """The approximation, where there is one."""
        return "" if self.approximate == "none" else f"approximate={self.approximate!r}"


class Softplus(Module):
    """log(1 + exp(x)).

    >>> import numpy as np
    >>> from wengert import nn
    >>> nn.Softplus()(np.array([-999.0, 99.0]))
    array([ 0., 99.])
    """

    def forward(self, input: Any) -> Any:
        """Element by element."""
        return functional.softplus(input)


class Softmax(Module):
    """Exponentials along the axis `dim`, scaled to the sum 1.

    >>> import numpy as np
    >>> from wengert import nn
    >>> nn.Softmax(dim=1)(np.zeros((1, 2)))
    array([[0.5, 0.5]])
    """

    def __init__(self, dim: int | None = None):
        self.dim = dim

    def forward(self, input: Any) -> Any:
        """Probabilities in the shape of the input."""
        return functional.softmax(input, self.dim)

    def extra_repr(self) -> str:
        """The axis."""
        return f"dim={self.dim}"


class LogSoftmax(Softmax):
    """The logarithm of `Softmax`.

    >>> import numpy as np
    >>> from wengert import nn
    >>> nn.LogSoftmax(dim=1)(np.array([[0.0, -999.0]]))
    array([[   0., -999.]])
    """

    def forward(self, input: Any) -> Any:
        """Log-probabilities in the shape of the input."""
        return functional.log_softmax(input, self.dim)


class Dropout(Module):
    """In training, zeros in random places with probability `p`; the rest grows by 1 / (1 - p).

    >>> import numpy as np
    >>> from wengert import nn
    >>> nn.Dropout(0.5).eval()(np.ones(3))
    array([1., 1., 1.])
    """

    def __init__(self, p: float = 0.5):
        self.p = p

    def forward(self, input: Any) -> Any:
        """Other zeros in each call, compiled too; the input itself in evaluation."""
        return functional.dropout(input, self.p, self.training)

    def extra_repr(self) -> str:
        """The probability."""
        return f"{self.p}"
