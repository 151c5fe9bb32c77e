"""What the jobs of all libraries share: the loop over seeds and epochs, and what they emit."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from ..curves import thinned
from ..memory import peak_resident_bytes
from ..workers import Emit

EVALUATED = 500  # images at a time


class Training(Protocol):
    """A network in training."""

    def epoch(self) -> tuple[list[Any], list[Any]]:
        """Train for one epoch; the loss and the accuracy in each batch, as `float` takes them."""

    def accuracy(self) -> float:
        """The accuracy on the test images."""


def run_seeds(emit: Emit, begin: Callable[[int], Training], epochs: int, seeds: int) -> Training:
    """Train from each seed and emit what `training.train_seeds` would; the last training."""
    for seed in range(seeds):
        started = time.perf_counter()
        training = begin(seed)
        seconds, reached, losses, rights = [], [], [], []
        for epoch in range(1, epochs + 1):
            begun = time.perf_counter()
            more_losses, more_rights = training.epoch()
            seconds.append(time.perf_counter() - begun)
            reached.append(training.accuracy())
            losses += more_losses
            rights += more_rights
            emit({"kind": "epoch", "seed": seed, "epoch": epoch, "accuracy": reached[-1]})
        emit(
            {
                "kind": "run",
                "seed": seed,
                "accuracy": reached,
                "epoch_seconds": seconds,
                "wall_seconds": time.perf_counter() - started,
                "batch_loss": thinned(np.array([float(loss) for loss in losses])),
                "batch_accuracy": thinned(np.array([float(right) for right in rights])),
                "batches": len(losses),
            }
        )
    return training


def emit_memory(emit: Emit, peak: int | None = None, **found: Any) -> None:
    """Emit the peak of this process, and what else is known."""
    emit({"kind": "memory", "peak_bytes": peak or peak_resident_bytes(), **found})
