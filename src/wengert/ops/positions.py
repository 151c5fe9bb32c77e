"""Positions that must exist: NumPy refuses others when it computes with them, negative ones too."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import OutOfRangeError, explain
from ..loops import BOOL, INDEX, Apply, Expr, Index, Literal, Operand, Pointwise
from ..types import ArrayType
from .op import Op


def _within(x: Any, length: int, name: str) -> Any:
    wrong = np.logical_or(np.less(x, 0), np.greater_equal(x, length))
    if wrong.any():
        first = np.asarray(x)[wrong].flat[0]
        raise OutOfRangeError(
            explain(
                name,
                f"got the position {first}, expected 0 to {length - 1}",
                'Use mode="wrap" or mode="clip" where others are meant.',
            )
        )
    return x


def _check(index: Index, x: Operand, length: int, name: str) -> Expr:
    value = x(index)
    low, high = (Literal(INDEX.type(bound), INDEX) for bound in (0, length))
    above = Apply("greater_equal", (value, low), BOOL)
    return Apply("logical_and", (above, Apply("less", (value, high), BOOL)), BOOL)


# Positions of 64 bits; an error, named after the function, where one is not from 0 to length - 1.
within: Op = Op(
    "within",
    _within,
    lambda x, length, name: ArrayType(x.dtype, x.shape),
    batch=lambda size, flags, x, length, name: within(x, length=length, name=name),
    loops=Pointwise(lambda index, x, length, name: x(index), check=_check),
    zero="its results are integers",
    samples=lambda rng: [
        ((rng.integers(0, 9, size=shape),), {"length": 9, "name": "choose"})
        for shape in ((2, 3), (), (0, 2))
    ],
)
