"""Differences, interpolation and integration: NumPy's values and dtypes, and derivatives."""

import numpy as np
import pytest

import wengert.numpy as wnp
from wengert.errors import ShapeError
from wengert.transforms import check_grads, grad, vmap

RNG = np.random.default_rng(5)
X = RNG.normal(size=(4, 5))


def same(got, want):
    assert np.asarray(got).dtype == np.asarray(want).dtype
    assert np.shape(got) == np.shape(want)
    rounding = 1e-6 if np.asarray(want).dtype == np.float32 else 1e-13
    np.testing.assert_allclose(got, want, rtol=rounding, atol=rounding)


@pytest.mark.parametrize(
    "keywords",
    [{}, {"n": 2, "axis": 0}, {"n": 0}, {"prepend": 1.0}, {"append": X[:, :2], "n": 3}, {"n": 7}],
)
def test_diff(keywords):
    same(wnp.diff(X, **keywords), np.diff(X, **keywords))
    check_grads(lambda x: np.diff(x, **keywords), (X,), order=1)


def test_diff_of_other_dtypes():
    for x in (np.array([1, 4, 2]), np.array([True, False, False]), X.astype("f")):
        same(wnp.diff(x), np.diff(x))
    with pytest.raises(ValueError, match="order must be at least 0, got -1"):
        wnp.diff(X, n=-1)


def test_ediff1d():
    same(wnp.ediff1d(X), np.ediff1d(X))
    same(
        wnp.ediff1d(X, to_end=[1.0, 2.0], to_begin=0), np.ediff1d(X, to_end=[1.0, 2.0], to_begin=0)
    )
    check_grads(lambda x: np.ediff1d(x, to_begin=x[0, 0]), (X,), order=1)


@pytest.mark.parametrize("edge_order", [1, 2])
def test_gradient(edge_order):
    places = np.array([0.0, 0.5, 2.0, 2.5, 4.0])
    same(
        wnp.gradient(X[0, :3], edge_order=edge_order), np.gradient(X[0, :3], edge_order=edge_order)
    )
    for args, keywords in [
        ((), {}),
        ((0.5,), {"axis": 0}),
        ((2.0, 0.25), {}),
        ((places,), {"axis": 1}),
        ((2.0, places), {"axis": (0, 1)}),
        ((2.0, places), {"axis": (-2, -1)}),
    ]:
        got = wnp.gradient(X, *args, edge_order=edge_order, **keywords)
        want = np.gradient(X, *args, edge_order=edge_order, **keywords)
        pairs = zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]
        for g, w in pairs:
            same(g, w)
    same(wnp.gradient(X[0].astype("f")), np.gradient(X[0].astype("f")))
    same(wnp.gradient(np.array([1, 4, 9])), np.gradient(np.array([1, 4, 9])))
    check_grads(lambda x: np.gradient(x, places, axis=1, edge_order=edge_order), (X,), order=1)


def test_gradient_of_two_samples():
    same(wnp.gradient(X[0, :2]), np.gradient(X[0, :2]))
    same(wnp.gradient(X[0, :2], [0.0, 3.0]), np.gradient(X[0, :2], [0.0, 3.0]))


def test_gradient_errors():
    with pytest.raises(ShapeError, match="axis 0 has 1 elements, expected at least 2"):
        wnp.gradient(np.ones(1))
    with pytest.raises(ShapeError, match=r"coordinates of shape \(2,\) for axis 0 of length 3"):
        wnp.gradient(np.ones(3), np.ones(2))
    with pytest.raises(TypeError, match="one for each of 2 axes"):
        wnp.gradient(X, 1.0, 2.0, 3.0)


def test_trapezoid():
    places = np.sort(RNG.normal(size=5))
    same(wnp.trapezoid(X), np.trapezoid(X))
    same(wnp.trapezoid(X, dx=0.5, axis=0), np.trapezoid(X, dx=0.5, axis=0))
    same(wnp.trapezoid(X, places), np.trapezoid(X, places))
    same(wnp.trapezoid(X, X * 2, axis=0), np.trapezoid(X, X * 2, axis=0))
    same(wnp.trapezoid([1, 2, 3]), np.trapezoid([1, 2, 3]))
    check_grads(lambda y, x: np.trapezoid(y, x), (X, places))


XP, FP = np.array([0.0, 1.0, 2.5, 4.0]), np.array([1.0, -1.0, 3.0, 0.5])


def test_interp_values():
    x = np.array([-1.0, 0.0, 0.3, 1.0, 2.0, 2.5, 4.0, 5.0])
    same(wnp.interp(x, XP, FP), np.interp(x, XP, FP))
    same(wnp.interp(x, XP, FP, left=7, right=8), np.interp(x, XP, FP, left=7, right=8))
    same(wnp.interp(1.7, XP, FP), np.interp(1.7, XP, FP))
    same(wnp.interp(x, XP, FP * 1j), np.interp(x, XP, FP * 1j))
    same(wnp.interp(x, [1.0], [2.0]), np.interp(x, [1.0], [2.0]))
    same(wnp.interp(x, XP, FP, period=4.5), np.interp(x, XP, FP, period=4.5))
    with pytest.raises(ShapeError, match=r"interp.*xp of shape \(2,\) and fp of shape \(3,\)"):
        wnp.interp(x, [0.0, 1.0], [1.0, 2.0, 3.0])


def test_interp_derivatives():
    x = np.array([-1.0, 0.3, 2.0, 3.9, 5.0])
    check_grads(lambda x, xp, fp: np.interp(x, xp, fp), (x, XP, FP))
    same(grad(lambda x: np.interp(x, XP, FP))(0.3), np.float64(-2.0))
    same(grad(lambda x: np.interp(x, XP, FP))(-0.3), np.float64(0.0))
    same(vmap(lambda x: np.interp(x, XP, FP))(x), np.interp(x, XP, FP))


def test_unwrap():
    angles = np.cumsum(RNG.uniform(-4, 4, size=(2, 9)), axis=1)
    wrapped = np.angle(np.exp(1j * angles))
    same(wnp.unwrap(wrapped), np.unwrap(wrapped))
    same(wnp.unwrap(wrapped, axis=0, discont=4.0), np.unwrap(wrapped, axis=0, discont=4.0))
    whole = np.array([0, 3, 6, 2, 1, 7])
    same(wnp.unwrap(whole, period=4), np.unwrap(whole, period=4))
    same(wnp.unwrap(whole * 1.0, period=5), np.unwrap(whole * 1.0, period=5))
    check_grads(lambda x: np.unwrap(x) ** 2, (wrapped,), order=1)
    check_grads(lambda x, p: wnp.unwrap(x, period=p) ** 2, (wrapped, 6.0), order=2)
