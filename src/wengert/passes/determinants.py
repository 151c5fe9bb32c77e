"""What the derivative of a determinant needs for singular matrices alone, computed for these alone.

The cofactors of regular matrices are their determinants times their inverses. Only where
elimination leaves next to nothing on a diagonal must singular values be lifted before (see
`ops/matrix_functions.py`), and singular values take a hundred times as long as elimination.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..graph import Graph, Node, Operator
from ..machine import current
from ..ops.elementwise import absolute
from ..ops.layout import convert
from ..ops.linalg import diagonal_by_elimination
from ..ops.logic import greater
from ..ops.matrix_functions import lift, lift_by_svd
from ..ops.reductions import reduce_all, reduce_max, reduce_min
from ..trace.tracer import ITEM
from ..transforms.flow import cond
from ..types import type_of
from .expand import composition, insert
from .rewriting import rebuild

# What elimination leaves of a singular matrix, compared with the largest number on the diagonal:
# some rounding errors. Determinant and inverse make the same errors, so that of matrices that are
# nearly singular the product has fewer than either.
_LEAST = 1e-10


def lift_where_singular(graph: Graph) -> Graph:
    """lift(a) -> lift(a) if a matrix is singular, else nothing to add."""
    if not current().lapack or not any(_is_known(node) for node in graph.operators):
        return graph
    several: dict[int, Sequence[Node]] = {}

    def rule(node: Operator) -> Node | None:
        if node.op is ITEM and node.inputs[0].serial in several:
            return several[node.inputs[0].serial][node.params["index"]]
        made = composition(node, _where_singular) if _is_known(node) else None
        if made is not None:
            several[node.serial] = insert(made, node)
        return None

    return rebuild(graph, rule)


def _is_known(node: Operator) -> bool:
    if node.op is not lift or not node.inputs[0].type.size:
        return False
    return bool(node.inputs[0].type.dtype.kind in "iuf")


def _where_singular(a: Any) -> Any:
    kinds = lift.type_rule(type_of(a))
    left = absolute(diagonal_by_elimination(a)[0])
    axes = (type_of(left).ndim - 1,)
    least = reduce_min(left, axes=axes, ties="equal")
    largest = reduce_max(left, axes=axes, ties="equal")
    regular = greater(least, _LEAST * largest)
    everywhere = reduce_all(regular, axes=tuple(range(type_of(regular).ndim)))
    return cond(
        convert(everywhere, dtype=np.dtype(bool)),
        lambda a: tuple(np.zeros(kind.shape, kind.dtype) for kind in kinds),
        lift_by_svd,
        a,
    )
