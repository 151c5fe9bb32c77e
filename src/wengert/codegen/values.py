"""Expressions on vectors, for what is done with the sums of a product and with its factors.

Whoever needs the value of an expression says how its leaves are found, the elements that are read
and the sums; the functions in between are those of `Scalars`, the same as in nests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from llvmlite import ir

from ..loops import Apply, Expr, Literal, walk
from .scalars import Scalars

_BYTE = np.dtype(np.uint8)  # what a boolean is in memory

Leaf = Callable[[Expr], ir.Value]


def value_of(scalars: Scalars, expr: Expr, known: dict[int, ir.Value], leaf: Leaf) -> ir.Value:
    """An expression whose parts are known."""
    if isinstance(expr, Literal):
        return scalars.literal(expr.value, expr.dtype)
    if not isinstance(expr, Apply):
        return leaf(expr)
    args = [known[id(arg)] for arg in expr.args]
    return scalars.apply(expr.name, args, [arg.dtype for arg in expr.args], expr.dtype)


def add_values(
    scalars: Scalars, roots: Iterable[Expr], known: dict[int, ir.Value], leaf: Leaf
) -> None:
    """Add everything under the roots to what is known, parts first."""
    for expr in walk(roots):
        if id(expr) not in known:
            known[id(expr)] = value_of(scalars, expr, known, leaf)


def from_memory(scalars: Scalars, value: ir.Value, dtype: np.dtype) -> ir.Value:
    """What was loaded, as a value: a boolean is a byte in memory."""
    if dtype.kind != "b":
        return value
    return scalars.builder.icmp_unsigned("!=", value, scalars.literal(0, _BYTE))


def to_memory(scalars: Scalars, value: ir.Value, dtype: np.dtype) -> ir.Value:
    """A value as it is stored."""
    return scalars.builder.zext(value, scalars.type(_BYTE)) if dtype.kind == "b" else value
