"""The Fourier transforms against NumPy's values and finite differences."""

import numpy as np
import pytest

import wengert.numpy as wnp
from wengert.errors import AxisError, DTypeError, ShapeError
from wengert.transforms.check import check_grads
from wengert.transforms.reverse import grad, vjp

rng = np.random.default_rng(0)
REAL = rng.normal(size=(3, 4, 5))
COMPLEX = REAL + 1j * rng.normal(size=(3, 4, 5))

CASES = [
    ("fft", COMPLEX, {}),
    ("fft", REAL, {"n": 7, "axis": 1, "norm": "ortho"}),
    ("fft", COMPLEX, {"n": 3, "norm": "forward"}),
    ("ifft", COMPLEX, {"n": 6, "axis": 0}),
    ("ifft", REAL, {"norm": "forward"}),
    ("rfft", REAL, {}),
    ("rfft", REAL, {"n": 6, "norm": "ortho"}),
    ("rfft", REAL, {"n": 2, "axis": 1, "norm": "forward"}),
    ("irfft", COMPLEX, {}),
    ("irfft", COMPLEX, {"n": 5, "axis": 0, "norm": "ortho"}),
    ("irfft", COMPLEX, {"n": 12, "norm": "forward"}),
    ("irfft", REAL, {"n": 3}),
    ("fft2", COMPLEX, {}),
    ("ifft2", COMPLEX, {"s": (3, 6), "axes": (0, 1)}),
    ("rfft2", REAL, {"s": (6, 3)}),
    ("irfft2", COMPLEX, {"s": (2, 7)}),
    ("fftn", COMPLEX, {}),
    ("fftn", COMPLEX, {"s": (2, 6), "axes": (2, 0), "norm": "ortho"}),
    ("fftn", COMPLEX, {"axes": (1, 1)}),
    ("ifftn", COMPLEX, {"axes": (1,)}),
    ("rfftn", REAL, {}),
    ("rfftn", REAL, {"s": (4, 7), "axes": (2, 1), "norm": "forward"}),
    ("irfftn", COMPLEX, {}),
    ("irfftn", COMPLEX, {"s": (4, 7), "axes": (2, 1), "norm": "ortho"}),
    ("hfft", COMPLEX, {}),
    ("hfft", COMPLEX, {"n": 7, "norm": "ortho"}),
    ("ihfft", REAL, {"n": 6, "norm": "forward"}),
    ("fftshift", REAL, {}),
    ("fftshift", COMPLEX, {"axes": -1}),
    ("ifftshift", REAL, {"axes": (0, 2)}),
]


@pytest.mark.parametrize(("name", "x", "options"), CASES)
def test_values_and_derivatives(name, x, options):
    ours, theirs = getattr(wnp.fft, name), getattr(np.fft, name)
    np.testing.assert_allclose(ours(x, **options), theirs(x, **options), rtol=1e-13, atol=1e-13)
    for dtype in (np.float32, np.complex64) if x.dtype.kind == "c" else (np.float32, np.int64):
        narrow = x.real.astype(dtype)
        assert ours(narrow, **options).dtype == theirs(narrow, **options).dtype
    check_grads(lambda x: ours(x, **options), (x,), order=1)
    check_grads(lambda x: np.sum(np.abs(theirs(x, **options)) ** 2), (x,), order=2)


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("n", [1, 2, 5, 6])
def test_half_spectrum_transposes_are_exact(n, norm):
    x, h = rng.normal(size=n), rng.normal(size=n // 2 + 1) + 1j * rng.normal(size=n // 2 + 1)
    spectrum, pullback = vjp(lambda x: wnp.fft.rfft(x, norm=norm), x)
    np.testing.assert_allclose(
        np.sum(spectrum * h).real, pullback(h)[0] @ x, rtol=1e-12, atol=1e-12
    )
    signal, pullback = vjp(lambda h: wnp.fft.irfft(h, n, norm=norm), h)
    np.testing.assert_allclose(signal @ x, np.sum(pullback(x)[0] * h).real, rtol=1e-12, atol=1e-12)


def test_a_filter_learns_in_float32():
    x = rng.normal(size=8).astype(np.float32)
    gradient = grad(lambda x: np.sum(np.fft.irfft(np.fft.rfft(x) ** 2, 8)))(x)
    assert gradient.dtype == np.float32
    np.testing.assert_allclose(gradient, 2 * x.sum() * np.ones(8), rtol=1e-5)


def test_frequencies():
    np.testing.assert_array_equal(wnp.fft.fftfreq(5, 0.1), np.fft.fftfreq(5, 0.1))
    np.testing.assert_array_equal(wnp.fft.rfftfreq(6), np.fft.rfftfreq(6))


def test_errors():
    with pytest.raises(AxisError, match=r"fft .*got axis 3 for an array with 3 axes"):
        wnp.fft.fft(REAL, axis=3)
    with pytest.raises(ValueError, match=r"got norm='sideways'. Use 'backward', 'ortho'"):
        wnp.fft.fft(REAL, norm="sideways")
    with pytest.raises(ShapeError, match=r"got 0 points for axis 2. Give at least 1 point"):
        wnp.fft.rfft(REAL, n=0)
    with pytest.raises(ShapeError, match=r"got 1 lengths in s=\(3,\) for 2 axes"):
        wnp.fft.fft2(REAL, s=(3,))
    with pytest.raises(DTypeError, match=r"rfft .*got c128\[3,4,5\], expected real numbers"):
        wnp.fft.rfft(COMPLEX)
    with pytest.raises(ShapeError, match=r"whose axis 0 is empty"):
        wnp.fft.fft(np.zeros(0))
