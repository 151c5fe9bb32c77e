"""Arrays that are turned on the way: squares in registers give what single elements give."""

from __future__ import annotations

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp

SHAPES = [(64, 196), (33, 100), (48, 16), (16, 16), (20, 40), (3, 64, 48), (128, 31), (130, 129)]


def numbers(shape, dtype):
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64, bool])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_reading_and_writing_the_other_way(shape, dtype):
    x = numbers(shape, dtype)
    y = np.swapaxes(numbers(shape, dtype), -1, -2).copy()

    def reading(x, y):
        return wnp.where(y, wnp.swapaxes(x, -1, -2), y)

    def both(x, y):
        turned = wnp.swapaxes(y, -1, -2)
        return wnp.where(x, turned, x), turned

    for function in (reading, both):
        got, want = (f(x, y) for f in (wg.jit(function), function))
        np.testing.assert_equal(got, want)


def test_mixed_types():
    x, y = numbers((70, 50), np.float32), numbers((50, 70), np.float64)
    function = lambda x, y: wnp.swapaxes(x, 0, 1) * y + wnp.arange(70)
    np.testing.assert_array_equal(wg.jit(function)(x, y), function(x, y))


@pytest.mark.parametrize("shape", [(40, 64), (64, 196), (17, 33)])
def test_in_place(shape):
    """The gradient lies the other way, and the parameter is both read and written."""
    x, g = numbers(shape, np.float32), numbers(shape[::-1], np.float32)
    state = wg.tensor(x.copy())

    @wg.jit
    def update(g):
        state[...] = state - 0.5 * wnp.swapaxes(g, 0, 1)

    for _ in range(2):
        update(g)
    np.testing.assert_array_equal(np.asarray(state), x - g.T)


def test_squares_are_turned_in_registers():
    """No element is loaded alone where whole vectors are."""
    text = wg.jit(lambda x: wnp.swapaxes(x, 0, 1) * 2).explain(np.ones((64, 64), np.float32)).llvm
    assert text.count("shufflevector") >= 16
    assert "insertelement" not in text
