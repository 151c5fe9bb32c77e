"""Memory of training steps: what they keep, and what each step allocates.

wengert's figure is the arena of the compiled step, which depends on the blocks or the chunks of
samples and not on the batch; PyTorch's are the activations that it keeps for the backward pass.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

from . import cnn
from .workload import WENGERT, Builder, Workload, load

SMALL, LARGE = 100, 60_000
MOST_BYTES, MOST_IN_CHUNKS = 4e6, 32e6
STEPS = 100


def arena(batch: int, layers: cnn.Layers | None = None) -> Builder:
    """Bytes of working memory of wengert's step, for the digit network or another one."""

    def build() -> Callable[[], int]:
        step, arguments = cnn.compiled_step(layers or cnn.digit_network(), batch)
        return lambda: step.memory(*arguments)["arena"]

    return build


def saved_activations(batch: int) -> Builder:
    """Bytes that PyTorch saves for the backward pass, parameters apart."""

    def build() -> Callable[[], int]:
        torch = load("torch")
        model = cnn.module_of(torch.nn, cnn.digit_network())
        x, y = map(torch.tensor, cnn.images(batch))
        parameters = {parameter.data_ptr() for parameter in model.parameters()}
        held: dict[int, int] = {}

        def keep(saved: Any) -> Any:
            storage = saved.untyped_storage()
            if storage.data_ptr() not in parameters:
                held[storage.data_ptr()] = storage.nbytes()
            return saved

        def call() -> int:
            held.clear()
            with torch.autograd.graph.saved_tensors_hooks(keep, lambda saved: saved):
                loss = torch.nn.functional.cross_entropy(model(x), y)
            del loss
            return sum(held.values())

        return call

    return build


def allocated() -> Builder:
    """Bytes that one step of wengert takes from Python's allocators, NumPy's arrays included."""

    def build() -> Callable[[], float]:
        step, (x, y) = cnn.compiled_step(cnn.digit_network(), SMALL)
        out = np.empty((), np.float32)

        def run(steps: int) -> None:
            for _ in range(steps):
                step(x, y, out=out)

        def call() -> float:
            run(3)
            tracemalloc.start()
            try:
                run(1)
                before, _ = tracemalloc.get_traced_memory()
                run(STEPS)
                after, _ = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            return max(0, after - before) / STEPS

        return call

    return build


def workloads(quick: bool) -> list[Workload]:
    """The arena at a usual batch and at a whole data set, and what a step allocates."""
    found = []
    for batch in [SMALL] if quick else [SMALL, LARGE]:
        others = {"torch": saved_activations(batch)}
        found.append(
            Workload(
                "memory",
                f"digit network's step, batch {batch:,}",
                {WENGERT: arena(batch), **others},
                reports=True,
                unit="bytes",
                limit=MOST_BYTES,
            )
        )
    if not quick:
        found.append(
            Workload(
                "memory",
                f"a small VGG's step, batch {LARGE:,}",
                {WENGERT: arena(LARGE, cnn.vgg())},
                reports=True,
                unit="bytes",
                limit=MOST_IN_CHUNKS,
            )
        )
    step = Workload(
        "memory",
        "allocated by a step",
        {WENGERT: allocated()},
        reports=True,
        unit="bytes",
        limit=0,
    )
    return [*found, step]
