"""Python -> Graph: the tracer, NumPy's protocols, in-place writes."""

from .preparing import Preparing, prepared
from .tracer import Trace, Tracer, concrete, current_trace, lift
from .tracing import trace

__all__ = [
    "Preparing",
    "Trace",
    "Tracer",
    "concrete",
    "current_trace",
    "lift",
    "prepared",
    "trace",
]
