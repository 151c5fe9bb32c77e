"""Many calls as one: the same results, state and errors as calls one by one."""

import threading
import time
import tracemalloc

import numpy as np
import pytest

import wengert as wg
from wengert import machine, nn, optim
from wengert.jit.looping import Repeated


def counter():
    total = wg.tensor(np.zeros(3))

    @wg.jit
    def add(factor, x):
        total[...] = total + factor * x
        return total, total.sum()

    return total, add


def outputs(count):
    return np.zeros((count, 3)), np.zeros(count)


def test_the_same_as_calls_one_by_one():
    rows = np.random.default_rng(0).standard_normal((20, 3))
    total, add = counter()
    expected = [add(2.0, row) for row in rows]
    again, add = counter()
    out = outputs(20)
    repeated = Repeated(add)
    repeated.run((2.0,), rows, out)
    assert repeated.native_calls == 19  # the first one compiles
    np.testing.assert_array_equal(out[0], [one for one, _ in expected])
    np.testing.assert_array_equal(out[1], [one for _, one in expected])
    np.testing.assert_array_equal(total.numpy(), again.numpy())


def test_from_the_middle():
    rows = np.arange(30.0).reshape(10, 3)
    total, add = counter()
    out = outputs(10)
    repeated = Repeated(add)
    repeated.run((1.0,), rows, out, 2, 5)
    repeated.run((1.0,), rows, out, 5, 5)
    repeated.run((1.0,), rows, out, 5, 7)
    np.testing.assert_array_equal(total.numpy(), rows[2:7].sum(0))
    np.testing.assert_array_equal(out[0][6], total.numpy())
    assert not out[0][:2].any() and not out[0][7:].any()


@pytest.mark.parametrize("first, last", [(-1, 2), (3, 2), (0, 5)])
def test_rows_that_are_not_there(first, last):
    _, add = counter()
    with pytest.raises(ValueError) as caught:
        Repeated(add).run((1.0,), np.zeros((4, 3)), outputs(4), first, last)
    assert str(caught.value).endswith(
        f"got first={first} and last={last} for arrays of 4 rows. "
        "Give every array a row for each call."
    )


def test_several_arrays_move_and_rows_may_lie_apart():
    rows = np.random.default_rng(1).standard_normal((3, 12, 4))
    left, right = rows[:, ::2, :].transpose(1, 0, 2), rows[0, 6:]
    out = np.zeros((6, 4))
    repeated = Repeated(wg.jit(lambda pair: pair[0].sum(0) * pair[1]))
    repeated.run((), (left, right), out)
    np.testing.assert_array_equal(out, left.sum(1) * right)
    assert repeated.native_calls == 5


def test_errors_come_from_the_row_that_made_them():
    seen = wg.tensor(0)

    @wg.jit
    def pick(table, row):
        seen[...] = seen + 1
        return table[row]

    out = np.zeros(6)
    with pytest.raises(IndexError, match="index 9"):
        Repeated(pick).run((np.arange(4.0),), np.array([0, 3, 1, 9, 2, 0]), out)
    np.testing.assert_array_equal(out[:3], [0, 3, 1])
    assert seen.item() == 3  # a call that fails changes nothing


def test_operations_of_numpy_inside():
    total = wg.tensor(np.zeros((2, 2)))

    @wg.jit
    def step(matrix):
        total[...] = total + np.real(np.fft.fft(matrix))
        return total

    rows = np.random.default_rng(2).standard_normal((5, 2, 2))
    out = np.zeros((5, 2, 2))
    repeated = Repeated(step)
    with machine.use(numpy_loops=False):
        repeated.run((), rows, out)
    expected = np.cumsum([np.real(np.fft.fft(row)) for row in rows], axis=0)
    np.testing.assert_allclose(out, expected, rtol=1e-12)
    assert repeated.native_calls == 0


