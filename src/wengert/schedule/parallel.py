"""Nests cut into tasks that threads share.

Only nests that take much longer than waking a thread are cut. The loop that is cut is the
outermost one that results are not combined over, if there is one long enough; else partial
results are kept for each task and joined in order.
"""

from __future__ import annotations

from ..loops import (
    Affine,
    BlockLoop,
    Buffer,
    Host,
    Kernel,
    Load,
    Nest,
    ParallelNest,
    Repeat,
    Store,
    Var,
    c_strides,
)
from .cost import iteration_cost, iterations
from .shaping import rewrite_indices

# A nest cheaper than this stays on one thread; a task is never cheaper than TASK_COST.
PARALLEL_COST = 1 << 20
# The same for a nest soon after work that threads shared: they are still awake.
AWAKE_COST = 1 << 17
TASK_COST = 1 << 16
MAX_TASKS = 64
# Chunks of the vectorised loop are whole numbers of this many elements.
GRAIN = 256


def keeps_awake(kernel: Kernel, awake: bool) -> bool:
    """Whether threads are awake after a kernel, if they were `awake` before it."""
    if isinstance(kernel, Host):
        return False
    shared = isinstance(kernel, Repeat) and kernel.parts > 1
    return awake or shared or isinstance(kernel, (ParallelNest, BlockLoop))


def parallelise(nest: Nest, awake: bool = False) -> Nest | ParallelNest:
    """The nest in tasks, if it is worth it; less is needed where threads are `awake`."""
    cost = iterations(nest) * iteration_cost(nest)
    if (
        cost < (AWAKE_COST if awake else PARALLEL_COST)
        or not nest.vars
        or any(store.picks for store in nest.stores)
    ):
        return nest
    var = _choose_loop(nest)
    if var is None:
        return nest
    chunk = _chunk_length(nest, var, cost)
    if chunk >= var.extent:
        return nest
    task = Var("task", var.extent // chunk)
    stores, joins = _partial_stores(nest, var, -(-var.extent // chunk), task)
    apart = Nest(nest.vars, stores, nest.label, nest.nodes)
    body = _chunk(apart, var, chunk, Affine.of(task) * chunk, task)
    left = var.extent - task.extent * chunk
    rest = None
    if left:
        start = Affine(task.extent * chunk)
        rest = _chunk(apart, var, left, start, task)
    return ParallelNest(task, body, rest, joins)


def _choose_loop(nest: Nest) -> Var | None:
    """The loop to cut: outermost first, and one that nothing is combined over if possible."""
    candidates = [var for var in nest.vars if not var.ordered and _keeps_apart(nest, var)]
    for var in candidates:
        free = all(store.at.coefficient(var) for store in nest.stores)
        if free and var.extent >= 2:
            return var
    return max(candidates, key=lambda var: var.extent, default=None)


def _keeps_apart(nest: Nest, var: Var) -> bool:
    """Whether no two tasks add to one place, as overlapping windows would."""
    return all(
        not store.combine or not store.at.coefficient(var) or store.at.tells_apart(var)
        for store in nest.stores
    )


def _chunk_length(nest: Nest, var: Var, cost: int) -> int:
    per_step = max(1, cost // var.extent)
    chunk = max(-(-TASK_COST // per_step), -(-var.extent // MAX_TASKS), 1)
    tasks = var.extent // chunk
    if tasks > 1:
        # an even number of equal ones, so that no thread waits for another at the end
        chunk = -(-var.extent // (tasks - tasks % 2))
    if var is nest.vars[-1]:
        chunk = -(-chunk // GRAIN) * GRAIN
    return chunk


def _chunk(nest: Nest, var: Var, length: int, start: Affine, task: Var) -> Nest:
    """The nest for one stretch of the loop that begins at `start`."""
    part = Var(var.name, length)
    variables = [part if v is var else v for v in nest.vars if v is not var or length > 1]
    value = Affine.of(part) + start
    fixed_task = Affine(task.extent)

    def change(at: Affine) -> Affine:
        moved = at.substitute(var, value)
        return moved if task in dict(start.terms) else moved.substitute(task, fixed_task)

    return rewrite_indices(nest, variables, change)


def _partial_stores(nest: Nest, var: Var, tasks: int, task: Var) -> tuple[list[Store], list[Nest]]:
    """Stores that combine over the cut loop, each task with a place of its own; and the joins."""
    stores, joins = [], []
    for store in nest.stores:
        if not store.combine or store.at.coefficient(var):
            stores.append(store)
            continue
        size = store.at.bounds()[1] + 1
        shape = (tasks, size)
        dtype = store.buffer.dtype
        partial = Buffer(f"{store.buffer.name}_parts", dtype, shape, c_strides(shape), "arena")
        place = store.at + Affine.of(task) * size
        stores.append(store.changed(buffer=partial, at=place, continues=False))
        used = {v for v, _ in store.at.terms}
        kept = [v for v in nest.vars if v in used]
        number = Var("t", tasks)
        value = Load(partial, store.at + Affine.of(number) * size)
        join = Store(store.buffer, store.at, value, store.combine, store.continues)
        joins.append(Nest([*kept, number], [join], "join"))
    return stores, joins
