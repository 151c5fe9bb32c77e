"""NumPy's elementwise functions: values and dtypes, plain and traced; their derivatives."""

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert.errors import (
    AbstractValueError,
    ConversionError,
    DTypeError,
    MutationError,
    ShapeError,
)
from wengert.trace import Trace, trace
from wengert.transforms import check_grads, grad, vmap
from wengert.types import type_of

CONTRACTIONS = {"matmul", "vecdot", "matvec", "vecmat"}
UFUNCS = sorted(
    name
    for name in dir(np)
    if isinstance(getattr(np, name), np.ufunc) and name not in CONTRACTIONS | {"isnat"}
)
INTEGER_ONLY = {"gcd", "lcm", "left_shift", "right_shift", "ldexp"} | {
    name for name in UFUNCS if name.startswith("bitwise") or name == "invert"
}
EPSILONS = {c: float(np.finfo(c).eps) for c in "efdFD"}
ARGUMENTS = [
    np.array([0.3, 0.9, 0.5]),
    np.array([0.3, 0.9], np.float32),
    np.array([1, 3, 2]),
    np.array([1, 3], np.uint8),
    np.array([True, False]),
    np.array([0.4 + 0.3j, 1 - 2j]),
    np.float32(0.7),
    0.7,
    2,
]


def same(got, want):
    assert isinstance(got, tuple) == isinstance(want, tuple)
    pairs = zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]
    for g, w in pairs:
        assert np.asarray(g).dtype == np.asarray(w).dtype
        assert np.shape(g) == np.shape(w)
        np.testing.assert_allclose(g, w, rtol=4 * EPSILONS.get(np.asarray(w).dtype.char, 0))


def numpy_or_error(function, *args):
    with np.errstate(all="ignore"):
        try:
            return function(*args)
        except (TypeError, ValueError) as error:
            return error


def test_every_ufunc_is_there():
    assert set(UFUNCS) <= set(wnp.__all__)


@pytest.mark.parametrize("name", UFUNCS)
def test_ufuncs_give_what_numpy_gives(name):
    ufunc, function = getattr(np, name), getattr(wnp, name)
    pairs = [(x,) for x in ARGUMENTS]
    if ufunc.nin == 2:
        scalars = [np.float32(2), 3, 1.5, np.int8(3)]
        pairs = [(x, x) for x in ARGUMENTS] + [(x, s) for x in ARGUMENTS for s in scalars]
        pairs += [(s, x) for x in ARGUMENTS for s in scalars]
    for args in pairs:
        want = numpy_or_error(ufunc, *args)
        if isinstance(want, Exception):
            with pytest.raises((TypeError, ValueError)):
                numpy_or_error_free(function, *args)
            continue
        with np.errstate(all="ignore"):
            same(function(*args), want)
            same(trace(function, *args)(*args), want)
        assert abstract_dtypes(function, args) == [r.dtype for r in results_of(want)], args


def results_of(result):
    return list(result) if isinstance(result, tuple) else [result]


def abstract_dtypes(function, args):
    """The dtypes of the results where only the types of the arguments are known."""
    with Trace() as recording:
        xs = [recording.variable(array_type=type_of(arg), active=False) for arg in args]
        return [result.dtype for result in results_of(function(*xs))]


def numpy_or_error_free(function, *args):
    with np.errstate(all="ignore"):
        return function(*args)


@pytest.mark.parametrize("name", UFUNCS)
def test_plain_numpy_reaches_the_same_function(name):
    ufunc = getattr(np, name)
    x = np.array([1, 2, 3]) if name in INTEGER_ONLY else np.array([0.2, 0.5, 0.9])
    if name in ("arccosh", "acosh"):
        x = x + 1
    args = (x,) * ufunc.nin
    if name == "ldexp":
        args = (np.array([0.5, 1.0, 2.0]), x)
    same(trace(lambda *xs: ufunc(*xs), *args)(*args), ufunc(*args))


def test_lists_are_arrays():
    same(wnp.add([1, 2], [0.5, 1.5]), np.add([1, 2], [0.5, 1.5]))


