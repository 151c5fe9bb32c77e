"""Factorisations -> calls of LAPACK, for one matrix of a stack after the other.

LAPACK has matrices column by column, and works in place. So arguments are copied into memory of
the program by nests, which turn, convert and combine them on the way; a loop over the stack calls;
and what is not where it is wanted is read with other strides, or copied by one more nest. All other
operations find their arguments as they lie. `info`, by which LAPACK says that there is no result,
is kept for each matrix and looked at after the loop.

As NumPy does, all is computed in double precision, of which float32 is given what it can hold.
Without a LAPACK, for other numbers than floats, and where a matrix is empty, NumPy is called.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from ..graph import Operator
from ..loops import (
    BOOL,
    NO_RESULT,
    Affine,
    Apply,
    Buffer,
    Check,
    Expr,
    Index,
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
from ..machine import current, policy
from ..types import ArrayType
from .fused import FusedNest
from .fusion import Scheduler
from .lowering import is_native
from .shaping import shape_nest


def by_calls(rule: Callable[[Stack], None]) -> Callable[[Scheduler, Operator], None]:
    """How an operation lowers: by calls of LAPACK; by NumPy's where that cannot be."""

    @functools.wraps(rule)
    def lower(scheduler: Scheduler, node: Operator) -> None:
        types = node.type if node.op.multiple else (node.type,)
        sizes = [t.size for t in (*types, *[source.type for source in node.inputs])]
        real = all(t.dtype.kind in "fi" for t in types) and all(map(is_native, node.inputs))
        if not current().lapack or not real or 0 in sizes:
            scheduler._schedule_host(node)
        else:
            rule(Stack(scheduler, node, types))

    return lower


