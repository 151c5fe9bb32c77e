"""What takes numbers apart into bits is, compiled, NumPy's to the last one."""

import numpy as np
import pytest

import wengert as wg

rng = np.random.default_rng(3)


def floats(dtype):
    """Numbers of all bit patterns, subnormal ones, and those at the edges."""
    info = np.finfo(dtype)
    integer = np.dtype(f"u{info.bits // 8}")
    patterns = rng.integers(0, np.iinfo(integer).max, size=2000, dtype=integer, endpoint=True)
    edges = [0, np.inf, np.nan, info.tiny, info.smallest_subnormal, info.max, 1, 0.5, 3]
    edges += [info.tiny / 4, info.tiny * (1 - info.eps)]
    small = rng.normal(size=200) * info.tiny
    both = np.concatenate([np.array(edges, dtype), -np.array(edges, dtype)])
    return np.concatenate([patterns.view(dtype), both, small.astype(dtype)])


def assert_same_bits(got, want):
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)  # NaN is NaN
    numbers = want == want
    np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(want[numbers]))


def check(function, *args):
    compiled = wg.jit(lambda *args: function(*args))
    with np.errstate(all="ignore"):
        got, want = compiled(*args), function(*args)
    assert type(compiled._entries[0]).__name__ != "HostedEntry"
    for one, other in zip(*[x if type(x) is tuple else (x,) for x in (got, want)], strict=True):
        assert_same_bits(one, other)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
class TestFloats:
    def test_mantissa_and_exponent(self, dtype):
        check(lambda x: tuple(np.frexp(x)), floats(dtype))

    def test_spacing(self, dtype):
        check(np.spacing, floats(dtype))

    def test_nextafter(self, dtype):
        x = floats(dtype)
        y = rng.permutation(x)
        y[::7] = x[::7]
        check(np.nextafter, x, y)

    @pytest.mark.parametrize("integer", [np.int32, np.int64])
    @pytest.mark.parametrize("most", [40, 300, 2500, 2**31 - 1])
    def test_ldexp(self, dtype, integer, most):
        """Also where the result is subnormal, which rounds, and where it leaves the range."""
        x = floats(dtype)
        n = rng.integers(-most, most, size=x.size).astype(integer)
        check(np.ldexp, x, n)


@pytest.mark.parametrize("x", [2.5, 3, np.float32(2.5), np.int64(7), np.arange(4, dtype="i2")])
def test_python_numbers_and_integers(x):
    """Python's numbers have no dtype of their own."""
    y, n = np.array([-5.0, 3.0, 0.0, -1.0], np.float32), np.array([1, -2, 9, 3])
    for f in (np.nextafter, lambda a, b: np.nextafter(b, a)):
        assert_same_bits(wg.jit(f)(x, y), f(x, y))
    assert_same_bits(wg.jit(lambda x: np.ldexp(x, n))(x), np.ldexp(x, n))
    for k in (0, 1):
        got, want = wg.jit(lambda x, k=k: np.frexp(x)[k])(x), np.frexp(x)[k]
        assert_same_bits(np.asarray(got), np.asarray(want))


def test_half_precision_is_numpys():
    x = np.array([0.1, -3.0, 6e-8, 0.0], np.float16)
    assert_same_bits(wg.jit(lambda x: np.spacing(x))(x), np.spacing(x))
    assert_same_bits(wg.jit(lambda x: np.frexp(x)[0])(x), np.frexp(x)[0])


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"])
def test_bitwise_count(dtype):
    limits = np.iinfo(dtype)
    x = rng.integers(limits.min, limits.max, size=500, dtype=dtype, endpoint=True)
    x[:3] = limits.min, limits.max, 0
    check(np.bitwise_count, x)
