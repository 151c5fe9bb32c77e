"""The program of one block of samples -> the batch loop.

Sums over samples go, group by group, to memory of their own and are joined at the end, or group by
group in their order where there are many. How a block lies, its `BlockLayout` says. Mostly the
innermost axis is that of the samples: one SIMD lane a sample. So every operation is vectorised in
the same way, whatever its channels, windows and edges are, without shuffles and without remainders;
what comes from outside is transposed on the way in, and weights are read as they are. For blocks
with channels innermost see `channels`, for those that lie as outside `matrices`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from ..graph import Node, Operator
from ..loops import (
    BOOL,
    Affine,
    Apply,
    Blocks,
    Branch,
    Buffer,
    Contraction,
    Expr,
    Index,
    IndexValue,
    InRange,
    Kernel,
    Literal,
    Load,
    Loop,
    MemoryKind,
    Nest,
    Store,
    Transfer,
    Var,
    add_exactly,
    c_strides,
)
from ..machine import policy
from .building import Region, flops_of, in_parts
from .channels import Weights, as_in_memory
from .fusion import Scheduler
from .inner import filled, inside
from .lowering import copied, loop_variables
from .memory import buffers_of, root
from .parallel import parallelise
from .shaping import shape_nest
from .strided import strides_under, strides_with_inner

# The number of blocks along an axis of any length, for what only asks whether it is more than one.
ANY_NUMBER = 1 << 32


class BlockScheduler(Scheduler):
    """Schedules the program of one block."""

    flags_continue = True

    def __init__(
        self,
        outer: Scheduler,
        region: Region,
        inputs: Sequence[Buffer],
        outputs: Sequence[Buffer],
    ):
        summed = frozenset(  # the results that are sums over all samples
            node.serial
            for node, axis in zip(region.graph.outputs, region.out_axes, strict=True)
            if node is not None and axis is None
        )
        task = inside(outer.task, "block", region.graph, continued=summed)
        super().__init__(task, region.graph)
        self.outer, self.region = outer, region
        self.outer_inputs, self.outer_outputs = inputs, outputs
        self.constants = outer.constants
        self.has_channels = region.has_channels
        self.weights = Weights(outer)
        blocks = -(-region.length // region.width)
        self.groups = region.groups
        if region.layout.any_length:
            sums = zip(outputs, region.out_axes, strict=True)
            size = sum(buffer.nbytes for buffer, axis in sums if axis is None)
            most, blocks = policy().regions, ANY_NUMBER
            self.groups = min(most.many_groups, max(1, most.most_parts_any_length // max(size, 1)))
        self.group = Var("group", self.groups)
        self.block = Var("block", blocks)
        length = outer.length if region.layout.any_length else None
        live = Var("live", region.width + 1)
        self.blocks = Blocks(self.block, region.length, region.width, live, length)
        # those of one group, counted from 0 on
        self.count = Var("count", -(-blocks // max(self.groups, 1)))
        # many groups: each has its part of a sum while it is under way, and then it is merged
        self.merges_in_order = self.groups > policy().regions.groups_apart
        self.parts: list[Buffer] = []
        self.starts: list[Nest] = []
        self.merges: list[Nest] = []
        self.private: list[Buffer] = []
        self.fills: list[Nest] = []
        self.unfilled: list[tuple[Buffer, str]] = []  # large parts of sums, and how they combine
        self.joins: list[Nest] = []
        self.long_sums: list[Buffer] = []  # parts of sums of floating-point numbers
        self.folds: list[Nest] = []
        self.ends: list[Nest] = []
        self.flags: list[tuple[Buffer, Operator]] = []

    def loop(self, node: Operator) -> Loop:
        """Groups of blocks, which threads share, and in each group one block after the other."""
        kernels = self.task.run(self.task, self.run()).kernels
        self._begin_sums(kernels)
        run = self._add_totals()
        body: list[Kernel] = []
        for kernel in kernels:
            body += self._shaped(kernel) if isinstance(kernel, Nest) else [kernel]
        used = {root(buffer) for kernel in body for buffer in buffers_of(kernel)}
        blocks = Loop(
            self.block,
            tuple(body),
            begin=tuple(part for fill in self.fills for part in shape_nest(fill)),
            join=tuple(self.ends),
            private=tuple(buffer for buffer in self.private if buffer in used),
            share=self.group,
            count=self.count,
            blocks=self.blocks,
            run=run,
            fold=tuple(self.folds),
        )
        begin, merges, joins = (
            [part for nest in nests for part in shape_nest(nest)]
            for nests in (self.starts, self.merges, self.joins)
        )
        return Loop(
            self.group,
            (blocks,),
            parallel=True,
            begin=tuple(begin),
            join=tuple(parallelise(join, awake=True) for join in joins),
            private=tuple(self.parts),
            fold=tuple(merges),
            label="batch loop",
            nodes=(node,),
            length=self.blocks.length,
            cost=sum(map(_cost, self.graph.operators)) // self.region.width,
        )

    def _begin_sums(self, kernels: list[Kernel]) -> None:
        """Have products begin the large sums that they make, and fill the memory of all others."""
        for own, combine in self.unfilled:
            writers = [k for k, kernel in enumerate(kernels) if own in kernel.writes]
            product = kernels[writers[0]] if len(writers) == 1 else None
            if not isinstance(product, Contraction):
                self._fill(own, combine)
                continue
            begin = replace(product, accumulates=False)
            if self.count.extent > 1:
                first = InRange(Affine.of(self.count), 0, 1)
                kernels[writers[0]] = Branch(first, (begin,), (product,))
            else:  # there is but one block in a group
                kernels[writers[0]] = begin

    def _shaped(self, nest: Nest) -> list[Nest]:
        """The nests to generate code for."""
        return shape_nest(as_in_memory(nest) if self.has_channels else nest)

    # ------------------------------------------------------------ layouts

    def _name(self, letter: str) -> str:
        return self.outer._name(letter)

    def _standard_strides(self, node: Node) -> tuple[int, ...]:
        return strides_with_inner(node.type.shape, self.region.inner.get(node.serial, ()))

    def _temporary(self, node: Node) -> Buffer:
        return self._own_buffer(node.type.dtype, node.type.shape, self._standard_strides(node))

    def _own_buffer(
        self, dtype: np.dtype, shape: tuple[int, ...], strides: tuple[int, ...]
    ) -> Buffer:
        """Memory for a value of one block."""
        self.private.append(Buffer(self._name("t"), dtype, shape, strides, MemoryKind.ARENA))
        return self.private[-1]

    def _schedule_alias(self, node: Operator) -> None:
        if not self.has_channels:
            super()._schedule_alias(node)
            return
        source = self.buffer_of(node.inputs[0])
        strides = strides_under(source.shape, source.strides, node.type.shape)
        self.kernel_of[node.serial] = self.kernel_of.get(node.inputs[0].serial, -1)
        if strides is None:
            self.kernel_of[node.serial] = len(self.kernels)
            plain = self._own_buffer(source.dtype, source.shape, c_strides(source.shape))
            self._copy(node.inputs[0], source, plain)
            source, strides = plain, c_strides(node.type.shape)
        self.buffers[node.serial] = source.view(shape=node.type.shape, strides=strides)

    def _schedule_product(self, node: Operator) -> None:
        super()._schedule_product(node)
        kernel = self.kernels[-1]
        if self.has_channels and isinstance(kernel, Contraction):
            shared = [source.serial not in self.region.axes for source in node.inputs]
            self.kernels[-1] = self.weights.read_by(kernel, shared)

    # ------------------------------------------------------------ in and out

    def _input_buffers(self) -> list[Buffer]:
        region = self.region
        variables = self.graph.inputs
        if region.partial:
            self._schedule_existence(variables[-1])
        if region.position is not None:
            self._schedule_position(variables[region.position])
        for variable, axis, outer in zip(
            variables, region.in_axes, self.outer_inputs, strict=False
        ):
            if axis is None:
                self.buffers[variable.serial] = outer
                continue
            if self.region.layout.direct:
                self.buffers[variable.serial] = self._block_of(outer, axis)
                continue
            inner = self.buffers[variable.serial] = self._temporary(variable)
            self._schedule_transfer(outer, inner, axis, True)
        return []

    def _schedule_transfer(self, outer: Buffer, inner: Buffer, axis: int, inward: bool) -> None:
        region, block = self.region, self._block_of(outer, axis)
        # of any length: axes in front of this one are as far apart as it is long
        front = range(axis) if region.layout.any_length else ()
        scaled = {a: block.strides[a] // region.length for a in front}
        plain = not region.inner
        self.kernels.append(
            Transfer(block, inner, axis, inward, self.blocks, scaled=scaled, plain=plain)
        )

    def _block_of(self, outer: Buffer, axis: int) -> Buffer:
        """The part of an array that belongs to the block."""
        shape = list(outer.shape)
        shape[axis] = self.region.width
        first = Affine.of(self.block) * (self.region.width * outer.strides[axis])
        return outer.view(first, tuple(shape))

    def _schedule_existence(self, variable: Node) -> None:
        """Which samples of the block exist."""
        inner = self.buffers[variable.serial] = self._temporary(variable)
        lane = Var("lane", self.region.width)
        places = IndexValue(Affine.of(lane)), IndexValue(Affine.of(self.blocks.live))
        store = Store(inner, Affine.of(lane), Apply("less", places, BOOL))
        self.kernels.append(Nest([lane], [store], "samples that exist"))

    def _schedule_position(self, variable: Node) -> None:
        """Where along the axis the samples of the block are."""
        inner = self.buffers[variable.serial] = self._temporary(variable)
        lane = Var("lane", self.region.width)
        place = Affine.of(lane) + Affine.of(self.block) * self.region.width
        store = Store(inner, Affine.of(lane), IndexValue(place))
        self.kernels.append(Nest([lane], [store], "positions of the samples"))

    def _output_buffers(self) -> list[tuple[Node, Buffer]]:
        region, direct = self.region, self.region.layout.direct
        for number, (node, axis, outer, combine) in enumerate(
            zip(
                self.graph.outputs,
                region.out_axes,
                self.outer_outputs,
                region.combines,
                strict=True,
            )
        ):
            assert isinstance(node, Operator)
            if in_parts(region, number):
                self.buffers[node.serial] = self._part(outer, "add")
            elif axis is None:
                assert combine is not None
                strides = self._standard_strides(node)
                self.buffers[node.serial] = self._partial(outer, combine, strides)
            # arrays that the caller sees may still be read as something else
            elif direct and outer.kind is MemoryKind.ARENA and self._owns_memory(node):
                self.buffers.setdefault(node.serial, self._block_of(outer, axis))
        return []

    def _copy_outputs(self, outputs: Sequence[tuple[Node, Buffer]]) -> None:
        for node, axis, outer in zip(
            self.graph.outputs, self.region.out_axes, self.outer_outputs, strict=True
        ):
            if axis is None:
                continue
            assert node is not None
            if not self.region.layout.direct:
                self._schedule_transfer(outer, self._contiguous(node), axis, False)
            elif root(self.buffer_of(node)) is not root(outer):
                self._copy(node, self.buffer_of(node), self._block_of(outer, axis))

    def _partial(self, outer: Buffer, combine: str, strides: tuple[int, ...] = ()) -> Buffer:
        """Memory for the part of a sum that one group adds up, begun and joined."""
        if self.merges_in_order:
            return self._merged(outer, combine, strides)
        shape = (self.groups, *outer.shape)
        places = (max(prod(outer.shape), 1), *strides)
        parts = Buffer(f"{outer.name}_parts", outer.dtype, shape, places, MemoryKind.ARENA)
        variables = loop_variables(outer.shape)
        index: Index = tuple(Affine.of(var) for var in variables)
        number = Var("g", self.groups)
        value = Load(parts, parts.flat((Affine.of(number), *index)))
        join = Store(outer, outer.flat(index), value, combine)
        self.joins.append(Nest([*variables, number], [join], "join"))
        return self._part(parts, combine)

    def _part(self, parts: Buffer, combine: str) -> Buffer:
        """The part of a sum that belongs to the group, begun with nothing."""
        shape = parts.shape[1:]
        own = parts.view(Affine.of(self.group) * prod(shape), shape, parts.strides[1:])
        return self._begun(own, combine)

    def _merged(self, outer: Buffer, combine: str, strides: tuple[int, ...]) -> Buffer:
        """Memory for the part of a sum that a group has while it is under way, begun and merged."""
        own = self._part_under_way(outer.dtype, outer.shape, strides or c_strides(outer.shape))
        total = outer
        if outer.strides != own.strides:  # merged as it lies, and only then brought into order
            total = Buffer(self._name("t"), own.dtype, own.shape, own.strides, MemoryKind.ARENA)
            self.joins.append(copied(total, outer, [], "join"))
        self.starts.append(filled(total, combine, "fill"))
        most = policy().regions.merged_at_once
        for start in range(0, own.size, most):
            place = Affine.of(var := Var("k", min(most, own.size - start))) + start
            merge = Store(total, place, Load(own, place), combine, continues=True)
            self.merges.append(Nest([var], [merge], "merge"))
        return self._begun(own, combine)

    def _part_under_way(
        self, dtype: np.dtype, shape: tuple[int, ...], strides: tuple[int, ...]
    ) -> Buffer:
        self.parts.append(Buffer(self._name("t"), dtype, shape, strides, MemoryKind.ARENA))
        return self.parts[-1]

    def _begun(self, own: Buffer, combine: str) -> Buffer:
        """The part of a sum that belongs to a group, which begins with nothing."""
        if own.nbytes >= policy().regions.large_part and not self.region.layout.any_length:
            self.unfilled.append((own, combine))
        else:
            self._fill(own, combine)
        if combine == "add" and own.dtype.kind == "f":
            self.long_sums.append(own)
        return own

    def _add_totals(self) -> int:
        """Have groups with many blocks add up their sums without loss; after how many each time."""
        most = policy().regions
        small = [own for own in self.long_sums if own.nbytes <= most.largest_total]
        few = sum(own.nbytes for own in small) <= most.few_bytes
        run = most.run if few else most.long_run
        if self.block.extent > 2 * run * self.groups:
            for own in small:
                self._add_total(own)
        return run

    def _add_total(self, own: Buffer) -> None:
        size, dtype = own.size, own.dtype
        both = self._total(size, dtype)
        self._fill(both, "add")
        var = Var("k", size)
        here, lost_at = Affine.of(var), Affine.of(var) + size
        total, lost, part = Load(both, here), Load(both, lost_at), Load(own, here)

        def apply(name: str, x: Expr, y: Expr) -> Expr:
            return Apply(name, (x, y), dtype)

        after, more = add_exactly(apply, total, part)
        left = apply("add", lost, more)
        # what was lost comes first: with it all that is read has been read
        put_lost, put_total = Store(both, lost_at, left), Store(both, here, after)
        restart = Store(own, here, Literal(dtype.type(0), dtype))
        self.folds.append(Nest([var], [put_lost, put_total, restart], "fold"))
        # infinities have lost nothing that could be told
        sane = Apply("equal", (left, left), BOOL)
        whole = Apply("where", (sane, apply("add", after, left), after), dtype)
        self.ends.append(Nest([var], [Store(own, here, whole)], "end of a group"))

    def _total(self, size: int, dtype: np.dtype) -> Buffer:
        """Memory of a group for a total and what it has lost."""
        if self.merges_in_order:
            return self._part_under_way(dtype, (2, size), (size, 1))
        shape = (self.groups, 2, size)
        memory = Buffer(self._name("t"), dtype, shape, c_strides(shape), MemoryKind.ARENA)
        return memory.view(Affine.of(self.group) * (2 * size), shape[1:], memory.strides[1:])

    def _fill(self, own: Buffer, combine: str) -> None:
        self.fills.append(filled(own, combine, "fill"))

    # ------------------------------------------------------------ checks

    def _new_flag(self) -> Buffer:
        self.last_flag = self.outer._new_flag()
        return self._partial(self.last_flag, "logical_and")

    def _add_check(self, flag: Buffer, node: Operator) -> None:
        self.flags.append((self.last_flag, node))


def _cost(node: Operator) -> int:
    """A rough cost of an operator, in elements."""
    return flops_of(node) // policy().costs.flops or int(node.type.size)
