"""Python -> Graph: the tracer, NumPy's protocols, in-place writes."""

from .tracer import Preparing, Trace, Tracer, concrete, current_trace, lift, prepared
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
