"""Helpers that keep an elementwise operation to about one line.

`unary` and `binary` take a NumPy ufunc (or any broadcasting function with `like=` a ufunc whose
dtype rules it follows) and derivative factors, and give the complete operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import DTypeError, ShapeError, explain
from ..functions import FUNCTIONS
from ..loops import Apply, Expr, Index, Operand, Pointwise, cast
from ..types import ArrayType, Function, promotable, type_of
from .layout import convert, reshape
from .op import Op

# Where test samples of an argument are drawn from.
Interval = tuple[float, float]
REAL: Interval = (-2.0, 2.0)
POSITIVE: Interval = (0.2, 3.0)


def broadcast_shapes(name: str, types: Sequence[ArrayType]) -> tuple[int, ...]:
    """The common shape, or an error that names the operation and the shapes."""
    try:
        return np.broadcast_shapes(*[t.shape for t in types])
    except ValueError:
        shapes = " and ".join(str(t.shape) for t in types)
        raise ShapeError(
            explain(
                name,
                f"got arrays of shapes {shapes}, which do not broadcast together",
                "Compared from the right, each pair of lengths must be equal or 1.",
            )
        ) from None


def loop_dtypes(ufunc: np.ufunc, types: Sequence[ArrayType]) -> Sequence[np.dtype]:
    """The dtypes that the ufunc computes with, arguments first: NumPy's promotion."""
    results = [None] * ufunc.nout
    dtypes = ufunc.resolve_dtypes((*map(promotable, types), *results))
    if any(dtype.kind == "O" for dtype in dtypes):
        # Python numbers alone: NumPy would compare them as objects
        dtypes = ufunc.resolve_dtypes((*[t.dtype for t in types], *results))
    return dtypes


def ufunc_takes(ufunc: np.ufunc) -> Function:
    """`takes` of an operation with the dtype rules of the ufunc."""
    return lambda *types, **params: loop_dtypes(ufunc, types)[: ufunc.nin]


def ufunc_type_rule(name: str, ufunc: np.ufunc) -> Function:
    """Types as the ufunc says: NumPy's promotion and broadcasting."""

    def rule(*types: ArrayType, **params: Any) -> Any:
        shape = broadcast_shapes(name, types)
        try:
            dtypes = loop_dtypes(ufunc, types)
        except TypeError:
            got = ", ".join(str(t) for t in types)
            raise DTypeError(
                explain(name, f"is not defined for {got}", "Convert the arguments with astype.")
            ) from None
        if any(t.dtype.kind not in "biufc" for t in types):
            # NumPy knows durations and objects too
            got = ", ".join(str(t) for t in types)
            raise DTypeError(explain(name, f"got {got}, expected numbers", "Convert with astype."))
        results = tuple(ArrayType(dtype, shape) for dtype in dtypes[ufunc.nin :])
        return results[0] if ufunc.nout == 1 else results

    return rule


def pointwise(name: str, ufunc: np.ufunc, kinds: str = "biuf") -> Pointwise | None:
    """The loops of an elementwise operation whose function the loop language has.

    They are for results of these kinds of dtypes.
    """
    if name not in FUNCTIONS:
        return None

    def rule(index: Index, *operands: Operand) -> Expr:
        dtypes = loop_dtypes(ufunc, [operand.type for operand in operands])
        args = [
            cast(operand.broadcast(index), dtype)
            for operand, dtype in zip(operands, dtypes, strict=False)
        ]
        return Apply(name, tuple(args), dtypes[-1])

    return Pointwise(rule, kinds=kinds)


def batch_elementwise(op_of: Callable[[], Op]) -> Function:
    """Batching by broadcasting: ranks are aligned so that the batch axes meet."""

    def rule(size: int, flags: Sequence[bool], *args: Any, **params: Any) -> Any:
        shapes = [type_of(arg).shape for arg in args]
        rank = max(len(shape) - flag for shape, flag in zip(shapes, flags, strict=True))
        aligned = [
            _align(arg, shape, rank) if flag else arg
            for arg, shape, flag in zip(args, shapes, flags, strict=True)
        ]
        return op_of()(*aligned, **params)

    return rule


def _align(x: Any, shape: tuple[int, ...], rank: int) -> Any:
    missing = rank + 1 - len(shape)
    return reshape(x, shape=(shape[0], *(1,) * missing, *shape[1:])) if missing else x


