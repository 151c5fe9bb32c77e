"""Integers at the edges of compiled programs: arguments, conversions, indices, derivatives."""

import functools
import warnings

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert import nn
from wengert.errors import IntegerError, OutOfRangeError
from wengert.ops.python_integers import fits_64_bits
from wengert.trace.tracer import Trace, concrete

INTEGERS = [np.dtype(code) for code in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")]


def convert_all(x):
    return [x.astype(dtype) for dtype in INTEGERS]


# ---------------------------------------------------------------- Python integers as arguments


EDGE = 2**62


@pytest.mark.parametrize(
    ("operation", "fitting", "beyond"),
    [
        ("add", (EDGE, EDGE - 1), (EDGE, EDGE)),
        ("subtract", (-EDGE, EDGE), (-EDGE, EDGE + 1)),
        ("multiply", (2**31, 2**32 - 1), (2**31, 2**32)),
        ("power", (2, 62), (2, 63)),
        ("left_shift", (1, 62), (1, 63)),
        ("negative", (EDGE,), (-2 * EDGE,)),
    ],
)
def test_many_python_integers_at_the_edge_of_64_bits(operation, fitting, beyond):
    def among_small(numbers):
        return [np.array([1, number, 2]) for number in numbers]

    kept = fits_64_bits(*among_small(fitting), operation=operation)
    np.testing.assert_array_equal(kept, [1, fitting[0], 2])
    with pytest.raises(IntegerError, match="does not fit into 64 bits"):
        fits_64_bits(*among_small(beyond), operation=operation)


def test_many_python_integers_divided_by_zero():
    for operation in ("floor_divide", "remainder"):
        with pytest.raises(ZeroDivisionError):
            fits_64_bits(np.array([4, 4]), np.array([2, 0]), operation=operation)


def test_an_argument_that_does_not_fit():
    f = wg.jit(lambda x, n: x + n)
    x = np.array([1, 250], np.uint8)
    np.testing.assert_array_equal(f(x, 5), [6, 255])
    with pytest.raises(IntegerError, match="the Python integer 300 beside uint8, which holds 0 to"):
        f(x, 300)
    with pytest.raises(OverflowError):
        f(x, -1)
    np.testing.assert_array_equal(f(x, 5), [6, 255])


def test_a_number_made_of_arguments_that_does_not_fit():
    f = wg.jit(lambda x, n: x * (n + 1))
    x = np.array([1, 2], np.int8)
    np.testing.assert_array_equal(f(x, 4), [5, 10])
    with pytest.raises(OverflowError):
        f(x, 127)
    unsigned = np.array([1, 2], np.uint64)
    np.testing.assert_array_equal(f(unsigned, 2**62), [2**62 + 1, 2**63 + 2])
    with pytest.raises(OverflowError):
        f(unsigned, -2)


def test_comparing_with_an_argument_is_exact():
    f = wg.jit(lambda x, n: (x < n, x == n, n >= x))
    for dtype in INTEGERS:
        limits = np.iinfo(dtype)
        x = np.array([limits.min, 1, limits.max], dtype)
        for n in (-(2**63), -1, 0, 1, 127, 256, 2**63 - 1):
            for got, want in zip(f(x, n), (x < n, x == n, n >= x), strict=True):
                np.testing.assert_array_equal(got, want, err_msg=f"{dtype} {n}")


def test_beyond_64_bits():
    for number in (2**63, -(2**63) - 1, 2**80):
        with pytest.raises(OverflowError, match="does not fit into 64 bits"):
            wg.jit(lambda x: x + 1)(number)
    with pytest.raises(OverflowError):
        wg.jit(lambda x: x + 2**63)(np.arange(3))
    np.testing.assert_array_equal(wg.jit(lambda x: x + 2**63)(np.uint64([1])), [2**63 + 1])
    np.testing.assert_array_equal(wg.jit(lambda x: x * 10**30)(np.array([2.0])), [2e30])


def test_bools_stay_bools():
    added = wg.jit(lambda x, flag: x + flag)
    for dtype in (np.int8, np.uint8, np.float32, bool):
        x = np.array([1, 0], dtype)
        for flag in (True, np.True_):
            got = added(x, flag)
            assert got.dtype == dtype
            np.testing.assert_array_equal(got, x + flag)
    assert wg.jit(lambda flag: flag + flag)(True).dtype == bool
    assert wg.jit(lambda x: x + True)(np.int8(1)).dtype == np.int8


def test_writing_a_number_that_does_not_fit():
    def write(x):
        x = x.copy()
        x[0] = 300
        return x

    x = np.array([1, 2], np.uint8)
    for run in (wg.jit(write), lambda x: wg.vmap(write)(x[None])):
        with pytest.raises(OverflowError):
            run(x)
    writes = [
        lambda x: np.where(x > 1, x, 300),
        lambda x: np.pad(x, 1, constant_values=300),
        lambda x: np.maximum(x, 300),
        lambda x: np.full_like(x, 300),
    ]
    for function in writes:
        with pytest.raises(OverflowError):
            wg.jit(function)(x)
        with pytest.raises(OverflowError):
            wg.vmap(function)(x[None])


# ---------------------------------------------------------------- conversions and indices


def test_floats_to_integers():
    """What has an integer is as in NumPy; what has none is the same evaluated and compiled."""
    defined = np.array([0.0, 1.9, -1.9, 127.5, 300.0, -200.0, 70000.0, 2.0**31 - 1, -(2.0**31)])
    undefined = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30])
    for dtype in (np.float64, np.float32):
        x, y = defined.astype(dtype)[:-2], undefined.astype(dtype)
        for got, want in zip(wg.jit(convert_all)(x), convert_all(x), strict=True):
            np.testing.assert_array_equal(got, want, err_msg=str(want.dtype))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            evaluated = wg.vmap(convert_all, in_axes=0)(y)
        for got, same in zip(wg.jit(convert_all)(y), evaluated, strict=True):
            limits = np.iinfo(got.dtype)
            lost = limits.min if got.dtype.kind == "i" else limits.max
            np.testing.assert_array_equal(got, [lost] * 5, err_msg=str(got.dtype))
            np.testing.assert_array_equal(same, got)
    large = np.array([2.0**40, -(2.0**40), 2.0**63, 1.8e19])
    np.testing.assert_array_equal(wg.jit(lambda x: x.astype(int))(large[:2]), [2**40, -(2**40)])
    np.testing.assert_array_equal(
        wg.jit(lambda x: x.astype(np.uint64))(large), [2**40, 2**64 - 2**40, 2**63, int(1.8e19)]
    )


