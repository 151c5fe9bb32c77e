"""Reductions give what NumPy gives, and their derivatives are right, also where it is hard."""

import warnings

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert.errors import AxisError, ShapeError
from wengert.transforms.batching import vmap
from wengert.transforms.check import check_grads
from wengert.transforms.forward import jvp
from wengert.transforms.jacobian import hessian, jacobian
from wengert.transforms.reverse import grad

RNG = np.random.default_rng(7)
AXES = [None, 0, -1, (0, 2), (2, 1), (0, 1, 2)]
# far enough apart that finite differences do not change their order
REAL = RNG.permutation(np.linspace(-1.3, 1.6, 24)).reshape(3, 2, 4)
WITH_NAN = np.where(np.arange(24).reshape(3, 2, 4) % 5 == 1, np.nan, REAL)


def assert_same(got, expected):
    """Equal values to rounding, equal dtypes and shapes."""
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    tolerance = 1e-5 if expected.dtype == np.float32 else 1e-13
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


def arrays():
    yield REAL
    yield REAL.astype(np.float32)
    yield RNG.integers(-4, 5, size=(3, 2, 4))
    yield RNG.integers(0, 5, size=(3, 2, 4)).astype(np.uint8)
    yield RNG.integers(0, 2, size=(3, 2, 4)).astype(bool)


SMOOTH = ["sum", "prod", "mean", "var", "std", "max", "min", "median", "nansum", "nanmean"]
COUNTING = ["any", "all", "count_nonzero"]


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("name", [*SMOOTH, *COUNTING])
def test_values_and_dtypes(name, axis):
    for x in arrays():
        for keepdims in (False, True):
            expected = getattr(np, name)(x, axis=axis, keepdims=keepdims)
            assert_same(getattr(wnp, name)(x, axis=axis, keepdims=keepdims), expected)


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "max", "min"])
def test_exactly_numpys_rounding(name):
    for x in (RNG.normal(size=(211, 307)), RNG.normal(size=70_001).astype(np.float32)):
        for axis in (None, 0, -1):
            np.testing.assert_array_equal(getattr(wnp, name)(x, axis), getattr(np, name)(x, axis))


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_positions(name, axis):
    for x in arrays():
        for keepdims in (False, True):
            expected = getattr(np, name)(x, axis=axis, keepdims=keepdims)
            assert_same(getattr(wnp, name)(x, axis=axis, keepdims=keepdims), expected)


def test_ptp():
    assert_same(wnp.ptp(REAL, 1), np.ptp(REAL, 1))


@pytest.mark.parametrize("name", ["nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nanmax"])
@pytest.mark.parametrize("axis", AXES[:4])
def test_nan_functions(name, axis):
    assert_same(getattr(wnp, name)(WITH_NAN, axis), getattr(np, name)(WITH_NAN, axis))


def test_nanmin_of_nothing_but_nan():
    x = np.array([[np.nan, 1.0], [np.nan, np.nan]])
    assert_same(wnp.nanmin(x, 1), [1.0, np.nan])


def test_nan_is_the_largest_and_the_smallest():
    x = np.array([1.0, np.nan, 3.0])
    assert np.isnan(wnp.max(x)) and np.isnan(wnp.min(x))
    assert np.isnan(wnp.median(x)) and np.isnan(wnp.quantile(x, 0.1))


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "cumsum", "cumprod"])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.float64])
def test_dtype_argument(name, dtype):
    x = np.arange(1, 6, dtype=np.int16)
    assert_same(getattr(wnp, name)(x, dtype=dtype), getattr(np, name)(x, dtype=dtype))


def test_scalars_and_lists():
    assert wnp.sum(2.5) == 2.5 and wnp.max(3) == 3 and wnp.mean([1, 2]) == 1.5
    assert wnp.std(1.5) == 0.0 and wnp.prod([[2, 3], [4, 5]]) == 120
    assert wnp.median(2.0) == 2.0


