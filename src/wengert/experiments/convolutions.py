"""The papers' ways to compute a convolution, beside the compiled one: time and memory of each.

The papers tried loops, the rearrangement into one product of matrices (im2col), and Fourier
transforms. In the evaluated mode `nn.Conv2d(..., method=...)` chooses among them; compiled, the
loops are wengert's own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import wengert as wg
from wengert import nn

from . import networks
from .charts import Bar, bars
from .memory import NativeAllocations, PythonAllocations
from .progress import Progress
from .report import Figure, Section
from .tables import Column, amount, duration
from .timing import best_times
from .workers import Emit, stream

TASK = "wengert.experiments.convolutions:measure"
METHODS = {
    "direct": "evaluated, direct loops",
    "im2col": "evaluated, im2col",
    "fft": "evaluated, FFT",
}
COMPILED = "wengert, compiled"
COLUMNS = [
    Column("way", "way"),
    Column("seconds", "one step", duration),
    Column("ratio", "/ compiled", "{:.1f}".format),
    Column("cpu_seconds", "processor time", duration),
    Column("cpu_ratio", "/ compiled", "{:.1f}".format),
    Column("python_bytes", "allocated", amount),
]


def compare(section: Section, progress: Progress, batch: int, rounds: int) -> None:
    """Measure every way in a process of its own, and add the table and a chart."""
    caption = f"Ways to compute a convolution: the network with its gradient, a batch of {batch}"
    table = section.table("convolutions", caption, COLUMNS, own="wengert")
    for item in stream(TASK, batch=batch, rounds=rounds):
        table.rows.append(item)
    compiled = next(row for row in table.rows if row["way"] == COMPILED)
    for row in table.rows:
        row["ratio"] = row["seconds"] / compiled["seconds"]
        row["cpu_ratio"] = row["cpu_seconds"] / compiled["cpu_seconds"]
    for key, title, show in (
        ("seconds", "Time of a step", duration),
        ("python_bytes", "Allocated in a step", amount),
    ):
        rows = [Bar(r["way"], r[key], show(r[key]), r["way"] == COMPILED) for r in table.rows]
        section.figures.append(Figure(f"{caption}; logarithmic", bars(rows, title=title, log=True)))


def measure(emit: Emit, *, batch: int, rounds: int) -> None:
    """The job: time and allocations of the loss with its gradient, computed each way.

    The ways take turns. Processor time stands beside the clock's: on a busy machine a short step
    finds an undisturbed moment and a long one does not, so the clock alone flatters the short one.
    """
    rng = np.random.default_rng(0)
    x = rng.random((batch, 1, 28, 28), np.float32)
    y = rng.integers(0, networks.CLASSES, batch)
    steps: dict[str, Callable[[], Any]] = {}
    reference: dict[str, np.ndarray] | None = None
    for way, step, model in ways(x, y):
        step()  # compiles, fills caches
        gradients = {name: np.array(p.grad) for name, p in model.named_parameters()}
        reference = reference or gradients
        _check(way, gradients, reference)
        steps[way] = step
    seconds = best_times(steps, rounds)
    for way, step in steps.items():
        with PythonAllocations() as python:
            step()
        with NativeAllocations() as native:
            step()
        memory = {"python_bytes": python.bytes, "native_bytes": native.bytes}
        emit({"way": way, "seconds": seconds[way], "cpu_seconds": cpu_time(step), **memory})


def cpu_time(step: Callable[[], Any], at_least: float = 0.05) -> float:
    """Processor time of one call, all threads together, over calls that take long enough."""
    started, calls = time.process_time(), 0
    while (spent := time.process_time() - started) < at_least or not calls:
        step()
        calls += 1
    return spent / calls


def ways(x: np.ndarray, y: np.ndarray) -> list[tuple[str, Callable[[], Any], nn.Module]]:
    """Each way: its name, a function of one step, and the network that the gradients go to."""
    found = []
    for method, name in METHODS.items():
        model = networks.initialise(networks.cnn(method), "kaiming", 0)
        found.append((name, _step(model, x, y), model))
    model = networks.initialise(networks.cnn(), "kaiming", 0)
    compiled = wg.jit(lambda x, y: _loss_with_gradient(model, x, y))
    found.append((COMPILED, lambda: compiled(x, y), model))
    return found


def _step(model: nn.Module, x: np.ndarray, y: np.ndarray) -> Callable[[], Any]:
    return lambda: _loss_with_gradient(model, x, y)


def _loss_with_gradient(model: nn.Module, x: Any, y: Any) -> Any:
    model.zero_grad()
    loss = nn.cross_entropy(model(x), y)
    loss.backward()
    return loss


def _check(way: str, gradients: dict[str, Any], reference: dict[str, Any]) -> None:
    """Wrong gradients are worth no time: stop if a way disagrees with the first."""
    for name, gradient in gradients.items():
        expected = reference[name]
        error = float(np.max(np.abs(gradient - expected)))
        allowed = 1e-4 * float(np.max(np.abs(expected)))  # float32, sums of 67,600 products
        if not error <= allowed:
            raise AssertionError(
                f"{way}: the gradient of {name} is off by {error:.1e}, allowed {allowed:.1e}"
            )