@pytest.mark.parametrize("dtype", ["i4", "i8", "u4", "u8"])
def test_nan_is_no_index(dtype):
    table = np.arange(5.0)
    f = wg.jit(lambda x: wnp.take(table, x.astype(dtype)))
    np.testing.assert_array_equal(f(np.array([3.0, 1.5])), [3.0, 1.0])
    with pytest.raises(OutOfRangeError), np.errstate(invalid="ignore"):
        f(np.array([3.0, np.nan]))


def test_an_unsigned_index_is_not_negative():
    f = wg.jit(lambda x, i: x[i])
    with pytest.raises(OutOfRangeError):
        f(np.arange(5.0), np.array([2**64 - 1], np.uint64))


@pytest.mark.parametrize("mode", ["clip", "wrap"])
@pytest.mark.parametrize("code", ["i1", "i2", "u1", "i8"])
def test_take_with_short_indices(mode, code):
    limits = np.iinfo(code)
    indices = np.array([max(limits.min, -999), min(limits.max, 999), 0, 5], code)
    x = np.arange(70000.0)[: 300 if code[1] == "1" else 40000]
    want = np.take(x, indices, mode=mode)
    function = lambda x, indices: np.take(x, indices, mode=mode)
    np.testing.assert_array_equal(wg.jit(function)(x, indices), want)
    np.testing.assert_array_equal(wg.jvp(lambda x: function(x, indices), (x,), (x,))[0], want)


