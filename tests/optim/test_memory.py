"""Where parameters, gradients and state lie: side by side, whatever else happens to them."""

import numpy as np
import pytest

import wengert as wg
from wengert import optim
from wengert.jit.state import Allocation, Cell
from wengert.types import ArrayType

SHAPES = [(3, 5), (5,), (), (33,)]
STARTS = np.array([0, 16, 32, 48]) * 4  # in bytes of float32, each at a cache line


def parameters(dtype=np.float32):
    return [wg.tensor(np.ones(shape), requires_grad=True, dtype=dtype) for shape in SHAPES]


def step_of(optimizer, params):
    def step(x):
        optimizer.zero_grad()
        loss = sum(np.sum(p * p) for p in params) * x
        loss.backward()
        optimizer.step()
        return loss

    return step


def places(arrays):
    starts = np.array([array.ctypes.data for array in arrays])
    return starts - starts[0]


def gradients(params):
    return [p._leaf._cell.memory for p in params]


def test_one_block_for_each_kind():
    params = parameters()
    optimizer = optim.Adam(params)
    step = wg.jit(step_of(optimizer, params))
    step(1.0)
    kinds = [
        [p.numpy() for p in params],
        gradients(params),
        [state["exp_avg"].numpy() for state in optimizer.state],
        [state["exp_avg_sq"].numpy() for state in optimizer.state],
    ]
    for arrays in kinds:
        assert arrays[0].ctypes.data % 64 == 0
        np.testing.assert_array_equal(places(arrays), STARTS)
    before = [array.ctypes.data for array in kinds[0]]
    step(1.0)
    assert [p.numpy().ctypes.data for p in params] == before


def test_a_block_for_each_dtype():
    small, large = parameters(), parameters(np.float64)
    mixed = [p for pair in zip(small, large, strict=True) for p in pair]
    wg.jit(step_of(optim.SGD(mixed), mixed))(1.0)
    np.testing.assert_array_equal(places([p.numpy() for p in small]), STARTS)
    assert places([p.numpy() for p in large])[-1] == 8 * (16 + 8 + 8)


def test_nothing_moves_before_a_program_needs_it():
    params = parameters()
    before = [p.numpy() for p in params]
    optim.Adam(params)
    assert all(p.numpy() is array for p, array in zip(params, before, strict=True))


def compare(use):
    """Train compiled and evaluated, with something happening to the parameters in between."""
    found = []
    for compile_it in (True, False):
        params = parameters()
        optimizer = optim.Adam(params, lr=0.1)
        step = step_of(optimizer, params)
        step = wg.jit(step) if compile_it else step
        step(1.0)
        use(params, optimizer)
        step(1.0)
        step(0.5)
        found.append([p.numpy().copy() for p in params])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_a_parameter_in_two_optimizers():
    def use(params, optimizer):
        second = optim.SGD(params[1:3], lr=0.5, momentum=0.9)
        other = wg.jit(step_of(second, params))
        other(1.0)
        other(2.0)

    compare(use)


def test_loaded_and_written_parameters():
    def use(params, optimizer):
        with wg.no_grad():
            params[0][...] = 3.0
            params[3] *= 2.0
        optimizer.load_state_dict(optimizer.state_dict())

    compare(use)


def test_gradients_of_another_kind():
    def use(params, optimizer):
        params[1].grad = np.full(5, 2.0)  # float64
        params[0].zero_grad()
        optimizer.step()

    compare(use)


def test_a_gradient_that_has_left_does_not_come_back_to_its_place():
    params = parameters()
    optimizer = optim.SGD(params, lr=0.1)
    step = wg.jit(step_of(optimizer, params))
    step(1.0)
    first = gradients(params)[1]
    params[1].grad = np.full(5, 2.0)
    with pytest.raises(ValueError, match="the grad of a tensor becomes"):
        wg.jit(step_of(optimizer, params))(1.0)
    params[1].zero_grad()
    params[1].grad = np.full(5, 2.0, np.float32)
    assert not np.shares_memory(params[1].grad.numpy(), first)


def test_a_parameter_that_was_compiled_before():
    params = parameters()
    wg.jit(lambda: np.sum(params[1]))()
    place = params[1].numpy().ctypes.data
    wg.jit(step_of(optim.SGD(params), params))(1.0)
    assert params[1].numpy().ctypes.data == place
    kept = [p.numpy() for n, p in enumerate(params) if n != 1]
    np.testing.assert_array_equal(places(kept), np.array([0, 16, 32]) * 4)


def test_rooms_are_taken_once_and_by_the_right_kind():
    block = Allocation(np.dtype(float), [(2,), (3,)])
    wrong = ArrayType(np.dtype(np.float32), (2,))
    assert block.reservations[0].take(wrong) is None
    cell = Cell(ArrayType(np.dtype(float), (2,)), [1.0, 2.0], block.reservations[0])
    assert np.shares_memory(cell.memory, block.memory)
    other = Cell(ArrayType(np.dtype(float), (2,)), [3.0, 4.0], block.reservations[0])
    assert not np.shares_memory(other.memory, block.memory)
    np.testing.assert_array_equal(block.memory, [1.0, 2.0] + 14 * [0.0])
