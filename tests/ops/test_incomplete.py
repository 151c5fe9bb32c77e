"""The incomplete gamma and beta functions against mpmath, with derivatives by all arguments."""

import functools

import mpmath as mp
import numpy as np
import pytest

import wengert as wg
from wengert.ops import incomplete as ops

RNG = np.random.default_rng(23)


def wide(low, high, count):
    """Numbers spread evenly over the orders of magnitude."""
    return np.exp(RNG.uniform(np.log(low), np.log(high), count))


def lower(a, x):
    """P(a, x) by its series of positive terms."""
    term = total = mp.mpf(1)
    k = 1
    while term > total * mp.eps:
        term *= x / (a + k)
        total += term
        k += 1
    return mp.exp(a * mp.log(x) - x - mp.loggamma(a + 1)) * total


def upper(a, x):
    with mp.workdps(340):
        return 1 - lower(a, x)


def left(a, b, x, y):
    """I(x; a, b) by its series of positive terms, which is short for x < 1/2."""
    term = total = mp.mpf(1)
    k = 0
    while term > total * mp.eps or k < 5:
        term *= (a + b + k) * x / (a + 1 + k)
        total += term
        k += 1
    scale = mp.loggamma(a + b) - mp.loggamma(a + 1) - mp.loggamma(b)
    return mp.exp(a * mp.log(x) + b * mp.log(y) + scale) * total


def beta(a, b, x):
    if x < 0.5:
        return left(a, b, x, 1 - x)
    with mp.workdps(250):
        return 1 - left(b, a, 1 - x, x)


def assert_close(got, exact, points, allowed=1e-13, least=1e-200):
    """Relative errors; what is smaller than `least` is left out."""
    with mp.workdps(40):
        for value, point in zip(got, zip(*points, strict=True), strict=True):
            want = exact(*[mp.mpf(float(x)) for x in point])
            if abs(want) > least:
                error = abs(mp.mpf(float(value)) - want) / abs(want)
                assert error <= allowed, f"{point}: {float(error):.1e}"


def gamma_points(low, high, count=15):
    """Half of them near the mean, half of them anywhere."""
    a = wide(low, high, count)
    near = a * np.abs(1 + RNG.normal(size=count) * 3 / np.sqrt(a + 1))
    return a, np.where(RNG.random(count) < 0.5, near, wide(0.01 * low, 2 * high, count))


@pytest.mark.parametrize("low, high", [(1e-6, 1), (0.05, 30), (1, 300), (1e3, 2e4)])
def test_gammainc(low, high):
    a, x = gamma_points(low, high, 15 if high < 1e3 else 4)
    assert_close(ops.gammainc(a, x, False), lower, (a, x))
    if high < 1e3:
        assert_close(ops.gammainc(a, x, True), upper, (a, x))


def test_few_nodes_are_enough(monkeypatch):
    """The rules made for these integrals agree with Gauss and Legendre's of more nodes."""
    a, b, x = wide(1e-6, 1e6, 40_000), wide(1e-6, 1e6, 40_000), wide(1e-8, 1e6, 40_000)
    near = a * np.abs(1 + RNG.normal(size=a.size) / np.sqrt(a + 1)) + 1e-8
    x = np.where(RNG.random(a.size) < 0.5, near, x)
    around = a / (a + b) * (1 + RNG.normal(size=a.size) / 3)
    share = np.clip(np.where(RNG.random(a.size) < 0.5, around, RNG.random(a.size)), 1e-9, 1 - 1e-9)
    few = ops.gamma_moment(a, x, 0, 0), ops.beta_moment(a, b, share, 0, 0, 0)
    monkeypatch.setattr(ops, "NEARLY", ops.ENOUGH)
    for name in ("FEW_GAMMA", "FEW_BETA"):
        monkeypatch.setattr(ops, name, ops.MANY)
    many = ops.gamma_moment(a, x, 0, 0), ops.beta_moment(a, b, share, 0, 0, 0)
    np.testing.assert_allclose(few, many, rtol=5e-14)


