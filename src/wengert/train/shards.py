"""Optimizer state in shards: each rank keeps that of some parameters, and updates these alone.

The state of Adam is twice the parameters; on many ranks it need not be there many times. Every rank
sums up all gradients, updates its own parameters, and gets the others from the ranks that have
updated them. The numbers are those of ranks that keep everything. A checkpoint has the whole state,
so it can be resumed with shards or without, and so has the optimizer after `fit`.
"""

from __future__ import annotations

from typing import Any

from .. import job
from ..tensor import Tensor


def owners_of(sizes: list[int], ranks: int) -> list[int]:
    """A rank for each parameter, so that all have about as much: the largest are dealt out first.

    >>> owners_of([10, 2, 7, 3], 2)
    [0, 0, 1, 1]
    """
    loads = [0] * ranks
    owners = [0] * len(sizes)
    for place in sorted(range(len(sizes)), key=lambda n: (-sizes[n], n)):
        owners[place] = min(range(ranks), key=lambda rank: (loads[rank], rank))
        loads[owners[place]] += sizes[place]
    return owners


class Shards:
    """Which rank keeps the state of which parameter of an optimizer."""

    def __init__(self, optimizer: Any):
        self.optimizer, self.world = optimizer, job.world()
        parameters = [p for group in optimizer.param_groups for p in group.params]
        self.owners = owners_of([p.size for p in parameters], self.world.size)

    def owns(self, place: int) -> bool:
        """Whether the state of a parameter is here."""
        return self.owners[place] == self.world.rank

    def drop_others(self) -> None:
        """Keep what is to be kept here, and nothing else."""
        for place, state in enumerate(self.optimizer.state):
            if not self.owns(place):
                state.clear()

    def own_part(self, state_dict: dict[str, Any]) -> dict[str, Any]:
        """What this rank loads of a whole state dict."""
        state = {
            place: entry if self.owns(int(place)) else {"step": entry.get("step", 0.0)}
            for place, entry in state_dict["state"].items()
        }
        return {**state_dict, "state": state}

    def whole(self) -> dict[str, Any]:
        """The state dict with what all ranks keep; all must ask for it."""
        found: dict[str, Any] = self.optimizer.state_dict()
        own = {place: entry for place, entry in found["state"].items() if self.owns(place)}
        every = self.world.every(own)
        merged = {place: entry for one in every for place, entry in one.items()}
        return {**found, "state": {place: merged[place] for place in found["state"]}}

    def bring_together(self) -> None:
        """Let every rank keep everything again."""
        whole = self.whole()
        for place, state in enumerate(self.optimizer.state):
            for name, value in whole["state"][place].items():
                if name != "step" and name not in state:
                    state[name] = Tensor(value)
        self.optimizer.load_state_dict(whole)
