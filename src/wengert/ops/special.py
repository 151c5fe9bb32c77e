"""Special functions, and the sums of exponentials that learning is made of.

Values come from `approximations`, in float64; float32 arguments are widened for the evaluation
and the result is rounded once. Compiled code has some of them (erf, gammaln) as functions of its
own and makes the others from the same approximations. Derivatives are closed: the n-th derivative
of digamma, of a Bessel function or of sinc is an operation of the same family, so every order
exists and is accurate, at 0 too.

Conventions at singular points: the derivatives of ``xlogy`` at (0, 0) are 0, that of `relu` at 0
is 0, and the softmax of a line that is -inf throughout is 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import DTypeError, explain
from ..functions import FUNCTIONS
from ..loops import Apply, Expr, Index, Operand, Pointwise, cast
from ..types import ArrayType, Function, inexact_dtype, result_dtype, type_of
from . import approximations as approx
from . import modified_bessel
from .approximations import Array
from .elementwise import cos, exp, log, log1p, logaddexp, maximum, negative, scale, select
from .families import (
    REAL,
    Interval,
    batch_elementwise,
    broadcast_samples,
    broadcast_shapes,
    of_floats,
    unary,
)
from .layout import (
    as_dtype,
    batch_axes,
    broadcast_to,
    convert,
    expand_over,
    reduce_sum,
    without_axes,
)
from .logic import equal, greater, isneginf, less, logical_and, rint, sign
from .op import Op
from .reductions import reduce_max

REALS = ("float64", "float32")
# Elements evaluated at a time, so that the steps between stay in cache.
BLOCK = 8192
TWO_OVER_ROOT_PI = 2 / math.sqrt(math.pi)
ROOT_TWO_OVER_PI = math.sqrt(2 / math.pi)
ROOT_HALF = math.sqrt(0.5)
PROBABILITY: Interval = (0.05, 0.95)
SHAPE: Interval = (0.3, 4.0)


def real_dtype(name: str, types: Sequence[ArrayType]) -> np.dtype:
    """The dtype of a result: that of real floats; integers give float64."""
    dtype = inexact_dtype(result_dtype(*types))
    if dtype.kind == "c":
        got = ", ".join(str(t) for t in types)
        raise DTypeError(
            explain(name, f"is not defined for {got}", "Give real numbers, such as the real part.")
        )
    return dtype


def _widened(name: str, function: Function) -> Function:
    """Evaluation in float64, block by block, rounded once to the dtype of the arguments."""

    def evaluate(*args: Any, **params: Any) -> Any:
        dtype = real_dtype(name, [type_of(arg) for arg in args])
        arrays = np.broadcast_arrays(*[np.asarray(arg, np.float64) for arg in args])
        lines = [array.reshape(-1) for array in arrays]
        result = np.empty(lines[0].shape, dtype)
        for start in range(0, len(result), BLOCK):
            block = slice(start, start + BLOCK)
            result[block] = function(*[line[block] for line in lines], **params)
        return result.reshape(arrays[0].shape)[()]

    return evaluate


def special(
    name: str,
    function: Function,
    *derivative: Function,
    domains: Sequence[Interval] = (REAL,),
    params: Sequence[dict[str, Any]] = ({},),
    **parts: Any,
) -> Op:
    """An elementwise operation on real numbers."""
    parts.setdefault("compose", _composed(name, function))
    parts.setdefault("loops", _own_function(name))

    def samples(rng: np.random.Generator) -> Any:
        for chosen in params:
            for args, _ in broadcast_samples(domains, REALS)(rng):
                yield args, chosen

    op = Op(
        name,
        _widened(name, function),
        lambda *types, **_: ArrayType(real_dtype(name, types), broadcast_shapes(name, types)),
        derivative=(tuple(map(of_floats, derivative)) if len(derivative) > 1 else derivative)
        or None,
        batch=batch_elementwise(lambda: op),
        samples=samples,
        **parts,
    )
    return op


def _composed(name: str, function: Function) -> Function:
    """The evaluation, traced."""

    def compose(*args: Any, **params: Any) -> Any:
        dtype = real_dtype(name, [type_of(arg) for arg in args])
        wide = [convert(arg, dtype=np.dtype(np.float64)) for arg in args]
        return convert(function(*wide, **params), dtype=dtype)

    return compose


def _own_function(name: str) -> Pointwise | None:
    """The loops of a function that the loop language has."""
    if name not in FUNCTIONS:
        return None

    def rule(index: Index, x: Operand, **params: Any) -> Expr:
        dtype = real_dtype(name, [x.type])
        return Apply(name, (cast(x(index), dtype),), dtype)

    return Pointwise(rule)


# ---------------------------------------------------------------- error functions

erf = special("erf", approx.erf, lambda ans, x: TWO_OVER_ROOT_PI * exp(-x * x))
erfc = special("erfc", approx.erfc, lambda ans, x: -TWO_OVER_ROOT_PI * exp(-x * x))
# (-1)^k (2k - 1)!!
_FAR_OUT = [float((-1) ** k * math.prod(range(1, 2 * k, 2))) for k in range(1, 13)]


def erfcx_slope(ans: Any, x: Any, far: Any) -> Any:
    """2 x erfcx(x) - 2 / sqrt(pi), of which far out next to nothing is left: there its series."""
    distance = select(far, x, 12.0)
    step = 0.5 / distance / distance
    series = step * approx.polynomial(step, _FAR_OUT)
    near = select(far, 0.0, x)
    return select(far, TWO_OVER_ROOT_PI * series, 2 * near * ans - TWO_OVER_ROOT_PI)


# exp(x^2) erfc(x)
erfcx: Op = special("erfcx", approx.erfcx, lambda ans, x: erfcx_slope(ans, x, greater(x, 12.0)))
erfinv = special(
    "erfinv",
    approx.erfinv,
    lambda ans, x: exp(ans * ans) / TWO_OVER_ROOT_PI,
    domains=((-0.9, 0.9),),
)
erfcinv = special(
    "erfcinv",
    approx.erfcinv,
    lambda ans, x: exp(ans * ans) / -TWO_OVER_ROOT_PI,
    domains=((0.1, 1.9),),
)
gauss: Op = special("gauss", lambda x: approx.exp_minus_square(x, 0.5), lambda ans, x: -x * ans)
# exp(x^2 / 2) ndtr(-|x|)
mills: Op = special(
    "mills",
    approx.mills,
    lambda ans, x: x * ans - sign(x) * (0.5 * ROOT_TWO_OVER_PI),
)


def _composed_ndtr(x: Any) -> Any:
    """Of two functions, so that `gauss`, which is in the derivative too, is computed once."""
    tail = gauss(x) * mills(x)
    return select(greater(x, 0), 1 - tail, tail)


ndtr = special(
    "ndtr",
    approx.ndtr,
    lambda ans, x: gauss(x) * (0.5 * ROOT_TWO_OVER_PI),
    compose=_composed_ndtr,
)


def _gelu_slope(ans: Any, x: Any) -> Any:
    """One factor, so that the backward pass needs one value for each element and not two."""
    return ndtr(x) + x * gauss(x) * (0.5 * ROOT_TWO_OVER_PI)


gelu = special(
    "gelu", lambda x: x * approx.ndtr(x), _gelu_slope, compose=lambda x: x * _composed_ndtr(x)
)
log_ndtr = special(
    "log_ndtr", approx.log_ndtr, lambda ans, x: ROOT_TWO_OVER_PI / erfcx(x * -ROOT_HALF)
)

# ---------------------------------------------------------------- gamma functions

# The n-th derivative of digamma.
polygamma: Op = special(
    "polygamma",
    approx.polygamma,
    lambda ans, x, n: polygamma(x, n=n + 1),
    domains=(SHAPE,),
    params=({"n": 0}, {"n": 1}, {"n": 3}),
    loops=lambda n: None if n else _own_function("digamma"),
)
gammaln = special("gammaln", approx.gammaln, lambda ans, x: polygamma(x, n=0), domains=(SHAPE,))
gamma = special("gamma", approx.gamma, lambda ans, x: ans * polygamma(x, n=0), domains=(SHAPE,))


def _rgamma_slope(ans: Any, x: Any) -> Any:
    """Left of 1/2 that of sin(pi x) gamma(1 - x) / pi, which holds at the zeros too."""
    left = less(x, 0.5)
    mirror = 1 - select(left, x, 0.0)
    wave = cos(math.pi * (mirror - 2 * rint(0.5 * mirror)))
    right = ans * polygamma(select(left, 1.0, x), n=0)
    return select(left, -(gamma(mirror) * wave + ans * polygamma(mirror, n=0)), -right)


# 1 / gamma(x)
rgamma: Op = special("rgamma", approx.rgamma, _rgamma_slope, domains=((-3.0, 4.0),))
betaln = special(
    "betaln",
    approx.betaln,
    lambda ans, x, y: polygamma(x, n=0) - polygamma(x + y, n=0),
    lambda ans, x, y: polygamma(y, n=0) - polygamma(x + y, n=0),
    domains=(SHAPE, SHAPE),
)

# ---------------------------------------------------------------- Bessel functions, sinc


def _bessel_derivative(ans: Any, x: Any, n: float, scaled: bool) -> Any:
    above = bessel_i(x, n=n + 1, scaled=scaled)
    # I(-1) = I(1)
    slope = above if n == 0 else 0.5 * (above + bessel_i(x, n=n - 1, scaled=scaled))
    return slope - sign(x) * ans if scaled else slope


# The modified Bessel function of the first kind I_n, times exp(-|x|) when scaled.
bessel_i: Op = special(
    "bessel_i",
    modified_bessel.bessel_i,
    _bessel_derivative,
    domains=((0.2, 20.0),),
    params=(
        {"n": 0, "scaled": True},
        {"n": 1, "scaled": True},
        {"n": 3, "scaled": True},
        {"n": 1.3, "scaled": True},
    ),
)


def _sinc(x: Any, n: int) -> Any:
    if n:
        return approx.sinc_derivative(x, n)
    safe = np.where(x == 0, 1e-20, x)
    return approx.sin_pi(safe) / (math.pi * safe)


# The n-th derivative of sin(pi x) / (pi x).
sinc: Op = special(
    "sinc",
    _sinc,
    lambda ans, x, n: sinc(x, n=n + 1),
    params=({"n": 0}, {"n": 2}),
)

# ---------------------------------------------------------------- logistic functions

logit = special("logit", approx.logit, lambda ans, x: 1 / (x * (1 - x)), domains=(PROBABILITY,))


# ans * expit(-x) rather than ans * (1 - ans), which would lose the tail.
expit: Op = special("expit", approx.expit, lambda ans, x: ans * expit(-x))


# The smaller of expit(x) and expit(-x), with the sign of x: both follow from it.
expit_tail: Op = special(
    "expit_tail",
    lambda x: np.copysign(approx.expit(-np.abs(x)), x),
    lambda ans, x: -expit(x) * expit(-x),
)


softplus = special(
    "softplus",
    lambda x: np.logaddexp(x, 0),
    lambda ans, x: expit(x),
    compose=lambda x: logaddexp(convert(x, dtype=real_dtype("softplus", [type_of(x)])), 0),
)
relu = unary(
    "relu",
    lambda x: np.maximum(x, 0),
    lambda ans, x: convert(greater(x, 0), dtype=type_of(x).dtype),
    like=np.positive,
    dtypes=(*REALS, "int64"),
    compose=lambda x: maximum(x, 0),
)


def _xlogy(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where((x == 0) & ~np.isnan(y), 0.0, x * np.log(y))


def _xlog1py(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where((x == 0) & ~np.isnan(y), 0.0, x * np.log1p(y))


def _unless_both_zero(x: Any, y: Any, form: Function, safe: float, zero: float) -> Any:
    """form(y), but 0 where x is 0 and y is `zero`; also for its derivatives."""
    both = logical_and(equal(x, 0), equal(y, zero))
    return select(both, 0.0, form(select(both, safe, y)))


xlogy = special(
    "xlogy",
    _xlogy,
    lambda ans, x, y: _unless_both_zero(x, y, log, 1.0, 0.0),
    lambda ans, x, y: _unless_both_zero(x, y, lambda y: x / y, 1.0, 0.0),
    domains=(REAL, (0.2, 3.0)),
)
xlog1py = special(
    "xlog1py",
    _xlog1py,
    lambda ans, x, y: _unless_both_zero(x, y, log1p, 0.0, -1.0),
    lambda ans, x, y: _unless_both_zero(x, y, lambda y: x / (1 + y), 0.0, -1.0),
    domains=(REAL, (-0.8, 3.0)),
)


def _log_quotient(x: Array, y: Array) -> Array:
    """log(x / y) for x, y > 0, by their difference where they are near.

    Where the quotient would leave the range of numbers, both are brought nearer to each other.
    """
    near = (x < 2 * y) & (y < 2 * x)
    part = np.where(near, x - y, 0.0) / y
    with np.errstate(over="ignore", under="ignore"):
        whole = x / y
        power = np.where(whole < 2.0**-1000, 512.0, np.where(whole > 2.0**1000, -512.0, 0.0))
        factor = np.where(power > 0, 2.0**512, np.where(power < 0, 2.0**-512, 1.0))
        scaled = (x * factor) / (y / factor)
    return np.where(near, np.log1p(part), np.log(scaled) - power * (2 * math.log(2)))


log_quotient = special(
    "log_quotient",
    _log_quotient,
    lambda ans, x, y: 1 / x,
    lambda ans, x, y: -1 / y,
    domains=((0.2, 3.0), (0.2, 3.0)),
)


def _divergence(x: Array, y: Array) -> Array:
    """x log(x / y) - x + y for x, y > 0, which is small where they are near."""
    return 0.0 - x * approx.log1pmx((y - x) / x, y / x)  # no -0.0


divergence = special(
    "divergence",
    _divergence,
    lambda ans, x, y: log_quotient(x, y),
    lambda ans, x, y: (y - x) / y,
    domains=((0.2, 3.0), (0.2, 3.0)),
)

# ---------------------------------------------------------------- sums of exponentials


def _line_samples(rng: np.random.Generator) -> Any:
    yield (rng.normal(size=(2, 3)),), {"axes": (1,)}
    yield (rng.normal(size=(2, 3, 2)),), {"axes": (0, 2)}
    yield (rng.normal(size=(3,)).astype(np.float32),), {"axes": (0,)}
    yield (rng.normal(size=(0, 2)),), {"axes": (1,)}
    yield (rng.normal(size=(2, 3)),), {"axes": ()}
    yield (rng.integers(-100, 100, (2, 3)).astype(np.int8),), {"axes": (1,)}


def _real_array(name: str, x: Any) -> np.ndarray:
    return np.asarray(x, real_dtype(name, [type_of(x)]))


def _shifted(x: np.ndarray, axes: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The maxima, and the elements less the maximum: at most 0, 0 at +inf, -inf where all are."""
    top = np.max(x, axis=axes, keepdims=True, initial=-np.inf)
    if np.isfinite(top).all():
        return top, x - top
    low = x - np.where(np.isfinite(top), top, 0).astype(x.dtype)
    below = np.where(x == np.inf, 0, -np.inf).astype(x.dtype)
    return top, np.where(top == np.inf, below, low)


