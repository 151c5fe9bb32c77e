"""Slices that start at a traced place: as long as their bounds are apart."""

import numpy as np
import pytest

import wengert as wg
from wengert.errors import AbstractValueError, OutOfRangeError

X = np.random.default_rng(1).normal(size=40)
TABLE = np.arange(40.0) ** 2
ALONG = np.cos(np.arange(40.0))


def read(x):
    k = int(np.argmax(x[:20]))
    return np.sum(x[k : k + 4] ** 2)


def written(x):
    y, k = x.copy(), int(np.argmax(x[:20]))
    y[k : k + 4] = 2 * y[k : k + 4] + 1
    return y


def of_a_plain_array(x):
    k = np.argmax(x[:20])
    return np.sum(TABLE[k : k + 4] * x[:4])


def with_steps(x):
    y, k = x.copy(), np.argmax(x[:20])
    y[k : k + 8 : 2] += np.sin(y[k + 1 : k + 9 : 2])
    y[k + 5 : k + 1 : -2] *= 3
    return y


def around(x):
    k = np.argmax(x[5:25]) + 5
    part = x[k - 2 : k + 3]
    return np.dot(part, part[::-1]) + x[k : k - 4 : -1]


def multiples(x):
    k, m = np.argmax(x[:4]), 5
    return np.sin(x[k * m : (k + 1) * m]) + x[-3 * k + 20 : 25 - k * 3]


def of_matrices(x):
    y, k = x.reshape(8, 5).copy(), np.argmax(x[:5])
    y[k : k + 2, 1] = 0.5 * y[k + 1, 1:3]
    y[k, ::2] *= 2
    y[1 : k % 2 + 4 - k % 2, k : k + 1] += 1
    return y


def of_views(x):
    y, k = x.copy(), np.argmax(x[:20])
    part = y[k : k + 3]
    part[1] = 5 * x[0]
    y[k] = 7 * x[1]
    y[::-1][k : k + 2] = 3
    return np.sum(part) + y


def in_a_loop(x):
    y, s = x.copy(), 0.0
    for _ in range(30):
        k = np.argmax(y[:30])
        s = s + np.sum(y[k : k + 3])
        y[k : k + 3] *= 0.5
    return y, s


def in_a_loop_that_values_end(x):
    y, k = x.copy(), 0
    while np.sum(y[k : k + 2] ** 2) < 2.5:
        y[k + 1 : k + 3] += x[k : k + 2]
        k += 1
    return y * k


def in_a_branch(x):
    y, k = x.copy(), np.argmin(x[:30])
    if x[3] > x[4]:
        y[k : k + 5] = x[:5]
    else:
        y[k + 2 : k : -1] = x[k : k + 2]
    return y


def interpolated(x):
    t = abs(x[0]) * 3
    k = int(t)
    w = t - k
    p = x[k : k + 4]
    return p[0] * w + p[1] * (1 - w) + p[2] * w * w + p[3]


def clipped_where_it_is_known(x):
    s, i = 0.0, 0
    while True:
        s = s + np.sum(x[i : i + 8]) * i
        i += 3
        if i > 38:
            break
    return s


ANYWHERE = [read, written, of_a_plain_array, with_steps, around, multiples, of_matrices, of_views]
ANYWHERE += [in_a_loop, in_a_loop_that_values_end, in_a_branch, interpolated]
ANYWHERE += [clipped_where_it_is_known]


def total(f):
    def found(x):
        return sum(np.sum(np.cos(part) * part) for part in wg.tree.leaves(f(x)))

    return found


@pytest.mark.parametrize("f", ANYWHERE, ids=lambda f: f.__name__)
def test_values_and_derivatives(f):
    compiled, gradient = wg.jit(f), wg.jit(wg.grad(total(f)))
    for x in (X, X[::-1].copy(), np.roll(X, 7)):
        for got, want in zip(wg.tree.leaves(compiled(x)), wg.tree.leaves(f(x)), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-12)
        step = 1e-6 * ALONG
        slope = (total(f)(x + step) - total(f)(x - step)) / 2e-6
        np.testing.assert_allclose(gradient(x) @ ALONG, slope, rtol=1e-5, atol=1e-6)


def test_many_samples():
    batch = np.stack([X, X[::-1], np.roll(X, 5)])
    for f in (written, with_steps, around, of_matrices):
        got = wg.jit(wg.vmap(f))(batch)
        np.testing.assert_allclose(got, np.stack([f(x) for x in batch]), rtol=1e-12)


@pytest.mark.parametrize("k", [-1, 37, 40])
def test_beyond_the_ends(k):
    def forwards(x, k):
        return x[k : k + 4]

    def backwards(x, k):
        y = x.copy()
        y[k + 3 : k - 1 : -1] = 0
        return y

    for f in (forwards, backwards):
        np.testing.assert_array_equal(wg.jit(f)(X, 7), f(X, 7))
        with pytest.raises(OutOfRangeError, match="not all inside of its axis of length 40"):
            wg.jit(f)(X, k)


def test_lengths_that_are_not_known():
    def any_length(x, k, n):
        return np.sum(x[k : k + n])

    def to_the_end(x, k):
        return np.sum(x[k:])

    with pytest.raises(AbstractValueError):
        wg.jit(any_length)(X, 3, 4)
    with pytest.raises(AbstractValueError):
        wg.jit(to_the_end)(X, 3)


def test_integers_that_begin_again():
    def f(x, k):
        return x[k : k + np.int8(4)]

    with pytest.raises(AbstractValueError):
        wg.jit(f)(X, np.int8(3))


def test_masks_of_plain_arrays():
    def f(x):
        return np.sum(TABLE[x > 0])

    np.testing.assert_allclose(wg.jit(f)(X), f(X))
