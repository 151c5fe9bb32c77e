"""Small arrays of many samples, written out as numbers: the same results without kernels."""

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert.ops.contract import contract
from wengert.passes import optimise
from wengert.passes.small_arrays import write_out_small

RNG = np.random.default_rng(0)


def _rotated(w, x):
    """A point turned about an axis, by the formula of Rodrigues."""
    angle = wnp.sqrt(wnp.dot(w, w) + 1e-9)
    axis = w / angle
    along = axis * (wnp.dot(axis, x) * (1.0 - wnp.cos(angle)))
    return x * wnp.cos(angle) + wnp.cross(axis, x) * wnp.sin(angle) + along


def _projected(w, x):
    p = _rotated(w, x)
    return p[:2] / (p[2] + 5.0) * (1.0 + wnp.sum(p[:2] ** 2))


def _matrices(a, b):
    return wnp.trace(a @ b.T @ a) + wnp.sum((a @ b[:, 0]) ** 2)


def _states(a, b):
    y = wnp.concatenate([a[1:], a[:1]]) * wnp.array([1.0, 2.0, -0.5]) + b[::-1]
    return wnp.where(y > 0.0, y, 0.1 * y) @ wnp.arange(9.0).reshape(3, 3)


CASES = {
    "rotated": (_rotated, (3,), (3,)),
    "projected": (_projected, (3,), (3,)),
    "matrices": (_matrices, (3, 3), (3, 3)),
    "states": (_states, (3,), (3,)),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", CASES)
def test_mapped_functions(name, dtype):
    f, *shapes = CASES[name]
    args = [RNG.normal(size=(70, *shape)).astype(dtype) for shape in shapes]
    both = wg.vmap(lambda x, y: (f(x, y), wg.jacobian(f, argnums=(0, 1))(x, y)))
    value, slopes = wg.jit(both)(*args)
    expected, expected_slopes = both(*args)
    tolerance = 1e-11 if dtype is np.float64 else 2e-4
    for found, wanted in zip((value, *slopes), (expected, *expected_slopes), strict=True):
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ["rotated", "projected", "matrices"])
def test_no_product_is_left(name):
    f, *shapes = CASES[name]
    args = [RNG.normal(size=(70, *shape)) for shape in shapes]
    gradient = wg.vmap(wg.grad(lambda x, y: wnp.sum(f(x, y))))
    graph = optimise(wg.trace(gradient, *args))
    assert not [node for node in graph.operators if node.op is contract]


def _unchanged(f, *args):
    graph = wg.trace(f, *args)
    assert write_out_small(graph) is graph


def test_what_a_network_computes_stays():
    w = RNG.normal(size=(8, 5))

    def loss(w, x):
        y = wnp.tanh(x @ w)
        return wnp.sum(y[:, 0] * y[:, 1] - y[:, 2] * y[:, 3] + y[:, 4])

    _unchanged(wg.grad(loss), w, RNG.normal(size=(100, 8)))


def test_few_samples_and_large_arrays_stay():
    dots = wg.vmap(lambda x: wnp.dot(x, x) * x)
    _unchanged(dots, RNG.normal(size=(8, 3)))
    _unchanged(dots, RNG.normal(size=(100, 50)))


def test_not_a_number_stays_one():
    dots = wg.vmap(lambda x, y: wnp.dot(x, y) * x)
    x = RNG.normal(size=(70, 3))
    y = x.copy()
    x[3, 1], y[3, 1], x[5, 0] = 0.0, np.inf, np.nan
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(wg.jit(dots)(x, y), dots(x, y))


def test_a_number_that_written_out_values_read_stays_a_number():
    """It is also a result, and was put together as if it were one for each sample."""

    def clipped(x):
        top = x.reshape(-1)[np.argmax(x)]
        return np.maximum(np.convolve(x, [1.0, 0.5]), top), top

    x = np.random.default_rng(0).normal(size=65)
    for got, expected in zip(wg.jit(clipped)(x), clipped(x), strict=True):
        np.testing.assert_allclose(got, expected)
