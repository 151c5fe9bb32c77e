"""Complex programs are real arithmetic on the parts: nothing is left to NumPy."""

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert import machine
from wengert.loops import Host, inside
from wengert.passes import optimise
from wengert.schedule import schedule

RNG = np.random.default_rng(3)
Z = RNG.normal(size=(4, 3)) + 1j * RNG.normal(size=(4, 3))
W = RNG.normal(size=(4, 3)) + 1j * RNG.normal(size=(4, 3))
X = RNG.normal(size=(4, 3))
PLACES = np.array([2, 0, 2])


def _filled(z, w):
    y = np.zeros((4, 3), complex)
    y[1:] = z[:-1] * w[1:]
    y[0, 2] = 3.0
    return y


PROGRAMS = {
    "arithmetic": lambda z, w: (z + w) * (z - w) / (w * w + 2j) - (-z),
    "with reals": lambda z, w: (z * 2 + 1) / 3.5 + z.real * w - w / X + 2 / z + X * 1j,
    "powers": lambda z, w: z**2 + z**3 - w**-2 + np.reciprocal(z) + z**w,
    "parts": lambda z, w: np.real(z) + np.imag(w) + np.abs(z) + np.angle(w),
    "conjugates": lambda z, w: np.conj(z) * w + z.conj().T.T,
    "functions": lambda z, w: np.exp(z) + np.log(w) + np.sqrt(z * w),
    "more functions": lambda z, w: np.sin(z) + np.cos(w) * np.tanh(z) + np.arcsin(w) + np.sign(z),
    "layout": lambda z, w: np.concatenate([z.T, w.T[::-1]], 1).reshape(2, 12) * 2j,
    "sums": lambda z, w: np.sum(z, 0) + np.mean(w, 0) * np.cumsum(z[0]),
    "places": lambda z, w: z[PLACES] + wnp.take(w, PLACES, axis=0) * z[1, 2],
    "choices": lambda z, w: np.where(X > 0, z, w) + np.where(z == w, 0, 1j) * np.isnan(z),
    "products": lambda z, w: z @ w.T + X @ w.T + z @ X.T,
    "einsum": lambda z, w: np.einsum("ij,kj->ik", z, np.conj(w)) * 1j,
    "writes": _filled,
    "kinds": lambda z, w: z.astype(np.complex64) * 2j + X.astype(np.float32),
}


def hosts(f, *args, loops=True):
    with machine.use(numpy_loops=loops):
        kernels = schedule(optimise(wg.trace(f, *args))).kernels
    return [str(k) for kernel in kernels for k in inside(kernel) if isinstance(k, Host)]


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
def test_values_and_gradients_are_native(name, dtype):
    f, args = PROGRAMS[name], (Z.astype(dtype), W.astype(dtype))
    tolerance = 1e-12 if dtype is np.complex128 and name != "kinds" else 2e-5

    def loss(z, w):
        found = f(z, w)
        weights = np.arange(1.0, found.size + 1).reshape(found.shape) / found.size
        return np.sum(np.real(found * weights)) + np.sum(np.imag(found) * weights[::-1])

    got, wanted = wg.jit(f)(*args), f(*args)
    assert got.dtype == wanted.dtype
    np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)
    slopes = wg.grad(loss, argnums=(0, 1))
    for one, other in zip(wg.jit(slopes)(*args), slopes(*args), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=30 * tolerance, atol=30 * tolerance)
    assert hosts(f, *args) == [] == hosts(slopes, *args)


def test_samples_are_mapped():
    f = lambda z, w: np.sum(np.exp(z * w)) * np.conj(w[0])
    np.testing.assert_allclose(wg.jit(wg.vmap(f))(Z, W), wg.vmap(f)(Z, W), rtol=1e-12)
    np.testing.assert_allclose(
        wg.jit(wg.vmap(f, in_axes=(0, None)))(Z, W[0]), wg.vmap(f, in_axes=(0, None))(Z, W[0])
    )


@pytest.mark.parametrize("transform", [lambda f: f, wg.value_and_grad])
def test_loops_and_branches_hand_on_the_parts(transform):
    def f(x):
        step = lambda z, row: (z * (0.3 + 0.4j) + row, np.exp(z * 0.1j))
        z, rows = wg.scan(step, x * (1 + 0j), x + 1j * Z)
        z = wg.cond(np.sum(x) > 0, lambda: z * 1j, lambda: z - 1)
        z, _ = wg.while_loop(
            lambda s: s[1] < 3, lambda s: (s[0] * s[0] * 0.1 + 0.2j, s[1] + 1), (z, 0)
        )
        return np.sum(np.abs(z)) + np.sum(np.real(rows)) + np.sum(np.imag(rows * z))

    x = X[0]
    assert hosts(transform(f), x) == []
    got, wanted = wg.jit(transform(f))(x), transform(f)(x)
    if transform is not wg.value_and_grad:
        got, wanted = (got,), (wanted,)
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_what_is_given_and_given_back_as_it_is():
    f = lambda z: (z, z.T, z + 0, 2j)
    for got, wanted in zip(wg.jit(f)(Z), f(Z), strict=True):
        np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(wg.jit(lambda z: z * 2)(Z[::2, ::-1]), Z[::2, ::-1] * 2)
    assert wg.jit(lambda z: z * 2)(1 + 2j) == 2 + 4j
    assert wg.jit(lambda z: z * np.float32(2))(1 + 2j) == 2 + 4j


def test_long_doubles_are_left_to_numpy():
    z = Z.astype(np.clongdouble)
    np.testing.assert_array_equal(wg.jit(lambda z: z * z)(z), z * z)


def test_lengths_that_leave_the_range():
    for size in (1e308, 1e-320, 5e-324):
        z = size * np.array([1 + 1j, -1 + 1j, 1 - 1j, 1 + 0j])
        for f in (np.log, np.sqrt, np.abs):
            np.testing.assert_allclose(wg.jit(f)(z), f(z), rtol=1e-14)
    near = np.exp(1j * np.linspace(-3, 3, 50)) * (1 + np.linspace(-1e-9, 1e-9, 50))
    np.testing.assert_allclose(wg.jit(np.log)(near), np.log(near), rtol=1e-14)
