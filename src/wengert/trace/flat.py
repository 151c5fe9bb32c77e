"""``x.flat``: the elements of an array one after the other, to read and to write."""

from __future__ import annotations

from typing import Any

import numpy as np

from .views import copy_of


class Flat:
    """The elements of an array one after the other: ``x.flat``."""

    __slots__ = ("array",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, array: Any):
        self.array = array

    def __iter__(self) -> Any:
        return iter(self.array.ravel())

    def __len__(self) -> int:
        return int(self.array.size)

    def __getitem__(self, key: Any) -> Any:
        return copy_of(self.array.ravel()[key])

    def __setitem__(self, key: Any, value: Any) -> None:
        # the elements may lie in another order, where a flat array is no view
        flat = copy_of(self.array.ravel())
        flat[key] = value
        self.array[...] = flat.reshape(self.array.shape)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.asarray(self.array.ravel().__array__(), dtype)

    def copy(self) -> Any:
        """The elements as an array."""
        return self.array.flatten()
