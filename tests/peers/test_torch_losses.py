"""Losses as layers, what layers need other than arrays of floats, and PyTorch's indexing."""

import inspect

import numpy as np
import pytest

import wengert as wg
from layer_cases import LOSSES, PROBABILITIES, X
from wengert import nn
from wengert.nn import functional

torch = pytest.importorskip("torch")
tnn = torch.nn
RNG = np.random.default_rng(0)


def assert_close(found, wanted):
    """Equal to float32 rounding, which is relative to the largest number in a sum."""
    wanted = np.asarray(wanted)
    finite = np.abs(wanted[np.isfinite(wanted)])
    largest = max(1.0, finite.max(initial=0.0))
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-5, atol=2e-6 * largest)


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def tensors(tree):
    """The same with tensors of PyTorch in the place of arrays."""
    if isinstance(tree, dict):
        return {name: tensors(value) for name, value in tree.items()}
    return torch.tensor(tree) if isinstance(tree, np.ndarray) else tree


def loss_id(case):
    return f"{case[0]}-{'-'.join(case[1])}"


@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides:UserWarning")
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("case", LOSSES, ids=loss_id)
def test_loss(case, reduction):
    name, options, inputs, count = case
    ours = getattr(nn, name)(**options, reduction=reduction)
    theirs = getattr(tnn, name)(**tensors(options), reduction=reduction)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours.load_state_dict(theirs.state_dict())
    leaves = [torch.tensor(x, requires_grad=n < count) for n, x in enumerate(inputs)]
    wanted = theirs(*leaves)
    seed = floats(*wanted.shape)
    wanted.backward(torch.tensor(seed))

    def both(*inputs):
        found, pullback = wg.vjp(lambda *xs: ours(*xs, *inputs[count:]), *inputs[:count])
        return found, pullback(seed)

    for way in (both, wg.jit(both)) if reduction == "mean" else (both,):
        found, gradients = way(*inputs)
        assert np.asarray(found).dtype == np.float32
        assert_close(found, wanted.detach().numpy())
        for gradient, leaf in zip(gradients, leaves, strict=False):
            assert_close(gradient, leaf.grad.numpy())
    if reduction == "mean":
        assert way.explain(*inputs).hosts == []


def test_batchmean():
    theirs = tnn.KLDivLoss(reduction="batchmean")(*map(torch.tensor, (X, PROBABILITIES)))
    assert_close(nn.KLDivLoss(reduction="batchmean")(X, PROBABILITIES), theirs)


def test_the_layers_have_the_arguments_of_torch():
    """In PyTorch's order; what is deprecated there, or about its own memory, is not taken."""
    gone = {"size_average", "reduce", "device", "min_value", "max_value"}
    for name in nn.__all__:
        ours, theirs = getattr(nn, name), getattr(tnn, name, None)
        if theirs is None or not isinstance(ours, type) or name in ("Module", "Parameter"):
            continue
        wanted = [p for p in inspect.signature(theirs).parameters if p not in {*gone, "dtype"}]
        found = [p for p in inspect.signature(ours).parameters if p not in {*gone, "dtype"}]
        common = [p for p in wanted if p in found]
        assert found[: len(common)] == common, name


# ---------------------------------------------------------------- CTC

