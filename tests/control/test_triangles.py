"""Loops inside of loops, with slices whose bounds the inner one tells: ``L[i, :j] @ L[j, :j]``."""

import time

import numpy as np
import pytest

import wengert as wg

N = 14
A = np.random.default_rng(0).standard_normal((N, N))
SPD = A @ A.T + N * np.eye(N)


def cholesky(a):
    n = len(a)
    low = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            s = a[i, j] - low[i, :j] @ low[j, :j]
            low[i, j] = np.sqrt(s) if i == j else s / low[j, j]
    return low


def cholesky_by_sums(a):
    n = len(a)
    low = np.zeros((n, n))
    for j in range(n):
        low[j, j] = np.sqrt(a[j, j] - np.sum(low[j, :j] ** 2))
        for i in range(j + 1, n):
            low[i, j] = (a[i, j] - np.sum(low[i, :j] * low[j, :j])) / low[j, j]
    return low


def doolittle(a):
    n = len(a)
    low, up = np.eye(n), np.zeros((n, n))
    for i in range(n):
        for j in range(i, n):
            up[i, j] = a[i, j] - np.dot(low[i, :i], up[:i, j])
        for j in range(i + 1, n):
            low[j, i] = (a[j, i] - np.dot(low[j, :i], up[:i, i])) / up[i, i]
    return low @ np.tril(up.T)


def longest_tails(a):
    n = len(a)
    found = np.zeros(n)
    for i in range(n):
        for j in range(i):
            found[i] = found[i] + np.max(a[i, j:]) * np.min(a[j, : j + 1]) - np.mean(a[j:, i])
    return found


def windows(a):
    n = len(a)
    total = 0.0
    for i in range(n):
        for j in range(i, n):
            for k in range(j - i):
                total = total + np.sum(a[k, i:j]) * a[i, k]
    return total


def from_the_end(a):
    n = len(a)
    x = np.zeros((n, n))
    for k in range(n):
        for i in range(n - 1 - k, -1, -1):
            x[i, k] = (a[i, k] - a[i, i + 1 : n - k] @ x[i + 1 : n - k, k]) / a[i, i]
    return x


@pytest.mark.parametrize(
    "function",
    [cholesky, cholesky_by_sums, doolittle, longest_tails, windows, from_the_end],
    ids=lambda f: f.__name__,
)
class TestTriangles:
    def test_values(self, function):
        np.testing.assert_allclose(wg.jit(function)(SPD), function(SPD), rtol=1e-11, atol=1e-12)

    def test_gradients(self, function):
        weights = np.cos(np.arange(np.size(function(SPD)))).reshape(np.shape(function(SPD)))
        gradient = wg.grad(lambda a: np.sum(function(a) * weights))
        np.testing.assert_allclose(wg.jit(gradient)(SPD), gradient(SPD), rtol=1e-9, atol=1e-11)

    def test_batches(self, function):
        batch = np.stack([SPD, SPD + np.eye(N), 2 * SPD])
        found = wg.jit(wg.vmap(function))(batch)
        np.testing.assert_allclose(found, [function(a) for a in batch], rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("function", [cholesky, cholesky_by_sums, doolittle, longest_tails])
def test_bounds_that_one_loop_tells_leave_loops_what_they_are(function):
    """Those that two loops tell together, as in the other functions, are written out."""
    compiled = wg.jit(function)
    sizes = [str(compiled.explain(SPD[:n, :n]).graph).count("\n") for n in (N, N - 2)]
    assert sizes[0] == sizes[1]


def test_a_cholesky_factor_by_rows_compiles_quickly():
    start = time.process_time()
    gradient = wg.grad(lambda a: np.sum(np.log(np.diag(cholesky(a)))))
    large = np.kron(np.eye(5), SPD)
    found = wg.jit(gradient)(large)
    assert time.process_time() - start < 5.0  # 0.3 s alone; 10 s if it were written out
    wanted = wg.grad(lambda a: np.sum(np.log(np.diag(np.linalg.cholesky(a)))))(large)
    np.testing.assert_allclose(found + found.T, wanted + wanted.T, rtol=1e-9, atol=1e-12)
