"""Reads and writes at places that are known now and lie at equal distances -> slices and windows.

    for i in range(n):                          the places are constants, and the reads are those of
        for k in range(3):              ->      x[1:n+1, 3] and of windows of w, 3 wide: at i + k
            y[i] += x[i + 1, 3] * w[i + k]      they depend on two counters, of which one is slow

Slices need no table of places and no look whether these exist; their elements are read and written
with vectors. Windows besides are what convolutions are made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from ..graph import Graph, Node, Operator
from ..ops.elementwise import add
from ..ops.indexing import (
    embed,
    gather,
    index,
    index_set,
    is_whole,
    key_shape,
    scatter_add,
    scatter_set,
)
from ..ops.layout import broadcast_to, permute, reshape
from ..ops.op import Op
from ..ops.windows import fold, windows
from .constants import constant_value, is_uniform
from .loops import is_plain
from .rewriting import apply, rebuild, same_type


def take_slices(graph: Graph) -> Graph:
    """x[[1, 3, 5]] -> x[1:7:2]; x[0:n] -> x, and the same for writes."""
    return rebuild(graph, lambda node: _RULES[node.op](node) if node.op in _RULES else None)


class _Line(NamedTuple):
    """Places along one axis: where the first is, and how far it is to the next along each axis of
    the indices, for those along which they change."""

    first: int
    steps: dict[int, int]
    counts: dict[int, int]

    @property
    def key(self) -> Any:
        """The item of a key that takes all that lies at these places, and between windows' ends."""
        if not self.steps:
            return self.first
        if len(self.steps) == 1:
            ((axis, step),) = self.steps.items()
            last = self.first + step * (self.counts[axis] - 1)
            return self.first, last + (1 if step > 0 else -1), step
        ends = [step * (self.counts[axis] - 1) for axis, step in self.steps.items()]
        low = self.first + sum(min(end, 0) for end in ends)
        return low, low + sum(map(abs, ends)) + 1, 1

    @property
    def window(self) -> tuple[int, int]:
        """The axes of the indices along which windows lie, and along which their elements do."""
        slow, fast = sorted(self.steps, key=lambda axis: (-self.counts[axis], axis))
        return slow, fast


def _line(places: Any, length: int, rank: int) -> _Line | None:
    """Constant places along an axis of a length, beside indices of `rank` axes; None where they
    are not at equal distances, or one does not exist."""
    if places is None or np.size(places) == 0:
        return None
    table = np.asarray(places)
    if table.dtype.kind == "u" and table.max() >= length:
        return None
    table = np.where(table < 0, table + length, table).astype(np.int64)
    if table.min() < 0 or table.max() >= length:
        return None
    first = table[(0,) * table.ndim]
    left = table - first
    steps, counts = {}, {}
    for axis, count in enumerate(table.shape):
        if count > 1:
            step = left[tuple(int(k == axis) for k in range(table.ndim))]
            column = np.arange(count).reshape([-1] + [1] * (table.ndim - axis - 1))
            left = left - step * column
            steps[rank - table.ndim + axis] = int(step)
            counts[rank - table.ndim + axis] = count
    if left.any() or 0 in steps.values() or len(steps) > 2:
        return None
    return _Line(int(first), steps, counts)


class _SlicedPlaces:
    """Places of an array that are slices and windows of it.

    ``x[key]``, with the axes along which windows lie last, has its axes taken apart in windows;
    of these those that go backward are turned round. What comes of it has its axes in some order.
    """

    def __init__(self, x: Node, lines: dict[int, _Line], around: Sequence[int]):
        shape = x.type.shape
        rest = [axis for axis in range(len(shape)) if axis not in lines]
        # the axes of the indices, then those that are not indexed
        self.whole = (*around, *[shape[axis] for axis in rest])
        self.key = tuple(lines[k].key if k in lines else (0, n, 1) for k, n in enumerate(shape))
        kept = [axis for axis, item in enumerate(self.key) if isinstance(item, tuple)]
        windowed = [axis for axis in kept if axis in lines and len(lines[axis].steps) > 1]
        plain = [axis for axis in kept if axis not in windowed]
        self.order = tuple(kept.index(axis) for axis in [*plain, *windowed])
        self.lengths = tuple(key_shape(shape, self.key)[k] for k in self.order)[len(plain) :]
        near = [(lines[axis], *lines[axis].window) for axis in windowed]
        self.sizes = tuple(line.counts[fast] for line, _, fast in near)
        self.steps = {
            "strides": tuple(abs(line.steps[slow]) for line, slow, _ in near),
            "dilations": tuple(abs(line.steps[fast]) for line, _, fast in near),
        }
        # which axes these are of the whole
        names = [min(lines[a].steps) if a in lines else len(around) + rest.index(a) for a in plain]
        names += [slow for _, slow, _ in near] + [fast for _, _, fast in near]
        self.kept = tuple(self.whole[name] for name in sorted(names))
        self.back = tuple(map(int, np.argsort(names)))
        falling = {axis for line, *pair in near for axis in pair if line.steps[axis] < 0}
        self.turned = tuple(
            (self.whole[name] - 1, -1, -1) if name in falling else (0, self.whole[name], 1)
            for name in names
        )

    def read(self, x: Node, node: Node) -> Node:
        """What lies there, in place of a node that reads it."""
        found: Node = apply(permute, _indexed(x, self.key), params={"axes": self.order})
        if self.sizes:
            found = apply(windows, found, params={"sizes": self.sizes, **self.steps})
        found = apply(permute, _indexed(found, self.turned), params={"axes": self.back})
        return apply(reshape, found, params={"shape": self.whole}, like=node)

    def laid_out(self, y: Node) -> Node:
        """What is written there as ``x[key]`` has it; added up where one place is there twice."""
        found: Node = apply(broadcast_to, y, params={"shape": self.whole})
        found = apply(reshape, found, params={"shape": self.kept})
        found = apply(permute, found, params={"axes": _inverse(self.back)})
        found = _indexed(found, self.turned)
        if self.sizes:
            found = apply(fold, found, params={"shape": self.lengths, **self.steps})
        return apply(permute, found, params={"axes": _inverse(self.order)})


