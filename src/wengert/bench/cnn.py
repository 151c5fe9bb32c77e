"""Training steps of convolutional networks: forward, backward and SGD, the same in each library.

A network is written down once, as a list of layers, and built from that for wengert, PyTorch and
JAX with equal weights. The first is the papers' digit network.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from .steps import jax_call, jax_cross_entropy, torch_step, wengert_step
from .workload import Builder, Workload, load

Layers = Sequence[tuple[Any, ...]]
CLASSES = 10


def digit_network(
    channels: tuple[int, int] = (6, 16), kernel: int = 3, padding: int = 0, stride: int = 1
) -> Layers:
    """The papers' network for digits, and variations of it."""
    first, second = channels
    convolutions: list[tuple[Any, ...]] = [
        ("conv", 1, first, kernel, stride, padding),
        ("relu",),
        ("pool", 2),
        ("conv", first, second, kernel, 1, padding),
        ("relu",),
        ("pool", 2),
        ("flatten",),
    ]
    features = prod(shape_after(convolutions, (1, 28, 28)))
    return [*convolutions, ("linear", features, 84), ("relu",), ("linear", 84, CLASSES)]


def vgg() -> Layers:
    """Two pairs of 3x3 convolutions and a wide dense layer, for images of 28 x 28."""
    found: list[tuple[Any, ...]] = []
    for before, after in ((1, 32), (32, 64)):
        found += [("conv", before, after, 3, 1, 1), ("relu",), ("conv", after, after, 3, 1, 1)]
        found += [("relu",), ("pool", 2)]
    return [*found, ("flatten",), ("linear", 64 * 49, 128), ("relu",), ("linear", 128, CLASSES)]


def shape_after(layers: Layers, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of one sample behind the layers.

    >>> shape_after([("conv", 1, 6, 3, 1, 0), ("pool", 2)], (1, 28, 28))
    (6, 13, 13)
    """
    for kind, *sizes in layers:
        if kind == "conv":
            _, out, kernel, stride, padding = sizes
            side = [(n + 2 * padding - kernel) // stride + 1 for n in shape[1:]]
            shape = (out, *side)
        elif kind == "pool":
            shape = (shape[0], *[n // sizes[0] for n in shape[1:]])
        elif kind == "flatten":
            shape = (prod(shape),)
        elif kind == "linear":
            shape = (sizes[1],)
    return shape


def flops(layers: Layers, batch: int, shape: tuple[int, ...] = (1, 28, 28)) -> float:
    """Three products for each layer, less the gradient of the network's input."""
    total, before = 0, shape
    first = 0
    for number, layer in enumerate(layers):
        after = shape_after([layer], before)
        kind, *sizes = layer
        own = 0
        if kind == "conv":
            own = prod(after) * sizes[0] * sizes[2] ** 2
        elif kind == "linear":
            own = sizes[0] * sizes[1]
        total += own
        first = own if number == 0 else first
        before = after
    return 2.0 * batch * (3 * total - first)


def weights(layers: Layers) -> list[np.ndarray]:
    """A weight and a bias for each layer that has them."""
    rng = np.random.default_rng(0)
    found = []
    for kind, *sizes in layers:
        if kind == "conv":
            shape: tuple[int, ...] = (sizes[1], sizes[0], sizes[2], sizes[2])
        elif kind == "linear":
            shape = (sizes[1], sizes[0])
        else:
            continue
        scale = np.sqrt(2.0 / prod(shape[1:]))
        found += [(scale * rng.normal(size=shape)).astype(np.float32), np.zeros(shape[0], "f4")]
    return found


def images(batch: int) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(batch, 1, 28, 28)).astype(np.float32)
    return x, rng.integers(0, CLASSES, size=batch)


