"""The papers' trainings in PyTorch."""

from __future__ import annotations

import math
from typing import Any

from .. import images
from ..memory import peak_resident_bytes
from ..workers import Emit
from .common import EVALUATED, emit_memory, run_seeds

PROFILED = 5  # steps whose allocations are counted


def build(network: dict[str, Any], seed: int) -> Any:
    """The layers with weights from the same distributions; biases are zero."""
    import torch
    from torch import nn

    torch.manual_seed(seed)
    if network["kind"] == "rnn":
        size, hidden = 784 // network["steps"], network["hidden"]
        model: Any = nn.ModuleList([nn.RNN(size, hidden, batch_first=True), nn.Linear(hidden, 10)])
    else:
        model = nn.Sequential(
            *(nn.Conv2d(1, 6, 3), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(6, 16, 3), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Linear(400, 84), nn.ReLU(), nn.Linear(84, 10)),
        )
    for parameter in model.parameters():
        if parameter.ndim == 1:
            nn.init.zeros_(parameter)
        elif network["scheme"] == "glorot":
            nn.init.xavier_uniform_(parameter)
        else:
            nn.init.kaiming_uniform_(parameter)
    return model


def scores(model: Any, network: dict[str, Any], x: Any) -> Any:
    """The class scores of a batch."""
    if network["kind"] != "rnn":
        return model(x)
    recurrent, dense = model
    _, state = recurrent(x.reshape(len(x), network["steps"], -1))
    return dense(state[0])


class TorchTraining:
    """One network in training."""

    def __init__(
        self, network: dict[str, Any], seed: int, lr: float, train: Any, test: Any, batch_size: int
    ):
        import torch

        self.model = model = build(network, seed)
        self.network, self.batch_size = network, batch_size
        self.optimizer = torch.optim.SGD(model.parameters(), lr=lr)
        self.x, self.y = (torch.from_numpy(array) for array in train)
        self.held = [torch.from_numpy(array) for array in test]

    def step(self, x: Any, y: Any) -> tuple[Any, Any]:
        """One step; the loss and the accuracy."""
        from torch.nn.functional import cross_entropy

        self.optimizer.zero_grad()
        found = scores(self.model, self.network, x)
        loss = cross_entropy(found, y)
        loss.backward()
        self.optimizer.step()
        return loss.detach(), (found.detach().argmax(1) == y).sum() / len(y)

    def epoch(self) -> tuple[list[Any], list[Any]]:
        """All images once, in a new order."""
        import torch

        batches = torch.randperm(len(self.x)).split(self.batch_size)
        found = [self.step(self.x[rows], self.y[rows]) for rows in batches]
        return [loss for loss, _ in found], [right for _, right in found]

    def accuracy(self) -> float:
        """On the test images."""
        import torch

        x, y = (array.split(EVALUATED) for array in self.held)
        right = 0
        with torch.no_grad():
            for part, labels in zip(x, y, strict=True):
                said = scores(self.model, self.network, part).argmax(1)
                right += int((said == labels).sum())
        return right / len(self.held[0])

    def allocated_in_a_step(self) -> float:
        """Bytes that PyTorch's profiler sees allocated in a step, added up."""
        import torch

        x, y = self.x[: self.batch_size], self.y[: self.batch_size]
        with torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
        ) as profiler:
            for _ in range(PROFILED):
                self.step(x, y)
        found = (event.self_cpu_memory_usage for event in profiler.key_averages())
        return sum(size for size in found if size > 0) / PROFILED


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
) -> None:
    """The job: train from each seed."""
    train, test = images.load(data_name, folder, limit)

    def begin(seed: int) -> TorchTraining:
        return TorchTraining(network, seed, lr, train, test, batch_size)

    training = run_seeds(emit, begin, epochs, seeds)
    assert isinstance(training, TorchTraining)
    peak = peak_resident_bytes()  # before the profiler adds its own
    steps = epochs * math.ceil(len(train) / batch_size)
    emit_memory(emit, peak, allocated_bytes=training.allocated_in_a_step() * steps)
