"""Long lists and deques of numbers, and lists of such lists, as arrays where a loop carries them.

    u = [0.0] * n                       a = zeros(n)
    for _ in range(100):                for _ in range(100):
        u = [f(v) for v in u]     ->        u = [a[0], a[1], ...]
                                            u = [f(v) for v in u]; a = array(u)

A turn sees a list of elements of the array, which is one again as soon as it is read at a traced
place. What it leaves is an array again where its items come from a few; else the attempt ends.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import tree
from ..errors import user_line
from ..graph import Operator
from ..ops import elementwise as ew
from ..ops.indexing import index
from ..ops.layout import convert
from ..ops.op import Traced
from ..trace import Tracer
from ..trace.tracer import lift
from ..types import ArrayType, type_of, weaken
from .values import can_be_written, common, is_number

# Numbers of a list that are carried one by one, and those that come from one array otherwise, or
# the arrays that they come from if they are less. (A deque is one without its first, and the last.)
_MOST, _FEW, _PARTS = 16, 4, 4
# Numbers that are put together one by one to be read, whatever they come from.
SHORT = 64


class Packed:
    """The kind, in a structure, of a list that is carried as an array."""


def _rebuilt(data: tuple[tuple[int, ...], Any], children: Sequence[Any]) -> Any:
    (column,), (shape, kind) = children, data
    numbers = iter(elements(column, column.type.weak))

    def nested(shape: tuple[int, ...]) -> Any:
        return [nested(shape[1:]) for _ in range(shape[0])] if shape else next(numbers)

    return nested(shape) if kind is list else deque(nested(shape), *kind)


tree.register(Packed, lambda one: ((), None), _rebuilt)


def flatten(value: Any, made: bool) -> tuple[list[Any], tree.Structure]:
    """The leaves of a value and its structure, with long lists as arrays; what a turn has `made`
    may not be put together of too many."""
    leaves: list[Any] = []

    def structure(one: Any) -> tree.Structure:
        is_deque = type(one) is deque and len(one) > _PARTS
        items = list(one) if is_deque else one
        shape = shape_of(items)
        long = shape is not None and (is_deque or is_long(shape))
        column = column_of(items, made) if long else None
        if column is not None:
            leaves.append(column)
            kind = (one.maxlen,) if is_deque else list
            return tree.Structure(Packed, (shape, kind), (tree.LEAF,))
        taken = tree.take_apart(one)
        if taken is None:
            leaves.append(one)
            return tree.LEAF
        return tree.Structure(type(one), taken[1], tuple(map(structure, taken[0])))

    return leaves, structure(value)


def is_long(shape: Sequence[int]) -> bool:
    """Whether lists in lists are so long that they are carried as an array."""
    return math.prod(shape) > _MOST


def structure_of(shape: tuple[int, ...]) -> tree.Structure:
    """The structure of lists in lists that are carried as an array."""
    return tree.Structure(Packed, (shape, list), (tree.LEAF,))


def elements(column: Any, weak: bool) -> list[Any]:
    """The elements of an array of one axis that nobody writes to: there may be many, so they are
    made without asking for each what it is."""
    if isinstance(column, Tracer) and column._trace.is_innermost:
        return _elements(column, weak)
    found = [column[k] for k in range(type_of(column).shape[0])]
    return [weaken(one) for one in found] if weak else found


def _elements(column: Any, weak: bool) -> list[Any]:
    trace, node = column._trace, column.node
    own, known = ArrayType(node.type.dtype, (), weak), node.output
    outputs = [None] * node.type.shape[0]
    if isinstance(known, Tracer) and not trace.captures:
        outputs = _elements(known, weak)
    elif known is not None:
        found = [column[k] for k in range(node.type.shape[0])]
        return [weaken(one) for one in found] if weak else found
    active = node.active and own.dtype.kind in "fc"
    source = user_line() if trace.keep_source else None
    made = []
    for k, output in enumerate(outputs):
        one = Operator(index, (node,), {"key": (k,)}, output, own, active)
        one.source = source
        made.append(trace.wrap(one))
    return made


def is_packed(structure: tree.Structure) -> bool:
    """Whether there are arrays in place of lists."""
    return structure.kind is Packed or any(map(is_packed, structure.children))


def shape_of(value: Any) -> tuple[int, ...] | None:
    """The lengths of lists in lists; None where those beside each other differ."""
    shape: list[int] = []
    lists = [value]
    while type(lists[0]) is list:
        if any(type(one) is not list or len(one) != len(lists[0]) for one in lists):
            return None
        shape.append(len(lists[0]))
        lists = [item for one in lists for item in one]
        if not lists:
            return None
    return tuple(shape) or None


def numbers_in(value: Any) -> list[Any]:
    """The items of lists in lists."""
    found = value
    while type(found[0]) is list:
        found = [item for one in found for item in one]
    return list(found)


def column_of(value: Any, made: bool) -> Any:
    """The numbers of lists in lists as an array; None if they are not alike, or too far apart."""
    from ..numpy.common import stretches

    numbers = numbers_in(value)
    if not all(map(_is_scalar, numbers)):
        return None
    types = {type_of(one) for one in numbers}
    if len({one.dtype.kind for one in types}) > 1:
        return None
    own = _common(types)
    if not any(isinstance(one, Traced) for one in numbers):
        return _weak(lift(np.array(numbers, own.dtype)), own.weak)
    parts = stretches(numbers)
    if made and len(parts) > max(len(numbers) // _FEW, _PARTS):
        return None
    # an array of its own: nobody else has what is in a list
    return _weak(ew.positive(joined(parts, own.dtype)), own.weak)


def joined(parts: Sequence[Any], dtype: np.dtype) -> Any:
    """Arrays one behind the other, in a dtype."""
    from ..ops.structure import concatenate

    parts = [convert(part, dtype=dtype) for part in parts]
    return parts[0] if len(parts) == 1 else concatenate(*parts, axis=0)


def _weak(column: Any, weak: bool) -> Any:
    """An array of Python's own numbers, if they are."""
    if weak:
        column.node._type = ArrayType(column.type.dtype, column.type.shape, True)
    return column


def _common(types: set[ArrayType]) -> ArrayType:
    found, *rest = types
    for one in rest:
        wider = common(found, one)
        assert wider is not None  # they have one shape
        found = wider
    return found


def _is_scalar(one: Any) -> bool:
    if not is_number(one) or type_of(one).shape or type_of(one).dtype.kind not in "if":
        return False
    return not can_be_written(one)
