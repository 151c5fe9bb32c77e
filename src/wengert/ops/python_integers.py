"""Python integers beside arrays: they take on the dtype of the array, and must fit into it.

NumPy looks at the number: ``uint8_array + 300`` is an OverflowError, and ``uint8_array < 300`` is
true throughout. Evaluated, NumPy itself does so. Where only types are known (under `jit`), `settle`
does: a constant is looked at while tracing, and a number that is known at run time alone becomes
an array's integer by `to_integer`, which compiled code checks.

An operation says in `takes` which dtypes its arguments are converted to.

Among themselves Python integers have any size. Traced ones have 64 bits, and `exact` makes it an
error when a result needs more.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import IntegerError, explain
from ..graph import Constant, Node, Operator
from ..loops import BOOL, INDEX, Apply, Expr, Index, Literal, Operand, Pointwise, cast
from ..types import ArrayType, Function, result_dtype, type_of
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
            f"got the Python integer {_written(number)} beside {dtype}, which holds "
            f"{limits.min} to {limits.max}",
            "Convert the array to a wider dtype with astype first.",
        )
    )


def _written(number: Any) -> str:
    """The number as text, which Python refuses to make of thousands of digits."""
    bits = int(number).bit_length()
    return str(number) if bits <= 256 else f"of {bits} bits"


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


# ---------------------------------------------------------------- Python integers alone

_PYTHON: dict[str, Function] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
    "power": operator.pow,
    "left_shift": operator.lshift,
    "right_shift": operator.rshift,
    "negative": operator.neg,
    "absolute": operator.abs,
}
_FLOAT = np.dtype(np.float64)
# Below, floats are near enough to integers to tell that these have 64 bits.
_SURE = 2.0**62
# Floats hold shifts up to 1023, and integers need fewer.
_LARGEST_SHIFT = 1000


def exact(op: Op, *numbers: Any) -> Any:
    """The operation on Python integers; an error where its result does not fit into 64 bits."""
    if op.name in _PYTHON and all(type_of(number).dtype.kind == "i" for number in numbers):
        first = fits_64_bits(*numbers, operation=op.name)
        return op(first, *numbers[1:])
    return op(*numbers)


def _checked(*numbers: Any, operation: str) -> Any:
    each = () if _all_fit(operation, *numbers) else np.broadcast(*numbers)
    for integers in each:
        if not _result_fits(operation, *map(int, integers)):
            raise IntegerError(
                explain(
                    operation,
                    f"got the Python integers {' and '.join(map(str, integers))}, whose result "
                    "does not fit into 64 bits, which is what traced ones have",
                    "Use a float, or name the argument in static_argnames.",
                )
            )
    shape = np.broadcast_shapes(*map(np.shape, numbers))
    return np.broadcast_to(numbers[0], shape) if shape else numbers[0]


def _all_fit(operation: str, *numbers: Any) -> bool:
    """Whether floats tell, for all at once, that the results fit; a loop has one for each turn."""
    arrays = [np.asarray(number) for number in numbers]
    if any(array.dtype.kind != "i" for array in arrays) or operation.endswith("shift"):
        return False
    with np.errstate(all="ignore"):
        results = getattr(np, operation)(*[array.astype(_FLOAT) for array in arrays])
    return bool(np.all(np.abs(results) < _SURE))  # what divides by zero is not sure


def _result_fits(operation: str, *integers: int) -> bool:
    if operation == "power" and integers[1] < 0:
        return True  # the operation itself says what is wrong
    if operation in ("power", "left_shift") and integers[1] > 64:
        # Python would fill the memory with digits
        return abs(integers[0]) <= (operation == "power")
    return fits(_PYTHON[operation](*integers), INDEX)


def _checked_type(*types: ArrayType, operation: str) -> ArrayType:
    shape = np.broadcast_shapes(*[t.shape for t in types])
    return ArrayType(INDEX, shape, all(t.weak for t in types))


def _fits_loops(index: Index, *operands: Operand, operation: str) -> Expr:
    """Whether the result is near that of floats: one that wrapped around is 2^64 away."""
    args = [operand.broadcast(index) for operand in operands]
    floats = tuple(cast(arg, _FLOAT) for arg in args)
    counts = Apply("greater_equal", (args[-1], Literal(INDEX.type(0), INDEX)), BOOL)
    if operation == "right_shift":
        return counts
    if operation == "remainder":
        return Apply("not_equal", (args[1], Literal(INDEX.type(0), INDEX)), BOOL)
    if operation == "power":
        return _power_fits(args[1], Apply("power", floats, _FLOAT))
    result = cast(Apply(operation, tuple(args), INDEX), _FLOAT)
    away = Apply("subtract", (_of_floats(operation, floats), result), _FLOAT)
    limit = Literal(_FLOAT.type(_SURE), _FLOAT)
    near = Apply("less", (Apply("absolute", (away,), _FLOAT), limit), BOOL)
    return Apply("logical_and", (near, counts), BOOL) if operation == "left_shift" else near


def _power_fits(exponent: Expr, power: Expr) -> Expr:
    """The squares and cubes next to 2^63 differ from it by more than rounding does."""
    low, high = -(2.0**63) * (1 + 1e-12), 2.0**63 * (1 - 1e-12)
    above = Apply("greater", (power, Literal(_FLOAT.type(low), _FLOAT)), BOOL)
    below = Apply("less", (power, Literal(_FLOAT.type(high), _FLOAT)), BOOL)
    first = Apply("less_equal", (exponent, Literal(INDEX.type(1), INDEX)), BOOL)
    return Apply("logical_or", (first, Apply("logical_and", (above, below), BOOL)), BOOL)


def _of_floats(operation: str, floats: tuple[Expr, ...]) -> Expr:
    if operation == "floor_divide":
        return Apply("divide", floats, _FLOAT)
    if operation == "left_shift":
        most = Literal(_FLOAT.type(_LARGEST_SHIFT), _FLOAT)
        power = Apply("exp2", (Apply("minimum", (floats[1], most), _FLOAT),), _FLOAT)
        return Apply("multiply", (floats[0], power), _FLOAT)
    return Apply(operation, floats, _FLOAT)


def _batch_fits(size: int, flags: Sequence[bool], *numbers: Any, operation: str) -> Any:
    from .families import batch_elementwise  # which needs what is here

    return batch_elementwise(lambda: fits_64_bits)(size, flags, *numbers, operation=operation)


# The first of Python integers, if what the operation makes of all of them fits into 64 bits.
fits_64_bits: Op = Op(
    "fits_64_bits",
    _checked,
    _checked_type,
    batch=_batch_fits,
    loops=lambda operation: Pointwise(
        lambda index, *operands, operation: operands[0].broadcast(index), check=_fits_loops
    ),
    zero="its results are integers",
    samples=lambda rng: (
        [
            ((rng.integers(-9, 9, size=3), rng.integers(1, 9, size=3)), {"operation": name})
            for name in _PYTHON
            if name not in ("negative", "absolute")
        ]
        + [((rng.integers(-9, 9, size=()), rng.integers(1, 9, size=3)), {"operation": "add"})]
        + [((rng.integers(-9, 9, size=3),), {"operation": "negative"})]
    ),
)
