"""Which operators run together along an axis, and the graph with regions in their place.

A `Cut` takes together all operators that keep an axis, and the sums over it at their end. What
needs such a sum comes after it, in the next region. What differs between the ways to cut a graph, a
`Way` decides: how wide a block is, what may be in a region and is worth being there, and what one
operator makes of it. The ways are those of `regions`, for what is best in the near cache,
`dynamic_length`, for lengths that are known only at run time, and `chunks`, for what takes much
memory.
"""

from __future__ import annotations

import functools
import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..functions import Cost
from ..graph import Graph, Node, Operator, Variable
from ..graph.rewrite import copy_of, with_nodes
from ..loops import Alias, Pointwise, Scatter
from ..machine import policy
from ..ops.elementwise import add
from ..ops.indexing import index
from ..passes.constants import is_uniform
from ..passes.rewriting import apply, users_of
from ..trace.tracer import ITEM
from ..types import ArrayType
from .axes import AxisClasses, Relation
from .building import (
    LANES,
    BlockBuilder,
    BlockLayout,
    RegionOp,
    flops_of,
    has_loops,
    in_parts,
    sum_of,
)
from .lowering import lowering_of
from .restrict import Part, blocked


class Together(NamedTuple):
    """One operator in place of the members of a region."""

    operation: Any
    sources: Sequence[Node]  # what it reads, as it is called in the graph that is cut
    results: Sequence[Operator]
    types: tuple[ArrayType, ...]  # of the results; with an axis in front: the parts of a sum


class Way:
    """What differs between the ways to cut a graph; a `Cut` asks it, and tells it what it knows."""

    layout: BlockLayout = LANES  # of a block
    # Whether samples may be added to zeros where indices say, each with its own elements.
    scatters = False
    # Whether every region computes the cheap values of earlier ones again; and whether it may begin
    # with those that are not cheap, because they are kept for others anyway.
    repeats = begins_with_kept = False
    # Operators with several results, by serial, of which all come from one place.
    items: Mapping[int, Sequence[Operator]] = {}

    def width(self, cut: Cut) -> int:
        """Samples in a block."""
        raise NotImplementedError

    def applies(self, cut: Cut) -> bool:
        """Whether there is anything to cut."""
        return True

    def classify(self, cut: Cut, node: Operator) -> None:
        """Find out whether an operator keeps the axis, or sums over it, or does neither."""
        cut.classify(node)

    def objection(self, cut: Cut, node: Operator, places: dict[int, int]) -> str | None:
        """Why an operator cannot run for a part of its samples; None: it can."""
        return cut.objection(node, places)

    def declines(self, cut: Cut, phase: int, nodes: Sequence[Operator]) -> str | None:
        """Why these operators had better not be a region; None: they had."""
        raise NotImplementedError

    def together(
        self, cut: Cut, members: Sequence[Operator], results: Sequence[Operator]
    ) -> Together:
        """One operator that computes the results."""
        builder = self.builder(cut, members, results)
        region = builder.build()
        types = tuple(
            _parts_type(node.type, region.groups) if in_parts(region, number) else node.type
            for number, node in enumerate(results)
        )
        return Together(RegionOp(region), builder.sources, results, types)

    def builder(
        self, cut: Cut, members: Sequence[Operator], results: Sequence[Operator]
    ) -> BlockBuilder:
        """What makes a region of its members."""
        inner = self.inner_axes(cut, members)
        return BlockBuilder(members, results, cut.axes, cut.length, cut.width, self.layout, inner)

    def inner_axes(self, cut: Cut, nodes: Sequence[Operator]) -> dict[int, tuple[int, ...]]:
        """The axes of values that lie innermost, by serial, where these are channels."""
        return {}


def axes_along(graph: Graph, classes: AxisClasses, kind: tuple[int, int]) -> dict[int, int]:
    """The axis of each value that is of one class, by serial."""
    found = {node.serial: classes.axis_in(node, kind) for node in graph.nodes}
    return {serial: axis for serial, axis in found.items() if axis is not None}


def lengths_of(graph: Graph, axes: Mapping[int, int]) -> set[int]:
    """How long these axes are."""
    own = [node for node in graph.nodes if node.serial in axes]
    return {node.type.shape[axes[node.serial]] for node in own}