OF_NUMBERS = (
    "sum prod max min ptp any all argmax argmin count_nonzero cumsum cumprod nansum nanprod nanmax "
    "nanmin nanmean nanvar nanstd nanargmax nancumsum nancumprod"
)


@pytest.mark.parametrize("name", OF_NUMBERS.split())
@pytest.mark.parametrize("axis", [0, -1])
def test_axes_of_a_number(name, axis):
    """As NumPy has it, 0 and -1 alone."""
    f, number = getattr(np, name), np.float64(3.0)
    assert_same(getattr(wnp, name)(number, axis=axis), f(number, axis=axis))
    assert_same(wg.jit(lambda x: f(x, axis=axis))(number), f(number, axis=axis))
    with pytest.raises(AxisError):
        getattr(wnp, name)(number, axis=1)


@pytest.mark.parametrize("name", "sum prod mean var std any all max min nansum nanmean".split())
def test_a_mask_larger_than_the_array_is_refused(name):
    more = {"initial": 0.0} if name in ("max", "min") else {}
    for x, where in [(np.ones(3), np.ones((2, 3), bool)), (np.ones(1), np.ones(3, bool))]:
        with pytest.raises(ValueError):
            getattr(np, name)(x, where=where, **more)
        with pytest.raises(ShapeError, match=r"^where.*: got a mask of shape .* for an array of "):
            getattr(wnp, name)(x, where=where, **more)


def test_initial_and_where():
    mask = REAL > 0
    for name, start in [("sum", 2.0), ("prod", 2.0), ("max", 0.5), ("min", -0.5)]:
        expected = getattr(np, name)(REAL, axis=1, initial=start, where=mask)
        assert_same(getattr(wnp, name)(REAL, axis=1, initial=start, where=mask), expected)
    assert wnp.max(np.zeros(0), initial=-3.0) == -3.0
    assert_same(wnp.max(np.zeros((2, 0)), axis=1, initial=1.0), [1.0, 1.0])
    for name in ("mean", "var", "std", "any", "all"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            expected = getattr(np, name)(REAL, axis=0, where=mask)
            assert_same(getattr(wnp, name)(REAL, axis=0, where=mask), expected)
    with pytest.raises(ShapeError, match="got `where` without `initial`"):
        wnp.max(REAL, where=mask)


def test_degrees_of_freedom():
    for name in ("var", "std"):
        expected = getattr(np, name)(REAL, axis=2, ddof=1)
        assert_same(getattr(wnp, name)(REAL, axis=2, ddof=1), expected)
        assert_same(getattr(wnp, name)(REAL, axis=2, correction=1), expected)
    z = REAL[0] + 1j * REAL[1]
    assert_same(wnp.var(z), np.var(z))
    assert_same(wnp.var(REAL, mean=0.0), np.mean(REAL**2))


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "nancumsum", "nancumprod"])
@pytest.mark.parametrize("axis", [None, 0, -1])
def test_running(name, axis):
    for x in (*arrays(), WITH_NAN):
        assert_same(getattr(wnp, name)(x, axis), getattr(np, name)(x, axis))
    assert_same(getattr(wnp, name)(2.0), getattr(np, name)(2.0))


def test_running_extremes():
    x = np.array([[2.0, 1.0, 3.0, 3.0], [0.0, -1.0, -1.0, 5.0]])
    assert_same(wnp.cummax(x, 1), np.maximum.accumulate(x, 1))
    assert_same(wnp.cummin(x, 1), np.minimum.accumulate(x, 1))
    assert_same(wnp.cummax(np.array([3, 1], np.int8)), np.array([3, 3], np.int8))


def test_cumulative_of_the_array_api():
    x = np.arange(1.0, 7.0).reshape(2, 3)
    for name in ("cumulative_sum", "cumulative_prod"):
        for include in (False, True):
            expected = getattr(np, name)(x, axis=1, include_initial=include)
            assert_same(getattr(wnp, name)(x, axis=1, include_initial=include), expected)
    with pytest.raises(ShapeError, match="got an array of 2 axes and no axis"):
        wnp.cumulative_sum(x)