def test_positions_are_long():
    i = np.array([1, 0, 5], np.int8)
    f = wg.jit(lambda i: np.ravel_multi_index((i, i), (100, 100)))
    np.testing.assert_array_equal(f(i), [101, 0, 505])
    for got, want in zip(
        wg.jit(lambda i: np.unravel_index(i, (2, 300)))(i), np.unravel_index(i, (2, 300)),
        strict=True,
    ):  # fmt: skip
        np.testing.assert_array_equal(got, want)


# ---------------------------------------------------------------- functions


def test_products_with_a_python_integer():
    x = np.array([100, 100], np.int8)
    functions = [
        lambda x: np.einsum(",i->", 3, x), lambda x: np.dot(3, x), lambda x: np.inner(x, 3),
        lambda x: np.outer(3, x), lambda x: np.kron(3, x), lambda x: np.tensordot(3, x, axes=0),
    ]  # fmt: skip
    for got, function in zip(
        wg.jit(lambda x: [f(x) for f in functions])(x), functions, strict=True
    ):
        want = function(x)
        assert got.dtype == want.dtype == np.int64
        np.testing.assert_array_equal(got, want)


def test_clip_beyond_the_dtype():
    x = np.array([-5, 7], np.int32)
    bounds = [(0, 2**32), (-(2**40), 3), (None, 2**31 - 1), (-(2**31), None)]
    clip = lambda x: [np.clip(x, *pair) for pair in bounds]
    for run in (wg.jit(clip), wg.vmap(clip)):
        for got, want in zip(run(x), clip(x), strict=True):
            assert got.dtype == np.int32
            np.testing.assert_array_equal(got, want)
    for pair in ((2**32, None), (None, -(2**32))):
        with pytest.raises(OverflowError):
            wg.jit(lambda x, pair=pair: np.clip(x, *pair))(x)


def test_pooling_integers_over_the_end():
    pool = lambda x: nn.functional.max_pool2d(x, 2, ceil_mode=True)
    for dtype in (np.int64, np.int8, np.uint8):
        x = np.arange(-25, 0).astype(dtype).reshape(1, 1, 5, 5)
        want = x[..., [[1], [3], [4]], [1, 3, 4]]
        if dtype is not np.uint8:
            want = np.maximum(want, pool(x))
        got = wg.jit(pool)(x)
        assert got.dtype == dtype
        np.testing.assert_array_equal(got, want)


def test_stop_gradient_of_flags():
    flags = np.array([True, False])
    for run in (wg.jit(wg.stop_gradient), wg.vmap(wg.stop_gradient)):
        got = run(flags)
        assert got.dtype == bool
        np.testing.assert_array_equal(got, flags)
    assert wg.jit(lambda x, n: x * wg.stop_gradient(n))(np.float32([2]), 3.0).dtype == np.float32


def test_unsigned_coordinates():
    f, x = np.array([1.0, 2.0, 4.0, 9.0]), np.array([255, 200, 100, 0], np.uint8)
    want = np.gradient(f, x)
    np.testing.assert_allclose(wnp.gradient(f, x), want)
    np.testing.assert_allclose(wg.jit(np.gradient)(f, x), want)
    np.testing.assert_allclose(wg.jit(np.gradient)(f, np.uint8(200)), np.gradient(f, np.uint8(200)))


# ---------------------------------------------------------------- derivatives beside integers

FUNCTIONS = [
    np.add, np.subtract, np.multiply, np.divide, np.arctan2, np.hypot, np.power, np.float_power,
    np.logaddexp, np.logaddexp2, np.maximum, np.minimum, np.fmax, np.fmin, np.fmod, np.remainder,
    np.copysign, np.heaviside, wnp.xlogy, wnp.xlog1py, wnp.betaln,
]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_derivative_beside_an_integer(function):
    """Against the same function of floats alone, for whose rules there are finite differences."""
    y, step = 1.3, 1e-6
    numbers = [dtype.type(n) for dtype in INTEGERS for n in (3, 100)] + [np.True_, 3, 2**40]
    if function in (np.power, np.float_power, np.fmod, np.remainder):
        # too steep for finite differences
        numbers = [n for n in numbers if n != 2**40]
    for number in numbers:
        for f in (lambda y, n=number: function(n, y), lambda y, n=number: function(y, n)):
            with np.errstate(all="ignore"):
                n = float(number)
                plain = (lambda y, n=n: function(n, y)) if f(2.0) == function(n, 2.0) else None
                plain = plain or (lambda y, n=n: function(y, n))
                want = wg.grad(plain)(y)
                difference = (plain(y + step) - plain(y - step)) / (2 * step)
            np.testing.assert_allclose(wg.grad(f)(y), want, rtol=1e-12, err_msg=repr(number))
            np.testing.assert_allclose(want, difference, rtol=1e-4, atol=1e-3 * abs(plain(y)))
    for number in (np.uint8(3), np.int8(100)):
        f = lambda y, n=number: function(n, y)
        np.testing.assert_allclose(wg.jit(wg.grad(f))(y), wg.grad(f)(y), rtol=1e-13)


