"""Nests cut into tasks that threads share.

Only nests that take much longer than waking a thread are cut. The loop that is cut is the
outermost one that results are not combined over, if there is one long enough; else partial
results are kept for each task and joined in order.
"""

from __future__ import annotations

import functools

from ..loops import (
    Affine,
    Branch,
    Buffer,
    Host,
    InRange,
    Kernel,
    Load,
    Loop,
    LoopProgram,
    MemoryKind,
    Nest,
    Store,
    Var,
    c_strides,
)
from ..machine import policy
from .shaping import rewrite_indices
from .task import Task


def threads(program: LoopProgram, task: Task) -> LoopProgram:
    """Nests that take long in tasks that threads share, as in `ratio: sin/exp/tanh n=10000000`.

    Threads have just shared the work of the chunk before; in a step of a scan, what they share is
    the scan.
    """
    awake = task.kind == "chunk"
    kernels: list[Kernel] = []
    for kernel in program.kernels:
        kernels.append(parallelise(kernel, awake) if isinstance(kernel, Nest) else kernel)
        if isinstance(kernel, Nest):
            task.note(functools.partial(_told, kernel, kernels[-1], awake))
        awake = keeps_awake(kernels[-1], awake) and task.kind != "step"
    program.kernels = kernels
    return program


def _told(nest: Nest, found: Kernel, awake: bool) -> str:
    """What a nest is estimated to cost, and whether threads share it."""
    cost, least = nest.iterations * nest.iteration_work, _least_cost(awake)
    choice = f"{found.turns} tasks" if isinstance(found, Loop) else "one thread"
    name = nest.label or ", ".join(dict.fromkeys(node.op.name for node in nest.nodes))
    return f"{name}: cost {cost:,}, worth sharing from {least:,} on: {choice}"


def _least_cost(awake: bool) -> int:
    """What a nest must cost for threads to share it."""
    limits = policy().threads
    return limits.least_awake if awake else limits.least_shared


def keeps_awake(kernel: Kernel, awake: bool) -> bool:
    """Whether threads are awake after a kernel, if they were `awake` before it."""
    if isinstance(kernel, Host):
        return False
    return awake or (isinstance(kernel, Loop) and kernel.parallel)


def parallelise(nest: Nest, awake: bool = False) -> Nest | Loop:
    """The nest in tasks, if it is worth it; less is needed where threads are `awake`."""
    cost = nest.iterations * nest.iteration_work
    if cost < _least_cost(awake) or not nest.vars or any(store.picks for store in nest.stores):
        return nest
    var = _choose_loop(nest, cost)
    if var is None:
        return nest
    chunk = _chunk_length(nest, var, cost)
    if chunk >= var.extent:
        return nest
    whole, left = divmod(var.extent, chunk)
    task = Var("task", whole + (left > 0))
    parts = _parts_of_sums(nest, var, task.extent)
    number = Affine.of(task)
    body: Kernel = _chunk(_apart(nest, parts, number), var, chunk, number * chunk)
    if left:  # what is left at the end is one more task
        start = Affine(whole * chunk)
        rest = _chunk(_apart(nest, parts, Affine(whole)), var, left, start)
        body = Branch(InRange(number, 0, whole), (body,), (rest,))
    joins = [_join(nest, store, parts[store]) for store in nest.stores if store in parts]
    return Loop(task, (body,), True, join=tuple(joins), label=nest.label, nodes=tuple(nest.nodes))