class Stack:
    """An operation on a stack of matrices, while it is made of nests and calls."""

    def __init__(self, scheduler: Scheduler, node: Operator, types: Sequence[ArrayType]):
        self.scheduler, self.node, self.types = scheduler, node, types
        self.params = node.params
        self.dtype = np.dtype(np.float64)
        self.integer = np.dtype(f"i{int(current().lapack[-2:]) // 8}")
        self.kernels: list[Kernel] = []
        self.body: list[Kernel] = []  # of the loop over the stack
        self.own: set[Buffer] = set()  # memory of a turn
        self.batch: tuple[int, ...] = ()
        self.turns: list[Var] = []

    def over(self, batch: Sequence[int]) -> None:
        """All matrices of a stack of this shape will be gone through."""
        self.batch = tuple(batch)
        self.turns = [Var(f"matrix{axis or ''}", n) for axis, n in enumerate(batch)]

    # ------------------------------------------------------------ memory

    def memory(self, *shape: int, dtype: np.dtype | None = None, turned: bool = False) -> Buffer:
        """Memory for the whole stack: vectors, or matrices, `turned` column by column."""
        return self._memory((*self.batch, *shape), dtype, turned)

    def work(self, *shape: int, dtype: np.dtype | None = None) -> Buffer:
        """Memory that every turn has for itself: a vector, or a matrix column by column."""
        made = self._memory(shape, dtype, turned=len(shape) > 1)
        self.own.add(made)
        return made

    def _memory(
        self, shape: tuple[int, ...], dtype: np.dtype | None, turned: bool = False
    ) -> Buffer:
        strides = c_strides(shape)
        if turned:
            strides = (*strides[:-2], 1, shape[-2])
        made = self.scheduler._arena_buffer(dtype or self.dtype, shape)
        made.strides = strides
        return made

    def put(self, target: Buffer, value: Callable[..., Expr]) -> None:
        """A nest that stores ``value(index, *operands)`` everywhere in the matrix or vector of a
        turn, which is near when it is worked on."""
        each = target in self.own
        nest = FusedNest(self.scheduler, target.shape[0 if each else len(self.batch) :])
        operands = nest.operands(self.node)
        index = (*map(Affine.of, self.turns), *nest.index)
        found = nest.complete(lambda: cast(value(index, *operands), target.dtype))
        store = Store(target, target.flat(nest.index if each else index), found)
        made = Nest(nest.vars, [store], self.node.op.name, [self.node])
        # what is in a loop is not looked at by the steps that shape nests
        self.body += [made] if prod(self.batch) == 1 else shape_nest(made)

    def matrices(self, number: int, rank: int = 2) -> tuple[Buffer, Sequence[int], int]:
        """An argument as it lies in memory, with a stride for each axis of the stack."""
        source = self.node.inputs[number]
        buffer, strides, offset = self.scheduler._strided(source)
        missing = len(self.batch) - (len(source.type.shape) - rank)
        lengths = source.type.shape[:-rank]
        own = [0 if n == 1 else s for n, s in zip(lengths, strides, strict=False)]
        return buffer, (*[0] * missing, *own, *strides[len(own) :]), offset

    def at(
        self,
        buffer: Buffer,
        *shape: int,
        strides: Sequence[int] | None = None,
        offset: int = 0,
    ) -> Buffer:
        """The vector or matrix of this shape that a turn of the loop is about."""
        strides = buffer.strides if strides is None else strides
        start = Affine(offset)
        for var, stride in zip(self.turns, strides, strict=False):
            start = start + Affine.of(var) * stride
        own = tuple(strides[len(self.batch) :])
        return Buffer(buffer.name, buffer.dtype, shape, own, buffer.kind, base=buffer, start=start)

    # ------------------------------------------------------------ calls

    def call(
        self, function: str, *arguments: Any, reads: Sequence[Buffer], writes: Sequence[Buffer],
        flops: int,
    ) -> None:  # fmt: skip
        """One more call for each matrix."""
        cost = flops // policy().costs.flops + 100
        label = f"d{function}"
        self.body.append(
            LibraryCall(label, arguments, tuple(reads), tuple(writes), cost, label, [self.node])
        )

    def run(self) -> None:
        """All nests and calls so far, in loops over the stack."""
        body = self.body
        for var in reversed(self.turns):
            if var.extent > 1 and body:
                body = [Loop(var, tuple(body), label=self.node.op.name, nodes=(self.node,))]
        self.kernels += body
        self.body = []

    def info(self) -> Buffer:
        """What LAPACK says of each matrix; to be looked at by `check`."""
        return self.memory(dtype=self.integer)

    def check(self, shape: tuple[int, ...], is_right: Callable[[Index], Expr]) -> None:
        """The program ends where something is not right at any index of this shape."""
        self.run()
        scheduler = self.scheduler
        flag = scheduler._new_flag()
        nest = FusedNest(scheduler, shape)
        condition = nest.complete(lambda: is_right(nest.index))
        store = Store(flag, Affine(0), condition, "logical_and", scheduler.flags_continue)
        self.kernels.append(Nest(nest.vars, [store], "check", [self.node]))
        scheduler.checks.append(Check(flag, NO_RESULT, self.node.op.name, [self.node]))

    def check_info(self, info: Buffer) -> None:
        """End the program where LAPACK has no result."""
        zero = Literal(self.integer.type(0), self.integer)
        self.check(self.batch, lambda at: Apply("equal", (Load(info, info.flat(at)), zero), BOOL))

    def finish(self, *results: Buffer) -> None:
        """The results are in these buffers, which may be of another precision than wanted."""
        wanted = [self._in_its_dtype(number, one) for number, one in enumerate(results)]
        self.run()
        if self.node.op.multiple:
            self.scheduler.items[self.node.serial] = wanted
        else:
            self.scheduler.buffers[self.node.serial] = wanted[0]
        self.scheduler.add(self.node, self.kernels)

    def _in_its_dtype(self, number: int, found: Buffer) -> Buffer:
        if found.dtype == self.types[number].dtype:
            return found
        result = self._given(number)
        self.put(result, lambda at, *operands: Load(found, found.flat(at)))
        return result

    def is_wanted(self, number: int) -> bool:
        """Whether somebody reads one of several results."""
        return number in self.scheduler._items_of(self.node)

    def result(self, number: int = 0) -> Buffer:
        """Memory that LAPACK can put a result into, row by row: where it is wanted, if it can."""
        shape, dtype = self.types[number].shape, self.types[number].dtype
        is_float32 = dtype.kind == "f" and dtype != self.dtype
        return self._memory(shape, self.dtype) if is_float32 else self._given(number)

    def _given(self, number: int) -> Buffer:
        """The memory of a result as the program has it."""
        if not self.node.op.multiple:
            return self.scheduler.buffer_of(self.node)
        given = self.scheduler.item_outputs.get((self.node.serial, number))
        return given or self._memory(self.types[number].shape, self.types[number].dtype)
