"""Runge and Kutta's methods with steps of their own choice, as SciPy's `RK45` and `RK23` make them.

A step is tried with an estimate of its error; it is accepted, or tried again shorter. Between the
ends of a step the solution is a polynomial. All of it is operations: compiled, the loop over the
steps is native.

The length of a step counts as a number that does not depend on anything: derivatives are those of
the steps that were made. So they are right up to the same error as the solution, and there is no
second equation to solve.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .. import numpy as wnp
from ..errors import ShapeError, explain
from ..ops.op import Traced
from ..transforms import scan, stop_gradient, while_loop
from ..types import type_of

SAFETY, LEAST_FACTOR, MOST_FACTOR = 0.9, 0.2, 10.0
Slope = Callable[[Any, Any], Any]


class Tableau(NamedTuple):
    """The table of a method.

    A stage lies at `nodes` and adds the slopes before it times a row of `stages`; `result` and
    `error` are the sums over all of them, `between` the coefficients of the polynomial. The
    estimate of the error has the order `order`.
    """

    order: int
    nodes: tuple[float, ...]
    stages: tuple[tuple[float, ...], ...]
    result: tuple[float, ...]
    error: tuple[float, ...]
    between: tuple[tuple[float, ...], ...]


METHODS = {
    # Dormand and Prince, 1980; the polynomial is Shampine's, 1986
    "RK45": Tableau(
        order=4,
        nodes=(1 / 5, 3 / 10, 4 / 5, 8 / 9, 1),
        stages=(
            (1 / 5,),
            (3 / 40, 9 / 40),
            (44 / 45, -56 / 15, 32 / 9),
            (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
            (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
        ),
        result=(35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
        error=(-71 / 57600, 0, 71 / 16695, -71 / 1920, 17253 / 339200, -22 / 525, 1 / 40),
        between=(
            (
                1,
                -8048581381 / 2820520608,
                8663915743 / 2820520608,
                -12715105075 / 11282082432,
            ),
            (0, 0, 0, 0),
            (
                0,
                131558114200 / 32700410799,
                -68118460800 / 10900136933,
                87487479700 / 32700410799,
            ),
            (
                0,
                -1754552775 / 470086768,
                14199869525 / 1410260304,
                -10690763975 / 1880347072,
            ),
            (
                0,
                127303824393 / 49829197408,
                -318862633887 / 49829197408,
                701980252875 / 199316789632,
            ),
            (0, -282668133 / 205662961, 2019193451 / 616988883, -1453857185 / 822651844),
            (0, 40617522 / 29380423, -110615467 / 29380423, 69997945 / 29380423),
        ),
    ),
    # Bogacki and Shampine, 1989
    "RK23": Tableau(
        order=2,
        nodes=(1 / 2, 3 / 4),
        stages=((1 / 2,), (0, 3 / 4)),
        result=(2 / 9, 1 / 3, 4 / 9),
        error=(5 / 72, -1 / 12, -1 / 9, 1 / 8),
        between=((1, -4 / 3, 5 / 9), (0, 1, -2 / 3), (0, 4 / 3, -8 / 9), (0, -1, 1)),
    ),
}


class Problem(NamedTuple):
    """What is solved, and how exactly."""

    slope: Slope
    method: Tableau
    end: Any
    direction: Any
    rtol: Any
    atol: Any
    max_step: Any
    attempt: Callable[[Problem, Integration], Integration]


class Integration(NamedTuple):
    """Where a solution stands, and the step that led there.

    `length` is that of the next step, which is a shorter one again where the last was `rejected`.
    From `start` the last step is ``begin + span * sum(slopes[k] * s**(k + 1))`` for s from 0 to 1.
    """

    t: Any
    y: Any
    f: Any
    length: Any
    rejected: Any
    start: Any
    span: Any
    begin: Any
    slopes: Any
    evaluations: Any
    failed: Any


def checked_slope(name: str, function: Callable[..., Any], y: Any) -> Slope:
    """`function` as arrays in the dtype of `y`, of which it must have the shape."""
    dtype, shape = type_of(y).dtype, type_of(y).shape

    def slope(t: Any, y: Any) -> Any:
        found = wnp.asarray(function(t, y))
        if np.shape(found) != shape:
            raise ShapeError(
                explain(
                    name,
                    f"the function gives shape {np.shape(found)} for a state of shape {shape}",
                    "It gives the derivative of each element of the state.",
                )
            )
        return found.astype(dtype)

    return slope


def size(x: Any) -> Any:
    """The root of the mean of squares."""
    return wnp.sqrt(wnp.mean(wnp.square(wnp.abs(x))))


def first_length(problem: Problem, t: Any, y: Any, f: Any) -> Any:
    """The length of the first step (Hairer, Nørsett and Wanner, II.4)."""
    t, y, f, end = (stop_gradient(x) for x in (t, y, f, problem.end))
    interval = wnp.abs(end - t)
    scale = problem.atol + wnp.abs(y) * problem.rtol
    value, slope = size(y / scale), size(f / scale)
    small = (value < 1e-5) | (slope < 1e-5)
    length = wnp.where(small, 1e-6, 0.01 * value / wnp.where(small, 1.0, slope))
    length = wnp.minimum(length, interval)
    step = length * problem.direction
    after = stop_gradient(problem.slope(t + step, y + step * f))
    curve = size((after - f) / scale) / wnp.where(length == 0, 1.0, length)
    largest = wnp.maximum(slope, curve)
    straight = largest <= 1e-15
    other = (0.01 / wnp.where(straight, 1.0, largest)) ** (1 / (problem.method.order + 1))
    other = wnp.where(straight, wnp.maximum(1e-6, length * 1e-3), other)
    other = wnp.minimum(wnp.minimum(100 * length, other), interval)
    return stop_gradient(wnp.minimum(other, problem.max_step))


def beginning(problem: Problem, t: Any, y: Any, length: Any) -> Integration:
    """Before the first step."""
    f = problem.slope(t, y)
    evaluations = 1
    if length is None:
        length = first_length(problem, t, y, f)
        evaluations = 2
    degree = len(problem.method.between[0])
    slopes = np.zeros((degree, *np.shape(y)), type_of(y).dtype)
    length = wnp.asarray(length, np.float64)
    return Integration(
        t, y, f, length, np.bool_(False), t, problem.direction, y, slopes, np.int64(evaluations),
        np.bool_(False),
    )  # fmt: skip


def _sum(factors: tuple[float, ...], values: list[Any]) -> Any:
    terms = [k * v for k, v in zip(factors, values, strict=True) if k]
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def step_to(problem: Problem, state: Integration) -> tuple[Any, Any, Any]:
    """Where the next step ends, its length with a sign, and whether that is too short."""
    direction = problem.direction
    now = stop_gradient(state.t)
    least = 10 * wnp.abs(wnp.nextafter(now, direction * np.inf) - now)
    fresh = wnp.clip(state.length, least, problem.max_step)
    length = stop_gradient(wnp.where(state.rejected, state.length, fresh))
    whole = state.t + length * direction
    after = wnp.where(direction * (whole - problem.end) > 0, problem.end, whole)
    return after, after - state.t, length < least


def attempt(problem: Problem, state: Integration) -> Integration:
    """One step, if its error is small enough; a shorter `length` otherwise."""
    method = problem.method
    after, step, failed = step_to(problem, state)
    slopes = [state.f]
    for node, row in zip(method.nodes, method.stages, strict=True):
        slopes.append(problem.slope(state.t + node * step, state.y + step * _sum(row, slopes)))
    y = state.y + step * _sum(method.result, slopes)
    slopes.append(problem.slope(after, y))
    scale = problem.atol + wnp.maximum(wnp.abs(state.y), wnp.abs(y)) * problem.rtol
    error = stop_gradient(size(step * _sum(method.error, slopes) / scale))
    accepted = (error < 1) & ~failed
    next_length = wnp.abs(step) * factor(error, state.rejected, method)
    columns = zip(*method.between, strict=True)
    moved = Integration(
        after, y, slopes[-1], stop_gradient(next_length), False, state.t, step, state.y,
        wnp.stack([_sum(column, slopes) for column in columns]), state.evaluations, failed,
    )  # fmt: skip
    evaluations = state.evaluations + len(slopes) - 1
    return chosen(accepted, moved, state)._replace(evaluations=evaluations)


def chosen(accepted: Any, moved: Integration, state: Integration) -> Integration:
    """After a step, or before the same step with another length."""
    kept = state._replace(length=moved.length, rejected=True, failed=moved.failed)
    if not isinstance(accepted, Traced):
        return moved if accepted else kept
    return Integration(
        *[wnp.where(accepted, new, old) for new, old in zip(moved, kept, strict=True)]
    )


def factor(error: Any, rejected: Any, method: Tableau) -> Any:
    """How much longer or shorter the next step is."""
    exact = error == 0
    wanted = SAFETY * wnp.where(exact, 1.0, error) ** (-1 / (method.order + 1))
    longer = wnp.where(exact, MOST_FACTOR, wnp.minimum(wanted, MOST_FACTOR))
    longer = wnp.where(rejected, wnp.minimum(longer, 1.0), longer)
    # an error that is not a number leads to a shorter step as well
    shorter = wnp.where(wanted > LEAST_FACTOR, wanted, LEAST_FACTOR)
    return wnp.where(error < 1, longer, shorter)


def between(state: Integration, t: Any) -> Any:
    """The solution at a time within the last step."""
    share = (t - state.start) / state.span
    total = state.slopes[-1]
    for slope in reversed(list(state.slopes)[:-1]):
        total = total * share + slope
    return state.begin + state.span * share * total


def solution(problem: Problem, state: Integration, times: Any) -> tuple[Integration, Any]:
    """The solution at `times`, which follow each other in the problem's direction.

    Where steps become too small to go on, it is not a number.
    """

    def is_before(state: Integration, time: Any) -> Any:
        return (problem.direction * (time - state.t) > 0) & ~state.failed

    def advance(state: Integration, time: Any) -> tuple[Integration, Any]:
        step = lambda state: problem.attempt(problem, state)
        state = while_loop(lambda state: is_before(state, time), step, state)
        return state, wnp.where(state.failed, np.nan, between(state, time))

    if any(isinstance(part, Traced) for part in (*state, *problem, times)) or not len(times):
        return scan(advance, state, times)
    # of plain numbers step after step: a loop as one operation looks at its body first
    values = []
    for time in times:
        while is_before(state, time):
            state = problem.attempt(problem, state)
        values.append(np.full_like(state.y, np.nan) if state.failed else between(state, time))
    return state, wnp.stack(values)
