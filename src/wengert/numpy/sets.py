"""Sets: the different values of arrays, which of them are in others, unions and differences.

How many values there are depends on them, so that without more they must be known. With `size`
there are as many: the first ones in order, filled up with `fill_value` where there are fewer. That
works under `jit` and `vmap`. Either way a value has the derivative of the element that it is, of
equal ones that of the first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import OptionError, ShapeError, explain
from ..ops import elementwise as ew
from ..ops import logic
from ..ops.cumulative import cumsum
from ..ops.indexing import gather, index, scatter_add, scatter_set
from ..ops.layout import reshape
from ..ops.op import Traced
from ..ops.sorting import argsort, searchsorted
from ..ops.structure import concatenate
from ..trace.lying import in_order
from ..trace.orders import C_ORDER
from ..types import result_dtype, type_of
from .common import as_value, cast, known_values, ndim, shape, strong
from .creation import zeros
from .indexing import take
from .reductions import any as any_of
from .sorting import SIZED, fixed_size, places_of

__all__ = [
    "intersect1d", "isin", "setdiff1d", "setxor1d", "union1d", "unique", "unique_all",
    "unique_counts", "unique_inverse", "unique_values",
]  # fmt: skip

# Up to so many values to look for, each element is compared with all of them.
_FEW = 16


def _flat(x: Any) -> Any:
    x = strong(as_value(x))
    return x if ndim(x) == 1 else reshape(x, shape=(type_of(x).size,))


def isin(
    element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False,
    *, kind: str | None = None,
) -> Any:  # fmt: skip
    """``numpy.isin``: which elements are among others.

    >>> import numpy as np, wengert.numpy as wnp
    >>> wnp.isin(np.array([0, 2, 5]), [2, 3, 5])
    array([False,  True,  True])
    """
    x, others = strong(as_value(element)), _flat(test_elements)
    if shape(others)[0] <= _FEW:
        wide = reshape(x, shape=(*shape(x), 1))
        found = any_of(logic.equal(wide, others), axis=-1)
    else:
        found = _found(x, others)
    return in_order(logic.logical_not(found) if invert else found, C_ORDER)


def _found(x: Any, others: Any) -> Any:
    """Which elements are in a line, by search in it when it is sorted."""
    dtype = result_dtype(type_of(x), type_of(others))
    x, others = cast(x, dtype), cast(others, dtype)
    ordered = gather(others, argsort(others, axis=0, descending=False), axes=(0,))
    place = searchsorted(ordered, x, side="left", leading=0)
    place = ew.minimum(place, shape(others)[0] - 1)
    return logic.equal(gather(ordered, place, axes=(0,)), x)


# ---------------------------------------------------------------- values of any number


def _has_derivative(x: Any) -> bool:
    return isinstance(x, Traced) and type_of(x).inexact


def _elements(found: np.ndarray, *arrays: Any) -> Any:
    """Values that NumPy found in arrays, as the elements that they are, with their derivatives."""
    if not any(_has_derivative(x) for x in arrays):
        return found
    line = cast(_joined(*[_flat(x) for x in arrays]), found.dtype)
    values = known_values("unique", line)
    order = np.argsort(values, kind="stable")
    return gather(line, order[np.searchsorted(values, found, sorter=order)], axes=(0,))


# ---------------------------------------------------------------- values of a fixed number


class _Sorted:
    """A line in order: the elements, where they come from, and which are first of their value."""

    def __init__(self, x: Any, equal_nan: bool = True):
        self.order = argsort(x, axis=0, descending=False)
        self.values = gather(x, self.order, axes=(0,))
        self.length = shape(x)[0]
        self.first = self._first(equal_nan)

    def _first(self, equal_nan: bool) -> Any:
        before = index(self.values, key=((0, max(self.length - 1, 0), 1),))
        behind = index(self.values, key=((min(1, self.length), self.length, 1),))
        differs = logic.not_equal(before, behind)
        if equal_nan and type_of(self.values).inexact:
            both = logic.logical_and(logic.isnan(before), logic.isnan(behind))
            differs = logic.logical_and(differs, logic.logical_not(both))
        return concatenate(np.ones(min(1, self.length), bool), differs, axis=0)


def _taken(values: Any, marked: Any, size: int, fill_value: Any) -> Any:
    """The first `size` marked values, filled up; by default with the first of them."""
    places, there = places_of(marked, size)
    if shape(values)[0] == 0:
        fill = 0 if fill_value is None else fill_value
        return zeros(size, type_of(values).dtype) + cast(as_value(fill), type_of(values).dtype)
    found = gather(values, places, axes=(0,))
    if fill_value is None:
        fill_value = index(found, key=((0, min(1, size), 1),))
        any_there = index(there, key=((0, min(1, size), 1),))
        fill_value = ew.select(any_there, fill_value, type_of(values).dtype.type(0))
    fill = cast(as_value(fill_value), type_of(values).dtype)
    return ew.select(there, found, fill)


def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """``numpy.unique``: the different values, sorted.

    >>> import numpy as np, wengert as wg, wengert.numpy as wnp
    >>> wg.jit(lambda x: wnp.unique(x, size=4, fill_value=-1.0))(np.array([3.0, 1.0, 3.0]))
    array([ 1.,  3., -1., -1.])
    """
    if size is None:
        find: Any = np.unique
        asked = (return_inverse, return_counts, axis)
        options = {"equal_nan": equal_nan, "sorted": sorted}
        found, places, *others = find(known_values("unique", ar, SIZED), True, *asked, **options)
        if _has_derivative(ar):
            found = take(ar, places, axis)
        results = [found, *([places] if return_index else []), *others]
        return tuple(results) if len(results) > 1 else found
    if axis is not None:
        raise ShapeError(explain("unique", f"got axis={axis} and size", "Use vmap for rows."))
    size = fixed_size("unique", size)
    own = shape(as_value(ar))
    line = _Sorted(_flat(ar), equal_nan)
    results = [_taken(line.values, line.first, size, fill_value)]
    number = cumsum(cast(line.first, np.intp), axis=0, reverse=False) - 1
    if return_index:
        results.append(_taken(line.order, line.first, size, None))
    if return_inverse:
        inverse = scatter_set(np.zeros(line.length, np.intp), number, line.order, axes=(0,))
        results.append(reshape(inverse, shape=own))
    if return_counts:
        kept = ew.minimum(number, size)
        counts = scatter_add(np.zeros(size + 1, np.intp), 1, kept, axes=(0,))
        results.append(index(counts, key=((0, size, 1),)))
    return tuple(results) if len(results) > 1 else results[0]


def _as_array_api(function: Any, x: Any) -> Any:
    """What a function of NumPy's says of the different values, these as elements of `x`."""
    found = function(known_values(function.__name__, x, "or use unique with a size"))
    if isinstance(found, np.ndarray):
        return _elements(found, x)
    return found._replace(values=_elements(found.values, x))


