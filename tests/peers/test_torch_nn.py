"""Every layer and loss beside PyTorch's: the same state dict, outputs, gradients and buffers.

Each layer runs in training and in evaluation, evaluated and compiled.
"""

import numpy as np
import pytest

import wengert as wg
from layer_cases import LAYERS
from wengert import nn

torch = pytest.importorskip("torch")
tnn = torch.nn
RNG = np.random.default_rng(0)


def assert_close(found, wanted):
    """Equal to float32 rounding, which is relative to the largest number in a sum."""
    largest = max(1.0, np.abs(wanted).max(initial=0.0))
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-5, atol=1e-6 * largest)


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def case_name(case):
    name, args, keywords, _ = case
    return f"{name}-{'-'.join(map(str, (*args, *keywords)))}"


def pair(case):
    """The layer of both, with the same parameters, none of them zero or one."""
    name, args, keywords, shapes = case
    ours, theirs = getattr(nn, name)(*args, **keywords), getattr(tnn, name)(*args, **keywords)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter += 0.3 * torch.from_numpy(floats(*parameter.shape))
    ours.load_state_dict({name: value.numpy() for name, value in theirs.state_dict().items()})
    return ours, theirs, [floats(*shape) for shape in shapes]


def first(result):
    return result[0] if isinstance(result, tuple) else result


def torch_run(layer, inputs, seed):
    """Output, gradients of inputs and parameters."""
    leaves = [torch.tensor(x, requires_grad=True) for x in inputs]
    layer.zero_grad()
    out = first(layer(*leaves))
    out.backward(torch.from_numpy(seed))
    found = [leaf.grad for leaf in leaves] + [p.grad for _, p in layer.named_parameters()]
    return [out.detach().numpy(), *(np.zeros(0) if g is None else g.numpy() for g in found)]


def our_run(layer, seed, compiled):
    def run(*inputs):
        leaves = [wg.tensor(x, requires_grad=True) for x in inputs]
        layer.zero_grad()
        out = first(layer(*leaves))
        out.backward(seed)
        return [out, *(leaf.grad for leaf in leaves), *(p.grad for p in layer.parameters())]

    return wg.jit(run) if compiled else run


def ways():
    """Each case evaluated and compiled; compiling every variant of a layer takes a while."""
    seen = {"Transformer"}  # many layers
    for case in LAYERS:
        yield pytest.param(case, False, id=f"{case_name(case)}-evaluated")
        marks = [pytest.mark.slow] if case[0] in seen else []
        yield pytest.param(case, True, id=f"{case_name(case)}-compiled", marks=marks)
        seen.add(case[0])


@pytest.mark.filterwarnings("ignore:enable_nested_tensor:UserWarning")
@pytest.mark.parametrize("case, compiled", list(ways()))
def test_layer(case, compiled):
    ours, theirs, inputs = pair(case)
    seed = floats(*first(theirs(*map(torch.from_numpy, inputs))).shape)
    ours.load_state_dict(theirs.state_dict())  # batch norm has moved its statistics
    run = our_run(ours, seed, compiled)
    for training in (True, False, True):
        ours.train(training)
        theirs.train(training)
        found, wanted = run(*inputs), torch_run(theirs, inputs, seed)
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            if other.size or one is not None:
                assert_close(one, other)
        state = theirs.state_dict()
        assert list(state) == list(ours.state_dict())
        for name, value in ours.state_dict().items():
            assert_close(value, state[name].numpy())
    if compiled:
        assert run.explain(*inputs).hosts == []


@pytest.mark.filterwarnings("ignore:enable_nested_tensor:UserWarning")
def test_names_and_order_of_parameters_agree():
    """Optimizers go through the parameters in order."""
    for case in LAYERS:
        ours, theirs, _ = pair(case)
        names = [name for name, _ in theirs.named_parameters()]
        assert [name for name, _ in ours.named_parameters()] == names


