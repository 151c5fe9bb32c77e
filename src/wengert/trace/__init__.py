"""Python -> Graph: the tracer, NumPy's protocols, in-place writes."""

from .tracer import Trace, Tracer, concrete, current_trace, is_traced, lift
from .tracing import trace, traced_call

__all__ = [
    "Trace",
    "Tracer",
    "concrete",
    "current_trace",
    "is_traced",
    "lift",
    "trace",
    "traced_call",
]
