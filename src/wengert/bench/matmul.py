"""The compiled float32 matrix product beside NumPy's library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .workload import Builder, Workload, load, plain

# (rows, inner, columns): how many times as fast as NumPy it is meant to be
SHAPES = {
    (64, 64, 64): 1.0,
    (100, 400, 84): 1.0,
    (256, 256, 256): 1.0,
    (1024, 1024, 1024): 0.9,
}


def _wengert(x: np.ndarray, y: np.ndarray) -> Builder:
    def build() -> Callable[[], Any]:
        from wengert.jit import jit

        product = jit(lambda x, y: x @ y)
        return lambda: product(x, y)

    return build


def _jax(x: np.ndarray, y: np.ndarray) -> Builder:
    def build() -> Callable[[], Any]:
        jax = load("jax")
        product = jax.jit(lambda x, y: x @ y)
        a, b = jax.numpy.asarray(x), jax.numpy.asarray(y)
        return lambda: jax.block_until_ready(product(a, b))

    return build


def _torch(x: np.ndarray, y: np.ndarray) -> Builder:
    def build() -> Callable[[], Any]:
        torch = load("torch")
        a, b = torch.tensor(x), torch.tensor(y)
        return lambda: a @ b

    return build


def workloads(quick: bool) -> list[Workload]:
    """The shapes, small first."""
    del quick
    found = []
    rng = np.random.default_rng(0)
    for (rows, inner, columns), goal in SHAPES.items():
        x = rng.normal(size=(rows, inner)).astype(np.float32)
        y = rng.normal(size=(inner, columns)).astype(np.float32)
        found.append(
            Workload(
                "matmul",
                f"float32 {rows} x {inner} x {columns}",
                {
                    "wengert": _wengert(x, y),
                    "numpy": plain(np.matmul, x, y),
                    "jax": _jax(x, y),
                    "torch": _torch(x, y),
                },
                flops=2.0 * rows * inner * columns,
                bytes=4.0 * (rows * inner + inner * columns + rows * columns),
                threads=0,
                goals={"numpy": goal},
                same=("numpy",),
                tolerance=1e-5,
            )
        )
    return found