def of_floats(rule: Function) -> Function:
    """A factor of several arguments, taken at them in the dtype of the result.

    The rule may square, negate or take the logarithm of an integer, which is another number in its
    own dtype: it wraps around, or NumPy takes the logarithm of a small one in half precision.
    """

    def factor(ans: Any, *args: Any, **params: Any) -> Any:
        dtype = type_of(ans).dtype
        return rule(ans, *[_in_dtype(arg, dtype) for arg in args], **params)

    return factor


def _in_dtype(x: Any, dtype: np.dtype) -> Any:
    own = type_of(x)
    return x if own.inexact or own.dtype == dtype else convert(x, dtype=dtype)


def composed_as(ufunc: np.ufunc, compose: Function) -> Function:
    """The same made of other operations, of arguments in the dtypes that the ufunc takes."""

    def composed(*args: Any, **params: Any) -> Any:
        dtypes = loop_dtypes(ufunc, [type_of(arg) for arg in args])
        pairs = zip(args, dtypes, strict=False)
        own = [x if type_of(x).dtype == dtype else convert(x, dtype=dtype) for x, dtype in pairs]
        return compose(*own, **params)

    return composed


def elementwise(
    name: str,
    function: Function,
    derivative: Sequence[Function | None] | None,
    domains: Sequence[Interval],
    *,
    like: np.ufunc | None = None,
    dtypes: Sequence[str] = ("float64",),
    mixed: bool = False,
    **parts: Any,
) -> Op:
    """An operation that works element by element and broadcasts.

    Integers beside floats are converted before the factors are taken, unless these are right for
    them too (`mixed`).
    """
    if derivative is not None and len(derivative) > 1 and not mixed:
        derivative = tuple(rule and of_floats(rule) for rule in derivative)
    ufunc = like if like is not None else function
    assert isinstance(ufunc, np.ufunc), name
    parts.setdefault("loops", pointwise(name, ufunc))
    if "compose" in parts or (parts["loops"] is None and "hosted" not in parts):
        parts["compose"] = composed_as(ufunc, parts.get("compose", function))
    parts.setdefault("takes", ufunc_takes(ufunc))
    op = Op(
        name,
        function,
        ufunc_type_rule(name, ufunc),
        derivative=derivative,
        batch=batch_elementwise(lambda: op),
        samples=broadcast_samples(domains, dtypes),
        **parts,
    )
    op.by_elements = True
    return op


def unary(
    name: str,
    function: Function,
    derivative: Function | None = None,
    domain: Interval = REAL,
    **parts: Any,
) -> Op:
    """An elementwise operation of one argument; `derivative(ans, x)`."""
    return elementwise(name, function, derivative and (derivative,), (domain,), **parts)


def binary(
    name: str,
    function: Function,
    dx: Function | None = None,
    dy: Function | None = None,
    domains: Sequence[Interval] = (REAL, REAL),
    **parts: Any,
) -> Op:
    """An elementwise operation of two arguments; factors `dx(ans, x, y)` and `dy(ans, x, y)`."""
    derivative = (dx, dy) if dx or dy else None
    return elementwise(name, function, derivative, domains, **parts)


def broadcast_samples(domains: Sequence[Interval], dtypes: Sequence[str]) -> Function:
    """Sample arguments: equal shapes, every broadcast pattern, 0-d, zero-size."""
    patterns: list[list[tuple[int, ...]]] = [
        [(2, 3)] * len(domains),
        [()] * len(domains),
        [(0, 2)] * len(domains),
    ]
    if len(domains) > 1:
        patterns += [[(2, 3), (3,), (2, 1)][: len(domains)], [(), (2, 2), ()][: len(domains)]]

    def samples(rng: np.random.Generator) -> Any:
        for dtype in dtypes:
            for shapes in patterns:
                yield (
                    tuple(
                        sample(rng, shape, domain, dtype)
                        for shape, domain in zip(shapes, domains, strict=True)
                    ),
                    {},
                )

    return samples


def sample(rng: np.random.Generator, shape: tuple[int, ...], domain: Interval, dtype: str) -> Any:
    """Random numbers of a dtype from an interval."""
    low, high = domain
    if np.dtype(dtype).kind == "b":
        return rng.integers(0, 2, size=shape).astype(bool)
    if np.dtype(dtype).kind in "iu":
        bottom = int(np.ceil(low))
        top = max(bottom, int(np.floor(high)))
        return rng.integers(bottom, top + 1, size=shape).astype(dtype)
    values = rng.uniform(low, high, size=shape)
    # finite differences must not step over the kink that many functions have at 0
    values = np.where(np.abs(values) < 0.05, values + 0.1, values)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.uniform(low, high, size=shape)
    return np.asarray(values).astype(dtype)
