"""Views that no operation makes of its argument alone: the elements at certain places."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ops.indexing import gather, scatter_set
from ..ops.layout import reshape
from ..types import Function
from .views import Views


class _ElementsAt:
    """The elements at `places` of an array laid flat, which `function` takes from it."""

    name = "gather"

    def __init__(self, function: Function):
        self.evaluate = lambda layout, places: function(layout)

    def __call__(self, x: Any, places: np.ndarray) -> Any:
        return gather(reshape(x, shape=(x.size,)), places, axes=(0,))

    def write_back(self, base: Any, new: Any, places: np.ndarray) -> Any:
        """The array with `new` at the places."""
        flat = scatter_set(reshape(base, shape=(base.size,)), new, places, axes=(0,))
        return reshape(flat, shape=base.shape)


def follow(found: Any, base: Any, function: Function) -> Any:
    """What `function` took from `base`, as a view that follows writes, if it does not by itself.

    In NumPy it is a view; here it may have been computed in a way that copies.
    """
    if (
        isinstance(found, Views)
        and isinstance(base, Views)
        and not base.made  # whose views are made by NumPy's own
        and found._trace is base._trace
        and found._storage() is not base._storage()
    ):
        places = function(np.arange(base.size).reshape(base.type.shape))  # type: ignore[attr-defined]
        found._view_of(base, _ElementsAt(function), {"places": np.array(places)})  # type: ignore[arg-type]
    return found
