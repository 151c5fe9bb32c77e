"""L-BFGS: steps by an estimate of the Hessian made of the last few gradients.

It looks at losses and decides, so it runs in Python; what it calls again and again, the closure
that computes loss and gradients, can be compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..errors import AbstractValueError, OptionError, ShapeError, StructureError, explain
from ..jit import is_tracing
from ..tensor import no_grad, peek, replace
from .group import Group
from .line_search import Point, strong_wolfe
from .optimizer import Optimizer, array_of

# A pair with less curvature along the step than this would spoil the estimate.
LEAST_CURVATURE = 1e-10


class Pair(NamedTuple):
    """A step, how the gradient changed over it, and one over the product of the two."""

    step: Any
    change: Any
    weight: Any


class Memory:
    """What is known of the Hessian, and where the last iteration ended."""

    def __init__(self) -> None:
        self.pairs: list[Pair] = []
        self.scale: Any = 1.0  # of the inverse Hessian where no pair tells
        self.iterations = 0
        self.evaluations = 0
        self.direction: np.ndarray | None = None
        self.length = 0.0
        self.gradient: np.ndarray | None = None
        self.loss = 0.0

    def learn(self, gradient: np.ndarray, most: int) -> None:
        """Add what the last step has shown; at most so many pairs are kept."""
        assert self.gradient is not None and self.direction is not None
        change, step = gradient - self.gradient, self.direction * self.length
        curvature = change @ step
        if curvature > LEAST_CURVATURE:
            self.pairs = [*self.pairs, Pair(step, change, 1.0 / curvature)][-most:]
            self.scale = curvature / (change @ change)

    def descent(self, gradient: np.ndarray) -> np.ndarray:
        """Minus the inverse Hessian times the gradient."""
        vector: np.ndarray = -gradient
        shares = []
        for step, change, weight in reversed(self.pairs):
            shares.append(weight * (step @ vector))
            vector = vector - shares[-1] * change
        vector = vector * self.scale
        for (step, change, weight), share in zip(self.pairs, reversed(shares), strict=True):
            vector = vector + step * (share - weight * (change @ vector))
        return vector


class LBFGS(Optimizer):
    """The limited-memory BFGS method; `step` takes a closure that computes loss and gradients.

    `max_eval` limits the evaluations of a step (by default to 5/4 of `max_iter`); with
    ``line_search_fn="strong_wolfe"`` each iteration searches for a good step length.

    >>> import wengert as wg
    >>> w = wg.tensor([-1.2, 1.0], requires_grad=True)
    >>> optimizer = LBFGS([w], max_iter=100, line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = 100 * (w[1] - w[0] ** 2) ** 2 + (1 - w[0]) ** 2
    ...     loss.backward()
    ...     return loss
    >>> round(float(optimizer.step(closure)), 6)
    24.2
    >>> w.numpy().round(3)
    array([1., 1.])
    """

    asks = True

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ):
        if line_search_fn not in (None, "strong_wolfe"):
            raise OptionError(
                explain(
                    "LBFGS",
                    f"line_search_fn={line_search_fn!r}, expected 'strong_wolfe' or None",
                    "There is this one line search.",
                )
            )
        super().__init__(
            params,
            lr=lr,
            max_iter=max_iter,
            max_eval=max_iter * 5 // 4 if max_eval is None else max_eval,
            tolerance_grad=tolerance_grad,
            tolerance_change=tolerance_change,
            history_size=history_size,
            line_search_fn=line_search_fn,
        )
        self.memory = Memory()

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        """L-BFGS has a single group: the Hessian is of all parameters together."""
        if self.param_groups:
            raise StructureError(
                explain("LBFGS", "got several groups", "Give all parameters in one group.")
            )
        super().add_param_group(param_group)

    # ------------------------------------------------------------ all parameters as one vector

    @property
    def _params(self) -> list[Any]:
        return self.param_groups[0].params

    def _gradient(self) -> np.ndarray:
        parts = []
        for p in self._params:
            gradient = p.grad
            parts.append(np.zeros(p.size, p.dtype) if gradient is None else peek(gradient).ravel())
        return np.concatenate(parts)

    def _move(self, starts: list[np.ndarray], length: float, direction: np.ndarray) -> None:
        place = 0
        with no_grad():
            for p, start in zip(self._params, starts, strict=True):
                part = direction[place : place + start.size].reshape(start.shape)
                replace(p, start + start.dtype.type(length) * part.astype(start.dtype))
                place += start.size

    # ------------------------------------------------------------ steps

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Up to `max_iter` iterations; gives the loss at the start."""
        self._check_call(closure)
        group, memory = self.param_groups[0], self.memory
        evaluations = _Closure(closure, self)
        first_loss = evaluations.run()
        loss, gradient = evaluations.loss, evaluations.gradient
        iterations = 0
        flat = _largest(gradient) <= group["tolerance_grad"]
        while not flat and iterations < group["max_iter"]:
            iterations += 1
            before = loss
            direction, length = self._direct(group, loss, gradient)
            slope = gradient @ direction
            if slope > -group["tolerance_change"]:
                break
            start = Point(0.0, loss, gradient, slope)
            last = iterations == group["max_iter"]
            found = self._advance(evaluations, start, direction, length, last)
            memory.length, loss, gradient = found.length, found.value, found.gradient
            flat = _largest(gradient) <= group["tolerance_grad"]
            small = _largest(direction * found.length) <= group["tolerance_change"]
            if small or abs(loss - before) < group["tolerance_change"]:
                break
            if evaluations.count >= group["max_eval"]:
                break
        memory.evaluations += evaluations.count
        return first_loss

    def _check_call(self, closure: Any) -> None:
        if closure is None:
            raise StructureError(
                explain(
                    "LBFGS: step",
                    "got no closure",
                    "Give a function that zeroes the gradients, computes the loss, calls backward "
                    "and returns the loss.",
                )
            )
        if is_tracing():
            raise AbstractValueError(
                explain(
                    "LBFGS: step",
                    "it decides by the loss, which is not known while jit traces",
                    "Compile the closure instead, and call step outside.",
                )
            )

    def _direct(self, group: Group, loss: float, gradient: np.ndarray) -> tuple[np.ndarray, float]:
        """The next direction and the first length to try."""
        memory = self.memory
        memory.iterations += 1
        first = memory.iterations == 1
        if not first:
            memory.learn(gradient, int(group["history_size"]))
        direction = memory.descent(gradient)
        length = group["lr"] * (min(1.0, 1.0 / float(np.abs(gradient).sum())) if first else 1.0)
        memory.direction, memory.length = direction, length
        memory.gradient, memory.loss = gradient, loss
        return direction, length

    def _advance(
        self, closure: _Closure, start: Point, direction: np.ndarray, length: float, last: bool
    ) -> Point:
        """Move the parameters; where they end."""
        group = self.param_groups[0]
        starts = [np.array(peek(p)) for p in self._params]
        if group["line_search_fn"] is None:
            self._move(starts, length, direction)
            if last:  # the next step begins with an evaluation here
                return start._replace(length=length)
            closure.run()
            return Point(length, closure.loss, closure.gradient, 0.0)

        def evaluate(length: float) -> Point:
            self._move(starts, length, direction)
            closure.run()
            return Point(length, closure.loss, closure.gradient, closure.gradient @ direction)

        reach = _largest(direction)
        point, _ = strong_wolfe(evaluate, start, length, reach, group["tolerance_change"])
        self._move(starts, point.length, direction)
        return point

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """State and options, with PyTorch's names."""
        found = super().state_dict()
        memory = self.memory
        found["state"] = {}
        if memory.direction is not None and memory.gradient is not None:
            found["state"][0] = {
                "func_evals": memory.evaluations,
                "n_iter": memory.iterations,
                "d": memory.direction.copy(),
                "t": memory.length,
                "old_dirs": [pair.change.copy() for pair in memory.pairs],
                "old_stps": [pair.step.copy() for pair in memory.pairs],
                "ro": [float(pair.weight) for pair in memory.pairs],
                "H_diag": float(memory.scale),
                "prev_flat_grad": memory.gradient.copy(),
                "prev_loss": memory.loss,
            }
        return found

    def _check_entries(self, group: Group, entries: list[Mapping[str, Any]]) -> None:
        count = sum(p.size for p in group.params)
        if entries[0] and np.size(entries[0]["d"]) != count:
            raise ShapeError(
                explain(
                    "LBFGS: load_state_dict",
                    f"the state is of {np.size(entries[0]['d'])} numbers, expected {count}",
                    "Load the state of an optimizer of the same model.",
                )
            )

    def _load_group(self, group: Group, entries: list[Mapping[str, Any]]) -> None:
        self.memory = memory = Memory()
        entry = entries[0]
        if not entry:
            return
        real = np.result_type(*[p.dtype for p in self._params])
        vectors = [array_of(entry[name], real) for name in ("d", "prev_flat_grad")]
        memory.direction, memory.gradient = vectors
        memory.evaluations, memory.iterations = int(entry["func_evals"]), int(entry["n_iter"])
        memory.length, memory.loss = float(entry["t"]), float(entry["prev_loss"])
        memory.scale = real.type(float(entry["H_diag"]))
        columns = (entry["old_stps"], entry["old_dirs"], entry["ro"])
        memory.pairs = [
            Pair(array_of(step, real), array_of(change, real), real.type(float(weight)))
            for step, change, weight in zip(*columns, strict=True)
        ]


class _Closure:
    """The user's closure, with its last loss and gradient, and how often it was called."""

    def __init__(self, closure: Any, optimizer: LBFGS):
        self._closure, self._optimizer = closure, optimizer
        self.count = 0
        self.loss = 0.0
        self.gradient = np.zeros(0)

    def run(self) -> Any:
        loss = self._closure()
        self.count += 1
        self.loss, self.gradient = float(loss), self._optimizer._gradient()
        return loss


def _largest(vector: np.ndarray) -> float:
    return float(np.abs(vector).max())
