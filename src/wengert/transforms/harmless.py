"""What is computed of samples that do not count, where an operation refuses some arguments.

In a branch that others take, or a loop that has ended for it, a sample may have a place beyond an
array, a divisor that is 0, a matrix without an inverse. No error may come of that: it gets
arguments that every operation takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..graph import Operator
from ..ops.elementwise import select
from ..ops.indexing import gather
from ..ops.layout import broadcast_to, reshape
from ..types import ArrayType, type_of

Pair = tuple[Any, bool]


def refuses(node: Operator) -> bool:
    """Whether an operation has an error for some values of its arguments."""
    if _accepted(node) is not None:
        return True
    loops = node.op.loops
    if callable(loops):
        loops = loops(**node.params)
    return getattr(loops, "check", None) is not None


def harmless(
    node: Operator, pairs: Sequence[Pair], going: Any, is_write: bool
) -> tuple[list[Any], list[bool]]:
    """Arguments, and which of them are batches, where samples that are not `going` have others.

    Of arrays that the samples write to there is one for each, which stays what it is.
    """
    is_matrix = _accepted(node) is not None
    chosen = _matrices(node, pairs, going) if is_matrix else _integers(node, pairs, going, is_write)
    values, flags = map(list, zip(*chosen, strict=True))
    return values, flags


def _accepted(node: Operator) -> Any:
    """The rule of an operation on matrices, see ops/linalg.py: which ones it takes."""
    return getattr(node.op.evaluate, "accepted", None)


def _matrices(node: Operator, pairs: Sequence[Pair], going: Any) -> list[Pair]:
    """One matrix for all samples stays: it is factorised once, before the loop if it can be."""
    types = [_of_one_sample(*pair) for pair in pairs]
    accepted = _accepted(node)(*types, **node.params)
    return [
        _chosen(*pair, going, accepted[number]) if number in accepted and pair[1] else pair
        for number, pair in enumerate(pairs)
    ]


def _integers(node: Operator, pairs: Sequence[Pair], going: Any, is_write: bool) -> list[Pair]:
    """Every array has the place 0, and every integer can be divided by 1."""
    size = type_of(going).shape[0]
    for_each = is_write or not any(flag for _, flag in pairs)
    other = 0 if is_write or node.op is gather else 1
    chosen = []
    for number, (value, flag) in enumerate(pairs):
        own = type_of(value)
        is_array = number == 0 and (is_write or node.op is gather)
        if own.dtype.kind in "iu" and not is_array:
            chosen.append(_chosen(value, flag, going, own.dtype.type(other)))
        elif for_each and not (number == 0 and node.op is gather):
            chosen.append((_as_batch(value, flag, size), True))
        else:
            chosen.append((value, flag))
    return chosen


def _of_one_sample(value: Any, flag: bool) -> ArrayType:
    own = type_of(value)
    return ArrayType(own.dtype, own.shape[1:], own.weak) if flag else own


def _chosen(value: Any, flag: bool, going: Any, other: Any) -> Pair:
    """The batch, with `other` for samples that are not `going`."""
    size = type_of(going).shape[0]
    value = _as_batch(value, flag, size)
    rank = type_of(value).ndim
    return select(reshape(going, shape=(size, *[1] * (rank - 1))), value, other), True


def _as_batch(value: Any, flag: bool, size: int) -> Any:
    return value if flag else broadcast_to(value, shape=(size, *type_of(value).shape))
