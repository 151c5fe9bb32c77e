"""Counting: `bincount`, and histograms of one or more axes, with their bins.

Counts follow the weights alone: by the samples the derivative is zero. Edges follow the least and
the greatest sample, or what gave them, and densities follow both. Bins that are given by their
number, or by edges, need no known samples; those that NumPy chooses by a rule do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import OptionError, ShapeError, explain
from ..ops import elementwise as ew
from ..ops import logic
from ..ops.indexing import index, scatter_add
from ..ops.layout import reduce_sum, reshape
from ..ops.reductions import reduce_max, reduce_min
from ..ops.sorting import searchsorted
from ..trace.tracer import concrete
from ..types import type_of
from .common import as_value, cast, contains_traced, known_values, ndim, shape
from .creation import linspace

__all__ = ["bincount", "histogram", "histogram2d", "histogram_bin_edges", "histogramdd"]


def bincount(x: Any, weights: Any = None, minlength: int = 0, *, length: int | None = None) -> Any:
    """``numpy.bincount``: how often each number occurs, or the sum of its weights.

    The result is as long as the largest number says, at least `minlength`; with `length` it has
    that length, also where the numbers are not known (under `jit` and `vmap`).

    >>> import wengert.numpy as wnp
    >>> wnp.bincount([0, 2, 2], weights=[0.5, 1.0, 2.0])
    array([0.5, 0. , 3. ])
    """
    x = as_value(x)
    if ndim(x) != 1 or type_of(x).dtype.kind not in "iub":
        raise ShapeError(explain("bincount", f"got {type_of(x)}, expected a line of integers >= 0"))
    if length is None:
        numbers = known_values("bincount without `length`", x)
        if numbers.size and numbers.min() < 0:
            raise ShapeError(
                explain("bincount", f"got the number {numbers.min()}", "Count numbers >= 0 only.")
            )
        length = max(int(numbers.max()) + 1 if numbers.size else 0, minlength)
    x = cast(x, np.intp)
    if weights is None:
        return scatter_add(np.zeros(length, np.intp), 1, x, axes=(0,))
    weights = cast(as_value(weights), np.float64)
    if shape(weights) != shape(x):
        raise ShapeError(
            explain(
                "bincount",
                f"got {shape(x)[0]} numbers and weights of shape {shape(weights)}",
                "Give one weight for each number.",
            )
        )
    return scatter_add(np.zeros(length), weights, x, axes=(0,))


# ---------------------------------------------------------------- bins

_Range = tuple[Any, Any] | None


def histogram_bin_edges(a: Any, bins: Any = 10, range: _Range = None, weights: Any = None) -> Any:
    """``numpy.histogram_bin_edges``: the edges of the bins that `histogram` would take.

    >>> import numpy as np, wengert.numpy as wnp
    >>> wnp.histogram_bin_edges(np.array([0.0, 1.0, 4.0]), bins=4)
    array([0., 1., 2., 3., 4.])
    """
    return _edges("histogram_bin_edges", _samples(a), bins, range, weights)


def _samples(a: Any) -> Any:
    x = as_value(a)
    return reshape(x, shape=(type_of(x).size,))


def _edges(name: str, x: Any, bins: Any, range: _Range, weights: Any = None) -> Any:
    """The edges of the bins for a line of samples: traced ones where they depend on what is."""
    value = concrete(x)
    plain = [concrete(as_value(b)) for b in range] if range is not None else None
    given = bins if isinstance(bins, str) or np.ndim(bins) == 0 else concrete(as_value(bins))
    if isinstance(given, str):
        value = known_values(f"{name} with bins={given!r}", x, "or give the number of bins")
    if value is not None and given is not None and (plain is None or None not in plain):
        weighted: Any = None  # they decide bins by no rule, and NumPy says so
        if weights is not None and isinstance(given, str):
            weighted = np.ones(np.shape(value))
        limits: Any = None if plain is None else tuple(float(b) for b in plain)
        known = np.histogram_bin_edges(np.asarray(value), given, limits, weighted)
        if not contains_traced([x, bins, *(() if range is None else range)]):
            return known
        bins = known.size - 1 if isinstance(given, str) else bins
    if np.ndim(bins) == 1:
        return as_value(bins)
    if np.ndim(bins) or int(bins) < 1:
        raise OptionError(explain(name, f"got bins={bins!r}", "Give a number, or edges."))
    return _even(name, x, int(bins), range)


def _even(name: str, x: Any, bins: int, range: _Range) -> Any:
    """Bins of one width over the range, by default that of the samples."""
    if range is not None:
        low, high = (cast(as_value(bound), np.float64) for bound in range)
    elif shape(x)[0] == 0:
        low, high = 0.0, 1.0
    else:
        wide = x if type_of(x).inexact else cast(x, np.float64)
        low, high = (op(wide, axes=(0,), ties="equal") for op in (reduce_min, reduce_max))
    same = logic.equal(low, high)
    low, high = ew.select(same, low - 0.5, low), ew.select(same, high + 0.5, high)
    return linspace(low, high, bins + 1)


def _bins_of(x: Any, edges: Any) -> tuple[Any, Any]:
    """The bin of each sample, and whether it is in one; the last includes its upper edge."""
    x, edges = logic.stop_gradient(x), logic.stop_gradient(edges)
    count = shape(edges)[0]
    place = searchsorted(edges, x, side="right", leading=0) - 1
    first, last = index(edges, key=(0,)), index(edges, key=(count - 1,))
    inside = logic.logical_and(logic.greater_equal(x, first), logic.less_equal(x, last))
    return ew.maximum(ew.minimum(place, count - 2), 0), inside


# ---------------------------------------------------------------- histograms


def histogram(
    a: Any,
    bins: Any = 10,
    range: _Range = None,
    density: bool | None = None,
    weights: Any = None,
) -> tuple[Any, Any]:
    """``numpy.histogram``: counts in bins, and the edges.

    Counts have derivatives by the weights; edges, and with them densities, by what gives them.

    >>> import numpy as np, wengert as wg, wengert.numpy as wnp
    >>> counts, edges = wg.jit(lambda x: wnp.histogram(x, 2))(np.array([0.0, 0.25, 1.0]))
    >>> counts, edges
    (array([2, 1]), array([0. , 0.5, 1. ]))
    """
    if not contains_traced([a, bins, weights, *(() if range is None else range)]):
        return np.histogram(as_value(a), bins, range, density, weights)
    x = _samples(a)
    edges = _edges("histogram", x, bins, range, weights)
    counts = _counted("histogram", [x], [edges], weights)
    if density:
        counts = _dense(counts, [edges])
    return counts, edges


def _counted(name: str, samples: Sequence[Any], edges: Sequence[Any], weights: Any) -> Any:
    """How many samples, or what weights, are in each bin of all axes together."""
    places, inside = [], None
    for x, own in zip(samples, edges, strict=True):
        place, there = _bins_of(x, own)
        places.append(place)
        inside = there if inside is None else logic.logical_and(inside, there)
    lengths = tuple(shape(own)[0] - 1 for own in edges)
    axes = tuple(range(len(lengths)))
    if weights is None:
        zeros: Any = np.zeros(lengths, np.intp)
        return scatter_add(zeros, cast(inside, np.intp), *places, axes=axes)
    weights = as_value(weights)
    if type_of(weights).size != shape(samples[0])[0]:
        raise ShapeError(
            explain(
                name,
                f"got weights of shape {shape(weights)} for {shape(samples[0])[0]} samples",
                "Give one weight for each sample.",
            )
        )
    line = ew.select(inside, reshape(weights, shape=(type_of(weights).size,)), 0)
    zeros = np.zeros(lengths, type_of(line).dtype)
    return scatter_add(zeros, line, *places, axes=axes)


def _dense(counts: Any, edges: Sequence[Any]) -> Any:
    """Counts as a density: over all bins its integral is 1."""
    total = reduce_sum(counts, axes=tuple(range(ndim(counts))))
    for axis, own in enumerate(edges):
        length = shape(own)[0]
        above, below = index(own, key=((1, length, 1),)), index(own, key=((0, length - 1, 1),))
        across = tuple(length - 1 if k == axis else 1 for k in range(ndim(counts)))
        counts = ew.divide(counts, reshape(ew.subtract(above, below), shape=across))
    return ew.divide(counts, total)


def histogramdd(
    sample: Any,
    bins: Any = 10,
    range: Any = None,
    density: bool | None = None,
    weights: Any = None,
) -> tuple[Any, tuple[Any, ...]]:
    """``numpy.histogramdd``: counts in bins of several axes, one column of samples for each.

    >>> import numpy as np, wengert.numpy as wnp
    >>> counts, edges = wnp.histogramdd(np.array([[0.0, 0.0], [1.0, 0.2], [1.0, 1.0]]), bins=2)
    >>> counts
    array([[1., 0.],
           [1., 1.]])
    """
    columns = _columns(sample)
    count = len(columns)
    own_bins = list(bins) if np.iterable(bins) else [bins] * count
    own_ranges = [None] * count if range is None else list(range)
    if len(own_bins) != count or len(own_ranges) != count:
        raise ShapeError(
            explain(
                "histogramdd",
                f"got {len(own_bins)} bins and {len(own_ranges)} ranges for {count} axes",
                "Give one for each axis.",
            )
        )
    parts = zip(columns, own_bins, own_ranges, strict=True)
    edges = tuple(_edges("histogramdd", x, each, limits) for x, each, limits in parts)
    counts = _counted("histogramdd", columns, edges, weights)
    dtype = np.result_type(type_of(counts).dtype, np.float64)
    counts = cast(counts, dtype)
    return (_dense(counts, edges) if density else counts), edges


def _columns(sample: Any) -> list[Any]:
    """One line of samples for each axis: the columns of an array, or the items of a list."""
    if isinstance(sample, (list, tuple)):
        return [_samples(column) for column in sample]
    x = as_value(sample)
    x = reshape(x, shape=(shape(x)[0], 1)) if ndim(x) == 1 else x
    if ndim(x) != 2:
        raise ShapeError(
            explain("histogramdd", f"got an array of shape {shape(x)}", "Give rows of samples.")
        )
    rows = (0, shape(x)[0], 1)
    return [index(x, key=(rows, k)) for k in range(shape(x)[1])]


def histogram2d(
    x: Any,
    y: Any,
    bins: Any = 10,
    range: Any = None,
    density: bool | None = None,
    weights: Any = None,
) -> tuple[Any, Any, Any]:
    """``numpy.histogram2d``: counts in bins of two axes, and the edges of both.

    >>> import numpy as np, wengert.numpy as wnp
    >>> wnp.histogram2d(np.array([0.0, 1.0]), np.array([0.0, 1.0]), bins=2)[0]
    array([[1., 0.],
           [0., 1.]])
    """
    each: Any = bins
    count = len(bins) if np.iterable(bins) else 2  # type: ignore[arg-type]
    if count not in (1, 2):  # edges for both
        each = [bins, bins]
    elif count == 1:
        each = [bins[0], bins[0]]
    counts, edges = histogramdd([x, y], each, range, density, weights)
    return counts, edges[0], edges[1]
