"""Special functions and activations: SciPy's values, derivatives also where they are delicate."""

import mpmath as mp
import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert.errors import AxisError, DTypeError
from wengert.transforms import check_grads, grad, hessian, jacobian, jvp, vmap

scipy = pytest.importorskip("scipy.special")
RNG = np.random.default_rng(3)
REAL = RNG.uniform(-5, 5, 50)
POSITIVE = RNG.uniform(0.01, 30, 50)
UNIT = RNG.uniform(0, 1, 50)

ONE = {
    "erf": REAL, "erfc": REAL, "erfcx": REAL, "erfinv": UNIT, "erfcinv": 2 * UNIT, "ndtr": REAL,
    "log_ndtr": REAL, "ndtri": UNIT, "gammaln": POSITIVE, "gamma": POSITIVE, "gammasgn": REAL,
    "digamma": POSITIVE, "i0e": REAL, "i1": REAL, "i1e": REAL, "entr": POSITIVE, "logit": UNIT,
    "expit": REAL * 10, "log_expit": REAL * 10, "factorial": POSITIVE,
}  # fmt: skip
TWO = {
    "beta": (POSITIVE, POSITIVE[::-1]),
    "betaln": (POSITIVE, POSITIVE[::-1]),
    "xlogy": (REAL, POSITIVE),
    "xlog1py": (REAL, POSITIVE),
    "rel_entr": (POSITIVE, UNIT),
    "kl_div": (POSITIVE, UNIT),
}
ALL = {**{name: (x,) for name, x in ONE.items()}, **TWO}


@pytest.mark.parametrize("name", ALL)
def test_values(name):
    args = ALL[name]
    want = getattr(scipy, name)(*args)
    got = getattr(wnp, name)(*args)
    np.testing.assert_allclose(got, want, rtol=2e-14, atol=2e-15)
    narrow = getattr(wnp, name)(*[x.astype(np.float32) for x in args])
    assert narrow.dtype == np.float32
    assert getattr(wnp, name)(*[x[:2].tolist() for x in args]).dtype == np.float64


@pytest.mark.parametrize("name", sorted(set(ALL) - {"gammasgn"}))
def test_derivatives(name):
    # near 1/2, away from every singularity
    args = [0.3 + 0.4 * np.linspace(0, 1, 3) ** (k + 1) for k in range(len(ALL[name]))]
    check_grads(getattr(wnp, name), args, order=2)


def test_polygamma_of_any_order():
    x = np.array([0.5, 2.0, 20.0, -0.7])
    np.testing.assert_allclose(wnp.trigamma(x), scipy.polygamma(1, x), rtol=1e-13)
    np.testing.assert_allclose(wnp.polygamma(3, x[:3]), scipy.polygamma(3, x[:3]), rtol=1e-13)
    fifth = wnp.gammaln
    for _ in range(5):
        fifth = grad(fifth)
    np.testing.assert_allclose(fifth(1.3), scipy.polygamma(4, 1.3), rtol=1e-13)
    with pytest.raises(DTypeError, match=r"polygamma.*got the order -1.*Python integer"):
        wnp.polygamma(-1, x)


def test_gamma_signs_and_poles():
    x = np.array([-2.5, -1.5, -0.5, 0.0, -0.0, 1.0, -3.0])
    np.testing.assert_array_equal(wnp.gammasgn(x), [-1, 1, -1, 1, -1, 1, np.nan])
    assert float(wnp.factorial(-1)) == 0.0
    np.testing.assert_array_equal(
        wnp.factorial(np.array([0, 1, 5, 20])), [1, 1, 120, 2432902008176640000]
    )


# ---------------------------------------------------------------- delicate places


def test_softplus_and_log_sigmoid_far_out():
    x = np.array([-1000.0, -40.0, 0.0, 40.0, 1000.0])
    np.testing.assert_allclose(
        grad(lambda x: np.sum(wnp.softplus(x)))(x), scipy.expit(x), rtol=1e-15
    )
    np.testing.assert_allclose(
        grad(lambda x: np.sum(wnp.log_sigmoid(x)))(x), scipy.expit(-x), rtol=1e-15
    )
    second = grad(lambda x: np.sum(grad(lambda x: np.sum(wnp.softplus(x)))(x)))(x)
    np.testing.assert_allclose(second, scipy.expit(x) * scipy.expit(-x), rtol=1e-14)


