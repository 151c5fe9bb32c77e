"""The papers' trainings in JAX: one compiled step, called from a loop in Python."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import images
from ..workers import Emit
from .common import EVALUATED, emit_memory, run_seeds

_LAYOUT = ("NCHW", "OIHW", "NCHW")


def build(network: dict[str, Any], seed: int) -> Any:
    """The parameters: weights from the same distributions, biases zero."""
    import jax
    import jax.numpy as jnp

    shapes: list[tuple[int, ...]] = [(6, 1, 3, 3), (16, 6, 3, 3), (84, 400), (10, 84)]
    if network["kind"] == "rnn":
        hidden = network["hidden"]
        shapes = [(hidden, 784 // network["steps"]), (hidden, hidden), (10, hidden)]
    glorot, kaiming = jax.nn.initializers.glorot_uniform, jax.nn.initializers.he_uniform
    draw = (glorot if network["scheme"] == "glorot" else kaiming)(in_axis=1, out_axis=0)
    keys = jax.random.split(jax.random.key(seed), len(shapes))
    drawn = zip(keys, shapes, strict=True)
    return [(draw(key, shape), jnp.zeros(shape[0])) for key, shape in drawn]


def _pool(x: Any) -> Any:
    import jax
    import jax.numpy as jnp

    window = (1, 1, 2, 2)
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, window, "VALID")


def cnn(parameters: Any, x: Any) -> Any:
    """Class scores of the convolutional network."""
    import jax

    *convolutions, (w, b), (v, c) = parameters
    for weight, bias in convolutions:
        x = jax.lax.conv_general_dilated(x, weight, (1, 1), "VALID", dimension_numbers=_LAYOUT)
        x = _pool(jax.nn.relu(x + bias[:, None, None]))
    x = jax.nn.relu(x.reshape(len(x), -1) @ w.T + b)
    return x @ v.T + c


def rnn(parameters: Any, x: Any, steps: int) -> Any:
    """Class scores of the recurrent network."""
    import jax
    import jax.numpy as jnp

    (w, b), (u, _), (v, c) = parameters
    pieces = jnp.moveaxis(x.reshape(len(x), steps, -1), 1, 0)

    def step(state: Any, piece: Any) -> Any:
        return jnp.tanh(piece @ w.T + state @ u.T + b), None

    state, _ = jax.lax.scan(step, jnp.zeros((len(x), len(b))), pieces)
    return state @ v.T + c


class JaxTraining:
    """One network in training."""

    def __init__(
        self, parameters: Any, compiled: Any, seed: int, train: Any, test: Any, batch_size: int
    ):
        self.parameters, self.batch_size = parameters, batch_size
        self.scores, self.step = compiled
        self.order = np.random.default_rng(seed)
        (self.x, self.y), self.held = train, tuple(test)

    def epoch(self) -> tuple[list[Any], list[Any]]:
        """All images once, in a new order."""
        import jax

        rows = self.order.permutation(len(self.x))
        losses, rights = [], []
        for i in range(0, len(rows), self.batch_size):
            part = rows[i : i + self.batch_size]
            self.parameters, loss, right = self.step(self.parameters, self.x[part], self.y[part])
            losses.append(loss)
            rights.append(right)
        jax.block_until_ready(self.parameters)
        return losses, rights

    def accuracy(self) -> float:
        """On the test images."""
        x, y = self.held
        right = 0
        for i in range(0, len(x), EVALUATED):
            said = np.asarray(self.scores(self.parameters, x[i : i + EVALUATED])).argmax(1)
            right += int((said == y[i : i + EVALUATED]).sum())
        return right / len(x)


def compiled(network: dict[str, Any], lr: float) -> tuple[Any, Any]:
    """The class scores and the training step as compiled functions."""
    import jax
    import jax.numpy as jnp

    def scores(parameters: Any, x: Any) -> Any:
        if network["kind"] == "rnn":
            return rnn(parameters, x, network["steps"])
        return cnn(parameters, x)

    def loss(parameters: Any, x: Any, y: Any) -> Any:
        found = scores(parameters, x)
        chosen = jnp.take_along_axis(jax.nn.log_softmax(found), y[:, None], 1)
        return -chosen.mean(), (found.argmax(1) == y).mean()

    def step(parameters: Any, x: Any, y: Any) -> Any:
        (value, right), gradient = jax.value_and_grad(loss, has_aux=True)(parameters, x, y)
        moved = jax.tree.map(lambda p, g: p - lr * g, parameters, gradient)
        return moved, value, right

    return jax.jit(scores), jax.jit(step, donate_argnums=0)


def train_seeds(
    emit: Emit,
    *,
    data_name: str,
    network: dict[str, Any],
    lr: float,
    epochs: int,
    seeds: int,
    batch_size: int = 100,
    folder: str | None = None,
    limit: int | None = None,
) -> None:
    """The job: train from each seed."""
    train, test = images.load(data_name, folder, limit)
    functions = compiled(network, lr)

    def begin(seed: int) -> JaxTraining:
        return JaxTraining(build(network, seed), functions, seed, train, test, batch_size)

    run_seeds(emit, begin, epochs, seeds)
    emit_memory(emit)
