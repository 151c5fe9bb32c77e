"""`wengert.scipy.stats` against SciPy: values, edges, derivatives by all arguments."""

import mpmath as mp
import numpy as np
import pytest
import scipy.stats

import wengert as wg
from wengert.scipy import stats

RNG = np.random.default_rng(37)
# Parameters of shape, and arguments inside the support.
CONTINUOUS = {
    "beta": ((1.5, 2.5), (0.1, 0.9)),
    "cauchy": ((), (-9, 9)),
    "chi2": ((3.5,), (0.1, 9)),
    "expon": ((), (0.1, 5)),
    "f": ((3.5, 5.0), (0.1, 5)),
    "gamma": ((2.5,), (0.1, 9)),
    "gumbel_l": ((), (-4, 2)),
    "gumbel_r": ((), (-2, 4)),
    "halfcauchy": ((), (0.1, 9)),
    "halfnorm": ((), (0.1, 4)),
    "invgamma": ((2.5,), (0.1, 4)),
    "laplace": ((), (-4, 4)),
    "logistic": ((), (-9, 9)),
    "lognorm": ((0.7,), (0.1, 5)),
    "norm": ((), (-4, 4)),
    "pareto": ((2.5,), (1.1, 5)),
    "rayleigh": ((), (0.1, 4)),
    "t": ((4.5,), (-5, 5)),
    "truncnorm": ((-1.5, 2.5), (-1.4, 2.4)),
    "uniform": ((), (0.1, 0.9)),
    "vonmises": ((1.7,), (-3, 3)),
    "weibull_min": ((1.7,), (0.1, 3)),
}
DISCRETE = {
    "bernoulli": (0.3,),
    "binom": (9, 0.3),
    "geom": (0.3,),
    "nbinom": (3.5, 0.4),
    "poisson": (2.5,),
}
METHODS = ("logpdf", "pdf", "cdf", "sf", "logcdf", "logsf")
CASES = [(name, method) for name in CONTINUOUS for method in METHODS]


def test_every_distribution_is_tested():
    several = {"dirichlet", "multivariate_normal"}
    assert set(stats.__all__) == set(CONTINUOUS) | set(DISCRETE) | several


@pytest.mark.parametrize("name, method", CASES)
def test_continuous(name, method):
    shapes, (low, high) = CONTINUOUS[name]
    own, theirs = (getattr(getattr(source, name), method) for source in (stats, scipy.stats))
    y = RNG.uniform(low, high, 30)
    # SciPy's own distribution function of von Mises is that far from the exact one
    close = {"rtol": 1e-12, "atol": 1e-15} if name != "vonmises" else {"rtol": 1e-10, "atol": 1e-12}
    np.testing.assert_allclose(own(y, *shapes), theirs(y, *shapes), **close)
    loc, scale = RNG.normal(size=30), RNG.uniform(0.5, 2, 30)
    x = loc + scale * y
    want = theirs(x, *shapes, loc, scale)
    np.testing.assert_allclose(own(x, *shapes, loc, scale), want, **close)
    if method not in ("logpdf", "cdf"):
        return  # the others are made of these
    named = wg.jit(lambda x, loc, scale: own(x, *shapes, loc=loc, scale=scale))
    np.testing.assert_allclose(named(x, loc, scale), want, **close)


@pytest.mark.parametrize("name, method", CASES)
def test_outside_and_at_the_ends(name, method):
    """Outside the support, at its ends and at infinity, and where a parameter is not allowed."""
    shapes, _ = CONTINUOUS[name]
    own, theirs = (getattr(getattr(source, name), method) for source in (stats, scipy.stats))
    low, high = getattr(scipy.stats, name).support(*shapes)
    points = [low - 1 if np.isfinite(low) else -50.0, high + 1 if np.isfinite(high) else 50.0]
    x = np.array([*points, np.nan] + [end for end in (low, high) if np.isfinite(end)])
    if name == "vonmises":
        x = np.array([-np.pi, np.pi, np.nan])
    with np.errstate(all="ignore"):
        got, want = own(x, *shapes), theirs(x, *shapes)
        # inside the support SciPy has the logarithm of a probability that has become 0
        lost = np.isneginf(want) & (x > low) & (x < high) & method.startswith("log")
        assert (got[lost] < -700).all()
        np.testing.assert_allclose(got[~lost], want[~lost], rtol=1e-11, atol=1e-300)
    assert np.isnan(own(0.5 * (sum(CONTINUOUS[name][1])), *shapes, 0.0, -1.0))


