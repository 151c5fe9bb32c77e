"""Random recurrent networks, compiled and evaluated: values, gradients, a few optimizer steps."""

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wengert as wg
import wengert.numpy as wnp
from wengert import machine, nn, optim

CASES = int(os.environ.get("WENGERT_RANDOM_NETWORKS", "3"))


@pytest.fixture(params=["as it is", "all in the loop"])
def decisions(request, monkeypatch):
    """The usual decisions, and those that are made for large networks."""
    monkeypatch.setenv("WENGERT_CACHE", "off")
    large = {"most_near": 0, "enough_terms": 1}
    large |= {"few_totals": 0, "least_time": 0.0, "least_part": 0.0}
    with machine.use(scans={} if request.param == "as it is" else large):
        yield


class OwnCell(nn.Module):
    """A cell of one's own around `scan`: a gate, a sum over the states, and a bias."""

    def __init__(self, inputs, hidden):
        self.into = nn.Linear(inputs, 2 * hidden)
        self.along = nn.Linear(hidden, 2 * hidden, bias=False)
        self.hidden = hidden

    def forward(self, xs):
        def body(h, x):
            mixed = self.into(x) + self.along(h)
            gate = wnp.sigmoid(mixed[:, : self.hidden])
            new = gate * h + (1 - gate) * wnp.tanh(mixed[:, self.hidden :])
            return new, new

        start = np.zeros((xs.shape[1], self.hidden), np.float32)
        last, outputs = wg.scan(body, start, xs)
        return outputs, last


class Classifier(nn.Module):
    """Recurrent layers, of which the last output, all outputs or the last state are read."""

    def __init__(self, case):
        kind, inputs, hidden, layers, both, self.read, self.batch_first = case
        if kind == "own":
            self.layers, width, self.batch_first = OwnCell(inputs, hidden), hidden, False
        else:
            self.layers = getattr(nn, kind)(
                inputs, hidden, layers, bidirectional=both, batch_first=self.batch_first
            )
            width = hidden * (2 if both else 1)
        self.dense = nn.Linear(hidden if self.read == "state" else width, 5)

    def forward(self, xs):
        outputs, state = self.layers(wnp.swapaxes(xs, 0, 1) if self.batch_first else xs)
        if self.batch_first:
            outputs = wnp.swapaxes(outputs, 0, 1)
        state = state[0] if isinstance(state, tuple) else state
        if self.read == "state":
            return self.dense(state[-1] if state.ndim == 3 else state)
        return self.dense(outputs[-1] if self.read == "last" else wnp.mean(outputs, axis=0))


networks = st.tuples(
    st.sampled_from(["RNN", "GRU", "LSTM", "own"]),
    st.integers(1, 20),
    st.integers(1, 40),
    st.integers(1, 2),
    st.booleans(),
    st.sampled_from(["last", "all", "state"]),
    st.booleans(),
)
OPTIMIZERS = {
    "SGD": lambda p: optim.SGD(p, lr=0.05),
    "Adam": lambda p: optim.Adam(p, lr=0.003),
}


class Training:
    """A network with its data and optimizer; every run begins anew."""

    def __init__(self, case, steps, batch, optimizer, compiled):
        nn.manual_seed(3)
        rng = np.random.default_rng(4)
        self.model = Classifier(case)
        self.first = [parameter.numpy().copy() for parameter in self.model.parameters()]
        chosen = OPTIMIZERS[optimizer](self.model.parameters())
        self.data = (
            rng.normal(size=(steps, batch, case[1])).astype(np.float32),
            rng.integers(0, 5, size=batch),
        )

        def step(xs, y):
            chosen.zero_grad()
            loss = nn.cross_entropy(self.model(xs), y)
            loss.backward()
            chosen.step()
            return loss

        self.step = wg.jit(step) if compiled else step

    def run(self, threads=None):
        """Losses, gradients and parameters after three steps."""
        parameters = list(self.model.parameters())
        with wg.no_grad():
            for parameter, value in zip(parameters, self.first, strict=True):
                parameter[...] = value
        wg.set_threads(threads)
        try:
            losses = [float(self.step(*self.data)) for _ in range(3)]
        finally:
            wg.set_threads(None)
        return [
            np.array(losses),
            *[parameter.grad.numpy().copy() for parameter in parameters],
            *[parameter.numpy().copy() for parameter in parameters],
        ]


@pytest.mark.usefixtures("decisions")
def test_random_recurrent_networks():
    @settings(max_examples=CASES, deadline=None, derandomize=True, database=None)
    @given(networks, st.integers(1, 9), st.integers(1, 70), st.sampled_from(sorted(OPTIMIZERS)))
    def check(case, steps, batch, optimizer):
        got = Training(case, steps, batch, optimizer, compiled=True).run()
        want = Training(case, steps, batch, optimizer, compiled=False).run()
        for one, other in zip(got, want, strict=True):
            scale = np.abs(other).max(initial=0) + 1e-3
            np.testing.assert_allclose(one / scale, other / scale, atol=2e-4)

    check()


@pytest.mark.slow
@pytest.mark.usefixtures("decisions")
@pytest.mark.parametrize("kind, batch", [("RNN", 37), ("GRU", 64), ("LSTM", 41), ("own", 50)])
def test_the_same_bits_for_any_number_of_threads(kind, batch):
    case = (kind, 9, 24, 1, False, "last", False)
    training = Training(case, 5, batch, "SGD", compiled=True)
    want = training.run(threads=1)
    for threads in (2, 3, 5, 8):
        got = training.run(threads=threads)
        for one, other in zip(got, want, strict=True):
            assert one.tobytes() == other.tobytes()
