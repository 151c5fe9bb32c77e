"""Special functions under SciPy's names, and the activations of neural networks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import DTypeError, explain
from ..ops import complex_functions as cf
from ..ops import elementwise as ew
from ..ops import logic
from ..ops import special as sp
from ..ops.layout import broadcast_to, reduce_sum, reshape
from ..ops.op import Op
from ..types import result_dtype, type_of
from .common import as_value, cast, named, ndim, normal_axes, shape

__all__ = [
    "beta", "betaln", "digamma", "elu", "entr", "erf", "erfc", "erfcinv", "erfcx", "erfinv",
    "expit", "factorial", "gamma", "gammaln", "gammasgn", "gelu", "i0e", "i1", "i1e", "kl_div",
    "log_expit", "log_ndtr", "log_sigmoid", "log_softmax", "logit", "logsumexp", "ndtr", "ndtri",
    "polygamma", "rel_entr", "relu", "sigmoid", "silu", "softmax", "softplus", "trigamma",
    "xlog1py", "xlogy",
]  # fmt: skip


def _unary(
    op: Op, example: str, gives: str, about: str, of_complex: Op | None = None, **fixed: Any
) -> Callable[[Any], Any]:
    """The function for an operation on one array; the `example` has its name.

    `of_complex` is the operation on complex numbers, where there is one.
    """

    def apply(x: Any) -> Any:
        x = as_value(x)
        if of_complex is not None and is_complex(x):
            return of_complex(x, **fixed)
        return op(x, **fixed)

    run = f'>>> import wengert.numpy as wnp\n>>> print(f"{{wnp.{example}:.9g}}")\n{gives}'
    return named(apply, example.partition("(")[0], f"{about}\n\n{run}\n")


def is_complex(x: Any) -> bool:
    """Whether a value is of complex numbers."""
    return bool(type_of(x).dtype.kind == "c")


_ERF = "The integral of 2/sqrt(pi) exp(-t^2) from 0 to x."
erf = _unary(sp.erf, "erf(1.0)", "0.842700793", _ERF, cf.erf_op)
erfc = _unary(sp.erfc, "erfc(10.0)", "2.08848758e-45", "1 - erf(x), accurate far out.", cf.erfc_op)
erfcx = _unary(sp.erfcx, "erfcx(100.0)", "0.00564161378", "exp(x^2) erfc(x).", cf.erfcx_op)
erfinv = _unary(sp.erfinv, "erfinv(0.5)", "0.476936276", "The inverse of `erf`.")
erfcinv = _unary(sp.erfcinv, "erfcinv(1e-100)", "15.0655747", "The inverse of `erfc`.")
_NDTR = "The distribution function of the standard normal."
ndtr = _unary(sp.ndtr, "ndtr(0.0)", "0.5", _NDTR, cf.ndtr_op)
_LOG_NDTR = "log(ndtr(x)), also far left."
log_ndtr = _unary(sp.log_ndtr, "log_ndtr(-100.0)", "-5005.52421", _LOG_NDTR, cf.log_ndtr_op)
gammaln = _unary(sp.gammaln, "gammaln(101.0)", "363.739376", "log |gamma(x)|.")
_GAMMA = "The gamma function; gamma(n + 1) is n! rounded."
gamma = _unary(sp.gamma, "gamma(6.0)", "120", _GAMMA, cf.gamma_op)
_DIGAMMA = "The derivative of `gammaln`."
digamma = _unary(sp.polygamma, "digamma(1.0)", "-0.577215665", _DIGAMMA, cf.polygamma_op, n=0)
_TRIGAMMA = "The derivative of `digamma`."
trigamma = _unary(sp.polygamma, "trigamma(1.0)", "1.64493407", _TRIGAMMA, cf.polygamma_op, n=1)
i1 = _unary(sp.bessel_i, "i1(1.0)", "0.565159104", "The derivative of `i0`.", n=1, scaled=False)
i0e = _unary(sp.bessel_i, "i0e(1000.0)", "0.0126172405", "exp(-|x|) i0(x).", n=0, scaled=True)
i1e = _unary(sp.bessel_i, "i1e(1.0)", "0.207910415", "exp(-|x|) i1(x).", n=1, scaled=True)
expit = sigmoid = _unary(sp.expit, "expit(0.0)", "0.5", "1 / (1 + exp(-x)); also called `sigmoid`.")
softplus = _unary(sp.softplus, "softplus(1000.0)", "1000", "log(1 + exp(x)), accurate everywhere.")

# ---------------------------------------------------------------- error functions


def ndtri(p: Any) -> Any:
    """The inverse of `ndtr`.

    >>> import wengert.numpy as wnp
    >>> print(f"{wnp.ndtri(0.975):.12f}")
    1.959963984540
    """
    return sp.erfcinv(2 * as_value(p)) * -math.sqrt(2)


# ---------------------------------------------------------------- gamma functions


def gammasgn(x: Any) -> Any:
    """The sign of gamma(x): 1 or -1, NaN at the negative integers.

    >>> import wengert.numpy as wnp
    >>> float(wnp.gammasgn(-0.5))
    -1.0
    """
    x = as_value(x)
    x = cast(x, sp.real_dtype("gammasgn", [type_of(x)]))
    odd = logic.not_equal(ew.remainder(logic.floor(x), 2), 0)
    pole = logic.logical_and(logic.less(x, 0), logic.equal(x, logic.floor(x)))
    below = ew.select(pole, np.nan, ew.select(odd, -1.0, 1.0))
    at_zero = ew.copysign(type_of(x).dtype.type(1), x)
    result = ew.select(logic.greater(x, 0), 1.0, ew.select(logic.equal(x, 0), at_zero, below))
    return cast(result, type_of(x).dtype)


def factorial(n: Any) -> Any:
    """n!, as gamma(n + 1), and 0 for negative n.

    >>> import wengert.numpy as wnp
    >>> float(wnp.factorial(20))
    2.43290200817664e+18
    """
    n = as_value(n)
    negative = logic.less(n, 0)
    return ew.select(negative, 0.0, sp.gamma(ew.select(negative, 0, n) + 1))


def betaln(a: Any, b: Any) -> Any:
    """log |beta(a, b)|, without cancellation for large arguments.

    >>> import wengert.numpy as wnp
    >>> print(f"{wnp.betaln(1e10, 2.0):.12f}")
    -46.051701859981
    """
    return sp.betaln(as_value(a), as_value(b))


def beta(a: Any, b: Any) -> Any:
    """The beta function, gamma(a) gamma(b) / gamma(a + b).

    >>> import wengert.numpy as wnp
    >>> print(f"{wnp.beta(2.0, 3.0):.12f}")
    0.083333333333
    """
    a, b = as_value(a), as_value(b)
    sign = gammasgn(a) * gammasgn(b) * gammasgn(a + b)
    return sign * ew.exp(sp.betaln(a, b))


def polygamma(n: int, x: Any) -> Any:
    """The n-th derivative of `digamma`; n is a Python integer.

    >>> import wengert.numpy as wnp
    >>> print(f"{wnp.polygamma(2, 1.0):.12f}")
    -2.404113806319
    """
    if not isinstance(n, (int, np.integer)) or n < 0:
        raise DTypeError(
            explain("polygamma", f"got the order {n!r}", "Give a Python integer of at least 0.")
        )
    x = as_value(x)
    return (cf.polygamma_op if is_complex(x) else sp.polygamma)(x, n=int(n))


# ---------------------------------------------------------------- entropies and logistic functions


def xlogy(x: Any, y: Any) -> Any:
    """x log(y), and 0 where x is 0.

    >>> import wengert.numpy as wnp
    >>> float(wnp.xlogy(0.0, 0.0))
    0.0
    """
    return _product_with_log(sp.xlogy, ew.log, 0.0, as_value(x), as_value(y))


def _product_with_log(op: Op, log: Op, pole: float, x: Any, y: Any) -> Any:
    """x log(y), and 0 where x is 0 and y is at the logarithm's pole."""
    if not (is_complex(x) or is_complex(y)):
        return op(x, y)
    both = logic.logical_and(logic.equal(x, 0), logic.equal(y, pole))
    y = cast(y, result_dtype(type_of(x), type_of(y)))
    return x * log(ew.select(both, pole + 1, y))


