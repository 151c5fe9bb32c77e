"""Graph -> Graph with regions: what is independent along one axis becomes one operator.

In a training step almost every value carries the batch axis, and samples do not meet until
something sums over them: the loss, the gradients of the weights. `cut_regions` finds such an axis
(see `axes`), takes together all operators that keep it, forward and backward, and the sums over it
at the end, and puts one operator in their place. That operator holds the program for one block of
samples; `fusion` turns it into a loop over blocks (`loops.Loop`).

    h = tanh(x @ w); s = sum(h, axis=0)   ->   s = region(x, w)
                                               in blocks of 16: h = tanh(x @ w); s += sum(h, axis=0)

An operator that mixes samples (a sort along the axis, a batch norm's mean before it is used) ends
a region: what comes after it belongs to the next one.

A block has one lane a sample, or one lane a channel, or lies as outside (see `blocks`, `channels`
and `matrices`). The first suits small networks, whatever their shapes are; the second those whose
values have many channels and are so large that 16 samples of them leave the near cache; the third
samples that are matrices themselves. An estimate of time decides (see `cost_model`). What is in no
region, or kept from one to the next, is kept for the whole batch, unless that is too much (see
`chunks`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import ceil

from ..graph import Graph, Node, Operator
from ..machine import policy
from .axes import AxisClasses
from .building import CHANNELS, LANES, block_time, flops_of
from .cost_model import (
    Candidate,
    TimedWay,
    bytes_of_weights,
    computed_in,
    elements_of,
    largest_of,
    moved,
    nbytes,
    time_apart,
    time_in_blocks,
    work_of,
)
from .cutting import Cut, axes_along, common_length
from .matrices import MatrixBlocks
from .task import Task


def regions(graph: Graph, task: Task) -> Graph:
    """What is independent along one axis, block by block along it, where that is faster.

    On one thread 1.5 times as fast on `cnn: digits, batch 100`, 2.7 times at batch 1000.
    """
    if task.any_length is not None:
        return graph
    task.note(lambda: tell_candidates(graph))
    return cut_regions(graph)


def cut_regions(graph: Graph) -> Graph:
    """The graph with regions in place of what is independent along one axis."""
    best = best_of(candidates(graph))
    return graph if best is None else best.cut.rewritten()


def candidates(graph: Graph) -> list[Candidate]:
    """All ways to cut a graph that are looked at."""
    if work_of(graph.operators) < policy().regions.least_work:
        return []
    classes = AxisClasses(graph.operators)
    return [
        cut_in(way, graph, classes, kind)
        for way in map(WAYS.__getitem__, policy().regions.layouts)
        for kind in _axes_to_try(graph, classes, way.shortest())
    ]


def cut_in(
    way: type[TimedWay], graph: Graph, classes: AxisClasses, kind: tuple[int, int]
) -> Candidate:
    """A graph cut along one class of axes in one way."""
    made = way(classes)
    axes = axes_along(graph, classes, kind)
    cut = Cut(graph, axes, common_length(graph, axes), classes.relations, made)
    return Candidate(cut, made)


def best_of(found: Sequence[Candidate]) -> Candidate | None:
    """Of each way the one along the axis that suits best, and of these the fastest."""
    firsts: dict[type, Candidate] = {}
    worth_it = [one for one in found if one.worth_it]
    for one in sorted(worth_it, key=lambda one: (len(one.cut.members), -one.cut.length)):
        firsts.setdefault(type(one.way), one)
    return min(firsts.values(), key=lambda one: one.time, default=None)


def tell_candidates(graph: Graph) -> str:
    """All ways that were looked at, with their estimates, and the one that was taken."""
    apart = f"operator by operator: {time_apart(graph.operators):.0f} us"
    found = candidates(graph)
    best = best_of(found)
    lines = [one.told_estimate() for one in found]
    taken = "operator by operator" if best is None else best.told_way()
    return "\n".join([apart, *dict.fromkeys(lines), f"taken: {taken}"])


def tell_regions(graph: Graph) -> str:
    """Which regions there are, why they end, and why not more is in them, in words."""
    found = candidates(graph)
    best = best_of(found)
    if best is not None:
        return best.told()
    if not found:
        return "no regions: little arithmetic, or no axis that most of it runs along"
    tried = [f"  {one.told_why_not()}" for one in found]
    return "\n".join(["no regions; tried:", *dict.fromkeys(tried)])


def _axes_to_try(graph: Graph, classes: AxisClasses, shortest: int) -> list[tuple[int, int]]:
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
    return [kind for kind, amount in work.most_common(4) if 2 * amount > work_of(graph.operators)]


class LaneBlocks(TimedWay):
    """Blocks with one lane a sample."""

    layout = LANES

    def width(self, cut: Cut) -> int:
        """As the policy says: one vector, or two."""
        return policy().regions.width

    def fits(self, cut: Cut, nodes: Sequence[Operator]) -> bool:
        """Whether weights are few, and values small."""
        few = bytes_of_weights(cut, nodes) <= policy().regions.most_weights
        return few and largest_of(cut, nodes) * cut.width <= policy().regions.most_value

    def time(self, cut: Cut, phase: int, nodes: Sequence[Operator]) -> float:
        """All samples are brought in and out, and the last block may be partly empty."""
        times = policy().times
        lost = -(-cut.length // cut.width) * cut.width / max(cut.length, 1)
        elements = elements_of(computed_in(nodes)) * lost
        inside = time_in_blocks(work_of(nodes) / times.lanes * lost, elements)
        return inside + moved(cut, phase, nodes) / times.moves


class ChannelBlocks(TimedWay):
    """Blocks with one lane a channel."""

    layout = CHANNELS
    repeats = begins_with_kept = True

    def width(self, cut: Cut) -> int:
        """As many samples as are near together and share out well; no block is partly empty."""
        wanted = policy().regions
        near = wanted.most_channel_value // max(largest_of(cut, cut.graph.nodes), 1)
        most = max(1, min(near, cut.length // wanted.least_blocks))
        nodes = cut.graph.operators
        together = block_time(work_of(nodes), elements_of(computed_in(nodes)))
        sample = max(together, 1.0) / max(cut.length, 1)
        reading = bytes_of_weights(cut, nodes) / policy().times.near_bytes
        begin = wanted.beginning * reading / sample

        def time(width: int) -> float:
            rounds = ceil(cut.length / width / wanted.shared_by) + 0.5
            return rounds * (width + begin)

        widths = [n for n in range(most, 0, -1) if cut.length % n == 0]
        long = [n for n in widths if 2 * n >= widths[0] or n * sample >= wanted.long_block]
        return min(long, key=time)

    def objection(self, cut: Cut, node: Operator, places: dict[int, int]) -> str | None:
        """Why an operator cannot run block by block, or had better not; None: it can."""
        if _is_heavy(cut, node):
            return "has larger weights than a block has use for"
        return cut.objection(node, places)

    def time(self, cut: Cut, phase: int, nodes: Sequence[Operator]) -> float:
        """Vectors are partly empty where there are few channels."""
        inner = self.inner_axes(cut, nodes)
        lost = {node.serial: _lost_lanes(node, inner.get(node.serial)) for node in nodes}
        work = sum(flops_of(node) * lost[node.serial] for node in nodes)
        # products with few terms are as fast as their results are stored
        stored = [*computed_in(nodes), *[node for node in nodes if flops_of(node)]]
        elements = sum(node.type.size * lost[node.serial] for node in stored)
        times = policy().times
        calls = len(nodes) * cut.length // cut.width * times.call
        reads = _read_from_outside(cut, nodes) / times.reads
        return time_in_blocks(work / times.channels, elements) + reads + calls

    def inner_axes(self, cut: Cut, nodes: Sequence[Operator]) -> dict[int, tuple[int, ...]]:
        """The axes of values that lie innermost, by serial."""
        channels, width = self._channels(cut), policy().regions.width
        values = {value.serial: value for node in nodes for value in (node, *node.inputs)}
        found: dict[int, tuple[int, ...]] = {}
        for serial, value in values.items():
            axes = [
                axis
                for axis, length in enumerate(value.type.shape)
                if length > 1 and self.classes.find((serial, axis)) in channels
            ]
            if serial in cut.axes:
                found[serial] = tuple(axes) if len(axes) == 1 else ()
            elif isinstance(value, Operator):  # a sum: of its channels those that fill lanes last
                shape = value.type.shape
                axes.sort(key=lambda axis: (shape[axis] % width == 0, shape[axis]))
                found[serial] = tuple(axes)
        return {serial: axes for serial, axes in found.items() if axes}

    def _channels(self, cut: Cut) -> set[tuple[int, int]]:
        """The classes of axes that products with weights make, the samples apart."""
        return {
            self.classes.find((node.serial, axis))
            for node in cut.products
            for axis in _made_by_weights(cut, node)
        }


# The ways to cut, by name; the policy says which of them are tried.
WAYS: dict[str, type[TimedWay]] = {
    "lanes": LaneBlocks,
    "channels": ChannelBlocks,
    "matrices": MatrixBlocks,
}


def _is_heavy(cut: Cut, node: Operator) -> bool:
    """Whether a product does too little with its weights, or their gradient, in one block."""
    flops = flops_of(node) // max(cut.length, 1) * cut.width
    shared = [value for value in (node, *node.inputs) if value.serial not in cut.axes]
    sizes = [nbytes(value) for value in shared if flops]
    wanted = policy().regions
    return any(s > wanted.always_near and flops < wanted.least_use * s for s in sizes)


def _read_from_outside(cut: Cut, nodes: Sequence[Operator]) -> int:
    """Elements of samples that come from memory."""
    own = {node.serial for node in nodes}
    sources = {source.serial: source for node in nodes for source in node.inputs}
    outside = [s for n, s in sources.items() if n in cut.axes and n not in own]
    return elements_of(outside)


def _made_by_weights(cut: Cut, node: Operator) -> Iterator[int]:
    x, y, out = node.params["spec"]
    for own, other, source in zip((x, y), (y, x), node.inputs, strict=True):
        if source.serial not in cut.axes:
            yield from (out.index(n) for n in own if n in out and n not in other)


def _lost_lanes(node: Node, inner: tuple[int, ...] | None) -> float:
    """By how much longer it takes because vectors along the innermost axis are partly empty."""
    width = policy().regions.width
    if inner is None:
        whole = not flops_of(node) and (not node.type.shape or node.type.shape[-1] >= width)
        return 1.0 if whole else float(width)
    channels = node.type.shape[inner[-1]]
    return -(-channels // width) * width / channels
