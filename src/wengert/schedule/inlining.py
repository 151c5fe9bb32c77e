"""How much is computed without memory between: expressions are limited in size."""

from __future__ import annotations

from math import prod

from ..graph import Operator
from ..loops import Reduction


class Pieces:
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
        """Join the pieces that an operation reads, a reduction among them being one that is written
        out; what it reads of those too large for that is stored."""
        times = 1
        if isinstance(node.op.loops, Reduction):
            times = prod(node.inputs[0].type.shape[axis] for axis in node.params["axes"])
        found: dict[int, list[int]] = {}
        for source in node.inputs:
            if source.serial in self.sizes and source.serial not in stored:
                found.setdefault(self._find(source.serial), []).append(source.serial)
        own, size = node.serial, 1
        for piece in sorted(found, key=lambda piece: (self.sizes[piece], piece)):
            # what is written out several times is sooner read again than computed
            if size + times * self.sizes[piece] > (self.most if times == 1 else self.most // 2):
                stored.update(found[piece])
            else:
                size += times * self.sizes[piece]
                self.later[piece] = own
        self.sizes[own] = size

    def _find(self, serial: int) -> int:
        piece = serial
        while piece in self.later:
            piece = self.later[piece]
        while serial != piece:  # found sooner the next time
            self.later[serial], serial = piece, self.later[serial]
        return piece
