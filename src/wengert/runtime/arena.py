"""Scratch memory of compiled programs, which one thread uses at a time."""

import ctypes
import os
import threading
import weakref

import numpy as np

ARENA_ALIGNMENT = 64


def aligned_memory(nbytes: int) -> np.ndarray:
    """So many bytes from a cache line on: all scratch memory of programs comes from here.

    They lie as far behind as they can, so that little is between their end and that of what NumPy
    has allocated: where tests have it end at the edge of a page, a step too far is noticed.

    >>> aligned_memory(100).ctypes.data % ARENA_ALIGNMENT
    0
    """
    raw = np.empty(nbytes + ARENA_ALIGNMENT, np.uint8)
    start = ARENA_ALIGNMENT - raw.ctypes.data % ARENA_ALIGNMENT
    return raw[start : start + nbytes]


class Arena:
    """Scratch memory of a program, with the lock word that lets one thread use it at a time.

    >>> arena = Arena(100_000)
    >>> arena.address % ARENA_ALIGNMENT, arena.locked
    (0, False)
    """

    def __init__(self, nbytes: int):
        self.nbytes = nbytes
        self._memory = aligned_memory(nbytes + ARENA_ALIGNMENT)
        self.lock_address = self._memory.ctypes.data
        self.address = self.lock_address + ARENA_ALIGNMENT  # a cache line away from the lock
        self._lock = ctypes.c_int64.from_address(self.lock_address)
        self._lock.value = 0
        _arenas.add(self)

    @property
    def locked(self) -> bool:
        """Whether a thread uses the arena now."""
        return self._lock.value != 0

    @property
    def holder(self) -> int:
        """The identity of the thread that uses it, or 0."""
        return self._lock.value

    def take(self, thread: int) -> bool:
        """Take the lock if it is free. Under the GIL, which entries hold when they take it."""
        if self._lock.value:
            return False
        self._lock.value = thread
        return True

    def release(self) -> None:
        """Give the lock back."""
        self._lock.value = 0


_arenas: weakref.WeakSet[Arena] = weakref.WeakSet()


def _free_arenas_after_fork() -> None:
    """Only the forking thread lives on in the child: locks of all others would stay taken."""
    me = threading.get_ident()
    for arena in _arenas:
        if arena._lock.value != me:
            arena._lock.value = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free_arenas_after_fork)
