"""The loops around tiles of the matrix unit."""

from __future__ import annotations

from dataclasses import replace

from llvmlite import ir

from .bfloat import Lines, emit_in_range, packing_of
from .driver import HELD_HEAD, Driver, Pointers
from .matrix_unit import (
    emit_configuration,
    emit_plain_tile,
    emit_release,
    halves_of,
    unit_tile_of,
)
from .plans import Segment, VectorSegment
from .strided import I32, I64


class UnitDriver(Driver):
    """The same loops around tiles of the matrix unit, whose panels hold three parts of each number.

    Packing tells the largest magnitudes, and where these are out of range for parts, a tile is
    computed by ordinary multiply-adds from where the factors lie.
    """

    def emit(self) -> None:
        """The body of the function for a range of units."""
        self.largest = [self.builder.alloca(I32) for _ in "xy"]
        if self.plan.holds_y:
            self.largest[1] = self.function.args[6]  # it begins with that of the panels
        super().emit()

    def emit_preparation(self) -> None:
        """The body of the function that packs all columns beforehand."""
        held, y = self.function.args
        self.windows = {}
        self.plan = replace(self.plan, vector=replace(self.plan.vector, others=()))
        self.largest = [held, held]
        self.panels = self.memory.at(held, HELD_HEAD // self.plan.dtype.itemsize)
        self._start_packing(1)
        self._each_column_tile(Pointers(held, held, y), self._pack_columns)
        self.builder.ret_void()

    def _columns(self, at: Pointers) -> None:
        if not self.plan.holds_y:
            super()._columns(at)
            return
        self._nest(self.plan.extra_rows, 0, at, self._rows)

    def _finish(self) -> None:
        emit_release(self.builder)

    def _start_packing(self, side: int) -> None:
        self.builder.store(ir.Constant(I32, 0), self.largest[side])

    def _pack_panel(
        self, side: int, halves: tuple[int, ...], strides: tuple[int, int], *places: ir.Value
    ) -> None:
        """Fill the panel of some lines of x (0) or y (1), with strides from line to line and along
        the sums; `places` are the panel and the source."""
        b, place = self.builder, self.largest[side]
        panel, source = places
        line, total = strides
        by_lines = total == 1
        pack = packing_of(self.module, Lines(halves, rows=side == 0, by_lines=by_lines))
        pitch = ir.Constant(I64, line if by_lines else total)
        found = b.call(pack, [panel, self.steps, source, pitch])
        known = b.load(place, typ=I32)
        b.store(b.select(b.icmp_unsigned(">", found, known), found, known), place)

    def _pack_columns(
        self, columns: Segment, vectors: VectorSegment, at: Pointers, panel: ir.Value | None
    ) -> None:
        assert panel is not None
        halves = tuple(piece.count for piece in vectors.pieces)
        strides = self.plan.vector.y, self.plan.sums[0].y
        self._pack_panel(1, halves, strides, panel, at.y)

    def _pack_rows(self, rows: Segment, at: Pointers, panel: ir.Value) -> None:
        strides = self.plan.row.x, self.plan.sums[0].x
        self._pack_panel(0, halves_of(rows.size), strides, panel, at.x)

    def _row_block(self, rows: Segment, start: ir.Value, stop: ir.Value, at: Pointers) -> None:
        emit_configuration(self.builder, self.module, rows.size)
        self._start_packing(0)
        super()._row_block(rows, start, stop, at)

    def _packed_tile(
        self,
        rows: Segment,
        columns: Segment,
        vectors: VectorSegment,
        at: Pointers,
        panel: ir.Value,
        other: ir.Value | None,
    ) -> None:
        b = self.builder
        out, plan = self._place_of_sums(at)
        pitch = ir.Constant(I64, plan.row.out)
        fits = emit_in_range(b, *(b.load(place, typ=I32) for place in self.largest))
        with b.if_else(fits, likely=True) as (then, otherwise):
            with then:
                tile = unit_tile_of(self.module, plan, rows.size, vectors)
                b.call(tile, [out, pitch, panel, other, self.steps, self.flags])
            with otherwise:
                args = [out, pitch, at.x, at.y, self.steps, self.flags]
                emit_plain_tile(b, self.module, plan, rows, vectors, args)
        self._after(rows, columns, vectors, at, out)
