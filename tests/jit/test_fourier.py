"""Fourier transforms in compiled programs: NumPy's own loops, called without Python."""

import threading

import numpy as np
import pytest

import wengert as wg
from wengert import machine
from wengert.loops import Host, inside
from wengert.passes import optimise
from wengert.runtime import numpy_loops
from wengert.schedule import schedule

needs_loops = pytest.mark.skipif(not numpy_loops.are_there(), reason="NumPy lies elsewhere")
LENGTHS = [*range(1, 201), 211, 1009, 1024, 4096, 3 * 5 * 7 * 11 * 13, 65537]
RNG = np.random.default_rng(0)


def _line(n, dtype=np.complex128):
    line = RNG.normal(size=n) + 1j * RNG.normal(size=n)
    return line.astype(dtype) if np.dtype(dtype).kind == "c" else line.real.astype(dtype)


def hosts(f, *args, loops=True):
    with machine.use(numpy_loops=loops):
        kernels = schedule(optimise(wg.trace(f, *args))).kernels
    return [str(k) for kernel in kernels for k in inside(kernel) if isinstance(k, Host)]


def close(got, wanted):
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
    tolerance = 1e-12 if got.dtype.char in "dD" else 1e-4
    np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance * np.abs(wanted).max())


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_all_lengths(part):
    for n in LENGTHS[part::8]:

        def f(x, z, n=n):
            whole = np.fft.fft(z)
            return whole, np.fft.ifft(z), np.fft.rfft(x), np.fft.irfft(z[: n // 2 + 1], n)

        x, z = _line(n, np.float64), _line(n)
        for got, wanted in zip(wg.jit(f)(x, z), f(x, z), strict=True):
            close(got, wanted)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128, np.complex64, np.int32])
@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_axes_norms_and_dtypes(dtype, norm):
    x = (5 * _line(120, dtype)).reshape(4, 5, 6).astype(dtype)

    def f(x):
        one = [np.fft.fft(x, axis=axis, norm=norm) for axis in range(3)]
        several = [np.fft.fftn(x, norm=norm), np.fft.ifft2(x, axes=(2, 0), norm=norm)]
        cut = [np.fft.ifft(x, 3, axis=0, norm=norm), np.fft.fft(x.T, 9, norm=norm)]
        halves = [np.fft.irfft(x, axis=axis, norm=norm) for axis in range(3)]
        if dtype(1).dtype.kind != "c":
            halves += [np.fft.rfft(x, axis=axis, norm=norm) for axis in range(3)]
            halves += [np.fft.rfftn(x, norm=norm), np.fft.ihfft(x, norm=norm)]
        return *one, *several, *cut, *halves, np.fft.hfft(x, norm=norm)

    for got, wanted in zip(wg.jit(f)(x), f(x), strict=True):
        close(got, wanted)
    assert hosts(f, x) == []


def _spectrum(x):
    z = np.fft.rfft(x, norm="ortho")
    wave = np.fft.irfft(z * np.exp(-0.1 * np.arange(z.shape[-1]) ** 2), x.shape[-1])
    return np.sum(np.abs(np.fft.fft(wave + 1j * x)) ** 2) + np.sum(wave**3)


@needs_loops
def test_gradients_maps_and_loops_are_native():
    x = RNG.normal(size=(5, 12))

    def solver(x):
        wave = 1j * np.fft.fftfreq(12, 1 / 12)

        def step(u, _):
            slope = np.real(np.fft.ifft(wave * np.fft.fft(u)))
            return u - 0.01 * u * slope, np.max(u)

        u, tops = wg.scan(step, x, None, length=7)
        return np.sum(u**2) + np.sum(tops)

    for f in (_spectrum, solver):
        for g, given in (
            (f, x[0]),
            (wg.grad(f), x[0]),
            (wg.hessian(f), x[0]),
            (wg.vmap(wg.value_and_grad(f)), x),
        ):
            assert hosts(g, given) == []
            got, wanted = wg.jit(g)(given), g(given)
            if not isinstance(got, tuple):
                got, wanted = (got,), (wanted,)
            for one, other in zip(got, wanted, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


@needs_loops
def test_many_threads_at_once():
    f = wg.jit(wg.value_and_grad(_spectrum))
    given = [RNG.normal(size=n) for n in (96, 97, 128, 131)]
    wanted = [f(x)[1] for x in given]
    wrong = []

    def work(x, slope):
        for _ in range(200):
            if not np.array_equal(f(x)[1], slope):
                wrong.append(x.size)

    threads = [threading.Thread(target=work, args=pair) for pair in zip(given, wanted, strict=True)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert wrong == []


def test_without_numpys_loops():
    x = RNG.normal(size=24)
    with machine.use(numpy_loops=False):
        assert len(hosts(_spectrum, x, loops=False)) == 3
        np.testing.assert_allclose(wg.jit(_spectrum)(x), _spectrum(x), rtol=1e-12)


def test_ufuncs_that_lie_otherwise_are_not_trusted(monkeypatch):
    class Other:
        nin, nout, nargs, ntypes, types = 7, 1, 8, 3, ["D->D"]

    monkeypatch.setattr(numpy_loops, "_ufunc", lambda name: Other())
    for cached in (numpy_loops.are_there, numpy_loops._loop):
        cached.cache_clear()
    assert not numpy_loops.are_there()
    for cached in (numpy_loops.are_there, numpy_loops._loop):
        cached.cache_clear()
