"""`wengert.scipy.signal` beside SciPy: values, derivatives, batches, compiled."""

import numpy as np
import pytest
import scipy.signal

import wengert as wg
from wengert.scipy import signal

RNG = np.random.default_rng(5)
X, K = RNG.normal(size=9), RNG.normal(size=4)
XX, KK = RNG.normal(size=(5, 6)), RNG.normal(size=(3, 2))
CUBE = RNG.normal(size=(3, 4, 3))
WAVE = X + 1j * RNG.normal(size=9)
B, A = np.array([0.5, 0.2, 0.1]), np.array([2.0, -0.6, 0.3, 0.1])

CASES = {}
for mode in ("full", "same", "valid"):
    for name in ("convolve", "correlate", "fftconvolve"):
        CASES[f"{name} {mode}"] = (name, (X, K), {"mode": mode})
        CASES[f"{name} {mode} swapped"] = (name, (K, X), {"mode": mode})
        CASES[f"{name} {mode} 2"] = (name, (XX, KK), {"mode": mode})
        CASES[f"{name} {mode} 3"] = (name, (CUBE, CUBE[:2, :3, :2]), {"mode": mode})
    for boundary in ("fill", "wrap", "symm"):
        for name in ("convolve2d", "correlate2d"):
            options = {"mode": mode, "boundary": boundary}
            CASES[f"{name} {mode} {boundary}"] = (name, (XX, KK), options)
CASES |= {
    "convolve fft": ("convolve", (X, K), {"method": "fft"}),
    "convolve2d filled": ("convolve2d", (XX, KK), {"fillvalue": 2.5}),
    "fftconvolve axes": ("fftconvolve", (XX, KK[:1]), {"axes": 1}),
    "oaconvolve": ("oaconvolve", (X, K), {}),
    "lfilter": ("lfilter", (B, A, X), {}),
    "lfilter of rows": ("lfilter", (A, B, XX), {"axis": 0}),
    "lfilter without recursion": ("lfilter", (B, [1.0], XX), {}),
    "lfilter of one": ("lfilter", (B[:1], A[:1], X), {}),
    "lfilter from a state": ("lfilter", (B, A, XX), {"axis": -1, "zi": RNG.normal(size=(5, 3))}),
    "detrend": ("detrend", (XX,), {}),
    "detrend constant": ("detrend", (XX,), {"axis": 0, "type": "constant"}),
    "detrend in pieces": ("detrend", (X,), {"bp": [3, 7]}),
}


def leaves(result):
    return [np.asarray(leaf) for leaf in (result if isinstance(result, tuple) else (result,))]


@pytest.mark.parametrize(("name", "args", "options"), CASES.values(), ids=list(CASES))
def test_values_derivatives_and_compiled(name, args, options):
    function = lambda *xs: getattr(signal, name)(*xs, **options)
    expected = leaves(getattr(scipy.signal, name)(*args, **options))
    arrays = [np.asarray(arg) for arg in args]
    for found in (function(*arrays), wg.jit(function)(*arrays)):
        for one, other in zip(leaves(found), expected, strict=True):
            assert one.shape == other.shape
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
    wg.check_grads(function, arrays, order=2)
    stacked = [np.stack([array, 2 * array]) for array in arrays]
    both = leaves(wg.vmap(function)(*stacked))
    alone = leaves(function(*[2 * array for array in arrays]))
    for one, other in zip(both, alone, strict=True):
        np.testing.assert_allclose(one[1], other, rtol=1e-12, atol=1e-12)


def test_the_state_of_a_filter_has_a_derivative():
    zi = np.array([0.3, -0.2, 0.1])
    wg.check_grads(lambda b, a, x, zi: signal.lfilter(b, a, x, zi=zi), (B, A, X, zi), order=2)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("name", ["convolve", "correlate", "fftconvolve"])
def test_complex_and_whole_numbers(name, mode):
    for one, other in ((WAVE, K + 2j), (np.arange(6), np.array([1, -2, 3]))):
        expected = getattr(scipy.signal, name)(one, other, mode)
        np.testing.assert_allclose(getattr(signal, name)(one, other, mode), expected, atol=1e-12)
    assert signal.convolve(np.arange(3), np.arange(2)).dtype.kind == "i"
    assert signal.convolve(2.0, 3.0) == 6.0


@pytest.mark.parametrize("shape", [(4, 3), (3, 4), (2, 2)])
@pytest.mark.parametrize("boundary", ["fill", "wrap", "symm"])
@pytest.mark.parametrize("mode", ["full", "same"])
def test_kernels_of_all_sizes(shape, boundary, mode):
    kernel = RNG.normal(size=shape)
    for name in ("convolve2d", "correlate2d"):
        expected = getattr(scipy.signal, name)(XX, kernel, mode, boundary)
        found = getattr(signal, name)(XX, kernel, mode, boundary)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: signal.convolve(X, XX), r"got shapes \(9,\) and \(5, 6\), expected as many axes"),
        (lambda: signal.convolve(X, K, "most"), "got mode='most'. Use one of 'full', 'same'"),
        (lambda: signal.convolve2d(X, K), "expected 2 axes each"),
        (lambda: signal.convolve2d(XX, KK, boundary="edge"), "got boundary='edge'"),
        (lambda: signal.convolve(XX, XX.T, "valid"), "must be at least as long as the other"),
        (lambda: signal.lfilter([[1.0]], [1.0], X), r"got b of shape \(1, 1\), expected a vector"),
        (lambda: signal.detrend(X, bp=20), "got bp=20 for 9 samples"),
    ],
)
def test_errors(call, text):
    with pytest.raises(ValueError, match=text):
        call()


def test_names_are_scipys():
    assert [name for name in signal.__all__ if not hasattr(scipy.signal, name)] == []
