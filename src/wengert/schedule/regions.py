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

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ..errors import WengertError
from ..graph import Constant, Graph, Node, Operator, Variable
from ..loops import BOOL, Pointwise, Product, Scatter, identity_of
from ..ops.elementwise import select
from ..ops.layout import broadcast_to, reshape
from ..passes.lengths import only_counts
from ..passes.rewriting import apply
from ..trace.tracer import ITEM
from ..types import ArrayType
from .axes import AxisClasses
from .cost import EXPENSIVE
from .lowering import lowering_of

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


@dataclass
class Region:
    """What one operator of kind `region` stands for."""

    graph: Graph  # the program of one block
    length: int  # of the axis
    width: int  # of a block
    axes: dict[int, int]  # the axis of samples of every value in the block, by serial
    in_axes: list[int | None]  # of the inputs, without the one that says which samples exist
    out_axes: list[int | None]  # None: a sum over all samples
    combines: list[str | None]  # how such sums are put together
    partial: bool  # whether the last block may be partly empty; the last input says how far
    # Whether samples lie innermost in a block: one lane each. Else as outside.
    lanes: bool = True
    # The input that says where in the whole each sample of the block is, by its number, if any.
    position: int | None = None
    any_length: bool = False  # whether `length` is an example only


class RegionOp:
    """The operation of a region: it is made by the scheduler, for the scheduler."""

    name = "region"
    multiple = True
    loops = None
    compose = None

    def __init__(self, region: Region):
        self.region = region


def cut_regions(graph: Graph) -> Graph:
    """The graph with regions in place of what is independent along one axis."""
    if _work(graph.operators) < LEAST_WORK:
        return graph
    classes = AxisClasses(graph.operators)
    cutters = [Cutter(graph, classes, kind) for kind in _candidates(graph, classes)]
    found = [cutter for cutter in cutters if cutter.worth_it]
    if not found:
        return graph
    return min(found, key=lambda cutter: (len(cutter.members), -cutter.length)).cut()


def _work(nodes: Iterable[Node]) -> int:
    return sum(flops_of(node) for node in nodes)


def flops_of(node: Node) -> int:
    """The arithmetic of a product; 0 for any other node."""
    if not isinstance(node, Operator) or not isinstance(node.op.loops, Product):
        return 0
    x, y, _ = node.params["spec"]
    extents = dict(zip(x, node.inputs[0].type.shape, strict=True))
    extents.update(zip(y, node.inputs[1].type.shape, strict=True))
    return 2 * prod(extents.values())


def _candidates(graph: Graph, classes: AxisClasses) -> list[tuple[int, int]]:
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
            if length >= SHORTEST
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
        self._classify_all()
        self._drop_small()

    def _with_axis(self) -> list[Node]:
        return [node for node in self.graph.nodes if node.serial in self.axes]

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
        return _combine_of(node) is not None

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
            source.serial: _nbytes(source)
            for node in nodes
            if flops_of(node)
            for source in node.inputs
            if source.serial not in self.axes
        }
        largest = max(
            (_nbytes(node) for node in nodes if flops_of(node) and node.serial in self.inside),
            default=0,
        )
        return (
            largest > 0  # a product that keeps the axis, not only sums over it
            and sum(weights.values()) <= MOST_WEIGHTS
            and largest // max(self.length, 1) * self.width <= MOST_VALUE
            and _time_together(nodes) + self._moved(nodes) / _MOVES < time_apart(nodes)
        )

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
        if self.length < SHORTEST:
            return False  # also where the axes of one class differ in length
        work = sum(_work(nodes) for nodes in self.members.values())
        return bool(self.members) and 2 * work > _work(self.graph.operators)

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
        groups = [nodes for other, nodes in self.members.items() if other != phase]
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
        types = tuple(node.type for node in results)
        operator = Operator(RegionOp(region), inputs, {}, None, types)
        for number, node in enumerate(results):
            item = Operator(ITEM, (operator,), {"index": number}, None, node.type)
            item.source = node.source
            new[node.serial] = item

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


def time_apart(nodes: Sequence[Operator]) -> float:
    """Microseconds of the operators one by one, each over all samples."""
    total = _elements(nodes) / _ELEMENTS
    for flops in map(flops_of, nodes):
        shared = flops >= _SHARED
        total += flops / (_OPERATIONS * (2 if shared else 1)) + _WAKING * shared
    return total