def xlog1py(x: Any, y: Any) -> Any:
    """x log(1 + y), and 0 where x is 0.

    >>> import wengert.numpy as wnp
    >>> float(wnp.xlog1py(0.0, -1.0))
    0.0
    """
    return _product_with_log(sp.xlog1py, cf.log1p_op, -1.0, as_value(x), as_value(y))


def entr(x: Any) -> Any:
    """-x log(x): 0 at 0, -inf below.

    >>> import wengert.numpy as wnp
    >>> print(f"{wnp.entr(0.5):.12f}")
    0.346573590280
    """
    x = as_value(x)
    below = logic.less(x, 0)
    safe = ew.select(below, 1, x)
    return ew.select(below, -np.inf, -sp.xlogy(safe, safe))


def rel_entr(x: Any, y: Any) -> Any:
    """x log(x / y): 0 where x is 0, inf outside x >= 0, y > 0.

    >>> import wengert.numpy as wnp
    >>> print(f"{wnp.rel_entr(0.5, 0.25):.12f}")
    0.346573590280
    """
    return _relative("rel_entr", lambda x, y: x * sp.log_quotient(x, y), 0.0, x, y)


def _relative(name: str, inner: Any, at_zero: Any, x: Any, y: Any) -> Any:
    """The formula where x, y > 0; `at_zero` y where x is 0 and y is not below it; inf elsewhere."""
    x, y = as_value(x), as_value(y)
    inside = logic.logical_and(logic.greater(x, 0), logic.greater(y, 0))
    edge = logic.logical_and(logic.equal(x, 0), logic.greater_equal(y, 0))
    value = inner(ew.select(inside, x, 1), ew.select(inside, y, 1))
    value = ew.select(inside, value, ew.select(edge, at_zero * y, np.inf))
    unknown = logic.logical_or(logic.not_equal(x, x), logic.not_equal(y, y))
    return cast(ew.select(unknown, np.nan, value), sp.real_dtype(name, _types(x, y)))


