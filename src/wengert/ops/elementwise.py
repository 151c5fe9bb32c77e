"""Elementwise operations: arithmetic, powers, exponentials, trigonometry, choices.

Comparisons and rounding, whose derivatives are zero, are in `logic`, and what takes floats apart is
in `floats`.

Where a derivative is infinite or has a jump the factor is the documented subgradient: 0 for
`sqrt`, `cbrt`, `hypot`, `arctan2` and `x**y` at 0, one half each for `maximum` and `minimum`
at a tie.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..loops import BOOL, Apply, Expr, Index, Literal, Operand, Pointwise, cast
from ..types import ArrayType, result_dtype, type_of
from .families import (
    POSITIVE,
    REAL,
    batch_elementwise,
    binary,
    broadcast_samples,
    broadcast_shapes,
    pointwise,
    unary,
)
from .layout import as_dtype, convert
from .logic import (
    equal,
    floor_divide,
    greater,
    greater_equal,
    isinf,
    isnan,
    isneginf,
    less,
    less_equal,
    logical_and,
    sign,
    signbit,
    trunc,
    whole_power,
)
from .op import Op
from .python_integers import takes_promoted

REALS = ("float64", "float32")
COMPLEX = ("complex128",)
FIELDS = (*REALS, *COMPLEX)
NUMBERS = (*FIELDS, "int64")
UNIT = (-0.9, 0.9)
COMPLEX_NUMBERS = "the loop language has no complex numbers"
# What conjugates and real parts are of real numbers; those of complex ones NumPy takes.
SAME = Pointwise(lambda index, x: x(index))


def _scale(t: Any, d: Any) -> Any:
    product = np.multiply(t, d)
    if not isinstance(product, np.ndarray):
        probe = product
    elif product.size <= 4096:
        probe = np.vdot(product, product)  # the quickest way to see a NaN in a small array
    else:
        probe = np.add.reduce(product, axis=None)
    if probe != probe:
        product = np.where(np.logical_or(np.equal(t, 0), np.equal(d, 0)), 0, product)[()]
    return product


# The product of the chain rule. In a derivative zero times anything is zero: no slope times an
# infinite factor is no slope, so branches that `where` did not take cannot spoil the others.
scale: Op = binary(
    "scale",
    _scale,
    like=np.multiply,
    linear=(0, 1),
    transpose=(lambda g, t, d: scale(g, d), lambda g, t, d: scale(g, t)),
    dtypes=FIELDS,
)


# ---------------------------------------------------------------- choices


def _where_jvp(tangents: Any, ans: Any, c: Any, x: Any, y: Any) -> Any:
    _, tx, ty = tangents
    return select(c, 0.0 if tx is None else tx, 0.0 if ty is None else ty)


def _where_type(c: ArrayType, x: ArrayType, y: ArrayType) -> ArrayType:
    return ArrayType(result_dtype(x, y), broadcast_shapes("where", (c, x, y)))


def _beside(number: int, array: Any) -> Any:
    """A Python integer that must fit: `numpy.where` wraps it around, unlike the rest of NumPy."""
    dtype = getattr(array, "dtype", None)
    return number if dtype is None or dtype.kind not in "iu" else as_dtype(number, dtype)


def _where(c: Any, x: Any, y: Any) -> Any:
    if type(x) is int:
        x = _beside(x, y)
    if type(y) is int:
        y = _beside(y, x)
    result = np.where(c, x, y)
    return result if result.ndim else result[()]


# NumPy's where(c, x, y).
select: Op = Op(
    "where",
    _where,
    _where_type,
    jvp=_where_jvp,
    transpose=(
        None,
        lambda g, c, x, y: select(c, g, 0.0),
        lambda g, c, x, y: select(c, 0.0, g),
    ),
    batch=batch_elementwise(lambda: select),
    takes=takes_promoted(1, 2),
    loops=Pointwise(lambda index, c, x, y: _where_loops(index, c, x, y)),
    samples=lambda rng: [
        ((rng.integers(0, 2, size=(2, 3)).astype(bool), rng.normal(size=(2, 3)), 1.5), {}),
        ((np.array([True, False]), rng.normal(size=(3, 2)), rng.normal(size=(3, 1))), {}),
        ((np.bool_(True), rng.normal(size=()), rng.normal(size=())), {}),
    ],
)


def _where_loops(index: Index, c: Operand, x: Operand, y: Operand) -> Expr:
    dtype = result_dtype(x.type, y.type)
    chosen = [cast(operand.broadcast(index), dtype) for operand in (x, y)]
    return Apply("where", (cast(c.broadcast(index), BOOL), *chosen), dtype)


# `select` where y is x or a NaN wherever c holds: as long as no NaN comes out, c and x need not be
# computed; see transforms/plans.py.
unless: Op = Op(
    "unless",
    _where,
    _where_type,
    jvp=_where_jvp,
    batch=batch_elementwise(lambda: unless),
    takes=takes_promoted(1, 2),
    compose=lambda c, x, y: select(c, x, y),
    samples=lambda rng: [
        ((np.array([True, False]), rng.normal(size=(3, 2)), np.array([np.nan, 1.5])), {}),
        ((np.bool_(False), 1.5, rng.normal(size=())), {}),
    ],
)


def nonzero(x: Any) -> Any:
    """`x` with its zeros replaced by ones, to divide by."""
    return select(equal(x, 0), 1, x)


def over(x: Any, y: Any) -> Any:
    """x / y, and 0 where y is 0, also for its derivatives."""
    return select(equal(y, 0), 0, x / nonzero(y))


def _share(x: Any, y: Any) -> Any:
    """Which part of max(x, y) follows x: all, none, or half at a tie."""
    one = convert(greater(x, y), dtype=result_dtype(type_of(x), type_of(y)))
    return select(equal(x, y), 0.5, one)


maximum: Op = binary(
    "maximum", np.maximum, lambda ans, x, y: _share(x, y), lambda ans, x, y: _share(y, x)
)
minimum: Op = binary(
    "minimum", np.minimum, lambda ans, x, y: _share(y, x), lambda ans, x, y: _share(x, y)
)


def _share_of_number(x: Any, y: Any, share: Any) -> Any:
    """All where the other is NaN, which fmax and fmin pass over."""
    return select(isnan(y), 1.0, select(isnan(x), 0.0, share))


fmax: Op = binary(
    "fmax",
    np.fmax,
    lambda ans, x, y: _share_of_number(x, y, _share(x, y)),
    lambda ans, x, y: _share_of_number(y, x, _share(y, x)),
)
fmin: Op = binary(
    "fmin",
    np.fmin,
    lambda ans, x, y: _share_of_number(x, y, _share(y, x)),
    lambda ans, x, y: _share_of_number(y, x, _share(x, y)),
)

# ---------------------------------------------------------------- arithmetic

add: Op = binary(
    "add",
    np.add,
    jvp=(lambda t, ans, x, y: t, lambda t, ans, x, y: t),
    transpose=(lambda g, x, y: g, lambda g, x, y: g),
    additive=True,
    dtypes=(*NUMBERS, "bool"),
)
subtract: Op = binary(
    "subtract",
    np.subtract,
    jvp=(lambda t, ans, x, y: t, lambda t, ans, x, y: negative(t)),
    transpose=(lambda g, x, y: g, lambda g, x, y: negative(g)),
    additive=True,
    dtypes=NUMBERS,
)
negative: Op = unary(
    "negative", np.negative, linear=(0,), transpose=(lambda g, x: negative(g),), dtypes=NUMBERS
)
positive: Op = unary(
    "positive", np.positive, linear=(0,), transpose=(lambda g, x: g,), dtypes=NUMBERS
)
multiply: Op = binary(
    "multiply",
    np.multiply,
    lambda ans, x, y: y,
    lambda ans, x, y: x,
    transpose=(lambda g, x, y: scale(g, y), lambda g, x, y: scale(g, x)),
    dtypes=(*NUMBERS, "bool"),
    mixed=True,
)
divide: Op = binary(
    "divide",
    np.divide,
    lambda ans, x, y: 1 / y,
    lambda ans, x, y: -ans / y,
    domains=(REAL, POSITIVE),
    transpose=(lambda g, x, y: scale(g, 1 / y), None),
    mixed=True,
    dtypes=FIELDS,
)
remainder: Op = binary(
    "remainder",
    np.remainder,
    lambda ans, x, y: 1.0,
    lambda ans, x, y: -floor_divide(x, y),
    domains=((0.1, 0.9), (1.1, 2.0)),
    dtypes=(*REALS, "int64"),
)
fmod: Op = binary(
    "fmod",
    np.fmod,
    lambda ans, x, y: 1.0,
    lambda ans, x, y: -trunc(x / y),
    domains=((0.1, 0.9), (1.1, 2.0)),
    dtypes=(*REALS, "int64"),
)
reciprocal: Op = unary(
    "reciprocal", np.reciprocal, lambda ans, x: -ans * ans, POSITIVE, dtypes=FIELDS
)
square: Op = unary("square", np.square, lambda ans, x: 2 * x, dtypes=NUMBERS)
sqrt: Op = unary("sqrt", np.sqrt, lambda ans, x: over(0.5, ans), POSITIVE, dtypes=FIELDS)
cbrt: Op = unary("cbrt", np.cbrt, lambda ans, x: over(1, 3 * ans * ans), POSITIVE, dtypes=REALS)


def _cosine(ans: Any, x: Any, y: Any) -> Any:
    """x / ans for a length ans; far out only what is infinite has a part in it."""
    far = copysign(select(isinf(y), math.sqrt(0.5), 1.0), x)
    return select(isinf(x), far, over(x, ans))


hypot: Op = binary(
    "hypot",
    np.hypot,
    lambda ans, x, y: _cosine(ans, x, y),
    lambda ans, x, y: _cosine(ans, y, x),
    dtypes=REALS,
)


def _absolute_jvp(t: Any, ans: Any, x: Any) -> Any:
    if type_of(x).dtype.kind != "c":
        return scale(t, sign(x))
    return real(scale(t, conjugate(over(x, convert(ans, dtype=type_of(x).dtype)))))


absolute: Op = unary("absolute", np.absolute, jvp=(_absolute_jvp,), dtypes=NUMBERS)
fabs: Op = unary("fabs", np.fabs, lambda ans, x: sign(x), dtypes=REALS)

conjugate: Op = unary(
    "conjugate",
    np.conjugate,
    linear=(0,),
    transpose=(lambda g, x: conjugate(g),),
    dtypes=NUMBERS,
    loops=SAME,
)


def _part_type(x: ArrayType) -> ArrayType:
    return ArrayType(np.zeros(0, x.dtype).real.dtype, x.shape)


def _part_samples(rng: np.random.Generator) -> Any:
    yield (rng.normal(size=(2, 3)) + 1j * rng.normal(size=(2, 3)),), {}
    yield (np.complex64(1 + 2j),), {}
    yield (rng.normal(size=(3,)),), {}


real: Op = Op(
    "real",
    lambda x: np.asarray(x).real[()],
    _part_type,
    linear=(0,),
    transpose=(lambda g, x: convert(g, dtype=x.dtype),),
    batch=batch_elementwise(lambda: real),
    loops=SAME,
    write_back=lambda base, new: complex_of(new, imag(base)),
    samples=_part_samples,
)
imag: Op = Op(
    "imag",
    lambda x: np.asarray(x).imag[()],
    _part_type,
    linear=(0,),
    transpose=(lambda g, x: _imag_transpose(g, x),),
    batch=batch_elementwise(lambda: imag),
    write_back=lambda base, new: complex_of(real(base), new),
    loops=Pointwise(lambda index, x: Literal(x.type.dtype.type(0), x.type.dtype)),
    samples=_part_samples,
)


def _complex_type(x: ArrayType, y: ArrayType) -> ArrayType:
    dtype = np.result_type(result_dtype(x, y), np.complex64)
    return ArrayType(dtype, broadcast_shapes("complex_of", (x, y)))


def _complex_of(x: Any, y: Any) -> Any:
    made = _complex_type(type_of(x), type_of(y))
    result = np.empty(made.shape, made.dtype)
    result.real, result.imag = x, y
    return result[()]


# x + i y part by part: a sum with 1j * y would make NaN of an infinite y.
complex_of: Op = Op(
    "complex_of",
    _complex_of,
    _complex_type,
    jvp=(
        lambda t, ans, x, y: convert(t, dtype=type_of(ans).dtype),
        lambda t, ans, x, y: scale(convert(t, dtype=type_of(ans).dtype), 1j),
    ),
    batch=batch_elementwise(lambda: complex_of),
    hosted=COMPLEX_NUMBERS,
    samples=broadcast_samples((REAL, REAL), REALS),
)


def _direction_jvp(t: Any, ans: Any, x: Any) -> Any:
    """The part of t across x turns it, as fast as x is short."""
    turn = over(imag(scale(t, conjugate(ans))), absolute(x))
    return scale(convert(turn, dtype=type_of(ans).dtype), ans * 1j)


# z / |z| of complex numbers, 0 of 0: what NumPy's sign is there.
direction: Op = unary(
    "direction", np.sign, jvp=(_direction_jvp,), dtypes=COMPLEX, hosted=COMPLEX_NUMBERS
)


def _imag_transpose(g: Any, x: ArrayType) -> Any:
    # imag(z) = real(-i z)
    return scale(convert(g, dtype=x.dtype), -1j) if x.dtype.kind == "c" else scale(g, 0.0)


# ---------------------------------------------------------------- powers, exponentials


def _power(x: Any, y: Any) -> Any:
    # the operator has fast paths (squares, roots) that the ufunc lacks; of bools it makes int8
    fast = isinstance(x, np.ndarray) and x.dtype.kind != "b"
    return x**y if fast else np.power(x, y)


def _power_dx(ans: Any, x: Any, y: Any) -> Any:
    flat = logical_and(equal(x, 0), logical_and(greater_equal(y, 0), less(y, 1)))
    return select(flat, 0, scale(y, power(select(flat, 1, x), y - 1)))


_power_function = pointwise("power", np.power, kinds="f")


def _power_loops(index: Index, x: Operand, y: Operand) -> Expr:
    """Products and a root where the exponent is a small half-integer, else the function."""
    assert _power_function is not None
    found = _power_function.rule(index, x, y)
    assert isinstance(found, Apply)
    base, exponent = found.args
    half = float(exponent.value) if isinstance(exponent, Literal) else 0.0
    if abs(half) not in (0.5, 1.5, 2.5):
        return found
    dtype = found.dtype
    result: Expr = Apply("sqrt", (base,), dtype)
    if half == 0.5:
        return result  # as NumPy has it
    for _ in range(int(abs(half))):
        result = Apply("multiply", (base, result), dtype)
    # of -0.0 and -inf the same as of 0.0 and inf
    least, most = (Literal(dtype.type(number), dtype) for number in (-np.inf, np.inf))
    result = Apply("absolute", (result,), dtype)
    result = Apply("where", (Apply("equal", (base, least), BOOL), most, result), dtype)
    return Apply("reciprocal", (result,), dtype) if half < 0 else result


power: Op = binary(
    "power",
    _power,
    _power_dx,
    lambda ans, x, y: select(equal(x, 0), 0, scale(ans, log(nonzero(x)))),
    domains=(POSITIVE, REAL),
    like=np.power,
    dtypes=FIELDS,
    loops=Pointwise(_power_loops, kinds="f"),
    compose=lambda x, y: whole_power(x, y),
)


def _integer_power(x: Any, n: int) -> Any:
    return np.square(x) if n == 2 else _power(x, n)


def _integer_power_loops(x: Expr, n: int) -> Expr:
    """A few multiplications for a small exponent, the general power else."""
    if abs(n) > 4:
        return Apply("power", (x, Literal(x.dtype.type(n), x.dtype)), x.dtype)
    result: Expr = Literal(x.dtype.type(1), x.dtype)
    for _ in range(abs(n)):
        result = x if isinstance(result, Literal) else Apply("multiply", (result, x), x.dtype)
    return Apply("reciprocal", (result,), x.dtype) if n < 0 else result


# x**n for an integer n known when the function is traced.
integer_power: Op = Op(
    "integer_power",
    _integer_power,
    lambda x, n: power.type_rule(x, type_of(n)),
    derivative=(lambda ans, x, n: n * integer_power(x, n=n - 1) if n not in (0, 1) else float(n),),
    batch=batch_elementwise(lambda: integer_power),
    loops=Pointwise(lambda index, x, n: _integer_power_loops(x(index), n)),
    samples=lambda rng: [
        ((rng.normal(size=(2, 3)) + 3,), {"n": n}) for n in (-2, -1, 0, 1, 2, 3, 7)
    ],
)

exp: Op = unary("exp", np.exp, lambda ans, x: ans, dtypes=FIELDS)
exp2: Op = unary("exp2", np.exp2, lambda ans, x: ans * float(np.log(2)), dtypes=REALS)
expm1: Op = unary("expm1", np.expm1, lambda ans, x: ans + 1, dtypes=REALS)
log: Op = unary("log", np.log, lambda ans, x: 1 / x, POSITIVE, dtypes=FIELDS)
log2: Op = unary("log2", np.log2, lambda ans, x: float(1 / np.log(2)) / x, POSITIVE, dtypes=REALS)
log10: Op = unary(
    "log10", np.log10, lambda ans, x: float(1 / np.log(10)) / x, POSITIVE, dtypes=REALS
)
log1p: Op = unary("log1p", np.log1p, lambda ans, x: 1 / (1 + x), POSITIVE, dtypes=REALS)


def share_of_sum(x: Any, y: Any, ans: Any, exponential: Op) -> Any:
    """exp(x - ans), the share of x in the log-sum-exp of x and y.

    Where the sum is infinite the larger has all of it, at a tie half; 0 when the whole sum is 0.
    """
    limit = select(isneginf(ans), 0, _share(x, y))
    # a number less infinity has no share, infinity less infinity is a NaN
    return unless(isinf(ans), limit, exponential(x - ans))


logaddexp: Op = binary(
    "logaddexp",
    np.logaddexp,
    lambda ans, x, y: share_of_sum(x, y, ans, exp),
    lambda ans, x, y: share_of_sum(y, x, ans, exp),
    dtypes=REALS,
)


def _composed_logaddexp2(x: Any, y: Any) -> Any:
    """The larger, and what the smaller adds to it; equal ones may be infinite."""
    apart = maximum(x, y) + log1p(exp2(-absolute(x - y))) * (1 / math.log(2))
    return select(equal(x, y), x + 1, apart)


logaddexp2: Op = binary(
    "logaddexp2",
    np.logaddexp2,
    lambda ans, x, y: share_of_sum(x, y, ans, exp2),
    lambda ans, x, y: share_of_sum(y, x, ans, exp2),
    dtypes=REALS,
    compose=_composed_logaddexp2,
)

# ---------------------------------------------------------------- trigonometry

sin: Op = unary("sin", np.sin, lambda ans, x: cos(x), dtypes=FIELDS)
cos: Op = unary("cos", np.cos, lambda ans, x: -sin(x), dtypes=FIELDS)
tan: Op = unary("tan", np.tan, lambda ans, x: 1 + ans * ans, (-1.0, 1.0), dtypes=FIELDS)
arcsin: Op = unary("arcsin", np.arcsin, lambda ans, x: 1 / sqrt(1 - x * x), UNIT, dtypes=FIELDS)
arccos: Op = unary("arccos", np.arccos, lambda ans, x: -1 / sqrt(1 - x * x), UNIT, dtypes=FIELDS)
arctan: Op = unary("arctan", np.arctan, lambda ans, x: 1 / (1 + x * x), dtypes=FIELDS)
sinh: Op = unary("sinh", np.sinh, lambda ans, x: cosh(x), dtypes=FIELDS)
cosh: Op = unary("cosh", np.cosh, lambda ans, x: sinh(x), dtypes=FIELDS)
tanh: Op = unary("tanh", np.tanh, lambda ans, x: 1 - ans * ans, dtypes=FIELDS)
arcsinh: Op = unary("arcsinh", np.arcsinh, lambda ans, x: 1 / sqrt(1 + x * x), dtypes=FIELDS)
arccosh: Op = unary(
    "arccosh",
    np.arccosh,
    lambda ans, x: 1 / (sqrt(x - 1) * sqrt(x + 1)),
    (1.2, 3.0),
    dtypes=FIELDS,
)
arctanh: Op = unary("arctanh", np.arctanh, lambda ans, x: 1 / (1 - x * x), UNIT, dtypes=FIELDS)


def _over_square(x: Any, y: Any) -> Any:
    """x / (x**2 + y**2), also where the squares would leave the range; 0 far out.

    There both are multiplied by a power of two, which loses nothing and costs less than a length.
    """
    dtype = result_dtype(type_of(x), type_of(y))
    if dtype == np.float16:
        length = hypot(x, y)
        return select(isinf(length), 0, over(over(x, length), length))
    half, shift = np.finfo(dtype).maxexp // 2 - 4, np.finfo(dtype).maxexp * 25 // 32
    size = absolute(x) + absolute(y)
    down, up = (dtype.type(2.0**power) for power in (-shift, shift))
    factor = select(
        greater(size, 2.0**half), down, select(less(size, 2.0**-half), up, dtype.type(1))
    )
    u, v = x * factor, y * factor
    return select(isinf(x), 0, over(u, u * u + v * v) * factor)


arctan2: Op = binary(
    "arctan2",
    np.arctan2,
    lambda ans, x, y: _over_square(y, x),
    lambda ans, x, y: _over_square(-x, y),
    dtypes=REALS,
)
deg2rad: Op = unary(
    "deg2rad", np.deg2rad, linear=(0,), transpose=(lambda g, x: deg2rad(g),), dtypes=REALS
)
rad2deg: Op = unary(
    "rad2deg", np.rad2deg, linear=(0,), transpose=(lambda g, x: rad2deg(g),), dtypes=REALS
)

# ---------------------------------------------------------------- floating point


# |x| with the sign of y, which a zero has too.
copysign: Op = binary(
    "copysign",
    np.copysign,
    lambda ans, x, y: sign(x) * select(signbit(y), -1.0, 1.0),
    dtypes=REALS,
)

# The part of x behind the point.
fraction: Op = unary(
    "fraction",
    lambda x: np.modf(x)[0],
    lambda ans, x: 1.0,
    like=np.exp,
    dtypes=REALS,
    compose=lambda x: copysign(select(isinf(x), 0, x - trunc(x)), x),
)
heaviside: Op = binary(
    "heaviside",
    np.heaviside,
    None,
    lambda ans, x, y: select(equal(x, 0), 1.0, 0.0),
    dtypes=REALS,
    compose=lambda x, y: select(equal(x, 0), y, select(isnan(x), x, _follows(greater(x, 0), x, y))),
)


def _follows(chosen: Any, x: Any, y: Any) -> Any:
    return convert(chosen, dtype=result_dtype(type_of(x), type_of(y)))


# The bounds of clip: like maximum and minimum, but at a tie x is followed, not the bound.
at_least: Op = binary(
    "at_least",
    np.maximum,
    lambda ans, x, y: _follows(greater_equal(x, y), x, y),
    lambda ans, x, y: _follows(less(x, y), x, y),
    dtypes=(*REALS, "int64"),
    compose=lambda x, y: maximum(x, y),
)
at_most: Op = binary(
    "at_most",
    np.minimum,
    lambda ans, x, y: _follows(less_equal(x, y), x, y),
    lambda ans, x, y: _follows(greater(x, y), x, y),
    dtypes=(*REALS, "int64"),
    compose=lambda x, y: minimum(x, y),
)
