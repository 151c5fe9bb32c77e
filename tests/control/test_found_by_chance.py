"""Programs that chance has written, and that were refused or wrong."""

import numpy as np

import wengert as wg


def chosen_by_a_counter(x):
    """Its gradient reads one of two arrays, by the turn of a loop that is counted elsewhere."""
    a, b = np.linspace(0.0, 1.0, 5) * x, np.zeros(5)
    m = np.outer(np.arange(3.0), np.ones(3)) * 0.2 + x * 0.1
    n, k, t, y = 3, 0, 0, 0.5 * x
    while (k % 2 == 0) and t < 4:
        t, k = t + 1, k + 1
        a[(k + n) % 5] = np.tanh(y)
        if k % 2 != 0:
            x = np.tanh(0.36 + x)
        a[3] += np.tanh(-0.91 * x)
    for k in range(2):
        t = 0
        while (a[1] < y) and t < 4:
            k, t = k + 1, t + 1
            b[n % 5] = a[(n * (n + (n * k))) % 5]
    else:
        v = m[1]
        v[0] += np.sin((np.arctan(y) - y) + (-0.04 - a[k % 5]))
    return np.sum(a * np.arange(5)) + y + np.sum(b) + np.sum(m * m)


def read_before_a_loop(x):
    """A constant array, changed in a loop, is beside a choice that is made once."""
    a, b, c = np.linspace(0.0, 1.0, 5) * x, np.zeros(5), np.arange(5)
    k, t, y = 0, 0, 0.5 * x
    while (np.sin(a[int(abs(np.sin(np.max(a) + y)) * 2) % 5]) < np.arctan(y)) and t < 4:
        t, k = t + 1, k + 1
        c[k % 5] = k % 7
    a[1:4] = 0.5
    b[k % 5] = a[3]
    return np.sum(a * np.arange(5)) + y + np.sum(b) + np.sum(c)


def test_values_and_gradients():
    for f in (chosen_by_a_counter, read_before_a_loop):
        compiled = wg.jit(f)
        for x in (0.2, 0.9, -0.7):
            np.testing.assert_allclose(compiled(x), f(x), rtol=1e-12)
        compiled = wg.jit(wg.grad(f))
        for x in (0.2, 0.9, -0.7, 1.6, 0.05):
            np.testing.assert_allclose(compiled(x), wg.grad(f)(x), rtol=1e-12)
