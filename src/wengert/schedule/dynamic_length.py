"""A graph for any length -> the same with everything along its axis in regions.

`regions` cuts a graph along an axis where that makes it faster; here it must be cut, because a
program for any length knows the length inside batch loops alone: the program of one block does not
depend on it. So every operator that has the axis must be in a region, or sum over it at the end of
one. Where one cannot be, `DependsOnLength` says which.

    m = mean(x, axis=0); y = x - m   ->   m = region(x) / length; y = region(x, m)

Values that one region leaves for another take memory that grows with the length, unless they are
so cheap that the other computes them again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import DependsOnLength
from ..graph import Graph, Node, Operator, Variable
from ..machine import policy
from ..ops.elementwise import complex_of
from ..passes.lengths import INDEX, AnyLength
from ..types import ArrayType
from .axes import relate
from .building import BlockBuilder, BlockLayout, Region, flops_of
from .cutting import Cutter, adds_to_zeros
from .lowering import lowering_of
from .task import Task


def lengths(graph: Graph, task: Task) -> Graph:
    """A graph for any length with all that has its axis in regions; any other as it is.

    Without it there is a program for each length: a `compile` row's time for every new one.
    """
    return graph if task.any_length is None else cut_along(task.any_length)


def cut_along(any_length: AnyLength) -> Graph:
    """The graph with regions for all that has the axis."""
    return _LengthCutter(any_length).cut()


class _LengthCutter(Cutter):
    """Cuts a graph along the axis of any length."""

    def __init__(self, any_length: AnyLength):
        self.graph, self.axes = any_length.graph, any_length.axes
        self.positions = any_length.positions
        self.length, self.width = any_length.example, policy().regions.width
        concerned = [
            node
            for node in self.graph.operators
            if any(value.serial in self.axes for value in (node, *node.inputs))
        ]
        self.relations = {node.serial: relate(node, lowering_of(node)) for node in concerned}
        self._classify_all()
        for node in concerned:
            if not self._member(node):
                raise DependsOnLength(self._obstacle(node), node)
        self.members = self._by_phase()
        self._repeat_cheap()

    def _can_sum(self, node: Operator, places: dict[int, int]) -> bool:
        return adds_to_zeros(node, places) or super()._can_sum(node, places)

    def _obstacle(self, node: Operator) -> str:
        if node.op is complex_of:
            return "complex results have a fixed length; return real and imaginary parts instead"
        if lowering_of(node) is None:
            return "has no loops of its own, so that NumPy evaluates it for a fixed length"
        return "does not treat what lies along the dynamic axis one by one"

    # ------------------------------------------------------------ blocks

    def _builder(self, members: Sequence[Operator], results: Sequence[Operator]) -> BlockBuilder:
        lanes = any(map(flops_of, members))
        width = policy().regions.width if lanes else self._width(members)
        layout = BlockLayout(inner="samples" if lanes else "", any_length=True)
        return _Builder(
            members, results, self.axes, self.length, width, layout, positions=self.positions
        )

    def _width(self, members: Sequence[Operator]) -> int:
        values = [value for node in members for value in (node, *node.inputs)]
        sizes = [value.type.size // self.length for value in values if value.serial in self.axes]
        most = policy().regions
        width = most.widest
        while width > most.width and width * max(sizes, default=1) > most.most_elements:
            width //= 2
        return width


class _Builder(BlockBuilder):
    """Builds the program of one block of an axis of any length."""

    def __init__(self, *args: Any, positions: Variable):
        self.positions = positions
        self.own_positions: Variable | None = None
        super().__init__(*args)
        assert self.exists is not None  # the example is no multiple of a width

    def build(self) -> Region:
        """The region."""
        region = super().build()
        if self.own_positions is not None:
            region.position = len(self.inputs)
        return region

    def _all_inputs(self) -> list[Variable]:
        inputs = super()._all_inputs()
        if self.own_positions is not None:
            inputs.insert(len(self.inputs), self.own_positions)
        return inputs

    def _outside(self, source: Node) -> Node:
        if source is not self.positions:
            return super()._outside(source)
        kind = ArrayType(INDEX, (self.width,))
        self.own_positions = self._variable("positions", kind, 0)
        return self.own_positions
