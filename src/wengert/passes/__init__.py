"""Graph -> better Graph: named passes in one ordered list."""

from __future__ import annotations

from collections.abc import Callable

from ..graph import Graph
from .convolution import correlate
from .expand import expand
from .simplify import fold_constants, share_common, simplify

PASSES: list[Callable[[Graph], Graph]] = [
    expand,
    fold_constants,
    simplify,
    correlate,
    share_common,
    simplify,
    share_common,
]


def optimise(graph: Graph, watch: Callable[[str, Graph], None] | None = None) -> Graph:
    """Run all passes in order; `watch(name, graph)` sees the graph after each."""
    for function in PASSES:
        graph = function(graph)
        if watch is not None:
            watch(function.__name__, graph)
    return graph


__all__ = ["PASSES", "optimise"]