def _types(*values: Any) -> list[Any]:
    return [type_of(value) for value in values]


def kl_div(x: Any, y: Any) -> Any:
    """x log(x / y) - x + y, the terms of the Kullback-Leibler divergence.

    >>> import wengert.numpy as wnp
    >>> float(wnp.kl_div(0.5, 0.5))
    0.0
    """
    return _relative("kl_div", sp.divergence, 1.0, x, y)


def logit(p: Any) -> Any:
    """log(p / (1 - p)), the inverse of `expit`.

    >>> import wengert.numpy as wnp
    >>> float(wnp.logit(0.5))
    0.0
    """
    return sp.logit(as_value(p))


def log_expit(x: Any) -> Any:
    """log(expit(x)), accurate on both sides; also called `log_sigmoid`.

    >>> import wengert.numpy as wnp
    >>> float(wnp.log_expit(-1000.0))
    -1000.0
    """
    return ew.negative(sp.softplus(ew.negative(as_value(x))))


log_sigmoid = log_expit

# ---------------------------------------------------------------- sums of exponentials


def logsumexp(
    a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False
) -> Any:
    """log(sum(b exp(a))) over an axis; nothing overflows, and -inf counts as nothing.

    Where the sum is negative it is NaN; with `return_sign` it is that of |sum|, and the sign of the
    sum, or 0, comes second.

    >>> import numpy as np
    >>> import wengert.numpy as wnp
    >>> print(f"{wnp.logsumexp(np.array([1000.0, 1000.0])):.9f}")
    1000.693147181
    >>> size, sign = wnp.logsumexp(np.zeros(3), b=np.array([1.0, -2.0, -1.0]), return_sign=True)
    >>> print(f"{size:.9f} {sign:.0f}")
    0.693147181 -1
    """
    a, b = as_value(a), None if b is None else as_value(b)
    extent = np.broadcast_shapes(shape(a), () if b is None else shape(b)) or (1,)  # as SciPy has it
    a = a if shape(a) == extent else broadcast_to(a, shape=extent)
    axes = normal_axes("logsumexp", axis, len(extent))
    if b is None:
        result = sp.logsumexp(a, axes=axes)
        sign = ew.select(logic.isneginf(result), 0.0, ew.select(logic.isnan(result), np.nan, 1.0))
    else:
        result, sign = _weighted_logsumexp(a, b, axes, return_sign)
    kept = tuple(1 if k in axes else n for k, n in enumerate(extent))
    both = (result, cast(sign, type_of(result).dtype)) if return_sign else (result,)
    both = tuple(reshape(one, shape=kept) for one in both) if keepdims else both
    return both if return_sign else both[0]


