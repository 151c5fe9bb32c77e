"""Losses: one number that says how far a network is off, or one for each sample.

Every loss has `reduction`: "mean", "sum" or "none". Shapes and conventions are PyTorch's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import numpy as wnp
from ..errors import DTypeError, OptionError, ShapeError, explain
from .choices import one_of

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy", "huber_loss",
    "l1_loss", "mse_loss", "nll_loss", "smooth_l1_loss",
]  # fmt: skip


def _reduced(name: str, values: Any, reduction: str) -> Any:
    one_of(name, "reduction", reduction, ("mean", "sum", "none"))
    if reduction == "none":
        return values
    return wnp.mean(values) if reduction == "mean" else wnp.sum(values)


def _check_same_shape(name: str, input: Any, target: Any) -> None:
    if np.shape(input) != np.shape(target):
        raise ShapeError(
            explain(
                name,
                f"got input of shape {np.shape(input)} and target of shape {np.shape(target)}",
                "Give both the same shape: broadcasting here is nearly always a mistake.",
            )
        )


# ---------------------------------------------------------------- regression


def mse_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
    """The squared error.

    >>> import numpy as np
    >>> mse_loss(np.array([1.0, 2.0]), np.array([1.0, 4.0]))
    np.float64(2.0)
    """
    _check_same_shape("mse_loss", input, target)
    return _reduced("mse_loss", wnp.square(input - target), reduction)


def l1_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
    """The absolute error.

    >>> import numpy as np
    >>> l1_loss(np.array([1.0, 2.0]), np.array([1.0, 4.0]), reduction="none")
    array([0., 2.])
    """
    _check_same_shape("l1_loss", input, target)
    return _reduced("l1_loss", wnp.abs(input - target), reduction)


def huber_loss(input: Any, target: Any, reduction: str = "mean", delta: float = 1.0) -> Any:
    """Half the squared error up to `delta`, linear beyond.

    >>> import numpy as np
    >>> huber_loss(np.array([0.0, 0.0]), np.array([1.0, 3.0]), reduction="none")
    array([0.5, 2.5])
    """
    _check_same_shape("huber_loss", input, target)
    distance = wnp.abs(input - target)
    near = wnp.minimum(distance, delta)
    return _reduced("huber_loss", near * (distance - 0.5 * near), reduction)


def smooth_l1_loss(input: Any, target: Any, reduction: str = "mean", beta: float = 1.0) -> Any:
    """The huber loss divided by `beta`, the distance up to which it is quadratic.

    >>> import numpy as np
    >>> smooth_l1_loss(np.array([0.0]), np.array([3.0]), beta=2.0)
    np.float64(2.0)
    """
    if beta == 0:
        return l1_loss(input, target, reduction)
    return huber_loss(input, target, reduction, beta) / beta


# ---------------------------------------------------------------- two classes


def binary_cross_entropy_with_logits(
    input: Any, target: Any, weight: Any = None, reduction: str = "mean", pos_weight: Any = None
) -> Any:
    """The cross entropy of probabilities ``sigmoid(input)``; `target` is between 0 and 1.

    `pos_weight` multiplies the part of the positive class, `weight` the whole.

    >>> import numpy as np
    >>> round(float(binary_cross_entropy_with_logits(np.zeros(2), np.array([0.0, 1.0]))), 6)
    0.693147
    """
    name = "binary_cross_entropy_with_logits"
    _check_same_shape(name, input, target)
    losses = (1 - target) * input
    if pos_weight is None:
        losses = losses + wnp.softplus(-input)
    else:
        losses = losses + (1 + (pos_weight - 1) * target) * wnp.softplus(-input)
    return _reduced(name, losses if weight is None else losses * weight, reduction)


def binary_cross_entropy(
    input: Any, target: Any, weight: Any = None, reduction: str = "mean"
) -> Any:
    """The cross entropy of probabilities `input`; their logarithms count as at least -100.

    >>> import numpy as np
    >>> float(binary_cross_entropy(np.array([0.0, 1.0]), np.array([0.0, 0.0])))
    50.0
    """
    _check_same_shape("binary_cross_entropy", input, target)
    yes, no = (_bounded_log(p) for p in (input, 1 - input))
    losses = -(target * yes + (1 - target) * no)
    losses = losses if weight is None else losses * weight
    return _reduced("binary_cross_entropy", losses, reduction)


def _bounded_log(p: Any) -> Any:
    """log(p), at least -100, without a derivative where that holds it."""
    positive = p > 0
    return wnp.where(positive, wnp.maximum(wnp.log(wnp.where(positive, p, 1.0)), -100.0), -100.0)


# ---------------------------------------------------------------- several classes


def nll_loss(
    input: Any,
    target: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Any:
    """Minus the log-probability of the right class: `input` (samples, classes, ...) holds
    log-probabilities, `target` (samples, ...) the numbers of the classes.

    Targets equal to `ignore_index` do not count. `weight` has a factor for each class; the mean
    is the weighted one.

    >>> import numpy as np
    >>> nll_loss(np.log(np.array([[0.5, 0.5], [0.25, 0.75]])), np.array([0, 0])).round(4)
    np.float64(1.0397)
    """
    axis = _class_axis("nll_loss", input, target)
    losses, factors = _picked(input, target, weight, ignore_index, axis)
    return _weighted("nll_loss", losses, factors, reduction)


def _class_axis(name: str, input: Any, target: Any) -> int:
    """The axis of the classes: the second, or the only one of a single sample."""
    own, wanted = np.shape(input), np.shape(target)
    axis = min(1, len(own) - 1)
    if not own or own[:axis] + own[axis + 1 :] != wanted:
        raise ShapeError(
            explain(
                name,
                f"got input of shape {own} and target of shape {wanted}",
                "Expected (samples, classes, ...) and class numbers of shape (samples, ...).",
            )
        )
    if target.dtype.kind not in "iu":
        raise DTypeError(
            explain(
                name,
                f"got target of dtype {target.dtype}, expected integers",
                "Give the numbers of the classes: target.astype(int).",
            )
        )
    return axis


def _picked(log_p: Any, target: Any, weight: Any, ignore_index: int, axis: int) -> tuple[Any, Any]:
    """Minus the log-probability at each target times its factor, and the factors."""
    counts = target != ignore_index
    inside = wnp.where(counts, target, 0)
    taken = wnp.take_along_axis(log_p, wnp.expand_dims(inside, axis), axis=axis)
    factors = counts.astype(log_p.dtype)
    if weight is not None:
        factors = factors * wnp.take(weight, inside, axis=0)
    return wnp.where(counts, -wnp.squeeze(taken, axis), 0) * factors, factors


def _weighted(name: str, losses: Any, factors: Any, reduction: str) -> Any:
    if reduction == "mean":
        return wnp.sum(losses) / wnp.sum(factors)
    return _reduced(name, losses, reduction)


def cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    """The cross entropy of ``softmax(input)`` over the classes, axis 1 of `input`.

    `target` has the numbers of the classes, or probabilities in the shape of `input`.
    `label_smoothing` moves that share of the probability evenly over all classes. For the rest
    see `nll_loss`.

    >>> import numpy as np
    >>> round(float(cross_entropy(np.zeros((4, 10)), np.arange(4))), 6)
    2.302585
    """
    if not 0 <= label_smoothing <= 1:
        raise OptionError(
            explain(
                "cross_entropy",
                f"got label_smoothing={label_smoothing}",
                "It is a share of the probability, between 0 and 1.",
            )
        )
    if np.shape(input) == np.shape(target) and target.dtype.kind == "f":
        return _soft_cross_entropy(input, target, weight, reduction, label_smoothing)
    axis = _class_axis("cross_entropy", input, target)
    log_p = wnp.log_softmax(input, axis=axis)
    losses, factors = _picked(log_p, target, weight, ignore_index, axis)
    if label_smoothing:
        smooth = _spread(log_p, weight, axis)
        smooth = wnp.where(target != ignore_index, smooth, 0)
        losses = (1 - label_smoothing) * losses + label_smoothing * smooth
    return _weighted("cross_entropy", losses, factors, reduction)


def _spread(log_p: Any, weight: Any, axis: int) -> Any:
    """The loss of a target that gives all classes the same probability."""
    if weight is not None:
        log_p = log_p * _along(weight, log_p, axis)
    return -wnp.mean(log_p, axis=axis)


def _along(weight: Any, x: Any, axis: int) -> Any:
    form = [1] * len(np.shape(x))
    form[axis] = -1
    return wnp.reshape(weight, form)


def _soft_cross_entropy(
    input: Any, target: Any, weight: Any, reduction: str, label_smoothing: float
) -> Any:
    axis = min(1, len(np.shape(input)) - 1)
    if label_smoothing:
        target = (1 - label_smoothing) * target + label_smoothing / np.shape(input)[axis]
    terms = -target * wnp.log_softmax(input, axis=axis)
    if weight is not None:
        terms = terms * _along(weight, terms, axis)
    # the mean is that over samples, whatever their weights
    return _reduced("cross_entropy", wnp.sum(terms, axis=axis), reduction)
