"""Integrals of samples and of functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import numpy as wnp
from ..errors import ShapeError, explain
from ..trace.tracer import concrete
from ..transforms import stop_gradient, vmap, while_loop
from ..types import type_of

# ---------------------------------------------------------------- samples


def _along(y: Any, axis: int, start: int | None, stop: int | None, step: int = 1) -> Any:
    """A part of an array along an axis."""
    key = [slice(None)] * np.ndim(y)
    key[axis] = slice(start, stop, step)
    return y[tuple(key)]


def _spacing(name: str, y: Any, x: Any, dx: Any, axis: int) -> Any:
    """The distances of the samples, shaped to multiply them; or `dx`."""
    if x is None:
        return dx
    x = wnp.asarray(x)
    if np.ndim(x) == 1:
        shape = [1] * np.ndim(y)
        shape[axis] = np.shape(x)[0]
        x = wnp.reshape(x, tuple(shape))
    if np.ndim(x) != np.ndim(y) or np.shape(x)[axis] != np.shape(y)[axis]:
        raise ShapeError(
            explain(
                name,
                f"got x of shape {np.shape(x)} for y of shape {np.shape(y)}",
                "Give a vector with a place for each sample, or the shape of y.",
            )
        )
    return wnp.diff(x, axis=axis)


def cumulative_trapezoid(
    y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1, initial: Any = None
) -> Any:
    """``scipy.integrate.cumulative_trapezoid``: the integrals up to each of the samples.

    >>> cumulative_trapezoid(np.array([1.0, 3.0, 5.0]), initial=0)
    array([0., 2., 6.])
    """
    y = wnp.asarray(y)
    steps = _spacing("cumulative_trapezoid", y, x, dx, axis)
    mean = (_along(y, axis, 1, None) + _along(y, axis, None, -1)) / 2.0
    found = wnp.cumsum(steps * mean, axis=axis)
    if initial is None:
        return found
    if initial != 0:
        raise ShapeError(explain("cumulative_trapezoid", f"got initial={initial!r}", "Use 0."))
    shape = list(np.shape(found))
    shape[axis] = 1
    return wnp.concatenate([np.zeros(shape, type_of(found).dtype), found], axis)


def simpson(y: Any, x: Any = None, *, dx: Any = 1.0, axis: int = -1) -> Any:
    """``scipy.integrate.simpson``: the integral of parabolas through the samples.

    >>> float(simpson(np.array([0.0, 1.0, 4.0, 9.0, 16.0])).round(9))
    21.333333333
    """
    y = wnp.asarray(y)
    y = y if type_of(y).inexact else y.astype(np.float64)
    count = np.shape(y)[axis]
    steps = _spacing("simpson", y, x, dx, axis)
    if x is None:
        shape = [1] * np.ndim(y)
        shape[axis] = max(count - 1, 0)
        steps = wnp.broadcast_to(wnp.asarray(dx, np.float64), tuple(shape))
    if count == 2:
        pair = wnp.sum(_along(y, axis, 0, 1) + _along(y, axis, 1, 2), axis=axis)
        return 0.5 * wnp.sum(steps, axis=axis) * pair
    if count % 2:
        return _parabolas(y, steps, axis)
    inner = _parabolas(_along(y, axis, None, -1), _along(steps, axis, None, -1), axis)
    return inner + _last_interval(y, steps, axis)


def _parabolas(y: Any, steps: Any, axis: int) -> Any:
    """An odd number of samples, two intervals at a time."""
    one, other = _along(steps, axis, None, None, 2), _along(steps, axis, 1, None, 2)
    first, middle, last = (
        _along(y, axis, None, -1, 2), _along(y, axis, 1, None, 2), _along(y, axis, 2, None, 2),
    )  # fmt: skip
    both = one + other
    parts = first * (2.0 - other / one) + middle * (both * both / (one * other))
    return wnp.sum(both / 6.0 * (parts + last * (2.0 - one / other)), axis=axis)


def _last_interval(y: Any, steps: Any, axis: int) -> Any:
    """What the parabola through the last three samples has in the last interval."""
    one, other = _along(steps, axis, -2, -1), _along(steps, axis, -1, None)
    weights = (
        -(other**3) / (6 * one * (one + other)),
        (other**2 + 3 * one * other) / (6 * one),
        (2 * other**2 + 3 * one * other) / (6 * (one + other)),
    )
    samples = (_along(y, axis, -3, -2), _along(y, axis, -2, -1), _along(y, axis, -1, None))
    total = sum(weight * sample for weight, sample in zip(weights, samples, strict=True))
    return wnp.sum(total, axis=axis)


# ---------------------------------------------------------------- functions


# Gauss's rule of 10 points and Kronrod's of 21 (Piessens and others, QUADPACK, 1983): the places
# and weights from the end to the middle. Gauss has every other place.
_PLACES = (
    0.995657163025808080735527280689003, 0.973906528517171720077964012084452,
    0.930157491355708226001207180059508, 0.865063366688984510732096688423493,
    0.780817726586416897063717578345042, 0.679409568299024406234327365114874,
    0.562757134668604683339000099272694, 0.433395394129247190799265943165784,
    0.294392862701460198131126603103866, 0.148874338981631210884826001129720, 0.0,
)  # fmt: skip
_KRONROD = (
    0.011694638867371874278064396062192, 0.032558162307964727478818972459390,
    0.054755896574351996031381300244580, 0.075039674810919952767043140916190,
    0.093125454583697605535065465083366, 0.109387158802297641899210590325805,
    0.123491976262065851077958109831074, 0.134709217311473325928054001771707,
    0.142775938577060080797094273138717, 0.147739104901338491374841515972068,
    0.149445554002916905664936468389821,
)  # fmt: skip
_GAUSS = (
    0.0, 0.066671344308688137593568809893332, 0.0, 0.149451349150580593145776339657697,
    0.0, 0.219086362515982043995534934228163, 0.0, 0.269266719309996355091226921569469,
    0.0, 0.295524224714752870173892994647170, 0.0,
)  # fmt: skip


def _both_sides(half: tuple[float, ...], sign: float = 1.0) -> np.ndarray:
    """Numbers from end to end, of those from one end to the middle; for the interval [0, 1]."""
    return np.array([*(sign * x for x in half[:-1]), *reversed(half)])


_NODES = 0.5 + 0.5 * _both_sides(_PLACES, -1.0)
_WEIGHTS = 0.5 * np.stack([_both_sides(_KRONROD), _both_sides(_GAUSS)])


def quad(
    func: Callable[..., Any],
    a: Any,
    b: Any,
    args: tuple[Any, ...] = (),
    *,
    epsabs: float = 1.49e-8,
    epsrel: float = 1.49e-8,
    limit: int = 50,
) -> tuple[Any, Any]:
    """``scipy.integrate.quad``: the integral of a function of one number, and its error.

    Intervals are halved where the rules of Gauss and Kronrod differ most, until the error is small
    enough or there are `limit` of them. Ends may be infinite, as plain numbers. Derivatives are
    those of the sum: with respect to `a`, `b`, `args`, and whatever `func` takes from outside; the
    error that is estimated is that of the value.

    >>> value, error = quad(lambda x: np.exp(-x * x), -np.inf, np.inf)
    >>> print(f"{value:.9f}")
    1.772453851
    >>> import wengert as wg
    >>> print(f"{wg.grad(lambda k: quad(lambda x: np.exp(-k * x), 0, 1)[0])(2.0):.9f}")
    -0.148498538
    """
    on_unit = _on_unit_interval(lambda x: func(x, *args), a, b)

    def integral(start: Any, length: Any) -> tuple[Any, Any]:
        """The integral over some intervals, and its error."""
        values = vmap(vmap(on_unit))(start[:, None] + length[:, None] * _NODES)
        rules = length[:, None] * (values @ _WEIGHTS.T)
        found = rules[:, 0]
        plain = stop_gradient(values - (found / length)[:, None])
        spread = stop_gradient(length * (wnp.abs(plain) @ _WEIGHTS[0]))
        return found, _error(stop_gradient(wnp.abs(rules[:, 0] - rules[:, 1])), spread)

    places = np.arange(limit)
    first, error = integral(np.zeros(1), np.ones(1))
    empty = np.zeros(limit)
    whole = [wnp.where(places == 0, x, 0.0) for x in (1.0, first, error)]
    state = (np.int64(1), empty, *whole)

    def unfinished(state: Any) -> Any:
        count, _, _, values, errors = state
        wanted = wnp.maximum(epsabs, epsrel * wnp.abs(stop_gradient(wnp.sum(values))))
        return (wnp.sum(errors) > wanted) & (count < limit)

    def halve(state: Any) -> Any:
        count, starts, lengths, values, errors = state
        worst = wnp.argmax(errors)
        half = lengths[worst] / 2
        begins = wnp.stack([starts[worst], starts[worst] + half])
        new_values, new_errors = integral(begins, wnp.stack([half, half]))
        updates = ((starts, begins), (lengths, (half, half)), (values, new_values))
        return (
            count + 1,
            *[_placed(old, places, worst, count, new) for old, new in updates],
            _placed(errors, places, worst, count, new_errors),
        )

    _, _, _, values, errors = while_loop(unfinished, halve, state)
    return wnp.sum(values), wnp.sum(errors)


def _placed(old: Any, places: Any, one: Any, other: Any, new: Any) -> Any:
    return wnp.where(places == one, new[0], wnp.where(places == other, new[1], old))


def _error(difference: Any, spread: Any) -> Any:
    """What QUADPACK takes for the error of Kronrod's rule."""
    flat = (spread == 0) | (difference == 0)
    share = 200 * difference / wnp.where(flat, 1.0, spread)
    return wnp.where(flat, difference, spread * wnp.minimum(1.0, share**1.5))


