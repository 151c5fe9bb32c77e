"""Vectors in memory: at any stride, whole or in part."""

from __future__ import annotations

import numpy as np
from llvmlite import ir

from .llvm_types import I1, I32, POINTER, declare, i32, i64, memory_type, type_suffix
from .vectors import (
    First,
    lane_mask,
    lane_order,
    lanes_before,
    some_lanes,
    splat,
    vector_type,
    width_of,
)

# Vectors of every n-th element are picked out of whole vectors up to this n, else lane by lane.
LARGEST_SHUFFLED = 4


class Memory:
    """Loads and stores of vectors with any stride, whole or in part, at element alignment.

    `count` says how many of the first lanes are real: a number, or `First` at run time.
    """

    def __init__(self, builder: ir.IRBuilder, dtype: np.dtype):
        self.builder, self.dtype = builder, dtype
        self.element = memory_type(dtype)
        self.align = dtype.itemsize

    # ------------------------------------------------------------ places

    def at(self, pointer: ir.Value, offset: int | ir.Value) -> ir.Value:
        """The address some elements further on."""
        if isinstance(offset, int):
            if offset == 0:
                return pointer
            offset = i64(offset)
        return self.builder.gep(pointer, [offset], source_etype=self.element)

    def along(self, pointer: ir.Value, index: ir.Value, stride: int) -> ir.Value:
        """The address of an element, some turns further along a loop."""
        if not stride or isinstance(index, ir.Constant):
            return self.at(pointer, int(index.constant) * stride if stride else 0)
        return self.at(pointer, index if stride == 1 else self.builder.mul(index, i64(stride)))

    # ------------------------------------------------------------ values

    def read(self, pointer: ir.Value, stride: int, width: int, count: int | First) -> ir.Value:
        """What is loaded, as a value: a boolean is a byte in memory."""
        return self._value(self.load(pointer, stride, width, count))

    def read_every(
        self, pointer: ir.Value, stride: int, width: int, count: int | First
    ) -> ir.Value:
        """The same by `load_every`."""
        return self._value(self.load_every(pointer, stride, width, count))

    def _value(self, loaded: ir.Value) -> ir.Value:
        if self.dtype.kind != "b":
            return loaded
        return self.builder.icmp_unsigned("!=", loaded, ir.Constant(loaded.type, None))

    def write(self, value: ir.Value, pointer: ir.Value, stride: int, count: int | First) -> None:
        """Store a value."""
        if self.dtype.kind == "b":
            value = self.builder.zext(value, vector_type(self.element, width_of(value)))
        self.store(value, pointer, stride, count)

    # ------------------------------------------------------------ loads

    def load(self, pointer: ir.Value, stride: int, width: int, count: int | First) -> ir.Value:
        """`count` elements in a vector of `width` lanes, the other lanes zero; where the count is
        known at run time alone, they may hold other elements that are read."""
        b = self.builder
        if width == 1:
            return self._one(pointer)
        kind = ir.VectorType(self.element, width)
        if stride == 0:
            same = splat(b, self._one(pointer), width)
            whole = isinstance(count, First) or count == width
            return same if whole else b.select(lane_mask(width, count), same, _zeros(kind))
        if stride == 1 and count == width:
            return b.load(pointer, typ=kind, align=self.align)
        if stride == 1:
            mask = count.mask if isinstance(count, First) else lane_mask(width, count)
            return self._load_masked(pointer, kind, mask)
        value = ir.Constant(kind, ir.Undefined)
        if isinstance(count, int) and count < width:
            value = _zeros(kind)
        for lane in range(width if isinstance(count, First) else count):
            place = self.at(pointer, lane_offset(b, lane, stride, count))
            value = b.insert_element(value, self._one(place), i32(lane))
        return value

    def load_every(
        self, pointer: ir.Value, stride: int, width: int, count: int | First
    ) -> ir.Value:
        """Every stride-th element, picked out of whole vectors where it is small; nothing behind
        the last is read."""
        b = self.builder
        if not 1 < stride <= LARGEST_SHUFFLED or width < 2 * stride:
            return self.load(pointer, stride, width, count)
        kind = ir.VectorType(self.element, width)
        value: ir.Value = ir.Constant(kind, ir.Undefined)
        if isinstance(count, First):
            last = b.mul(b.sub(count.count, i64(1)), i64(stride))
            end, length = b.add(last, i64(1)), width * stride
        else:
            end, length = None, (count - 1) * stride + 1
        for first in range(0, length, width):
            place = self.at(pointer, first)
            if end is None:
                part = self.load(place, 1, width, min(width, length - first))
            else:
                mask = lanes_before(b, range(first, first + width), end)
                part = self._load_masked(place, kind, mask)
            order = [
                width + lane * stride - first if first <= lane * stride < first + width else lane
                for lane in range(width)
            ]
            value = b.shuffle_vector(value, part, lane_order(tuple(order)))
        return value

    def _one(self, pointer: ir.Value) -> ir.Value:
        return self.builder.load(pointer, typ=self.element, align=self.align)

    def _load_masked(self, pointer: ir.Value, kind: ir.VectorType, mask: ir.Value) -> ir.Value:
        """The elements where the mask is set, in lanes of their own, and zeros in the others."""
        name = f"llvm.masked.load.{type_suffix(kind)}.p0"
        signature = ir.FunctionType(kind, [POINTER, I32, ir.VectorType(I1, kind.count), kind])
        function = declare(self.builder.module, name, signature)
        return self.builder.call(function, [pointer, i32(self.align), mask, _zeros(kind)])

    # ------------------------------------------------------------ stores

    def store(self, value: ir.Value, pointer: ir.Value, stride: int, count: int | First) -> None:
        """The first `count` lanes of a vector."""
        b, width = self.builder, width_of(value)
        if width == 1 or (stride == 1 and count == width):
            b.store(value, pointer, align=self.align)
        elif stride == 1 and isinstance(count, First):
            self._store_masked(value, pointer, count.mask)
        elif stride == 1:
            assert isinstance(count, int)
            self._store_first(value, pointer, count)
        else:
            for lane in range(width if isinstance(count, First) else count):
                part = b.extract_element(value, i32(lane))
                place = self.at(pointer, lane * stride)
                if isinstance(count, int):
                    b.store(part, place, align=self.align)
                    continue
                with b.if_then(b.extract_element(count.mask, i32(lane))):
                    b.store(part, place, align=self.align)

    def _store_first(self, value: ir.Value, pointer: ir.Value, count: int) -> None:
        """Fewer lanes than there are: floats under a mask, all else in parts of halving widths.

        No part is stored under a mask that LLVM knows and whose lanes are integers or one alone:
        LLVM 22 makes a store of the whole wide element of a masked store of narrowed integers with
        one live lane, and so writes over what lies behind it.
        """
        if count > 1 and not isinstance(value.type.element, ir.IntType):
            self._store_masked(value, pointer, lane_mask(width_of(value), count))
            return
        start = 0
        while start < count:
            width = 1 << ((count - start).bit_length() - 1)
            part = some_lanes(self.builder, value, start, width)
            self.builder.store(part, self.at(pointer, start), align=self.align)
            start += width

    def _store_masked(self, value: ir.Value, pointer: ir.Value, mask: ir.Value) -> None:
        """The lanes where the mask is set, if it is known at run time alone: see `_store_first`."""
        kind = value.type
        name = f"llvm.masked.store.{type_suffix(kind)}.p0"
        kinds = [kind, POINTER, I32, ir.VectorType(I1, kind.count)]
        function = declare(self.builder.module, name, ir.FunctionType(ir.VoidType(), kinds))
        self.builder.call(function, [value, pointer, i32(self.align), mask])


def _zeros(kind: ir.Type) -> ir.Constant:
    return ir.Constant(kind, None)


def lane_offset(
    builder: ir.IRBuilder, lane: int, stride: int, count: int | First
) -> int | ir.Value:
    """How far a lane is from the first; one that is not real stays with the first, which exists."""
    if isinstance(count, int):
        return lane * stride if lane < count else 0
    if not lane or not stride:
        return 0
    real = builder.extract_element(count.mask, i32(lane))
    return builder.select(real, i64(lane * stride), i64(0))
