"""Expressions on scalars and vectors: in nests, and of the factors and sums of products.

Whoever needs the value of an expression says how its leaves are found, the elements that are read
and the sums; the functions in between are those of `Scalars`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from llvmlite import ir

from ..loops import Apply, Expr, Literal, parts_of, walk
from .scalars import Scalars

Leaf = Callable[[Expr], ir.Value]
Known = dict[Expr, ir.Value]


def value_of(scalars: Scalars, expr: Expr, known: Known, leaf: Leaf) -> ir.Value:
    """An expression whose parts are known."""
    if isinstance(expr, Literal):
        return scalars.literal(expr.value, expr.dtype)
    if not isinstance(expr, Apply):
        return leaf(expr)
    return applied(scalars, expr, [known[arg] for arg in expr.args])


def applied(scalars: Scalars, expr: Apply, args: list[ir.Value]) -> ir.Value:
    """A function of these values."""
    return scalars.apply(expr.name, args, [arg.dtype for arg in expr.args], expr.dtype)


def add_values(scalars: Scalars, roots: Iterable[Expr], known: Known, leaf: Leaf) -> None:
    """Add everything under the roots to what is known, parts first."""
    for expr in walk(roots, known):
        known[expr] = value_of(scalars, expr, known, leaf)


def wanted(roots: Iterable[Expr], known: Known) -> Known:
    """Of what is known that which the roots, or expressions that are not known, need at once."""
    roots = list(roots)
    used = [part for expr in walk(roots) if expr not in known for part in parts_of(expr)]
    return {
        expr: known[expr]
        for expr in [*roots, *used]
        if expr in known and not isinstance(expr, Literal)
    }


def splats(scalars: Scalars, known: Known) -> Known:
    """Known scalars on all lanes."""
    return {key: scalars.splat(value) for key, value in known.items()}