def common_length(graph: Graph, axes: Mapping[int, int]) -> int:
    """How many samples there are; 0 where the axes do not agree."""
    lengths = lengths_of(graph, axes)
    return lengths.pop() if len(lengths) == 1 else 0


class Cut:
    """A graph that is cut along one axis: what is in which region, and the graph of these."""

    def __init__(
        self,
        graph: Graph,
        axes: dict[int, int],  # of samples, by the serial of a value
        length: int,
        relations: Mapping[int, Relation],
        way: Way,
    ):
        self.graph, self.axes, self.length = graph, axes, length
        self.relations, self.way = relations, way
        self.width = way.width(self)
        self.inside: set[int] = set()  # keep the axis
        self.sums: set[int] = set()  # sum over it
        self.objections: dict[int, str] = {}  # why the others do neither
        if way.applies(self):
            for node in graph.operators:
                way.classify(self, node)
        self.separable = frozenset(self.inside)
        self.phases = self._phases()
        self._operators = {node.serial: node for node in graph.operators}
        self._reads: dict[int, set[int]] | None = None  # of each phase
        self._readers: Counter[int] = Counter()  # in how many phases a value is read, by serial
        self.members = self._by_phase()
        if way.repeats:
            self._repeat_cheap()
        self._drop_declined()

    @property
    def part(self) -> Part:
        """A block of the samples."""
        return Part(self.width, self.length)

    @functools.cached_property
    def products(self) -> list[Operator]:
        """The products of samples."""
        products = filter(flops_of, self.graph.operators)
        return [node for node in products if node.serial in self.axes]

    def told_names(self) -> str:
        """The axis, by the names of arguments that have it."""
        names = [
            f"axis {self.axes[node.serial]} of {node.name}"
            for node in self.graph.inputs
            if node.serial in self.axes and node.name
        ]
        return ", ".join(names[:4]) + f" (length {self.length})" if names else f"{self.length}"

    # ------------------------------------------------------------ what belongs together

    def classify(self, node: Operator) -> None:
        """Find out what an operator does with the axis, from what it reads and writes."""
        places = {
            number: self.axes[source.serial]
            for number, source in enumerate(node.inputs)
            if source.serial in self.axes
        }
        if not places and node.serial not in self.axes:
            return
        objection = self.way.objection(self, node, places)
        if objection is not None:
            self.objections[node.serial] = objection
        else:
            self.take(node)

    def take(self, node: Operator) -> None:
        """Have an operator run for a part of the samples."""
        (self.inside if node.serial in self.axes else self.sums).add(node.serial)

    def objection(self, node: Operator, places: dict[int, int]) -> str | None:
        """Why an operator cannot run for a part of its samples; None: it can."""
        relation = self.relations[node.serial]
        if lowering_of(node) is None:
            return "NumPy evaluates it"
        if node.serial not in self.axes:
            joins = relation.adds_up(places) and self._can_sum(node, places)
            return None if joins else "mixes samples"
        if not has_loops(node):
            return "cannot be computed for a part of the samples"
        if not relation.separates(self.axes[node.serial], places):
            return "mixes samples"
        return None if blocked(node, self.axes, self.part) is not None else "needs all samples"

    def _can_sum(self, node: Operator, places: dict[int, int]) -> bool:
        scattered = self.way.scatters and adds_to_zeros(node, places)
        return scattered or sum_of(node) is not None

    def _phases(self) -> dict[int, int]:
        """For each operator the region it is in, or the number of regions that come before it.

        As late as possible: what only a later region needs is computed there, and need not be
        kept from one to the other.
        """
        earliest = self._earliest()
        last = max(
            (earliest[n.serial] for n in self.graph.operators if self.is_member(n)), default=0
        )
        users = users_of(self.graph)
        phases: dict[int, int] = {}
        for node in reversed(self.graph.operators):
            own = self.is_member(node)
            phases[node.serial] = min(
                (
                    phases[user.serial]
                    - (own and not (self.is_member(user) and node.serial in self.inside))
                    for user in users.get(node.serial, [])
                ),
                default=last if own else last + 1,
            )
        for serial, items in self.way.items.items():
            phases.update({item.serial: phases[serial] for item in items})
        return phases

    def _earliest(self) -> dict[int, int]:
        """The same as early as possible."""
        phases: dict[int, int] = {}
        for node in self.graph.operators:
            own = self.is_member(node)
            phases[node.serial] = max(
                (
                    phases[source.serial]
                    + (self.is_member(source) and not (own and source.serial in self.inside))
                    for source in node.inputs
                    if isinstance(source, Operator)
                ),
                default=0,
            )
        return phases

    def is_member(self, node: Node) -> bool:
        """Whether a node runs for a part of the samples."""
        return node.serial in self.inside or node.serial in self.sums

    def _by_phase(self) -> dict[int, list[Operator]]:
        members: dict[int, list[Operator]] = {}
        for node in self.graph.operators:
            if self.is_member(node):
                members.setdefault(self.phases[node.serial], []).append(node)
        return members

    def _drop_declined(self) -> None:
        """Only what is worth it is a region; the operators of all others are ordinary ones."""
        kept = {}
        for phase, nodes in self.members.items():
            declined = self.way.declines(self, phase, nodes)
            if declined is None:
                kept[phase] = nodes
            else:
                self.objections |= {node.serial: declined for node in nodes}
        for node in self.graph.operators:
            if self.is_member(node) and self.phases[node.serial] not in kept:
                self.inside.discard(node.serial)
                self.sums.discard(node.serial)
        self.members, self._reads = kept, None

    # ------------------------------------------------------------ values that are computed again

    def _repeat_cheap(self) -> None:
        """Let every region compute the cheap values of earlier ones again."""
        costs: dict[int, int] = {}
        for node in self.graph.operators:
            cost = self._repeated_cost(node, costs)
            if cost is not None:
                costs[node.serial] = cost
        for phase, nodes in self.members.items():
            found = {node.serial: node for node in nodes}
            pending: list[Node] = list(nodes)
            while pending:
                for source in pending.pop().inputs:
                    if source.serial in costs and source.serial not in found:
                        assert isinstance(source, Operator)
                        found[source.serial] = source
                        pending.append(source)
            self.members[phase] = sorted(found.values(), key=lambda node: node.serial)

    def _repeated_cost(self, node: Operator, costs: dict[int, int]) -> int | None:
        """How many operations it takes to compute a value from those that are kept."""
        loops = lowering_of(node)
        if node.serial not in self.inside or not isinstance(loops, (Pointwise, Alias)):
            return None
        if node.op.cost is Cost.LONG or getattr(loops, "check", None) or flops_of(node):
            return None
        total = 0 if getattr(loops, "free", True) else 1
        for source in node.inputs:
            own = source.serial in self.inside and source.serial not in costs
            if own and not (self.way.begins_with_kept and _is_kept(source)):
                return None
            total += costs.get(source.serial, 0)
        return total if total <= policy().regions.most_repeated else None

    # ------------------------------------------------------------ the new graph

    def rewritten(self) -> Graph:
        """The graph with one operator for each region, in an order that can be computed."""
        new: dict[int, Node] = {
            node.serial: node for node in self.graph.nodes if not isinstance(node, Operator)
        }
        outside: dict[int, list[Operator]] = {}
        for node in self.graph.operators:
            if not self.is_member(node):
                outside.setdefault(self.phases[node.serial], []).append(node)
        for phase in range(max(self.phases.values(), default=0) + 1):
            for node in outside.get(phase, []):
                new[node.serial] = copy_of(node, new)
            if phase in self.members:
                self._add_region(phase, new)
        return with_nodes(self.graph, new)

    def wanted_from(self, phase: int) -> set[int]:
        """The values that something outside of a region needs."""
        if self._reads is None:
            self._reads = {
                other: _reads_of(self._with_cheap_sources(nodes))
                for other, nodes in self.members.items()
            }
            rest = [node for node in self.graph.operators if not self.is_member(node)]
            shown = {node.serial for node in self.graph.outputs if node is not None}
            self._readers = Counter(shown | _reads_of(rest))
            for reads in self._reads.values():
                self._readers.update(reads)
        own = self._reads.get(phase, set())
        return {serial for serial, count in self._readers.items() if count > (serial in own)}

    def results_of(self, phase: int) -> tuple[list[Operator], list[Operator]]:
        """What others need of a region, and the operators that compute it."""
        wanted = self.wanted_from(phase)
        members = self.members[phase]
        results = [
            node for node in members if node.serial in wanted and self.phases[node.serial] == phase
        ]
        return results, _needed(self._with_cheap_sources(members), results)

    def _add_region(self, phase: int, new: dict[int, Node]) -> None:
        results, members = self.results_of(phase)
        if not results:
            return
        made = self.way.together(self, members, results)
        inputs = tuple(new.get(source.serial, source) for source in made.sources)
        operator = Operator(made.operation, inputs, {}, None, made.types)
        for number, (node, kind) in enumerate(zip(made.results, made.types, strict=True)):
            item = Operator(ITEM, (operator,), {"index": number}, None, kind)
            item.source = node.source
            parted = kind.ndim > node.type.ndim
            new[node.serial] = _sum_of_parts(item, kind.shape[0], node) if parted else item

    def _with_cheap_sources(self, members: Sequence[Operator]) -> list[Operator]:
        """The members and what they read that is computed again as fast as it is read.

        So nothing of the length of the axis has to be kept for them:

            ok = y >= 0; n = sum(ok)  |  sum(where(ok, loss(x), 0)) / n   ->   ok twice
        """
        candidates = self.separable - {node.serial for node in members}
        read = {source.serial for node in members for source in node.inputs}
        again = []
        pending = [-serial for serial in read & candidates]  # what is read comes before its readers
        heapq.heapify(pending)
        while pending:
            node = self._operators[-heapq.heappop(pending)]
            if not _is_cheap(node):
                continue
            new = [s for s in node.inputs if s.serial in self.axes and s.serial not in read]
            if not new or (len(new) == 1 and _takes_the_place(new[0], node)):
                again.append(node)
                read |= {source.serial for source in new}
                for source in new:
                    if source.serial in candidates:
                        heapq.heappush(pending, -source.serial)
        return sorted([*again, *members], key=lambda node: node.serial)  # inputs first


