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

A block has one lane a sample, or one lane a channel (see `blocks` and `channels`). The first suits
small networks, whatever their shapes are; the second those whose values have many channels and are
so large that 16 samples of them leave the near cache. An estimate of time decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from ..graph import Constant, Graph, Node, Operator
from ..loops import Alias, Pointwise
from .axes import AxisClasses
from .building import BlockBuilder, ChannelBuilder, flops_of, is_free
from .cutting import Cutter
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
# Bytes of the largest value of a block, for the same reason; with channels innermost it can be
# smaller, and leaves room for the others.
MOST_VALUE, MOST_CHANNEL_VALUE = 1 << 20, 1 << 18
# With channels innermost at least so many blocks share out well to threads.
LEAST_BLOCKS = 16
# A block that does less arithmetic with each byte of its weights, or of their gradient, waits for
# them to come from memory; unless they are few enough to stay near.
LEAST_USE, ALWAYS_NEAR = 64, 1 << 16

# A rough model of time, in microseconds, to compare a region with its operators one by one:
# products on one and on two threads, an element of what is computed in between, and waking threads.
# In a block products run a little slower, because nothing is packed, and the rest from the near
# cache. With one lane a channel products run faster by what tiles of whole vectors of weights save,
# but every lane that a number of channels leaves empty is lost.
_OPERATIONS, _ELEMENTS, _WAKING = 80e3, 3e3, 5.0
_SHARED, _BLOCKED, _CHANNELS, _NEAR, _MOVES = 1 << 22, 0.75, 1.06, 4.0, 2e3


def cut_regions(graph: Graph) -> Graph:
    """The graph with regions in place of what is independent along one axis."""
    if _work(graph.operators) < LEAST_WORK:
        return graph
    classes = AxisClasses(graph.operators)
    kinds = _candidates(graph, classes)
    found = [_best([cutter(graph, classes, kind) for kind in kinds]) for cutter in CUTTERS]
    best = min((cutter for cutter in found if cutter), key=lambda c: c.time, default=None)
    return graph if best is None else best.cut()


def _best(cutters: Sequence[TimedCutter]) -> TimedCutter | None:
    """The cutter along the axis that suits best."""
    found = [cutter for cutter in cutters if cutter.worth_it]
    return min(found, key=lambda cutter: (len(cutter.members), -cutter.length), default=None)


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


class TimedCutter(Cutter):
    """Cuts where an estimate of time says so."""

    @property
    def time(self) -> float:
        """Microseconds of the whole graph."""
        inside = sum(self._time(phase, nodes) for phase, nodes in self.members.items())
        return inside + time_apart([n for n in self.graph.operators if not self._member(n)])

    @property
    def worth_it(self) -> bool:
        """Whether most of the work is in regions."""
        if self.length < SHORTEST:
            return False  # also where the axes of one class differ in length
        work = sum(_work(nodes) for nodes in self.members.values())
        return bool(self.members) and 2 * work > _work(self.graph.operators)

    def _suits(self, phase: int, nodes: Sequence[Operator]) -> bool:
        # a product that keeps the axis, not only sums over it
        products = any(flops_of(node) and node.serial in self.inside for node in nodes)
        return products and self._fits(nodes) and self._time(phase, nodes) < time_apart(nodes)

    def _fits(self, nodes: Sequence[Operator]) -> bool:
        """Whether what a block needs stays in the near cache."""
        return True

    def _time(
        self, phase: int, nodes: Sequence[Operator], computed: Sequence[Operator] | None = None
    ) -> float:
        """Microseconds of a region made of these operators."""
        raise NotImplementedError

    def _moved(self, phase: int, nodes: Sequence[Operator]) -> int:
        """Elements that go in and out of the blocks."""
        own = {node.serial for node in nodes}
        wanted = self._wanted_from(phase)
        moved = {
            source.serial: source.type.size
            for node in nodes
            for source in node.inputs
            if source.serial not in own and not isinstance(source, Constant)
        }
        moved |= {node.serial: node.type.size for node in nodes if node.serial in wanted}
        return sum(size for serial, size in moved.items() if serial in self.axes)

    def _largest(self, nodes: Sequence[Node]) -> int:
        """Bytes of one sample of the largest product."""
        sizes = [_nbytes(node) for node in nodes if flops_of(node) and node.serial in self.axes]
        return max(sizes, default=0) // max(self.length, 1)


