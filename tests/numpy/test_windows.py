"""Convolution and pooling against PyTorch, sliding windows against NumPy."""

import itertools

import numpy as np
import pytest

import wengert.numpy as wnp
from wengert.errors import ShapeError
from wengert.transforms.batching import vmap
from wengert.transforms.check import check_grads
from wengert.transforms.reverse import grad, vjp

TIGHT = {"rtol": 1e-11, "atol": 1e-11}


def against_torch(ours, theirs, *arrays):
    """Value and gradients for a random cotangent."""
    torch = pytest.importorskip("torch")
    tensors = [torch.tensor(x, requires_grad=True) for x in arrays]
    expected = theirs(*tensors)
    out, pullback = vjp(ours, *arrays)
    np.testing.assert_allclose(out, expected.detach().numpy(), **TIGHT)
    g = np.random.default_rng(9).normal(size=out.shape)
    expected.backward(torch.tensor(g))
    for got, tensor in zip(pullback(g), tensors, strict=True):
        np.testing.assert_allclose(got, tensor.grad.numpy(), **TIGHT)


def torch_function(name, rank):
    functional = pytest.importorskip("torch.nn.functional")
    return getattr(functional, f"{name}{rank}d")


SPACES = {1: ((11,), (3,)), 2: ((8, 9), (3, 2)), 3: ((5, 6, 5), (2, 3, 2))}


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(
    "stride, padding, dilation",
    [(1, 0, 1), (2, 0, 1), (1, 2, 1), (1, 0, 2), (2, 1, 2), (1, "same", 2), (1, "valid", 1)],
)
def test_conv(rank, groups, stride, padding, dilation):
    rng = np.random.default_rng(0)
    space, size = SPACES[rank]
    x, w = rng.normal(size=(2, 4, *space)), rng.normal(size=(6, 4 // groups, *size))
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    reference = torch_function("conv", rank)
    against_torch(
        lambda a, b: wnp.conv(a, b, **options), lambda a, b: reference(a, b, None, **options), x, w
    )


def test_conv_with_different_numbers_for_each_axis():
    rng = np.random.default_rng(1)
    x, w = rng.normal(size=(2, 3, 9, 8)), rng.normal(size=(4, 3, 2, 3))
    options = {"stride": (2, 1), "padding": (1, 2), "dilation": (1, 2)}
    reference = torch_function("conv", 2)
    against_torch(
        lambda a, b: wnp.conv(a, b, **options), lambda a, b: reference(a, b, None, **options), x, w
    )


@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(
    "stride, padding, output_padding, dilation",
    [(1, 0, 0, 1), (2, 0, 0, 1), (2, 1, 1, 1), (3, 0, 2, 1), (2, 2, 1, 2), (1, 0, 1, 2)],
)
def test_conv_transpose(rank, groups, stride, padding, output_padding, dilation):
    rng = np.random.default_rng(2)
    space, size = SPACES[rank]
    x, w = rng.normal(size=(2, 4, *space)), rng.normal(size=(4, 6 // groups, *size))
    options = {
        "stride": stride,
        "padding": padding,
        "output_padding": output_padding,
        "dilation": dilation,
        "groups": groups,
    }
    reference = torch_function("conv_transpose", rank)
    against_torch(
        lambda a, b: wnp.conv_transpose(a, b, **options),
        lambda a, b: reference(a, b, None, **options),
        x,
        w,
    )


def test_conv_transpose_is_the_transpose_of_conv():
    rng = np.random.default_rng(3)
    x, w = rng.normal(size=(2, 3, 9)), rng.normal(size=(4, 3, 3))
    options = {"stride": 2, "padding": 1}
    out, pullback = vjp(lambda a: wnp.conv(a, w, **options), x)
    g = rng.normal(size=out.shape)
    np.testing.assert_allclose(pullback(g)[0], wnp.conv_transpose(g, w, **options), **TIGHT)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(
    "size, stride, padding, dilation",
    [(2, None, 0, 1), (3, 2, 1, 1), (3, 1, 1, 2), (2, 3, 0, 1), (2, 1, 0, 1)],
)
def test_max_pool(rank, size, stride, padding, dilation):
    x = np.random.default_rng(4).normal(size=(2, 3, *SPACES[rank][0]))
    reference = torch_function("max_pool", rank)
    against_torch(
        lambda a: wnp.max_pool(a, size, stride, padding, dilation),
        lambda a: reference(a, size, stride, padding, dilation),
        x,
    )


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("count_include_pad", [True, False])
@pytest.mark.parametrize("size, stride, padding", [(2, None, 0), (3, 2, 1), (2, 3, 1), (3, 1, 0)])
def test_avg_pool(rank, size, stride, padding, count_include_pad):
    x = np.random.default_rng(5).normal(size=(2, 3, *SPACES[rank][0]))
    reference = torch_function("avg_pool", rank)
    against_torch(
        lambda a: wnp.avg_pool(a, size, stride, padding, count_include_pad),
        lambda a: reference(a, size, stride, padding, False, count_include_pad),
        x,
    )


def test_ties_go_to_the_first():
    x = np.ones((1, 1, 4, 4))
    expected = np.zeros((4, 4))
    expected[::2, ::2] = 1
    np.testing.assert_array_equal(grad(lambda a: wnp.sum(wnp.max_pool(a, 2)))(x)[0, 0], expected)


def test_a_large_pool_is_numpys_maximum():
    x = np.random.default_rng(0).normal(size=(4, 8, 16, 18))
    x[0, 0, 3, 5] = np.nan
    expected = x.reshape(4, 8, 8, 2, 9, 2).max((3, 5))
    np.testing.assert_array_equal(wnp.max_pool(x, 2), expected)
    assert np.isnan(expected).sum() == 1


def test_odd_edges_are_dropped():
    x = np.arange(25.0).reshape(1, 1, 5, 5)
    np.testing.assert_array_equal(wnp.max_pool(x, 2)[0, 0], [[6, 8], [16, 18]])
    np.testing.assert_array_equal(wnp.avg_pool(x, 2)[0, 0], [[3, 5], [13, 15]])
    expected = np.zeros((5, 5))
    expected[:4, :4] = 0.25
    np.testing.assert_array_equal(grad(lambda a: wnp.sum(wnp.avg_pool(a, 2)))(x)[0, 0], expected)


def test_sizes_as_a_tuple_name_the_last_axes():
    x = np.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(wnp.max_pool(x, (2,)), [[1, 3], [5, 7], [9, 11]])
    np.testing.assert_array_equal(
        wnp.max_pool(x.astype(int), (2, 2), padding=1), [[0, 2, 3], [8, 10, 11]]
    )


def test_second_derivatives():
    rng = np.random.default_rng(6)
    x, w = rng.normal(size=(1, 2, 6)), rng.normal(size=(2, 2, 3))
    check_grads(lambda a, b: wnp.sin(wnp.conv(a, b, 2, 1)), (x, w))
    check_grads(lambda a, b: wnp.sin(wnp.conv_transpose(a, b, 2, 1, 1)), (x, w))
    check_grads(lambda a: wnp.max_pool(a, 2) ** 2, (x,))
    check_grads(lambda a: wnp.avg_pool(a, 3, 1, 1) ** 2, (x,))


def test_batching_and_one_sample():
    rng = np.random.default_rng(7)
    x, w = rng.normal(size=(3, 4, 7, 6)), rng.normal(size=(6, 2, 2, 3))
    both = wnp.conv(x, w, groups=2)
    np.testing.assert_allclose(vmap(lambda a: wnp.conv(a, w, groups=2))(x), both, **TIGHT)
    ws = np.stack([w, -w])
    expected = np.stack([both, -both])
    np.testing.assert_allclose(vmap(lambda b: wnp.conv(x, b, groups=2))(ws), expected, **TIGHT)
    back = rng.normal(size=(4, 3, 2, 2))
    expected = wnp.conv_transpose(x, back, 2)
    np.testing.assert_allclose(vmap(lambda a: wnp.conv_transpose(a, back, 2))(x), expected, **TIGHT)
    pool = lambda a: wnp.max_pool(a, (2, 2), padding=1)
    np.testing.assert_allclose(vmap(pool)(x), pool(x), **TIGHT)
    np.testing.assert_allclose(vmap(grad(lambda a: wnp.sum(pool(a) ** 2)))(x),
                               grad(lambda a: wnp.sum(pool(a) ** 2))(x), **TIGHT)  # fmt: skip


def test_float32_stays_float32():
    x, w = np.ones((1, 1, 5), np.float32), np.ones((1, 1, 2), np.float32)
    for result in (
        wnp.conv(x, w, padding=1),
        wnp.conv_transpose(x, w),
        wnp.max_pool(x, 2, padding=1),
        wnp.avg_pool(x, 2),
        wnp.avg_pool(x, 2, padding=1, count_include_pad=False),
        grad(lambda a: wnp.sum(wnp.conv(a, w)))(x),
    ):
        assert result.dtype == np.float32


@pytest.mark.parametrize(
    "shape, window, axis",
    [
        ((6,), 3, None),
        ((4, 5), (2, 3), None),
        ((4, 5), 2, 0),
        ((4, 5), 2, 1),
        ((3, 4, 5), (2, 3), (2, 0)),
        ((7,), (3, 2), (0, 0)),
        ((3, 4, 5), (2,), (-2,)),
    ],
)
def test_sliding_window_view(shape, window, axis):
    x = np.random.default_rng(8).normal(size=shape)
    reference = np.lib.stride_tricks.sliding_window_view
    np.testing.assert_array_equal(
        wnp.sliding_window_view(x, window, axis), reference(x, window, axis)
    )
    check_grads(lambda a: reference(a, window, axis) ** 2, (x,))


def test_every_small_pool_counts_its_padding():
    for length, size, stride in itertools.product(range(3, 8), range(2, 4), range(1, 4)):
        x = np.ones((1, 1, length))
        pad = size // 2
        inner = wnp.avg_pool(x, size, stride, pad, count_include_pad=False)
        np.testing.assert_allclose(inner, np.ones_like(inner))


def test_errors():
    x = np.zeros((1, 4, 5))
    with pytest.raises(ShapeError, match=r"conv.*4 channels.*kernel of shape \(2, 3, 2\)"):
        wnp.conv(x, np.zeros((2, 3, 2)))
    with pytest.raises(ShapeError, match="groups=3"):
        wnp.conv(x, np.zeros((2, 4, 2)), groups=3)
    with pytest.raises(ShapeError, match=r"spans \(7,\) does not fit into .* \(1, 4, 5\)"):
        wnp.conv(x, np.zeros((2, 4, 4)), dilation=2)
    with pytest.raises(ShapeError, match="needs stride=1"):
        wnp.conv(x, np.zeros((2, 4, 2)), stride=2, padding="same")
    with pytest.raises(ShapeError, match="as many axes"):
        wnp.conv(x, np.zeros((2, 4)))
    with pytest.raises(ShapeError, match="got stride=0, expected an integer of at least 1"):
        wnp.conv(x, np.zeros((2, 4, 2)), stride=0)
    with pytest.raises(TypeError, match="Use integers, 'same' or 'valid'"):
        wnp.conv(x, np.zeros((2, 4, 2)), padding="full")
    with pytest.raises(ShapeError, match=r"conv_transpose.*4 channels"):
        wnp.conv_transpose(x, np.zeros((3, 2, 2)))
    with pytest.raises(ShapeError, match="At most half the size"):
        wnp.max_pool(x, 2, padding=2)
    with pytest.raises(ShapeError, match="does not fit"):
        wnp.max_pool(x, 6)
    with pytest.raises(ShapeError, match="got 2 window lengths for 1 axes"):
        wnp.sliding_window_view(x, (2, 2), 1)
