"""Expressions of the loop language as text, in infix notation."""

from __future__ import annotations

from ..types import dtype_name
from .expressions import (
    Apply,
    Choose,
    Expr,
    IndexValue,
    InRange,
    Literal,
    Load,
    LoadAt,
    Sum,
)

_LONGEST = 400  # characters


def format_expr(expr: Expr) -> str:
    """The expression in infix notation, cut off where it gets long."""
    text = _format(expr, 12)[0]
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."


# How tightly an operator binds, from the choice between two values to what stands alone.
_CHOICE, _SIGN, _ALONE = 0, 8, 9
_INFIX = {
    "logical_or": ("or", 1),
    "logical_and": ("and", 2),
    "equal": ("==", 3),
    "not_equal": ("!=", 3),
    "less": ("<", 3),
    "less_equal": ("<=", 3),
    "greater": (">", 3),
    "greater_equal": (">=", 3),
    "bitwise_or": ("|", 4),
    "bitwise_xor": ("^", 4),
    "bitwise_and": ("&", 4),
    "left_shift": ("<<", 5),
    "right_shift": (">>", 5),
    "add": ("+", 6),
    "subtract": ("-", 6),
    "multiply": ("*", 7),
    "scale": ("*", 7),  # zero times anything is zero
    "divide": ("/", 7),
    "floor_divide": ("//", 7),
    "remainder": ("%", 7),
}
# Where the order of these does not show in the result, they need no brackets on the right; sums
# keep them: floats are added as the brackets say.
_ANY_ORDER = ("logical_or", "logical_and", "bitwise_or", "bitwise_xor", "bitwise_and")


def _format(expr: Expr, depth: int) -> tuple[str, int]:
    """The text, and how tightly it binds."""
    if depth == 0:
        return "...", _ALONE

    def part(one: Expr, least: int = 0) -> str:
        text, binds = _format(one, depth - 1)
        return text if binds >= least else f"({text})"

    if isinstance(expr, Load):
        return f"{expr.buffer.name}[{expr.at}]", _ALONE
    if isinstance(expr, LoadAt):
        picks = "".join(f" + {n}*{part(place, _SIGN)}" for place, n in expr.picks)
        return f"{expr.buffer.name}[{expr.at}{picks}]", _ALONE
    if isinstance(expr, Literal):
        return str(expr.value), _ALONE if str(expr.value)[:1] != "-" else _SIGN
    if isinstance(expr, Sum):
        return "sum", _ALONE
    if isinstance(expr, IndexValue):
        return f"({expr.at})", _ALONE
    if isinstance(expr, InRange):
        return f"({expr.low} <= {expr.at} < {expr.high})", _ALONE
    if isinstance(expr, Choose):
        yes, no = part(expr.yes, 1), part(expr.no)
        return f"{yes} if {part(expr.test, 1)} else {no}", _CHOICE
    assert isinstance(expr, Apply)
    if expr.name in _INFIX:
        sign, binds = _INFIX[expr.name]
        left_side, right_side = expr.args
        right = binds if expr.name in _ANY_ORDER else binds + 1
        left = binds + 1 if binds == 3 else binds  # a < b < c means something else in Python
        return f"{part(left_side, left)} {sign} {part(right_side, right)}", binds
    if expr.name == "negative":
        return f"-{part(expr.args[0], _SIGN)}", _SIGN
    if expr.name == "where":
        test, taken, other = expr.args
        return f"{part(taken, 1)} if {part(test, 1)} else {part(other)}", _CHOICE
    name = dtype_name(expr.dtype) if expr.name == "convert" else expr.name
    return f"{name}({', '.join(map(part, expr.args))})", _ALONE
