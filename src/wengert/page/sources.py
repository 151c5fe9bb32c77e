"""The user's lines: their text, and what in a program comes from each of them."""

from __future__ import annotations

import ast
import linecache
import os
from collections.abc import Iterable, Sequence
from typing import Any

from ..graph import Graph, Node, Operator
from ..lines import Line, is_derived

_AROUND = 1  # lines that are shown before and after those outside of all functions


def source_of(node: Node) -> str | None:
    """The line of a node; of one that the compiler has added, that of what it is computed from."""
    seen: set[int] = set()
    pending = [node]
    while pending:
        one = pending.pop(0)
        if one.source:
            return one.source
        fresh = [source for source in one.inputs if source.serial not in seen]
        seen.update(source.serial for source in fresh)
        if isinstance(one, Operator) and len(seen) < 64:
            pending += fresh
    return None


def graphs_in(node: Node) -> list[Graph]:
    """The programs that a node has inside."""
    if not isinstance(node, Operator):
        return []
    inside = [one for v in node.params.values() for one in (v, *getattr(v, "programs", ()))]
    return [g for one in inside if isinstance(g := getattr(one, "graph", None), Graph)]


class Sources:
    """Lines and groups by number. A group is what one line of one module computes, or what is
    derived of it."""

    def __init__(self, graphs: Iterable[Graph] = ()) -> None:
        self.lines: list[dict[str, Any]] = []
        self.groups: list[dict[str, Any]] = []
        self._line_of: dict[tuple[str, int], int] = {}
        self._group_of: dict[tuple[int, tuple[str, ...], bool], int] = {}
        self._of: dict[int, int] = {}  # the group of each node
        self._around: dict[int, str] = {}  # the line of what nodes of inner programs are inside of
        for graph in graphs:
            self._look_inside(graph)

    def _look_inside(self, graph: Graph) -> None:
        pending = [(graph, "")]
        while pending:
            one, outside = pending.pop()
            for node in one.operators:
                if outside:
                    self._around[node.serial] = outside
                pending += [(g, source_of(node) or outside) for g in graphs_in(node)]

    def of(self, node: Node) -> int:
        """The number of the group that a node is in; -1: of none."""
        if node.serial not in self._of:
            source = source_of(node) or self._around.get(node.serial)
            self._of[node.serial] = self.group(source)
        return self._of[node.serial]

    def group(self, source: str | None) -> int:
        """The number of the group that a node with this source is in; -1: of none."""
        if not source or ":" not in source:
            return -1
        name, _, number = source.rpartition(":")
        file = getattr(source, "file", "") or name
        line = self._line(file, int(number))
        layers = source.modules() if isinstance(source, Line) else []
        key = line, tuple(layers), is_derived(source)
        if key not in self._group_of:
            self._group_of[key] = len(self.groups)
            self.groups.append({"line": line, "layers": layers, "derived": key[2]})
        return self._group_of[key]

    def _line(self, file: str, number: int) -> int:
        key = file, number
        if key not in self._line_of:
            self._line_of[key] = len(self.lines)
            self.lines.append({"file": file, "number": number, "forward": 0.0, "backward": 0.0})
        return self._line_of[key]

    def count(self, group: int, seconds: float) -> None:
        """Add time to the line of a group."""
        found = self.groups[group]
        self.lines[found["line"]]["backward" if found["derived"] else "forward"] += seconds

    def files(self) -> list[dict[str, Any]]:
        """The text of all functions that have lines here."""
        found: dict[str, list[int]] = {}
        for line in self.lines:
            found.setdefault(line["file"], []).append(line["number"])
        return [
            {
                "path": file,
                "name": os.path.basename(file),
                "text": _shown(linecache.getlines(file), numbers),
            }
            for file, numbers in found.items()
        ]


def _shown(text: Sequence[str], numbers: Sequence[int]) -> list[tuple[int, str]]:
    """The lines of all functions around the numbers, each with its own."""
    wanted: set[int] = set()
    spans = _functions("".join(text))
    for number in numbers:
        around = [span for span in spans if span[0] <= number <= span[1]]
        first, last = min(around, default=(number - _AROUND, number + _AROUND), key=_length)
        wanted.update(range(max(first, 1), min(last, len(text)) + 1), [number])
    lines = [(n, text[n - 1].rstrip("\n") if n <= len(text) else "") for n in sorted(wanted)]
    return lines


def _functions(text: str) -> list[tuple[int, int]]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return []
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [
        (min([node.lineno, *[one.lineno for one in node.decorator_list]]), node.end_lineno or 0)
        for node in ast.walk(tree)
        if isinstance(node, functions)
    ]


def _length(span: tuple[int, int]) -> int:
    return span[1] - span[0]
