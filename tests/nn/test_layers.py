"""Layers on their own: randomness, state under jit, the ways of convolution, errors.

Their values are compared with PyTorch's in `tests/peers/test_torch_nn.py`.
"""

import numpy as np
import pytest

import wengert as wg
from wengert import nn
from wengert.errors import DTypeError, OptionError, ShapeError
from wengert.nn import functional

RNG = np.random.default_rng(0)


def floats(*shape):
    return RNG.standard_normal(shape)


# ---------------------------------------------------------------- seeds and dropout


def test_the_same_seed_gives_the_same_bits():
    def made():
        nn.manual_seed(7)
        return nn.Sequential(nn.Conv2d(1, 2, 3), nn.Linear(3, 3), nn.Embedding(4, 2)).state_dict()

    one, other = made(), made()
    nn.manual_seed(8)
    third = nn.Conv2d(1, 2, 3).state_dict()
    for name, array in one.items():
        np.testing.assert_array_equal(array, other[name])
    assert (third["weight"] != one["0.weight"]).all()


def test_rng_state():
    nn.manual_seed(0)
    nn.Linear(2, 2)
    state = nn.get_rng_state()
    first = nn.Linear(2, 2).weight.numpy()
    nn.set_rng_state(state)
    np.testing.assert_array_equal(nn.Linear(2, 2).weight.numpy(), first)
    with pytest.raises(ShapeError) as caught:
        nn.set_rng_state([1, 2, 3])
    assert str(caught.value).endswith(
        ": got int64 of shape (3,), expected uint32 of shape (2,). Give what get_rng_state "
        "returned, or use manual_seed."
    )


def test_dropout():
    x = np.ones((200, 100), np.float32)
    layer = nn.Dropout(0.3)
    y = layer(x)
    assert y.dtype == np.float32 and type(y) is np.ndarray
    assert set(np.unique(y)) == {np.float32(0), np.float32(1 / 0.7)}
    assert abs((y == 0).mean() - 0.3) < 0.01
    assert (layer(x) != y).any()
    gradient = wg.grad(lambda x: functional.dropout(x, 0.3, key=wg.numpy.random.key(1)).sum())(x)
    kept = functional.dropout(x, 0.3, key=wg.numpy.random.key(1))
    np.testing.assert_array_equal(gradient, kept)
    assert not functional.dropout(np.full(3, 2.0), 1.0).any()


def test_compiled_dropout_draws_new_numbers_in_each_call():
    layer, x = nn.Dropout(0.5), np.ones(1000)
    run = wg.jit(lambda x: layer(x))
    nn.manual_seed(5)
    compiled = [run(x) for _ in range(4)]
    nn.manual_seed(5)
    evaluated = [layer(x) for _ in range(4)]
    np.testing.assert_array_equal(compiled, evaluated)
    assert len({y.tobytes() for y in compiled}) == 4
    layer.eval()
    np.testing.assert_array_equal(layer(x), x)


def test_dropout_in_backward_uses_the_same_mask():
    layer = nn.Dropout(0.5)

    def run(x):
        leaf = wg.tensor(x, requires_grad=True)
        y = layer(leaf)
        y.sum().backward()
        return y, leaf.grad

    for way in (run, wg.jit(run)):
        y, gradient = way(np.ones(100))
        np.testing.assert_array_equal(np.asarray(y), np.asarray(gradient))


# ---------------------------------------------------------------- batch norm as state


def test_batch_norm_trains_the_same_compiled():
    def trained(way):
        nn.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 1))

        def step(x):
            model.zero_grad()
            loss = (model(x) ** 2).mean()
            loss.backward()
            with wg.no_grad():
                for parameter in model.parameters():
                    parameter -= 0.05 * parameter.grad
            return loss

        step = way(step)
        losses = [float(step(x)) for x in batches]
        model.eval()
        return losses, model.state_dict(), np.asarray(way(lambda x: model(x))(batches[0]))

    batches = floats(5, 16, 3).astype(np.float32)
    (one, states, out), (other, others, out_other) = trained(lambda f: f), trained(wg.jit)
    np.testing.assert_allclose(one, other, rtol=1e-4)
    np.testing.assert_allclose(out, out_other, rtol=1e-3, atol=1e-5)
    assert states["1.num_batches_tracked"] == 5
    for name, array in states.items():
        np.testing.assert_allclose(array, others[name], rtol=1e-3, atol=1e-5)


# ---------------------------------------------------------------- ways of convolution

