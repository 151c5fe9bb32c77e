"""Running sums, products and extremes along one axis.

All derivatives that divide in the textbook (of products, of log-sum-exp) are written with
`recurrence`, h[k] = a[k] h[k-1] + b[k], which needs no division and is closed under
differentiation: its tangent and its transpose are recurrences again. So products with zeros and
log-sum-exps of very different numbers are exact to any order.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..errors import ShapeError, explain
from ..loops import BOOL, Apply, Expr, Index, Literal, Operand, Running, cast
from ..types import ArrayType, Function, result_dtype, type_of
from .elementwise import add, exp, scale, select, share_of_sum
from .indexing import index
from .layout import broadcast_to, reduce_sum
from .logic import greater, less
from .op import Op
from .sorting import along
from .structure import concatenate

# From this many elements across the axis on, a step of the plain loop costs more in arithmetic
# than in overhead.
WIDE = 64
SHORT = 32


def shifted(x: Any, fill: Any, axis: int, reverse: bool) -> Any:
    """`x` moved by one along the axis: each element is its predecessor, the first is `fill`.

    With `reverse` each element is its successor and the last is `fill`.
    """
    dtype, shape, _ = type_of(x)
    length = shape[axis]
    if length == 0:
        return x
    span = (1, length, 1) if reverse else (0, length - 1, 1)
    rest = index(x, key=tuple(span if k == axis else (0, n, 1) for k, n in enumerate(shape)))
    edge = np.full((*shape[:axis], 1, *shape[axis + 1 :]), fill, dtype)
    return concatenate(*((rest, edge) if reverse else (edge, rest)), axis=axis)


def spread(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Numbers in random order, far enough apart that finite differences keep their order."""
    return rng.permutation(np.linspace(-1.9, 2.1, math.prod(shape))).reshape(shape)


def _running(function: str) -> Running:
    """The loops of an operation that combines each element with all before it."""
    return Running(
        lambda at, x: x(at),
        lambda before, at, x: Apply(function, (before, cast(x(at), before.dtype)), before.dtype),
    )


def _accumulation(
    name: str,
    evaluate: Function,
    type_rule: Function,
    zeros: bool = False,
    **parts: Any,
) -> Op:
    """An operation along an axis, from its start or (`reverse`) end; `zeros`: sampled at 0 too."""

    def run(x: Any, axis: int, reverse: bool) -> Any:
        if not reverse:
            return evaluate(x, axis)
        return np.flip(evaluate(np.flip(x, axis), axis), axis)

    def samples(rng: np.random.Generator) -> Any:
        yield (spread(rng, 3, 4),), {"axis": 1, "reverse": False}
        yield (spread(rng, 4, 2),), {"axis": 0, "reverse": True}
        yield (spread(rng, 1),), {"axis": 0, "reverse": False}
        yield (spread(rng, 2, 0),), {"axis": 1, "reverse": False}
        yield (spread(rng, 5).astype(np.float32),), {"axis": 0, "reverse": True}
        if zeros:
            yield (np.array([1.5, 0.0, -2.0, 0.0, 3.0]),), {"axis": 0, "reverse": False}

    op: Op = Op(
        name,
        run,
        type_rule,
        batch=lambda size, flags, x, axis, reverse: op(x, axis=axis + 1, reverse=reverse),
        samples=samples,
        **parts,
    )
    return op


def _accumulated_type(x: ArrayType, axis: int, reverse: bool) -> ArrayType:
    # small integers are summed and multiplied as 64-bit ones
    found: ArrayType = reduce_sum.type_rule(x, axes=())
    return found


def _same_type(x: ArrayType, axis: int, reverse: bool) -> ArrayType:
    return ArrayType(x.dtype, x.shape)


cumsum: Op = _accumulation(
    "cumsum",
    np.cumsum,
    _accumulated_type,
    linear=(0,),
    loops=_running("add"),
    transpose=(lambda g, x, axis, reverse: cumsum(g, axis=axis, reverse=not reverse),),
)

# ---------------------------------------------------------------- the linear recurrence


def _recurrence(a: Any, b: Any, axis: int, reverse: bool) -> Any:
    dtype = np.result_type(a, b)
    a, b = (np.moveaxis(np.asarray(x, dtype), axis, 0) for x in (a, b))
    if reverse:
        a, b = a[::-1], b[::-1]
    with np.errstate(all="ignore"):
        result = _run_recurrence(a, b)
    return np.moveaxis(result[::-1] if reverse else result, 0, axis)


