"""Small nests over rows and columns as one line of vectors, whose ends need not be those of rows.

The update of a weight from one sample, `p[i, j] -= rate * g[i] * x[j]`, cannot be one loop over all
elements, and rows that are no whole number of vectors are costly: most of their vectors lie across
two lines of the cache, which makes each store two. But what a vector needs of `g` and `x` is known
beforehand wherever it begins. So all vectors are written out, one after the other from the first
element on: `x` is held in registers and turned by a shuffle, and where a vector goes on in the next
row, its lanes are chosen between two elements of `g`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from llvmlite import ir

from ..loops import (
    Affine,
    Apply,
    Buffer,
    Expr,
    Literal,
    Load,
    Nest,
    Var,
    roots_of,
    takes_long,
    unchanging,
    walk,
)
from ..machine import policy
from ..schedule.plans import Piece, pieces_of
from .expressions import Known, add_values, splats, wanted
from .lanes import Loads
from .llvm_types import I1
from .memory import Memory
from .scalars import Scalars
from .target import Target
from .vectors import lane_order


@dataclass(frozen=True)
class Grid:
    """The loops of a nest that can be written out."""

    row: Var
    column: Var
    pieces: tuple[Piece, ...]


def grid_of(nest: Nest, target: Target) -> Grid | None:
    """The loops of the nest as rows and columns; None if it is not of this kind, or not small."""
    values = walk(roots_of(nest.stores))
    plain = all(isinstance(expr, (Load, Literal, Apply)) for expr in values)
    if len(nest.vars) != 2 or not nest.stores or not plain or any(v.ordered for v in nest.vars):
        return None
    if any(store.combine or store.guards or store.picks for store in nest.stores):
        return None
    if any(map(takes_long, values)):
        return None
    column, row = sorted(nest.vars, key=lambda var: nest.stores[0].at.coefficient(var) != 1)
    fixed = set(unchanging(values, _moves))
    moving = [expr for expr in values if expr not in fixed]
    accesses = [(store.buffer, store.at) for store in nest.stores]
    accesses += [(expr.buffer, expr.at) for expr in values if isinstance(expr, Load)]
    kinds = [_kind(at, row, column) for _, at in accesses]
    if "other" in kinds or any(kind != "dense" for kind in kinds[: len(nest.stores)]):
        return None
    dtypes = {expr.dtype for expr in moving} | {store.buffer.dtype for store in nest.stores}
    if len(dtypes) > 1 or next(iter(dtypes)).kind != "f":
        return None
    lanes = target.lanes(next(iter(dtypes)).itemsize)
    if column.extent % lanes == 0 or row.extent * column.extent < lanes:
        return None  # rows of whole vectors, or less than one
    pieces = pieces_of(row.extent * column.extent, lanes, target.has_masks)
    size = len(pieces) * (len(moving) + len(nest.stores))
    most = policy().code
    if len(pieces) > most.flat_vectors or size > most.flat_values:
        return None
    return Grid(row, column, pieces)


def _moves(leaf: Expr) -> bool:
    """Whether the value changes from element to element."""
    return isinstance(leaf, Load) and bool(leaf.at.terms)


def _kind(at: Affine, row: Var, column: Var) -> str:
    """What an index runs along."""
    down, across = at.coefficient(row), at.coefficient(column)
    if len(at.terms) != bool(down) + bool(across):
        return "other"  # variables that are counted elsewhere
    if across == 1 and down == column.extent:
        return "dense"
    if not across:
        return "row" if down else "same"
    return "column" if across == 1 and not down else "other"


def emit_flat(
    builder: ir.IRBuilder,
    nest: Nest,
    grid: Grid,
    target: Target,
    pointers: Callable[[Buffer], ir.Value],
) -> None:
    """All vectors of a nest, into the current block of a builder: of one after the other all its
    values, and then all its stores."""
    roots, reader = roots_of(nest.stores), _Reader(builder, grid, pointers)
    same: Known = {}
    add_values(Scalars(builder, 1, target.has_fma), unchanging(roots, _moves), same, reader.scalar)
    same = wanted(roots, same)
    wide: dict[int, Known] = {}
    for piece in grid.pieces:
        scalars = Scalars(builder, piece.width, target.has_fma)
        if piece.width not in wide:
            wide[piece.width] = splats(scalars, same)
        values = dict(wide[piece.width])
        add_values(scalars, roots, values, functools.partial(reader.vector, piece))
        for store in nest.stores:
            memory = Memory(builder, store.buffer.dtype)
            place = memory.at(pointers(store.buffer), store.at.constant + piece.start)
            memory.store(values[store.value], place, 1, piece.count)


class _Reader:
    """Loads what a vector needs, some of it once for all vectors."""

    def __init__(self, builder: ir.IRBuilder, grid: Grid, pointers: Callable[[Buffer], ir.Value]):
        self.builder, self.grid, self.pointers = builder, grid, pointers
        self.memories: dict[np.dtype, Loads] = {}

    def _memory(self, buffer: Buffer) -> Loads:
        return self.memories.setdefault(buffer.dtype, Loads(self.builder, buffer.dtype))

    def _once(self, expr: Load, first: int, stride: int, width: int, count: int) -> ir.Value:
        """Some elements, loaded the first time that they are wanted."""
        pointer = self.pointers(expr.buffer)
        return self._memory(expr.buffer).load_once(pointer, first, stride, width, count)

    def _some(self, expr: Load, first: int, stride: int, width: int, count: int) -> ir.Value:
        """Some elements that no other vector wants."""
        memory = self._memory(expr.buffer)
        return memory.load(memory.at(self.pointers(expr.buffer), first), stride, width, count)

    def scalar(self, expr: Expr) -> ir.Value:
        """What is the same for all elements."""
        assert isinstance(expr, Load)
        memory = self._memory(expr.buffer)
        return memory.read(memory.at(self.pointers(expr.buffer), expr.at.constant), 0, 1, 1)

    def vector(self, piece: Piece, expr: Expr) -> ir.Value:
        """What a vector needs of an array."""
        assert isinstance(expr, Load)
        kind = _kind(expr.at, self.grid.row, self.grid.column)
        if kind == "dense":
            return self._some(expr, expr.at.constant + piece.start, 1, piece.width, piece.count)
        return self._row(expr, piece) if kind == "row" else self._column(expr, piece)

    def _column(self, expr: Load, piece: Piece) -> ir.Value:
        """x[j] for the columns of a vector, which begins again where a row ends."""
        length, width, base = self.grid.column.extent, piece.width, expr.at.constant
        start = piece.start % length
        places = [start + lane for lane in range(width)]
        if width == 1 or start + piece.count <= length:
            return self._some(expr, base + start, 1, width, piece.count)
        if length < width:
            whole = self._once(expr, base, 1, width, length)
            return self._shuffled(whole, whole, [place % length for place in places])
        ends = self._once(expr, base + length - width, 1, width, width)
        starts = self._once(expr, base, 1, width, width)
        behind = length - width  # where the last whole vector begins; the first follows upon it
        return self._shuffled(ends, starts, [place - behind for place in places])

    def _row(self, expr: Load, piece: Piece) -> ir.Value:
        """g[i] for the rows of a vector."""
        length, width, step = self.grid.column.extent, piece.width, self._step(expr)
        rows = [(piece.start + min(lane, piece.count - 1)) // length for lane in range(piece.width)]
        first, last = rows[0], rows[-1]
        if last - first > 1:
            some = self._some(expr, expr.at.constant + first * step, step, width, last - first + 1)
            return self._shuffled(some, some, [row - first for row in rows])
        one = self._spread(expr, first, width)
        if first == last:
            return one
        mask = ir.Constant(ir.VectorType(I1, width), [row == first for row in rows])
        return self.builder.select(mask, one, self._spread(expr, last, width))

    def _step(self, expr: Load) -> int:
        return expr.at.coefficient(self.grid.row)

    def _spread(self, expr: Load, row: int, width: int) -> ir.Value:
        """One element on all lanes."""
        return self._once(expr, expr.at.constant + row * self._step(expr), 0, width, width)

    def _shuffled(self, left: ir.Value, right: ir.Value, lanes: list[int]) -> ir.Value:
        return self.builder.shuffle_vector(left, right, lane_order(tuple(lanes)))
