"""Which values get memory of their own: what somebody outside needs, and what is read as a whole.

Without `keeps`, also every computed value that several read: nothing is computed twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..graph import Graph, Operator
from ..loops import Accumulate, Assembled, Pointwise, Product, Reduction, Running, Scatter
from ..machine import policy
from ..passes.rewriting import users_of
from .inlining import Pieces
from .node_lowerings import NodeLowerings, reads_views


class Keeper(Protocol):
    """Decides which values are better kept than computed again; see `kept`."""

    def keeps(self, node: Operator, readers: Sequence[Operator], stored: set[int]) -> bool:
        """Whether the node is to be kept."""

    def note(self, node: Operator, stored: set[int]) -> None:
        """See a node that was decided; may have arguments of it stored."""


def choose_stored(graph: Graph, lowerings: NodeLowerings) -> set[int]:
    """The nodes that need memory of their own, by serial."""
    users = users_of(graph)
    keeper = _keeper(graph, lowerings, users)
    given = {node.serial for node in graph.outputs if node is not None}
    stored: set[int] = set()
    pieces = Pieces(policy().fusion.most_inlined)
    for node in graph.operators:
        readers = users.get(node.serial, [])
        if (
            not lowerings.is_pointwise(node)
            or node.serial in given
            or node.serial in lowerings.task.reads
            or is_read_whole(node, readers, lowerings)
            or keeper.keeps(node, readers, stored)
        ):
            stored.add(node.serial)
        if lowerings.is_pointwise(node):
            pieces.take(node, stored)
        keeper.note(node, stored)
    return stored


def _keeper(graph: Graph, lowerings: NodeLowerings, users: dict[int, list[Operator]]) -> Keeper:
    if not lowerings.task.has("keeps"):
        return _EveryValueOnce(lowerings)
    from .kept import Kept

    return Kept(graph, lowerings, users)


class _EveryValueOnce:
    """Keeps what several read."""

    def __init__(self, lowerings: NodeLowerings):
        self.lowerings = lowerings

    def keeps(self, node: Operator, readers: Sequence[Operator], stored: set[int]) -> bool:
        return len(readers) > 1 and not self.lowerings.is_free(node)

    def note(self, node: Operator, stored: set[int]) -> None:
        pass


def is_read_whole(node: Operator, users: Sequence[Operator], lowerings: NodeLowerings) -> bool:
    """Whether somebody reads the node as an array in memory."""
    for user in users:
        loops = lowerings.lowering(user)
        if (isinstance(loops, Product) or reads_views(user)) and lowerings.is_free(node):
            continue  # read through its strides
        if loops is None and lowerings.is_interleaved(user):
            continue
        if isinstance(loops, Pointwise):
            if any(user.inputs[place] is node for place in loops.whole):
                return True
        elif not isinstance(loops, (Reduction, Scatter, Accumulate, Running, Assembled)) or (
            isinstance(loops, Scatter) and user.inputs[0] is node
        ):
            return True
    return False
