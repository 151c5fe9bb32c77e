"""The loops around the tiles of a product.

`schedule.tiling` decides how the loops are cut, `tiles` emits what happens in registers, `packing`
the copies of operands that lie badly. Here are the loops around them. For operands that need no
copy:

    for batch, further columns and rows: for column tiles: for row tiles: tile

and for large ones, with `Y` a block of packed columns and `X` one of packed rows:

    for batch, further columns: for blocks of columns: for blocks of the sums: pack Y
        for further rows: for row tiles: pack X
            for column tiles: tile

so that the rows of X stay in the first-level cache and the block of Y in the second. Adding up very
many blocks would lose digits: some at a time go to totals, in the scratch. Where Y lies
well as it is and is not read often enough to be worth a copy, the blocks are the same without it.

A factor that is an expression is computed where it is packed, and always packed.

What follows the product (`epilogue`) is done tile by tile, as soon as the sums of a tile are
finished and while they are in the first-level cache. Sums that nobody else wants are never in
memory at all, only in room for one tile; or, where they are cut into blocks, in the scratch.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from llvmlite import ir

from ..errors import WengertError
from ..loops import Contraction
from ..machine import policy
from ..schedule.plans import Axis, Plan, Segment, VectorSegment
from ..schedule.units import Loop, shared_loops
from .counted import counted_loop
from .epilogue import Epilogue, moved
from .interrupts import leave_if_stopped
from .llvm_types import I8, I64, as_i64, i64
from .memory import Memory
from .ordering import as_written
from .packing import Factor, Layout, Placed, packing_of
from .target import Target
from .tiles import ADD_TO_RESULT, END_OF_TOTAL, FIRST_TOTAL, LAST_BLOCK, Shape, TileOperand, tile_of

_Range = tuple[int | ir.Value, int | ir.Value]


@dataclass(frozen=True)
class TilePointers:
    """Where a tile begins in all arrays."""

    out: ir.Value
    x: ir.Value
    y: ir.Value
    others: tuple[ir.Value, ...] = ()


class Driver:
    """Emits the loops around tiles."""

    def __init__(
        self,
        module: ir.Module,
        target: Target,
        plan: Plan,
        name: str,
        function: ir.Function,
        kernel: Contraction,
        watched: bool,
    ):
        self.module, self.target, self.plan, self.watched = module, target, plan, watched
        self.layout = Layout(plan)
        self.shared = shared_loops(plan)
        self.function = function
        # The work is in the functions called. Without this LLVM spends more time on the addresses
        # of these loops than on the tiles, and the code is no faster for it.
        as_written(function)
        self.builder = ir.IRBuilder(function.append_basic_block("entry"))
        self.memory = Memory(self.builder, plan.dtype)
        self.dtypes = [buffer.dtype for buffer, _ in kernel.accesses()]
        self.rows, self.columns = (Factor(kernel, name, plan, target.has_fma) for name in "xy")
        for factor, packed in ((self.rows, plan.pack_x), (self.columns, plan.pack_y)):
            if factor.value is not None and not packed:
                raise WengertError("contraction: only a factor that is packed can be computed")
        self.epilogue = self._epilogue(kernel, name)
        # turns to compute, where not all: (first, last) of an outer loop, or along tiles
        self.windows: dict[Loop, tuple[ir.Value, ir.Value]] = {}
        self.steps: ir.Value = i64(plan.sums[0].extent)
        self.flags: ir.Value = i64(LAST_BLOCK)

    def _epilogue(self, kernel: Contraction, name: str) -> Epilogue | None:
        if not kernel.stores:
            return None
        return Epilogue(self.module, kernel, self.plan, self.target.has_fma, name)

    def emit(self) -> None:
        """The body of the function for a rectangle of units."""
        start, ranges = self._begin(4)
        pairs = zip(self.shared.loops, (ranges[:2], ranges[2:]), strict=True)
        self.windows = {loop: (low, high) for loop, (low, high) in pairs if loop is not None}
        plan = self.plan
        self._nest((*plan.batch, *plan.extra_columns), 0, start, self._columns)
        self.builder.ret_void()

    def _begin(self, numbers: int) -> tuple[TilePointers, list[ir.Value]]:
        """Where all arrays begin, and the so many numbers that the function gets besides."""
        out, x, y, self.scratch, *rest = self.function.args
        self.result = out
        self.watch = rest.pop() if self.watched else None
        if self.plan.swapped:
            x, y = y, x
        self.room = self.epilogue.room(self.builder) if self.epilogue else None
        return TilePointers(out, x, y, tuple(rest[numbers:])), rest[:numbers]

    def _nest(
        self,
        axes: Sequence[Axis],
        number: int,
        at: TilePointers,
        body: Callable[[TilePointers], None],
    ) -> None:
        """Loops over whole axes; `number` is the first one's among the outer loops."""
        if not axes:
            body(at)
            return
        start: int | ir.Value = 0
        stop: int | ir.Value = axes[0].extent
        if number in self.windows:
            start, stop = self.windows[number]

        def inside(index: ir.Value) -> None:
            self._nest(axes[1:], number + 1, self._along(axes[0], index, at), body)

        counted_loop(self.builder, start, stop, 1, inside)

    def _along(self, axis: Axis, index: ir.Value, at: TilePointers) -> TilePointers:
        move = self.memory.along
        return TilePointers(
            move(at.out, index, axis.out),
            move(at.x, index, axis.x),
            move(at.y, index, axis.y),
            moved(self.builder, at.others, self.dtypes, index, axis.others),
        )

    def _ranges(
        self, loop: str, segments: Sequence[Segment | VectorSegment]
    ) -> Iterator[tuple[int, int | ir.Value, int | ir.Value]]:
        """For each segment its number and the range of its tiles that is to be computed."""
        base = 0
        for number, segment in enumerate(segments):
            low: int | ir.Value = 0
            high: int | ir.Value = segment.tiles
            if loop in self.windows:
                low, high = (self._clipped(v, base, high) for v in self.windows[loop])
            yield number, low, high
            base += segment.tiles

    def _clipped(self, value: ir.Value, base: int, most: int) -> ir.Value:
        b = self.builder
        inside = b.sub(value, i64(base)) if base else value
        zero, top = i64(0), i64(most)
        inside = b.select(b.icmp_signed("<", inside, zero), zero, inside)
        return b.select(b.icmp_signed(">", inside, top), top, inside)

    # ------------------------------------------------------------ columns

    def _columns(self, at: TilePointers) -> None:
        plan = self.plan
        first_row_axis = len(plan.batch) + len(plan.extra_columns)
        if not (plan.pack_y or plan.block):
            self._nest(plan.extra_rows, first_row_axis, at, self._rows)
            return

        def block(number: ir.Value) -> None:
            self._look()
            here = self._block(number, at)
            if plan.pack_y:
                self._each_column_tile(here, self._pack_columns)
            self._nest(plan.extra_rows, first_row_axis, here, self._rows)

        self._in_column_blocks(lambda: counted_loop(self.builder, 0, plan.blocks, 1, block))

    def _look(self, every: tuple[ir.Value, int] | None = None) -> None:
        """End early if the call is to be interrupted."""
        if self.watch is not None:
            leave_if_stopped(self.builder, self.watch, every)

    def _in_column_blocks(self, body: Callable[[], None]) -> None:
        """Run the body for so many vector tiles at a time as there is room to pack."""
        plan, b = self.plan, self.builder
        tiles = sum(segment.tiles for segment in plan.vector_segments)
        if plan.column_block >= tiles:
            body()
            return
        whole = (i64(0), i64(tiles))
        first, last = self.windows.get("vector", whole)

        def some(start: ir.Value) -> None:
            end = b.add(start, i64(plan.column_block))
            end = b.select(b.icmp_signed("<", end, last), end, last)
            self.windows["vector"] = (start, end)
            body()

        counted_loop(b, first, last, plan.column_block, some)
        self.windows["vector"] = (first, last)

    def _block(self, number: ir.Value, at: TilePointers) -> TilePointers:
        """The pointers of a block of the sums; sets the steps and flags that tiles get."""
        plan, b = self.plan, self.builder
        if not plan.block:
            return at
        outer = plan.sums[0]
        start = b.mul(number, i64(plan.block))
        left = b.sub(i64(outer.extent), start)
        last = b.icmp_signed("<=", left, i64(plan.block))
        self.steps = b.select(last, left, i64(plan.block))
        zero = i64(0)
        first = b.icmp_signed("==", number, zero)
        flags = [b.select(last, i64(LAST_BLOCK), zero)]
        again = b.not_(first)
        if plan.gathered:
            some = i64(plan.gathered)
            turn = b.urem(number, some)
            again = b.icmp_signed("!=", turn, zero)
            ends = b.icmp_signed("==", turn, i64(plan.gathered - 1))
            flags.append(b.select(b.or_(ends, last), i64(END_OF_TOTAL), zero))
            begins = b.icmp_signed("<", number, some)
            flags.append(b.select(begins, i64(FIRST_TOTAL), zero))
        if plan.accumulates:
            again = b.or_(again, first)
        self.flags = b.select(again, i64(ADD_TO_RESULT), zero)
        for flag in flags:
            self.flags = b.or_(self.flags, flag)
        return self._along(outer, start, at)

    def _each_column_tile(
        self,
        at: TilePointers,
        body: Callable[[Segment, VectorSegment, TilePointers, ir.Value | None], None],
    ) -> None:
        """body(column segment, vector segment, pointers, panel) for every tile of columns."""
        plan = self.plan
        column_segments, vector_segments = plan.column_segments, plan.vector_segments
        for c, *down in self._ranges("column", column_segments):
            for v, *along in self._ranges("vector", vector_segments):
                columns, vectors = column_segments[c], vector_segments[v]
                before = (
                    sum(segment.tiles for segment in column_segments[:c]),
                    sum(segment.tiles for segment in vector_segments[:v]),
                )

                def tile(i: ir.Value, j: ir.Value, columns=columns, vectors=vectors, before=before):
                    here = self._at_tile(plan.column, columns.start, columns.size, i, at)
                    here = self._at_tile(plan.vector, vectors.start, vectors.size, j, here)
                    panel = self._panel(i, j, before) if plan.pack_y else None
                    body(columns, vectors, here, panel)

                self._grid((down[0], down[1]), (along[0], along[1]), tile)

    def _grid(
        self, outer: _Range, inner: _Range, body: Callable[[ir.Value, ir.Value], None]
    ) -> None:
        """body(i, j) for all i of one range and j of the other."""

        def line(i: ir.Value) -> None:
            counted_loop(self.builder, *inner, 1, lambda j: body(i, j))

        counted_loop(self.builder, *outer, 1, line)

    def _panel(self, i: ir.Value, j: ir.Value, before: tuple[int, int]) -> ir.Value:
        """Where the columns of a tile are packed; `before` are the tiles of earlier segments."""
        b = self.builder
        row = b.mul(b.add(i, i64(before[0])), i64(self.plan.column_block))
        number = b.add(b.add(row, j), i64(before[1]))
        if "vector" in self.windows:
            number = b.sub(number, self.windows["vector"][0])
        return self.memory.along(self.scratch, number, self.layout.column_pitch)

    def _at_tile(
        self, axis: Axis, start: int, size: int, index: ir.Value, at: TilePointers
    ) -> TilePointers:
        first = self._along(axis, i64(start), at)
        out, x, y, *others = axis.times(size)
        return self._along(Axis(0, out, x, y, tuple(others)), index, first)

    def _pack_columns(
        self, columns: Segment, vectors: VectorSegment, at: TilePointers, panel: ir.Value | None
    ) -> None:
        assert panel is not None
        factor = self.columns
        strips = self.layout.column_strips(columns.size, vectors, factor)
        self._pack(strips, panel, factor, factor.sources(at.y, at.others))

    def _pack(
        self,
        strips: Iterable[Placed],
        panel: ir.Value,
        factor: Factor,
        sources: Sequence[ir.Value],
    ) -> None:
        memories = [Memory(self.builder, dtype) for dtype in factor.dtypes]
        for starts, place, strip in strips:
            here = [
                memory.at(source, start)
                for memory, source, start in zip(memories, sources, starts, strict=True)
            ]
            pack = packing_of(self.module, self.plan.dtype, strip)
            self.builder.call(pack, [self.memory.at(panel, place), self.steps, *here])

    # ------------------------------------------------------------ rows

    def _rows(self, at: TilePointers) -> None:
        plan, b = self.plan, self.builder
        segments = plan.row_segments
        if not plan.pack_x:
            self._each_column_tile(at, self._direct_rows)
            return
        for number, low, high in self._ranges("row", segments):
            rows = segments[number]
            size = min(plan.row_block, rows.tiles)

            def block(start: ir.Value, rows=rows, high=high, size=size) -> None:
                end = b.add(start, i64(size))
                top = as_i64(high)
                stop = b.select(b.icmp_signed("<", end, top), end, top)
                self._row_block(rows, start, stop, at)

            counted_loop(b, low, high, size, block)

    def _row_block(self, rows: Segment, start: ir.Value, stop: ir.Value, at: TilePointers) -> None:
        """Pack some row tiles, and compute them with every column tile."""
        plan, b = self.plan, self.builder
        self._look()

        def panel_of(tile: ir.Value) -> ir.Value:
            base = self.memory.at(self.scratch, self.layout.columns)
            return self.memory.along(base, b.sub(tile, start), self.layout.row_pitch)

        def pack(tile: ir.Value) -> None:
            here = self._at_tile(plan.row, rows.start, rows.size, tile, at)
            sources = self.rows.sources(here.x, here.others)
            strips = self.layout.row_strips(rows.size, self.rows)
            self._pack(strips, panel_of(tile), self.rows, sources)

        def columns_of(
            columns: Segment, vectors: VectorSegment, here: TilePointers, panel: ir.Value | None
        ) -> None:
            def compute(tile: ir.Value) -> None:
                place = self._at_tile(plan.row, rows.start, rows.size, tile, here)
                self._tile(rows, columns, vectors, replace(place, x=panel_of(tile)), panel)

            counted_loop(b, start, stop, 1, compute)

        counted_loop(b, start, stop, 1, pack)
        self._each_column_tile(at, columns_of)

    def _direct_rows(
        self, columns: Segment, vectors: VectorSegment, at: TilePointers, panel: ir.Value | None
    ) -> None:
        segments = self.plan.row_segments
        for number, low, high in self._ranges("row", segments):
            rows = segments[number]

            def compute(tile: ir.Value, rows=rows) -> None:
                if panel is not None:
                    self._look((tile, policy().costs.watched_tiles))
                here = self._at_tile(self.plan.row, rows.start, rows.size, tile, at)
                self._tile(rows, columns, vectors, here, panel)

            counted_loop(self.builder, low, high, 1, compute)

    # ------------------------------------------------------------ tiles

    def _tile(
        self,
        rows: Segment,
        columns: Segment,
        vectors: VectorSegment,
        at: TilePointers,
        panel: ir.Value | None,
    ) -> None:
        plan = self.plan
        x = TileOperand(plan.row.x, plan.vector.x, tuple(axis.x for axis in plan.sums))
        y = TileOperand(plan.column.y, plan.vector.y, tuple(axis.y for axis in plan.sums))
        if plan.pack_x:
            x = self.layout.rows_of(rows.size)
        if panel is not None:
            y = self.layout.columns_of(columns.size, vectors)
        shape = Shape(rows.size, columns.size, vectors.pieces, x, y)
        source = at.y if panel is None else panel
        out, tile_plan = at.out, plan
        if self.epilogue:
            out, tile_plan = self.room or at.out, self.epilogue.tile_plan
        tile = tile_of(self.module, tile_plan, self.target.has_fma, shape)
        pitch = i64(tile_plan.row.out)
        self.builder.call(tile, [out, pitch, at.x, source, self.steps, self.flags])
        if plan.gathered:
            gather = tile_of(self.module, tile_plan, self.target.has_fma, shape, total=True)
            self._if_flagged(END_OF_TOTAL, lambda: self._gather(gather, out, pitch))
        if self.epilogue:
            after, lines = self.epilogue.after(rows.size, columns.size, vectors)
            call = functools.partial(self.builder.call, after, [out, lines, *at.others])
            if plan.block:
                self._if_flagged(LAST_BLOCK, call)
            else:
                call()

    def _gather(self, gather: ir.Function, out: ir.Value, pitch: ir.Value) -> None:
        """Add what a tile holds of the sums to its total, which lies where they do."""
        self._add_to_total(gather, out, pitch, self.layout.totals)

    def _add_to_total(
        self, gather: ir.Function, out: ir.Value, pitch: ir.Value, start: int
    ) -> None:
        b = self.builder
        away = b.sub(b.ptrtoint(out, I64), b.ptrtoint(self.result, I64))
        totals = self.memory.at(self.scratch, start)
        total = b.gep(totals, [away], source_etype=I8)
        b.call(gather, [out, pitch, total, total, self.steps, self.flags])

    def _if_flagged(self, flag: int, body: Callable[[], Any]) -> None:
        b = self.builder
        found = b.and_(self.flags, i64(flag))
        with b.if_then(b.icmp_unsigned("!=", found, i64(0))):
            body()
