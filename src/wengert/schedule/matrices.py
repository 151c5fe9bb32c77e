"""Regions of samples that are matrices themselves: sequences of tokens, sets of points.

Where a sample has rows of its own, a block of few samples is enough for products at full speed, and
one SIMD lane a sample would be the wrong layout: attention, layer norms and dense layers all run
along features. So blocks keep the layout of outside, and are read and written there in place. A
block passes through the whole region, forward and backward, while its values are in the near cache,
and threads meet once a region and not once an operator.

What a block has to read anew are the weights, and what it has to write the parts of their
gradients. `MatrixBlocks.time` weighs this against the operators one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..graph import Node, Operator
from ..machine import policy
from .building import MATRICES, block_time, flops_of, groups_of, is_free
from .cost_model import (
    TimedWay,
    bytes_of_weights,
    computed_in,
    elements_of,
    largest_of,
    nbytes,
    time_in_blocks,
    work_of,
)
from .cutting import Cut


class MatrixBlocks(TimedWay):
    """Blocks that lie as outside."""

    layout = MATRICES
    misfit = "samples are no matrices, or a block would leave the near cache"

    @classmethod
    def shortest(cls) -> int:
        """With one sample in a block there are enough blocks."""
        return policy().matrices.fewest_blocks

    def width(self, cut: Cut) -> int:
        """The fewest samples that have enough rows, of those that leave no block partly empty."""
        rows, work = 0.0, 0
        for node in cut.graph.operators:
            own = rows_of(cut, node, 1)
            if own is not None:
                rows, work = rows + own * flops_of(node), work + flops_of(node)
        wanted = policy().matrices
        most = cut.length // wanted.fewest_blocks
        widths = [n for n in range(1, most + 1) if cut.length % n == 0]
        enough = [n for n in widths if n * rows >= wanted.enough_rows * work]
        return min(enough, default=max(widths, default=1))

    def fits(self, cut: Cut, nodes: Sequence[Operator]) -> bool:
        """Whether products are of matrices that are read once, and near."""
        products = [node for node in nodes if flops_of(node)]
        return (
            not any(map(_reads_again, products))
            and _have_rows(cut, products)
            and bytes_of_weights(cut, nodes) <= policy().matrices.most_weights
            and largest_of(cut, nodes) * cut.width <= policy().regions.most_value
        )

    def time(self, cut: Cut, phase: int, nodes: Sequence[Operator]) -> float:
        """Every block reads the weights anew, and writes its parts of their gradients."""
        blocks = cut.length // cut.width
        sums = sum(nbytes(node) for node in nodes if node.serial in cut.sums)
        elements = elements_of(computed_in(nodes))
        groups = groups_of(blocks, block_time(work_of(nodes), elements), sums)
        weights = bytes_of_weights(cut, nodes)
        moved = blocks * (weights + 2 * sums) + 2 * groups * sums
        times, near = policy().times, weights + sums <= policy().matrices.second_level
        rate = times.near_bytes if near else times.far_bytes
        work = 0.0
        for node in nodes:
            rows = rows_of(cut, node, cut.width)
            more = 0.0 if rows is None else times.beginning / max(rows, 0.1)
            work += flops_of(node) * (1.0 + more)
        # an odd number of groups leaves one of two threads without work for the time of one
        idle = (groups + groups % 2) / groups
        return time_in_blocks(work * idle, elements * idle) + moved / rate

    def is_enough(self, cut: Cut) -> bool:
        """Whether nearly all work is in one region: between two of them, all values are outside."""
        work = max(map(work_of, cut.members.values()), default=0)
        return super().is_enough(cut) and 10 * work >= 9 * work_of(cut.graph.operators)


def rows_of(cut: Cut, node: Operator, width: int) -> float | None:
    """How often a block uses each element of the weights of a product; None: it has none.

    Of a product of (8, 30, 4) and (4, 5), two samples of the first have 60 rows.
    """
    if not flops_of(node):
        return None
    shared = [v for v in (node, *node.inputs) if v.serial not in cut.axes]
    if len(shared) != 1:
        return None
    return flops_of(node) / 2 / cut.length * width / max(shared[0].type.size, 1)


def _have_rows(cut: Cut, products: Sequence[Operator]) -> bool:
    """Whether most of the work is in products of matrices."""
    rows = {node.serial: rows_of(cut, node, 1) for node in products}
    own = policy().matrices.own_rows
    few = [n for n in products if (rows[n.serial] or own) < own]
    return 10 * sum(map(flops_of, few)) <= sum(map(flops_of, products))


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
