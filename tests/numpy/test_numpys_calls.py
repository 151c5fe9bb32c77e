"""Calls that NumPy's own tests make, which once gave another answer on traced values."""

import numpy as np
import pytest

import wengert as wg


@pytest.mark.parametrize("run", [wg.jit, lambda f: lambda *args: wg.vjp(f, *args)[0]])
@pytest.mark.parametrize(
    "function, array",
    [
        (lambda x: np.isclose(x, 0.9999999999999998, rtol=0, atol=0), np.float32(1.0)),
        (lambda x: np.isclose(x, 2, rtol=0.4999999999999999, atol=0), np.float32(1.0)),
        (lambda x: np.isclose(x, np.array([2, 250], np.uint8)), np.array([2.0, 250.0])),
        (lambda x: np.linalg.cond(x, 1), np.array([[1, 2], [3, 4]], np.float32)),
        (lambda x: np.linalg.cond(x, np.inf), np.array([[1, 2], [3, 4]], np.float32)),
        (lambda x: np.fft.rfftn(x, axes=(0, 0, 1), s=(10, 20, 40)), np.ones((2, 3))),
        (lambda x: np.fft.fftn(x, axes=(1, 1), s=(7, 5)), np.arange(6.0).reshape(2, 3)),
        (lambda x: np.fft.rfftn(x, axes=(1, 0, 1)), np.arange(6.0).reshape(2, 3)),
    ],
)
def test_the_answer_is_numpys(function, array, run):
    got, want = run(function)(array), function(array)
    assert np.asarray(got).dtype == np.asarray(want).dtype
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-12)
