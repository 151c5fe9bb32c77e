"""Blocks of samples in and out of a worker's own memory.

Outside, the elements of a sample lie side by side; inside, the samples do. Squares of elements are
transposed in registers on the way. Where a sample does not exist, the last one that does stands in
for it: inwards it is read again, outwards what belongs to it is written last, so that what was
written for the others before it does not stay. No branch is needed for either.

A *plain* block keeps the order of the elements outside; what lies together is copied together.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from llvmlite import ir

from ..loops import Transfer
from ..schedule.plans import Axis, merge_axes
from .counted import counted_loop
from .lanes import transpose_square
from .llvm_types import I1, I64, POINTER, declare, i64
from .memory import Memory
from .vectors import some_lanes, vector_of


def emit_transfer(
    builder: ir.IRBuilder,
    kernel: Transfer,
    outer: ir.Value,
    inner: ir.Value,
    live: ir.Value,
    length: ir.Value | None = None,
) -> None:
    """Copy one block; `live` samples of it exist, of `length` along the whole axis."""
    copier = (_PlainCopier if kernel.plain else _Copier)(builder, kernel, live)
    copier.emit_scaled(sorted(kernel.scaled), outer, inner, length)


class _Walker:
    """Walks over the axes outside whose strides are known at run time alone."""

    def __init__(self, builder: ir.IRBuilder, kernel: Transfer, live: ir.Value):
        self.builder, self.kernel, self.live = builder, kernel, live
        self.memory = Memory(builder, kernel.outer.dtype)
        self.width = kernel.inner.shape[kernel.axis]

    def emit(self, outer: ir.Value, inner: ir.Value) -> None:
        """Copy what lies along the other axes."""
        raise NotImplementedError

    def emit_scaled(
        self, axes: Sequence[int], outer: ir.Value, inner: ir.Value, length: ir.Value | None
    ) -> None:
        """Loops over axes in front of the samples, and the copy inside."""
        if not axes:
            self.emit(outer, inner)
            return
        axis, kernel, b = axes[0], self.kernel, self.builder
        far = b.mul(length, i64(kernel.scaled[axis]))

        def turn(index: ir.Value) -> None:
            there = self.memory.at(outer, b.mul(index, far))
            near = self.memory.along(inner, index, kernel.inner.strides[axis])
            self.emit_scaled(axes[1:], there, near, length)

        counted_loop(b, 0, kernel.outer.shape[axis], 1, turn)


class _PlainCopier(_Walker):
    """Emits the copy of a block that lies inside as it does outside."""

    def emit(self, outer: ir.Value, inner: ir.Value) -> None:
        """All samples that exist in one piece; inwards, the last one again for those missing."""
        b, kernel, along = self.builder, self.kernel, self.memory.along
        sample = prod(kernel.inner.shape[kernel.axis + 1 :])  # elements side by side
        if not sample:
            return
        target, source = (inner, outer) if kernel.inward else (outer, inner)
        self._copy(target, source, b.mul(self.live, i64(sample)))
        if not kernel.inward:
            return
        last = along(outer, b.sub(self.live, i64(1)), sample)

        def again(number: ir.Value) -> None:
            self._copy(along(inner, number, sample), last, i64(sample))

        counted_loop(b, self.live, self.width, 1, again)

    def _copy(self, target: ir.Value, source: ir.Value, count: ir.Value) -> None:
        kind = ir.FunctionType(ir.VoidType(), [POINTER, POINTER, I64, I1])
        copy = declare(self.builder.module, "llvm.memcpy.p0.p0.i64", kind)
        size = self.builder.mul(count, i64(self.kernel.outer.dtype.itemsize))
        self.builder.call(copy, [target, source, size, ir.Constant(I1, 0)])


class _Copier(_Walker):
    """Emits the copy of one block, samples innermost."""

    def __init__(self, builder: ir.IRBuilder, kernel: Transfer, live: ir.Value):
        super().__init__(builder, kernel, live)
        self.offsets = self._sample_offsets(live)

    def _sample_offsets(self, live: ir.Value) -> list[ir.Value]:
        """Where each sample begins, in elements from the first."""
        b, stride = self.builder, self.kernel.outer.strides[self.kernel.axis]
        last = b.sub(live, i64(1))
        found = []
        for lane in range(self.width):
            number = i64(lane)
            there = b.icmp_signed("<", number, live)
            found.append(b.mul(b.select(there, number, last), i64(stride)))
        return found

    def emit(self, outer: ir.Value, inner: ir.Value) -> None:
        """Loops over everything but the samples; the one that is contiguous outside innermost."""
        axes = self._other_axes()
        line = next((axis for axis in axes if axis.x == 1), None)
        self._loops([axis for axis in axes if axis is not line], outer, inner, line)

    def _other_axes(self) -> list[Axis]:
        kernel = self.kernel
        shape, far, near = kernel.outer.shape, kernel.outer.strides, kernel.inner.strides
        return merge_axes(
            [
                Axis(n, 0, far[axis], near[axis])
                for axis, n in enumerate(shape)
                if axis != kernel.axis and axis not in kernel.scaled and n != 1
            ]
        )

    def _loops(
        self, axes: Sequence[Axis], outer: ir.Value, inner: ir.Value, line: Axis | None
    ) -> None:
        if axes:
            axis = axes[0]

            def turn(index: ir.Value) -> None:
                far = self.memory.along(outer, index, axis.x)
                self._loops(axes[1:], far, self.memory.along(inner, index, axis.y), line)

            counted_loop(self.builder, 0, axis.extent, 1, turn)
        elif line is None:
            self._position(outer, inner)
        else:
            self._line(line, outer, inner)

    def _line(self, line: Axis, outer: ir.Value, inner: ir.Value) -> None:
        """Whole squares, then the rest one position at a time."""
        along = self.memory.along

        def square(index: ir.Value) -> None:
            self._square(line, along(outer, index, 1), along(inner, index, line.y))

        def position(index: ir.Value) -> None:
            self._position(along(outer, index, 1), along(inner, index, line.y))

        whole = line.extent // self.width * self.width
        counted_loop(self.builder, 0, whole, self.width, square)
        counted_loop(self.builder, whole, line.extent, 1, position)

    def _square(self, line: Axis, outer: ir.Value, inner: ir.Value) -> None:
        memory, width = self.memory, self.width
        samples = [memory.at(outer, offset) for offset in self.offsets]
        places = [memory.at(inner, k * line.y) for k in range(width)]
        sources, targets = (samples, places) if self.kernel.inward else (places, samples)
        columns = transpose_square(
            self.builder, [memory.load(place, 1, width, width) for place in sources]
        )
        for value, place in reversed(list(zip(columns, targets, strict=True))):
            memory.store(value, place, 1, width)

    def _position(self, outer: ir.Value, inner: ir.Value) -> None:
        """One element of every sample."""
        b, memory, width = self.builder, self.memory, self.width
        samples = [memory.at(outer, offset) for offset in self.offsets]
        if self.kernel.inward:
            value = vector_of(b, [memory.load(place, 1, 1, 1) for place in samples])
            memory.store(value, inner, 1, width)
            return
        value = memory.load(inner, 1, width, width)
        for lane, place in reversed(list(enumerate(samples))):
            memory.store(some_lanes(b, value, lane, 1), place, 1, 1)
