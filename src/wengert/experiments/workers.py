"""Work in processes of its own, so that its time and memory are its alone.

The parent starts an interpreter that runs `main`, or one for each of several ranks, and hands it,
as JSON, the name of a function and its arguments. The function gets `emit` as its first argument:
whatever dictionary it gives to `emit` arrives at the parent at once, as a line of JSON. What was
emitted before a failure or an interrupt is never lost.
"""

from __future__ import annotations

import importlib
import json
import os
import queue
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from wengert import distributed, train
from wengert.job import end_job, launcher

Emit = Callable[[dict[str, Any]], None]
Job = tuple[str, dict[str, Any]]  # package.module:function, its arguments
_ERROR = "worker_error"
_START = "import sys; from wengert.experiments.workers import main; sys.exit(main())"


class WorkerError(RuntimeError):
    """A worker failed; the message has its traceback."""


class Worker:
    """A process that runs one job; it is over when `items` is exhausted or `stop` was called."""

    def __init__(self, task: str, arguments: dict[str, Any], ranks: int = 1):
        self.task = task
        job = json.dumps({"task": task, "arguments": arguments})
        command = [sys.executable, "-c", _START, job]
        if ranks > 1:
            command = [*launcher(ranks), *command]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env=_environment(),
        )

    def items(self) -> Iterator[dict[str, Any]]:
        """What the job emits, as it does."""
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                item = json.loads(line)
                if _ERROR in item:
                    raise WorkerError(f"{self.task} failed in its process:\n{item[_ERROR]}")
                yield item
        if self._process.wait():
            status = self._process.returncode
            raise WorkerError(f"{self.task}: its process ended with status {status}.")

    def stop(self) -> None:
        """End the process if it still runs."""
        if self._process.poll() is None:
            self._process.terminate()
        self._process.wait()


def stream(task: str, *, ranks: int = 1, **arguments: Any) -> Iterator[dict[str, Any]]:
    """What ``package.module:function`` emits, run in a fresh interpreter, or on several ranks."""
    worker = Worker(task, arguments, ranks)
    try:
        yield from worker.items()
    finally:
        worker.stop()


def stream_all(jobs: Sequence[Job], at_once: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """What several jobs emit, with the number of the job; `at_once` of them run side by side."""
    waiting = list(enumerate(jobs))
    arrived: queue.Queue[tuple[int, Any]] = queue.Queue()
    running: dict[int, Worker] = {}

    def listen(number: int, worker: Worker) -> None:
        try:
            for item in worker.items():
                arrived.put((number, item))
            arrived.put((number, None))
        except Exception as error:  # to be raised where the results are awaited
            arrived.put((number, error))

    def start() -> None:
        while waiting and len(running) < max(1, at_once):
            number, (task, arguments) = waiting.pop(0)
            running[number] = worker = Worker(task, arguments)
            threading.Thread(target=listen, args=(number, worker), daemon=True).start()

    try:
        start()
        while running:
            number, item = arrived.get()
            if isinstance(item, Exception):
                raise item
            if item is None:
                running.pop(number).stop()
                start()
            else:
                yield number, item
    finally:
        for worker in running.values():
            worker.stop()


def stream_on(
    jobs: Sequence[Job], executor: Any, keep: Any = None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """What several jobs emit, in their order, each at its end; they run on an executor."""
    settings = [{"task": task, "arguments": arguments} for task, arguments in jobs]
    for number, text in enumerate(train.sweep(run_job, settings, executor, keep)):
        for item in json.loads(text):
            yield number, item


def run_job(task: str, arguments: dict[str, Any]) -> str:
    """All that a job emits, as JSON."""
    items: list[dict[str, Any]] = []
    find(task)(items.append, **arguments)
    return json.dumps(items)


def _environment() -> dict[str, str]:
    """This one's, with the folder of this very package in front: the worker must run the same."""
    root = str(Path(__file__).resolve().parents[2])
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)}


def find(task: str) -> Callable[..., None]:
    """The function that a task names."""
    module, _, name = task.partition(":")
    return getattr(importlib.import_module(module), name)


def _tell_origin(emit: Emit) -> None:
    """A job for the tests: which file a worker has imported."""
    emit({"file": __file__})


def main() -> int:
    """The worker's side: read a task, run it, write what it emits."""
    out, sys.stdout = sys.stdout, sys.stderr  # what a task prints must not mix with what it emits
    job = json.loads(sys.argv[1])

    def emit(item: dict[str, Any]) -> None:
        if distributed.rank() == 0 or _ERROR in item:
            print(json.dumps(item), file=out, flush=True)

    try:
        find(job["task"])(emit, **job["arguments"])
    except KeyboardInterrupt:
        return 130  # the parent was interrupted too
    except BrokenPipeError:
        return 1  # the parent is gone
    except BaseException:
        emit({_ERROR: traceback.format_exc()})
        end_job()
        return 1
    return 0