def test_expit_keeps_its_tail():
    for derivative in (grad(wnp.sigmoid), grad(grad(wnp.sigmoid))):
        np.testing.assert_allclose(abs(derivative(50.0)), np.exp(-50.0), rtol=1e-14)
        np.testing.assert_allclose(abs(derivative(-50.0)), np.exp(-50.0), rtol=1e-14)


def test_log_ndtr_derivatives_far_out():
    # the ratio of density and distribution tends to -x - 1/x + 2/x^3
    x = -1e4
    np.testing.assert_allclose(grad(wnp.log_ndtr)(x), -x - 1 / x, rtol=1e-14)
    np.testing.assert_allclose(grad(grad(wnp.log_ndtr))(-100.0), -0.9999000599450, rtol=1e-9)
    assert float(grad(wnp.log_ndtr)(60.0)) == 0.0
    assert float(grad(grad(wnp.log_ndtr))(60.0)) == 0.0


def test_xlogy_at_zero():
    both = grad(wnp.xlogy, argnums=(0, 1))
    assert [float(g) for g in both(0.0, 0.0)] == [0.0, 0.0]
    np.testing.assert_allclose(both(0.0, 2.0), [np.log(2.0), 0.0])
    np.testing.assert_allclose(both(3.0, 2.0), [np.log(2.0), 1.5])
    second = hessian(lambda v: wnp.xlogy(v[0], v[1]))
    np.testing.assert_allclose(second(np.array([0.0, 2.0])), [[0, 0.5], [0.5, 0]])
    assert np.isfinite(second(np.zeros(2))).all()
    both = grad(wnp.xlog1py, argnums=(0, 1))
    assert [float(g) for g in both(0.0, -1.0)] == [0.0, 0.0]
    p = np.array([0.0, 0.25, 0.75])
    slope = grad(lambda p: np.sum(wnp.entr(p)))(p)
    np.testing.assert_allclose(slope, [0.0, -np.log(0.25) - 1, -np.log(0.75) - 1])


def test_entropies_outside_their_domain():
    np.testing.assert_array_equal(wnp.entr(np.array([0.0, -1.0])), [0.0, -np.inf])
    x, y = np.array([0.0, 0.0, 1.0, -1.0, np.nan]), np.array([0.0, 1.0, 0.0, 1.0, 1.0])
    np.testing.assert_array_equal(wnp.rel_entr(x, y), scipy.rel_entr(x, y))


@pytest.mark.parametrize("f", [wnp.i0e, wnp.i1, wnp.i1e, wnp.gelu, wnp.silu, wnp.softplus])
def test_smooth_through_zero(f):
    x = np.array([-1e-3, 0.0, 0.5]) if f not in (wnp.i0e, wnp.i1e) else np.array([0.3, 9.0])
    check_grads(f, (x,), order=3)


# ---------------------------------------------------------------- sums of exponentials

X = RNG.normal(size=(3, 4, 2))
INF = np.inf


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
def test_logsumexp_softmax_values(axis):
    for keepdims in (False, True):
        got = wnp.logsumexp(X, axis=axis, keepdims=keepdims)
        np.testing.assert_allclose(
            got, scipy.logsumexp(X, axis=axis, keepdims=keepdims), rtol=1e-14
        )
    b = RNG.uniform(0, 2, size=X.shape)
    b[0, 0] = 0
    for keepdims in (False, True):
        got = wnp.logsumexp(X, axis=axis, b=b, keepdims=keepdims)
        want = scipy.logsumexp(X, axis=axis, b=b, keepdims=keepdims)
        np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-14)
        assert np.shape(got) == np.shape(want)
    np.testing.assert_allclose(wnp.softmax(X, axis=axis), scipy.softmax(X, axis=axis), rtol=1e-14)
    want = scipy.log_softmax(X, axis=axis)
    np.testing.assert_allclose(wnp.log_softmax(X, axis=axis), want, rtol=1e-14)
    for f in (wnp.logsumexp, wnp.softmax, wnp.log_softmax):
        assert f(X.astype("f"), axis=axis).dtype == np.float32
        check_grads(lambda x, f=f: f(x, axis=axis), (X,), order=2)
    check_grads(lambda x, b: wnp.logsumexp(x, axis=axis, b=b), (X, b + 0.5), order=1)


