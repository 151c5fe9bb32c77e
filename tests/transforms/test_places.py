"""Cotangents of reads at fixed places: collected by place, put together once."""

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert.graph import Operator

RNG = np.random.default_rng(0)


def _pairs(x):
    total = 0.0
    for i in range(x.shape[0]):
        total = total + x[i] * x[x.shape[0] - 1 - i]
    return total


def _some(x):
    return x[2] * x[5] + wnp.sin(x[5]) + wnp.sum(x**2) * x[-1]


def _rows(x):
    return wnp.sum(x[0] * x[2]) + wnp.sum(x[2]) ** 2 + x[1, 1] * x[0, 2]


def _columns(x):
    return wnp.sum(x[:, 0] * x[:, 2]) + wnp.sum(x[:, 2, None] * x[0, None])


def _slices(x):
    return wnp.sum(x[1:] * x[:-1]) + x[0] * x[3] + wnp.sum(x[::2]) * x[3]


def _middle(x):
    return wnp.sum(x[:, 1] * x[:, 0]) + wnp.sum(x[1, :, 0] * x[0, :, 1]) + x[1, 0, 1] * x[0, 1, 0]


CASES = {
    "pairs": (_pairs, (9,)),
    "some": (_some, (7,)),
    "one": (lambda x: x[3] ** 2, (6,)),
    "rows": (_rows, (3, 4)),
    "columns": (_columns, (3, 3)),
    "slices": (_slices, (6,)),
    "middle": (_middle, (2, 3, 2)),
}


@pytest.mark.parametrize("name", CASES)
def test_gradients(name):
    f, shape = CASES[name]
    x = RNG.normal(size=shape)
    wg.check_grads(f, (x,), order=2)
    gradient = wg.grad(f)(x)
    assert gradient.shape == shape
    np.testing.assert_allclose(wg.jit(wg.grad(f))(x), gradient, rtol=1e-13, atol=1e-15)
    by_forward = wg.jacobian(f, mode="forward")(x)
    np.testing.assert_allclose(gradient, by_forward, rtol=1e-13, atol=1e-15)
    both = wg.vmap(wg.grad(f))(np.stack([x, 2 * x]))
    np.testing.assert_allclose(both[0], gradient, rtol=1e-13, atol=1e-15)


def test_results_are_the_callers_own():
    x = np.arange(3.0)
    gradient = wg.grad(lambda x: x[0] + x[1] + x[2])(x)
    gradient += 1.0
    np.testing.assert_array_equal(gradient, [2.0, 2.0, 2.0])


def test_dtypes_stay():
    x = np.arange(4, dtype=np.float32)
    assert wg.grad(lambda x: x[0] * x[1] + wnp.sum(x))(x).dtype == np.float32
    z = np.array([1.0 + 2.0j, 3.0j])
    gradient = wg.grad(lambda z: wnp.real(z[0] * z[1]) + wnp.abs(z[0]))(z)
    assert gradient.dtype == np.complex128


def _operations(n):
    graph = wg.trace(wg.grad(_pairs), np.arange(float(n)))
    return sum(isinstance(node, Operator) for node in graph.nodes)


def test_a_gradient_has_as_many_operations_as_its_function():
    few, many = _operations(20), _operations(80)
    assert many < 4.2 * few
    graph = wg.trace(wg.grad(_pairs), np.arange(80.0))
    large = [node for node in graph.nodes if isinstance(node, Operator) and node.type.size > 1]
    assert len(large) <= 3
