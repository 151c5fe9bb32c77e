"""Cotangents of an array that is read at fixed places, collected and put together once.

Each read ``x[i]`` sends back an array that is zero but for one place. Added up one by one, a
thousand reads of a thousand numbers are a million additions. So what was sent is kept by its place;
when the cotangent of the whole array is needed, what arrived at the same place is added up in the
order in which it arrived, and the places are put side by side, with zeros between them.
"""

from __future__ import annotations

import itertools
from math import prod
from typing import Any

import numpy as np

from ..graph import Node, Operator
from ..ops.elementwise import add
from ..ops.indexing import Key, embed, python_key, scatter_add
from ..ops.layout import fit, reshape
from ..ops.structure import concatenate
from ..trace.tracer import is_for_any_length
from ..types import ArrayType, type_of


class Collected:
    """The cotangents of one array so far, whole ones and those of its parts."""

    __slots__ = ("parts", "scattered", "type")

    def __init__(self, array_type: ArrayType, whole: Any = None):
        self.type = ArrayType(array_type.dtype, array_type.shape)
        # in the order of arrival; those of the whole array have no key
        self.parts: list[tuple[Key | None, Any]] = [] if whole is None else [(None, whole)]
        # those of places that values decide on, with the axes that these are along
        self.scattered: list[tuple[list[Any], tuple[int, ...], Any]] = []

    def add(self, key: Key | None, g: Any) -> None:
        """Note a cotangent of ``x[key]``, or of all of x."""
        self.parts.append((key, g))

    def scatter(self, places: list[Any], axes: tuple[int, ...], g: Any) -> None:
        """Note a cotangent of ``gather(x, *places)``."""
        self.scattered.append((places, axes, g))

    def total(self) -> Any:
        """The cotangent of the whole array; what is scattered is added where it belongs."""
        total = self._of_parts() if self.parts else np.zeros(self.type.shape, self.type.dtype)
        for places, axes, g in self.scattered:
            g = fit(g, ArrayType(self.type.dtype, type_of(g).shape))
            total = scatter_add(total, g, *places, axes=axes)
        return total

    def _of_parts(self) -> Any:
        if all(type(g) is np.ndarray or isinstance(g, np.generic) for _, g in self.parts):
            return self._added_in_place()
        rows: dict[tuple[int, int], dict[int, Any]] = {}
        total, apart = None, is_for_any_length()
        for key, g in self.parts:
            found = _row_of(self.type.shape, key) if key and not apart else None
            if key and found:
                axes, place = found
                if None in key:
                    g = reshape(g, shape=self.type.shape[: axes[0]] + self.type.shape[axes[1] :])
                held = rows.setdefault(axes, {})
                held[place] = add(held[place], g) if place in held else g
            else:
                total = _sum(total, self._whole(key, g))
        for axes, held in rows.items():
            total = _sum(total, self._joined(axes, held))
        return total

    def _whole(self, key: Key | None, g: Any) -> Any:
        result = g if key is None else embed(g, key=key, shape=self.type.shape)
        return fit(result, self.type)

    def _added_in_place(self) -> Any:
        """The sum of plain arrays, each added where it belongs."""
        (key, first), *rest = self.parts
        if not rest:
            return self._whole(key, first)
        total = np.array(self._whole(key, first))
        for key, g in rest:
            place = ... if key is None else python_key(key)
            total[place] += fit(g, ArrayType(total.dtype, total[place].shape))
        return total

    def _joined(self, axes: tuple[int, int], held: dict[int, Any]) -> Any:
        """Rows side by side along the axes that their keys name, zeros where there are none."""
        shape, (first, last) = self.type.shape, axes
        before, count = shape[:first], prod(shape[first:last])
        after = shape[last:]
        if len(held) == 1:
            ((place, g),) = held.items()
            key = (*_all(before), *np.unravel_index(place, shape[first:last]), *_all(after))
            return self._whole(tuple(int(k) if np.ndim(k) == 0 else k for k in key), g)
        parts: list[Any] = []
        for left, at in itertools.pairwise([-1, *sorted(held), count]):
            if at > left + 1:
                parts.append(np.zeros((*before, at - left - 1, *after), self.type.dtype))
            if at < count:
                parts.append(reshape(held[at], shape=(*before, 1, *after)))
        joined = concatenate(*parts, axis=first)
        return fit(reshape(joined, shape=shape), self.type)


def collect(node: Operator, g: Any, cotangents: dict[int, Any]) -> None:
    """Keep the cotangent of a part of a value, an `index` or a `gather`, with those of others."""
    source, params = node.inputs[0], node.params
    held = cotangents.get(source.serial)
    if type(held) is not Collected:
        held = cotangents[source.serial] = Collected(source.type, held)
    if "key" in params:
        held.add(params["key"], g)
    else:
        held.scatter([place.output for place in node.inputs[1:]], params["axes"], g)


def taken(source: Node, cotangents: dict[int, Any]) -> Any:
    """The cotangent of a value so far, for somebody who adds to it."""
    held = cotangents.pop(source.serial, None)
    return held.total() if type(held) is Collected else held


def _sum(total: Any, term: Any) -> Any:
    return term if total is None else add(total, term)


def _all(shape: tuple[int, ...]) -> tuple[Any, ...]:
    return tuple((0, length, 1) for length in shape)


def _row_of(shape: tuple[int, ...], key: Key) -> tuple[tuple[int, int], int] | None:
    """Neighbouring axes of which the key takes one place, and all of the others; else None.

    >>> _row_of((2, 5, 3), (1, 2, (0, 3, 1)))
    ((0, 2), 7)
    """
    items = [item for item in key if item is not None]
    numbers = [axis for axis, item in enumerate(items) if not isinstance(item, tuple)]
    if not numbers or numbers != list(range(numbers[0], numbers[-1] + 1)):
        return None
    first, last = numbers[0], numbers[-1] + 1
    if any(items[axis] != (0, shape[axis], 1) for axis in range(len(items)) if axis not in numbers):
        return None
    place = 0
    for axis in numbers:
        place = place * shape[axis] + items[axis]
    return (first, last), place