def test_logcumsumexp_is_stable():
    x = np.array([-np.inf, 1000.0, -1000.0, 1000.0])
    expected = [-np.inf, 1000.0, 1000.0, 1000.0 + np.log(2)]
    np.testing.assert_allclose(wnp.logcumsumexp(x), expected)
    slopes = jacobian(wnp.logcumsumexp)(x)
    expected = [[0, 0, 0, 0], [0, 1, 0, 0], [0, 1, 0, 0], [0, 0.5, 0, 0.5]]
    np.testing.assert_allclose(slopes, expected, atol=1e-15)
    curvature = hessian(lambda x: wnp.logcumsumexp(x)[-1])(x)
    assert np.isfinite(curvature).all()
    assert curvature[1, 1] == pytest.approx(0.25)
    assert curvature[1, 3] == pytest.approx(-0.25)


# ---------------------------------------------------------------- derivatives


@pytest.mark.parametrize(
    "name", ["sum", "prod", "mean", "var", "std", "max", "min", "ptp", "median"]
)
@pytest.mark.parametrize("axis", [None, -2, (0, 2)])
def test_derivatives(name, axis):
    check_grads(lambda x: getattr(wnp, name)(x, axis=axis, keepdims=True), (REAL,))


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"])
@pytest.mark.parametrize("axis", [None, 0, 2])
def test_derivatives_of_running(name, axis):
    check_grads(lambda x: getattr(wnp, name)(x, axis=axis), (REAL,))


def test_derivative_of_the_initial_value():
    check_grads(lambda x, w: wnp.sum(x, where=REAL > 0, initial=w), (REAL, 1.5))


@pytest.mark.parametrize("name", ["nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nanmax"])
def test_nan_has_no_derivative(name):
    x = np.array([1.0, np.nan, 2.5, -1.0])
    some = np.isfinite(x)
    plain = getattr(wnp, name.removeprefix("nan"))
    for derivative in (grad, hessian):
        got = derivative(getattr(wnp, name))(x)
        expected = derivative(plain)(x[some])
        assert np.all(got[~some] == 0)
        np.testing.assert_allclose(got[some][..., some] if got.ndim > 1 else got[some], expected)


def test_ties_share_the_derivative():
    x = np.array([[3.0, 1.0, 3.0], [3.0, 2.0, 0.0]])
    third = 1 / 3
    np.testing.assert_allclose(grad(wnp.max)(x), [[third, 0, third], [third, 0, 0]])
    np.testing.assert_allclose(jvp(wnp.max, (x,), (np.ones((2, 3)),))[1], 1.0)
    rows = grad(lambda x: wnp.sum(wnp.max(x, axis=1)))(x)
    np.testing.assert_allclose(rows, [[0.5, 0, 0.5], [1, 0, 0]])
    np.testing.assert_array_equal(hessian(wnp.max)(x.ravel()), np.zeros((6, 6)))


def test_nan_extremes_follow_the_nan():
    x = np.array([1.0, np.nan, 2.0, np.nan])
    np.testing.assert_array_equal(grad(wnp.max)(x), [0, 0.5, 0, 0.5])
    assert jvp(wnp.min, (x,), (np.array([1.0, 2.0, 3.0, 4.0]),))[1] == 3.0


def test_running_ties_follow_the_first():
    x = np.array([1.0, 3.0, 3.0, 2.0])
    np.testing.assert_array_equal(grad(lambda x: wnp.cummax(x)[-1])(x), [0, 1, 0, 0])
    np.testing.assert_array_equal(grad(lambda x: wnp.cummin(-x)[-1])(x), [0, -1, 0, 0])
    np.testing.assert_array_equal(grad(lambda x: wnp.sum(wnp.cummin(x)))(x), [4, 0, 0, 0])