def _time_together(nodes: Sequence[Operator]) -> float:
    """Microseconds of a region made of them."""
    products = _work(nodes) / (_OPERATIONS * 2 * _BLOCKED)
    return _WAKING + products + _elements(nodes) / (_ELEMENTS * _NEAR)


def _elements(nodes: Sequence[Operator]) -> int:
    """Elements that are computed, and not only moved."""
    return sum(node.type.size for node in nodes if not flops_of(node) and not _is_free(node))


def _nbytes(node: Node) -> int:
    return int(node.type.size * node.type.dtype.itemsize)


def has_loops(node: Operator) -> bool:
    """Whether the operation can be computed for a part of its samples."""
    loops = lowering_of(node)
    return loops is not None and (not isinstance(loops, Product) or _combine_of(node) is not None)


def _combine_of(node: Operator) -> str | None:
    """How the parts of a sum over the axis are put together."""
    loops = lowering_of(node)
    if isinstance(loops, Product):
        same = {node.type.dtype, *[source.type.dtype for source in node.inputs]}
        return "add" if len(same) == 1 and node.type.dtype.kind == "f" else None
    return getattr(loops, "kind", None)


def combine_of(node: Operator) -> str:
    """How the parts of a sum are put together, those that are scattered included."""
    found = _combine_of(node) or getattr(lowering_of(node), "combine", None)
    assert found is not None
    return str(found)


def resized(array_type: ArrayType, axis: int | None, width: int) -> ArrayType:
    """The type with another length of one axis."""
    if axis is None:
        return array_type
    shape = array_type.shape
    return ArrayType(array_type.dtype, (*shape[:axis], width, *shape[axis + 1 :]))


def blocked(node: Operator, axes: dict[int, int], width: int) -> dict[str, Any] | None:
    """The parameters of an operator on one block; None where it cannot be had."""
    axis = axes.get(node.serial)
    params = node.params
    if axis is not None and node.op.resize is not None:
        params = node.op.resize(axis, width, **params)
    sources = [resized(source.type, axes.get(source.serial), width) for source in node.inputs]
    try:
        found = node.op.type_rule(*sources, **params)
    except WengertError:
        return None
    wanted = resized(node.type, axis, width)
    return params if (found.dtype, found.shape) == (wanted.dtype, wanted.shape) else None


