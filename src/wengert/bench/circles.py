"""Learning from one sample at a time: a network of 2, 25, 25, 25 and 1, where calls cost most.

The papers' networks that tell the inside of a circle from the outside. Each is measured twice: as
one compiled step that is called for every sample, and as many steps that are one compiled loop. In
the loop the parameters are carried from step to step, for wengert and JAX alike; `wengert fit` is
the loop of `wg.fit`, which gathers its samples and keeps the parameters in the module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from .steps import RATE, begin_with, descent, jax_call, torch_step, wengert_step
from .workload import Builder, Workload, load

SIZES = (2, 25, 25, 25, 1)
# An activation after each hidden layer; clipped networks end in a sigmoid.
MODELS = ("tanh", "tanh clipped", "relu", "relu clipped", "sigmoid", "sigmoid clipped")
STEPS = 1000
CALL_LIMIT, STEP_LIMIT = 3e-6, 1.2e-6


def flops() -> float:
    """Those of one step: three products for each layer, less the gradient of the input."""
    products = [before * after for before, after in pairwise(SIZES)]
    return 2.0 * (3 * sum(products) - products[0])


def weights() -> list[np.ndarray]:
    """A weight and a bias for each layer."""
    rng = np.random.default_rng(0)
    found = []
    for before, after in pairwise(SIZES):
        bound = np.sqrt(6.0 / (before + after))
        found.append(rng.uniform(-bound, bound, (after, before)).astype(np.float32))
        found.append(np.zeros(after, np.float32))
    return found


def samples(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Points, and whether they lie outside of the circle that covers half of the square."""
    points = np.random.default_rng(1).random((count, 1, 2)).astype(np.float32)
    outside = np.sum((points - 0.5) ** 2, 2, keepdims=True) > 1 / (2 * np.pi)
    return points, outside.astype(np.float32)


def module_of(nn: Any, model: str) -> Any:
    """The network in a library that names its layers as PyTorch does."""
    activation, _, clipped = model.partition(" ")
    make = {"tanh": nn.Tanh, "relu": nn.ReLU, "sigmoid": nn.Sigmoid}[activation]
    layers: list[Any] = []
    for before, after in pairwise(SIZES):
        layers += [nn.Linear(before, after), make()]
    layers.pop()
    return nn.Sequential(*layers, *([nn.Sigmoid()] if clipped else []))


def loss_of(np_: Any, model: str, functions: Mapping[str, Any]) -> Any:
    """The loss of a network as a function of its parameters and one sample."""
    activation, _, clipped = model.partition(" ")

    def loss(params: Sequence[Any], x: Any, y: Any) -> Any:
        *hidden, (weight, bias) = zip(params[::2], params[1::2], strict=True)
        for w, b in hidden:
            x = functions[activation](x @ w.T + b)
        x = x @ weight.T + bias
        x = functions["sigmoid"](x) if clipped else x
        return np_.mean((x - y) ** 2)

    return loss


# ---------------------------------------------------------------- one step a call


def call_wengert(model: str) -> Builder:
    """wengert's compiled step."""

    def build() -> Callable[[], Any]:
        from wengert import nn

        network = module_of(nn, model)
        step = wengert_step(network, network.parameters(), weights(), nn.mse_loss)
        x, y = (array[0] for array in samples(1))
        return lambda: step(x, y)

    return build


def call_torch(model: str) -> Builder:
    """A PyTorch module and its optimizer, as they are used."""

    def build() -> Callable[[], Any]:
        torch = load("torch")
        network = module_of(torch.nn, model)
        loss = torch.nn.functional.mse_loss
        step = torch_step(torch, network, network.parameters(), weights(), loss)
        x, y = (torch.tensor(array[0]) for array in samples(1))
        return lambda: step(x, y)

    return build


def call_jax(model: str) -> Builder:
    """JAX's compiled step, which gives the parameters back."""

    def build() -> Callable[[], Any]:
        jax = load("jax")
        return jax_call(jax, jax_loss(jax, model), weights(), *[a[0] for a in samples(1)])

    return build


def jax_loss(jax: Any, model: str) -> Callable[..., Any]:
    """The loss of one sample, by JAX."""
    functions = {"tanh": jax.numpy.tanh, "relu": jax.nn.relu, "sigmoid": jax.nn.sigmoid}
    return loss_of(jax.numpy, model, functions)


# ---------------------------------------------------------------- many steps a call


def loop_wengert(model: str) -> Builder:
    """wengert's scan over the samples."""

    def build() -> Callable[[], Any]:
        import wengert as wg
        import wengert.numpy as wnp
        from wengert import nn

        functions = {"tanh": wnp.tanh, "relu": nn.functional.relu, "sigmoid": nn.functional.sigmoid}
        step = descent(wg.value_and_grad(loss_of(wnp, model, functions)))
        loop = wg.jit(lambda params, x, y: wg.scan(step, params, (x, y))[1])
        params, (x, y) = weights(), samples(STEPS)
        return lambda: loop(params, x, y)

    return build


def loop_jax(model: str) -> Builder:
    """JAX's scan over the samples."""

    def build() -> Callable[[], Any]:
        jax = load("jax")
        step = descent(jax.value_and_grad(jax_loss(jax, model)))
        loop = jax.jit(lambda params, x, y: jax.lax.scan(step, params, (x, y))[1])
        x, y = map(jax.numpy.asarray, samples(STEPS))
        params = [jax.numpy.asarray(value) for value in weights()]
        return lambda: jax.block_until_ready(loop(params, x, y))

    return build


def loop_fit(model: str) -> Builder:
    """The loop of `wg.fit`, without what comes before and after its epochs."""

    def build() -> Callable[[], Any]:
        from wengert import nn, optim
        from wengert.train import Source, Steps

        network = module_of(nn, model)
        begin_with(network.parameters(), weights())
        optimizer = optim.SGD(network.parameters(), lr=RATE)
        x, y = samples(STEPS)
        source = Source("bench", (x[:, 0], y[:, 0]))
        repeated = Steps(network, nn.mse_loss, optimizer, None).training(source)
        rows, losses = (np.arange(STEPS)[:, None],), {"loss": np.zeros(STEPS)}

        def call() -> Any:
            repeated.run((source.arrays,), rows, losses)
            return losses["loss"]

        return call

    return build


def workloads(quick: bool) -> list[Workload]:
    """Six networks, a step a call and many steps a call."""
    found = []
    for model in MODELS[:1] if quick else MODELS:
        found += [
            Workload(
                "circles",
                f"{model}, one step",
                {
                    "wengert": call_wengert(model),
                    "jax": call_jax(model),
                    "torch": call_torch(model),
                },
                flops=flops(),
                same=("torch",),
                tolerance=1e-4,
                limit=CALL_LIMIT,
            ),
            Workload(
                "circles",
                f"{model}, {STEPS} steps in a loop",
                {
                    "wengert": loop_wengert(model),
                    "wengert fit": loop_fit(model),
                    "jax": loop_jax(model),
                },
                flops=STEPS * flops(),
                same=("jax",),
                tolerance=1e-3,
                limit=STEPS * STEP_LIMIT,
            ),
        ]
    return found
