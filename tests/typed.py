"""What a type checker is to know of the public functions; `mypy` checks it, test_typing.py runs it.

A line marked ``type: ignore`` must be refused: where it is not, the mark itself is an error.
"""

from collections.abc import Callable
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import wengert as wg
import wengert.numpy as wnp
from wengert import data, nn, optim
from wengert.jit import Jitted

Array = NDArray[np.float64]
x: Array = np.array([1.0, 2.0, 3.0])


def loss(w: Array, x: Array, *, scale: float = 1.0) -> float:
    return scale * np.sum(w * x)


def with_extra(w: Array) -> tuple[float, str]:
    return np.sum(w * w), "extra"


def doubled(x: Array) -> Array:
    return 2.0 * x


# ---------------------------------------------------------------- gradients

assert_type(wg.grad(loss)(x, x), Array)
assert_type(wg.grad(loss)(x, x, scale=2.0), Array)
assert_type(wg.value_and_grad(loss)(x, x), tuple[float, Array])
assert_type(wg.grad(wg.jit(with_extra), has_aux=True)(x)[0], Array)
assert_type(wg.value_and_grad(loss, (0, 1))(x, x), tuple[Any, Any])
assert_type(wg.grad(lambda v: v * v)(3.0), Any)
assert_type(wg.hessian(loss)(x, x), Any)
assert_type(wg.jacobian(doubled)(x), Any)
assert_type(wg.hvp(lambda v: np.sum(v**3), x, x), Array)
assert_type(wg.stop_gradient(x), Array)


def refused() -> None:
    wg.grad(loss)(x)  # type: ignore[call-arg]
    wg.grad(loss)(x, x, scale="large")  # type: ignore[arg-type]
    wg.grad(loss)(w=x, x=x)  # type: ignore[call-arg]
    wg.vmap(doubled)(x, x)  # type: ignore[call-arg]
    wg.checkpoint(doubled)(1)  # type: ignore[arg-type]
    wg.jit(doubled)("x")  # type: ignore[call-overload]
    wg.vjp(doubled, x, x)  # type: ignore[arg-type]


# ---------------------------------------------------------------- the other transforms

assert_type(wg.jvp(doubled, (x,), (x,)), tuple[Array, Array])
assert_type(wg.vjp(loss, x, x), tuple[float, Callable[[float], tuple[Array, Array]]])
assert_type(wg.linearize(doubled, x), tuple[Array, Callable[[Array], Array]])
assert_type(wg.vmap(wg.grad(lambda v: v**3))(x), Any)
assert_type(wg.vmap(doubled, in_axes=0)(x), Array)
assert_type(wg.checkpoint(loss)(x, x, scale=2.0), float)
assert_type(wg.scan(lambda total, row: (total + row, row), 0.0, x), tuple[float, Any])
assert_type(wg.while_loop(lambda s: s < 9, lambda s: 2 * s, 1.0), float)
assert_type(wg.fori_loop(0, 9, lambda i, s: s + i, 1.0), float)
assert_type(wg.cond(True, doubled, doubled, x), Array)
assert_type(wg.trace(doubled, x), wg.Graph)
wg.check_grads(loss, (x, x))


@wg.custom_rule(vjp=lambda x: (2.0 * x, lambda g: (2.0 * g,)))
def ruled(x: Array) -> Array:
    return 2.0 * x


assert_type(ruled(x), Array)

# ---------------------------------------------------------------- jit

step = wg.jit(loss)
assert_type(step(x, x, scale=0.5), float)
assert_type(wg.jit(wg.value_and_grad(loss))(x, x), tuple[float, Array])
assert_type(wg.grad(step)(x, x), Array)
assert_type(wg.vmap(wg.jit(doubled))(x), Array)
assert_type(wg.jit(doubled)(x, out=np.empty(3)), Array)
assert_type(step.memory(x, x)["outputs"], int)


@wg.jit(static_argnames="power", threads=1)
def raised(x: Array, power: int = 2) -> Array:
    return x**power


assert_type(raised(x, power=3), Array)


class Model:
    factor = 2.0

    @wg.jit
    def scaled(self, x: Array) -> Array:
        return self.factor * x


bound: Jitted[[Array], Array] = Model().scaled
assert_type(Model().scaled(x), Array)

# ---------------------------------------------------------------- tensors and networks

t = wg.tensor([1.0, 2.0], requires_grad=True)
assert_type(t, wg.Tensor)
assert_type(t.grad, wg.Tensor | None)
assert_type(t.numpy(), NDArray[Any])
model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))
optimizer = optim.SGD(model.parameters(), lr=0.1)
history = wg.fit(model, nn.cross_entropy, optimizer, data.circles(20), 1, 10, progress=False)
assert_type(history, wg.History)
assert_type(history.last, dict[str, float])
assert_type(wnp.shape(x), tuple[int, ...])