def module_of(nn: Any, layers: Layers) -> Any:
    """The network in a library that names its layers as PyTorch does."""
    make: dict[str, Callable[..., Any]] = {
        "conv": lambda i, o, k, s, p: nn.Conv2d(i, o, k, stride=s, padding=p),
        "relu": nn.ReLU,
        "pool": nn.MaxPool2d,
        "flatten": nn.Flatten,
        "linear": nn.Linear,
    }
    return nn.Sequential(*[make[kind](*sizes) for kind, *sizes in layers])


def compiled_step(layers: Layers, batch: int) -> tuple[Any, tuple[np.ndarray, np.ndarray]]:
    """wengert's compiled step, and the images and labels of one batch."""
    from wengert import nn

    model = module_of(nn, layers)
    step = wengert_step(model, model.parameters(), weights(layers), nn.cross_entropy)
    return step, images(batch)


def with_wengert(layers: Layers, batch: int) -> Builder:
    """wengert, batch after batch."""

    def build() -> Callable[[], Any]:
        step, (x, y) = compiled_step(layers, batch)
        return lambda: step(x, y)

    return build


def with_torch(layers: Layers, batch: int) -> Builder:
    """A PyTorch module and its optimiser, as they are used."""

    def build() -> Callable[[], Any]:
        torch = load("torch")
        model = module_of(torch.nn, layers)
        loss = torch.nn.functional.cross_entropy
        step = torch_step(torch, model, model.parameters(), weights(layers), loss)
        x, y = map(torch.tensor, images(batch))
        return lambda: step(x, y)

    return build


def with_jax(layers: Layers, batch: int) -> Builder:
    """The same step by JAX."""

    def build() -> Callable[[], Any]:
        jax = load("jax")

        def loss(params: Any, x: Any, y: Any) -> Any:
            return jax_cross_entropy(jax, _jax_forward(jax, layers, params, x), y)

        return jax_call(jax, loss, weights(layers), *images(batch))

    return build


def _jax_forward(jax: Any, layers: Layers, params: Sequence[Any], x: Any) -> Any:
    lax = jax.lax
    rest = iter(params)
    for kind, *sizes in layers:
        if kind == "conv":
            *_, stride, padding = sizes
            w, b = next(rest), next(rest)
            x = lax.conv_general_dilated(x, w, (stride, stride), [(padding, padding)] * 2)
            x = x + b[:, None, None]
        elif kind == "relu":
            x = jax.nn.relu(x)
        elif kind == "pool":
            size = (1, 1, sizes[0], sizes[0])
            x = lax.reduce_window(x, -np.inf, lax.max, size, size, "VALID")
        elif kind == "flatten":
            x = x.reshape(len(x), -1)
        else:
            w, b = next(rest), next(rest)
            x = x @ w.T + b
    return x


def comparison(
    name: str, layers: Layers, batch: int, goals: dict[str, float], tolerance: float = 1e-4
) -> Workload:
    """One network at one batch size in each library."""
    return Workload(
        "cnn",
        f"{name}, batch {batch}",
        {
            "wengert": with_wengert(layers, batch),
            "jax": with_jax(layers, batch),
            "torch": with_torch(layers, batch),
        },
        flops=flops(layers, batch),
        threads=0,
        goals=goals,
        same=("torch",),
        tolerance=tolerance,
    )


def workloads(quick: bool) -> list[Workload]:
    """The digit network, variations of it, and a larger one."""
    small = {"torch": 2.5}
    found = [
        comparison("digits", digit_network(), 100, {"torch": 5.0, "jax": 10.0}),
        comparison("8 and 32 channels", digit_network((8, 32)), 100, small),
        comparison("5x5, padding 2", digit_network(kernel=5, padding=2), 100, small),
        comparison("stride 2", digit_network(stride=2), 100, small),
        comparison("digits", digit_network(), 37, small),
        comparison("digits", digit_network(), 64, small),
        comparison("digits", digit_network(), 1000, small),
        comparison("VGG", vgg(), 100, {"torch": 1.2}),
    ]
    return found[:1] if quick else found
