"""Positions that must exist, and conditions that must hold: elsewhere there is an error."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import ControlFlowError, OutOfRangeError, ShapeError, explain
from ..loops import BOOL, INDEX, Apply, Expr, Index, Literal, Operand, Pointwise
from ..types import ArrayType, type_of
from .families import batch_elementwise
from .layout import broadcast_to, reshape
from .linalg import LinearAlgebraError
from .op import Op

# Programs are found on disk by what operations are told: texts, so that errors have names.
_RAISED = (ShapeError, LinearAlgebraError, ControlFlowError, OutOfRangeError)
ERRORS = {error.__name__: error for error in _RAISED}


def _takes_a_text(error: Any) -> bool:
    try:
        return isinstance(error(""), Exception)
    except TypeError:
        return False


# Those that users' programs raise themselves, with a text of their own.
PYTHONS: dict[str, type[Exception]] = {
    name: error
    for name, error in vars(builtins).items()
    if isinstance(error, type) and issubclass(error, Exception) and _takes_a_text(error)
}


def _provided(x: Any, flag: Any, error: str, name: str, problem: str, remedy: str) -> Any:
    if not np.all(flag):
        raise ERRORS[error](explain(name, problem, remedy)) if name else PYTHONS[error](problem)
    return x


def _batch_provided(size: int, flags: Sequence[bool], x: Any, flag: Any, **texts: str) -> Any:
    if not flags[0]:
        x = broadcast_to(x, shape=(size, *type_of(x).shape))
    aligned = batch_elementwise(lambda: provided)
    return aligned(size, (True, flags[1]), x, flag, **texts)


# The array, if all flags beside it are true; this error, with these texts, where one is not. Its
# derivatives ask for the same, so that none is taken of a function that has no value there.
provided: Op = Op(
    "provided",
    _provided,
    lambda x, flag, **texts: ArrayType(x.dtype, x.shape),
    linear=(0,),
    transpose=(lambda g, x, flag, **texts: provided(g, flag, **texts), None),
    batch=_batch_provided,
    loops=Pointwise(
        lambda index, x, flag, **texts: x(index),
        check=lambda index, x, flag, **texts: flag.broadcast(index),
    ),
    samples=lambda rng: [
        (
            (rng.normal(size=shape), np.ones(flags, bool)),
            {"error": "ShapeError", "name": "", "problem": "", "remedy": ""},
        )
        for shape, flags in (((2, 3), (3,)), ((4,), ()), ((), ()), ((0, 2), (1,)))
    ],
)


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


def _mask_like(going: Any, size: int, value: Any) -> Any:
    """Which samples go on, beside a batch of values."""
    return reshape(going, shape=(size, *[1] * (len(type_of(value).shape) - 1)))


def _masked_provided(
    size: int, flags: Sequence[bool], going: Any, x: Any, flag: Any, **texts: str
) -> Any:
    """Of samples that have ended nothing is asked."""
    from .logic import logical_not, logical_or

    if not flags[1]:
        flag = broadcast_to(flag, shape=(size, *type_of(flag).shape))
    flag = logical_or(flag, logical_not(_mask_like(going, size, flag)))
    return _batch_provided(size, (flags[0], True), x, flag, **texts), True


provided.masked = _masked_provided


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


def _masked_within(
    size: int, flags: Sequence[bool], going: Any, x: Any, length: int, name: str
) -> Any:
    """Samples that have ended may have any position."""
    from .elementwise import select

    if not flags[0]:
        x = broadcast_to(x, shape=(size, *type_of(x).shape))
    return within(select(_mask_like(going, size, x), x, 0), length=length, name=name), True


within.masked = _masked_within
