"""Contractions -> LLVM: one generator for every sum of products of two arrays.

`driver` has the loops around tiles.

A contraction can be shared out to threads: it consists of *units* along two of its loops (indices
of an outer loop, or tiles along an axis), and any rectangle of them can be computed by itself. The
result is the same to the last bit however it is shared out, because each element is summed in an
order that depends on the plan alone. Large products of matrices are packed before, see `panels`.
"""

from __future__ import annotations

from math import prod

from llvmlite import ir

from ..loops import Contraction
from ..machine import policy
from ..schedule.plans import Plan
from ..schedule.tiling import make_plan
from ..schedule.units import shared_loops
from .driver import Driver
from .llvm_types import I64, POINTER, i64, private_function
from .packing import Layout
from .target import Target


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


def units(kernel: Contraction, target: Target) -> tuple[int, int]:
    """Into how many units, along two loops, the work of a contraction can be divided."""
    plan = make_plan(kernel, target)
    return shared_loops(plan).units if plan else (0, 0)


def is_shared(kernel: Contraction) -> bool:
    """Whether a product, with all that is done before and after it, is enough work for threads."""
    before, least = kernel.prologue_work, policy().threads
    work = flops(kernel) + before + kernel.epilogue_work
    return before >= least.least_shared or work >= least.least_flops


def part_name(name: str) -> str:
    """The function ``(out, x, y, scratch, *ranges, *others)`` for a rectangle of the units."""
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
    `out` is room for `unfinished_bytes`. ``name.part(out, x, y, scratch, *ranges, *others)`` is
    added with it: it computes the units from the first to the second number along one loop, and
    from the third to the fourth along the other, of `units` altogether.
    Functions that are `watched` have a watch (see `interrupts`) as one more argument.
    """
    plan = plan or make_plan(kernel, target)
    more = [POINTER] * (len(kernel.accesses()) + watched)
    part = private_function(module, part_name(name), [POINTER] * 4 + [I64] * 4 + more)
    count, scratch = (0, 0), 0
    if plan is None:
        ir.IRBuilder(part.append_basic_block("entry")).ret_void()
    else:
        Driver(module, target, plan, name, part, kernel, watched).emit()
        count, scratch = shared_loops(plan).units, Layout(plan).bytes
    whole = private_function(module, name, [POINTER] * 4 + more)
    builder = ir.IRBuilder(whole.append_basic_block("entry"))
    units_of_all = [i64(end) for one in count for end in (0, one)]
    builder.call(part, [*whole.args[:4], *units_of_all, *whole.args[4:]])
    builder.ret_void()
    return scratch
