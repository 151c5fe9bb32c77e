"""What is measured: workloads, their contestants, and the peers they may need."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

WENGERT = "wengert"
PEERS = ("torch", "jax", "keras", "autograd")

# Prepares everything and returns the call to be timed.
Builder = Callable[[], Callable[[], Any]]


@dataclass
class Workload:
    """One comparison: a builder for each contestant.

    The name of a contestant starts with the package it needs: "jax", "numpy f". `flops` and
    `bytes` are what the work needs at least. `goals` say how many times as fast as another
    contestant wengert is meant to be, `same` whose result must equal wengert's to `tolerance`.
    """

    group: str
    name: str
    contestants: dict[str, Builder]
    flops: float | None = None
    bytes: float | None = None
    threads: int = 1
    goals: dict[str, float] = field(default_factory=dict)
    same: tuple[str, ...] = ()
    tolerance: float = 1e-6
    # Whether a single run reports the figure itself: what cannot be repeated (a first call), or
    # is not a time at all.
    reports: bool = False
    unit: str = "s"  # or "bytes"
    # What wengert must not exceed, whatever the others need.
    limit: float | None = None
    # The name of a smaller workload of the group, and how many times as much wengert may need.
    smaller: str | None = None
    growth: float | None = None

    @property
    def title(self) -> str:
        """Group and name."""
        return f"{self.group}: {self.name}"


def plain(f: Callable, *args: Any) -> Builder:
    """The contestant that simply calls a function."""
    return lambda: lambda: f(*args)


def package_of(contestant: str) -> str:
    """The package that a contestant needs.

    >>> package_of("numpy f")
    'numpy'
    """
    return contestant.split()[0]


def available(peer: str) -> bool:
    """Whether a peer is installed; nothing is imported."""
    return importlib.util.find_spec(peer) is not None


def load(peer: str) -> Any:
    """Import a peer, set up for a fair comparison: double precision where that is asked for."""
    module = importlib.import_module(peer)
    if peer == "jax":
        module.config.update("jax_enable_x64", True)
    return module


def version_of(peer: str) -> str:
    """The installed version of a package."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(peer)
    except PackageNotFoundError:
        return "not installed"
