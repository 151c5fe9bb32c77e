"""NumPy's polynomials, sets, histograms, `r_`, `c_`, `vectorize`: its values, and derivatives."""

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert.errors import AbstractValueError, OptionError, ShapeError
from wengert.transforms.check import check_grads

RNG = np.random.default_rng(23)
P, Q = np.array([2.0, -1.0, 0.5, 3.0]), np.array([1.5, 0.25])
X = RNG.normal(size=(3, 4))
TIED = np.array([3.0, 1.0, 3.0, 7.0, 1.0, 5.0])


def same(function, *args, rtol=1e-12, mapped=True):
    """Compiled, recorded and mapped, against NumPy's own result."""
    expected = function(*args)
    found = [wg.jit(function)(*args), wg.vjp(function, *args)[0]]
    if mapped:
        many = wg.vmap(function)(*[np.stack([arg, arg]) for arg in args])
        found.append(tuple(y[1] for y in many) if isinstance(many, tuple) else many[1])
    for result in found:
        several = isinstance(expected, tuple)
        pairs = zip(result, expected, strict=True) if several else [(result, expected)]
        for got, want in pairs:
            got, want = np.asarray(got), np.asarray(want)
            assert (got.dtype, got.shape) == (want.dtype, want.shape)
            np.testing.assert_allclose(got, want, rtol=rtol, atol=1e-12)


# ---------------------------------------------------------------- polynomials

POLYNOMIALS = {
    "polyadd": lambda p, q: np.polyadd(p, q),
    "polysub": lambda p, q: np.polysub(q, p),
    "polymul": lambda p, q: np.polymul(p, q),
    "polyder": lambda p, q: np.polyder(p, 2) + np.sum(q),
    "polyint": lambda p, q: np.polyint(p, 2, q),
    "polyint with a constant": lambda p, q: np.polyint(p, k=q[0]),
    "polyval": lambda p, q: np.polyval(p, q),
    "poly": lambda p, q: np.poly(p * q[0]),
    "poly of a matrix": lambda p, q: np.poly(np.outer(p, p) + np.diag(p) * q[1]),
    "polydiv": lambda p, q: np.polydiv(p, q),
    "polydiv by more": lambda p, q: np.polydiv(q, p)[0],
}


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials(name):
    same(POLYNOMIALS[name], P, Q, rtol=1e-10)
    check_grads(POLYNOMIALS[name], (P, Q))


@pytest.mark.parametrize("dtype", [int, np.float32, complex])
def test_polynomials_of_other_dtypes(dtype):
    p, q = np.array([2, -1, 3]).astype(dtype), np.array([1, 2]).astype(dtype)
    for f in (np.polyadd, np.polymul, np.polysub):
        same(f, p, q)
    same(np.polyder, p)
    same(np.polyint, p, rtol=1e-6)
    same(np.polydiv, p, q, rtol=1e-6)


def test_leading_zeros_that_are_known_do_not_count():
    p = np.array([0.0, 0.0, 1.0, 2.0])
    np.testing.assert_array_equal(wg.vjp(np.polymul, p, Q)[0], np.polymul(p, Q))
    for got, want in zip(
        wg.vjp(np.polydiv, P, P[:2] * 2)[0], np.polydiv(P, P[:2] * 2), strict=True
    ):
        np.testing.assert_allclose(got, want)
    with pytest.raises(OptionError, match=r"polyder .*: got the order m=-1"):
        wg.jit(lambda p: np.polyder(p, -1))(P)
    with pytest.raises(ShapeError, match=r"polyint .*: got 2 constants\. Give one, or 3"):
        wg.jit(lambda p: np.polyint(p, 3, [1.0, 2.0]))(P)


