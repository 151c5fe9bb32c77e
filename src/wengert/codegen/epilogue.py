"""What is done with the sums of a tile once they are finished: the stores of a contraction.

A tile leaves its sums in the first-level cache: in the result, where somebody else wants them too,
else in room for one tile. From there they are read back, vector by vector, in a loop over the
lines of the tile, with whatever else the expressions need. This costs the time of one store and
one load for each vector of sums, next to the whole loop that made them. It keeps the code small:
one copy of the expressions for all lines, in a function that tiles of all heights share, while
expressions on the registers of the tile would be written out for every register of every tile.
What is the same for all elements of the tile, such as a learning rate, is computed once for it.

Along a summed vector axis the sums of a tile are single numbers; then the lanes of the epilogue run
over the rows or the columns of the tile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from llvmlite import ir

from ..loops import Affine, Buffer, Contraction, Expr, Load, Store, Sum, roots_of, unchanging, walk
from ..schedule.plans import ONCE, Axis, Piece, Plan, VectorSegment, pieces_of
from .counted import counted_loop
from .expressions import Known, add_values, splats, wanted
from .lanes import stack_memory
from .llvm_types import I64, POINTER, i64, private_function
from .memory import Memory
from .ordering import has_chains, interleave
from .scalars import Scalars


@dataclass(frozen=True)
class _Lines:
    """What one function covers: vectors side by side, on so many lines as it is told."""

    pieces: tuple[Piece, ...]
    lanes: Axis
    down: Axis  # from line to line
    columns: int = 1  # of the tile, where they are neither lanes nor lines


class Stores:
    """The stores of one contraction, for vectors of sums."""

    def __init__(self, kernel: Contraction, has_fma: bool):
        self.has_fma = has_fma
        self.stores = kernel.stores
        places = kernel.accesses()
        self.dtypes = [buffer.dtype for buffer, _ in places]
        self.number = {place: number for number, place in enumerate(places)}
        self.has_chains = has_chains(self.stores, walk(roots_of(self.stores)))

    def emit(
        self,
        builder: ir.IRBuilder,
        lanes: Axis,
        piece: Piece,
        sums: ir.Value,
        others: Sequence[ir.Value],
        same: Known,
    ) -> None:
        """All stores for one vector; `same` are the scalars that do not change."""
        known = self.on_lanes(builder, piece.width, same)
        VectorStores(self, builder, lanes, piece, lambda: sums, others, known).emit()

    def on_lanes(self, builder: ir.IRBuilder, width: int, same: Known) -> Known:
        """The scalars that do not change, on all lanes."""
        return splats(Scalars(builder, width, self.has_fma), same)

    def same_for_all(
        self, builder: ir.IRBuilder, axes: Sequence[Axis], others: Sequence[ir.Value]
    ) -> Known:
        """The expressions that do not change along these axes, as scalars."""
        roots = roots_of(self.stores)

        def changes(expr: Expr) -> bool:
            if not isinstance(expr, Load):
                return isinstance(expr, Sum)
            number = self.number[expr.buffer, expr.at]
            return any(axis.others and axis.others[number] for axis in axes)

        fixed = unchanging(roots, changes)
        one = VectorStores(self, builder, ONCE, Piece(0, 1, 1), lambda: None, others, {})
        return wanted(roots, one.values(fixed))


class Epilogue(Stores):
    """Emits the stores of one contraction for the tiles that leave their sums in memory."""

    def __init__(
        self, module: ir.Module, kernel: Contraction, plan: Plan, has_fma: bool, name: str
    ):
        super().__init__(kernel, has_fma)
        self.module, self.plan, self.name = module, plan, name
        self.has_room = not kernel.keeps_sums and not plan.block
        self.tile_plan = self._plan_in_room() if self.has_room else plan
        self.functions: dict[_Lines, ir.Function] = {}

    # ------------------------------------------------------------ the sums of a tile

    @property
    def _rows_are_lanes(self) -> bool:
        """Whether lanes run over the rows, where there is no vector axis left to run over."""
        return self.plan.along_sum and self.plan.tile.rows >= self.plan.tile.columns

    def _lengths(self) -> tuple[int, int, int]:
        """The most rows, columns and elements across that a tile has."""
        plan = self.plan
        across = [p.start + p.width for s in plan.vector_segments for p in s.pieces]
        return plan.row_segments[0].size, plan.column_segments[0].size, max(across, default=1)

    def _plan_in_room(self) -> Plan:
        """The plan with the strides of a result that is as large as one tile."""
        plan, (rows, columns, across) = self.plan, self._lengths()
        row, column = (1, rows) if self._rows_are_lanes else (columns * across, across)
        vector = plan.vector
        if vector is not ONCE and not plan.along_sum:
            vector = replace(vector, out=1)
        return replace(
            plan,
            vector=vector,
            row=replace(plan.row, out=row),
            column=replace(plan.column, out=column),
        )

    def room(self, builder: ir.IRBuilder) -> ir.Value | None:
        """Memory for the sums of one tile, if they have no other."""
        if not self.has_room:
            return None
        rows, columns, across = self._lengths()
        # whole vectors are read, also at the end
        return stack_memory(
            Memory(builder, self.plan.dtype), rows * columns * across + self.plan.lanes
        )

    # ------------------------------------------------------------ functions

    def after(
        self, rows: int, columns: int, vectors: VectorSegment
    ) -> tuple[ir.Function, ir.Constant]:
        """``void after(sums, lines, *others)`` for tiles of this shape, and the number of lines."""
        plan, tile = self.plan, self.tile_plan
        if not plan.along_sum:
            lines, count = _Lines(vectors.pieces, tile.vector, tile.row, columns), rows
        elif self._rows_are_lanes:
            pieces = pieces_of(rows, plan.lanes, plan.masked)
            lines, count = _Lines(pieces, tile.row, tile.column), columns
        else:
            pieces = pieces_of(columns, plan.lanes, plan.masked)
            lines, count = _Lines(pieces, tile.column, tile.row), rows
        if lines not in self.functions:
            self.functions[lines] = self._emit(lines, f"{self.name}.after{len(self.functions)}")
        return self.functions[lines], i64(count)

    def _emit(self, lines: _Lines, name: str) -> ir.Function:
        kinds = [POINTER, I64, *[POINTER] * len(self.dtypes)]
        function = private_function(self.module, name, kinds)
        builder = ir.IRBuilder(function.append_basic_block("entry"))
        sums, count, *others = function.args
        axes = [lines.lanes, lines.down, self.tile_plan.column]
        same = self.same_for_all(builder, axes, others)
        widths = dict.fromkeys(piece.width for piece in lines.pieces)
        known = {width: self.on_lanes(builder, width, same) for width in widths}

        def column(index: ir.Value, sums: ir.Value, others: Sequence[ir.Value]) -> None:
            near, rest = self._along(builder, self.tile_plan.column, index, sums, others)
            block, starts = builder.block, []
            for piece in lines.pieces:
                starts.append(len(block.instructions))
                read = partial(self._sums, builder, lines.lanes, piece, near)
                VectorStores(
                    self, builder, lines.lanes, piece, read, rest, known[piece.width]
                ).emit()
            if self.has_chains and builder.block is block:
                interleave(block, starts)

        def line(index: ir.Value) -> None:
            here = self._along(builder, lines.down, index, sums, others)
            counted_loop(builder, 0, lines.columns, 1, lambda c: column(c, *here))

        counted_loop(builder, 0, count, 1, line)
        builder.ret_void()
        return function

    def _sums(self, builder: ir.IRBuilder, lanes: Axis, piece: Piece, sums: ir.Value) -> ir.Value:
        """One vector of sums from where a tile has left them."""
        memory, stride = Memory(builder, self.plan.dtype), lanes.out
        # lanes beyond the real ones may be read in the room for a tile, not in the result
        count = piece.width if self.has_room else piece.count
        return memory.load(memory.at(sums, piece.start * stride), stride, piece.width, count)

    def _along(
        self,
        builder: ir.IRBuilder,
        axis: Axis,
        index: ir.Value,
        sums: ir.Value,
        others: Sequence[ir.Value],
    ) -> tuple[ir.Value, tuple[ir.Value, ...]]:
        near = Memory(builder, self.plan.dtype).along(sums, index, axis.out)
        return near, moved(builder, others, self.dtypes, index, axis.others)


class VectorStores:
    """Emits the stores for one vector of sums."""

    def __init__(
        self,
        epilogue: Stores,
        builder: ir.IRBuilder,
        lanes: Axis,
        piece: Piece,
        sums: Callable[[], ir.Value],
        others: Sequence[ir.Value],
        known: Known,
    ):
        self.known = known
        self.epilogue, self.builder, self.piece = epilogue, builder, piece
        self.lanes, self.sums, self.others = lanes, sums, others
        self.scalars = Scalars(builder, piece.width, epilogue.has_fma)

    def emit(self) -> None:
        """All values, and then all stores: a value may be stored where another one is read."""
        stores = self.epilogue.stores
        values = self.values(roots_of(stores))
        for store in stores:
            self.store(store, values[store.value])

    def store(self, store: Store, value: ir.Value) -> None:
        """Put a value where a store says."""
        memory, address, stride = self._place(store.buffer, store.at)
        memory.write(value, address, stride, self.piece.count)

    def values(self, roots: Sequence[Expr]) -> Known:
        """All that is needed for some expressions, and they themselves."""
        values = dict(self.known)
        add_values(self.scalars, roots, values, self._leaf)
        return values

    def _leaf(self, expr: Expr) -> ir.Value:
        if isinstance(expr, Sum):
            return self.sums()
        assert isinstance(expr, Load)
        memory, address, stride = self._place(expr.buffer, expr.at)
        width, count = self.piece.width, self.piece.count
        # one scalar may stand in lanes that are not stored
        return memory.read(address, stride, width, count if stride else width)

    def _place(self, buffer: Buffer, at: Affine) -> tuple[Memory, ir.Value, int]:
        """The memory, the address and the stride from lane to lane of an access."""
        number = self.epilogue.number[buffer, at]
        stride = self.lanes.others[number] if self.lanes.others else 0
        memory = Memory(self.builder, buffer.dtype)
        return memory, memory.at(self.others[number], self.piece.start * stride), stride


def moved(
    builder: ir.IRBuilder,
    pointers: Sequence[ir.Value],
    dtypes: Sequence[np.dtype],
    index: ir.Value,
    strides: Sequence[int],
) -> tuple[ir.Value, ...]:
    """Pointers some turns further along a loop; no strides at all: they stay where they are."""
    if not strides:
        return tuple(pointers)
    return tuple(
        Memory(builder, dtype).along(pointer, index, stride)
        for pointer, stride, dtype in zip(pointers, strides, dtypes, strict=True)
    )
