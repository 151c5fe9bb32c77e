"""``x.flat`` of traced arrays: reads and writes as NumPy's."""

import numpy as np
import pytest

import wengert as wg

X = np.array([[0.3, 0.5], [-0.2, 1.1]])


def written(x):
    y = x * 1.0
    y.flat[0] = x[1, 1] * 2
    y.flat[1::2] *= x[0]
    y.T.flat[1] = x[0, 1] ** 2  # the elements in the order of the transposed array
    return y


def read(x):
    kept = x.flat[1:3]
    y = x * 2.0
    values = y.flat[[0, 3]]
    y.flat = 0.5
    return kept * values + sum(y.flat) * x.flat[-1] + len(y.flat)


@pytest.mark.parametrize("f", [written, read])
def test_as_numpy_has_it(f):
    for run in (lambda x: wg.vjp(f, x)[0], wg.jit(f)):
        np.testing.assert_allclose(run(X), f(X), rtol=1e-14)
    wg.check_grads(lambda x: np.sum(np.sin(f(x))), (X,), order=2)


def test_what_it_is():
    def f(x):
        flat = np.floor(x).flat
        assert np.asarray(flat).tolist() == [0.0, 0.0, -1.0, 1.0]
        return np.sum(flat.copy() * x.flatten())

    np.testing.assert_array_equal(wg.grad(f)(X), np.floor(X))
