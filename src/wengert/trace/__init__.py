"""Python -> Graph: the tracer, NumPy's protocols, in-place writes."""

from .tracer import Trace, Tracer, concrete, current_trace, lift
from .tracing import trace

__all__ = [
    "Trace",
    "Tracer",
    "concrete",
    "current_trace",
    "lift",
    "trace",
]
