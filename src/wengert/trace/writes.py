"""Elements written one by one, kept by their places until the whole array is read.

``x[i] = v`` in a loop would make a new array of each write, and reading ``x[i - 1]`` would read
through all of them. Where the places are known numbers, nothing is made: what was written is
remembered, a read of such a place is the value itself, and when somebody asks for the array it is
put together once, of the values and of what is left of the old content between them.
"""

from __future__ import annotations

import itertools
from math import prod
from typing import Any

from ..ops.indexing import index, index_set
from ..ops.layout import broadcast_to, reshape
from ..ops.op import captor, uncaptured
from ..ops.structure import concatenate
from ..types import type_of
from .orders import lying

# Writes that stay what they are; more of them are put together at once.
FEW = 2


class Writes:
    """What was written to one array, by places: numbers along its first `depth` axes."""

    __slots__ = ("_fresh", "_known", "_root", "content", "depth")

    def __init__(self, content: Any, depth: int):
        self.content = content  # of the whole array, without the fresh writes
        self.depth = depth
        self._root = content  # before all that is known was written
        self._known: dict[tuple[int, ...], Any] = {}
        self._fresh: dict[tuple[int, ...], None] = {}  # as a set that keeps its order

    @property
    def is_settled(self) -> bool:
        """Whether the content has all that was written."""
        return not self._fresh

    def put(self, place: tuple[int, ...], value: Any) -> None:
        """Remember that this is at the place now."""
        self._known[place] = value
        self._fresh[place] = None

    def get(self, key: tuple[Any, ...]) -> Any:
        """``x[key]``, for a key that begins with a place."""
        place = key[: self.depth]
        if place not in self._known:
            return index(self._root, key=key)
        value = self._known[place]
        shape = type_of(self.content).shape[self.depth :]
        if shape and type_of(value).shape != shape:
            value = broadcast_to(value, shape=shape)
        inside = key[self.depth :]
        return index(value, key=inside) if inside else value

    def settle(self) -> Any:
        """The whole content, with all that was written."""
        shape = type_of(self.content).shape
        count = prod(shape[: self.depth])
        if len(self._fresh) > FEW or len(self._fresh) == count:
            self.content = reshape(self._joined(shape, count), shape=shape)
        else:
            inner = tuple((0, n, 1) for n in shape[self.depth :])
            for place in self._fresh:
                key = (*place, *inner)
                self.content = index_set(self.content, self._known[place], key=key)
        self._fresh.clear()
        return self.content

    def _joined(self, shape: tuple[int, ...], count: int) -> Any:
        """The values and what lies between them, one after the other along one axis."""
        rest = shape[self.depth :]
        old = reshape(self.content, shape=(count, *rest))
        inner = tuple((0, n, 1) for n in rest)
        parts: list[Any] = []
        places = sorted((_number(place, shape), place) for place in self._fresh)
        ends = [(-1, None), *places, (count, None)]
        for (before, _), (at, place) in itertools.pairwise(ends):
            if at > before + 1:
                parts.append(index(old, key=((before + 1, at, 1), *inner)))
            if place is not None:
                value = self._known[place]
                if type_of(value).shape != rest:
                    value = broadcast_to(value, shape=rest)
                parts.append(reshape(value, shape=(1, *rest)))
        return concatenate(*parts, axis=0)


def _number(place: tuple[int, ...], shape: tuple[int, ...]) -> int:
    """The place, counted through.

    >>> _number((1, 2), (4, 3))
    5
    """
    number = 0
    for at, length in zip(place, shape, strict=False):
        number = number * length + at
    return number


def remember(array: Any, place: tuple[int, ...], value: Any) -> None:
    """Write a value that does not change any more at a place of an array, which is no view."""
    array._check_writable(array, value)
    written = array._written
    if written is None or written.depth != len(place):
        array._keep_order()
        written = array._written = Writes(array._peek(), len(place))
    if written.is_settled:
        array._node = None
    written.put(place, value)
    array._version += 1


def recalled(array: Any, key: tuple[Any, ...]) -> Any:
    """``x[key]`` of what was written at fixed places; None where this is not known."""
    written = getattr(array, "_written", None)
    if written is None or captor(array._trace) is not array._trace:
        return None
    if any(type(item) is not int for item in key[: written.depth]):
        return None
    taken = array._trace.wrap(array._trace.node_of(written.get(key)))
    if taken.type.shape:
        taken._view_of(array, index, {"key": key})
    return taken


def settled(array: Any) -> Any:
    """The node of an array, put together of what was written to it."""
    with uncaptured():  # whoever reads it first, it is put together where it was written
        array._node = lying(array._trace.node_of(array._written.settle()), array._order)
    array._written.content = array._alike(array._node)  # of plain values alone it would be plain
    return array._node
