"""Runs workloads: builds the contestants, checks that they agree, times them, reports."""

from __future__ import annotations

import importlib
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import tree
from . import machine, report
from .measure import Effort, alternate
from .workload import PEERS, WENGERT, Workload, available, package_of

# One module for each topic; each has `workloads(quick)`.
TOPICS = tuple(
    "evaluated ratio call matmul mlp cnn recurrent circles transformer compile memory "
    "hosted programs".split()
)


@dataclass
class Outcome:
    """The figures of one workload, in its unit, and what went wrong."""

    workload: Workload
    figures: dict[str, float] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    floor: float | None = None
    growth: float | None = None  # how many times as much as the smaller workload

    def ratio(self, contestant: str) -> float | None:
        """How many times as much as wengert a contestant needs."""
        if contestant not in self.figures or not self.figures.get(WENGERT):
            return None
        return self.figures[contestant] / self.figures[WENGERT]

    @property
    def failed(self) -> bool:
        """Whether wengert itself failed."""
        return any(package_of(name) == WENGERT for name in self.failures)

    @property
    def missed(self) -> list[str]:
        """The goals that were not reached, in words."""
        texts = []
        for name, wanted in self.workload.goals.items():
            ratio = self.ratio(name)
            if ratio is not None and ratio < wanted:
                texts.append(f"{ratio:.2f}x {name}, {wanted:g}x wanted")
        own, limit = self.figures.get(WENGERT), self.workload.limit
        if own is not None and limit is not None and own > limit:
            amounts = [report.amount(value, self.workload.unit) for value in (own, limit)]
            texts.append("{}, at most {} wanted".format(*amounts))
        most = self.workload.growth
        if self.growth is not None and most is not None and self.growth > most:
            texts.append(
                f"{self.growth:.2f} times {self.workload.smaller}, at most {most:g} wanted"
            )
        return texts


def main(
    peers: list[str] | None = None,
    only: str | Sequence[str] | None = None,
    json_path: str | None = None,
    quick: bool = False,
) -> int:
    """Run the workloads whose title contains one of `only`; the exit status.

    `only` may be one text with commas. `peers` None means all that are installed. The status
    is 1 when wengert fails on a workload or gives another result than the others, 2 when
    nothing was asked for that exists.
    """
    chosen, notes = _choose_peers(peers)
    if isinstance(only, str):
        only = [part.strip() for part in only.split(",") if part.strip()]
    workloads = list(_matching(TOPICS, only, quick))
    if not workloads:
        print(f"bench: no workload matches {only}. There are: {', '.join(TOPICS)}.")
        return 2
    facts = machine.describe(chosen)
    floor = machine.measure_floor(quick)
    report.print_header(facts, floor, notes)
    outcomes = []
    for group, members in _by_group(workloads):
        results = [run_workload(workload, chosen, floor, quick) for workload in members]
        compare_sizes(results)
        report.print_group(group, results)
        outcomes += results
    if json_path is not None:
        report.write_json(json_path, facts, floor, outcomes)
    report.print_summary(outcomes)
    return 1 if any(outcome.failed for outcome in outcomes) else 0


def _choose_peers(peers: Sequence[str] | None) -> tuple[list[str], list[str]]:
    wanted = PEERS if peers is None else peers
    notes = [f"{peer} is not a peer: {', '.join(PEERS)}" for peer in wanted if peer not in PEERS]
    known = [peer for peer in wanted if peer in PEERS]
    notes += [f"{peer} is not installed: skipped" for peer in known if not available(peer)]
    return [peer for peer in known if available(peer)], notes


def _matching(topics: Iterable[str], only: Sequence[str] | None, quick: bool) -> Iterable[Workload]:
    for topic in topics:
        module = importlib.import_module(f".{topic}", __package__)
        for workload in module.workloads(quick):
            if not only or any(part in workload.title for part in only):
                yield workload


def _by_group(workloads: Sequence[Workload]) -> Iterable[tuple[str, list[Workload]]]:
    groups: dict[str, list[Workload]] = {}
    for workload in workloads:
        groups.setdefault(workload.group, []).append(workload)
    return groups.items()


def run_workload(
    workload: Workload, peers: Sequence[str], floor: machine.Floor, quick: bool = False
) -> Outcome:
    """Build, check and time the contestants of one workload."""
    outcome = Outcome(workload)
    outcome.floor = floor.seconds(workload.flops, workload.bytes, workload.threads)
    calls: dict[str, Callable[[], Any]] = {}
    for name, build in workload.contestants.items():
        package = package_of(name)
        if package in PEERS and package not in peers:
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                call = build()
                result = call()
        except Exception as error:
            # Whatever a contestant raises is its result; hiding it would flatter it.
            outcome.failures[name] = _first_line(error)
            continue
        if workload.reports:
            outcome.figures[name] = float(result)
        else:
            calls[name] = call
    outcome.failures |= _disagreements(workload, calls)
    outcome.figures |= alternate(calls, Effort.choose(quick))
    return outcome


def compare_sizes(outcomes: Sequence[Outcome]) -> None:
    """Set the growth of those that have a smaller workload among them."""
    figures = {one.workload.name: one.figures.get(WENGERT) for one in outcomes}
    for one in outcomes:
        smaller, own = figures.get(one.workload.smaller or ""), one.figures.get(WENGERT)
        if smaller and own:
            one.growth = own / smaller


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:160]}"


def _disagreements(workload: Workload, calls: dict[str, Callable[[], Any]]) -> dict[str, str]:
    """wengert's failure to give the results of the contestants that it must agree with."""
    if WENGERT not in calls:
        return {}
    for name in workload.same:
        if name in calls and not _same(calls[WENGERT](), calls[name](), workload.tolerance):
            return {WENGERT: f"its result differs from that of {name}"}
    return {}


def _same(ours: Any, theirs: Any, tolerance: float) -> bool:
    left, right = tree.leaves(ours), tree.leaves(theirs)
    if len(left) != len(right):
        return False
    for a, b in zip(map(np.asarray, left), map(np.asarray, right), strict=True):
        scale = float(np.max(np.abs(b), initial=0.0))
        if a.shape != b.shape or not np.allclose(a, b, rtol=tolerance, atol=tolerance * scale):
            return False
    return True


def timed_once(call: Callable[[], Any]) -> float:
    """Seconds of one call, for workloads that report them."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
