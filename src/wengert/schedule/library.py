"""Factorisations -> calls of LAPACK, for one matrix of a stack after the other.

LAPACK has matrices column by column, and works in place. So arguments are copied into memory of
the program by nests, which turn, convert and combine them on the way; a loop over the stack calls;
and what is not where it is wanted is read with other strides, or copied by one more nest. All other
operations find their arguments as they lie. `info`, by which LAPACK says that there is no result,
is kept for each matrix and looked at after the loop.

As NumPy does, all is computed in double precision, of which float32 is given what it can hold.
Complex numbers are copied part by part. Without a LAPACK, for numbers that it does not have, and
where a matrix is empty, NumPy is called.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
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
    Operand,
    Store,
    Var,
    as_reals,
    c_strides,
    cast,
    part_of,
    reals_in,
)
from ..machine import current, policy
from ..types import ArrayType
from .fused import FusedNest
from .fusion import Scheduler
from .lowering import is_native
from .shaping import shape_nest
from .strided import items_of, strided


def by_calls(rule: Callable[[Stack], None]) -> Callable[[Scheduler, Operator], None]:
    """How an operation lowers: by calls of LAPACK; by NumPy's where that cannot be."""

    @functools.wraps(rule)
    def lower(scheduler: Scheduler, node: Operator) -> None:
        types = node.type if node.op.multiple else (node.type,)
        sizes = [t.size for t in (*types, *[source.type for source in node.inputs])]
        known = all(is_native(source) or source.type.dtype.char in "FD" for source in node.inputs)
        known = known and all(t.dtype.kind in "fi" or t.dtype.char in "FD" for t in types)
        if not current().lapack or not known or 0 in sizes:
            scheduler._schedule_host(node)
        else:
            rule(Stack(scheduler, node, types))

    return lower


class Stack:
    """An operation on a stack of matrices, while it is made of nests and calls."""

    def __init__(self, scheduler: Scheduler, node: Operator, types: Sequence[ArrayType]):
        self.scheduler, self.node, self.types = scheduler, node, types
        self.params = node.params
        kinds = {t.dtype.kind for t in (*types, *[source.type for source in node.inputs])}
        self.is_complex = "c" in kinds
        self.real = np.dtype(np.float64)
        self.dtype = np.dtype(np.complex128) if self.is_complex else self.real
        self.part = 0  # of complex numbers, that is being put somewhere
        self.integer = np.dtype(f"i{int(current().lapack[-2:] or 64) // 8}")
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
        return self.scheduler._arena_buffer(dtype or self.dtype, shape, strides)

    def put(self, target: Buffer, value: Callable[..., Expr]) -> None:
        """A nest that stores ``value(index, *operands)`` everywhere in the matrix or vector of a
        turn, which is near when it is worked on; of complex numbers one part after the other."""
        each = target in self.own
        nest = FusedNest(self.scheduler, target.shape[0 if each else len(self.batch) :])
        index = (*map(Affine.of, self.turns), *nest.index)
        memory, place = as_reals(target), target.flat(nest.index if each else index)
        stores = []
        for self.part in range(reals_in(target)):
            operands = [self._in_part(one) for one in nest.operands(self.node)]
            build = functools.partial(value, index, *operands)
            found = cast(nest.complete(build), memory.dtype)
            stores.append(Store(memory, place * reals_in(target) + self.part, found))
        made = Nest(nest.vars, stores, self.node.op.name, [self.node])
        # what is in a loop is not looked at by the steps that shape nests
        self.body += [made] if prod(self.batch) == 1 else shape_nest(made)

    def _in_part(self, operand: Operand) -> Operand:
        """An argument, of which the part is read that is being put somewhere."""
        if not self.is_complex:
            return operand
        part, read = self.part, operand.element

        def element(index: Index) -> Expr:
            found = read(index)
            if found.dtype.kind == "c":
                return part_of(found, part)
            return found if part == 0 else Literal(self.real.type(0), self.real)

        return replace(operand, element=element)

    def load(self, buffer: Buffer, at: Affine) -> Expr:
        """What is in memory of our own: of complex numbers the part that is being put."""
        found = Load(buffer, at)
        return part_of(found, self.part) if buffer.dtype.kind == "c" else found

    def matrices(self, number: int, rank: int = 2) -> tuple[Buffer, Sequence[int], int]:
        """An argument as it lies in memory, with a stride for each axis of the stack."""
        source = self.node.inputs[number]
        buffer, strides, offset = strided(self.scheduler, source)
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
        return buffer.view(start, shape, tuple(strides[len(self.batch) :]))

    # ------------------------------------------------------------ calls

    def call(
        self, function: str, *arguments: Any, reads: Sequence[Buffer], writes: Sequence[Buffer],
        flops: int, kind: str = "",
    ) -> None:  # fmt: skip
        """One more call for each matrix, of the function for numbers of a kind, "d" or "z"."""
        cost = flops // policy().costs.flops + 100
        label = f"{kind or 'dz'[self.is_complex]}{function}"
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
        self.put(result, lambda at, *operands: self.load(found, found.flat(at)))
        return result

    def is_wanted(self, number: int) -> bool:
        """Whether somebody reads one of several results."""
        return number in items_of(self.scheduler, self.node)

    def result(self, number: int = 0) -> Buffer:
        """Memory that LAPACK can put a result into, row by row: where it is wanted, if it can."""
        shape, dtype = self.types[number].shape, self.types[number].dtype
        own = {"c": self.dtype, "f": self.real}.get(dtype.kind, dtype)
        return self._given(number) if own == dtype else self._memory(shape, own)

    def _given(self, number: int) -> Buffer:
        """The memory of a result as the program has it."""
        if not self.node.op.multiple:
            return self.scheduler.buffer_of(self.node)
        given = self.scheduler.item_outputs.get((self.node.serial, number))
        return given or self._memory(self.types[number].shape, self.types[number].dtype)
