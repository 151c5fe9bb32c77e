"""Programs that NumPy computes a part of: compiled beside evaluated, value and gradient.

Fourier transforms, decompositions and sorts have no loops of their own, so a compiled program calls
NumPy for them, and Python's recursion and long unrolled loops leave it with many small pieces. None
of this may make a program slower than it is without a compiler.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .workload import Builder, Workload, plain

Case = tuple[Callable, Any]  # f(x), x


def _random(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape)


def _definite(n: int) -> np.ndarray:
    matrix = _random(n, n)
    return matrix @ matrix.T / n + np.eye(n)


def convolution(n: int) -> Case:
    """The error of a circular convolution, made of Fourier transforms of real numbers."""
    signal, target = _random(n), np.sin(np.arange(n))

    def loss(kernel: Any) -> Any:
        made = np.fft.irfft(np.fft.rfft(signal) * np.fft.rfft(kernel), n)
        return np.sum((made - target) ** 2)

    return loss, np.exp(-np.arange(n) / 10)


def spectral(n: int, steps: int) -> Case:
    """Burgers' equation, with derivatives taken in Fourier space."""
    wave = 1j * np.fft.fftfreq(n, 1 / n)
    decay = np.exp(0.001 * wave**2).real

    def energy(u: Any) -> Any:
        for _ in range(steps):
            slope = np.real(np.fft.ifft(wave * np.fft.fft(u)))
            u = np.real(np.fft.ifft(decay * np.fft.fft(u - 0.001 * u * slope)))
        return np.sum(u**2)

    return energy, np.sin(np.linspace(0, 2 * np.pi, n, endpoint=False))


def image_blur(n: int) -> Case:
    """A Fourier transform in two dimensions, and the power of what is left of a picture."""
    distance = np.hypot(*np.meshgrid(*[np.fft.fftfreq(n)] * 2))

    def power(x: Any) -> Any:
        return np.sum(np.abs(np.fft.ifft2(np.fft.fft2(x) * np.exp(-distance))) ** 2)

    return power, _random(n, n)


def fourier_by_halves(n: int) -> Case:
    """A Fourier transform written as Python's recursion over even and odd elements."""

    def transform(x: Any) -> Any:
        if len(x) == 1:
            return x * 1j
        even, odd = transform(x[::2]), transform(x[1::2])
        turned = np.exp(-2j * np.pi * np.arange(len(even)) / len(x)) * odd
        return np.concatenate([even + turned, even - turned])

    return lambda x: np.sum(np.abs(transform(x)) ** 2), _random(n)


def sum_by_halves(n: int) -> Case:
    """Python's recursion over the halves of an array."""

    def total(x: Any) -> Any:
        if len(x) == 1:
            return np.sin(x[0])
        half = len(x) // 2
        return total(x[:half]) * 0.5 + np.tanh(total(x[half:]))

    return total, _random(n)


def merge_by_halves(n: int) -> Case:
    """Recursion that puts an array together from what it made of the halves."""

    def haar(x: Any) -> Any:
        if len(x) == 1:
            return x
        low, high = (x[::2] + x[1::2]) / 2, (x[::2] - x[1::2]) / 2
        return np.concatenate([haar(low), np.tanh(high)])

    return lambda x: np.sum(haar(x) ** 3), _random(n)


def newton(n: int, steps: int) -> Case:
    """A function defined by an equation, which Newton's method solves with its Jacobian."""
    matrix, identity = 0.3 * _random(n, n) / np.sqrt(n), np.eye(n)

    def implicit(b: Any) -> Any:
        x = np.zeros(n)
        for _ in range(steps):
            inside = np.tanh(matrix @ x + b)
            jacobian = identity - (1 - inside**2)[:, None] * matrix
            x = x - np.linalg.solve(jacobian, x - inside)
        return np.sum(x**2)

    return implicit, _random(n)


def gaussian(n: int) -> Case:
    """The likelihood of a Gaussian process, by Cholesky's decomposition."""
    places, values = np.linspace(0, 1, n), np.sin(3 * np.linspace(0, 1, n))

    def likelihood(parameters: Any) -> Any:
        scale, length = parameters[0], parameters[1]
        distance = places[:, None] - places
        kernel = scale**2 * np.exp(-((distance / length) ** 2)) + 0.1 * np.eye(n)
        lower = np.linalg.cholesky(kernel)
        rest = np.linalg.solve(lower, values)
        return 0.5 * np.sum(rest**2) + np.sum(np.log(np.diag(lower)))

    return likelihood, np.array([1.0, 0.3])


