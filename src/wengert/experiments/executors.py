"""The executors that `wengert reproduce circles --executor` names."""

from __future__ import annotations

import concurrent.futures
import contextlib
import multiprocessing
import os
import threading
from collections.abc import Iterator
from typing import Any

from wengert import distributed, set_threads


class ExecutorError(RuntimeError):
    """An executor cannot be had here; the message says what to do."""


@contextlib.contextmanager
def executor_named(name: str) -> Iterator[Any]:
    """The executor; None in a process that only serves others, once they need it no more."""
    with EXECUTORS[name]() as executor:
        yield executor


@contextlib.contextmanager
def _processes() -> Iterator[Any]:
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(
        os.cpu_count(), context, initializer=_begin_worker
    ) as executor:
        yield executor


def _begin_worker() -> None:
    """One thread; and an end, if the process that it works for is killed."""
    set_threads(1)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextlib.contextmanager
def _mpi() -> Iterator[Any]:
    world = distributed.init()
    if world.size == 1:
        raise ExecutorError(
            "--executor mpi: there is one rank, and it needs another to work. Run it under "
            "mpiexec: mpiexec -n 5 wengert reproduce circles --cv --executor mpi."
        )
    from mpi4py.futures import MPICommExecutor

    set_threads(1)
    with MPICommExecutor(world.communicator) as executor:
        yield executor


@contextlib.contextmanager
def _dask() -> Iterator[Any]:
    """Of the scheduler that DASK_SCHEDULER_ADDRESS names, or of processes here."""
    try:
        from dask.distributed import Client
    except ImportError:
        raise ExecutorError(
            "--executor dask: dask is not installed. Run: pip install dask distributed."
        ) from None
    address = os.environ.get("DASK_SCHEDULER_ADDRESS")
    with Client(address, **({} if address else {"threads_per_worker": 1})) as client:
        yield client


EXECUTORS = {"processes": _processes, "mpi": _mpi, "dask": _dask}
