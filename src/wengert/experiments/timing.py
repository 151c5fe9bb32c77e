"""Fair times on a machine that does other things too.

Candidates take turns: in every round each is called for a while, so that a disturbance hits all
of them alike, and the best round counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

MAX_CALLS = 100_000


def best_times(
    candidates: Mapping[str, Callable[[], object]], rounds: int = 5, sample_seconds: float = 2e-3
) -> dict[str, float]:
    """Seconds of one call of each candidate.

    A sample is as many calls as take about `sample_seconds`.

    >>> times = best_times({"short": lambda: sum(range(10)), "long": lambda: sum(range(9999))})
    >>> times["short"] < times["long"]
    True
    """
    counts = {name: _calls_per_sample(call, sample_seconds) for name, call in candidates.items()}
    best = dict.fromkeys(candidates, float("inf"))
    for _ in range(rounds):
        for name, call in candidates.items():
            best[name] = min(best[name], _sample(call, counts[name]))
    return best


def _calls_per_sample(call: Callable[[], object], sample_seconds: float) -> int:
    call()  # compiles, fills caches
    once = _sample(call, 1)
    return min(MAX_CALLS, max(1, round(sample_seconds / max(once, 1e-9))))


def _sample(call: Callable[[], object], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count