def spectrum(x: Any) -> Any:
    """A function of the eigenvalues of a symmetric matrix."""
    values, vectors = np.linalg.eigh((x + x.T) / 2)
    return np.sum(np.exp(-values)) + np.sum(vectors[:, 0] ** 4)


def low_rank(x: Any) -> Any:
    """The largest singular values, and a pseudo-inverse."""
    values = np.linalg.svd(x, compute_uv=False)
    return np.sum(values[:3] ** 2) + np.sum(np.linalg.pinv(x) ** 2)


def ordered(x: Any) -> Any:
    """A sum over what sorting made of an array, weighted by rank."""
    return np.sum(np.sort(x) * np.linspace(-1, 1, len(x))) / np.mean(np.sort(np.abs(x))[-10:])


def lookup(n: int) -> Case:
    """Interpolation in a table that is looked at in many places."""
    queries = np.random.default_rng(1).uniform(-0.1, 1.1, n)
    places = np.linspace(0, 1, 101)

    def error(table: Any) -> Any:
        cells = np.clip(np.searchsorted(places, queries) - 1, 0, 99)
        return np.sum((np.interp(queries, places, table) - table[cells]) ** 2)

    return error, _random(101)


def binned(n: int) -> Case:
    """Values added up in bins, and read back with the indices that put them there."""
    bins = np.random.default_rng(1).integers(0, 50, n)
    inside = (np.arange(50)[:, None] == bins).astype(float)

    def spread(x: Any) -> Any:
        totals = inside @ x
        return np.sum(np.cumsum(totals) ** 2) + np.sum((x - totals[bins] / n) ** 2)

    return spread, _random(n)


def small_systems(count: int, n: int) -> Case:
    """Many small systems of equations."""
    right = _random(count, n)

    def total(x: Any) -> Any:
        return np.sum(np.linalg.solve(x + n * np.eye(n), right[..., None]) ** 2)

    return total, _random(count, n, n)


def determinants(count: int, n: int) -> Case:
    """Logarithms of determinants, and inverses."""

    def total(x: Any) -> Any:
        matrices = x + n * np.eye(n)
        return np.sum(np.linalg.slogdet(matrices)[1]) + np.sum(np.linalg.inv(matrices) ** 2)

    return total, _random(count, n, n)


def cases(quick: bool) -> dict[str, Case]:
    """The programs."""
    del quick  # they are all short
    return {
        "convolution 1000": convolution(1000),
        "spectral solver 256, 10 steps": spectral(256, 10),
        "spectral solver 4096, 10 steps": spectral(4096, 10),
        "blur 128 x 128": image_blur(128),
        "Fourier transform by halves 16": fourier_by_halves(16),
        "sum by halves 64": sum_by_halves(64),
        "wavelets by halves 128": merge_by_halves(128),
        "Newton 5, 10 steps": newton(5, 10),
        "Newton 40, 8 steps": newton(40, 8),
        "Gaussian process 60": gaussian(60),
        "eigenvalues 20": (spectrum, _definite(20)),
        "singular values 30 x 10": (low_rank, _random(30, 10)),
        "sort 1000": (ordered, _random(1000)),
        "interpolation 2000": lookup(2000),
        "bins 2000": binned(2000),
        "systems 100 of 4": small_systems(100, 4),
        "determinants 20 of 6": determinants(20, 6),
    }


def compiled(f: Callable, x: Any) -> Builder:
    """The function, compiled."""

    def build() -> Callable[[], Any]:
        import wengert as wg

        function = wg.jit(f)
        return lambda: function(x)

    return build


def with_gradient(f: Callable) -> Callable:
    """Value and gradient."""
    import wengert as wg

    return wg.value_and_grad(f)


def workloads(quick: bool) -> list[Workload]:
    """Each program and its gradient, compiled and not."""
    found = []
    for name, (f, x) in cases(quick).items():
        for what, function in (("value", f), ("gradient", with_gradient(f))):
            found.append(
                Workload(
                    "hosted",
                    f"{name}, {what}",
                    {"wengert": compiled(function, x), "wengert evaluated": plain(function, x)},
                    goals={"wengert evaluated": 1.0},
                    same=("wengert evaluated",),
                )
            )
    return found
