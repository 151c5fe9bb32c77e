"""Which array a variable holds is decided by a traced condition, and something is written to it."""

import numpy as np
import pytest

import wengert as wg
from wengert.errors import MutationError

X = np.arange(1.0, 13.0).reshape(3, 4)


def itself_or_another(x):
    y = x * 1.0
    z = y if x[0, 0] > 0 else y * 2
    z[0] = 7.0
    return y + z


def one_of_its_rows(x):
    y = x * 1.0
    z = y[0] if x[0, 0] > 0 else y[1]
    z[0] = 7.0
    return y


def a_row_that_is_replaced(x):
    y = x * 1.0
    best = y[0]
    if x[0, 0] > 0:
        best = y[2]
    best[1] = 50.0
    return y


def found_in_a_loop(x):
    y = x * 1.0
    best = y[0]
    for i in range(3):
        if y[i, 0] > 3:
            best = y[i]
    best += 10.0
    return y


def written_to_the_other(x):
    y = x * 1.0
    z = y if x[0, 0] > 0 else y * 2
    y[0] = 7.0
    return z * 1.0


def in_turns(x):
    y = x * 1.0
    z, k = y, 0
    while k < x[0, 0] * 3:
        z = z * 2
        k += 1
    z[0] = 5.0
    return y


@pytest.mark.parametrize(
    "f",
    [
        itself_or_another, one_of_its_rows, a_row_that_is_replaced, found_in_a_loop,
        written_to_the_other, in_turns,
    ],
)  # fmt: skip
def test_the_other_cannot_be_read(f):
    with pytest.raises(
        MutationError,
        match=r"whether it was changed by a write to another array is not known: a traced "
        r"condition, or the turn of a loop, decides whether both are the same\. Copy in",
    ):
        wg.jit(f)(X)


def replaced(x):
    y = x * 1.0
    if x[0, 0] > 0:
        y = y * 2
    y[0] = 7.0
    y[1:] += y[0]
    return y


def replaced_in_turns(x):
    y = x * 1.0
    k = 0
    while k < abs(x[0, 0]) * 3:
        y = y * 2
        k += 1
    y[0] = 5.0
    return y


def copied(x):
    y = x * 1.0
    z = y.copy() if x[0, 0] > 0 else y * 2
    z[0] = 7.0
    return y + z


def read_alone(x):
    y = x * 1.0
    z = y if x[0, 0] > 0 else y * 2
    return y + z


def the_same_in_every_turn(x):
    u = x * 1.0
    for _ in range(30):
        un = u
        u[0] = un[1] * 0.5 + un[0] * 0.4
    return u + un


@pytest.mark.parametrize(
    "f", [replaced, replaced_in_turns, copied, read_alone, the_same_in_every_turn]
)
@pytest.mark.parametrize("sign", [1, -1])
def test_where_nobody_looks(f, sign):
    x = sign * X
    np.testing.assert_allclose(wg.jit(f)(x), f(x), rtol=1e-14)
    np.testing.assert_allclose(wg.jit(lambda x: wg.jvp(f, (x,), (x,))[0])(x), f(x), rtol=1e-14)


def test_what_nobody_writes_to_is_read_on():
    """Loops with an early return ask of what their variables are views, and write to none."""

    def shrunk(a):
        for i in range(4):
            if np.sum(a * a) < 0.5 + i:
                return a + i
            a = a * 0.7
        return a

    def f(x):
        found = shrunk(x)
        return np.sum(x) + np.sum(found)

    for scale in (0.1, 1.0, 10.0):
        x = np.arange(1.0, 4.0) * scale
        np.testing.assert_allclose(wg.jit(f)(x), f(x))
        np.testing.assert_allclose(wg.jit(wg.grad(f))(x), wg.grad(f)(x))


def appended(x):
    keep = []
    for i in range(20):
        keep.append(x[i])
    return keep


def listed(x):
    return [x[i] for i in range(20)]


def filled(x):
    keep = [None] * 20
    for i in range(20):
        keep[i] = x[i]
    return keep


@pytest.mark.parametrize("rows_of", [appended, listed, filled])
def test_rows_in_lists(rows_of):
    """Rows that a loop puts into a list are views in NumPy; the list is made of all of them."""

    def written_to(w):
        y = w * np.ones((20, 3))
        rows_of(y)[3][:] = 100.0
        return np.sum(y)

    def written(w):
        y = w * np.ones((20, 3))
        keep = rows_of(y)
        y[3] = 0.0
        return np.sum(keep[3])

    def read(w):
        keep = rows_of(w * np.ones((20, 3)))
        return np.sum(keep[3]) + np.sum(np.stack(keep))

    w = np.arange(1.0, 4.0)
    for refused in (written_to, written):
        with pytest.raises(MutationError, match="the turn of a loop, decides"):
            wg.jit(refused)(w)
    np.testing.assert_allclose(wg.jit(read)(w), read(w))
    np.testing.assert_allclose(wg.jit(wg.grad(read))(w), wg.grad(read)(w))
