"""The steps of a loop in blocks: one block after the other, and its steps all at once.

What derivatives keep of the turns inside is that of one block at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..graph import Node, Operator, Variable
from ..ops.indexing import index
from ..ops.layout import reshape
from ..ops.structure import concatenate
from ..trace.tracer import ITEM
from ..transforms.bodies import Body
from ..types import ArrayType
from .all_at_once import of_all_steps
from .loops import make_body
from .rewriting import apply


def in_blocks(node: Operator, most: int) -> Sequence[Node] | None:
    """The results of a loop in blocks of at most so many steps; None where steps need others."""
    length: int = node.params["length"]
    count = _blocks(length, most)
    width = length // count
    body: Body = node.params["body"]
    fixed, starts, stacks = body.split(node.inputs)
    block = _block(node, width)
    if block is None:
        return None
    whole = count * width
    parts = [_reshaped(_rows(one, 0, whole), (count, width)) for one in stacks]
    items = _items(node, block, [*fixed, *starts, *parts], count)
    ends, rows = items[: body.carry], [_reshaped(one, (whole,), 2) for one in items[body.carry :]]
    if whole == length:
        return [*ends, *rows]
    left = [_rows(one, whole, length) for one in stacks]
    params = {**node.params, "length": length - whole}
    found = of_all_steps(apply(node.op, *fixed, *ends, *left, params=params))
    if found is None:
        return None
    pairs = zip(rows, found[body.carry :], strict=True)
    return [
        *found[: body.carry],
        *[apply(concatenate, *pair, params={"axis": 0}) for pair in pairs],
    ]


def _blocks(length: int, most: int) -> int:
    """How many blocks: if it can be, so many that no step is left over, which would be a program of
    its own."""
    fewest = -(-length // most)
    even = (count for count in range(fewest, 2 * fewest + 1) if length % count == 0)
    return next(even, fewest)


def _block(node: Operator, width: int) -> Body | None:
    """The steps of a block, as a step of a loop."""
    body: Body = node.params["body"]
    constants, carry, rows = body.split(body.graph.inputs)
    own = [
        Variable("", None, ArrayType(*one.type[:2]), active=False) for one in [*constants, *carry]
    ]
    types = [ArrayType(one.type.dtype, (width, *one.type.shape)) for one in rows]
    parts = [Variable("", None, one, active=False) for one in types]
    inside = apply(node.op, *own, *parts, params={**node.params, "length": width})
    found = of_all_steps(inside)
    if found is None:
        return None
    return make_body(own[: len(constants)], own[len(constants) :], parts, found)


def _items(node: Operator, body: Body, inputs: Sequence[Node], length: int) -> list[Node]:
    made = apply(node.op, *inputs, params={**node.params, "body": body, "length": length})
    made.source = node.source
    return [
        Operator(ITEM, (made,), {"index": number}, None, own)
        for number, own in enumerate(made.type)
    ]


def _rows(stack: Node, first: int, last: int) -> Node:
    shape = stack.type.shape
    if (first, last) == (0, shape[0]):
        return stack
    return apply(index, stack, params={"key": ((first, last, 1), *[(0, n, 1) for n in shape[1:]])})


def _reshaped(rows: Node, shape: tuple[int, ...], gone: int = 1) -> Node:
    """The rows with other first axes in place of so many."""
    return apply(reshape, rows, params={"shape": (*shape, *rows.type.shape[gone:])})