def test_dtype_casts_the_arguments():
    x = np.array([1, 2, 3])
    same(wnp.add(x, x, dtype=np.float32), np.add(x, x, dtype=np.float32))
    same(wnp.sqrt(x, dtype=np.float32), np.sqrt(x, dtype=np.float32))
    same(wnp.multiply(1.5, 2.5, dtype=np.float32), np.multiply(1.5, 2.5, dtype=np.float32))
    with pytest.raises(
        DTypeError, match=r"add.*no loop from f64\[3\], f64\[3\] to int64 under cas"
    ):
        wnp.add(x * 0.5, x * 0.5, dtype=np.int64)
    same(
        wnp.add(x * 0.5, x * 0.5, dtype=np.int64, casting="unsafe"),
        np.add(x * 0.5, x * 0.5, dtype=np.int64, casting="unsafe"),
    )


def test_where_keyword_needs_out():
    x = np.array([1.0, 4.0])
    with pytest.raises(ShapeError, match=r"sqrt.*where= without out=.*Use where\(mask, f\(x\)"):
        wnp.sqrt(x, where=x > 2)
    out = np.zeros(2)
    assert wnp.sqrt(x, where=x > 2, out=out) is out
    same(out, np.array([0.0, 2.0]))
    with pytest.raises(TypeError, match="add\\(\\) takes 2 arrays, got 1"):
        wnp.add(x)


def test_out_is_written_also_when_traced():
    def f(x):
        y = wnp.zeros(2)
        np.multiply(x, x, out=y)
        wnp.add(y, 1.0, out=y)
        return wnp.sum(y)

    same(grad(f)(np.array([1.0, 2.0])), np.array([2.0, 4.0]))
    same(grad(lambda x: np.sum(np.multiply(x, x, out=np.zeros(2))))(np.ones(2)), np.full(2, 2.0))
    plain = np.zeros(2)
    with pytest.raises(ConversionError):
        grad(lambda x: np.sum(np.multiply(x, x, out=plain)))(np.ones(2))


def test_power_of_a_python_integer_is_an_integer_power():
    graph = trace(lambda x: wnp.power(x, 3), np.ones(2))
    assert graph.outputs[0].op.name == "integer_power"
    assert float(grad(lambda x: np.power(x, 2))(0.0)) == 0.0
    assert float(grad(grad(grad(lambda x: wnp.pow(x, 3))))(0.0)) == 6.0
    same(wnp.float_power(np.array([1, 2]), -1), np.float_power(np.array([1, 2]), -1))


def test_isnat_is_refused_for_numbers():
    with pytest.raises(DTypeError, match=r"isnat.*for dates and times, got f64.*Use isnan"):
        wnp.isnat(1.0)


def test_isnat_of_dates_is_numpys():
    dates = np.array(["2020-01-01", "NaT"], "datetime64[D]")
    same(wnp.isnat(dates), np.isnat(dates))


# ---------------------------------------------------------------- several results


def test_modf_frexp_divmod():
    x = np.array([-3.0, -0.5, 0.0, 2.75, np.inf])
    same(wnp.modf(x), np.modf(x))
    same(wnp.frexp(x), np.frexp(x))
    same(wnp.divmod(np.array([7, -7]), 3), np.divmod(np.array([7, -7]), 3))
    parts = np.zeros(5), np.zeros(5)
    assert wnp.modf(x, out=parts)[0] is parts[0]
    same(parts, np.modf(x))
    same(grad(lambda x: np.modf(x)[0] * 3)(2.75), np.float64(3.0))
    same(grad(lambda x: np.frexp(x)[0])(6.0), np.float64(0.125))
    assert float(grad(grad(lambda x: np.frexp(x)[0] * x))(6.0)) == 0.25


def test_floating_point_neighbours():
    assert float(grad(lambda x: np.nextafter(x, 2.0))(1.0)) == 1.0
    assert float(grad(lambda y: np.nextafter(1.0, y))(2.0)) == 0.0
    assert float(grad(lambda x: np.spacing(x) + x)(1.0)) == 1.0
    assert float(grad(lambda x: np.ldexp(x, 3))(1.5)) == 8.0
    assert float(grad(lambda y: np.heaviside(0.0, y))(0.5)) == 1.0
    assert float(grad(lambda x: np.heaviside(x, 0.5))(0.3)) == 0.0


