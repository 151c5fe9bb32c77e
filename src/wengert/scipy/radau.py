"""Radau's method of order 5 for stiff equations, as SciPy's `Radau` makes it.

The three stages of a step are one system of equations, solved by Newton's method with the exact
Jacobian of the slope. The solution of that system is found without being differentiated; two more
of Newton's steps, which change no more than its last bits, give it the derivatives of an implicit
function, first and second (Hairer and Wanner, IV.8).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import numpy as wnp
from ..transforms import jacobian, stop_gradient, while_loop
from .runge_kutta import Integration, Problem, Tableau, between, chosen, factor, size, step_to

_ROOT = 6**0.5
NODES = np.array([(4 - _ROOT) / 10, (4 + _ROOT) / 10, 1])
STAGES = np.array([
    [(88 - 7 * _ROOT) / 360, (296 - 169 * _ROOT) / 1800, (-2 + 3 * _ROOT) / 225],
    [(296 + 169 * _ROOT) / 1800, (88 + 7 * _ROOT) / 360, (-2 - 3 * _ROOT) / 225],
    [(16 - _ROOT) / 36, (16 + _ROOT) / 36, 1 / 9],
])  # fmt: skip
# What of the stages, beside the slope at the beginning, makes the estimate of the error.
ERROR = np.array([-13 - 7 * _ROOT, -13 + 7 * _ROOT, -1]) / 3
SHIFT = 3 + 3 ** (2 / 3) - 3 ** (1 / 3)
BETWEEN = np.array([
    [(13 + 7 * _ROOT) / 3, (-23 - 22 * _ROOT) / 3, (10 + 15 * _ROOT) / 3],
    [(13 - 7 * _ROOT) / 3, (-23 + 22 * _ROOT) / 3, (10 - 15 * _ROOT) / 3],
    [1 / 3, -8 / 3, 10 / 3],
])  # fmt: skip
RADAU = Tableau(3, (), (), (), (), tuple(map(tuple, BETWEEN.tolist())))
MOST_TURNS = 7


def _stages(problem: Problem, state: Integration, step: Any, z: Any) -> Any:
    """The slopes where the stages are, z beside the state before the step."""
    found = [problem.slope(state.t + node * step, state.y + z[k]) for k, node in enumerate(NODES)]
    return wnp.stack(found)


def _newton(z: Any, slopes: Any, step: Any, jacobians: Any) -> Any:
    """What one step of Newton's adds to the stages; the Jacobian of each of them, or one of all."""
    count = np.shape(z)[1]
    rest = z - step * wnp.matmul(STAGES, slopes)
    blocks = STAGES[:, None, :, None] * wnp.moveaxis(jacobians, 0, 1)
    matrix = np.eye(3 * count) - step * wnp.reshape(blocks, (3 * count, 3 * count))
    return -wnp.reshape(wnp.linalg.solve(matrix, wnp.reshape(rest, (-1,))), np.shape(z))


def _solved(
    problem: Problem, state: Integration, step: Any, matrix: Any, scale: Any
) -> tuple[Any, Any, Any]:
    """The stages to a part of the tolerance, whether they were found, and in how many turns."""
    rtol = problem.rtol
    enough = wnp.maximum(10 * np.finfo(float).eps / rtol, wnp.minimum(0.03, rtol**0.5))
    same = wnp.stack([matrix] * 3)
    start = wnp.stack([between(state, state.t + node * step) - state.y for node in NODES])

    def going(carry: Any) -> Any:
        _, change, turns = carry
        return (change > enough) & (turns < MOST_TURNS)

    def turn(carry: Any) -> Any:
        z, last, turns = carry
        more = _newton(z, _stages(problem, state, step, z), step, same)
        change = size(more / scale)
        # what does not come nearer will not come there
        worse = ~(change < 2 * last) & (turns > 0)
        return z + more, change, wnp.where(worse, MOST_TURNS, turns + 1)

    z, change, turns = while_loop(going, turn, (start, np.float64(np.inf), np.int64(0)))
    return z, change <= enough, turns


def attempt(problem: Problem, state: Integration) -> Integration:
    """One step, if its stages are found and its error is small enough; a shorter one otherwise."""
    after, step, failed = step_to(problem, state)
    jacobian_at = jacobian(problem.slope, 1)
    plain = Integration(*[stop_gradient(part) for part in state])
    fixed = stop_gradient(step)
    matrix = stop_gradient(jacobian_at(plain.t, plain.y))
    scale = problem.atol + wnp.abs(plain.y) * problem.rtol
    found, is_found, turns = _solved(problem, plain, fixed, matrix, scale)
    z = wnp.where(is_found, stop_gradient(found), 0.0)
    for _ in range(2):
        exact = wnp.stack([
            jacobian_at(state.t + node * step, state.y + z[k]) for k, node in enumerate(NODES)
        ])  # fmt: skip
        z = z + _newton(z, _stages(problem, state, step, z), step, exact)
    y = state.y + z[2]
    error = _error(problem, plain, fixed, matrix, stop_gradient(z), stop_gradient(y))
    error = wnp.where(is_found, error, np.inf)
    accepted = (error < 1) & ~failed
    longer = factor(wnp.where(is_found, error, 16.0), state.rejected, RADAU)
    moved = Integration(
        after, y, problem.slope(after, y), stop_gradient(wnp.abs(step) * longer), False, state.t,
        step, state.y, wnp.matmul(BETWEEN.T, z) / step, state.evaluations, failed,
    )  # fmt: skip
    return chosen(accepted, moved, state)._replace(evaluations=state.evaluations + 3 * turns + 8)


def _error(problem: Problem, state: Integration, step: Any, matrix: Any, z: Any, y: Any) -> Any:
    """The size of the estimated error; where it seems too large, estimated once more."""
    scale = problem.atol + wnp.maximum(wnp.abs(state.y), wnp.abs(y)) * problem.rtol
    shifted = SHIFT / step * np.eye(np.shape(y)[0]) - matrix
    rest = wnp.matmul(ERROR, z) / step
    error = wnp.linalg.solve(shifted, state.f + rest)
    again = wnp.linalg.solve(shifted, problem.slope(state.t, state.y + error) + rest)
    first = size(error / scale)
    return stop_gradient(wnp.where(first > 1, size(again / scale), first))
