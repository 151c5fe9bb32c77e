"""Graph -> Graph with regions: what is independent along one axis becomes one operator.

In a training step almost every value carries the batch axis, and samples do not meet until
something sums over them: the loss, the gradients of the weights. `cut_regions` finds such an axis
(see `axes`), takes together all operators that keep it, forward and backward, and the sums over it
at the end, and puts one operator in their place. That operator holds the program for one block of
samples; `fusion` turns it into a loop over blocks (`loops.BlockLoop`).

    h = tanh(x @ w); s = sum(h, axis=0)   ->   s = region(x, w)
                                               in blocks of 16: h = tanh(x @ w); s += sum(h, axis=0)

An operator that mixes samples (a sort along the axis, a batch norm's mean before it is used) ends
a region: what comes after it belongs to the next one.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Sequence

from ..graph import Constant, Graph, Node, Operator, Variable
from ..loops import Pointwise
from ..ops.elementwise import add
from ..ops.indexing import index
from ..passes.rewriting import apply
from ..trace.tracer import ITEM
from ..types import ArrayType
from .axes import AxisClasses
from .building import (
    BlockBuilder,
    RegionOp,
    blocked,
    flops_of,
    has_loops,
    in_parts,
    is_free,
    sum_of,
)
from .cost import EXPENSIVE

# Samples in a block: one vector of float32, or two of float64, in the widest registers there are.
WIDTH = 16
# An axis shorter than this is not worth a loop of its own.
SHORTEST = 16
# Below this much arithmetic it is not worth looking for regions.
LEAST_WORK = 1 << 18
# Bytes of weights that each block reads again: more than this and they no longer stay in the
# second-level cache, so that products over the whole batch are better.
MOST_WEIGHTS = 1 << 19
# Bytes of the largest value of a block, for the same reason.
MOST_VALUE = 1 << 20

# A rough model of time, in microseconds, to compare a region with its operators one by one:
# products on one and on two threads, an element of what is computed in between, and waking threads.
# In a block products run a little slower, because nothing is packed, and the rest from the near
# cache.
_OPERATIONS, _ELEMENTS, _WAKING = 80e3, 3e3, 5.0
_SHARED, _BLOCKED, _NEAR, _MOVES = 1 << 22, 0.75, 4.0, 2e3


def cut_regions(graph: Graph) -> Graph:
    """The graph with regions in place of what is independent along one axis."""
    if _work(graph.operators) < LEAST_WORK:
        return graph
    from .matrices import MatrixCutter  # itself a Cutter, for blocks of another layout

    classes = AxisClasses(graph.operators)
    best: list[Cutter] = []
    for kind_of_blocks in (Cutter, MatrixCutter):
        kinds = _candidates(graph, classes, kind_of_blocks.shortest())
        cutters = [kind_of_blocks(graph, classes, kind) for kind in kinds]
        found = [cutter for cutter in cutters if cutter.worth_it]
        best += sorted(found, key=lambda cutter: (len(cutter.members), -cutter.length))[:1]
    return min(best, key=lambda cutter: cutter.time).cut() if best else graph


def _work(nodes: Iterable[Node]) -> int:
    return sum(flops_of(node) for node in nodes)


def _candidates(graph: Graph, classes: AxisClasses, shortest: int) -> list[tuple[int, int]]:
    """Classes of axes that products run along, those with most work first."""
    work: Counter[tuple[int, int]] = Counter()
    for node in graph.operators:
        flops = flops_of(node)
        if not flops:
            continue
        axes = {
            classes.find((source.serial, axis))
            for source in (node, *node.inputs)
            for axis, length in enumerate(source.type.shape)
            if length >= shortest
        }
        work.update(dict.fromkeys(axes, flops))
    return [kind for kind, amount in work.most_common(4) if 2 * amount > _work(graph.operators)]


class Cutter:
    """Cuts a graph along one class of axes."""

    width = WIDTH

    def __init__(self, graph: Graph, classes: AxisClasses, kind: tuple[int, int]):
        self.graph, self.relations = graph, classes.relations
        self.axes: dict[int, int] = {}
        for node in graph.nodes:
            axis = classes.axis_in(node, kind)
            if axis is not None:
                self.axes[node.serial] = axis
        lengths = {node.type.shape[self.axes[node.serial]] for node in self._with_axis()}
        self.length = lengths.pop() if len(lengths) == 1 else 0
        self.width = self._choose_width()
        self._classify_all()
        self._drop_small()

    def _with_axis(self) -> list[Node]:
        return [node for node in self.graph.nodes if node.serial in self.axes]

    @staticmethod
    def shortest() -> int:
        """An axis shorter than this is not worth a loop of its own."""
        return SHORTEST

    def _choose_width(self) -> int:
        return self.width

    # ------------------------------------------------------------ what belongs together

    def _classify_all(self) -> None:
        self.inside: set[int] = set()  # keep the axis
        self.sums: set[int] = set()  # sum over it
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
        relation = self.relations[node.serial]
        if node.serial in self.axes:
            fits = has_loops(node) and relation.separates(self.axes[node.serial], places)
            if fits and blocked(node, self.axes, self.width) is not None:
                self.inside.add(node.serial)
        elif relation.adds_up(places) and self._can_sum(node, places):
            self.sums.add(node.serial)

    def _can_sum(self, node: Operator, places: dict[int, int]) -> bool:
        return sum_of(node) is not None

    def _phases(self) -> dict[int, int]:
        """For each operator the region it is in, or the number of regions that come before it.

        As late as possible: what only a later region needs is computed there, and need not be
        kept from one to the other.
        """
        earliest = self._earliest()
        last = max((earliest[n.serial] for n in self.graph.operators if self._member(n)), default=0)
        users: dict[int, list[Operator]] = {}
        for node in self.graph.operators:
            for source in node.inputs:
                users.setdefault(source.serial, []).append(node)
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
        members = self._by_phase()
        self.members = {p: nodes for p, nodes in members.items() if self._suits(nodes)}
        for phase, nodes in members.items():
            if phase not in self.members:
                self.inside -= {node.serial for node in nodes}
                self.sums -= {node.serial for node in nodes}

    def _suits(self, nodes: Sequence[Operator]) -> bool:
        weights = {
            source.serial: nbytes(source)
            for node in nodes
            if flops_of(node)
            for source in node.inputs
            if source.serial not in self.axes
        }
        largest = max(
            (nbytes(node) for node in nodes if flops_of(node) and node.serial in self.inside),
            default=0,
        )
        return (
            largest > 0  # a product that keeps the axis, not only sums over it
            and sum(weights.values()) <= MOST_WEIGHTS
            and largest // max(self.length, 1) * self.width <= MOST_VALUE
            and self._time(nodes) < time_apart(nodes)
        )

    def _time(self, nodes: Sequence[Operator]) -> float:
        """Microseconds of a region."""
        return _time_together(nodes) + self._moved(nodes) / _MOVES

    def _moved(self, nodes: Sequence[Operator]) -> int:
        """Elements that go in and out of the blocks."""
        own = {node.serial for node in nodes}
        outside = [node for node in self.graph.operators if node.serial not in own]
        wanted = {node.serial for node in self.graph.outputs if node is not None}
        wanted |= {source.serial for node in outside for source in node.inputs}
        moved = {
            source.serial: source.type.size
            for node in nodes
            for source in node.inputs
            if source.serial not in own and not isinstance(source, Constant)
        }
        moved |= {node.serial: node.type.size for node in nodes if node.serial in wanted}
        return sum(size for serial, size in moved.items() if serial in self.axes)

    @property
    def worth_it(self) -> bool:
        """Whether most of the work is in regions."""
        if self.length < self.shortest():
            return False  # also where the axes of one class differ in length
        work = sum(_work(nodes) for nodes in self.members.values())
        return bool(self.members) and 2 * work > _work(self.graph.operators)

    @property
    def time(self) -> float:
        """Microseconds of the whole graph: its regions, and the operators that are in none."""
        rest = [node for node in self.graph.operators if not self._member(node)]
        return time_apart(rest) + sum(map(self._time, self.members.values()))

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
                inputs = [new[source.serial] for source in node.inputs]
                new[node.serial] = apply(node.op, *inputs, params=node.params, like=node)
            if phase in self.members:
                self._add_region(phase, new)
        outputs = [None if node is None else new[node.serial] for node in self.graph.outputs]
        graph = self.graph
        return Graph(graph.inputs, outputs, graph.in_structure, graph.out_structure, graph.name)

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

    def _add_region(self, phase: int, new: dict[int, Node]) -> None:
        wanted = self._wanted_from(phase)
        members = self.members[phase]
        results = [node for node in members if node.serial in wanted]
        if not results:
            return
        builder = self._builder(self._with_cheap_sources(members), results)
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
        return [*reversed(again), *members]

    def _builder(self, members: Sequence[Operator], results: Sequence[Operator]) -> BlockBuilder:
        return BlockBuilder(members, results, self.axes, self.length, self.width)


def _parts_type(array_type: ArrayType, groups: int) -> ArrayType:
    return ArrayType(array_type.dtype, (groups, *array_type.shape))


def _sum_of_parts(parts: Node, groups: int, like: Operator) -> Node:
    """Written out, so that it is part of what is done with the sum: a parameter is updated, say."""
    whole = tuple((0, length, 1) for length in like.type.shape)
    terms: list[Node] = [
        apply(index, parts, params={"key": (group, *whole)}, like=like) for group in range(groups)
    ]
    return functools.reduce(lambda a, b: apply(add, a, b, params={}, like=like), terms)


def time_apart(nodes: Sequence[Operator]) -> float:
    """Microseconds of the operators one by one, each over all samples."""
    total = _elements(nodes) / _ELEMENTS
    for flops in map(flops_of, nodes):
        shared = flops >= _SHARED
        total += flops / (_OPERATIONS * (2 if shared else 1)) + _WAKING * shared
    return total


def _time_together(nodes: Sequence[Operator]) -> float:
    """Microseconds of a region made of them."""
    return time_in_blocks(nodes, _work(nodes) / _BLOCKED)


def time_in_blocks(nodes: Sequence[Operator], work: float, groups: int = 2) -> float:
    """Microseconds of operators block by block, on two threads, whose products have so much work.

    An odd number of groups leaves one thread without work for the time of one.
    """
    idle = (groups + groups % 2) / groups
    near = _elements(nodes) / (_ELEMENTS * _NEAR)
    return _WAKING + idle * (work / (_OPERATIONS * 2) + near)


def _elements(nodes: Sequence[Operator]) -> int:
    """Elements that are computed, and not only moved."""
    return sum(node.type.size for node in nodes if not flops_of(node) and not is_free(node))


def nbytes(node: Node) -> int:
    """Bytes of a value."""
    return int(node.type.size * node.type.dtype.itemsize)


def _is_cheap(node: Operator) -> bool:
    return isinstance(node.op.loops, Pointwise) and node.op.name not in EXPENSIVE


def _takes_the_place(source: Node, node: Operator) -> bool:
    """Whether an argument, which lies in memory anyway, may be read instead of the node."""
    return isinstance(source, Variable) and source.type.size <= node.type.size
