"""What nests and products cost, in units of a load and an addition.

A unit takes between a tenth of a nanosecond and two, so what is decided by these numbers must hold
for a range of that width.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..functions import Cost
from ..loops import (
    Affine,
    Branch,
    Choose,
    Contraction,
    Kernel,
    LibraryCall,
    Loop,
    Nest,
    Store,
    Transfer,
    roots_of,
    takes_long,
    walk,
)
from ..machine import policy


def iteration_cost(nest: Nest) -> int:
    """The cost of one iteration."""
    values = walk(roots_of(nest.stores))
    calls = sum(map(takes_long, values))
    return len(nest.stores) + len(values) // 4 + calls * Cost.LONG


def iterations(nest: Nest) -> int:
    """How often the body runs."""
    count = 1
    for var in nest.vars:
        count *= var.extent
    return count


def nest_cost(nest: Nest) -> int:
    """The cost of all iterations."""
    values = walk(roots_of(nest.stores))
    scalar = any(store.picks for store in nest.stores)
    scalar = scalar or any(isinstance(expr, Choose) for expr in values)
    return iterations(nest) * iteration_cost(nest) * (policy().costs.scalar if scalar else 1)


def epilogue_cost(kernel: Contraction) -> int:
    """The cost of what is done with the sums of a product."""
    return nest_cost(Nest(list(kernel.vars.values()), kernel.stores)) if kernel.stores else 0


def prologue_cost(kernel: Contraction) -> int:
    """The cost of computing the factors of a product, each element once."""
    total = 0
    for value, strides in ((kernel.x_value, kernel.x_strides), (kernel.y_value, kernel.y_strides)):
        if value is not None:
            loops = [var for label, var in kernel.variables.items() if strides.get(label)]
            total += nest_cost(Nest(loops, [Store(kernel.out, Affine(0), value)]))
    return total


def kernel_cost(kernel: Kernel) -> int:
    """The cost of a kernel, on one thread; 0 for what runs outside native code."""
    if isinstance(kernel, Contraction):
        around = prologue_cost(kernel) + epilogue_cost(kernel)
        return 2 * prod(kernel.extents.values()) // policy().costs.flops + around
    if isinstance(kernel, Loop):
        turns = sum(map(kernel_cost, (*kernel.body, *kernel.fold))) * kernel.turns
        if kernel.share is not None:
            turns //= kernel.share.extent
        return turns + sum(map(kernel_cost, kernel.join))
    if isinstance(kernel, Branch):
        return max(sum(map(kernel_cost, side)) for side in (kernel.yes, kernel.no))
    if isinstance(kernel, Transfer):
        return kernel.inner.size
    if isinstance(kernel, LibraryCall):
        return kernel.cost
    return nest_cost(kernel) if isinstance(kernel, Nest) else 0


def costs_from(kernels: Sequence[Kernel]) -> list[int]:
    """For every kernel the cost of it and all that follow.

    >>> costs_from([])
    []
    """
    total, found = 0, []
    for kernel in reversed(kernels):
        total += kernel_cost(kernel)
        found.append(total)
    return found[::-1]
