"""What the processes of a job do together: sums over all, gathering, broadcasting.

Each process, called a rank, runs the same program on arrays of its own, so a value here stands for
one array on each rank, and an operation is a function of all of them together. Its derivative is
that of this function: `all_reduce` sums what every rank has and gives the sum to every rank, so a
cotangent, too, is the sum of those of all ranks. A gradient is therefore that of the sum of all
ranks' results.

The bytes travel by MPI. `native` says how generated code calls the functions that do it (see
`codegen/collectives.py`), and `perform`, which whoever has started MPI sets, calls the same ones on
arrays; so evaluated and compiled programs give the same bits. All ranks must run the same
operations in the same order. With one rank nothing is left to do, and no operation is recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import DTypeError, OptionError, ShapeError, explain
from ..types import ArrayType, type_of
from .elementwise import divide, select
from .layout import convert, permute
from .logic import attains
from .op import Op

# What the names of the native functions begin with.
PREFIX = "wengert_mpi_"
# The kinds of elements, with MPI's names for them, and the ways to combine two: functions get the
# numbers of these.
ELEMENTS = {
    "f4": "FLOAT", "f8": "DOUBLE", "i1": "INT8_T", "i2": "INT16_T", "i4": "INT32_T",
    "i8": "INT64_T", "u1": "UINT8_T", "u2": "UINT16_T", "u4": "UINT32_T", "u8": "UINT64_T",
    "b1": "C_BOOL", "c8": "C_FLOAT_COMPLEX", "c16": "C_DOUBLE_COMPLEX",
}  # fmt: skip
OPERATIONS = {"sum": "SUM", "max": "MAX", "min": "MIN"}
# MPI counts elements with 32 bits.
MOST_ELEMENTS = (1 << 31) - 1


class NativeCall(NamedTuple):
    """A call of one of the functions: the name, elements to work in, and three numbers."""

    function: str
    work: int
    length: int
    element: int
    extra: int


# perform(call, given, out) by whoever has started MPI; None: nobody has.
perform: Callable[[NativeCall, np.ndarray, np.ndarray], None] | None = None


def native(name: str, x: ArrayType, **params: Any) -> NativeCall:
    """How an operation of this name is called for an array."""
    kind = list(ELEMENTS).index(f"{x.dtype.kind}{x.dtype.itemsize}")
    extra, count = params.get("root", 0), x.size
    work = count
    if "operation" in params:
        extra = list(OPERATIONS).index(params["operation"])
    if name == "reduce_scatter":
        count //= params["size"]
    elif name in ("all_gather", "broadcast"):
        work = 0
    function = "all_reduce" if name == "all_extreme" else name
    return NativeCall(PREFIX + function, work, count, kind, extra)


def _evaluation(name: str, shape_of: Callable[..., tuple[int, ...]]) -> Callable[..., Any]:
    def evaluate(x: Any, **params: Any) -> Any:
        given = np.asarray(x, order="C")
        out = np.empty(shape_of(given, **params), given.dtype)
        if perform is None:
            raise OptionError(
                explain(
                    name,
                    f"got {params['size']} ranks in a process that is none of them",
                    "Call wengert.distributed.init() first.",
                )
            )
        perform(native(name, type_of(given), **params), given, out)
        return out if out.ndim else out[()]

    return evaluate


def _checked(name: str, x: ArrayType, kinds: str = "fiucb") -> None:
    known = f"{x.dtype.kind}{x.dtype.itemsize}" in ELEMENTS and x.dtype.kind in kinds
    if not known:
        raise DTypeError(explain(name, f"is not defined for {x}", "Convert the array with astype."))
    if x.size > MOST_ELEMENTS:
        raise ShapeError(
            explain(
                name,
                f"got an array of {x.size} elements, expected at most {MOST_ELEMENTS}",
                "Give it in parts.",
            )
        )


def _same_type(name: str, kinds: str = "fiucb") -> Callable[..., ArrayType]:
    def rule(x: ArrayType, **params: Any) -> ArrayType:
        _checked(name, x, kinds)
        return ArrayType(x.dtype, x.shape)

    return rule


def _same_shape(x: Any, **params: Any) -> tuple[int, ...]:
    return tuple(np.shape(x))


_SEVERAL = {"samples": "it needs several processes; tests/distributed/test_collectives.py"}
_HOSTED = "other processes take part in it"


def _collective(name: str, type_rule: Any, shape_of: Any, **rules: Any) -> Op:
    op = Op(name, _evaluation(name, shape_of), type_rule, hosted=_HOSTED, absent=_SEVERAL, **rules)
    op.collective = True
    return op


def _each_alone(op_of: Callable[[], Op]) -> Callable[..., Any]:
    """Batching of what is done to every element by itself."""
    return lambda size_of_batch, flags, x, **params: op_of()(x, **params)


all_reduce: Op = _collective(
    "all_reduce",
    _same_type("all_reduce", "fiuc"),
    _same_shape,
    linear=(0,),
    transpose=(lambda g, x, size: all_reduce(g, size=size),),
    batch=_each_alone(lambda: all_reduce),
)


def _extreme_jvp(t: Any, ans: Any, x: Any, operation: str, size: int) -> Any:
    """The tangents of the ranks that have the extreme, equal shares; a NaN is the result."""
    chosen = attains(x, ans)
    count = all_reduce(convert(chosen, dtype=type_of(ans).dtype), size=size)
    return divide(all_reduce(select(chosen, t, 0.0), size=size), count)


all_extreme: Op = _collective(
    "all_extreme",
    _same_type("all_extreme", "fiu"),
    _same_shape,
    jvp=(_extreme_jvp,),
    batch=_each_alone(lambda: all_extreme),
)

broadcast: Op = _collective(
    "broadcast",
    _same_type("broadcast"),
    _same_shape,
    linear=(0,),
    transpose=(lambda g, x, root, size: reduce(g, root=root, size=size),),
    batch=_each_alone(lambda: broadcast),
)

# The sum on one rank, zeros on all others: what a cotangent of `broadcast` becomes.
reduce: Op = _collective(
    "reduce",
    _same_type("reduce", "fiuc"),
    _same_shape,
    linear=(0,),
    transpose=(lambda g, x, root, size: broadcast(g, root=root, size=size),),
    batch=_each_alone(lambda: reduce),
)


def _swapped(x: Any) -> Any:
    """With the first two axes exchanged."""
    rank = len(type_of(x).shape)
    return permute(x, axes=(1, 0, *range(2, rank)))


def _gather_type(x: ArrayType, size: int, **params: Any) -> ArrayType:
    _checked("all_gather", x)
    return ArrayType(x.dtype, (size, *x.shape))


def _scatter_type(x: ArrayType, size: int, **params: Any) -> ArrayType:
    _checked("reduce_scatter", x, "fiuc")
    if x.shape[:1] != (size,):
        raise ShapeError(
            explain(
                "reduce_scatter",
                f"got an array of shape {x.shape} for {size} ranks",
                f"Give it one row for each rank: a first axis of {size}.",
            )
        )
    return ArrayType(x.dtype, x.shape[1:])


def _batch_gather(count: int, flags: Sequence[bool], x: Any, size: int) -> Any:
    return _swapped(all_gather(x, size=size))


def _batch_scatter(count: int, flags: Sequence[bool], x: Any, size: int) -> Any:
    return reduce_scatter(_swapped(x), size=size)


all_gather: Op = _collective(
    "all_gather",
    _gather_type,
    lambda x, size, **params: (size, *np.shape(x)),
    linear=(0,),
    transpose=(lambda g, x, size: reduce_scatter(g, size=size),),
    batch=_batch_gather,
)
reduce_scatter: Op = _collective(
    "reduce_scatter",
    _scatter_type,
    lambda x, size, **params: np.shape(x)[1:],
    linear=(0,),
    transpose=(lambda g, x, size: all_gather(g, size=size),),
    batch=_batch_scatter,
)
