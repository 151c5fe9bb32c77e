"""Weighted means, quantiles and covariances: NumPy's results, and their derivatives."""

import numpy as np
import pytest

import wengert.numpy as wnp
from wengert.errors import ShapeError
from wengert.transforms.check import check_grads
from wengert.transforms.reverse import grad

RNG = np.random.default_rng(17)
REAL = RNG.permutation(np.linspace(-1.3, 1.6, 24)).reshape(3, 2, 4)


def assert_same(got, expected):
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    tolerance = 1e-5 if expected.dtype == np.float32 else 1e-13
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


def test_averages_differentiate():
    weights = RNG.uniform(0.5, 1.0, size=4)
    check_grads(lambda x, w: wnp.average(x, 2, w), (REAL, weights))
    check_grads(lambda x, w: wnp.average(x, weights=w), (REAL, REAL**2))


def test_medians():
    for x in (REAL, REAL.astype(np.float32), np.arange(24).reshape(3, 2, 4)):
        for axis in (None, 0, (1, 2)):
            assert_same(wnp.median(x, axis, keepdims=True), np.median(x, axis, keepdims=True))
    check_grads(lambda x: wnp.median(x, axis=2) ** 2, (REAL,))
    with pytest.warns(RuntimeWarning, match="invalid value"):
        assert np.isnan(wnp.median(np.zeros(0)))


def test_average():
    weights = RNG.uniform(0.1, 1.0, size=REAL.shape)
    assert_same(wnp.average(REAL, weights=weights), np.average(REAL, weights=weights))
    for axis in (1, (2, 0)):
        lengths = np.array(REAL.shape)[list(np.atleast_1d(axis))]
        weights = RNG.uniform(0.1, 1.0, size=lengths)
        expected = np.average(REAL, axis, weights, True)
        for got, want in zip(wnp.average(REAL, axis, weights, True), expected, strict=True):
            assert_same(got, want)
    assert_same(wnp.average([1, 2]), 1.5)
    with pytest.raises(ShapeError, match=r"got weights of shape \(5,\) for an array of shape"):
        wnp.average(REAL, 0, np.ones(5))


@pytest.mark.parametrize("q", [0.3, 0.5, 1, 0, [0.0, 0.25, 1.0], [[0.1], [0.9]]])
@pytest.mark.parametrize("axis", [None, 1, (0, 2)])
def test_quantile(q, axis):
    for x in (REAL, REAL.astype(np.float32), np.arange(24).reshape(3, 2, 4)):
        q = q if isinstance(q, (int, float)) else np.asarray(q)
        for keepdims in (False, True):
            expected = np.quantile(x, q, axis=axis, keepdims=keepdims)
            assert_same(wnp.quantile(x, q, axis=axis, keepdims=keepdims), expected)
    assert_same(wnp.percentile(REAL, 30, axis=axis), np.percentile(REAL, 30, axis=axis))


def test_quantile_says_what_it_takes():
    with pytest.raises(ShapeError, match=r"got q=1.5\. Quantiles are between 0 and 1"):
        wnp.quantile(REAL, 1.5)


def test_quantile_has_a_derivative_by_q():
    x = np.array([0.0, 1.0, 4.0, 9.0])
    assert grad(lambda q: wnp.quantile(x, q))(0.5) == pytest.approx(9.0)
    check_grads(lambda x, q: wnp.quantile(x, q), (x, np.array([0.2, 0.7])))


def test_covariances():
    x, y = RNG.normal(size=(3, 6)), RNG.normal(size=(2, 6))
    f, a = np.array([1, 2, 1, 3, 1, 1]), RNG.uniform(0.5, 1.0, 6)
    cases = [{}, {"rowvar": False}, {"bias": True}, {"fweights": f}, {"aweights": a}]
    for case in [*cases, {"fweights": f, "aweights": a}, {"ddof": 0, "aweights": a}]:
        assert_same(wnp.cov(x, **case), np.cov(x, **case))
    assert_same(wnp.cov(x, y), np.cov(x, y))
    assert_same(wnp.cov(x[0]), np.cov(x[0]))
    assert_same(wnp.cov(x[0] + 1j * x[1], x[2]), np.cov(x[0] + 1j * x[1], x[2]))
    assert_same(wnp.corrcoef(x, y), np.corrcoef(x, y))
    assert_same(wnp.corrcoef(x[0]), np.corrcoef(x[0]))
    with pytest.raises(ShapeError, match=r"cov \(at .*\): got an array of shape \(3, 2, 4\)"):
        wnp.cov(REAL)


def test_covariances_differentiate():
    x, a = RNG.normal(size=(2, 5)), RNG.uniform(0.5, 1.0, 5)
    check_grads(lambda x, a: wnp.cov(x, aweights=a), (x, a))
    check_grads(lambda x: wnp.corrcoef(x)[0, 1], (x,))
