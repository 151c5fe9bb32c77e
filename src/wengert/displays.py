"""Pieces of HTML for notebooks: tables, texts, curves; readable on light and dark."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from math import isfinite

_CELL = "padding:2px 10px;text-align:{};white-space:nowrap;border:0"
_COLOURS = ("#2867c4", "#c2571a", "#2f7d4f", "#6d3fc4", "#8a6d1b", "#5c6675")


def in_notebook() -> bool:
    """Whether this runs in the kernel of a notebook: that somebody imported one is not enough.

    >>> in_notebook()
    False
    """
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


def escape(content: str) -> str:
    """Text for HTML."""
    from html import escape as escaped  # here: it brings a table of two thousand names

    return escaped(content)


def table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; columns whose cells are numbers stand on the right.

    >>> "<td" in table("numbers", ["name", "n"], [["one", "1"]])
    True
    """
    right = [all(_is_number(row[n]) for row in rows) for n in range(len(heads))]
    styles = [_CELL.format("right" if one else "left") for one in right]
    head = "".join(f'<th style="{s}">{escape(h)}</th>' for h, s in zip(heads, styles, strict=True))
    body = "".join(
        "<tr>"
        + "".join(f'<td style="{s}">{escape(c)}</td>' for c, s in zip(row, styles, strict=True))
        + "</tr>"
        for row in rows
    )
    return (
        '<div style="overflow-x:auto"><table style="border-collapse:collapse;font-size:13px">'
        '<caption style="text-align:left;font-weight:600;padding:2px 10px">'
        f"{escape(title)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def text(content: str) -> str:
    """Text as it is.

    >>> text("a < b")
    '<pre style="line-height:1.4">a &lt; b</pre>'
    """
    return f'<pre style="line-height:1.4">{escape(content)}</pre>'


def curves(title: str, lines: Mapping[str, Sequence[float]]) -> str:
    """Curves over their numbers, as one small picture; what is not finite is left out."""
    width, height, left, bottom = 360, 170, 46, 20
    points = {name: [(n, y) for n, y in enumerate(ys) if isfinite(y)] for name, ys in lines.items()}
    everything = [point for one in points.values() for point in one]
    if not everything:
        return ""
    last = max(max(n for n, _ in everything), 1)
    low, high = min(y for _, y in everything), max(y for _, y in everything)
    span = high - low or 1.0

    def at(n: int, y: float) -> str:
        x = left + (width - left - 8) * n / last
        return f"{x:.1f},{22 + (height - 22 - bottom) * (high - y) / span:.1f}"

    parts = [f'<text x="{left}" y="13" font-weight="600">{escape(title)}</text>']
    for y in (low, high):
        place = at(0, y).split(",")[1]
        parts.append(f'<text x="{left - 5}" y="{place}" dy="4" text-anchor="end">{y:.3g}</text>')
    for number, (name, one) in enumerate(points.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        path = " ".join(at(n, y) for n, y in one)
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>'
        )
        x = left + 80 + 90 * number
        parts.append(f'<text x="{x}" y="13" style="fill:{colour}">{escape(name)}</text>')
    return (
        f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" font-size="11" '
        'font-family="sans-serif" style="fill:currentColor">' + "".join(parts) + "</svg>"
    )


def _is_number(cell: str) -> bool:
    bare = cell.strip().rstrip("%").strip().replace(",", "")
    try:
        float(bare)
    except ValueError:
        return not bare
    return True
