"""Timing: all contestants in turn, round after round, the best round of each counts."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Effort:
    """How long to measure."""

    rounds: int
    # Seconds that one measurement of one contestant takes at least.
    slice: float
    warm_up: int = 3
    # Seconds of silence before each turn: the threads of the one before spin for a while, some for
    # 30 ms, and would take a core from the next.
    rest: float = 0.0

    @classmethod
    def choose(cls, quick: bool) -> Effort:
        """Quick for a look, thorough for a statement."""
        return cls(5, 0.002, 2) if quick else cls(9, 0.02, rest=0.04)


def alternate(
    calls: dict[str, Callable[[], Any]],
    effort: Effort,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Seconds of one call for each contestant, the best of all rounds.

    Each round measures everyone, starting with another one, so that neither a noisy moment nor
    the place in the order favours one of them.
    """
    repeats = {}
    for name, call in calls.items():
        for _ in range(effort.warm_up):
            call()
        repeats[name] = _repeats(call, effort.slice, clock)
    best = dict.fromkeys(calls, float("inf"))
    names = list(calls)
    # Objects of the imported packages are not garbage: looking at them again and again would
    # be charged to whoever happens to run.
    gc.collect()
    gc.freeze()
    try:
        for turn in range(effort.rounds):
            start = turn % len(names) if names else 0
            for name in names[start:] + names[:start]:
                if effort.rest:
                    time.sleep(effort.rest)
                    calls[name]()  # wakes its own threads
                seconds = _seconds(calls[name], repeats[name], clock) / repeats[name]
                best[name] = min(best[name], seconds)
    finally:
        gc.unfreeze()
    return best


def _repeats(call: Callable[[], Any], least: float, clock: Callable[[], float]) -> int:
    """How many calls fill the slice of time."""
    repeats = 1
    while True:
        seconds = _seconds(call, repeats, clock)
        if seconds >= least:
            return repeats
        growth = least / seconds if seconds > 0 else 10.0
        repeats = max(repeats + 1, min(int(repeats * growth * 1.1), repeats * 10))


def _seconds(call: Callable[[], Any], repeats: int, clock: Callable[[], float]) -> float:
    turns = [None] * repeats
    start = clock()
    for _ in turns:
        call()
    return clock() - start
