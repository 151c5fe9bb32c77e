"""Every function of integers against NumPy itself: each dtype, pairs of them, Python integers.

Values at the ends of each dtype, evaluated and compiled; where NumPy raises an error, one of the
same kind. Beside an integer, the derivative by a float against finite differences.
"""

import itertools

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert.trace.tracer import Trace, concrete

DTYPES = [np.dtype(code) for code in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")]
PAIRS = list(itertools.product(DTYPES, DTYPES))
# Every dtype with itself, and the mixtures in which signs or bools meet.
SOME_PAIRS = [(d, d) for d in DTYPES] + [
    tuple(map(np.dtype, pair)) for pair in (("i1", "u1"), ("u8", "i8"), ("i8", "u8"), ("?", "i1"))
]
PYTHON_INTEGERS = [0, 1, 5, -1, 127, 128, -129, 255, 256, 2**31, 2**32, 2**63 - 1, -(2**63)]
BEYOND_64_BITS = [2**63, 2**64, -(2**64), 10**30]
ERRORS = (OverflowError, TypeError, ValueError)
TOLERANCES = {2: 2e-3, 4: 1e-6, 8: 1e-14}
UFUNCS = {
    ufunc.__name__: ufunc
    for ufunc in (getattr(np, name) for name in dir(np) if hasattr(wnp, name))
    if isinstance(ufunc, np.ufunc) and ufunc.signature is None and ufunc is not np.isnat
}
UNARY = sorted(name for name, ufunc in UFUNCS.items() if ufunc.nin == 1)
BINARY = sorted(name for name, ufunc in UFUNCS.items() if ufunc.nin == 2)
# Those whose code for integers is their own, compiled by default; the others in the slow tests.
INTEGER_CODE = (
    "add subtract multiply floor_divide remainder maximum less equal greater_equal right_shift"
).split()


@pytest.fixture(autouse=True)
def quiet():
    """Overflows and divisions by zero are the point here."""
    with np.errstate(all="ignore"):
        yield


def extremes(dtype):
    """The numbers at the ends of a dtype and around zero."""
    if dtype.kind == "b":
        return np.arange(12) % 5 % 2 == 0
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    numbers = [low, high, -1, 0, 1, 2, 3, 7, 100, high - 1, low + 1, high // 2]
    return np.array([min(max(number, low), high) for number in numbers], dtype)


def mixed(first, second):
    """Every number of the one beside every number of the other."""
    x, y = extremes(first), np.roll(extremes(second), 5)
    return np.repeat(x, len(y)), np.tile(y, len(x))


def numpy_result(function, args):
    """What NumPy gives: a tuple of arrays, or the kind of error."""
    try:
        return arrays(function(*args))
    except ERRORS as error:
        return next(kind for kind in ERRORS if isinstance(error, kind))


def arrays(result):
    return tuple(map(np.asarray, result)) if isinstance(result, tuple) else (np.asarray(result),)


def evaluated(function, *args):
    """The function on traced values that have numbers."""
    with Trace() as trace:
        result = function(*[trace.variable(arg, active=False) for arg in args])
        parts = result if isinstance(result, tuple) else (result,)
        return tuple(np.array(concrete(part)) for part in parts)


def assert_same(got, want, case):
    for one, other in zip(got, want, strict=True):
        assert one.dtype == other.dtype, (case, one.dtype, other.dtype)
        if other.dtype.kind == "f":
            rtol = TOLERANCES[other.dtype.itemsize]
            np.testing.assert_allclose(one, other, rtol=rtol, err_msg=str(case))
        else:
            np.testing.assert_array_equal(one, other, err_msg=str(case))


def check_evaluated(function, cases):
    for args in cases:
        want = numpy_result(function, args)
        if isinstance(want, tuple):
            assert_same(evaluated(function, *args), want, args)
        else:
            with pytest.raises(want):
                evaluated(function, *args)


def check_compiled(function, cases):
    """All cases that have a value as one program; the others while they are traced."""
    good, want = [], []
    for args in cases:
        result = numpy_result(function, args)
        if isinstance(result, tuple):
            good.append(args)
            want.append(result)
        else:
            with pytest.raises(result):
                print(args, wg.jit(function)(*args))
    got = wg.jit(lambda cases: [arrays_of(function(*args)) for args in cases])(good)
    for args, one, other in zip(good, got, want, strict=True):
        assert_same(tuple(map(np.asarray, one)), other, args)


def arrays_of(result):
    return result if isinstance(result, tuple) else (result,)


# ---------------------------------------------------------------- ufuncs


@pytest.mark.parametrize("name", UNARY)
def test_unary_evaluated(name):
    check_evaluated(UFUNCS[name], [(extremes(dtype),) for dtype in DTYPES])


@pytest.mark.parametrize("name", ["signbit", "sign", "absolute", "negative", "invert"])
def test_unary_compiled(name):
    check_compiled(UFUNCS[name], [(extremes(dtype),) for dtype in DTYPES])


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", UNARY)
def test_every_unary_compiled(name):
    check_compiled(UFUNCS[name], [(extremes(dtype),) for dtype in DTYPES])


@pytest.mark.parametrize("name", BINARY)
def test_binary_evaluated(name):
    check_evaluated(UFUNCS[name], [mixed(*pair) for pair in PAIRS])


@pytest.mark.parametrize("name", INTEGER_CODE)
def test_binary_compiled(name):
    check_compiled(UFUNCS[name], [mixed(*pair) for pair in SOME_PAIRS])


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", BINARY)
def test_every_binary_compiled(name):
    check_compiled(UFUNCS[name], [mixed(*pair) for pair in PAIRS])


# ---------------------------------------------------------------- Python integers


def beside(function, dtypes, numbers):
    """The function of an array and each number, on both sides, and the arrays."""
    for dtype, number in itertools.product(dtypes, numbers):
        yield (lambda x, number=number: function(x, number)), extremes(dtype)
        yield (lambda x, number=number: function(number, x)), extremes(dtype)


def check_python(function, dtypes, numbers, compiled):
    good, want = [], []
    for partial, x in beside(function, dtypes, numbers):
        result = numpy_result(partial, (x,))
        if not isinstance(result, tuple):
            with pytest.raises(result):
                evaluated(partial, x)
            with pytest.raises(result):
                print(x.dtype, wg.jit(partial)(x))
            continue
        assert_same(evaluated(partial, x), result, (x.dtype, partial.__defaults__))
        good.append((partial, x))
        want.append(result)
    if compiled and good:
        program = wg.jit(lambda xs: [arrays_of(f(x)) for (f, _), x in zip(good, xs, strict=True)])
        got = program([x for _, x in good])
        for (partial, x), one, other in zip(good, got, want, strict=True):
            assert_same(tuple(map(np.asarray, one)), other, (x.dtype, partial.__defaults__))


@pytest.mark.parametrize("name", ["add", "less", "bitwise_or"])
def test_python_integers_compiled(name):
    check_python(UFUNCS[name], DTYPES, [True, 1, -1, 256, 2**63], True)


@pytest.mark.parametrize("name", BINARY)
def test_python_integers_evaluated(name):
    check_python(UFUNCS[name], DTYPES[:2] + DTYPES[-1:], [True, -1, 200, 2**64], False)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", BINARY)
def test_every_python_integer(name):
    check_python(UFUNCS[name], DTYPES, [True, False, *PYTHON_INTEGERS, *BEYOND_64_BITS], True)


# ---------------------------------------------------------------- reductions


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d.kind != "b"], ids=str)
def test_means_in_a_dtype_of_integers(dtype):
    """The sum wraps around in the dtype, and the quotient is cut off, as NumPy has it."""
    arrays = [np.resize(extremes(own), 300).reshape(3, 100) for own in DTYPES]
    some = np.arange(100) % 3 > 0

    def means(arrays):
        return [
            (np.mean(x, dtype=dtype), np.mean(x, axis=1, dtype=dtype, where=some)) for x in arrays
        ]

    batched = wg.vmap(means)([x[None] for x in arrays])
    for got, same, want in zip(wg.jit(means)(arrays), batched, means(arrays), strict=True):
        assert_same(got, want, dtype)
        assert_same([one[0] for one in same], want, dtype)


def test_variances_in_a_dtype_of_integers_are_refused():
    x = np.arange(5)
    for function in (np.var, np.std, np.nanvar):
        for run in (wg.jit, wg.grad):
            with pytest.raises(TypeError, match="which holds no fractions"):
                run(lambda x, function=function: function(x, dtype=np.int32) * 1.0)(x * 1.0)
