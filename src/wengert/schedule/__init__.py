"""Graph -> Loops: the steps of `steps.STEPS`, and the memory plan."""

from .memory import plan
from .steps import STEPS, schedule

__all__ = ["STEPS", "plan", "schedule"]
