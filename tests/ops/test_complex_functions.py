"""Special functions of complex numbers against mpmath, compiled and derived."""

import mpmath as mp
import numpy as np
import pytest
import scipy.special

import wengert as wg
import wengert.scipy as wsp

RNG = np.random.default_rng(41)
EXACT = {
    "erf": mp.erf,
    "erfc": mp.erfc,
    "erfcx": lambda z: mp.exp(z * z) * mp.erfc(z),
    "gamma": mp.gamma,
    "rgamma": mp.rgamma,
    "loggamma": mp.loggamma,
    "digamma": mp.digamma,
    "exp1": mp.e1,
    "expi": mp.ei,
}


def disc(radius, count):
    """Numbers around 0, some of them beside the axes, where functions are cut or have poles."""
    z = radius * np.sqrt(RNG.random(count)) * np.exp(2j * np.pi * RNG.random(count))
    beside = z.real[:4] + 1e-3j * RNG.normal(size=4)
    return np.concatenate([z, beside, 1j * beside])


def worst(got, exact, points, least=0.0):
    """The largest error, as a part of the number but of no less than `least`."""
    with mp.workdps(40):
        wanted = [exact(mp.mpc(complex(z))) for z in points]
        differences = [abs(mp.mpc(complex(g)) - w) for g, w in zip(got, wanted, strict=True)]
        sizes = [max(abs(w), least) for w in wanted]
        return max(float(d / s) for d, s in zip(differences, sizes, strict=True) if s < 1e300)


@pytest.mark.parametrize("name", EXACT)
def test_accuracy(name):
    points = np.concatenate([disc(radius, 16) for radius in (1, 5, 25)])
    least = 1.0 if name == "digamma" else 1e-250  # digamma has zeros
    function = getattr(wsp.special, name)
    assert worst(function(points), EXACT[name], points, least) <= 1e-13
    compiled = wg.jit(function)(points)
    assert worst(compiled, EXACT[name], points, least) <= 1e-13


def test_polygamma():
    points = np.concatenate([disc(radius, 8) for radius in (1, 25)])
    for n in (1, 3):
        exact = lambda z, n=n: mp.psi(n, z)
        assert worst(wsp.special.polygamma(n, points), exact, points) <= 1e-13


@pytest.mark.parametrize("name", EXACT)
def test_scipys_own_ufunc_and_derivatives(name):
    """A step along any direction of the plane shows the one derivative."""
    z = np.array([0.7 + 0.4j, -1.3 - 0.6j])
    step = 1e-6 * np.exp(0.7j)
    ufunc = getattr(scipy.special, name)
    value, slope = wg.jvp(ufunc, (z,), (np.ones(2, complex),))
    np.testing.assert_allclose(value, ufunc(z), rtol=1e-13)
    difference = (ufunc(z + step) - ufunc(z - step)) / (2 * step)
    np.testing.assert_allclose(slope, difference, rtol=1e-8)


def test_poles_and_dtypes():
    assert wsp.special.rgamma(-3.0 + 0j) == 0
    narrow = np.array([0.5 + 0.5j], np.complex64)
    assert wsp.special.erf(narrow).dtype == np.complex64
    with pytest.raises(wg.errors.DTypeError, match=r"gammaln.*is not defined for c128"):
        wsp.special.gammaln(1j)


@pytest.mark.parametrize("k", [-2, -1, 0, 1])
def test_lambertw(k):
    points = np.concatenate([disc(radius, 12) for radius in (0.3, 2, 50)])
    points = np.concatenate([points, [-0.2, -0.36, 1e-9, 3.0, 1e6]])
    exact = lambda z: mp.lambertw(z, k)
    function = lambda z: wsp.special.lambertw(z, k)
    away = np.abs(points + np.exp(-1)) > 1e-3  # where branches meet, rounding z shows
    points = points[away]
    assert worst(function(points), exact, points) <= 1e-13
    if k == 0:
        assert worst(wg.jit(function)(points), exact, points) <= 1e-13
    slope = wg.jvp(function, (points,), (np.ones_like(points),))[1]
    w = function(points)
    np.testing.assert_allclose(slope, w / (points * (1 + w)), rtol=1e-11)


def test_lambertw_at_the_ends():
    assert wsp.special.lambertw(0.0) == 0 and wsp.special.lambertw(0.0, -1) == -np.inf
    assert wsp.special.lambertw(np.inf) == np.inf
    np.testing.assert_allclose(wsp.special.lambertw(-np.exp(-1)), -1, atol=1e-7)
    assert np.isrealobj(wsp.special.lambertw(2.0).real)
