"""Python -> Graph: the tracer, NumPy's protocols, in-place writes."""

from .preparing import Preparing, called
from .tracer import Trace, Tracer, concrete, current_trace, lift
from .tracing import trace

__all__ = [
    "Preparing",
    "Trace",
    "Tracer",
    "called",
    "concrete",
    "current_trace",
    "lift",
    "trace",
]
