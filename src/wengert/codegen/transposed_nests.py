"""Nests that turn arrays: squares of elements are read as rows and written as columns.

    for i: for j in 16: a[i, j] = b[j, i]     16 rows of b, 16 values of i -> 16 rows of a

Where some arrays lie one by one along the last loop and others along the one before it, vectors of
the latter would be gathered element by element. Here as many iterations of the outer loop as a
vector has lanes are done at once: whole vectors are read and written everywhere, and those of the
arrays that lie the other way are transposed in registers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir

from ..loops import Affine, Buffer, Load, LoadAt, Var
from ..machine import policy
from .counted import counted_loop
from .expressions import Known
from .lanes import transpose_square
from .llvm_types import i64
from .memory import Memory

if TYPE_CHECKING:
    from .nests import NestEmitter


def has_squares(nest: NestEmitter) -> bool:
    """Whether the last two loops turn something, and can be emitted in squares."""
    plan, lanes = nest.plan, nest.plan.lanes
    if len(plan.vars) < 2 or lanes == 1 or plan.overlapping or nest.watched_level >= plan.last - 1:
        return False
    across, last = plan.vars[-2:]
    if across.ordered or across.extent < lanes or last.extent % lanes:
        return False
    limits = policy().nests
    if last.extent > limits.square_vectors * lanes:
        return False
    if len(plan.exprs) * lanes > limits.square_values:
        return False
    stores = plan.stores
    if any(s.combine or s.picks for s in stores) or any(isinstance(e, LoadAt) for e in plan.exprs):
        return False
    accesses = [(store.buffer, store.at) for store in stores]
    accesses += [(expr.buffer, expr.at) for expr in plan.exprs if isinstance(expr, Load)]
    turned = [buffer for buffer, at in accesses if _is_turned(at, across, last)]
    return bool(turned) and all(buffer.dtype.kind != "b" for buffer in turned)


def emit_squares(nest: NestEmitter) -> int:
    """The last two loops, in whole squares; how many iterations of the outer one that is."""
    lanes = nest.plan.lanes
    across, last = nest.plan.vars[-2:]
    whole = across.extent - across.extent % lanes

    def squares(base: ir.Value) -> None:
        for start in range(0, last.extent, lanes):
            _Square(nest, base, start).emit()

    counted_loop(nest.builder, 0, whole, lanes, squares)
    return whole


def _is_turned(at: Affine, across: Var, last: Var) -> bool:
    """Whether elements are neighbours along the outer of two loops, and not along the inner."""
    return at.coefficient(across) == 1 and at.coefficient(last) not in (0, 1)


class _Square:
    """So many iterations of the outer loop as there are lanes, from `base` on, and one vector of
    the inner loop, from `start` on."""

    def __init__(self, nest: NestEmitter, base: ir.Value, start: int):
        self.builder, self.plan, self.values = nest.builder, nest.plan, nest.values
        self.base, self.start = base, start
        self.across, self.last = nest.plan.vars[-2:]

    def emit(self) -> None:
        """All that lies the other way is read before anything is written, and written at last."""
        values, plan = self.values, self.plan
        turned = [
            expr
            for expr in plan.exprs
            if isinstance(expr, Load) and _is_turned(expr.at, self.across, self.last)
        ]
        columns = {expr: self._read(expr.buffer, expr.at) for expr in turned}
        waiting: list[list[ir.Value]] = [[] for _ in plan.stores]
        for step in range(plan.lanes):
            values.counters[self.across] = self.builder.add(self.base, i64(step))
            self._begin({key: vectors[step] for key, vectors in columns.items()})
            found = [values.vector_value(store.value) for store in plan.stores]
            for store, kept, value in zip(plan.stores, waiting, found, strict=True):
                if _is_turned(store.at, self.across, self.last):
                    kept.append(value)
                else:
                    values.store_vector(store, value)
        for store, kept in zip(plan.stores, waiting, strict=True):
            if kept:
                self._write(store.buffer, store.at, kept)
        del values.counters[self.across]

    def _begin(self, known: Known) -> None:
        """One vector of the inner loop, of which some expressions are known."""
        values = self.values
        outside = dict(values.known)
        values.compute_at(self.plan.last - 1)
        values.begin_row()
        values.known = outside
        values.begin_vector(i64(self.start), self.plan.lanes, known)

    def _read(self, buffer: Buffer, at: Affine) -> list[ir.Value]:
        """Vectors along the inner loop, one for each iteration of the outer."""
        memory, lanes = Memory(self.builder, buffer.dtype), self.plan.lanes
        places = [self._place(buffer, at, lane) for lane in range(lanes)]
        rows = [memory.load(place, 1, lanes, lanes) for place in places]
        return transpose_square(self.builder, rows)

    def _write(self, buffer: Buffer, at: Affine, values: list[ir.Value]) -> None:
        memory = Memory(self.builder, buffer.dtype)
        for lane, row in enumerate(transpose_square(self.builder, values)):
            memory.store(row, self._place(buffer, at, lane), 1, self.plan.lanes)

    def _place(self, buffer: Buffer, at: Affine, lane: int) -> ir.Value:
        """Where the elements of one iteration of the inner loop begin."""
        here = at.substitute({self.last: Affine(self.start + lane)})
        self.values.counters[self.across] = self.base
        return self.values.address_of(buffer, here)
