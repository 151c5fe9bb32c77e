"""Items of lists that are None before a loop, and that it sets before anybody reads them.

    table = [[None] * n for _ in range(n)]

While a loop is made a table stands for such lists, in which a number that is not there is zero. It
has two columns more: which numbers are there, and whether all that were read had been there. What
becomes of these in all turns is computed with NumPy once the loop is made, where it depends on
no traced value. If something was read that is not there, or might have been, there is no table;
else nobody reads them in the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..graph import Constant, Graph, Variable
from ..ops.op import Traced
from .pieces import Abandon


def known_values(traced: Sequence[Any]) -> list[np.ndarray]:
    """The values of traced arrays that depend on no others."""
    from ..passes.programs import part_results

    graph = part_results(Graph([], [value.node for value in traced]))
    for node in graph.nodes:
        if isinstance(node, Variable) or (
            isinstance(node, Constant) and isinstance(node.output, Traced)
        ):
            raise Abandon
    try:
        return [np.asarray(value) for value in graph.evaluate([])]
    except IndexError:
        raise Abandon from None
