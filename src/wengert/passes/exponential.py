"""The exponential of matrices, written out: products, one solution, and a loop of squares.

How often a matrix is halved before, and the result squared, depends on how large it is. In a stack
each matrix is squared as often as it needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..graph import Graph, Node, Operator
from ..machine import current
from ..ops.elementwise import absolute, exp2, log2, maximum, select
from ..ops.layout import convert, reduce_sum, reshape
from ..ops.linalg import identity, matmul, solve
from ..ops.logic import ceil, isfinite, less
from ..ops.matrix_functions import PADE, PADE_NORM, blocks, corner, expm, expm_tangent
from ..ops.op import Op
from ..ops.reductions import reduce_max
from ..transforms.flow import while_loop
from ..types import type_of
from .expand import composition, insert
from .rewriting import rebuild


def write_out_exponentials(graph: Graph) -> Graph:
    """expm(a) -> (even - odd)⁻¹ (even + odd) of a / 2ᵏ, squared k times."""
    if not current().lapack or not any(node.op in _MADE_OF for node in graph.operators):
        return graph

    def rule(node: Operator) -> Node | None:
        if node.op not in _MADE_OF or not node.type.size:
            return None
        made = composition(node, _MADE_OF[node.op])
        return None if made is None else insert(made, node)[0]

    return rebuild(graph, rule)


def _expm(a: Any) -> Any:
    rank = type_of(a).ndim
    if type_of(a).dtype.kind not in "fc":
        a = convert(a, dtype=np.dtype(np.float64))
    sums = reduce_sum(absolute(a), axes=(rank - 2,))
    norms = reduce_max(sums, axes=(rank - 2,), ties="equal")
    halvings = ceil(log2(norms / PADE_NORM))
    halvings = select(isfinite(halvings), maximum(halvings, 0.0), 0.0)
    factor = convert(exp2(-halvings), dtype=type_of(a).dtype)
    start = _quotient(a * _for_matrices(factor))
    most = reduce_max(halvings, axes=tuple(range(rank - 2)), ties="equal")
    whole = rank == 2

    def square(state: tuple[Any, Any]) -> tuple[Any, Any]:
        done, power = state
        squared = matmul(power, power)
        if not whole:
            squared = select(_for_matrices(less(done, halvings)), squared, power)
        return done + 1, squared

    zero = np.zeros((), type_of(halvings).dtype)
    return while_loop(lambda state: less(state[0], most), square, (zero, start))[1]


def _for_matrices(x: Any) -> Any:
    return reshape(x, shape=(*type_of(x).shape, 1, 1))


def _quotient(a: Any) -> Any:
    """Padé's approximation of degree 13."""
    p, eye = PADE, identity(a)
    a2 = matmul(a, a)
    a4 = matmul(a2, a2)
    a6 = matmul(a4, a2)
    odd = matmul(a6, p[13] * a6 + p[11] * a4 + p[9] * a2)
    odd = matmul(a, odd + p[7] * a6 + p[5] * a4 + p[3] * a2 + p[1] * eye)
    even = matmul(a6, p[12] * a6 + p[10] * a4 + p[8] * a2)
    even = even + p[6] * a6 + p[4] * a4 + p[2] * a2 + p[0] * eye
    return solve(even - odd, even + odd, transposed=False)


def _tangent(a: Any, t: Any) -> Any:
    dtype = np.result_type(type_of(a).dtype, type_of(t).dtype)
    a, t = (convert(x, dtype=dtype) for x in (a, t))
    return corner(_expm(blocks(a, t, a)))


_MADE_OF: dict[Op, Callable[..., Any]] = {expm: _expm, expm_tangent: _tangent}
