"""Many calls that have nothing to do with each other: seeds, folds, the points of a grid.

`sweep` makes them on any executor that has `submit`: those of `concurrent.futures`, of
`mpi4py.futures`, or dask's. What is done is kept in a folder, if one is given, so that a sweep that
was interrupted goes on where it was.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ..errors import StructureError, explain
from ..job import alone
from ..storage import load, save
from .checkpoints import digest


def grid(**options: Iterable[Any]) -> list[dict[str, Any]]:
    """All combinations of some options, the last one changing first.

    >>> grid(lr=[0.1], seed=range(2))
    [{'lr': 0.1, 'seed': 0}, {'lr': 0.1, 'seed': 1}]
    """
    values = itertools.product(*options.values())
    return [dict(zip(options, one, strict=True)) for one in values]


def sweep(
    function: Callable[..., Any],
    settings: Iterable[Mapping[str, Any]],
    executor: Any = None,
    keep: Any = None,
) -> Iterator[Any]:
    """``function(**setting)`` for each setting; the results in the order of the settings.

    With an `executor` the calls run there, as many at once as it likes; without one they are made
    here, one after the other. `keep` is a folder for results, trees of arrays, numbers and strings:
    calls whose results are there already are not made again. A call that fails raises its error in
    its turn; what others have found is kept all the same.

    On ranks that `mpiexec` has started, a `fit` inside of a call is that of one process.

    >>> list(sweep(lambda lr, seed: lr * seed, grid(lr=[2, 3], seed=[1, 10])))
    [2, 20, 3, 30]
    """
    jobs = [_Job(function, dict(setting), keep) for setting in settings]
    if executor is not None and not hasattr(executor, "submit"):
        raise StructureError(
            explain(
                "sweep",
                f"got {type(executor).__name__} as executor, which has no method submit",
                "Give one of concurrent.futures, of mpi4py.futures, or a dask client.",
            )
        )
    return _results(jobs, executor)


def _results(jobs: list[_Job], executor: Any) -> Iterator[Any]:
    try:
        for job in jobs:
            if executor is not None and not job.is_done:
                job.submit(executor)
        for job in jobs:
            yield job.result()
    finally:
        for job in jobs:
            job.cancel()


class _Job:
    """One call."""

    def __init__(self, function: Callable[..., Any], setting: dict[str, Any], keep: Any):
        self.function, self.setting = function, setting
        self.path: str | None = None
        self.future: Any = None
        if keep is not None:
            name = getattr(function, "__qualname__", type(function).__name__)
            mark = digest({"function": name, "setting": sorted(setting.items())})
            self.path = os.path.join(os.path.abspath(os.fspath(keep)), f"{mark}.safetensors")

    @property
    def is_done(self) -> bool:
        """Whether its result was kept by an earlier sweep."""
        return self.path is not None and os.path.exists(self.path)

    def submit(self, executor: Any) -> None:
        """Have it made elsewhere; the result is kept as soon as it is there."""
        self.future = executor.submit(call_alone, self.function, self.setting)
        self.future.add_done_callback(self._keep_when_done)

    def _keep_when_done(self, future: Any) -> None:
        if not future.cancelled() and future.exception() is None:
            self._keep(future.result())

    def _keep(self, found: Any) -> None:
        if self.path is not None and not os.path.exists(self.path):
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            save(self.path, {"result": found})

    def result(self) -> Any:
        """What the call gives, or gave before."""
        if self.future is None and self.is_done:
            return load(self.path)["result"]
        try:
            if self.future is None:
                found = call_alone(self.function, self.setting)
            else:
                found = self.future.result()
        except Exception as error:
            error.add_note(f"in the call of a sweep with {self.setting}")
            raise
        self._keep(found)
        return found

    def cancel(self) -> None:
        """Not needed any more, if it has not begun."""
        if self.future is not None:
            self.future.cancel()


def call_alone(function: Callable[..., Any], setting: dict[str, Any]) -> Any:
    """Call a function for which this process is no rank of a job."""
    with alone():
        return function(**setting)
