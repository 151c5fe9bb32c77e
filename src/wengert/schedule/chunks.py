"""Graph -> Graph worked through in chunks of samples, so that memory does not grow with the batch.

Regions are for what stays in the near cache. Other networks compute whole batches at a time, and
what they keep for the backward pass grows with the batch: weights too large for blocks, loops over
time. Where that takes much memory, all that keeps samples apart, forward and backward, and the sums
over samples at its end become one operator, which runs for one chunk of samples after the other:

    h = tanh(x @ w); g = h.T @ f(h)   ->   for each chunk: h = tanh(x @ w); g += h.T @ f(h)

The program of a chunk is what the graph would be for a batch as small as the chunk: it is optimised
and scheduled like any other, with regions of its own, and threads share the work inside of it. A
loop around it adds up the sums in order, so that they are the same for any number of threads.
What mixes samples, such as a batch norm, ends a chunk as it ends a region.

So the passes run once more here, inside the schedule, and no step before it can do that for them:
whether there are chunks, and how large they are, goes by the memory of the whole program, which is
known when all of it is scheduled and planned. It happens only once: the step `chunks` is for whole
programs alone, never for what is inside of them, and there are two graphs at most for each operator
that it makes, of a chunk and of the rest.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..functions import FUNCTIONS
from ..graph import Constant, Graph, Node, Operator, Variable
from ..machine import policy
from ..ops.indexing import index
from ..ops.op import REGISTRY
from ..passes import optimise
from ..passes.rewriting import apply
from ..trace.tracer import ITEM
from ..transforms.loop import is_loop
from ..types import ArrayType
from .building import BlockBuilder, ScheduledOp, combine_of, flops_of
from .cost_model import nbytes
from .cutting import Cut, Together, Way, axes_along, lengths_of
from .random_bits import counted_part, counts_on, has_whole_blocks
from .regions import tell_regions
from .restrict import BodyCut, Part, blocked, resized, restrict_operator
from .sample_axes import (
    MixedSamples,
    SampleClasses,
    axes_inside,
    cut_loop,
    items_of,
)


class NotNative(Exception):  # noqa: N818 - control flow, not an error
    """NumPy would have to evaluate an operation inside of a chunk."""


# ---------------------------------------------------------------- what is cut


@dataclass
class Chunks:
    """What one operator of kind `chunks` stands for: its inputs are first those that all chunks
    share, then arrays of samples; its results first arrays of samples, then sums over them."""

    axis: str  # in words
    part: Part  # that a chunk is of all samples
    pieces: list[tuple[Graph, int]]  # programs, and how many chunks each is for
    in_axes: list[int]  # of the arrays of samples
    out_axes: list[int]
    combines: list[str]  # how sums are put together

    def told(self) -> str:
        """How the samples are worked through, and what is done with those of a chunk, in words."""
        (graph, count), *rest = self.pieces
        last = f" and one of {self.part.length % self.part.width}" if rest else ""
        head = f"along {self.axis}: {count} chunks of {self.part.width}{last}, one after the other"
        inside = tell_regions(graph).splitlines()
        return "\n".join([f"{head}; in a chunk:", *["  " + line for line in inside]])


class ChunksOp(ScheduledOp):
    """The operation of a program for chunks."""

    name = "chunks"

    def __init__(self, chunks: Chunks):
        self.chunks = chunks


def cut_chunks(graph: Graph, memory: int) -> Graph | None:
    """The graph in chunks of samples, where it needs so many bytes as it is; None: it has none, or
    what one chunk leaves for others is nearly as much."""
    classes = SampleClasses(graph.operators)
    cuts = []
    for kind in _candidates(graph, classes):
        axes = axes_along(graph, classes, kind)
        # of merged axes, some hold several places for each sample
        length = math.gcd(*lengths_of(graph, axes))
        cuts.append(Cut(graph, axes, length, classes.relations, _InChunks(graph, classes, memory)))
    best = max(cuts, key=covered, default=None)
    if best is None or not covered(best) or policy().chunks.least_saving * kept(best) > memory:
        return None
    return best.rewritten()


def covered(cut: Cut) -> int:
    """Bytes of the values that only a chunk of is kept."""
    members = [node for nodes in cut.members.values() for node in nodes]
    return sum(nbytes(node) for node in members if node.serial in cut.axes)


def kept(cut: Cut) -> int:
    """Bytes of the values that are kept for all samples, from one loop over chunks to another or to
    what mixes samples."""
    given = {node.serial for node in cut.graph.outputs if node is not None}
    results = [node for phase in cut.members for node in cut.results_of(phase)[0]]
    between = [node for node in results if node.serial in cut.axes]
    return sum(nbytes(node) for node in between if node.serial not in given)


def _candidates(graph: Graph, classes: SampleClasses) -> list[tuple[int, int]]:
    """The classes of axes that most bytes of computed values have."""
    bytes_of: Counter[tuple[int, int]] = Counter()
    wanted = policy().chunks
    for node in graph.operators:
        if not node.op.multiple:
            long = [a for a, n in enumerate(node.type.shape) if n >= 2 * wanted.least_samples]
            kinds = {classes.find((node.serial, axis)) for axis in long}
            bytes_of.update(dict.fromkeys(kinds, nbytes(node)))
    return [kind for kind, _ in bytes_of.most_common(wanted.most_tried)]


def choose_width(length: int, memory: int, least: int) -> int:
    """Samples in a chunk, for a batch of this length that takes so many bytes: at least so many.

    A number that divides the batch, if there is one of about the right size.

    >>> choose_width(60_000, 60_000 << 16, 16), choose_width(20_011, 20_011 << 16, 16)
    (250, 256)
    """
    wanted = policy().chunks
    lanes = wanted.lanes
    most = wanted.memory * length // max(memory, 1) // lanes * lanes
    if most > least:
        near = range(most, max(most // 2, least - 1), -1)
    else:  # more memory than that in any case: as little as possible
        most, near = least, range(least, 2 * least)
    for width in near:
        if length % width == 0 and -width % lanes <= wanted.most_lost * width:
            return width
    # as even as possible, and the last one smaller than the others
    even = -(-length // -(-length // most))
    return max(-(-even // lanes) * lanes, least)


def use_of_weights(graph: Graph, classes: SampleClasses, axes: dict[int, int]) -> tuple[int, int]:
    """The arithmetic of products along the samples, and the bytes that come from far away for it:
    what samples share. In loops they do so at every step for every part of the samples that threads
    have, unless they are few enough to stay near.
    """
    work = far = 0
    items = items_of(graph)
    for node in graph.operators:
        if flops_of(node) and any(value.serial in axes for value in (node, *node.inputs)):
            work += flops_of(node)
            far += sum(nbytes(v) for v in (node, *node.inputs) if v.serial not in axes)
        elif is_loop(node):
            try:
                own = axes_inside(node, classes, axes, items.get(node.serial, ()))
            except MixedSamples:
                continue
            steps, inside = node.params["length"], node.params["body"].graph
            once, read = use_of_weights(inside, classes.inner[node.serial], own)
            work += steps * once
            near = read <= policy().chunks.most_near
            far += read if near else steps * policy().chunks.parts_in_loops * read
    return work, far


class _InChunks(Way):
    """Chunks of samples: loops over time, and products with large weights, are members too."""

    scatters = repeats = begins_with_kept = True

    def __init__(self, graph: Graph, classes: SampleClasses, memory: int):
        self.classes, self.memory = classes, memory
        self.items = items_of(graph)
        self.loops: dict[int, BodyCut] = {}  # how loops are cut, by serial

    def width(self, cut: Cut) -> int:
        """As many samples as have use for what they share, and little memory."""
        if not cut.length:
            return 0
        work, far = use_of_weights(cut.graph, self.classes, cut.axes)
        wanted = policy().chunks
        has_loops = any(map(is_loop, cut.graph.operators))
        least = wanted.least_in_loops if has_loops else wanted.least_samples
        enough = -(-wanted.least_use * far * cut.length // max(work, 1))
        whole = -(-enough // wanted.lanes) * wanted.lanes
        return choose_width(cut.length, self.memory, max(least, whole))

    def applies(self, cut: Cut) -> bool:
        """Whether there are samples enough for two chunks."""
        return 0 < 2 * cut.width <= cut.length

    def classify(self, cut: Cut, node: Operator) -> None:
        """Loops, and all results of one, go together."""
        if is_loop(node):
            self._classify_loop(cut, node)
        elif node.op is ITEM and node.inputs[0].serial in self.loops:
            cut.take(node)
        else:
            cut.classify(node)

    def _classify_loop(self, cut: Cut, loop: Operator) -> None:
        items = self.items.get(loop.serial, [])
        if not any(node.serial in cut.axes for node in (*loop.inputs, *items)):
            return
        try:
            found = cut_loop(loop, self.classes, cut.axes, items, sizes_of(cut))
        except MixedSamples as why:
            cut.objections[loop.serial] = str(why)
            return
        self.loops[loop.serial] = found
        cut.inside.add(loop.serial)

    def objection(self, cut: Cut, node: Operator, places: dict[int, int]) -> str | None:
        """Why an operator cannot run for a chunk, or for the rest; None: it can."""
        sizes = sizes_of(cut)
        if counts_on(node, cut.axes):
            whole = has_whole_blocks(node, cut.axes[node.serial], sizes)
            return None if whole else "needs all samples"
        found = cut.objection(node, places)
        if found is None and blocked(node, cut.axes, sizes[-1]) is None:
            return "needs all samples"
        return found

    def declines(self, cut: Cut, phase: int, nodes: Sequence[Operator]) -> str | None:
        """What is only elementwise takes little memory."""
        if any(flops_of(node) or is_loop(node) for node in nodes):
            return None
        return "no product or loop goes with it"

    def together(
        self, cut: Cut, members: Sequence[Operator], results: Sequence[Operator]
    ) -> Together:
        """The programs of a chunk and of the rest."""
        results = sorted(results, key=lambda node: node.serial not in cut.axes)
        kept = [node for node in results if node.serial in cut.axes]
        sums = results[len(kept) :]
        combines = ["add" if node.op is ITEM else combine_of(node) for node in sums]
        builders = [
            _ChunkBuilder(members, results, cut.axes, part, self.loops) for part in sizes_of(cut)
        ]
        pieces = [builder.program(combines) for builder in builders]
        counts = [cut.length // cut.width, 1]
        sources = builders[0].ordered_sources()
        chunks = Chunks(
            cut.told_names(),
            cut.part,
            list(zip(pieces, counts, strict=False)),
            [axis for axis in map(builders[0].axis_of, sources) if axis is not None],
            [cut.axes[node.serial] for node in kept],
            combines,
        )
        types = tuple(ArrayType(*node.type[:2]) for node in results)
        return Together(ChunksOp(chunks), sources, results, types)


def sizes_of(cut: Cut) -> list[Part]:
    """A chunk, and the rest if there is one."""
    rest = cut.length % cut.width
    return [cut.part, Part(rest, cut.length)] if rest else [cut.part]


class _ChunkBuilder(BlockBuilder):
    """Builds the program of one chunk."""

    def __init__(
        self,
        members: Sequence[Operator],
        results: Sequence[Operator],
        axes: dict[int, int],
        part: Part,
        loops: dict[int, BodyCut],
    ):
        self.loops = loops
        self.counters: dict[int, int] = {}  # the axis of sources that are made here
        super().__init__(members, results, axes, part.length, part.width)

    def _is_partial(self) -> bool:
        return False  # the rest has a program of its own

    def axis_of(self, source: Node) -> int | None:
        """The axis of samples of what comes from outside; None: all chunks share it."""
        return self.counters.get(source.serial, self.axes.get(source.serial))

    def ordered_sources(self) -> list[Node]:
        """What comes from outside: first what all chunks share."""
        return sorted(self.sources, key=lambda source: self.axis_of(source) is not None)

    def program(self, combines: Sequence[str]) -> Graph:
        """From what is shared, the sums so far and samples to results for samples and new sums."""
        for node in self.members:
            self._add(node)
        variables = dict(zip([s.serial for s in self.sources], self.inputs, strict=True))
        ordered = [variables[source.serial] for source in self.ordered_sources()]
        shared = sum(self.axis_of(source) is None for source in self.sources)
        made = [self.new[node.serial] for node in self.results]
        first = len(made) - len(combines)
        totals = [Variable("", None, ArrayType(*node.type[:2]), False) for node in made[first:]]
        sums: list[Node] = [
            apply(REGISTRY[FUNCTIONS[combine].operation or combine], total, node, params={})
            for combine, total, node in zip(combines, totals, made[first:], strict=True)
        ]
        inputs = [*ordered[:shared], *totals, *ordered[shared:]]
        # once more, now that it is clear how large everything is
        return optimise(Graph(inputs, [*made[:first], *sums]))

    def _add(self, node: Operator) -> None:
        if counts_on(node, self.axes):
            axis = self.axes[node.serial]
            made = counted_part(node, axis, self.part, self._first_input, self._first_of)
        elif node.serial in self.loops or node.op is ITEM:
            made = self._resized(node)
        else:
            super()._add(node)
            return
        if node.serial in self.axes:
            self.own[made.serial] = self.axes[node.serial]
        self.new[node.serial] = made

    def _resized(self, node: Operator) -> Operator:
        sources = tuple(self._input(node, number) for number in range(len(node.inputs)))
        cut = self.loops.get(node.serial)
        found = restrict_operator(node, sources, self.axes, self.part, cut)
        if found is None:
            raise NotNative
        return found

    def _first_input(self, node: Operator) -> Node:
        return self._input(node, 0)

    def _first_of(self, extent: int) -> Node:
        """Where along an axis of this length the chunk begins: an array of numbers outside, of
        which each chunk reads its first."""
        numbers = np.arange(self.length, dtype=np.uint64) * np.uint64(extent)
        places = Constant(numbers // np.uint64(self.length))
        self.counters[places.serial] = 0
        own = self._variable("", resized(places.type, 0, self.part), 0)
        self.sources.append(places)
        self.inputs.append(own)
        return apply(index, own, params={"key": (0,)})
