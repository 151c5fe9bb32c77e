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

from ..loops import Buffer, Host, LoopProgram, can_fail
from ..schedule.inplace import may_share, writers_of


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


def first_writer(loops: LoopProgram, new: Buffer) -> int:
    """The number of the first kernel that writes an output."""
    return writers_of(loops, new)[0]
