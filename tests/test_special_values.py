"""Zeros of both signs, infinities, NaN, the smallest and the largest numbers, in every mode.

Evaluated and compiled values are NumPy's, signs of zeros included; slopes are the same evaluated
and compiled, and no NaN where neither the argument nor the value is one.
"""

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp

INF, NAN = np.inf, np.nan
UNARY = """
negative positive absolute fabs sign conjugate square sqrt cbrt reciprocal exp exp2 expm1 log log2
log10 log1p sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh deg2rad rad2deg
floor ceil trunc rint isfinite isinf isnan signbit spacing logical_not isposinf isneginf nan_to_num
real imag angle round fix
""".split()
BINARY = """
add subtract multiply divide floor_divide remainder fmod power hypot logaddexp logaddexp2 arctan2
maximum minimum fmax fmin equal not_equal less less_equal greater greater_equal logical_and
logical_or logical_xor copysign nextafter heaviside isclose
""".split()
# ulps by which the compiled functions may differ
CLOSE = {"f8": 4e-15, "f4": 2e-6, "c16": 4e-15, "c8": 2e-6}
pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:.*fix is deprecated:DeprecationWarning"),  # from NumPy 2.5
]


def numbers(dtype):
    """The special numbers of a dtype."""
    if np.dtype(dtype).kind == "c":
        parts = numbers({"c16": "f8", "c8": "f4"}[dtype])[[0, 1, 2, 3, 7, 8, 9, 10, 14]]
        result = np.empty((len(parts), len(parts)), dtype)
        result.real, result.imag = parts[:, None], parts
        return result.ravel()
    info = np.finfo(dtype)
    tiny, least, most, eps = info.tiny, info.smallest_subnormal, info.max, info.eps
    values = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, 3.0, INF, -INF, NAN, -2.0, tiny, -least, most]
    return np.array([*values, -most, least, -eps, 1e5, -88.0, 710.0, 1e-20, 1e25], dtype)


def arguments(count, dtype):
    values = numbers(dtype)
    if count == 1:
        return (values,)
    return tuple(grid.ravel() for grid in np.meshgrid(values, values))


def assert_like(got, expected, close, what, signs=True):
    got, expected = np.asarray(got), np.asarray(expected)
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape), what
    if got.dtype.kind == "c":
        for part in ("real", "imag"):
            assert_like(getattr(got, part), getattr(expected, part), close, what, signs)
    elif got.dtype.kind != "f":
        np.testing.assert_array_equal(got, expected, what)
    else:
        least = 2 * float(np.finfo(got.dtype).smallest_subnormal)
        np.testing.assert_allclose(got, expected, close, least, err_msg=what)
        if signs:
            zeros = (got == 0) & (expected == 0)
            np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(expected[zeros]), what)


def undecided(name, args):
    """Where NumPy's own products of complex numbers depend on how it was built: a product of parts
    leaves the range there, which a multiply-and-add in one does not notice."""
    if name not in ("multiply", "square") or args[0].dtype.kind != "c":
        return np.zeros(args[0].shape, bool)
    x, y = args[0], args[-1]
    pairs = [(one, other) for one in (x.real, x.imag) for other in (y.real, y.imag)]
    return np.any([np.isfinite(a) & np.isfinite(b) & np.isinf(a * b) for a, b in pairs], axis=0)


def defined(names, count, dtype):
    """The functions that NumPy has for a dtype."""
    for name in names:
        try:
            yield name, getattr(np, name)(*arguments(count, dtype))
        except TypeError:
            continue


@pytest.mark.parametrize("dtype", CLOSE)
@pytest.mark.parametrize("names, count", [(UNARY, 1), (BINARY, 2)], ids=["unary", "binary"])
def test_values(names, count, dtype):
    args, expected = arguments(count, dtype), dict(defined(names, count, dtype))
    compiled = wg.jit(lambda *args: {name: getattr(np, name)(*args) for name in expected})(*args)
    for name, wanted in expected.items():
        assert_like(getattr(wnp, name)(*args), wanted, 0, f"{name} evaluated")
        sure = ~undecided(name, args)
        assert_like(compiled[name][sure], wanted[sure], CLOSE[dtype], f"{name} compiled")


