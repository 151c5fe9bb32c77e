"""Which operators run together along an axis, and the graph with regions in their place.

`Cutter` takes together all operators that keep an axis, and the sums over it at their end. What
needs such a sum comes after it, in the next region. What is best in a region, and whether it is
worth it, `regions` decides; for lengths that are known only at run time `dynamic_length` does.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

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
from .axes import AxisClasses
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


class Cutter:
    """Cuts a graph along one class of axes."""

    layout: BlockLayout = LANES  # of a block

    def __init__(self, graph: Graph, classes: AxisClasses, kind: tuple[int, int]):
        self.graph, self.classes, self.relations = graph, classes, classes.relations
        self.axes: dict[int, int] = {}
        for node in graph.nodes:
            axis = classes.axis_in(node, kind)
            if axis is not None:
                self.axes[node.serial] = axis
        self.length = self._length(
            {node.type.shape[self.axes[node.serial]] for node in self._with_axis()}
        )
        self.width = self._choose_width()
        self._classify_all()
        self._drop_small()

    def _length(self, lengths: set[int]) -> int:
        """How many samples there are, by the lengths of the axes; 0 where these do not agree."""
        return lengths.pop() if len(lengths) == 1 else 0

    @property
    def part(self) -> Part:
        """A block of the samples."""
        return Part(self.width, self.length)

    def _choose_width(self) -> int:
        """Samples in a block."""
        raise NotImplementedError

    def _with_axis(self) -> list[Node]:
        return [node for node in self.graph.nodes if node.serial in self.axes]

    def _axis_told(self) -> str:
        names = [
            f"axis {self.axes[node.serial]} of {node.name}"
            for node in self.graph.inputs
            if node.serial in self.axes and node.name
        ]
        return ", ".join(names[:4]) + f" (length {self.length})" if names else f"{self.length}"

    # ------------------------------------------------------------ what belongs together

    def _classify_all(self) -> None:
        self.inside: set[int] = set()  # keep the axis
        self.sums: set[int] = set()  # sum over it
        self.objections: dict[int, str] = {}  # why the others do neither
        for node in self.graph.operators:
            self._classify(node)
        self.separable = frozenset(self.inside)
        self.phases = self._phases()

    def _classify(self, node: Operator) -> None:
        places = {
            number: self.axes[source.serial]
            for number, source in enumerate(node.inputs)
            if source.serial in self.axes
        }
        if not places and node.serial not in self.axes:
            return
        objection = self._objection(node, places)
        if objection is not None:
            self.objections[node.serial] = objection
        else:
            (self.inside if node.serial in self.axes else self.sums).add(node.serial)

    def _objection(self, node: Operator, places: dict[int, int]) -> str | None:
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
        return sum_of(node) is not None

    def _phases(self) -> dict[int, int]:
        """For each operator the region it is in, or the number of regions that come before it.

        As late as possible: what only a later region needs is computed there, and need not be
        kept from one to the other.
        """
        earliest = self._earliest()
        last = max((earliest[n.serial] for n in self.graph.operators if self._member(n)), default=0)
        users = users_of(self.graph)
        phases: dict[int, int] = {}
        for node in reversed(self.graph.operators):
            own = self._member(node)
            phases[node.serial] = min(
                (
                    phases[user.serial]
                    - (own and not (self._member(user) and node.serial in self.inside))
                    for user in users.get(node.serial, [])
                ),
                default=last if own else last + 1,
            )
        return phases

    def _earliest(self) -> dict[int, int]:
        """The same as early as possible."""
        phases: dict[int, int] = {}
        for node in self.graph.operators:
            own = self._member(node)
            phases[node.serial] = max(
                (
                    phases[source.serial]
                    + (self._member(source) and not (own and source.serial in self.inside))
                    for source in node.inputs
                    if isinstance(source, Operator)
                ),
                default=0,
            )
        return phases

    def _member(self, node: Node) -> bool:
        return node.serial in self.inside or node.serial in self.sums

    def _by_phase(self) -> dict[int, list[Operator]]:
        members: dict[int, list[Operator]] = {}
        for node in self.graph.operators:
            if self._member(node):
                members.setdefault(self.phases[node.serial], []).append(node)
        return members

    def _drop_small(self) -> None:
        """Only regions with products are worth it; the others' operators are ordinary ones."""
        self.members = self._by_phase()
        self._repeat()
        suit = [phase for phase, nodes in self.members.items() if self._suits(phase, nodes)]
        for node in self.graph.operators:
            if self._member(node) and self.phases[node.serial] not in suit:
                self.inside.discard(node.serial)
                self.sums.discard(node.serial)
        self.members = {phase: self.members[phase] for phase in suit}

    def _repeat(self) -> None:
        """Let regions compute again what is cheap, if that is to be so."""

    def _suits(self, phase: int, nodes: Sequence[Operator]) -> bool:
        """Whether a region made of these operators is better than they are by themselves."""
        raise NotImplementedError

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
            if own and not self._is_kept(source):
                return None
            total += costs.get(source.serial, 0)
        return total if total <= policy().regions.most_repeated else None

    def _is_kept(self, node: Node) -> bool:
        """Whether a value of a region is kept for others anyway, so that they can start there."""
        return False

    # ------------------------------------------------------------ the new graph

    def cut(self) -> Graph:
        """The graph with one operator for each region, in an order that can be computed."""
        new: dict[int, Node] = {
            node.serial: node for node in self.graph.nodes if not isinstance(node, Operator)
        }
        outside: dict[int, list[Operator]] = {}
        for node in self.graph.operators:
            if not self._member(node):
                outside.setdefault(self.phases[node.serial], []).append(node)
        for phase in range(max(self.phases.values(), default=0) + 1):
            for node in outside.get(phase, []):
                new[node.serial] = copy_of(node, new)
            if phase in self.members:
                self._add_region(phase, new)
        return with_nodes(self.graph, new)

    def _wanted_from(self, phase: int) -> set[int]:
        """The values that something outside of a region needs."""
        found = {node.serial for node in self.graph.outputs if node is not None}
        others = [nodes for other, nodes in self.members.items() if other != phase]
        groups = [self._with_cheap_sources(nodes) for nodes in others]
        groups.append([node for node in self.graph.operators if not self._member(node)])
        for nodes in groups:
            own = {node.serial for node in nodes}
            found |= {s.serial for node in nodes for s in node.inputs if s.serial not in own}
        return found

    def _results_of(self, phase: int) -> tuple[list[Operator], list[Operator]]:
        """What others need of a region, and the operators that compute it."""
        wanted = self._wanted_from(phase)
        members = self.members[phase]
        results = [
            node for node in members if node.serial in wanted and self.phases[node.serial] == phase
        ]
        return results, _needed(self._with_cheap_sources(members), results)

    def _add_region(self, phase: int, new: dict[int, Node]) -> None:
        results, needed = self._results_of(phase)
        if not results:
            return
        builder = self._builder(needed, results)
        region = builder.build()
        inputs = tuple(new[node.serial] for node in builder.sources)
        types = tuple(
            _parts_type(node.type, region.groups) if in_parts(region, number) else node.type
            for number, node in enumerate(results)
        )
        operator = Operator(RegionOp(region), inputs, {}, None, types)
        for number, node in enumerate(results):
            item = Operator(ITEM, (operator,), {"index": number}, None, types[number])
            item.source = node.source
            parted = in_parts(region, number)
            new[node.serial] = _sum_of_parts(item, region.groups, node) if parted else item

    def _with_cheap_sources(self, members: Sequence[Operator]) -> list[Operator]:
        """The members and what they read that is computed again as fast as it is read.

        So nothing of the length of the axis has to be kept for them:

            ok = y >= 0; n = sum(ok)  |  sum(where(ok, loss(x), 0)) / n   ->   ok twice
        """
        candidates = self.separable - {node.serial for node in members}
        read = {source.serial for node in members for source in node.inputs}
        again = []
        for node in reversed(self.graph.operators):
            if node.serial not in candidates or node.serial not in read or not _is_cheap(node):
                continue
            new = [s for s in node.inputs if s.serial in self.axes and s.serial not in read]
            if not new or (len(new) == 1 and _takes_the_place(new[0], node)):
                again.append(node)
                read |= {source.serial for source in new}
        return sorted([*again, *members], key=lambda node: node.serial)  # inputs first

    def _builder(self, members: Sequence[Operator], results: Sequence[Operator]) -> BlockBuilder:
        inner = self._inner_axes(members)
        width = self.width
        return BlockBuilder(members, results, self.axes, self.length, width, self.layout, inner)

    def _inner_axes(self, nodes: Sequence[Operator]) -> dict[int, tuple[int, ...]]:
        """The axes of values that lie innermost, by serial, where these are channels."""
        return {}


def adds_to_zeros(node: Operator, places: dict[int, int]) -> bool:
    """Whether samples are added to zeros where indices say, each sample with its own elements."""
    scatters = isinstance(lowering_of(node), Scatter)
    return scatters and 1 in places and is_uniform(node.inputs[0], 0)


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
