"""Evaluated reverse mode, nothing compiled: ten typical functions, beside HIPS autograd.

Both run the same code, each with its own NumPy namespace `xp`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from .workload import Builder, Workload, load, plain

Case = tuple[Callable, Any]  # f(xp, x), x


def _random(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape)


def rosenbrock(xp: Any, x: Any) -> Any:
    """The banana valley."""
    return xp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def log_sum_exp(xp: Any, x: Any) -> Any:
    """The logarithm of a sum of exponentials, kept from overflow by hand."""
    top = xp.max(x)
    return top + xp.log(xp.sum(xp.exp(x - top)))


def logistic(samples: int, features: int) -> Case:
    """The loss of logistic regression."""
    inputs, labels = _random(samples, features), np.arange(samples) % 2.0

    def loss(xp: Any, w: Any) -> Any:
        z = xp.dot(inputs, w)
        return xp.mean(xp.logaddexp(0.0, z) - labels * z) + 0.01 * xp.sum(w**2)

    return loss, _random(features)


def mlp(batch: int, *widths: int) -> Case:
    """A network with tanh between its layers, mean squared error."""
    inputs, targets = _random(batch, widths[0]), _random(batch, widths[-1])
    shapes = itertools.pairwise(widths)
    parameters = [(0.1 * _random(m, n), np.zeros(n)) for m, n in shapes]

    def loss(xp: Any, parameters: Any) -> Any:
        hidden = inputs
        for weight, bias in parameters[:-1]:
            hidden = xp.tanh(xp.dot(hidden, weight) + bias)
        weight, bias = parameters[-1]
        return xp.mean((xp.dot(hidden, weight) + bias - targets) ** 2)

    return loss, parameters


def scalar_loop(steps: int) -> Case:
    """A Python loop over numbers."""

    def loop(xp: Any, x: Any) -> Any:
        y = x
        for _ in range(steps):
            y = xp.sin(y) * x + 0.5 * y
        return y

    return loop, 0.7


def least_squares(rows: int, columns: int) -> Case:
    """Half the squared residual of a linear system."""
    matrix, right = _random(rows, columns), _random(rows)

    def loss(xp: Any, x: Any) -> Any:
        residual = xp.dot(matrix, x) - right
        return 0.5 * xp.sum(residual * residual)

    return loss, _random(columns)


def chain(xp: Any, x: Any) -> Any:
    """Elementwise functions one after the other."""
    return xp.sum(xp.tanh(xp.exp(xp.sin(x)) * x) + xp.sin(xp.tanh(x)) * xp.exp(-x * x))


def cross_entropy(samples: int, features: int, classes: int) -> Case:
    """Softmax cross entropy of a linear model."""
    inputs = _random(samples, features)
    target = np.eye(classes)[np.arange(samples) % classes]

    def loss(xp: Any, w: Any) -> Any:
        logits = xp.dot(inputs, w)
        shifted = logits - xp.max(logits, axis=1, keepdims=True)
        log_sum = xp.log(xp.sum(xp.exp(shifted), axis=1, keepdims=True))
        return -xp.mean(xp.sum(target * (shifted - log_sum), axis=1))

    return loss, _random(features, classes)


def covariance(xp: Any, x: Any) -> Any:
    """The norm of a covariance matrix, away from the identity."""
    centred = x - xp.mean(x, axis=0)
    matrix = xp.dot(centred.T, centred) / x.shape[0]
    return xp.sqrt(xp.sum((matrix - np.eye(x.shape[1])) ** 2))


def differences(xp: Any, u: Any) -> Any:
    """The energy of a field on a grid, by finite differences."""
    across, down = u[:, 1:] - u[:, :-1], u[1:, :] - u[:-1, :]
    middle = u[1:-1, 1:-1]
    return xp.sum(across**2) + xp.sum(down**2) + xp.sum(xp.cos(middle) * u[2:, 1:-1])


def cases(quick: bool) -> dict[str, Case]:
    """The ten functions, small and medium."""
    del quick  # both sizes are quick
    return {
        "rosenbrock 10": (rosenbrock, _random(10)),
        "rosenbrock 10000": (rosenbrock, _random(10000)),
        "log-sum-exp 10": (log_sum_exp, _random(10)),
        "log-sum-exp 10000": (log_sum_exp, _random(10000)),
        "logistic 50 x 5": logistic(50, 5),
        "logistic 2000 x 50": logistic(2000, 50),
        "mlp 8-16-16-1, batch 16": mlp(16, 8, 16, 16, 1),
        "mlp 64-128-128-10, batch 128": mlp(128, 64, 128, 128, 10),
        "scalar loop 20": scalar_loop(20),
        "scalar loop 500": scalar_loop(500),
        "least squares 20 x 5": least_squares(20, 5),
        "least squares 1000 x 200": least_squares(1000, 200),
        "chain 10": (chain, _random(10)),
        "chain 10000": (chain, _random(10000)),
        "cross entropy 20 x 5 x 3": cross_entropy(20, 5, 3),
        "cross entropy 500 x 64 x 10": cross_entropy(500, 64, 10),
        "covariance 20 x 3": (covariance, _random(20, 3)),
        "covariance 1000 x 30": (covariance, _random(1000, 30)),
        "differences 8 x 8": (differences, _random(8, 8)),
        "differences 150 x 150": (differences, _random(150, 150)),
    }


def with_wengert(f: Callable, x: Any) -> Builder:
    """wengert's gradient, evaluated."""

    def build() -> Callable[[], Any]:
        import wengert as wg
        import wengert.numpy as wnp

        gradient = wg.grad(lambda x: f(wnp, x))
        return lambda: gradient(x)

    return build


def with_autograd(f: Callable, x: Any) -> Builder:
    """autograd's gradient."""

    def build() -> Callable[[], Any]:
        autograd = load("autograd")
        import autograd.numpy as anp

        gradient = autograd.grad(lambda x: f(anp, x))
        return lambda: gradient(x)

    return build


def workloads(quick: bool) -> list[Workload]:
    """Each function against autograd; NumPy's f alone for orientation."""
    found = []
    for name, (f, x) in cases(quick).items():
        contestants: dict[str, Builder] = {
            "wengert": with_wengert(f, x),
            "autograd": with_autograd(f, x),
            "numpy f": plain(f, np, x),
        }
        found.append(
            Workload("evaluated", name, contestants, goals={"autograd": 1.0}, same=("autograd",))
        )
    return found
