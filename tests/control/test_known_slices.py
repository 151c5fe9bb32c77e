"""Slices with steps, and backwards, in loops: they leave a loop one loop."""

import numpy as np
import pytest

import wengert as wg

X = np.random.default_rng(0).normal(size=48) / 2
ALONG = np.cos(np.arange(48.0))


def every_second_from(x):
    s = 0.0
    for i in range(30):
        s = s + np.sum(np.sin(x[i::2]))
    return s


def every_second_of_eight(x):
    y = x.copy()
    for i in range(38):
        y[i : i + 8 : 2] += 0.1 * np.sin(y[i + 1])
    return y


def clipped(x):
    y, s = x.copy(), 0.0
    for i in range(48):
        y[i : i + 8 : 3] *= 1.5
        s = s + np.sum(y[i - 3 : i + 20 : 4]) + np.prod(y[i:40:5])
    return y, s


def backwards_from(x):
    s = 0.0
    for i in range(30):
        s = s + np.dot(x[i::-1], x[: i + 1]) + np.max(x[i::-2])
    return s


def backwards_to(x):
    s = 0.0
    for i in range(1, 30):
        s = s + np.sum(x[:i:-1] ** 2) * x[i] + np.sum(x[40 : i + 2 : -3])
    return s


def four_backwards(x):
    y = np.zeros(48)
    for i in range(4, 48):
        y[i] = np.dot(x[i : i - 4 : -1], [0.1, 0.2, 0.3, 0.4]) + y[i - 1] ** 2
    return y


def written_backwards(x):
    y = x.copy()
    for i in range(10, 40):
        y[i::-1] = y[: i + 1] * 0.5 + x[: i + 1]
        y[i : i - 6 : -2] = np.cos(y[i - 8 : i - 5])
    return y


def numbers_written(x):
    y = x.copy()
    for i in range(30):
        y[i::4] = x[i]
        y[i + 6 :: -3] += 0.25
    return y


def sieve(x):
    y = x.copy()
    for p in range(2, 20):
        y[2 * p :: p] *= 0.9
        y[p * p :: p] = y[p * p :: p] + x[p]
    return y


def steps_backwards(x):
    s = 0.0
    for p in range(1, 20):
        s = s + np.sum(np.sin(x[40:p:-p])) * p
    return s


def red_and_black(x):
    u = x.copy()
    for k in range(40):
        p = k % 2
        u[1 + p : -1 : 2] = 0.5 * (u[p:-2:2] + u[2 + p :: 2] - np.sin(x)[1 + p : -1 : 2])
    return u


def red_and_black_in_rows(x):
    u = x.reshape(6, 8).copy()
    for k in range(12):
        for i in range(1, 5):
            p = 1 + (i + k) % 2
            around = u[i - 1, p:-1:2] + u[i + 1, p:-1:2] + u[i, p - 1 : -2 : 2] + u[i, p + 1 :: 2]
            u[i, p:-1:2] = 0.25 * around
    return u


def rows_and_columns(x):
    a = x.reshape(6, 8).copy()
    for j in range(6):
        a[::2, j] += 0.1 * a[1::2, j + 1]
        a[j, j::3] *= np.sin(a[j, 7])
        a[j::2] = a[j::2] * 0.5 + a[j, 0]
        a[::-1, j] = a[:, j + 1]
    return a


def held_while_written(x):
    y, s = x.copy(), 0.0
    for i in range(20):
        view, back = y[i::3], y[i : i + 4][::-1]
        y[i + 3] = x[i] * 2
        s = s + np.sum(view**2) + back[0] * i
    return y, s


def turned_around(x):
    s = 0.0
    for i in range(1, 40):
        s = s + np.dot(x[:i][::-1], x[1 : i + 1]) + np.sum(x[i:][::-1][: i + 1] * 2)
    return s


def levinson(x):
    r = np.concatenate([np.ones(1) * 20, x[:30]])
    a, e = np.zeros(31), r[0]
    a[0] = 1.0
    for k in range(1, 31):
        reflected = -np.dot(a[:k], r[k:0:-1]) / e
        a[1 : k + 1] = a[1 : k + 1] + reflected * a[k - 1 :: -1][:k]
        e = e * (1 - reflected * reflected)
    return a


def durbin(x):
    r, y = x[:30] * 0.1, np.zeros(30)
    y[0], alpha, beta = -r[0], -r[0], 1.0
    for k in range(29):
        beta = (1 - alpha**2) * beta
        alpha = -(r[k + 1] + np.dot(r[k::-1], y[: k + 1])) / beta
        y[: k + 1] = y[: k + 1] + alpha * y[k::-1]
        y[k + 1] = alpha
    return y


LINES = [every_second_from, every_second_of_eight, clipped, backwards_from, backwards_to]
LINES += [four_backwards, written_backwards, numbers_written, sieve, steps_backwards]
LINES += [red_and_black, red_and_black_in_rows, turned_around, levinson, durbin]


def total(f):
    def found(x):
        return sum(np.sum(np.cos(part) * part) for part in wg.tree.leaves(f(x)))

    return found


@pytest.mark.parametrize(
    "f", [*LINES, rows_and_columns, held_while_written], ids=lambda f: f.__name__
)
def test_values_and_derivatives(f):
    for got, want in zip(wg.tree.leaves(wg.jit(f)(X)), wg.tree.leaves(f(X)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-12)
    gradient = wg.jit(wg.grad(total(f)))(X)
    step = 1e-6 * ALONG
    slope = (total(f)(X + step) - total(f)(X - step)) / 2e-6
    np.testing.assert_allclose(gradient @ ALONG, slope, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("f", LINES, ids=lambda f: f.__name__)
def test_is_one_loop(f):
    assert len(wg.jit(f).program(X).stages.graph.operators) < 25


def test_of_plain_arrays():
    table = np.arange(48.0) ** 2

    def f(x):
        s = 0.0
        for i in range(20):
            s = s + np.sum(table[i::3]) * x[i] + np.sum(table[i + 4 : i : -1] * x[i])
        return s

    np.testing.assert_allclose(wg.jit(f)(X), f(X), rtol=1e-12)


def test_shapes_that_do_not_fit():
    def f(x):
        y = x.copy()
        for i in range(20):
            y[i::2] = x[:20]
        return y

    with pytest.raises(ValueError):
        wg.jit(f)(X)