# of which NumPy leaves rounding errors in front of the remainder
LARGE = np.array([901246916804.0, 304441834180.0, 660868430217.0, 175613809224.0, 849379732888.0])
LED_BY_ZERO = P * np.arange(4.0)
LENGTHS_BY_VALUES = {
    "polymul": (
        lambda p: np.mean(np.polymul(p, Q) ** 2),
        LED_BY_ZERO,
        "polymul .*: a1 begins with 0",
    ),
    "polymul, the other": (
        lambda p: np.mean(np.polymul(Q, p) ** 2),
        LED_BY_ZERO,
        "a2 begins with 0",
    ),
    "polymul of complex": (
        lambda p: np.mean(np.abs(np.polymul(p * 1j, Q))),
        LED_BY_ZERO,
        "a1 begins with 0",
    ),
    "roots": (lambda p: np.mean(np.abs(np.roots(p))), LED_BY_ZERO, "roots .*: p begins with 0"),
    "polydiv": (
        lambda p: np.mean(np.polydiv(np.convolve(P, [2.0, 1.0]) + p, P)[1] ** 2),
        np.zeros(5),
        "polydiv .*: NumPy would give a remainder of another length",
    ),
    "polydiv of large ones": (
        lambda p: np.mean(np.polydiv(p, [0.7, -1.9, 0.3])[1] ** 2),
        LARGE,
        "polydiv .*: NumPy would give a remainder of another length",
    ),
}
DERIVED = {"value": lambda f: f, "grad": wg.grad, "hvp": lambda f: lambda p: wg.hvp(f, p, p)}


@pytest.mark.parametrize("derived", DERIVED)
@pytest.mark.parametrize("name", LENGTHS_BY_VALUES)
def test_a_length_that_values_decide_is_an_error_where_these_are_not_known(name, derived):
    """Compiled and mapped, also in derivatives that do not need the values themselves."""
    function, p, text = LENGTHS_BY_VALUES[name]
    function = DERIVED[derived](function)
    function(p)
    for run in (wg.jit(function), lambda p: wg.vmap(function)(p[None])):
        with pytest.raises(ShapeError, match=text):
            run(p)


def test_remainders_have_the_length_that_they_have_in_numpy():
    for u, v in ((LARGE, np.array([0.7, -1.9, 0.3])), (P, Q)):
        for got, want in zip(wg.vjp(np.polydiv, u, v)[0], np.polydiv(u, v), strict=True):
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=1e-9)


def test_a_remainder_that_nobody_reads_may_be_zero():
    quotient = lambda p: np.polydiv(np.polymul(p, Q), p)[0]
    np.testing.assert_allclose(wg.jit(quotient)(P), Q, rtol=1e-12)
    np.testing.assert_allclose(wg.vmap(quotient)(P[None])[0], Q, rtol=1e-12)


def test_roots():
    p = np.poly([3.0, -1.0, 0.5])
    ordered = lambda p: np.sort(np.real(np.roots(p)))
    for run in (ordered, wg.jit(ordered), lambda p: wg.vjp(ordered, p)[0]):
        np.testing.assert_allclose(run(p), [-1, 0.5, 3], rtol=1e-12)
    check_grads(ordered, (p,))
    zeros = lambda p: np.abs(np.roots(p))
    np.testing.assert_allclose(
        np.sort(wg.vjp(zeros, np.array([0.0, 2.0, -4.0, 0.0]))[0]), [0.0, 2.0]
    )
    assert wg.vjp(lambda p: np.roots(p), np.zeros(3))[0].shape == (0,)
    assert np.iscomplexobj(wg.vjp(lambda p: np.roots(p), p)[0])


def test_polyfit():
    x, y, w = np.linspace(0, 1, 6), RNG.normal(size=6), RNG.uniform(0.5, 1, 6)
    for deg in (0, 1, 3):
        same(lambda x, y, deg=deg: np.polyfit(x, y, deg), x, y, rtol=1e-9)
    same(lambda x, y, w: np.polyfit(x, y, 2, w=w), x, y, w, rtol=1e-9)
    same(lambda x, y: np.polyfit(x, np.stack([y, y**2], 1), 2), x, y, rtol=1e-9)
    same(lambda x, y: np.polyfit(x, y, 2, cov=True), x, y, rtol=1e-8, mapped=False)
    same(lambda x, y: np.polyfit(x, y, 2, cov="unscaled")[1], x, y, rtol=1e-8, mapped=False)
    check_grads(lambda x, y, w: wnp.polyfit(x, y, 2, w=w), (x, y, w))
    with pytest.raises(ShapeError, match=r"got x of shape \(6,\) and y of shape \(5,\)"):
        wg.jit(lambda x: np.polyfit(x, x[1:], 1))(x)


# ---------------------------------------------------------------- sets


@pytest.mark.parametrize("count", [0, 3, 40])
def test_isin(count):
    others = RNG.integers(0, 60, count)
    x = RNG.integers(0, 60, (5, 6))
    for invert in (False, True):
        same(lambda x, i=invert: np.isin(x, others, invert=i), x)
    same(lambda x: np.isin(x, np.append(others * 1.0, np.nan)), np.array([np.nan, 1.0, 7.0]))