@pytest.mark.parametrize("axis", [None, 0, -1])
@pytest.mark.parametrize("sizes", [((3,), (2, 3)), ((), (3,)), ((1,), (3,)), ((2, 1), (3,))])
def test_logsumexp_with_weights_of_more_axes(sizes, axis):
    x, b = RNG.normal(size=sizes[0]), RNG.uniform(1, 2, size=sizes[1])
    for more in ({}, {"keepdims": True}, {"return_sign": True}):
        f = lambda x, b, m=more: scipy.logsumexp(x, axis=axis, b=b, **m)
        want = f(x, b)
        for got in (wnp.logsumexp(x, axis=axis, b=b, **more), wg.jit(f)(x, b)):
            np.testing.assert_allclose(got, want, rtol=1e-13)
            assert np.shape(got) == np.shape(want)
    check_grads(lambda x, b: wnp.logsumexp(x, axis=axis, b=b), (x, b))


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("weighted", [False, True])
def test_logsumexp_with_a_sign(axis, weighted):
    x, b = X[:, :, 0].copy(), RNG.normal(size=X.shape[:2]) if weighted else None
    x[1] = -INF
    if weighted:
        x[0, :2], b[0] = 1.0, [1, -1, 0, 0]
    f = lambda x: scipy.logsumexp(x, axis=axis, b=b, keepdims=True, return_sign=True)
    with np.errstate(divide="ignore"):
        want = f(x)
    for got in (wg.jit(f)(x), wnp.logsumexp(x, axis, b, True, return_sign=True)):
        np.testing.assert_allclose(got[0], want[0], rtol=1e-13)
        np.testing.assert_array_equal(got[1], want[1])
    if weighted:
        check_grads(lambda x, b: wnp.logsumexp(x, 1, b, return_sign=True)[0], (X[..., 0], b))


def test_slope_of_logsumexp_by_a_weight_that_is_zero():
    slope = grad(lambda b: wnp.logsumexp(np.array([1.0, 2.0, 800.0]), b=b))
    for f in (slope, wg.jit(slope)):
        got = f(np.array([1.0, 0.0, 0.0]))
        np.testing.assert_allclose(got[:2], [1.0, np.e], rtol=1e-14)
        assert np.isfinite(got).all() and got[2] > 1e300


def test_logsumexp_keeps_small_terms():
    np.testing.assert_allclose(wnp.logsumexp([0.0, -50.0]), np.exp(-50.0), rtol=1e-14)
    np.testing.assert_allclose(wnp.log_softmax([50.0, 0.0])[0], -np.exp(-50.0), rtol=1e-14)


def test_logsumexp_infinities():
    rows = np.array([[-INF, -INF], [-INF, 0.5], [INF, 0.5], [INF, -INF]])
    np.testing.assert_array_equal(wnp.logsumexp(rows, axis=1), [-INF, 0.5, INF, INF])
    slopes = grad(lambda x: np.sum(wnp.logsumexp(x, axis=1)[:2]))(rows)
    np.testing.assert_array_equal(slopes[:2], [[0, 0], [0, 1]])
    f = lambda x: np.sum(wnp.where(np.isinf(wnp.logsumexp(x, axis=1)), 0.0, 1.0))
    np.testing.assert_array_equal(grad(f)(rows), np.zeros((4, 2)))
    assert np.isfinite(jacobian(lambda x: wnp.logsumexp(x, axis=1))(rows)).all()
    assert np.isfinite(jacobian(jacobian(lambda x: wnp.logsumexp(x, axis=1)))(rows)).all()
    assert np.isnan(wnp.logsumexp(np.array([np.nan, 1.0])))
    assert float(wnp.logsumexp(np.zeros(0))) == -INF
    assert float(wnp.logsumexp(np.array([1.0, 2.0]), b=np.zeros(2))) == -INF


def test_softmax_with_masks():
    x = np.array([1.0, -INF, 2.0])
    weights = wnp.softmax(x)
    np.testing.assert_allclose(weights, scipy.softmax(x), rtol=1e-15)
    np.testing.assert_array_equal(wnp.softmax(np.full(3, -INF)), np.zeros(3))
    jac = jacobian(wnp.softmax)(x)
    np.testing.assert_allclose(jac, np.diag(weights) - np.outer(weights, weights), atol=1e-16)
    assert np.isfinite(jacobian(jacobian(wnp.softmax))(x)).all()
    np.testing.assert_array_equal(jacobian(wnp.softmax)(np.full(2, -INF)), np.zeros((2, 2)))
    loss = lambda x: wnp.log_softmax(x)[0]
    np.testing.assert_allclose(grad(loss)(x), [1 - weights[0], 0.0, -weights[2]], rtol=1e-15)
    np.testing.assert_array_equal(wnp.softmax(np.array([INF, 1.0, INF])), [0.5, 0.0, 0.5])


