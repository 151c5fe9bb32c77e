"""Which new state a program may compute straight into the tensor's memory.

Most state is computed aside and copied into place at the end. The copy is not needed where

- nothing can fail any more once the first element is written: no check comes at that kernel or
  after it, none of them can be ended by Ctrl-C (see `building`), and NumPy evaluates no operation
  of the program;
- nobody needs the old content any more (see `schedule.inplace`).

So a gradient goes straight into its memory, and `p -= lr * p.grad` happens in place, also where it
is the epilogue of the product that computes the gradient.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..loops import Buffer, Host, LoopProgram, can_fail
from ..machine import policy
from ..schedule.inplace import may_share, writers_of
from .tracing import Captured


def direct(captured: Captured, loops: LoopProgram, costs: Sequence[int]) -> list[bool]:
    """For each piece of state that is written, whether that may happen in place.

    In a program that may end early, no kernel may from the first on that writes state in place;
    where too much would come after that, state is computed aside. `costs` are those of each kernel
    with all that follow.
    """
    read, written = captured.read, captured.written
    inputs = loops.inputs[len(loops.inputs) - len(read) :]
    outputs = loops.outputs[len(loops.outputs) - len(written) :]
    old = {id(change): buffer for change, buffer in zip(read, inputs, strict=True)}
    is_long = loops.watched > 0
    found = []
    for change, buffer in zip(written, outputs, strict=True):
        in_place = can_be_direct(loops, buffer, old.get(id(change)))
        if in_place and is_long:
            first = writers_of(loops, buffer)[0]
            in_place = costs[first] <= policy().costs.unwatched_tail
            loops.watched = min(loops.watched, first) if in_place else loops.watched
        found.append(in_place)
    return found


def can_be_direct(loops: LoopProgram, new: Buffer, old: Buffer | None) -> bool:
    """Whether the output `new` may lie in the memory of the input `old` (None: it is not read)."""
    writers = writers_of(loops, new)
    if not writers:
        return False
    if any(isinstance(kernel, Host) for kernel in loops.kernels):
        return False
    if any(map(can_fail, loops.kernels[writers[0] :])):
        return False
    return old is None or may_share(loops, new, old)
