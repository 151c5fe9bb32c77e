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
    "spence": lambda z: mp.polylog(2, 1 - z),
    "ndtr": lambda z: mp.erfc(-z / mp.sqrt(2)) / 2,
    "zeta": mp.zeta,
}
# Of each Bessel function an order, which may be negative or between whole ones.
BESSEL = {
    "jv": (mp.besselj, (0, -3, 12)),
    "yv": (mp.bessely, (0, -3)),
    "iv": (mp.besseli, (5, 2.7)),
    "ive": (lambda v, z: mp.besseli(v, z) * mp.exp(-abs(z.real)), (1,)),
}


def disc(radius, count):
    """Numbers around 0, some of them beside the axes, where functions are cut or have poles."""
    z = radius * np.sqrt(RNG.random(count)) * np.exp(2j * np.pi * RNG.random(count))
    beside = z.real[:4] + 1e-3j * RNG.normal(size=4)
    return np.concatenate([z, beside, 1j * beside])


def worst(got, exact, points, least=0.0, neighbour=None):
    """The largest error, as a part of the number but of no less than `least`.

    Nor of less than a small part of a neighbour, another function that is of the size of this one
    but where this one has its zeros: there no sum of its terms has more digits.
    """
    with mp.workdps(40):
        numbers = [mp.mpc(complex(z)) for z in points]
        wanted = [exact(z) for z in numbers]
        differences = [abs(mp.mpc(complex(g)) - w) for g, w in zip(got, wanted, strict=True)]
        sizes = [max(abs(w), least) for w in wanted]
        if neighbour is not None:
            sizes = [max(s, abs(neighbour(z)) / 64) for s, z in zip(sizes, numbers, strict=True)]
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


@pytest.mark.parametrize("name", BESSEL)
def test_bessel(name):
    """Near 0, where recurrences meet series, where these meet asymptotic ones, and far out."""
    exact, orders = BESSEL[name]
    points = np.concatenate([disc(radius, 4) for radius in (1e-3, 1, 6, 30, 600)])
    for order in orders:
        got = getattr(wsp.special, name)(order, points)
        one, other = (lambda z, v=v: exact(v, z) for v in (order, order + 1))
        assert worst(got, one, points, 1e-250, other) <= 1e-13, order
    if name == "jv":  # others are compiled by the tests of the registry
        compiled = wg.jit(lambda z: wsp.special.jv(12, z))(points)
        one, other = (lambda z, v=v: mp.besselj(v, z) for v in (12, 13))
        assert worst(compiled, one, points, 1e-250, other) <= 1e-13


def test_derivatives_of_bessel_functions():
    """Bessel's equation, which takes the second derivative."""
    z = np.array([0.7 + 0.4j, -9.3 - 0.6j, 3 + 40j])
    along = lambda f: lambda z: wg.jvp(f, (z,), (np.ones_like(z),))[1]
    for name, order, sign in (("jv", 0, 1), ("jv", 3, 1), ("yv", 1, 1), ("iv", 0.5, -1)):
        value = lambda z, name=name, order=order: getattr(wsp.special, name)(order, z)
        first, second = along(value), along(along(value))
        rest = z * z * second(z) + z * first(z) + (sign * z * z - order**2) * value(z)
        np.testing.assert_allclose(rest / np.abs(z * z * value(z)), 0, atol=1e-13)


def test_bessel_refuses_large_orders_of_complex_numbers():
    with pytest.raises(wg.errors.DTypeError, match=r"the order 31 for complex.*from 0 to 30"):
        wsp.special.jv(31, 1j)
    with pytest.raises(wg.errors.DTypeError, match=r"the order -0.5 for complex.*from 0 to 30"):
        wsp.special.iv(-0.5, 1j)
    assert wsp.special.yv(0, 0j).real == -np.inf and wsp.special.jv(2, 0j) == 0


def test_log_ndtr():
    points = np.concatenate([disc(radius, 16) for radius in (1, 6, 25)])
    exact = lambda z: mp.log(mp.erfc(-z / mp.sqrt(2)) / 2)
    points = points[points.real < 9]  # beyond mpmath's own digits end
    assert worst(wsp.special.log_ndtr(points), exact, points) <= 1e-13
    z = np.array([-30 + 1j, 0.5 + 2j])
    slope = wg.jvp(scipy.special.log_ndtr, (z,), (np.ones_like(z),))[1]
    step = 1e-6 * np.exp(0.7j)
    ufunc = scipy.special.log_ndtr
    np.testing.assert_allclose(slope, (ufunc(z + step) - ufunc(z - step)) / (2 * step), rtol=1e-8)


def test_products_with_logarithms():
    x, y = np.array([0, 0, 1 + 2j]), np.array([0, 2 + 1j, -1 + 0.5j])
    np.testing.assert_allclose(wsp.special.xlogy(x, y), scipy.special.xlogy(x, y), rtol=1e-15)
    np.testing.assert_allclose(
        wsp.special.xlog1py(x, 1e-9 * y), scipy.special.xlog1py(x, 1e-9 * y), rtol=1e-15
    )
    slope = wg.jvp(wsp.special.xlogy, (x, y), (np.ones_like(x), np.zeros_like(x)))[1]
    np.testing.assert_allclose(slope, [0, *np.log(y[1:])], rtol=1e-15)


def test_zeta_far_from_the_axis():
    assert np.isnan(wsp.special.zeta(0.5 + 101j))
    z = np.array([0.5 + 14j, -3.2 + 1j])
    slope = wg.jvp(wsp.special.zeta, (z,), (np.ones_like(z),))[1]
    assert worst(slope, lambda s: mp.zeta(s, 1, 1), z) <= 1e-13


@pytest.mark.parametrize("name", [name for name in EXACT if name != "zeta"])
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


def test_lambertw_stays_on_the_main_branch():
    """There w is right of the curve -y / tan(y) + iy, on which the branches meet."""
    for radius in (0.3, 0.7, 1.0, 2.0, 30.0):
        points = disc(radius, 3000) - np.exp(-1)
        w = wsp.special.lambertw(points)
        np.testing.assert_allclose(w * np.exp(w), points, rtol=1e-13, atol=1e-14)
        assert (np.abs(w.imag) <= np.pi).all()
        assert (w.real > -w.imag / np.tan(w.imag) - 1e-6).all()
