"""Nests in tasks: every task has what it combines in a place of its own, the last one too."""

import numpy as np
import pytest

from wengert import machine
from wengert.loops import (
    Affine,
    Buffer,
    Load,
    Loop,
    LoopProgram,
    MemoryKind,
    Nest,
    Store,
    Var,
)
from wengert.schedule import parallel, plan
from wengert.schedule.verify import verify_loops

DOUBLE = np.dtype(float)


def buffer(name, kind, *shape):
    strides = [int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))]
    return Buffer(name, DOUBLE, shape, tuple(strides), kind)


@pytest.fixture
def small_tasks():
    with machine.use(threads={"least_shared": 0, "least_task": 16}):
        yield


@pytest.mark.parametrize("rows, columns", [(1, 257), (3, 300), (3, 511), (2, 513), (5, 770)])
@pytest.mark.parametrize("kept", [0, 1])
def test_parts_of_sums_are_apart(rows, columns, kept, small_tasks):
    x = buffer("x", MemoryKind.INPUT, rows, columns)
    total = buffer("total", MemoryKind.OUTPUT, *([rows] if kept else []))
    twice = buffer("twice", MemoryKind.OUTPUT, rows, columns)
    i, j = Var("i", rows), Var("j", columns)
    value = Load(x, x.flat((Affine.of(i), Affine.of(j))))
    at = Affine.of(i) if kept else Affine(0)
    # both loops of the sum are combined over, or the inner one is, which is cut for its length
    nest = Nest([i, j], [Store(total, at, value, "add")])
    found = parallel.parallelise(nest)
    assert isinstance(found, Loop) and found.parallel
    verify_loops(plan(LoopProgram([x], [total], [found])))
    nest.stores.append(Store(twice, value.at, value))
    verify_loops(plan(LoopProgram([x], [total, twice], [parallel.parallelise(nest)])))


def test_one_whole_task_and_a_rest_have_two_places(small_tasks):
    x, total = buffer("x", MemoryKind.INPUT, 300), buffer("total", MemoryKind.OUTPUT)
    j = Var("j", 300)
    nest = Nest([j], [Store(total, Affine(0), Load(x, Affine.of(j)), "add")])
    found = parallel.parallelise(nest)
    (branch,) = found.body
    assert found.turns == 2 and branch.test.high == 1
    places = [part.stores[0].at.substitute({found.var: Affine(0)}) for part in branch.parts()]
    assert places == [Affine(0), Affine(1)]


def tasks_of(rows, columns, over_rows):
    """Of sums over rows, or of a copy."""
    x = buffer("x", MemoryKind.INPUT, rows, columns)
    out = buffer("out", MemoryKind.OUTPUT, *([] if over_rows else [rows]), columns)
    i, j = Var("i", rows), Var("j", columns)
    value = Load(x, x.flat((Affine.of(i), Affine.of(j))))
    at = Affine.of(j) if over_rows else value.at
    found = parallel.parallelise(Nest([i, j], [Store(out, at, value, "add" * over_rows)]))
    return found.var.extent, len(found.join)


def test_a_loop_with_few_tasks_makes_way_for_one_with_many():
    assert tasks_of(100_000, 100, over_rows=True) == (62, 1)  # columns make no two tasks
    assert tasks_of(10_000, 2048, over_rows=True)[0] > 32  # and eight here
    assert tasks_of(1024, 2048, over_rows=True) == (8, 0)  # as there is much to join
    assert tasks_of(20, 1_000_000, over_rows=False) == (20, 0)
    assert tasks_of(2, 10_000_000, over_rows=False)[0] > 32


def test_long_nests_have_tasks_enough_that_none_is_waited_for():
    assert tasks_of(100_000, 100, over_rows=False)[0] <= 64
    assert 128 < tasks_of(100_000, 10_000, over_rows=False)[0] <= 256