TIMES, SAMPLES, NUMBER, LONGEST = 12, 3, 5, 4
LOGITS = floats(TIMES, SAMPLES, NUMBER)
TARGETS = np.array([[1, 1, 2, 3], [4, 2, 2, 2], [3, 1, 0, 0]])
GIVEN, LENGTHS = np.array([12, 9, 10]), np.array([4, 3, 2])


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("arrangement", ["rows", "joined", "other blank"])
def test_ctc(arrangement, reduction):
    """Through log_softmax: PyTorch's derivative is right only together with that."""
    targets, blank = TARGETS, 0
    if arrangement == "joined":
        targets = np.concatenate([row[:n] for row, n in zip(TARGETS, LENGTHS, strict=True)])
    elif arrangement == "other blank":
        targets, blank = np.where(TARGETS == 4, 0, TARGETS), 4
    leaf = torch.tensor(LOGITS, requires_grad=True)
    theirs = tnn.CTCLoss(blank, reduction)
    lengths = torch.tensor(GIVEN), torch.tensor(LENGTHS)
    wanted = theirs(leaf.log_softmax(2), torch.tensor(targets), *lengths)
    seed = floats(*wanted.shape)
    wanted.backward(torch.tensor(seed))
    ours = nn.CTCLoss(blank, reduction)

    def run(logits, targets, given, lengths):
        def loss(x):
            return ours(functional.log_softmax(x, 2), targets, given, lengths)

        found, pullback = wg.vjp(loss, logits)
        return found, pullback(seed)[0]

    for way in (run, wg.jit(run)):
        found, gradient = way(LOGITS, targets, GIVEN, LENGTHS)
        assert_close(found, wanted.detach().numpy())
        assert_close(gradient, leaf.grad.numpy())
    assert way.explain(LOGITS, targets, GIVEN, LENGTHS).hosts == []


@pytest.mark.parametrize("zero_infinity", [False, True])
def test_ctc_of_what_cannot_be_said(zero_infinity):
    given, lengths = np.array([3, 12, 12]), np.array([4, 0, 2])
    leaf = torch.tensor(LOGITS, requires_grad=True)
    theirs = tnn.CTCLoss(reduction="none", zero_infinity=zero_infinity)
    wanted = theirs(leaf.log_softmax(2), *map(torch.tensor, (TARGETS, given, lengths)))
    wanted[1:].sum().backward()

    def losses(logits):
        loss = nn.CTCLoss(reduction="none", zero_infinity=zero_infinity)
        return loss(functional.log_softmax(logits, 2), TARGETS, given, lengths)

    assert_close(losses(LOGITS), wanted.detach().numpy())
    gradient = wg.grad(lambda x: losses(x)[1:].sum())(LOGITS)
    assert_close(gradient[:, 1:], leaf.grad.numpy()[:, 1:])
    assert np.isfinite(wg.grad(lambda x: losses(x)[0])(LOGITS)).all()


def test_ctc_of_one_sample():
    log_probs = torch.tensor(LOGITS[:, 0]).log_softmax(1)
    lengths = torch.tensor(12), torch.tensor(4)
    wanted = tnn.functional.ctc_loss(log_probs, torch.tensor(TARGETS[0]), *lengths)
    assert_close(functional.ctc_loss(log_probs.numpy(), TARGETS[0], 12, 4), wanted)


# ---------------------------------------------------------------- max pooling with indices

POOLS = [
    (1, (2, 4, 11), {"kernel_size": 2}),
    (1, (4, 11), {"kernel_size": 3, "padding": 1}),
    (2, (2, 4, 9, 8), {"kernel_size": 2}),
    (2, (2, 4, 9, 8), {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True}),
    (2, (4, 9, 8), {"kernel_size": (2, 3), "stride": (1, 2), "dilation": (2, 1)}),
    (3, (2, 3, 5, 4, 6), {"kernel_size": 2}),
    (3, (2, 3, 5, 4, 6), {"kernel_size": (2, 3, 2), "stride": 2, "padding": (1, 1, 0)}),
]


@pytest.mark.parametrize("rank, shape, options", POOLS, ids=str)
def test_max_pool_with_indices(rank, shape, options):
    x = floats(*shape)
    name = f"MaxPool{rank}d"
    wanted = getattr(tnn, name)(**options, return_indices=True)(torch.tensor(x))
    pool = getattr(nn, name)(**options, return_indices=True)
    for way in (pool, wg.jit(lambda x: pool(x))):
        for found, other in zip(way(x), wanted, strict=True):
            np.testing.assert_array_equal(np.asarray(found), other.numpy())
    assert way.explain(x).hosts == []


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("size", [2, 3])
def test_adaptive_max_pool_with_indices(rank, size):
    x = floats(2, 4, 7, 6, 5)[(..., *(0,) * (3 - rank))]
    name = f"AdaptiveMaxPool{rank}d"
    wanted = getattr(tnn, name)(size, return_indices=True)(torch.tensor(x))
    for found, other in zip(getattr(nn, name)(size, True)(x), wanted, strict=True):
        np.testing.assert_array_equal(found, other.numpy())


