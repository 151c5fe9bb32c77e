"""Memory is written before it is read: programs in which some of it was not, once.

What a program reads too early is whatever was there before, often the right number or zero. So the
arena is full of NaN here, and the loops are verified as in all tests.
"""

import functools

import numpy as np
import pytest

import wengert as wg
from wengert.runtime import arena
from wengert.tree import leaves


@pytest.fixture(autouse=True)
def full_of_nan(monkeypatch):
    """Arenas that hold no number before the first call."""

    class Nan:
        empty = staticmethod(lambda n, dtype: np.full(n, 255, dtype))
        __getattr__ = staticmethod(functools.partial(getattr, np))

    monkeypatch.setattr(arena, "np", Nan())


def agree(function, x):
    """Compiled = evaluated."""
    compiled = wg.jit(function)
    for _ in range(2):
        for got, want in zip(leaves(compiled(x)), leaves(function(x)), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


def numbers(*shape):
    return np.random.default_rng(0).standard_normal(shape)


@pytest.mark.parametrize("rows", [30, 40])
def test_sums_of_one_whole_task_and_a_rest(rows):
    """Of 300 elements in tasks of 256, the one task and the rest have parts of their own."""
    agree(lambda x: np.sum(np.sin(np.sort(x, axis=0)) * x), numbers(rows, 300))


def test_a_sum_beside_other_results_of_its_loops():
    def function(x):
        t = np.linalg.solve(2 * np.eye(100), x)
        diagonal = np.sin(np.diag(np.diag(x)))
        return np.sum(np.sin(t)) + np.sum(diagonal) + np.sum(np.sin(x * t))

    agree(wg.value_and_grad(function), numbers(100, 301))


def test_a_value_that_another_value_in_a_product_reads():
    """The loops that compute `2 * x` are still there when a product computes from it."""

    def function(x):
        t = x * 2
        u = np.outer(t[0], t[:, 0])
        return np.sum(np.sin(np.outer(u[0], u[:, 0])))

    agree(wg.grad(function), numbers(100, 1))
    agree(wg.grad(function), numbers(400, 1))


@pytest.mark.parametrize("spec", ["ab,ba->", "ab,ab->", "ab,bb->"])
def test_a_product_that_only_exchanges_axes(spec):
    """Its elements are read elsewhere than where the loops are, though both are as long."""

    def loss(x):
        v = x * 0.75 + x
        return np.einsum(spec, v, v) + np.sum(np.sin(x))

    agree(wg.value_and_grad(loss), np.cos(np.arange(81.0)).reshape(9, 9))
    agree(lambda x: np.einsum("a,b->ba", x, x) * np.einsum("a,b->ab", x, x), np.arange(9.0))
