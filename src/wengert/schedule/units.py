"""The units that a product can be divided into, and what packing its factors means for them.

All of this follows from the plan of a product (see `tiling`): the schedule asks it before it has a
product compute its factors, and the code generator where it emits one.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod
from typing import NamedTuple

from ..loops import Contraction
from ..machine import Machine, policy
from .plans import Plan, pieces_of
from .tiling import make_plan

Loop = str | int  # "row", "column" or "vector" tiles, or an outer loop's number


@dataclass(frozen=True)
class Shared:
    """Two loops that are shared out, each in a number of units: any rectangle of them can be
    computed by itself."""

    loops: tuple[Loop, Loop | None]
    units: tuple[int, int]


def shared_loops(plan: Plan) -> Shared:
    """The loops of a product whose turns are its units."""
    rows = sum(segment.tiles for segment in plan.row_segments)
    others = {
        "vector": sum(segment.tiles for segment in plan.vector_segments),
        "column": sum(segment.tiles for segment in plan.column_segments),
    }
    across = max(others, key=lambda name: others[name])
    outer = dict(enumerate(axis.extent for axis in plan.outer))
    best = max(outer, key=lambda number: outer[number], default=None)
    tiles = {"row": rows, **others}
    inner = max(tiles, key=lambda name: tiles[name])
    limits = policy().products
    packs = (plan.pack_x or plan.pack_y) and not plan.shares_panels
    if best is None or outer[best] < max(2, min(limits.enough_units, rows * others[across])):
        if packs:  # each task for itself: along one loop, so that most is packed once
            return Shared((inner, None), (tiles[inner], 1))
        return Shared(("row", across), (rows, others[across]))
    if packs or outer[best] >= limits.many_units:
        return Shared((best, None), (outer[best], 1))
    return Shared((best, inner), (outer[best], tiles[inner]))


class Packing(NamedTuple):
    """What is done with the factors of a product, and how long it takes."""

    x: float  # how often an element is computed, lanes that are not used included; 0: not packed
    y: float
    cycles: float


def packing(kernel: Contraction, machine: Machine) -> Packing:
    """How often packing computes the elements of each factor, for as many threads as may be."""
    plan = make_plan(kernel, machine)
    if plan is None:
        return Packing(0.0, 0.0, 0.0)
    x, y = _times_rows_are_packed(plan), _times_columns_are_packed(plan)
    return Packing(*((y, x) if plan.swapped else (x, y)), plan.cycles)


def _times_rows_are_packed(plan: Plan) -> float:
    if not plan.pack_x:
        return 0.0
    tiles = sum(segment.tiles for segment in plan.vector_segments)
    times = prod(axis.extent for axis in plan.extra_columns)
    if not plan.shares_panels:
        times *= ceil(tiles / plan.column_block) if plan.pack_y else 1
        times *= _tasks_across(plan)[1]
    steps, rows = plan.sums[-1].extent, plan.row_segments[0].size
    if plan.whole_rows:
        return times * plan.lanes * ceil(steps / plan.lanes) / steps
    return times * plan.lanes * len(pieces_of(rows, plan.lanes, plan.masked)) / rows


def _times_columns_are_packed(plan: Plan) -> float:
    if not plan.pack_y:
        return 0.0
    times = 1 if plan.shares_panels else _tasks_across(plan)[0]
    vectors = sum(segment.tiles * len(segment.pieces) for segment in plan.vector_segments)
    return times * plan.lanes * vectors / plan.vector.extent


def _tasks_across(plan: Plan) -> tuple[int, int]:
    """How many tasks, which pack for themselves, have the same columns, and the same rows: about
    as many as there usually are, since what is computed must not depend on the threads."""
    shared, usual = shared_loops(plan), policy().products.usual_tasks
    outside = len(plan.batch) + len(plan.extra_columns)
    found = [1, 1]
    for loop, units in zip(shared.loops, shared.units, strict=True):
        by_rows = loop == "row" or (isinstance(loop, int) and loop >= outside)
        by_columns = loop in ("vector", "column")
        found[0] *= min(usual, units) if by_rows else 1
        found[1] *= min(usual, units) if by_columns else 1
    return min(found[0], usual), min(found[1], usual)