# ---------------------------------------------------------------- choices


def test_where():
    x = np.array([-1.0, 4.0, 0.0])
    same(wnp.where(x > 0, x, 0), np.where(x > 0, x, 0))
    same(wnp.where(x), np.where(x))
    same(wnp.where(True, 1.0, 2), np.where(True, 1.0, 2))
    with np.errstate(invalid="ignore"):
        slope = grad(lambda x: np.sum(np.where(x > 0, np.sqrt(x), 0)))(x)
    same(slope, np.array([0.0, 0.25, 0.0]))
    with pytest.raises(TypeError, match="either both x and y, or neither"):
        wnp.where(x, x)
    with pytest.raises(AbstractValueError, match=r"where.*not known while tracing"):
        vmap(lambda x: np.where(x)[0])(x)


@pytest.mark.parametrize("bounds", [(-1, 1), (None, 0.5), (0, None), (np.zeros(3), 1.0)])
def test_clip(bounds):
    x = np.array([-2.0, 0.25, 3.0])
    same(wnp.clip(x, *bounds), np.clip(x, *bounds))
    same(wnp.clip(x, min=bounds[0], max=bounds[1]), np.clip(x, min=bounds[0], max=bounds[1]))
    same(wnp.clip(np.array([1, 5]), 2, 3), np.clip(np.array([1, 5]), 2, 3))
    same(wnp.clip(x.astype("f"), *bounds[:1], 1.5), np.clip(x.astype("f"), *bounds[:1], 1.5))


def test_clip_derivative_is_one_at_the_bounds():
    x = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
    same(grad(lambda x: np.sum(np.clip(x, -1, 1)))(x), np.array([0.0, 1, 1, 1, 0]))
    same(grad(lambda x: x.clip(-1.0, 1.0).sum())(x), np.array([0.0, 1, 1, 1, 0]))
    low, high = grad(lambda a, b: np.sum(np.clip(x, a, b)), argnums=(0, 1))(-1.0, 1.0)
    assert (float(low), float(high)) == (1.0, 1.0)
    with pytest.raises(ValueError, match="not both"):
        wnp.clip(x, -1, 1, max=2)


def test_select_and_piecewise():
    x = np.array([-2.0, -0.5, 0.5, 2.0])
    conditions = [x < -1, x < 0, x > 1]
    choices = [x, x * x, 3 * x]
    same(wnp.select(conditions, choices, 7), np.select(conditions, choices, 7))
    same(wnp.select(conditions, [1, 2, 3], 0.5), np.select(conditions, [1, 2, 3], 0.5))
    f = lambda x: np.sum(np.select([x < 0, x > 1], [x * x, 3 * x], 7.0))
    same(grad(f)(x), np.array([-4.0, -1.0, 0.0, 3.0]))
    parts = ([x < 0, x >= 1], [lambda v: -v, lambda v: v * v, 5.0])
    same(wnp.piecewise(x, *parts), np.piecewise(x, *parts))
    same(wnp.piecewise(x, [x > 0], [1.0]), np.piecewise(x, [x > 0], [1.0]))
    g = lambda x: np.sum(np.piecewise(x, [x < 0, x >= 1], [lambda v: -v, lambda v: v * v]))
    same(grad(g)(x), np.array([-1.0, -1.0, 0.0, 4.0]))
    with pytest.raises(ShapeError, match=r"select.*got 2 conditions and 1 choices"):
        wnp.select([x > 0, x < 0], [x])
    with pytest.raises(ShapeError, match=r"piecewise.*got 1 conditions and 3 functions"):
        wnp.piecewise(x, [x > 0], [1, 2, 3])


