"""Training steps of recurrent networks: forward, backward through time and SGD.

An image is read row by row, or in a few larger pieces; the last state goes through one dense layer.
The layers are those of each library, those of JAX are written with `lax.scan`; all begin with equal
weights. One network is the papers' own, written out step by step, and one is an LSTM written by
hand around `wg.scan`, which must be as fast as the layer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .steps import jax_call, jax_cross_entropy, torch_step, wengert_step
from .workload import Builder, Workload, load

CLASSES = 10
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


@dataclass(frozen=True)
class Network:
    """One recurrent layer and one dense layer on its last state."""

    kind: str
    steps: int
    features: int
    hidden: int

    def __str__(self) -> str:
        return f"{self.kind} {self.hidden}, {self.steps} x {self.features}"

    def flops(self, batch: int) -> float:
        """Three products for each weight and step, less the gradients of input and first state."""
        rows = GATES[self.kind] * self.hidden
        into = 2 * self.steps * rows * self.features
        along = 3 * (self.steps - 1) * rows * self.hidden
        return 2.0 * batch * (into + along + 3 * self.hidden * CLASSES)

    def weights(self) -> list[np.ndarray]:
        """Of input, of state, both biases; then those of the dense layer."""
        rng = np.random.default_rng(0)
        rows = GATES[self.kind] * self.hidden
        shapes = [(rows, self.features), (rows, self.hidden), (rows,), (rows,)]
        shapes += [(CLASSES, self.hidden), (CLASSES,)]
        bound = 1 / np.sqrt(self.hidden)
        return [rng.uniform(-bound, bound, size=shape).astype(np.float32) for shape in shapes]

    def data(self, batch: int) -> tuple[np.ndarray, np.ndarray]:
        """Sequences (steps, batch, features) and labels."""
        rng = np.random.default_rng(1)
        x = rng.normal(size=(self.steps, batch, self.features)).astype(np.float32)
        return x, rng.integers(0, CLASSES, size=batch)


# ---------------------------------------------------------------- wengert


def with_wengert(network: Network, batch: int, by_hand: bool = False) -> Builder:
    """wengert's compiled step, with the layer or, `by_hand`, with a loop around a cell."""

    def build() -> Callable[[], Any]:
        from wengert import nn

        layer = getattr(nn, network.kind)(network.features, network.hidden)
        dense = nn.Linear(network.hidden, CLASSES)
        parameters = [*layer.parameters(), *dense.parameters()]

        def score(x: Any) -> Any:
            return dense(_by_hand(layer, x) if by_hand else layer(x)[0][-1])

        step = wengert_step(score, parameters, network.weights(), nn.cross_entropy)
        x, y = network.data(batch)
        return lambda: step(x, y)

    return build


def with_papers_network(network: Network, batch: int) -> Builder:
    """The papers' network, which has one bias: the other's value belongs to it."""

    def build() -> Callable[[], Any]:
        from wengert import nn

        from ..experiments import UnrolledRNN

        model = UnrolledRNN(network.steps, network.hidden)
        into, along, bias, other, *dense = network.weights()
        values = [into, along, bias + other, *dense]
        step = wengert_step(model, model.parameters(), values, nn.cross_entropy)
        x, y = network.data(batch)
        images = np.ascontiguousarray(np.swapaxes(x, 0, 1)).reshape(batch, -1)
        return lambda: step(images, y)

    return build


def _by_hand(layer: Any, x: Any) -> Any:
    """An LSTM as one would write it: both products inside the loop."""
    import wengert as wg
    import wengert.numpy as wnp

    bias = layer.bias_ih_l0 + layer.bias_hh_l0

    def cell(state: Any, row: Any) -> Any:
        h, c = state
        mixed = row @ layer.weight_ih_l0.T + h @ layer.weight_hh_l0.T + bias
        i, f, g, o = wnp.split(mixed, 4, axis=-1)
        c = wnp.sigmoid(f) * c + wnp.sigmoid(i) * wnp.tanh(g)
        return (wnp.sigmoid(o) * wnp.tanh(c), c), None

    zeros = np.zeros((x.shape[1], layer.hidden_size), np.float32)
    (h, _), _ = wg.scan(cell, (zeros, zeros), x)
    return h


# ---------------------------------------------------------------- peers


