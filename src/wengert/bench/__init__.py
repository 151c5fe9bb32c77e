"""`wengert bench`: wengert beside NumPy and whichever peers are installed, in one run.

A `Workload` names its contestants; `measure` times them alternating, so that a machine that
slows down slows all of them; `machine` measures what the machine can do at most; `report`
prints times, ratios and the distance from that floor. One file for each topic holds the
workloads. What fails is shown and makes the exit status non-zero.
"""

from __future__ import annotations

from .run import main

__all__ = ["main"]
