"""Operations that join arrays."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import ShapeError, explain
from ..loops import Choose, Expr, Index, InRange, Operand, Pointwise, cast
from ..types import ArrayType, result_dtype, type_of
from .indexing import index
from .layout import broadcast_to, convert, without_axes
from .op import Op


def _concatenate_type(*xs: ArrayType, axis: int) -> ArrayType:
    first = xs[0]
    for x in xs:
        if without_axes(x.shape, (axis,)) != without_axes(first.shape, (axis,)):
            raise ShapeError(
                explain(
                    "concatenate",
                    f"got arrays of shapes {first.shape} and {x.shape} for axis {axis}",
                    "All axes but that one must be equal.",
                )
            )
    shape = list(first.shape)
    shape[axis] = sum(x.shape[axis] for x in xs)
    return ArrayType(result_dtype(*xs), tuple(shape))


def _concatenate_jvp(tangents: Any, ans: Any, *xs: Any, axis: int) -> Any:
    dtype = type_of(ans).dtype
    parts = [
        np.zeros(type_of(x).shape, dtype) if t is None else convert(t, dtype=dtype)
        for t, x in zip(tangents, xs, strict=True)
    ]
    return concatenate(*parts, axis=axis)


def _concatenate_transpose(g: Any, position: int, *xs: Any, axis: int) -> Any:
    types = [x if isinstance(x, ArrayType) else type_of(x) for x in xs]
    lengths = [x.shape[axis] for x in types]
    start = sum(lengths[:position])
    shape = type_of(g).shape
    key = tuple(
        (start, start + lengths[position], 1) if k == axis else (0, n, 1)
        for k, n in enumerate(shape)
    )
    return index(g, key=key)


def _concatenate_batch(size: int, flags: Sequence[bool], *xs: Any, axis: int) -> Any:
    parts = [
        x if flag else broadcast_to(x, shape=(size, *type_of(x).shape))
        for x, flag in zip(xs, flags, strict=True)
    ]
    return concatenate(*parts, axis=axis + 1)


def _concatenate_loops(at: Index, *xs: Operand, axis: int) -> Expr:
    dtype = result_dtype(*[x.type for x in xs])
    value: Expr | None = None
    end = sum(x.type.shape[axis] for x in xs)
    for x in reversed(xs):
        start = end - x.type.shape[axis]
        inside = InRange(at[axis], start, end)
        if inside.decided() is not False:
            part = cast(x((*at[:axis], at[axis] + -start, *at[axis + 1 :])), dtype)
            value = part if value is None else Choose(inside, part, value, dtype)
        end = start
    assert value is not None
    return value


def _concatenate_corners(*xs: ArrayType, axis: int) -> list[tuple[int, ...]]:
    before, after = (0,) * axis, (0,) * (len(xs[0].shape) - axis - 1)
    starts = itertools.accumulate([x.shape[axis] for x in xs], initial=0)
    return [(*before, start, *after) for start, _ in zip(starts, xs, strict=False)]


concatenate = Op(
    "concatenate",
    lambda *xs, axis: np.concatenate(xs, axis),
    _concatenate_type,
    jvp=_concatenate_jvp,
    transpose=_concatenate_transpose,
    additive=True,
    batch=_concatenate_batch,
    loops=Pointwise(_concatenate_loops, free=True, chooses=True, corners=_concatenate_corners),
    samples=lambda rng: [
        ((rng.normal(size=(2, 3)), rng.normal(size=(2, 1))), {"axis": 1}),
        ((rng.normal(size=(2,)), rng.normal(size=(0,)), rng.normal(size=(3,))), {"axis": 0}),
    ],
)
