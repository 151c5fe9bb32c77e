"""NumPy's ufuncs and other elementwise functions.

A ufunc takes NumPy's keywords: `dtype` (the arguments are cast, then the loop of that dtype runs),
`casting`, `out`, and `where` together with `out`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..errors import AbstractValueError, DTypeError, ShapeError, explain
from ..ops import elementwise as ew
from ..ops import floats, logic
from ..ops import special as sp
from ..ops.op import Traced
from ..ops.reductions import reduce_all
from ..trace.lying import in_order
from ..trace.orders import C_ORDER
from ..trace.tracer import concrete
from ..trace.views import Views, copy_of, is_array, read_only, snapshot
from ..types import Function, promotable, result_dtype, type_of
from .common import as_value, cast, named, named_dtype, ndim

__all__ = [
    "abs", "absolute", "acos", "acosh", "add", "allclose", "angle", "arccos", "arccosh",
    "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "around", "array_equal", "array_equiv",
    "asin", "asinh", "astype", "atan", "atan2", "atanh", "bitwise_and", "bitwise_count",
    "bitwise_invert", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift",
    "bitwise_xor", "cbrt", "ceil", "clip", "conj", "conjugate", "copysign", "cos", "cosh",
    "deg2rad", "degrees", "divide", "divmod", "equal", "exp", "exp2", "expm1", "fabs", "fix",
    "float_power", "floor", "floor_divide", "fmax", "fmin", "fmod", "frexp", "gcd", "greater",
    "greater_equal", "heaviside", "hypot", "i0", "imag", "invert", "isclose", "iscomplex",
    "iscomplexobj", "isfinite", "isinf", "isnan", "isnat", "isneginf", "isposinf", "isreal",
    "isrealobj", "lcm", "ldexp", "left_shift", "less", "less_equal", "log", "log1p", "log2",
    "log10", "logaddexp", "logaddexp2", "logical_and", "logical_not", "logical_or",
    "logical_xor", "maximum", "minimum", "mod", "modf", "multiply", "nan_to_num", "negative",
    "nextafter", "not_equal", "piecewise", "positive", "pow", "power", "rad2deg",
    "radians", "real", "real_if_close", "reciprocal", "remainder", "right_shift", "rint",
    "round", "select", "sign", "signbit", "sin", "sinc", "sinh", "spacing", "sqrt", "square",
    "subtract", "tan", "tanh", "true_divide", "trunc", "where",
]  # fmt: skip


# ---------------------------------------------------------------- ufuncs


def loop_dtypes(ufunc: np.ufunc, args: Sequence[Any], dtype: Any, casting: Any) -> Sequence[Any]:
    """The dtypes of the arguments for the loop that gives `dtype`."""
    types = [type_of(arg) for arg in args]
    wanted = named_dtype(dtype)
    places = (*map(promotable, types), *[None] * ufunc.nout)
    signature = (*[None] * ufunc.nin, *[wanted] * ufunc.nout)
    try:
        resolved = ufunc.resolve_dtypes(places, signature=signature, casting=casting)
    except TypeError:
        got = ", ".join(str(t) for t in types)
        raise DTypeError(
            explain(
                ufunc.__name__,
                f"has no loop from {got} to {wanted} under casting={casting!r}",
                "Convert the arguments with astype.",
            )
        ) from None
    return resolved[: ufunc.nin]


def _finish(name: str, result: Any, out: Any, where: Any, casting: Any = "same_kind") -> Any:
    """Write to `out` where `where` holds."""
    if out is None and where is True:
        return result
    from ..trace.outputs import write_out

    targets = out if isinstance(out, tuple) else (out,)
    if where is not True and any(target is None for target in targets):
        raise ShapeError(
            explain(
                name,
                "got where= without out=: the elements it leaves out would be undefined",
                "Use where(mask, f(x), other), or give out=.",
            )
        )
    return write_out(name, targets, result, broadcasts=True, where=where, casting=casting)


_COMMON = frozenset((np.ndarray, float, int, complex, bool))


class _Others(Exception):  # noqa: N818 - steers, never seen
    """An operand says itself what ufuncs mean."""


def _operand(x: Any) -> Any:
    """An operand as a value; one of a class of its own with NumPy's protocol is left to it."""
    if type(x) in _COMMON or isinstance(x, Traced):
        return x
    if not isinstance(x, (np.ndarray, np.generic)) and hasattr(type(x), "__array_ufunc__"):
        raise _Others
    return as_value(x)


