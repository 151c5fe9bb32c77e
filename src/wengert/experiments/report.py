"""What experiments found: a table in the terminal, ``results.json``, and one HTML page.

The page needs nothing but itself: tables, drawn graphs and plots are inside it. Files are written
aside and then renamed, so that a reader never sees half of one.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

import wengert as wg


@dataclass(frozen=True)
class Column:
    """A column of a table: the key of its rows, its heading, and how a value is shown."""

    key: str
    heading: str
    show: Callable[[Any], str] = str


@dataclass
class Section:
    """The results of one experiment, filled in row by row."""

    name: str
    title: str
    about: str
    columns: Sequence[Column] = ()
    rows: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    figures: list[tuple[str, str]] = field(default_factory=list)  # caption, SVG
    seconds: float = 0.0
    complete: bool = False

    def cells(self) -> list[list[str]]:
        """The table as text, row by row."""
        return [[c.show(row[c.key]) for c in self.columns] for row in self.rows]

    def text(self) -> str:
        """The section for a terminal."""
        state = "" if self.complete else ", not finished"
        lines = ["", f"{self.title} ({self.seconds:.1f} s{state})", ""]
        lines += text_table([c.heading for c in self.columns], self.cells())
        return "\n".join([*lines, "", *self.notes]).rstrip() + "\n"

    def data(self) -> dict[str, Any]:
        """The section for ``results.json``."""
        return {
            "title": self.title,
            "complete": self.complete,
            "seconds": self.seconds,
            "rows": self.rows,
            "notes": self.notes,
        }

    def html(self) -> str:
        """The section for the page."""
        heads = "".join(f"<th>{escape(c.heading)}</th>" for c in self.columns)
        body = "\n".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
            for row in self.cells()
        )
        state = "" if self.complete else " <em>(not finished)</em>"
        figures = "\n".join(
            f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"
            for caption, svg in self.figures
        )
        notes = "\n".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return (
            f'<section id="{escape(self.name)}">\n<h2>{escape(self.title)}{state}</h2>\n'
            f"<p>{escape(self.about)}</p>\n<table><thead><tr>{heads}</tr></thead>\n"
            f"<tbody>{body}</tbody></table>\n{notes}\n{figures}\n</section>"
        )


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
        self.folder.mkdir(parents=True, exist_ok=True)
        results = self.folder / "results.json"
        page = self.folder / "report.html"
        _replace(results, json.dumps(self.data(), indent=2) + "\n")
        _replace(page, self.html())
        return results, page

    def data(self) -> dict[str, Any]:
        """Everything that ``results.json`` holds."""
        return {
            "machine": machine(),
            "quick": self.quick,
            "experiments": {section.name: section.data() for section in self.sections},
        }

    def html(self) -> str:
        """The whole page."""
        facts = "".join(f"<li>{escape(k)}: {escape(str(v))}</li>" for k, v in machine().items())
        quick = "<p>A quick run with smaller sizes; <code>--full</code> runs everything.</p>"
        mode = quick if self.quick else ""
        sections = "\n".join(section.html() for section in self.sections)
        return (
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
            f"<title>wengert reproduce</title><style>{_STYLE}</style></head><body>\n"
            f"<h1>wengert reproduce</h1>\n<ul>{facts}</ul>\n{mode}{sections}\n</body></html>\n"
        )


_STYLE = (
    "body{font-family:sans-serif;max-width:70em;margin:2em auto;padding:0 1em;color:#222}"
    "table{border-collapse:collapse;margin:1em 0;font-variant-numeric:tabular-nums}"
    "td,th{border-bottom:1px solid #ccc;padding:.25em .7em;text-align:right}"
    "td:first-child,th:first-child{text-align:left}"
    "figure{margin:1em 0;overflow-x:auto}figcaption{color:#555}"
)


def machine() -> dict[str, str]:
    """What the figures depend on."""
    return {
        "wengert": wg.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": platform.machine(),
        "system": platform.system(),
        "cores": str(os.cpu_count()),
    }


def text_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table: the first column to the left, the others to the right.

    >>> print("\\n".join(text_table(["name", "n"], [["a", "1"], ["bc", "20"]])))
    name   n
    ----  --
    a      1
    bc    20
    """
    if not headings:
        return []
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        padded = [cells[0].ljust(widths[0])]
        padded += [c.rjust(w) for c, w in zip(cells[1:], widths[1:], strict=True)]
        return "  ".join(padded).rstrip()

    return [line(headings), line(["-" * width for width in widths]), *map(line, rows)]


def duration(seconds: float) -> str:
    """A time with three digits and a unit.

    >>> duration(1.5e-6), duration(0.0123), duration(2.0)
    ('1.50 us', '12.3 ms', '2.00 s')
    """
    units = (("s", 1.0), ("ms", 1e-3))
    unit, size = next((pair for pair in units if seconds >= pair[1]), ("us", 1e-6))
    value = seconds / size
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {unit}"


def _replace(path: Path, text: str) -> None:
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    aside.write_text(text, encoding="utf-8")
    os.replace(aside, path)
