"""Blocks with channels innermost: when they are chosen, and what their loops look like."""

import itertools

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from batch_loops import batch_loops
from wengert import machine
from wengert.loops import Contraction, Nest, Transfer, inside
from wengert.passes import optimise
from wengert.schedule import plan, schedule
from wengert.schedule.strided import strides_under, strides_with_inner


def loss(x, w, v, dense):
    """Two convolutions, pooling and a dense layer."""
    h = wnp.maximum(wnp.conv(x, w, padding=1), 0)
    h = wnp.max_pool(wnp.maximum(wnp.conv(h, v, padding=1), 0), 2)
    return wnp.sum(wnp.tanh(h.reshape(len(x), -1) @ dense))


def arguments(channels, batch=32, size=28, features=64):
    rng = np.random.default_rng(channels)
    shapes = [
        (batch, 3, size, size),
        (channels, 3, 3, 3),
        (channels, channels, 3, 3),
        (channels * (size // 2) ** 2, features),
    ]
    return [rng.normal(size=shape).astype(np.float32) / 10 for shape in shapes]


def program_of(channels, **sizes):
    step = wg.value_and_grad(loss, argnums=(1, 2, 3))
    return plan(schedule(optimise(wg.trace(step, *arguments(channels, **sizes)))))


@pytest.fixture(scope="module")
def program():
    return program_of(32)


def test_many_channels_lie_innermost(program):
    forward, backward = batch_loops(program)
    kernels = [kernel for loop in (forward, backward) for kernel in loop.body]
    parts = [part for kernel in kernels for part in inside(kernel)]
    products = [part for part in parts if isinstance(part, Contraction)]
    assert (
        len({product.out for product in products}) == 5
    )  # three of the second convolution, two of the first
    for product in products:
        (lanes,) = [label for label, step in product.out_strides.items() if step == 1]
        assert product.extents[lanes] == 32
        assert {0, 1} >= {product.x_strides.get(lanes, 0), product.y_strides.get(lanes, 0)}


def test_blocks_share_out_whatever_the_batch_is():
    for batch in (32, 37):
        for loop in batch_loops(program_of(32, batch=batch)):
            assert loop.blocks.extent % loop.blocks.width == 0
            assert loop.blocks.count >= 16


def test_samples_that_take_much_longer_than_to_begin_a_block_have_one_each():
    """So that threads have equal shares, and what is at work in a block stays near."""
    with machine.use(l2_bytes=4 << 20):
        widths = {loop.blocks.width for loop in batch_loops(program_of(32, batch=48))}
        assert widths == {1}
        light = batch_loops(program_of(16, batch=48, size=8))
        assert min(loop.blocks.width for loop in light) > 1


def test_nothing_is_copied_in_and_out(program):
    assert not any(
        isinstance(part, Transfer) for loop in batch_loops(program) for part in loop.body
    )


def test_weights_are_brought_into_order_before_the_loop(program):
    forward, backward = batch_loops(program)
    names = [k.label if isinstance(k, Nest) else "" for k in program.kernels]
    packed = [place for place, name in enumerate(names) if name == "weights in order"]
    first, second = (
        n for n, k in enumerate(program.kernels) if forward in inside(k) or backward in inside(k)
    )
    assert sum(place < first for place in packed) == 2
    assert sum(first < place < second for place in packed) == 1  # only for the gradient of h


def test_windows_and_activations_are_computed_again_and_not_kept(program):
    """Between the loops there are the two convolutions and what is pooled, and nothing else."""
    batch, channels, size = 32, 32, 28
    values = batch * channels * size**2 * 4
    outside = batch * channels * (size // 2) ** 2 * 4
    sums = 8 * sum(a.nbytes for a in arguments(32)[1:3])
    assert program.arena_bytes < 2 * values + 3 * outside + sums + (1 << 20)


def test_dense_weights_are_read_once_for_all_samples(program):
    outside = [kernel for kernel in program.kernels if isinstance(kernel, Contraction)]
    assert [kernel.extents[min(kernel.extents)] for kernel in outside].count(32) >= 2
    assert len(outside) == 3


def test_few_channels_leave_the_lanes_to_the_samples():
    (loop,) = batch_loops(program_of(6, batch=64, size=12, features=10))
    assert loop.blocks.width == 16
    assert any(isinstance(part, Transfer) for part in loop.body)


def test_compiled_is_evaluated():
    step, args = wg.value_and_grad(loss, argnums=(0, 1, 2, 3)), arguments(32)
    value, gradients = wg.jit(step)(*args)
    expected, wanted = step(*args)
    np.testing.assert_allclose(value, expected, rtol=1e-4)
    for got, want in zip(gradients, wanted, strict=True):
        scale = np.abs(want).max()
        np.testing.assert_allclose(got / scale, want / scale, atol=2e-5)


def test_the_same_bits_for_any_number_of_threads():
    step, args = wg.grad(loss, argnums=(1, 2, 3)), arguments(32, batch=37)
    found = [wg.jit(step, threads=threads)(*args) for threads in (1, 2, 3, 8)]
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("inner", [(), (1,), (2,), (1, 2), (0,), (2, 0)])
def test_strides_under_another_shape_are_those_of_numpy(inner):
    shape = (4, 6, 5)
    strides = strides_with_inner(shape, inner)
    memory = np.arange(120, dtype=np.int8)
    array = np.ndarray(shape, np.int8, memory, 0, strides)
    assert len(np.unique(array)) == 120
    factors = [n for n in range(1, 121) if 120 % n == 0]
    for wanted in itertools.product(factors, repeat=4):
        if np.prod(wanted) != 120:
            continue
        found = strides_under(shape, strides, wanted)
        moved = array.reshape(wanted)
        if found is None:
            assert not np.shares_memory(moved, array)
        else:
            np.testing.assert_array_equal(np.ndarray(wanted, np.int8, memory, 0, found), moved)


def test_nothing_under_another_shape():
    assert strides_under((0, 3), (3, 1), (3, 0)) is not None
    assert strides_under((), (), (1, 1)) == (0, 0)