# of windows that overlap, PyTorch gives what was written twice its derivative twice
@pytest.mark.parametrize("rank, shape, options", [POOLS[n] for n in (0, 2, 5)], ids=str)
@pytest.mark.parametrize("sized", [False, True])
def test_max_unpool(rank, shape, options, sized):
    x = floats(*shape)
    pooled, indices = getattr(tnn, f"MaxPool{rank}d")(**options, return_indices=True)(
        torch.tensor(x)
    )
    more = {"output_size": shape[-rank:]} if sized else {}
    leaf = pooled.clone().requires_grad_()
    theirs = getattr(tnn, f"MaxUnpool{rank}d")(**options)(leaf, indices, **more)
    seed = floats(*theirs.shape)
    theirs.backward(torch.tensor(seed))
    layer = getattr(nn, f"MaxUnpool{rank}d")(**options)

    def run(x, indices):
        found, pullback = wg.vjp(lambda x: layer(x, indices, **more), x)
        return found, pullback(seed)[0]

    for way in (run, wg.jit(run)):
        found, gradient = way(pooled.numpy(), indices.numpy())
        np.testing.assert_array_equal(found, theirs.detach().numpy())
        np.testing.assert_array_equal(gradient, leaf.grad.numpy())
    assert way.explain(pooled.numpy(), indices.numpy()).hosts == []


def test_of_equal_elements_the_first_is_the_largest():
    x = np.zeros((1, 5, 5), np.float32)
    wanted = tnn.AdaptiveMaxPool2d(3, return_indices=True)(torch.tensor(x))[1].numpy()
    np.testing.assert_array_equal(nn.AdaptiveMaxPool2d(3, True)(x)[1], wanted)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("size", [(4, 3), (5, 20), (17, 19)])
@pytest.mark.parametrize("align_corners", [False, True])
def test_antialias(mode, size, align_corners):
    x = floats(2, 3, 9, 11)
    options = {"mode": mode, "antialias": True, "align_corners": align_corners}
    wanted = tnn.functional.interpolate(torch.tensor(x), size, **options)
    assert_close(functional.interpolate(x, size, **options), wanted.numpy())


@pytest.mark.parametrize("factor", [1.05, (1.1, 0.5), (2.0, 1.05)])
def test_antialias_by_a_factor_that_leaves_a_size(factor):
    x = floats(2, 3, 9, 11)
    options = {"scale_factor": factor, "mode": "bilinear", "antialias": True}
    wanted = tnn.functional.interpolate(torch.tensor(x), **options)
    assert_close(functional.interpolate(x, **options), wanted.numpy())


def test_transposed_convolutions_to_a_size():
    x = floats(2, 4, 5, 6)
    theirs = tnn.ConvTranspose2d(4, 3, 3, stride=3)
    ours = nn.ConvTranspose2d(4, 3, 3, stride=3)
    ours.load_state_dict(theirs.state_dict())
    wanted = theirs(torch.tensor(x), output_size=(16, 19)).detach().numpy()
    assert_close(ours(x, output_size=(16, 19)).numpy(), wanted)


# ---------------------------------------------------------------- gather and scatter

TABLE = floats(4, 5, 3)
SOURCE = floats(4, 5, 3)
PART = SOURCE[:3, :4, :2].copy()  # PyTorch has derivatives only where it is as large as the index
INDEX = {
    0: RNG.integers(0, 4, (6, 4, 2)),
    1: RNG.integers(0, 5, (3, 7, 3)),
    2: RNG.integers(0, 3, (4, 5, 1)),
}