def _choose_loop(nest: Nest, cost: int) -> Var | None:
    """The loop to cut: outermost first, and one that nothing is combined over if possible.

    One with few tasks makes way for another that has many more, if what is combined over that is
    little to join.
    """
    limits = policy().threads
    candidates = [var for var in nest.vars if not var.ordered and _keeps_apart(nest, var)]
    free = [var for var in candidates if all(store.at.coefficient(var) for store in nest.stores)]
    summed = [var for var in candidates if var not in free and _joins_little(nest, var)]
    tasks = {var: -(-var.extent // _chunk_length(nest, var, cost)) for var in candidates}
    several = [var for var in free if tasks[var] > 1]
    enough = [var for var in several[:1] if tasks[var] >= limits.enough_tasks]
    many = [var for var in [*free, *summed] if tasks[var] >= 2 * limits.enough_tasks]
    return next(iter([*enough, *many, *several]), None) or max(
        candidates, key=lambda var: var.extent, default=None
    )


def _joins_little(nest: Nest, var: Var) -> bool:
    """Whether all parts of sums over a loop are few beside what is added up."""
    over = [store for store in nest.stores if not store.at.coefficient(var)]
    parts = sum(store.at.bounds()[1] + 1 for store in over)
    is_little = nest.iterations >= 32 * policy().threads.most_tasks * parts
    return is_little and all(store.combine for store in over)


def _keeps_apart(nest: Nest, var: Var) -> bool:
    """Whether no two tasks add to one place, as overlapping windows would."""
    return all(
        not store.combine or not store.at.coefficient(var) or store.at.tells_apart(var)
        for store in nest.stores
    )


def _chunk_length(nest: Nest, var: Var, cost: int) -> int:
    per_step = max(1, cost // var.extent)
    wanted = policy().threads
    moved = sum(buffer.nbytes for buffer in {*nest.reads, *nest.writes})
    long_ones = min(cost // wanted.long_task, moved // wanted.long_task_bytes)
    most = max(wanted.most_tasks, min(wanted.many_tasks, long_ones))
    chunk = max(-(-wanted.least_task // per_step), -(-var.extent // most), 1)
    tasks = var.extent // chunk
    if tasks > 1:
        # an even number of equal ones, so that no thread waits for another at the end
        chunk = -(-var.extent // (tasks - tasks % 2))
    if var is nest.vars[-1]:
        chunk = -(-chunk // wanted.grain) * wanted.grain
    return chunk


def _chunk(nest: Nest, var: Var, length: int, start: Affine) -> Nest:
    """The nest for one stretch of the loop that begins at `start`."""
    part = Var(var.name, length)
    variables = [part if v is var else v for v in nest.vars if v is not var or length > 1]
    value = Affine.of(part) + start
    return rewrite_indices(nest, variables, {var: value})


def _parts_of_sums(nest: Nest, var: Var, tasks: int) -> dict[Store, Buffer]:
    """Memory for what each task combines by itself, for the stores that the loop is not in."""
    parts = {}
    for store in nest.stores:
        if store.combine and not store.at.coefficient(var):
            shape = (tasks, store.at.bounds()[1] + 1)
            name, dtype = f"{store.buffer.name}_parts", store.buffer.dtype
            parts[store] = Buffer(name, dtype, shape, c_strides(shape), MemoryKind.ARENA)
    return parts


def _apart(nest: Nest, parts: dict[Store, Buffer], number: Affine) -> Nest:
    """The nest with what the task of this number combines in a place of its own."""
    stores = [
        store.changed(buffer=parts[store], at=_place(store, parts[store], number), continues=False)
        if store in parts
        else store
        for store in nest.stores
    ]
    return Nest(nest.vars, stores, nest.label, nest.nodes)


def _join(nest: Nest, store: Store, parts: Buffer) -> Nest:
    """What all tasks have combined, joined in order."""
    used = {var for var, _ in store.at.terms}
    number = Var("t", parts.shape[0])
    value = Load(parts, _place(store, parts, Affine.of(number)))
    join = Store(store.buffer, store.at, value, store.combine, store.continues)
    return Nest([*[var for var in nest.vars if var in used], number], [join], "join")


def _place(store: Store, parts: Buffer, number: Affine) -> Affine:
    """Where the task of this number keeps its part of what is stored."""
    return store.at + number * parts.strides[0]
