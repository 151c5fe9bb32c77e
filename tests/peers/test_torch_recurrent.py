"""Recurrent layers beside PyTorch's: state dict, outputs, states and gradients."""

import numpy as np
import pytest

import wengert as wg
from wengert import nn

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections is not supported")
rng = np.random.default_rng(3)
STEPS, BATCH, INPUTS, HIDDEN = 6, 4, 5, 7

LAYERS = [
    ("RNN", {}),
    ("RNN", {"nonlinearity": "relu", "num_layers": 2, "bidirectional": True}),
    ("RNN", {"bias": False, "batch_first": True}),
    ("GRU", {}),
    ("GRU", {"num_layers": 2, "bidirectional": True, "batch_first": True}),
    ("GRU", {"bias": False}),
    ("LSTM", {}),
    ("LSTM", {"num_layers": 3, "batch_first": True}),
    ("LSTM", {"num_layers": 2, "bidirectional": True, "bias": False}),
    ("LSTM", {"proj_size": 3, "num_layers": 2, "bidirectional": True}),
]


def floats(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def pair(name, *args, **options):
    """A layer of each library with the same weights."""
    torch.manual_seed(0)
    theirs = getattr(torch.nn, name)(*args, **options)
    ours = getattr(nn, name)(*args, **options)
    state = {key: value.numpy() for key, value in theirs.state_dict().items()}
    assert list(ours.state_dict()) == list(state)
    ours.load_state_dict(state)
    return ours, theirs


def leaves(tree):
    return [x for part in tree for x in leaves(part)] if isinstance(tree, (tuple, list)) else [tree]


def assert_close(found, wanted):
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-5, atol=2e-6)


def compare(ours, theirs, x, hx, compiled):
    """Outputs, and gradients of a weighted sum of all of them."""
    tensors = [
        torch.tensor(one, requires_grad=True) for one in (x, *leaves([] if hx is None else hx))
    ]
    given = tuple(tensors[1:]) if len(tensors) > 2 else (tensors[1] if hx is not None else None)
    wanted = leaves(theirs(tensors[0], given))
    weights = [floats(*one.shape) for one in wanted]
    sum((one * torch.tensor(w)).sum() for one, w in zip(wanted, weights, strict=True)).backward()

    def step(x, hx):
        inputs = [
            wg.tensor(one, requires_grad=True) for one in (x, *leaves([] if hx is None else hx))
        ]
        ours.zero_grad()
        state = tuple(inputs[1:]) if len(inputs) > 2 else (inputs[1] if hx is not None else None)
        found = leaves(ours(inputs[0], state))
        loss = sum((one * w).sum() for one, w in zip(found, weights, strict=True))
        loss.backward()
        return found, [one.grad for one in inputs]

    found, gradients = (wg.jit(step) if compiled else step)(x, hx)
    for one, other in zip(found, wanted, strict=True):
        assert_close(one, other.detach().numpy())
    for one, other in zip(gradients, tensors, strict=True):
        assert_close(one, other.grad.numpy())
    for (key, own), other in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        assert own.grad is not None, key
        assert_close(own.grad, other.grad.numpy())


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name, options", LAYERS, ids=str)
def test_layers(name, options, compiled):
    ours, theirs = pair(name, INPUTS, HIDDEN, **options)
    first = (BATCH, STEPS) if options.get("batch_first") else (STEPS, BATCH)
    compare(ours, theirs, floats(*first, INPUTS), None, compiled)


@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize("name, options", LAYERS, ids=str)
def test_given_states(name, options, batched):
    ours, theirs = pair(name, INPUTS, HIDDEN, **options)
    first = (BATCH, STEPS) if options.get("batch_first") else (STEPS, BATCH)
    count = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    shape = (count, BATCH) if batched else (count,)
    hx = floats(*shape, options.get("proj_size") or HIDDEN)
    if name == "LSTM":
        hx = (hx, floats(*shape, HIDDEN))
    compare(ours, theirs, floats(*(first if batched else (STEPS,)), INPUTS), hx, False)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", ["RNNCell", "GRUCell", "LSTMCell"])
def test_cells(name, bias):
    ours, theirs = pair(name, INPUTS, HIDDEN, bias=bias)
    for shape in ((BATCH,), ()):
        hx = floats(*shape, HIDDEN)
        hx = (hx, floats(*shape, HIDDEN)) if name == "LSTMCell" else hx
        for given in (None, hx):
            for module in (ours, theirs):
                module.zero_grad()
            compare(ours, theirs, floats(*shape, INPUTS), given, False)


@pytest.mark.parametrize("name", ["RNN", "GRU", "LSTM"])
def test_dropout_is_off_in_evaluation(name):
    ours, theirs = pair(name, INPUTS, HIDDEN, num_layers=2, dropout=0.5)
    x = floats(STEPS, BATCH, INPUTS)
    ours.eval(), theirs.eval()
    assert_close(ours(x)[0].numpy(), theirs(torch.tensor(x))[0].detach().numpy())
    ours.train()
    assert np.abs(ours(x)[0].numpy() - ours(x)[0].numpy()).max() > 1e-3