def _weighted_logsumexp(a: Any, b: Any, axes: Any, signed: bool) -> tuple[Any, Any]:
    """log(sum(b exp(a))), or that of the sum's size if `signed`, and the sign of the sum."""
    off = logic.equal(b, 0)
    counted = ew.select(off, -np.inf, a)
    total = sp.logsumexp(counted, axes=axes)
    kept = tuple(1 if k in axes else n for k, n in enumerate(type_of(counted).shape))
    above = a - reshape(ew.select(logic.isfinite(total), total, np.inf), shape=kept)
    # what does not count has a derivative by its weight nevertheless
    idle = ew.exp(ew.minimum(ew.select(off, above, 0.0), 700.0))
    weighted = reduce_sum(b * ew.select(off, idle, sp.softmax(counted, axes=axes)), axes=axes)
    if not signed:
        return total + ew.log(ew.select(logic.isneginf(total), 1.0, weighted)), 1.0
    zero = logic.equal(weighted, 0)
    size = total + ew.log(ew.absolute(ew.select(zero, 1.0, weighted)))
    return ew.select(zero, -np.inf, size), logic.sign(weighted)


def softmax(x: Any, axis: Any = None) -> Any:
    """exp(x) / sum(exp(x)) over an axis (all axes by default); -inf gives weight 0.

    >>> import numpy as np
    >>> import wengert.numpy as wnp
    >>> wnp.softmax(np.array([0.0, 0.0, -np.inf]))
    array([0.5, 0.5, 0. ])
    """
    return _over_axes("softmax", sp.softmax, x, axis)


def log_softmax(x: Any, axis: Any = None) -> Any:
    """log(softmax(x)) over an axis (all axes by default), without rounding the small ones to 0.

    >>> import numpy as np
    >>> import wengert.numpy as wnp
    >>> wnp.log_softmax(np.array([0.0, 1000.0]))
    array([-1000.,     0.])
    """
    return _over_axes("log_softmax", sp.log_softmax, x, axis)


def _over_axes(name: str, op: Op, x: Any, axis: Any) -> Any:
    x = as_value(x)
    return op(x, axes=normal_axes(name, axis, ndim(x)))


# ---------------------------------------------------------------- activations


def relu(x: Any) -> Any:
    """max(x, 0), with the derivative 0 at 0.

    >>> import numpy as np
    >>> import wengert.numpy as wnp
    >>> wnp.relu(np.array([-1.0, 2.0]))
    array([0., 2.])
    """
    x = as_value(x)
    # as NumPy's maximum(x, 0) does
    return sp.relu(cast(x, np.int64) if type_of(x).dtype.kind == "b" else x)


def gelu(x: Any, approximate: bool = False) -> Any:
    """x ndtr(x); `approximate` uses the tanh formula.

    >>> import wengert.numpy as wnp
    >>> print(f"{wnp.gelu(1.0):.9f} {wnp.gelu(1.0, approximate=True):.9f}")
    0.841344746 0.841191991
    """
    x = as_value(x)
    if not approximate:
        return sp.gelu(x)
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))
    return 0.5 * x * (1 + ew.tanh(inner))


def silu(x: Any) -> Any:
    """x expit(x).

    >>> import wengert.numpy as wnp
    >>> float(wnp.silu(0.0))
    0.0
    """
    x = as_value(x)
    return x * sp.expit(x)


def elu(x: Any, alpha: Any = 1.0) -> Any:
    """x above 0, alpha (exp(x) - 1) below.

    >>> import wengert.numpy as wnp
    >>> print(f"{wnp.elu(-1.0):.9f}")
    -0.632120559
    """
    x = as_value(x)
    above = logic.greater(x, 0)
    return ew.select(above, x, alpha * ew.expm1(ew.select(above, 0, x)))
