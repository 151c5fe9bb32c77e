"""Which new state a program may compute straight into the tensor's memory.

Most state is computed aside and copied into place at the end. The copy is not needed where

- nothing can fail any more once the first element is written: no check and no operation of NumPy
  comes at that kernel or after it (and none that Ctrl-C ends: see `building`);
- nobody needs the old content any more: it is read only by earlier kernels, or by the one kernel
  that writes, and there each element only where the new value of that same element is computed.

So a gradient goes straight into its memory, and `p -= lr * p.grad` happens in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..loops import (
    BlockLoop,
    Buffer,
    Choose,
    Contraction,
    Load,
    LoadAt,
    LoopProgram,
    Nest,
    ParallelNest,
    Repeat,
    Store,
    Transfer,
    has_checks,
    roots_of,
    walk,
)


def owner_of(buffer: Buffer) -> Buffer:
    """The buffer that owns the memory."""
    while buffer.base is not None:
        buffer = buffer.base
    return buffer


def can_be_direct(loops: LoopProgram, new: Buffer, old: Buffer | None) -> bool:
    """Whether the output `new` may lie in the memory of the input `old` (None: it is not read)."""
    writers = _writers(loops, new)
    if not writers:
        return False
    if any(_written(kernel) is None for kernel in loops.kernels[writers[0] :]):
        return False
    if old is None:
        return True
    readers = [k for k, kernel in enumerate(loops.kernels) if _names(old, _read(kernel))]
    if not readers or readers[-1] < writers[0]:
        return True
    same = len(writers) == 1 and readers[-1] == writers[0]
    return same and _is_elementwise(loops.kernels[writers[0]], new, old)


def first_writer(loops: LoopProgram, new: Buffer) -> int:
    """The number of the first kernel that writes an output."""
    return _writers(loops, new)[0]


def _writers(loops: LoopProgram, new: Buffer) -> list[int]:
    return [k for k, kernel in enumerate(loops.kernels) if _names(new, _written(kernel))]


def _names(buffer: Buffer, found: Iterable[Buffer] | None) -> bool:
    return found is None or any(owner_of(other) is buffer for other in found)


def _nests(kernel: Any) -> list[Nest] | None:
    if isinstance(kernel, ParallelNest):
        return kernel.parts()
    return [kernel] if isinstance(kernel, Nest) else None


def _written(kernel: Any) -> list[Buffer] | None:
    """The buffers that a kernel writes; None for one that may fail or is not known here."""
    if isinstance(kernel, Contraction):
        return [kernel.out]
    if isinstance(kernel, Transfer):
        return [kernel.inner if kernel.inward else kernel.outer]
    if isinstance(kernel, BlockLoop):
        return [buffer for part in kernel.parts() for buffer in _written(part) or []]
    if isinstance(kernel, Repeat):
        return None if has_checks(kernel) else kernel.outputs
    nests = _nests(kernel)
    return None if nests is None else [s.buffer for nest in nests for s in nest.stores]


def _read(kernel: Any) -> list[Buffer] | None:
    if isinstance(kernel, Contraction):
        return [kernel.x, kernel.y]
    if isinstance(kernel, Transfer):
        return [kernel.outer if kernel.inward else kernel.inner]
    if isinstance(kernel, BlockLoop):
        return [buffer for part in kernel.parts() for buffer in _read(part) or []]
    if isinstance(kernel, Repeat):
        return kernel.inputs
    nests = _nests(kernel)
    if nests is None:
        return None
    values = walk(roots_of(store for nest in nests for store in nest.stores))
    return [expr.buffer for expr in values if isinstance(expr, (Load, LoadAt))]


def _is_elementwise(kernel: Any, new: Buffer, old: Buffer) -> bool:
    """Whether each element of `old` is read only where the same element of `new` is computed."""
    nests = _nests(kernel)
    return nests is not None and all(_nest_is_elementwise(nest, new, old) for nest in nests)


def _nest_is_elementwise(nest: Nest, new: Buffer, old: Buffer) -> bool:
    loads = _loads(nest.stores, old)
    writers = [k for k, store in enumerate(nest.stores) if owner_of(store.buffer) is new]
    if not writers:
        return not loads
    store = nest.stores[writers[0]]
    if len(writers) > 1 or not _stores_each_once(nest.vars, store):
        return False
    if any(isinstance(load, LoadAt) or load.at != store.at for load in loads):
        return False
    # Other stores may read the element too (Adam's mean moves the parameter as well): each pass
    # through the loops loads it once, for the first store that needs it, but not out of a branch.
    before = {id(load) for load in _loads(nest.stores[: writers[0] + 1], old)}
    after = _loads(nest.stores[writers[0] + 1 :], old)
    if after and any(isinstance(expr, Choose) for expr in walk(roots_of(nest.stores))):
        return False
    return all(id(load) in before for load in after)


def _loads(stores: Sequence[Store], old: Buffer) -> list[Any]:
    """Where the stores read the buffer."""
    values = walk(roots_of(stores))
    return [e for e in values if isinstance(e, (Load, LoadAt)) and owner_of(e.buffer) is old]


def _stores_each_once(variables: Sequence[Any], store: Store) -> bool:
    if store.combine is not None or store.picks:
        return False
    return all(store.at.coefficient(var) for var in variables if var.extent > 1)
