"""Products with a weight, and tables looked up."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import numpy as wnp
from ...errors import OptionError, ShapeError, explain
from ...transforms import stop_gradient
from ...types import type_of
from .indexing import scatter_add, scatter_reduce

__all__ = ["bilinear", "embedding", "embedding_bag", "linear", "one_hot"]


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


def embedding_bag(
    input: Any,
    weight: Any,
    offsets: Any = None,
    *,
    mode: str = "mean",
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """The sum, the mean or the largest ("max") of the rows of `weight` that each bag names.

    Bags are the rows of `input`; or `input` is a vector, and each begins where `offsets` says.
    Integers equal to `padding_idx` do not count, and an empty bag gives zeros. A sum may have
    `per_sample_weights`, one for each integer.

    >>> import numpy as np
    >>> table = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 4.0]])
    >>> embedding_bag(np.array([1, 2, 0]), table, np.array([0, 2]), mode="sum")
    array([[6., 7.],
           [0., 1.]])
    """
    rows, counts, bags, own = _bags(input, weight, offsets, include_last_offset, padding_idx)
    if mode not in ("sum", "mean", "max"):
        raise OptionError(explain("embedding_bag", f"got mode={mode!r}", "Use sum, mean or max."))
    if per_sample_weights is not None:
        if mode != "sum":
            problem = f"got per_sample_weights and mode={mode!r}"
            raise OptionError(explain("embedding_bag", problem, "Weights are for mode='sum'."))
        rows = rows * wnp.reshape(per_sample_weights, (-1, 1))
    width = np.shape(weight)[1]
    place = wnp.broadcast_to(bags[:, None], np.shape(rows))
    zeros = wnp.zeros((own, width), type_of(rows).dtype)
    if mode == "max":
        largest = scatter_reduce(zeros, 0, place, rows, "amax", include_self=False)
        # those that do not count are bags of their own
        return largest[: own - 1]
    total = scatter_add(zeros, 0, place, rows)[: own - 1]
    if mode == "sum":
        return total
    found = scatter_add(wnp.zeros(own, type_of(rows).dtype), 0, bags, counts)[: own - 1]
    return total / wnp.maximum(found, 1)[:, None]


def _bags(
    input: Any, weight: Any, offsets: Any, include_last: bool, padding_idx: int | None
) -> tuple[Any, Any, Any, int]:
    """Rows, ones, and the number of the bag of each; and one more than there are bags.

    What does not count is in the last one.
    """
    rank = np.ndim(input)
    if (rank, offsets is None) not in ((1, False), (2, True)):
        problem = f"got input of shape {np.shape(input)} and {'no ' * (offsets is None)}offsets"
        remedy = "Give a matrix with a row for each bag, or a vector and offsets."
        raise ShapeError(explain("embedding_bag", problem, remedy))
    line = wnp.reshape(input, (-1,))
    length = np.shape(line)[0]
    if rank == 2:
        count = np.shape(input)[0]
        bags = wnp.asarray(np.repeat(np.arange(count), np.shape(input)[1]))
    else:
        count = np.shape(offsets)[0] - include_last
        bags = wnp.searchsorted(offsets[:count], np.arange(length), side="right") - 1
    if padding_idx is not None:
        padding = wnp.equal(line, padding_idx % np.shape(weight)[0])
        bags = wnp.where(padding, count, bags)
    rows = wnp.take(weight, line, axis=0)
    return rows, wnp.ones(length, type_of(rows).dtype), bags, count + 1


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