# Where a slope may be NaN: there is none by the exponent of a negative number.
NO_SLOPE = {("power", 1): lambda x, y: x < 0}


def tangents(names, args, place):
    """The slopes by one argument, of all functions in one program."""
    along = [np.zeros_like(arg) for arg in args]
    along[place] = np.ones_like(args[place])
    each = lambda *args: {name: getattr(np, name)(*args) for name in names}
    return wg.jvp(each, args, tuple(along))[1]


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize(
    "names, count, place",
    [(UNARY, 1, 0), (BINARY, 2, 0), (BINARY, 2, 1)],
    ids=["unary", "binary, first", "binary, second"],
)
def test_slopes(names, count, place, dtype):
    args = arguments(count, dtype)
    values = {n: v for n, v in defined(names, count, dtype) if np.asarray(v).dtype.kind == "f"}
    evaluated = tangents(values, args, place)
    compiled = wg.jit(lambda *args: tangents(values, args, place))(*args)
    known = ~np.any(np.isnan(args), axis=0)
    for name, value in values.items():
        allowed = NO_SLOPE.get((name, place), lambda *args: np.zeros(args[0].shape, bool))
        bad = np.isnan(evaluated[name]) & ~np.isnan(value) & known & ~allowed(*args)
        assert not bad.any(), (name, [arg[bad] for arg in args])
        close = 30 * CLOSE[dtype]
        assert_like(compiled[name], evaluated[name], close, f"slope of {name}", signs=False)


# ---------------------------------------------------------------- lines

LINES = np.array(
    [
        [INF, 1, 2, 3], [INF, INF, 0, -INF], [-INF] * 4, [NAN, 1, 2, 3], [-INF, 0, 0, 1],
        [700, -700, 700, 0], [0, 0, 0, 0], [INF, NAN, -INF, 0],
    ]
)  # fmt: skip
ALONG = {
    "softmax": wnp.softmax,
    "log_softmax": wnp.log_softmax,
    "logsumexp": lambda x: wnp.logsumexp(x, axis=-1),
    "logcumsumexp": lambda x: wnp.logcumsumexp(x, axis=-1),
    "sum": lambda x: np.sum(x, axis=-1),
    "prod": lambda x: np.prod(x, axis=-1),
    "max": lambda x: np.max(x, axis=-1),
    "min": lambda x: np.min(x, axis=-1),
    "mean": lambda x: np.mean(x, axis=-1),
    "cumsum": lambda x: np.cumsum(x, axis=-1),
    "cumprod": lambda x: np.cumprod(x, axis=-1),
    "sort": lambda x: np.sort(x, axis=-1),
    "argsort": lambda x: np.argsort(x, axis=-1, kind="stable"),
    "argmax": lambda x: np.argmax(x, axis=-1),
    "argmin": lambda x: np.argmin(x, axis=-1),
    "nanmax": lambda x: np.nanmax(x, axis=-1),
    "nansum": lambda x: np.nansum(x, axis=-1),
    "median": lambda x: np.median(x, axis=-1),
    "norm": lambda x: np.linalg.norm(x, axis=-1),
    "searchsorted": lambda x: np.searchsorted(np.array([-INF, 0.0, 1.0, INF, NAN]), x),
}


@pytest.mark.parametrize("name", ALONG)
def test_lines(name):
    expected = ALONG[name](LINES)  # evaluated: NumPy's own function, or what it is made of
    assert_like(wg.jit(ALONG[name])(LINES), expected, 1e-14, name, signs=False)
    # the slopes of a running product multiply zeros and infinities, in the order of the mode
    if np.asarray(expected).dtype.kind == "f" and name != "cumprod":
        slope = wg.grad(lambda x: np.sum(np.nan_to_num(ALONG[name](x))))
        assert_like(wg.jit(slope)(LINES), slope(LINES), 1e-13, f"slope of {name}", signs=False)


def test_shares_of_infinite_sums():
    slope = wg.jacobian(lambda x: wnp.logsumexp(x, axis=-1))
    np.testing.assert_array_equal(slope(np.array([INF, INF, 0.0, -INF])), [0.5, 0.5, 0, 0])
    slope = wg.grad(np.logaddexp, argnums=(0, 1))
    pairs = {(INF, 0.0): (1, 0), (INF, INF): (0.5, 0.5), (-INF, INF): (0, 1), (-INF, -INF): (0, 0)}
    for pair, shares in pairs.items():
        assert slope(*pair) == wg.jit(slope)(*pair) == shares


