"""The lanes of vectors: one number on all of them, some of them, all added."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from llvmlite import ir

from .llvm_types import I1, I32, I64, i32


@dataclass(frozen=True)
class First:
    """As many lanes, from the first on, as are known at run time alone."""

    count: ir.Value
    mask: ir.Value


def first_lanes(builder: ir.IRBuilder, width: int, count: ir.Value) -> First:
    """The lanes before `count`, which may be beyond the last."""
    return First(count, lanes_before(builder, range(width), count))


def lanes_before(builder: ir.IRBuilder, places: Sequence[int], end: ir.Value) -> ir.Value:
    """The mask of the lanes that hold one of the places before `end`."""
    lanes = ir.Constant(ir.VectorType(I64, len(places)), list(places))
    return builder.icmp_signed("<", lanes, splat(builder, end, len(places)))


def width_of(value: ir.Value) -> int:
    """How many lanes a value has."""
    return value.type.count if isinstance(value.type, ir.VectorType) else 1


def vector_type(element: ir.Type, width: int) -> ir.Type:
    """The type of so many lanes; of one it is the element's own."""
    return element if width == 1 else ir.VectorType(element, width)


def splat(builder: ir.IRBuilder, value: ir.Value, width: int) -> ir.Value:
    """A scalar on `width` lanes."""
    if width == 1:
        return value
    undefined = ir.Constant(ir.VectorType(value.type, width), ir.Undefined)
    first = builder.insert_element(undefined, value, i32(0))
    return builder.shuffle_vector(first, undefined, _first_lane(width))


@functools.cache
def _first_lane(width: int) -> ir.Constant:
    return ir.Constant(ir.VectorType(I32, width), None)


@functools.cache
def lane_order(lanes: tuple[int, ...]) -> ir.Constant:
    """The order of lanes for a shuffle; one object each, because its text is kept with it."""
    return ir.Constant(ir.VectorType(I32, len(lanes)), list(lanes))


@functools.cache
def lane_mask(width: int, count: int) -> ir.Constant:
    """The first `count` lanes."""
    return ir.Constant(ir.VectorType(I1, width), [lane < count for lane in range(width)])


def vector_of(builder: ir.IRBuilder, elements: Sequence[ir.Value]) -> ir.Value:
    """A vector of these scalars; one of them stays as it is."""
    if len(elements) == 1:
        return elements[0]
    value = ir.Constant(ir.VectorType(elements[0].type, len(elements)), ir.Undefined)
    for lane, element in enumerate(elements):
        value = builder.insert_element(value, element, i32(lane))
    return value


def some_lanes(builder: ir.IRBuilder, value: ir.Value, start: int, width: int) -> ir.Value:
    """The lanes from `start` on, as a narrower vector."""
    if width == width_of(value):
        return value
    if width == 1:
        return builder.extract_element(value, i32(start))
    undefined = ir.Constant(value.type, ir.Undefined)
    return builder.shuffle_vector(value, undefined, lane_order(tuple(range(start, start + width))))


def across_lanes(
    builder: ir.IRBuilder, value: ir.Value, combine: Callable[[ir.Value, ir.Value], ir.Value]
) -> ir.Value:
    """All lanes combined into one number, by halves."""
    lanes = width_of(value)
    while lanes > 1:
        lanes //= 2
        value = combine(*(some_lanes(builder, value, start, lanes) for start in (0, lanes)))
    return value
