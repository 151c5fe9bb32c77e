"""What this machine is, and the versions of what runs on it."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict
from typing import Any

from ..rates import THREAD_VARIABLES, Floor, measure_floor
from .workload import PEERS, version_of

__all__ = ["Floor", "describe", "floor_as_dict", "measure_floor"]


def describe(peers: list[str]) -> dict[str, Any]:
    """The machine, its threads and the versions at work."""
    shown = {name: os.environ[name] for name in THREAD_VARIABLES if name in os.environ}
    shown |= {key: value for key, value in os.environ.items() if key.startswith("WENGERT_")}
    return {
        "machine": f"{_processor()}, {platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "load": _load(),
        "environment": shown,
        "python": platform.python_version(),
        "versions": {name: version_of(name) for name in ("wengert", "numpy", "llvmlite", *PEERS)},
        "peers": peers,
    }


def _load() -> float | None:
    """How many processes want to run; well above zero, the times below are too long."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or "unknown processor"


def floor_as_dict(floor: Floor) -> dict[str, float]:
    """For JSON."""
    return asdict(floor)
