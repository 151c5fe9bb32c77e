"""`wengert.scipy.special`: SciPy's names, on plain and on traced values."""

import functools

import mpmath as mp
import numpy as np
import pytest
import scipy.special

import wengert as wg
import wengert.scipy as wsp

RNG = np.random.default_rng(31)
POINTS = (1e-3, 0.7, 5.0, 18.0, 21.0, 60.0, 500.0)
RISING = [(RNG.uniform(0.01, 100), RNG.uniform(0, 60)) for _ in range(40)]
# Functions of a number that is given as it is, by the arguments that are no arrays.
WHOLE_FIRST = {"expn": 3, "iv": 2, "ive": 2, "jn": 2, "jv": 2, "polygamma": 2, "yn": 2, "yv": 2}
UFUNCS = [n for n in wsp.special.__all__ if isinstance(getattr(scipy.special, n), np.ufunc)]
SUMS = {"log_softmax", "logsumexp", "softmax"}
OTHERS = sorted(set(wsp.special.__all__) - set(UFUNCS) - SUMS - {"multigammaln", "polygamma"})


def test_unknown_names():
    with pytest.raises(AttributeError, match=r"^wengert\.scipy has no 'nothing'\. .*special"):
        wsp.nothing


def test_names_are_scipys():
    assert [name for name in wsp.special.__all__ if not hasattr(scipy.special, name)] == []


def pair(name):
    """Our function and SciPy's, with arguments of the domain of each."""
    own, theirs = getattr(wsp.special, name), getattr(scipy.special, name)
    count = theirs.nin if isinstance(theirs, np.ufunc) else 2 if name == "comb" else 1
    if name in WHOLE_FIRST:
        own = functools.partial(own, WHOLE_FIRST[name])
        theirs, count = functools.partial(theirs, WHOLE_FIRST[name]), count - 1
    args = [RNG.uniform(0.1, 0.9, 7) for _ in range(count)]
    if name in ("comb", "zeta"):
        args[0] += 1
    return own, theirs, args


@pytest.mark.parametrize("name", UFUNCS + OTHERS)
def test_values(name):
    own, theirs, args = pair(name)
    want = theirs(*args)
    np.testing.assert_allclose(own(*args), want, rtol=2e-13, atol=1e-15)
    np.testing.assert_allclose(wg.jit(own)(*args), want, rtol=2e-13, atol=1e-15)
    np.testing.assert_allclose(wg.vmap(own)(*args), want, rtol=2e-13, atol=1e-15)


@pytest.mark.parametrize("name", [name for name in UFUNCS + OTHERS if name != "zeta"])
def test_derivatives(name):
    own, _, args = pair(name)
    order = 1 if name == "gammasgn" else 2
    wg.check_grads(lambda *args: own(*args), args, order=order)


@pytest.mark.parametrize("name", UFUNCS)
def test_scipys_own_ufunc_on_traced_values(name):
    """What SciPy's ufunc gives for a traced value is what the function of its name gives."""
    own, theirs, args = pair(name)
    tangents = [np.ones(7) for _ in args]
    got, want = wg.jvp(theirs, args, tangents), wg.jvp(own, args, tangents)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("name, before", [("zeta", ()), ("zeta", (3.5,)), ("lambertw", ())])
def test_scipys_own_function_that_calls_a_ufunc(name, before):
    own, theirs = (functools.partial(getattr(m.special, name), *before) for m in (wsp, scipy))
    args = (np.array([1.5, 2.5]),)
    want = wg.jvp(own, args, args)
    for function in (lambda x: theirs(x), wg.jit(lambda x: theirs(x))):
        np.testing.assert_allclose(wg.jvp(function, args, args), want, rtol=1e-13)


def test_ufunc_that_is_missing():
    with pytest.raises(wg.errors.DTypeError, match=r"^scipy\.special\.airye \(at .*\): is not ava"):
        wg.grad(lambda x: scipy.special.airye(x)[0])(1.0)


@pytest.mark.parametrize("n", [-3, -2, 0, 4])
@pytest.mark.parametrize("name", ["iv", "ive", "jn", "yn"])
def test_orders(name, n):
    x = RNG.uniform(0.1, 30, 20)
    own, theirs = getattr(wsp.special, name), getattr(scipy.special, name)
    np.testing.assert_allclose(own(n, x), theirs(n, x), rtol=1e-12, atol=1e-15)


def test_orders_of_iv_are_real_numbers():
    for order in (np.array([1, 2]), "one", 1j):
        with pytest.raises(wg.errors.DTypeError, match=r"^iv.*: got the order .*, expected one re"):
            wsp.special.iv(order, 1.0)
    with pytest.raises(wg.errors.DTypeError, match=r"^iv.*: got the order .*, expected one real"):
        wg.grad(wsp.special.iv)(1.0, 1.0)
    assert np.isnan(wsp.special.iv(0.5, -1.0)) and wsp.special.iv(0.5, 0.0) == 0
    x = RNG.uniform(0.1, 30, 9)
    wg.check_grads(lambda x: wsp.special.ive(0.7, x), (x,), order=2)
    np.testing.assert_allclose(wsp.special.iv(-0.3, x), scipy.special.iv(-0.3, x), rtol=1e-12)


