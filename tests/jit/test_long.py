"""Long programs: nothing recurses along them, and they compile in a time that grows with them."""

import sys

import numpy as np
import pytest

import wengert as wg
from wengert.schedule.node_lowerings import NodeLowerings


def recursive_filter(x):
    """A filter that feeds its output back, written as it would be in Python."""
    before, last, energy = 0.0, 0.0, 0.0
    for sample in range(len(x)):
        before, last = last, x[sample] + 0.5 * last - 0.2 * before
        energy = energy + last * last
    return energy


def filtered(x):
    """The same with all of its outputs in an array."""
    before, last, found = 0.0, 0.0, []
    for sample in range(len(x)):
        before, last = last, x[sample] + 0.5 * last - 0.2 * before
        found.append(last)
    return np.sum(np.stack(found) ** 2)


def chain(x):
    for _ in range(1500):
        x = x * 0.999 + 0.01
    return np.sum(x)


@pytest.fixture(autouse=True)
def _usual_limit():
    """A compiler that recursed would not be saved by a limit that somebody has raised."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    yield
    sys.setrecursionlimit(limit)


@pytest.mark.parametrize("x", [0.3, np.linspace(0, 1, 20)], ids=["scalar", "array"])
def test_three_thousand_operations(x):
    value, slope = wg.jit(wg.value_and_grad(chain))(x)
    expected, expected_slope = wg.value_and_grad(chain)(x)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    np.testing.assert_allclose(slope, expected_slope, rtol=1e-12)


@pytest.mark.parametrize("function", [recursive_filter, filtered])
def test_a_filter_that_feeds_back(function):
    x = np.sin(np.arange(300.0))
    value, slope = wg.jit(wg.value_and_grad(function))(x)
    expected, expected_slope = wg.value_and_grad(function)(x)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    np.testing.assert_allclose(slope, expected_slope, rtol=1e-12, atol=1e-14)


def test_windows_that_overlap():
    """Pieces that overlap in part are added up in the order in which the graph adds them."""

    def function(x):
        total = 0.0
        for start in range(60):
            total = total + np.sum(np.sin(x[start : start + 5]) * x[start + 1 : start + 6])
        return total

    x = np.linspace(-1, 2, 65)
    np.testing.assert_allclose(
        wg.jit(wg.grad(function))(x), wg.grad(function)(x), rtol=1e-12, atol=1e-14
    )


@pytest.mark.parametrize("shape", [(), (3,), (2, 5)], ids=str)
@pytest.mark.parametrize("axis", [0, -1])
def test_many_parts(shape, axis):
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=shape) for _ in range(300)]

    def function(parts):
        return np.stack([part * (k + 1) for k, part in enumerate(parts)], axis=axis)

    np.testing.assert_array_equal(wg.jit(function)(parts), function(parts))


def test_writes_through_a_view_that_are_read_transposed(monkeypatch):
    """Each turn reads what it has written by two ways: these are not gone through one by one."""
    asked = 0
    own = NodeLowerings.is_free

    def is_free(self, node):
        nonlocal asked
        asked += 1
        assert asked < 100_000
        return own(self, node)

    def turns(x):
        a = np.ones((3, 3))
        part = a[:]
        for k in range(20):
            part[...] = np.tanh(part + a.T)
            part[(k + 1) % 3] *= x
        return a

    monkeypatch.setattr(NodeLowerings, "is_free", is_free)
    x = np.array([0.3, -0.7, 1.2])
    np.testing.assert_allclose(wg.jit(turns)(x), turns(x), rtol=1e-12)
    assert asked
