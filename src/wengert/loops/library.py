"""Calls of functions that are in the process already: LAPACK's, and NumPy's own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .buffers import Buffer
from .kernels import KernelBase


@dataclass(frozen=True)
class Symbol:
    """The address of something outside, by its name."""

    name: str


@dataclass(frozen=True, eq=False, repr=False)
class LibraryCall(KernelBase):
    """A function of a library, called by its name: no Python, and no copies but our own.

    Arguments are memory, letters, whole numbers, or numbers of NumPy's, which say their dtype; a
    function of LAPACK or BLAS gets the address of each. Others get whole numbers `by_value`, and
    the address of each tuple of arguments. It may read all of `reads` and write all of `writes`.
    """

    function: str
    arguments: tuple[Any, ...]
    reads: tuple[Buffer, ...]
    writes: tuple[Buffer, ...]
    cost: int = 0
    label: str = ""
    nodes: list[Any] = field(default_factory=list)
    by_value: bool = False

    @property
    def work(self) -> int:
        """As its maker says."""
        return self.cost

    def __str__(self) -> str:
        outs = ", ".join(buffer.name for buffer in self.writes)
        return f"{outs} by {self.function}{_written(self.arguments)}"


def _written(arguments: tuple[Any, ...]) -> str:
    given = [
        _written(one) if isinstance(one, tuple) else getattr(one, "name", None) or repr(one)
        for one in arguments
    ]
    return f"({', '.join(given)})"
