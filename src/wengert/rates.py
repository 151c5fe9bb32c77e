"""What this machine can do at most, measured: operations and bytes in a second.

From these follows the *floor* of some work: the time that its operations and bytes take at least.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
_BYTES = 1 << 26  # beyond any cache that one core has to itself


@dataclass(frozen=True)
class Floor:
    """Measured peaks of one thread and of all threads."""

    flops_one: float
    flops_all: float
    bandwidth_one: float
    bandwidth_all: float

    def seconds(self, flops: float | None, size: float | None, threads: int) -> float | None:
        """The time that work of so many operations and bytes takes at least."""
        if flops is None and size is None:
            return None
        many = threads != 1
        compute = (flops or 0.0) / (self.flops_all if many else self.flops_one)
        memory = (size or 0.0) / (self.bandwidth_all if many else self.bandwidth_one)
        return max(compute, memory)


@functools.cache
def measure_floor(quick: bool = False) -> Floor:
    """Peaks by NumPy: a large float32 product for operations, a copy and a sum for bytes."""
    side = 768 if quick else 1536
    workers = os.cpu_count() or 1
    flops_all = matmul_flops(side)
    flops_one = _flops_of_one_thread(side)
    rounds = 3 if quick else 8
    return Floor(
        flops_one,
        max(flops_all, flops_one),
        bandwidth_one := _bandwidth(1, rounds),
        max(_bandwidth(workers, rounds), bandwidth_one),
    )


def matmul_flops(side: int, rounds: int = 5) -> float:
    """Operations in a second of a float32 product of NumPy, with the threads it has."""
    x = np.ones((side, side), np.float32)
    out = np.empty_like(x)
    return 2.0 * side**3 / _best(lambda: np.matmul(x, x, out=out), rounds)


def _flops_of_one_thread(side: int) -> float:
    """In a process of its own: NumPy's library reads its number of threads when it is loaded."""
    code = f"from wengert.rates import matmul_flops; print(matmul_flops({side}))"
    environment = os.environ | dict.fromkeys(THREAD_VARIABLES, "1")
    ran = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return float(ran.stdout)


def _bandwidth(workers: int, rounds: int) -> float:
    """Bytes in a second, read and written; the better of a copy and a sum of two arrays."""
    count = _BYTES // 8 // workers
    parts = [[np.ones(count), np.ones(count), np.ones(count)] for _ in range(workers)]
    if workers == 1:
        x, y, out = parts[0]
        copy = _best(lambda: np.copyto(out, x), rounds)
        triad = _best(lambda: np.add(x, y, out=out), rounds)
    else:
        with ThreadPoolExecutor(workers) as pool:
            copy = _best(lambda: list(pool.map(_copy, parts)), rounds)
            triad = _best(lambda: list(pool.map(_triad, parts)), rounds)
    total = count * workers * 8.0
    return max(2 * total / copy, 3 * total / triad)


def _copy(part: list[np.ndarray]) -> None:
    np.copyto(part[2], part[0])


def _triad(part: list[np.ndarray]) -> None:
    np.add(part[0], part[1], out=part[2])


def _best(call: Callable[[], Any], rounds: int) -> float:
    call()
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best
