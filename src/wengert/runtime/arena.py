"""Scratch memory of compiled programs, which one thread uses at a time, and its bound.

All arenas together keep no more than `KEPT_BYTES`: where a new one goes beyond that, the others
that are not in use give their pages back. Such an arena is asleep: its lock is taken, so that
native calls go to Python's way, which wakes it. Addresses stay what they are.
"""

import ctypes
import mmap
import os
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from .limits import KNOWN_LENGTHS, ROOM_GRAIN

ARENA_ALIGNMENT = 64
# What all arenas keep, and what an arena has to have to count.
KEPT_BYTES, COUNTED_BYTES = 256 << 20, 1 << 20
_ASLEEP = -1  # in the place of the thread that has the lock


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
        # a cache line for the lock
        self._all = aligned_memory(nbytes + ARENA_ALIGNMENT)
        self.memory = self._all[ARENA_ALIGNMENT:]
        self.lock_address = self._all.ctypes.data
        self.address = self.lock_address + ARENA_ALIGNMENT
        self._lock = ctypes.c_int64.from_address(self.lock_address)
        self._lock.value = 0
        # memory that grows beside it, in use under the same lock: its size, and giving it back
        self.beside: Any = None
        _arenas.add(self)
        self.make_way()

    @property
    def total(self) -> int:
        """Bytes that it keeps, with those beside it."""
        return self.nbytes + (0 if self.beside is None else self.beside.nbytes)

    @property
    def locked(self) -> bool:
        """Whether a thread uses the arena now."""
        return self._lock.value not in (0, _ASLEEP)

    @property
    def holder(self) -> int:
        """The identity of the thread that uses it, or 0."""
        return self._lock.value if self.locked else 0

    def take(self, thread: int) -> bool:
        """Take the lock if it is free. Under the GIL, which entries hold when they take it."""
        if self.locked:
            return False
        self.wake()
        self._lock.value = thread
        return True

    def release(self) -> None:
        """Give the lock back."""
        self._lock.value = 0

    def wake(self) -> bool:
        """Let calls in again, where it was asleep."""
        if self._lock.value != _ASLEEP:
            return False
        self._lock.value = 0
        self.make_way()
        return True

    def make_way(self) -> None:
        """Have the others sleep that are not in use, if it is too much with this one."""
        if self.total >= COUNTED_BYTES:
            counted = _counted()
            if sum(one.total for one in counted) > KEPT_BYTES:
                for one in counted:
                    if one is not self:
                        one.sleep()

    def sleep(self) -> None:
        """Give the memory back until it is needed again, unless a thread uses it."""
        if self._lock.value == 0:
            self._lock.value = _ASLEEP
            if self.beside is not None:
                self.beside.drop()
            _give_pages_back(self.memory)


_arenas: weakref.WeakSet[Arena] = weakref.WeakSet()


class Workspace:
    """Memory of a program for any length that grows with the length, and is kept.

    Native code reads the three words of `table`: the capacity in bytes, the address, and that of
    the lengths that are known: each at its number modulo `KNOWN_LENGTHS`.
    """

    def __init__(self, bytes_per_unit: int):
        self.bytes_per_unit = bytes_per_unit
        self.known = np.full(KNOWN_LENGTHS, -1, np.int64)
        self.table = np.array([0, 0, self.known.ctypes.data], np.uint64)
        self._memory: np.ndarray | None = None

    def grow(self, length: int) -> bool:
        """Make it large enough for a length; whether it has more memory now."""
        needed = -(-length // ROOM_GRAIN) * ROOM_GRAIN * self.bytes_per_unit
        if needed > self.nbytes:
            self._memory = aligned_memory(needed)
            self.table[:2] = needed, self._memory.ctypes.data
            return True
        return False

    @property
    def nbytes(self) -> int:
        """Its capacity."""
        return int(self.table[0])

    def drop(self) -> None:
        """Give the memory back; the next call will ask for it."""
        self.table[:2] = 0
        self._memory = None

    def admit(self, length: int) -> None:
        """Let calls of this length through."""
        self.known[length % KNOWN_LENGTHS] = length


def _counted() -> list[Arena]:
    """The large arenas that keep their memory."""
    awake = [one for one in list(_arenas) if one._lock.value != _ASLEEP]
    return [one for one in awake if one.total >= COUNTED_BYTES]


def kept_bytes() -> int:
    """Bytes that large arenas keep now."""
    return sum(one.total for one in _counted())


def _give_pages_back(memory: np.ndarray) -> None:
    """Let the system have all whole pages of scratch memory; they are zero when touched again."""
    advise = _advise()
    start = -(-memory.ctypes.data // mmap.PAGESIZE) * mmap.PAGESIZE
    end = (memory.ctypes.data + memory.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
    if advise is not None and end > start:
        advise(start, end - start, mmap.MADV_DONTNEED)


def _advise() -> Callable[[int, int, int], int] | None:
    """`madvise`, where it gives private memory back at once."""
    if sys.platform != "linux":
        return None
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return kind(("madvise", ctypes.CDLL(None)))


def _free_arenas_after_fork() -> None:
    """Only the forking thread lives on in the child: locks of all others would stay taken."""
    me = threading.get_ident()
    for arena in _arenas:
        if arena._lock.value not in (me, _ASLEEP):
            arena._lock.value = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free_arenas_after_fork)
