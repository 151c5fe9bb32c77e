"""What floats are made of: their bits, mantissas, exponents, and the floats next to them.

The compiler takes numbers apart by `bits`, in the layout of float32 and float64.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..loops import Apply, Pointwise
from ..types import ArrayType, Function, type_of
from .elementwise import REALS, absolute, copysign, maximum, minimum, select
from .families import (
    POSITIVE,
    batch_elementwise,
    binary,
    composed_as,
    ufunc_takes,
    ufunc_type_rule,
    unary,
)
from .layout import convert
from .logic import DISCRETE, STEPS, equal, greater, isinf, isnan, less, logical_or
from .op import Op

# The bits of floats as an integer of the same size, and of an integer as a float.
bits: Op = Op(
    "bits",
    lambda x, dtype: np.asarray(x).view(dtype)[()],
    lambda x, dtype: ArrayType(dtype, x.shape),
    batch=batch_elementwise(lambda: bits),
    zero="bits are no numbers",
    loops=Pointwise(lambda index, x, dtype: Apply("bits", (x(index),), dtype)),
    samples=lambda rng: [
        ((rng.normal(size=(2, 3)),), {"dtype": np.dtype(np.int64)}),
        ((rng.normal(size=()).astype(np.float32),), {"dtype": np.dtype(np.int32)}),
        ((rng.normal(size=(0, 2)).view(np.int64),), {"dtype": np.dtype(np.float64)}),
        ((np.arange(5, dtype=np.int32) << 23,), {"dtype": np.dtype(np.float32)}),
    ],
)


class _Layout(NamedTuple):
    """How a float is laid out: a sign, an exponent above a bias, a mantissa."""

    integer: np.dtype  # that has its bits
    mantissa: int  # bits
    bias: int  # the largest exponent, too
    exponents: int  # a mask

    @staticmethod
    def of(x: Any) -> _Layout:
        info = np.finfo(type_of(x).dtype)
        exponents = (1 << info.nexp) - 1
        return _Layout(np.dtype(f"i{info.bits // 8}"), info.nmant, info.maxexp - 1, exponents)

    def exponent_of(self, x: Any) -> Any:
        """The bits of the exponent, as a number."""
        return (bits(x, dtype=self.integer) >> self.mantissa) & self.exponents

    def number(self, integer: Any) -> Any:
        """The float that has these bits."""
        return bits(integer, dtype=np.dtype(f"f{self.integer.itemsize}"))


def _of_bits(compose: Function) -> Function:
    """A composition for the floats that the compiler knows; NumPy evaluates others."""

    def composed(x: Any, *rest: Any) -> Any:
        return compose(x, *rest) if type_of(x).dtype.itemsize in (4, 8) else None

    return composed


def _normal(x: Any) -> tuple[Any, Any]:
    """The number times a power of two if it is subnormal, and that power."""
    layout = _Layout.of(x)
    tiny, power = less(absolute(x), np.finfo(type_of(x).dtype).tiny), layout.mantissa + 2
    return select(tiny, x * 2.0**power, x), select(tiny, power, layout.integer.type(0))


def _is_special(x: Any) -> Any:
    return logical_or(equal(x, 0), logical_or(isinf(x), isnan(x)))


def _composed_exponent(x: Any) -> Any:
    layout = _Layout.of(x)
    normal, power = _normal(x)
    found = layout.exponent_of(normal) - power - (layout.bias - 1)
    return convert(select(_is_special(x), 0, found), dtype=np.dtype(np.int32))


# The power of two in x = mantissa * 2**exponent.
exponent: Op = Op(
    "exponent",
    lambda x: np.frexp(x)[1],
    lambda x: ArrayType(np.dtype(np.int32), x.shape),
    batch=lambda size, flags, x: exponent(x),
    zero=DISCRETE,
    compose=composed_as(np.frexp, _of_bits(_composed_exponent)),
    samples=lambda rng: [
        ((rng.normal(size=(2, 3)),), {}),
        ((np.float32(3.0),), {}),
        ((np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, 1e-310, -1e308]),), {}),
    ],
)


def _composed_mantissa(x: Any) -> Any:
    layout, normal = _Layout.of(x), _normal(x)[0]
    rest = bits(normal, dtype=layout.integer) & ~(layout.exponents << layout.mantissa)
    found = layout.number(rest | ((layout.bias - 1) << layout.mantissa))
    return select(_is_special(x), x, found)


# The mantissa in [1/2, 1).
mantissa: Op = unary(
    "mantissa",
    lambda x: np.frexp(x)[0],
    domain=POSITIVE,
    jvp=(lambda t, ans, x: ldexp(t, -exponent(x)),),
    like=np.exp,
    dtypes=REALS,
    compose=_of_bits(_composed_mantissa),
)


def _composed_ldexp(x: Any, n: Any) -> Any:
    """By at most three factors; only the last may round."""
    layout = _Layout.of(x)
    high, low, digits = layout.bias, 1 - layout.bias, layout.mantissa + 1
    n = convert(n, dtype=np.dtype(np.int64))
    n = convert(maximum(minimum(n, 4 * high), -4 * high), dtype=layout.integer)
    for _ in range(2):
        above, below = greater(n, high), less(n, low)
        x = select(above, x * 2.0**high, select(below, x * 2.0 ** (low + digits), x))
        n = n - select(above, high, select(below, low + digits, layout.integer.type(0)))
    n = maximum(minimum(n, high), low)
    return x * layout.number((n + layout.bias) << layout.mantissa)


def _ldexp_samples(rng: np.random.Generator) -> Any:
    yield (rng.normal(size=(2, 3)), rng.integers(-3, 4, size=3)), {}
    yield (rng.normal(size=()).astype(np.float32), rng.integers(-3, 4, size=(2,)).astype("i4")), {}


# x * 2**n for integers n.
ldexp: Op = Op(
    "ldexp",
    np.ldexp,
    ufunc_type_rule("ldexp", np.ldexp),
    linear=(0,),
    transpose=(lambda g, x, n: ldexp(g, n), None),
    batch=batch_elementwise(lambda: ldexp),
    takes=ufunc_takes(np.ldexp),
    compose=composed_as(np.ldexp, _of_bits(_composed_ldexp)),
    samples=_ldexp_samples,
)


def _composed_nextafter(x: Any, y: Any) -> Any:
    layout = _Layout.of(x)
    least = np.finfo(type_of(x).dtype).smallest_subnormal
    away = equal(greater(y, x), greater(x, 0))
    found = layout.number(bits(x, dtype=layout.integer) + select(away, 1, layout.integer.type(-1)))
    found = select(equal(x, y), y, select(equal(x, 0), copysign(least, y), found))
    return select(logical_or(isnan(x), isnan(y)), x + y, found)


nextafter: Op = binary(
    "nextafter",
    np.nextafter,
    lambda ans, x, y: 1.0,
    dtypes=REALS,
    compose=_of_bits(_composed_nextafter),
)


def _composed_spacing(x: Any) -> Any:
    layout = _Layout.of(x)
    least = np.finfo(type_of(x).dtype).smallest_subnormal
    found = layout.number(bits(x, dtype=layout.integer) + 1) - x
    return select(logical_or(isnan(x), isinf(x)), np.nan, select(equal(x, 0), least, found))


spacing: Op = unary(
    "spacing", np.spacing, zero=STEPS, dtypes=REALS, compose=_of_bits(_composed_spacing)
)