SETTINGS = [
    {},
    {"stride": 2, "padding": 1},
    {"dilation": (2, 1), "padding": (2, 0)},
    {"groups": 2, "stride": (1, 3)},
    {"padding": "same", "dilation": 2},
    {"padding": "valid"},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("method", ["direct", "im2col", "fft"])
def test_ways_of_convolution_agree(method, settings):
    nn.manual_seed(0)
    usual = nn.Conv2d(4, 6, (3, 2), dtype=np.float64, **settings)
    other = nn.Conv2d(4, 6, (3, 2), dtype=np.float64, method=method, **settings)
    other.load_state_dict(usual.state_dict())
    x = floats(2, 4, 9, 8)
    seed = floats(*usual(x).shape)

    def run(layer, x):
        return (layer(x) * seed).sum()

    np.testing.assert_allclose(other(x).numpy(), usual(x).numpy(), rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(other(x[0]).numpy(), usual(x[0]).numpy(), rtol=1e-11, atol=1e-12)
    for number in (0, 1):
        gradients = [wg.grad(run, number)(layer, x) for layer in (usual, other)]
        for one, two in zip(*map(wg.tree.leaves, gradients), strict=True):
            np.testing.assert_allclose(two, one, rtol=1e-10, atol=1e-11)


def test_ways_of_convolution_keep_float32_and_work_in_one_dimension():
    x = floats(2, 3, 20).astype(np.float32)
    usual = nn.Conv1d(3, 4, 5)
    for method in ("direct", "im2col", "fft"):
        other = nn.Conv1d(3, 4, 5, method=method)
        other.load_state_dict(usual.state_dict())
        assert other(x).dtype == np.float32
        np.testing.assert_allclose(other(x).numpy(), usual(x).numpy(), rtol=1e-4, atol=1e-5)


def test_compiled_convolution_ignores_the_way():
    x = floats(2, 3, 8, 8).astype(np.float32)
    layer = nn.Conv2d(3, 4, 3, method="fft")
    compiled = wg.jit(lambda x: layer(x))
    assert "fft" not in str(compiled.explain(x).graph)
    np.testing.assert_allclose(compiled(x), layer(x).numpy(), rtol=1e-4, atol=1e-5)


# ---------------------------------------------------------------- small things


def test_layers_without_parameters_keep_plain_arrays():
    x = floats(2, 4, 6, 6)
    for layer in (nn.ReLU(), nn.MaxPool2d(2), nn.AvgPool2d(2), nn.Flatten(), nn.Softmax(1)):
        assert type(layer(x)) is np.ndarray


def test_dtypes():
    assert nn.Linear(2, 2, dtype=np.float64)(np.ones(2)).dtype == np.float64
    assert nn.Linear(2, 2)(np.ones(2, np.float32)).dtype == np.float32
    assert nn.Linear(2, 2)(np.ones(2)).dtype == np.float64  # NumPy's promotion


def test_softmax_without_an_axis():
    for rank, axis in ((1, 0), (2, 1), (3, 0), (4, 1)):
        x = floats(*range(2, 2 + rank))
        np.testing.assert_array_equal(nn.Softmax()(x), nn.Softmax(axis)(x))


def test_one_hot():
    numbers = np.array([[0, 2], [1, 1]])
    np.testing.assert_array_equal(functional.one_hot(numbers, 3), np.eye(3, dtype=int)[numbers])


def test_embedding_out_of_range():
    layer = nn.Embedding(4, 2)
    for run in (layer, wg.jit(lambda x: layer(x))):
        with pytest.raises(IndexError):
            run(np.array([1, 4]))


def test_causal_attention_without_a_mask():
    x = floats(1, 4, 8).astype(np.float32)
    layer = nn.MultiHeadAttention(8, 2, batch_first=True)
    _, weights = layer(x, x, x, is_causal=True)
    assert (np.triu(weights.numpy()[0], 1) == 0).all()


def test_attention_dropout_only_in_training():
    x = floats(1, 4, 8).astype(np.float32)
    layer = nn.MultiHeadAttention(8, 2, dropout=0.5, batch_first=True)
    assert (layer(x, x, x)[0].numpy() != layer(x, x, x)[0].numpy()).any()
    layer.eval()
    np.testing.assert_array_equal(layer(x, x, x)[0].numpy(), layer(x, x, x)[0].numpy())


# ---------------------------------------------------------------- initialisers


def test_initialisers():
    weight = nn.Parameter(np.zeros((2, 3)))
    assert nn.init.constant_(weight, 4.0) is weight and (weight.numpy() == 4).all()
    assert (nn.init.ones_(weight).numpy() == 1).all()
    assert not nn.init.zeros_(weight).numpy().any()
    assert weight.requires_grad and weight.is_leaf
    assert nn.init.xavier_uniform_ is nn.init.glorot_uniform_
    half = nn.init.uniform_(np.zeros(100, np.float16), 1, 2)
    assert half.dtype == np.float16 and half.min() >= 1 and half.max() <= 2
    big = nn.init.trunc_normal_(np.zeros(1000), 1.0, 2.0, -1.0, 2.0)
    assert big.min() >= -1 and big.max() <= 2


# ---------------------------------------------------------------- errors

ONE = np.ones((2, 3))
ERRORS = [
    (
        lambda: nn.Linear(4, 2)(ONE),
        ShapeError,
        "linear: got input of shape (2, 3) and weight of shape (2, 4). The last axis of the input "
        "must have 4 features.",
    ),
    (
        lambda: nn.Conv2d(3, 4, 3, groups=2),
        ShapeError,
        "Conv2d: got 3 channels in, 4 out and groups=2. Both numbers of channels must be "
        "multiples of the groups.",
    ),
    (
        lambda: nn.Conv2d(1, 1, (3, 3, 3)),
        ShapeError,
        "Conv2d: got kernel_size=(3, 3, 3), expected an integer or 2 of them.",
    ),
    (
        lambda: nn.Conv2d(1, 1, 3, stride=2, padding="same"),
        ShapeError,
        "Conv2d: got padding='same' with stride=2. Give the numbers.",
    ),
    (
        lambda: nn.Conv2d(1, 1, 3, method="winograd"),
        OptionError,
        "Conv2d: got method='winograd'. Use one of 'auto', 'direct', 'im2col', 'fft'.",
    ),
    (
        lambda: nn.ConvTranspose2d(1, 1, 3, output_padding=1)(np.ones((1, 4, 4))),
        ShapeError,
        "conv_transpose2d: got output_padding=(1, 1) with stride=(1, 1) and dilation=(1, 1). It "
        "must be smaller than the stride or the dilation.",
    ),
    (
        lambda: nn.MaxPool2d(2)(ONE),
        ShapeError,
        "max_pool2d: got input of shape (2, 3), expected 4 axes, or 3 without samples.",
    ),
    (
        lambda: nn.BatchNorm1d(3)(np.ones((1, 3))),
        ShapeError,
        "batch_norm: got input of shape (1, 3): one value for each channel has no variance. Give "
        "more than one sample in training, or call eval().",
    ),
    (
        lambda: nn.BatchNorm2d(3)(ONE),
        ShapeError,
        "BatchNorm2d: got input of shape (2, 3), expected 4 axes and 3 channels in axis 1.",
    ),
    (
        lambda: nn.LayerNorm(2)(ONE),
        ShapeError,
        "layer_norm: got input of shape (2, 3) and normalized_shape=(2,). The input must end in "
        "the normalized shape.",
    ),
    (
        lambda: nn.MultiHeadAttention(8, 3),
        ShapeError,
        "MultiHeadAttention: got embed_dim=8 and num_heads=3. The features must be a multiple of "
        "the heads.",
    ),
    (
        lambda: nn.Dropout(1.5)(ONE),
        OptionError,
        "dropout: got p=1.5. It is a probability, between 0 and 1.",
    ),
    (
        lambda: nn.mse_loss(ONE, np.ones(2)),
        ShapeError,
        "mse_loss: got input of shape (2, 3) and target of shape (2,). Give both the same shape: "
        "broadcasting here is nearly always a mistake.",
    ),
    (
        lambda: nn.l1_loss(ONE, ONE, reduction="average"),
        OptionError,
        "l1_loss: got reduction='average'. Use one of 'mean', 'sum', 'none'.",
    ),
    (
        lambda: nn.cross_entropy(ONE, np.zeros(3, int)),
        ShapeError,
        "cross_entropy: got input of shape (2, 3) and target of shape (3,). Expected (samples, "
        "classes, ...) and class numbers of shape (samples, ...).",
    ),
    (
        lambda: nn.nll_loss(ONE, np.zeros(2)),
        DTypeError,
        "nll_loss: got target of dtype float64, expected integers. Give the numbers of the "
        "classes: target.astype(int).",
    ),
    (
        lambda: nn.cross_entropy(ONE, np.zeros(2, int), label_smoothing=2),
        OptionError,
        "cross_entropy: got label_smoothing=2. It is a share of the probability, between 0 and 1.",
    ),
    (
        lambda: nn.init.glorot_normal_(np.zeros(3)),
        ShapeError,
        "init: got a tensor of shape (3,), expected at least two axes. Use uniform_, normal_ or "
        "zeros_ for vectors.",
    ),
    (
        lambda: nn.init.kaiming_normal_(ONE, mode="fan"),
        OptionError,
        "init: got mode='fan'. Use one of 'fan_in', 'fan_out'.",
    ),
]


@pytest.mark.parametrize(
    "call, kind, message", ERRORS, ids=[message[:40] for *_, message in ERRORS]
)
def test_errors(call, kind, message):
    with pytest.raises(kind) as caught:
        call()
    before, _, after = str(caught.value).partition(" (at test_layers.py:")
    assert before + after[after.index(")") + 1 :] == message


def test_targets_out_of_range():
    logits = floats(2, 3)
    for run in (nn.cross_entropy, wg.jit(lambda x, y: nn.cross_entropy(x, y))):
        with pytest.raises(IndexError):
            run(logits, np.array([0, 3]))


def test_nothing_left_to_count():
    """As in PyTorch: the mean of no samples is not a number."""
    with np.errstate(invalid="ignore"):
        assert np.isnan(nn.cross_entropy(floats(2, 3), np.full(2, -100)))
    assert nn.cross_entropy(floats(2, 3), np.full(2, -100), reduction="sum") == 0


def test_other_sizes_keep_what_is_infinite_in_its_place():
    x = np.zeros((1, 1, 5))
    x[0, 0, 0] = np.inf
    np.testing.assert_array_equal(functional.adaptive_avg_pool1d(x, 3), [[[np.inf, 0, 0]]])
    np.testing.assert_array_equal(functional.interpolate(x, 10)[0, 0, :3], [np.inf, np.inf, 0])