def _by_others(ufunc: np.ufunc, args: Any, keywords: dict[str, Any]) -> Any:
    """What a ufunc means to an operand of a class of its own; NumPy would ask a traced one first,
    which stands to the left, and again."""
    if not any(isinstance(arg, Traced) for arg in args):
        return ufunc(*args, **keywords)
    for arg in args:
        asked = getattr(type(arg), "__array_ufunc__", None)
        if asked is not None and not isinstance(arg, (Traced, np.ndarray, np.generic)):
            found = asked(arg, ufunc, "__call__", *args, **keywords)
            if found is not NotImplemented:
                return found
    kinds = ", ".join(type(arg).__name__ for arg in args)
    raise TypeError(f"{ufunc.__name__}: no operand knows what it is of {kinds}")


def of_ufunc(ufunc: np.ufunc, function: Function) -> Function:
    """The function of the namespace for a ufunc, from what it does to values."""
    name, count = ufunc.__name__, ufunc.nin

    def general(
        *args: Any,
        out: Any = None,
        where: Any = True,
        dtype: Any = None,
        casting: Any = "same_kind",
        order: str = "K",
        subok: bool = True,
    ) -> Any:
        if len(args) == count + 1 and out is None:
            *args, out = args  # type: ignore[assignment]
        if len(args) != count:
            raise TypeError(f"{name}() takes {count} arrays, got {len(args)}")
        values = [_operand(arg) for arg in args]
        if dtype is not None:
            dtypes = loop_dtypes(ufunc, values, dtype, casting)
            values = [cast(value, d) for value, d in zip(values, dtypes, strict=True)]
        return _finish(name, function(*values), out, where, casting)

    def apply(*args: Any, **keywords: Any) -> Any:
        try:
            if keywords or len(args) != count:
                return general(*args, **keywords)
            if count == 1:
                return function(_operand(args[0]))
            if count == 2:
                return function(_operand(args[0]), _operand(args[1]))
            return function(*map(_operand, args))
        except _Others:
            return _by_others(ufunc, args, keywords)

    kind = "element by element" if ufunc.nout == 1 else "element by element; several results"
    return named(apply, name, f"``numpy.{name}``: {kind}.")


def _sign(x: Any) -> Any:
    return (ew.direction if type_of(x).dtype.kind == "c" else logic.sign)(x)


def _power(x: Any, y: Any) -> Any:
    if type(y) is int and type_of(x).dtype.kind in "fc":
        return ew.integer_power(x, n=y)
    return ew.power(x, y)


def _float_power(x: Any, y: Any) -> Any:
    wide = np.complex128 if "c" in (type_of(x).dtype.kind, type_of(y).dtype.kind) else np.float64
    return _power(cast(x, wide), y if type(y) is int else cast(y, wide))


def _float_of(x: Any) -> Any:
    """`x` as the real float that NumPy's functions of one float compute with."""
    return cast(x, np.exp.resolve_dtypes((promotable(type_of(x)), None))[0])


def _modf(x: Any) -> tuple[Any, Any]:
    x = _float_of(x)
    return ew.fraction(x), logic.trunc(x)


def _frexp(x: Any) -> tuple[Any, Any]:
    x = _float_of(x)
    return floats.mantissa(x), floats.exponent(x)


def _isnat(x: Any) -> Any:
    if isinstance(x, np.ndarray | np.generic) and x.dtype.kind in "mM":
        return np.isnat(x)
    raise DTypeError(
        explain("isnat", f"is for dates and times, got {type_of(x)}", "Use isnan for numbers.")
    )


def _ufuncs(ops: Any, names: str) -> Iterator[Function]:
    """Functions for ufuncs whose operations have their names."""
    return (of_ufunc(getattr(np, name), getattr(ops, name)) for name in names.split())


