"""Carries that a step writes to where they lie: tables that are filled place by place.

    table[i, j] = f(table[i - 1, j])     ->     one store, no copy of the table with a change in it

A step makes a new version of what it carries from the one before: by writing to some places of it,
or by a loop or branches inside that do so. All versions can lie in one place if whoever reads a
version comes before what makes the next one of it, and keeps what it has read. So a step gets an
order in which this is so, if there is one. Nothing needs be kept of what is used up before then, or
where each element is read where it is written: ``y[i:j] += x``.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from math import prod
from typing import Any

from ..graph import Graph, Node, Operator
from ..graph.rewrite import copy_of, rewrite, with_nodes
from ..loops import Alias, Pointwise, Scatter
from ..machine import policy
from ..ops.indexing import gather, index, index_set, scatter_add, scatter_set
from ..passes.one_place import same_places
from ..passes.rewriting import users_of
from ..trace.tracer import ITEM
from ..transforms.choice import is_switch
from ..transforms.loop import is_loop
from ..transforms.repetition import is_while
from .loop_sums import find_totals
from .lowering import lowering_of


@dataclass
class Overwriting:
    """A graph, and what of it lies where one of its inputs lies."""

    graph: Graph
    places: dict[int, int] = field(default_factory=dict)  # values by serial: numbers of inputs
    reads: frozenset[int] = frozenset()  # of versions that are overwritten: these get memory


def find_tables(body: Any) -> frozenset[int]:
    """The numbers of the carries that a step can write to where they lie."""
    totals = find_totals(body)
    chosen = {k: body.constants + k for k in range(body.carry) if k not in totals}
    found = overwrite(body.graph, chosen)
    return frozenset(number - body.constants for number in found.places.values())


def find_targets(branches: Any) -> dict[int, int]:
    """The results of branches that are made where an argument lies, with the numbers of these:
    each branch writes to it, or leaves it as it is."""
    graphs = [body.graph for body in branches.bodies]
    found: dict[int, int] = {}
    for number in range(len(branches.types)):
        starts = {_first_version(graph, number) for graph in graphs}
        start = starts.pop()
        if start is not None and not starts and start not in found.values():
            found[number] = start
    for graph in graphs:
        done = set(overwrite(graph, found, unchanged=True).places.values())
        found = {number: start for number, start in found.items() if start in done}
    return found


def _first_version(graph: Graph, number: int) -> int | None:
    """The input that an output is a later version of."""
    version = graph.outputs[number]
    while version is not None and version not in graph.inputs:
        version, _ = _written_to(version)
    return None if version is None else graph.inputs.index(version)


def overwrite(graph: Graph, chosen: Mapping[int, int], unchanged: bool = False) -> Overwriting:
    """The graph in an order in which some of its inputs can be overwritten with its outputs.

    `chosen` are the inputs for which this is tried, by the numbers of the outputs. An output may be
    its input `unchanged` only if so asked.
    """
    if not chosen:
        return Overwriting(graph)
    order = _Order(graph)
    places: dict[int, int] = {}
    reads: dict[int, set[int]] = {}
    for output, number in chosen.items():
        versions = order.versions(graph.inputs[number], graph.outputs[output])
        if versions is None or (len(versions) == 1 and not unchanged):
            continue
        found = order.wait(versions[:-1])
        if found is not None:
            places |= {version.serial: number for version, _ in versions}
            for reader, writer in found:
                reads.setdefault(reader, set()).add(writer)
    if not places:
        return Overwriting(graph)
    kept = [reader for reader, writers in reads.items() if not order.use_up(reader, writers)]
    new = rewrite(order.in_order(), copy_of)
    return Overwriting(
        with_nodes(graph, new),
        {new[serial].serial: number for serial, number in places.items()},
        frozenset(new[serial].serial for serial in kept),
    )


class _Order:
    """The operators of a graph, and which of them wait for which others."""

    def __init__(self, graph: Graph):
        self.graph, self.users = graph, users_of(graph)
        self.operators = {node.serial: node for node in graph.operators}
        self.shown = [node.serial for node in graph.outputs if node is not None]
        self.waits: dict[int, set[int]] = {
            node.serial: {source.serial for source in node.inputs} for node in graph.operators
        }

    def versions(self, start: Node, end: Node | None) -> list[tuple[Node, Any]] | None:
        """From the start to the end, each with the operator that makes the next one of it."""
        found: list[tuple[Node, Any]] = []
        version, writer = end, None
        while version is not None:
            found.append((version, writer))
            if self.shown.count(version.serial) != (writer is None):
                return None
            if version is start:
                return found[::-1]
            version, writer = _written_to(version)
        return None

    def readers(self, version: Node, writer: Operator) -> list[Operator] | None:
        """What reads a version and must come before the next one; None where that cannot be."""
        found: dict[int, Operator] = {}
        pending = list(self.users[version.serial])
        pending.remove(writer)
        while pending:
            user = pending.pop()
            if user is writer:
                return None
            if user.serial in found:
                continue
            found[user.serial] = user
            if user.op.multiple or isinstance(lowering_of(user), Alias):
                if user.serial in self.shown:
                    return None
                pending += self.users.get(user.serial, [])
        return list(found.values())

    def wait(self, versions: Iterable[tuple[Node, Operator]]) -> set[tuple[int, int]] | None:
        """Have what makes new versions wait for those that read the old ones: pairs of serials of
        these and of what waits; None where these would wait for it."""
        before = {serial: set(sources) for serial, sources in self.waits.items()}
        found: set[tuple[int, int]] = set()
        possible = True
        for version, writer in versions:
            readers = self.readers(version, writer)
            possible = possible and readers is not None
            serials = {node.serial for node in readers or ()}
            self.waits[writer.serial] |= serials
            found |= {(serial, writer.serial) for serial in serials}
        if not possible or len(self.in_order()) < len(self.graph.nodes):
            self.waits = before
            return None
        return found

    def use_up(self, reader: int, writers: Set[int]) -> bool:
        """Have all that is made of a part of a version come before what makes the next one, where
        that can be."""
        users = self._made_of(reader, writers)
        if users is None or not users.isdisjoint(self._after(writers)):
            return False
        for writer in writers:
            self.waits[writer] |= users
        return True

    def _made_of(self, reader: int, writers: Set[int]) -> set[int] | None:
        """All that is computed element by element of what was read, and what is made of that, but
        for the writers; None where one of these reads other elements than it writes."""
        part = self.operators[reader]
        if reader in self.shown or not isinstance(lowering_of(part), Pointwise):
            return None
        if part.type.size <= policy().code.most_quick:
            return None  # a few numbers are kept in registers
        pending, found = [(part, True)], {reader: True}  # and whether aligned with it
        while pending:
            node, aligned = pending.pop()
            for user in self.users.get(node.serial, ()):
                if user.serial in writers:
                    if not (aligned and _puts_back(user, node, part)):
                        return None
                    continue
                still = aligned and _is_aligned(user)
                if found.get(user.serial) in (still, False):
                    continue
                found[user.serial] = still
                loops = lowering_of(user)
                if isinstance(loops, Alias):
                    return None
                if isinstance(loops, Pointwise):
                    pending.append((user, still))
        return set(found)

    def _after(self, serials: Set[int]) -> set[int]:
        """All that comes after some operators."""
        after = self._followers()
        pending = [*serials]
        found: set[int] = set()
        while pending:
            new = set(after.get(pending.pop(), ())) - found
            found |= new
            pending += new
        return found

    def _followers(self) -> dict[int, list[int]]:
        after: dict[int, list[int]] = {}
        for serial, sources in self.waits.items():
            for source in sources:
                after.setdefault(source, []).append(serial)
        return after

    def in_order(self) -> list[Node]:
        """The nodes in an order in which nothing waits any more, as they were where possible; those
        that wait for each other are left out."""
        nodes = {node.serial: node for node in self.graph.nodes}
        left = {serial: len(self.waits.get(serial, ())) for serial in nodes}
        after = self._followers()
        ready = [serial for serial, count in left.items() if not count]
        heapq.heapify(ready)
        found = []
        while ready:
            serial = heapq.heappop(ready)
            found.append(nodes[serial])
            for later in after.get(serial, ()):
                left[later] -= 1
                if not left[later]:
                    heapq.heappush(ready, later)
        return found


def _is_aligned(node: Operator) -> bool:
    """Whether each element depends on the same ones of the arguments alone."""
    loops = lowering_of(node)
    if not isinstance(loops, Pointwise) or loops.free or loops.whole:
        return False
    return all(source.type.shape in ((), node.type.shape) for source in node.inputs)


def _puts_back(writer: Operator, value: Node, part: Operator) -> bool:
    """Whether a writer puts a value, as it is, where a part of the same shape was read."""
    if writer.inputs.count(value) != 1 or writer.inputs[1] is not value:
        return False
    keys = writer.params.get("key"), part.params.get("key")
    static = writer.op is index_set and part.op is index and keys[0] == keys[1]
    moving = writer.op in (scatter_set, scatter_add) and part.op is gather
    same = static or (moving and same_places(part, writer))
    own = part.inputs[0] is writer.inputs[0] and value.type.shape == part.type.shape
    return same and own


def _written_to(version: Node) -> tuple[Node | None, Any]:
    """What a version is made of by writing to it, and the operator that does so."""
    if not isinstance(version, Operator):
        return None, None
    if version.op is ITEM:
        return _written_inside(version)
    if write_of(version) is None or version.inputs[0].type.dtype != version.type.dtype:
        return None, None
    return version.inputs[0], version


def write_of(node: Operator) -> Scatter | None:
    """The operation as a write to a part of its first argument, if it can be that."""
    loops = lowering_of(node)
    if isinstance(loops, Scatter):
        return loops
    write = loops.write if isinstance(loops, Pointwise) else None
    if write is None:
        return None
    shape = write.shape(*[source.type for source in node.inputs], **node.params)
    return write if policy().scans.part_of_table * prod(shape) <= node.type.size else None


def _written_inside(item: Operator) -> tuple[Node | None, Any]:
    writer: Any = item.inputs[0]
    number = item.params["index"]
    body = writer.params["body"] if is_loop(writer) else None
    body = writer.params["turn"].body if is_while(writer) else body
    if body is not None and number in body.derived(find_tables):
        return writer.inputs[body.constants + number], writer
    if is_switch(writer):
        target = writer.params["branches"].derived(find_targets).get(number)
        return (None, None) if target is None else (writer.inputs[1 + target], writer)
    return None, None
