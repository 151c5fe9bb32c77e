"""Run experiments one after the other and keep what they have found on disk."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from .progress import Progress
from .report import Report, Section


@dataclass(frozen=True)
class Experiment:
    """What to run, and what to call it."""

    run: Callable[[Section, Progress, bool], None]
    title: str
    about: str


def reproduce(
    experiments: Mapping[str, Experiment],
    folder: Path,
    quick: bool = False,
    stream: TextIO | None = None,
) -> Report:
    """Run the experiments, print their tables, write ``results.json`` and ``report.html``.

    Both files are written again after every experiment, and also when one is interrupted or
    fails: rows that were finished are never lost.
    """
    stream = stream or sys.stdout
    report = Report(folder, quick)
    for name, experiment in experiments.items():
        section = report.add(Section(name, experiment.title, experiment.about))
        started = time.perf_counter()
        try:
            with Progress(name) as progress:
                experiment.run(section, progress, quick)
            section.complete = True
        finally:
            section.seconds = time.perf_counter() - started
            report.write()
            print(section.text(), file=stream, flush=True)
    return report
