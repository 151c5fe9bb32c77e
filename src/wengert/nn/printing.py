"""The printed form of a module: a line for each submodule, with shapes and parameter counts."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ..displays import table
from ..types import type_of

_GAP = "    "


def describe(root: Any) -> str:
    """The module and what is in it, in three columns: names, shapes, counts.

    >>> from wengert import nn
    >>> print(describe(nn.Sequential(nn.Linear(784, 10), nn.ReLU())))
    Sequential                                                            7,850 parameters
      0: Linear(784, 10)    weight f32[10,784], bias f32[10]    7,850
      1: ReLU()
    """
    rows = _rows(root)
    total = f"{sum(_size(value) for value in root.parameters()):,}"
    rows = [(label, shapes, count.rjust(len(total))) for label, shapes, count in rows]
    rows[0] = (*rows[0][:2], f"{total} parameter{'' if total == '1' else 's'}")
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    lines = []
    for label, shapes, count in rows:
        cells = [cell.ljust(width) for cell, width in zip((label, shapes), widths, strict=True)]
        used = [cell for cell, width in zip(cells, widths, strict=True) if width]
        lines.append(_GAP.join([*used, count]).rstrip())
    return "\n".join(lines)


def describe_as_html(root: Any) -> str:
    """The same for a notebook."""
    total = sum(_size(value) for value in root.parameters())
    rows = [(label.replace("  ", "\u2003"), *rest) for label, *rest in _rows(root)]
    title = f"{type(root).__name__}: {total:,} parameter{'' if total == 1 else 's'}"
    return table(title, ["module", "shapes", "parameters"], rows)


def _rows(root: Any) -> list[tuple[str, str, str]]:
    """Label, shapes and count of each module, the root first."""
    rows = []
    for path, module in root._places(""):
        own = list(module._own("parameter"))
        shapes = [f"{name} {_shown(value)}" for name, value in own]
        count = sum(_size(value) for _, value in own)
        rows.append((_label(path, module), ", ".join(shapes), _count(count)))
    return rows


def _label(path: str, module: Any) -> str:
    """The name and the arguments, indented; of what has modules inside the name says enough."""
    arguments = module.extra_repr()
    title = type(module).__name__
    if arguments or next(module.children(), None) is None:
        title += f"({arguments})"
    if not path:
        return title
    *above, name = path.split(".")
    return "  " * (len(above) + 1) + f"{name}: {title}"


def _count(number: int) -> str:
    return f"{number:,}" if number else ""


def _shown(value: Any) -> str:
    """The type of an array; modules may hold other things after a `tree.map`."""
    return str(type_of(value)) if hasattr(value, "dtype") else repr(value)


def _size(value: Any) -> int:
    return prod(np.shape(value)) if hasattr(value, "shape") else 0
