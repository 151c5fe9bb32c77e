"""Complex numbers in memory: two real ones each, one after the other."""

from __future__ import annotations

import numpy as np

from .buffers import Buffer
from .expressions import Expr, Literal, Load


def pairs_in(buffer: Buffer) -> Buffer:
    """The memory of complex numbers as the real ones that they consist of, with one more axis."""
    if buffer.pairs is None:
        real = np.dtype(f"f{buffer.dtype.itemsize // 2}")
        strides = (*[2 * stride for stride in buffer.strides], 1)
        buffer.pairs = Buffer(
            buffer.name, real, (*buffer.shape, 2), strides, buffer.kind, base=buffer
        )
    return buffer.pairs


def reals_in(buffer: Buffer) -> int:
    """The number of real numbers that an element is."""
    return 2 if buffer.dtype.kind == "c" else 1


def as_reals(buffer: Buffer) -> Buffer:
    """The memory as real numbers, whatever it holds."""
    return pairs_in(buffer) if reals_in(buffer) > 1 else buffer


def part_of(number: Expr, part: int) -> Expr:
    """The real or the imaginary part of a complex number, which is in memory or known."""
    if isinstance(number, Literal):
        dtype = np.dtype(f"f{number.dtype.itemsize // 2}")
        return Literal(dtype.type((np.real, np.imag)[part](number.value)), dtype)
    assert isinstance(number, Load), number
    return Load(pairs_in(number.buffer), number.at * 2 + part)