def _is_infinite(x: Any) -> bool:
    plain = concrete(x)
    return plain is not None and bool(np.isinf(plain))


def _on_unit_interval(f: Callable[[Any], Any], a: Any, b: Any) -> Callable[[Any], Any]:
    """The function on [0, 1] that has the integral of `f` from a to b."""
    below, above = _is_infinite(a), _is_infinite(b)
    if below and above:
        if a == b:
            return lambda u: 0.0 * u
        sign = 1.0 if b > a else -1.0
        return lambda u: sign * (f((1 - u) / u) + f((u - 1) / u)) / (u * u)
    if below or above:
        end, far = (b, a) if below else (a, b)
        way = 1.0 if far > 0 else -1.0
        sign = 1.0 if above else -1.0
        return lambda u: sign * way * f(end + way * (1 - u) / u) / (u * u)
    a, b = wnp.asarray(a, np.float64), wnp.asarray(b, np.float64)
    return lambda u: (b - a) * f(a + (b - a) * u)


def fixed_quad(
    func: Callable[..., Any], a: Any, b: Any, args: tuple[Any, ...] = (), n: int = 5
) -> tuple[Any, None]:
    """``scipy.integrate.fixed_quad``: Gauss's rule of n points for a function of a vector.

    >>> value, _ = fixed_quad(lambda x: x**3, 0.0, 2.0)
    >>> print(f"{value:.12f}")
    4.000000000000
    """
    places, weights = np.polynomial.legendre.leggauss(n)
    at = (b - a) * (places + 1) / 2.0 + a
    return (b - a) / 2.0 * wnp.sum(weights * func(at, *args), axis=-1), None
