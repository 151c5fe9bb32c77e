"""`windows` and `fold`: values, transposes of each other, batching, errors."""

import itertools

import numpy as np
import pytest

from wengert.errors import ShapeError
from wengert.ops.windows import fold, windows, windows_of
from wengert.transforms.batching import vmap
from wengert.transforms.check import check_grads
from wengert.types import ArrayType

CASES = [
    ((7,), (3,), (1,), (1,)),
    ((7,), (3,), (2,), (1,)),
    ((9,), (3,), (2,), (2,)),
    ((2, 5, 6), (2, 3), (2, 1), (1, 2)),
    ((5,), (5,), (3,), (1,)),
    ((2, 3, 4, 5), (2, 2, 2), (1, 2, 2), (1, 1, 1)),
    ((8,), (2,), (4,), (1,)),
]


def slow_windows(x, sizes, strides, dilations):
    k = len(sizes)
    space = x.shape[x.ndim - k :]
    counts = [
        len(range(0, n - d * (m - 1), s))
        for n, m, s, d in zip(space, sizes, strides, dilations, strict=True)
    ]
    result = np.empty(x.shape[: x.ndim - k] + tuple(counts) + sizes)
    for position in itertools.product(*map(range, counts)):
        for place in itertools.product(*map(range, sizes)):
            source = [
                p * s + i * d
                for p, s, i, d in zip(position, strides, place, dilations, strict=True)
            ]
            result[(..., *position, *place)] = x[(..., *source)]
    return result


@pytest.mark.parametrize("shape, sizes, strides, dilations", CASES)
def test_values_and_transpose(shape, sizes, strides, dilations):
    rng = np.random.default_rng(0)
    x = rng.normal(size=shape)
    params = {"strides": strides, "dilations": dilations}
    result = windows(x, sizes=sizes, **params)
    np.testing.assert_array_equal(result, slow_windows(x, sizes, **params))
    g = rng.normal(size=result.shape)
    folded = fold(g, shape=shape[len(shape) - len(sizes) :], **params)
    assert folded.shape == shape
    np.testing.assert_allclose(np.vdot(g, result), np.vdot(folded, x), rtol=1e-12)
    check_grads(lambda a: windows(a, sizes=sizes, **params) ** 2, (x,))
    check_grads(lambda a: fold(a, shape=shape[len(shape) - len(sizes) :], **params) ** 2, (g,))


def test_a_view_that_cannot_be_written_to():
    x = np.arange(6.0)
    result = windows_of(x, (2,))
    assert np.shares_memory(x, result)
    with pytest.raises(ValueError):
        result[0, 0] = 1.0
    x[0] = 5.0
    assert x[0] == 5.0


@pytest.mark.parametrize("order", ["C", "F"])
def test_memory_order_and_negative_strides(order):
    x = np.asarray(np.arange(20.0).reshape(4, 5), order=order)[:, ::-1]
    expected = np.lib.stride_tricks.sliding_window_view(x, 2, 1)
    np.testing.assert_array_equal(windows_of(x, (2,)), expected)


def test_batching():
    xs = np.random.default_rng(0).normal(size=(3, 2, 5))
    np.testing.assert_array_equal(vmap(lambda x: windows_of(x, (2,)))(xs), windows_of(xs, (2,)))
    gs = np.random.default_rng(1).normal(size=(3, 2, 4, 2))
    add = lambda g: fold(g, shape=(5,), strides=(1,), dilations=(1,))
    np.testing.assert_array_equal(vmap(add)(gs), add(gs))


def test_fold_takes_the_shorter_loop():
    # one position, a window as long as the axis: adds once
    g = np.arange(4.0).reshape(1, 4)
    np.testing.assert_array_equal(fold(g, shape=(4,), strides=(1,), dilations=(1,)), np.arange(4.0))


def test_windows_too_large():
    with pytest.raises(ShapeError, match=r"windows of size \(4,\) do not fit.*shape \(2, 3\)"):
        windows_of(np.zeros((2, 3)), (4,))
    with pytest.raises(ShapeError, match=r"dilated by \(2,\)"):
        windows(np.zeros(3), sizes=(3,), strides=(1,), dilations=(2,))
    with pytest.raises(ShapeError, match="does not hold the windows"):
        fold.type_rule(ArrayType(np.dtype(float), (3, 2)), shape=(9,), strides=(1,), dilations=(1,))
