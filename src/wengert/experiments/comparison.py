"""The same training side by side: wengert, its peers, and what the papers report.

A `Contestant` collects what its job emits, run by run, so that the table can be drawn at any time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .charts import Bar, Series, bars, lines
from .papers import Reported
from .progress import Progress
from .report import Figure, Section
from .tables import Column, Table, amount, duration, percent
from .workers import WorkerError, stream

OWN = "wengert"
SHOWN_EPOCHS = 6  # columns of accuracies in a table
_ACCURACY = "accuracy_"


@dataclass
class Contestant:
    """One system in the comparison, and what is known of its runs."""

    system: str
    source: str = "this run"
    runs: list[dict[str, Any]] = field(default_factory=list)
    memory: dict[str, Any] = field(default_factory=dict)
    mistakes: list[dict[str, Any]] = field(default_factory=list)
    failure: str = ""

    def take(self, item: dict[str, Any]) -> None:
        """Add what a job has emitted."""
        if item["kind"] == "run":
            self.runs.append(item)
        elif item["kind"] == "memory":
            self.memory = {key: value for key, value in item.items() if key != "kind"}
        elif item["kind"] == "mistakes":
            self.mistakes = item["images"]

    @property
    def accuracies(self) -> np.ndarray:
        """Test accuracy by run and epoch."""
        return np.array([run["accuracy"] for run in self.runs])

    def accuracy(self, epoch: int) -> float:
        """The mean over the runs after an epoch; NaN if no run has got there."""
        found = self.accuracies
        return (
            float(found[:, epoch - 1].mean()) if found.size and epoch <= found.shape[1] else np.nan
        )

    @property
    def epoch_seconds(self) -> float:
        """Of one epoch: the mean over runs of the best, since a machine does other things too."""
        return float(np.mean([min(run["epoch_seconds"]) for run in self.runs]))

    @property
    def seconds(self) -> float:
        """Of all epochs of one run."""
        return float(np.mean([sum(run["epoch_seconds"]) for run in self.runs]))

    def row(self) -> dict[str, Any]:
        """The row of the table."""
        row: dict[str, Any] = {"system": self.system, "source": self.source, "runs": len(self.runs)}
        if not self.runs:
            return row
        for epoch in range(1, self.accuracies.shape[1] + 1):
            row[f"{_ACCURACY}{epoch}"] = self.accuracy(epoch)
        return row | {
            "accuracy_std": float(self.accuracies[:, -1].std()),
            "epoch_seconds": self.epoch_seconds,
            "seconds": self.seconds,
            "wall_seconds": float(np.mean([run["wall_seconds"] for run in self.runs])),
            "allocated": _allocated(self.memory),
            **self.memory,
        }


def _allocated(memory: dict[str, Any]) -> float | None:
    if "allocated_bytes" in memory:
        return memory["allocated_bytes"]
    if memory.get("python_bytes") is None:
        return None
    return memory["python_bytes"] + (memory.get("native_bytes") or 0)


def reported_row(row: Reported) -> dict[str, Any]:
    """A paper's row in the same table."""
    return {
        "system": row.system,
        "source": row.source,
        **{f"{_ACCURACY}{epoch}": value for epoch, value in row.accuracy.items()},
        "epoch_seconds": row.epoch_seconds,
        "seconds": row.seconds,
        "allocated": row.allocated,
    }


def chosen_epochs(epochs: int) -> list[int]:
    """Which epochs the table shows.

    >>> chosen_epochs(5), chosen_epochs(20)
    ([1, 2, 3, 4, 5], [1, 2, 5, 10, 15, 20])
    """
    if epochs <= SHOWN_EPOCHS:
        return list(range(1, epochs + 1))
    return sorted({1, 2, *(e for e in range(5, epochs, 5)), epochs})


def columns(epochs: int, reported: Sequence[Reported] = ()) -> list[Column]:
    """The columns of a comparison over so many epochs, and those that papers report."""
    shown = sorted({*chosen_epochs(epochs), *(e for row in reported for e in row.accuracy)})
    return [
        Column("system", "system"),
        Column("source", "source"),
        Column("runs", "runs"),
        *(Column(f"{_ACCURACY}{e}", f"epoch {e}", percent) for e in shown),
        Column("epoch_seconds", "an epoch", duration),
        Column("seconds", "training", duration),
        Column("allocated", "allocated", amount),
        Column("peak_bytes", "peak memory", amount),
    ]


