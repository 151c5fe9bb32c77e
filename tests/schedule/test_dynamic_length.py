"""Everything along an axis of any length is in batch loops; little is kept between them."""

import numpy as np
import pytest

from batch_loops import batch_loops
from wengert.errors import DependsOnLength
from wengert.passes.lengths import LENGTHS, Family, for_any_length
from wengert.schedule import plan, schedule
from wengert.trace import trace


def loops_of(function, shape=(None, 3)):
    """The planned loops of a function of one array; None in the shape is the length."""
    graphs = [trace(function, np.ones([n if a is None else a for a in shape])) for n in LENGTHS]
    found = for_any_length(Family(graphs))
    return plan(schedule(found.graph, None, found))


def test_one_loop_without_products_is_wide():
    program = loops_of(lambda x: np.sin(x) + 1)
    (loop,) = batch_loops(program)
    assert (loop.blocks.width, loop.share.extent) == (64, 8)
    assert loop.blocks.length is program.length
    assert program.room_bytes == 0


def test_large_samples_make_narrow_blocks():
    (loop,) = batch_loops(loops_of(lambda x: np.sin(x), (None, 1000)))
    assert loop.blocks.width == 16


def test_products_have_a_lane_for_each_sample():
    (loop,) = batch_loops(loops_of(lambda x: np.tanh(x @ np.ones((3, 4)))))
    assert loop.blocks.width == 16
    assert not any(getattr(part, "plain", False) for part in loop.body)


def test_cheap_values_are_computed_again_and_others_kept():
    cheap = loops_of(lambda x: (2 * x + 1) - np.sum(2 * x + 1, axis=0))
    assert len(batch_loops(cheap)) == 2
    assert cheap.room_bytes == 0
    costly = loops_of(lambda x: np.exp(x) / np.sum(np.exp(x), axis=0))
    assert len(batch_loops(costly)) == 2
    graph_of = lambda x: (lambda e: e / np.sum(e, axis=0))(np.exp(x))
    assert loops_of(graph_of).room_bytes == 3 * 8


def test_memory_between_loops_is_used_again():
    def f(x):
        for _ in range(4):
            e = np.exp(x)
            x = e / np.sum(e, axis=0)
        return x

    assert loops_of(f).room_bytes <= 2 * 3 * 8


def test_other_lines_need_their_strides_at_run_time():
    (loop,) = batch_loops(loops_of(lambda x: x * 2, (5, None, 3)))
    transfers = [part for part in loop.body if hasattr(part, "scaled")]
    assert [part.scaled for part in transfers] == [{0: 3}, {0: 3}]


def test_large_sums_have_fewer_parts():
    (loop,) = batch_loops(loops_of(lambda x: x.T @ x, (None, 1000)))
    assert loop.share.extent == 2


@pytest.mark.parametrize(
    "function", [lambda x: np.cumsum(x, axis=0), lambda x: np.linalg.svd(x)[1]]
)
def test_obstacles(function):
    with pytest.raises(DependsOnLength):
        loops_of(function)
