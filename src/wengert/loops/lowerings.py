"""How an operation lowers to loops: what its entry in the registry has as `loops`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..policy import Record
from ..types import ArrayType
from .buffers import Buffer
from .expressions import Apply, Expr, cast
from .indices import Affine, Index


@dataclass(frozen=True)
class Operand:
    """An argument of an operation that is being lowered: its type, and its elements."""

    type: ArrayType
    element: Callable[[Index], Expr]
    memory: Callable[[], Buffer]
    constant: Any = None  # its value, where that is known

    def __call__(self, index: Iterable[Affine]) -> Expr:
        """The element at an index."""
        return self.element(tuple(index))

    def broadcast(self, index: Index) -> Expr:
        """The element that meets `index` of a larger shape by broadcasting."""
        shape = self.type.shape
        own = index[len(index) - len(shape) :]
        return self.element(
            tuple(Affine(0) if n == 1 else at for n, at in zip(shape, own, strict=True))
        )


class Pointwise(Record, kw_only=False):
    """Each element of the result is an expression of elements of the arguments."""

    rule: Callable[..., Expr]
    # Whether the rule only moves elements: then it costs nothing to do it twice.
    free: bool = False
    # Arguments that must be in memory as a whole, because any element may be asked for.
    whole: tuple[int, ...] = ()
    # Whether the rule makes a choice by the index, or one for each argument but the first.
    chooses: bool = False
    # Where the result is arguments put together: corners(*types, **params) gives, for each of them,
    # the index in the result of its first element.
    corners: Callable[..., list[tuple[int, ...]]] | None = None
    # The kinds of dtypes that it gives; NumPy evaluates the others.
    kinds: str = "biuf"
    # A condition on elements of an argument, checked for all of them before the result is used:
    # check(index, *operands, **params) gives a boolean expression over the result's loops.
    check: Callable[..., Expr] | None = None
    code: int | None = None  # of the error when that fails, if it is no index
    # The same as a write to the first argument, where that need not be kept.
    write: Scatter | None = None


class Assembled(Record, kw_only=False):
    """Many arguments put together: each is stored where it belongs; `corners` as in `Pointwise`."""

    corners: Callable[..., list[tuple[int, ...]]]


# A reduction of at most this many elements can be written out.
FEW = 16


class Reduction(Record, kw_only=False):
    """The elements along the param ``axes`` are combined."""

    kind: str

    def written_out(self, dtype: np.dtype) -> Pointwise:
        """The same without a loop: one expression that combines all elements, by halves."""

        def rule(at: Index, x: Operand, axes: tuple[int, ...], **params: Any) -> Expr:
            kept = iter(at)
            whole = [None if axis in axes else next(kept) for axis in range(len(x.type.shape))]
            values = [
                cast(x(_filled(whole, place)), dtype)
                for place in itertools.product(*[range(x.type.shape[axis]) for axis in axes])
            ]
            while len(values) > 1:
                pairs = itertools.zip_longest(values[::2], values[1::2])
                values = [a if b is None else Apply(self.kind, (a, b), dtype) for a, b in pairs]
            return values[0]

        return Pointwise(rule)


def _filled(index: Sequence[Affine | None], numbers: Iterable[int]) -> Index:
    """The index with its gaps filled by numbers, in order."""
    rest = iter(numbers)
    return tuple(Affine(next(rest)) if at is None else at for at in index)


class Running(Record, kw_only=False):
    """Along the param ``axis``, backwards with ``reverse``, elements are made one from another.

    ``first(at, *operands)`` gives the element that the line starts with, and
    ``step(before, at, *operands)`` every other one from its predecessor.
    """

    first: Callable[..., Expr]
    step: Callable[..., Expr]


class Product(Record, kw_only=False):
    """A contraction of two arguments by the param ``spec``."""


class Alias(Record, kw_only=False):
    """The same elements in the same order."""


class Accumulate(Record, kw_only=False):
    """Zeros to which every element of the argument is added at an affine place.

    ``place(index, **params)`` gives the index in the result of the element at `index`, and
    ``axes(x, **params)`` the order of the loops over the argument's axes, for a type `x`: elements
    that meet should not come one right after the other.
    """

    place: Callable[..., Iterable[Affine]]
    axes: Callable[..., Sequence[int]]


class Scatter(Record, kw_only=False):
    """A copy of the first argument in which elements of the second are put, or combined.

    ``place(index, out, x, y, *rest, **params)`` gives, for each element of `y`, where it goes in
    the buffer `out`: an affine place and picks; `check` as in `Pointwise`.
    """

    combine: str | None
    place: Callable[..., tuple[Affine, tuple[tuple[Expr, int], ...]]]
    shape: Callable[..., tuple[int, ...]]
    check: Callable[..., Expr] | None = None
