"""What the parameters of an estimator name: the network, its optimizer, its loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from .. import nn, optim
from .. import numpy as wnp
from ..errors import DTypeError, OptionError, ShapeError, explain
from ..tensor import no_grad
from ..transforms import vmap

Activation = str | Callable[[], nn.Module]
Loss = Callable[[Any, Any], Any]

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "logistic": nn.Sigmoid,
    "sigmoid": nn.Sigmoid,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "identity": nn.Identity,
}
OPTIMIZERS: dict[str, Callable[..., optim.Optimizer]] = {
    "adam": optim.Adam,
    "adamw": optim.AdamW,
    "rmsprop": optim.RMSprop,
    "sgd": lambda parameters, **options: optim.SGD(parameters, momentum=0.9, **options),
}
CLASS_LOSSES: dict[str, Loss] = {
    "auto": nn.cross_entropy,
    "cross_entropy": nn.cross_entropy,
}
NUMBER_LOSSES: dict[str, Loss] = {
    "auto": nn.mse_loss,
    "squared_error": nn.mse_loss,
    "absolute_error": nn.l1_loss,
    "huber": nn.huber_loss,
}


def chosen(estimator: str, name: str, given: Any, known: Mapping[str, Any]) -> Any:
    """What a word stands for; what can be called stands for itself.

    >>> chosen("Regressor", "loss", "huber", NUMBER_LOSSES).__name__
    'huber_loss'
    """
    if callable(given):
        return given
    if not isinstance(given, str) or given not in known:
        words = ", ".join(map(repr, known))
        problem = f"got {name}={given!r}"
        raise OptionError(explain(estimator, problem, f"Use one of {words}, or a function."))
    return known[given]


def perceptron(
    estimator: str, features: int, outputs: int, hidden: Any, activation: Activation, dtype: Any
) -> nn.Module:
    """Linear layers with an activation between them.

    >>> perceptron("Classifier", 4, 3, (8,), "tanh", np.float32)
    Sequential                                             67 parameters
      0: Linear(4, 8)    weight f32[8,4], bias f32[8]    40
      1: Tanh()
      2: Linear(8, 3)    weight f32[3,8], bias f32[3]    27
    """
    made = chosen(estimator, "activation", activation, ACTIVATIONS)
    sizes = [features, *_sizes(estimator, hidden), outputs]
    layers: list[nn.Module] = []
    for before, after in pairwise(sizes):
        layers += [nn.Linear(before, after, dtype=dtype), made()]
    return nn.Sequential(*layers[:-1])


def _sizes(estimator: str, hidden: Any) -> list[int]:
    given = [hidden] if isinstance(hidden, (int, np.integer)) else list(hidden)
    if any(not isinstance(size, (int, np.integer)) or size < 1 for size in given):
        raise OptionError(
            explain(
                estimator,
                f"got hidden_layer_sizes={hidden!r}",
                "Give the whole numbers of units, such as (100, 50).",
            )
        )
    return [int(size) for size in given]


def checked(estimator: str, model: Any, x: np.ndarray, outputs: int) -> nn.Module:
    """A network that the user's `module` made, if it gives `outputs` numbers for a sample."""
    if not isinstance(model, nn.Module):
        raise DTypeError(
            explain(
                estimator,
                f"module= made {type(model).__name__}, expected an nn.Module",
                "Give a function of (features, outputs) that returns a module.",
            )
        )
    model.eval()  # of one sample batch norm knows no deviation
    with no_grad():
        shape = np.shape(model(x[:1].astype(dtype_of(model, x.dtype))))
    model.train()
    if shape != (1, outputs):
        raise ShapeError(
            explain(
                estimator,
                f"the network gives shape {shape} for one sample, expected (1, {outputs})",
                "module= is called with the numbers of features and of outputs: its last layer "
                "must have as many outputs.",
            )
        )
    return model


def dtype_of(model: nn.Module, otherwise: Any) -> np.dtype:
    """The dtype in which a network computes: that of its parameters."""
    kinds = (np.dtype(parameter.dtype) for parameter in model.parameters())
    return next((dtype for dtype in kinds if dtype.kind == "f"), np.dtype(otherwise))


def weighted(loss: Loss) -> Loss:
    """The mean of a loss over the samples of a batch, weighted by what comes with their targets."""

    def mean(outputs: Any, targets: tuple[Any, Any]) -> Any:
        truth, weights = targets
        losses = vmap(lambda output, target: loss(output[None], target[None]))(outputs, truth)
        total = wnp.sum(weights)
        # a batch of which nothing counts changes nothing
        return wnp.sum(losses * weights) / wnp.where(total > 0, total, 1)

    return mean