def padded(values, size, fill):
    return np.append(values, np.full(max(size - len(values), 0), fill))[:size]


SETS = {
    "union1d": (np.union1d, lambda x, y, **o: wnp.union1d(x, y, **o)),
    "intersect1d": (np.intersect1d, lambda x, y, **o: wnp.intersect1d(x, y, **o)),
    "setdiff1d": (np.setdiff1d, lambda x, y, **o: wnp.setdiff1d(x, y, **o)),
    "setxor1d": (np.setxor1d, lambda x, y, **o: wnp.setxor1d(x, y, **o)),
    "unique": (lambda x, y: np.unique(x), lambda x, y, **o: wnp.unique(x, **o)),
}


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("size", [0, 2, 9])
def test_sets_of_a_fixed_size(name, size):
    theirs, ours = SETS[name]
    other = np.array([5.0, 2.0, 3.0])
    f = lambda x, y: ours(x, y, size=size, fill_value=-1.0)
    want = padded(theirs(TIED, other), size, -1.0)
    runs = [f, wg.jit(f), lambda *args: wg.vmap(f)(*[np.stack([a, a]) for a in args])[1]]
    for run in runs:
        np.testing.assert_array_equal(run(TIED, other), want)
    np.testing.assert_array_equal(ours(TIED, other), theirs(TIED, other))
    smallest = ours(TIED, other, size=9)
    np.testing.assert_array_equal(smallest, padded(theirs(TIED, other), 9, smallest[0]))
    with pytest.raises(AbstractValueError, match=r"or give `size`, the number of values"):
        wg.jit(lambda x, y: ours(x, y))(TIED, other)
    with pytest.raises(OptionError, match=r"got size=-1\. Give 0 or more"):
        ours(TIED, other, size=-1)


def test_the_derivative_follows_the_elements_of_a_set():
    f = lambda x: wnp.unique(x, size=4)[:3] * np.array([1.0, 10.0, 100.0])
    np.testing.assert_array_equal(wg.grad(lambda x: np.sum(f(x)))(TIED), [10, 1, 0, 0, 0, 100])


def test_all_that_unique_returns():
    x = np.array([[3, 1, 3], [2, 1, 1]])
    options = {"return_index": True, "return_inverse": True, "return_counts": True}
    for size in (2, 3):
        found = wg.jit(lambda x, size=size: wnp.unique(x, size=size, **options))(x)
        values, places, inverse, counts = np.unique(x, **options)
        for got, want in zip(
            found, (values[:size], places[:size], inverse, counts[:size]), strict=True
        ):
            np.testing.assert_array_equal(got, want)
    line = np.array([np.nan, 1.0, np.nan])
    for equal in (True, False):
        want = padded(np.unique(line, equal_nan=equal), 4, 0.0)
        np.testing.assert_array_equal(
            wnp.unique(line, equal_nan=equal, size=4, fill_value=0.0), want
        )


# ---------------------------------------------------------------- histograms


@pytest.mark.parametrize("bins", [5, [-1.0, 0.0, 0.5, 3.0], np.array([-3.0, 0.1, 3.0])], ids=str)
@pytest.mark.parametrize("options", [{}, {"density": True}, {"range": (-0.5, 1.0)}], ids=str)
def test_histograms(bins, options):
    weights = RNG.uniform(size=X.shape)
    same(lambda x: np.histogram(x, bins, **options), X)
    same(lambda x, w: np.histogram(x, bins, weights=w, **options), X, weights)
    check_grads(lambda w: wnp.histogram(X, bins, weights=w, **options)[0], (weights,))
    sides = {key: [value] * 2 if key == "range" else value for key, value in options.items()}
    same(lambda x, y: np.histogram2d(x[0], y[0], bins, **sides), X, X + 0.1)
    many = bins if isinstance(bins, int) else [bins] * 2
    same(lambda x, w: np.histogramdd(x[:, :2], many, weights=w, **sides)[0], X, weights[:, 0])


