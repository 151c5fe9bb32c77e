"""The page itself: data and the programs that draw it, in one file that needs nothing else."""

from __future__ import annotations

import base64
import gzip
import html
import json
import os
from importlib import resources
from typing import Any

import numpy as np

_SCRIPTS = ("cytoscape.min.js", "dagre.min.js", "page.js", "graph.js", "views.js", "run.js")


def write_page(data: dict[str, Any], path: str | os.PathLike[str]) -> str:
    """Write the page; returns the path."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(page_text(data))
    return os.fspath(path)


def page_text(data: dict[str, Any]) -> str:
    """The page."""
    text = json.dumps(data, separators=(",", ":"), default=_plain)
    packed = base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode()
    page = _asset("page.html")
    parts = {
        "{{name}}": html.escape(data["name"]),
        "{{style}}": _asset("page.css"),
        "{{licences}}": _asset("LICENSES.txt").replace("--", "- -"),
        "{{data}}": packed,
        "{{scripts}}": "\n".join(f"<script>{_asset(name)}</script>" for name in _SCRIPTS),
    }
    for mark, part in parts.items():
        page = page.replace(mark, part)
    return page


def _asset(name: str) -> str:
    return resources.files(__package__).joinpath("assets", name).read_text(encoding="utf-8")


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"write_page: {type(value).__name__} has no place in JSON")
