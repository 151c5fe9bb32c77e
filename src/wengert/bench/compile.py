"""How long compiling takes: the first call of a training step, and graphs of many operations.

Each is measured in a process of its own, so that nothing is warm, with an empty cache or with one
that another process has filled. Graphs come in two kinds: a *chain* of elementwise operations,
which becomes one loop, and a *mixed* graph of products, sums and elementwise operations, which
becomes many. Both are measured at several sizes; cost must grow with size and no faster.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

from . import cnn, mlp
from .run import timed_once
from .workload import WENGERT, Builder, Workload, load

SIZES = (2_500, 5_000, 10_000)
# Seconds for the largest graph; smaller ones have their share.
LARGEST = 10.0
# Twice the operations take at most so many times as long: two, and what the clock may be off.
GROWTH = 2.5


def chain(xp: Any, x: Any, operations: int) -> Any:
    """Elementwise operations one after the other.

    >>> chain(np, np.zeros(2), 8).tolist()
    [0.0, 0.0]
    """
    for number in range(operations // 4):
        x = xp.sin(x) * 0.5 + x * (1 - 1e-4 * number)
    return x


def mixed(xp: Any, x: Any, operations: int) -> Any:
    """Products, sums and elementwise operations on matrices that depend on each other.

    >>> total, parts = mixed(np, np.eye(2), 15)
    >>> len(parts)
    8
    """
    parts = [x * (1.0 + number) for number in range(8)]
    total = 0.0
    for number in range(operations // 12):
        a, b = parts[number % 8], parts[(3 * number + 1) % 8]
        scale = xp.sum(a * b, axis=number % 2, keepdims=True)
        c = xp.tanh(a - scale * 0.01)
        parts[number % 8] = c @ b * 0.1
        total = total + xp.mean(c * c)
    return total, parts


GRAPHS = {"chain": chain, "mixed": mixed}

_DIGITS = cnn.digit_network(), 100
STEPS: dict[str, dict[str, Builder]] = {
    "mlp": {WENGERT: mlp.with_wengert, "jax": mlp.with_jax},
    "cnn": {WENGERT: cnn.with_wengert(*_DIGITS), "jax": cnn.with_jax(*_DIGITS)},
}
# Seconds of their first calls: with an empty cache, and with a full one.
FIRST_CALLS = {"mlp": (1.0, 0.1), "cnn": (1.5, 0.15)}


def first_call_of_step(network: str, builder: str) -> float:
    """Seconds from building the training step to the end of its first call, in this process."""
    build = STEPS[network][builder]
    return _timed(builder, lambda: build()())


def first_call_of_graph(builder: str, kind: str, operations: int) -> float:
    """Seconds of the first call of a function with so many operations, in this process."""
    graph, x = GRAPHS[kind], np.linspace(0.0, 1.0, 256).reshape(16, 16)
    if builder == "wengert":
        import wengert as wg
        import wengert.numpy as wnp

        return _timed(builder, lambda: wg.jit(lambda x: graph(wnp, x, operations))(x))
    jax = load("jax")
    traced = jax.jit(lambda x: graph(jax.numpy, x, operations))
    return _timed(builder, lambda: jax.block_until_ready(traced(x)))


def _timed(builder: str, call: Callable[[], Any]) -> float:
    """Seconds of one call; importing the library is not part of it."""
    if builder == "wengert":
        import wengert.jit  # noqa: F401
    else:
        load(builder)
    return timed_once(call)


def _in_a_process(call: str, cache: str) -> float:
    code = f"from wengert.bench import compile; print(compile.{call})"
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env=os.environ | {"WENGERT_CACHE": cache},
        capture_output=True,
        text=True,
    )
    if ran.returncode:
        raise RuntimeError((ran.stderr.strip().splitlines() or ["no message"])[-1])
    return float(ran.stdout.split()[-1])


def _fresh(call: str, warm: bool = False) -> Builder:
    """First calls with an empty cache, or with one that another process has filled."""

    def run() -> float:
        with tempfile.TemporaryDirectory() as cache:
            os.chmod(cache, 0o700)
            first = _in_a_process(call, cache)
            return _in_a_process(call, cache) if warm else first

    return lambda: run


def workloads(quick: bool) -> list[Workload]:
    """First calls of the training step, and of the graphs in every size."""
    found = [work for network in STEPS for work in _first_calls(network)]
    for kind in GRAPHS:
        smaller = None
        for size in SIZES[:1] if quick else SIZES:
            found.append(_graph_workload(kind, size, smaller))
            smaller = found[-1].name
    return found


def _first_calls(network: str) -> list[Workload]:
    step = f"first_call_of_step({network!r}, {{!r}})".format
    cold, warm = FIRST_CALLS[network]
    return [
        Workload(
            "compile",
            f"first call of the {network} step, cold",
            {name: _fresh(step(name)) for name in STEPS[network]},
            limit=cold,
            reports=True,
        ),
        Workload(
            "compile",
            f"first call of the {network} step, from the disk cache",
            {WENGERT: _fresh(step(WENGERT), warm=True)},
            limit=warm,
            reports=True,
        ),
    ]


def _graph_workload(kind: str, size: int, smaller: str | None) -> Workload:
    def call(name: str) -> str:
        return f"first_call_of_graph({name!r}, {kind!r}, {size})"

    # JAX takes minutes for the larger ones
    others = {"jax": _fresh(call("jax"))} if size == SIZES[0] else {}
    return Workload(
        "compile",
        f"{kind} graph of {size:,} operations",
        {WENGERT: _fresh(call(WENGERT)), **others},
        limit=LARGEST * size / SIZES[-1],
        reports=True,
        smaller=smaller,
        growth=GROWTH,
    )
