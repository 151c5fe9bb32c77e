"""How a rank leaves a job: never so that others wait for it for ever.

Every rank counts what it has begun together with the others, in memory that they may read: a window
of MPI. A rank whose program has ended waits until all have, and looks meanwhile at the count of the
next one: if that has begun more, it waits for a call that will never come, and so the job is ended.
While some have left and others have not, one of these is next to one of those; so every wait is
seen, each rank is asked by one other alone, and no time limit is needed. There is one where
`sys.exit` was called with a status: all may be about to do the same, else the job ends.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

# Seconds in which all ranks leave, if one does so with a status of its own.
_PATIENCE = 2.0
# Seconds between two looks, at first and at most.
_SHORT, _LONG = 1e-3, 0.05


class Calls:
    """How many operations of all ranks this one has begun, and what is done when it leaves."""

    def __init__(self, MPI: Any, communicator: Any):
        self.communicator = communicator.Dup()  # none of the others' operations
        self.rank, self.size = communicator.Get_rank(), communicator.Get_size()
        self.window = MPI.Win.Allocate(8, 8, comm=self.communicator)
        self.number = np.frombuffer(self.window.tomemory(), np.int64)
        self.number[0] = 0
        self.communicator.Barrier()
        self.process, self.status = os.getpid(), 0
        self.exit: Callable[[Any], NoReturn] = sys.exit
        sys.exit = self._leave
        atexit.register(self._at_exit)

    @property
    def address(self) -> int:
        """Where the number is, for native code."""
        return self.number.ctypes.data

    def count(self) -> None:
        """One more is begun."""
        self.number[0] += 1

    def _leave(self, status: Any = None) -> NoReturn:
        """As `sys.exit`; its exception may still be caught, so nothing is done until the end."""
        self.status = status if isinstance(status, int) else int(status is not None)
        self.exit(status)

    def _at_exit(self) -> None:
        if os.getpid() != self.process:  # a fork of the rank
            return
        self.window.Lock_all()
        everybody, next_one = self.communicator.Ibarrier(), (self.rank + 1) % self.size
        until, pause = time.monotonic() + _PATIENCE, _SHORT
        theirs = np.zeros(1, np.int64)
        asked = self.window.Rget(theirs, next_one)
        while not everybody.Test():
            if self.status and time.monotonic() > until:
                self._end_job(f"has left with status {self.status}")
            if asked.Test():
                if theirs[0] > self.number[0]:
                    self._end_job(self._waited_for(next_one))
                asked = self.window.Rget(theirs, next_one)
            time.sleep(pause)
            pause = min(2 * pause, _LONG)
        asked.Wait()
        self.window.Unlock_all()
        self.window.Free()

    def _waited_for(self, other: int) -> str:
        if self.status:
            return f"has left with status {self.status}"
        return (
            f"has ended its program while rank {other} waits for it in an operation of all ranks, "
            "and all must make the same calls"
        )

    def _end_job(self, what: str) -> None:
        print(
            f"wengert: rank {self.rank} of {self.size} {what}, so all ranks end.",
            file=sys.stderr,
            flush=True,
        )
        sys.stdout.flush()
        self.communicator.Abort(self.status or 1)
