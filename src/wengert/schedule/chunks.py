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
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..graph import Graph, Node, Operator, Variable
from ..loops import (
    Affine,
    Buffer,
    Carried,
    Host,
    Kernel,
    Literal,
    LoopProgram,
    Nest,
    Repeat,
    Rows,
    Store,
    identity_of,
)
from ..ops.op import REGISTRY
from ..passes import optimise
from ..passes.rewriting import apply
from ..trace.tracer import ITEM
from ..types import ArrayType
from .building import BlockBuilder, blocked, combine_of, flops_of
from .cutting import Cutter, adds_to_zeros
from .inplace import may_share
from .lowering import loop_variables
from .memory import plan
from .samples import BodyCut, MixedSamples, SampleClasses, cut_loop, is_loop, resized_operator
from .weighing import nbytes

# Programs that need less memory than this, in bytes, are left as they are: it is what a server's
# last-level cache holds, and nobody misses it.
MOST_MEMORY = 1 << 26
# What a chunk is to need, and how many samples it has: fewer than the least do too little with each
# weight that is read, and with more than the most a product does not get faster.
CHUNK_MEMORY = 1 << 24
LEAST_SAMPLES, MOST_SAMPLES = 16, 512
# Samples in a chunk are a multiple of this if possible, so that no vector is partly empty.
GRAIN = 16
# By how much less memory must be needed.
LEAST_SAVING = 2
# Axes that are looked at.
MOST_TRIED = 2

Schedule = Callable[..., LoopProgram]
NewBuffer = Callable[[np.dtype, tuple[int, ...]], Buffer]


class NotNative(Exception):  # noqa: N818 - control flow, not an error
    """NumPy would have to evaluate an operation inside of a chunk."""


def memory_of(program: LoopProgram) -> int:
    """Bytes that a planned program needs, the bodies of its loops included."""
    loops = [kernel for kernel in program.kernels if isinstance(kernel, Repeat)]
    inside = [memory_of(body) * loop.parts for loop in loops for body in loop.bodies]
    return program.planned_bytes + max(inside, default=0)


# ---------------------------------------------------------------- what is cut


@dataclass
class Chunks:
    """What one operator of kind `chunks` stands for: its inputs are first those that all chunks
    share, then arrays of samples; its results first arrays of samples, then sums over them."""

    axis: str  # in words
    width: int  # samples in a chunk
    pieces: list[tuple[Graph, int]]  # programs, and how many chunks each is for
    in_axes: list[int]  # of the arrays of samples
    out_axes: list[int]
    combines: list[str]  # how sums are put together

    def told(self) -> str:
        """How the samples are worked through, in words."""
        (_, count), *rest = self.pieces
        last = f" and one of {self._last_width()}" if rest else ""
        return f"along {self.axis}: {count} chunks of {self.width}{last}, one after the other"

    def _last_width(self) -> int:
        graph = self.pieces[-1][0]
        rows = graph.inputs[len(graph.inputs) - len(self.in_axes) :]
        return int(rows[0].type.shape[self.in_axes[0]])


class ChunksOp:
    """The operation of a program for chunks: it is made by the scheduler, for the scheduler."""

    name = "chunks"
    multiple = True
    loops = None
    compose = None

    def __init__(self, chunks: Chunks):
        self.chunks = chunks


def cut_chunks(graph: Graph, memory: int) -> Graph | None:
    """The graph in chunks of samples, where it needs so many bytes as it is; None: it has none."""
    classes = SampleClasses(graph.operators)
    cutters = [ChunkCutter(graph, classes, kind, memory) for kind in _candidates(graph, classes)]
    best = max(cutters, key=lambda cutter: cutter.covered, default=None)
    return best.cut() if best is not None and best.covered else None


def _candidates(graph: Graph, classes: SampleClasses) -> list[tuple[int, int]]:
    """The classes of axes that most bytes of computed values have."""
    bytes_of: Counter[tuple[int, int]] = Counter()
    for node in graph.operators:
        if not node.op.multiple:
            axes = [a for a, n in enumerate(node.type.shape) if n >= 2 * LEAST_SAMPLES]
            bytes_of.update(
                dict.fromkeys([classes.find((node.serial, a)) for a in axes], nbytes(node))
            )
    return [kind for kind, _ in bytes_of.most_common(MOST_TRIED)]


