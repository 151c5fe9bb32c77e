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
from .packing import transpose_square
from .scalars import memory_type
from .strided import I64, counted_loop

if TYPE_CHECKING:
    from .nests import NestEmitter

# All of a square is written out: so many expressions at most, and vectors of the last loop.
MOST_EXPRESSIONS = 1024
MOST_VECTORS = 4


def has_squares(nest: NestEmitter) -> bool:
    """Whether the last two loops turn something, and can be emitted in squares."""
    lanes = nest.lanes
    if len(nest.vars) < 2 or lanes == 1 or nest.overlapping or nest.watched_level >= nest.last - 1:
        return False
    across, last = nest.vars[-2:]
    if across.ordered or across.extent < lanes or last.extent % lanes:
        return False
    if last.extent > MOST_VECTORS * lanes or len(nest.exprs) * lanes > MOST_EXPRESSIONS:
        return False
    stores = nest.nest.stores
    if any(s.combine or s.picks for s in stores) or any(isinstance(e, LoadAt) for e in nest.exprs):
        return False
    accesses = [(store.buffer, store.at) for store in stores]
    accesses += [(expr.buffer, expr.at) for expr in nest.exprs if isinstance(expr, Load)]
    turned = [buffer for buffer, at in accesses if _is_turned(at, across, last)]
    return bool(turned) and all(buffer.dtype.kind != "b" for buffer in turned)


def emit_squares(nest: NestEmitter) -> int:
    """The last two loops, in whole squares; how many iterations of the outer one that is."""
    across, last = nest.vars[-2:]
    whole = across.extent - across.extent % nest.lanes

    def squares(base: ir.Value) -> None:
        for start in range(0, last.extent, nest.lanes):
            _Square(nest, base, start).emit()

    counted_loop(nest.builder, 0, whole, nest.lanes, squares)
    return whole


def _is_turned(at: Affine, across: Var, last: Var) -> bool:
    """Whether elements are neighbours along the outer of two loops, and not along the inner."""
    return at.coefficient(across) == 1 and at.coefficient(last) not in (0, 1)


class _Square:
    """So many iterations of the outer loop as there are lanes, from `base` on, and one vector of
    the inner loop, from `start` on."""

    def __init__(self, nest: NestEmitter, base: ir.Value, start: int):
        self.nest, self.base, self.start = nest, base, start
        self.across, self.last = nest.vars[-2:]

    def emit(self) -> None:
        """All that lies the other way is read before anything is written, and written at last."""
        nest = self.nest
        turned = [
            expr
            for expr in nest.exprs
            if isinstance(expr, Load) and _is_turned(expr.at, self.across, self.last)
        ]
        columns = {id(expr): self._read(expr.buffer, expr.at) for expr in turned}
        waiting: list[list[ir.Value]] = [[] for _ in nest.nest.stores]
        for step in range(nest.lanes):
            nest.counters[self.across] = nest.builder.add(self.base, ir.Constant(I64, step))
            known = {key: vectors[step] for key, vectors in columns.items()}
            for store, values, value in zip(
                nest.nest.stores, waiting, nest.one_vector(self.start, known), strict=True
            ):
                if _is_turned(store.at, self.across, self.last):
                    values.append(value)
                else:
                    nest.store_vector(store, value)
        for store, values in zip(nest.nest.stores, waiting, strict=True):
            if values:
                self._write(store.buffer, store.at, values)
        del nest.counters[self.across]

    def _read(self, buffer: Buffer, at: Affine) -> list[ir.Value]:
        """Vectors along the inner loop, one for each iteration of the outer."""
        builder, kind = self.nest.builder, memory_type(buffer.dtype)
        vector, align = ir.VectorType(kind, self.nest.lanes), buffer.dtype.itemsize
        places = [self._place(buffer, at, lane) for lane in range(self.nest.lanes)]
        rows = [builder.load(place, typ=vector, align=align) for place in places]
        return transpose_square(builder, rows)

    def _write(self, buffer: Buffer, at: Affine, values: list[ir.Value]) -> None:
        rows = transpose_square(self.nest.builder, values)
        for lane, row in enumerate(rows):
            place = self._place(buffer, at, lane)
            self.nest.builder.store(row, place, align=buffer.dtype.itemsize)

    def _place(self, buffer: Buffer, at: Affine, lane: int) -> ir.Value:
        """Where the elements of one iteration of the inner loop begin."""
        here = at.substitute(self.last, Affine(self.start + lane))
        self.nest.counters[self.across] = self.base
        return self.nest.address_of(buffer, here)
