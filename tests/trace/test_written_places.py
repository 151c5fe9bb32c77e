"""Elements written one by one, evaluated, differentiated, mapped and compiled as NumPy has it."""

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert.graph import Operator


def _by_elements(x, np=wnp):
    y = np.zeros(x.shape[0])
    y[0] = x[0]
    for i in range(1, x.shape[0]):
        y[i] = x[i] * y[i - 1] + 1.0
    return y


def _twice(x, np=wnp):
    y = np.zeros(4)
    y[1] = x[0]
    y[1] = y[1] * x[1]
    y[-1] = 3
    y[0] += x[2]
    return y


def _whole_between(x, np=wnp):
    y = np.ones(3) * x[0]
    for i in range(3):
        y[i] = np.sum(y) * x[i]
    y *= 2.0
    y[2] = y[0] + y[1]
    return y


def _rows(x, np=wnp):
    y = np.zeros((4, 3))
    y[0] = x[:3]
    y[2] = 2.0  # one number for a row
    for i in (1, 3):
        y[i] = y[i - 1] * x[i] + y[i - 1, 2]
    y[3, 1] = x[0]  # after rows, an element
    return y + y[3]


def _grid(x, np=wnp):
    y = np.zeros((2, 3))
    for i in range(2):
        for j in range(3):
            y[i, j] = x[i] * x[j]
    return y[1] + y[:, 0].sum()


def _through_views(x, np=wnp):
    y = np.zeros(4)
    tail = y[2:]
    y[3] = x[0]
    tail[0] = x[1]  # of the same memory
    y[1] = tail[1] + tail[0]
    y[2] = y[1]
    row = np.zeros((2, 2))
    first = row[0]
    row[0, 1] = x[2]
    first[0] = x[3]
    row[1] = row[0] * 2.0
    return np.concatenate([y, tail, first, row[1]])


def _changed_after(x, np=wnp):
    part = np.ones(2) * x[0]
    y = np.zeros((2, 2))
    y[0] = part
    part[0] = x[1]  # what was written stays
    kept = y[0]
    y[1] = part
    y[0] = part * 2.0
    return np.concatenate([kept, y[1]])


def _own_parts(x, np=wnp):
    y = np.ones((3, 2)) * x[:2]
    y[2] *= 3.0
    y[0] = y[2]
    y[2] = y[0] + y[1]
    y[1] = y[1, 0]
    return y


PROGRAMS = [
    _own_parts,
    _by_elements,
    _twice,
    _whole_between,
    _rows,
    _grid,
    _through_views,
    _changed_after,
]
X = np.array([0.5, -1.25, 2.0, 0.75])


@pytest.mark.parametrize("program", PROGRAMS)
def test_as_numpy_writes(program):
    expected = program(X, np)
    np.testing.assert_allclose(wg.trace(program, X)(X), expected, rtol=1e-15)
    np.testing.assert_allclose(wg.jit(program)(X), expected, rtol=1e-14)
    np.testing.assert_allclose(wg.vmap(program)(np.stack([X, X])), [expected] * 2, rtol=1e-14)


@pytest.mark.parametrize("program", PROGRAMS)
def test_derivatives(program):
    wg.check_grads(program, (X,), order=2)
    forward = wg.jacobian(program, mode="forward")(X)
    np.testing.assert_allclose(wg.jacobian(program, mode="reverse")(X), forward, rtol=1e-13)
    np.testing.assert_allclose(wg.jit(wg.jacobian(program))(X), forward, rtol=1e-13)


def _operators(f, *args):
    return [node for node in wg.trace(f, *args).nodes if isinstance(node, Operator)]


def test_a_read_is_what_was_written():
    def f(x):
        y = wnp.zeros(100)
        for i in range(100):
            y[i] = x * i
        return y[7] + y[99]

    names = [node.op.name for node in _operators(f, np.float64(2.0))]
    assert names == ["multiply", "multiply", "add"]


