"""When a training writes its checkpoint, and how it resumes from one.

Of several ranks the first one reads and writes; all go on from what it has read.
"""

from __future__ import annotations

import time
from typing import Any

from .. import job
from ..errors import OptionError, explain
from .callbacks import Callbacks
from .checkpoints import Checkpoint, restore_state, state_of
from .run import Run
from .shards import Shards

_NEVER = 1 << 62


class Saving:
    """Writes checkpoints when they are due; does nothing where no path is given."""

    def __init__(
        self,
        path: Any,
        settings: dict[str, Any],
        seconds: float,
        steps: int | None,
        shards: Shards | None = None,
    ):
        self._checkpoint = None if path is None else Checkpoint(path)
        self.path = None if self._checkpoint is None else self._checkpoint.path
        self._settings, self._seconds, self._steps = settings, seconds, steps
        self._written = time.monotonic()
        self._world, self._shards = job.world(), shards

    def until_due(self, step: int) -> int:
        """How many steps may be made at most until the next look at `due`."""
        if self._checkpoint is None or self._steps is None:
            return _NEVER
        return self._steps - step % self._steps

    def due(self, step: int) -> bool:
        """Whether it is time to write inside of an epoch."""
        if self._checkpoint is None:
            return False
        by_steps = self._steps is not None and step % self._steps == 0
        late = time.monotonic() - self._written >= self._seconds
        return by_steps or bool(self._world.agreed(late))

    def write(self, run: Run, callbacks: Callbacks) -> None:
        """Write where the training stands."""
        checkpoint = self._checkpoint
        if checkpoint is None:
            return
        content = {
            "settings": self._settings,
            "run": run.state_dict(),
            "callbacks": callbacks.state_dict(),
            **state_of(run.model, run.optimizer, run.schedule),
        }
        if self._shards is not None:
            content["optimizer"] = self._shards.whole()
        self._world.first(lambda: checkpoint.write(content))
        self._written = time.monotonic()

    def resume(self, run: Run, callbacks: Callbacks) -> None:
        """Go on from the checkpoint, if there is one."""
        checkpoint = self._checkpoint
        content = None if checkpoint is None else self._world.first(checkpoint.read)
        if content is None:
            return
        for name, own in self._settings.items():
            there = content["settings"].get(name)
            if there != own:
                raise OptionError(
                    explain(
                        "fit",
                        f"the checkpoint {self.path} is of a training with {name}={there}, "
                        f"this one has {name}={own}",
                        "Resume with the same data and arguments, or give another path.",
                    )
                )
        if self._shards is not None:
            content["optimizer"] = self._shards.own_part(content["optimizer"])
        restore_state(content, run.model, run.optimizer, run.schedule)
        callbacks.load_state_dict(content["callbacks"])
        run.load_state_dict(content["run"])
