"""How far a training has come: a bar in a notebook, and where `rich` is installed in a terminal;
else lines.

Progress goes to the standard error. Every epoch leaves one line, which is the same either way.
"""

from __future__ import annotations

import sys
import time
from typing import Any, TextIO

from ..displays import in_notebook, text
from .history import VALIDATION, shown

_FIRST_LINE = 10.0  # seconds without a line after which one says that all is well
_LAST_LINES = 8  # of epochs, above a bar in a notebook
_PAUSE = 0.1  # seconds between the lines of epochs that follow each other faster than one can read


def progress_for(progress: Any, unit: str) -> Progress:
    """The progress that the argument of `fit` asks for: a Boolean, or a stream to write to."""
    if progress is False or progress is None:
        return Progress()
    stream = sys.stderr if progress is True else progress
    if stream is None:  # a program without a standard error
        return Progress()
    if progress is True and (shown_by := _notebook()) is not None:
        return NotebookBar(unit, shown_by)
    return _bar(stream, unit) or Lines(stream, unit)


class Progress:
    """Shows nothing."""

    def start(self, epochs: int, steps: int, epoch: int) -> None:
        """Say how many epochs of how many steps there are, and with which it starts."""

    def advance(self, epoch: int, step: int, values: dict[str, float], speed: float) -> None:
        """Say that so many steps of an epoch are done."""

    def finish_epoch(self, epoch: int, record: dict[str, float]) -> None:
        """Say that an epoch is done."""

    def note(self, text: str) -> None:
        """Say something else."""

    def close(self) -> None:
        """Leave the terminal as it was."""


class Lines(Progress):
    """A line for each epoch, and one now and then in epochs that take long."""

    def __init__(self, stream: TextIO, unit: str):
        self.stream, self.unit = stream, unit
        self._epochs = self._steps = 0
        self._pause, self._said = _FIRST_LINE, time.monotonic() - _PAUSE
        self._kept_back = ""

    def start(self, epochs: int, steps: int, epoch: int) -> None:
        """Remember what the lines need."""
        self._epochs, self._steps = epochs, steps

    def advance(self, epoch: int, step: int, values: dict[str, float], speed: float) -> None:
        """Write a line if there was none for long; the pauses grow."""
        now = time.monotonic()
        if now - self._said >= self._pause and step < self._steps:
            self._pause *= 1.5
            self._write(
                f"epoch {epoch + 1}/{self._epochs}  step {step:,}/{self._steps:,}  "
                f"{numbers(values)}  {speed:,.0f} {self.unit}/s"
            )

    def finish_epoch(self, epoch: int, record: dict[str, float]) -> None:
        """Write the epoch's line, ten times a second at most."""
        line = epoch_line(epoch, self._epochs, record, self.unit)
        if time.monotonic() - self._said < _PAUSE:
            self._kept_back = line
        else:
            self._write(line)

    def note(self, text: str) -> None:
        """Write it."""
        self._write(text)

    def close(self) -> None:
        """Write the last line if it was kept back."""
        if self._kept_back:
            self._write(self._kept_back)

    def _write(self, text: str) -> None:
        self._said, self._kept_back = time.monotonic(), ""
        print(text, file=self.stream, flush=True)


class Bar(Progress):
    """A bar of `rich`, with the lines of the epochs above it."""

    def __init__(self, unit: str, rich: Any):
        self.unit = unit
        self._rich, self._task = rich, None
        self._epochs = self._steps = 0

    def start(self, epochs: int, steps: int, epoch: int) -> None:
        """Show the bar."""
        self._epochs, self._steps = epochs, steps
        self._rich.start()
        self._task = self._rich.add_task("", total=epochs * steps, completed=epoch * steps)

    def advance(self, epoch: int, step: int, values: dict[str, float], speed: float) -> None:
        """Move the bar."""
        text = f"epoch {epoch + 1}/{self._epochs}  {numbers(values)}  {speed:,.0f} {self.unit}/s"
        self._rich.update(self._task, completed=epoch * self._steps + step, description=text)

    def finish_epoch(self, epoch: int, record: dict[str, float]) -> None:
        """Leave a line above the bar."""
        self.note(epoch_line(epoch, self._epochs, record, self.unit))

    def note(self, text: str) -> None:
        """Write it above the bar."""
        self._rich.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        """Take the bar away: the lines have said it all."""
        self._rich.stop()


