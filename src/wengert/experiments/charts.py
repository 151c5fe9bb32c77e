"""Charts as SVG that belongs to a page: it takes its colours from the page's style.

Colours are classes (``c0`` ... ``c7``) and texts have no colour of their own, so that one chart is
right on a light and on a dark page. Nothing but the standard library draws them.

>>> curve = Series("loss", [1, 2, 3], [0.9, 0.4, 0.3])
>>> lines([curve], "epoch", "loss").startswith("<svg")
True
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

COLOURS = 8
_LEFT, _RIGHT, _TOP, _BOTTOM = 66, 14, 30, 42
_LETTER = 6.6  # about the width of a letter at 11 px, in px
_LEGEND_LINE = 17


@dataclass(frozen=True)
class Series:
    """One curve; `low` and `high` draw a band around it, `colour` overrides the order."""

    name: str
    xs: Sequence[float]
    ys: Sequence[float]
    dashed: bool = False
    dots: bool = False
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    colour: int | None = None


@dataclass(frozen=True)
class Bar:
    """One horizontal bar; wengert's own are drawn in the first colour, others in grey."""

    name: str
    value: float
    shown: str
    own: bool = False


@dataclass(frozen=True)
class Scale:
    """From numbers to places between `start` and `end`."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """The place of a number."""
        if self.log:
            part = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            part = (value - self.low) / (self.high - self.low)
        return self.start + part * (self.end - self.start)

    def ticks(self, count: int = 5) -> list[float]:
        """Round numbers within the scale."""
        if self.log:
            return decades(self.low, self.high)
        return round_numbers(self.low, self.high, count)


def round_numbers(low: float, high: float, count: int = 5) -> list[float]:
    """About `count` numbers with few digits from `low` to `high`.

    >>> round_numbers(0.0, 1.0)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    raw = (high - low) / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]


def decades(low: float, high: float) -> list[float]:
    """Powers of ten from `low` to `high`, not more than about seven of them.

    >>> decades(8, 1200)
    [10.0, 100.0, 1000.0]
    """
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    step = max(1, math.ceil((last - first) / 7))
    return [10.0**power for power in range(first, last + 1, step)]


def lines(
    series: Sequence[Series],
    x_label: str,
    y_label: str,
    *,
    title: str = "",
    log_x: bool = False,
    log_y: bool = False,
    references: Sequence[tuple[str, float]] = (),
    show_y: Callable[[float], str] | None = None,
    whole_x: bool = False,
    size: tuple[int, int] = (460, 300),
) -> str:
    """Curves over a common axis; `references` are levels drawn across, with their names.

    `whole_x` labels whole numbers alone, as epochs need it.
    """
    width, height = size
    curves = [_finite(one) for one in series]
    legend, legend_height = _legend(curves, width)
    xs = [x for one in curves for x in one.xs] or [0.0, 1.0]
    ys = [y for one in curves for y in one.ys] + [level for _, level in references] or [0.0, 1.0]
    across = Scale(*_widened(xs, log_x, 0.0), _LEFT, width - _RIGHT, log_x)
    up = Scale(*_widened(ys, log_y, 0.05), height - _BOTTOM, _TOP, log_y)
    body = [
        _axes(across, up, x_label, y_label, show_y or _number, whole_x),
        *(_reference(i, *one, across, up) for i, one in enumerate(references)),
        *(_curve(number, one, across, up) for number, one in enumerate(curves)),
        f'<g transform="translate(0,{height})">{legend}</g>',
    ]
    return _svg(width, height + legend_height, title, body)


def bars(rows: Sequence[Bar], *, title: str = "", log: bool = False, width: int = 460) -> str:
    """Horizontal bars from the top down, each with its name and its value."""
    if not rows:
        return ""
    left = 12 + _LETTER * max(len(row.name) for row in rows)
    right = 14 + _LETTER * max(len(row.shown) for row in rows)
    values = [row.value for row in rows if row.value > 0] or [1.0]
    if log:
        scale = Scale(min(values) / 3, max(values) * 1.0001, left, width - right, True)
    else:
        scale = Scale(0.0, max(values), left, width - right)
    body = [_bar(number, row, scale, left) for number, row in enumerate(rows)]
    return _svg(width, _TOP + 26 * len(rows) + 8, title, body)


def _bar(number: int, row: Bar, scale: Scale, left: float) -> str:
    top = _TOP + 26 * number
    end = max(left + 1.5, scale(row.value)) if row.value > 0 else left + 1.5
    kind = "f0" if row.own else "other"
    weight = ' font-weight="600"' if row.own else ""
    return (
        f'<text x="{left - 6:.1f}" y="{top + 14}" text-anchor="end"{weight}>{escape(row.name)}'
        f'</text><rect class="{kind}" x="{left:.1f}" y="{top + 2}" width="{end - left:.1f}" '
        f'height="16" rx="2"/><text x="{end + 6:.1f}" y="{top + 14}"{weight}>{escape(row.shown)}'
        "</text>"
    )


def _svg(width: float, height: float, title: str, body: Sequence[str]) -> str:
    head = f'<text class="title" x="8" y="16">{escape(title)}</text>' if title else ""
    label = f' aria-label="{escape(title)}"' if title else ""
    return (
        f'<svg class="chart" role="img"{label} xmlns="http://www.w3.org/2000/svg" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}">'
        f"{head}{''.join(body)}</svg>"
    )


