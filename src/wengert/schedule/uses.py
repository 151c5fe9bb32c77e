"""Kernels that are changed one by one, and which of them use which memory."""

from __future__ import annotations

from collections.abc import Sequence

from ..loops import Buffer, Kernel, root


class KernelList:
    """Kernels by their positions, and who reads and who writes each buffer that owns memory."""

    def __init__(self, kernels: Sequence[Kernel]):
        self.kernels: list[Kernel] = list(kernels)
        self.readers: dict[Buffer, list[int]] = {}
        self.writers: dict[Buffer, list[int]] = {}
        for position, kernel in enumerate(self.kernels):
            self._note(position, kernel)

    def put(self, position: int, kernel: Kernel) -> None:
        """Put another kernel at a position; it may use what the one before did not."""
        for positions in self._users(self.kernels[position]):
            positions.remove(position)
        self.kernels[position] = kernel
        self._note(position, kernel)

    def _note(self, position: int, kernel: Kernel) -> None:
        for positions in self._users(kernel):
            positions.append(position)

    def _users(self, kernel: Kernel) -> list[list[int]]:
        """For each buffer that a kernel reads or writes, the positions of all who do."""
        found = []
        for users, buffers in ((self.readers, kernel.reads), (self.writers, kernel.writes)):
            found += [users.setdefault(owner, []) for owner in dict.fromkeys(map(root, buffers))]
        return found
