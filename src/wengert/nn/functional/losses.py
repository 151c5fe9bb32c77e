"""Losses: one number that says how far a network is off, or one for each sample.

Every loss has `reduction`: "mean", "sum" or "none". Shapes and conventions are PyTorch's.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import numpy as wnp
from ...errors import DTypeError, OptionError, ShapeError, explain
from ...transforms import stop_gradient
from ..choices import one_of

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy",
    "gaussian_nll_loss", "huber_loss", "kl_div", "l1_loss", "mse_loss",
    "multilabel_soft_margin_loss", "nll_loss", "poisson_nll_loss", "smooth_l1_loss",
    "soft_margin_loss",
]  # fmt: skip


def reduced(name: str, values: Any, reduction: str) -> Any:
    """The mean or the sum of the losses of all elements or samples, or they themselves.

    >>> reduced("mse_loss", np.array([1.0, 3.0]), "mean")
    np.float64(2.0)
    """
    one_of(name, "reduction", reduction, ("mean", "sum", "none"))
    if reduction == "none":
        return values
    return wnp.mean(values) if reduction == "mean" else wnp.sum(values)


def check_same_shape(name: str, input: Any, target: Any) -> None:
    """Refuse shapes that differ.

    >>> check_same_shape("mse_loss", np.ones(3), np.ones(3))
    """
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
    check_same_shape("mse_loss", input, target)
    return reduced("mse_loss", wnp.square(input - target), reduction)


def l1_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
    """The absolute error.

    >>> import numpy as np
    >>> l1_loss(np.array([1.0, 2.0]), np.array([1.0, 4.0]), reduction="none")
    array([0., 2.])
    """
    check_same_shape("l1_loss", input, target)
    return reduced("l1_loss", wnp.abs(input - target), reduction)


def huber_loss(input: Any, target: Any, reduction: str = "mean", delta: float = 1.0) -> Any:
    """Half the squared error up to `delta`, linear beyond.

    >>> import numpy as np
    >>> huber_loss(np.array([0.0, 0.0]), np.array([1.0, 3.0]), reduction="none")
    array([0.5, 2.5])
    """
    check_same_shape("huber_loss", input, target)
    distance = wnp.abs(input - target)
    near = wnp.minimum(distance, delta)
    return reduced("huber_loss", near * (distance - 0.5 * near), reduction)


def smooth_l1_loss(input: Any, target: Any, reduction: str = "mean", beta: float = 1.0) -> Any:
    """The huber loss divided by `beta`, the distance up to which it is quadratic.

    >>> import numpy as np
    >>> smooth_l1_loss(np.array([0.0]), np.array([3.0]), beta=2.0)
    np.float64(2.0)
    """
    if beta == 0:
        return l1_loss(input, target, reduction)
    return huber_loss(input, target, reduction, beta) / beta


def kl_div(input: Any, target: Any, reduction: str = "mean", log_target: bool = False) -> Any:
    """The divergence of the probabilities `target` from those whose logarithms are `input`.

    With `log_target` the target are logarithms too. The mean is that over all elements;
    ``reduction="batchmean"`` divides by the samples instead, which is what the name means.

    >>> import numpy as np
    >>> kl_div(np.log(np.array([[0.5, 0.5]])), np.array([[0.0, 1.0]]), "batchmean").round(4)
    np.float64(0.6931)
    """
    check_same_shape("kl_div", input, target)
    if log_target:
        losses = wnp.exp(target) * (target - input)
    else:
        losses = wnp.xlogy(target, target) - target * input
    if reduction == "batchmean":
        return wnp.sum(losses) / np.shape(input)[0]
    one_of("kl_div", "reduction", reduction, ("mean", "sum", "none", "batchmean"))
    return reduced("kl_div", losses, reduction)


def poisson_nll_loss(
    input: Any,
    target: Any,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Any:
    """Minus the log-likelihood of the counts `target`, whose mean is ``exp(input)``, or `input`
    itself if it is not `log_input`.

    `full` adds Stirling's approximation of the part without `input`, for counts above 1.

    >>> import numpy as np
    >>> poisson_nll_loss(np.array([0.0]), np.array([3.0]))
    np.float64(1.0)
    """
    check_same_shape("poisson_nll_loss", input, target)
    mean, log_mean = (wnp.exp(input), input) if log_input else (input, wnp.log(input + eps))
    losses = mean - target * log_mean
    if full:
        many = target > 1
        n = wnp.where(many, target, 1)
        stirling = n * wnp.log(n) - n + 0.5 * wnp.log(2 * np.pi * n)
        losses = losses + wnp.where(many, stirling, 0)
    return reduced("poisson_nll_loss", losses, reduction)


def gaussian_nll_loss(
    input: Any,
    target: Any,
    var: Any,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Any:
    """Minus the log-likelihood of `target` under normal distributions with mean `input` and
    variance `var`, which counts as at least `eps`; without a constant unless `full`.

    The variance has the shape of the input, or one element instead of its last axis.

    >>> import numpy as np
    >>> gaussian_nll_loss(np.array([0.0]), np.array([2.0]), np.array([1.0]))
    np.float64(2.0)
    """
    own, spread = np.shape(input), np.shape(var)
    check_same_shape("gaussian_nll_loss", input, target)
    if spread == own[:-1]:
        var = wnp.expand_dims(var, -1)
    elif spread not in (own, (*own[:-1], 1), ()):
        raise ShapeError(
            explain(
                "gaussian_nll_loss",
                f"got input of shape {own} and var of shape {spread}",
                "Give a variance for each element, or one for each row.",
            )
        )
    # at the bound the variance keeps its derivative, so that it can get away from there
    var = var + stop_gradient(wnp.maximum(var, eps) - var)
    losses = 0.5 * (wnp.log(var) + wnp.square(input - target) / var)
    losses = losses + 0.5 * math.log(2 * math.pi) if full else losses
    return reduced("gaussian_nll_loss", losses, reduction)


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
    check_same_shape(name, input, target)
    losses = (1 - target) * input
    if pos_weight is None:
        losses = losses + wnp.softplus(-input)
    else:
        losses = losses + (1 + (pos_weight - 1) * target) * wnp.softplus(-input)
    return reduced(name, losses if weight is None else losses * weight, reduction)


def binary_cross_entropy(
    input: Any, target: Any, weight: Any = None, reduction: str = "mean"
) -> Any:
    """The cross entropy of probabilities `input`; their logarithms count as at least -100.

    >>> import numpy as np
    >>> float(binary_cross_entropy(np.array([0.0, 1.0]), np.array([0.0, 0.0])))
    50.0
    """
    check_same_shape("binary_cross_entropy", input, target)
    yes, no = (_bounded_log(p) for p in (input, 1 - input))
    losses = -(target * yes + (1 - target) * no)
    losses = losses if weight is None else losses * weight
    return reduced("binary_cross_entropy", losses, reduction)


def _bounded_log(p: Any) -> Any:
    """log(p), at least -100, without a derivative where that holds it."""
    outside = p <= 0
    return wnp.where(outside, -100.0, wnp.maximum(wnp.log(wnp.where(outside, 1.0, p)), -100.0))


def soft_margin_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
    """``log(1 + exp(-target * input))`` for targets 1 and -1.

    >>> import numpy as np
    >>> round(float(soft_margin_loss(np.zeros(2), np.array([1.0, -1.0]))), 6)
    0.693147
    """
    check_same_shape("soft_margin_loss", input, target)
    losses = wnp.softplus(-target.astype(input.dtype) * input)
    return reduced("soft_margin_loss", losses, reduction)


def multilabel_soft_margin_loss(
    input: Any, target: Any, weight: Any = None, reduction: str = "mean"
) -> Any:
    """The binary cross entropy of logits, its mean over the classes (last axis) of each sample.

    >>> import numpy as np
    >>> loss = multilabel_soft_margin_loss(np.zeros((1, 2)), np.array([[0.0, 1.0]]))
    >>> round(float(loss), 6)
    0.693147
    """
    losses = binary_cross_entropy_with_logits(input, target, weight, "none")
    return reduced("multilabel_soft_margin_loss", wnp.mean(losses, axis=-1), reduction)


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
    axis = class_axis("nll_loss", input, target)
    losses, factors = _picked(input, target, weight, ignore_index, axis)
    return _weighted("nll_loss", losses, factors, reduction)


def class_axis(name: str, input: Any, target: Any) -> int:
    """The axis of the classes: the second, or the only one of a single sample.

    >>> class_axis("nll_loss", np.ones((2, 3)), np.array([0, 1]))
    1
    """
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
    return reduced(name, losses, reduction)


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
    axis = class_axis("cross_entropy", input, target)
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
    return reduced("cross_entropy", wnp.sum(terms, axis=axis), reduction)