def test_edges_of_bins():
    for bins in (3, "auto", "sturges", [0.0, 1.0]):
        got = wg.vjp(lambda x, b=bins: np.histogram_bin_edges(x, b), X)[0]
        np.testing.assert_allclose(got, np.histogram_bin_edges(X, bins))
    same(lambda x: np.histogram_bin_edges(x, 4), X)
    same(lambda x: np.histogram_bin_edges(x * 0 + 2, 2), X)
    # they follow the extremes of the samples, the range, or the edges given; so do densities
    ends, own = np.array([-0.5, 1.0]), np.array([-1.0, 0.0, 0.5, 3.0])
    for bins in (3, "sturges"):
        check_grads(lambda x, b=bins: wnp.histogram_bin_edges(x, b), (X,))
    check_grads(lambda e: wnp.histogram_bin_edges(X, 3, range=(e[0], e[1])), (ends,))
    check_grads(lambda e: wnp.histogram_bin_edges(X, e), (own,))
    check_grads(lambda x: wnp.histogram(x, 3, density=True), (X,))
    check_grads(lambda e: wnp.histogram(X, e, density=True), (own,))
    check_grads(lambda x: wnp.histogramdd(x[:, :2], 2, density=True), (X,))
    check_grads(lambda x, y: wnp.histogram2d(x[0], y[0], 2, density=True), (X, X + 0.1))
    same(lambda x: np.histogram(x, 3), np.array([1, 5, 2]))
    with pytest.raises(AbstractValueError, match=r"histogram with bins='auto'.*the number of bins"):
        wg.jit(lambda x: np.histogram(x, "auto"))(X)
    with pytest.raises(ShapeError, match=r"histogramdd .*: got 3 bins and 2 ranges for 2 axes"):
        wg.jit(lambda x: np.histogramdd(x[:, :2], [1, 2, 3]))(X)


# ---------------------------------------------------------------- r_, c_, vectorize

JOINED = {
    "lines": lambda x: np.r_[x[0], 0.0, x[1], 1:4],
    "points": lambda x: np.r_[x[0], -1:1:5j],
    "rows": lambda x: np.r_[x, x],
    "along the last axis": lambda x: np.r_["-1", x, x * 2],
    "as rows": lambda x: np.r_["0,2", x[0], x],
    "as columns": lambda x: np.r_["1,2,0", x[0], x[1]],
    "columns": lambda x: np.c_[x[:, 0], x, np.ones(3)],
    "lines as columns": lambda x: np.c_[x[0], x[1]],
    "numbers": lambda x: np.c_[x[0, 0], 2],
    "deep": lambda x: np.c_[x[None], x[None]],
}


@pytest.mark.parametrize("name", JOINED)
def test_joined_in_brackets(name):
    same(JOINED[name], X)
    same(JOINED[name], X.astype(np.float32), rtol=1e-6)
    check_grads(JOINED[name], (X,))
    np.testing.assert_array_equal(wnp.r_[1:4, 0], np.r_[1:4, 0])


def test_brackets_make_no_matrices():
    with pytest.raises(ShapeError, match=r"r_ .*: got 'r'\. Give numbers, as in '0,2'"):
        wg.jit(lambda x: np.r_["r", x])(X[0])


def test_vectorize():
    root = lambda a, b: np.sqrt(a * a + b)
    same(lambda x, y: np.vectorize(root)(x, y), X, np.abs(X[0]))
    same(lambda x: np.vectorize(root, excluded={1})(x, 2.0), X)
    same(lambda x: np.vectorize(root, excluded={"b"})(x, b=2.0), X)
    same(lambda x: np.vectorize(lambda a: (a, 2 * a))(x), X)
    same(lambda x: np.vectorize(np.dot, signature="(n),(n)->()")(x, x[0]), X)
    same(lambda x: np.vectorize(lambda a: a * 2, otypes=[np.float32])(x), X, rtol=1e-6)
    check_grads(lambda x, y: wnp.vectorize(root)(x, y), (X, np.abs(X[0])))


def test_vectorize_of_what_looks_at_values():
    @wnp.vectorize
    def bent(x):
        return x * x if x > 0 else -x

    np.testing.assert_allclose(bent(X), np.where(X > 0, X * X, -X))
    np.testing.assert_allclose(wg.grad(lambda x: np.sum(bent(x)))(X), np.where(X > 0, 2 * X, -1))
    with pytest.raises(ShapeError, match=r"vectorize .*: got no elements"):
        wg.vjp(bent, np.zeros(0))


def test_vectorize_of_no_elements():
    empty = np.zeros((0, 2))
    for otypes in ([float], "fi"):
        f = lambda x, otypes=otypes: np.vectorize(lambda a: (a, 1), otypes=otypes)(x)
        for got, want in zip(
            wg.tree.leaves(wg.jit(f)(empty)), wg.tree.leaves(f(empty)), strict=True
        ):
            assert (got.shape, got.dtype) == (want.shape, want.dtype)
