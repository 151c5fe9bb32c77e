"""Operations whose derivative is zero: comparisons, logic, rounding, integers and bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..loops import BOOL, Apply, Expr, Index, Literal, Operand, Pointwise, cast
from ..types import ArrayType, type_of
from .families import REAL, Interval, binary, broadcast_samples, loop_dtypes, pointwise, unary
from .op import Op

REALS = ("float64", "float32")
ORDERED = (*REALS, "int64")
INTEGERS = ("int64", "uint8")
SMALL: Interval = (0, 5)
DISCRETE = "its results are booleans or integers"
STEPS = "piecewise constant"
EUCLID = "Euclid's algorithm takes as many steps as its numbers ask for"


def _compare_loops(name: str, function: np.ufunc) -> Pointwise:
    def rule(index: Index, *operands: Operand) -> Expr:
        dtypes = loop_dtypes(function, [operand.type for operand in operands])
        x, y = (cast(o.broadcast(index), d) for o, d in zip(operands, dtypes, strict=False))
        if {x.dtype.kind, y.dtype.kind} == {"i", "u"}:
            return _compare_signs(x, y)
        return Apply(name, (x, y), BOOL)

    def _compare_signs(x: Expr, y: Expr) -> Expr:
        """No dtype holds both: a negative number is less than any other, the rest unsigned."""
        signed, below = (x, (0, 1)) if x.dtype.kind == "i" else (y, (1, 0))
        negative = Apply("less", (signed, Literal(signed.dtype.type(0), signed.dtype)), BOOL)
        wide = np.dtype(np.uint64)
        rest = Apply(name, (cast(x, wide), cast(y, wide)), BOOL)
        return Apply("where", (negative, Literal(function(*below), BOOL), rest), BOOL)

    return Pointwise(rule)


def _comparison(name: str, function: np.ufunc) -> Op:
    return binary(
        name,
        function,
        zero=DISCRETE,
        dtypes=(*ORDERED, "bool"),
        loops=_compare_loops(name, function),
        compares=True,
    )


def _connective(name: str, function: np.ufunc) -> Op:
    return binary(name, function, zero=DISCRETE, dtypes=(*ORDERED, "bool"))


equal = _comparison("equal", np.equal)
not_equal = _comparison("not_equal", np.not_equal)
less = _comparison("less", np.less)
less_equal = _comparison("less_equal", np.less_equal)
greater = _comparison("greater", np.greater)
greater_equal = _comparison("greater_equal", np.greater_equal)
logical_and = _connective("logical_and", np.logical_and)
logical_or = _connective("logical_or", np.logical_or)
logical_xor = _connective("logical_xor", np.logical_xor)


def _test(name: str, function: Any, like: np.ufunc = np.isnan) -> Op:
    return unary(name, function, zero=DISCRETE, like=like, dtypes=REALS)


logical_not = unary("logical_not", np.logical_not, zero=DISCRETE, dtypes=(*ORDERED, "bool"))
isfinite = _test("isfinite", np.isfinite)
isinf = _test("isinf", np.isinf)
isnan = _test("isnan", np.isnan)
isneginf = _test("isneginf", lambda x: np.equal(x, -np.inf))
isposinf = _test("isposinf", lambda x: np.equal(x, np.inf))
signbit = _test("signbit", np.signbit)


def _attains(x: Any, y: Any) -> Any:
    same = np.equal(x, y)
    unordered = y != y  # one number in most cases
    if unordered.any() if np.ndim(unordered) else unordered:
        return same | np.isnan(x)
    return same


def _composed_attains(x: Any, y: Any) -> Any:
    same = equal(x, y)
    return logical_or(same, isnan(x)) if type_of(x).dtype.kind == "f" else same


# Whether x is the extreme y of the set that it is from. A NaN in a set is its extreme, and equals
# nothing; where y is none, no x is one either and need not be looked at.
attains = binary(
    "attains",
    _attains,
    zero=DISCRETE,
    like=np.equal,
    dtypes=(*ORDERED, "bool"),
    compose=_composed_attains,
)


def _rounding(name: str, function: np.ufunc) -> Op:
    return unary(name, function, zero=STEPS, dtypes=REALS)


# Of real numbers; complex ones have a `direction`.
sign = unary("sign", np.sign, zero=STEPS, dtypes=ORDERED)
floor = _rounding("floor", np.floor)
ceil = _rounding("ceil", np.ceil)
trunc = _rounding("trunc", np.trunc)
rint = _rounding("rint", np.rint)
floor_divide = binary(
    "floor_divide", np.floor_divide, domains=(REAL, (1.0, 3.0)), zero=STEPS, dtypes=ORDERED
)


def _integer(name: str, function: np.ufunc, **parts: Any) -> Op:
    return binary(name, function, domains=(SMALL, SMALL), zero=DISCRETE, dtypes=INTEGERS, **parts)


bitwise_and = _integer("bitwise_and", np.bitwise_and)
bitwise_or = _integer("bitwise_or", np.bitwise_or)
bitwise_xor = _integer("bitwise_xor", np.bitwise_xor)
left_shift = _integer("left_shift", np.left_shift)
right_shift = _integer("right_shift", np.right_shift)
gcd = _integer("gcd", np.gcd, hosted=EUCLID)
lcm = _integer("lcm", np.lcm, hosted=EUCLID)


def _is_counted(index: Index, x: Operand, n: Operand) -> Expr:
    exponent = n.broadcast(index)
    zero = Literal(exponent.dtype.type(0), exponent.dtype)
    return Apply("greater_equal", (exponent, zero), BOOL)


_powers = pointwise("whole_power", np.power)
assert _powers is not None
# Integers to the power of integers, which NumPy refuses where these are negative.
whole_power = _integer(
    "whole_power", np.power, loops=Pointwise(_powers.rule, kinds="iu", check=_is_counted)
)
invert = unary("invert", np.invert, domain=SMALL, zero=DISCRETE, dtypes=(*INTEGERS, "bool"))


def _count_bits(x: Any) -> Any:
    """Those of pairs, of fours and of bytes at once; the sum of all bytes is a product's last one.

    NumPy counts those of the size of a negative number.
    """
    size = np.absolute(x).astype(f"u{x.dtype.itemsize}").astype(np.uint64)
    by_two = size - ((size >> 1) & 0x5555555555555555)
    by_four = (by_two & 0x3333333333333333) + ((by_two >> 2) & 0x3333333333333333)
    by_eight = (by_four + (by_four >> 4)) & 0x0F0F0F0F0F0F0F0F
    return (by_eight * 0x0101010101010101) >> 56


bitwise_count = unary(
    "bitwise_count",
    np.bitwise_count,
    domain=SMALL,
    zero=DISCRETE,
    dtypes=INTEGERS,
    compose=_count_bits,
)


# The value, with no derivative.
stop_gradient: Op = Op(
    "stop_gradient",
    lambda x: x,
    lambda x: x,
    batch=lambda size, flags, x: stop_gradient(x),
    loops=Pointwise(lambda index, x: Apply("stop_gradient", (x(index),), x.type.dtype)),
    zero="asked for by the caller",
    samples=broadcast_samples((REAL,), ("float64", "float32", "int64", "bool")),
)


def _round_loops(index: Index, x: Operand, decimals: int) -> Expr:
    dtype = x.type.dtype
    if dtype.kind not in "f" and decimals >= 0:
        return x(index)
    real = dtype if dtype.kind == "f" else np.dtype(np.float64)
    factor = Literal(real.type(10.0 ** abs(decimals)), real)
    there, back = ("multiply", "divide") if decimals >= 0 else ("divide", "multiply")
    value = cast(x(index), real)
    if decimals:
        value = Apply(there, (value, factor), real)
    value = Apply("rint", (value,), real)
    return cast(Apply(back, (value, factor), real), dtype) if decimals else value


# NumPy's round: to a number of decimals.
round_to: Op = Op(
    "round",
    lambda x, decimals: np.round(x, decimals),
    lambda x, decimals: ArrayType(x.dtype, x.shape),
    batch=lambda size, flags, x, decimals: round_to(x, decimals=decimals),
    loops=Pointwise(_round_loops),
    zero=STEPS,
    samples=lambda rng: [
        ((10 * rng.normal(size=(2, 3)),), {"decimals": 1}),
        ((10 * rng.normal(size=()).astype(np.float32),), {"decimals": 0}),
        ((rng.integers(0, 999, size=4),), {"decimals": -2}),
    ],
)
