"""Programs of loops: kernels in order, and the buffers they work on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from .buffers import Buffer

if TYPE_CHECKING:
    from .kernels import Check, Host, Nest
    from .library import LibraryCall
    from .loop import Branch, Loop, Transfer
    from .products import Contraction

Kernel: TypeAlias = "Nest | Contraction | Loop | Branch | LibraryCall | Host | Check | Transfer"


@dataclass(eq=False, repr=False)
class LoopProgram:
    """Kernels in order, and the buffers they work on."""

    inputs: list[Buffer]
    outputs: list[Buffer]
    kernels: list[Kernel]
    arena_bytes: int = 0  # once planned
    watched: int = 0  # so many kernels, from the first on, end early when Ctrl-C is pressed
    length: Buffer | None = None  # of a program for any length
    room_bytes: int = 0  # for each unit of that length, for what outlives a batch loop

    def __str__(self) -> str:
        head = [f"input  {b}" for b in self.inputs] + [f"output {b}" for b in self.outputs]
        return "\n".join([*head, *map(str, self.kernels)])


def inside(kernel: Kernel) -> Iterator[Kernel]:
    """A kernel, and all kernels in it at any depth."""
    pending = [kernel]
    while pending:
        one = pending.pop()
        yield one
        pending += reversed(one.parts())


def can_fail(kernel: Kernel) -> bool:
    """Whether a kernel, or one in it, can end the program with an error code."""
    return any(one.may_fail for one in inside(kernel))