def test_nan_to_num():
    x = np.array([np.nan, np.inf, -np.inf, 1.5])
    for dtype in (np.float64, np.float32):
        same(wnp.nan_to_num(x.astype(dtype)), np.nan_to_num(x.astype(dtype)))
    same(wnp.nan_to_num(x, nan=1, posinf=2, neginf=3), np.nan_to_num(x, nan=1, posinf=2, neginf=3))
    z = np.array([complex(np.nan, 1), complex(2, np.inf)])
    same(wnp.nan_to_num(z), np.nan_to_num(z))
    same(wnp.nan_to_num(np.array([1, 2])), np.array([1, 2]))
    same(grad(lambda x: np.sum(np.nan_to_num(x)[::-1]))(x), np.array([0.0, 0.0, 0.0, 1.0]))


# ---------------------------------------------------------------- dtypes, complex numbers, tests


def test_complex_parts():
    z = np.array([1 + 2j, -3 - 0.5j, 2.0])
    for name in ("real", "imag", "angle", "conj", "isreal", "iscomplex", "isrealobj"):
        same(getattr(wnp, name)(z), getattr(np, name)(z))
        same(getattr(wnp, name)(z.real), getattr(np, name)(z.real))
    same(wnp.angle(z, deg=True), np.angle(z, deg=True))
    same(wnp.real_if_close(z + 0j), np.real_if_close(z + 0j))
    same(wnp.real_if_close(z.real + 1e-17j), np.real_if_close(z.real + 1e-17j))
    check_grads(lambda x: np.sum(np.angle(x + 1j * x**2)), (np.array([0.5, -1.2]),))
    check_grads(lambda x: np.real(x * (1 + 2j)) + np.imag(x * (1 + 2j)), (np.array([0.5]),))


def test_imaginary_parts_of_real_arrays_are_read_only():
    def write(x):
        y = x * 2.0
        y.imag[0] = 1.0
        return np.sum(y)

    with pytest.raises(ValueError, match="read-only"):
        write(np.ones(2))
    with pytest.raises(MutationError, match=r"read-only view.*Copy it first"):
        grad(write)(np.ones(2))


def test_astype():
    x = np.array([1.5, -2.5])
    same(wnp.astype(x, np.float32), np.astype(x, np.float32))
    same(wnp.astype(x, int), np.astype(x, int))
    assert wnp.astype(x, float) is not x and wnp.astype(x, float, copy=False) is x
    f = lambda x: np.sum(x.astype(np.float32) * np.float32(2))
    assert grad(f)(x).dtype == np.float64
    same(grad(f)(x), np.array([2.0, 2.0]))


def test_closeness():
    x = np.array([1.0, np.nan, np.inf, -np.inf, 0.0])
    y = np.array([1.0 + 1e-7, np.nan, np.inf, np.inf, 1e-9])
    for equal_nan in (False, True):
        want = np.isclose(x, y, equal_nan=equal_nan)
        same(wnp.isclose(x, y, equal_nan=equal_nan), want)
        with np.errstate(invalid="ignore"):
            f = lambda x, nan=equal_nan: wnp.isclose(x, y, equal_nan=nan)
            same(trace(f, x)(x), want)
    assert wnp.allclose(x[:1], y[:1]) and not wnp.allclose(x, y)
    assert wnp.array_equal(x[:1], [1.0]) and not wnp.array_equal(x, y)
    assert wnp.array_equiv([1, 1], 1)

    def branch(x):
        return x * 2 if np.allclose(x, 1.0) and np.array_equal(x, x) else x

    assert float(grad(branch)(1.0)) == 2.0
    xs = np.array([1.0, 3.0])
    for transform in (wg.vmap, lambda f: wg.jit(wg.vmap(f))):
        same(transform(grad(branch))(xs), [2.0, 1.0])

    def settled(x):
        old = x + 1
        while not np.allclose(x, old, rtol=1e-12, atol=0):
            old, x = x, np.cos(x)
        return np.array_equal(x, old), np.array_equiv(x, old), np.array_equal(x, x[:1]), x

    for found, wanted in zip(wg.jit(settled)(xs), settled(xs), strict=True):
        same(found, wanted)
    with_nan = np.array([1.0, np.nan])
    assert wg.jit(lambda x, y: np.array_equal(x, y, equal_nan=True))(with_nan, with_nan + 0)
    assert not wg.jit(lambda x, y: np.array_equal(x, y))(with_nan, with_nan + 0)
    same(wnp.isposinf(x), np.isposinf(x))
    same(wnp.isneginf(x), np.isneginf(x))


