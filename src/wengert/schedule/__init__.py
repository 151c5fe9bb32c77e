"""Graph -> Loops: the steps of `steps.STEPS`, and the memory plan, imported on first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .setting import setting

if TYPE_CHECKING:
    from .memory import plan
    from .steps import STEPS, schedule

__all__ = ["STEPS", "is_on", "plan", "schedule"]


def is_on(step: str) -> bool:
    """Whether a step is taken that is there for speed: all are, if the environment says nothing."""
    if not setting():
        return True  # a program that is found on disk needs no list of the steps
    from . import steps

    return steps.is_on(step)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    file = "memory" if name == "plan" else "steps"
    return getattr(importlib.import_module(f".{file}", __name__), name)