def test_softmax_axis_errors():
    with pytest.raises(AxisError, match=r"softmax.*got axis 3 for an array with 3 axes"):
        wnp.softmax(X, axis=3)


def test_plain_numpy_reductions_of_logaddexp():
    x = np.array([0.5, 1.5, -1.0])
    value, slope = jvp(lambda x: np.logaddexp.reduce(x), (x,), (np.ones(3),))
    np.testing.assert_allclose([value, slope], [scipy.logsumexp(x), 1.0])


# ---------------------------------------------------------------- activations


@pytest.mark.parametrize("f", [wnp.relu, lambda x: wnp.maximum(x, 0)])
@pytest.mark.parametrize("how", [lambda f: f, wg.jit, lambda f: wg.jit(wg.vmap(f))])
def test_bools_become_integers_however_they_are_computed(f, how):
    x = np.array([-1.0, 0.0, 2.0])
    found = how(lambda x: f(x > 0))(wnp.asarray(x))
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, [0, 0, 1])
    assert wnp.relu(x > 0).dtype == wg.jit(wnp.relu)(x > 0).dtype == np.int64


def test_relu():
    x = np.array([-1.0, 0.0, 2.0])
    np.testing.assert_array_equal(wnp.relu(x), [0, 0, 2])
    np.testing.assert_array_equal(grad(lambda x: np.sum(wnp.relu(x)))(x), [0, 0, 1])
    assert wnp.relu(np.array([-1, 2], np.int8)).dtype == np.int8
    assert grad(lambda x: wnp.relu(x))(np.float32(1)).dtype == np.float32


def test_other_activations():
    x = np.array([-3.0, -0.5, 0.0, 0.5, 3.0])
    np.testing.assert_allclose(wnp.gelu(x), x * scipy.ndtr(x), rtol=1e-14)
    inner = np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)
    np.testing.assert_allclose(
        wnp.gelu(x, approximate=True), 0.5 * x * (1 + np.tanh(inner)), rtol=1e-14
    )
    np.testing.assert_allclose(wnp.silu(x), x * scipy.expit(x), rtol=1e-14)
    np.testing.assert_allclose(wnp.elu(x, 0.5), np.where(x > 0, x, 0.5 * np.expm1(x)), rtol=1e-14)
    np.testing.assert_allclose(wnp.softplus(x), np.logaddexp(x, 0), rtol=1e-15)
    for f in (wnp.gelu, wnp.silu, wnp.softplus, lambda x: wnp.gelu(x, approximate=True)):
        assert f(x.astype("f")).dtype == np.float32
        check_grads(f, (x,))
    check_grads(wnp.elu, (np.array([-1.0, 2.0]),))
    # the dead branch may overflow; the derivative does not
    assert float(grad(wnp.elu)(1000.0)) == 1.0


def test_batched():
    np.testing.assert_array_equal(vmap(wnp.softmax)(X), np.stack([wnp.softmax(x) for x in X]))
    np.testing.assert_array_equal(
        vmap(lambda x: wnp.logsumexp(x, axis=0))(X), wnp.logsumexp(X, axis=1)
    )
    np.testing.assert_array_equal(vmap(grad(wnp.gammaln))(POSITIVE), wnp.digamma(POSITIVE))


def test_entropies_of_numbers_near_each_other():
    """What is left of their logarithms is exact too, and so are zeros of sinc far out."""
    x, y = np.array([0.2, 3.0]), np.array([0.2, 3.0]) * (1 + 1e-7)
    with mp.workdps(40):
        pairs = [(mp.mpf(float(a)), mp.mpf(float(b))) for a, b in zip(x, y, strict=True)]
        logs = [float(a * mp.log(a / b)) for a, b in pairs]
        sums = [float(a * mp.log(a / b) - a + b) for a, b in pairs]
        wave = float(mp.sincpi(mp.mpf(-293.99)))
    np.testing.assert_allclose(wnp.rel_entr(x, y), logs, rtol=1e-14)
    np.testing.assert_allclose(wnp.kl_div(x, y), sums, rtol=1e-14)
    np.testing.assert_allclose(wnp.sinc(-293.99), wave, rtol=1e-14)
