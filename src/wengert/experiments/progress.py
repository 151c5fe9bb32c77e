"""How far an experiment has come: a bar where `rich` and a terminal are there, else plain lines.

Progress goes to the standard error, so that the tables on the standard output can be piped.
"""

from __future__ import annotations

import sys
from typing import Any, TextIO


class Progress:
    """Use as a context manager: `start` once with the number of steps, `step` before each."""

    def __init__(self, name: str, stream: TextIO | None = None):
        self.name = name
        self.stream = stream or sys.stderr
        self.total = 0
        self.done = 0
        self._bar = _rich_bar(self.stream)
        self._task: Any = None

    def __enter__(self) -> Progress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._bar is not None:
            if exc_info[0] is None and self._task is not None:
                self._bar.update(self._task, completed=self.total, description=self.name)
            self._bar.stop()

    def start(self, total: int) -> None:
        """Say how many steps there will be."""
        self.total = total
        if self._bar is not None:
            self._task = self._bar.add_task(self.name, total=total)

    def step(self, what: str) -> None:
        """Say what begins now; the step before it is done."""
        if self._bar is not None:
            self._bar.update(self._task, completed=self.done, description=f"{self.name}: {what}")
        else:
            line = f"{self.name} [{self.done + 1}/{self.total}] {what}"
            print(line, file=self.stream, flush=True)
        self.done += 1


def _rich_bar(stream: TextIO) -> Any:
    if not stream.isatty():
        return None
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar
    except ImportError:
        return None
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Bar(*columns, TimeElapsedColumn(), console=Console(file=stream))
