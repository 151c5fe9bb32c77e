"""How many threads compiled programs use.

The pool itself is generated code. This side only decides on numbers and hands them over: whoever
loads the pool calls `attach` with its addresses, and from then on `set_threads` reaches it. Until
then nothing is compiled and no thread exists.
"""

from __future__ import annotations

import ctypes
import os
import threading
from typing import Any, Protocol

MAX_THREADS = 1024

# Steps that an idle worker, or a caller that waits, spins before it sleeps: some 100 microseconds,
# longer than the serial parts between two parallel ones. Where threads outnumber cores, spinning
# takes the core from whoever has work.
_SPINS = 2000
_SPINS_CROWDED = 16


class PoolAddresses(Protocol):
    """What `attach` needs to know of the native pool."""

    @property
    def configure(self) -> int:
        """Address of `void(int32 threads, int32 spins)`."""

    @property
    def trim(self) -> int:
        """Address of `void()`, which ends the threads that are no longer wanted."""

    @property
    def started(self) -> int:
        """Address of `int32()`, the number of workers running in this process."""


class _Native:
    def __init__(self, pool: PoolAddresses):
        self.pool = pool  # keeps the code in memory
        self.configure = ctypes.CFUNCTYPE(None, ctypes.c_int32, ctypes.c_int32)(pool.configure)
        self.trim = ctypes.CFUNCTYPE(None)(pool.trim)
        self.started = ctypes.CFUNCTYPE(ctypes.c_int32)(pool.started)


_lock = threading.RLock()
_threads: int | None = None  # None: not asked for yet, the default holds
_sharing = 1  # processes that run on the same cores
_native: _Native | None = None


def set_threads(n: int | None) -> None:
    """Use `n` threads from the next compiled call on; None returns to the default.

    The default is `WENGERT_THREADS`, or the number of cores that this process may use. Results are
    bitwise the same for every `n`.

    >>> set_threads(1)
    >>> get_threads()
    1
    >>> set_threads(None)
    """
    global _threads
    if n is not None:
        n = _checked(n, "set_threads: argument n")
    with _lock:
        _threads = n
        _apply()


def get_threads() -> int:
    """Return how many threads compiled programs use, the calling one included.

    >>> get_threads() >= 1
    True
    """
    return _default() if _threads is None else _threads


def share_cores(processes: int) -> None:
    """Let the default be this process's share of the cores: so many processes use them."""
    global _sharing
    with _lock:
        _sharing = processes
        _apply()


def available_cores() -> int:
    """Return the number of cores that this process may run on."""
    if hasattr(os, "process_cpu_count"):
        return os.process_cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) or 1
    return os.cpu_count() or 1


def attach(pool: PoolAddresses) -> None:
    """Hand over the loaded pool; the number of threads asked for until now is applied to it."""
    global _native
    with _lock:
        if _native is None or _native.pool != pool:
            _native = _Native(pool)
        _apply()


def running_workers() -> int:
    """Return how many threads the pool has started in this process besides the callers'."""
    return 0 if _native is None else int(_native.started())


def _apply() -> None:
    if _native is None:
        return
    threads = get_threads()
    crowded = threads > available_cores()
    _native.configure(threads, _SPINS_CROWDED if crowded else _SPINS)
    _native.trim()


def _default() -> int:
    text = os.environ.get("WENGERT_THREADS", "").strip()
    if not text:
        return min(max(available_cores() // _sharing, 1), MAX_THREADS)
    try:
        number: Any = int(text)
    except ValueError:
        number = text
    return _checked(number, "environment variable WENGERT_THREADS")


def _checked(n: Any, where: str) -> int:
    if isinstance(n, bool) or not hasattr(n, "__index__") or not 1 <= n <= MAX_THREADS:
        raise ValueError(f"{where}: got {n!r}, expected a whole number from 1 to {MAX_THREADS}")
    return int(n)