@pytest.mark.parametrize("compiled", [False, True], ids=["evaluated", "compiled"])
@pytest.mark.parametrize("padding_idx", [None, 2, -1])
def test_embedding(padding_idx, compiled):
    ours = nn.Embedding(6, 3, padding_idx=padding_idx)
    theirs = tnn.Embedding(6, 3, padding_idx=padding_idx)
    if padding_idx is not None:
        assert (ours.weight.numpy()[padding_idx] == 0).all()
    ours.load_state_dict(theirs.state_dict())
    numbers, seed = np.array([[2, 0, 5], [5, 2, 1]]), floats(2, 3, 3)

    def run(numbers):
        ours.zero_grad()
        out = ours(numbers)
        out.backward(seed)
        return out, ours.weight.grad

    out, grad = (wg.jit(run) if compiled else run)(numbers)
    wanted = theirs(torch.from_numpy(numbers))
    wanted.backward(torch.from_numpy(seed))
    np.testing.assert_array_equal(np.asarray(out), wanted.detach().numpy())
    assert_close(grad, theirs.weight.grad.numpy())


BAGS = {
    "rows": (np.array([[2, 0, 5], [5, 2, 2]]), None),
    "offsets": (np.array([2, 0, 5, 1, 1, 3]), np.array([0, 2, 2, 5])),
}


@pytest.mark.parametrize("bags", BAGS)
@pytest.mark.parametrize("padding_idx", [None, 2])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_embedding_bag(mode, padding_idx, bags):
    ours = nn.EmbeddingBag(6, 3, mode=mode, padding_idx=padding_idx)
    theirs = tnn.EmbeddingBag(6, 3, mode=mode, padding_idx=padding_idx)
    ours.load_state_dict(theirs.state_dict())
    numbers, offsets = BAGS[bags]
    weights = floats(*numbers.shape) if mode == "sum" else None
    given = [None if x is None else torch.from_numpy(x) for x in (numbers, offsets, weights)]
    wanted = theirs(*given)
    wanted.backward(torch.ones_like(wanted))

    def run(numbers, offsets, weights):
        ours.zero_grad()
        out = ours(numbers, offsets, weights)
        out.backward(np.ones(out.shape, np.float32))
        return out, ours.weight.grad

    for one in (run, wg.jit(run)) if mode == "mean" else (run,):
        out, grad = one(numbers, offsets, weights)
        assert_close(out, wanted.detach().numpy())
        assert_close(grad, theirs.weight.grad.numpy())


# ---------------------------------------------------------------- attention

Q, K = (2, 5, 8), (2, 6, 8)
CAUSAL = ~np.tri(5, 6, dtype=bool)
PADDING = np.array([[False] * 4 + [True] * 2, [False] * 6])
MASKS = {
    "bool": {"attn_mask": CAUSAL},
    "float": {"attn_mask": floats(5, 6)},
    "each head": {"attn_mask": floats(4, 5, 6)},
    "padding": {"key_padding_mask": PADDING},
    "both": {"attn_mask": CAUSAL, "key_padding_mask": PADDING},
    "heads shown": {"average_attn_weights": False},
    "no weights": {"need_weights": False},
    "causal": {"attn_mask": CAUSAL, "need_weights": True, "is_causal": True},
}


@pytest.mark.parametrize("extra", [{}, {"add_bias_kv": True, "add_zero_attn": True}], ids=str)
@pytest.mark.parametrize("masks", MASKS.values(), ids=MASKS)
def test_attention_masks(masks, extra):
    case = ("MultiheadAttention", (8, 2), {"batch_first": True, **extra}, [Q, K, K])
    ours, theirs, inputs = pair(case)
    given = {k: torch.from_numpy(v) if hasattr(v, "shape") else v for k, v in masks.items()}
    wanted, wanted_weights = theirs(*map(torch.from_numpy, inputs), **given)

    def run(*inputs):
        return ours(*inputs, **masks)

    compiled = not extra and len(masks) > 1
    for way in (run, wg.jit(run)) if compiled else (run,):
        found, weights = way(*inputs)
        assert_close(found, wanted.detach().numpy())
        if wanted_weights is None:
            assert weights is None
        else:
            shown = wanted_weights.detach().numpy()
            assert_close(weights, shown)


