"""Powers with a half-integer as exponent are roots and products, with NumPy's special values."""

import numpy as np
import pytest

import wengert as wg

SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, -1.0, 5e-324, 1e-160, 1e120, 0.3, 2.0]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("exponent", [0.5, 1.5, 2.5, -0.5, -1.5, -2.5])
def test_half_integers(exponent, dtype):
    limits = np.finfo(dtype)
    with np.errstate(all="ignore"):
        x = np.array(SPECIAL, dtype)
        want, slope = x**exponent, dtype(exponent) * np.abs(x[-2:]) ** dtype(exponent - 1)
    f = wg.jit(lambda x: x**exponent)
    np.testing.assert_allclose(f(x), want, rtol=4 * limits.eps, atol=limits.tiny)
    known = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(f(x))[known], np.signbit(want)[known])
    found = wg.jit(wg.grad(lambda x: np.sum(x**exponent)))(x[-2:])
    np.testing.assert_allclose(found, slope, rtol=8 * limits.eps)


def test_no_function_is_called():
    text = str(wg.jit(lambda x: x**1.5).explain(np.ones(8)))
    loops = text[text.index("# loops") :]
    assert "sqrt(" in loops
    assert "power(" not in loops


@pytest.mark.parametrize("dtype", "i1 i2 i4 i8 u1 u2 u4 u8 ?".split())
@pytest.mark.parametrize("length", [1, 7, 64])
def test_integers_to_powers_of_integers_are_native_and_wrap_around_as_in_numpy(dtype, length):
    rng = np.random.default_rng(length)
    low, high = (0, 2) if dtype == "?" else (-9 if dtype[0] == "i" else 0, 10)
    x = rng.integers(low, high, length).astype(dtype)
    n = rng.integers(0, 2 if dtype == "?" else 100, length).astype(dtype)
    compiled = wg.jit(lambda x, n: x**n)
    got, want = compiled(x, n), x**n
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)
    assert "evaluated by NumPy" not in str(compiled.explain(x, n))


def test_integers_to_negative_powers_are_refused():
    with pytest.raises(ValueError, match="negative integer powers"):
        wg.jit(lambda x: 2**x)(np.arange(-1, 5))
