"""A `while` that counts, found in its text: it goes over a range, as a `for` does.

    i = 0                               i = 0
    while i < n:                        for i in range(i, n, 2):
        s = s + x[i]         ->             s = s + x[i]
        i += 2                              i += 2

One statement of the turn adds to the counter, nothing else writes to it, no way to the next turn
leads around that statement, and none out of the loop but by its condition. What the condition
compares with is made of variables that the turn leaves alone, and of lengths, which may change.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

from ..types import type_of
from .jumps import jumps_out_of
from .names import names_of
from .values import is_abstract

_SWAPPED = {"Lt": "Gt", "LtE": "GtE", "Gt": "Lt", "GtE": "LtE", "NotEq": "NotEq"}
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv)


@dataclass
class Counter:
    """The variable that counts, how it is compared with what, and what a turn adds to it."""

    name: str
    compared: str
    bound: ast.expr
    step: ast.expr


def mark_counters(node: ast.FunctionDef) -> None:
    """Mark each `while` of a function that counts, before its jumps are lowered."""
    uses = names_of(node.body)
    elsewhere = uses.captured | uses.outer.keys() | uses.deleted
    for part in ast.walk(node):
        if isinstance(part, ast.While):
            part.counter = _counter(part, elsewhere)  # type: ignore[attr-defined]


def _counter(loop: ast.While, elsewhere: set[str]) -> Counter | None:
    """What a loop counts, where nothing changes the names `elsewhere`."""
    if not isinstance(loop.test, ast.Compare) or len(loop.test.ops) > 1:
        return None
    left, right = loop.test.left, loop.test.comparators[0]
    kind = type(loop.test.ops[0]).__name__
    for counted, bound, compared in ((left, right, kind), (right, left, _SWAPPED.get(kind, ""))):
        match counted:
            case ast.BinOp(ast.Name() as name, ast.Add() | ast.Sub() as op, away):
                other = ast.Sub() if isinstance(op, ast.Add) else ast.Add()
                counted, bound = name, ast.copy_location(ast.BinOp(bound, other, away), bound)
        if not isinstance(counted, ast.Name) or compared not in _SWAPPED:
            continue
        step = _step(loop.body, counted.id)
        if step is None:
            continue
        changed = names_of(loop.body)
        own = {part.id for part in ast.walk(bound) if isinstance(part, ast.Name)}
        own |= {part.id for part in ast.walk(step) if isinstance(part, ast.Name)}
        still = not own & (changed.written | changed.touched | elsewhere)
        if still and counted.id not in elsewhere and _is_number(bound) and _is_number(step):
            return Counter(counted.id, compared, bound, step)
    return None


def _step(body: list[ast.stmt], name: str) -> ast.expr | None:
    """What the one statement that writes to a counter adds to it."""
    writing = [place for place, one in enumerate(body) if name in names_of([one]).written]
    if len(writing) != 1 or any(map(_may_leave, body)):
        return None
    if any("continue" in jumps_out_of(one) for one in body[: writing[0]]):
        return None
    match body[writing[0]]:
        case ast.AugAssign(target=ast.Name(), op=op, value=step):
            pass
        case ast.Assign(targets=[ast.Name()], value=ast.BinOp(ast.Name(id=left), op, step)):
            if left != name:
                return None
        case _:
            return None
    if isinstance(op, ast.Sub):
        return ast.copy_location(ast.UnaryOp(ast.USub(), step), step)
    return step if isinstance(op, ast.Add) else None


def _may_leave(statement: ast.stmt) -> bool:
    """Whether a statement ends the loop; where that is known, the loop has an end all the same."""
    return bool(jumps_out_of(statement) & {"break", "return"})


def _is_number(node: ast.expr) -> bool:
    """Whether an expression is made of numbers, variables and lengths."""
    match node:
        case ast.Constant() | ast.Name():
            return True
        case ast.UnaryOp(op=ast.USub(), operand=one):
            return _is_number(one)
        case ast.BinOp(left=left, op=op, right=right):
            return isinstance(op, _ARITHMETIC) and _is_number(left) and _is_number(right)
        case ast.Call(func=ast.Name(id="len"), args=[ast.Name()], keywords=[]):
            return True
        case ast.Attribute(value=ast.Name(), attr="size"):
            return True
        case ast.Subscript(value=ast.Attribute(value=ast.Name(), attr="shape"), slice=key):
            return isinstance(key, ast.Constant)
    return False


def as_range(start: Any, bound: Any, step: Any, compared: str) -> tuple[Any, Any, Any] | None:
    """The range that such a loop goes over, given its numbers; None where it is none."""
    if type(step) is not int or not step or not all(map(_counts, (start, bound))):
        return None
    if compared == "NotEq":
        known = type(start) is int and type(bound) is int
        far = bound - start if known else -step
        return (start, bound, step) if far * step >= 0 and far % step == 0 else None
    if (compared in ("Lt", "LtE")) != (step > 0):
        return None
    return start, bound + {"LtE": 1, "GtE": -1}.get(compared, 0), step


def _counts(value: Any) -> bool:
    """Whether a value is an integer of Python's, which may be traced."""
    if not is_abstract(value):
        return type(value) is int
    own = type_of(value)
    return bool(own.weak and own.shape == () and own.dtype.kind == "i")