def test_rounding():
    x = np.array([-2.567, 0.5, 1.5, 1234.5678])
    for decimals in (-2, 0, 2):
        same(wnp.round(x, decimals), np.round(x, decimals))
        same(wnp.around(x.astype("f"), decimals), np.around(x.astype("f"), decimals))
    same(wnp.round(np.array([155, 145]), -1), np.round(np.array([155, 145]), -1))
    same(wnp.round(x * (1 + 1j), 1), np.round(x * (1 + 1j), 1))
    same(wnp.fix(x), np.trunc(x))
    same(grad(lambda x: np.sum(np.round(x, 1) * x))(x), np.round(x, 1))


# ---------------------------------------------------------------- functions


def test_sinc_is_smooth_at_zero():
    x = np.array([-1.5, 0.0, 1e-9, 0.3, 0.7])
    same(wnp.sinc(x), np.sinc(x))
    assert wnp.sinc(1.0) == 0  # exactly; of NumPy's it is what pi lacks
    same(wnp.sinc(x.astype("f")), np.sinc(x).astype("f"))
    derivative = np.sinc
    # sinc(x) = sum (-1)^k (pi x)^(2k) / (2k + 1)!
    expected = [1.0, 0.0, -(np.pi**2) / 3, 0.0, np.pi**4 / 5, 0.0, -(np.pi**6) / 7]
    for value in expected:
        np.testing.assert_allclose(derivative(0.0), value, rtol=1e-14, atol=0)
        derivative = grad(derivative)
    check_grads(np.sinc, (np.array([-2.3, -0.4, 0.0, 0.31, 0.33, 0.7]),), order=3)


def test_i0():
    x = np.array([0.0, 0.5, 7.9, 8.1, 30.0])
    np.testing.assert_allclose(wnp.i0(x), np.i0(x), rtol=1e-14)
    np.testing.assert_allclose(grad(lambda x: np.sum(np.i0(x)))(x), wnp.i1(x), rtol=1e-15)
    assert float(grad(grad(np.i0))(0.0)) == 0.5
    assert float(grad(grad(grad(grad(np.i0))))(0.0)) == 0.375


def test_polyval():
    p, x = np.array([2.0, -1.0, 0.5]), np.array([0.3, -1.0])
    same(wnp.polyval(p, x), np.polyval(p, x))
    same(wnp.polyval([1, 2], 3), np.polyval([1, 2], 3))
    check_grads(lambda p, x: np.polyval(p, x), (p, x))


def test_methods_use_these_functions():
    x = np.array([0.24, -1.26])
    same(grad(lambda x: (x.round(1) * x.conj()).sum())(x), np.array([0.2, -1.3]))


def test_everything_is_available_from_the_package():
    assert wg.numpy is wnp


class Labelled:
    """An array with a label, that says itself what ufuncs mean, as those of other packages do."""

    def __init__(self, data, label):
        self.data, self.label = data, label

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        plain = [item.data if isinstance(item, Labelled) else item for item in inputs]
        return Labelled(getattr(ufunc, method)(*plain, **kwargs), self.label)


def test_arrays_of_other_packages_decide_for_themselves():
    def loss(x):
        labelled = wnp.maximum(wnp.exp(Labelled(x * np.arange(3.0), "time")), 2.0)
        assert labelled.label == "time"
        return np.sum(labelled.data)

    assert grad(loss)(2.0) == pytest.approx(np.exp(2.0) + 2 * np.exp(4.0))
    assert wnp.add(1.0, Labelled(np.ones(2), "a"), dtype=np.float32).data.dtype == np.float32


def test_arrays_of_other_packages_to_the_right_of_traced_ones():
    def loss(x):
        labelled = np.multiply(x, Labelled(np.arange(3.0), "time"))
        assert labelled.label == "time"
        return np.sum(np.power(x, labelled).data)

    assert grad(loss)(1.0) == pytest.approx(3.0)