# ---------------------------------------------------------------- slopes by hand


def slope(function, *args):
    """The derivative by the first argument, evaluated; compiled it is the same."""
    evaluated = wg.grad(function)(*args)
    assert wg.jit(wg.grad(function))(*args) == evaluated
    return float(evaluated)


def test_copysign_knows_the_sign_of_zero():
    for y, sign in ((1.0, 1), (0.0, 1), (-0.0, -1), (-1.0, -1), (INF, 1), (-INF, -1)):
        f = lambda x, y=y: np.copysign(x, y)
        assert [slope(f, x) for x in (2.0, -2.0, 0.0)] == [sign, -sign, 0]


def test_powers_of_infinity():
    assert [slope(lambda x: x**0.0, x) for x in (INF, -INF, 0.0, 3.0)] == [0, 0, 0, 0]
    assert slope(lambda y: np.float64(INF) ** y, -1.0) == 0
    # x**y = exp(y log x): the mixed second derivative at y = 0 is 1 / x
    mixed = wg.hessian(lambda v: v[0] ** v[1])(np.array([2.0, 0.0]))
    np.testing.assert_allclose(mixed, [[0, 0.5], [0.5, np.log(2) ** 2]], atol=1e-15)


def test_lengths_and_angles_of_any_size():
    for size in (1e-300, 1e-20, 1.0, 1e200, 1e300):
        angle = wg.grad(np.arctan2, argnums=(0, 1))
        for f in (angle, wg.jit(angle)):
            np.testing.assert_allclose(np.multiply(f(3 * size, 4 * size), size), [0.16, -0.12])
    small = np.float32(1e-25)
    np.testing.assert_allclose(wg.grad(np.arctan2)(small, small) * small, 0.5, rtol=1e-6)
    assert [slope(np.hypot, x, 3.0) for x in (INF, -INF, 0.0)] == [1, -1, 0]
    assert slope(np.hypot, 3.0, INF) == 0
    assert slope(np.cbrt, INF) == 0


# ---------------------------------------------------------------- complex numbers

MATRIX = np.array([[1.0, 2, 0], [3, 4, 1], [0, -1, 2]])
COMPLEX = {
    "plus 0j": lambda x: np.sum(np.abs(x + 0j) ** 2),
    "0j plus": lambda x: np.sum(np.abs(0j + x) ** 2),
    "times 1j": lambda x: np.sum(np.imag(np.exp(x * 1j))),
    "times 1 + 0j": lambda x: np.sum(np.real(np.sin(x) * (1 + 0j))),
    "abs": lambda x: np.sum(np.abs(x * (1 + 2j))),
    "sign": lambda x: np.sum(np.real(np.sign(x + 2j))),
    "angle": lambda x: np.sum(np.angle(x + 1j)),
    "sqrt": lambda x: np.sum(np.imag(np.sqrt(x + 1j))),
    "log": lambda x: np.sum(np.imag(np.log(x - 2j))),
    "eigvals": lambda x: np.sum(np.abs(np.linalg.eigvals(x))),
    "eig": lambda x: np.sum(np.abs(np.linalg.eig(x)[1])),
    "svd": lambda x: np.sum(np.linalg.svd(x * (1 + 0.5j))[1]),
    "inv": lambda x: np.sum(np.abs(np.linalg.inv(x + 1j))),
    "det": lambda x: np.abs(np.linalg.det(x + 1j * np.eye(3))),
    "solve": lambda x: np.sum(np.real(np.linalg.solve(x + 1j, x))),
    "fft": lambda x: np.sum(np.abs(np.fft.fft(x)) ** 2),
    "product": lambda x: np.sum(np.real((x @ (x + 1j)) ** 2)),
}


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_programs(name):
    f = COMPLEX[name]
    both = wg.value_and_grad(f)
    value, gradient = wg.jit(both)(MATRIX)
    np.testing.assert_allclose(value, f(MATRIX), rtol=1e-12)
    np.testing.assert_allclose(gradient, both(MATRIX)[1], rtol=1e-11, atol=1e-13)
    wg.check_grads(f, (MATRIX,), order=1)


