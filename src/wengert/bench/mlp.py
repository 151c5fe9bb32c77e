"""One training step of a network 784-512-512-10, batch 128, float32: parameters in, new ones out.

How long its first call takes is among the workloads of `compile`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from .workload import Workload, load

WIDTHS = (784, 512, 512, 10)
BATCH = 128
RATE = np.float32(0.01)


def parameters() -> list[tuple[np.ndarray, np.ndarray]]:
    """Weights and biases."""
    rng = np.random.default_rng(0)
    pairs = []
    for m, n in itertools.pairwise(WIDTHS):
        weight = rng.normal(size=(m, n)) * np.sqrt(2.0 / m)
        pairs.append((weight.astype(np.float32), np.zeros(n, np.float32)))
    return pairs


def batch() -> tuple[np.ndarray, np.ndarray]:
    """Inputs and one-hot targets."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(BATCH, WIDTHS[0])).astype(np.float32)
    return x, np.eye(WIDTHS[-1], dtype=np.float32)[np.arange(BATCH) % WIDTHS[-1]]


def loss(xp: Any, params: Any, x: Any, y: Any) -> Any:
    """Softmax cross entropy of a network with ReLU."""
    for weight, bias in params[:-1]:
        x = xp.maximum(x @ weight + bias, 0)
    weight, bias = params[-1]
    logits = x @ weight + bias
    shifted = logits - xp.max(logits, axis=1, keepdims=True)
    log_sum = xp.log(xp.sum(xp.exp(shifted), axis=1, keepdims=True))
    return -xp.mean(xp.sum(y * (shifted - log_sum), axis=1))


def make_step(xp: Any, value_and_grad: Callable, jit: Callable) -> Callable:
    """The functional step, for any library that has these three."""

    def step(params: Any, x: Any, y: Any) -> Any:
        value, gradients = value_and_grad(lambda p: loss(xp, p, x, y))(params)
        new = [
            (w - RATE * gw, b - RATE * gb)
            for (w, b), (gw, gb) in zip(params, gradients, strict=True)
        ]
        return value, new

    return jit(step)


def with_wengert() -> Callable[[], Any]:
    """wengert's compiled step."""
    import wengert as wg
    import wengert.numpy as wnp
    from wengert.jit import jit

    step, params, (x, y) = make_step(wnp, wg.value_and_grad, jit), parameters(), batch()
    return lambda: step(params, x, y)


def with_jax() -> Callable[[], Any]:
    """The same step by JAX."""
    jax = load("jax")
    step = make_step(jax.numpy, jax.value_and_grad, jax.jit)
    params, (x, y) = jax.tree.map(jax.numpy.asarray, (parameters(), batch()))
    return lambda: jax.block_until_ready(step(params, x, y))


def with_torch() -> Callable[[], Any]:
    """A PyTorch module and its optimiser, as they are used."""
    torch = load("torch")
    layers: list[Any] = []
    for weight, bias in parameters():
        layer = torch.nn.Linear(*weight.shape)
        with torch.no_grad():
            layer.weight.copy_(torch.tensor(weight.T))
            layer.bias.copy_(torch.tensor(bias))
        layers += [layer, torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers[:-1])
    optimiser = torch.optim.SGD(model.parameters(), lr=float(RATE))
    x, y = map(torch.tensor, batch())
    labels = y.argmax(1)

    def call() -> Any:
        optimiser.zero_grad()
        value = torch.nn.functional.cross_entropy(model(x), labels)
        value.backward()
        optimiser.step()
        return value

    return call


def flops() -> float:
    """Three products of the same size a layer, less the one for the gradient of the input."""
    products = [m * n for m, n in itertools.pairwise(WIDTHS)]
    return 2.0 * BATCH * (3 * sum(products) - products[0])


def workloads(quick: bool) -> list[Workload]:
    """The step."""
    del quick
    return [
        Workload(
            "mlp",
            "784-512-512-10 batch 128, training step",
            {"wengert": lambda: with_wengert(), "jax": with_jax, "torch": with_torch},
            flops=flops(),
            threads=0,
            goals={"jax": 1.2, "torch": 1.2},
            same=("jax",),
            tolerance=1e-4,
        ),
    ]
