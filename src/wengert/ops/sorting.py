"""Order: `argsort`, `ranked` and `searchsorted`, whose results are integers, and `along`, which
follows them.

Sorting is recorded as what its derivatives need: a sorted array is the array gathered along the
axis in the order that `argsort` gives. The order is constant around a point without ties, so
gathering is linear and every derivative of sorting is again a gather. Where nothing else needs the
order, the compiler makes `sort` of the two, several times as quick. Both call NumPy's own sorts.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ..errors import ShapeError, explain
from ..functions import Cost
from ..loops import BOOL, Affine, Apply, Expr, Index, Literal, LoadAt, Operand, Pointwise, cast
from ..machine import current
from ..types import ArrayType, type_of
from .elementwise import select
from .indexing import check_indices, gather
from .layout import broadcast_to, reduce_sum, reshape
from .logic import DISCRETE, equal, isnan, less, logical_and, logical_not, logical_or
from .op import Op

INDEX = np.dtype(np.intp)
# From this size on it pays to look for ties before sorting.
LARGE = 512
# Compiled code compares all pairs of elements in lines up to this length, up to so many pairs; in
# longer ones where all else would be a call of Python.
MOST_RANKED, MOST_RANKED_ALONE, MOST_PAIRS = 16, 64, 1 << 20
_CORNERS = np.array([0.5, 1.0, 3.0, np.inf, -np.inf, np.nan, -0.0, 0.0])


def along(x: Any, indices: Any, axis: int) -> Any:
    """``take_along_axis``: in each line of `x` along `axis` the elements that `indices` names."""
    shape = type_of(x).shape
    rank = len(shape)
    if rank == 1:
        return gather(x, indices, axes=(0,))
    places = [
        indices if k == axis else np.arange(n).reshape((n,) + (1,) * (rank - 1 - k))
        for k, n in enumerate(shape)
    ]
    return gather(x, *places, axes=tuple(range(rank)))


def _argsort(x: Any, axis: int, descending: bool) -> Any:
    if not descending:
        return _stable_order(x, axis)
    # sorting the reversed line and reversing the order keeps equal elements in their order
    order = _stable_order(np.flip(x, axis), axis)
    return np.shape(x)[axis] - 1 - np.flip(order, axis)


def _stable_order(x: Any, axis: int) -> Any:
    # NumPy's default order is several times faster than its stable one, and the same without ties
    if type_of(x).dtype.kind == "f" and np.size(x) >= LARGE and _all_differ(x, axis):
        return np.argsort(x, axis)
    return np.argsort(x, axis, kind="stable")


def _all_differ(x: Any, axis: int) -> bool:
    ordered = np.moveaxis(np.sort(x, axis), axis, -1)
    # smaller, not different: NaN fails too
    return bool(np.all(ordered[..., :-1] < ordered[..., 1:]))


def _composed_argsort(x: Any, axis: int, descending: bool) -> Any:
    """Of short lines: the rank of an element is how many come before it, each looked at."""
    dtype, shape, _ = type_of(x)
    length = shape[axis]
    most = MOST_RANKED if current().numpy_loops else MOST_RANKED_ALONE
    if length > most or length * prod(shape) > MOST_PAIRS:
        return None
    down, right = (*shape[:axis], length, 1), (*shape[:axis], 1, length)
    this, other = (reshape(x, shape=(*front, *shape[axis + 1 :])) for front in (down, right))
    lower, upper = (this, other) if descending else (other, this)
    before = less(lower, upper)
    if dtype.kind == "f":  # NaN is larger than all else
        before = logical_or(before, logical_and(isnan(upper), logical_not(isnan(lower))))
    same = equal(this, other)
    if dtype.kind == "f":
        same = logical_or(same, logical_and(isnan(this), isnan(other)))
    numbers = np.arange(length, dtype=INDEX).reshape((length,) + (1,) * (len(shape) - 1 - axis))
    earlier = numbers[None] < numbers[:, None]
    ranks = reduce_sum(logical_or(before, logical_and(same, earlier)), axes=(axis + 1,))
    found = equal(reshape(ranks, shape=(*right, *shape[axis + 1 :])), numbers[:, None])
    return reduce_sum(select(found, numbers[None], 0), axes=(axis + 1,))


# Where the elements of the sorted array come from; equal elements keep their order.
argsort: Op = Op(
    "argsort",
    _argsort,
    lambda x, axis, descending: ArrayType(INDEX, x.shape),
    zero=DISCRETE,
    batch=lambda size, flags, x, axis, descending: argsort(x, axis=axis + 1, descending=descending),
    samples=lambda rng: [
        ((rng.normal(size=(4, 3)),), {"axis": 0, "descending": False}),
        ((rng.integers(0, 3, size=(2, 5)),), {"axis": 1, "descending": True}),
        ((rng.normal(size=(0, 2)),), {"axis": 0, "descending": True}),
        ((np.tile(_CORNERS, (3, 2)),), {"axis": 1, "descending": False}),
        ((np.tile(_CORNERS, (3, 2)).T,), {"axis": 0, "descending": True}),
    ],
    compose=_composed_argsort,
)


def _sort(x: Any, axis: int, descending: bool) -> Any:
    ordered = np.sort(x, axis)  # equal numbers look alike: no need to keep their order
    return np.flip(ordered, axis) if descending else ordered


# The elements in order, without telling it.
sort: Op = Op(
    "sort",
    _sort,
    lambda x, axis, descending: ArrayType(x.dtype, x.shape),
    jvp=(
        lambda t, ans, x, axis, descending: along(
            t, argsort(x, axis=axis, descending=descending), axis
        ),
    ),
    batch=lambda size, flags, x, axis, descending: sort(x, axis=axis + 1, descending=descending),
    hosted="NumPy sorts several times as fast as an order is found and followed",
    samples=lambda rng: [
        ((rng.normal(size=(4, 3)),), {"axis": 0, "descending": False}),
        ((rng.normal(size=(2, 5)),), {"axis": 1, "descending": True}),
        ((rng.integers(0, 3, size=(2, 5)),), {"axis": 1, "descending": True}),
        ((rng.normal(size=(0, 2)),), {"axis": 0, "descending": True}),
    ],
)


def _ranked(x: Any, ranks: Any, axis: int) -> Any:
    ranks = np.asarray(ranks)
    check_indices("ranked", [ranks], [np.shape(x)[axis]])
    if np.shape(x)[axis] < LARGE:
        return np.take(_stable_order(x, axis), ranks, axis)
    lines = np.moveaxis(np.asarray(x), axis, -1)
    found = np.empty((*lines.shape[:-1], ranks.size), INDEX)
    for place in np.ndindex(lines.shape[:-1]):
        found[place] = _selected(lines[place], ranks % lines.shape[-1])
    return np.moveaxis(found, -1, axis)


def _selected(line: np.ndarray, ranks: np.ndarray) -> list[Any]:
    """The places of these ranks: of the equal elements the one that the order has there."""
    values = np.partition(line, np.unique(ranks))[ranks]
    found = []
    for rank, value in zip(ranks, values, strict=True):
        same = line == value if value == value else line != line
        before = line < value if value == value else line == line
        found.append(np.flatnonzero(same)[rank - np.count_nonzero(before)])
    return found


def _composed_ranked(x: Any, ranks: Any, axis: int) -> Any:
    order = argsort(x, axis=axis, descending=False)
    return along(order, _beside(ranks, axis, len(type_of(x).shape)), axis)


def _beside(ranks: Any, axis: int, rank: int) -> Any:
    """Ranks of all lines, or a row of them for each sample in front, along an axis of `rank`."""
    *front, count = type_of(ranks).shape
    shape = [*front, *[1] * (rank - len(front))]
    shape[axis] = count
    return reshape(ranks, shape=tuple(shape))


def _batch_ranked(size: int, flags: Sequence[bool], x: Any, ranks: Any, axis: int) -> Any:
    if not flags[1]:
        return ranked(x, ranks, axis=axis + 1)
    if not flags[0]:
        x = broadcast_to(x, shape=(size, *type_of(x).shape))
    return _composed_ranked(x, ranks, axis + 1)


# Where in each line the elements are that `argsort` would have at these ranks, a vector of them.
# Of long lines few ranks are found several times as quickly as the order.
ranked: Op = Op(
    "ranked",
    _ranked,
    lambda x, ranks, axis: ArrayType(
        INDEX, (*x.shape[:axis], ranks.shape[0], *x.shape[axis + 1 :])
    ),
    zero=DISCRETE,
    batch=_batch_ranked,
    compose=_composed_ranked,
    samples=lambda rng: [
        ((rng.normal(size=(4, 3)), np.array([0, 3, 3])), {"axis": 0}),
        ((rng.integers(0, 3, size=(2, 5)), np.array([2])), {"axis": 1}),
        ((np.tile(_CORNERS, (3, 2)), np.array([1, 2, 3, 4, 11, 15])), {"axis": 1}),
        ((rng.normal(size=(600, 2)).round(1).astype(np.float32), np.array([300])), {"axis": 0}),
        ((rng.normal(size=(0, 5)), np.array([2, -1])), {"axis": 1}),
    ],
)


def _searchsorted(a: Any, v: Any, side: Any, leading: int) -> Any:
    if not leading:
        return np.searchsorted(a, v, side)
    found = np.empty(np.shape(v), INDEX)
    for place in np.ndindex(np.shape(v)[:leading]):
        found[place] = np.searchsorted(a[place], v[place], side)
    return found


def _searchsorted_type(a: ArrayType, v: ArrayType, side: str, leading: int) -> ArrayType:
    if len(a.shape) != 1 + leading:
        raise ShapeError(
            explain(
                "searchsorted",
                f"got a sorted array of shape {a.shape[leading:]}, expected one axis",
                "Use vmap to search in several sorted arrays.",
            )
        )
    return ArrayType(INDEX, v.shape)


def _batch_searchsorted(
    size: int, flags: Sequence[bool], a: Any, v: Any, side: str, leading: int
) -> Any:
    if not flags[0] and not leading:
        return searchsorted(a, v, side=side, leading=0)
    a, v = (
        x if flag else broadcast_to(x, shape=(size, *type_of(x).shape))
        for x, flag in zip((a, v), flags, strict=True)
    )
    return searchsorted(a, v, side=side, leading=leading + 1)


def _searchsorted_loops(at: Index, a: Operand, v: Operand, side: str, leading: int) -> Expr:
    """Halving without branches: a step is taken if it leads no further than before `v`."""
    memory, length = a.memory(), a.type.shape[-1]
    dtype = np.result_type(a.type.dtype, v.type.dtype)
    value = cast(v(at), dtype)
    line = memory.flat((*at[:leading], Affine(0)))

    def number(n: int) -> Expr:
        return Literal(INDEX.type(n), INDEX)

    found = number(0)
    for power in reversed(range(length.bit_length())):
        ahead = Apply("add", (found, number(1 << power)), INDEX)
        inside = Apply("less_equal", (ahead, number(length)), BOOL)
        last = Apply(
            "subtract", (Apply("minimum", (ahead, number(length)), INDEX), number(1)), INDEX
        )
        element = cast(LoadAt(memory, line, ((last, memory.strides[-1]),)), dtype)
        passes = Apply("logical_and", (inside, _comes_before(element, value, side)), BOOL)
        found = Apply("where", (passes, ahead, found), INDEX)
    return found


def _comes_before(x: Expr, y: Expr, side: str) -> Expr:
    """Whether x < y, or on the right x <= y, where NaN is larger than all else."""
    before = Apply("less" if side == "left" else "less_equal", (x, y), BOOL)
    if x.dtype.kind != "f":
        return before
    beyond = Apply("isnan", (y,), BOOL)
    if side == "left":
        number = Apply("equal", (x, x), BOOL)
        beyond = Apply("logical_and", (beyond, number), BOOL)
    return Apply("logical_or", (before, beyond), BOOL)


# Where `v` would be put into the sorted `a`; each has `leading` axes in common, which are looped
# over.
searchsorted: Op = Op(
    "searchsorted",
    _searchsorted,
    _searchsorted_type,
    zero=DISCRETE,
    batch=_batch_searchsorted,
    loops=Pointwise(_searchsorted_loops, whole=(0,)),
    cost=Cost.LONG,
    samples=lambda rng: [
        *[
            (
                (np.array([-np.inf, 0.0, 1.0, 1.0, 2.0, np.nan, np.nan]), _CORNERS),
                {"side": side, "leading": 0},
            )
            for side in ("left", "right")
        ],
        ((np.zeros(0), np.arange(3.0)), {"side": "left", "leading": 0}),
        ((np.arange(9.0), np.arange(-2, 11)), {"side": "right", "leading": 0}),
        ((np.sort(rng.normal(size=5)), rng.normal(size=(2, 3))), {"side": "left", "leading": 0}),
        ((np.sort(rng.normal(size=5)), rng.normal(size=5)), {"side": "right", "leading": 0}),
        ((np.arange(4), np.arange(-1, 5)), {"side": "right", "leading": 0}),
        ((np.arange(4.0), np.float64(1.5)), {"side": "left", "leading": 0}),
        (
            (np.sort(rng.normal(size=(2, 5))), rng.normal(size=(2, 3))),
            {"side": "left", "leading": 1},
        ),
    ],
)
