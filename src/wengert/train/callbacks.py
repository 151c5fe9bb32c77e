"""What watches a training, and may end it.

A callback is an object with any of the methods of `Callback`; a plain function is called at the end
of every epoch. All get the `Run`: the model, the optimizer, the history, where it stands, and
`run.stop()`. One with `state_dict` and `load_state_dict` is kept in checkpoints.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..errors import DTypeError, OptionError, explain
from ..types import Function

_EVENTS = ("on_start", "on_progress", "on_epoch_end", "on_end")


class Callback:
    """The methods that a callback may have; each does nothing by default."""

    def on_start(self, run: Any) -> None:
        """Before the first step, or before the first after a checkpoint."""

    def on_progress(self, run: Any) -> None:
        """Some times a second, between steps."""

    def on_epoch_end(self, run: Any) -> None:
        """After each epoch and its validation; `run.history.last` has the numbers."""

    def on_end(self, run: Any) -> None:
        """After the last step, also if the training was stopped; not after an error."""


class EarlyStopping(Callback):
    """Stops when `monitor` has not become better for `patience` epochs.

    `monitor` is a name in the history: "validation_loss" by default, or "loss" where nothing is
    validated. Smaller is better, except for accuracies (`mode`, "min" or "max", says it). A change
    of less than `min_delta` does not count. In the end the model gets the parameters and buffers
    of the best epoch, unless `restore_best` is false.

    >>> EarlyStopping(patience=3, monitor="validation_accuracy").mode
    'max'
    """

    def __init__(
        self,
        patience: int = 5,
        monitor: str | None = None,
        min_delta: float = 0.0,
        mode: str | None = None,
        restore_best: bool = True,
    ):
        if not isinstance(patience, int) or patience < 1:
            raise OptionError(
                explain(
                    "EarlyStopping", f"got patience={patience!r}, expected a whole number above 0"
                )
            )
        if mode not in (None, "min", "max"):
            raise OptionError(
                explain("EarlyStopping", f'got mode={mode!r}, expected "min" or "max"')
            )
        self.patience, self.monitor, self.min_delta = patience, monitor, min_delta
        self.mode = mode or ("max" if monitor is not None and "accuracy" in monitor else "min")
        self.restore_best = restore_best
        self.best: float | None = None
        self.best_epoch = 0
        self._state: dict[str, np.ndarray] = {}

    def on_epoch_end(self, run: Any) -> None:
        """Compare with the best epoch so far."""
        value = self._value(run.history.last)
        sign = 1.0 if self.mode == "min" else -1.0
        best = np.inf if self.best is None else sign * self.best
        if sign * value < best - self.min_delta:  # NaN is never better
            self.best, self.best_epoch = value, run.epoch
            if self.restore_best:
                self._state = run.model.state_dict()
        elif run.epoch - self.best_epoch >= self.patience:
            run.stop()

    def _value(self, record: dict[str, float]) -> float:
        if self.monitor is None:
            self.monitor = "validation_loss" if "validation_loss" in record else "loss"
        if self.monitor not in record:
            raise OptionError(
                explain(
                    "EarlyStopping",
                    f"monitor={self.monitor!r} is not measured",
                    f"Measured are {', '.join(record)}.",
                )
            )
        return record[self.monitor]

    def on_end(self, run: Any) -> None:
        """Give the model what it had in the best epoch."""
        if self._state:
            run.model.load_state_dict(self._state)

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"best": self.best, "best_epoch": self.best_epoch, "state": dict(self._state)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.best, self.best_epoch = state["best"], state["best_epoch"]
        self._state = dict(state["state"])


class Callbacks:
    """All callbacks of a training as one."""

    def __init__(self, callbacks: Iterable[Any] | Function):
        given = [callbacks] if callable(callbacks) or _has_event(callbacks) else callbacks
        self._all: list[Any] = list(given)
        for one in self._all:
            if not (callable(one) or _has_event(one)):
                raise DTypeError(
                    explain(
                        "fit",
                        f"got the callback {one!r}",
                        "Give functions of the run, or objects with any of the methods "
                        f"{', '.join(_EVENTS)}.",
                    )
                )

    def add(self, callback: Any) -> None:
        """One more."""
        self._all.append(callback)

    def listen(self, event: str) -> bool:
        """Whether any of them does something then."""
        return any(self._method(one, event) is not None for one in self._all)

    @staticmethod
    def _method(one: Any, event: str) -> Any:
        method = getattr(one, event, None)
        if method is None and event == "on_epoch_end" and not _has_event(one):
            return one  # a plain function
        idle = getattr(method, "__func__", None) is getattr(Callback, event)
        return None if idle else method

    def call(self, event: str, run: Any) -> None:
        """Tell all of them."""
        for one in self._all:
            method = self._method(one, event)
            if method is not None:
                method(run)

    def state_dict(self) -> list[tuple[str, Any]]:
        """The states of those that have one, each with the name of its class."""
        return [(type(one).__name__, one.state_dict()) for one in self._stateful()]

    def load_state_dict(self, states: Iterable[tuple[str, Any]]) -> None:
        """Give them back their states; one that was not there before starts anew."""
        waiting = self._stateful()
        for name, state in states:
            found = next((one for one in waiting if type(one).__name__ == name), None)
            if found is None:
                raise OptionError(
                    explain(
                        "fit",
                        f"the checkpoint has the state of a callback {name}, which is not there",
                        "Resume with the same callbacks, as far as they have a state.",
                    )
                )
            waiting.remove(found)
            found.load_state_dict(state)

    def _stateful(self) -> list[Any]:
        return [one for one in self._all if hasattr(one, "load_state_dict")]


def _has_event(callback: Any) -> bool:
    return any(hasattr(callback, event) for event in _EVENTS)
