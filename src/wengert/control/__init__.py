"""Python's own control flow on traced values, from the source of functions."""

from .conversion import called, reason

__all__ = ["called", "reason"]
