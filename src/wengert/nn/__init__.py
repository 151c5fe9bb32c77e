"""Networks: modules, layers, losses and initialisers, with PyTorch's names and shapes.

>>> import numpy as np
>>> from wengert import nn
>>> model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
>>> loss = nn.mse_loss(model(np.ones((4, 2), np.float32)), np.zeros((4, 1), np.float32))
>>> loss.backward()
>>> model[0].weight.grad.shape
(8, 2)
"""

from . import functional, init
from .activations import (
    GELU,
    Dropout,
    LeakyReLU,
    LogSoftmax,
    ReLU,
    Sigmoid,
    SiLU,
    Softmax,
    Softplus,
    Tanh,
)
from .attention import MultiHeadAttention, MultiheadAttention
from .containers import ModuleList, Sequential
from .convolution import Conv1d, Conv2d, ConvTranspose2d
from .linear import Embedding, Flatten, Identity, Linear
from .losses import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cross_entropy,
    huber_loss,
    l1_loss,
    mse_loss,
    nll_loss,
    smooth_l1_loss,
)
from .module import Module, Parameter
from .normalization import BatchNorm1d, BatchNorm2d, LayerNorm
from .pooling import AvgPool1d, AvgPool2d, MaxPool1d, MaxPool2d
from .seeding import get_rng_state, manual_seed, set_rng_state

__all__ = [
    "GELU", "AvgPool1d", "AvgPool2d", "BatchNorm1d", "BatchNorm2d", "Conv1d", "Conv2d",
    "ConvTranspose2d", "Dropout", "Embedding", "Flatten", "Identity", "LayerNorm", "LeakyReLU",
    "Linear", "LogSoftmax", "MaxPool1d", "MaxPool2d", "Module", "ModuleList", "MultiHeadAttention",
    "MultiheadAttention", "Parameter", "ReLU", "Sequential", "SiLU", "Sigmoid", "Softmax",
    "Softplus", "Tanh", "binary_cross_entropy", "binary_cross_entropy_with_logits",
    "cross_entropy", "functional", "get_rng_state", "huber_loss", "init", "l1_loss", "manual_seed",
    "mse_loss", "nll_loss", "set_rng_state", "smooth_l1_loss",
]  # fmt: skip