class Comparison:
    """The contestants of one table, which is redrawn after every run."""

    def __init__(
        self, section: Section, name: str, caption: str, epochs: int, reported: Sequence[Reported]
    ):
        self.epochs = epochs
        self.table: Table = section.table(name, caption, columns(epochs, reported), own=OWN)
        self.contestants: list[Contestant] = []
        self._reported = [reported_row(row) for row in reported]
        self._section = section

    def run(
        self, contestant: Contestant, task: str, progress: Progress, ranks: int = 1, /, **job: Any
    ) -> Contestant:
        """Run a job and follow it; a peer that fails is noted, wengert's failure is an error."""
        self.contestants.append(contestant)
        total = f"{job['epochs']}"
        try:
            for item in stream(task, ranks=ranks, **job):
                if item["kind"] == "epoch":
                    place = f"seed {item['seed']}, epoch {item['epoch']} of {total}"
                    progress.step(f"{contestant.system}: {place}{_reached(item)}")
                contestant.take(item)
                self.redraw()
        except WorkerError as error:
            if contestant.system.startswith(OWN):
                raise
            contestant.failure = str(error).strip().splitlines()[-1]
            self._section.notes.append(f"{contestant.system} failed: {contestant.failure}")
        return contestant

    def redraw(self) -> None:
        """Put what is known into the table."""
        self.table.rows[:] = [one.row() for one in self.contestants if one.runs] + self._reported

    def figures(self, references: Sequence[tuple[str, float]]) -> list[Figure]:
        """Accuracy by epoch, time of an epoch, and memory."""
        found = [one for one in self.contestants if one.runs]
        costs = self._time_chart(found) + self._memory_chart(found)
        return [
            Figure(
                "Test accuracy after each epoch; the band spans all runs",
                self._accuracy_chart(found, references),
            ),
            Figure("Training without evaluation; memory of a process that did this alone", costs),
        ]

    def first_runs(self) -> list[tuple[str, dict[str, Any]]]:
        """The first run of each contestant, with its name."""
        return [(one.system, one.runs[0]) for one in self.contestants if one.runs]

    def _accuracy_chart(
        self, found: list[Contestant], references: Sequence[tuple[str, float]]
    ) -> str:
        series = []
        for one in found:
            part = one.accuracies
            series.append(
                Series(
                    one.system,
                    list(range(1, part.shape[1] + 1)),
                    part.mean(0).tolist(),
                    dots=True,
                    low=part.min(0).tolist(),
                    high=part.max(0).tolist(),
                )
            )
        return lines(
            series,
            "epoch",
            "test accuracy",
            title="Accuracy by epoch",
            references=references,
            show_y=lambda share: f"{100 * share:g} %",
            whole_x=True,
        )

    def _time_chart(self, found: list[Contestant]) -> str:
        rows = [
            Bar(one.system, one.epoch_seconds, duration(one.epoch_seconds), _own(one))
            for one in found
        ]
        for row in self._reported:
            seconds = row["epoch_seconds"] or (row["seconds"] or 0) / 5
            if seconds:
                rows.append(Bar(_cited(row), seconds, duration(seconds)))
        return bars(rows, title="Time of an epoch")

    def _memory_chart(self, found: list[Contestant]) -> str:
        rows = [
            Bar(one.system, one.memory["peak_bytes"], amount(one.memory["peak_bytes"]), _own(one))
            for one in found
            if one.memory.get("peak_bytes")
        ]
        return bars(rows, title="Peak resident memory")


def _own(contestant: Contestant) -> bool:
    return contestant.system.startswith(OWN)


def _cited(row: dict[str, Any]) -> str:
    return f"{row['system']} ({row['source'].split(',')[0]})"


def _reached(item: dict[str, Any]) -> str:
    return "" if item.get("accuracy") is None else f", {percent(item['accuracy'])}"


def batch_figures(runs: Sequence[tuple[str, dict[str, Any]]]) -> list[Figure]:
    """Loss and accuracy over batches, one curve for each named run."""
    made = []
    for key, label in (("batch_loss", "loss"), ("batch_accuracy", "accuracy")):
        series = []
        for name, run in runs:
            curve = run[key]
            stride = run["batches"] / max(1, len(curve))
            xs = [(i + 0.5) * stride for i in range(len(curve))]
            series.append(Series(name, xs, curve))
        svg = lines(series, "batches seen", f"{label} in the batch", title=f"Training {label}")
        made.append(Figure(f"Training {label} over batches, first seed", svg))
    return made