def _log_total(shifted: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """log(sum(exp(shifted))), where the largest are 0.

    These are counted, not summed, so that small others are not lost beside 1.
    """
    largest = shifted == 0
    count = np.add.reduce(largest, axis=axes, keepdims=True, dtype=shifted.dtype)
    some = np.maximum(count, 1)
    rest = np.exp(np.where(largest, -np.inf, shifted).astype(shifted.dtype))
    return np.log(some) + np.log1p(np.add.reduce(rest, axis=axes, keepdims=True) / some)


def _logsumexp(x: Any, axes: tuple[int, ...]) -> Any:
    top, shifted = _shifted(_real_array("logsumexp", x), axes)
    total = top + _log_total(shifted, axes)
    return total.reshape(without_axes(total.shape, axes))[()]


# Sums up to here are so exact that exp(x - sum) is; of larger ones the digits behind the point go.
_NEAR = 16.0


def _weights(x: Any, total: Any, axes: tuple[int, ...]) -> Any:
    if np.all(np.abs(total) <= _NEAR):
        return np.exp(x - expand_over(total, np.shape(x), axes))
    return _softmax(x, axes)


def _of_reals(composed: Function) -> Function:
    """The program for any real numbers, from that for floats."""
    return lambda x, axes: composed(as_dtype(x, real_dtype("exp", [type_of(x)])), axes)


def _composed_top(x: Any, axes: tuple[int, ...]) -> Any:
    """The largest element; 0 for -inf, from which nothing can be taken away."""
    top = reduce_max(x, axes=axes, ties="equal")
    return select(isneginf(top), 0.0, top)


def _composed_exp(x: Any, top: Any, axes: tuple[int, ...]) -> Any:
    """exp(x - top), with 1 where both are +inf: the largest number stands for it there.

    One instruction an element more than the difference, in the loop that all of these wait for.
    """
    most = type_of(x).dtype.type(np.finfo(type_of(x).dtype).max)
    spread = expand_over(select(greater(top, most), most, top), type_of(x).shape, axes)
    return exp(select(greater(x, most), most, x) - spread)


def _composed_logsumexp(x: Any, axes: tuple[int, ...]) -> Any:
    top = _composed_top(x, axes)
    return log(reduce_sum(_composed_exp(x, top, axes), axes=axes)) + top


def _composed_softmax(x: Any, axes: tuple[int, ...]) -> Any:
    weights = _composed_exp(x, _composed_top(x, axes), axes)
    return weights / expand_over(_composed_total(weights, axes), type_of(x).shape, axes)


def _composed_total(weights: Any, axes: tuple[int, ...]) -> Any:
    """The sum; 1 where all are 0, so that nothing is divided by 0."""
    total = reduce_sum(weights, axes=axes)
    return select(equal(total, 0), 1.0, total)


def _composed_log_softmax(x: Any, axes: tuple[int, ...]) -> Any:
    top, shape = _composed_top(x, axes), type_of(x).shape
    total = _composed_total(_composed_exp(x, top, axes), axes)
    spread = expand_over(top, shape, axes)
    shifted = select(equal(x, spread), 0.0, x - spread)
    return shifted - expand_over(log(total), shape, axes)


def _weights_samples(rng: np.random.Generator) -> Any:
    for (x,), params in _line_samples(rng):
        if x.dtype.kind == "f":
            yield (x, _logsumexp(x, **params)), params


# exp(x - total) where total is logsumexp(x): the share of each element in the sum. Where the sum
# is infinite its infinite elements have equal shares. That is the softmax of x, which has most of
# its work in common with the sum.
weights: Op = Op(
    "weights",
    _weights,
    lambda x, total, axes: ArrayType(total.dtype, x.shape),
    jvp=(
        lambda t, ans, x, total, axes: scale(t, ans),
        lambda t, ans, x, total, axes: scale(expand_over(negative(t), type_of(x).shape, axes), ans),
    ),
    batch=lambda size, flags, x, total, axes: _batch_weights(size, flags, x, total, axes),
    compose=lambda x, total, axes: _of_reals(_composed_softmax)(x, axes),
    samples=_weights_samples,
)


def _batch_weights(size: int, flags: Sequence[bool], x: Any, total: Any, axes: Any) -> Any:
    given = [
        value if flag else broadcast_to(value, shape=(size, *type_of(value).shape))
        for value, flag in zip((x, total), flags, strict=True)
    ]
    return weights(*given, axes=tuple(axis + 1 for axis in axes))


def _reduced_type(name: str) -> Function:
    return lambda x, axes: ArrayType(real_dtype(name, [x]), without_axes(x.shape, axes))


logsumexp: Op = Op(
    "logsumexp",
    _logsumexp,
    _reduced_type("logsumexp"),
    jvp=(lambda t, ans, x, axes: reduce_sum(scale(t, weights(x, ans, axes=axes)), axes=axes),),
    batch=batch_axes(lambda: logsumexp),
    compose=_of_reals(_composed_logsumexp),
    samples=_line_samples,
)


def _softmax(x: Any, axes: tuple[int, ...]) -> Any:
    values = _real_array("softmax", x)
    if not axes:
        return np.ones_like(values)[()]
    _, shifted = _shifted(values, axes)
    weights = np.exp(shifted)
    total = np.add.reduce(weights, axis=axes, keepdims=True)
    return weights / np.where(total == 0, 1, total).astype(weights.dtype)


def _softmax_jvp(t: Any, ans: Any, x: Any, axes: tuple[int, ...]) -> Any:
    part = scale(t, ans)
    mean = expand_over(reduce_sum(part, axes=axes), type_of(ans).shape, axes)
    return part - scale(mean, ans)


def _same_type(name: str) -> Function:
    return lambda x, axes: ArrayType(real_dtype(name, [x]), x.shape)


softmax: Op = Op(
    "softmax",
    _softmax,
    _same_type("softmax"),
    jvp=(_softmax_jvp,),
    batch=batch_axes(lambda: softmax),
    compose=_of_reals(_composed_softmax),
    samples=_line_samples,
)


def _log_softmax(x: Any, axes: tuple[int, ...]) -> Any:
    _, shifted = _shifted(_real_array("log_softmax", x), axes)
    return (shifted - _log_total(shifted, axes))[()]


def _log_softmax_jvp(t: Any, ans: Any, x: Any, axes: tuple[int, ...]) -> Any:
    mean = reduce_sum(scale(t, exp(ans)), axes=axes)
    return t - expand_over(mean, type_of(ans).shape, axes)


log_softmax: Op = Op(
    "log_softmax",
    _log_softmax,
    _same_type("log_softmax"),
    jvp=(_log_softmax_jvp,),
    batch=batch_axes(lambda: log_softmax),
    compose=_of_reals(_composed_log_softmax),
    samples=_line_samples,
)
