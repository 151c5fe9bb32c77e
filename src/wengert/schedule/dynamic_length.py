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

from ..errors import DependsOnLength
from ..graph import Graph, Operator, Variable
from ..machine import policy
from ..ops.elementwise import complex_of
from ..passes.lengths import AnyLength
from .axes import relate
from .building import BlockBuilder, BlockLayout, flops_of
from .cutting import Cut, Way
from .lowering import lowering_of
from .task import Task


def lengths(graph: Graph, task: Task) -> Graph:
    """A graph for any length with all that has its axis in regions; any other as it is.

    Without it there is a program for each length: a `compile` row's time for every new one.
    """
    return graph if task.any_length is None else cut_along(task.any_length)


def cut_along(any_length: AnyLength) -> Graph:
    """The graph with regions for all that has the axis."""
    graph, axes = any_length.graph, any_length.axes
    concerned = [
        node
        for node in graph.operators
        if any(value.serial in axes for value in (node, *node.inputs))
    ]
    relations = {node.serial: relate(node, lowering_of(node)) for node in concerned}
    way = _DynamicLength(any_length.positions)
    cut = Cut(graph, axes, any_length.example, relations, way)
    for node in concerned:
        if not cut.is_member(node):
            raise DependsOnLength(_obstacle(node), node)
    return cut.rewritten()


def _obstacle(node: Operator) -> str:
    if node.op is complex_of:
        return "complex results have a fixed length; return real and imaginary parts instead"
    if lowering_of(node) is None:
        return "has no loops of its own, so that NumPy evaluates it for a fixed length"
    return "does not treat what lies along the dynamic axis one by one"


class _DynamicLength(Way):
    """Everything along the axis is in a region, whatever it is."""

    scatters = repeats = True

    def __init__(self, positions: Variable):
        self.positions = positions

    def width(self, cut: Cut) -> int:
        """That of blocks with products."""
        return policy().regions.width

    def declines(self, cut: Cut, phase: int, nodes: Sequence[Operator]) -> None:
        """Nothing is declined."""

    def builder(
        self, cut: Cut, members: Sequence[Operator], results: Sequence[Operator]
    ) -> BlockBuilder:
        """Blocks have one lane a sample where there are products, else they lie as outside."""
        lanes = any(map(flops_of, members))
        layout = BlockLayout(inner="samples" if lanes else "", any_length=True)
        width = cut.width if lanes else _widest(cut, members)
        builder = BlockBuilder(
            members, results, cut.axes, cut.length, width, layout, positions=self.positions
        )
        assert builder.exists is not None  # the example is no multiple of a width
        return builder


def _widest(cut: Cut, members: Sequence[Operator]) -> int:
    values = [value for node in members for value in (node, *node.inputs)]
    sizes = [value.type.size // cut.length for value in values if value.serial in cut.axes]
    most = policy().regions
    width = most.widest
    while width > most.width and width * max(sizes, default=1) > most.most_elements:
        width //= 2
    return width