def _run_recurrence(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    length = len(b)
    if length < SHORT or b.size >= WIDE * length:
        result = _step_by_step(a, b, np.multiply)
    else:
        result = _by_doubling(a, b)
    if np.isnan(result).any():
        # 0 * inf: in a derivative that is zero
        result = _step_by_step(a, b, _product_of_numbers)
    return result


def _product_of_numbers(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The product, 0 where it is NaN without either being."""
    product = a * b
    return np.where(np.isnan(product) & ~np.isnan(a + b), 0, product)


def _step_by_step(a: np.ndarray, b: np.ndarray, product: Function) -> np.ndarray:
    result = np.array(b)
    for k in range(1, len(b)):
        result[k] += product(a[k], result[k - 1])
    return result


def _by_doubling(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """After each round an element stands for twice as many steps: log2(n) vector operations."""
    a, b = np.array(a), np.array(b)
    step = 1
    while step < len(b):
        b[step:] += a[step:] * b[:-step]
        a[step:] = a[step:] * a[:-step]
        step *= 2
    return b


def _recurrence_type(a: ArrayType, b: ArrayType, axis: int, reverse: bool) -> ArrayType:
    if a.shape != b.shape:
        raise ShapeError(
            explain(
                "recurrence",
                f"got arrays of shapes {a.shape} and {b.shape}, expected equal shapes",
                "Broadcast them first.",
            )
        )
    return ArrayType(result_dtype(a, b), b.shape)


def _recurrence_jvp(tangents: Any, ans: Any, a: Any, b: Any, axis: int, reverse: bool) -> Any:
    ta, tb = tangents
    moved = None if ta is None else scale(ta, shifted(ans, 0, axis, reverse))
    drive = tb if moved is None else moved if tb is None else add(moved, tb)
    return recurrence(a, drive, axis=axis, reverse=reverse)


def _recurrence_transpose(g: Any, a: Any, b: Any, axis: int, reverse: bool) -> Any:
    return recurrence(shifted(a, 0, axis, not reverse), g, axis=axis, reverse=not reverse)


def _recurrence_samples(rng: np.random.Generator) -> Any:
    for shape, axis, reverse in [((3, 4), 1, False), ((4, 2), 0, True), ((1,), 0, False)]:
        yield (
            (rng.normal(size=shape), rng.normal(size=shape)),
            {"axis": axis, "reverse": reverse},
        )
    yield (np.zeros((0, 2)), np.zeros((0, 2))), {"axis": 0, "reverse": False}


def _batch_recurrence(size: int, flags: Any, a: Any, b: Any, axis: int, reverse: bool) -> Any:
    a, b = (
        x if flag else broadcast_to(x, shape=(size, *type_of(x).shape))
        for x, flag in zip((a, b), flags, strict=True)
    )
    return recurrence(a, b, axis=axis + 1, reverse=reverse)


def _recurrence_step(before: Expr, at: Index, a: Operand, b: Operand) -> Expr:
    """a * before + b, where 0 * inf is 0 as everywhere in derivatives, but NaN stays."""
    dtype = before.dtype
    factor = cast(a(at), dtype)
    product = Apply("multiply", (factor, before), dtype)
    if dtype.kind == "f":
        is_number = Apply("equal", (product, product), BOOL)
        was_nan = Apply("isnan", (Apply("add", (factor, before), dtype),), BOOL)
        known = Apply("logical_or", (is_number, was_nan), BOOL)
        product = Apply("where", (known, product, Literal(dtype.type(0), dtype)), dtype)
    return Apply("add", (product, cast(b(at), dtype)), dtype)


# h[k] = a[k] h[k-1] + b[k] along an axis, starting from h = 0.
recurrence: Op = Op(
    "recurrence",
    _recurrence,
    _recurrence_type,
    jvp=_recurrence_jvp,
    transpose=(None, _recurrence_transpose),
    batch=_batch_recurrence,
    loops=Running(lambda at, a, b: b(at), _recurrence_step),
    samples=_recurrence_samples,
)


def _cumprod_jvp(t: Any, ans: Any, x: Any, axis: int, reverse: bool) -> Any:
    before = shifted(ans, 1, axis, reverse)
    return recurrence(x, scale(t, before), axis=axis, reverse=reverse)


cumprod: Op = _accumulation(
    "cumprod",
    np.cumprod,
    _accumulated_type,
    zeros=True,
    jvp=(_cumprod_jvp,),
    loops=_running("multiply"),
)

# ---------------------------------------------------------------- extremes


def _record_jvp(surpasses: Op) -> Function:
    """The tangent of the first element that reached the running extreme."""

    def rule(t: Any, ans: Any, x: Any, axis: int, reverse: bool) -> Any:
        shape = type_of(x).shape
        length = shape[axis]
        places = np.arange(length).reshape((length,) + (1,) * (len(shape) - 1 - axis))
        first = places[-1:] if reverse else places[:1]
        is_record = surpasses(x, shifted(ans, 0, axis, reverse))
        if reverse:
            place = cummin(select(is_record, places, first), axis=axis, reverse=True)
        else:
            place = cummax(select(is_record, places, first), axis=axis, reverse=False)
        return along(t, place, axis)

    return rule


def _running_extreme(name: str, ufunc: np.ufunc, surpasses: Op) -> Op:
    loops = _running(ufunc.__name__)
    return _accumulation(
        name, ufunc.accumulate, _same_type, jvp=(_record_jvp(surpasses),), loops=loops
    )


cummax: Op = _running_extreme("cummax", np.maximum, greater)
cummin: Op = _running_extreme("cummin", np.minimum, less)

# ---------------------------------------------------------------- log-sum-exp


def _logarithm_type(x: ArrayType, axis: int, reverse: bool) -> ArrayType:
    dtype = np.logaddexp.resolve_dtypes((x.dtype, x.dtype, None))[2]
    return ArrayType(dtype, x.shape)


def _logcumsumexp_jvp(t: Any, ans: Any, x: Any, axis: int, reverse: bool) -> Any:
    before = shifted(ans, -np.inf, axis, reverse)
    kept, own = share_of_sum(before, x, ans, exp), share_of_sum(x, before, ans, exp)
    return recurrence(kept, scale(t, own), axis=axis, reverse=reverse)


logcumsumexp = _accumulation(
    "logcumsumexp",
    np.logaddexp.accumulate,
    _logarithm_type,
    jvp=(_logcumsumexp_jvp,),
    loops=_running("logaddexp"),
)
