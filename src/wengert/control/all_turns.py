"""What is known of a number in all turns of the loops around it, as of the bounds of ``x[i : j]``.

A loop that is traced once may go along known indices. Then whatever depends on the index alone is
known for every turn, as an array. A loop inside of it whose length the outer one tells goes along
the first of some indices, and a number that depends on both is known for all pairs of turns.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..graph import Graph, Node, Variable
from ..trace.tracer import lift
from ..transforms.batching import evaluate_batched
from ..types import type_of
from .conversion import local
from .pieces import TracedPiece, captured, closed
from .values import is_abstract

# Pairs of turns of two loops that are looked at: what is known of them is part of the program.
_MOST_PAIRS = 1 << 18


class TwoLoops:
    """A loop and one around it as one that goes along all pairs of their turns.

    `counts` has how many turns the inner one has in each turn of the outer one.
    """

    def __init__(self, inner: TracedPiece, outer: TracedPiece, counts: np.ndarray):
        self.inner, self.outer = inner, outer
        self.rows = np.arange(counts.sum())
        self._starts = np.cumsum(counts) - counts
        first = np.repeat(np.arange(len(counts)), counts)
        second = self.rows - self._starts[first]
        self._known = {
            outer.counter.serial: outer.rows[first],
            inner.counter.serial: inner.rows[second],
        }

    def along(self, counter: Node) -> Any:
        """What the index of one of the loops is in all pairs; None for another index."""
        return self._known.get(counter.serial)

    def turn(self) -> Any:
        """The number of the pair of turns."""
        return lift(np.ascontiguousarray(self._starts))[self.outer.turn()] + self.inner.turn()


Loops = TracedPiece | TwoLoops


def loops_around() -> list[TracedPiece]:
    """The loops over known indices of which a turn is being traced, the innermost first."""
    found, piece = [], local.inside
    while piece is not None:
        if piece.is_turn and piece.rows is not None and piece.attempt:
            found.append(piece)
        piece = piece.outer
    return found


def loops_and_pairs() -> Iterator[Loops]:
    """The loops around, one by one, then two at a time."""
    loops = loops_around()
    yield from loops
    for place, inner in enumerate(loops):
        for outer in loops[place + 1 :]:
            if outer not in inner.pairs:
                inner.pairs[outer] = _pair(inner, outer)
            if inner.pairs[outer] is not None:
                yield inner.pairs[outer]


def _pair(inner: TracedPiece, outer: TracedPiece) -> TwoLoops | None:
    length = len(inner.rows) if inner.length is None else inner.length
    counts = in_all_turns(length, outer)
    if counts is None or counts.ndim != 1 or counts.dtype.kind not in "iu":
        return None
    counts = np.maximum(counts.astype(np.int64), 0)
    return TwoLoops(inner, outer, counts) if counts.sum() <= _MOST_PAIRS else None


def most_turns(length: Any) -> np.ndarray | None:
    """What a loop inside of others goes along, whose length these tell: as far as it ever goes."""
    for loop in loops_and_pairs():
        known = in_all_turns(length, loop)
        if known is not None and known.ndim == 1 and known.dtype.kind in "iu":
            return np.arange(max(int(known.max(initial=0)), 0), dtype=np.int64)
    return None


def in_all_turns(value: Any, loop: Loops) -> np.ndarray | None:
    """A value in every turn of a loop, as rows; None where it depends on more than the turn."""
    turns = len(loop.rows)
    if not is_abstract(value):
        plain = np.asarray(value)
        return np.broadcast_to(plain, (turns, *plain.shape))
    node = value.node
    counters = [n for n in Graph([], [node]).nodes if isinstance(n, Variable)]
    rows = [loop.along(counter) for counter in counters]
    if any(one is None for one in rows):
        return None
    groups = captured([node], counters)
    given = [in_all_turns(held, loop) for held, _ in groups.values()]
    if any(one is None for one in given):
        return None
    types = {key: type_of(held) for key, (held, _) in groups.items()}
    graph = closed([node], counters, list(groups), groups, types)
    flags = [True] * (len(given) + len(rows))
    ((found, flag),) = evaluate_batched(graph, turns, [*given, *rows], flags)
    return (
        np.asarray(found) if flag else np.broadcast_to(np.asarray(found), (turns, *node.type.shape))
    )
