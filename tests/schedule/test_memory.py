"""The memory plan: buffers that live at the same time are apart, others may share."""

import random

import numpy as np
import pytest

from wengert.loops import Affine, Buffer, Load, LoopProgram, MemoryKind, Nest, Store, Var
from wengert.schedule.memory import ALIGNMENT, STRETCH, plan

DTYPE = np.dtype(float)


def program(lives, sizes):
    """One kernel for each position, which reads the buffers that are alive there."""
    buffers = [Buffer(f"t{k}", DTYPE, (n,), (1,), MemoryKind.ARENA) for k, n in enumerate(sizes)]
    kernels = []
    for position in range(1 + max(end for _, end in lives)):
        alive = [
            b for b, (start, end) in zip(buffers, lives, strict=True) if position in (start, end)
        ]
        stores = [Store(b, Affine(0), Load(b, Affine(0))) for b in alive]
        kernels.append(Nest([Var("i", 1)], stores))
    return LoopProgram([], [], kernels), buffers


@pytest.mark.parametrize("seed", range(20))
def test_what_lives_at_the_same_time_is_apart(seed):
    draw = random.Random(seed)
    lives = [
        (start, start + draw.choice([0, 1, 3, STRETCH, 3 * STRETCH]))
        for start in (draw.randrange(3 * STRETCH) for _ in range(60))
    ]
    sizes = [draw.choice([1, 1, 8, 9, 100, 1000]) for _ in lives]
    planned, buffers = program(lives, sizes)
    total = plan(planned).arena_bytes
    for one, (start, end) in zip(buffers, lives, strict=True):
        assert one.offset % ALIGNMENT == 0 and one.offset + one.nbytes <= total
        for other, (first, last) in zip(buffers, lives, strict=True):
            if other is not one and start <= last and first <= end:
                apart = one.offset + one.nbytes <= other.offset
                assert apart or other.offset + other.nbytes <= one.offset


@pytest.mark.parametrize("size", [1, 100])
def test_space_is_used_again(size):
    planned, _ = program([(k, k + 1) for k in range(100)], [size] * 100)
    assert plan(planned).arena_bytes <= 2 * max(ALIGNMENT, size * 8 + ALIGNMENT)


def test_numbers_that_live_long_are_planned_fast():
    import time

    planned, _ = program([(k, 3000) for k in range(3000)], [1] * 3000)
    start = time.process_time()
    assert plan(planned).arena_bytes == 3000 * ALIGNMENT
    assert time.process_time() - start < 1
