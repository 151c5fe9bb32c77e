"""NumPy's keyword arguments: its values, evaluated and compiled, and their derivatives."""

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert.errors import OptionError, OutOfRangeError, ShapeError
from wengert.numpy.quantiles import METHODS
from wengert.transforms.check import check_grads

RNG = np.random.default_rng(5)
X = RNG.permutation(np.linspace(-1.3, 1.6, 24)).reshape(3, 2, 4)
HOLES = np.where(RNG.uniform(size=X.shape) < 0.3, np.nan, X)
HOLES[1, 0] = np.nan
HOLES[0, 0, :2] = X[0, 0, :2]
FEW = X.copy()
FEW[:, 0, 1] = np.nan
SOME = RNG.uniform(size=X.shape) < 0.7
SOME[:, :, 0] = True


def close(dtype):
    """Some roundings of numbers around 1."""
    return {"rtol": 1e-6, "atol": 1e-7} if dtype == np.float32 else {"rtol": 1e-12, "atol": 1e-15}


def same(function, *args):
    """Compiled, recorded and mapped, against NumPy's own result; the derivatives exist."""
    with np.errstate(all="ignore"):
        expected = function(*args)
        mapped = wg.vmap(function)(*[np.stack([arg, arg]) for arg in args])
        found = [wg.jit(function)(*args), wg.vjp(function, *args)[0], mapped[0], mapped[1]]
    for got in found:
        got, want = np.asarray(got), np.asarray(expected)
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        np.testing.assert_allclose(got, want, **close(want.dtype))


# ---------------------------------------------------------------- quantiles


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("axis", [None, 1, (0, 2)])
def test_methods_of_quantiles(method, axis):
    for x in (X, X.astype(np.float32), np.arange(24).reshape(3, 2, 4)):
        for q in (0.3, 0.5, 1, 0, np.array([0.0, 0.1, 0.25, 0.75, 1.0])):
            want = np.quantile(x, q, axis=axis, method=method)
            got = np.asarray(wnp.quantile(x, q, axis, method=method))
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, **close(x.dtype))
    percent = lambda x: np.percentile(x, 30, axis=axis, method=method, keepdims=True)
    same(percent, X)


@pytest.mark.parametrize("method", METHODS)
def test_methods_of_quantiles_differentiate(method):
    check_grads(lambda x: wnp.quantile(x, [0.13, 0.4], 2, method=method) ** 2, (X,))
    same(lambda x, q: wnp.quantile(x, q, 2, method=method), X, np.array([0.13, 0.4]))
    check_grads(lambda q: wnp.quantile(X, q, 2, method=method), (np.array([0.13, 0.41]),))


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.filterwarnings("ignore:All-NaN slice")
def test_quantiles_without_nan(method):
    for axis in (None, 2, (0, 1)):
        same(lambda x, axis=axis: np.nanquantile(x, 0.3, axis=axis, method=method), HOLES)
        many = lambda x, axis=axis: np.nanpercentile(x, [20, 55], axis=axis, method=method)
        same(many, HOLES.astype(np.float32))
    some = HOLES[1:]
    slope = wg.grad(lambda x: np.sum(np.nanquantile(x, 0.3, axis=0, method=method)))(some)
    assert np.all(slope[np.isnan(some)] == 0)
    assert np.sum(slope) == pytest.approx(np.sum(np.any(~np.isnan(some), 0)))


@pytest.mark.filterwarnings("ignore:All-NaN slice")
def test_nanmedian():
    for axis in (None, 2, (0, 1)):
        same(lambda x, axis=axis: np.nanmedian(x, axis=axis, keepdims=True), HOLES)
    same(lambda x: np.nanmedian(x, axis=1), np.arange(12).reshape(3, 4))
    np.testing.assert_array_equal(
        wg.grad(lambda x: np.nanmedian(x))(np.array([1.0, np.nan, 5.0, 2.0, 3.0])),
        [0, 0, 0, 0.5, 0.5],
    )


def test_weighted_quantiles():
    weights = RNG.integers(0, 3, X.shape)
    weights[..., 1] = 1
    options = {"method": "inverted_cdf"}
    for q in (0.0, 0.3, 1.0, np.array([0.2, 0.5, 0.9])):
        for axis in (None, 2, (0, 1)):
            same(
                lambda x, w, q=q, a=axis: np.quantile(x, q, axis=a, weights=w, **options),
                X,
                weights,
            )
    line = np.array([1.0, 0.0, 2.5, 1.0])
    same(lambda x: np.percentile(x, 40, axis=2, weights=line, **options), X)
    wide = np.broadcast_to(line, FEW.shape)
    same(lambda x: np.nanquantile(x, 0.4, axis=2, weights=wide, **options), FEW)
    slope = wg.grad(lambda x: np.quantile(x, 0.5, weights=line, **options))(X[0, 0])
    assert np.sort(slope).tolist() == [0, 0, 0, 1]


