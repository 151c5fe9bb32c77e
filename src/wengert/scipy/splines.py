"""Splines on grids of whole numbers, of any order, and how they go on at the ends.

A spline of order k is a sum of bells, one at each element, of which k + 1 meet between two
elements. Their coefficients are the elements for orders 0 and 1; for others a system of linear
equations has them as its solution. Its matrix is that of the grid alone.
"""

from __future__ import annotations

import functools
from itertools import product
from typing import Any

import numpy as np

from .. import numpy as wnp
from ..trace.indexing import getitem
from ..types import type_of

# How the coefficients go on beyond the ends, for each way in which an image does.
MODES = {
    "reflect": "reflect", "grid-mirror": "reflect", "mirror": "mirror", "constant": "mirror",
    "wrap": "mirror", "nearest": "reflect", "grid-wrap": "wrap", "grid-constant": "mirror",
}  # fmt: skip
# Bells reach so far, to rounding, that what lies beyond does not matter.
_PADDED = 12


def bells(order: int, share: Any) -> list[Any]:
    """The weights of the order + 1 elements around a place, `share` of the way between two.

    >>> bells(1, 0.25)
    [0.75, 0.25]
    """
    weights: list[Any] = [1.0]
    for k in range(1, order + 1):
        one, other = [0.0, *weights], [*weights, 0.0]
        weights = [
            (share + (k - j)) / k * one[j] + ((j + 1) - share) / k * other[j] for j in range(k + 1)
        ]
    return weights


def _place(number: Any, length: int, ends: str) -> Any:
    """Where elements beyond the ends are found in the array itself."""
    if ends == "wrap":
        return number % length
    if ends == "reflect":
        turned = number % (2 * length)
        return wnp.minimum(turned, 2 * length - 1 - turned)
    if length == 1:
        return number * 0
    turned = number % (2 * length - 2)
    return wnp.minimum(turned, 2 * length - 2 - turned)


@functools.lru_cache(64)
def _inverse(length: int, order: int, ends: str) -> np.ndarray:
    """The matrix that makes coefficients of elements."""
    matrix = np.zeros((length, length))
    half = order // 2
    weights = bells(order, 0.0 if order % 2 else 0.5)
    for j, weight in enumerate(weights):
        here = np.arange(length)
        np.add.at(matrix, (here, _place(here - half + j, length, ends)), weight)
    inverse: np.ndarray = np.linalg.inv(matrix)
    return inverse


def spline_coefficients(x: Any, order: int, mode: str) -> Any:
    """The coefficients of the splines through the elements, along all axes."""
    if order < 2:
        return x
    for axis, length in enumerate(np.shape(x)):
        if length > 1:
            inverse = _inverse(length, order, MODES[mode]).astype(type_of(x).dtype)
            x = wnp.moveaxis(wnp.tensordot(inverse, x, ((1,), (axis,))), 0, axis)
    return x


def _mapped(places: Any, length: int, mode: str) -> Any:
    """Coordinates brought to where the array has elements, as SciPy does."""
    last = length - 1
    if mode == "nearest":
        return wnp.clip(places, 0, last)
    if mode in ("reflect", "grid-mirror"):
        turned = wnp.remainder(places + 0.5, 2.0 * length)
        return wnp.minimum(turned, 2.0 * length - turned) - 0.5
    if mode == "grid-wrap":
        return wnp.remainder(places, float(length))
    if mode == "mirror" and last:
        turned = wnp.remainder(places, 2.0 * last)
        return wnp.minimum(turned, 2.0 * last - turned)
    if mode == "wrap" and last:
        inside = (places >= 0) & (places <= last)
        below = places + last * (wnp.floor(-places / last) + 1)
        above = places - last * wnp.floor(places / last)
        return wnp.where(inside, places, wnp.where(places < 0, below, above))
    return places * 0 if mode in ("mirror", "wrap") else places


def interpolated(
    x: Any, places: list[Any], order: int, mode: str, cval: Any, prefilter: bool
) -> Any:
    """The splines through the elements of `x` at places, given along each axis."""
    if mode in ("nearest", "grid-constant") and prefilter and order > 1:
        options = {"constant_values": cval} if mode == "grid-constant" else {}
        x = wnp.pad(x, _PADDED, "edge" if mode == "nearest" else "constant", **options)
        places = [place + _PADDED for place in places]
    shape = np.shape(x)
    coefficients = spline_coefficients(x, order, mode) if prefilter else x
    around = [_around(place, n, order, mode) for place, n in zip(places, shape, strict=True)]
    total: Any = 0.0
    for chosen in product(*around):
        weight: Any = 1.0
        outside: Any = False
        for _, own, beyond in chosen:
            weight = weight * own
            outside = outside | beyond
        element = getitem(coefficients, tuple(index for index, _, _ in chosen))
        if mode == "grid-constant":
            element = wnp.where(outside, cval, element)
        total = total + weight * element
    if mode != "constant":
        return total
    inside: Any = True
    for place, n in zip(places, shape, strict=True):
        inside = inside & (place >= 0) & (place <= n - 1)
    return wnp.where(inside, total, cval)


def _around(places: Any, length: int, order: int, mode: str) -> list[tuple[Any, Any, Any]]:
    """The elements around places along an axis: where, with which weight, whether outside."""
    places = _mapped(places, length, mode)
    middle = places if order % 2 else places + 0.5
    whole = wnp.floor(middle)
    first = wnp.asarray(whole).astype(np.int64) - order // 2
    found = []
    for j, weight in enumerate(bells(order, middle - whole)):
        number = first + j
        beyond = (number < 0) | (number >= length)
        found.append((_place(number, length, MODES[mode]), weight, beyond))
    return found