def _finite(series: Series) -> Series:
    kept = [i for i, y in enumerate(series.ys) if y is not None and math.isfinite(y)]

    def pick(values: Sequence[float] | None) -> list[float] | None:
        return None if values is None else [values[i] for i in kept]

    return Series(
        series.name,
        [series.xs[i] for i in kept],
        [series.ys[i] for i in kept],
        series.dashed,
        series.dots,
        pick(series.low),
        pick(series.high),
        series.colour,
    )


def _widened(values: Sequence[float], log: bool, margin: float) -> tuple[float, float]:
    low, high = min(values), max(values)
    if log:
        low, high = max(low, 1e-300), max(high, 1e-300)
        factor = (high / low) ** margin if high > low else 2.0
        return low / factor, high * factor
    pad = (high - low) * margin if high > low else max(abs(high) * 0.05, 0.5)
    return low - pad, high + pad


def _axes(
    across: Scale, up: Scale, x_label: str, y_label: str, show_y: Callable, whole_x: bool
) -> str:
    left, right, bottom, top = across.start, across.end, up.start, up.end
    parts = []
    for tick in up.ticks():
        y = up(tick)
        parts.append(
            f'<line class="grid" x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{escape(show_y(tick))}</text>'
        )
    for tick in across.ticks():
        if whole_x and tick != round(tick):
            continue
        x = across(tick)
        parts.append(
            f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{bottom}" y2="{bottom + 4}"/>'
            f'<text x="{x:.1f}" y="{bottom + 17}" text-anchor="middle">'
            f"{escape(_number(tick))}</text>"
        )
    middle = (left + right) / 2
    parts.append(
        f'<line class="axis" x1="{left}" x2="{right}" y1="{bottom}" y2="{bottom}"/>'
        f'<text x="{middle:.0f}" y="{bottom + 34}" text-anchor="middle">{escape(x_label)}</text>'
        f'<text transform="translate(13,{(top + bottom) / 2:.0f}) rotate(-90)" '
        f'text-anchor="middle">{escape(y_label)}</text>'
    )
    return "".join(parts)


def _reference(number: int, name: str, level: float, across: Scale, up: Scale) -> str:
    """A level with its name, at the right and at the left in turn: names must not collide."""
    y = up(level)
    x, anchor = (across.start + 4, "start") if number % 2 else (across.end - 2, "end")
    return (
        f'<line class="reference" x1="{across.start}" x2="{across.end}" y1="{y:.1f}" '
        f'y2="{y:.1f}"/><text class="small" x="{x}" y="{y - 4:.1f}" '
        f'text-anchor="{anchor}">{escape(name)}</text>'
    )


def _curve(number: int, series: Series, across: Scale, up: Scale) -> str:
    if not series.xs:
        return ""
    colour = _colour(number, series)
    places = [(across(x), up(y)) for x, y in zip(series.xs, series.ys, strict=True)]
    parts = []
    if series.low is not None and series.high is not None:
        over = [(across(x), up(y)) for x, y in zip(series.xs, series.high, strict=True)]
        under = [(across(x), up(y)) for x, y in zip(series.xs, series.low, strict=True)]
        parts.append(f'<polygon class="band f{colour}" points="{_points(over + under[::-1])}"/>')
    dashes = ' stroke-dasharray="5 4"' if series.dashed else ""
    parts.append(f'<polyline class="line c{colour}"{dashes} points="{_points(places)}"/>')
    if series.dots:
        parts += [
            f'<circle class="f{colour}" cx="{x:.1f}" cy="{y:.1f}" r="3">'
            f"<title>{escape(series.name)}: {_number(value)}</title></circle>"
            for (x, y), value in zip(places, series.ys, strict=True)
        ]
    return "".join(parts)


def _points(places: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)


def _legend(series: Sequence[Series], width: int) -> tuple[str, int]:
    """The names below the chart, as many on a line as fit; and the height they take."""
    if not any(one.name for one in series):
        return "", 0
    parts, x, row = [], float(_LEFT), 0
    for number, one in enumerate(series):
        needed = 34 + _LETTER * len(one.name)
        if x > _LEFT and x + needed > width:
            x, row = float(_LEFT), row + 1
        y = 8 + row * _LEGEND_LINE
        dashes = ' stroke-dasharray="5 4"' if one.dashed else ""
        parts.append(
            f'<line class="line c{_colour(number, one)}"{dashes} x1="{x:.0f}" x2="{x + 18:.0f}" '
            f'y1="{y - 4}" y2="{y - 4}"/><text x="{x + 23:.0f}" y="{y}">{escape(one.name)}</text>'
        )
        x += needed
    return "".join(parts), (row + 1) * _LEGEND_LINE


def _colour(number: int, series: Series) -> int:
    return (number if series.colour is None else series.colour) % COLOURS


def _number(value: float) -> str:
    """A number on an axis.

    >>> [_number(v) for v in (0.25, 20.0, 3000.0, 1e-6, 1e7)]
    ['0.25', '20', '3,000', '1e-6', '1e7']
    """
    if value and (abs(value) >= 1e5 or abs(value) < 1e-3):
        mantissa, power = f"{value:.0e}".split("e")
        return f"{mantissa}e{int(power)}"
    return f"{value:,.6g}"
