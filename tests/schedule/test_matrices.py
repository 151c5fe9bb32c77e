"""Regions of samples that are matrices: when they are chosen, and how wide their blocks are."""

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from batch_loops import batch_loops, sizes
from wengert import machine
from wengert.graph.nodes import Operator
from wengert.loops import Contraction, Loop, Nest, Transfer, inside
from wengert.passes import optimise
from wengert.schedule import matrices, plan, regions, schedule
from wengert.schedule.axes import AxisClasses


@pytest.fixture(autouse=True)
def without_channels():
    """Lanes or matrices: what is best with one lane a channel is tested elsewhere."""
    with machine.use(regions={"layouts": ("lanes", "matrices")}):
        yield


def loop_of(function, *args):
    """The batch loop of a program, or None."""
    program = plan(schedule(optimise(wg.trace(function, *args))))
    found = batch_loops(program)
    return found[0] if found else None


def normal(*shape):
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def tokens(x, w, v):
    """Every token by itself, then all tokens of a sample together."""
    h = wnp.tanh(x @ w)
    h = wnp.softmax(h @ wnp.swapaxes(h, 1, 2), axis=-1) @ h
    return wnp.sum(wnp.square(h @ v))


STEP = wg.grad(tokens, argnums=(1, 2))


@pytest.mark.parametrize(
    "batch, length, width", [(12, 64, 1), (12, 30, 3), (16, 16, 4), (64, 16, 4), (7, 96, 1)]
)
def test_blocks_have_enough_rows_and_leave_no_rest(batch, length, width):
    loop = loop_of(STEP, normal(batch, length, 64), normal(64, 64), normal(64, 64))
    assert (loop.blocks.width, loop.blocks.extent) == (width, batch)
    assert sum(isinstance(part, Contraction) for part in loop.body) == 11


def test_blocks_are_read_and_written_where_they_lie():
    def function(x, w):
        h = wnp.tanh(x @ w)
        return h, wnp.sum(wnp.softmax(h @ wnp.swapaxes(h, 1, 2), axis=-1) @ h)

    x, w = normal(8, 64, 64), normal(64, 64)
    program = schedule(optimise(wg.trace(function, x, w)))
    (loop,) = batch_loops(program)
    assert not any(isinstance(part, Transfer) for part in loop.body)
    for got, want in zip(wg.jit(function)(x, w), function(x, w), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_samples_may_lie_along_any_axis(axis):
    def function(x, w):
        h = wnp.tanh(wnp.moveaxis(x, axis, 0) @ w)
        return wnp.moveaxis(wnp.softmax(h @ wnp.swapaxes(h, 1, 2), axis=-1) @ h, 0, axis)

    x, w = np.moveaxis(normal(8, 64, 48), 0, axis), normal(48, 48)
    assert loop_of(function, np.ascontiguousarray(x), w) is not None
    for given in (x, np.ascontiguousarray(x)):
        np.testing.assert_allclose(wg.jit(function)(given, w), function(given, w), atol=1e-5)


def test_samples_that_are_rows_make_one_matrix():
    def network(x, w, v):
        return wnp.sum(wnp.tanh(x @ w) @ v)

    x, w, v = normal(512, 700), normal(700, 700), normal(700, 700)
    assert loop_of(wg.grad(network, argnums=(1, 2)), x, w, v) is None


def test_lanes_keep_what_they_are_better_at():
    def network(x, w):
        return wnp.sum(wnp.relu(wnp.conv(x, w)))

    loop = loop_of(wg.grad(network, argnums=1), normal(64, 3, 28, 28), normal(8, 3, 3, 3))
    assert loop is None or loop.blocks.width == machine.policy().regions.width


def test_windows_are_not_for_matrices():
    x, w = normal(64, 3, 28, 28), normal(8, 3, 3, 3)
    graph = optimise(wg.trace(lambda x, w: wnp.conv(x, w), x, w))
    (product,) = [n for n in graph.operators if isinstance(n, Operator) and n.op.name == "contract"]
    assert matrices._reads_again(product)


def test_parts_side_by_side_are_read_once():
    def step(x, w, v):  # the gradients by x of two products are one product of both
        def loss(s):
            h = x * s
            return wnp.sum(wnp.softmax((h @ w) @ wnp.swapaxes(h @ v, 1, 2), axis=-1) @ h)

        return wg.grad(loss)(wnp.ones(64, np.float32))

    loop = loop_of(step, normal(12, 64, 64), normal(64, 64), normal(64, 64))
    assert sizes(loop) == (1, 12)


def test_large_weights_are_read_once_and_not_for_every_block():
    x, w, v = normal(4, 64, 1200), normal(1200, 1200), normal(1200, 1200)
    assert loop_of(STEP, x, w, v) is None


def test_rows_are_counted_where_weights_are_shared():
    graph = optimise(wg.trace(STEP, normal(12, 64, 32), normal(32, 32), normal(32, 32)))
    classes = AxisClasses(graph.operators)
    first = next(node for node in graph.operators if node.op.name == "contract")
    cut = regions.cut_in(matrices.MatrixBlocks, graph, classes, classes.find((first.serial, 0))).cut
    products = [node for node in graph.operators if node.op.name == "contract"]
    rows = [matrices.rows_of(cut, node, 1) for node in products]
    assert set(rows) == {64.0, None}  # None: of two values of a sample
    assert rows.count(64.0) == 5


@pytest.mark.parametrize("batch, begins", [(48, True), (12, False)])
def test_large_sums_begin_with_the_first_block_of_a_group(batch, begins):
    arguments = normal(batch, 64, 128), normal(128, 128), normal(128, 128)
    with machine.use(regions={"merges_in_group": np.inf}):  # parts that are kept, of few groups
        loop = loop_of(STEP, *arguments)
    filled = [store.buffer for fill in loop.begin for store in fill.stores]
    parts = [part for kernel in loop.body for part in inside(kernel)]
    sums = [part for part in parts if isinstance(part, Contraction) and part.out.base]
    assert len({part.out for part in sums}) == 2
    assert not {part.out for part in sums} & {*filled}
    # the first block of a group stores, and others, if there are, add to that
    assert {part.accumulates for part in sums} == ({False, True} if begins else {False})
    for got, want in zip(wg.jit(STEP)(*arguments), STEP(*arguments), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3 * np.abs(want).max())


def test_sums_are_joined_where_they_are_used():
    def step(x, w, rate):
        return w - rate * wg.grad(lambda w: tokens(x, w, w))(w)

    x, w = normal(12, 64, 64), normal(64, 64)
    program = schedule(optimise(wg.trace(step, x, w, np.float32(0.1))))
    loop, last = program.kernels
    assert isinstance(loop, Loop) and not loop.join
    assert isinstance(last, Nest) and len(last.stores) == 1
    np.testing.assert_allclose(
        wg.jit(step)(x, w, np.float32(0.1)), step(x, w, np.float32(0.1)), rtol=1e-3, atol=1e-2
    )


def test_tokens_that_meet_are_no_samples():
    """Along tokens, attention would end a region, and its values would have to go out and in."""
    x, w, v = normal(37, 16, 128), normal(128, 128), normal(128, 128)
    loop = loop_of(STEP, x, w, v)
    assert loop is None or loop.blocks.extent == 37
