"""Whether an output of a program may lie in the memory of an input.

It may where nobody needs the old content any more: it is read only by earlier kernels, or by the
one kernel that writes, and there each element only where the new value of that same element is
computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..loops import (
    Branch,
    Buffer,
    Choose,
    Contraction,
    Kernel,
    Load,
    LoadAt,
    LoopProgram,
    Nest,
    Store,
    inside,
    roots_of,
    walk,
)
from .memory import root


def may_share(loops: LoopProgram, new: Buffer, old: Buffer) -> bool:
    """Whether the output `new` may lie in the memory of the input `old`."""
    writers = writers_of(loops, new)
    readers = [k for k, kernel in enumerate(loops.kernels) if _names(old, kernel.reads)]
    if not readers or readers[-1] < writers[0]:
        return True
    same = len(writers) == 1 and readers[-1] == writers[0]
    return same and _is_elementwise(loops.kernels[writers[0]], new, old)


def writers_of(loops: LoopProgram, new: Buffer) -> list[int]:
    """The numbers of the kernels that write a buffer."""
    return [k for k, kernel in enumerate(loops.kernels) if _names(new, kernel.writes)]


def _names(buffer: Buffer, found: Iterable[Buffer]) -> bool:
    return any(root(other) is buffer for other in found)


def _is_elementwise(kernel: Kernel, new: Buffer, old: Buffer) -> bool:
    """Whether each element of `old` is read only where the same element of `new` is computed."""
    if isinstance(kernel, Contraction):
        # unfinished sums may lie in the result itself, and factors are read all the time
        computed = [expr.buffer for expr in walk(kernel.values) if isinstance(expr, Load)]
        if _names(new, [kernel.out]) or _names(old, [*kernel.factors, *computed]):
            return False
        nests = [Nest(list(kernel.vars.values()), kernel.stores)]
    else:
        parts = list(inside(kernel))
        nests = [part for part in parts if isinstance(part, Nest)]
        # nothing but one nest in tasks
        around = [part for part in parts if isinstance(part, Branch) or part is kernel]
        if not nests or {*parts} != {*nests, *around}:
            return False
    return all(_nest_is_elementwise(nest, new, old) for nest in nests)


def _nest_is_elementwise(nest: Nest, new: Buffer, old: Buffer) -> bool:
    loads = _loads(nest.stores, old)
    writers = [k for k, store in enumerate(nest.stores) if root(store.buffer) is new]
    if not writers:
        return not loads
    store = nest.stores[writers[0]]
    if len(writers) > 1 or not _stores_each_once(nest.vars, store):
        return False
    if any(isinstance(load, LoadAt) or load.at != store.at for load in loads):
        return False
    # Other stores may read the element too (Adam's mean moves the parameter as well): each pass
    # through the loops loads it once, for the first store that needs it, but not out of a branch.
    before = set(_loads(nest.stores[: writers[0] + 1], old))
    after = _loads(nest.stores[writers[0] + 1 :], old)
    if after and any(isinstance(expr, Choose) for expr in walk(roots_of(nest.stores))):
        return False
    return all(load in before for load in after)


def _loads(stores: Sequence[Store], old: Buffer) -> list[Any]:
    """Where the stores read the buffer."""
    values = walk(roots_of(stores))
    return [e for e in values if isinstance(e, (Load, LoadAt)) and root(e.buffer) is old]


def _stores_each_once(variables: Sequence[Any], store: Store) -> bool:
    if store.combine is not None or store.picks:
        return False
    return all(store.at.coefficient(var) for var in variables if var.extent > 1)