@pytest.mark.parametrize("zeros", [(), (1,), (0, 2), (0, 1, 2, 3)])
def test_products_with_zeros(zeros):
    x = np.array([1.5, -2.0, 3.0, 0.5])
    x[list(zeros)] = 0.0
    others = [np.prod(np.delete(x, k)) for k in range(4)]
    np.testing.assert_allclose(grad(wnp.prod)(x), others, rtol=1e-15)
    np.testing.assert_allclose(grad(lambda x: wnp.cumprod(x)[-1])(x), others, rtol=1e-15)
    rest = [[0 if j == k else np.prod(np.delete(x, [j, k])) for k in range(4)] for j in range(4)]
    np.testing.assert_allclose(hessian(wnp.prod)(x), rest, rtol=1e-15)
    np.testing.assert_allclose(hessian(lambda x: wnp.cumprod(x)[-1])(x), rest, rtol=1e-15)


def test_third_derivative_of_a_product_at_zero():
    third = jacobian(hessian(wnp.prod))(np.zeros(3))
    assert third[0, 1, 2] == 1.0 and third[0, 0, 1] == 0.0 and np.sum(third) == 6.0


def test_constant_input_has_no_spread():
    x = np.full(4, 2.5)
    np.testing.assert_array_equal(grad(wnp.std)(x), np.zeros(4))
    assert np.isfinite(hessian(wnp.std)(x)).all()
    np.testing.assert_array_equal(grad(wnp.var)(x), np.zeros(4))
    np.testing.assert_allclose(hessian(wnp.var)(x), (np.eye(4) - 0.25) / 2)


def test_float32_stays():
    x = REAL.astype(np.float32)
    for name in (*SMOOTH, "ptp", "cumsum", "cumprod", "cummax", "logcumsumexp"):
        f = getattr(wnp, name)
        assert grad(lambda x, f=f: wnp.sum(f(x)))(x).dtype == np.float32, name


def test_a_long_running_product():
    x = RNG.uniform(0.9, 1.1, size=5000)
    slope = grad(lambda x: wnp.cumprod(x)[-1])(x)
    np.testing.assert_allclose(slope, np.prod(x) / x, rtol=1e-11)


def test_plain_numpy_and_methods_come_here():
    x = REAL
    f = lambda x: np.sum(np.max(x, axis=0)) + x.std() + np.median(x) + np.cumsum(x)[3]
    g = lambda x: wnp.sum(wnp.max(x, 0)) + wnp.std(x) + wnp.median(x) + wnp.cumsum(x)[3]
    np.testing.assert_array_equal(grad(f)(x), grad(g)(x))
    h = lambda x: np.percentile(x, 20.0) + np.nanmax(x) + np.average(x) + x.ptp() + np.ptp(x)
    assert np.isfinite(grad(h)(x)).all()


@pytest.mark.parametrize("name", [*SMOOTH, *COUNTING, "argmax", "cumprod", "cummax", "quantile"])
def test_batched(name):
    function = getattr(wnp, name)
    f = (lambda x: function(x, 0.3)) if name == "quantile" else (lambda x: function(x, axis=1))
    expected = np.stack([f(row) for row in REAL])
    assert_same(vmap(f)(REAL), expected)


# ---------------------------------------------------------------- errors


def test_errors_name_the_function():
    with pytest.raises(AxisError, match=r"sum \(at .*\): got axis 3 for an array with 2 axes"):
        wnp.sum(np.ones((2, 2)), axis=3)
    with pytest.raises(AxisError, match="got the same axis twice"):
        wnp.mean(np.ones((2, 2)), axis=(0, -2))
    with pytest.raises(ShapeError, match=r"max \(at .*\): got an array of shape \(0, 2\)"):
        wnp.max(np.ones((0, 2)), axis=0)
    with pytest.raises(ValueError, match="there is no element to choose"):
        wnp.argmin(np.ones(0))