@pytest.mark.parametrize("upper_side", [False, True])
def test_gammainc_far_out(upper_side):
    """Relative to what rounding the arguments changes, which is all that is known so far out."""
    exact = upper if upper_side else lower
    a = wide(300, 900, 6)
    x = a * (RNG.uniform(1.5, 2.4, 6) if upper_side else RNG.uniform(0.25, 0.6, 6))
    values = ops.gammainc(a, x, upper_side)
    by_rounding = (np.abs(a * np.log(x / a)) + np.abs(x - a)) * 2.0**-53
    assert values.max() < 1e-20
    for place in zip(values, a, x, 1e-14 + 2 * by_rounding, strict=True):
        assert_close(place[:1], exact, ([place[1]], [place[2]]), place[3], least=1e-290)


def beta_points(low, high, count=15):
    a, b = wide(low, high, count), wide(low, high, count)
    x = np.where(RNG.random(count) < 0.5, RNG.beta(a, b), RNG.random(count))
    return a, b, np.clip(x, 1e-9, 1 - 1e-9)


@pytest.mark.parametrize("low, high", [(0.05, 1), (0.2, 30), (1, 300)])
def test_betainc(low, high):
    points = beta_points(low, high)
    assert_close(ops.betainc(*points), beta, points)


def test_betainc_of_parameters_far_apart():
    """Where nearly all lies at one end, the plateau of the integrand included."""
    a = np.array([1.2956530981163399, 19513.88830742549, 1.0380942359226801, 1.0258686906860452])
    b = np.array([0.03237075575146889, 1.216219093340235, 6033.893289075877, 0.08712741922759991])
    x = np.array([0.6110985983737736, 0.9999337899942957, 0.00017677585446345965, 0.5198330743342])
    assert_close(ops.betainc(a, b, x), beta, (a, b, x))


def test_betainc_of_a_tiny_parameter():
    """Where nearly all lies at the other end, and what is left is about as small as that."""
    a, b = wide(1e-2, 100, 12), wide(1e-9, 0.2, 12)
    x = RNG.uniform(0, 1, 12)
    assert_close(ops.regularized_beta(a, b, x, upper=False), beta, (a, b, x))
    rest = lambda b, a, x: beta(a, b, 1 - x)
    assert_close(ops.regularized_beta(b, a, x, upper=True), rest, (b, a, x))


def test_student_far_out_of_many_degrees():
    df, x = np.array([8520.0, 671.5, 1e6, 0.3]), np.array([-13.8, -9.9, -30.0, -1e5])
    exact = lambda df, x: beta(df / 2, mp.mpf(0.5), df / (df + x * x)) / 2
    assert_close(ops.student_t(df, x), exact, (df, x))


def test_edges():
    a, x = np.array([2.0, 2.0, 0.0, 0.0, -1, 2, 2, np.inf, np.nan]), np.zeros(9)
    x[1:] = np.inf, 1, 0, 1, -1, np.nan, 1, 1
    want = [0, 1, 1, np.nan, np.nan, np.nan, np.nan, 0, np.nan]
    np.testing.assert_array_equal(ops.incomplete_gamma(a, x, upper=False), want)
    np.testing.assert_array_equal(ops.incomplete_gamma(a, x, upper=True), 1 - np.array(want))
    a, b = np.array([2.0, 2, 2, 2, -1, 0, 2]), np.array([3.0, 3, 3, 3, 1, 3, 0])
    x = np.array([0.0, 1, -0.5, 1.5, 0.5, 0.5, 0.5])
    want = [0, 1, np.nan, np.nan, np.nan, 1, 0]
    np.testing.assert_array_equal(ops.incomplete_beta(a, b, x, upper=False), want)
    np.testing.assert_array_equal(ops.incomplete_beta(a, b, x, upper=True), 1 - np.array(want))