class LaneCutter(TimedCutter):
    """Cuts into blocks with one lane a sample."""

    def _choose_width(self) -> int:
        return WIDTH

    def _fits(self, nodes: Sequence[Operator]) -> bool:
        weights = {
            source.serial: _nbytes(source)
            for node in nodes
            if flops_of(node)
            for source in node.inputs
            if source.serial not in self.axes
        }
        few = sum(weights.values()) <= MOST_WEIGHTS
        return few and self._largest(nodes) * self.width <= MOST_VALUE

    def _time(
        self, phase: int, nodes: Sequence[Operator], computed: Sequence[Operator] | None = None
    ) -> float:
        products = _work(nodes) / (_OPERATIONS * 2 * _BLOCKED)
        elements = sum(node.type.size for node in _computed(nodes)) / (_ELEMENTS * _NEAR)
        lost = -(-self.length // WIDTH) * WIDTH / max(self.length, 1)
        return _WAKING + (products + elements) * lost + self._moved(phase, nodes) / _MOVES


class ChannelCutter(TimedCutter):
    """Cuts into blocks with one lane a channel."""

    def _choose_width(self) -> int:
        """As many samples as are near together, and so that no block is partly empty."""
        near = MOST_CHANNEL_VALUE // max(self._largest(self.graph.nodes), 1)
        most = max(1, min(near, self.length // LEAST_BLOCKS))
        return max((n for n in range(1, most + 1) if self.length % n == 0), default=1)

    def _classify(self, node: Operator) -> None:
        if not self._is_heavy(node):
            super()._classify(node)

    def _is_heavy(self, node: Operator) -> bool:
        """Whether a product does too little with its weights, or their gradient, in one block."""
        flops = flops_of(node) // max(self.length, 1) * self.width
        shared = [value for value in (node, *node.inputs) if value.serial not in self.axes]
        sizes = [_nbytes(value) for value in shared if flops]
        return any(size > ALWAYS_NEAR and flops < LEAST_USE * size for size in sizes)

    def _repeat(self) -> None:
        self._repeat_cheap()

    def _suits(self, phase: int, nodes: Sequence[Operator]) -> bool:
        """Whether it is also better than chains of operators that run without memory between."""
        if not super()._suits(phase, nodes):
            return False
        ends = _ends_of_chains(nodes)
        return self._time(phase, nodes, ends) < time_apart(nodes, ends)

    def _is_kept(self, node: Node) -> bool:
        assert isinstance(node, Operator)
        return not isinstance(lowering_of(node), (Pointwise, Alias))

    def _time(
        self, phase: int, nodes: Sequence[Operator], computed: Sequence[Operator] | None = None
    ) -> float:
        inner = self._inner_axes(nodes)
        lost = {node.serial: _lost_lanes(node, inner.get(node.serial)) for node in nodes}
        work = sum(flops_of(node) * lost[node.serial] for node in nodes)
        # products with few terms are as fast as their results are stored
        stored = [*(computed or _computed(nodes)), *[node for node in nodes if flops_of(node)]]
        elements = sum(node.type.size * lost[node.serial] for node in stored)
        elements += self._moved(phase, nodes)
        near = elements / (_ELEMENTS * _NEAR)
        return _WAKING + work / (_OPERATIONS * 2 * _CHANNELS) + near

    def _builder(self, members: Sequence[Operator], results: Sequence[Operator]) -> BlockBuilder:
        inner = self._inner_axes(members)
        return ChannelBuilder(members, results, self.axes, self.length, self.width, inner)

    # ------------------------------------------------------------ channels

    def _inner_axes(self, nodes: Sequence[Operator]) -> dict[int, tuple[int, ...]]:
        """The axes of values that lie innermost, by serial."""
        channels = self._channels()
        values = {value.serial: value for node in nodes for value in (node, *node.inputs)}
        found: dict[int, tuple[int, ...]] = {}
        for serial, value in values.items():
            axes = [
                axis
                for axis, length in enumerate(value.type.shape)
                if length > 1 and self.classes.find((serial, axis)) in channels
            ]
            if serial in self.axes:
                found[serial] = tuple(axes) if len(axes) == 1 else ()
            elif isinstance(value, Operator):  # a sum: of its channels those that fill lanes last
                shape = value.type.shape
                axes.sort(key=lambda axis: (shape[axis] % WIDTH == 0, shape[axis]))
                found[serial] = tuple(axes)
        return {serial: axes for serial, axes in found.items() if axes}

    def _channels(self) -> set[tuple[int, int]]:
        """The classes of axes that products with weights make, the samples apart."""
        return {
            self.classes.find((node.serial, axis))
            for node in self.graph.operators
            if flops_of(node) and node.serial in self.axes
            for axis in self._made_by_weights(node)
        }

    def _made_by_weights(self, node: Operator) -> Iterator[int]:
        x, y, out = node.params["spec"]
        for own, other, source in zip((x, y), (y, x), node.inputs, strict=True):
            if source.serial not in self.axes:
                yield from (out.index(n) for n in own if n in out and n not in other)


# What is tried, the first of equals first.
CUTTERS: list[type[TimedCutter]] = [LaneCutter, ChannelCutter]


def _lost_lanes(node: Node, inner: tuple[int, ...] | None) -> float:
    """By how much longer it takes because vectors along the innermost axis are partly empty."""
    if inner is None:
        return 1.0 if not node.type.shape or node.type.shape[-1] >= WIDTH else float(WIDTH)
    channels = node.type.shape[inner[-1]]
    return -(-channels // WIDTH) * WIDTH / channels


def time_apart(nodes: Sequence[Operator], computed: Sequence[Operator] | None = None) -> float:
    """Microseconds of the operators one by one, each over all samples."""
    total = sum(node.type.size for node in computed or _computed(nodes)) / _ELEMENTS
    for flops in map(flops_of, nodes):
        shared = flops >= _SHARED
        total += flops / (_OPERATIONS * (2 if shared else 1)) + _WAKING * shared
    return total


def _computed(nodes: Sequence[Operator]) -> list[Operator]:
    """Operators whose elements are computed, and not only moved, products apart."""
    return [node for node in nodes if not flops_of(node) and not is_free(node)]


def _ends_of_chains(nodes: Sequence[Operator]) -> list[Operator]:
    """Of the elements that are computed those that others read from memory."""
    chained: set[int] = set()
    apart: set[int] = set()
    for node in nodes:
        loops = lowering_of(node)
        inline = isinstance(loops, Pointwise) and not loops.free
        (chained if inline else apart).update(source.serial for source in node.inputs)
    return [n for n in _computed(nodes) if n.serial in apart or n.serial not in chained]


def _nbytes(node: Node) -> int:
    return int(node.type.size * node.type.dtype.itemsize)


def _work(nodes: Iterable[Node]) -> int:
    """The arithmetic of all products."""
    return sum(flops_of(node) for node in nodes)