def compared(ours, theirs, *arrays):
    """Values and derivatives, evaluated and compiled."""
    leaves = [torch.tensor(x, requires_grad=True) for x in arrays]
    wanted = theirs(*leaves)
    seed = floats(*wanted.shape)
    wanted.backward(torch.tensor(seed))

    def run(*arrays):
        found, pullback = wg.vjp(ours, *arrays)
        return found, pullback(seed)

    for way in (run, wg.jit(run)):
        found, gradients = way(*arrays)
        assert_close(found, wanted.detach().numpy())
        for gradient, leaf in zip(gradients, leaves, strict=True):
            assert_close(gradient, leaf.grad.numpy())
    assert way.explain(*arrays).hosts == []


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
def test_gather(dim):
    index = INDEX[dim % 3]
    compared(
        lambda x: functional.gather(x, dim, index),
        lambda x: torch.gather(x, dim, torch.tensor(index)),
        TABLE,
    )


def distinct(dim, shape):
    """Places that are not repeated, for what is only then the same everywhere."""
    order = np.argsort(RNG.random(TABLE.shape), axis=dim)
    return order[tuple(map(slice, shape))]


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_scatter(dim):
    index = distinct(dim, (3, 4, 2))
    compared(
        lambda x, y: functional.scatter(x, dim, index, y),
        lambda x, y: torch.scatter(x, dim, torch.tensor(index), y),
        TABLE,
        PART,
    )
    wanted = torch.scatter(torch.tensor(TABLE), dim, torch.tensor(index), torch.tensor(SOURCE))
    assert_close(functional.scatter(TABLE, dim, index, SOURCE), wanted)
    compared(
        lambda x: functional.scatter(x, dim, index, 2.5),
        lambda x: torch.scatter(x, dim, torch.tensor(index), 2.5),
        TABLE,
    )


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_scatter_add(dim):
    index = RNG.integers(0, TABLE.shape[dim], (3, 4, 2))
    compared(
        lambda x, y: functional.scatter_add(x, dim, index, y),
        lambda x, y: torch.scatter_add(x, dim, torch.tensor(index), y),
        TABLE,
        PART,
    )


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "amin"])
def test_scatter_reduce(reduce, include_self):
    index = RNG.integers(0, 5, (3, 4, 2))
    compared(
        lambda x, y: functional.scatter_reduce(x, 1, index, y, reduce, include_self),
        lambda x, y: torch.scatter_reduce(
            x, 1, torch.tensor(index), y, reduce, include_self=include_self
        ),
        TABLE,
        PART,
    )


def test_slices_by_index():
    index, few = np.array([2, 0, 2]), np.array([3, 1])
    compared(
        lambda x: functional.index_select(x, 1, index),
        lambda x: torch.index_select(x, 1, torch.tensor(index)),
        TABLE,
    )
    part = SOURCE[:, :3]
    compared(
        lambda x, y: functional.index_add(x, 1, index, y, alpha=0.5),
        lambda x, y: torch.index_add(x, 1, torch.tensor(index), y, alpha=0.5),
        TABLE,
        part,
    )
    compared(
        lambda x, y: functional.index_copy(x, 1, few, y),
        lambda x, y: torch.index_copy(x, 1, torch.tensor(few), y),
        TABLE,
        SOURCE[:, :2].copy(),
    )


def test_take_along_dim():
    index = RNG.integers(0, 5, (4, 2, 1))
    compared(
        lambda x: functional.take_along_dim(x, index, 1),
        lambda x: torch.take_along_dim(x, torch.tensor(index), 1),
        TABLE,
    )
    compared(
        lambda x: functional.take_along_dim(x, index),
        lambda x: torch.take_along_dim(x, torch.tensor(index)),
        TABLE,
    )


# ---------------------------------------------------------------- stacks of layers


def stacks(namespace):
    encoder = namespace.TransformerEncoderLayer(8, 2, 6, 0.0, "gelu", batch_first=True)
    decoder = namespace.TransformerDecoderLayer(8, 2, 6, 0.0, batch_first=True)
    more = {"enable_nested_tensor": False}
    return namespace.ModuleDict(
        {
            "encoder": namespace.TransformerEncoder(encoder, 2, namespace.LayerNorm(8), **more),
            "decoder": namespace.TransformerDecoder(decoder, 2),
        }
    )


