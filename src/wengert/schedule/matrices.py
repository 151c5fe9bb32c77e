"""Regions of samples that are matrices themselves: sequences of tokens, sets of points.

Where a sample has rows of its own, a block of few samples is enough for products at full speed, and
one SIMD lane a sample would be the wrong layout: attention, layer norms and dense layers all run
along features. So blocks keep the layout of outside, and are read and written there in place. A
block passes through the whole region, forward and backward, while its values are in the near cache,
and threads meet once a region and not once an operator.

What a block has to read anew are the weights, and what it has to write the parts of their
gradients. `_time` weighs this against the operators one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..graph import Node, Operator
from ..machine import policy
from .building import MATRICES, block_time, flops_of, groups_of, is_free
from .cost_model import (
    TimedCutter,
    computed_in,
    elements_of,
    nbytes,
    time_in_blocks,
    work_of,
)


class MatrixCutter(TimedCutter):
    """Cuts a graph along a class of axes, in blocks that lie as outside."""

    layout = MATRICES
    misfit = "samples are no matrices, or a block would leave the near cache"

    @classmethod
    def shortest(cls) -> int:
        """With one sample in a block there are enough blocks."""
        return policy().matrices.fewest_blocks

    def _choose_width(self) -> int:
        """The fewest samples that have enough rows, of those that leave no block partly empty."""
        rows, work = 0.0, 0
        for node in self.graph.operators:
            own = self._rows(node, 1)
            if own is not None:
                rows, work = rows + own * flops_of(node), work + flops_of(node)
        wanted = policy().matrices
        most = self.length // wanted.fewest_blocks
        widths = [n for n in range(1, most + 1) if self.length % n == 0]
        enough = [n for n in widths if n * rows >= wanted.enough_rows * work]
        return min(enough, default=max(widths, default=1))

    def _rows(self, node: Operator, width: int) -> float | None:
        """How often a block uses each element of the weights of a product; None: it has none.

        >>> import numpy as np
        >>> from wengert.schedule.axes import AxisClasses
        >>> from wengert.trace import trace
        >>> graph = trace(np.matmul, np.ones((8, 30, 4)), np.ones((4, 5)))
        >>> classes, (product,) = AxisClasses(graph.operators), graph.operators
        >>> MatrixCutter(graph, classes, classes.find((product.serial, 0)))._rows(product, 2)
        60.0
        """
        if not flops_of(node):
            return None
        shared = [v for v in (node, *node.inputs) if v.serial not in self.axes]
        if len(shared) != 1:
            return None
        return flops_of(node) / 2 / self.length * width / max(shared[0].type.size, 1)

    def _fits(self, nodes: Sequence[Operator]) -> bool:
        products = [node for node in nodes if flops_of(node)]
        return (
            not any(map(_reads_again, products))
            and self._have_rows(products)
            and self._bytes_of_weights(nodes) <= policy().matrices.most_weights
            and self._largest(nodes) * self.width <= policy().regions.most_value
        )

    def _have_rows(self, products: Sequence[Operator]) -> bool:
        """Whether most of the work is in products of matrices."""
        rows = {node.serial: self._rows(node, 1) for node in products}
        own = policy().matrices.own_rows
        few = [n for n in products if (rows[n.serial] or own) < own]
        return 10 * sum(map(flops_of, few)) <= sum(map(flops_of, products))

    def _time(self, phase: int, nodes: Sequence[Operator]) -> float:
        blocks = self.length // self.width
        sums = sum(nbytes(node) for node in nodes if node.serial in self.sums)
        elements = elements_of(computed_in(nodes))
        groups = groups_of(blocks, block_time(work_of(nodes), elements), sums)
        weights = self._bytes_of_weights(nodes)
        moved = blocks * (weights + 2 * sums) + 2 * groups * sums
        times, near = policy().times, weights + sums <= policy().matrices.second_level
        rate = times.near_bytes if near else times.far_bytes
        work = 0.0
        for node in nodes:
            rows = self._rows(node, self.width)
            more = 0.0 if rows is None else times.beginning / max(rows, 0.1)
            work += flops_of(node) * (1.0 + more)
        # an odd number of groups leaves one of two threads without work for the time of one
        idle = (groups + groups % 2) / groups
        return time_in_blocks(work * idle, elements * idle) + moved / rate

    @property
    def worth_it(self) -> bool:
        """Whether nearly all work is in one region: between two of them, all values are outside."""
        work = max(map(work_of, self.members.values()), default=0)
        return super().worth_it and 10 * work >= 9 * work_of(self.graph.operators)


def _reads_again(node: Operator) -> bool:
    """Whether a product reads elements at several places, as windows do.

    Their vectors would lie along the lines of an image, which are short.
    """
    return any(prod(source.type.shape) > _elements_behind(source) for source in node.inputs)


def _elements_behind(node: Node) -> int:
    """Elements of what a value is taken from, through slices, transposes, windows and the like."""
    behind: dict[int, int] = {}
    pending = [node]
    while pending:
        seen = pending.pop()
        if isinstance(seen, Operator) and is_free(seen):
            pending += seen.inputs
        else:
            behind[seen.serial] = prod(seen.type.shape)
    return sum(behind.values())
