"""Numbers that a loop carries and that depend on no traced value: Python would know them.

They are computed beforehand, iteration by iteration, and exactly: their last values stay Python's
numbers, and a `while` whose condition they alone decide has a known number of iterations.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ..graph import Graph, Node
from .pieces import Abandon, closed
from .reads import inputs_of
from .repeats import Turns
from .weights import few

# Iterations that are computed beforehand for the last values, and for the number of turns: a loop
# of more is written out, which takes far longer.
_MOST, _MOST_TURNS = 10_000, 1_000_000


class KnownNumbers:
    """Those of a loop of which an iteration is traced."""

    def __init__(self, turns: Turns):
        self.turns = turns

    @cached_property
    def order(self) -> list[int]:
        """Their numbers among all that is carried."""
        plain = (int, float, bool, complex)
        known = {k for k, value in enumerate(self.turns.first) if type(value) in plain}
        reads = [inputs_of(node) for node in self.turns.outputs]
        while True:
            kept = {k for k in known if self._reads_known(reads[k], known)}
            if kept == known:
                return sorted(known)
            known = kept

    def _reads_known(self, reads: set[int] | None, known: set[int]) -> bool:
        """Whether something depends on the index and on what is known alone."""
        places = {node.serial: k for k, node in enumerate(self.turns.inputs)}
        return reads is not None and all(
            serial == self.turns.index.serial or places.get(serial) in known for serial in reads
        )

    @property
    def _iteration(self) -> Graph:
        """What an iteration makes of them, and of the index before them."""
        inputs = [self.turns.index, *[self.turns.inputs[k] for k in self.order]]
        return closed([self.turns.outputs[k] for k in self.order], inputs, [], {}, {})

    def _start(self) -> list[Any]:
        first = self.turns.start()
        return [first[k] for k in self.order]

    def after(self, rows: np.ndarray) -> dict[int, Any]:
        """Their values after a loop over rows, by their numbers; without those that are arrays."""
        types = self.turns.types
        known = {k for k in self.order if types[k].weak or types[k].dtype.kind == "b"}
        if not known or len(rows) > _MOST:
            return {}
        graph, values = self._iteration, self._start()
        for row in rows:
            values = graph.evaluate([row, *values])
        return {k: value for k, value in zip(self.order, values, strict=True) if k in known}

    def decide(self, asked: Node, inputs: Sequence[Node], index: Node) -> bool:
        """Whether a condition depends on them and the index alone; `inputs` are its own nodes of
        what is carried."""
        reads = inputs_of(asked)
        known = {index.serial, *[inputs[k].serial for k in self.order]}
        return reads is not None and reads <= known

    def counted(self, asked: Node, inputs: Sequence[Node], index: Node) -> np.ndarray:
        """The numbers of the iterations before such a condition ends the loop."""
        test = closed([asked], [index, *[inputs[k] for k in self.order]], [], {}, {})
        graph, values = self._iteration, self._start()
        count = 0
        while count <= _MOST_TURNS and test.evaluate([np.int64(count), *values])[0]:
            values = graph.evaluate([np.int64(count), *values])
            count += 1
        if not few() < count <= _MOST_TURNS:
            raise Abandon  # as few as Python runs by itself, or more than are looked at
        return np.arange(count, dtype=np.int64)
