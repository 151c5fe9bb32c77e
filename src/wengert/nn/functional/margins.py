"""Distances between vectors, and the losses that ask for a margin between them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import numpy as wnp
from ...errors import DTypeError, OptionError, explain
from ...types import Function
from .losses import check_same_shape, class_axis, reduced

__all__ = [
    "cosine_embedding_loss", "cosine_similarity", "hinge_embedding_loss", "margin_ranking_loss",
    "multi_margin_loss", "multilabel_margin_loss", "pairwise_distance", "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]  # fmt: skip


def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    """The cosine of the angle between vectors along `dim`; norms count as at least `eps`.

    >>> import numpy as np
    >>> cosine_similarity(np.array([[3.0, 4.0]]), np.array([[1.0, 0.0]]))
    array([0.6])
    """
    product = wnp.sum(x1 * x2, axis=dim)
    norms = (wnp.maximum(wnp.linalg.norm(x, axis=dim), eps) for x in (x1, x2))
    return product / (next(norms) * next(norms))


def pairwise_distance(
    x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Any:
    """The `p`-norms of the differences along the last axis; `eps` is added to each of these.

    >>> import numpy as np
    >>> pairwise_distance(np.array([[3.0, 4.0]]), np.array([[0.0, 0.0]]), eps=0.0)
    array([5.])
    """
    return wnp.linalg.norm(x1 - x2 + eps, ord=p, axis=-1, keepdims=keepdim)


def _lack(x: Any) -> Any:
    """The positive part, with the derivative 1 at 0: a margin just reached still holds."""
    return wnp.where(x < 0, 0, x)


def hinge_embedding_loss(
    input: Any, target: Any, margin: float = 1.0, reduction: str = "mean"
) -> Any:
    """The distance `input` where the target is 1, and what it lacks to `margin` where it is -1.

    >>> import numpy as np
    >>> hinge_embedding_loss(np.array([0.25, 0.25]), np.array([1, -1]), reduction="none")
    array([0.25, 0.75])
    """
    check_same_shape("hinge_embedding_loss", input, target)
    apart = wnp.where(target != 1, _lack(margin - input), 0)
    losses = apart + wnp.where(target != -1, input, 0)
    return reduced("hinge_embedding_loss", losses, reduction)


def margin_ranking_loss(
    input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: str = "mean"
) -> Any:
    """What `input1` lacks to be larger (target 1) or smaller (target -1) than `input2`.

    >>> import numpy as np
    >>> margin_ranking_loss(np.array([1.0]), np.array([3.0]), np.array([1]), margin=0.5)
    np.float64(2.5)
    """
    check_same_shape("margin_ranking_loss", input1, target)
    losses = _lack(margin - target.astype(input1.dtype) * (input1 - input2))
    return reduced("margin_ranking_loss", losses, reduction)


def cosine_embedding_loss(
    input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: str = "mean"
) -> Any:
    """1 minus the cosine of the angle where the target is 1, and what the cosine is above
    `margin` where it is -1.

    >>> import numpy as np
    >>> x, y = np.array([[3.0, 4.0]]), np.array([[1.0, 0.0]])
    >>> cosine_embedding_loss(x, y, np.array([-1]), margin=0.5).round(6)
    np.float64(0.1)
    """
    product = wnp.sum(input1 * input2, axis=-1)
    squares = [wnp.sum(wnp.square(x), axis=-1) + 1e-12 for x in (input1, input2)]
    cosine = product / wnp.sqrt(squares[0] * squares[1])
    check_same_shape("cosine_embedding_loss", cosine, target)
    losses = wnp.where(target == 1, 1 - cosine, _lack(cosine - margin))
    return reduced("cosine_embedding_loss", losses, reduction)


def triplet_margin_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Any:
    """What the distance to `negative` lacks to be `margin` larger than that to `positive`.

    With `swap` the distance between these two counts if it is smaller.

    >>> import numpy as np
    >>> a, near, far = np.zeros((1, 2)), np.array([[3.0, 4.0]]), np.array([[0.0, 2.0]])
    >>> triplet_margin_loss(a, near, far, eps=0.0)
    np.float64(4.0)
    """

    def distance(x: Any, y: Any) -> Any:
        return pairwise_distance(x, y, p, eps)

    return triplet_margin_with_distance_loss(
        anchor, positive, negative, distance, margin, swap, reduction
    )


def triplet_margin_with_distance_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    distance_function: Function | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Any:
    """`triplet_margin_loss` with another distance.

    >>> import numpy as np
    >>> ones = np.ones((1, 2))
    >>> triplet_margin_with_distance_loss(ones, ones, ones)
    np.float64(1.0)
    """
    distance = pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = wnp.minimum(far, distance(positive, negative))
    return reduced("triplet_margin_loss", _lack(margin + near - far), reduction)


def multi_margin_loss(
    input: Any,
    target: Any,
    p: int = 1,
    margin: float = 1.0,
    weight: Any = None,
    reduction: str = "mean",
) -> Any:
    """What the right class of (samples, classes) lacks to be `margin` above the others, to the
    power `p`: the mean over all classes.

    >>> import numpy as np
    >>> multi_margin_loss(np.array([[0.5, 0.0, 0.0, 0.0]]), np.array([0]))
    np.float64(0.375)
    """
    name = "multi_margin_loss"
    if p not in (1, 2):
        raise OptionError(explain(name, f"got p={p}, expected 1 or 2"))
    axis = class_axis(name, input, target)
    right = wnp.expand_dims(target, axis)
    classes = np.shape(input)[axis]
    lack = wnp.relu(margin - wnp.take_along_axis(input, right, axis=axis) + input)
    lack = lack if p == 1 else wnp.square(lack)
    lack = lack if weight is None else lack * wnp.take(weight, right)
    others = right != np.arange(classes)
    return reduced(name, wnp.sum(wnp.where(others, lack, 0), axis=axis) / classes, reduction)


def multilabel_margin_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
    """What each of the right classes lacks to be 1 above each of the wrong ones; `target` has in
    each row the numbers of the right ones, and then -1.

    >>> import numpy as np
    >>> x, y = np.array([[0.1, 0.2, 0.4, 0.8]]), np.array([[3, 0, -1, 1]])
    >>> multilabel_margin_loss(x, y).round(4)
    np.float64(0.85)
    """
    name = "multilabel_margin_loss"
    check_same_shape(name, input, target)
    if target.dtype.kind not in "iu":
        raise DTypeError(explain(name, f"got target of dtype {target.dtype}, expected integers"))
    classes = np.shape(input)[-1]
    counts = wnp.cumsum(target < 0, axis=-1) == 0
    places = wnp.where(counts, target, 0)
    named = wnp.expand_dims(places, -1) == np.arange(classes)
    right = wnp.any(named & wnp.expand_dims(counts, -1), axis=-2)
    chosen = wnp.expand_dims(wnp.take_along_axis(input, places, axis=-1), -1)
    lack = wnp.relu(1 - chosen + wnp.expand_dims(input, -2))
    pairs = wnp.expand_dims(counts, -1) & ~wnp.expand_dims(right, -2)
    losses = wnp.sum(wnp.where(pairs, lack, 0), axis=(-2, -1)) / classes
    return reduced(name, losses, reduction)