@pytest.mark.parametrize(
    "options",
    [{}, {"is_causal": True}, {"scale": 0.3}, {"attn_mask": floats(5, 6)}, {"attn_mask": ~CAUSAL}],
    ids=["plain", "causal", "scale", "float", "bool"],
)
def test_scaled_dot_product_attention(options):
    q, k, v = floats(2, 3, 5, 4), floats(2, 3, 6, 4), floats(2, 3, 6, 7)
    given = {n: torch.from_numpy(o) if hasattr(o, "shape") else o for n, o in options.items()}
    wanted = tnn.functional.scaled_dot_product_attention(*map(torch.from_numpy, (q, k, v)), **given)
    found = nn.functional.scaled_dot_product_attention(q, k, v, **options)
    assert_close(found, wanted.numpy())


# ---------------------------------------------------------------- losses

P = np.exp(floats(6, 4))
P /= P.sum(axis=1, keepdims=True)
CLASSES, FEW = RNG.integers(0, 4, 6), np.array([1, -100, 0, 3, -100, 2])
WEIGHT = np.abs(floats(4))
UNIT = RNG.random((6, 4)).astype(np.float32)

# function, input, target, keywords
LOSSES = [
    ("mse_loss", floats(6, 4), floats(6, 4), {}),
    ("l1_loss", floats(6, 4), floats(6, 4), {}),
    ("huber_loss", floats(6, 4), floats(6, 4), {}),
    ("huber_loss", floats(6, 4), floats(6, 4), {"delta": 0.3}),
    ("smooth_l1_loss", floats(6, 4), floats(6, 4), {"beta": 0.3}),
    ("smooth_l1_loss", floats(6, 4), floats(6, 4), {"beta": 0.0}),
    ("binary_cross_entropy", UNIT, UNIT[::-1].copy(), {}),
    ("binary_cross_entropy", UNIT, UNIT[::-1].copy(), {"weight": WEIGHT}),
    ("binary_cross_entropy_with_logits", 9 * floats(6, 4), UNIT, {}),
    ("binary_cross_entropy_with_logits", floats(6, 4), UNIT, {"weight": WEIGHT}),
    ("binary_cross_entropy_with_logits", floats(6, 4), UNIT, {"pos_weight": WEIGHT}),
    ("nll_loss", np.log(P), CLASSES, {}),
    ("nll_loss", np.log(P), FEW, {"weight": WEIGHT}),
    ("nll_loss", floats(2, 4, 3, 5), RNG.integers(0, 4, (2, 3, 5)), {"ignore_index": 2}),
    ("cross_entropy", 5 * floats(6, 4), CLASSES, {}),
    ("cross_entropy", floats(4), np.array(2), {}),
    ("cross_entropy", floats(6, 4), FEW, {}),
    ("cross_entropy", floats(6, 4), CLASSES, {"weight": WEIGHT}),
    ("cross_entropy", floats(6, 4), FEW, {"weight": WEIGHT, "label_smoothing": 0.2}),
    ("cross_entropy", floats(6, 4), CLASSES, {"ignore_index": 1, "label_smoothing": 0.1}),
    ("cross_entropy", floats(2, 4, 3, 5), RNG.integers(0, 4, (2, 3, 5)), {"weight": WEIGHT}),
    ("cross_entropy", floats(6, 4), P, {}),
    ("cross_entropy", floats(6, 4), P, {"weight": WEIGHT, "label_smoothing": 0.2}),
    ("cross_entropy", floats(2, 4, 3), np.abs(floats(2, 4, 3)), {"label_smoothing": 0.2}),
]


def loss_name(case):
    return f"{case[0]}-{'-'.join(str(n) for n in np.shape(case[1]))}-{'-'.join(case[3])}"


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("case", LOSSES, ids=loss_name)
def test_loss(case, reduction):
    name, x, y, options = case
    given = {n: torch.from_numpy(o) if hasattr(o, "shape") else o for n, o in options.items()}
    leaf = torch.tensor(x, requires_grad=True)
    wanted = getattr(tnn.functional, name)(leaf, torch.tensor(y), reduction=reduction, **given)
    seed = floats(*wanted.shape)
    wanted.backward(torch.tensor(seed))

    def loss(x, y):
        return getattr(nn, name)(x, y, reduction=reduction, **options)

    def both(x, y):
        found, pullback = wg.vjp(lambda x: loss(x, y), x)
        return found, pullback(seed)[0]

    for run in (both, wg.jit(both)) if reduction == "mean" else (both,):
        found, gradient = run(x, y)
        assert found.dtype == gradient.dtype == np.float32
        assert_close(found, wanted.detach().numpy())
        assert_close(gradient, leaf.grad.numpy())


