"""The papers' nodes: `Constant` holds fixed data, `Variable` a value that may change,
`Operator` computes its output from its inputs.

A node links to its inputs only, so a graph is whatever its outputs reach, and what nothing
reaches is free to go. `serial` grows as nodes are made: inputs always have smaller serials
than the nodes that use them, and sorting by serial is a topological order.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from ..types import is_weak, type_of, weaken

_serials = itertools.count()


class Node:
    """One value of a program: its type, its latest `output` and its `gradient`."""

    # `order`: how arrays that hold the value lie in memory, where its inputs do not say; mostly not
    # set (see `trace/orders.py`).
    __slots__ = ("_type", "active", "gradient", "order", "output", "serial", "source")
    order: tuple[Any, ...]
    _inputs: Sequence[Node] = ()  # of an `Operator`: its own

    def __init__(self, output: Any = None, array_type: Any = None, active: bool = False):
        self.serial = next(_serials)
        self.output = output
        self.gradient: Any = None
        self.source: str | None = None
        self._type = array_type
        # Whether a derivative flows through this node.
        self.active = active

    @property
    def type(self) -> Any:
        """The `ArrayType` (a tuple of them for an operation with several results)."""
        if self._type is None:
            self._type = type_of(self.output)
        return self._type

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The nodes this one is computed from."""
        return self._inputs  # type: ignore[return-value]

    @property
    def kind(self) -> str:
        """``Constant``, ``Variable``, ``ScalarOperator`` or ``BroadcastedOperator``."""
        return type(self).__name__

    def __repr__(self) -> str:
        return f"{self.kind}({self.type})"


class Constant(Node):
    """A value that never changes: a literal, a captured array."""

    __slots__ = ()

    # Made for every operation that is recorded, so without the detour over Node.__init__.
    def __init__(self, output: Any = None, array_type: Any = None):
        self.serial = next(_serials)
        self.output = output
        self.gradient = None
        self.source = None
        self._type = array_type
        self.active = False


class Variable(Node):
    """An input of the graph; fed with a new value for each evaluation."""

    __slots__ = ("name",)

    def __init__(
        self, name: str = "", output: Any = None, array_type: Any = None, active: bool = True
    ):
        super().__init__(output, array_type, active)
        self.name = name


class Operator(Node):
    """An operation applied to other nodes."""

    __slots__ = ("_inputs", "op", "params")

    def __init__(
        self,
        op: Any,
        inputs: Sequence[Node],
        params: dict[str, Any],
        output: Any = None,
        array_type: Any = None,
        active: bool = False,
    ):
        self.serial = next(_serials)
        self.output = output
        self.gradient = None
        self.source = None
        self._type = array_type
        self.active = active
        self.op = op
        self._inputs = inputs
        self.params = params

    def apply(self, arguments: Sequence[Any]) -> Any:
        """The operation on other arguments; a result that was a weak number is one again."""
        result = self.op(*arguments, **self.params)
        return weaken(result) if is_weak(self.type) else result

    @property
    def kind(self) -> str:
        """`ScalarOperator` for a 0-d result, `BroadcastedOperator` for an array."""
        shape = getattr(self.type, "shape", None)
        return "ScalarOperator" if shape == () else "BroadcastedOperator"

    def __repr__(self) -> str:
        return f"{self.kind}({self.op.name}: {self.type})"


def reachable(outputs: Iterable[Node], active_only: bool = False) -> list[Node]:
    """All nodes the outputs depend on, inputs first.

    Iterative and linear: depth and sharing do not matter.
    """
    found: dict[int, Node] = {}
    pending = [node for node in outputs if node is not None]
    while pending:
        node = pending.pop()
        if (node.active or not active_only) and node.serial not in found:
            found[node.serial] = node
            pending += node._inputs
    return [found[serial] for serial in sorted(found)]
