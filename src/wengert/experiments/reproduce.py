"""Run experiments one after the other and keep what they have found on disk."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from .progress import Progress
from .report import Report, Section
from .settings import Settings


@dataclass(frozen=True)
class Experiment:
    """What to run, and what to call it."""

    run: Callable[[Section, Progress, Settings], None]
    title: str
    about: str


def reproduce(
    experiments: Mapping[str, Experiment],
    folder: Path,
    settings: Settings | None = None,
    stream: TextIO | None = None,
) -> Report:
    """Run the experiments, print their tables, write ``results.json`` and ``report.html``.

    Both files are written again after every experiment, and also when one is interrupted or
    fails: what was finished is never lost.
    """
    settings = settings or Settings()
    stream = stream or sys.stdout
    report = Report(folder, settings.quick)
    for name, experiment in experiments.items():
        command = f"wengert reproduce {name} {settings.options()}".rstrip()
        section = report.add(Section(name, experiment.title, experiment.about, command))
        started = time.perf_counter()
        try:
            with Progress(name) as progress:
                experiment.run(section, progress, settings)
            section.complete = True
        finally:
            section.seconds = time.perf_counter() - started
            section.notes += busy()
            report.write()
            section.print(stream)
    return report


def busy() -> list[str]:
    """A remark if the machine had more to do than this, so that times are too long."""
    cores = os.cpu_count() or 1
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if load <= cores + 1:
        return []
    return [f"The machine was busy (load {load:.1f} on {cores} cores): times are too long."]
