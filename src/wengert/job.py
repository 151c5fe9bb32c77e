"""Who this process is among the ranks of a job, and how MPI is started.

A process that `mpiexec` has started is one of many; it is told so by the environment, and MPI is
started on first use. Any other process is alone, and needs no MPI. mpi4py brings MPI into the
process and knows its handles; what is called afterwards is native (`codegen/collectives.py`).

A rank that fails must end the job: the others would wait for it for ever. So errors of MPI are
fatal, and an error that nobody catches ends all ranks, after it has been shown; so does `sys.exit`
with a status. What is killed from outside is noticed by `mpiexec`, which ends the others.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

import numpy as np

from .errors import MissingPackageError, explain
from .ops import collectives
from .runtime.threads import available_cores, share_cores

# What launchers tell a process, by which it knows that it is one of several.
_TOLD = ("PMI_RANK", "PMI_SIZE", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK")
# The process that is a rank: processes that it starts inherit what it was told, and are none.
_OWNER = "WENGERT_RANK_PROCESS"
# Seconds in which all ranks leave, if one does so with a status of its own.
_PATIENCE = 2.0


@dataclass(frozen=True)
class World:
    """The ranks of a job, and which of them this process is; `communicator` is mpi4py's.

    >>> World(rank=1, size=2).leads
    False
    """

    rank: int = 0
    size: int = 1
    communicator: Any = None

    @property
    def leads(self) -> bool:
        """Whether this is the rank that writes files and shows progress."""
        return self.rank == 0

    def agreed(self, value: Any) -> Any:
        """What the first rank has, a small Python value, on every rank."""
        return value if self.size == 1 else self.communicator.bcast(value)

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
        found, problem = self.communicator.bcast((found, problem))
        if problem is not None:
            raise problem
        return found

    def same(self, value: Any) -> bool:
        """Whether all ranks have equal values."""
        return self.size == 1 or all(one == value for one in self.communicator.allgather(value))

    def any(self, flag: bool) -> bool:
        """Whether it is so on any rank."""
        return flag if self.size == 1 else any(self.communicator.allgather(flag))


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
    found = World(communicator.Get_rank(), communicator.Get_size(), communicator)
    os.environ[_OWNER] = str(os.getpid())
    if found.size > 1:
        share_cores(_ranks_on_these_cores(MPI, communicator))
        sys.excepthook = functools.partial(_end_job, found, sys.excepthook)
        sys.exit = _Exit(found, sys.exit)
        collectives.perform = _Functions(MPI, found)
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


class _Exit:
    """`sys.exit` on a rank: with a status other than 0 the others must not wait for it.

    They may be about to do the same, and get some time to. The exception that it raises may still
    be caught; so the job is ended when Python ends, not before.
    """

    def __init__(self, found: World, leave: Callable[[Any], NoReturn]):
        self.found, self.leave, self.status = found, leave, 0
        atexit.register(self._at_exit)

    def __call__(self, status: Any = None) -> NoReturn:
        self.status = status if isinstance(status, int) else int(status is not None)
        self.leave(status)

    def _at_exit(self) -> None:
        if not self.status:
            return
        request = self.found.communicator.Ibarrier()
        until = time.monotonic() + _PATIENCE
        while not request.Test():
            if time.monotonic() > until:
                print(
                    f"wengert: rank {self.found.rank} of {self.found.size} has left with status "
                    f"{self.status}, so all ranks end.",
                    file=sys.stderr,
                    flush=True,
                )
                self.found.communicator.Abort(self.status)
            time.sleep(0.01)


class _Functions:
    """The native functions in memory, as `ops/collectives.py` calls them on arrays."""

    def __init__(self, MPI: Any, found: World):
        from .codegen.cache import shared_cache
        from .codegen.collectives import FUNCTIONS, NAMES, TABLE, collectives_module
        from .codegen.compile import add_symbol, compile_here

        self.table = _table(MPI, found)
        library = ctypes.CDLL(MPI.__file__)  # which is linked to MPI
        symbols = {TABLE: self.table.ctypes.data}
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


def _table(MPI: Any, found: World) -> np.ndarray:
    """What `codegen.collectives.Fact` lists."""
    core = 1 << (found.size.bit_length() - 1)
    numbers = [found.rank, found.size, core, MPI._handleof(found.communicator)]
    for name, mpi_name in collectives.ELEMENTS.items():
        numbers += [np.dtype(name).itemsize, MPI._handleof(getattr(MPI, mpi_name))]
    numbers += [MPI._handleof(getattr(MPI, name)) for name in collectives.OPERATIONS.values()]
    return np.array([number & (1 << 64) - 1 for number in numbers], np.uint64)
