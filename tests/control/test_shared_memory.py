"""Arrays that share memory, both of which are changed under a traced condition or in a loop."""

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
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


def view_in_a_list(x, n):
    b = wnp.zeros((3, 3))
    kept, r = [b.T], x[0]
    for k in range(n):
        kept[0][k % 3] -= x[0]
        r = r * 0.5 + b[1]
    return b, kept[0], r


def view_of_the_turn_before(x, n):
    a = np.outer(x[0], x[0])
    b, t = a * 1.0, x[0, 0]
    for k in range(n):
        a[0, 0] += k
        t = t * 0.5 + b[0, 0]
        b = a.T
    return a, b, t


def view_in_a_dictionary(x, n):
    a = np.outer(x[0], x[0])
    held, t = {"a": a * 1.0}, x[0, 0]
    for k in range(n):
        a[0, 0] += k
        t = t * 0.5 + held["a"][0, 0]
        held["a"] = a[:]
    return a, t


def view_that_may_be_replaced(x, n):
    a = np.outer(x[0], x[0])
    b = a[::-1]
    for k in range(n):
        if k % 2 == 0:
            b = b * 0.5
        a[k % 3, 0] -= b[2] @ x[0] * 0.1
    return a, b


class Holder:
    def __init__(self, a):
        self.a = a


def view_in_an_object(x, n):
    b = np.outer(x[0], x[0])
    h, r = Holder(b.T), x[0]
    for k in range(n):
        h.a[k % 3] -= x[0]
        r = r * 0.5 + b[1]
    return b, h.a, r


def written_and_replaced(x, n):
    a = np.outer(x[0], x[0])
    kept = [a]
    for k in range(n):
        kept[0][k % 3] += x[0]
        kept[0] = kept[0] * 0.5
    return a, kept[0]


VIEWS = [
    view_in_a_list, view_of_the_turn_before, view_in_a_dictionary, view_that_may_be_replaced,
    view_in_an_object, written_and_replaced,
]  # fmt: skip


@pytest.mark.parametrize("f", VIEWS)
def test_held_by_two_in_turns_that_are_known(f):
    for got, want in zip(wg.jit(lambda x: f(x, 12))(X), f(X, 12), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-13)


@pytest.mark.parametrize("f", VIEWS)
def test_held_by_two_in_turns_that_are_not_known(f):
    def until(x):
        return f(x, int(x[0, 0]) * 4)

    with pytest.raises((MutationError, ControlFlowError), match=r"memory|from outside|replaced"):
        wg.jit(until)(X)


def test_writing_to_one_that_may_be_another():
    def f(x):
        b, k = np.zeros((3, 3)), 0
        while k < 4 and x[0, 0] > 0:
            k += 1
            b = b.reshape(3, 3)
        b[0, 0] = 1.0
        return b

    np.testing.assert_array_equal(wg.jit(f)(X), f(X))