def test_many_writes_are_put_together_once():
    def f(x):
        y = wnp.zeros(50)
        for i in range(10, 40):
            y[i] = x
        return y

    names = [node.op.name for node in _operators(f, np.float64(2.0))]
    assert names.count("concatenate") == 1
    assert "index_set" not in names


def test_a_few_writes_stay_what_they_are():
    def f(x):
        y = wnp.zeros(50)
        y[3] = x
        return y * 2.0

    names = [node.op.name for node in _operators(f, np.float64(2.0))]
    assert "index_set" in names
    assert "concatenate" not in names


def test_arrays_that_numpy_made_are_written_alike():
    def f(x):
        y = np.zeros(30)
        y[0] = 1.0
        for i in range(1, 30):
            y[i] = y[i - 1] * x
        return y

    names = [node.op.name for node in _operators(f, np.float64(2.0))]
    assert names.count("concatenate") == 1
    assert "index_set" not in names
    np.testing.assert_array_equal(f(2.0), wg.jit(f)(2.0))


def test_numbers_take_the_dtype_of_the_array():
    def f(x):
        y = wnp.zeros(2, np.float32)
        y[0] = 1.5
        y[1] = x
        return y[0] * wnp.ones(2, np.float32), y[1], y

    for run in (f, wg.jit(f)):
        for result in run(np.float64(2.0)):
            assert np.asarray(result).dtype == np.float32


def test_errors_are_those_of_any_write():
    def outside(x):
        y = wnp.zeros(3)
        y[3] = x
        return y

    def too_long(x):
        y = wnp.zeros((3, 2))
        y[0] = wnp.ones(3) * x
        return y

    def argument(x):
        x[0] = 1.0
        return x

    with pytest.raises(IndexError, match="index 3 for axis 0 of length 3"):
        wg.trace(outside, 1.0)
    with pytest.raises(ValueError, match="shape \\(3,\\) into a place of shape \\(2,\\)"):
        wg.trace(too_long, 1.0)
    with pytest.raises(wg.errors.MutationError, match="Copy it first"):
        wg.jit(argument)(X)


def test_a_value_of_an_inner_function_is_refused():
    def f(x):
        y = wnp.zeros(2)

        def inner(z):
            y[0] = z
            return z * z

        return wg.grad(inner)(x) + y[0]

    with pytest.raises(wg.errors.MutationError, match="outside the function being traced"):
        wg.trace(f, 1.0)


@pytest.mark.parametrize("compile_it", [wg.jit, lambda f: f])
def test_a_branch_reads_what_was_written_before_it(compile_it):
    def f(x):
        y = wnp.zeros(4)
        for i in range(4):
            y[i] = x[i] * 2.0
        chosen = wg.cond(x[0] > 0.0, lambda: y[1] + wnp.sum(y), lambda: y[2])
        y[0] = chosen
        return y

    for x in (X, -X):
        y = 2.0 * x
        y[0] = y[1] + np.sum(y) if x[0] > 0 else y[2]
        np.testing.assert_allclose(compile_it(f)(x), y)
        slopes = np.diag([0.0, 2.0, 2.0, 2.0])
        slopes[0] = [2.0, 4.0, 2.0, 2.0] if x[0] > 0 else [0.0, 0.0, 2.0, 0.0]
        np.testing.assert_allclose(compile_it(wg.jacobian(f))(x), slopes)


def test_a_branch_does_not_write_outside():
    def f(x):
        y = wnp.zeros(4)

        def writes():
            y[0] = 1.0
            return x[0]

        return wg.cond(x[0] > 0.0, writes, lambda: x[1]) + y[0]

    with pytest.raises(wg.errors.MutationError, match="outside the function being traced"):
        wg.jit(f)(X)


def test_all_places_are_given_plain_values():
    def f(x):
        y = x * 1.0
        y[0] = 0.25
        z = y * 2
        y[0, 1] = x[0, 0]
        return y[:] + z

    x = np.ones((1, 5))
    np.testing.assert_array_equal(wg.jvp(f, (x,), (x,))[0], f(x))
    np.testing.assert_array_equal(wg.jit(f)(x), f(x))