# ---------------------------------------------------------------- Python integers alone


PYTHON_ARITHMETIC = {
    "+": lambda n, m: n + m,
    "-": lambda n, m: n - m,
    "*": lambda n, m: n * m,
    "//": lambda n, m: n // m,
    "%": lambda n, m: n % m,
    "**": lambda n, m: n**m,
    "<<": lambda n, m: n << m,
    ">>": lambda n, m: n >> m,
    "-n": lambda n, m: -n,
    "abs": lambda n, m: abs(n),
    "+=": lambda n, m: _added(n, m),
    "2 *": lambda n, m: 2 * n,
    "3 -": lambda n, m: 3 - n,
}
EDGES = [0, 1, -1, 2, 3, -7, 62, 63, 64, 2000, 2**31, 2**32, -(2**32), 3037000499, 3037000500]
EDGES += [2**62, -(2**62), 2**63 - 1, -(2**63), -(2**63) + 1, 2**62 - 1]


def _added(n, m):
    n += m
    return n


@pytest.mark.parametrize("name", PYTHON_ARITHMETIC)
def test_arithmetic_of_arguments_never_wraps_around(name):
    function = PYTHON_ARITHMETIC[name]
    compiled = wg.jit(function)
    for n in EDGES:
        for m in EDGES:
            if name == "**" and not 0 <= m < 3000:
                continue
            want = python_result(function, n, min(m, 3000) if name == "<<" else m)
            for run in (compiled, functools.partial(evaluated, function)):
                if isinstance(want, type):
                    with pytest.raises(want):
                        run(n, m)
                else:
                    assert int(run(n, m)) == want, (name, n, m)


def python_result(function, n, m):
    """What Python gives, or the error that there must be."""
    try:
        want = function(n, m)
    except (ZeroDivisionError, ValueError) as error:
        return type(error)
    return want if -(2**63) <= want < 2**63 else OverflowError


def evaluated(function, *args):
    """The function on traced values that have numbers."""
    with Trace() as trace:
        return concrete(function(*[trace.variable(arg, active=False) for arg in args]))


def test_numbers_with_more_digits_than_python_writes():
    for run in (evaluated, lambda f, *args: wg.jit(f)(*args)):
        with pytest.raises(IntegerError):
            run(lambda n, m: n**m, 3, 2**62)
        with pytest.raises(IntegerError):
            run(lambda n, m: n << m, 3, 2**62)
    with pytest.raises(IntegerError, match="the Python integer of 20001 bits beside int64"):
        wg.jit(lambda x: x + 2**20000)(np.arange(3))


def test_the_error_of_a_result_beyond_64_bits():
    f = wg.jit(lambda n: n * n)
    assert f(2**31) == 2**62
    with pytest.raises(
        IntegerError,
        match="Python integers 1099511627776 and 1099511627776, whose result does not fit",
    ) as error:
        f(2**40)
    assert "static_argnames" in str(error.value)
    assert f(-3) == 9


def test_arrays_of_integers_wrap_around_as_in_numpy():
    x = np.array([2**62, 3], np.int64)
    np.testing.assert_array_equal(wg.jit(lambda x: x * 4)(x), x * 4)
    number = wg.jit(lambda x: x * 4)(np.int64(2**62))
    assert number == 0
