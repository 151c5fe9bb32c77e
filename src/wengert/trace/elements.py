"""``x[i, 1:]`` where `i` is a traced integer: what the integers take, then the rest of the key.

So neither reading nor writing does anything to the rest of the array.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ShapeError, explain
from ..ops import indexing as ops
from ..ops.layout import broadcast_to, reshape
from ..types import type_of
from .views import Views


class _Element:
    """``x[i]`` with traced integers: a `gather` that is a view."""

    name = "gather"

    def __call__(self, x: Any, *indices: Any, axes: tuple[int, ...]) -> Any:
        return ops.gather(x, *indices, axes=axes)

    def write_back(self, base: Any, new: Any, *indices: Any, axes: tuple[int, ...]) -> Any:
        """The base with `new` at the indices."""
        return ops.scatter_set(base, new, *indices, axes=axes)


ELEMENT: Any = _Element()


def element(x: Any, basic: ops.Key, arrays: list[Any], advanced: list[int]) -> Any:
    """The element or the part that a key takes; its `advanced` items are integers, in `arrays`."""
    axes = _axes_of(basic, advanced)
    taken = ops.gather(x, *arrays, axes=axes)
    if isinstance(x, Views):  # though integers are traced ones: NumPy would give a view
        taken._view_of(x, ELEMENT, {"axes": axes}, tuple(arrays))
    rest = _without(basic, advanced)
    return taken if is_whole(type_of(taken).shape, rest) else ops.index(taken, key=rest)


def set_element(x: Any, basic: ops.Key, arrays: list[Any], advanced: list[int], value: Any) -> Any:
    """A copy of `x` with a value at such a key."""
    axes, rest = _axes_of(basic, advanced), _without(basic, advanced)
    shape = tuple(n for axis, n in enumerate(type_of(x).shape) if axis not in axes)
    if not is_whole(shape, rest):
        taken = ops.gather(x, *arrays, axes=axes)
        value = ops.index_set(taken, fit_value(value, ops.key_shape(shape, rest)), key=rest)
    full = broadcast_to(fit_value(value, shape), shape=shape)
    return ops.scatter_set(x, full, *arrays, axes=axes)


def _axes_of(basic: ops.Key, advanced: list[int]) -> tuple[int, ...]:
    """The axes of the array that are indexed at some positions of the key."""
    indexed = [place for place, item in enumerate(basic) if item is not None]
    return tuple(indexed.index(position) for position in advanced)


def _without(basic: ops.Key, advanced: list[int]) -> ops.Key:
    return tuple(item for place, item in enumerate(basic) if place not in advanced)


def is_whole(shape: tuple[int, ...], basic: ops.Key) -> bool:
    """Whether a key takes all of an array as it is."""
    return basic == tuple((0, length, 1) for length in shape)


def fit_value(value: Any, shape: tuple[int, ...]) -> Any:
    """Drop leading axes of length 1 that NumPy would ignore, and check that the rest broadcasts."""
    own = type_of(value).shape
    if len(own) > len(shape) and own[: len(own) - len(shape)] == (1,) * (len(own) - len(shape)):
        value = reshape(value, shape=own[len(own) - len(shape) :])
        own = type_of(value).shape
    try:
        fits = np.broadcast_shapes(own, shape) == tuple(shape)
    except ValueError:
        fits = False
    if not fits:
        raise ShapeError(
            explain(
                "index_set",
                f"cannot put an array of shape {own} into a place of shape {tuple(shape)}",
                "Compared from the right, each pair of lengths must be equal, or the value's 1.",
            )
        )
    return value