def test_quantiles_say_what_they_take():
    with pytest.raises(OptionError, match=r"got method='best'\. Methods are inverted_cdf,"):
        wnp.quantile(X, 0.5, method="best")
    with pytest.raises(OptionError, match=r"nanquantile.*: got weights for method='linear'"):
        wnp.nanquantile(X, 0.5, weights=np.ones(X.shape))
    with pytest.raises(ShapeError, match=r"got weights below 0\. Give weights of at least 0"):
        wnp.quantile(X[0, 0], 0.5, weights=[1, -1, 1, 1], method="inverted_cdf")
    with pytest.raises(ShapeError, match=r"percentile.*: got q=\S*1.5"):
        wnp.percentile(X, 150)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("q", [1.5, -0.5, 2, -1])
def test_a_quantile_beyond_all_is_an_error_when_it_runs(method, q):
    with pytest.raises(IndexError):
        wg.jit(lambda x, q: np.quantile(x, q, method=method))(X[0, 0], q)


def test_no_weight_at_all_is_an_error_when_it_runs():
    f = wg.jit(lambda x, w: np.quantile(x, 0.5, weights=w, method="inverted_cdf"))
    with pytest.raises(IndexError):
        f(X[0, 0], np.zeros(4))


# ---------------------------------------------------------------- reductions

REDUCTIONS = {
    "nansum": {"initial": 2.0, "where": SOME},
    "nanprod": {"initial": 2.0, "where": SOME},
    "nanmax": {"initial": 0.1, "where": SOME},
    "nanmin": {"initial": 0.1, "where": SOME},
    "nanmean": {"where": SOME},
    "nanvar": {"where": SOME, "correction": 1},
    "nanstd": {"where": SOME, "ddof": 0.5},
    "var": {"where": SOME, "correction": 1},
    "std": {"where": SOME, "correction": 0.5},
    "sum": {"initial": 2.0, "where": SOME},
    "max": {"initial": 0.1, "where": SOME},
    "mean": {"where": SOME},
    "any": {"where": SOME},
}


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("axis", [None, 2, (0, 1)])
@pytest.mark.filterwarnings("ignore:Degrees of freedom", "ignore:Mean of empty", "ignore:invalid")
@pytest.mark.filterwarnings("ignore:All-NaN")
def test_keywords_of_reductions(name, axis):
    f = lambda x: getattr(np, name)(x, axis=axis, **REDUCTIONS[name])
    same(f, HOLES if name.startswith("nan") else X)
    same(f, HOLES.astype(np.float32) if name.startswith("nan") else X.astype(np.float32))
    same(f, np.arange(24).reshape(3, 2, 4))
    if name != "any":
        ours = lambda x: getattr(wnp, name)(x, axis=axis, **REDUCTIONS[name])
        check_grads(ours, (X,))


def test_mean_is_given():
    centre = np.mean(X, axis=1, keepdims=True)
    same(lambda x: np.var(x, axis=1, mean=centre), X)
    same(lambda x: np.std(x, axis=1, mean=centre, correction=1), X)
    same(lambda x: np.nanstd(x, axis=1, mean=centre), X)


def test_an_extreme_that_starts_from_nan_ignores_it():
    same(lambda x: np.nanmax(x, initial=np.nan), X)
    same(lambda x: np.nanmin(x[:0], initial=2.0), X)


def test_one_name_for_the_degrees_of_freedom():
    for f in (wnp.var, wnp.std, wnp.nanvar, wnp.nanstd):
        with pytest.raises(OptionError, match=r"got ddof=1 and correction=2\. Give one of the two"):
            f(X, ddof=1, correction=2)


@pytest.mark.parametrize("name", ["nanargmax", "nanargmin"])
def test_places_without_nan(name):
    f = getattr(np, name)
    same(lambda x: f(x), HOLES)
    same(lambda x: f(x, axis=2, keepdims=True), FEW)
    same(lambda x: f(x, axis=0), np.arange(12).reshape(3, 4))
    with pytest.raises(ValueError, match="All-NaN"):
        f(HOLES, axis=2)
    with pytest.raises(OutOfRangeError, match=name):
        wg.vjp(lambda x: f(x, axis=2), HOLES)
    with pytest.raises(ValueError, match=name):
        wg.jit(lambda x: f(x, axis=2))(HOLES)


# ---------------------------------------------------------------- axes, sorter, device


@pytest.mark.parametrize(
    "name, shapes, axes",
    [
        ("vecdot", ((3, 2), (3, 4, 2)), [0, 0]),
        ("vecdot", ((3, 2), (2, 3)), [(0,), (1,), ()]),
        ("matvec", ((3, 5, 4), (3, 2, 4)), [(1, 0), 0, 0]),
        ("matvec", ((5, 3), (3,)), [(0, 1), (0,), (0,)]),
        ("vecmat", ((3, 4), (3, 4, 5)), [0, (0, 2), 1]),
        ("matmul", ((3, 4, 2), (5, 4, 3)), [(2, 0), (2, 0), (0, 1)]),
        ("matmul", ((3, 4), (3,)), [(1, 0), (0,), (0,)]),
    ],
)
def test_products_along_axes(name, shapes, axes):
    arrays = [RNG.normal(size=s) for s in shapes]
    same(lambda x, y: getattr(np, name)(x, y, axes=axes), *arrays)
    check_grads(lambda x, y: getattr(wnp, name)(x, y, axes=axes), arrays)


