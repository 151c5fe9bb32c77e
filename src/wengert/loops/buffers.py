"""Memory for arrays: who owns it, and how an array lies in it."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ..types import ArrayType
from .indices import Affine, Index

NO_OFFSET = Affine(0)


class MemoryKind(enum.Enum):
    """Who owns the memory of a buffer."""

    INPUT = "an argument of the program"
    OUTPUT = "a result of the program"
    CONSTANT = "known when the program is compiled"
    ARENA = "temporary: in the arena of the program, or private to a loop"
    CARRIED = "handed on from turn to turn by a loop, which says where it lies"
    ROOM = "temporary: grows with the length of a program for any length"
    LENGTH = "that length itself"
    HOST = "temporary: an array of NumPy's own, which passes from one of its operations to another"


@dataclass(eq=False, repr=False)
class Buffer:
    """Memory for one array. Strides are in elements; `kind` says who owns it.

    Where it lies is decided last: by `lie_in` and `be_carried` for the arguments and results of a
    program inside of a loop, and by the planner, which sets offsets and finds out what is NumPy's.
    Nothing else changes a buffer.
    """

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    kind: MemoryKind
    offset: int = 0  # bytes into the arena, once planned; in the room for each unit of length
    value: Any = None  # of a constant
    base: Buffer | None = None  # the owner of the memory, when this is another view of it
    start: Affine = NO_OFFSET  # where a view begins in its base, by the loops around
    pairs: Buffer | None = None  # of complex numbers: see `pairs`

    def lie_in(self, base: Buffer, start: Affine = NO_OFFSET) -> None:
        """Become a view: this is how the program of a loop's turn finds the arrays outside."""
        self.kind, self.base, self.start = base.kind, base, start
        self.name = base.name if start == NO_OFFSET else f"{base.name}[{start}]"

    def be_carried(self) -> None:
        """Lie where a loop says that it is from turn to turn."""
        self.kind = MemoryKind.CARRIED

    def view(
        self,
        start: Affine = NO_OFFSET,
        shape: tuple[int, ...] | None = None,
        strides: tuple[int, ...] | None = None,
    ) -> Buffer:
        """The same from another element on, or with another shape and strides."""
        shape = self.shape if shape is None else shape
        strides = self.strides if strides is None else strides
        return Buffer(self.name, self.dtype, shape, strides, self.kind, 0, self.value, self, start)

    def flat(self, index: Index) -> Affine:
        """The element number of an index."""
        total = Affine(0)
        for position, stride in zip(index, self.strides, strict=True):
            total = total + position * stride
        return total

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The number of bytes."""
        return self.size * self.dtype.itemsize

    def __str__(self) -> str:
        return f"{self.name}: {ArrayType(self.dtype, self.shape)}"


def root(buffer: Buffer) -> Buffer:
    """The buffer that owns the memory of an alias."""
    while buffer.base is not None:
        buffer = buffer.base
    return buffer


def c_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides, in elements, of a contiguous array."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 1, 0, -1):
        strides[axis - 1] = strides[axis] * max(shape[axis], 1)
    return tuple(strides)
