"""Where the time of a compiled function goes, by kernel and by line, beside its floor."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from .explain import Explanation

_WIDTH = 58  # of a kernel's name in the table


class KernelTime(NamedTuple):
    """A kernel: its place in the tree, its seconds in one call, and its floor."""

    name: str
    kind: str
    depth: int
    start: float
    seconds: float
    floor: float
    lines: list[str]

    @property
    def of_floor(self) -> float:
        """The share of the time that is the floor; 1 is as fast as can be."""
        return self.floor / self.seconds if self.seconds else 0.0


class LineTime(NamedTuple):
    """A line of the user's, with its seconds in one call, forward and backward."""

    line: str
    forward: float
    backward: float

    @property
    def seconds(self) -> float:
        """Both together."""
        return self.forward + self.backward


class Profile:
    """What `jf.profile(*args)` measured; prints as tables.

    `kernels` has the kernels in order, those inside of loops right behind them, `lines` the lines,
    slowest first. `chrome_trace(path)` writes a file for chrome://tracing or Perfetto, `html(path)`
    the page of `explain`, whose view of the time has a flame graph.

    >>> import numpy as np
    >>> import wengert as wg
    >>> profile = wg.jit(lambda x: np.sum(np.sin(x) * x)).profile(np.ones(1000))
    >>> print(profile)  # doctest: +ELLIPSIS
    <lambda>: ... us, floor ... us, ... %
    ...
    """

    def __init__(self, story: Explanation):
        from ..page.building import timed
        from .picture import compilation

        self._story = story
        made = compilation(story)
        entries, sources, _ = timed(made)
        self.name = made.name
        self.seconds = sum(made.measured.values())
        self.floor = sum(entry.floor for entry in entries if entry.parent is None)
        self.kernels = _kernels(entries, sources)
        lines = [LineTime(_name(o), o["forward"], o["backward"]) for o in sources.lines]
        self.lines = sorted((o for o in lines if o.seconds), key=lambda one: -one.seconds)

    def __str__(self) -> str:
        share = f"{self.floor / self.seconds:.0%}" if self.seconds else "0%"
        head = f"{self.name}: {_us(self.seconds)} us, floor {_us(self.floor)} us, {share[:-1]} %"
        rows = ["        time   share    floor  of time  kernel"]
        for kernel in self.kernels:
            name = "  " * kernel.depth + kernel.name
            rows.append(
                f"{_us(kernel.seconds):>9} us {self._share(kernel.seconds)} {_us(kernel.floor):>8} "
                f"{100 * kernel.of_floor:>6.0f} %  {name[:_WIDTH]:<{_WIDTH}}  "
                f"{_few(kernel.lines)}".rstrip()
            )
        rows += ["", "     forward     backward   share  line"]
        rows += [
            f"{_us(one.forward):>9} us {_us(one.backward):>9} us {self._share(one.seconds)}  "
            f"{one.line}"
            for one in self.lines
        ]
        return "\n".join([head, "", *rows])

    def _share(self, seconds: float) -> str:
        return f"{100 * seconds / self.seconds if self.seconds else 0:>5.1f} %"

    def __repr__(self) -> str:
        return f"<profile of {self.name}: {_us(self.seconds)} us; print it>"

    def _repr_html_(self) -> str:
        from ..displays import table

        heads = ["kernel", "lines", "time, µs", "share", "floor, µs", "of time"]
        rows = [
            [
                "\u2003" * k.depth + k.name,
                ", ".join(k.lines),
                _us(k.seconds),
                self._share(k.seconds),
                _us(k.floor),
                f"{100 * k.of_floor:.0f} %",
            ]
            for k in self.kernels
        ]
        title = f"{self.name}: {_us(self.seconds)} µs, floor {_us(self.floor)} µs"
        return table(title, heads, rows)

    def chrome_trace(self, path: str | os.PathLike[str]) -> str:
        """Write one call as a trace, for chrome://tracing or ui.perfetto.dev; returns the path."""
        events: list[dict[str, Any]] = [
            {"ph": "M", "pid": 1, "tid": 1, "name": "thread_name", "args": {"name": self.name}}
        ]
        whole = {"name": self.name, "cat": "call", "ph": "X", "pid": 1, "tid": 1}
        events.append({**whole, "ts": 0.0, "dur": 1e6 * self.seconds, "args": {}})
        for kernel in self.kernels:
            told = {"floor_us": 1e6 * kernel.floor, "lines": ", ".join(kernel.lines)}
            at = {"ts": 1e6 * kernel.start, "dur": 1e6 * kernel.seconds}
            own = {"name": kernel.name, "cat": kernel.kind, "args": told}
            events.append({**own, **at, "ph": "X", "pid": 1, "tid": 1})
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": events, "displayTimeUnit": "ns"}, file)
        return os.fspath(path)

    def html(self, path: str | os.PathLike[str]) -> str:
        """Write the page of `explain`, open at the time; returns the path."""
        from ..page import write_page

        return write_page({**self._story.page_data(), "view": "time"}, path)


def _kernels(entries: Any, sources: Any) -> list[KernelTime]:
    """Those that were measured or share a measured time, each from when the ones before end."""
    from ..page.kernels import title_of

    found: list[KernelTime] = []
    starts: dict[int, float] = {}
    ends: dict[int | None, float] = {None: 0.0}
    for entry in entries:
        parent = None if entry.parent is None else entry.parent.number
        start = ends.get(parent, starts.get(parent or 0, 0.0))
        seconds = entry.seconds or 0.0
        starts[entry.number], ends[parent] = start, start + seconds
        ends[entry.number] = start
        if not seconds:
            continue
        depth, above = 0, entry.parent
        while above is not None:
            depth, above = depth + 1, above.parent
        groups = [sources.groups[g] for n in entry.nodes if (g := sources.of(n)) >= 0]
        lines = dict.fromkeys(
            _name(sources.lines[g["line"]]) + " (derivative)" * g["derived"] for g in groups
        )
        name, kind = title_of(entry), type(entry.kernel).__name__.lower()
        found.append(KernelTime(name, kind, depth, start, seconds, entry.floor, list(lines)))
    return found


def _few(lines: list[str]) -> str:
    return ", ".join(lines[:3]) + (f" and {len(lines) - 3} more" if len(lines) > 3 else "")


def _name(line: dict[str, Any]) -> str:
    return f"{os.path.basename(line['file'])}:{line['number']}"


def _us(seconds: float) -> str:
    return f"{1e6 * seconds:.2f}"
