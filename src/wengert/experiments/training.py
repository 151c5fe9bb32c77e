"""Train one network several times in a process of its own, and tell what happened.

`train_seeds` is the job (`workers.py`): it emits a dictionary for every epoch and every finished
run, and in the end what the process needed of memory. Peers do the same training with jobs of the
same form (`peers/`), so that one table holds them all.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import wengert as wg
from wengert import data, nn, optim

from . import images, networks
from .curves import thinned
from .memory import NativeAllocations, PythonAllocations, peak_resident_bytes
from .workers import Emit

TASK = "wengert.experiments.training:train_seeds"
MISTAKES = 20  # of the images that are shown


class Watch:
    """A callback of `wg.fit`: reports epochs, and measures what stretches of steps allocate.

    `fit` calls `on_progress` between stretches. In the first, programs are compiled; in the second,
    Python's allocations are measured, and in the third those of native code.
    """

    def __init__(self, emit: Emit, seed: int):
        self.emit, self.seed = emit, seed
        self.found: dict[str, int | None] = {}
        self._waiting: list[tuple[str, Any]] = [
            ("python", PythonAllocations()),
            ("native", NativeAllocations()),
        ]
        self._current: tuple[str, Any, int] | None = None

    def on_progress(self, run: Any) -> None:
        """Between two stretches: end one measurement, begin the next."""
        self._finish(run.step)
        if self._waiting:
            name, measure = self._waiting.pop(0)
            self._current = (name, measure, run.step)
            measure.__enter__()

    def _finish(self, step: int) -> None:
        if self._current is None:
            return
        name, measure, first = self._current
        measure.__exit__(None, None, None)
        self._current = None
        if step > first:
            self.found |= {f"{name}_bytes": measure.bytes, f"{name}_steps": step - first}

    def on_epoch_end(self, run: Any) -> None:
        """Tell the parent."""
        accuracy = run.history.last["validation_accuracy"]
        item = {"kind": "epoch", "seed": self.seed, "epoch": run.epoch, "accuracy": accuracy}
        self.emit(item)

    def on_end(self, run: Any) -> None:
        """A training too short to measure leaves nothing switched on."""
        self._finish(0)


def train_seeds(
    emit: Emit,
    *,
    data_name: str,
    network: dict[str, Any],
    lr: float,
    epochs: int,
    seeds: int,
    batch_size: int = 100,
    folder: str | None = None,
    limit: int | None = None,
    mistakes: bool = False,
) -> None:
    """The job: train the network from each seed and emit what `wg.fit` found."""
    dataset = images.load(data_name, folder, limit)
    allocations: dict[str, Any] = {}
    for seed in range(seeds):
        started = time.perf_counter()
        model = networks.build(network, seed)
        watch = Watch(emit, seed)
        history = wg.fit(
            model,
            nn.cross_entropy,
            optim.SGD(model.parameters(), lr=lr),
            dataset.train,
            epochs,
            batch_size,
            validation=dataset.test,
            seed=seed,
            callbacks=[watch],
            progress=False,
        )
        emit({"kind": "run", "seed": seed, **_outcome(history, time.perf_counter() - started)})
        allocations = allocations or watch.found
    emit({"kind": "memory", "peak_bytes": peak_resident_bytes(), **allocations})
    if mistakes:
        emit({"kind": "mistakes", "images": find_mistakes(model, dataset)})


def _outcome(history: Any, wall_seconds: float) -> dict[str, Any]:
    steps = history.steps
    return {
        "accuracy": history["validation_accuracy"].tolist(),
        "epoch_seconds": history["seconds"].tolist(),
        "wall_seconds": wall_seconds,
        "batch_loss": thinned(steps["loss"]),
        "batch_accuracy": thinned(steps["accuracy"]),
        "batches": len(steps["loss"]),
    }


def find_mistakes(model: nn.Module, dataset: data.Dataset) -> list[dict[str, Any]]:
    """Test images that the network takes for something else, the surest first."""
    model.eval()
    scores = wg.jit(lambda x: nn.functional.softmax(model(x), -1))
    size = min(500, len(dataset.test))
    parts = [
        np.asarray(scores(dataset.test.batch(slice(i, i + size)).x))
        for i in range(0, len(dataset.test) // size * size, size)
    ]
    shares = np.concatenate(parts)
    said = shares.argmax(1)
    truth = dataset.test.labels[: len(said)]
    wrong = np.flatnonzero(said != truth)
    surest = wrong[np.argsort(-shares[wrong, said[wrong]], kind="stable")][:MISTAKES]
    names = dataset.classes or tuple(map(str, range(networks.CLASSES)))
    return [
        {
            "pixels": dataset.test.images[number].tolist(),
            "truth": names[truth[number]],
            "said": names[said[number]],
            "share": round(float(shares[number, said[number]]), 4),
        }
        for number in surest
    ]
