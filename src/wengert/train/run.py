"""A training under way: what callbacks see of it, and what a checkpoint keeps of it."""

from __future__ import annotations

from typing import Any

from .history import History


class Run:
    """A training under way.

    `epoch` is the number of epochs that are done, `step` that of all steps. `batch` is how many
    steps of the current epoch are done, and `seconds` how long they took. `history` grows with
    every epoch; `stop()` ends the training after this epoch.
    """

    def __init__(self, model: Any, optimizer: Any, schedule: Any, epochs: int):
        self.model, self.optimizer, self.schedule = model, optimizer, schedule
        self.epochs = epochs
        self.epoch = self.batch = self.step = 0
        self.seconds = 0.0
        self.history = History()
        self.stopped = False

    def stop(self) -> None:
        """End the training after this epoch."""
        self.stopped = True

    @property
    def finished(self) -> bool:
        """Whether there is nothing more to do."""
        return self.stopped or self.epoch >= self.epochs

    def state_dict(self) -> dict[str, Any]:
        """Where it stands, and its history."""
        places = {name: getattr(self, name) for name in _PLACES}
        steps = self.history.steps
        return {**places, "history": {"steps": steps, "epochs": self.history.epochs}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        for name in _PLACES:
            setattr(self, name, state[name])
        self.history = History.from_dict(state["history"])

    def __repr__(self) -> str:
        return f"<training, {self.epoch} of {self.epochs} epochs and {self.step} steps done>"


_PLACES = ("epoch", "batch", "step", "seconds", "stopped")
