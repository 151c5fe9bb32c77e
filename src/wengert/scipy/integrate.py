"""Integration under SciPy's names (``scipy.integrate``): of samples, of functions, of equations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import numpy as wnp
from ..errors import AbstractValueError, OptionError, ShapeError, explain
from ..numpy import trapezoid
from ..trace.tracer import concrete
from ..transforms import stop_gradient
from ..types import type_of
from .quadrature import cumulative_trapezoid, fixed_quad, quad, simpson
from .radau import RADAU
from .radau import attempt as implicit_attempt
from .runge_kutta import METHODS, Problem, attempt, beginning, checked_slope, solution

__all__ = [
    "OdeResult", "cumulative_trapezoid", "fixed_quad", "odeint", "quad", "simpson", "solve_ivp",
    "trapezoid",
]  # fmt: skip

_ODEINT_TOLERANCE = 1.49012e-8
_RADAU = RADAU, implicit_attempt


class OdeResult(NamedTuple):
    """What `solve_ivp` returns: times, the solution with a column for each, and how it went."""

    t: Any
    y: Any
    nfev: Any
    status: Any

    @property
    def success(self) -> Any:
        """Whether the solution reached the end."""
        return self.status == 0

    @property
    def message(self) -> str:
        """The same in words, where it is known."""
        if self.success:
            return "The solver successfully reached the end of the integration interval."
        return "Required step size is less than spacing between numbers."


def _tolerance(rtol: Any) -> Any:
    return wnp.maximum(stop_gradient(wnp.asarray(rtol, np.float64)), 100 * np.finfo(float).eps)


def _floats(y: Any) -> Any:
    y = wnp.asarray(y)
    return y if type_of(y).inexact else y.astype(np.float64)


def _problem(
    name: str, function: Any, y: Any, times: Any, method: str, tolerances: Any, max_step: Any
) -> Problem:
    known = {**{key: (table, attempt) for key, table in METHODS.items()}, "Radau": _RADAU}
    if method not in known:
        raise OptionError(
            explain(
                name,
                f"got method={method!r}",
                f"Use one of {', '.join(map(repr, known))}; 'Radau' is for stiff equations.",
            )
        )
    if method == "Radau" and type_of(y).dtype.kind == "c":
        remedy = "Give the real and the imaginary parts as one vector."
        raise OptionError(explain(name, "got a complex y0 for method='Radau'", remedy))
    start, end = times
    forward = stop_gradient(end) >= stop_gradient(start)
    rtol, atol = tolerances
    table, makes_step = known[method]
    return Problem(
        checked_slope(name, function, y), table, end, wnp.where(forward, 1.0, -1.0),
        _tolerance(rtol), stop_gradient(wnp.asarray(atol, np.float64)), max_step, makes_step,
    )  # fmt: skip


def solve_ivp(
    fun: Callable[..., Any],
    t_span: Sequence[Any],
    y0: Any,
    method: str = "RK45",
    t_eval: Any = None,
    *,
    args: tuple[Any, ...] = (),
    rtol: Any = 1e-3,
    atol: Any = 1e-6,
    first_step: Any = None,
    max_step: Any = np.inf,
    vectorized: bool = False,
) -> OdeResult:
    """``scipy.integrate.solve_ivp``: the solution of ``dy/dt = fun(t, y, *args)``, ``y(t0) = y0``.

    `t_span` is (t0, t1), and `t_eval` has the times at which the solution is wanted; without it
    there are those of all steps, which `jit` cannot know. Methods are "RK45" and "RK23", with the
    steps that SciPy makes, and "Radau" for stiff equations, with the exact Jacobian of `fun`.
    Where steps become too small, `success` is False and the rest is nan.

    Derivatives with respect to `y0`, `args`, times, and whatever `fun` takes from outside, go
    through the steps that were made (the discrete adjoint): of any order, forward and reverse, and
    as exact as the solution ("Radau": first and second ones). Reverse mode keeps the values of all
    steps.

    >>> decay = solve_ivp(lambda t, y: -y, (0, 1), [1.0], t_eval=[0.0, 0.5, 1.0])
    >>> decay.y.round(3)
    array([[1.   , 0.606, 0.368]])

    >>> import wengert as wg
    >>> def end(rate):
    ...     return solve_ivp(lambda t, y: -rate * y, (0, 1), [1.0], t_eval=[1.0], rtol=1e-6).y[0, 0]
    >>> print(f"{wg.jit(wg.grad(end))(1.0):.4f}")
    -0.3679
    """
    y = _floats(y0)
    if np.ndim(y) != 1:
        raise ShapeError(
            explain(
                "solve_ivp",
                f"got y0 of shape {np.shape(y)}, expected a vector",
                "Ravel it, and reshape it in fun; odeint takes states of any shape.",
            )
        )
    t0, t1 = (wnp.asarray(time, np.float64) for time in t_span)

    def slope(t: Any, y: Any) -> Any:
        found = fun(t, wnp.expand_dims(y, -1) if vectorized else y, *args)
        return wnp.asarray(found).reshape(np.shape(y)) if vectorized else found

    problem = _problem("solve_ivp", slope, y, (t0, t1), method, (rtol, atol), max_step)
    state = beginning(problem, t0, y, first_step)
    if t_eval is None:
        return _all_steps(problem, state)
    times = _checked_times(t_eval, t0, t1)
    state, values = solution(problem, state, times)
    status = wnp.where(state.failed, -1, 0)
    return OdeResult(times, wnp.moveaxis(values, 0, -1), state.evaluations, status)


def _checked_times(t_eval: Any, t0: Any, t1: Any) -> Any:
    times = wnp.asarray(t_eval, np.float64)
    if np.ndim(times) != 1:
        problem = f"got t_eval of shape {np.shape(times)}, expected a vector"
        raise ShapeError(explain("solve_ivp", problem))
    known = [concrete(x) for x in (times, t0, t1)]
    if all(x is not None for x in known) and not _are_in_order(*map(np.asarray, known)):
        raise OptionError(
            explain(
                "solve_ivp",
                f"got t_eval={known[0]} for t_span={(float(known[1]), float(known[2]))}",
                "The times must lie in t_span and follow each other in its direction.",
            )
        )
    return times


def _are_in_order(times: np.ndarray, start: Any, end: Any) -> bool:
    inside = (times >= min(start, end)) & (times <= max(start, end))
    return bool(inside.all() and (np.diff(times) * (1 if end >= start else -1) > 0).all())


def _all_steps(problem: Problem, state: Any) -> OdeResult:
    """Step after step in Python, as many as there are."""
    times, values = [state.t], [state.y]
    try:
        while problem.direction * (problem.end - state.t) > 0 and not state.failed:
            state = problem.attempt(problem, state)
            if not (state.rejected or state.failed):
                times.append(state.t)
                values.append(state.y)
    except AbstractValueError:
        raise OptionError(
            explain(
                "solve_ivp",
                "how many steps there will be is not known while tracing",
                "Give the times at which the solution is wanted: t_eval=np.linspace(t0, t1, 100).",
            )
        ) from None
    status = wnp.where(state.failed, -1, 0)
    return OdeResult(wnp.stack(times), wnp.stack(values, -1), state.evaluations, status)


def odeint(
    func: Callable[..., Any],
    y0: Any,
    t: Any,
    args: tuple[Any, ...] = (),
    *,
    tfirst: bool = False,
    rtol: Any = None,
    atol: Any = None,
    h0: Any = 0.0,
    hmax: Any = 0.0,
) -> Any:
    """``scipy.integrate.odeint``: the solution of ``dy/dt = func(y, t, *args)`` at the times `t`.

    The first of the times is where ``y = y0``; y may have any shape. The method is that of
    `solve_ivp`, "RK45": not the one of SciPy for stiff equations. Derivatives are those of
    `solve_ivp`. Where steps become too small to go on, the rest is nan.

    >>> import wengert as wg
    >>> def pendulum(y, t, friction):
    ...     return wnp.stack([y[1], -wnp.sin(y[0]) - friction * y[1]])
    >>> times = np.linspace(0, 2, 3)
    >>> odeint(pendulum, np.array([1.0, 0.0]), times, args=(0.5,)).round(5)
    array([[ 1.     ,  0.     ],
           [ 0.6584 , -0.5953 ],
           [ 0.01219, -0.59513]])
    >>> swing = wg.jit(wg.grad(lambda y: odeint(pendulum, y, times, args=(0.5,))[-1, 0]))
    >>> swing(np.array([1.0, 0.0])).round(5)
    array([0.18455, 0.70725])
    """
    y, times = _floats(y0), wnp.asarray(t, np.float64)
    if np.ndim(times) != 1 or not np.shape(times)[0]:
        got = f"got times of shape {np.shape(times)}, expected a vector with the first time"
        raise ShapeError(explain("odeint", got))

    def slope(time: Any, y: Any) -> Any:
        return func(time, y, *args) if tfirst else func(y, time, *args)

    tolerances = tuple(_ODEINT_TOLERANCE if x is None else x for x in (rtol, atol))
    longest = np.inf if isinstance(hmax, (int, float)) and not hmax else hmax
    ends = (times[0], times[-1])
    problem = _problem("odeint", slope, y, ends, "RK45", tolerances, longest)
    length = None if isinstance(h0, (int, float)) and not h0 else h0
    _, values = solution(problem, beginning(problem, times[0], y, length), times)
    return values
