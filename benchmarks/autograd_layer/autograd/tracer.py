"""What autograd shows of its tracer."""

from .boxes import Box, Node, getval, isbox, trace
from .core import notrace_primitive, primitive, register_notrace


def new_box(value, *ignored):
    return value
