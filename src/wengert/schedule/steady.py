"""Factors of products inside a loop that are the same at every turn, such as weights.

A code generator may then prepare them once, before the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..loops import Buffer, Contraction, Kernel
from .memory import root, written_by


def mark_steady(kernels: Iterable[Kernel], is_steady: Callable[[Buffer], bool]) -> None:
    """Tell products which of their factors lie where `is_steady` says that nothing changes."""
    for kernel in kernels:
        if isinstance(kernel, Contraction) and not kernel.begins:
            pairs = (kernel.x, kernel.x_value), (kernel.y, kernel.y_value)
            x, y = (value is None and is_steady(buffer) for buffer, value in pairs)
            kernel.steady = x, y


def mark_in_body(body: Iterable[Kernel], fixed: Iterable[Buffer]) -> None:
    """Mark the products of a repeated program, whose `fixed` inputs are those of all steps."""
    known = {id(buffer) for buffer in fixed}
    mark_steady(body, lambda buffer: id(root(buffer)) in known)


def mark_in_blocks(body: Sequence[Kernel]) -> None:
    """Mark the products of a batch loop: what is not of one block or group belongs to all."""
    written = {id(root(buffer)) for kernel in body for buffer in written_by(kernel)}

    def is_steady(buffer: Buffer) -> bool:
        own = root(buffer)
        outside = own.kind in ("input", "constant", "arena") and id(own) not in written
        return outside and not (buffer.start.terms or own.start.terms)

    mark_steady(body, is_steady)
