"""Special functions against mpmath: a few units in the last place over their whole range."""

import mpmath as mp
import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
import wengert.scipy as wsp
from wengert.ops import approximations as approx
from wengert.ops import special as ops
from wengert.ops.modified_bessel import bessel_i

EPS = 2.0**-52
RNG = np.random.default_rng(11)


def wide(low, high, count=40):
    """Numbers spread evenly over the orders of magnitude."""
    return np.exp(RNG.uniform(np.log(low), np.log(high), count))


def both(x):
    return np.concatenate([x, -x])


def erfcinv(p):
    """By bisection in the logarithm of erfc; mpmath's erfinv has no tail."""
    p = mp.mpf(p)
    if p > 1:
        return -erfcinv(2 - p)
    y = mp.sqrt(-mp.log(p)) + mp.mpf("1e-3")
    for _ in range(60):
        tail = mp.erfc(y)
        step = mp.log(tail / p) * tail * mp.sqrt(mp.pi) / 2 * mp.exp(y * y)
        y += step
        if abs(step) < mp.mpf("1e-35") * abs(y):
            break
    return y


def ndtr(x):
    return mp.erfc(-x / mp.sqrt(2)) / 2


def log_ndtr(x):
    return mp.log1p(-ndtr(-x)) if x > 0 else mp.log(ndtr(x))


def erfcx(x):
    return mp.exp(x * x) * mp.erfc(x)


# name: (exact, points, allowed error in units of 2^-52)
CASES = {
    "erf": (mp.erf, both(wide(1e-300, 8)), 1),
    "erfc": (mp.erfc, np.concatenate([both(wide(1e-5, 26)), RNG.uniform(0.4, 3, 40)]), 3),
    "erfcx": (erfcx, np.concatenate([wide(1e-5, 1e3), -wide(1e-5, 26)]), 3),
    "erfinv": (mp.erfinv, both(np.concatenate([RNG.uniform(0, 1, 40), 1 - wide(1e-15, 0.3)])), 3),
    "erfcinv": (erfcinv, np.concatenate([wide(1e-300, 0.9, 20), RNG.uniform(1.1, 2, 20)]), 3),
    "ndtr": (ndtr, both(wide(1e-5, 37)), 3),
    "log_ndtr": (log_ndtr, np.concatenate([wide(1e-5, 37), -wide(1e-5, 1e3)]), 4),
    "gammaln": (
        mp.loggamma,
        np.concatenate([wide(1e-300, 1e300), RNG.uniform(0.01, 15, 60), 1 + wide(1e-12, 0.1)]),
        3,
    ),
    "gamma": (mp.gamma, np.concatenate([both(wide(1e-300, 170)), RNG.uniform(-15, 171, 60)]), 6),
    "digamma": (
        mp.digamma,
        np.concatenate([wide(1e-300, 1e300), RNG.uniform(0.01, 15, 60), 1.46163 + wide(1e-9, 0.1)]),
        3,
    ),
    "logit": (lambda x: mp.log(x / (1 - x)), RNG.uniform(0, 1, 60), 3),
    "expit": (lambda x: 1 / (1 + mp.exp(-x)), RNG.uniform(-50, 50, 60), 3),
}


def errors(got, exact, points, floor=0.0):
    """Relative errors in units of 2^-52; below `floor` errors count as if the value was `floor`."""
    with mp.workdps(60):
        for value, x in zip(got, points, strict=True):
            want = exact(mp.mpf(float(x)))
            error = abs(mp.mpf(float(value)) - want) / max(abs(want), floor)
            yield float(error) / EPS


@pytest.mark.parametrize("name", CASES)
def test_accuracy(name):
    exact, points, allowed = CASES[name]
    got = getattr(approx, name)(points)
    assert max(errors(got, exact, points)) <= allowed


