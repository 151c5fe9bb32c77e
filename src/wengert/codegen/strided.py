"""Vectors in memory, and counted loops: the words that contractions are written in."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np
from llvmlite import ir

from .scalars import declare, memory_type, type_suffix

I1, I32, I64 = ir.IntType(1), ir.IntType(32), ir.IntType(64)
POINTER = ir.PointerType()


class Memory:
    """Loads and stores of vectors with any stride, whole or in part, at element alignment."""

    def __init__(self, builder: ir.IRBuilder, dtype: np.dtype):
        self.builder = builder
        self.element = memory_type(dtype)
        self.align = dtype.itemsize

    def at(self, pointer: ir.Value, offset: int | ir.Value) -> ir.Value:
        """The address some elements further on."""
        if isinstance(offset, int):
            if offset == 0:
                return pointer
            offset = ir.Constant(I64, offset)
        return self.builder.gep(pointer, [offset], source_etype=self.element)

    def load(self, pointer: ir.Value, stride: int, width: int, count: int) -> ir.Value:
        """`count` elements in a vector of `width` lanes, the other lanes zero."""
        b = self.builder
        if width == 1:
            return b.load(pointer, typ=self.element, align=self.align)
        kind = ir.VectorType(self.element, width)
        if stride == 0:
            same = splat(b, b.load(pointer, typ=self.element, align=self.align), width)
            zero = ir.Constant(kind, None)
            return same if count == width else b.select(lane_mask(width, count), same, zero)
        if stride == 1 and count == width:
            return b.load(pointer, typ=kind, align=self.align)
        zero = ir.Constant(kind, None)
        if stride == 1:
            return self.load_masked(pointer, kind, lane_mask(width, count))
        value = zero if count < width else ir.Constant(kind, ir.Undefined)
        for lane in range(count):
            part = b.load(self.at(pointer, lane * stride), typ=self.element, align=self.align)
            value = b.insert_element(value, part, i32(lane))
        return value

    def load_first(self, pointer: ir.Value, width: int, count: ir.Value) -> ir.Value:
        """As many elements, one after the other, as `count` says when it runs."""
        lanes = ir.Constant(ir.VectorType(I64, width), list(range(width)))
        mask = self.builder.icmp_signed("<", lanes, splat(self.builder, count, width))
        return self.load_masked(pointer, ir.VectorType(self.element, width), mask)

    def load_masked(self, pointer: ir.Value, kind: ir.VectorType, mask: ir.Value) -> ir.Value:
        """The elements where the mask is set, in lanes of their own, and zeros in the others."""
        name = f"llvm.masked.load.{type_suffix(kind)}.p0"
        signature = ir.FunctionType(kind, [POINTER, I32, _mask_type(kind.count), kind])
        function = declare(self.builder.module, name, signature)
        nothing = ir.Constant(kind, None)
        return self.builder.call(function, [pointer, i32(self.align), mask, nothing])

    def store(self, value: ir.Value, pointer: ir.Value, stride: int, count: int) -> None:
        """The first `count` lanes of a vector."""
        b, kind = self.builder, value.type
        scalar = not isinstance(kind, ir.VectorType)
        if scalar or (stride == 1 and count == kind.count):
            b.store(value, pointer, align=self.align)
        elif stride == 1:
            self._store_first(value, pointer, count)
        else:
            for lane in range(count):
                part = b.extract_element(value, i32(lane))
                b.store(part, self.at(pointer, lane * stride), align=self.align)

    def _store_first(self, value: ir.Value, pointer: ir.Value, count: int) -> None:
        """Fewer lanes than there are: floats under a mask, all else in parts of halving widths.

        No part is stored under a mask that LLVM knows and whose lanes are integers or one alone:
        LLVM 22 makes a store of the whole wide element of a masked store of narrowed integers with
        one live lane, and so writes over what lies behind it.
        """
        b, kind = self.builder, value.type
        if count > 1 and not isinstance(kind.element, ir.IntType):
            self.store_masked(value, pointer, lane_mask(kind.count, count))
            return
        start = 0
        while start < count:
            width = 1 << ((count - start).bit_length() - 1)
            if width == 1:
                part = b.extract_element(value, i32(start))
            else:
                lanes = lane_order(tuple(range(start, start + width)))
                part = b.shuffle_vector(value, ir.Constant(kind, ir.Undefined), lanes)
            b.store(part, self.at(pointer, start), align=self.align)
            start += width

    def store_masked(self, value: ir.Value, pointer: ir.Value, mask: ir.Value) -> None:
        """The lanes where the mask is set, which is known only when it runs: see `store`."""
        kind = value.type
        name = f"llvm.masked.store.{type_suffix(kind)}.p0"
        signature = ir.FunctionType(ir.VoidType(), [kind, POINTER, I32, _mask_type(kind.count)])
        function = declare(self.builder.module, name, signature)
        self.builder.call(function, [value, pointer, i32(self.align), mask])


def multiply_add(
    builder: ir.IRBuilder, x: ir.Value, y: ir.Value, total: ir.Value | None, has_fma: bool
) -> ir.Value:
    """total + x * y, rounded once where the processor can; None stands for nothing yet."""
    if total is None:
        return builder.fmul(x, y)
    if not has_fma:
        return builder.fadd(total, builder.fmul(x, y))
    kind = total.type
    signature = ir.FunctionType(kind, [kind, kind, kind])
    function = declare(builder.module, f"llvm.fma.{type_suffix(kind)}", signature)
    return builder.call(function, [x, y, total])


def offset(builder: ir.IRBuilder, index: ir.Value, stride: int) -> int | ir.Value:
    """How far away the element at an index is."""
    if isinstance(index, ir.Constant):
        return int(index.constant) * stride
    return builder.mul(index, ir.Constant(I64, stride)) if stride else 0


def moved(
    builder: ir.IRBuilder,
    pointers: Sequence[ir.Value],
    dtypes: Sequence[np.dtype],
    index: ir.Value,
    strides: Sequence[int],
) -> tuple[ir.Value, ...]:
    """Pointers some positions further along a loop; no strides at all: they stay where they are."""
    if not strides:
        return tuple(pointers)
    return tuple(
        Memory(builder, dtype).at(pointer, offset(builder, index, stride))
        for pointer, stride, dtype in zip(pointers, strides, dtypes, strict=True)
    )


def splat(builder: ir.IRBuilder, value: ir.Value, width: int) -> ir.Value:
    """A scalar on `width` lanes."""
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


def private_function(module: ir.Module, name: str, kinds: Sequence[ir.Type]) -> ir.Function:
    """A new function that only its module sees."""
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), name)
    function.linkage = "internal"
    return function


def counted_loop(
    builder: ir.IRBuilder,
    start: int | ir.Value,
    stop: int | ir.Value,
    step: int,
    body: Callable[[ir.Value], None],
) -> None:
    """body(i) for i in range(start, stop, step); no loop is made where at most one turn is."""
    b = builder
    known = isinstance(start, int) and isinstance(stop, int)
    if known and stop - start <= step:
        if stop > start:
            body(ir.Constant(I64, start))
        return
    first, end = (ir.Constant(I64, v) if isinstance(v, int) else v for v in (start, stop))
    head, done = b.append_basic_block("loop"), b.append_basic_block("after")
    before = b.block
    if known:
        b.branch(head)
    else:
        b.cbranch(b.icmp_signed("<", first, end), head, done)
    b.position_at_end(head)
    counter = b.phi(I64)
    counter.add_incoming(first, before)
    body(counter)
    following = b.add(counter, ir.Constant(I64, step))
    counter.add_incoming(following, b.block)
    b.cbranch(b.icmp_signed("<", following, end), head, done)
    b.position_at_end(done)


def i32(value: int) -> ir.Constant:
    """A constant lane number or alignment."""
    return ir.Constant(I32, value)


def _mask_type(width: int) -> ir.VectorType:
    return ir.VectorType(I1, width)


@functools.cache
def lane_mask(width: int, count: int) -> ir.Constant:
    """The first `count` lanes."""
    return ir.Constant(_mask_type(width), [lane < count for lane in range(width)])
