"""Who this process is among the ranks of a job, and how MPI is started.

A process that `mpiexec` has started is one of many; it is told so by the environment, and MPI is
started on first use. Any other process is alone, and needs no MPI. mpi4py brings MPI into the
process and knows its handles; what is called afterwards is native (`codegen/collectives.py`).

A rank that fails must end the job: the others would wait for it for ever. So errors of MPI are
fatal, and an error that nobody catches ends all ranks, after it has been shown; `leaving.py` looks
after ranks that end otherwise. What is killed from outside is noticed by `mpiexec`, which ends the
others.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from .errors import MissingPackageError, explain
from .leaving import Calls
from .ops import collectives
from .runtime.threads import available_cores, share_cores

# What launchers tell a process, by which it knows that it is one of several.
_TOLD = ("PMI_RANK", "PMI_SIZE", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK")
# The process that is a rank: processes that it starts inherit what it was told, and are none.
_OWNER = "WENGERT_RANK_PROCESS"


@dataclass(frozen=True)
class World:
    """The ranks of a job, and which of them this process is; `communicator` is mpi4py's.

    >>> World(rank=1, size=2).leads
    False
    """

    rank: int = 0
    size: int = 1
    communicator: Any = None
    calls: Calls | None = field(default=None, repr=False)

    @property
    def leads(self) -> bool:
        """Whether this is the rank that writes files and shows progress."""
        return self.rank == 0

    def agreed(self, value: Any) -> Any:
        """What the first rank has, a small Python value, on every rank."""
        return value if self.calls is None else self._begun().bcast(value)

    def first(self, call: Callable[[], Any]) -> Any:
        """What a call gives that the first rank alone makes; its error is that of every rank."""
        if self.size == 1:
            return call()
        found, problem = None, None
        if self.leads:
            try:
                found = call()
            except Exception as error:
                problem = error
        found, problem = self.agreed((found, problem))
        if problem is not None:
            raise problem
        return found

    def every(self, value: Any) -> list[Any]:
        """What each rank has, a small Python value, on every rank."""
        return [value] if self.calls is None else self._begun().allgather(value)

    def same(self, value: Any) -> bool:
        """Whether all ranks have equal values."""
        return all(one == value for one in self.every(value))

    def any(self, flag: bool) -> bool:
        """Whether it is so on any rank."""
        return any(self.every(flag))

    def _begun(self) -> Any:
        """The communicator, for one more operation of all ranks."""
        assert self.calls is not None
        self.calls.count()
        return self.communicator


_started: World | None = None


def init() -> World:
    """Start MPI, or find it started; every rank of a job must call it.

    Processes that `mpiexec` has started do so by themselves when they need it. Without `mpiexec`
    there is one rank.

    >>> init().size  # doctest: +SKIP
    1
    """
    global _started
    if _started is None:
        _started = _start(_mpi())
    return _started


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Let this thread be no rank meanwhile: whatever `mpiexec` has started, it is by itself.

    >>> with alone():
    ...     size()
    1
    """
    _thread.alone += 1
    try:
        yield
    finally:
        _thread.alone -= 1


class _Thread(threading.local):
    alone = 0


_thread = _Thread()


def world() -> World:
    """The ranks there are: those that `mpiexec` has started, or this process alone.

    >>> world().leads
    True
    """
    if _thread.alone or (_started is None and not _is_launched()):
        return World()
    return init()


def rank() -> int:
    """The number of this process among all, from 0 on.

    >>> rank()
    0
    """
    return world().rank


def size() -> int:
    """How many processes there are.

    >>> size()
    1
    """
    return world().size


def launcher(ranks: int) -> list[str]:
    """The beginning of a command that runs a program on several ranks: that of this installation,
    or of the system.

    >>> launcher(4)  # doctest: +SKIP
    ['/usr/bin/mpiexec', '-n', '4']
    """
    beside = Path(sys.executable).parent / "mpiexec"
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None:
        raise MissingPackageError(
            explain(
                "distributed",
                "there is no mpiexec, neither beside Python nor on the path",
                "Install it: pip install 'wengert[mpi]'.",
            )
        )
    return [found, "-n", str(ranks)]


def _is_launched() -> bool:
    if os.environ.get(_OWNER, str(os.getpid())) != str(os.getpid()):
        return False
    return any(name in os.environ for name in _TOLD)