def test_products_say_which_axes():
    with pytest.raises(ShapeError, match=r"got axes=\[0, 0, 0\]\. Give three tuples of 2, 1"):
        wnp.matvec(np.eye(2), np.ones(2), axes=[0, 0, 0])
    same(lambda x: np.vecdot(x, x, axis=0, keepdims=True), X)


def test_searchsorted_with_a_sorter():
    a = RNG.permutation(np.arange(9.0))
    order = np.argsort(a)
    for side in ("left", "right"):
        same(lambda v, side=side: np.searchsorted(a, v, side, sorter=order), X * 5)
        same(lambda a, v, side=side: np.searchsorted(a, v, side, sorter=np.argsort(a)), a, X * 5)
    with pytest.raises(ShapeError, match=r"searchsorted.*: got a sorter i64\[2\] for an array of"):
        wnp.searchsorted(a, 1.0, sorter=[0, 1])


def test_arrays_are_made_on_the_processor():
    assert wnp.zeros(2, device="cpu").tolist() == [0, 0]
    makers = [
        lambda d: wnp.zeros(2, device=d), lambda d: wnp.ones(2, device=d),
        lambda d: wnp.empty(2, device=d), lambda d: wnp.full(2, 1.0, device=d),
        lambda d: wnp.eye(2, device=d), lambda d: wnp.arange(2, device=d),
        lambda d: wnp.linspace(0, 1, 3, device=d), lambda d: wnp.asarray([1.0], device=d),
        lambda d: wnp.zeros_like(X, device=d), lambda d: wnp.full_like(X, 1, device=d),
    ]  # fmt: skip
    for make in makers:
        make("cpu")
        with pytest.raises(OptionError, match=r"got device='gpu'\. Give 'cpu', or leave it out"):
            make("gpu")


MASK = np.array([[True, False, True], [False, True, True]])


def assert_same(got, expected):
    assert (np.shape(got), np.asarray(got).dtype) == (
        np.shape(expected),
        np.asarray(expected).dtype,
    )
    np.testing.assert_allclose(got, expected, rtol=1e-14)


BY_PLACE = {
    "sum": (0, None, None, True, 2.0, MASK),
    "prod": (0, float, None, True, 2.0, MASK),
    "max": (1, None, True, 2.0, MASK),
    "mean": (0, None, None, True),
    "var": (0, None, None, 1, True),
    "median": (0, None, False, True),
    "quantile": (0.3, 0, None, False, "hazen", True),
    "nanpercentile": (30, 0, None, False, "hazen", True),
    "nansum": (0, None, None, True, 2.0),
    "nanstd": (0, None, None, 1, True),
    "ptp": (0, None, True),
    "argmax": (0, None),
}


@pytest.mark.parametrize("name", BY_PLACE)
def test_arguments_by_place_are_numpys(name):
    x, given = np.array([[3.0, 1.0, 2.0], [0.5, 4.0, -1.0]]), BY_PLACE[name]
    f = lambda x: getattr(np, name)(x, *given)
    assert_same(wg.jit(f)(x), f(x))
    if hasattr(x, name):
        method = lambda x: getattr(x, name)(*given)
        assert_same(wg.jit(method)(x), method(x))


@pytest.mark.parametrize(
    "f",
    [
        lambda x, out: np.sum(x, 0, None, out),
        lambda x, out: np.max(x, 0, out),
        lambda x, out: x.mean(0, None, out),
        lambda x, out: np.median(x, 0, out),
        lambda x, out: np.dot(x.T, np.ones(2), out),
    ],
)
def test_the_output_by_place(f):
    def run(x):
        out = 0 * x[0]
        f(x, out)
        return out * x[0]

    x = np.array([[3.0, 1.0, 2.0], [0.5, 4.0, -1.0]])
    assert_same(wg.jit(run)(x), run(x))


def test_too_many_arguments_by_place():
    with pytest.raises(TypeError, match="positional arguments"):
        wg.jit(lambda x: x.sum(0, None, None, True, 0.0, True, 1))(np.ones(3))


@pytest.mark.parametrize("name, shapes", [
    ("matmul", ((2, 3), (3, 4))), ("vecdot", ((2, 3), (3,))), ("matvec", ((2, 3), (3,))),
    ("vecmat", ((3,), (3, 4))),
])  # fmt: skip
def test_products_in_a_dtype(name, shapes):
    x, y = (RNG.normal(size=shape) for shape in shapes)
    f = lambda x, y: getattr(np, name)(x, y, dtype=np.float32)
    got = wg.jit(f)(x, y)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, f(x, y), rtol=1e-6)
    check_grads(lambda x, y: getattr(wnp, name)(x, y, dtype=complex).real, (x, y), order=1)
    with pytest.raises(wg.errors.DTypeError, match=name):
        getattr(wnp, name)(x, y, dtype=int)
