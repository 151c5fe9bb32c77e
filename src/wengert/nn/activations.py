"""Activations and dropout."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import functional as f
from .applied import layer
from .module import Module, Parameter

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "SELU",
    "AlphaDropout",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Dropout3d",
    "FeatureAlphaDropout",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]  # fmt: skip

ReLU = layer("ReLU", f.relu, inplace=True)
ReLU6 = layer("ReLU6", f.relu6, inplace=True)
LeakyReLU = layer("LeakyReLU", f.leaky_relu, inplace=True)
RReLU = layer("RReLU", f.rrelu, inplace=True)
ELU = layer("ELU", f.elu, inplace=True)
CELU = layer("CELU", f.celu, inplace=True)
SELU = layer("SELU", f.selu, inplace=True)
GELU = layer("GELU", f.gelu)
GLU = layer("GLU", f.glu)
SiLU = layer("SiLU", f.silu, inplace=True)
Mish = layer("Mish", f.mish, inplace=True)
Tanh = layer("Tanh", f.tanh)
Sigmoid = layer("Sigmoid", f.sigmoid)
LogSigmoid = layer("LogSigmoid", f.logsigmoid)
Softplus = layer("Softplus", f.softplus)
Softsign = layer("Softsign", f.softsign)
Tanhshrink = layer("Tanhshrink", f.tanhshrink)
Softshrink = layer("Softshrink", f.softshrink)
Hardshrink = layer("Hardshrink", f.hardshrink)
Hardtanh = layer("Hardtanh", f.hardtanh, inplace=True)
Hardsigmoid = layer("Hardsigmoid", f.hardsigmoid, inplace=True)
Hardswish = layer("Hardswish", f.hardswish, inplace=True)
Threshold = layer("Threshold", f.threshold, inplace=True)
Softmax = layer("Softmax", f.softmax)
Softmax2d = layer("Softmax2d", f.softmax2d)
Softmin = layer("Softmin", f.softmin)
LogSoftmax = layer("LogSoftmax", f.log_softmax)

Dropout = layer("Dropout", f.dropout, inplace=True)
Dropout1d = layer("Dropout1d", f.dropout1d, inplace=True)
Dropout2d = layer("Dropout2d", f.dropout2d, inplace=True)
Dropout3d = layer("Dropout3d", f.dropout3d, inplace=True)
AlphaDropout = layer("AlphaDropout", f.alpha_dropout, inplace=True)
FeatureAlphaDropout = layer("FeatureAlphaDropout", f.feature_alpha_dropout, inplace=True)


class PReLU(Module):
    """`LeakyReLU` whose slope is learned: one, or one for each channel (axis 1).

    >>> import numpy as np
    >>> from wengert import nn
    >>> nn.PReLU()(np.array([-2.0, 3.0], np.float32))
    tensor([-0.5,  3. ], dtype=float32, requires_grad=True)
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25, dtype: Any = np.float32):
        self.num_parameters, self.init = num_parameters, init
        self.weight = Parameter(np.full(num_parameters, init, dtype))

    def forward(self, input: Any) -> Any:
        """Element by element."""
        return f.prelu(input, self.weight)

    def extra_repr(self) -> str:
        """The number of slopes."""
        return f"{self.num_parameters}"
