"""Scalar expressions: loads, constants, index values and elementary functions of them."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..functions import FUNCTIONS, Cost
from .buffers import Buffer
from .indices import Affine

BOOL = np.dtype(bool)
INDEX = np.dtype(np.int64)


class Expr:
    """A scalar expression; compared by identity, so shared parts are computed once."""

    __slots__ = ()
    dtype: np.dtype


@dataclass(eq=False, repr=False)
class Load(Expr):
    """An element of a buffer, at a flat element number."""

    buffer: Buffer
    at: Affine
    picks: ClassVar[tuple[tuple[Expr, int], ...]] = ()

    @property
    def dtype(self) -> np.dtype:  # type: ignore[override]
        """The buffer's element type."""
        return self.buffer.dtype


@dataclass(eq=False, repr=False)
class LoadAt(Expr):
    """An element whose place depends on values: `at` plus the sum of value * stride.

    The values are known to be in range: whoever makes one clamps them.
    """

    buffer: Buffer
    at: Affine
    picks: tuple[tuple[Expr, int], ...]

    @property
    def dtype(self) -> np.dtype:  # type: ignore[override]
        """The buffer's element type."""
        return self.buffer.dtype


@dataclass(eq=False, repr=False)
class Literal(Expr):
    """A number."""

    value: Any
    dtype: np.dtype


@dataclass(eq=False, repr=False)
class Sum(Expr):
    """The finished sum of the contraction in whose stores it stands."""

    dtype: np.dtype


@dataclass(eq=False, repr=False)
class IndexValue(Expr):
    """The value of an index, as an integer."""

    at: Affine
    dtype: np.dtype = INDEX


@dataclass(eq=False, repr=False)
class InRange(Expr):
    """Whether an index lies in [low, high). Nests are split until it is known."""

    at: Affine
    low: int
    high: int
    dtype: np.dtype = BOOL

    def decided(self) -> bool | None:
        """Whether it is always true or always false, if it is."""
        low, high = self.at.bounds()
        if low >= self.low and high < self.high:
            return True
        if high < self.low or low >= self.high:
            return False
        return None


@dataclass(eq=False, repr=False)
class Choose(Expr):
    """`yes` where an index lies in a range, else `no`; the other one is never evaluated."""

    test: InRange
    yes: Expr
    no: Expr
    dtype: np.dtype


@dataclass(eq=False, repr=False)
class Apply(Expr):
    """An elementary function (see `functions`). Arguments have the dtypes the function wants."""

    name: str
    args: tuple[Expr, ...]
    dtype: np.dtype


def cast(value: Expr, dtype: np.dtype) -> Expr:
    """The value in another dtype."""
    if value.dtype == dtype:
        return value
    if isinstance(value, Literal) and (value.dtype.kind != "f" or dtype.kind not in "iu"):
        number = value.value.real if dtype.kind != "c" and value.dtype.kind == "c" else value.value
        return Literal(dtype.type(number), dtype)
    return Apply("convert", (value,), dtype)


# The floats that have an integer in each dtype, from the first to below the second. As NumPy and C
# do it, they are converted to 32 or 64 bits and cut off: -1.0 becomes 255 in uint8.
_TO_INTEGER = {
    **dict.fromkeys(("i1", "i2", "i4", "u1", "u2"), (-(2.0**31), 2.0**31)),
    "u4": (-(2.0**31), 2.0**32),
    "i8": (-(2.0**63), 2.0**63),
    "u8": (-(2.0**63), 2.0**64),
}


def float_range(dtype: np.dtype) -> tuple[float, float]:
    """The floats that a conversion to an integer dtype takes: low <= x < high."""
    return _TO_INTEGER[f"{dtype.kind}{dtype.itemsize}"]


def not_an_integer(dtype: np.dtype) -> int:
    """What NaN, infinities and floats out of that range become: no index, if that can be.

    >>> not_an_integer(np.dtype(np.int32)), not_an_integer(np.dtype(np.uint8))
    (-2147483648, 255)
    """
    limits = np.iinfo(dtype)
    return int(limits.min if dtype.kind == "i" else limits.max)


def walk(roots: Iterable[Expr], known: Container[Expr] = ()) -> list[Expr]:
    """All expressions under the roots, parts first; those that are `known` are left out, and what
    only they need. Iterative."""
    order: list[Expr] = []
    seen: set[Expr] = set()
    pending: list[Any] = list(roots)
    while pending:
        expr = pending.pop()
        if expr is None:  # all parts of the one below are in order
            order.append(pending.pop())
            continue
        if expr in seen or expr in known:
            continue
        seen.add(expr)
        parts = parts_of(expr)
        if parts:
            pending += (expr, None, *parts)
        else:
            order.append(expr)
    return order


def takes_long(expr: Expr) -> bool:
    """Whether an expression is a function that costs more than a load and a store."""
    return isinstance(expr, Apply) and FUNCTIONS[expr.name].cost is Cost.LONG


def parts_of(expr: Expr) -> tuple[Expr, ...]:
    """The direct parts of an expression."""
    if isinstance(expr, Apply):
        return expr.args
    if isinstance(expr, Choose):
        return (expr.yes, expr.no)
    if isinstance(expr, LoadAt):
        return tuple(place for place, _ in expr.picks)
    return ()
