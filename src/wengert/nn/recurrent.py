"""Recurrent layers: plain code around `wg.scan`, so that one of your own is as fast.

The product with the inputs is one product for all steps, before the loop; the loop itself has only
the product with the state, and all that is done element by element. Shapes, argument names and
parameter names are PyTorch's.

`truncate` limits backpropagation through time: the derivative passes back over `truncate` steps at
most. The sequence is cut into stretches of that length, values pass from one to the next and
derivatives do not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from .. import numpy as wnp
from ..errors import OptionError, ShapeError, explain
from ..transforms import scan, stop_gradient
from . import functional, init
from .choices import one_of
from .module import Module, Parameter

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNCell"]

State = tuple[Any, ...]


def _rnn(activation: Callable[[Any], Any]) -> Callable[..., State]:
    return lambda x, h, state: (activation(x + h),)


def _lstm(x: Any, h: Any, state: State) -> State:
    """Gates in PyTorch's order: input, forget, cell, output."""
    i, f, g, o = _parts(x + h, 4)
    c = wnp.sigmoid(f) * state[1] + wnp.sigmoid(i) * wnp.tanh(g)
    return wnp.sigmoid(o) * wnp.tanh(c), c


def _gru(x: Any, h: Any, state: State) -> State:
    """Gates in PyTorch's order: reset, update, new."""
    (xr, xz, xn), (hr, hz, hn) = _parts(x, 3), _parts(h, 3)
    z = wnp.sigmoid(xz + hz)
    new = wnp.tanh(xn + wnp.sigmoid(xr + hr) * hn)
    return (new + z * (state[0] - new),)


def _parts(x: Any, count: int) -> list[Any]:
    size = np.shape(x)[-1] // count
    return [x[..., k * size : (k + 1) * size] for k in range(count)]


class _Base(Module):
    """What layers and cells have in common: the rule of one step, and its weights."""

    gates: ClassVar[int]
    states: ClassVar[int] = 1  # arrays that are carried along
    # whether both biases are only ever added, so that one addition does for both
    biases_meet: ClassVar[bool] = True
    input_size: int
    hidden_size: int
    nonlinearity: str
    proj_size = 0

    def _rule(self) -> Callable[..., State]:
        raise NotImplementedError

    def _make(self, suffix: str, inputs: int, bias: bool, dtype: Any) -> None:
        rows = self.gates * self.hidden_size
        outputs = self.proj_size or self.hidden_size
        shapes: dict[str, tuple[int, ...]] = {
            "weight_ih": (rows, inputs),
            "weight_hh": (rows, outputs),
        }
        if bias:
            shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
        if self.proj_size:
            shapes["weight_hr"] = (self.proj_size, self.hidden_size)
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size else 0.0
        for name, shape in shapes.items():
            parameter = Parameter(np.empty(shape, dtype))
            setattr(self, name + suffix, init.uniform_(parameter, -bound, bound))
        if not bias:
            for name in ("bias_ih", "bias_hh"):
                self.register_parameter(name + suffix, None)

    def _inputs(self, x: Any, suffix: str) -> Any:
        """The product that does not depend on the state, for one step or for all."""
        return functional.linear(x, getattr(self, "weight_ih" + suffix))

    def _step(self, suffix: str) -> Callable[[State, Any], State]:
        """One step: from the state and that product to the new state."""
        weight = getattr(self, "weight_hh" + suffix)
        bias, other = (getattr(self, name + suffix) for name in ("bias_ih", "bias_hh"))
        if bias is not None and self.biases_meet:
            bias, other = bias + other, None
        project = getattr(self, "weight_hr" + suffix) if self.proj_size else None
        rule = self._rule()

        def step(state: State, x: Any) -> State:
            x = x if bias is None else x + bias
            h, *rest = rule(x, functional.linear(state[0], weight, other), state)
            return (h if project is None else functional.linear(h, project), *rest)

        return step

    def _sizes(self) -> list[int]:
        """The lengths of the arrays that are carried along."""
        return [self.proj_size or self.hidden_size, self.hidden_size][: self.states]

    def _given(self, hx: Any, shapes: Sequence[tuple[int, ...]]) -> State:
        """The first state as a tuple, checked."""
        given = tuple(hx) if self.states > 1 else (hx,)
        found = [np.shape(one) for one in given]
        if found != list(shapes):
            name = type(self).__name__
            raise ShapeError(
                explain(
                    name,
                    f"got hx of shape {_listed(found)}, expected {_listed(shapes)}",
                    "Leave hx out to begin with zeros.",
                )
            )
        return given


def _listed(shapes: Sequence[tuple[int, ...]]) -> str:
    return " and ".join(map(str, shapes))


# ---------------------------------------------------------------- whole sequences


