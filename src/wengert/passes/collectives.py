"""What several processes do together stays as it was written, whatever the passes find out.

Each rank compiles its own program. A pass that finds that a sum is multiplied by zero, or that two
are equal, finds it on one rank and perhaps not on another, whose constants differ; the others would
then wait for ever for a rank that does not come, or add up what does not belong together. So these
operators are numbered before the passes, those in the programs inside of operations too, which also
keeps them apart. Where they are not all there afterwards, in their order, the program goes without
passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..graph import Graph, Node, Operator
from ..transforms.bodies import Body
from .expand import composition, expand
from .loops import optimise_bodies, prune_loops
from .programs import optimise_programs, prune_programs
from .rewriting import apply, rebuild


def kept_together(graph: Graph, passes: Callable[[Graph], Graph]) -> Graph:
    """What the passes make of a program, if all that processes do together is still in it."""
    if not has_collectives(graph):
        return passes(graph)
    numbered = number_collectives(graph)
    found = passes(numbered)
    return found if turns_of(found) == turns_of(numbered) else numbered


def has_collectives(graph: Graph) -> bool:
    """Whether other processes take part in a program, or in one inside of its operations."""
    return any(
        node.op.collective or any(map(has_collectives, _inside(node))) for node in graph.operators
    )


def _inside(node: Operator) -> Iterator[Graph]:
    """The programs inside of an operation: bodies of loops, branches, checkpoints."""
    if node.op.pull_rule is not None and node.op.compose is not None:
        made = composition(node, node.op.compose)
        if made is not None:
            yield made
        return
    for value in node.params.values():
        bodies = (value, *getattr(value, "programs", ()))
        yield from (body.graph for body in bodies if isinstance(body, Body))


def number_collectives(graph: Graph) -> Graph:
    """all_reduce(x); all_reduce(y) -> all_reduce(x, turn=0); all_reduce(y, turn=1).

    Those in loops and branches have numbers as well, and one each: the programs are copies. Results
    of these that nobody reads are left out before, as that is the same on every rank.
    """
    turns = 0

    def rule(node: Operator) -> Node | None:
        nonlocal turns
        if not node.op.collective or "turn" in node.params:
            return None
        turns += 1
        return apply(node.op, *node.inputs, params={**node.params, "turn": turns - 1}, like=node)

    def numbered(graph: Graph) -> Graph:
        graph = prune_programs(prune_loops(expand(graph)))
        graph = optimise_programs(numbered)(optimise_bodies(numbered)(graph))
        return rebuild(graph, rule)

    return numbered(graph)


def turns_of(graph: Graph) -> list[int]:
    """The numbers of the collective operators, in the order in which they are run."""
    found = []
    for node in graph.operators:
        if node.op.collective:
            found.append(node.params["turn"])
        found += [turn for inner in _inside(node) for turn in turns_of(inner)]
    return found