def with_torch(network: Network, batch: int, one_bias: bool = False) -> Builder:
    """PyTorch's layer and optimiser; with `one_bias` only the first bias is trained."""

    def build() -> Callable[[], Any]:
        torch = load("torch")
        layer = getattr(torch.nn, network.kind)(network.features, network.hidden)
        dense = torch.nn.Linear(network.hidden, CLASSES)
        parameters = [*layer.parameters(), *dense.parameters()]
        layer.bias_hh_l0.requires_grad_(not one_bias)

        def score(x: Any) -> Any:
            return dense(layer(x)[0][-1])

        loss = torch.nn.functional.cross_entropy
        step = torch_step(torch, score, parameters, network.weights(), loss)
        x, y = map(torch.tensor, network.data(batch))
        return lambda: step(x, y)

    return build


def with_jax(network: Network, batch: int) -> Builder:
    """The same step by JAX: one product with all inputs, then `lax.scan`."""

    def build() -> Callable[[], Any]:
        jax = load("jax")
        np_, rule = jax.numpy, _JAX_RULES[network.kind]

        def loss(params: Any, x: Any, y: Any) -> Any:
            into, along, bias, other, dense, last = params
            zeros = np_.zeros((batch, network.hidden), np_.float32)

            def cell(state: Any, row: Any) -> Any:
                return rule(jax, row, state[0] @ along.T + other, state), None

            (h, _), _ = jax.lax.scan(cell, (zeros, zeros), x @ into.T + bias)
            return jax_cross_entropy(jax, h @ dense.T + last, y)

        return jax_call(jax, loss, network.weights(), *network.data(batch))

    return build


def _jax_rnn(jax: Any, x: Any, h: Any, state: Any) -> Any:
    return jax.numpy.tanh(x + h), state[1]


def _jax_lstm(jax: Any, x: Any, h: Any, state: Any) -> Any:
    np_, sigmoid = jax.numpy, jax.nn.sigmoid
    i, f, g, o = np_.split(x + h, 4, axis=-1)
    c = sigmoid(f) * state[1] + sigmoid(i) * np_.tanh(g)
    return sigmoid(o) * np_.tanh(c), c


def _jax_gru(jax: Any, x: Any, h: Any, state: Any) -> Any:
    np_, sigmoid = jax.numpy, jax.nn.sigmoid
    (xr, xz, xn), (hr, hz, hn) = np_.split(x, 3, axis=-1), np_.split(h, 3, axis=-1)
    z = sigmoid(xz + hz)
    new = np_.tanh(xn + sigmoid(xr + hr) * hn)
    return (1 - z) * new + z * state[0], state[1]


_JAX_RULES: dict[str, Callable[..., Any]] = {"RNN": _jax_rnn, "LSTM": _jax_lstm, "GRU": _jax_gru}


# ---------------------------------------------------------------- workloads


def comparison(
    network: Network, batch: int, goals: dict[str, float], papers: bool = False
) -> Workload:
    """One network at one batch size in each library."""
    contestants = {
        "wengert": with_wengert(network, batch),
        "jax": with_jax(network, batch),
        "torch": with_torch(network, batch, one_bias=papers),
    }
    if papers:
        contestants["wengert"] = with_papers_network(network, batch)
    if network.kind == "LSTM":
        contestants["wengert by hand"] = with_wengert(network, batch, by_hand=True)
    return Workload(
        "recurrent",
        f"{'papers: ' if papers else ''}{network}, batch {batch}",
        contestants,
        flops=network.flops(batch),
        threads=0,
        goals=goals,
        same=("torch",),
        tolerance=1e-4,
    )


def workloads(quick: bool) -> list[Workload]:
    """The papers' network, and images read row by row."""
    pieces = Network("RNN", 4, 196, 64)
    most, wanted = {"jax": 2.0, "torch": 4.0}, {"jax": 2.5, "torch": 2.5}
    found = [
        comparison(pieces, 100, most, papers=True),
        comparison(pieces, 100, most),
        comparison(Network("RNN", 28, 28, 64), 100, wanted),
        comparison(Network("LSTM", 28, 28, 128), 100, wanted | {"wengert by hand": 0.9}),
        comparison(Network("GRU", 28, 28, 128), 100, wanted),
    ]
    return found[:1] if quick else found
