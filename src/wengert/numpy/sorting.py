"""Sorting and searching.

Sorting is stable, and its derivative follows the elements. What depends on the values in other
ways (`nonzero`) has no derivative; it needs known values, or the size that the result shall have.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import DTypeError, OptionError, ShapeError, explain
from ..ops import elementwise as ew
from ..ops import logic
from ..ops import sorting as ops
from ..ops.cumulative import cumsum
from ..ops.indexing import gather, index
from ..ops.layout import reshape
from ..ops.structure import concatenate
from ..trace.lying import in_order
from ..trace.tracer import concrete
from ..trace.views import Views
from ..types import type_of
from .common import as_value, cast, known_values, ndim, normal_axis, shape

__all__ = [
    "argpartition", "argsort", "argwhere", "digitize", "flatnonzero", "lexsort", "nonzero",
    "partition", "searchsorted", "sort", "top_k",
]  # fmt: skip


def _line(name: str, a: Any, axis: int | None) -> tuple[Any, int]:
    """The array and the axis to sort along; without an axis all elements in one line."""
    x = as_value(a)
    if axis is None:
        return reshape(x, shape=(type_of(x).size,)), 0
    return x, normal_axis(name, axis, ndim(x))


def argsort(
    a: Any,
    axis: int | None = -1,
    kind: str | None = None,
    *,
    stable: bool | None = None,
    descending: bool = False,
) -> Any:
    """``numpy.argsort``: where the sorted elements come from; always stable."""
    x, line = _line("argsort", a, axis)
    return ops.argsort(x, axis=line, descending=bool(descending))


def sort(
    a: Any,
    axis: int | None = -1,
    kind: str | None = None,
    *,
    stable: bool | None = None,
    descending: bool = False,
) -> Any:
    """``numpy.sort``: the elements in order; always stable."""
    x, line = _line("sort", a, axis)
    if type(x) is np.ndarray:
        return ops.sort(x, axis=line, descending=bool(descending))
    found = ops.along(x, ops.argsort(x, axis=line, descending=bool(descending)), line)
    return in_order(found, ("K", x.node)) if isinstance(x, Views) else found


def partition(a: Any, kth: Any, axis: int | None = -1, kind: str = "introselect") -> Any:
    """``numpy.partition``: here simply sorted, so that the result is always the same."""
    x, line = _line("partition", a, axis)
    _check_kth("partition", kth, shape(x)[line])
    return sort(x, line)


def argpartition(a: Any, kth: Any, axis: int | None = -1, kind: str = "introselect") -> Any:
    """``numpy.argpartition``: here simply `argsort`, so that the result is always the same."""
    x, line = _line("argpartition", a, axis)
    _check_kth("argpartition", kth, shape(x)[line])
    return argsort(x, line)


def _check_kth(name: str, kth: Any, length: int) -> None:
    for k in np.ravel(kth):
        if not -length <= k < length:
            raise ShapeError(
                explain(
                    name,
                    f"got kth={k} for an axis of length {length}",
                    f"Give a number from {-length} to {length - 1}.",
                )
            )


def top_k(x: Any, k: int, axis: int = -1) -> tuple[Any, Any]:
    """The `k` largest elements along an axis, largest first, and where they are.

    >>> import wengert.numpy as wnp
    >>> values, places = wnp.top_k([3.0, 1.0, 7.0, 5.0], 2)
    >>> values, places
    (array([7., 5.]), array([2, 3]))
    """
    x, line = _line("top_k", x, axis)
    length = shape(x)[line]
    if not 0 <= k <= length:
        raise ShapeError(
            explain(
                "top_k", f"got k={k} for an axis of length {length}", f"Give 0 <= k <= {length}."
            )
        )
    order = ops.argsort(x, axis=line, descending=True)
    key = tuple((0, k if axis == line else n, 1) for axis, n in enumerate(shape(x)))
    places = index(order, key=key)
    return ops.along(x, places, line), places


def lexsort(keys: Any, axis: int = -1) -> Any:
    """``numpy.lexsort``: the order by the last key, equal ones by the key before, and so on."""
    columns = [as_value(key) for key in keys]
    if not columns:
        raise ShapeError(explain("lexsort", "got no keys", "Give at least one array to sort by."))
    line = normal_axis("lexsort", axis, ndim(columns[0]))
    order = ops.argsort(columns[0], axis=line, descending=False)
    for column in columns[1:]:
        by_column = ops.argsort(ops.along(column, order, line), axis=line, descending=False)
        order = ops.along(order, by_column, line)
    return order


# ---------------------------------------------------------------- searching


def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    """``numpy.searchsorted``: where elements would go into a sorted array.

    With `sorter`, the places that `argsort` gives, the array need not be sorted itself.
    """
    if side not in ("left", "right"):
        raise ShapeError(
            explain("searchsorted", f"got side={side!r}", "Give side='left' or side='right'.")
        )
    a = as_value(a)
    if sorter is not None:
        a = gather(a, _order("searchsorted", a, as_value(sorter)), axes=(0,))
    return ops.searchsorted(a, as_value(v), side=side, leading=0)


def _order(name: str, a: Any, sorter: Any) -> Any:
    if shape(sorter) != shape(a) or type_of(sorter).dtype.kind not in "iu":
        raise ShapeError(
            explain(
                name,
                f"got a sorter {type_of(sorter)} for an array of shape {shape(a)}",
                "Give the places that argsort gives.",
            )
        )
    return sorter


def digitize(x: Any, bins: Any, right: bool = False) -> Any:
    """``numpy.digitize``: the number of the bin each element is in.

    Edges that are only known when the program runs must increase or decrease: which of the two
    their ends say.
    """
    x, bins = as_value(x), as_value(bins)
    if type_of(x).dtype.kind == "c":
        raise DTypeError(explain("digitize", f"got {type_of(x)}", "Give real numbers."))
    side = "left" if right else "right"
    count = shape(bins)[0]
    falls = _falls(bins)
    if falls is False:
        return searchsorted(bins, x, side)
    backward = index(bins, key=((count - 1, -1, -1),))
    if falls is True:
        return ew.subtract(count, searchsorted(backward, x, side))
    place = searchsorted(ew.select(falls, backward, bins), x, side)
    return ew.select(falls, ew.subtract(count, place), place)


def _falls(bins: Any) -> Any:
    """Whether the edges decrease; a traced answer where they are not known yet."""
    count, edges = shape(bins)[0], concrete(bins)
    if count < 2:
        return False
    if edges is None:
        return logic.greater(index(bins, key=(0,)), index(bins, key=(count - 1,)))
    edges = np.asarray(edges)
    if not np.any(edges[1:] < edges[:-1]):
        return False
    if np.any(edges[1:] > edges[:-1]):
        raise ShapeError(
            explain("digitize", "the bins neither increase nor decrease", "Sort them first.")
        )
    return True


# ---------------------------------------------------------------- with known values


SIZED = "or give `size`, the number of values that the result shall have"


def fixed_size(name: str, size: Any) -> int:
    """The number of values that a result shall have, at least 0."""
    number = int(size)
    if number < 0:
        raise OptionError(explain(name, f"got size={size}", "Give 0 or more."))
    return number


def places_of(marked: Any, size: int) -> tuple[Any, Any]:
    """Where the first `size` marked elements of a line are, and which of these places there are."""
    length = shape(marked)[0]
    counts = cumsum(cast(marked, np.intp), axis=0, reverse=False)
    places = ops.searchsorted(counts, np.arange(1, size + 1), side="left", leading=0)
    return ew.minimum(places, max(length - 1, 0)), logic.less(places, length)


def nonzero(a: Any, *, size: int | None = None, fill_value: int = 0) -> tuple[Any, ...]:
    """``numpy.nonzero``: where elements are not zero, one array of indices for each axis.

    With `size` these are so many places also where values are not known (under `jit` and `vmap`):
    the first ones, filled up with `fill_value` where there are fewer.

    >>> import numpy as np, wengert as wg, wengert.numpy as wnp
    >>> wg.jit(lambda x: wnp.nonzero(x > 1, size=3, fill_value=-1))(np.array([0.0, 2.0, 3.0]))
    (array([ 1,  2, -1]),)
    """
    if size is None:
        return np.nonzero(known_values("nonzero", a, SIZED))
    x = as_value(a)
    lengths = shape(x)
    line = reshape(logic.not_equal(x, 0), shape=(type_of(x).size,))
    places, there = places_of(line, fixed_size("nonzero", size))
    found = []
    for length in lengths[::-1]:
        found.append(ew.select(there, ew.remainder(places, max(length, 1)), fill_value))
        places = logic.floor_divide(places, max(length, 1))
    return tuple(found[::-1])


def flatnonzero(a: Any, *, size: int | None = None, fill_value: int = 0) -> Any:
    """``numpy.flatnonzero``: where elements are not zero, counted in C order; see `nonzero`.

    >>> import numpy as np, wengert.numpy as wnp
    >>> wnp.flatnonzero(np.array([[0, 1], [2, 0]]))
    array([1, 2])
    """
    if size is None:
        return np.flatnonzero(known_values("flatnonzero", a, SIZED))
    x = as_value(a)
    line = reshape(x, shape=(type_of(x).size,))
    return nonzero(line, size=size, fill_value=fill_value)[0]


def argwhere(a: Any, *, size: int | None = None, fill_value: int = 0) -> Any:
    """``numpy.argwhere``: where elements are not zero, one row for each; see `nonzero`.

    >>> import numpy as np, wengert.numpy as wnp
    >>> wnp.argwhere(np.array([[0, 1], [2, 0]]))
    array([[0, 1],
           [1, 0]])
    """
    if size is None:
        return np.argwhere(known_values("argwhere", a, SIZED))
    places = nonzero(a, size=size, fill_value=fill_value)
    if not places:
        raise ShapeError(explain("argwhere", "got a number and size", "Give an array."))
    return concatenate(*[reshape(own, shape=(int(size), 1)) for own in places], axis=1)