def _inverse(order: Sequence[int]) -> tuple[int, ...]:
    return tuple(map(int, np.argsort(order)))


def _places(node: Operator) -> _SlicedPlaces | None:
    """The places of a read or a write, where they are constant and lie at equal distances."""
    axes, shape = node.params["axes"], node.inputs[0].type.shape
    given = node.inputs[len(node.inputs) - len(axes) :]
    around = np.broadcast_shapes(*[place.type.shape for place in given])
    lines = {}
    taken: list[int] = []
    for place, axis in zip(given, axes, strict=True):
        found = _line(constant_value(place), shape[axis], len(around))
        if found is None:
            return None
        lines[axis] = found
        taken += found.steps
    if len(set(taken)) < len(taken):
        return None  # a diagonal
    return _SlicedPlaces(node.inputs[0], lines, around)


def _read(node: Operator) -> Node | None:
    """x[[1, 3, 5], 2] -> x[1:7:2, 2]."""
    found = _places(node)
    return None if found is None else found.read(node.inputs[0], node)


def _set(node: Operator) -> Node | None:
    """x with y at [[1, 3, 5], 2] -> x with y at [1:7:2, 2]."""
    x, y = node.inputs[:2]
    found = _places(node)
    if found is None or found.sizes:
        return None
    written = apply(index_set, x, found.laid_out(y), params={"key": found.key}, like=node)
    return _set_part(written) or written


def _add(node: Operator) -> Node | None:
    """x with y added at [[1, 3, 5], 2] -> x with x[1:7:2, 2] + y there."""
    x, y = node.inputs[:2]
    found = _places(node)
    if found is None or x.type.dtype != y.type.dtype or x.type.dtype.kind == "b":
        return None
    value = apply(add, _indexed(x, found.key), found.laid_out(y), params={})
    if is_whole(found.key, x.type.shape):
        return value
    return apply(index_set, x, value, params={"key": found.key}, like=node)


def _indexed(x: Node, key: tuple[Any, ...]) -> Node:
    return x if is_whole(key, x.type.shape) else apply(index, x, params={"key": key})


def _part(node: Operator) -> Node | None:
    """x[:] -> x; of x with y at [2], [2] is y, and [3] is that of x."""
    x, key = node.inputs[0], node.params["key"]
    if is_whole(key, x.type.shape):
        return x if same_type(x, node.type) else None
    if not _is(x, index_set):
        return None
    before, written = x.inputs
    if x.params["key"] == key and same_type(written, node.type):
        return written
    if _are_apart(x.params["key"], key):
        return apply(index, before, params={"key": key}, like=node)
    return None


def _are_apart(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Whether keys name different rows along an axis."""
    if None in one or None in other:
        return False
    return any(
        isinstance(mine, int) and isinstance(theirs, int) and mine != theirs
        for mine, theirs in zip(one, other, strict=True)
    )


def _around(node: Operator) -> Node | None:
    """Zeros with x everywhere -> x."""
    x = node.inputs[0]
    return x if is_whole(node.params["key"], node.type.shape) and same_type(x, node.type) else None


def _set_part(node: Operator) -> Node | None:
    """x with y everywhere -> y; x with x[2] at [2] -> x; with y, then z at [2] -> with z."""
    x, y = node.inputs
    key = node.params["key"]
    if is_whole(key, node.type.shape) and same_type(y, node.type):
        return y
    if _is(x, index_set) and x.params["key"] == key:
        return apply(index_set, x.inputs[0], y, params=node.params, like=node)
    own = _is(y, index) and y.inputs[0] is x and y.params["key"] == key
    return x if own and same_type(x, node.type) else None


def _put_back(node: Operator) -> Node | None:
    """x with 0 at [2], plus zeros with y there -> x with y at [2]: the cotangent of a write, where
    the signs of zeros mean nothing."""
    for x, y in (node.inputs, node.inputs[::-1]):
        if not (_is(x, index_set) and _is(y, embed) and is_plain(node)):
            continue
        if x.params["key"] == y.params["key"] and is_uniform(x.inputs[1], 0):
            made = apply(index_set, x.inputs[0], y.inputs[0], params=x.params, like=node)
            return _set_part(made) or made
    return None


def _is(node: Node, op: Op) -> TypeGuard[Operator]:
    return isinstance(node, Operator) and node.op is op


_RULES = {
    add: _put_back,
    gather: _read,
    scatter_set: _set,
    scatter_add: _add,
    index: _part,
    embed: _around,
    index_set: _set_part,
}
