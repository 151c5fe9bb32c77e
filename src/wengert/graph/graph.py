"""A `Graph` is a program: input variables, output nodes and everything between.

It is built once and then fed new values: ``graph(*args)`` evaluates it, binding each operation
to its arguments, so plain arrays give NumPy results and traced values give more graph.
`forward` and `backward` do the same node by node and leave every node's `output` and `gradient`
behind to look at.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from .. import tree
from ..errors import evaluates
from ..types import Function
from .nodes import Constant, Node, Operator, Variable, reachable


class Graph:
    """A traced program.

    >>> import wengert as wg
    >>> graph = wg.trace(lambda x, y, z: (x + y) * z, -2.0, 5.0, -4.0)
    >>> float(graph.forward())
    -12.0
    >>> graph.backward()
    >>> [float(node.gradient) for node in graph.inputs]
    [-4.0, -4.0, 3.0]
    """

    # Reverse mode is a transform, and transforms come after graphs: they install it here.
    reverse: ClassVar[Function | None] = None

    def __init__(
        self,
        inputs: Sequence[Variable],
        outputs: Sequence[Node | None],
        in_structure: tree.Structure | None = None,
        out_structure: tree.Structure | None = None,
        name: str = "graph",
    ):
        self.inputs = list(inputs)
        self.outputs = list(outputs)
        self.in_structure = in_structure
        self.out_structure = out_structure
        self.name = name
        self._nodes: list[Node] | None = None

    @property
    def nodes(self) -> list[Node]:
        """Every node, inputs first; dead code is not among them."""
        if self._nodes is None:
            nodes = reachable(self.outputs)  # type: ignore[arg-type]
            used = {node.serial for node in nodes}
            nodes += [node for node in self.inputs if node.serial not in used]
            self._nodes = sorted(nodes, key=lambda node: node.serial)
        return self._nodes

    @property
    def operators(self) -> list[Operator]:
        """The operator nodes alone, in order."""
        return [node for node in self.nodes if isinstance(node, Operator)]

    @evaluates
    def evaluate(self, values: Sequence[Any]) -> list[Any]:
        """The outputs for flat input values, as a flat list. Values may be traced."""
        env: dict[int, Any] = {}
        for variable, value in zip(self.inputs, values, strict=True):
            env[variable.serial] = value
        for node in self.nodes:
            if isinstance(node, Operator):
                env[node.serial] = node.apply([env[source.serial] for source in node.inputs])
            elif isinstance(node, Constant):
                env[node.serial] = node.output
        return [None if node is None else env[node.serial] for node in self.outputs]

    def __call__(self, *args: Any) -> Any:
        """Evaluate for new arguments of the structure that was traced."""
        from .running import call

        return call(self, args)

    def forward(self, *args: Any) -> Any:
        """Evaluate and keep every node's `output`. Without arguments, the values held now."""
        from .running import forward

        return forward(self, args)

    def backward(self, seed: Any = 1.0) -> None:
        """Fill in every node's `gradient`: the derivative of the scalar output by that node.

        For an output that is not a scalar, give the seed: an array of the output's shape.
        """
        from .running import backward

        backward(self, seed)

    def __str__(self) -> str:
        from .printing import format_graph

        return format_graph(self)

    def __repr__(self) -> str:
        return f"<Graph {self.name}: {len(self.inputs)} inputs, {len(self.operators)} operators>"

    def _repr_html_(self) -> str:
        from .drawing import to_html

        return to_html(self)

    def draw(self, path: str) -> str:
        """Write a picture of the graph as ``.svg`` or Graphviz ``.dot``; returns the path."""
        from .drawing import draw

        return draw(self, path)
