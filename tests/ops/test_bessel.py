"""Bessel functions, exponential integrals and their kin against mpmath."""

import mpmath as mp
import numpy as np
import pytest

import wengert as wg
from wengert.ops import bessel, integrals, zeta
from wengert.ops.modified_bessel import bessel_i

RNG = np.random.default_rng(29)
POSITIVE = np.concatenate(
    [RNG.uniform(0, 8, 30), RNG.uniform(8, 100, 20), np.exp(RNG.uniform(-20, 6.3, 30))]
)
ALLOWED = 1e-14


def errors(got, exact, *points, floor=lambda *x: 0.0):
    """Relative errors; below `floor` as if the value was that large."""
    with mp.workdps(40):
        for value, point in zip(got, zip(*points, strict=True), strict=True):
            want = exact(*[mp.mpf(float(x)) for x in point])
            size = max(abs(want), floor(*point))
            yield float(abs(mp.mpf(float(value)) - want) / size)


def amplitude(x):
    """Of the waves, whose zeros no argument hits."""
    return 0.3 * min(1.0, abs(x) ** -0.5)


@pytest.mark.parametrize("n", [0, 1, 2, 5, 10, 30])
def test_bessel(n):
    first = bessel.bessel_j(POSITIVE, n)
    floor = lambda x: amplitude(x) if x > n else 0.0
    exact = lambda x: mp.besselj(n, x)
    assert max(errors(first, exact, POSITIVE, floor=floor)) <= ALLOWED
    np.testing.assert_array_equal(bessel.bessel_j(-POSITIVE, n), (-1) ** n * first)
    second = bessel.bessel_y(POSITIVE, n)
    assert max(errors(second, lambda x: mp.bessely(n, x), POSITIVE, floor=amplitude)) <= ALLOWED


def test_bessel_at_the_ends():
    ends = np.array([0.0, np.inf, np.nan, -1.0])
    np.testing.assert_array_equal(bessel.bessel_j(ends, 0)[:3], [1, 0, np.nan])
    np.testing.assert_array_equal(bessel.bessel_j(ends, 3)[:3], [0, 0, np.nan])
    for n in (0, 1, 3):
        np.testing.assert_array_equal(bessel.bessel_y(ends, n), [-np.inf, 0, np.nan, np.nan])


# of Ei
BESIDE_ROOT = 0.37250741078136665 + np.array([-0.07, -1e-3, -1e-9, -6e-17, 0.0, 6e-17, 1e-6, 0.07])
CASES = {
    "exp1": (integrals.exp1, mp.e1, POSITIVE),
    "expi left": (integrals.expi, mp.ei, -POSITIVE),
    "expi": (integrals.expi, mp.ei, np.concatenate([POSITIVE, BESIDE_ROOT])),
    "spence": (integrals.dilogarithm, lambda x: mp.re(mp.polylog(2, 1 - x)), POSITIVE),
    "zeta": (zeta.riemann, mp.zeta, np.concatenate([POSITIVE[:40], -RNG.uniform(0, 30, 20)])),
    "hurwitz": (
        lambda x: zeta.hurwitz_zeta(x, s=2.5), lambda x: mp.zeta(2.5, x), POSITIVE[:40]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_integrals(name):
    function, exact, points = CASES[name]
    assert max(errors(function(points), exact, points)) <= ALLOWED


@pytest.mark.parametrize("n", [0, 2, 3, 20])
def test_expn(n):
    got = integrals.expn(POSITIVE, n)
    assert max(errors(got, lambda x: mp.expint(n, x), POSITIVE)) <= ALLOWED


def test_binomial_coefficients():
    n = np.exp(RNG.uniform(0, 6.5, 40))
    k = n * RNG.random(40)
    assert max(errors(integrals.binomial(n, k), mp.binomial, n, k)) <= 1e-13
    n, k = -RNG.uniform(0.1, 20, 9), RNG.uniform(0, 9, 9)
    assert max(errors(integrals.binomial(n, k), mp.binomial, n, k)) <= 1e-13
    whole = integrals.binomial(np.array([5.0, 50, 1000, 5, 5]), np.array([2.0, 25, 3, 7, -1]))
    np.testing.assert_array_equal(whole, [10, 126410606437752, 166167000, 0, 0])


def near_poles():
    """Numbers near whole ones that are not positive, and any others."""
    away = 10.0 ** RNG.uniform(-9, -1, 40) * RNG.choice([-1, 1], 40)
    return -RNG.integers(0, 9, 40) + away, RNG.uniform(-6, 6, 40)


def test_binomial_coefficients_near_poles():
    """Of the first argument, and of the difference of both, which is not rounded."""
    n, k = near_poles()
    for first, second in ((n - 1, k), (k, k - n)):
        for binomial in (integrals.binomial, wg.jit(integrals.binom)):
            assert max(errors(binomial(first, second), mp.binomial, first, second)) <= 1e-13


def test_rising_factorials_near_poles():
    """Of z, and of z + m, which is not rounded."""
    exact = lambda z, m: mp.gammaprod([z + m], [z])
    z, m = near_poles()
    for first, second in ((z, m), (m, z - m)):
        for rising in (integrals.rising, wg.jit(integrals.poch)):
            assert max(errors(rising(first, second), exact, first, second)) <= 1e-13
    got = integrals.rising(np.array([-2.5, -2.0, -1e-9]), np.array([-0.5, 0.3, 1.0]))
    np.testing.assert_allclose(got, [np.inf, 0, -1e-9], rtol=1e-15)


@pytest.mark.parametrize("order", [210, 700.5, 2500])
@pytest.mark.parametrize("scaled", [False, True])
def test_modified_bessel_functions_of_large_orders(order, scaled):
    """Within what rounding x and the order changes, by the derivatives of the logarithm."""
    x = order * (RNG.uniform(1.5, 4, 12) if scaled else RNG.uniform(0.3, 1.2, 12))
    exact = lambda x: mp.besseli(order, x) * (mp.exp(-x) if scaled else 1)
    value = bessel_i(x, order, scaled)
    usual = (value > 1e-290) & (value < 1e290)
    by_x = np.sqrt(order**2 + x**2) - (x if scaled else 0)
    condition = (by_x + order * np.arcsinh(order / x))[usual]
    found = np.array(list(errors(value[usual], exact, x[usual])))
    assert usual.any() and np.all(found <= 1e-14 + 2.0**-52 * condition)


@pytest.mark.parametrize("x", [0.4, 0.995, 1.0, 1.005, 3.0])
def test_derivatives_of_spence(x):
    first = wg.grad(integrals.spence)
    with mp.workdps(40):
        exact = mp.taylor(lambda z: mp.re(mp.polylog(2, 1 - z)), mp.mpf(x), 3)
    np.testing.assert_allclose(first(x), float(exact[1]), rtol=1e-14)
    np.testing.assert_allclose(wg.grad(first)(x), 2 * float(exact[2]), rtol=1e-12)


@pytest.mark.parametrize("x", [-7.3, -4.0, -0.4, 0.0, 0.6, 2.5, 30.0])
def test_derivatives_of_zeta(x):
    """At a negative even number too, where zeta is 0."""
    first = wg.grad(zeta.riemann_zeta)
    with mp.workdps(40):
        exact = [float(mp.zeta(mp.mpf(x), 1, n)) for n in (1, 2)]
    np.testing.assert_allclose(first(x), exact[0], rtol=1e-13)
    np.testing.assert_allclose(wg.grad(first)(x), exact[1], rtol=1e-12)