EXACT = {
    "iv": (mp.besseli, [(v, x) for v in (0.3, 2.5, 7.25, 14.5, 20, 45.5) for x in POINTS]),
    "poch": (mp.rf, [*RISING, (-2.5, 3), (-2.5, 5), (-0.5, 0.7), (7.5, -3.2)]),
    "multigammaln": (
        lambda a, d: mp.log(mp.pi) * d * (d - 1) / 4
        + mp.fsum(mp.loggamma(a - mp.mpf(k) / 2) for k in range(int(d))),
        [(a, d) for d in (1, 2, 5) for a in (2.6, 3.3, 17.0, 90.5, 1e4)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EXACT)
def test_against_mpmath(name):
    exact, points = EXACT[name]
    with mp.workdps(40):
        for point in points:
            want = exact(*[mp.mpf(float(x)) for x in point])
            got = getattr(wsp.special, name)(*point)
            if abs(want) < 1e300:
                assert abs(float((mp.mpf(float(got)) - want) / want)) <= 1e-13, point


@pytest.mark.parametrize("order", [0.5, np.array([1, 2])], ids=str)
def test_orders_that_are_not_there(order):
    with pytest.raises(wg.errors.DTypeError, match=r"^jv.*: got the order .*, expected a whole"):
        wsp.special.jv(order, 1.0)
    with pytest.raises(wg.errors.DTypeError, match=r"^jv.*: got the order .*, expected a whole"):
        wg.grad(wsp.special.jv)(1.0, 1.0)


def test_zeta_of_two():
    q = RNG.uniform(0.2, 5, 9)
    for x in (2, 3, 2.5, 7.0, 120):
        np.testing.assert_allclose(wsp.special.zeta(x, q), scipy.special.zeta(x, q), rtol=1e-13)
    slope = wg.grad(lambda q: wsp.special.zeta(2.5, q))(1.5)
    np.testing.assert_allclose(slope, -2.5 * scipy.special.zeta(3.5, 1.5), rtol=1e-13)
    high = np.array([0.001, 0.0025, 0.5, 3.0, -0.5, -1.5])  # the factorial of 79 is not in it
    np.testing.assert_allclose(
        wg.jit(lambda q: wsp.special.zeta(80, q))(high), scipy.special.zeta(80, high), rtol=1e-13
    )
    corners = np.array([0.0, -0.0, -1.0, -3.0, np.inf, np.nan])
    for x in (2, 2.5, 3):
        found = wsp.special.zeta(x, corners)
        np.testing.assert_array_equal(found, scipy.special.zeta(x, corners))
    with pytest.raises(wg.errors.DTypeError, match=r"^zeta.*: got x = .* beside q, expected a num"):
        wsp.special.zeta(0.5, q)


def test_multigammaln():
    a = RNG.uniform(2, 9, 5)
    want = scipy.special.multigammaln(a, 3)
    np.testing.assert_allclose(wsp.special.multigammaln(a, 3), want, rtol=1e-14)
    wg.check_grads(lambda a: wsp.special.multigammaln(a, 3), (a,), order=2)


def test_combinations():
    assert wsp.special.comb(10, 3, exact=True, repetition=True) == 220
    assert wsp.special.comb(3, 10, exact=True) == 0
    chosen = np.array([-1, 0, 2, 5, 6])
    np.testing.assert_array_equal(wsp.special.comb(5, chosen), scipy.special.comb(5, chosen))
    many = wsp.special.comb(5, chosen, repetition=True)
    np.testing.assert_allclose(many, scipy.special.comb(5, chosen, repetition=True))


# Arguments where one of the gamma functions that a coefficient is made of has a pole, and beside.
COEFFICIENTS = {
    "binom": [
        (9, 12), (9, 10), (9, -1), (9, -3), (0, 2), (-0.5, -2), (4, 4.45), (4, 4.55), (4, -0.55),
        (-0.7, 3), (-2.5, 3), (-2.5, 1.3), (100, 103), (5, 5), (2.5, 5),
    ],
    "poch": [
        (0, 0.5), (-2, 0.5), (-3, 4.5), (-1.5, 3), (0.2, -2), (-3.2, -1.7), (0.3, 2), (2.5, 3),
    ],
}  # fmt: skip


def _by_gamma(name, x, y):
    if name == "binom":
        return mp.gamma(x + 1) * mp.rgamma(y + 1) * mp.rgamma(x - y + 1)
    return mp.gamma(x + y) * mp.rgamma(x)


@pytest.mark.parametrize("name", COEFFICIENTS)
@pytest.mark.parametrize("place", [0, 1])
def test_derivatives_of_coefficients_at_poles(name, place):
    function = getattr(wsp.special, name)
    first = wg.grad(function, place)
    second = wg.grad(first, place)
    for point in COEFFICIENTS[name]:
        exact = [mp.mpf(x) for x in point]
        for order, derivative in ((1, first), (2, second)):
            line = lambda t, exact=exact: _by_gamma(
                name, *[t if k == place else x for k, x in enumerate(exact)]
            )
            with mp.workdps(40):
                want = float(mp.diff(line, exact[place], order))
            found = float(derivative(*map(float, point)))
            np.testing.assert_allclose(found, want, rtol=1e-9, atol=1e-12, err_msg=str(point))


def test_polynomials_that_coefficients_are():
    """Of whole steps below 0, where both gamma functions have poles."""
    slope = wg.vmap(wg.grad(wsp.special.poch), (0, None))
    z = np.array([0.0, -1.0, -2.0, -4.0])
    np.testing.assert_allclose(slope(z, 3.0), 3 * z**2 + 6 * z + 2, rtol=1e-13)
    np.testing.assert_allclose(slope(z, 0.0), 0.0)
