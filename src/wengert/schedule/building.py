"""The members of a region -> the program of one block of samples.

`regions` decides which operators run together along an axis. Here they are built anew for a block
of that axis: every value is as long as the block is, what comes from outside is an input, and where
the last block may be partly empty, samples that do not exist are kept out of all sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ..graph import Constant, Graph, Node, Operator, Variable
from ..loops import BOOL, Product, Scatter, identity_of
from ..machine import policy
from ..ops.elementwise import select
from ..ops.layout import broadcast_to, reshape
from ..passes.lengths import INDEX, only_counts
from ..types import ArrayType
from .lowering import lowering_of
from .restrict import Part, resized, restrict_constant, restrict_operator


@dataclass(frozen=True)
class BlockLayout:
    """How a block of samples lies in memory: all that is done differently goes by this."""

    words: str = ""
    # What lies innermost, one SIMD lane each: samples, channels, or what does so outside ("").
    inner: str = ""
    # Whether values outside are read and written where they lie, and not brought in and out.
    direct: bool = False
    any_length: bool = False  # whether the length of the axis is known only at run time


LANES = BlockLayout("one lane a sample", "samples")
CHANNELS = BlockLayout("one lane a channel", "channels", direct=True)
MATRICES = BlockLayout("blocks as they lie", direct=True)


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
    layout: BlockLayout
    # The axes of values in a block that lie innermost, by serial, the last one closest: samples or
    # channels, one lane each. All other axes, and other values, lie as outside.
    inner: dict[int, tuple[int, ...]]
    # The input that says where in the whole each sample of the block is, by its number, if any.
    position: int | None = None
    # The groups of blocks, where the parts of a sum that they leave are the result: (groups, ...).
    groups: int = 0

    @property
    def has_channels(self) -> bool:
        """Whether channels lie innermost, of one value at least."""
        return self.layout.inner == "channels" and bool(self.inner)


def groups_of(blocks: int, time: float, sums: int, least: int | None = None) -> int:
    """Into how many groups blocks are put that take so many microseconds together and have so many
    bytes of sums: by these sizes alone, as many as threads may share.

    >>> groups_of(7, 1500.0, 150_000), groups_of(625, 1.4e5, 150_000), groups_of(7, 10.0, 150_000)
    (7, 209, 4)
    """
    wanted = policy().regions
    joining = sums / policy().times.near_bytes
    many = time / max(wanted.least_group, wanted.merges_in_group * joining)
    groups = _evened(blocks, min(wanted.most_groups, many))
    if groups > wanted.groups_apart:
        return groups
    if least is None:
        least = wanted.few_groups if blocks < 4 * wanted.many_groups else wanted.many_groups
    some = time / max(wanted.least_group, wanted.joins_in_group * joining)
    most = min(wanted.groups_apart, wanted.most_parts // max(sums, 1), some)
    return max(_evened(blocks, most), min(blocks, least))


def _evened(blocks: int, most: float) -> int:
    """At most so many groups: of as many blocks each, or one less."""
    return -(-blocks // -(-blocks // max(1, int(most))))


def in_parts(region: Region, number: int) -> bool:
    """Whether a result consists of the parts of a sum; of many it is the sum itself."""
    few = 1 < region.groups <= policy().regions.groups_apart
    return few and region.combines[number] == "add"


def block_time(work: float, elements: float) -> float:
    """Microseconds, on one thread, of so much arithmetic in products and so many elements."""
    times = policy().times
    return work / times.operations + elements / (times.elements * times.near)


class ScheduledOp:
    """An operation that is made by the scheduler, for the scheduler."""

    multiple = True
    reads_views = True  # arguments may lie in memory with any strides
    loops = None
    compose = None
    cost = None


class RegionOp(ScheduledOp):
    """The operation of a region."""

    name = "region"

    def __init__(self, region: Region):
        self.region = region


def flops_of(node: Node) -> int:
    """The arithmetic of a product; 0 for any other node."""
    if not isinstance(node, Operator) or not isinstance(node.op.loops, Product):
        return 0
    x, y, _ = node.params["spec"]
    extents = dict(zip(x, node.inputs[0].type.shape, strict=True))
    extents.update(zip(y, node.inputs[1].type.shape, strict=True))
    return 2 * prod(extents.values())


def has_loops(node: Operator) -> bool:
    """Whether the operation can be computed for a part of its samples."""
    loops = lowering_of(node)
    return loops is not None and (not isinstance(loops, Product) or sum_of(node) is not None)


def sum_of(node: Operator) -> str | None:
    """How the parts of a sum over the axis are put together."""
    loops = lowering_of(node)
    if isinstance(loops, Product):
        same = {node.type.dtype, *[source.type.dtype for source in node.inputs]}
        return "add" if len(same) == 1 and node.type.dtype.kind == "f" else None
    return getattr(loops, "kind", None)


def combine_of(node: Operator) -> str:
    """How the parts of a sum are put together, those that are scattered included."""
    found = sum_of(node) or getattr(lowering_of(node), "combine", None)
    assert found is not None
    return str(found)


class BlockBuilder:
    """Builds the program of one block out of the members of a region."""

    def __init__(
        self,
        members: Sequence[Operator],
        results: Sequence[Operator],
        axes: dict[int, int],
        length: int,
        width: int,
        layout: BlockLayout = LANES,
        inner: dict[int, tuple[int, ...]] | None = None,
        positions: Variable | None = None,  # what says where along the axis samples are, if any
    ):
        self.members, self.results = members, results
        self.axes, self.length, self.width = axes, length, width
        self.layout, self.inner = layout, inner or {}
        self.positions = positions
        self.part = Part(width, length)
        self.new: dict[int, Node] = {}
        self.own: dict[int, int] = {}  # the axis of samples of the new nodes
        self.sources: list[Node] = []
        self.inputs: list[Variable] = []
        self.own_positions: Variable | None = None
        self.exists: Variable | None = None  # which samples there are, if not all
        if self._is_partial():
            assert not layout.direct  # there is no rest
            self.exists = self._variable("exists", ArrayType(BOOL, (width,)), 0)
        self.masked = self._choose_masked()

    def _is_partial(self) -> bool:
        """Whether the last block may be partly empty."""
        return bool(self.length % self.width)

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
            self.layout,
            self._inner_axes(),
            None if self.own_positions is None else len(self.inputs),
            groups=self._groups(-(-self.length // self.width)),
        )

    def _groups(self, blocks: int) -> int:
        if self.layout.any_length:
            return 0
        others = [node for node in self.members if not flops_of(node) and not is_free(node)]
        elements = sum(node.type.size for node in others if isinstance(node.type, ArrayType))
        time = block_time(sum(map(flops_of, self.members)), elements)
        sums = [node.type for node in self.results if node.serial not in self.axes]
        # with channels innermost a block is much work
        least = policy().regions.many_groups if self.inner else None
        return groups_of(blocks, time, sum(one.size * one.dtype.itemsize for one in sums), least)

    def _inner_axes(self) -> dict[int, tuple[int, ...]]:
        """The axes that lie innermost: the samples, or those given."""
        if self.layout.inner == "samples":
            return {serial: (axis,) for serial, axis in self.own.items()}
        return {self.new[n].serial: axes for n, axes in self.inner.items() if n in self.new}

    def _all_inputs(self) -> list[Variable]:
        last = [self.own_positions, self.exists]
        return [*self.inputs, *[variable for variable in last if variable is not None]]

    def _variable(self, name: str, array_type: ArrayType, axis: int | None) -> Variable:
        variable = Variable(name, None, array_type, False)
        if axis is not None:
            self.own[variable.serial] = axis
        return variable

    def _add(self, node: Operator) -> None:
        axis = self.axes.get(node.serial)
        inputs = [self._input(node, number) for number in range(len(node.inputs))]
        if axis is None and self.exists is not None:
            inputs = self._masked_terms(node, inputs)
        made = restrict_operator(node, tuple(inputs), self.axes, self.part)
        assert made is not None  # members can be computed for a part of the samples
        if axis is not None:
            self.own[made.serial] = axis
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
        block_type = resized(source.type, axis, self.part)
        made = Constant(
            np.arange(block_type.size, dtype=block_type.dtype).reshape(block_type.shape)
        )
        self.own[made.serial] = axis
        return made

    def _outside(self, source: Node) -> Node:
        if source is self.positions:
            self.own_positions = self._variable("positions", ArrayType(INDEX, (self.width,)), 0)
            return self.own_positions
        axis = self.axes.get(source.serial)
        block_type = resized(source.type, axis, self.part)
        if isinstance(source, Constant):
            made = restrict_constant(source, axis, self.part)
            if made is not None:
                if axis is not None:
                    self.own[made.serial] = axis
                return made
        variable = self._variable(getattr(source, "name", ""), block_type, axis)
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
            made = [source for source in made if not is_free(source)]
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


def is_free(node: Node) -> bool:
    """Whether the operation only changes where elements are read."""
    return isinstance(node, Operator) and bool(getattr(lowering_of(node), "free", False))
