"""Python integers beside arrays: they take on the dtype of the array, and must fit into it.

NumPy looks at the number: ``uint8_array + 300`` is an OverflowError, and ``uint8_array < 300`` is
true throughout. Evaluated, NumPy itself does so. Where only types are known (under `jit`), `settle`
does: a constant is looked at while tracing, and a number that is known at run time alone becomes
an array's integer by `to_integer`, which compiled code checks.

An operation says in `takes` which dtypes its arguments are converted to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import IntegerError, explain
from ..graph import Constant, Node, Operator
from ..loops import BOOL, INDEX, Apply, Expr, Index, Literal, Operand, Pointwise, cast
from ..types import ArrayType, result_dtype
from .op import Op


def fits(number: int, dtype: np.dtype) -> bool:
    """Whether an integer dtype holds the number.

    >>> fits(300, np.dtype(np.uint8))
    False
    """
    limits = np.iinfo(dtype)
    return int(limits.min) <= number <= int(limits.max)


def out_of_range(name: str, number: Any, dtype: np.dtype) -> IntegerError:
    """The error for a Python integer that an array's dtype does not hold."""
    limits = np.iinfo(dtype)
    return IntegerError(
        explain(
            name,
            f"got the Python integer {number} beside {dtype}, which holds {limits.min} to "
            f"{limits.max}",
            "Convert the array to a wider dtype with astype first.",
        )
    )


def settle(op: Op, inputs: list[Node], params: dict[str, Any]) -> list[Node]:
    """The inputs of an operation with its Python integers in the dtypes that it takes."""
    types = [node.type for node in inputs]
    if op.takes is None or not any(t.weak and t.dtype.kind == "i" for t in types):
        return inputs
    dtypes = op.takes(*types, **params)
    settled = []
    for place, (node, dtype) in enumerate(zip(inputs, dtypes, strict=True)):
        if not node.type.weak or node.type.dtype.kind != "i" or dtype is None:
            settled.append(node)
        elif op.compares and dtype.kind in "iu" and types[1 - place].dtype.kind != "b":
            if _is_number(node) and not fits(node.output, dtype):
                return _beyond(place, types[1 - place], node.output)
            settled.append(_compared(node, dtype))
        else:
            settled.append(_converted(op.name, node, dtype))
    return settled


def _is_number(node: Node) -> bool:
    return isinstance(node, Constant) and type(node.output) is int


def _converted(name: str, node: Node, dtype: np.dtype) -> Node:
    if not _is_number(node):
        return to_dtype(node, dtype) if dtype.kind in "iu" and dtype != INDEX else node
    number = node.output
    if dtype.kind in "fc":
        # floats hold more than 64 bits; what is too large for them is Python's own OverflowError
        if fits(number, INDEX) and dtype != np.float16:
            return node
        with np.errstate(over="ignore"):
            return Constant(dtype.type(float(number)))
    whole = INDEX if dtype.kind == "b" else dtype
    if not fits(number, whole):
        raise out_of_range(name, number, whole)
    return node if whole == INDEX else Constant(dtype.type(number))


def _compared(node: Node, dtype: np.dtype) -> Node:
    """To compare with: a number known at run time alone keeps its 64 bits, so that it is exact."""
    if dtype == INDEX:
        return node
    return Constant(dtype.type(node.output)) if _is_number(node) else to_dtype(node, INDEX)


def _beyond(place: int, other: ArrayType, number: int) -> list[Node]:
    """Two flags in the order in which every element stands to a number beyond its dtype."""
    elements = Constant(np.broadcast_to(np.bool_(number < 0), other.shape))
    flag = Constant(np.bool_(number > 0))
    return [flag, elements] if place == 0 else [elements, flag]


def to_dtype(node: Node, dtype: np.dtype) -> Operator:
    """A Python integer that is known at run time alone, as an array's integer."""
    array_type = ArrayType(dtype, node.type.shape)
    return Operator(to_integer, (node,), {"dtype": dtype}, None, array_type)


def _to_integer(x: Any, dtype: np.dtype) -> Any:
    array = np.asarray(x)
    for number in array.flat:
        if not fits(int(number), dtype):
            raise out_of_range("integer", number, dtype)
    result = array.astype(dtype)
    return result if result.ndim else result[()]


def _to_integer_loops(dtype: np.dtype) -> Pointwise:
    limits, held = np.iinfo(dtype), np.iinfo(INDEX)
    bounds = [
        (name, bound)
        for name, bound, own in (
            ("greater_equal", int(limits.min), int(held.min)),
            ("less_equal", int(limits.max), int(held.max)),
        )
        if abs(bound) < abs(own)
    ]

    def check(index: Index, x: Operand, dtype: np.dtype) -> Expr:
        tests: list[Expr] = [
            Apply(name, (x(index), Literal(INDEX.type(bound), INDEX)), BOOL)
            for name, bound in bounds
        ]
        return tests[0] if len(tests) == 1 else Apply("logical_and", tuple(tests), BOOL)

    return Pointwise(lambda index, x, dtype: cast(x(index), dtype), check=check if bounds else None)


# A Python integer in the dtype of the array that it meets: an error where it does not fit.
to_integer: Op = Op(
    "to_integer",
    _to_integer,
    lambda x, dtype: ArrayType(dtype, x.shape),
    batch=lambda size, flags, x, dtype: to_integer(x, dtype=dtype),
    loops=_to_integer_loops,
    zero="its results are integers",
    samples=lambda rng: [
        ((rng.integers(-99, 99, size=(2, 3)),), {"dtype": np.dtype(np.int8)}),
        ((rng.integers(0, 99, size=3),), {"dtype": np.dtype(np.uint64)}),
        ((rng.integers(-9, 9, size=3),), {"dtype": INDEX}),
    ],
)


def takes_promoted(*places: int) -> Any:
    """`takes` of an operation whose arguments at these places have one dtype, the promoted one."""

    def rule(*types: ArrayType, **params: Any) -> Sequence[np.dtype | None]:
        dtype = result_dtype(*[types[place] for place in places])
        return [dtype if place in places else None for place in range(len(types))]

    return rule
