"""The steps of an optimizer that asks for loss and gradients as often as it likes, such as L-BFGS.

What it asks for is one compiled program; what it does with that runs in Python. `Closures` stands
where `Repeated` stands for the other optimizers, and notes the state that steps change as a
checkpoint does.
"""

from __future__ import annotations

from typing import Any

from .. import tree
from ..jit import Repeated, jit
from .checkpoints import restore_state, state_of
from .source import Source


class Closures:
    """Makes step after step; `steps` has the model, the loss and the optimizer."""

    def __init__(self, steps: Any, source: Source):
        self._steps = steps
        self._noted: dict[str, Any] = {}

        def evaluate(arrays: Any, rows: Any) -> dict[str, Any]:
            x, y = source.batch(arrays, rows)
            steps.optimizer.zero_grad()
            output = steps.model(x)
            value = steps.value(output, y)
            value.backward()
            return steps.measured(value, output, y)  # type: ignore[no-any-return]

        self._evaluate = jit(evaluate)

    def prepare(self, arrays: Any, moving: Any) -> Any:
        """The program of an evaluation, compiled now if it has to be; nothing runs."""
        return Repeated(self._evaluate).prepare(arrays, moving[0])

    def run(
        self, fixed: tuple[Any], rows: Any, out: Any, first: int = 0, last: int | None = None
    ) -> None:
        """Make the steps from `first` to `last`; `out` gets what the first evaluation of each
        has measured.
        """
        for number in range(first, len(rows[0]) if last is None else last):
            moving = [array[number] for array in rows]
            found = self._step(fixed[0], moving)
            for target, value in zip(tree.leaves(out), tree.leaves(found), strict=True):
                target[number] = value

    def _step(self, arrays: Any, moving: list[Any]) -> Any:
        optimizer = self._steps.optimizer
        measured: list[Any] = []

        def closure() -> Any:
            found = self._evaluate(arrays, moving[0])
            measured.append(found)
            return found["loss"]

        with self._steps.options(moving[1:]):
            optimizer.step(closure)
        optimizer.zero_grad()
        return measured[0]

    def take(self) -> None:
        """Note all state."""
        self._noted = state_of(self._steps.model, self._steps.optimizer, None)

    def put_back(self) -> None:
        """Bring back what was noted."""
        restore_state(self._noted, self._steps.model, self._steps.optimizer, None)
