"""Tables of results: rows with keys, shown as text, by `rich` on a terminal, and as HTML.

A row may lack what a column shows (a paper that does not say how much memory it took): the cell is
then a dash.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, TextIO

MISSING = "–"


@dataclass(frozen=True)
class Column:
    """A column of a table: the key of its rows, its heading, and how a value is shown."""

    key: str
    heading: str
    show: Callable[[Any], str] = str

    def cell(self, row: dict[str, Any]) -> str:
        """What stands in this column of the row."""
        value = row.get(self.key)
        return MISSING if value is None else self.show(value)


@dataclass
class Table:
    """Rows under a caption; `name` is the table's key in ``results.json``."""

    name: str
    caption: str
    columns: Sequence[Column] = ()
    rows: list[dict[str, Any]] = field(default_factory=list)
    own: str = ""  # the rows whose first cell begins like this are wengert's own

    @property
    def headings(self) -> list[str]:
        """The headings in order."""
        return [column.heading for column in self.columns]

    def cells(self) -> list[list[str]]:
        """The table as text, row by row."""
        return [[column.cell(row) for column in self.columns] for row in self.rows]

    def is_own(self, cells: Sequence[str]) -> bool:
        """Whether the row is one of wengert's own, which is set in bold."""
        return bool(self.own) and cells[0].startswith(self.own)

    def text(self) -> str:
        """The table with its caption for a terminal."""
        return "\n".join([self.caption, "", *text_table(self.headings, self.cells())])

    def html(self, made_by: str = "") -> str:
        """The table for the page; the caption ends in what `made_by` says."""
        heads = "".join(f"<th>{escape(heading)}</th>" for heading in self.headings)
        rows = []
        for cells in self.cells():
            kind = ' class="own"' if self.is_own(cells) else ""
            rows.append(f"<tr{kind}>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>")
        body = "\n".join(rows)
        return (
            f'<div class="table"><table><caption>{escape(self.caption)}{made_by}</caption>\n'
            f"<thead><tr>{heads}</tr></thead>\n<tbody>{body}</tbody></table></div>"
        )


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


def print_table(table: Table, stream: TextIO) -> None:
    """Print a table: drawn by `rich` if the stream is a terminal and rich is there."""
    if not (stream.isatty() and _print_rich(table, stream)):
        print(table.text(), file=stream)


def _print_rich(table: Table, stream: TextIO) -> bool:
    try:
        from rich import box
        from rich.console import Console
        from rich.table import Table as RichTable
    except ImportError:
        return False
    shown = RichTable(
        title=table.caption, title_justify="left", title_style="italic", box=box.SIMPLE_HEAD
    )
    for number, heading in enumerate(table.headings):
        shown.add_column(heading, justify="right" if number else "left", no_wrap=not number)
    for cells in table.cells():
        shown.add_row(*cells, style="bold" if table.is_own(cells) else None)
    Console(file=stream).print(shown)
    return True


# ---------------------------------------------------------------- how values are shown


def duration(seconds: float) -> str:
    """A time with three digits and a unit.

    >>> duration(1.5e-6), duration(0.0123), duration(2.0)
    ('1.50 us', '12.3 ms', '2.00 s')
    """
    units = (("s", 1.0), ("ms", 1e-3))
    unit, size = next((pair for pair in units if seconds >= pair[1]), ("us", 1e-6))
    value = seconds / size
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {unit}"


def amount(size: float) -> str:
    """Bytes with three digits and a unit.

    >>> amount(0), amount(1536), amount(250.6 * 2**30), amount(7442 * 2**30)
    ('0 B', '1.50 KiB', '251 GiB', '7,442 GiB')
    """
    if size < 1024:
        return f"{size:.0f} B"
    power = min(3, int(math.log(size, 1024)))
    value = size / 1024**power
    return f"{value:,.{2 if value < 10 else 1 if value < 100 else 0}f} {'KMG'[power - 1]}iB"


def percent(share: float) -> str:
    """A share of 1 in percent, with the two decimals that the papers print.

    >>> percent(0.9655)
    '96.55 %'
    """
    return f"{100 * share:.2f} %"
