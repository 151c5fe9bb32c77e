"""Writes through views that are taken under a traced condition, of arrays made before it."""

import numpy as np
import pytest

import wengert as wg
from wengert.errors import OutsideWriteError

X = np.arange(1.0, 7.0).reshape(2, 3)


def row(x):
    y = x * 2
    if x[0, 0] > 0:
        w = y[0]
        w[1] = 9.0
    return y


def transposed(x):
    y = x * 2
    if x[0, 0] > 0:
        w = y.T
        if x[0, 1] > 0:
            w[0] = 3.0
        else:
            w[1] = 4.0
    return y


def flat(x):
    y = x * 2
    if x[0, 0] > 0:
        w = y.ravel()
        w[0] = 9.0
    return y


def every_row(x):
    y = x * 2
    if x[0, 0] > 0:
        for one in y:
            one += 1
    return y


def turns(x):
    y = x * 2
    k = 0
    while k * x[0, 0] < 4:
        w = y.reshape(-1)
        w[0] += 1.0
        k += 1
    return y


def rows_in_turns(x):
    y = x * 2
    k = 0
    while k * x[0, 0] < 4:
        for one in y:
            one += x[0]
        k += 1
    return y


def swapped(x):
    y = x * 2
    if x[0, 0] > 0:
        a, b = y
        a[:], b[:] = b.copy(), a.copy()
    return y


def by_a_function(x):
    def raise_by_one(w):
        w += 1.0

    y = x * 2
    if x[0, 0] > 0:
        raise_by_one(y[0])
    return y


def made(x):
    y = np.zeros((2, 3))
    if x[0, 0] > 0:
        w = y[0]
        w[0] = 9.0
        w = y[1]
        w += x[0]
    else:
        y[0, 0] = 5.0
    return y * x


def made_in_turns(x):
    y = np.zeros((2, 3))
    k = 0
    while k * x[0, 0] < 4:
        w = y[0]
        w += 1.0
        k += 1
    return y * x


PROGRAMS = [
    row, transposed, flat, every_row, turns, rows_in_turns, swapped, by_a_function, made,
    made_in_turns,
]  # fmt: skip


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("sign", [1, -1])
def test_compiled(f, sign):
    x = X.copy()
    x[0, :2] *= sign
    if "turns" in f.__name__:
        x[0, 0] = abs(x[0, 0])
    want = f(x)
    np.testing.assert_array_equal(wg.jit(f)(x), want)
    value, tangent = wg.jit(lambda x: wg.jvp(f, (x,), (x,)))(x)
    np.testing.assert_array_equal(value, want)
    np.testing.assert_array_equal(tangent, wg.jvp(f, (x,), (x,))[1])


def test_one_that_is_not_found():
    def f(x):
        held = [x * 2]
        if x[0, 0] > 0:
            w = held[0][0]
            w += 1
        return held[0]

    with pytest.raises(OutsideWriteError, match="made outside of the branch or loop"):
        wg.jit(f)(X)
