"""Slices and masks whose length changes from turn to turn, transposed: ``x[mask].T @ x[mask]``.

What changes are columns here. A product that sums over them counts those of the turn alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..types import type_of
from .pieces import Abandon
from .ragged import Ragged, add_operators


class Columns:
    """A matrix of which some columns count, others in each turn."""

    is_stand_in = True  # whose methods have no effects outside of the turn

    def __init__(self, rows: Ragged):
        self._rows = rows

    @property
    def T(self) -> Ragged:
        """The columns as rows."""
        return self._rows

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return 2

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the elements."""
        return self._rows.dtype

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method != "__call__" or kwargs:
            raise Abandon
        if ufunc is np.matmul:
            return _product(*inputs)
        return Columns(ufunc(*map(_transposed, inputs)))

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func is np.dot and not kwargs:
            return _product(*args)
        if func is np.transpose and len(args) == 1 and not kwargs:
            return self._rows
        raise Abandon

    def __getattr__(self, name: str) -> Any:
        raise Abandon

    def _refuse(self, *args: Any) -> Any:
        raise Abandon

    __len__ = __iter__ = __bool__ = __contains__ = __array__ = __getitem__ = __setitem__ = _refuse
    __float__ = __int__ = __index__ = _refuse
    __hash__ = object.__hash__


# what is written to columns would have to be written to the rows
add_operators(Columns, lambda ufunc: Columns._refuse)


def _transposed(x: Any) -> Any:
    """What is combined with columns, element by element, as it is combined with rows."""
    if isinstance(x, Columns):
        return x.T
    if isinstance(x, Ragged):
        if x.ndim != 1:
            raise Abandon
        return x[:, None]
    shape = type_of(x).shape
    if len(shape) == 2 and shape[1] == 1:
        return x[:, 0]
    if shape:
        raise Abandon
    return x


def _product(x: Any, y: Any) -> Any:
    """``x @ y`` where one is of columns."""
    if isinstance(x, Columns) and isinstance(y, Ragged):
        return x.T.sum_of_products(y)
    if isinstance(x, Ragged) or isinstance(y, Ragged) or not isinstance(y, Columns):
        raise Abandon
    if isinstance(x, Columns) or len(type_of(x).shape) not in (1, 2):
        raise Abandon
    found = y.T @ x.T
    return Columns(found) if found.ndim == 2 else found