# ---------------------------------------------------------------- whole networks


def cnn(namespace):
    return namespace.Sequential(
        namespace.Conv2d(1, 6, 3),
        namespace.BatchNorm2d(6),
        namespace.ReLU(),
        namespace.MaxPool2d(2),
        namespace.Conv2d(6, 16, 3),
        namespace.ReLU(),
        namespace.MaxPool2d(2),
        namespace.Flatten(),
        namespace.Linear(64, 10),
    )


def test_a_file_written_by_torch_loads(tmp_path):
    files = pytest.importorskip("safetensors.torch")
    theirs, ours = cnn(tnn), cnn(nn)
    x = floats(3, 1, 14, 14)
    theirs(torch.from_numpy(x))  # moves the statistics
    files.save_file(theirs.state_dict(), tmp_path / "model.safetensors")
    assert ours.load_state_dict(wg.load(tmp_path / "model.safetensors")) == ([], [])
    ours.eval()
    theirs.eval()
    wanted = theirs(torch.from_numpy(x)).detach().numpy()
    assert_close(ours(x).numpy(), wanted)
    assert_close(wg.jit(lambda x: ours(x))(x), wanted)


def test_torch_loads_a_file_written_here(tmp_path):
    files = pytest.importorskip("safetensors.torch")
    theirs, ours = cnn(tnn), cnn(nn)
    wg.save(tmp_path / "model.safetensors", ours)
    theirs.load_state_dict(files.load_file(tmp_path / "model.safetensors"))
    for name, value in ours.state_dict().items():
        np.testing.assert_array_equal(theirs.state_dict()[name].numpy(), value)


INITIALISERS = [
    ("xavier_uniform_", {"gain": 2.0}),
    ("xavier_normal_", {}),
    ("kaiming_uniform_", {"a": 0.1, "mode": "fan_out"}),
    ("kaiming_normal_", {"nonlinearity": "relu"}),
    ("normal_", {"mean": 1.0, "std": 0.3}),
    ("uniform_", {"a": -1.0, "b": 3.0}),
    ("trunc_normal_", {"mean": 0.5, "std": 2.0, "a": -1.0, "b": 1.0}),
]


@pytest.mark.parametrize("name, options", INITIALISERS, ids=[name for name, _ in INITIALISERS])
def test_initialisers_have_the_same_distribution(name, options):
    nn.manual_seed(1)
    torch.manual_seed(1)
    shape = (64, 32, 3, 3)
    ours = np.sort(getattr(nn.init, name)(np.empty(shape, np.float32), **options).ravel())
    theirs = np.sort(getattr(tnn.init, name)(torch.empty(shape), **options).numpy().ravel())
    spread = theirs.std()
    assert abs(ours.mean() - theirs.mean()) < 0.02 * spread
    assert abs(ours.std() / spread - 1) < 0.02
    middle = slice(len(ours) // 100, -len(ours) // 100, 100)  # quantiles
    np.testing.assert_allclose(ours[middle], theirs[middle], atol=0.05 * spread)


@pytest.mark.parametrize("name", ["tanh", "relu", "selu", "leaky_relu", "linear", "conv2d"])
def test_gains(name):
    assert nn.init.calculate_gain(name) == tnn.init.calculate_gain(name)


# with thousands of numbers in the smallest parameter: the spread of few is anything
DEFAULTS = [("Linear", (20, 5000)), ("Conv2d", (2, 5000, 3)), ("ConvTranspose2d", (2, 5000, 3))]


@pytest.mark.parametrize("name, args", DEFAULTS, ids=[name for name, _ in DEFAULTS])
def test_default_initialisation(name, args):
    ours, theirs = getattr(nn, name)(*args), getattr(tnn, name)(*args)
    for (_, one), (_, other) in zip(
        ours.named_parameters(), theirs.named_parameters(), strict=True
    ):
        one, other = one.numpy(), other.detach().numpy()
        assert abs(np.abs(one).max() / np.abs(other).max() - 1) < 0.01
        assert abs(one.std() / other.std() - 1) < 0.04
