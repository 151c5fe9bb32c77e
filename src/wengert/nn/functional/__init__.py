"""What the layers compute, as plain functions: names, arguments and shapes are PyTorch's.

>>> import numpy as np
>>> from wengert.nn import functional as F
>>> F.relu(F.linear(np.ones((1, 3)), np.array([[1.0, 2.0, 3.0], [-1.0, 0.0, 0.0]])))
array([[6., 0.]])
"""

from ..losses import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cross_entropy,
    huber_loss,
    l1_loss,
    mse_loss,
    nll_loss,
    smooth_l1_loss,
)
from .activations import (
    elu,
    gelu,
    leaky_relu,
    log_softmax,
    relu,
    sigmoid,
    silu,
    softmax,
    softplus,
    tanh,
)
from .attention import scaled_dot_product_attention
from .convolution import conv1d, conv2d, conv_transpose2d
from .dropout import dropout
from .linear import embedding, linear, one_hot
from .normalization import batch_norm, layer_norm
from .pooling import avg_pool1d, avg_pool2d, max_pool1d, max_pool2d

__all__ = [
    "avg_pool1d", "avg_pool2d", "batch_norm", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "conv1d", "conv2d", "conv_transpose2d", "cross_entropy",
    "dropout", "elu", "embedding", "gelu", "huber_loss", "l1_loss", "layer_norm", "leaky_relu",
    "linear", "log_softmax", "max_pool1d", "max_pool2d", "mse_loss", "nll_loss", "one_hot",
    "relu", "scaled_dot_product_attention", "sigmoid", "silu", "smooth_l1_loss", "softmax",
    "softplus", "tanh",
]  # fmt: skip
