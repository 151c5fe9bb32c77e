"""Training steps of a transformer block: forward, backward and SGD, the same in each library.

The block normalises first: attention with several heads, then two dense layers with GELU between
them, each after a layer norm and added to what came in. PyTorch's attention is its own module,
which calls its fused kernel; that is as fast there as calling the kernel by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .steps import jax_call, torch_step, wengert_step
from .workload import Builder, Workload, load

# The widest layer, in widths of the block.
EXPANSION = 4


@dataclass(frozen=True)
class Sizes:
    """Of a block and its batch."""

    width: int = 128
    heads: int = 4
    tokens: int = 64
    batch: int = 12

    @property
    def flops(self) -> float:
        """Three products of one size for every layer; the first norm needs the gradient behind it.

        >>> Sizes().flops / 1e9
        0.981467136
        """
        dense = (4 + 2 * EXPANSION) * self.width**2
        attention = 2 * self.tokens * self.width
        return 2.0 * self.batch * self.tokens * 3 * (dense + attention)


def weights(sizes: Sizes) -> list[np.ndarray]:
    """The parameters, in the order in which `module_of` has them."""
    rng = np.random.default_rng(0)
    width, wide = sizes.width, EXPANSION * sizes.width

    def dense(rows: int, columns: int) -> list[np.ndarray]:
        weight = rng.normal(size=(rows, columns)) / np.sqrt(columns)
        return [weight.astype(np.float32), np.zeros(rows, np.float32)]

    norm = [np.ones(width, np.float32), np.zeros(width, np.float32)]
    attention = [*dense(3 * width, width), *dense(width, width)]
    return [*norm, *attention, *norm, *dense(wide, width), *dense(width, wide)]


def sequences(sizes: Sizes) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets."""
    rng = np.random.default_rng(1)
    shape = (sizes.batch, sizes.tokens, sizes.width)
    x, y = (rng.normal(size=shape).astype(np.float32) for _ in range(2))
    return x, y


def module_of(nn: Any, sizes: Sizes) -> Any:
    """The block in a library that names its layers as PyTorch does."""
    width, wide = sizes.width, EXPANSION * sizes.width

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1 = nn.LayerNorm(width)
            self.attention = nn.MultiheadAttention(width, sizes.heads, batch_first=True)
            self.norm2 = nn.LayerNorm(width)
            self.first = nn.Linear(width, wide)
            self.gelu = nn.GELU()
            self.second = nn.Linear(wide, width)

        def forward(self, x: Any) -> Any:
            h = self.norm1(x)
            x = x + self.attention(h, h, h, need_weights=False)[0]
            return x + self.second(self.gelu(self.first(self.norm2(x))))

    return Block()


def with_wengert(sizes: Sizes) -> Builder:
    """wengert's compiled step."""

    def build() -> Callable[[], Any]:
        from wengert import nn

        model = module_of(nn, sizes)
        step = wengert_step(model, model.parameters(), weights(sizes), nn.mse_loss)
        x, y = sequences(sizes)
        return lambda: step(x, y)

    return build


def with_torch(sizes: Sizes) -> Builder:
    """A PyTorch module and its optimiser, as they are used."""

    def build() -> Callable[[], Any]:
        torch = load("torch")
        model = module_of(torch.nn, sizes)
        loss = torch.nn.functional.mse_loss
        step = torch_step(torch, model, model.parameters(), weights(sizes), loss)
        x, y = map(torch.tensor, sequences(sizes))
        return lambda: step(x, y)

    return build


def with_jax(sizes: Sizes) -> Builder:
    """The same step by JAX."""

    def build() -> Callable[[], Any]:
        jax = load("jax")

        def loss(params: Any, x: Any, y: Any) -> Any:
            return jax.numpy.mean(jax.numpy.square(_jax_forward(jax, sizes, params, x) - y))

        return jax_call(jax, loss, weights(sizes), *sequences(sizes))

    return build


def _jax_forward(jax: Any, sizes: Sizes, params: list[Any], x: Any) -> Any:
    np_ = jax.numpy
    g1, b1, w_in, b_in, w_out, b_out, g2, b2, w_first, b_first, w_second, b_second = params

    def norm(x: Any, gain: Any, bias: Any) -> Any:
        mean = np_.mean(x, axis=-1, keepdims=True)
        variance = np_.mean(np_.square(x - mean), axis=-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(variance + np_.float32(1e-5)) * gain + bias

    def heads(x: Any) -> Any:
        return x.reshape(sizes.batch, sizes.tokens, sizes.heads, -1).transpose(0, 2, 1, 3)

    q, k, v = map(heads, np_.split(norm(x, g1, b1) @ w_in.T + b_in, 3, axis=-1))
    scale = np_.float32((sizes.width // sizes.heads) ** -0.5)
    mixed = jax.nn.softmax(scale * q @ k.swapaxes(2, 3), axis=-1) @ v
    x = x + mixed.transpose(0, 2, 1, 3).reshape(x.shape) @ w_out.T + b_out
    wide = jax.nn.gelu(norm(x, g2, b2) @ w_first.T + b_first, approximate=False)
    return x + wide @ w_second.T + b_second


def comparison(sizes: Sizes, goals: dict[str, float]) -> Workload:
    """One block in each library."""
    return Workload(
        "transformer",
        f"width {sizes.width}, {sizes.heads} heads, {sizes.tokens} tokens, batch {sizes.batch}",
        {
            "wengert": with_wengert(sizes),
            "jax": with_jax(sizes),
            "torch": with_torch(sizes),
        },
        flops=sizes.flops,
        threads=0,
        goals=goals,
        same=("torch",),
        tolerance=1e-4,
    )


def workloads(quick: bool) -> list[Workload]:
    """The block, and others of its kind."""
    goals = {"torch": 1.5, "jax": 1.5}
    found = [
        comparison(Sizes(), goals),
        comparison(Sizes(width=64, heads=4, tokens=32, batch=16), {}),
        comparison(Sizes(width=256, heads=8, tokens=128, batch=4), {}),
    ]
    return found[:1] if quick else found
