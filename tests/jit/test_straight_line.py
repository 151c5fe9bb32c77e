"""Programs of many small operations: what is compiled grows as they do, and in pieces."""

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert.graph import reachable
from wengert.loops import Nest, roots_of, walk
from wengert.machine import policy
from wengert.passes import optimise
from wengert.schedule import schedule
from wengert.trace.tracer import Trace
from wengert.types import type_of


def _pairs(n):
    def f(x):
        total = 0.0
        for i in range(n):
            total = total + x[i] * x[n - 1 - i]
        return total

    return f, (np.linspace(-1.0, 2.0, n),)


def _tridiagonal(n):
    """A tridiagonal system solved by elimination, element by element."""

    def f(a, b, c, d):
        upper, right, x = wnp.zeros(n), wnp.zeros(n), wnp.zeros(n)
        upper[0], right[0] = c[0] / b[0], d[0] / b[0]
        for i in range(1, n):
            pivot = b[i] - a[i] * upper[i - 1]
            upper[i] = c[i] / pivot
            right[i] = (d[i] - a[i] * right[i - 1]) / pivot
        x[n - 1] = right[n - 1]
        for i in range(n - 2, -1, -1):
            x[i] = right[i] - upper[i] * x[i + 1]
        return wnp.sum(x * x)

    rng = np.random.default_rng(0)
    return f, (rng.normal(size=n), 4 + rng.uniform(size=n), rng.normal(size=n), np.ones(n))


def _steps(n):
    def f(x):
        y = x
        for i in range(n):
            y = wnp.where(y > 0.1 * i / n, y * y * 0.5 + x, wnp.sin(y) - x)
        return wnp.sum(y)

    return f, (np.array([0.1, -0.4, 0.3]),)


def _minor(rows, columns):
    if len(columns) == 1:
        return rows[0][columns[0]]
    total = 0.0
    for k, column in enumerate(columns):
        term = rows[0][column] * _minor(rows[1:], columns[:k] + columns[k + 1 :])
        total = total - term if k % 2 else total + term
    return total


def _determinant(a):
    rows = [[a[i, j] for j in range(a.shape[1])] for i in range(a.shape[0])]
    return _minor(rows, tuple(range(len(rows))))


PROGRAMS = {"pairs": _pairs, "tridiagonal": _tridiagonal, "steps": _steps}


def _gradient(f, args):
    return wg.value_and_grad(f, argnums=tuple(range(len(args))))


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("n", [3, 40])
def test_compiled_as_evaluated(name, n):
    f, args = PROGRAMS[name](n)
    value, gradients = wg.jit(_gradient(f, args))(*args)
    expected, slopes = _gradient(f, args)(*args)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    for gradient, slope in zip(gradients, slopes, strict=True):
        np.testing.assert_allclose(gradient, slope, rtol=1e-9, atol=1e-12)


def test_a_tridiagonal_system_is_solved():
    f, (a, b, c, d) = _tridiagonal(30)
    matrix = np.diag(b) + np.diag(a[1:], -1) + np.diag(c[:-1], 1)
    np.testing.assert_allclose(wg.jit(f)(a, b, c, d), np.sum(np.linalg.solve(matrix, d) ** 2))


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_operation_is_computed_about_once_and_in_pieces(name):
    f, args = PROGRAMS[name](150)
    graph = optimise(wg.trace(_gradient(f, args), *args))
    loops = schedule(graph)
    values = [len(walk(roots_of(k.stores))) for k in loops.kernels if isinstance(k, Nest)]
    limits = policy().fusion
    assert max(values) < limits.most_values + 2 * limits.most_inlined
    # loads and literals beside the operations
    assert sum(values) < 3 * len(graph.operators)


def test_the_determinant_by_cofactors():
    a = np.random.default_rng(1).normal(size=(6, 6))
    value, gradient = wg.jit(wg.value_and_grad(_determinant))(a)
    np.testing.assert_allclose(value, np.linalg.det(a), rtol=1e-10)
    np.testing.assert_allclose(gradient, value * np.linalg.inv(a).T, rtol=1e-9)
    batch = np.stack([a, a.T, 2 * a])
    mapped = wg.jit(wg.vmap(wg.grad(_determinant)))(batch)
    np.testing.assert_allclose(mapped[0], gradient, rtol=1e-12)


@pytest.mark.parametrize("shares", [True, False])
def test_what_is_computed_again_is_traced_once(shares):
    a = np.zeros((5, 5))
    with Trace(lazy=True, shares=shares) as trace:
        value, gradient = wg.value_and_grad(_determinant)(trace.variable(array_type=type_of(a)))
    count = len(reachable([value.node, gradient.node]))
    assert count < 600 if shares else count > 1200


def test_zeros_of_two_signs_are_two_numbers():
    f = wg.jit(lambda x: (1.0 / (x * 0.0), 1.0 / (x * -0.0), x + 1, x + 1.0, x + True))
    with np.errstate(divide="ignore"):
        results = f(np.float64(2.0))
    assert results == (np.inf, -np.inf, 3.0, 3.0, 3.0)
