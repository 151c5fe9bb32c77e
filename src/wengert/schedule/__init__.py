"""Graph -> Loops: fusion and the memory plan."""

from .fusion import schedule
from .memory import plan

__all__ = ["plan", "schedule"]