@pytest.mark.parametrize("name", ["gammaln", "digamma"])
def test_mirrored_accuracy_is_absolute_near_zeros(name):
    exact = {"gammaln": lambda x: mp.re(mp.loggamma(x)), "digamma": mp.digamma}[name]
    points = -np.concatenate([wide(1e-10, 1e3), RNG.uniform(0.01, 15, 40)])
    got = getattr(approx, name)(points)
    assert max(errors(got, exact, points, floor=1.0)) <= 16


@pytest.mark.parametrize("n", [1, 2, 3, 6])
def test_polygamma(n):
    exact = lambda x: mp.polygamma(n, x)
    points = np.concatenate([wide(1e-15, 1e10, 25), RNG.uniform(0.01, 15, 25)])
    assert max(errors(approx.polygamma(points, n), exact, points)) <= 5
    points = -RNG.uniform(0.01, 15, 25)
    assert max(errors(approx.polygamma(points, n), exact, points, floor=1.0)) <= 16


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_bessel(n, scaled):
    exact = lambda x: mp.besseli(n, x) * (mp.exp(-abs(x)) if scaled else 1)
    points = np.concatenate([wide(1e-5, 700, 30), -RNG.uniform(0.01, 30, 30)])
    assert max(errors(bessel_i(points, n, scaled), exact, points)) <= 8


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_sinc_derivatives(n):
    def exact(x):
        turn = n * mp.pi / 2
        return mp.pi**n * mp.quad(lambda t: t**n * mp.cos(mp.pi * x * t + turn), [0, 0.5, 1])

    points = np.concatenate([RNG.uniform(-3, 3, 12), [0.0, 1e-8]])
    got = approx.sinc_derivative(points, n)
    assert max(errors(got, exact, points, floor=np.pi**n / 10)) <= 32


def nth_derivative(function, order):
    for _ in range(order):
        function = (lambda f: lambda x: wg.jvp(f, (x,), (np.ones_like(x),))[1])(function)
    return function


def test_slopes_of_erfcx_and_log_ndtr_far_out():
    """Where almost all of 2 x erfcx(x) and 2 / sqrt(pi) cancel."""
    x = np.array([5.0, 11.9, 12.1, 40.0, 3e3, 1e6])
    with mp.workdps(60):
        for order, tolerance in [(1, 1e-13), (2, 1e-11)]:
            exact = [float(mp.diff(erfcx, mp.mpf(one), order)) for one in x]
            slope = nth_derivative(wnp.erfcx, order)
            np.testing.assert_allclose(slope(x), exact, rtol=tolerance)
            np.testing.assert_allclose(wg.jit(slope)(x), exact, rtol=tolerance)
    assert nth_derivative(wnp.erfcx, 2)(np.array(np.inf)) == 0
    line = 20.0 + 1j * x
    slope = wg.jvp(wsp.special.erfcx, (line,), (np.ones(6),))[1]
    with mp.workdps(60):
        exact = [complex(2 * z * erfcx(z) - 2 / mp.sqrt(mp.pi)) for z in map(mp.mpc, line)]
    np.testing.assert_allclose(slope, exact, rtol=1e-12)
    bent = nth_derivative(wnp.log_ndtr, 2)(np.array([-50.0, -1e4, -1e6]))
    np.testing.assert_allclose(bent, [-1 + 1 / x**2 - 6 / x**4 for x in (50, 1e4, 1e6)], rtol=1e-8)


def test_betaln():
    for a in wide(1e-3, 1e8, 8):
        for b in wide(1e-3, 1e8, 8):
            with mp.workdps(60):
                x, y = mp.mpf(float(a)), mp.mpf(float(b))
                want = mp.loggamma(x) + mp.loggamma(y) - mp.loggamma(x + y)
                got = mp.mpf(float(approx.betaln(a, b)))
                assert abs(got - want) <= 20 * EPS * max(abs(want), 1)


