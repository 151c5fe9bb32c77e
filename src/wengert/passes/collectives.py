"""What several processes do together stays as it was written, whatever the passes find out.

Each rank compiles its own program. A pass that finds that a sum is multiplied by zero, or that two
are equal, finds it on one rank and perhaps not on another, whose constants differ; the others would
then wait for ever for a rank that does not come, or add up what does not belong together. So these
operators are numbered before the passes, which also keeps them apart. Where they are not all there
afterwards, in their order, the program goes without passes.
"""

from __future__ import annotations

from ..graph import Graph, Node, Operator
from .rewriting import apply, rebuild


def has_collectives(graph: Graph) -> bool:
    """Whether other processes take part in a program."""
    return any(node.op.collective for node in graph.operators)


def number_collectives(graph: Graph) -> Graph:
    """all_reduce(x); all_reduce(y) -> all_reduce(x, turn=0); all_reduce(y, turn=1)."""
    turns = iter(range(len(graph.nodes)))

    def rule(node: Operator) -> Node | None:
        if not node.op.collective:
            return None
        params = {**node.params, "turn": next(turns)}
        return apply(node.op, *node.inputs, params=params, like=node)

    return rebuild(graph, rule)


def turns_of(graph: Graph) -> list[int]:
    """The numbers of the collective operators, in the order in which they are run."""
    return [node.params["turn"] for node in graph.operators if node.op.collective]
