"""Expressions made anew with other parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from .expressions import Apply, Choose, Expr, LoadAt, parts_of, walk


def with_parts(expr: Expr, values: Mapping[Expr, Expr]) -> Expr:
    """The expression with what `values` has for its parts; itself where these stay the same."""
    parts = parts_of(expr)
    new = tuple([values[part] for part in parts])
    if new == parts:  # compared by identity
        return expr
    if isinstance(expr, Apply):
        return Apply(expr.name, new, expr.dtype)
    if isinstance(expr, Choose):
        return Choose(expr.test, new[0], new[1], expr.dtype)
    assert isinstance(expr, LoadAt)
    steps = [step for _, step in expr.picks]
    return LoadAt(expr.buffer, expr.at, tuple(zip(new, steps, strict=True)))


def replaced(roots: Iterable[Expr], change: Callable[[Expr], Expr | None]) -> dict[Expr, Expr]:
    """What each expression under the roots becomes where `change` has another for some of them."""
    values: dict[Expr, Expr] = {}
    for expr in walk(roots):
        values[expr] = change(expr) or with_parts(expr, values)
    return values


def unchanging(roots: Iterable[Expr], changes: Callable[[Expr], bool]) -> list[Expr]:
    """The expressions under the roots all of whose leaves stay the same, parts first."""
    found: dict[Expr, Expr] = {}
    for expr in walk(roots):
        parts = parts_of(expr)
        if all(part in found for part in parts) and (parts or not changes(expr)):
            found[expr] = expr
    return list(found.values())
