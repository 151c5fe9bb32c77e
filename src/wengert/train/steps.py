"""The two programs of a training: a step, and the evaluation of a batch.

Both take the arrays of the examples and the numbers of the rows in the batch. Gathering, forward,
backward and the update are one program, whose state are the parameters and all else that the model
and the optimizer keep. It leaves no gradients behind, so these need no memory of their own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from ..errors import OptionError, ShapeError, explain
from ..jit import Repeated, jit
from ..optim import Optimizer, clip_grad_norm_
from ..tensor import Tensor, no_grad
from .closures import Closures
from .parts import Parted
from .shards import Shards
from .source import Source

Metrics = Mapping[str, Callable[[Any, Any], Any]]


class Steps:
    """The programs for one source of examples."""

    def __init__(
        self,
        model: Any,
        loss: Callable[[Any, Any], Any],
        optimizer: Optimizer,
        metrics: str | Metrics | None,
        clip_norm: float | None = None,
    ):
        self.model, self.loss, self.optimizer = model, loss, optimizer
        self.metrics = _checked_metrics(metrics)
        self.clip_norm = clip_norm
        if clip_norm is not None and optimizer.asks:
            raise OptionError(
                explain(
                    "fit",
                    f"got clip_norm={clip_norm} for {type(optimizer).__name__}",
                    "It chooses its steps by the gradients as they are: leave clip_norm out.",
                )
            )

    def training(
        self, source: Source, parts: int | None = None, shards: Shards | None = None
    ) -> Repeated | Closures | Parted:
        """``step(arrays, (rows,))`` gives loss and metrics as a dict of float64.

        With ``(rows, *numbers)`` the options of the optimizer's groups are these in this step. In
        `parts` the step is made of as many, on all ranks there are; `shards` says which of these
        keep the optimizer's state of which parameter.
        """
        if parts is not None:
            return Parted(self, source, parts, shards)
        if self.optimizer.asks:
            return Closures(self, source)

        def step(arrays: Any, moving: Any) -> dict[str, Any]:
            rows, *numbers = moving
            x, y = source.batch(arrays, rows)
            self.optimizer.zero_grad()
            output = self.model(x)
            value = self.value(output, y)
            value.backward()
            if self.clip_norm is not None:
                clip_grad_norm_(self.parameters(), self.clip_norm)
            with self.options(numbers):
                self.optimizer.step()
            self.optimizer.zero_grad()
            return self.measured(value, output, y)

        return Repeated(jit(step))

    def evaluation(self, source: Source) -> Repeated:
        """``evaluate(arrays, (rows,))`` gives loss and metrics and changes nothing."""

        def evaluate(arrays: Any, moving: Any) -> dict[str, Any]:
            x, y = source.batch(arrays, moving[0])
            with no_grad():
                output = self.model(x)
                return self.measured(self.value(output, y), output, y)

        return Repeated(jit(evaluate))

    @contextlib.contextmanager
    def options(self, numbers: list[Any]) -> Iterator[None]:
        """Let the groups have these numbers as their options, as far as there are any."""
        pairs = list(zip(self.optimizer.param_groups, numbers, strict=False))
        own = [group.numbers for group, _ in pairs]
        try:
            for group, row in pairs:
                group.numbers = Tensor(row)
            yield
        finally:
            for (group, _), before in zip(pairs, own, strict=True):
                group.numbers = before

    def parameters(self) -> list[Any]:
        """All that the optimizer updates."""
        return [p for group in self.optimizer.param_groups for p in group.params]

    def value(self, output: Any, y: Any) -> Any:
        """The loss, checked."""
        value = self.loss(output, y)
        if np.shape(value) != ():
            raise ShapeError(
                explain(
                    "fit",
                    f"the loss has shape {np.shape(value)}, expected one number",
                    'Give a loss that takes the mean over the batch: reduction="mean".',
                )
            )
        return value

    def measured(self, value: Any, output: Any, y: Any) -> dict[str, Any]:
        """Loss and metrics, each the mean over the batch, in float64."""
        found = {"loss": value.astype(np.float64)}
        with no_grad():
            metrics = self.metrics
            if metrics == "auto":
                metrics = {"accuracy": accuracy} if _are_classes(output, y) else {}
            assert not isinstance(metrics, str)
            for name, metric in metrics.items():
                found[name] = metric(output, y).astype(np.float64).mean()
        return found


def accuracy(output: Any, target: Any) -> Any:
    """Whether the largest of the outputs is that of the target, for each example.

    >>> accuracy(np.array([[0.1, 0.9], [0.8, 0.2]]), np.array([1, 1]))
    array([ True, False])
    """
    return output.argmax(1) == target


def _are_classes(output: Any, target: Any) -> bool:
    if not (hasattr(target, "dtype") and hasattr(output, "ndim")):
        return False
    return target.dtype.kind in "iu" and output.ndim == target.ndim + 1


def _checked_metrics(metrics: Any) -> Any:
    if metrics is None:
        return {}
    if metrics == "auto":
        return "auto"
    good = isinstance(metrics, Mapping) and all(
        isinstance(name, str) and callable(metric) for name, metric in metrics.items()
    )
    if not good or "loss" in metrics:
        raise OptionError(
            explain(
                "fit",
                f"got metrics={metrics!r}",
                'Give "auto", None, or a dict of functions of (output, target) by name, '
                'other than "loss".',
            )
        )
    return metrics
