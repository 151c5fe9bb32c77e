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
from .forms import Forms, reads_views


class Keeper(Protocol):
    """Decides which values are better kept than computed again; see `kept`."""

    def keeps(self, node: Operator, readers: Sequence[Operator], stored: set[int]) -> bool:
        """Whether the node is to be kept."""

    def note(self, node: Operator, stored: set[int]) -> None:
        """See a node that was decided; may have arguments of it stored."""


def choose_stored(graph: Graph, forms: Forms) -> set[int]:
    """The nodes that need memory of their own, by serial."""
    users = users_of(graph)
    keeper = _keeper(graph, forms, users)
    given = {node.serial for node in graph.outputs if node is not None}
    stored: set[int] = set()
    pieces = _Pieces(policy().fusion.most_inlined)
    for node in graph.operators:
        readers = users.get(node.serial, [])
        if (
            not forms.is_pointwise(node)
            or node.serial in given
            or node.serial in forms.task.reads
            or is_read_whole(node, readers, forms)
            or keeper.keeps(node, readers, stored)
        ):
            stored.add(node.serial)
        if forms.is_pointwise(node):
            pieces.take(node, stored)
        keeper.note(node, stored)
    return stored


class _Pieces:
    """Operations that lead to each other without memory between them, each piece limited in size.

    Long programs, of scalars above all, would be one expression: nests that share a part of it
    would compute that anew, and LLVM's time grows faster than the size of a body.
    """

    def __init__(self, most: int):
        self.most = most
        # each by the serial of an operation that is in it; the last one stands for all
        self.sizes: dict[int, int] = {}
        self.later: dict[int, int] = {}

    def take(self, node: Operator, stored: set[int]) -> None:
        """Join the pieces that the operation reads; those too large for that are cut off: what it
        reads of them is stored."""
        found: dict[int, list[int]] = {}
        for source in node.inputs:
            if source.serial in self.sizes and source.serial not in stored:
                found.setdefault(self._find(source.serial), []).append(source.serial)
        own, size = node.serial, 1
        for piece in sorted(found, key=lambda piece: (self.sizes[piece], piece)):
            if size + self.sizes[piece] > self.most:
                stored.update(found[piece])
            else:
                size += self.sizes[piece]
                self.later[piece] = own
        self.sizes[own] = size

    def _find(self, serial: int) -> int:
        piece = serial
        while piece in self.later:
            piece = self.later[piece]
        while serial != piece:  # found sooner the next time
            self.later[serial], serial = piece, self.later[serial]
        return piece


def _keeper(graph: Graph, forms: Forms, users: dict[int, list[Operator]]) -> Keeper:
    if not forms.task.has("keeps"):
        return _EveryValueOnce(forms)
    from .kept import Kept

    return Kept(graph, forms, users)


class _EveryValueOnce:
    """Keeps what several read."""

    def __init__(self, forms: Forms):
        self.forms = forms

    def keeps(self, node: Operator, readers: Sequence[Operator], stored: set[int]) -> bool:
        return len(readers) > 1 and not self.forms.is_free(node)

    def note(self, node: Operator, stored: set[int]) -> None:
        pass


def is_read_whole(node: Operator, users: Sequence[Operator], forms: Forms) -> bool:
    """Whether somebody reads the node as an array in memory."""
    for user in users:
        loops = forms.lowering(user)
        if (isinstance(loops, Product) or reads_views(user)) and forms.is_free(node):
            continue  # read through its strides
        if loops is None and forms.is_interleaved(user):
            continue
        if isinstance(loops, Pointwise):
            if any(user.inputs[place] is node for place in loops.whole):
                return True
        elif not isinstance(loops, (Reduction, Scatter, Accumulate, Running, Assembled)) or (
            isinstance(loops, Scatter) and user.inputs[0] is node
        ):
            return True
    return False
