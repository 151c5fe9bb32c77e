"""How a product of two arrays is cut up: which loop runs over vectors, and what a tile is.

Every loop of ``out = sum of x * y`` is an `Axis` with a stride in each of the three arrays, and
its strides alone say what it is:

- *sum*: not in the result; *row*: in x and the result; *column*: in y and the result;
- *batch*: in all three (or in the result alone).

One axis is the *vector axis*, and everything else follows from it. An array that has no stride
along it gives one scalar for all lanes, stride 1 is a vector load, any other stride is gathered,
and a vector axis that is summed over leaves the lanes to be added at the end. So matrix products,
matrix-vector products, dot products, outer products and convolutions need no cases of their own.

A *tile* is what stays in registers while the sums run: some rows by some columns by some vectors.
Every choice (vector axis, tile, packing) goes by one estimate of cycles; nothing is tuned for
particular shapes. Tiles cover an axis evenly, in two sizes that differ by one, so that no thin
tile is left over.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, prod

import numpy as np

from ..errors import WengertError
from ..loops import Contraction
from .target import Target

# Rough costs in cycles; loads and multiply-adds go two at a time on every processor of interest.
_LATENCY = 4.0
# Loads cost a little even where they hide behind arithmetic, and vectors more than scalars: they
# cross cache lines or come from further away. It makes tiles square rather than thin.
_TRAFFIC = 0.1
_TILE_CALL = 12.0
_GATHERED_LANE = 1.5
_SCATTERED_LANE = 6.0
_ADD_LANES = 9.0
_SUM_CHAINS = 4
_TILE_LENGTH = 8
# What a second size of tile costs for its code, as a share of the whole.
_SECOND_SIZE = 0.02
_UNROLLED_STEPS = 4
# Tiles that must read a packed operand to make packing it worth while.
_WORTH_PACKING = 4
# With at most so many rows a copy of the other operand takes longer than it saves, if that lies
# well: in vectors, and its rows so close together that several are on one page of memory. It is
# read where it is, in blocks of so many sums at least.
_FEW_ROWS, _CLOSE_BYTES = 192, 2048
_LEAST_BLOCK = 128


@dataclass(frozen=True)
class Axis:
    """A loop and its element strides in the three arrays, and in all else that is accessed."""

    extent: int
    out: int = 0
    x: int = 0
    y: int = 0
    others: tuple[int, ...] = ()

    @property
    def kind(self) -> str:
        """What the strides make of it: "sum", "row", "column" or "batch"."""
        if self.out == 0:
            return "sum"
        if self.y == 0 and self.x != 0:
            return "row"
        return "column" if self.x == 0 and self.y != 0 else "batch"

    def swapped(self) -> Axis:
        """The axis with x and y exchanged."""
        return replace(self, x=self.y, y=self.x)

    def times(self, count: int) -> tuple[int, ...]:
        """How far apart `count` steps are, in all arrays."""
        return tuple(count * stride for stride in (self.out, self.x, self.y, *self.others))


ONCE = Axis(1)


@dataclass(frozen=True)
class Piece:
    """One vector of a tile: `width` lanes from element `start`, of which `count` are real."""

    start: int
    width: int
    count: int


@dataclass(frozen=True)
class Segment:
    """A run of equal tiles along an axis: the first position, how many, positions in each."""

    start: int
    tiles: int
    size: int


@dataclass(frozen=True)
class VectorSegment:
    """A run of equal tiles along the vector axis: the first element, how many, their vectors."""

    start: int
    tiles: int
    size: int  # elements from one tile to the next
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class Tile:
    """Rows by columns by vectors; `chains` are independent partial sums along a summed vector."""

    rows: int
    columns: int
    vectors: int
    chains: int = 1


@dataclass(frozen=True)
class Plan:
    """All that is decided about one contraction."""

    dtype: np.dtype
    lanes: int
    masked: bool  # whether partial vectors are loaded and stored under a mask
    swapped: bool  # whether x and y change roles
    vector: Axis
    row: Axis
    column: Axis
    batch: tuple[Axis, ...]
    extra_columns: tuple[Axis, ...]
    extra_rows: tuple[Axis, ...]
    sums: tuple[Axis, ...]  # without the vector axis; the innermost last
    tile: Tile
    cycles: float
    pack_x: bool = False
    pack_y: bool = False
    block: int = 0  # positions of the outermost sum worked on at a time (0: all)
    row_block: int = 1  # row tiles packed at a time; more than one means more than L1 holds
    column_block: int = 1  # vector tiles packed at a time
    empty: bool = False  # nothing is summed: the result is zero
    accumulates: bool = False  # the sums are added to what the result holds

    @property
    def along_sum(self) -> bool:
        """Whether the vector axis is summed over."""
        return self.vector.out == 0 and self.vector is not ONCE

    @property
    def row_segments(self) -> tuple[Segment, ...]:
        """The tiles along the rows."""
        return even_segments(self.row.extent, self.tile.rows)

    @property
    def column_segments(self) -> tuple[Segment, ...]:
        """The tiles along the columns."""
        return even_segments(self.column.extent, self.tile.columns)

    @property
    def vector_segments(self) -> tuple[VectorSegment, ...]:
        """The tiles along the vector axis; one without vectors where that axis is summed."""
        if self.along_sum:
            return (VectorSegment(0, 1, 0, ()),)
        return vector_segments(self.vector.extent, self.lanes, self.tile.vectors, self.masked)

    @property
    def blocks(self) -> int:
        """How many blocks the sums are cut into."""
        return ceil(self.sums[0].extent / self.block) if self.block else 1


# ---------------------------------------------------------------- axes


def axes_of(kernel: Contraction) -> list[Axis]:
    """The loops of a contraction, merged where several are one loop in all arrays."""
    places = [at for _, at in kernel.accesses()]
    variables = kernel.variables
    axes = [
        Axis(
            extent,
            kernel.out_strides.get(label, 0),
            kernel.x_strides.get(label, 0),
            kernel.y_strides.get(label, 0),
            tuple(at.coefficient(variables[label]) if label in variables else 0 for at in places),
        )
        for label, extent in kernel.extents.items()
        if extent != 1
    ]
    return merge_axes(axes)


def merge_axes(axes: Sequence[Axis]) -> list[Axis]:
    """for i for j: a[i*n + j] -> for k: a[k], wherever the strides allow it.

    >>> merge_axes([Axis(4, 60, 0, 12), Axis(3, 20, 0, 4)])
    [Axis(extent=12, out=20, x=0, y=4, others=())]
    """
    found = list(axes)
    while True:
        pair = next(_mergeable(found), None)
        if pair is None:
            return found
        outer, inner = pair
        found[found.index(inner)] = replace(inner, extent=inner.extent * outer.extent)
        found.remove(outer)


def _mergeable(axes: Sequence[Axis]) -> Iterator[tuple[Axis, Axis]]:
    for outer in axes:
        for inner in axes:
            if outer is not inner and outer.times(1) == inner.times(inner.extent):
                yield outer, inner


# ---------------------------------------------------------------- covering an axis


def even_segments(extent: int, largest: int) -> tuple[Segment, ...]:
    """Cover an axis with tiles as equal as can be, the larger ones first.

    >>> even_segments(100, 14)
    (Segment(start=0, tiles=4, size=13), Segment(start=52, tiles=4, size=12))
    """
    tiles = ceil(extent / largest)
    size, larger = divmod(extent, tiles)
    found = [Segment(0, larger, size + 1), Segment(larger * (size + 1), tiles - larger, size)]
    return tuple(segment for segment in found if segment.tiles)


def vector_segments(
    extent: int, lanes: int, largest: int, masked: bool
) -> tuple[VectorSegment, ...]:
    """Cover the vector axis; a partial vector is in the last tile, or a tile of its own."""
    whole, rest = divmod(extent, lanes)
    tail = tail_pieces(0, rest, lanes, masked)
    joined = bool(rest) and masked
    vectors = whole + joined
    found: list[VectorSegment] = []
    if vectors:
        for segment in even_segments(vectors, largest):
            tiles = segment.tiles
            pieces = tuple(Piece(k * lanes, lanes, lanes) for k in range(segment.size))
            start, size = segment.start * lanes, segment.size * lanes
            if joined and segment.start + segment.tiles * segment.size == vectors:
                tiles -= 1
            if tiles:
                found.append(VectorSegment(start, tiles, size, pieces))
            if tiles < segment.tiles:
                shift = (segment.size - 1) * lanes
                # beside whole vectors as wide as they are, to share scalars on all lanes
                width = lanes if pieces[:-1] else tail[0].width
                last = Piece(shift, width, rest)
                found.append(VectorSegment(start + tiles * size, 1, size, (*pieces[:-1], last)))
    if rest and not joined:
        found.append(VectorSegment(whole * lanes, 1, rest, tail))
    return tuple(found)


def pieces_of(count: int, lanes: int, masked: bool) -> tuple[Piece, ...]:
    """Vectors for `count` elements side by side."""
    whole, rest = divmod(count, lanes)
    pieces = [Piece(k * lanes, lanes, lanes) for k in range(whole)]
    return (*pieces, *tail_pieces(whole * lanes, rest, lanes, masked))


def tail_pieces(start: int, count: int, lanes: int, masked: bool) -> tuple[Piece, ...]:
    """The last `count` elements: one vector under a mask, or vectors of halving widths.

    >>> tail_pieces(0, 5, 8, masked=False)
    (Piece(start=0, width=4, count=4), Piece(start=4, width=1, count=1))
    """
    pieces = []
    while count:
        width = 1 << (count - 1).bit_length() if masked else 1 << (count.bit_length() - 1)
        pieces.append(Piece(start, width, min(width, count)))
        start, count = start + width, max(count - width, 0)
    return tuple(pieces)


# ---------------------------------------------------------------- choosing


def make_plan(kernel: Contraction, target: Target) -> Plan | None:
    """Decide how to compute a contraction; None when it has no result elements at all."""
    dtype = kernel.out.dtype
    x, y = (kernel.x_value or kernel.x).dtype, (kernel.y_value or kernel.y).dtype
    if dtype not in (np.float32, np.float64) or {x, y} != {dtype}:
        raise WengertError(
            f"contraction: got {x} * {y} -> {dtype}, expected float32 or float64 for all three; "
            "convert the arguments first"
        )
    if any(kernel.extents[label] == 0 for label in kernel.out_strides):
        return None
    computed = kernel.x_value is not None, kernel.y_value is not None
    plan = _best_plan(tuple(axes_of(kernel)), dtype, target, computed)
    return replace(plan, accumulates=True) if kernel.accumulates else plan


@functools.lru_cache(maxsize=256)
def _best_plan(
    axes: tuple[Axis, ...], dtype: np.dtype, target: Target, computed: tuple[bool, bool]
) -> Plan:
    """The plan for these axes; factors that are computed are packed, if that is possible."""
    empty = any(axis.extent == 0 for axis in axes)
    if empty:
        axes = tuple(axis for axis in axes if axis.kind != "sum")
    found = [_plan_along(place, axes, dtype, target) for place in range(-1, len(axes))]
    if any(computed):
        found = [plan for plan in found if _can_pack(plan)] or found
    best = min(found, key=lambda plan: plan.cycles)
    return replace(_with_packing(best, target, computed), empty=empty)


def _plan_along(place: int, axes: Sequence[Axis], dtype: np.dtype, target: Target) -> Plan:
    """The best plan with the vector axis at `place` (-1: no vectors at all)."""
    swapped = place >= 0 and axes[place].kind == "row"
    if swapped:
        axes = [axis.swapped() for axis in axes]
    vector = axes[place] if place >= 0 else ONCE
    rest = [axis for number, axis in enumerate(axes) if number != place]
    rows, columns, batch, sums = (
        [axis for axis in rest if axis.kind == kind] for kind in ("row", "column", "batch", "sum")
    )
    row, column = _nearest(rows), _nearest(columns)
    lanes = 1 if vector is ONCE else target.lanes(dtype.itemsize)
    sums.sort(key=lambda axis: (abs(axis.x) + abs(axis.y), -axis.extent), reverse=True)
    plan = Plan(
        dtype,
        lanes,
        target.has_masks,
        swapped,
        vector,
        row,
        column,
        tuple(batch),
        tuple(axis for axis in columns if axis is not column),
        tuple(axis for axis in rows if axis is not row),
        tuple(sums) or (ONCE,),
        Tile(1, 1, 1),
        0.0,
    )
    return _with_best_tile(plan, target)


def _nearest(axes: Sequence[Axis]) -> Axis:
    """The axis to tile: long enough for a tile, and of those the one that stays closest by."""
    return max(
        axes,
        key=lambda axis: (min(axis.extent, _TILE_LENGTH), -abs(axis.x + axis.y), axis.extent),
        default=ONCE,
    )


def _with_best_tile(plan: Plan, target: Target) -> Plan:
    options = (False, True) if _may_pack_y(plan) else (False,)
    cycles, _, tile, pack = min(
        (_cycles(plan, tile, pack), number, tile, pack)
        for number, tile in enumerate(_possible_tiles(plan, target.vector_registers))
        for pack in options
    )
    return replace(plan, tile=tile, pack_y=pack, cycles=cycles)


def _may_pack_y(plan: Plan) -> bool:
    return plan.vector.kind == "column" and plan.vector.y != 1


def _possible_tiles(plan: Plan, registers: int) -> Iterator[Tile]:
    along_sum = plan.along_sum
    vectors = 1 if along_sum else ceil(plan.vector.extent / plan.lanes)
    for rows in range(1, min(plan.row.extent, registers) + 1):
        for columns in range(1, min(plan.column.extent, registers // rows) + 1):
            for count in range(1, min(vectors, registers // (rows * columns)) + 1):
                held = 1 + min(rows, columns * count)
                sums = rows * columns * count
                if sums + held > registers and sums > 1:
                    continue
                chains = 1
                while along_sum and chains < _SUM_CHAINS and 2 * chains * sums <= 8:
                    chains *= 2
                yield Tile(rows, columns, count, chains)


def _cycles(plan: Plan, tile: Tile, pack: bool) -> float:
    """Estimated cycles of the whole contraction."""
    vector, lanes = plan.vector, plan.lanes
    along_sum = plan.along_sum
    vectors = ceil(vector.extent / lanes)
    steps = prod(axis.extent for axis in plan.sums) * (vectors if along_sum else 1)
    row_tiles = ceil(plan.row.extent / tile.rows)
    column_tiles = ceil(plan.column.extent / tile.columns)
    if not along_sum:
        column_tiles *= ceil(vectors / tile.vectors)
    tiles = row_tiles * column_tiles
    # the average tile: sizes are evened out
    rows = plan.row.extent / row_tiles
    columns = plan.column.extent * (1 if along_sum else vectors) / column_tiles
    x_loads = rows * _load_cost(vector.x, lanes)
    if vector.kind == "batch":
        x_loads *= tile.vectors
    y_loads = columns * (1.0 if pack else _load_cost(vector.y, lanes))
    busy = max(rows * columns / 2, (x_loads + y_loads) / 2, _LATENCY / tile.chains)
    busy += _TRAFFIC * (x_loads * (1 if vector.x == 0 else 3) + y_loads * 3)
    if along_sum:
        store = rows * columns * _ADD_LANES
    else:
        store = rows * columns * (1.0 if vector.out == 1 else _SCATTERED_LANE * lanes)
    uneven = (plan.row.extent % row_tiles != 0) + (plan.column.extent * vectors % column_tiles != 0)
    inner = tiles * (steps * busy + store + _TILE_CALL) * (1 + _SECOND_SIZE * uneven)
    repeats = prod(axis.extent for axis in (*plan.batch, *plan.extra_columns))
    packing = 0.0
    if pack:
        packing = steps * plan.column.extent * vector.extent * _pack_cost(plan)
    return repeats * (inner * prod(axis.extent for axis in plan.extra_rows) + packing)


def _load_cost(stride: int, lanes: int) -> float:
    return 1.0 if stride in (0, 1) else _GATHERED_LANE * lanes


def _pack_cost(plan: Plan) -> float:
    """Cycles an element: transposed in registers where a sum is contiguous, else one by one."""
    return 0.5 if plan.sums[-1].y == 1 else 1.5


# ---------------------------------------------------------------- packing and blocks


def _can_pack(plan: Plan) -> bool:
    return plan.vector.kind == "column" and plan.sums != (ONCE,)


def _with_packing(plan: Plan, target: Target, computed: tuple[bool, bool]) -> Plan:
    """Pack what does not fit the second-level cache, if it is read often enough to be worth it,
    and what has to be computed."""
    if not _can_pack(plan):
        return replace(plan, pack_y=False)
    item, tile = plan.dtype.itemsize, plan.tile
    steps = prod(axis.extent for axis in plan.sums)
    rows, columns = plan.row.extent, plan.column.extent * plan.vector.extent
    row_tiles = ceil(rows / tile.rows) * prod(axis.extent for axis in plan.extra_rows)
    column_tiles = ceil(columns / (tile.columns * tile.vectors * plan.lanes))
    touched = item * (steps * rows + steps * columns + rows * columns)
    large = touched > target.l2_bytes // 2
    often = row_tiles >= _WORTH_PACKING and column_tiles >= _WORTH_PACKING
    # windows that overlap would be written out one by one
    own = [plan.column, plan.vector, *plan.sums]
    span = 1 + sum((axis.extent - 1) * abs(axis.y) for axis in own)
    overlap = steps * columns > 2 * span
    if large and not overlap and _lies_well(plan):
        return _with_blocks_in_place(plan, target)
    if large and often and not overlap:
        plan = replace(plan, pack_x=True, pack_y=True)
    x, y = reversed(computed) if plan.swapped else computed
    # rows side by side are walked through for every tile: only with packed columns the sums are cut
    # into blocks, which keep them in L1
    beside = x and plan.sums[-1].x != 1
    y = y or (beside and item * tile.rows * steps > target.l1d_bytes)
    plan = replace(plan, pack_x=plan.pack_x or x, pack_y=plan.pack_y or y)
    return _with_blocks(plan, target) if plan.pack_y else plan


def _lies_well(plan: Plan) -> bool:
    """Whether y is better read where it is than copied."""
    close = plan.vector.y == 1 and plan.dtype.itemsize * abs(plan.sums[-1].y) <= _CLOSE_BYTES
    return close and _every_row(plan) <= _FEW_ROWS


def _every_row(plan: Plan) -> int:
    return plan.row.extent * prod(axis.extent for axis in plan.extra_rows)


def _with_blocks_in_place(plan: Plan, target: Target) -> Plan:
    """Cut sums and columns so that what a block reads stays in a quarter of L2, uncopied; not
    where what all tiles of some columns read stays there as it is."""
    tile, rows = plan.tile, _every_row(plan)
    inner = prod(axis.extent for axis in plan.sums[1:])
    most = target.l2_bytes // 4 // plan.dtype.itemsize  # elements
    across = tile.vectors * plan.lanes
    if inner * plan.sums[0].extent * (rows + tile.columns * across) <= most:
        return plan
    columns = plan.column.extent * plan.vector.extent
    wanted = max(_LEAST_BLOCK, most // (rows + columns))
    block = _even_block(plan.sums[0].extent, max(1, wanted // inner))
    if not block:
        return plan
    tiles = sum(segment.tiles for segment in plan.vector_segments)
    fitting = tiles
    if wanted == _LEAST_BLOCK:
        fitting = max(1, (most // wanted - rows) // (across * plan.column.extent))
    return replace(plan, block=block, column_block=ceil(tiles / ceil(tiles / fitting)))


def _with_blocks(plan: Plan, target: Target) -> Plan:
    """Cut sums so that packed rows stay in a third of L1, and columns so that the packed ones
    stay in half of L2."""
    item, tile = plan.dtype.itemsize, plan.tile
    inner = prod(axis.extent for axis in plan.sums[1:])
    outer = plan.sums[0].extent
    block = _even_block(outer, max(1, target.l1d_bytes // 3 // (item * tile.rows * inner)))
    panel = (block or outer) * inner * tile.vectors * plan.lanes * plan.column.extent * item
    most = max(_WORTH_PACKING, target.l2_bytes // 2 // panel)
    tiles = sum(segment.tiles for segment in plan.vector_segments)
    return replace(plan, block=block, column_block=ceil(tiles / ceil(tiles / most)))


def _even_block(extent: int, wanted: int) -> int:
    """The length of blocks as equal as can be, of about the length wanted; 0: all in one."""
    block = ceil(extent / ceil(extent / wanted))
    # whole turns of an unrolled loop in each block, and at least one in the last
    block = ceil(block / _UNROLLED_STEPS) * _UNROLLED_STEPS
    while block < extent and 0 < extent % block < _UNROLLED_STEPS:
        block += _UNROLLED_STEPS
    return 0 if block >= extent else block