PADDING = np.array([[False] * 5, [False] * 3 + [True] * 2, [False] * 4 + [True]])


@pytest.mark.parametrize(
    "compiled", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["evaluated", "compiled"]
)
def test_stacks_with_masks(compiled):
    ours, theirs = stacks(nn), stacks(tnn)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter += 0.2 * torch.tensor(floats(*parameter.shape))
    assert list(ours.state_dict()) == list(theirs.state_dict())
    names = [name for name, _ in theirs.named_parameters()]
    assert [name for name, _ in ours.named_parameters()] == names
    ours.load_state_dict(theirs.state_dict())
    src, tgt = floats(3, 5, 8), floats(3, 4, 8)
    causal = nn.Transformer.generate_square_subsequent_mask(4)
    their_causal = tnn.Transformer.generate_square_subsequent_mask(4)
    np.testing.assert_array_equal(causal, their_causal.numpy())
    padding = torch.tensor(PADDING)
    memory = theirs["encoder"](torch.tensor(src), src_key_padding_mask=padding)
    wanted = theirs["decoder"](
        torch.tensor(tgt), memory, their_causal, memory_key_padding_mask=padding
    )
    seed = floats(*wanted.shape)
    wanted.backward(torch.tensor(seed))

    def run(src, tgt):
        ours.zero_grad()
        memory = ours["encoder"](src, src_key_padding_mask=PADDING)
        out = ours["decoder"](tgt, memory, causal, memory_key_padding_mask=PADDING)
        out.backward(seed)
        return out, [parameter.grad for parameter in ours.parameters()]

    way = wg.jit(run) if compiled else run
    out, gradients = way(src, tgt)
    assert_close(out, wanted.detach().numpy())
    for gradient, parameter in zip(gradients, theirs.parameters(), strict=True):
        assert_close(gradient, parameter.grad.numpy())
    if compiled:
        assert way.explain(src, tgt).hosts == []


def test_lists_and_dictionaries_of_parameters():
    arrays = [floats(3), floats(2, 2)]

    def made(namespace, make):
        first = namespace.ParameterList([make(a) for a in arrays])
        second = namespace.ParameterDict({"left": make(arrays[0]), "right": make(arrays[1])})
        return namespace.ModuleDict({"list": first, "dict": second})

    ours = made(nn, nn.Parameter)
    theirs = made(tnn, lambda a: tnn.Parameter(torch.tensor(a)))
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours.load_state_dict(theirs.state_dict())
    np.testing.assert_array_equal(ours["dict"]["right"].numpy(), arrays[1])


@pytest.mark.parametrize("name", ["ReLU", "ELU", "Hardtanh", "SiLU", "Mish"])
@pytest.mark.parametrize("compiled", [False, True], ids=["evaluated", "compiled"])
def test_in_place(name, compiled):
    """What is written to is read afterwards, and has its part in the derivative."""
    ours, theirs = (getattr(space, name)(inplace=True) for space in (nn, tnn))
    leaf = torch.tensor(X, requires_grad=True)
    middle = leaf * 2
    wanted = theirs(middle) + middle
    seed = floats(*wanted.shape)
    wanted.backward(torch.tensor(seed))

    def run(x):
        leaf = wg.tensor(x, requires_grad=True)
        middle = leaf * 2
        out = ours(middle) + middle
        out.backward(seed)
        return out, leaf.grad

    out, gradient = (wg.jit(run) if compiled else run)(X)
    assert_close(out, wanted.detach().numpy())
    assert_close(gradient, leaf.grad.numpy())


def test_in_place_changes_the_input():
    ours, theirs = X.copy(), torch.tensor(X)
    assert nn.ReLU(inplace=True)(ours) is ours
    tnn.ReLU(inplace=True)(theirs)
    np.testing.assert_array_equal(ours, theirs.numpy())
