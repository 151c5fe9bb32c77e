"""Elements read and written at places that an array of integers names, as PyTorch has it.

In `gather` and `scatter` the index has a place along one axis for every element; along the other
axes an element stays in its own place. So the index may be smaller than the array there.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import numpy as wnp
from ...errors import ShapeError, explain
from ...types import type_of
from ..choices import one_of

__all__ = [
    "gather", "index_add", "index_copy", "index_select", "scatter", "scatter_add",
    "scatter_reduce", "take_along_dim",
]  # fmt: skip


def _checked(name: str, input: Any, dim: int, index: Any, src: Any = None) -> int:
    """The axis; the index must fit into the array, and into what is written."""
    own, places = np.shape(input), np.shape(index)
    rank = len(own)
    if not -rank <= dim < rank or len(places) != rank:
        raise ShapeError(
            explain(
                name,
                f"got input of shape {own}, dim={dim} and index of shape {places}",
                "Give an index with as many axes as the input, and one of its axes.",
            )
        )
    axis = dim % rank
    wide = any(places[n] > own[n] for n in range(rank) if n != axis)
    if src is not None:
        given = np.shape(src)
        wide = wide or len(given) != rank or any(a > b for a, b in zip(places, given, strict=True))
    if wide:
        found = "" if src is None else f" and src of shape {np.shape(src)}"
        raise ShapeError(
            explain(
                name,
                f"got input of shape {own}, index of shape {places}{found}",
                f"Except along dim={dim} of the input, the index must not be larger.",
            )
        )
    return axis


def gather(input: Any, dim: int, index: Any) -> Any:
    """For each element of `index` the element of `input` in that place along `dim`.

    >>> import numpy as np
    >>> gather(np.array([[1.0, 2.0], [3.0, 4.0]]), 1, np.array([[0, 0], [1, 0]]))
    array([[1., 1.],
           [4., 3.]])
    """
    axis = _checked("gather", input, dim, index)
    places = np.shape(index)
    key = tuple(slice(None) if n == axis else slice(0, m) for n, m in enumerate(places))
    return wnp.take_along_axis(input[key], index, axis=axis)


def take_along_dim(input: Any, indices: Any, dim: int | None = None) -> Any:
    """`gather` where all other axes broadcast; without `dim` of the array laid flat.

    >>> import numpy as np
    >>> x = np.array([[3.0, 1.0], [2.0, 4.0]])
    >>> take_along_dim(x, np.argsort(x, axis=1), 1)
    array([[1., 3.],
           [2., 4.]])
    """
    if dim is None:
        return wnp.take(wnp.reshape(input, (-1,)), wnp.reshape(indices, (-1,)))
    return wnp.take_along_axis(input, indices, axis=dim)


def index_select(input: Any, dim: int, index: Any) -> Any:
    """The slices of an axis that `index` names.

    >>> import numpy as np
    >>> index_select(np.array([[1.0, 2.0], [3.0, 4.0]]), 0, np.array([1, 1]))
    array([[3., 4.],
           [3., 4.]])
    """
    return wnp.take(input, index, axis=dim)


def index_add(input: Any, dim: int, index: Any, source: Any, alpha: float = 1) -> Any:
    """A copy with the slices of `source` added where `index` names them.

    >>> import numpy as np
    >>> index_add(np.zeros(3), 0, np.array([2, 2]), np.array([1.0, 5.0]))
    array([0., 0., 6.])
    """
    return wnp.scatter_add(input, index, source if alpha == 1 else source * alpha, axis=dim)


def index_copy(input: Any, dim: int, index: Any, source: Any) -> Any:
    """A copy with the slices of `source` where `index` names them.

    >>> import numpy as np
    >>> index_copy(np.zeros(3), 0, np.array([2, 0]), np.array([1.0, 5.0]))
    array([5., 0., 1.])
    """
    return wnp.scatter_set(input, index, source, axis=dim)


def _flat_places(shape: tuple[int, ...], axis: int, index: Any) -> Any:
    """The places of the index in the array laid flat; one outside of its axis is an error."""
    places = np.shape(index)
    steps = [math.prod(shape[n + 1 :]) for n in range(len(shape))]
    others = np.zeros((1,) * len(shape), np.int64)
    for n, (count, step) in enumerate(zip(places, steps, strict=True)):
        if n != axis:
            form = [1] * len(shape)
            form[n] = -1
            others = others + (np.arange(count) * step).reshape(form)
    # looking them up is what checks them, and what makes negative ones count from the end
    along = wnp.take(np.arange(shape[axis], dtype=np.int64) * steps[axis], index)
    return along + others


def _scattered(name: str, write: Any, input: Any, dim: int, index: Any, src: Any) -> Any:
    number = np.shape(src) == ()
    axis = _checked(name, input, dim, index, None if number else src)
    own, places = np.shape(input), np.shape(index)
    values = wnp.broadcast_to(src, places) if number else src[tuple(map(slice, places))]
    flat = _flat_places(own, axis, index)
    parts = wnp.reshape(flat, (-1,)), wnp.reshape(values, (-1,))
    return wnp.reshape(write(wnp.reshape(input, (-1,)), *parts), own)


def scatter(input: Any, dim: int, index: Any, src: Any) -> Any:
    """A copy with the elements of `src`, or one number, written at `index` along `dim`.

    Of repeated places the last counts.

    >>> import numpy as np
    >>> scatter(np.zeros((2, 3)), 1, np.array([[2], [0]]), 1.0)
    array([[0., 0., 1.],
           [1., 0., 0.]])
    """
    return _scattered("scatter", wnp.scatter_set, input, dim, index, src)


def scatter_add(input: Any, dim: int, index: Any, src: Any) -> Any:
    """A copy with the elements of `src` added at `index` along `dim`.

    >>> import numpy as np
    >>> scatter_add(np.zeros(3), 0, np.array([2, 2]), np.array([1.0, 5.0]))
    array([0., 0., 6.])
    """
    return _scattered("scatter_add", wnp.scatter_add, input, dim, index, src)


_REDUCTIONS = {"sum": wnp.scatter_add, "amax": wnp.scatter_max, "amin": wnp.scatter_min}


def scatter_reduce(
    input: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool = True
) -> Any:
    """The sum ("sum"), "mean", largest ("amax") or smallest ("amin") of what is in a place and
    of all that `index` sends there; without what is there unless `include_self`.

    >>> import numpy as np
    >>> scatter_reduce(np.full(2, 3.0), 0, np.array([0, 0]), np.array([1.0, 5.0]), "mean")
    array([3., 3.])
    """
    name = "scatter_reduce"
    one_of(name, "reduce", reduce, ("mean", *_REDUCTIONS))
    dtype = type_of(input).dtype
    ones = np.ones(np.shape(index), dtype)
    counts = scatter_add(np.zeros(np.shape(input), dtype), dim, index, ones)
    start = input
    if not include_self:
        usual = {"amax": -np.inf, "amin": np.inf}.get(reduce, 0.0)
        start = wnp.where(counts > 0, usual, input)
    write = _REDUCTIONS.get(reduce, wnp.scatter_add)
    result = _scattered(name, write, start, dim, index, src)
    if reduce == "mean":
        result = result / (counts + 1 if include_self else wnp.maximum(counts, 1))
    return result
