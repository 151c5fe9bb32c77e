"""Compiled code touches its arrays and nothing beside them, whatever their lengths.

Each array ends or begins at a page that may not be touched; one step too far is a fault. Lengths
lie around multiples of the lanes of every dtype.
"""

import numpy as np
import pytest

import guarded
import wengert as wg
import wengert.numpy as wnp

DTYPES = ["i1", "u2", "i4", "i8", "f4", "f8"]
LENGTHS = (1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129)


@pytest.fixture(params=guarded.EDGES)
def _edge(request):
    with guarded.arrays_at(request.param):
        yield


def check(function, *arrays):
    found, expected = wg.jit(function)(*arrays), function(*arrays)
    for one, other in zip(found, expected, strict=True):
        if one.dtype.kind == "f":
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
        else:
            np.testing.assert_array_equal(one, other)


def numbers(length, dtype):
    return (np.arange(length) % 50).astype(dtype)


def test_a_step_too_far_is_a_fault(_edge):
    """The memory itself: new arrays lie at a page's end or beginning and are full of NaN."""
    array = np.empty(5)
    assert np.isnan(array).all()
    at = array.ctypes.data % 4096
    assert at == 0 or at + array.nbytes == 4096
    grown = np.zeros(3)
    grown.resize(2000, refcheck=False)
    assert not grown.any()


@pytest.mark.parametrize("dtype", DTYPES)
def test_elements_and_casts(dtype, _edge):
    def function(x):
        return [x + x, *[x.astype(to) for to in ("i1", "i2", "u4", "f4", "f8", "?")]]

    for length in LENGTHS:
        check(function, numbers(length, dtype))


@pytest.mark.parametrize("dtype", ["i4", "f4", "f8"])
def test_sums_and_moves(dtype, _edge):
    def function(x):
        joined = np.concatenate([x[::2], x, x[::-1]])
        return [np.sum(x), np.max(x), np.pad(x, (1, 3)), joined, np.cumsum(x), x[::3] + 1]

    for length in LENGTHS:
        check(function, numbers(length, dtype))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_rows_and_columns(dtype, _edge):
    def function(x):
        return [x.T + 1, np.sum(x, 0), np.sum(x, 1), np.sin(x) * x, x[:, ::2] * 2]

    for rows, columns in [(3, 9), (9, 3), (17, 7), (8, 33), (16, 15)]:
        check(function, numbers(rows * columns, dtype).reshape(rows, columns))


def test_gathers(_edge):
    def function(x, places):
        return [x[places], np.take(x, places[::2])]

    for length in (1, 7, 9, 17, 33):
        check(function, numbers(length, "f8"), np.arange(length)[::-1].copy())


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_products(dtype, _edge):
    for m, k, n in [(1, 1, 1), (3, 5, 7), (9, 8, 17), (4, 33, 9), (17, 17, 17), (40, 65, 31)]:
        x, y = numbers(m * k, dtype).reshape(m, k), numbers(k * n, dtype).reshape(k, n)
        check(lambda x, y: [x @ y / 1000, x @ y[:, 0] / 1000, np.tanh(x @ y / 1e4)], x, y)


def test_convolutions(_edge):
    def function(x, w):
        return [wnp.conv(x, w)]

    for side in (3, 5, 8, 9, 17):
        x = numbers(2 * 3 * side * side, "f4").reshape(2, 3, side, side)
        check(function, x / 50, numbers(4 * 3 * 9, "f4").reshape(4, 3, 3, 3) / 50)


def test_gradients_and_batches(_edge):
    def loss(w, x):
        return np.mean(np.tanh(x @ w) ** 2)

    for samples, width in [(1, 3), (9, 5), (17, 9), (33, 17)]:
        x = numbers(samples * width, "f8").reshape(samples, width) / 50
        check(lambda w, x: [wg.grad(loss)(w, x)], np.linspace(-1, 1, width), x)
