"""Operations whose derivative is zero: comparisons, logic, rounding, integers and bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..loops import Apply, Expr, Index, Literal, Operand, Pointwise, cast
from ..types import ArrayType
from .families import REAL, Interval, binary, unary
from .op import Op

REALS = ("float64", "float32")
ORDERED = (*REALS, "int64")
INTEGERS = ("int64", "uint8")
SMALL: Interval = (0, 5)
DISCRETE = "its results are booleans or integers"
STEPS = "piecewise constant"


def _comparison(name: str, function: np.ufunc) -> Op:
    return binary(name, function, zero=DISCRETE, dtypes=(*ORDERED, "bool"))


equal = _comparison("equal", np.equal)
not_equal = _comparison("not_equal", np.not_equal)
less = _comparison("less", np.less)
less_equal = _comparison("less_equal", np.less_equal)
greater = _comparison("greater", np.greater)
greater_equal = _comparison("greater_equal", np.greater_equal)
logical_and = _comparison("logical_and", np.logical_and)
logical_or = _comparison("logical_or", np.logical_or)
logical_xor = _comparison("logical_xor", np.logical_xor)


def _test(name: str, function: Any, like: np.ufunc = np.isnan) -> Op:
    return unary(name, function, zero=DISCRETE, like=like, dtypes=REALS)


logical_not = unary("logical_not", np.logical_not, zero=DISCRETE, dtypes=(*ORDERED, "bool"))
isfinite = _test("isfinite", np.isfinite)
isinf = _test("isinf", np.isinf)
isnan = _test("isnan", np.isnan)
isneginf = _test("isneginf", lambda x: np.equal(x, -np.inf))
isposinf = _test("isposinf", lambda x: np.equal(x, np.inf))
signbit = _test("signbit", np.signbit)


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


def _integer(name: str, function: np.ufunc) -> Op:
    return binary(name, function, domains=(SMALL, SMALL), zero=DISCRETE, dtypes=INTEGERS)


bitwise_and = _integer("bitwise_and", np.bitwise_and)
bitwise_or = _integer("bitwise_or", np.bitwise_or)
bitwise_xor = _integer("bitwise_xor", np.bitwise_xor)
left_shift = _integer("left_shift", np.left_shift)
right_shift = _integer("right_shift", np.right_shift)
gcd = _integer("gcd", np.gcd)
lcm = _integer("lcm", np.lcm)
invert = unary("invert", np.invert, domain=SMALL, zero=DISCRETE, dtypes=(*INTEGERS, "bool"))
bitwise_count = unary(
    "bitwise_count", np.bitwise_count, domain=SMALL, zero=DISCRETE, dtypes=INTEGERS
)


# The value, with no derivative.
stop_gradient = unary(
    "stop_gradient",
    lambda x: x,
    like=np.positive,
    zero="asked for by the caller",
    dtypes=("float64", "float32", "int64"),
)

spacing = _rounding("spacing", np.spacing)


def _exponent(x: Any) -> Any:
    return np.frexp(x)[1]


# The power of two in x = mantissa * 2**exponent.
exponent: Op = Op(
    "exponent",
    _exponent,
    lambda x: ArrayType(np.dtype(np.int32), x.shape),
    batch=lambda size, flags, x: exponent(x),
    zero=DISCRETE,
    samples=lambda rng: [((rng.normal(size=(2, 3)),), {}), ((np.float32(3.0),), {})],
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
