"""What a step keeps for its pullback: as few bytes as can be, without computing much again.

The pullback reads some values of its step. A value that is quickly computed from others may be
computed again where these are kept. In a step of small arrays, and in one of which more would be
kept than stays near, all such ways are weighed at once: the fewest bytes that all that is read can
be computed from are a smallest cut of the graph.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Sequence
from math import inf
from typing import Any

from ..functions import Cost
from ..graph import Constant, Node, Operator, reachable
from ..machine import policy
from ..ops.elementwise import divide
from ..ops.python_integers import fits_64_bits

# Elements of the largest array in a step whose values are in registers: what is computed again is
# not read from anywhere.
SMALL = 16
# So many bytes are kept, to be written once and read once, in the time of one addition or product.
# Of those many wait for each other, so that less than what a processor can do at best is counted.
BYTES_OF_TIME = 2
# The same where what is kept comes from far away, and what is computed again stays near.
FAR_BYTES_OF_TIME = 1
# So many times fewer bytes must be kept then.
LEAST_SAVING = 2
# A step of more values than this is not weighed at once, unless it is small: that takes too long.
MOST_WEIGHED = 500

IsKept = Callable[[Node], bool]  # whether a value is at hand only if it is kept
Weigh = Callable[[Node], float]  # the bytes of a value that is kept, in each step
Time = Callable[[Node], float]  # what it takes to compute a value again, in such bytes


def kept_values(
    inputs: list[Node],
    carry: slice,
    outputs: list[Node],
    unknown: list[Node],
    recompute: bool,
    passing: Sequence[bool],
    steps: int,
    known: set[int],
) -> list[Node]:
    """The values of a step that its pullback reads.

    That has these outputs, and depends on what is `unknown` in the step. With `recompute` they are
    among the carries, of which `carry` says where they are among the inputs of the step. Of the
    other inputs those that are `passing` are at hand only if they are kept around the loop: for
    each step, or once for all `steps`. What is `known`, by serial, is at hand.
    """
    carries = {node.serial: node for node in inputs[carry]}
    nodes = reachable(outputs)
    if recompute:
        return [node for node in nodes if node.serial in carries and node.serial not in known]
    backward = {node.serial for node in unknown}
    flags = zip(inputs, passing, strict=True)
    outside = {node.serial: node for node, flag in flags if flag and node.serial not in carries}
    varies = {node.serial for node in inputs[carry.start :]} | {*outside}  # from step to step
    for node in nodes:
        if any(source.serial in backward for source in node.inputs):
            backward.add(node.serial)
        elif any(source.serial in varies for source in node.inputs):
            varies.add(node.serial)
    rows = {node.serial for node in inputs[carry.stop :]} - {*outside} | known
    once = {node.serial for node in inputs[: carry.start]}

    free = _free(nodes, rows, varies, backward)

    def is_kept(node: Node) -> bool:
        return node.serial in varies and node.serial not in free

    def weigh(node: Node) -> float:
        return _nbytes(node) / steps if node.serial in once else _nbytes(node)

    frontier = {
        source.serial: source
        for node in nodes
        if node.serial in backward
        for source in node.inputs
        if source.serial not in backward and is_kept(source)
    }
    time = _time(BYTES_OF_TIME, _is_quick)
    region = _region(frontier, is_kept, time)
    if all(is_small(node) for node in region.values()):
        found = _smallest_cut(frontier, region, is_kept, weigh, time)
    else:
        found = _cheapest(dict(frontier), is_kept, weigh)
        if steps * sum(map(weigh, found)) > policy().scans.most_kept_near:
            found = _fewest(found, frontier, is_kept, weigh)
    return [node for node in found if node.serial not in outside]


def _free(nodes: list[Node], rows: set[int], varies: set[int], backward: set[int]) -> set[int]:
    """What is at hand, and the numbers and conditions that are quickly computed of it."""
    found = set(rows)
    for node in nodes:
        if (
            (_is_quick(node) or (isinstance(node, Operator) and node.op is fits_64_bits))
            and node.type.dtype.kind in "iub"
            and node.serial in varies
            and node.serial not in backward
            and all(s.serial in found or s.serial not in varies for s in node.inputs)
        ):
            found.add(node.serial)
    return found


def is_small(node: Node) -> bool:
    """Whether a value can be in registers."""
    return bool(node.type.size <= SMALL)


def _is_quick(node: Node) -> bool:
    return isinstance(node, Operator) and node.op.cost is Cost.QUICK


def _is_product(node: Node) -> bool:
    """Whether a value is a division by what is known, which will be a product."""
    divides = isinstance(node, Operator) and node.op is divide
    return divides and isinstance(node.inputs[1], Constant)


def _time(unit: float, is_quick: Callable[[Node], bool]) -> Time:
    """What it takes to compute values again, in bytes that are kept, of which one addition takes a
    `unit`: nothing to put an array together of others, and too much for what is not quick."""

    def time(node: Node) -> float:
        if isinstance(node, Operator) and getattr(node.op.loops, "free", False):
            return 0
        return float(node.type.size * unit) if is_quick(node) else inf

    return time


def _fewest(
    found: list[Node], frontier: dict[int, Node], is_kept: IsKept, weigh: Weigh
) -> list[Node]:
    """The values to keep that come from far away: others than those found, where they are many
    times fewer bytes."""
    time = _time(FAR_BYTES_OF_TIME, lambda node: _is_quick(node) or _is_product(node))
    region = _region(frontier, is_kept, time)
    if len(region) > MOST_WEIGHED:
        return found
    fewest = _smallest_cut(frontier, region, is_kept, weigh, time)
    return fewest if LEAST_SAVING * sum(map(weigh, fewest)) <= sum(map(weigh, found)) else found


def _nbytes(node: Node) -> int:
    return int(node.type.size * node.type.dtype.itemsize)


def _cheapest(kept: dict[int, Node], is_kept: IsKept, weigh: Weigh) -> list[Node]:
    """Replace values by those they are quickly computed from, where that keeps no more bytes."""
    pending = [-serial for serial in kept]
    heapq.heapify(pending)
    while pending:
        node = kept.get(-heapq.heappop(pending))
        if node is None or not _is_quick(node):
            continue
        more = {s.serial: s for s in node.inputs if is_kept(s) and s.serial not in kept}
        if sum(map(weigh, more.values())) <= weigh(node):
            del kept[node.serial]
            kept.update(more)
            for serial in more:
                heapq.heappush(pending, -serial)
    return [kept[serial] for serial in sorted(kept)]


# ---------------------------------------------------------------- a smallest cut


def _region(frontier: dict[int, Node], is_kept: IsKept, time: Time) -> dict[int, Node]:
    """The values that the frontier may be computed from, and itself."""
    found, pending = dict(frontier), list(frontier.values())
    while pending:
        node = pending.pop()
        if time(node) < inf:
            new = [s for s in node.inputs if is_kept(s) and s.serial not in found]
            found.update({source.serial: source for source in new})
            pending += new
    return found


def _smallest_cut(
    frontier: dict[int, Node],
    region: dict[int, Node],
    is_kept: IsKept,
    weigh: Weigh,
    time: Time,
) -> list[Node]:
    """The values with the fewest bytes through which all ways to the frontier lead, with the time
    that is computed again for them; of equal ones those that are nearest to it.

    Bytes flow to the frontier, into each value what it takes to compute it again and through it at
    most its own. Where no more can, the values that are full are the cut.
    """
    room: dict[Any, dict[Any, float]] = {place: {} for place in (_FIRST, _LAST)}
    for serial, node in region.items():
        room[serial, 0], room[serial, 1] = {(serial, 1): weigh(node)}, {}
    for serial, node in region.items():
        room[_FIRST][serial, 0] = time(node)
        for source in node.inputs if time(node) < inf else ():
            if is_kept(source):
                room[source.serial, 1][serial, 0] = inf
    for serial in frontier:
        room[serial, 1][_LAST] = inf
    while _FIRST in (steps := _steps(room)):
        _send(room, steps)
    return [
        region[serial]
        for serial in sorted(region)
        if (serial, 1) in steps and (serial, 0) not in steps
    ]


_FIRST, _LAST = "first", "last"


def _steps(room: dict[Any, dict[Any, float]]) -> dict[Any, int]:
    """The places from which more can flow to the last one, with the number of steps to it."""
    before: dict[Any, list[Any]] = {place: [] for place in room}
    for place, ways in room.items():
        for after, left in ways.items():
            if left > 0:
                before[after].append(place)
    steps: dict[Any, int] = {_LAST: 0}
    pending = deque([_LAST])
    while pending:
        after = pending.popleft()
        for place in before[after]:
            if place not in steps:
                steps[place] = steps[after] + 1
                pending.append(place)
    return steps


def _send(room: dict[Any, dict[Any, float]], steps: dict[Any, int]) -> None:
    """Let flow from the first place what can along ways of so many steps.

    Which of these are full is remembered, so that each step is looked at about once.
    """
    ahead = {
        place: [one for one in room[place] if steps.get(one) == steps[place] - 1] for place in steps
    }
    way = [_FIRST]
    while way:
        place = way[-1]
        if place == _LAST:
            way = way[: _filled(room, way)]
            continue
        while ahead[place] and room[place][ahead[place][-1]] <= 0:
            ahead[place].pop()
        if ahead[place]:
            way.append(ahead[place][-1])
            continue
        way.pop()
        if way:
            ahead[way[-1]].pop()


def _filled(room: dict[Any, dict[Any, float]], way: list[Any]) -> int:
    """Let as much flow as can along a way; the number of places up to the first step then full."""
    pairs = list(itertools.pairwise(way))
    most = min(room[one][other] for one, other in pairs)
    for one, other in pairs:
        room[one][other] -= most
        room[other][one] = room[other].get(one, 0) + most
    return 1 + next(k for k, (one, other) in enumerate(pairs) if room[one][other] <= 0)