class NotebookBar(Progress):
    """A bar below a cell, with the last lines of the epochs; afterwards the lines alone."""

    def __init__(self, unit: str, display: Any):
        self.unit, self._display = unit, display
        self._lines: list[str] = []
        self._epochs = self._steps = 0
        self._bar, self._said, self._handle = "", 0.0, None

    def start(self, epochs: int, steps: int, epoch: int) -> None:
        """Show the bar."""
        self._epochs, self._steps = epochs, steps
        self._show(True)

    def advance(self, epoch: int, step: int, values: dict[str, float], speed: float) -> None:
        """Move the bar, ten times a second at most."""
        whole = max(self._epochs * self._steps, 1)
        done = 100 * (epoch * self._steps + step) / whole
        told = f"epoch {epoch + 1}/{self._epochs}  {numbers(values)}  {speed:,.0f} {self.unit}/s"
        self._bar = f'<progress max="100" value="{done:.1f}" style="width:16em"></progress> {told}'
        self._show()

    def finish_epoch(self, epoch: int, record: dict[str, float]) -> None:
        """Add the epoch's line."""
        self.note(epoch_line(epoch, self._epochs, record, self.unit))

    def note(self, text: str) -> None:
        """Add a line."""
        self._lines.append(text)
        self._show()

    def close(self) -> None:
        """Leave the lines."""
        self._bar = ""
        self._show(True)

    def _show(self, now: bool = False) -> None:
        if not now and time.monotonic() - self._said < _PAUSE:
            return
        self._said = time.monotonic()
        kept = self._lines if not self._bar else self._lines[-_LAST_LINES:]
        html = self._display.HTML(text("\n".join(kept)) + self._bar)
        if self._handle is None:
            self._handle = self._display.display(html, display_id=True)
        else:
            self._handle.update(html)


def _notebook() -> Any:
    """What shows things in the notebook that this runs in, if it does."""
    if not in_notebook():
        return None
    from IPython import display

    return display


def numbers(values: dict[str, float]) -> str:
    """Numbers with their names.

    >>> numbers({"loss": 0.25, "accuracy": 0.5})
    'loss 0.2500  accuracy 50.00%'
    """
    return "  ".join(f"{name} {shown(name, value)}" for name, value in values.items())


def epoch_line(epoch: int, epochs: int, record: dict[str, float], unit: str) -> str:
    """The line of an epoch.

    >>> epoch_line(0, 5, {"loss": 0.25, "validation_loss": 0.5, "seconds": 1.5,
    ...                   "examples_per_second": 40000.0}, "images")
    'epoch 1/5  loss 0.2500  |  validation: loss 0.5000  |  1.5 s  40,000 images/s'
    """
    times = ("seconds", "examples_per_second")
    own = {n: v for n, v in record.items() if not n.startswith(VALIDATION) and n not in times}
    held = {n.removeprefix(VALIDATION): v for n, v in record.items() if n.startswith(VALIDATION)}
    parts = [f"epoch {epoch + 1}/{epochs}  {numbers(own)}"]
    if held:
        parts.append(f"validation: {numbers(held)}")
    speed = shown(times[1], record[times[1]])
    parts.append(f"{shown(times[0], record[times[0]])} s  {speed} {unit}/s")
    return "  |  ".join(parts)


def _bar(stream: TextIO, unit: str) -> Bar | None:
    if not stream.isatty():
        return None
    try:
        from rich import progress
        from rich.console import Console
    except ImportError:
        return None
    columns = (
        progress.BarColumn(bar_width=24),
        progress.TaskProgressColumn(),
        progress.TextColumn("{task.description}"),
        progress.TimeRemainingColumn(elapsed_when_finished=True),
    )
    console = Console(file=stream)
    return Bar(unit, progress.Progress(*columns, console=console, transient=True))