SPECIAL_POINTS = {
    # at 0, inf, -inf, nan, -1, 1, 2
    "erf": (0, 1, -1, np.nan, -0.8427007929497149, 0.8427007929497149, 0.9953222650189527),
    "erfc": (1, 0, 2, np.nan, 1.8427007929497148, 0.15729920705028513, 0.004677734981047266),
    "erfcx": (1, 0, np.inf, np.nan, 5.008980080762283, 0.427583576155807, 0.25539567631050575),
    "erfinv": (0, np.nan, np.nan, np.nan, -np.inf, np.inf, np.nan),
    "erfcinv": (np.inf, np.nan, np.nan, np.nan, np.nan, 0, -np.inf),
    "gammaln": (np.inf, np.inf, np.inf, np.nan, np.inf, 0, 0),
    "gamma": (np.inf, np.inf, np.nan, np.nan, np.nan, 1, 1),
    "digamma": (-np.inf, np.inf, np.nan, np.nan, np.nan, -np.euler_gamma, 1 - np.euler_gamma),
    "ndtr": (0.5, 1, 0, np.nan, 0.15865525393145707, 0.8413447460685429, 0.9772498680518208),
    "log_ndtr": (
        np.log(0.5), 0, -np.inf, np.nan, -1.841021645009264, -0.17275377902344988,
        -0.023012909328963486,
    ),
    "logit": (-np.inf, np.nan, np.nan, np.nan, np.nan, np.inf, np.nan),
    "expit": (0.5, 1, 0, np.nan, 0.2689414213699951, 0.7310585786300049, 0.8807970779778823),
}  # fmt: skip


@pytest.mark.parametrize("name", SPECIAL_POINTS)
def test_special_points(name):
    points = np.array([0.0, np.inf, -np.inf, np.nan, -1.0, 1.0, 2.0])
    got = getattr(approx, name)(points)
    np.testing.assert_allclose(got, SPECIAL_POINTS[name], rtol=1e-15)


def test_polygamma_and_bessel_at_special_points():
    points = np.array([0.0, np.inf, np.nan, -1.0])
    np.testing.assert_array_equal(approx.polygamma(points, 1), [np.inf, 0, np.nan, np.inf])
    np.testing.assert_array_equal(approx.polygamma(points, 2), [-np.inf, 0, np.nan, np.nan])
    points = np.array([0.0, np.inf, -np.inf, np.nan, 800.0])
    inf, nan = np.inf, np.nan
    np.testing.assert_array_equal(bessel_i(points, 0, False), [1, inf, inf, nan, inf])
    np.testing.assert_array_equal(bessel_i(points, 1, False), [0, inf, -inf, nan, inf])
    np.testing.assert_array_equal(bessel_i(points, 2, False), [0, inf, inf, nan, inf])
    assert bessel_i(points, 1, True)[1] == 0


def test_factorials_are_exact():
    n = np.arange(1, 171)
    want = [float(mp.factorial(int(k))) for k in n]
    np.testing.assert_array_equal(approx.gamma(n + 1.0), want)


FLOAT32 = ["erf", "erfc", "erfcx", "ndtr", "log_ndtr", "gammaln", "gamma", "expit", "softplus"]


@pytest.mark.parametrize("name", FLOAT32)
def test_float32_is_rounded_float64(name):
    x = np.random.default_rng(0).uniform(-5, 9, 20_000).astype(np.float32)
    op = getattr(ops, name)
    got, want = op(x), op(x.astype(np.float64))
    assert got.dtype == np.float32 and want.dtype == np.float64
    assert (np.abs(got - want) <= 0.5001 * np.spacing(np.abs(want).astype("f"))).all()


def test_integers_give_float64_and_complex_is_refused():
    for dtype in (np.int8, np.uint16, np.int64, bool):
        assert ops.erf(np.ones(2, dtype)).dtype == np.float64
        assert ops.expit(np.ones(2, dtype)).dtype == np.float64
    with pytest.raises(TypeError, match=r"erf.*is not defined for c128\[2\].*Give real numbers"):
        ops.erf(np.ones(2, complex))
    assert type(ops.erf(0.5)) is np.float64
