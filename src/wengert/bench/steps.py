"""One step of SGD in each library, for any model and loss: what training benchmarks share.

Every model begins with the same values, given in the order of its parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

RATE = 0.01

Values = Sequence[np.ndarray]


def wengert_step(
    model: Callable[[Any], Any], parameters: Iterable[Any], values: Values, loss: Callable
) -> Any:
    """wengert's compiled step, a function of inputs and targets."""
    import wengert as wg
    from wengert import optim

    parameters = list(parameters)
    begin_with(parameters, values)
    optimizer = optim.SGD(parameters, lr=RATE)

    @wg.jit
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        found = loss(model(x), y)
        found.backward()
        optimizer.step()
        return found

    return step


def begin_with(parameters: Iterable[Any], values: Values) -> None:
    """Give wengert's parameters these values."""
    import wengert as wg

    with wg.no_grad():
        for parameter, value in zip(parameters, values, strict=True):
            parameter[...] = value


def torch_step(
    torch: Any,
    model: Callable[[Any], Any],
    parameters: Iterable[Any],
    values: Values,
    loss: Callable,
) -> Callable[[Any, Any], Any]:
    """The step of a PyTorch module and its optimiser, as they are used."""
    parameters = list(parameters)
    with torch.no_grad():
        for parameter, value in zip(parameters, values, strict=True):
            parameter.copy_(torch.tensor(value))
    optimizer = torch.optim.SGD(parameters, lr=RATE)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        found = loss(model(x), y)
        found.backward()
        optimizer.step()
        return found.detach()

    return step


def jax_call(
    jax: Any, loss: Callable[..., Any], values: Values, *batch: np.ndarray
) -> Callable[[], Any]:
    """JAX's compiled step on one batch; ``loss(params, x, y)`` with its parameters given back."""
    arguments = [jax.numpy.asarray(array) for array in batch]
    compiled = jax.jit(descent(jax.value_and_grad(loss)), donate_argnums=0)
    held = [[jax.numpy.asarray(value) for value in values]]

    def call() -> Any:
        held[0], value = compiled(held[0], arguments)
        return jax.block_until_ready(value)

    return call


def descent(value_and_grad: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """A step by a loss with its gradient: (parameters, batch) -> (parameters, loss)."""

    def step(params: Any, batch: Any) -> Any:
        loss, gradients = value_and_grad(params, *batch)
        rate = np.float32(RATE)
        return [p - rate * g for p, g in zip(params, gradients, strict=True)], loss

    return step


def jax_cross_entropy(jax: Any, logits: Any, labels: Any) -> Any:
    """The mean of what the others call `cross_entropy`."""
    chosen = jax.numpy.take_along_axis(logits, labels[:, None], axis=1)[:, 0]
    return jax.numpy.mean(jax.nn.logsumexp(logits, axis=1) - chosen)
