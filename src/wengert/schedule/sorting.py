"""Sorting -> calls of NumPy's own sorts, one line after the other.

These work in place on lines in one piece: elements are copied there by a nest, which may turn, flip
and compute them on the way. An order is found by the quick sort, which does not keep equal elements
in theirs; whatever is equal lies side by side afterwards, and is put in order by its places.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..graph import Operator
from ..loops import (
    Affine,
    Apply,
    Buffer,
    Expr,
    Index,
    IndexValue,
    Kernel,
    LibraryCall,
    Literal,
    Load,
    Loop,
    Nest,
    Store,
    Var,
    c_strides,
    cast,
)
from ..machine import current
from .fused import FusedNest
from .fusion import Scheduler
from .lowering import is_native

# What it takes to compare two elements, in units of `Kernel.work`.
_COMPARED = 2
_INDEX = np.dtype(np.int64)


class _ToSort:
    """The lines that an operation sorts, which are the last axis of its memory."""

    def __init__(self, scheduler: Scheduler, node: Operator):
        self.scheduler, self.node = scheduler, node
        self.axis: int = node.params["axis"]
        shape = node.type.shape
        self.length, self.around = shape[self.axis], (*shape[: self.axis], *shape[self.axis + 1 :])
        self.shape = (*self.around, self.length)
        self.turns = [Var(f"line{k or ''}", n) for k, n in enumerate(self.around)]
        self.kernels: list[Kernel] = []

    def memory(self, dtype: np.dtype) -> Buffer:
        """Memory for all lines."""
        return self.scheduler._arena_buffer(dtype, self.shape)

    def result(self) -> Buffer | None:
        """The memory of the result, if its lines are in one piece there."""
        out = self.scheduler.buffer_of(self.node)
        is_last = self.axis == len(self.around) and out.strides == c_strides(out.shape)
        return out if is_last and not self.node.params["descending"] else None

    def fill(self, target: Buffer, value: Callable[..., Expr], turned: bool = False) -> None:
        """A nest that stores ``value(index of the operation, number in the line, argument)``;
        lines lie along the axis of the operation if they are `turned` back."""
        shape = self.node.type.shape if turned else self.shape
        nest = FusedNest(self.scheduler, shape)
        (argument,) = nest.operands(self.node)
        index = nest.index
        own = index if turned else (*index[: self.axis], index[-1], *index[self.axis : -1])
        found = nest.complete(lambda: cast(value(own, argument), target.dtype))
        store = Store(target, target.flat(index), found)
        self.kernels.append(Nest(nest.vars, [store], self.node.op.name, [self.node]))

    def call(self, function: str, *lines: Buffer, writes: Buffer) -> None:
        """One call for each line."""
        views = [self._line(buffer) for buffer in lines]
        cost = _COMPARED * self.length * self.length.bit_length() + 50
        call = LibraryCall(
            function,
            (*views, self.length, 0),
            tuple(views),
            (self._line(writes),),
            cost,
            self.node.op.name,
            [self.node],
            by_value=True,
        )
        body: list[Kernel] = [call]
        for var in reversed(self.turns):
            if var.extent > 1:
                body = [Loop(var, tuple(body), label=self.node.op.name, nodes=(self.node,))]
        self.kernels += body

    def _line(self, buffer: Buffer) -> Buffer:
        start = Affine(0)
        for var, stride in zip(self.turns, buffer.strides, strict=False):
            if var.extent > 1:
                start = start + Affine.of(var) * stride
        return buffer.view(start, (self.length,), (1,))

    def finish(self) -> None:
        """All kernels are there."""
        self.scheduler.add(self.node, self.kernels)

    def flipped(self, index: Index) -> Index:
        """The index of the element that is as far from the end of its line."""
        if not self.node.params["descending"]:
            return index
        at = index[self.axis] * -1 + (self.length - 1)
        return (*index[: self.axis], at, *index[self.axis + 1 :])

    def in_line(self, index: Index) -> Index:
        """An index of the operation as one of the lines."""
        return (*index[: self.axis], *index[self.axis + 1 :], index[self.axis])


def _is_called(node: Operator) -> bool:
    return bool(current().numpy_loops and is_native(node.inputs[0]) and node.type.size)


def _name(dtype: np.dtype) -> str:
    return f"{dtype.kind}{dtype.itemsize}"


def lower_sort(scheduler: Scheduler, node: Operator) -> None:
    """The elements in order, by NumPy's quick sort."""
    if not _is_called(node):
        scheduler._schedule_host(node)
        return
    work = _ToSort(scheduler, node)
    there = work.result()
    lines = there or work.memory(node.type.dtype)
    work.fill(lines, lambda at, x: x(at))
    work.call(f"numpy_sort_{_name(lines.dtype)}", lines, writes=lines)
    if there is None:
        out = scheduler.buffer_of(node)
        read = lambda at, x: Load(lines, lines.flat(work.in_line(work.flipped(at))))
        work.fill(out, read, turned=True)
    work.finish()


def lower_argsort(scheduler: Scheduler, node: Operator) -> None:
    """Where the elements in order come from; those that are equal in the order that they have."""
    if not _is_called(node):
        scheduler._schedule_host(node)
        return
    work = _ToSort(scheduler, node)
    there = work.result()
    keys, order = work.memory(node.inputs[0].type.dtype), there or work.memory(_INDEX)
    # backwards, what is equal keeps its order when the result is read backwards too
    work.fill(keys, lambda at, x: x(work.flipped(at)))
    work.fill(order, lambda at, x: IndexValue(at[work.axis]))
    kind = _name(keys.dtype)
    work.call(f"numpy_argsort_{kind}", keys, order, writes=order)
    work.call(f"ties_{kind}", keys, order, writes=order)
    if there is None:
        work.fill(scheduler.buffer_of(node), _read_back(work, order), turned=True)
    work.finish()


def _read_back(work: _ToSort, order: Buffer) -> Callable[..., Expr]:
    def value(at: Index, x: object) -> Expr:
        found = Load(order, order.flat(work.in_line(work.flipped(at))))
        if not work.node.params["descending"]:
            return found
        last = Literal(_INDEX.type(work.length - 1), _INDEX)
        return Apply("subtract", (last, found), _INDEX)

    return value