add, subtract, multiply, divide = _ufuncs(ew, "add subtract multiply divide")
remainder, fmod, negative, positive = _ufuncs(ew, "remainder fmod negative positive")
reciprocal, absolute, fabs, conjugate = _ufuncs(ew, "reciprocal absolute fabs conjugate")
square, sqrt, cbrt, hypot = _ufuncs(ew, "square sqrt cbrt hypot")
exp, exp2, expm1, logaddexp, logaddexp2 = _ufuncs(ew, "exp exp2 expm1 logaddexp logaddexp2")
log, log2, log10, log1p = _ufuncs(ew, "log log2 log10 log1p")
sin, cos, tan, arcsin, arccos = _ufuncs(ew, "sin cos tan arcsin arccos")
arctan, arctan2, deg2rad, rad2deg = _ufuncs(ew, "arctan arctan2 deg2rad rad2deg")
sinh, cosh, tanh, arcsinh = _ufuncs(ew, "sinh cosh tanh arcsinh")
arccosh, arctanh, heaviside, copysign = _ufuncs(ew, "arccosh arctanh heaviside copysign")
maximum, minimum, fmax, fmin = _ufuncs(ew, "maximum minimum fmax fmin")
ldexp, nextafter, spacing = _ufuncs(floats, "ldexp nextafter spacing")
equal, not_equal, less, greater = _ufuncs(logic, "equal not_equal less greater")
less_equal, greater_equal = _ufuncs(logic, "less_equal greater_equal")
logical_and, logical_or = _ufuncs(logic, "logical_and logical_or")
logical_xor, logical_not = _ufuncs(logic, "logical_xor logical_not")
bitwise_and, bitwise_or, bitwise_xor = _ufuncs(logic, "bitwise_and bitwise_or bitwise_xor")
left_shift, right_shift, invert = _ufuncs(logic, "left_shift right_shift invert")
bitwise_count, gcd, lcm, floor_divide = _ufuncs(logic, "bitwise_count gcd lcm floor_divide")
floor, ceil, trunc, rint = _ufuncs(logic, "floor ceil trunc rint")
isfinite, isinf, isnan, signbit = _ufuncs(logic, "isfinite isinf isnan signbit")

# what is more than one operation of the name
divmod = of_ufunc(np.divmod, lambda x, y: (logic.floor_divide(x, y), ew.remainder(x, y)))
power = pow = of_ufunc(np.power, _power)
float_power = of_ufunc(np.float_power, _float_power)
sign = of_ufunc(np.sign, _sign)
radians, degrees = of_ufunc(np.radians, ew.deg2rad), of_ufunc(np.degrees, ew.rad2deg)
isnat = of_ufunc(np.isnat, _isnat)
frexp, modf = of_ufunc(np.frexp, _frexp), of_ufunc(np.modf, _modf)

# other names
abs, conj, mod, true_divide = absolute, conjugate, remainder, divide
asin, acos, atan, atan2 = arcsin, arccos, arctan, arctan2
asinh, acosh, atanh = arcsinh, arccosh, arctanh
bitwise_left_shift, bitwise_right_shift = left_shift, right_shift
bitwise_not = bitwise_invert = invert


# ---------------------------------------------------------------- choices


def where(condition: Any, x: Any = None, y: Any = None, /) -> Any:
    """``numpy.where``: x where the condition holds, y elsewhere; alone, the places it holds."""
    condition = as_value(condition)
    if x is None and y is None:
        values = concrete(condition)
        if values is None:
            raise AbstractValueError(
                explain(
                    "where",
                    "the number of places where the condition holds is not known while tracing",
                    "Use where(condition, x, y), which keeps the shape.",
                )
            )
        return np.nonzero(values)
    if x is None or y is None:
        raise TypeError("where() takes either both x and y, or neither")
    return ew.select(condition, as_value(x), as_value(y))


def clip(
    a: Any,
    a_min: Any = None,
    a_max: Any = None,
    out: Any = None,
    *,
    min: Any = None,
    max: Any = None,
    dtype: Any = None,
) -> Any:
    """``numpy.clip``: between two bounds; the derivative is 1 inside and at a bound, 0 outside."""
    if (a_min is not None or a_max is not None) and (min is not None or max is not None):
        raise ValueError("clip() takes a_min and a_max, or min and max, not both")
    low = min if a_min is None else a_min
    high = max if a_max is None else a_max
    result = cast(as_value(a), dtype)
    own = type_of(result).dtype
    if own.kind in "iu":
        # as in NumPy, a Python integer at or beyond the end of the dtype is no bound
        low = None if type(low) is int and low <= np.iinfo(own).min else low
        high = None if type(high) is int and high >= np.iinfo(own).max else high
    if low is None and high is None:
        result = _fresh(result)
    if low is not None:
        result = ew.at_least(result, as_value(low))
    if high is not None:
        result = ew.at_most(result, as_value(high))
    return _finish("clip", result, out, True)