def choose_width(length: int, memory: int) -> int:
    """Samples in a chunk, for a batch of this length that takes so many bytes.

    A number that divides the batch, if there is one of about the right size.

    >>> choose_width(60_000, 60_000 << 16), choose_width(20_011, 20_011 << 16)
    (240, 256)
    """
    most = CHUNK_MEMORY * length // max(memory, 1)
    most = max(LEAST_SAMPLES, min(most, MOST_SAMPLES)) // GRAIN * GRAIN
    whole = [n for n in range(GRAIN, most + 1, GRAIN) if length % n == 0 and 2 * n > most]
    return whole[-1] if whole else min(most, _even_width(length, most))


def _even_width(length: int, most: int) -> int:
    """Chunks of equal size as far as possible, where the last one is smaller than the others."""
    even = -(-length // -(-length // most))
    return -(-even // GRAIN) * GRAIN


class ChunkCutter(Cutter):
    """Cuts a graph into chunks along one class of axes."""

    classes: SampleClasses

    def __init__(self, graph: Graph, classes: SampleClasses, kind: tuple[int, int], memory: int):
        self.memory = memory
        self.loops: dict[int, BodyCut] = {}  # how loops are cut, by serial
        self.items: dict[int, list[Operator]] = {}
        for node in graph.operators:
            if node.op is ITEM:
                self.items.setdefault(node.inputs[0].serial, []).append(node)
        super().__init__(graph, classes, kind)

    @property
    def covered(self) -> int:
        """Bytes of the values that only a chunk of is kept."""
        members = [node for nodes in self.members.values() for node in nodes]
        return sum(nbytes(node) for node in members if node.serial in self.axes)

    def _choose_width(self) -> int:
        return choose_width(self.length, self.memory) if self.length else 0

    @property
    def widths(self) -> list[int]:
        """The numbers of samples that a chunk can have."""
        rest = self.length % self.width
        return [self.width, rest] if rest else [self.width]

    # ------------------------------------------------------------ what belongs together

    def _classify_all(self) -> None:
        super()._classify_all()
        if self.length < 2 * self.width:  # also where the axes of one class differ in length
            self.inside, self.sums = set(), set()

    def _classify(self, node: Operator) -> None:
        if not self.width:
            return
        if is_loop(node):
            self._classify_loop(node)
        elif node.op is ITEM and node.inputs[0].serial in self.loops:
            (self.inside if node.serial in self.axes else self.sums).add(node.serial)
        else:
            super()._classify(node)

    def _classify_loop(self, loop: Operator) -> None:
        items = self.items.get(loop.serial, [])
        if not any(node.serial in self.axes for node in (*loop.inputs, *items)):
            return
        try:
            cut = cut_loop(loop, self.classes, self.axes, items, self.widths)
        except MixedSamples as why:
            self.objections[loop.serial] = str(why)
            return
        self.loops[loop.serial] = cut
        self.inside.add(loop.serial)

    def _objection(self, node: Operator, places: dict[int, int]) -> str | None:
        found = super()._objection(node, places)
        if found is None and blocked(node, self.axes, self.widths[-1]) is None:
            return "needs all samples"
        return found

    def _can_sum(self, node: Operator, places: dict[int, int]) -> bool:
        return adds_to_zeros(node, places) or super()._can_sum(node, places)

    def _phases(self) -> dict[int, int]:
        phases = super()._phases()
        for loop, items in self.items.items():  # all results of a loop come from one place
            phases.update({item.serial: phases[loop] for item in items})
        return phases

    def _suits(self, phase: int, nodes: Sequence[Operator]) -> bool:
        return any((flops_of(n) or is_loop(n)) and n.serial in self.inside for n in nodes)

    # ------------------------------------------------------------ the new graph

    def _add_region(self, phase: int, new: dict[int, Node]) -> None:
        results, members = self._results_of(phase)
        if not results:
            return
        results.sort(key=lambda node: node.serial not in self.axes)
        kept = [node for node in results if node.serial in self.axes]
        combines = [self._combine(node) for node in results[len(kept) :]]
        builders = [
            _ChunkBuilder(members, results, self.axes, width, self.loops) for width in self.widths
        ]
        pieces = [builder.program(combines) for builder in builders]
        counts = [self.length // self.width, 1]
        sources = builders[0].ordered_sources()
        chunks = Chunks(
            self._axis_told(),
            self.width,
            list(zip(pieces, counts, strict=False)),
            [self.axes[source.serial] for source in sources if source.serial in self.axes],
            [self.axes[node.serial] for node in kept],
            combines,
        )
        types = tuple(ArrayType(*node.type[:2]) for node in results)
        inputs = tuple(new[source.serial] for source in sources)
        operator = Operator(ChunksOp(chunks), inputs, {}, None, types)
        for number, node in enumerate(results):
            item = Operator(ITEM, (operator,), {"index": number}, None, types[number])
            item.source = node.source
            new[node.serial] = item

    def _combine(self, node: Operator) -> str:
        return "add" if node.op is ITEM else combine_of(node)


class _ChunkBuilder(BlockBuilder):
    """Builds the program of one chunk."""

    def __init__(
        self,
        members: Sequence[Operator],
        results: Sequence[Operator],
        axes: dict[int, int],
        width: int,
        loops: dict[int, BodyCut],
    ):
        self.loops = loops
        super().__init__(members, results, axes, width, width)

    def ordered_sources(self) -> list[Node]:
        """What comes from outside: first what all chunks share."""
        return sorted(self.sources, key=lambda source: source.serial in self.axes)

    def program(self, combines: Sequence[str]) -> Graph:
        """From what is shared, the sums so far and samples to results for samples and new sums."""
        for node in self.members:
            self._add(node)
        variables = dict(zip([s.serial for s in self.sources], self.inputs, strict=True))
        ordered = [variables[source.serial] for source in self.ordered_sources()]
        shared = sum(source.serial not in self.axes for source in self.sources)
        made = [self.new[node.serial] for node in self.results]
        first = len(made) - len(combines)
        totals = [Variable("", None, ArrayType(*node.type[:2]), False) for node in made[first:]]
        sums: list[Node] = [
            apply(REGISTRY[combine], total, node, params={})
            for combine, total, node in zip(combines, totals, made[first:], strict=True)
        ]
        inputs = [*ordered[:shared], *totals, *ordered[shared:]]
        # once more, now that it is clear how large everything is
        return optimise(Graph(inputs, [*made[:first], *sums]))

    def _add(self, node: Operator) -> None:
        if node.serial not in self.loops and node.op is not ITEM:
            super()._add(node)
            return
        sources = tuple(self._input(node, number) for number in range(len(node.inputs)))
        cut = self.loops.get(node.serial)
        made = resized_operator(node, sources, self.axes, self.width, cut)
        if made is None:
            raise NotNative
        if node.serial in self.axes:
            self.own[made.serial] = self.axes[node.serial]
        self.new[node.serial] = made


# ---------------------------------------------------------------- loops


def chunk_kernels(
    node: Operator,
    inputs: Sequence[Buffer],
    outputs: Sequence[Buffer],
    schedule: Schedule,
    new_buffer: NewBuffer,
) -> list[Kernel]:
    """A loop over the chunks from buffers to buffers, and one for the rest."""
    chunks: Chunks = node.op.chunks
    kept, sums = outputs[: len(chunks.out_axes)], outputs[len(chunks.out_axes) :]
    shared = len(inputs) - len(chunks.in_axes)
    strides = [buffer.strides for buffer in (*inputs[:shared], *sums, *inputs[shared:])]
    programs = [
        plan(schedule(graph, strides, [buffer.strides for buffer in outputs]))
        for graph, _ in chunks.pieces
    ]
    if any(isinstance(kernel, Host) for program in programs for kernel in program.kernels):
        raise NotNative
    loops = [_Loop(program, shared, len(kept)) for program in programs]
    made: list[Kernel] = []
    places: list[list[Buffer]] = []  # of each sum, before the first loop and after each
    for number, (total, combine) in enumerate(zip(sums, chunks.combines, strict=True)):
        apart = not all(loop.shares(number) for loop in loops)
        others = [new_buffer(total.dtype, total.shape) if apart else total for _ in loops]
        places.append([*others, total])
        made.append(_filled(others[0], combine, node))
    start = 0
    for number, (loop, (_, count)) in enumerate(zip(loops, chunks.pieces, strict=True)):
        loop.fixed = list(map(Rows, inputs[:shared]))
        loop.rows = list(_moving(inputs[shared:], chunks.in_axes, start, chunks.width))
        loop.results = list(_moving(kept, chunks.out_axes, start, chunks.width))
        pairs = [(line[number], line[number + 1]) for line in places]
        made.append(loop.kernel(node, count, pairs, new_buffer))
        start += count * chunks.width
    return made


def _filled(buffer: Buffer, combine: str, node: Operator) -> Nest:
    """What a sum begins with."""
    variables = loop_variables(buffer.shape)
    place = buffer.flat(tuple(Affine.of(var) for var in variables))
    value = Literal(identity_of(combine, buffer.dtype), buffer.dtype)
    return Nest(variables, [Store(buffer, place, value)], "zeros", [node])


def _moving(
    buffers: Sequence[Buffer], axes: Sequence[int], start: int, width: int
) -> Iterator[Rows]:
    """Arrays of samples, from chunk to chunk; the first chunk begins with the sample `start`."""
    for buffer, axis in zip(buffers, axes, strict=True):
        view = buffer
        if start:
            view = Buffer(buffer.name, buffer.dtype, buffer.shape, buffer.strides, buffer.kind)
            view.base, view.start = buffer, Affine(start * buffer.strides[axis])
        yield Rows(view, width * buffer.strides[axis])


class _Loop:
    """The loop around the program of a chunk."""

    def __init__(self, program: LoopProgram, shared: int, kept: int):
        self.program, self.shared, self.kept = program, shared, kept
        self.first_row = shared + len(program.outputs) - kept
        self.before = program.inputs[shared : self.first_row]
        self.after = program.outputs[kept:]
        self.fixed: list[Rows] = []
        self.rows: list[Rows] = []
        self.results: list[Rows] = []

    def shares(self, number: int) -> bool:
        """Whether a sum can stay where it is from chunk to chunk."""
        return may_share(self.program, self.after[number], self.before[number])

    def kernel(
        self,
        node: Operator,
        count: int,
        sums: Sequence[tuple[Buffer, Buffer]],
        new_buffer: NewBuffer,
    ) -> Repeat:
        """The loop over so many chunks; each of the sums lies in one buffer before and in one after
        it. Where that is the same buffer, it is both an argument and a result of every chunk."""
        staying = [k for k, (before, after) in enumerate(sums) if before is after]
        moving = [k for k, (before, after) in enumerate(sums) if before is not after]
        program = self.program
        program.inputs = [
            *program.inputs[: self.shared],
            *[self.before[k] for k in (*staying, *moving)],
            *program.inputs[self.first_row :],
        ]
        program.outputs = [
            *[self.after[k] for k in moving],
            *program.outputs[: self.kept],
            *[self.after[k] for k in staying],
        ]
        in_place = [Rows(sums[k][1]) for k in staying]
        return Repeat(
            count,
            False,
            program,
            [*self.fixed, *in_place],
            [_carried(*sums[k], new_buffer) for k in moving],
            self.rows,
            [*self.results, *in_place],
            [],
            label="chunks",
            nodes=[node],
        )


def _carried(before: Buffer, after: Buffer, new_buffer: NewBuffer) -> Carried:
    spare = [Rows(new_buffer(after.dtype, after.shape)) for _ in range(2)]
    return Carried(Rows(before), Rows(after), spare=tuple(spare))