def unique_values(x: Any) -> Any:
    """``numpy.unique_values``: the different values."""
    return _as_array_api(np.unique_values, x)


def unique_counts(x: Any) -> Any:
    """``numpy.unique_counts``: the different values and how often each occurs."""
    return _as_array_api(np.unique_counts, x)


def unique_inverse(x: Any) -> Any:
    """``numpy.unique_inverse``: the different values and which of them each element is."""
    return _as_array_api(np.unique_inverse, x)


def unique_all(x: Any) -> Any:
    """``numpy.unique_all``: the different values, first places, inverse and counts."""
    return _as_array_api(np.unique_all, x)


# ---------------------------------------------------------------- two sets


def _joined(*lines: Any) -> Any:
    dtype = np.result_type(*[type_of(line).dtype for line in lines])
    return concatenate(*[cast(line, dtype) for line in lines], axis=0)


def _plainly(function: Any, ar1: Any, ar2: Any, *options: bool) -> Any:
    """NumPy's own function, of values that must be known."""
    first, second = (known_values(function.__name__, x, SIZED) for x in (ar1, ar2))
    found = function(first, second, *options)
    if isinstance(found, tuple):  # with the places
        return _elements(found[0], ar1), *found[1:]
    return _elements(found, ar1, ar2)


def union1d(ar1: Any, ar2: Any, *, size: int | None = None, fill_value: Any = None) -> Any:
    """``numpy.union1d``: the values that are in one of two arrays, sorted.

    >>> import numpy as np, wengert as wg, wengert.numpy as wnp
    >>> wnp.union1d([1, 3], [2, 3])
    array([1, 2, 3])
    """
    if size is None:
        return _plainly(np.union1d, ar1, ar2)
    return unique(_joined(_flat(ar1), _flat(ar2)), size=size, fill_value=fill_value)


def intersect1d(
    ar1: Any,
    ar2: Any,
    assume_unique: bool = False,
    return_indices: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """``numpy.intersect1d``: the values that are in both arrays, sorted.

    >>> import numpy as np, wengert.numpy as wnp
    >>> wnp.intersect1d([1, 3, 4], [4, 3, 5])
    array([3, 4])
    """
    if size is None:
        return _plainly(np.intersect1d, ar1, ar2, assume_unique, return_indices)
    if return_indices:
        raise OptionError(explain("intersect1d", "got size and return_indices", "Leave one out."))
    first, second = _flat(ar1), _flat(ar2)
    dtype = np.result_type(type_of(first).dtype, type_of(second).dtype)
    return _of_two("intersect1d", cast(first, dtype), size, fill_value, lambda x: isin(x, second))


def setdiff1d(
    ar1: Any,
    ar2: Any,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """``numpy.setdiff1d``: the values of the first array that are not in the second, sorted.

    >>> import numpy as np, wengert.numpy as wnp
    >>> wnp.setdiff1d([1, 3, 4], [4, 5])
    array([1, 3])
    """
    if size is None:
        return _plainly(np.setdiff1d, ar1, ar2, assume_unique)
    other = _flat(ar2)
    away = lambda x: isin(x, other, invert=True)
    return _of_two("setdiff1d", _flat(ar1), size, fill_value, away)


def setxor1d(
    ar1: Any,
    ar2: Any,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """``numpy.setxor1d``: the values that are in one of two arrays alone, sorted.

    >>> import numpy as np, wengert.numpy as wnp
    >>> wnp.setxor1d([1, 3, 4], [4, 5])
    array([1, 3, 5])
    """
    if size is None:
        return _plainly(np.setxor1d, ar1, ar2, assume_unique)
    first, second = _flat(ar1), _flat(ar2)
    alone = lambda x: logic.not_equal(isin(x, first), isin(x, second))
    return _of_two("setxor1d", _joined(first, second), size, fill_value, alone)


def _of_two(name: str, x: Any, size: int, fill_value: Any, wanted: Any) -> Any:
    line = _Sorted(x)
    marked = logic.logical_and(line.first, wanted(line.values))
    return _taken(line.values, marked, fixed_size(name, size), fill_value)