def _fresh(x: Any) -> Any:
    """A copy; scalars need none."""
    return copy_of(x) if ndim(x) else x


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Any:
    """``numpy.select``: the choice of the first condition that holds."""
    if len(condlist) != len(choicelist):
        raise ShapeError(
            explain(
                "select",
                f"got {len(condlist)} conditions and {len(choicelist)} choices",
                "Give one choice for each condition.",
            )
        )
    if not condlist:
        raise ValueError("select() needs at least one condition")
    choices = [as_value(choice) for choice in choicelist]
    result = as_value(default)
    dtype = result_dtype(*[type_of(value) for value in (*choices, result)])
    for condition, choice in zip(reversed(condlist), reversed(choices), strict=True):
        result = ew.select(as_value(condition), choice, result)
    return in_order(cast(result, dtype), C_ORDER)


def piecewise(x: Any, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Any:
    """``numpy.piecewise``: the function of the last condition that holds, evaluated everywhere."""
    x = as_value(x)
    conditions = condlist if isinstance(condlist, (list, tuple)) else [condlist]
    conditions = [as_value(condition) for condition in conditions]
    functions = list(funclist)
    result: Any = 0
    if len(functions) == len(conditions) + 1:
        result = _piece(functions.pop(), x, args, kw)
    elif len(functions) != len(conditions):
        raise ShapeError(
            explain(
                "piecewise",
                f"got {len(conditions)} conditions and {len(functions)} functions",
                "Give one function for each condition, and at most one more for the rest.",
            )
        )
    for condition, function in zip(conditions, functions, strict=True):
        result = ew.select(condition, _piece(function, x, args, kw), result)
    return cast(result, type_of(x).dtype)


def _piece(function: Any, x: Any, args: Any, kw: Any) -> Any:
    return function(x, *args, **kw) if callable(function) else function


def nan_to_num(
    x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Any:
    """``numpy.nan_to_num``: finite numbers in place of NaN and infinities (derivative 0 there)."""
    if not copy and isinstance(x, Views) and is_array(x):
        same: Any = x
        same[...] = nan_to_num(x, True, nan, posinf, neginf)
        return same
    x = as_value(x)
    dtype = type_of(x).dtype
    if dtype.kind == "c":
        parts = [nan_to_num(part, True, nan, posinf, neginf) for part in (real(x), imag(x))]
        return cast(ew.complex_of(*parts), dtype)
    if dtype.kind != "f":
        return _fresh(x)
    limits = np.finfo(dtype)
    high = float(limits.max) if posinf is None else posinf
    low = float(limits.min) if neginf is None else neginf
    x = cast(x, dtype)
    # what stands in for NaN may be infinite itself, and stays
    numbers = ew.select(logic.isposinf(x), cast(as_value(high), dtype), x)
    numbers = ew.select(logic.isneginf(x), cast(as_value(low), dtype), numbers)
    return ew.select(logic.isnan(x), cast(as_value(nan), dtype), numbers)


# ---------------------------------------------------------------- dtypes and complex numbers


def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    """``numpy.astype``: the array in another dtype; with ``copy=False`` itself if it has it."""
    x = as_value(x)
    result = cast(x, dtype)
    return copy_of(x) if result is x and copy and ndim(x) else result


def real(val: Any) -> Any:
    """``numpy.real``: the real part; a view."""
    val = as_value(val)
    return ew.real(val) if type_of(val).dtype.kind == "c" else val


def imag(val: Any) -> Any:
    """``numpy.imag``: the imaginary part; a view, of real numbers zeros."""
    val = as_value(val)
    return ew.imag(val) if type_of(val).dtype.kind == "c" else read_only(snapshot(ew.imag(val)))


def angle(z: Any, deg: bool = False) -> Any:
    """``numpy.angle``: the angle of a complex number."""
    z = as_value(z)
    imaginary = imag(z) if type_of(z).dtype.kind == "c" else 0
    result = ew.arctan2(imaginary, real(z))
    return result * (180 / np.pi) if deg else result


def isreal(x: Any) -> Any:
    """``numpy.isreal``: where the imaginary part is 0."""
    return logic.equal(imag(x), 0)


def iscomplex(x: Any) -> Any:
    """``numpy.iscomplex``: where the imaginary part is not 0."""
    return logic.not_equal(imag(x), 0)


def isrealobj(x: Any) -> bool:
    """``numpy.isrealobj``: whether the dtype is real."""
    return not iscomplexobj(x)


def iscomplexobj(x: Any) -> bool:
    """``numpy.iscomplexobj``: whether the dtype is complex."""
    return bool(type_of(as_value(x)).dtype.kind == "c")


def real_if_close(a: Any, tol: float = 100) -> Any:
    """``numpy.real_if_close``: the real part if all imaginary parts are tiny."""
    a = as_value(a)
    dtype = type_of(a).dtype
    if dtype.kind != "c":
        return a
    if tol > 1:
        tol *= float(np.finfo(dtype).eps)
    parts = _known("real_if_close", imag(a))
    return real(a) if np.all(np.abs(parts) < tol) else a


# ---------------------------------------------------------------- tests and rounding


def _known(name: str, value: Any) -> Any:
    """The plain value; an error where it is abstract."""
    result = concrete(value)
    if result is None:
        raise AbstractValueError(
            explain(name, "the values are not known while the function is traced by jit or vmap")
        )
    return result


def isposinf(x: Any, out: Any = None) -> Any:
    """``numpy.isposinf``: where an element is +inf."""
    return _finish("isposinf", logic.isposinf(as_value(x)), out, True)


def isneginf(x: Any, out: Any = None) -> Any:
    """``numpy.isneginf``: where an element is -inf."""
    return _finish("isneginf", logic.isneginf(as_value(x)), out, True)


def isclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    """``numpy.isclose``: where |a - b| <= atol + rtol |b|."""
    x, y, rtol, atol = (as_value(given) for given in (a, b, rtol, atol))
    if not any(isinstance(given, Traced) for given in (x, y, rtol, atol)):
        return np.isclose(x, y, rtol=rtol, atol=atol, equal_nan=equal_nan)
    if type_of(y).dtype.kind in "biu":
        # neither the difference nor the size may wrap around
        y = y * 1.0 if type_of(y).weak else cast(y, np.result_type(y.dtype, 1.0))
    # by operators: Python numbers among themselves stay Python numbers, and do not widen x
    near = logic.less_equal(absolute(x - y), atol + rtol * y.__abs__())
    result = logic.logical_or(logic.logical_and(near, logic.isfinite(y)), logic.equal(x, y))
    if equal_nan:
        result = logic.logical_or(result, logic.logical_and(logic.isnan(x), logic.isnan(y)))
    return result


def allclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    """``numpy.allclose``: whether all elements are close."""
    return _hold(isclose(a, b, rtol, atol, equal_nan))


def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    """``numpy.array_equal``: whether shapes and elements are equal."""
    x, y = as_value(a1), as_value(a2)
    return type_of(x).shape == type_of(y).shape and _hold(_equal(x, y, equal_nan))


def array_equiv(a1: Any, a2: Any) -> Any:
    """``numpy.array_equiv``: whether the arrays are equal after broadcasting."""
    x, y = as_value(a1), as_value(a2)
    try:
        np.broadcast_shapes(type_of(x).shape, type_of(y).shape)
    except ValueError:
        return False
    return _hold(_equal(x, y))


def _equal(x: Any, y: Any, equal_nan: bool = False) -> Any:
    result = logic.equal(x, y)
    if equal_nan:
        result = logic.logical_or(result, logic.logical_and(logic.isnan(x), logic.isnan(y)))
    return result


def _hold(flags: Any) -> Any:
    """Whether all flags are set: Python's Boolean where they are known."""
    known = concrete(flags)
    return (
        reduce_all(flags, axes=tuple(range(flags.ndim))) if known is None else bool(np.all(known))
    )


def round(a: Any, decimals: int = 0, out: Any = None) -> Any:
    """``numpy.round``: to a number of decimals; its derivative is 0."""
    a = as_value(a)
    if type_of(a).dtype.kind == "b":
        a = cast(a, np.float16)  # as NumPy has it
    if type_of(a).dtype.kind == "c":
        parts = [logic.round_to(part, decimals=decimals) for part in (real(a), imag(a))]
        return cast(ew.complex_of(*parts), type_of(a).dtype)
    return _finish("round", logic.round_to(a, decimals=decimals), out, True)


around = round


def fix(x: Any, out: Any = None) -> Any:
    """``numpy.fix``: towards zero."""
    return trunc(x, out=out)


# ---------------------------------------------------------------- functions


def sinc(x: Any) -> Any:
    """``numpy.sinc``: sin(pi x) / (pi x), smooth at 0 to every order."""
    return sp.sinc(as_value(x), n=0)


def i0(x: Any) -> Any:
    """``numpy.i0``: the modified Bessel function of order 0."""
    return sp.bessel_i(as_value(x), n=0, scaled=False)
