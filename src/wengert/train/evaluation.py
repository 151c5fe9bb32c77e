"""Validation: the model in evaluation mode on all examples, natively, in batches.

Several ranks share the batches out; each batch is evaluated as one process would do it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import distributed
from ..jit import Repeated
from .epoch_loop import Batches, results_for
from .source import Source


class Evaluation:
    """Loss and metrics of a model on examples that it does not learn from."""

    def __init__(self, model: Any, source: Source, repeated: Repeated, batch_size: int):
        self.model, self.source, self.repeated = model, source, repeated
        self.batches = Batches(source.count, batch_size, drop_last=False)
        order = np.arange(source.count)
        self._moving = [(rows,) for rows in self.batches.parts(order) if len(rows)]

    def run(self) -> dict[str, float]:
        """The means over all examples; the model stays as it is."""
        number = self.batches.number
        with in_mode(self.model, False):
            values = results_for(self.repeated, self.source, self._moving, number)
            rank, size = distributed.rank(), distributed.size()
            first, last = rank * number // size, (rank + 1) * number // size
            self.batches.run(self.repeated, self.source, self._moving, values, first, last)
        if size > 1:  # what others have evaluated is zero here
            values = {name: distributed.all_reduce(array) for name, array in values.items()}
        return {name: self.batches.mean(array) for name, array in values.items()}


@contextlib.contextmanager
def kept_modes(model: Any) -> Iterator[None]:
    """Put every module back into its mode afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


@contextlib.contextmanager
def in_mode(model: Any, training: bool) -> Iterator[None]:
    """Put a model into a mode for a while, and every module back into its own afterwards.

    A model that is in training mode as a whole keeps the parts that are frozen in evaluation mode.
    """
    with kept_modes(model):
        if not (training and model.training):
            model.train(training)
        yield