def test_the_direction_of_complex_numbers():
    z = np.array([3 + 4j, -1j, 0.5 - 2j])
    wg.check_grads(np.sign, (z,))
    np.testing.assert_allclose(wg.jit(np.sign)(z), z / np.abs(z), rtol=1e-15)
    # along z nothing changes, across it the direction turns
    for along, turn in ((z, 0 * z), (1j * z, 1j * np.sign(z))):
        np.testing.assert_allclose(wg.jvp(np.sign, (z,), (along,))[1], turn, atol=1e-15)
    assert wg.vjp(np.sign, 0j)[1](1 + 1j) == (0j,)
    assert wg.grad(np.sign)(2.0) == 0


def test_infinite_parts_stay_apart():
    z = numbers("c16")
    for f in (lambda z: z * 1.0, lambda z: z / 1.0, lambda z: z + -0.0, lambda z: z + 0j):
        assert_like(wg.jit(f)(z), f(z), 0, "products and sums with nothing")


def test_negative_integers_wrap_before_they_are_widened():
    n, wide = np.array([-128, 3], np.int8), np.array([1000, 1000])
    for f in (lambda n, w: w + (-n), lambda n, w: w - (-n), lambda n, w: (-n) + w):
        np.testing.assert_array_equal(wg.jit(f)(n, wide), f(n, wide))


def test_slope_of_logsumexp_of_large_numbers():
    slope = wg.grad(wnp.logsumexp)
    for size in (1e300, -1e300, 1e17, 1e6, 20.0):
        x = np.array([size, size, size - 1.5 * (abs(size) < 1e10)])
        weights = np.exp(x - size)
        for got in (slope(x), wg.jit(slope)(x)):
            np.testing.assert_allclose(got, weights / weights.sum(), rtol=1e-14)


def test_slope_of_cumprod_beside_infinities():
    """A NaN in one row is none in the others."""
    inf, nan = np.inf, np.nan
    slope = wg.jacobian(np.cumprod)
    want = [[1.0, 0.0, 0.0], [inf, 0.0, 0.0], [inf, 0.0, nan]]
    for got in (slope(np.array([0.0, inf, 2.0])), wg.jit(slope)(np.array([0.0, inf, 2.0]))):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2"])
def test_extremes_of_zeros_of_both_signs(dtype):
    """-0.0 if there is one: which zero NumPy chooses depends on length and processor."""
    rng = np.random.default_rng(0)

    def extremes(x):
        return np.max(x), np.min(x), np.max(x, axis=1), np.min(x, axis=0), x.max(0), x.min(1)

    compiled, batched = wg.jit(extremes), wg.vmap(extremes)
    for shape in [(1, 1), (2, 2), (3, 5), (4, 9), (2, 17), (33, 65), (1, 100), (300, 3)]:
        for share in (0.0, 0.1, 0.5, 0.9, 1.0):
            x = np.where(rng.random(shape) < share, -0.0, 0.0).astype(dtype)
            want = [np.signbit(x).any(axis) for axis in (None, None, 1, 0, 0, 1)]
            for results in (compiled(x), [r[0] for r in batched(x[None])]):
                for got, negative in zip(results, want, strict=True):
                    assert got.dtype == dtype
                    np.testing.assert_array_equal(got, 0)
                    np.testing.assert_array_equal(np.signbit(got), negative)


def test_extremes_beside_nan():
    rng = np.random.default_rng(1)
    f = wg.jit(lambda x: (np.max(x), np.min(x), np.max(x, axis=0), np.min(x, axis=1)))
    for dtype in ("f8", "f4"):
        for _ in range(20):
            x = rng.choice(np.array([0.0, -0.0, 1.5, -2.0, INF, -INF], dtype), size=(7, 19))
            places = rng.random(x.shape) < 0.01
            x[places] = rng.choice(np.array([NAN, -NAN], dtype), size=places.sum())
            want = (np.max(x), np.min(x), np.max(x, axis=0), np.min(x, axis=1))
            for got, other in zip(f(x), want, strict=True):
                np.testing.assert_array_equal(got, other)
