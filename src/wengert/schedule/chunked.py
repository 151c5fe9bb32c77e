"""The last step: a program that needs much memory, in chunks of samples instead."""

from __future__ import annotations

from functools import partial

from ..graph import Operator
from ..loops import LoopProgram
from ..machine import policy
from .chunking import chunk_kernels, memory_of
from .chunks import NotNative, cut_chunks
from .fusion import Scheduler
from .inner import inside, schedule_chunk
from .strided import items_of, view_of
from .task import Task


def chunks(program: LoopProgram, task: Task) -> LoopProgram:
    """The program, or, where it needs much memory and less in chunks of samples, that.

    Memory stops growing with the batch, as `memory: a small VGG's step, batch 60,000` shows.
    """
    if task.any_length is not None:
        return program
    memory = memory_of(program)
    if memory <= policy().chunks.most_memory:
        task.note(lambda: f"{memory:,} bytes for all samples at once: few enough")
        return program
    found = _in_chunks(task, memory)
    if found is None:
        task.note(lambda: f"{memory:,} bytes for all samples at once: no way to cut them")
        return program
    needed = memory_of(found)
    task.note(lambda: f"{memory:,} bytes for all samples at once, {needed:,} bytes in chunks")
    return found if policy().chunks.least_saving * needed <= memory else program


def _in_chunks(task: Task, memory: int) -> LoopProgram | None:
    """The loops of the graph cut into chunks; None where that is not possible."""
    try:
        cut = cut_chunks(task.graph, memory)
        if cut is None:
            return None
        return task.run(inside(task, "chunked", cut, input_strides=task.input_strides))
    except NotNative:
        return None


def lower_chunks(scheduler: Scheduler, node: Operator) -> None:
    """A loop over chunks of samples, with the program of one chunk inside."""
    inputs = [view_of(scheduler, source) for source in node.inputs]
    items = items_of(scheduler, node)
    outputs = [scheduler.buffer_of(items[number]) for number in range(len(node.type))]
    schedule = partial(schedule_chunk, scheduler.task)
    kernels = chunk_kernels(node, inputs, outputs, schedule, scheduler._arena_buffer)
    scheduler.add(node, kernels)
