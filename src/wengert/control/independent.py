"""A loop whose turns need nothing of each other is recorded as what a turn does, for all of them.

It is known here that a loop of Python's is one, and what it goes along; what can be done about it
is a pass like others (see `passes/nests.py`), which comes before derivatives are taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..graph import Constant, Graph, Node, Operator, Variable
from ..ops.op import Traced
from ..schedule import is_on
from ..trace.tracer import ITEM
from ..transforms.batching import mapping
from ..transforms.bodies import Body
from ..transforms.loop import loop
from ..types import type_of


def run_turns(values: Sequence[Any], body: Body, length: int) -> Sequence[Any]:
    """The results of a loop: its carry after the last turn, and the rows of all turns."""
    params = {"body": body, "length": length, "reverse": False, "recompute": False}
    if not mapping.depth and is_on("passes"):  # a mapped function has its lanes
        found = _at_once(values, params)
        if found is not None:
            return found
    results: Sequence[Any] = loop(*values, **params)
    return results


def _at_once(values: Sequence[Any], params: dict[str, Any]) -> Sequence[Any] | None:
    """The same without the loop; None where it stays."""
    from ..passes.nests import nest_at_once

    nodes: list[Node] = [
        Variable("", None, type_of(one), active=False)
        if isinstance(one, Traced)
        else Constant(one, type_of(one))
        for one in values
    ]
    types = loop.type_rule(*[node.type for node in nodes], **params)
    node = Operator(loop, nodes, params, None, types)
    items = [Operator(ITEM, (node,), {"index": k}, None, t) for k, t in enumerate(types)]
    graph = nest_at_once(Graph([one for one in nodes if isinstance(one, Variable)], items))
    if graph is None:
        return None
    return graph.evaluate([one for one in values if isinstance(one, Traced)])