def test_results_of_another_dtype_are_converted():
    _, add = counter()
    repeated, out = Repeated(add), (np.zeros((4, 3), np.float32), np.zeros(4, int))
    repeated.run((1.0,), np.ones((4, 3)), out)
    np.testing.assert_array_equal(out[1], [3, 6, 9, 12])
    assert repeated.native_calls == 0


def test_rows_that_are_state():
    """A program must not read rows that it changes."""
    total = wg.tensor(np.ones((3, 2)))

    @wg.jit
    def add(row):
        total[...] = total + row
        return total.sum()

    add(np.zeros(2))
    out = np.zeros(3)
    repeated = Repeated(add)
    repeated.run((), total.numpy(), out)
    assert repeated.native_calls == 0
    np.testing.assert_array_equal(total.numpy(), np.full((3, 2), 8.0))


def test_state_that_changes_between_runs():
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
    predict = Repeated(wg.jit(lambda x: model(x)))
    rows, out = np.ones((4, 1, 2), np.float32), np.zeros((4, 1, 2), np.float32)
    model.eval()
    predict.run((), rows, out)
    assert (out == out[0]).all() and predict.native_calls == 3
    with wg.no_grad():
        model[0].weight[...] = 0.0
        model[0].bias[...] = 7.0
    predict.run((), rows, out)
    assert (out == 7.0).all() and predict.native_calls == 7
    model.train()  # another program
    predict.run((), rows, out)
    assert set(np.unique(out)) <= {0.0, 14.0}


def test_debug_nans():
    square_root = Repeated(wg.jit(lambda x: np.sqrt(x)))
    rows, out = np.array([1.0, 4.0, -1.0]), np.zeros(3)
    square_root.run((), rows, out)
    with wg.debug_nans(), pytest.raises(FloatingPointError, match="sqrt"):
        square_root.run((), rows, out)


def test_prepare_runs_nothing():
    total, add = counter()
    repeated = Repeated(add)
    program = repeated.prepare(1.0, np.ones(3))
    assert total.numpy().sum() == 0
    assert repeated.programs() == [program]
    assert [shape for _, shape in program.result_types()] == [(3,), ()]


def test_other_threads_run_meanwhile():
    """The native loop does not hold the GIL."""
    _, add = counter()
    repeated, count = Repeated(add), 2_000_000
    rows, out = np.ones((count, 3)), outputs(count)
    repeated.run((1.0,), rows, out, 0, 10)
    worker = threading.Thread(target=repeated.run, args=((1.0,), rows, out, 10, count))
    worker.start()
    turns = 0
    while worker.is_alive():
        turns += 1
        time.sleep(0)
    assert turns > 20
    assert out[1][-1] == 3.0 * count


def test_nothing_is_allocated_for_a_step():
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
    optimizer = optim.Adam(model.parameters())

    @wg.jit
    def step(x, y):
        optimizer.zero_grad()
        loss = nn.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    labels = np.arange(10) % 4
    repeated = Repeated(wg.jit(lambda y, x: step(x, y)))
    rows, out = np.ones((1000, 10, 8), np.float32), np.zeros(1000, np.float32)
    repeated.run((labels,), rows, out, 0, 10)
    peaks = {}
    for last in (20, 20, 1000):
        tracemalloc.start()
        repeated.run((labels,), rows, out, 10, last)
        peaks[last] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert repeated.native_calls >= 1000
    # what one call from Python needs, whatever it runs: not even a byte for each of 980 steps
    assert peaks[1000] < peaks[20] + 500


@pytest.mark.timing
def test_overhead():
    """Below 0.1 microseconds a step."""
    total = wg.tensor(0.0)

    @wg.jit
    def add(x):
        total[...] = total + x
        return total

    count = 1_000_000
    rows, out, repeated = np.ones(count), np.zeros(count), Repeated(add)
    repeated.run((), rows, out, 0, 10)
    best = np.inf
    for _ in range(5):
        start = time.perf_counter()
        repeated.run((), rows, out)
        best = min(best, time.perf_counter() - start)
    assert best / count < 0.1e-6
