"""How much memory a training takes: what Python allocates, what native code does, the peak.

Three figures, each measured where it is true. `PythonAllocations` and `NativeAllocations` watch a
piece of work from inside: `tracemalloc` sees every allocation of Python and NumPy, and the C
library says how much native code holds. They watch one after the other, since `tracemalloc` keeps
native tables itself. The peak of a process is the operating system's, and only means something in
a process that did nothing else: experiments train in processes of their own (`workers.py`).
"""

from __future__ import annotations

import ctypes
import functools
import tracemalloc
from pathlib import Path
from typing import Any


class PythonAllocations:
    """What Python allocated in a ``with`` block: the most at one time, in bytes.

    >>> with PythonAllocations() as found:
    ...     text = bytes(1_000_000)
    >>> found.bytes >= 1_000_000
    True
    """

    def __init__(self) -> None:
        self.bytes: int | None = None

    def __enter__(self) -> PythonAllocations:
        self._started = not tracemalloc.is_tracing()
        if self._started:
            tracemalloc.start()
        tracemalloc.reset_peak()
        self._before = tracemalloc.get_traced_memory()[0]
        return self

    def __exit__(self, *exc_info: object) -> None:
        _, peak = tracemalloc.get_traced_memory()
        if self._started:
            tracemalloc.stop()
        self.bytes = max(0, peak - self._before)


class NativeAllocations:
    """What native code allocated in a ``with`` block and has not freed, in bytes; None if unknown.

    >>> with NativeAllocations() as found:
    ...     pass
    >>> found.bytes in (0, None)
    True
    """

    def __init__(self) -> None:
        self.bytes: int | None = None

    def __enter__(self) -> NativeAllocations:
        self._before = native_bytes()
        return self

    def __exit__(self, *exc_info: object) -> None:
        after = native_bytes()
        if after is not None and self._before is not None:
            self.bytes = max(0, after - self._before)


_HEAP_FIELDS = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"


class _HeapInfo(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_size_t) for name in _HEAP_FIELDS.split())


@functools.cache
def _mallinfo() -> Any:
    try:
        function = ctypes.CDLL(None).mallinfo2
    except (AttributeError, OSError, TypeError):  # another C library
        return None
    function.restype = _HeapInfo
    return function


def native_bytes() -> int | None:
    """What the C library has handed out and not got back; None where it does not say."""
    function = _mallinfo()
    if function is None:
        return None
    found = function()
    return int(found.uordblks + found.hblkhd)


def peak_resident_bytes() -> int | None:
    """The most memory that this process has had in use; None where it cannot be known.

    Linux's own mark for this program is preferred: what `getrusage` says goes on from the process
    that started this one.

    >>> peak = peak_resident_bytes()
    >>> peak is None or peak > 1_000_000
    True
    """
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
        line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    except (OSError, StopIteration, ValueError):
        return _peak_by_usage()


def _peak_by_usage() -> int | None:
    try:
        import resource
        import sys
    except ImportError:  # Windows
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
