"""Products with a weight, and tables looked up."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import numpy as wnp
from ...errors import OptionError, ShapeError, explain
from ...transforms import stop_gradient

__all__ = ["bilinear", "embedding", "linear", "one_hot"]


def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    """``input @ weight.T + bias``; the weight is (features out, features in).

    >>> import numpy as np
    >>> linear(np.array([1.0, 2.0]), np.eye(2), np.array([0.0, 1.0]))
    array([1., 3.])
    """
    if np.shape(input)[-1:] != np.shape(weight)[-1:]:
        raise ShapeError(
            explain(
                "linear",
                f"got input of shape {np.shape(input)} and weight of shape {np.shape(weight)}",
                f"The last axis of the input must have {np.shape(weight)[-1]} features.",
            )
        )
    product = wnp.matmul(input, wnp.matrix_transpose(weight))
    return product if bias is None else product + bias


def bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Any:
    """``input1 @ weight[o] @ input2 + bias[o]`` for each feature o of the result.

    >>> import numpy as np
    >>> bilinear(np.array([1.0, 2.0]), np.array([3.0, 4.0]), np.eye(2)[None])
    array([11.])
    """
    shapes = np.shape(input1), np.shape(input2)
    if tuple(shape[-1] for shape in shapes) != np.shape(weight)[1:]:
        raise ShapeError(
            explain(
                "bilinear",
                f"got inputs of shapes {shapes[0]} and {shapes[1]} and weight of shape "
                f"{np.shape(weight)}",
                "Their last axes must have the features of the weight.",
            )
        )
    product = wnp.einsum("...i,oij,...j->...o", input1, weight, input2)
    return product if bias is None else product + bias


def embedding(input: Any, weight: Any, padding_idx: int | None = None) -> Any:
    """The rows of `weight` that the integers in `input` name.

    The row `padding_idx` gets no gradient.

    >>> import numpy as np
    >>> embedding(np.array([[1, 0]]), np.array([[0.0, 1.0], [2.0, 3.0]]))
    array([[[2., 3.],
            [0., 1.]]])
    """
    rows = wnp.take(weight, input, axis=0)
    if padding_idx is None:
        return rows
    padding = wnp.expand_dims(wnp.equal(input, padding_idx % np.shape(weight)[0]), -1)
    return wnp.where(padding, stop_gradient(rows), rows)


def one_hot(input: Any, num_classes: int) -> Any:
    """A last axis with a 1 at the place that each integer names; none for one outside.

    >>> import numpy as np
    >>> one_hot(np.array([2, 0]), 3)
    array([[0, 0, 1],
           [1, 0, 0]])
    """
    if num_classes < 0:
        raise OptionError(
            explain(
                "one_hot",
                f"got num_classes={num_classes}",
                "Give the number of classes, such as int(input.max()) + 1.",
            )
        )
    same = wnp.equal(wnp.expand_dims(input, -1), np.arange(num_classes))
    return same.astype(np.int64)