def _reads_of(nodes: Sequence[Operator]) -> set[int]:
    """What operators read of others, by serial."""
    own = {node.serial for node in nodes}
    return {source.serial for node in nodes for source in node.inputs if source.serial not in own}


def adds_to_zeros(node: Operator, places: dict[int, int]) -> bool:
    """Whether samples are added to zeros where indices say, each sample with its own elements."""
    scatters = isinstance(lowering_of(node), Scatter)
    return scatters and 1 in places and is_uniform(node.inputs[0], 0)


def _is_kept(node: Node) -> bool:
    """Whether a value is none that is cheap to compute again."""
    assert isinstance(node, Operator)
    return not isinstance(lowering_of(node), (Pointwise, Alias))


def _needed(members: Sequence[Operator], results: Sequence[Operator]) -> list[Operator]:
    """The members that the results depend on, in order."""
    wanted = {node.serial for node in results}
    found = []
    for node in reversed(members):
        if node.serial in wanted:
            found.append(node)
            wanted |= {source.serial for source in node.inputs}
    return found[::-1]


def _parts_type(array_type: ArrayType, groups: int) -> ArrayType:
    return ArrayType(array_type.dtype, (groups, *array_type.shape))


def _sum_of_parts(parts: Node, groups: int, like: Operator) -> Node:
    """Written out, so that it is part of what is done with the sum: a parameter is updated, say."""
    whole = tuple((0, length, 1) for length in like.type.shape)
    terms: list[Node] = [
        apply(index, parts, params={"key": (group, *whole)}, like=like) for group in range(groups)
    ]
    return functools.reduce(lambda a, b: apply(add, a, b, params={}, like=like), terms)


def _is_cheap(node: Operator) -> bool:
    return isinstance(node.op.loops, Pointwise) and node.op.cost is not Cost.LONG


def _takes_the_place(source: Node, node: Operator) -> bool:
    """Whether an argument, which lies in memory anyway, may be read instead of the node."""
    return isinstance(source, Variable) and source.type.size <= node.type.size
