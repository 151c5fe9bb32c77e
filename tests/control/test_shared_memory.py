"""Arrays that share memory, both of which are changed under a traced condition or in a loop."""

import numpy as np
import pytest

import wengert as wg
from wengert.errors import ControlFlowError, MutationError

X = np.arange(1.0, 7.0).reshape(2, 3)


def array_and_row(x):
    u = x * 2
    w = u[0]
    if x[0, 0] > 0:
        u[0, 1] = 3.0
        w[1] = w[1] + 4.0
    return u.sum() + w


def row_and_column(x):
    u = np.zeros((2, 3))
    w, v = u[0], u[:, 1]
    if x[0, 0] > 0:
        w[1] = x[0, 0]
        v[0] *= 1.1
    return u


def in_turns(x):
    u = x * 2
    w = u[0]
    k = 0
    while k * x[0, 0] < 3:
        u[0, 1] += 3.0
        w[1] = w[1] + 4.0
        k += 1
    return u.sum() + w


@pytest.mark.parametrize(
    ("f", "names"), [(array_and_row, "u and w"), (row_and_column, "v and w"), (in_turns, "u and w")]
)
def test_refused_under_a_condition(f, names):
    with pytest.raises(ControlFlowError, match=f"{names} share their memory and are changed"):
        wg.jit(f)(X)


def test_loop_whose_turns_are_known():
    def f(x):
        u = x * 2
        w, v = u[0], u[:, 1]
        for k in range(30):
            w[1] += k
            v[0] *= 1.1
        return u.sum() + w

    np.testing.assert_allclose(wg.jit(f)(X), f(X), rtol=1e-14)


def test_one_of_them_alone():
    def f(x):
        u = x * 2
        w = u[0]
        if x[0, 0] > 0:
            w[1] += 5
        return u

    np.testing.assert_array_equal(wg.jit(f)(X), f(X))


def made_by_numpy(n):
    """Arrays of zeros that hold no traced value yet, as NumPy makes them."""
    y = np.zeros(n)
    return y, y[1:]


def read_beside_a_write(x):
    y, z = made_by_numpy(4)
    if x[0, 0] > 0:
        z[1] = x[0, 0]
        z[2] = y[2] + 1
    return y


def asked_beside_a_write(x):
    y, z = made_by_numpy(4)
    if x[0, 0] > 0:
        z[1] = x[0, 0]
        if y[2] == 0:
            z[2] = 1
    return y


def read_in_turns(x):
    y, z = made_by_numpy(12)
    k = 0
    while k < 11 and x[0, 0] < 100:
        z[k] = x[0, 0] + y[k]
        k += 1
    return y


@pytest.mark.parametrize("f", [read_beside_a_write, asked_beside_a_write, read_in_turns])
def test_reading_one_that_numpy_made_is_refused_too(f):
    """What it held before the branch or loop would be an old number."""
    with pytest.raises(MutationError, match="it shares its memory with an array that is written"):
        wg.jit(f)(X)


def test_reading_one_that_numpy_made_in_turns_that_are_known():
    def f(x):
        y, z = made_by_numpy(12)
        table = np.zeros((12, 4))
        columns = table.T
        for k in range(11):
            z[k] = x[0, 0] + y[k]
        for k in range(12):
            columns[:, k] = x[0, 0] * k
            columns[0, k] += table[k - 1, 1]
        return y, z, table

    for got, want in zip(wg.jit(f)(X), f(X), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-14)
