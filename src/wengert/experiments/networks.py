"""The networks of the papers, and how their weights begin."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

import wengert.numpy as wnp
from wengert import nn

IMAGE_PIXELS = 28 * 28
CLASSES = 10


def cnn(method: str = "auto") -> nn.Sequential:
    """Two convolutions of 3 x 3, each with a max pool, and two dense layers: 36,262 weights.

    Max pooling drops the odd edge: 26 -> 13 -> 11 -> 5 pixels a side, 16 channels, 400 numbers.
    """
    return nn.Sequential(
        nn.Conv2d(1, 6, 3, method=method),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 3, method=method),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 84),
        nn.ReLU(),
        nn.Linear(84, CLASSES),
    )


class UnrolledRNN(nn.Module):
    """One recurrent layer, unrolled over `steps` pieces of an image, and one dense layer.

    The recurrent layer has three parameters: the weights of the input, those of the hidden state,
    and a bias. Every step is a part of the graph: backpropagation through time is reverse mode.

    >>> UnrolledRNN(steps=4)(np.zeros((2, 1, 28, 28), np.float32)).shape
    (2, 10)
    """

    def __init__(self, steps: int = 4, hidden: int = 64):
        if IMAGE_PIXELS % steps:
            raise ValueError(f"{IMAGE_PIXELS} pixels cannot be cut into {steps} equal steps")
        self.steps = steps
        self.size = IMAGE_PIXELS // steps
        self.input_weight = nn.Parameter(np.zeros((hidden, self.size)), dtype=np.float32)
        self.hidden_weight = nn.Parameter(np.zeros((hidden, hidden)), dtype=np.float32)
        self.recurrent_bias = nn.Parameter(np.zeros(hidden), dtype=np.float32)
        self.dense = nn.Linear(hidden, CLASSES)

    def forward(self, images: Any) -> Any:
        """Class scores of a batch of images."""
        pieces = wnp.reshape(images, (len(images), self.steps, self.size))
        state = wnp.tanh(pieces[:, 0] @ self.input_weight.T + self.recurrent_bias)
        for step in range(1, self.steps):
            mixed = pieces[:, step] @ self.input_weight.T + state @ self.hidden_weight.T
            state = wnp.tanh(mixed + self.recurrent_bias)
        return self.dense(state)


ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "tanh": nn.Tanh,
    "relu": nn.ReLU,
    "sigmoid": nn.Sigmoid,
}


def circle_network(name: str, hidden: int = 25) -> nn.Sequential:
    """Three hidden layers; ``tanh``, ``relu clipped``, ...: clipped ends in a sigmoid."""
    activation, _, clipped = name.partition(" ")
    sizes = (2, hidden, hidden, hidden)
    layers: list[nn.Module] = []
    for before, after in pairwise(sizes):
        layers += [nn.Linear(before, after), ACTIVATIONS[activation]()]
    layers.append(nn.Linear(hidden, 1))
    return nn.Sequential(*layers, *([nn.Sigmoid()] if clipped else []))


INITIALISERS: dict[str, Callable[[Any], Any]] = {
    "glorot": nn.init.glorot_uniform_,
    "kaiming": nn.init.kaiming_uniform_,
    "normal": nn.init.normal_,
}


def initialise(model: nn.Module, scheme: str, seed: int) -> nn.Module:
    """Draw the weights anew by a scheme, from a seed; biases become zero."""
    nn.manual_seed(seed)
    for parameter in model.parameters():
        draw = nn.init.zeros_ if parameter.ndim == 1 else INITIALISERS[scheme]
        draw(parameter)
    return model


# How a job names a network: it must travel to another process as JSON.
BUILDERS: dict[str, Callable[..., nn.Module]] = {"cnn": cnn, "rnn": UnrolledRNN}


def build(network: dict[str, Any], seed: int) -> nn.Module:
    """The network of a job, such as ``{"kind": "cnn", "scheme": "kaiming"}``."""
    options = {key: value for key, value in network.items() if key not in ("kind", "scheme")}
    return initialise(BUILDERS[network["kind"]](**options), network["scheme"], seed)
