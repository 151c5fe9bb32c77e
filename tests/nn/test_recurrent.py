"""Recurrent layers: truncation, shapes, errors; a user's own is as good as a built-in one.

Beside PyTorch they are in tests/peers/test_torch_recurrent.py.
"""

import time

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert import nn
from wengert.errors import OptionError, ShapeError

rng = np.random.default_rng(5)


def floats(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def unrolled_truncated(model, xs, k):
    """Backpropagation through at most k steps, with a cell and a Python loop."""
    h = np.zeros((xs.shape[1], model.hidden_size), np.float32)
    outputs = []
    for t, x in enumerate(xs):
        if t and t % k == 0:
            h = wg.stop_gradient(h)
        h = wnp.tanh(
            x @ model.weight_ih_l0.T + model.bias_ih_l0 + h @ model.weight_hh_l0.T
            + model.bias_hh_l0
        )  # fmt: skip
        outputs.append(h)
    return wnp.stack(outputs)


@pytest.mark.parametrize("k", [1, 2, 3, 7, 8, None])
def test_truncation(k):
    """Values are the same; derivatives pass back no further than the stretch begins."""
    xs, weights = floats(7, 2, 3), floats(7, 2, 4)
    model = nn.RNN(3, 4, truncate=k)

    def gradient(output):
        model.zero_grad()
        (output * weights).sum().backward()
        return model.weight_hh_l0.grad.numpy()

    got = gradient(model(xs)[0])
    want = gradient(unrolled_truncated(model, xs, k or 100))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(model(xs)[0].numpy(), nn_copy(model)(xs)[0].numpy(), rtol=1e-6)


def nn_copy(model):
    copy = nn.RNN(3, 4)
    copy.load_state_dict(model.state_dict())
    return copy


def test_truncation_in_both_directions():
    """The reverse direction is cut from its own beginning, the last step."""
    xs = floats(5, 2, 3)
    both, ahead = nn.GRU(3, 4, bidirectional=True, truncate=2), nn.GRU(3, 4, truncate=2)
    state = both.state_dict()
    ahead.load_state_dict({name: state[name + "_reverse"] for name in ahead.state_dict()})
    both(xs)[0][..., 4:].sum().backward()
    ahead(xs[::-1])[0].sum().backward()
    np.testing.assert_allclose(
        both.weight_hh_l0_reverse.grad, ahead.weight_hh_l0.grad, rtol=1e-5, atol=1e-6
    )


def test_as_a_tree():
    model, xs = nn.LSTM(3, 4, num_layers=2), floats(5, 2, 3)
    loss = lambda model: wnp.sum(model(xs)[0] ** 2)
    gradient = wg.grad(loss)(model)
    loss(model).backward()
    for name, parameter in model.named_parameters():
        np.testing.assert_allclose(
            getattr(gradient, name), parameter.grad.numpy(), rtol=1e-5, atol=1e-6
        )


def test_float64():
    model = nn.GRU(3, 4, dtype=np.float64)
    wg.check_grads(lambda x: wnp.sum(model(x)[0] ** 2), (rng.normal(size=(4, 2, 3)),), order=2)
    assert nn.GRU(3, 4)(rng.normal(size=(4, 2, 3)))[0].dtype == np.float64


def test_printed():
    assert (
        nn.LSTM(3, 4, num_layers=2, dropout=0.5).extra_repr() == "3, 4, num_layers=2, dropout=0.5"
    )
    assert nn.RNNCell(3, 4, bias=False).extra_repr() == "3, 4, bias=False"


def test_any_length_compiles_in_the_same_time():
    """One body, however many steps: the loops are the same text but for the lengths."""
    model = nn.LSTM(3, 4)
    kernels = []
    for steps in (28, 10_000):
        step = wg.jit(lambda x: model(x)[0].sum())
        kernels.append(len(step.program(floats(steps, 2, 3)).stages.loops.kernels))
    assert kernels[0] == kernels[1]


class OwnLSTM(nn.Module):
    """As a user would write it, everything in the loop."""

    def __init__(self, like):
        self.wi, self.wh = nn.Parameter(like.weight_ih_l0), nn.Parameter(like.weight_hh_l0)
        self.b = nn.Parameter(like.bias_ih_l0.numpy() + like.bias_hh_l0.numpy())

    def forward(self, xs):
        """The outputs of all steps."""
        n = self.wh.shape[1]

        def body(carry, x):
            h, c = carry
            gates = x @ self.wi.T + h @ self.wh.T + self.b
            i, f = wnp.sigmoid(gates[:, :n]), wnp.sigmoid(gates[:, n : 2 * n])
            g, o = wnp.tanh(gates[:, 2 * n : 3 * n]), wnp.sigmoid(gates[:, 3 * n :])
            c = f * c + i * g
            h = o * wnp.tanh(c)
            return (h, c), h

        zeros = np.zeros((xs.shape[1], n), np.float32)
        return wg.scan(body, (zeros, zeros), xs)[1]


def training_step(model, call):
    def step(x, y):
        model.zero_grad()
        loss = nn.mse_loss(call(x), y)
        loss.backward()
        return loss

    return wg.jit(step)


def both_lstms(inputs=28, hidden=64, batch=100, steps=28):
    built_in = nn.LSTM(inputs, hidden)
    own = OwnLSTM(built_in)
    x, y = floats(steps, batch, inputs), floats(steps, batch, hidden)
    ours = training_step(own, own)
    theirs = training_step(built_in, lambda x: built_in(x)[0])
    return own, built_in, ours, theirs, x, y


def test_an_lstm_of_ones_own():
    own, built_in, ours, theirs, x, y = both_lstms(3, 4, 5, 6)
    np.testing.assert_allclose(ours(x, y), theirs(x, y), rtol=1e-6)
    for one, other in ((own.wi, built_in.weight_ih_l0), (own.wh, built_in.weight_hh_l0)):
        np.testing.assert_allclose(one.grad.numpy(), other.grad.numpy(), rtol=1e-4, atol=1e-6)


@pytest.mark.timing
def test_an_lstm_of_ones_own_is_as_fast():
    _, _, ours, theirs, x, y = both_lstms()
    best = [np.inf, np.inf]
    for _ in range(60):
        for place, step in enumerate((ours, theirs)):
            start = time.process_time()
            step(x, y)
            best[place] = min(best[place], time.process_time() - start)
    assert best[0] <= 1.1 * best[1], f"{best[0] * 1e6:.0f} us, nn.LSTM {best[1] * 1e6:.0f} us"


ERRORS = [
    (
        lambda: nn.LSTM(3, 4)(floats(2, 2, 5)),
        ShapeError,
        r"LSTM \(at test_recurrent.py:\d+\): got input of shape \(2, 2, 5\), expected "
        r"\(steps, batch, 3\) or \(steps, 3\)\.",
    ),
    (
        lambda: nn.GRU(3, 4, batch_first=True)(floats(2)),
        ShapeError,
        r"got input of shape \(2,\), expected \(batch, steps, 3\) or \(steps, 3\)\.",
    ),
    (
        lambda: nn.LSTM(3, 4)(floats(2, 2, 3), (floats(1, 2, 4), floats(1, 3, 4))),
        ShapeError,
        r"got hx of shape \(1, 2, 4\) and \(1, 3, 4\), expected \(1, 2, 4\) and \(1, 2, 4\)\. "
        r"Leave hx out to begin with zeros\.",
    ),
    (
        lambda: nn.RNNCell(3, 4)(floats(2, 5)),
        ShapeError,
        r"RNNCell .*: got input of shape \(2, 5\), expected \(batch, 3\) or \(3,\)\.",
    ),
    (
        lambda: nn.RNN(3, 4, nonlinearity="sin"),
        OptionError,
        r"RNN .*: got nonlinearity='sin'\. Use one of 'tanh', 'relu'\.",
    ),
    (
        lambda: nn.LSTM(3, 4, proj_size=4),
        OptionError,
        r"got proj_size=4\. Give 0 for none, or less than hidden_size, 4\.",
    ),
    (
        lambda: nn.GRU(3, 4, truncate=0),
        OptionError,
        r"GRU .*: got truncate=0\. Give a number of steps from 1 on, or None for all of them\.",
    ),
]


@pytest.mark.parametrize("call, kind, text", ERRORS)
def test_errors(call, kind, text):
    with pytest.raises(kind, match=text):
        call()
