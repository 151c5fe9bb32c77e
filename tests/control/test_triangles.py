"""Nests of loops whose inner bounds are counters of outer ones: what a turn does and keeps does not
grow with the arrays that it reads and writes at places."""

import numpy as np
import pytest

import wengert as wg

RNG = np.random.default_rng(0)


def matrix(n):
    b = RNG.normal(size=(n, n))
    return b @ b.T + n * np.eye(n)


def eliminated(x):
    """The logarithm of a determinant by LU."""
    n, a = len(x), x.copy()
    for k in range(n):
        for i in range(k + 1, n):
            a[i, k] = a[i, k] / a[k, k]
            for j in range(k + 1, n):
                a[i, j] -= a[i, k] * a[k, j]
    return np.sum(np.log(np.abs(np.diag(a))))


def factored(x):
    """The same by Cholesky, row by row."""
    n, low = len(x), np.zeros(x.shape)
    for i in range(n):
        for j in range(i + 1):
            s = x[i, j]
            for k in range(j):
                s = s - low[i, k] * low[j, k]
            if i == j:
                low[i, j] = np.sqrt(s)
            else:
                low[i, j] = s / low[j, j]
    return np.sum(np.log(np.diag(low)))


def substituted(x):
    """A triangular system forth and its transpose back."""
    n = len(x)
    y, z = np.zeros(n), np.zeros(n)
    for i in range(n):
        s = 1.0
        for j in range(i):
            s = s - x[i, j] * y[j]
        y[i] = s / x[i, i]
    for i in range(n - 1, -1, -1):
        s = y[i]
        for j in range(i + 1, n):
            s = s - x[j, i] * z[j]
        z[i] = s / x[i, i]
    return np.sum(z)


def predicted(x):
    """Levinson's recursion."""
    r, n = x[0], len(x)
    a, error = np.zeros(n), r[0]
    a[0] = 1.0
    for m in range(1, n):
        s = 0.0
        for i in range(m):
            s = s + a[i] * r[m - i]
        k = -s / error
        b = a.copy()
        for i in range(1, m + 1):
            a[i] = b[i] + k * b[m - i]
        error = error * (1 - k * k)
    return error + np.sum(a)


def parenthesised(x):
    """What products of many factors cost, over all intervals."""
    p, n = x[0], len(x) - 1
    table = np.zeros((n, n))
    for length in range(1, n):
        for i in range(n - length):
            s = 0.0
            for k in range(i, i + length):
                s = s + table[i, k] * table[k + 1, i + length] * 0.01
            table[i, i + length] = s + p[i] * p[i + length + 1]
    return table[0, n - 1]


def best_before(x):
    """A table of the best of all before."""
    v, n = x[0], len(x)
    table = np.zeros(n)
    for i in range(n):
        best = 0.0
        for j in range(i):
            best = np.maximum(best, table[j] * x[i, j])
        table[i] = best * 0.1 + v[i]
    return table[n - 1] + np.sum(table)


NESTS = [eliminated, factored, substituted, predicted, parenthesised, best_before]


@pytest.mark.parametrize("f", NESTS)
def test_values_and_gradients(f):
    x, v = matrix(12), RNG.normal(size=(12, 12))
    value, gradient = wg.jit(wg.value_and_grad(f))(x)
    np.testing.assert_allclose(value, f(x), rtol=1e-11)
    np.testing.assert_allclose(gradient, wg.grad(f)(x), rtol=1e-8, atol=1e-12)
    slope = (f(x + 1e-6 * v) - f(x - 1e-6 * v)) / 2e-6
    np.testing.assert_allclose(np.sum(gradient * v), slope, rtol=1e-5)


@pytest.mark.parametrize("f", NESTS)
def test_batches_of_gradients(f):
    many = np.stack([matrix(9) for _ in range(3)])
    found = wg.jit(wg.vmap(wg.grad(f)))(many)
    np.testing.assert_allclose(found, [wg.grad(f)(x) for x in many], rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("f", NESTS)
@pytest.mark.parametrize("transform", [lambda f: f, wg.grad], ids=["value", "gradient"])
def test_a_turn_does_not_grow_with_the_arrays(f, transform):
    """Loops inside count as if they had a known number of turns, so that what is counted grows with
    the turns outside; if a turn inside went over the matrix, or kept it, it would grow with the
    cube."""

    def count(n):
        loops = wg.jit(transform(f)).program(np.eye(n)).stages.loops
        return sum(kernel.work for kernel in loops.kernels), loops.arena_bytes

    few, many = count(64), count(256)
    assert many[0] < 1.3 * 4 * few[0]
    assert many[1] < 1.3 * 16 * few[1]  # there are copies of the matrix


def looks(f, *args):
    """How often the code of a program looks whether it may go on."""
    loops = wg.jit(f).program(*args).stages.loops
    return str(loops).count("unless")


@pytest.mark.parametrize("f", [eliminated, factored, substituted, best_before])
def test_counters_of_inner_loops_are_known_to_be_places(f):
    assert looks(f, np.eye(12)) == 0
    assert looks(lambda x, i: x[i], np.ones(3), 1) > 0


def test_a_place_beyond_the_end_is_found():
    def f(x):
        total = 0.0
        for i in range(12):
            for j in range(i, 12):
                total = total + x[j + 1]
        return total

    def g(x):
        total = 0.0
        for i in range(12):
            for j in range(i + 2):
                total = total + x[j]
        return total

    def backwards(x):
        total = 0.0
        for i in range(12):
            for j in range(11, i - 2, -1):
                total = total + x[j] * j
        return total

    for one in (f, g):
        assert wg.jit(one)(np.arange(13.0)) == one(np.arange(13.0))
        with pytest.raises(IndexError):
            wg.jit(one)(np.arange(12.0))
    assert wg.jit(backwards)(np.arange(12.0)) == backwards(np.arange(12.0))


def test_ranges_of_traced_bounds():
    @wg.jit
    def f(a, b):
        total = 0
        for i in range(a, b):
            total += i * i
        for i in range(b, a, -2):
            total += 3 * i
        for i in range(a, 9):
            total += 7 * i
        for i in range(9, a, -4):
            total += 11 * i
        for i in range(-3, b, 5):
            total += 13 * i
        return total

    for a, b in ((0, 5), (5, 0), (-4, 9), (3, 3), (2, 30)):
        assert f(a, b) == f.function(a, b)