class _Recurrent(_Base):
    """Layers of steps over a sequence, in one direction or in both."""

    weight_ih_l0: Any

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        truncate: int | None = None,
        dtype: Any = np.float32,
    ):
        if not 0 <= proj_size < max(hidden_size, 1):
            raise OptionError(
                explain(
                    type(self).__name__,
                    f"got proj_size={proj_size}",
                    f"Give 0 for none, or less than hidden_size, {hidden_size}.",
                )
            )
        if truncate is not None and truncate < 1:
            raise OptionError(
                explain(
                    type(self).__name__,
                    f"got truncate={truncate}",
                    "Give a number of steps from 1 on, or None for all of them.",
                )
            )
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, dropout
        self.bidirectional, self.proj_size, self.truncate = bidirectional, proj_size, truncate
        outputs = (proj_size or hidden_size) * (2 if bidirectional else 1)
        for layer, suffix, _ in self._passes():
            self._make(suffix, outputs if layer else input_size, bias, dtype)

    def _passes(self) -> Iterator[tuple[int, str, bool]]:
        """Layer, suffix of the parameters' names, and direction, in the order of the states."""
        for layer in range(self.num_layers):
            yield layer, f"_l{layer}", False
            if self.bidirectional:
                yield layer, f"_l{layer}_reverse", True

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """(steps, batch, features), or (batch, steps, features) with `batch_first`, or without a
        batch. Returns the outputs of all steps, and the last state of every layer."""
        self._check(np.shape(input))
        batched = input.ndim == 3
        x = input if batched else wnp.expand_dims(input, 1)
        if batched and self.batch_first:
            x = wnp.swapaxes(x, 0, 1)
        first = self._first(x, hx, batched)
        outputs, ends = self._layers(x, first)
        if not batched:
            outputs, ends = outputs[:, 0], [tuple(one[0] for one in end) for end in ends]
        elif self.batch_first:
            outputs = wnp.swapaxes(outputs, 0, 1)
        last = tuple(wnp.stack(column) for column in zip(*ends, strict=True))
        return outputs, last if self.states > 1 else last[0]

    def _layers(self, x: Any, first: Sequence[State]) -> tuple[Any, list[State]]:
        cuts = self._cuts(np.shape(x)[0])
        ends: list[State] = []
        outputs: list[Any] = []
        for (layer, suffix, reverse), start in zip(self._passes(), first, strict=True):
            if layer and not reverse:
                x = _joined(outputs)
                outputs = []
                if self.dropout:
                    x = functional.dropout(x, self.dropout, self.training)
            end, output = self._run(suffix, x, start, reverse, cuts)
            ends.append(end)
            outputs.append(output)
        return _joined(outputs), ends

    def _run(
        self, suffix: str, x: Any, start: State, reverse: bool, cuts: Any
    ) -> tuple[State, Any]:
        """One direction of one layer."""
        step = self._step(suffix)

        def body(state: State, row: tuple[Any, Any]) -> tuple[State, Any]:
            values, cut = row
            if cut is not None:
                state = tuple(wnp.where(cut, stop_gradient(one), one) for one in state)
            new = step(state, values)
            return new, new[0]

        if cuts is not None and reverse:
            cuts = cuts[::-1]
        return scan(body, start, (self._inputs(x, suffix), cuts), reverse=reverse)

    def _cuts(self, steps: int) -> np.ndarray | None:
        """At which steps no derivative passes back."""
        if self.truncate is None or self.truncate >= steps:
            return None
        numbers = np.arange(steps)
        cuts: np.ndarray = (numbers % self.truncate == 0) & (numbers > 0)
        return cuts

    def _first(self, x: Any, hx: Any, batched: bool) -> list[State]:
        count = self.num_layers * (2 if self.bidirectional else 1)
        batch = np.shape(x)[1]
        dtype = np.result_type(x.dtype, self.weight_ih_l0.dtype)
        if hx is None:
            zeros = tuple(np.zeros((batch, size), dtype) for size in self._sizes())
            return [zeros] * count
        middle = (batch,) if batched else ()
        given = self._given(hx, [(count, *middle, size) for size in self._sizes()])
        if not batched:
            given = tuple(wnp.expand_dims(one, 1) for one in given)
        return [tuple(one[number].astype(dtype) for one in given) for number in range(count)]

    def _check(self, shape: tuple[int, ...]) -> None:
        if len(shape) not in (2, 3) or shape[-1] != self.input_size:
            order = "(batch, steps, " if self.batch_first else "(steps, batch, "
            raise ShapeError(
                explain(
                    type(self).__name__,
                    f"got input of shape {shape}, expected {order}{self.input_size}) or "
                    f"(steps, {self.input_size})",
                )
            )

    def extra_repr(self) -> str:
        """The sizes, and what is not as usual."""
        usual = {
            "num_layers": 1, "bias": True, "batch_first": False, "dropout": 0.0,
            "bidirectional": False, "proj_size": 0, "truncate": None,
        }  # fmt: skip
        parts = [f"{self.input_size}, {self.hidden_size}"]
        parts += [f"{k}={getattr(self, k)}" for k, v in usual.items() if getattr(self, k) != v]
        return ", ".join(parts)


