"""Tables of times and ratios, with rich where it is installed, and the same as JSON."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .machine import Floor, floor_as_dict
from .workload import WENGERT

if TYPE_CHECKING:
    from .run import Outcome


def amount(value: float, unit: str) -> str:
    """A figure in its unit.

    >>> amount(0.0025, "s"), amount(2_381_056, "bytes"), amount(0, "bytes")
    ('2.5 ms', '2.38 MB', '0 B')
    """
    if unit == "s":
        return _duration(value)
    for name, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {name}"
    return f"{value:.0f} B"


def _duration(seconds: float) -> str:
    """Three digits and a unit.

    >>> _duration(0.00001234), _duration(2.5), _duration(3.2e-8)
    ('12.3 us', '2.5 s', '32 ns')
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}" if seconds < 999 * size else f"{seconds:.0f} s"
    return f"{seconds / 1e-9:.3g} ns"


def print_header(facts: dict[str, Any], floor: Floor, notes: Sequence[str]) -> None:
    """The machine, its floor, the versions."""
    versions = ", ".join(f"{name} {text}" for name, text in facts["versions"].items())
    print(f"{facts['machine']}, {facts['cores']} cores, load {facts['load']}")
    print(f"python {facts['python']}, {versions}")
    if facts["environment"]:
        print(", ".join(f"{key}={value}" for key, value in facts["environment"].items()))
    print(
        f"floor: {floor.flops_one / 1e9:.1f} GFLOP/s in float32 on one thread, "
        f"{floor.flops_all / 1e9:.1f} on all; "
        f"{floor.bandwidth_one / 1e9:.1f} GB/s on one thread, "
        f"{floor.bandwidth_all / 1e9:.1f} on all"
    )
    for note in notes:
        print(f"note: {note}")


def print_group(group: str, outcomes: Sequence[Outcome]) -> None:
    """One table: a row for each workload, a column for each contestant."""
    names = list(dict.fromkeys(name for o in outcomes for name in o.workload.contestants))
    names = [n for n in names if any(n in o.figures or n in o.failures for o in outcomes)]
    if WENGERT in names:
        names = [WENGERT, *[name for name in names if name != WENGERT]]
    header = [group, *names]
    with_floor = any(outcome.floor is not None for outcome in outcomes)
    if with_floor:
        header.append("of floor")
    rows = [_row(outcome, names, with_floor) for outcome in outcomes]
    if any(outcome.growth is not None for outcome in outcomes):
        header.append("growth")
        for row, outcome in zip(rows, outcomes, strict=True):
            row.append("" if outcome.growth is None else f"{outcome.growth:.2f}x")
    _print_table(header, rows)
    for outcome in outcomes:
        for name, message in outcome.failures.items():
            print(f"  {outcome.workload.name}: {name} fails: {message}")


def _row(outcome: Outcome, names: Sequence[str], with_floor: bool) -> list[str]:
    cells = [outcome.workload.name]
    for name in names:
        cells.append(_cell(outcome, name))
    if with_floor:
        own = outcome.figures.get(WENGERT)
        known = outcome.floor is not None and own is not None
        cells.append(f"{outcome.floor / own:.0%}" if known else "")  # type: ignore[operator]
    return cells


def _cell(outcome: Outcome, name: str) -> str:
    if name in outcome.failures:
        return "fails"
    if name not in outcome.figures:
        return "-"
    text = amount(outcome.figures[name], outcome.workload.unit)
    ratio = outcome.ratio(name)
    if name == WENGERT or ratio is None:
        return text
    wanted = outcome.workload.goals.get(name)
    mark = "" if wanted is None else (" ok" if ratio >= wanted else " MISSED")
    return f"{text} ({ratio:.2f}x{mark})"


def _print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    if importlib.util.find_spec("rich") is not None:
        _print_rich(header, rows)
        return
    print()
    for line in plain_table(header, rows):
        print(line)


def plain_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The table as lines of text.

    >>> plain_table(["a", "b"], [["x", "10"], ["yy", "9"]])
    ['a    b', '------', 'x   10', 'yy   9']
    """
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = [_line(header, widths), "-" * (sum(widths) + 2 * (len(widths) - 1))]
    return lines + [_line(row, widths) for row in rows]


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first = cells[0].ljust(widths[0])
    rest = [cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)]
    return "  ".join([first, *rest]).rstrip()


def _print_rich(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table()
    for number, title in enumerate(header):
        table.add_column(title, justify="left" if number == 0 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    console = Console()
    # piped into a file there is no screen to fit into
    width = console.width if console.is_terminal else 200
    Console(width=max(width, 100)).print(table)


def print_summary(outcomes: Sequence[Outcome]) -> None:
    """What failed and which goals were missed, again, at the end."""
    failed = [outcome for outcome in outcomes if outcome.failed]
    missed = [outcome for outcome in outcomes if outcome.missed]
    with_goals = sum(bool(o.workload.goals or o.workload.limit is not None) for o in outcomes)
    print(
        f"\n{len(outcomes)} workloads, wengert fails on {len(failed)}; "
        f"of {with_goals} with goals, {len(missed)} missed one"
    )
    for outcome in missed:
        print(f"  missed  {outcome.workload.title}: {'; '.join(outcome.missed)}")
    for outcome in failed:
        for name, message in outcome.failures.items():
            print(f"  fails   {outcome.workload.title}: {name}: {message}")


def write_json(path: str, facts: dict[str, Any], floor: Floor, outcomes: Sequence[Outcome]) -> None:
    """All figures, for other programs."""
    document = {
        "facts": facts,
        "floor": floor_as_dict(floor),
        "workloads": [_as_dict(outcome) for outcome in outcomes],
    }
    Path(path).write_text(json.dumps(document, indent=2) + "\n")


def _as_dict(outcome: Outcome) -> dict[str, Any]:
    ratios = {name: outcome.ratio(name) for name in outcome.figures if name != WENGERT}
    return {
        "group": outcome.workload.group,
        "name": outcome.workload.name,
        "unit": outcome.workload.unit,
        "figures": outcome.figures,
        "ratios": ratios,
        "goals": outcome.workload.goals,
        "limit": outcome.workload.limit,
        "growth": outcome.growth,
        "missed": outcome.missed,
        "failures": outcome.failures,
        "floor_seconds": outcome.floor,
    }
