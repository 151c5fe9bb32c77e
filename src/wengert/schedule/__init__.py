"""Graph -> Loops: the steps of `steps.STEPS`, and the memory plan, imported on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .steps import STEPS, schedule

if TYPE_CHECKING:
    from .memory import plan

__all__ = ["STEPS", "plan", "schedule"]


def __getattr__(name: str) -> Any:
    if name != "plan":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .memory import plan

    return plan
