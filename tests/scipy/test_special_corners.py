"""Special functions where they are delicate: beside poles, far out, of the smallest numbers.

Against mpmath, evaluated and compiled, within 1e-13.
"""

import mpmath as mp
import numpy as np
import pytest

import wengert as wg
import wengert.scipy as wsp

special = wsp.special


def below(a, x):
    return mp.gammainc(a, 0, x, regularized=True)


def above(a, x):
    return mp.gammainc(a, x, regularized=True)


def part(a, b, x):
    return mp.betainc(a, b, 0, x, regularized=True)


def relative_entropy(x, y):
    return x * mp.log(x / y)


SMALLEST = 5e-324
BESIDE = [n + s for n in (-171, -170, -3, -1) for s in (1e-12, -1e-12)]
CASES = {
    "gamma": (mp.gamma, [-SMALLEST * 2**60, -1e-300, *BESIDE, -170.5, 171.6]),
    "rgamma": (mp.rgamma, [1e-300, -1e-300, *BESIDE, -0.3, 0.0, -2.0, 170.9]),
    "gammaln": (lambda x: mp.log(abs(mp.gamma(x))), [-SMALLEST, SMALLEST, -0.3, -0.7, -170.2]),
    "digamma": (mp.digamma, [-1e-300, 1e-300, -0.2, *BESIDE]),
    "zeta": (mp.zeta, [-170.6, -171.0, -172.0, -255.3, -257.0]),
    "rel_entr": (relative_entropy, [(1e-300, 1e200), (1e200, 1e-300), (1e-308, 1e-5)]),
    "comb": (mp.binomial, [(1029.0, 514.0), (804.0, 439.0), (971.0, 291.0), (1e9, 10.0)]),
    "binom": (
        mp.binomial,
        [
            (1e8, -21.052993521302156), (-4.737158442550584, 75.59585983131838), (29.9, 96.2),
            (-0.5, 3.0), (-2.5, -7.25), (-7.25, -2.5), (3.5, -1.25), (-3.5, 6.0), (5.0, -2.0),
            (1029.0, 514.0), (0.3, 0.7), (-0.75, -0.5),
        ],
    ),
    "poch": (mp.rf, [(0.023979588523193793, 172.0), (1e-100, 200.0), (3.0, 150.0), (1e-9, 0.5)]),
    "gammainc": (
        below,
        [
            (170.0, 2.5), (32.0, 2.4244485544766194e-08), (10.0, 1e50), (300.0, 91070.5),
            (0.5, SMALLEST), (1e-3, 1e-300), (25.6, 1e-8), (590.0, 200.0), (0.3, 1e-310),
        ],
    ),
    "gammaincc": (above, [(34.85357506771523, 710.0), (10.0, 1e5), (590.0, 1300.0), (0.3, 30.0)]),
    "betainc": (
        part,
        [
            (0.0018886744156483024, 2.423822369209481, 3.2841424947157274e-283),
            (0.3, 800.0, 1e-300), (0.3, 800.0, 1e-20), (100.0, 200.0, 0.001), (0.5, 0.7, 1e-9),
            (30.0, 0.4, 1e-8), (400.0, 500.0, 0.1), (1.5, 1e4, 1e-7),
        ],
    ),
    "iv": (
        mp.besseli,
        [
            (150, 700.0), (150, 1.1501066423565547), (20.3, 709.0), (99.5, 1.2675867710906865),
            (300, 27.688890985793194), (590.5, 200.0), (15, 1e-10), (16, 1e-300),
        ],
    ),
    "ive": (
        lambda v, x: mp.besseli(v, x) * mp.exp(-x),
        [(150, 2.6389535200047662), (300, 27.3), (590, 300.0), (20, 1e4)],
    ),
}  # fmt: skip
FIRST_IS_NO_ARRAY = {"iv", "ive"}


def values(name, points):
    """The function at all points, evaluated and compiled."""
    function = getattr(special, name)
    if name in FIRST_IS_NO_ARRAY:
        pairs = [(lambda x, n=n: function(n, x), x) for n, x in points]
        return [[f(x) for f, x in pairs], [wg.jit(f)(x) for f, x in pairs]]
    columns = [np.array(column, float) for column in zip(*points, strict=True)]
    return [function(*columns), wg.jit(function)(*columns)]


@pytest.mark.parametrize("name", CASES)
def test_against_mpmath(name):
    exact, points = CASES[name]
    points = [point if isinstance(point, tuple) else (point,) for point in points]
    with mp.workdps(60):
        wanted = [mp.re(exact(*[mp.mpf(float(x)) for x in point])) for point in points]
        for got in values(name, points):
            for value, want, point in zip(got, wanted, points, strict=True):
                if abs(want) < 1e-307:
                    assert abs(value) < 1e-307, point
                else:
                    assert abs(mp.mpf(float(value)) - want) <= 1e-13 * abs(want), (point, value)


def test_polygamma_far_out_and_beside_zero():
    for n in (1, 2, 3):
        for x in (1e100, 1e200) if n == 1 else (1e90,):
            with mp.workdps(40):
                want = float((-1) ** (n + 1) * mp.factorial(n - 1) / mp.mpf(x) ** n)
            for f in (special.polygamma, wg.jit(special.polygamma, static_argnames=("n",))):
                np.testing.assert_allclose(f(n, x), want, rtol=1e-13)
    assert special.polygamma(1, -SMALLEST) == special.polygamma(1, SMALLEST) == np.inf
    assert special.digamma(-SMALLEST) == np.inf and special.digamma(SMALLEST) == -np.inf


def test_zeros_keep_the_sign_of_their_pole():
    assert special.gamma(-0.0) == -np.inf and special.gamma(0.0) == np.inf
    assert special.gamma(-SMALLEST) == -np.inf and special.gamma(SMALLEST) == np.inf
    assert np.signbit(special.rgamma(-0.0)) and not np.signbit(special.rgamma(0.0))


def test_slopes_of_rgamma_at_its_zeros():
    slope = wg.grad(special.rgamma)
    for x in (0.0, -1.0, -2.0, -3.0, 0.3, -0.3, 2.5, -2.5):
        first, second = (float(mp.diff(mp.rgamma, x, n)) for n in (1, 2))
        for f, want in ((slope, first), (wg.grad(slope), second)):
            np.testing.assert_allclose([f(x), wg.jit(f)(x)], want, rtol=1e-12)


def test_yn_of_high_order_near_zero():
    for n in (50, 200):
        for x in (1e-300, 1e-3, 1.0):
            want = special.yn(n, x)
            assert want < -1e70 and wg.jit(lambda x, n=n: special.yn(n, x))(x) == want


def test_binom_at_the_poles_of_gamma():
    for n, k in ((-3.0, 2.0), (-3.0, -5.0), (-3.0, 2.5)):
        assert np.isnan(special.binom(n, k)) and np.isnan(wg.jit(special.binom)(n, k))