def _joined(outputs: Sequence[Any]) -> Any:
    return outputs[0] if len(outputs) == 1 else wnp.concatenate(outputs, axis=-1)


_ACTIVATIONS = {"tanh": wnp.tanh, "relu": wnp.relu}


class RNN(_Recurrent):
    """``h = tanh(x @ weight_ih.T + bias_ih + h @ weight_hh.T + bias_hh)`` step after step.

    >>> import numpy as np
    >>> from wengert import nn
    >>> output, last = nn.RNN(28, 64)(np.ones((7, 3, 28), np.float32))
    >>> output.shape, last.shape
    ((7, 3, 64), (1, 3, 64))
    """

    gates = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        truncate: int | None = None,
        dtype: Any = np.float32,
    ):
        self.nonlinearity = one_of("RNN", "nonlinearity", nonlinearity, _ACTIVATIONS)
        super().__init__(
            input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0,
            truncate, dtype,
        )  # fmt: skip

    def _rule(self) -> Callable[..., State]:
        return _rnn(_ACTIVATIONS[self.nonlinearity])


class GRU(_Recurrent):
    """Gated recurrent units (Cho and others, 2014).

    >>> import numpy as np
    >>> from wengert import nn
    >>> output, last = nn.GRU(5, 8, num_layers=2, bidirectional=True)(np.ones((7, 3, 5)))
    >>> output.shape, last.shape
    ((7, 3, 16), (4, 3, 8))
    """

    gates = 3
    biases_meet = False

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        truncate: int | None = None,
        dtype: Any = np.float32,
    ):
        super().__init__(
            input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0,
            truncate, dtype,
        )  # fmt: skip

    def _rule(self) -> Callable[..., State]:
        return _gru


class LSTM(_Recurrent):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997), with `proj_size` projected.

    >>> import numpy as np
    >>> from wengert import nn
    >>> output, (h, c) = nn.LSTM(5, 8, batch_first=True)(np.ones((3, 7, 5), np.float32))
    >>> output.shape, h.shape, c.shape
    ((3, 7, 8), (1, 3, 8), (1, 3, 8))
    """

    gates = 4
    states = 2

    def _rule(self) -> Callable[..., State]:
        return _lstm


# ---------------------------------------------------------------- single steps


class _Cell(_Base):
    """One step."""

    weight_ih: Any

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, dtype: Any = np.float32
    ):
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        self._make("", input_size, bias, dtype)

    def forward(self, input: Any, hx: Any = None) -> Any:
        """(batch, features) or (features,), and the state; returns the new state."""
        shape = np.shape(input)
        if len(shape) not in (1, 2) or shape[-1] != self.input_size:
            raise ShapeError(
                explain(
                    type(self).__name__,
                    f"got input of shape {shape}, expected (batch, {self.input_size}) or "
                    f"({self.input_size},)",
                )
            )
        wanted = [(*shape[:-1], size) for size in self._sizes()]
        if hx is None:
            dtype = np.result_type(input.dtype, self.weight_ih.dtype)
            state: State = tuple(np.zeros(one, dtype) for one in wanted)
        else:
            state = self._given(hx, wanted)
        new = self._step("")(state, self._inputs(input, ""))
        return new if self.states > 1 else new[0]

    def extra_repr(self) -> str:
        """The sizes."""
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else ", bias=False")


class RNNCell(_Cell):
    """One step of `RNN`.

    >>> import numpy as np
    >>> from wengert import nn
    >>> nn.RNNCell(5, 8)(np.ones((3, 5), np.float32)).shape
    (3, 8)
    """

    gates = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        dtype: Any = np.float32,
    ):
        self.nonlinearity = one_of("RNNCell", "nonlinearity", nonlinearity, _ACTIVATIONS)
        super().__init__(input_size, hidden_size, bias, dtype)

    def _rule(self) -> Callable[..., State]:
        return _rnn(_ACTIVATIONS[self.nonlinearity])


class GRUCell(_Cell):
    """One step of `GRU`.

    >>> import numpy as np
    >>> from wengert import nn
    >>> nn.GRUCell(5, 8)(np.ones(5, np.float32)).shape
    (8,)
    """

    gates = 3
    biases_meet = False

    def _rule(self) -> Callable[..., State]:
        return _gru


class LSTMCell(_Cell):
    """One step of `LSTM`; the state is a pair.

    >>> import numpy as np
    >>> from wengert import nn
    >>> h, c = nn.LSTMCell(5, 8)(np.ones((3, 5), np.float32))
    >>> h.shape, c.shape
    ((3, 8), (3, 8))
    """

    gates = 4
    states = 2

    def _rule(self) -> Callable[..., State]:
        return _lstm
