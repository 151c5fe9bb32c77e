"""Contractions -> LLVM: one generator for every sum of products of two arrays.

`driver` has the loops around tiles.

A contraction can be shared out to threads: it consists of a number of *units* (indices of an outer
loop, or tiles along an axis), and any range of them can be computed by itself. The result is the
same to the last bit however it is shared out, because each element is summed in an order that
depends on the plan alone.
"""

from __future__ import annotations

from math import ceil, prod

from llvmlite import ir

from ..loops import Contraction
from ..machine import policy
from ..schedule.cost import epilogue_cost, prologue_cost
from ..schedule.prologues import Packing
from .driver import Driver, shared_loop
from .llvm_types import I64, POINTER, i64, private_function
from .packing import Layout
from .plans import Plan, pieces_of
from .target import Target
from .tiling import make_plan


def flops(kernel: Contraction) -> int:
    """Multiplications and additions of a contraction.

    >>> import numpy as np
    >>> from wengert.loops import Buffer, MemoryKind
    >>> f = np.dtype("float32")
    >>> x, y, out = (Buffer(n, f, s, (s[1], 1), MemoryKind.INPUT)
    ...              for n, s in [("x", (2, 3)), ("y", (3, 4)), ("out", (2, 4))])
    >>> kernel = Contraction({0: 2, 1: 3, 2: 4}, out, x, y,
    ...                      {0: 4, 2: 1}, {0: 3, 1: 1}, {1: 4, 2: 1})
    >>> flops(kernel)
    48
    """
    return 2 * prod(kernel.extents.values())


def unfinished_bytes(kernel: Contraction, target: Target) -> int:
    """Bytes for sums that have no memory of their own, but are cut into blocks."""
    plan = None if kernel.keeps_sums else make_plan(kernel, target)
    return kernel.out.nbytes if plan and plan.block else 0


def units(kernel: Contraction, target: Target) -> int:
    """Into how many units the work of a contraction can be divided."""
    plan = make_plan(kernel, target)
    return shared_loop(plan).units if plan else 0


def is_packed(kernel: Contraction, target: Target) -> bool:
    """Whether each range of units begins with copies, so that many small ranges cost more."""
    plan = make_plan(kernel, target)
    return plan is not None and (plan.pack_x or plan.pack_y)


def is_shared(kernel: Contraction) -> bool:
    """Whether a product, with all that is done before and after it, is enough work for threads."""
    before, least = prologue_cost(kernel), policy().threads
    work = flops(kernel) + before + epilogue_cost(kernel)
    return before >= least.least_shared or work >= least.least_flops


def packing(kernel: Contraction, target: Target) -> Packing:
    """How often packing computes the elements of each factor, for as many threads as may be."""
    plan = make_plan(kernel, target)
    if plan is None:
        return Packing(0.0, 0.0, 0.0)
    tasks = min(policy().threads.most_workers, shared_loop(plan).units) if is_shared(kernel) else 1
    x, y = _times_rows_are_packed(plan, tasks), _times_columns_are_packed(plan, tasks)
    return Packing(*((y, x) if plan.swapped else (x, y)), plan.cycles)


def _times_rows_are_packed(plan: Plan, tasks: int) -> float:
    if not plan.pack_x:
        return 0.0
    tiles = sum(segment.tiles for segment in plan.vector_segments)
    blocks = ceil(tiles / plan.column_block) if plan.pack_y else 1
    times = blocks * prod(axis.extent for axis in plan.extra_columns)
    if shared_loop(plan).loop in ("vector", "column"):
        times *= tasks
    steps, rows = plan.sums[-1].extent, plan.row_segments[0].size
    if Layout(plan).whole_rows:
        return times * plan.lanes * ceil(steps / plan.lanes) / steps
    return times * plan.lanes * len(pieces_of(rows, plan.lanes, plan.masked)) / rows


def _times_columns_are_packed(plan: Plan, tasks: int) -> float:
    if not plan.pack_y:
        return 0.0
    loop = shared_loop(plan).loop
    outside = len(plan.batch) + len(plan.extra_columns)
    by_rows = loop == "row" or (isinstance(loop, int) and loop >= outside)
    vectors = sum(segment.tiles * len(segment.pieces) for segment in plan.vector_segments)
    return (tasks if by_rows else 1) * plan.lanes * vectors / plan.vector.extent


def part_name(name: str) -> str:
    """The function ``(out, x, y, scratch, first, last, *others)`` for a range of the units."""
    return f"{name}.part"


def emit_contraction(
    module: ir.Module,
    target: Target,
    kernel: Contraction,
    name: str,
    plan: Plan | None = None,
    watched: bool = False,
) -> int:
    """Add ``void name(out, x, y, scratch, *others)`` to a module and return the bytes of scratch.

    The scratch must be aligned to 64 bytes; the arrays need no more than their elements' alignment.
    `others` are where the accesses of the epilogue begin. If the sums have no memory of their own,
    `out` is room for `unfinished_bytes`. ``name.part(out, x, y, scratch, first, last, *others)``
    is added with it: it computes the units from `first` to `last`, of `units` altogether.
    Functions that are `watched` have a watch (see `interrupts`) as one more argument.
    """
    plan = plan or make_plan(kernel, target)
    more = [POINTER] * (len(kernel.accesses()) + watched)
    part = private_function(module, part_name(name), [POINTER] * 4 + [I64] * 2 + more)
    count, scratch = 0, 0
    if plan is None:
        ir.IRBuilder(part.append_basic_block("entry")).ret_void()
    else:
        Driver(module, target, plan, name, part, kernel, watched).emit()
        count, scratch = shared_loop(plan).units, Layout(plan).bytes
    whole = private_function(module, name, [POINTER] * 4 + more)
    builder = ir.IRBuilder(whole.append_basic_block("entry"))
    units_of_all = [i64(0), i64(count)]
    builder.call(part, [*whole.args[:4], *units_of_all, *whole.args[4:]])
    builder.ret_void()
    return scratch