INFINITIES = {
    "logpdf": (-np.inf, -np.inf), "pdf": (0, 0), "cdf": (0, 1), "sf": (1, 0),
    "logcdf": (-np.inf, 0), "logsf": (0, -np.inf),
}  # fmt: skip


@pytest.mark.parametrize("name, method", CASES)
def test_at_infinity(name, method):
    own = lambda x: getattr(getattr(stats, name), method)(x, *CONTINUOUS[name][0])
    both = np.array([-np.inf, np.inf])
    for dtype in (np.float64, np.float32):
        np.testing.assert_array_equal(own(both.astype(dtype)), INFINITIES[method])
    np.testing.assert_array_equal(wg.vmap(wg.grad(own))(both), 0.0)


@pytest.mark.parametrize("name, method", CASES)
def test_derivatives(name, method):
    shapes, (low, high) = CONTINUOUS[name]
    own = getattr(getattr(stats, name), method)
    loc, scale = 0.3, 1.2
    x = loc + scale * RNG.uniform(low, high, 3)
    parameters = tuple(np.float64(value) for value in (*shapes, loc, scale))
    wg.check_grads(own, (x, *parameters), order=2 if method in ("logpdf", "cdf") else 1)


@pytest.mark.parametrize("name", DISCRETE)
@pytest.mark.parametrize("method", ["logpmf", "pmf", "cdf", "sf", "logcdf", "logsf"])
def test_discrete(name, method):
    shapes = DISCRETE[name]
    own, theirs = (getattr(getattr(source, name), method) for source in (stats, scipy.stats))
    k = np.array([-1, 0, 1, 2, 3, 9, 10, 0.5, 1.5, 20])
    with np.errstate(divide="ignore"):
        want = theirs(k, *shapes)
        moved = theirs(k, *shapes, 2)
    np.testing.assert_allclose(own(k, *shapes), want, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(own(k, *shapes, loc=2), moved, rtol=1e-12, atol=1e-15)
    if method in ("logpmf", "cdf"):
        np.testing.assert_allclose(wg.jit(own)(k, *shapes), want, rtol=1e-12, atol=1e-15)
    whole, p = np.array([1.0, 2.0, 3.0]), np.float64(shapes[-1])
    if not (name == "bernoulli" and method.startswith("log")):
        wg.check_grads(lambda p: own(whole, *shapes[:-1], p), (p,), order=2)


def test_gradient_of_students_t_at_its_centre():
    slope = wg.grad(stats.t.cdf, (0, 1))(0.0, 4.5)
    np.testing.assert_allclose(slope, (scipy.stats.t.pdf(0, 4.5), 0), rtol=1e-14)


def test_gradients_outside_are_zero():
    for name in ("gamma", "weibull_min"):
        assert wg.grad(getattr(stats, name).logpdf)(-1.0, 2.0) == 0
        assert wg.grad(getattr(stats, name).pdf)(-1.0, 2.0) == 0


def test_batches_of_parameters():
    a, x = RNG.uniform(0.5, 3, 5), RNG.uniform(0.5, 3, 5)
    each = wg.vmap(wg.grad(stats.gamma.cdf, 1))(x, a)
    want = [wg.grad(stats.gamma.cdf, 1)(one, other) for one, other in zip(x, a, strict=True)]
    np.testing.assert_allclose(each, want, rtol=1e-14)


def test_arguments_that_are_wrong():
    with pytest.raises(TypeError, match=r"^gamma\.logpdf.*: got 0 parameters\. They are x, a"):
        stats.gamma.logpdf(1.0)
    with pytest.raises(TypeError, match=r"^norm\.cdf.*: got 1 parameters and mu\. They are x, l"):
        stats.norm.cdf(1.0, 0.0, mu=2)


COVARIANCES = [np.array([[2.0, 0.5], [0.5, 1.0]]), np.array([2.0, 0.5]), 1.7]


@pytest.mark.parametrize("cov", COVARIANCES, ids=["matrix", "diagonal", "number"])
def test_multivariate_normal(cov):
    mean, x = np.array([0.3, -0.7]), RNG.normal(size=(4, 3, 2))
    own, theirs = stats.multivariate_normal, scipy.stats.multivariate_normal
    np.testing.assert_allclose(own.logpdf(x, mean, cov), theirs.logpdf(x, mean, cov), rtol=1e-13)
    np.testing.assert_allclose(own.pdf(x, mean, cov), theirs.pdf(x, mean, cov), rtol=1e-13)
    np.testing.assert_allclose(own.entropy(mean, cov), theirs.entropy(mean, cov), rtol=1e-13)
    compiled = wg.jit(own.logpdf)(x, mean, cov)
    np.testing.assert_allclose(compiled, theirs.logpdf(x, mean, cov), rtol=1e-12)
    symmetric = lambda x, mean, c: own.logpdf(x, mean, 0.5 * (c + c.T) if c.ndim == 2 else c)
    wg.check_grads(symmetric, (x[0], mean, np.asarray(cov)), order=2)


def test_multivariate_normal_of_one_dimension():
    own, theirs = stats.multivariate_normal, scipy.stats.multivariate_normal
    for x, mean, cov in ((0.3, None, 1), (0.3, 0.1, 2.0), (np.array([0.1, 0.4]), 0.2, 2.0)):
        np.testing.assert_allclose(own.logpdf(x, mean, cov), theirs.logpdf(x, mean, cov))
    x = RNG.normal(size=3)
    np.testing.assert_allclose(own.logpdf(x, np.zeros(3)), theirs.logpdf(x, np.zeros(3)))
    with pytest.raises(wg.errors.ShapeError, match=r"^multivariate_normal\.logpdf.*: got a mean"):
        own.logpdf(x, np.zeros(3), np.eye(2))


def test_dirichlet():
    alpha, x = np.array([1.5, 2.5, 0.7]), RNG.dirichlet([20, 30, 40], 4).T
    own, theirs = stats.dirichlet, scipy.stats.dirichlet
    np.testing.assert_allclose(own.logpdf(x, alpha), theirs.logpdf(x, alpha), rtol=1e-12)
    np.testing.assert_allclose(own.pdf(x[:, 0], alpha), theirs.pdf(x[:, 0], alpha), rtol=1e-12)
    np.testing.assert_allclose(own.logpdf(x[:2], alpha), theirs.logpdf(x, alpha), rtol=1e-12)
    wg.check_grads(own.logpdf, (x, alpha), order=2)
    with pytest.raises(wg.errors.ShapeError, match=r"^dirichlet\.logpdf.*: got x of shape \(4,\)"):
        own.logpdf(np.ones(4), np.ones(2))


def test_vectors_drawn_from_dirichlets_distribution():
    drawn = stats.dirichlet.rvs([1.0, 2.0, 3.0], size=4, random_state=1)
    assert drawn.shape == (4, 3)
    np.testing.assert_allclose(drawn.sum(axis=1), 1)
    np.testing.assert_array_equal(drawn, stats.dirichlet.rvs([1.0, 2.0, 3.0], 4, random_state=1))
    old = stats.dirichlet.rvs([1.0, 2.0, 3.0], 4, np.random.RandomState(1))
    want = scipy.stats.dirichlet.rvs([1.0, 2.0, 3.0], 4, np.random.RandomState(1))
    np.testing.assert_array_equal(old, want)


def test_multivariate_normal_of_a_singular_covariance():
    factor = RNG.normal(size=(3, 2))
    cov, mean = factor @ factor.T, RNG.normal(size=3)
    inside = mean + RNG.normal(size=(4, 2)) @ factor.T
    x = np.concatenate([inside, inside[:1] + 0.1])
    own = lambda x, mean: stats.multivariate_normal.logpdf(x, mean, cov, allow_singular=True)
    want = scipy.stats.multivariate_normal.logpdf(x, mean, cov, allow_singular=True)
    assert want[-1] == -np.inf
    np.testing.assert_allclose(own(x, mean), want, rtol=1e-10)
    along = lambda z: own(mean + z @ factor.T, mean)
    wg.check_grads(along, (RNG.normal(size=(4, 2)),), order=2)


@pytest.mark.parametrize("kappa", [0.0, 0.3, 4.0, 30.0, 400.0, 1e5])
def test_vonmises_against_its_integral(kappa):
    """SciPy's is an approximation for large kappa."""
    points = [-3.1, -0.7, -1e-3, 0.2, 1.3, 3.0]
    with mp.workdps(30):
        density = lambda t: mp.exp(kappa * (mp.cos(t) - 1))
        width = 1 / mp.sqrt(kappa + 1)
        places = lambda x: [0, *[k * width for k in (1, 3, 6, 9) if k * width < abs(x)], abs(x)]
        whole = 2 * mp.quad(density, places(mp.pi))
        want = [float(0.5 + mp.sign(x) * mp.quad(density, places(x)) / whole) for x in points]
    np.testing.assert_allclose(stats.vonmises.cdf(points, kappa), want, rtol=0, atol=1e-14)
    np.testing.assert_allclose(
        stats.vonmises.cdf(1.0 + 4 * np.pi, kappa) - 2, stats.vonmises.cdf(1.0, kappa)
    )


def test_densities_of_large_parameters():
    """In the middle, where large terms would cancel."""
    a, b, n = 8280.0, 4100.5, 9650.0
    cases = {
        "gamma": (stats.gamma.logpdf(a + 97, a), _gamma_logpdf(a, a + 97)),
        "chi2": (stats.chi2.logpdf(2 * a, 2 * a), _gamma_logpdf(a, a) - mp.log(2)),
        "poisson": (stats.poisson.logpmf(a, a + 80), _gamma_logpdf(a + 1, a + 80)),
        "beta": (stats.beta.logpdf(0.67, a, b), _beta_logpdf(a, b, 0.67)),
        "binom": (
            stats.binom.logpmf(7045, n, 0.73), _beta_logpdf(7046, n - 7044, 0.73) - mp.log(n + 1)
        ),
        "nbinom": (
            stats.nbinom.logpmf(4000, a, 0.67),
            _beta_logpdf(a, 4001, 0.67) + mp.log(mp.mpf(0.67)) - mp.log(a + 4000),
        ),
    }  # fmt: skip
    for name, (got, want) in cases.items():
        np.testing.assert_allclose(float(got), float(want), rtol=1e-13, err_msg=name)
    tail = float(
        mp.betainc(0.5 * 0.17, 175, 0, mp.mpf(0.17) / (0.17 + 350 * 354), regularized=True)
    )
    np.testing.assert_allclose(stats.f.sf(354.0, 350.0, 0.17), tail, rtol=1e-13)


def _gamma_logpdf(a, x):
    with mp.workdps(40):
        return (mp.mpf(a) - 1) * mp.log(x) - x - mp.loggamma(a)


def _beta_logpdf(a, b, x):
    with mp.workdps(40):
        both = (mp.mpf(a) - 1) * mp.log(x) + (mp.mpf(b) - 1) * mp.log1p(-mp.mpf(x))
        return both - mp.log(mp.beta(a, b))


def test_logarithms_far_out():
    """Where the probability itself is below the smallest number."""
    for name, method, sign in [
        ("laplace", "logcdf", -1), ("laplace", "logsf", 1), ("halfnorm", "logsf", 1),
        ("gumbel_l", "logcdf", -1), ("gumbel_r", "logsf", 1),
    ]:  # fmt: skip
        own = getattr(getattr(stats, name), method)
        x = sign * np.array([50.0, 800.0, 3000.0])
        tail = {"laplace": -abs(x) - np.log(2), "halfnorm": np.log(2) + scipy.stats.norm.logcdf(-x)}
        np.testing.assert_allclose(own(x), tail.get(name, -abs(x)), rtol=1e-14)
        np.testing.assert_allclose(wg.jit(own)(x), tail.get(name, -abs(x)), rtol=1e-14)
        wg.check_grads(own, (x,), order=1)