GAMMA = ((3.5, 2.0), (2.0, 7.0), (0.4, 0.3), (0.3, 2.5), (1.0, 1e-3), (60.0, 55.0), (0.5, 0.9))


@pytest.mark.parametrize("point", GAMMA, ids=str)
@pytest.mark.parametrize("order", [(1, 0), (0, 1), (2, 0), (1, 1), (2, 1)])
@pytest.mark.parametrize("is_upper", [False, True])
def test_derivatives_of_gammainc(point, order, is_upper):
    def exact(a, x):
        bounds = (x, mp.inf) if is_upper else (0, x)
        return mp.gammainc(a, *bounds, regularized=True)

    value = lambda a, x: ops.incomplete_gamma(a, x, upper=is_upper)
    compare_derivatives(value, exact, point, order)


BETA = ((2.0, 3.0, 0.2), (2.0, 3.0, 0.7), (0.4, 3.0, 0.1), (0.4, 0.6, 0.8), (30.0, 20.0, 0.55))


@pytest.mark.parametrize("point", BETA, ids=str)
@pytest.mark.parametrize(
    "order", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0), (2, 0, 0), (1, 0, 1)]
)
def test_derivatives_of_betainc(point, order):
    exact = lambda a, b, x: mp.betainc(a, b, 0, x, regularized=True)
    value = lambda a, b, x: ops.incomplete_beta(a, b, x, upper=False)
    compare_derivatives(value, exact, point, order)


def compare_derivatives(f, exact, point, order):
    with mp.workdps(50):
        want = mp.diff(exact, tuple(mp.mpf(x) for x in point), order)
    for argument, times in enumerate(order):
        for _ in range(times):
            f = wg.grad(f, argument)
    assert abs(f(*point) - float(want)) <= 1e-12 * max(abs(float(want)), 1e-3)


def test_derivatives_at_the_ends():
    slope = wg.grad(lambda a, x: ops.incomplete_gamma(a, x, upper=False), (0, 1))
    close = functools.partial(np.testing.assert_allclose, rtol=1e-15, atol=0)
    close(slope(1.0, 0.0), (0, 1))
    close(slope(2.0, 0.0), (0, 0))
    below = lambda a, b, x: ops.incomplete_beta(a, b, x, upper=False)
    close(wg.grad(below, (0, 1, 2))(1.0, 1.0, 0.0), (0, 0, 1))
    close(wg.grad(below, (0, 1, 2))(2.0, 3.0, 1.0), (0, 0, 0))
    second = wg.grad(wg.grad(lambda x: ops.incomplete_gamma(1.0, x, upper=False)))
    close(second(0.0), -1)


@pytest.mark.parametrize(
    "point", [(1.0, 1.0, 0.5), (1.05, 1.05, 0.5), (1.1, 1.0, 0.51), (1.03, 0.3, 0.505)]
)
def test_beta_where_the_longer_side_of_a_small_sum_is_integrated(point):
    """The integrand is followed furthest there, and derivatives further than the value."""
    exact = [mp.mpf(x) for x in point]
    value = lambda a, b, x: mp.betainc(a, b, 0, x, regularized=True)
    function = lambda a, b, x: ops.incomplete_beta(a, b, x, upper=False)
    orders = {
        (0,): (1, 0, 0),
        (1,): (0, 1, 0),
        (0, 0): (2, 0, 0),
        (0, 1): (1, 1, 0),
        (0, 2): (1, 0, 1),
    }
    for places, order in orders.items():
        derivative = function
        for place in places:
            derivative = wg.grad(derivative, place)
        with mp.workdps(30):
            want = float(mp.diff(value, tuple(exact), order))
        # by symmetry some are 0, as a sum of terms that are not
        close = {"rtol": 1e-10, "atol": 1e-13, "err_msg": str(places)}
        np.testing.assert_allclose(derivative(*point), want, **close)
