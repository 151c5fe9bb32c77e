"""When and how a product is cut up for the matrix unit (see `matrix_unit` and `bfloat`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, prod

from .plans import ONCE, Plan, Tile
from .target import Target

# Registers have 16 lines of 32 sums; panels have two halves of three parts each.
LINES, SUMS, HALVES, PARTS, TILE_BYTES = 16, 32, 2, 3, 1024
_ROWS = HALVES * LINES
# 32 sums of a register of rows by one of columns take so many cycles, however many rows there are,
# for each of six products of parts: 16 of its own clock, which is slower.
_PRODUCTS, _CYCLES = 6, 22.0
# Cycles to split an element into parts, and for all else that a tile needs.
_SPLIT, _SPLIT_TRANSPOSED, _TILE_CALL = 0.75, 1.1, 450.0
# It must be faster by so much: the clock is slower for all that comes soon after it, it asks more
# of the caches, and a product may also meet numbers that it cannot do.
_GAIN = 1.35
_BLOCK = 256  # sums at a time,
_HELD_SUMS = 1024  # and at most, where columns are packed beforehand


def unit_plan(
    plans: Sequence[Plan], best: Plan, target: Target, steady: tuple[bool, bool]
) -> Plan | None:
    """The best of these plans with tiles of the matrix unit, if it is better than the best."""
    found = [unit for plan in plans if (unit := _on_matrix_unit(plan, steady)) is not None]
    unit = min(found, key=lambda plan: plan.cycles, default=best)
    return _with_blocks(unit, target) if _GAIN * unit.cycles < best.cycles else None


def _on_matrix_unit(plan: Plan, steady: tuple[bool, bool]) -> Plan | None:
    """The plan with tiles of the matrix unit, if rows, columns and sums are as that wants them."""
    row, vector, total = plan.row, plan.vector, plan.sums[0]
    if vector.kind != "column" or vector.out != 1 or len(plan.sums) > 1 or row.extent < 2:
        return None
    if 1 not in (row.x, total.x) or 1 not in (vector.y, total.y):
        return None
    columns = () if plan.column is ONCE else (plan.column,)
    plan = replace(
        plan,
        column=ONCE,
        extra_columns=(*columns, *plan.extra_columns),
        tile=Tile(_ROWS, 1, HALVES),
        pack_x=True,
        pack_y=True,
        unit=True,
    )
    once = not (plan.batch or plan.extra_columns) and total.extent <= _HELD_SUMS
    plan = replace(plan, holds_y=once and steady[0 if plan.swapped else 1])
    return replace(plan, cycles=_cycles(plan))


def _cycles(plan: Plan) -> float:
    """Estimated cycles of the whole contraction on the matrix unit."""
    sums = plan.sums[0].extent
    steps = ceil(sums / SUMS)
    rows, vectors = plan.row.extent, ceil(plan.vector.extent / plan.lanes)
    blocks = 1 if plan.holds_y else ceil(sums / _BLOCK)
    tiles = ceil(rows / _ROWS) * ceil(vectors / HALVES) * blocks
    products = ceil(rows / LINES) * vectors * steps * _PRODUCTS
    inner = products * _CYCLES + tiles * _TILE_CALL
    inner += rows * sums * (_SPLIT if plan.sums[0].x == 1 else _SPLIT_TRANSPOSED)
    columns = plan.vector.extent * sums * (_SPLIT if plan.vector.y == 1 else _SPLIT_TRANSPOSED)
    if plan.holds_y:
        columns = 0
    times = prod(axis.extent for axis in (*plan.batch, *plan.extra_columns))
    return times * (prod(axis.extent for axis in plan.extra_rows) * inner + columns)


def panel_bytes(sums: int) -> int:
    """Bytes of a panel in parts for so many sums."""
    return ceil(sums / SUMS) * HALVES * PARTS * TILE_BYTES


def _with_blocks(plan: Plan, target: Target) -> Plan:
    """Cut sums so that a panel of rows stays close, and columns so that their panels stay in half
    of L2."""
    tiles = sum(segment.tiles for segment in plan.vector_segments)
    if plan.holds_y:
        return replace(plan, column_block=tiles)
    total = plan.sums[0].extent
    block = ceil(total / ceil(total / _BLOCK) / SUMS) * SUMS
    most = max(1, target.l2_bytes // 2 // panel_bytes(block))
    return replace(
        plan,
        block=block if block < total else 0,
        column_block=ceil(tiles / ceil(tiles / most)),
    )