class BlockBuilder:
    """Builds the program of one block out of the members of a region."""

    def __init__(
        self,
        members: Sequence[Operator],
        results: Sequence[Operator],
        axes: dict[int, int],
        length: int,
        width: int,
    ):
        self.members, self.results = members, results
        self.axes, self.length, self.width = axes, length, width
        self.new: dict[int, Node] = {}
        self.own: dict[int, int] = {}  # the axis of samples of the new nodes
        self.sources: list[Node] = []
        self.inputs: list[Variable] = []
        self.exists: Variable | None = None  # which samples there are, if not all
        if length % width:
            self.exists = self._variable("exists", ArrayType(BOOL, (width,)), 0)
        self.masked = self._choose_masked()

    def build(self) -> Region:
        """The region."""
        for node in self.members:
            self._add(node)
        return Region(
            Graph(self._all_inputs(), [self.new[node.serial] for node in self.results]),
            self.length,
            self.width,
            self.own,
            [self.axes.get(source.serial) for source in self.sources],
            [self.axes.get(node.serial) for node in self.results],
            [combine_of(node) if node.serial not in self.axes else None for node in self.results],
            self.exists is not None,
        )

    def _all_inputs(self) -> list[Variable]:
        return [*self.inputs, *([] if self.exists is None else [self.exists])]

    def _variable(self, name: str, array_type: ArrayType, axis: int | None) -> Variable:
        variable = Variable(name, None, array_type, False)
        if axis is not None:
            self.own[variable.serial] = axis
        return variable

    def _add(self, node: Operator) -> None:
        params = blocked(node, self.axes, self.width)
        assert params is not None
        axis = self.axes.get(node.serial)
        inputs = [self._input(node, number) for number in range(len(node.inputs))]
        if axis is None and self.exists is not None:
            inputs = self._masked_terms(node, inputs)
        made: Node = self._apply(
            node.op, tuple(inputs), params, resized(node.type, axis, self.width), axis
        )
        made.source = node.source
        self.new[node.serial] = self._mask(made, "add") if node.serial in self.masked else made

    def _apply(
        self,
        op: Any,
        inputs: tuple[Node, ...],
        params: dict[str, Any],
        array_type: ArrayType,
        axis: int | None,
    ) -> Node:
        made = Operator(op, inputs, params, None, array_type)
        if axis is not None:
            self.own[made.serial] = axis
        return made

    # ------------------------------------------------------------ values from outside

    def _input(self, user: Operator, number: int) -> Node:
        source = user.inputs[number]
        if only_counts(user, number) and source.serial in self.axes:
            return self._counting(source)
        found = self.new.get(source.serial)
        if found is None:
            found = self.new[source.serial] = self._outside(source)
        return found

    def _counting(self, source: Node) -> Node:
        """Indices 0, 1, 2, ... of the samples: those of a block count from its own start."""
        axis = self.axes[source.serial]
        block_type = resized(source.type, axis, self.width)
        made = Constant(np.arange(self.width, dtype=block_type.dtype).reshape(block_type.shape))
        self.own[made.serial] = axis
        return made

    def _outside(self, source: Node) -> Node:
        axis = self.axes.get(source.serial)
        block_type = resized(source.type, axis, self.width)
        if isinstance(source, Constant):
            if axis is None:
                return source
            value = np.asarray(source.output)
            if value.size and not any(value.strides):  # one number everywhere
                made = Constant(np.broadcast_to(value.flat[0], block_type.shape), block_type)
                self.own[made.serial] = axis
                return made
        variable = self._variable("", block_type, axis)
        self.sources.append(source)
        self.inputs.append(variable)
        return variable

    # ------------------------------------------------------------ samples that do not exist

    def _choose_masked(self) -> set[int]:
        """Values to make zero for samples that do not exist, where they are computed: a factor of
        each product that is summed over the samples."""
        found: set[int] = set()
        if self.exists is None:
            return found
        own = {node.serial for node in self.members}
        for node in self.members:
            if node.serial in self.axes or not flops_of(node):
                continue
            made = [source for source in node.inputs if source.serial in own]
            made = [source for source in made if not _is_free(source)]
            if made and not any(source.serial in found for source in made):
                found.add(min(made, key=lambda source: source.type.size).serial)
        return found

    def _masked_terms(self, node: Operator, inputs: list[Node]) -> list[Node]:
        """What is summed over the samples, without those that do not exist."""
        if any(source.serial in self.masked for source in node.inputs):
            return inputs
        number = min(range(len(inputs)), key=lambda k: inputs[k].type.size)
        if isinstance(lowering_of(node), Scatter):
            number = 1  # what is added; the others say where
        combine = combine_of(node)
        inputs[number] = self._mask(inputs[number], combine)
        return inputs

    def _mask(self, node: Node, combine: str) -> Node:
        """The value where the sample exists, and what changes no sum elsewhere."""
        assert self.exists is not None
        axis, shape = self.own[node.serial], node.type.shape
        line = tuple(n if a == axis else 1 for a, n in enumerate(shape))
        mask = self._apply(reshape, (self.exists,), {"shape": line}, ArrayType(BOOL, line), axis)
        mask = self._apply(broadcast_to, (mask,), {"shape": shape}, ArrayType(BOOL, shape), axis)
        nothing = Constant(identity_of(combine, node.type.dtype), ArrayType(node.type.dtype, ()))
        return self._apply(select, (mask, node, nothing), {}, ArrayType(*node.type[:2]), axis)


def _is_cheap(node: Operator) -> bool:
    return isinstance(node.op.loops, Pointwise) and node.op.name not in EXPENSIVE


def _takes_the_place(source: Node, node: Operator) -> bool:
    """Whether an argument, which lies in memory anyway, may be read instead of the node."""
    return isinstance(source, Variable) and source.type.size <= node.type.size


def _is_free(node: Node) -> bool:
    return isinstance(node, Operator) and bool(getattr(lowering_of(node), "free", False))
