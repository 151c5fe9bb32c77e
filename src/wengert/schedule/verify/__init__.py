"""The rules that a program of loops must keep, checked for every program in the tests.

- *Stored first*: whatever is loaded was stored by an earlier kernel, element by element, or is an
  argument or a constant; and all results are stored at the end.
- *In bounds*: no access leaves the array that it names.
- *Apart*: turns of loops that threads or lanes share out never write one place, and none reads what
  another one writes.
- *Of one type*: what is stored has the dtype of its buffer, as have all views of the memory.
- *Memory of its own*: buffers that are needed at the same time do not overlap in the arena.

A program is gone through once, kernel by kernel, with a note of the elements that are written. What
a rule cannot decide, such as places that values decide, it lets pass.
"""

from __future__ import annotations

from ...graph import Graph
from ...graph.rules import verify
from ...loops import LoopProgram
from .stored import verify_program


def verify_stages(graph: Graph, any_length: bool, program: LoopProgram) -> None:
    """Check the graph after all passes, and the loops that were made of it.

    A graph for any length has variables that are no inputs: the length, and what counts along it.
    """
    if not any_length:
        verify(graph)
    verify_loops(program)


def verify_loops(program: LoopProgram) -> LoopProgram:
    """Check all rules, also of the memory plan if there is one already; returns the program.

    >>> import numpy as np
    >>> from wengert.schedule import plan, schedule
    >>> from wengert.trace import trace
    >>> program = plan(schedule(trace(lambda x: np.sum(x * x), np.ones(3))))
    >>> verify_loops(program) is program
    True
    >>> program.kernels.clear()
    >>> verify_loops(program)
    Traceback (most recent call last):
    wengert.errors.LoopError: the end: 1 element of the result out1 (0) is not stored
    """
    verify_program(program)
    return program


__all__ = ["verify_loops", "verify_stages"]
