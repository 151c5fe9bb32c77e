"""How a product of two arrays is cut up: which loop runs over vectors, and what a tile is.

Every choice (vector axis, tile, packing) goes by one estimate of cycles, whose rates are
`policy.ProductLimits`; nothing is tuned for particular shapes. What a `Plan` consists of is said in
`plans`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import ceil, prod

import numpy as np

from ..errors import WengertError
from ..loops import Contraction
from ..machine import Machine
from ..policy import ProductLimits
from .plans import ONCE, Axis, Plan, Tile, axes_of


def make_plan(kernel: Contraction, machine: Machine) -> Plan | None:
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
    plan = _best_plan(tuple(axes_of(kernel)), dtype, machine, computed)
    return replace(plan, accumulates=True) if kernel.accumulates else plan


@functools.lru_cache(maxsize=256)
def _best_plan(
    axes: tuple[Axis, ...], dtype: np.dtype, machine: Machine, computed: tuple[bool, bool]
) -> Plan:
    """The plan for these axes; factors that are computed are packed, if that is possible."""
    empty = any(axis.extent == 0 for axis in axes)
    if empty:
        axes = tuple(axis for axis in axes if axis.kind != "sum")
    found = [_plan_along(place, axes, dtype, machine) for place in range(-1, len(axes))]
    if any(computed):
        found = [plan for plan in found if _can_pack(plan)] or found
    cut = [_with_packing(plan, machine, computed) for plan in found]
    best = min(cut, key=lambda plan: plan.cycles + _scattering(plan, machine.policy.products))
    return replace(best, empty=empty)


def _scattering(plan: Plan, rates: ProductLimits) -> float:
    """Cycles for gathering scattered sums again, for each further block."""
    if plan.along_sum or plan.vector.out in (0, 1):
        return 0.0
    sums = prod(axis.extent for axis in (plan.vector, plan.row, plan.column, *plan.outer))
    return (plan.blocks - 1) * sums * rates.gathered_lane


def _plan_along(place: int, axes: Sequence[Axis], dtype: np.dtype, machine: Machine) -> Plan:
    """The best plan with the vector axis at `place` (-1: no vectors at all)."""
    swapped = place >= 0 and axes[place].kind == "row"
    if swapped:
        axes = [axis.swapped() for axis in axes]
    vector = axes[place] if place >= 0 else ONCE
    rest = [axis for number, axis in enumerate(axes) if number != place]
    rows, columns, batch, sums = (
        [axis for axis in rest if axis.kind == kind] for kind in ("row", "column", "batch", "sum")
    )
    row, column = (_nearest(one, machine.policy.products.tile_length) for one in (rows, columns))
    lanes = 1 if vector is ONCE else machine.lanes(dtype.itemsize)
    sums.sort(key=lambda axis: (abs(axis.x) + abs(axis.y), -axis.extent), reverse=True)
    plan = Plan(
        dtype,
        lanes,
        machine.has_masks,
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
    return _with_best_tile(plan, machine)


def _nearest(axes: Sequence[Axis], enough: int) -> Axis:
    """The axis to tile: long enough for a tile, and of those the one that stays closest by."""
    return max(
        axes,
        key=lambda axis: (min(axis.extent, enough), -abs(axis.x + axis.y), axis.extent),
        default=ONCE,
    )


def _with_best_tile(plan: Plan, machine: Machine) -> Plan:
    options = (False, True) if _may_pack_y(plan) else (False,)
    rates = machine.policy.products
    cycles, _, tile, pack = min(
        (_cycles(plan, tile, pack, rates), number, tile, pack)
        for number, tile in enumerate(
            _possible_tiles(plan, machine.vector_registers, rates.sum_chains)
        )
        for pack in options
    )
    return replace(plan, tile=tile, pack_y=pack, cycles=cycles)


def _may_pack_y(plan: Plan) -> bool:
    return plan.vector.kind == "column" and plan.vector.y != 1


def _possible_tiles(plan: Plan, registers: int, most_chains: int) -> Iterator[Tile]:
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
                while along_sum and chains < most_chains and 2 * chains * sums <= 8:
                    chains *= 2
                yield Tile(rows, columns, count, chains)


def _cycles(plan: Plan, tile: Tile, pack: bool, rates: ProductLimits) -> float:
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
    x_loads = rows * _load_cost(vector.x, lanes, rates)
    if vector.kind == "batch":
        x_loads *= tile.vectors
    y_loads = columns * (1.0 if pack else _load_cost(vector.y, lanes, rates))
    busy = max(rows * columns / 2, (x_loads + y_loads) / 2, rates.latency / tile.chains)
    busy += rates.traffic * (x_loads * (1 if vector.x == 0 else 3) + y_loads * 3)
    if along_sum:
        store = rows * columns * rates.add_lanes
    else:
        store = rows * columns * (1.0 if vector.out == 1 else rates.scattered_lane * lanes)
    uneven = (plan.row.extent % row_tiles != 0) + (plan.column.extent * vectors % column_tiles != 0)
    inner = tiles * (steps * busy + store + rates.tile_call) * (1 + rates.second_size * uneven)
    repeats = prod(axis.extent for axis in (*plan.batch, *plan.extra_columns))
    packing = 0.0
    if pack:
        packing = steps * plan.column.extent * vector.extent * _pack_cost(plan)
    return repeats * (inner * prod(axis.extent for axis in plan.extra_rows) + packing)


def _load_cost(stride: int, lanes: int, rates: ProductLimits) -> float:
    return 1.0 if stride in (0, 1) else rates.gathered_lane * lanes


def _pack_cost(plan: Plan) -> float:
    """Cycles an element: transposed in registers where a sum is contiguous, else one by one."""
    return 0.5 if plan.sums[-1].y == 1 else 1.5


# ---------------------------------------------------------------- packing and blocks


def _can_pack(plan: Plan) -> bool:
    return plan.vector.kind == "column" and plan.sums != (ONCE,)


def _with_packing(plan: Plan, machine: Machine, computed: tuple[bool, bool]) -> Plan:
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
    large = touched > machine.l2_bytes // 2
    often = min(row_tiles, column_tiles) >= machine.policy.products.worth_packing
    # windows that overlap would be written out one by one
    own = [plan.column, plan.vector, *plan.sums]
    span = 1 + sum((axis.extent - 1) * abs(axis.y) for axis in own)
    overlap = steps * columns > 2 * span
    if large and not overlap and _lies_well(plan, machine.policy.products):
        return _with_blocks_in_place(plan, machine)
    if large and often and not overlap:
        plan = replace(plan, pack_x=True, pack_y=True)
    x, y = reversed(computed) if plan.swapped else computed
    # rows side by side are walked through for every tile: only with packed columns the sums are cut
    # into blocks, which keep them in L1
    beside = x and plan.sums[-1].x != 1
    y = y or (beside and item * tile.rows * steps > machine.l1d_bytes)
    plan = replace(plan, pack_x=plan.pack_x or x, pack_y=plan.pack_y or y)
    return _with_blocks(plan, machine) if plan.pack_y else plan


def _lies_well(plan: Plan, limits: ProductLimits) -> bool:
    """Whether both are better read where they are than copied: rows of x side by side come with
    each other."""
    close = plan.vector.y == 1 and plan.dtype.itemsize * abs(plan.sums[-1].y) <= limits.close_bytes
    return close and (plan.row.x == 1 or _every_row(plan) <= limits.few_rows)


def _every_row(plan: Plan) -> int:
    return plan.row.extent * prod(axis.extent for axis in plan.extra_rows)


def _with_blocks_in_place(plan: Plan, machine: Machine) -> Plan:
    """Cut sums and columns so that what a block reads stays in a quarter of L2, uncopied; not
    where what all tiles of some columns read stays there as it is."""
    tile, rows = plan.tile, _every_row(plan)
    inner = prod(axis.extent for axis in plan.sums[1:])
    most = machine.l2_bytes // 4 // plan.dtype.itemsize  # elements
    across = tile.vectors * plan.lanes
    if inner * plan.sums[0].extent * (rows + tile.columns * across) <= most:
        return plan
    columns = plan.column.extent * plan.vector.extent
    least = machine.policy.products.least_block
    wanted = max(least, most // (rows + columns))
    turn = machine.policy.products.unrolled_steps
    block = _even_block(plan.sums[0].extent, max(1, wanted // inner), turn)
    if not block:
        return plan
    tiles = sum(segment.tiles for segment in plan.vector_segments)
    fitting = tiles
    if wanted == least:
        fitting = max(1, (most // wanted - rows) // (across * plan.column.extent))
    return replace(plan, block=block, column_block=ceil(tiles / ceil(tiles / fitting)))


def _with_blocks(plan: Plan, machine: Machine) -> Plan:
    """Cut sums so that packed rows stay in a third of L1, and columns so that the packed ones
    stay in half of L2."""
    item, tile = plan.dtype.itemsize, plan.tile
    inner = prod(axis.extent for axis in plan.sums[1:])
    outer = plan.sums[0].extent
    limits, near = machine.policy.products, machine.l1d_bytes // 3 // (item * tile.rows * inner)
    block = _even_block(outer, max(1, near), limits.unrolled_steps)
    panel = (block or outer) * inner * tile.vectors * plan.lanes * plan.column.extent * item
    most = max(limits.worth_packing, machine.l2_bytes // 2 // panel)
    tiles = sum(segment.tiles for segment in plan.vector_segments)
    return replace(plan, block=block, column_block=ceil(tiles / ceil(tiles / most)))


def _even_block(extent: int, wanted: int, turn: int) -> int:
    """The length of blocks as equal as can be, of about the length wanted; 0: all in one."""
    block = ceil(extent / ceil(extent / wanted))
    # whole turns of an unrolled loop in each block, and at least one in the last
    block = ceil(block / turn) * turn
    while block < extent and 0 < extent % block < turn:
        block += turn
    return 0 if block >= extent else block
