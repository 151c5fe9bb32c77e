"""Nests for operations along a line, in which each element is made from the one before.

The start of every line is a nest of its own; in the other one the loop along the line is *ordered*,
and vectors go across the lines where enough of them lie side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..graph import Operator
from ..loops import Buffer, Expr, Load, Nest, Running, Store, Var, cast
from ..machine import policy


def running_nests(
    node: Operator, loops: Running, out: Buffer, new_nest: Callable[[tuple[int, ...]], Any]
) -> list[Nest]:
    """The nests of one operation; `new_nest(shape)` begins one over the loops of a shape."""
    shape, axis = node.type.shape, node.params["axis"]
    length, step = shape[axis], -1 if node.params["reverse"] else 1
    start = 0 if step > 0 else length - 1

    def along(count: int, place: int, value_of: Callable[..., Expr]) -> Nest:
        """The nest over `count` places of the line, from `place` on."""
        nest = new_nest((*shape[:axis], count, *shape[axis + 1 :]))
        line = nest.vars[axis]
        at = (*nest.index[:axis], nest.index[axis] * step + place, *nest.index[axis + 1 :])
        before = Load(out, out.flat(at) + -step * out.strides[axis])
        operands = nest.operands(node)
        value = nest.complete(lambda: cast(value_of(before, at, *operands), out.dtype))
        line.ordered = count > 1
        variables = _in_order(nest.vars, line, out)
        return Nest(variables, [Store(out, out.flat(at), value)], node.op.name, [node])

    def first(before: Expr, at: Any, *operands: Any) -> Expr:
        return loops.first(at, *operands)

    nests = [along(1, start, first)] if length else []
    return [*nests, along(length - 1, start + step, loops.step)] if length > 1 else nests


def _in_order(variables: list[Var], line: Var, out: Buffer) -> list[Var]:
    """The line just outside a loop across many lines that lie side by side, else innermost."""
    across = [
        var
        for var, stride in zip(variables, out.strides, strict=True)
        if stride == 1 and var is not line and var.extent >= policy().fusion.short_loop
    ]
    inner = [line, *across[:1]]
    return [*[var for var in variables if var not in inner], *inner]