def _mpi() -> Any:
    beside = os.environ.get("MPI_LOCALNRANKS", "")  # as MPICH tells
    if beside.isdigit() and int(beside) > available_cores():
        # whoever waits leaves the core to one who works: MPICH else spins for milliseconds
        os.environ.setdefault("MPIR_CVAR_ENABLE_HEAVY_YIELD", "1")
        os.environ.setdefault("MPIR_CVAR_POLLS_BEFORE_YIELD", "1")
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # without the package, or without a library
        raise MissingPackageError(
            explain(
                "distributed",
                f"MPI cannot be started: {error}",
                "Install it: pip install 'wengert[mpi]', or mpi4py alone where the system has an "
                "MPI of its own.",
            )
        ) from None
    return MPI


def _start(MPI: Any) -> World:
    communicator = MPI.COMM_WORLD.Dup()
    communicator.Set_errhandler(MPI.ERRORS_ARE_FATAL)
    size = communicator.Get_size()
    calls = Calls(MPI, communicator) if size > 1 else None
    found = World(communicator.Get_rank(), size, communicator, calls)
    os.environ[_OWNER] = str(os.getpid())
    if calls is not None:
        beside = _ranks_on_these_cores(MPI, communicator)
        share_cores(beside)
        sys.excepthook = functools.partial(_end_job, found, sys.excepthook)
        collectives.perform = _Functions(MPI, found, calls, beside > available_cores())
    return found


def _ranks_on_these_cores(MPI: Any, communicator: Any) -> int:
    """How many ranks may run on the same cores as this one."""
    beside = communicator.Split_type(MPI.COMM_TYPE_SHARED)
    has_sets = hasattr(os, "sched_getaffinity")
    own = sorted(os.sched_getaffinity(0)) if has_sets else available_cores()
    found: int = beside.allgather(own).count(own)
    beside.Free()
    return found


def end_job() -> None:
    """End all ranks: this one has failed. A process alone goes on.

    >>> end_job()
    """
    if _started is not None and _started.size > 1:
        _started.communicator.Abort(1)


def _end_job(
    found: World,
    show: Any,
    kind: type[BaseException],
    error: BaseException,
    traceback: TracebackType | None,
) -> None:
    """An error that nobody has caught: show it, and end all ranks."""
    show(kind, error, traceback)
    print(
        f"wengert: rank {found.rank} of {found.size} has failed with {kind.__name__}, so all ranks "
        "end. Its error is shown above.",
        file=sys.stderr,
        flush=True,
    )
    sys.stdout.flush()
    found.communicator.Abort(1)


class _Functions:
    """The native functions in memory, as `ops/collectives.py` calls them on arrays."""

    def __init__(self, MPI: Any, found: World, calls: Calls, is_crowded: bool):
        from .codegen.cache import shared_cache
        from .codegen.collectives import COUNT, FUNCTIONS, NAMES, TABLE, collectives_module
        from .codegen.compile import add_symbol, compile_here

        self.table = _table(MPI, found, is_crowded)
        library = ctypes.CDLL(MPI.__file__)  # which is linked to MPI
        symbols = {TABLE: self.table.ctypes.data, COUNT: calls.address}
        for name in (f"MPI_{function}" for function in FUNCTIONS):
            symbols[name] = ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
        handle_bytes = MPI._sizeof(MPI.Comm)
        self.compiled = compile_here(
            lambda target: collectives_module(target, handle_bytes),
            cache=shared_cache(),
            symbols=symbols,
        )
        kinds = [ctypes.c_void_p] * 3 + [ctypes.c_int64] * 3
        self.functions = {}
        for name in (collectives.PREFIX + one for one in NAMES):
            self.functions[name] = self.compiled.function(name, None, *kinds)
            add_symbol(name, self.compiled.address(name))

    def __call__(self, call: collectives.NativeCall, given: np.ndarray, out: np.ndarray) -> None:
        work = np.empty(max(call.work, 1), given.dtype)
        addresses = [array.ctypes.data for array in (given, out, work)]
        self.functions[call.function](*addresses, call.length, call.element, call.extra)


def _table(MPI: Any, found: World, is_crowded: bool) -> np.ndarray:
    """What `codegen.collectives.Fact` lists."""
    from .codegen.collectives import PAUSES

    core = 1 << (found.size.bit_length() - 1)
    numbers = [found.rank, found.size, core, MPI._handleof(found.communicator)]
    numbers.append(0 if is_crowded else PAUSES)
    for name, mpi_name in collectives.ELEMENTS.items():
        numbers += [np.dtype(name).itemsize, MPI._handleof(getattr(MPI, mpi_name))]
    numbers += [MPI._handleof(getattr(MPI, name)) for name in collectives.OPERATIONS.values()]
    return np.array([number & (1 << 64) - 1 for number in numbers], np.uint64)
