"""Large products on several threads: both factors packed once, for all, and then multiplied.

Where each task packs for itself what it reads, sixteen threads copy a factor sixteen times. So a
large product of two matrices goes in two jobs of many tasks: the first packs the tiles of rows and
of columns of both factors, each once, into memory that all share; the second computes rectangles of
the result. A task keeps a tile of rows in the first-level cache and goes with it over its columns,
whose panels are few enough for the second-level cache; all panels together are in the one that
cores share. Factors that do not fit there come in *rounds*, some blocks of the sums at a time.

Neither the rounds nor the tasks change the order of any sum: blocks are those of the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import ceil, prod
from typing import Any

from llvmlite import ir

from ..loops import Contraction
from ..machine import policy
from ..schedule.plans import Plan, Segment, VectorSegment
from .counted import counted_loop
from .driver import Driver, TilePointers
from .epilogue import Epilogue
from .llvm_types import I64, POINTER, i64, private_function
from .packing import Factor, Layout, Placed
from .target import Target


class SharedPanels:
    """Where panels lie in memory that all tasks share, counted in elements."""

    def __init__(self, plan: Plan, most_bytes: int):
        self.layout = layout = Layout(plan)
        self.rows = sum(segment.tiles for segment in plan.row_segments)
        self.across = sum(segment.tiles for segment in plan.vector_segments)
        self.columns = sum(segment.tiles for segment in plan.column_segments) * self.across
        block = self.rows * layout.row_pitch + self.columns * layout.column_pitch
        self.in_round = max(1, min(plan.blocks, most_bytes // (block * plan.dtype.itemsize)))
        self.rounds = ceil(plan.blocks / self.in_round)
        self.in_round = ceil(plan.blocks / self.rounds)
        self.columns_at = self.rows * layout.row_pitch * self.in_round
        self.totals_at = self.columns_at + self.columns * layout.column_pitch * self.in_round
        self.piece = _piece(plan, self.columns * layout.column_pitch // layout.steps)
        self.pieces = ceil((plan.block or plan.sums[0].extent) / self.piece) if self.piece else 0
        # behind them what `Layout` has behind the panels of one task: totals of very many blocks
        totals = layout.bytes - layout.totals * plan.dtype.itemsize
        self.bytes = self.totals_at * plan.dtype.itemsize + totals
        # rounds take turns with two places, unless they add to the same totals
        self.places = 2 if self.rounds > 1 and not totals else 1

    @property
    def units(self) -> int:
        """What packing can be cut into: tiles of rows, and pieces or tiles of columns."""
        return self.rows + (self.pieces or self.columns)


def _piece(plan: Plan, width: int) -> int:
    """So many turns of the outermost sum of all columns are packed at a time; 0: tile by tile.

    A tile's columns are a few lines out of each row of a factor that is contiguous along them, all
    in other pages: from memory that comes at half the rate of whole rows.
    """
    if plan.vector.y != 1:
        return 0
    inner = prod(axis.extent for axis in plan.sums[1:])
    return max(1, policy().products.piece_bytes // (width * inner * plan.dtype.itemsize))


class _PanelDriver(Driver):
    """Emits what packing and computing have in common: where panels are."""

    def __init__(self, shared: SharedPanels, *arguments: Any):
        self.panels = shared
        self.place: ir.Value = i64(0)  # of a block in its round
        super().__init__(*arguments)

    def _each_block(
        self, number: ir.Value, at: TilePointers, body: Callable[[ir.Value, TilePointers], None]
    ) -> None:
        """body(place in the round, pointers) for every block of the sums in a round."""
        b, count = self.builder, self.panels.in_round
        first = b.mul(number, i64(count))
        last = b.add(first, i64(count))
        most = i64(self.plan.blocks)
        last = b.select(b.icmp_signed("<", last, most), last, most)
        counted_loop(b, first, last, 1, lambda k: body(b.sub(k, first), self._block(k, at)))

    def _row_panel(self, block: ir.Value, tile: ir.Value) -> ir.Value:
        b, shared = self.builder, self.panels
        number = b.add(b.mul(block, i64(shared.rows)), tile)
        return self.memory.along(self.scratch, number, shared.layout.row_pitch)

    def _column_panel(self, block: ir.Value, tile: ir.Value) -> ir.Value:
        b, shared = self.builder, self.panels
        number = b.add(b.mul(block, i64(shared.columns)), tile)
        base = self.memory.at(self.scratch, shared.columns_at)
        return self.memory.along(base, number, shared.layout.column_pitch)

    def _panel(self, i: ir.Value, j: ir.Value, before: tuple[int, int]) -> ir.Value:
        b = self.builder
        row = b.mul(b.add(i, i64(before[0])), i64(self.panels.across))
        return self._column_panel(self.place, b.add(b.add(row, j), i64(before[1])))


class _Packer(_PanelDriver):
    """Emits ``void name.pack(out, x, y, panels, round, first, last, *others)``: the tiles of rows
    from the first to the last, and the units of columns, counted on behind them."""

    first: ir.Value = i64(0)  # turn of the outermost sum that is packed

    def _epilogue(self, kernel: Contraction, name: str) -> Epilogue | None:
        return None

    def emit(self) -> None:
        """The body of the function."""
        b, plan, shared = self.builder, self.plan, self.panels
        start, (number, first, last) = self._begin(3)
        self.windows = {"row": (first, last)}
        rows = list(self._ranges("row", plan.row_segments))
        count = shared.units - shared.rows
        behind = [self._clipped(v, shared.rows, count) for v in (first, last)]
        columns = self._pack_pieces if shared.pieces else self._pack_tiles

        def block(place: ir.Value, at: TilePointers) -> None:
            self.place = place
            for segment, low, high in rows:
                self._pack_rows(segment, low, high, at)
            columns(behind[0], behind[1], at)

        self._each_block(number, start, block)
        b.ret_void()

    def _pack(
        self, strips: Iterable[Placed], panel: ir.Value, factor: Factor, sources: Sequence[ir.Value]
    ) -> None:
        for placed in strips:
            start = self.memory.along(panel, self.first, placed.strip.sums[0])
            super()._pack([placed], start, factor, sources)

    def _pack_rows(
        self, segment: int, low: int | ir.Value, high: int | ir.Value, at: TilePointers
    ) -> None:
        plan, b = self.plan, self.builder
        rows = plan.row_segments[segment]
        before = sum(one.tiles for one in plan.row_segments[:segment])

        def pack(tile: ir.Value) -> None:
            here = self._at_tile(plan.row, rows.start, rows.size, tile, at)
            sources = self.rows.sources(here.x, here.others)
            strips = self.layout.row_strips(rows.size, self.rows)
            panel = self._row_panel(self.place, b.add(tile, i64(before)))
            self._pack(strips, panel, self.rows, sources)

        counted_loop(b, low, high, 1, pack)

    def _pack_pieces(self, low: ir.Value, high: ir.Value, at: TilePointers) -> None:
        """Of all tiles of columns the turns of the outermost sum that are in some pieces."""
        b, whole, size = self.builder, self.steps, self.panels.piece
        self.windows.pop("vector", None)
        self.windows.pop("column", None)

        def piece(number: ir.Value) -> None:
            self.first = b.mul(number, i64(size))
            left = b.sub(whole, self.first)
            self.steps = b.select(b.icmp_signed("<", left, i64(size)), left, i64(size))
            here = self._along(self.plan.sums[0], self.first, at)
            self._each_column_tile(here, self._pack_columns)

        top = b.udiv(b.add(whole, i64(size - 1)), i64(size))
        counted_loop(b, low, b.select(b.icmp_signed("<", high, top), high, top), 1, piece)
        self.steps, self.first = whole, i64(0)

    def _pack_tiles(self, low: ir.Value, high: ir.Value, at: TilePointers) -> None:
        """The tiles of columns whose number, along vectors and then along the other axis, is in
        a range."""
        b, across = self.builder, self.panels.across

        def line(i: ir.Value) -> None:
            begin = b.mul(i, i64(across))
            first, last = (self._clipped(b.sub(end, begin), 0, across) for end in (low, high))
            self.windows["vector"] = (first, last)
            self.windows["column"] = (i, b.add(i, i64(1)))
            self._each_column_tile(at, self._pack_columns)

        lines = self.panels.columns // across
        if lines == 1:
            line(i64(0))
        else:
            counted_loop(b, 0, lines, 1, line)


class _Multiplier(_PanelDriver):
    """Emits ``void name.part(out, x, y, panels, round, *ranges, *others)``: tiles of the result."""

    def emit(self) -> None:
        """The body of the function."""
        start, (number, *ranges) = self._begin(5)
        across = self.shared.loops[1]
        assert across is not None
        self.windows = {"row": (ranges[0], ranges[1]), across: (ranges[2], ranges[3])}

        def block(place: ir.Value, at: TilePointers) -> None:
            self.place = place
            self._look()
            self._in_column_blocks(lambda: self._rows(at))

        self._each_block(number, start, block)
        self.builder.ret_void()

    def _rows(self, at: TilePointers) -> None:
        """Every tile of rows with every tile of columns."""
        plan, b = self.plan, self.builder
        for number, low, high in self._ranges("row", plan.row_segments):
            rows = plan.row_segments[number]
            before = sum(one.tiles for one in plan.row_segments[:number])

            def line(tile: ir.Value, rows: Segment = rows, before: int = before) -> None:
                panel = self._row_panel(self.place, b.add(tile, i64(before)))
                here = self._at_tile(plan.row, rows.start, rows.size, tile, at)

                def compute(
                    columns: Segment, vectors: VectorSegment, at: TilePointers, y: ir.Value | None
                ) -> None:
                    self._tile(rows, columns, vectors, replace(at, x=panel), y)

                self._each_column_tile(here, compute)

            counted_loop(b, low, high, 1, line)

    def _gather(self, gather: ir.Function, out: ir.Value, pitch: ir.Value) -> None:
        self._add_to_total(gather, out, pitch, self.panels.totals_at)


def pack_name(name: str) -> str:
    """The function that packs tiles of both factors."""
    return f"{name}.pack"


def emit_panels(
    module: ir.Module, target: Target, kernel: Contraction, name: str, plan: Plan, watched: bool
) -> SharedPanels:
    """Add the two functions of a product whose panels all tasks share."""
    shared = SharedPanels(plan, target.policy.products.most_panels)
    more = [POINTER] * (len(kernel.accesses()) + watched)
    for function_name, kind, numbers in (
        (pack_name(name), _Packer, 3),
        (f"{name}.part", _Multiplier, 5),
    ):
        function = private_function(module, function_name, [POINTER] * 4 + [I64] * numbers + more)
        kind(shared, module, target, plan, name, function, kernel, watched).emit()
    return shared
