"""What experiments found: tables in the terminal, ``results.json``, and one HTML page.

A `Section` is filled in as an experiment goes on, so that whatever is finished can be written at
any moment. Files are written aside and then renamed: a reader never sees half of one.
"""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import numpy as np

import wengert as wg

from .tables import Table, percent, print_table

REACHED, MISSED = "reached", "not reached"


@dataclass(frozen=True)
class Check:
    """Something the papers reached, and what wengert reached; `at_least` or at most."""

    what: str
    got: float
    wanted: float
    at_least: bool = True
    show: Callable[[float], str] = percent
    remark: str = ""  # how the run differs from the papers'

    @property
    def status(self) -> str:
        """``reached`` or ``not reached``."""
        good = self.got >= self.wanted if self.at_least else self.got <= self.wanted
        return REACHED if good else MISSED

    def text(self) -> str:
        """One line.

        >>> print(Check("after 5 epochs", 0.97, 0.9655).text())
        reached: after 5 epochs: 97.00 % (wanted: at least 96.55 %)
        """
        bound = "at least" if self.at_least else "at most"
        figures = f"{self.show(self.got)} (wanted: {bound} {self.show(self.wanted)})"
        return "; ".join(filter(None, [f"{self.status}: {self.what}: {figures}", self.remark]))

    def data(self) -> dict[str, Any]:
        """The check for ``results.json``."""
        return {
            "what": self.what,
            "got": self.got,
            "wanted": self.wanted,
            "at_least": self.at_least,
            "status": self.status,
            "remark": self.remark,
        }


@dataclass(frozen=True)
class Figure:
    """A picture as SVG text; a wide one gets a row of the page to itself."""

    caption: str
    svg: str
    wide: bool = False


@dataclass
class Section:
    """The results of one experiment."""

    name: str
    title: str
    about: str
    command: str = ""  # what made it
    data: str = ""  # what it ran on
    tables: list[Table] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    curves: dict[str, Any] = field(default_factory=dict)  # what figures show, for results.json
    seconds: float = 0.0
    complete: bool = False

    def table(self, name: str, caption: str, columns: Any = (), own: str = "") -> Table:
        """Add a table to fill in."""
        added = Table(name, caption, columns, own=own)
        self.tables.append(added)
        return added

    @property
    def headline(self) -> str:
        """The title with how long it took and whether it came to an end."""
        state = "" if self.complete else ", not finished"
        return f"{self.title} ({self.seconds:.1f} s{state})"

    def remarks(self) -> list[str]:
        """What is said under the tables: the checks, then the notes."""
        return [*(check.text() for check in self.checks), *self.notes]

    def print(self, stream: TextIO) -> None:
        """The section for a terminal."""
        print(f"\n{self.headline}", file=stream)
        if self.data:
            print(f"data: {self.data}", file=stream)
        for table in self.tables:
            print(file=stream)
            print_table(table, stream)
        if self.remarks():
            print("", *self.remarks(), sep="\n", file=stream)
        stream.flush()

    def as_data(self) -> dict[str, Any]:
        """The section for ``results.json``."""
        return {
            "title": self.title,
            "command": self.command,
            "data": self.data,
            "complete": self.complete,
            "seconds": self.seconds,
            "tables": {table.name: table.rows for table in self.tables},
            "checks": [check.data() for check in self.checks],
            "notes": self.notes,
            "curves": self.curves,
        }


class Report:
    """The sections of one run and the folder they are written to."""

    def __init__(self, folder: Path, quick: bool = False):
        self.folder = Path(folder)
        self.quick = quick
        self.sections: list[Section] = []

    def add(self, section: Section) -> Section:
        """Add a section; it is written as it stands whenever `write` is called."""
        self.sections.append(section)
        return section

    def write(self) -> tuple[Path, Path]:
        """Write ``results.json`` and ``report.html``; the paths of both."""
        from .page import page  # here: a page is made of reports

        self.folder.mkdir(parents=True, exist_ok=True)
        results = self.folder / "results.json"
        html = self.folder / "report.html"
        _replace(results, json.dumps(_plain(self.data()), indent=1, allow_nan=False) + "\n")
        _replace(html, page(self))
        return results, html

    def data(self) -> dict[str, Any]:
        """Everything that ``results.json`` holds."""
        return {
            "machine": machine(),
            "quick": self.quick,
            "experiments": {section.name: section.as_data() for section in self.sections},
        }


def machine() -> dict[str, str]:
    """What the figures depend on."""
    return {
        "wengert": wg.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "processor": _processor(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": str(os.cpu_count()),
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            named = [line for line in lines if line.startswith("model name")]
    except OSError:
        named = []
    return named[0].split(":", 1)[1].strip() if named else platform.processor() or "unknown"


def _plain(value: Any) -> Any:
    """The value in JSON's own types; what is not finite, which JSON cannot say, is null."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _replace(path: Path, text: str) -> None:
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    aside.write_text(text, encoding="utf-8")
    os.replace(aside, path)
