"""How far apart two traced integers are, where that does not depend on what they are.

    k = np.argmax(x)
    x[2 * k - 1 : 2 * k + 3]        2 * k + 3 - (2 * k - 1) is 4, whatever k is

Both are taken apart into sums of multiples of what they are computed of.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..graph import Constant, Node, Operator
from ..ops import elementwise as ew
from ..ops.layout import convert
from ..ops.python_integers import fits_64_bits
from ..trace import Tracer
from ..types import type_of

_INTEGER = np.dtype(np.int64)
# Operators that are looked at.
_MOST = 64

Terms = dict[Any, int]  # how often each of some values is there; of `None`, the number itself


def known_distance(low: Any, high: Any) -> int | None:
    """``high - low``, if it is known while tracing."""
    terms: Terms = {}
    for value, factor in ((high, 1), (low, -1)):
        if not _add(terms, value, factor):
            return None
    own = terms.pop(None, 0)
    return None if any(terms.values()) else own


def _add(terms: Terms, value: Any, factor: int) -> bool:
    """Add a multiple of a value to some terms; False if it is no integer that is exact."""
    if not isinstance(value, Tracer):
        terms[None] = terms.get(None, 0) + factor * int(value)
        return isinstance(value, (int, np.integer))
    own = type_of(value)
    if own.dtype != _INTEGER or own.shape:
        return False  # of fewer bits, sums may begin again from the other end
    pending: list[tuple[Node, int]] = [(value.node, factor)]
    for _ in range(_MOST):
        if not pending:
            return True
        node, times = pending.pop()
        held = node.output if isinstance(node, Constant) else None
        if isinstance(held, Tracer):
            pending.append((held.node, times))
        elif held is not None:
            terms[None] = terms.get(None, 0) + times * int(held)
        else:
            parts = list(_parts(node, times))
            pending += parts
            if not parts:
                terms[node.serial] = terms.get(node.serial, 0) + times
    return False


def _parts(node: Node, times: int) -> Iterator[tuple[Node, int]]:
    """What an operator adds up, with factors; nothing where it does something else."""
    if not isinstance(node, Operator) or any(one.type.dtype != _INTEGER for one in node.inputs):
        return
    if node.op in (ew.positive, fits_64_bits, convert):
        yield node.inputs[0], times
    elif node.op is ew.negative:
        yield node.inputs[0], -times
    elif node.op in (ew.add, ew.subtract):
        yield node.inputs[0], times
        yield node.inputs[1], times if node.op is ew.add else -times
    elif node.op is ew.multiply:
        for one, other in (node.inputs, node.inputs[::-1]):
            if isinstance(one, Constant) and not isinstance(one.output, Tracer):
                yield other, times * int(one.output)
                return
