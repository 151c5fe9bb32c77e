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


def matrix_chain(a):
    n = len(a)
    cost = np.zeros((n, n))
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            both = cost[i, i:j] + cost[i + 1 : j + 1, j]
            cost[i, j] = a[i, j] + np.min(both) * 0.5
    return cost


def spreads(a):
    found = []
    for i in range(2, len(a)):
        found.append(
            np.std(a[0, :i]) * np.var(a[1, : i - 1], ddof=0.5) + a[2, i - 1 :].std(ddof=0.5)
        )
    return np.array(found)


def reflections(a):
    r, n = a.copy(), len(a)
    signs = np.zeros(n)
    for k in range(n - 1):
        v = r[k:, k].copy()
        v[0] += np.sign(v[0]) * np.linalg.norm(v)
        v[-1] = v[-1] * 0.5
        tail = r[k:, 0]
        tail[0] = v[0]
        signs[k] = v[0] + np.sum(v)
    return signs + r[:, 0]


FUNCTIONS = [
    cholesky, cholesky_by_sums, doolittle, longest_tails, windows, from_the_end, matrix_chain,
    spreads, reflections,
]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS)
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


@pytest.mark.parametrize("function", FUNCTIONS)
def test_loops_stay_what_they_are(function):
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
