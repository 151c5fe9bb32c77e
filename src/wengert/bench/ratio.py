"""The honest benchmark of differentiation: value and gradient beside the function alone.

Compiled by wengert, against NumPy's f, wengert's own compiled f, JAX and PyTorch, for a number
of variables from ten to ten million, in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .evaluated import rosenbrock
from .workload import Builder, Workload, available, load, plain

SIZES = (10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000)
# n -> what value and gradient take at least: read x, write the gradient
_BYTES_PER_ELEMENT = 16


def log_sum_exp(xp: Any, x: Any) -> Any:
    """The logarithm of a sum of exponentials."""
    top = x.max()
    return top + xp.log(xp.sum(xp.exp(x - top)))


def mixed_sum(xp: Any, x: Any) -> Any:
    """A sum of sin, exp and tanh."""
    return xp.sum(xp.sin(x) * xp.exp(-x * x) + xp.tanh(x))


FUNCTIONS = {"rosenbrock": rosenbrock, "log-sum-exp": log_sum_exp, "sin/exp/tanh": mixed_sum}


def tridiagonal(xp: Any, x: Any) -> Any:
    """Broyden's tridiagonal function: each result depends on an element and its neighbours."""
    padded = xp.concatenate([xp.zeros(1), x, xp.zeros(1)])
    return (3 - 2 * x) * x - padded[:-2] - 2 * padded[2:] + 1


def point(n: int) -> np.ndarray:
    """Where the functions are evaluated."""
    return np.random.default_rng(0).uniform(-1.0, 1.0, n)


def with_wengert(f: Callable, x: np.ndarray, gradient: bool = True) -> Builder:
    """Compiled by wengert."""

    def build() -> Callable[[], Any]:
        import wengert as wg
        import wengert.numpy as wnp
        from wengert.jit import jit

        def function(x: Any) -> Any:
            return f(wnp, x)

        compiled = jit(wg.value_and_grad(function) if gradient else function)
        return lambda: compiled(x)

    return build


def with_sparse_jacobian(f: Callable, x: np.ndarray) -> Builder:
    """All entries of the Jacobian, as a CSR matrix."""

    def build() -> Callable[[], Any]:
        import wengert as wg
        import wengert.numpy as wnp

        derivative = wg.sparse_jacobian(lambda x: f(wnp, x))
        return lambda: derivative(x)

    return build


def sparse(n: int) -> Workload:
    """The sparse Jacobian of a function with few entries a row, beside the function."""
    x = point(n)
    contestants: dict[str, Builder] = {
        "wengert": with_sparse_jacobian(tridiagonal, x),
        "wengert f": with_wengert(tridiagonal, x, gradient=False),
        "numpy f": plain(tridiagonal, np, x),
    }
    goals = {"wengert f": 1 / 10}
    name = f"sparse Jacobian, tridiagonal n={n}"
    return Workload("ratio", name, contestants, bytes=52 * n, threads=0, goals=goals)


def with_jax(f: Callable, x: np.ndarray) -> Builder:
    """Compiled by JAX, its input already on its side."""

    def build() -> Callable[[], Any]:
        jax = load("jax")
        compiled = jax.jit(jax.value_and_grad(lambda x: f(jax.numpy, x)))
        own = jax.numpy.asarray(x)
        return lambda: jax.block_until_ready(compiled(own))

    return build


def with_torch(f: Callable, x: np.ndarray) -> Builder:
    """PyTorch, operation by operation, as it is used."""

    def build() -> Callable[[], Any]:
        torch = load("torch")
        leaf = torch.tensor(x, requires_grad=True)

        def call() -> Any:
            leaf.grad = None
            value = f(torch, leaf)
            value.backward()
            return value.detach(), leaf.grad

        return call

    return build


def workloads(quick: bool) -> list[Workload]:
    """Every function at every size, and a sparse Jacobian."""
    found = []
    for name, f in FUNCTIONS.items():
        for n in SIZES[:4] if quick else SIZES:
            x = point(n)
            contestants: dict[str, Builder] = {
                "wengert": with_wengert(f, x),
                "wengert f": with_wengert(f, x, gradient=False),
                "numpy f": plain(f, np, x),
                "jax": with_jax(f, x),
                "torch": with_torch(f, x),
            }
            goals = {
                "numpy f": 1.0,
                "wengert f": 1 / 3,
                "jax": 10.0 if n <= 1000 else 1.5,
            }
            found.append(
                Workload(
                    "ratio",
                    f"{name} n={n}",
                    contestants,
                    bytes=_BYTES_PER_ELEMENT * n,
                    threads=0,
                    goals=goals,
                    same=("jax", "torch"),
                    tolerance=1e-9,
                )
            )
    if available("scipy"):
        found.append(sparse(SIZES[3] if quick else SIZES[4]))
    return found
