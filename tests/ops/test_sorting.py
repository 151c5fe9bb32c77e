"""The order operations: stability in both directions, searching row by row."""

import numpy as np
import pytest

from wengert.errors import ShapeError
from wengert.ops import sorting
from wengert.transforms.check import check_grads

RNG = np.random.default_rng(5)


@pytest.mark.parametrize("dtype", [np.float64, np.int8, np.uint16, bool])
@pytest.mark.parametrize("axis", [0, 1])
def test_descending_order_is_stable(dtype, axis):
    x = RNG.integers(0, 3, size=(7, 6)).astype(dtype)
    order = sorting.argsort(x, axis=axis, descending=True)
    expected = np.argsort(-x.astype(float), axis=axis, kind="stable")
    np.testing.assert_array_equal(order, expected)


@pytest.mark.parametrize("levels", [4, 10**9])
@pytest.mark.parametrize("special", [None, np.nan, 0.0])
def test_large_arrays_are_sorted_stably(levels, special):
    x = RNG.integers(1, levels, size=(40, 50)).astype(float)
    if special is not None:
        x[3, 10:20] = special
        x[3, 5] = -special
    for axis in (0, 1):
        expected = np.argsort(x, axis=axis, kind="stable")
        np.testing.assert_array_equal(sorting.argsort(x, axis=axis, descending=False), expected)
        mirrored = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
        np.testing.assert_array_equal(
            sorting.argsort(x, axis=axis, descending=True),
            x.shape[axis] - 1 - np.flip(mirrored, axis),
        )


@pytest.mark.parametrize("shape", [(5,), (2, 3), (2, 3, 4)])
def test_along_takes_along_the_axis(shape):
    x = RNG.normal(size=shape)
    for axis in range(len(shape)):
        few = (*shape[:axis], 2, *shape[axis + 1 :])
        indices = RNG.integers(0, shape[axis], size=few)
        expected = np.take_along_axis(x, indices, axis)
        np.testing.assert_array_equal(sorting.along(x, indices, axis), expected)
        check_grads(lambda x, i=indices, a=axis: sorting.along(x, i, a) ** 2, (x,))


def test_searching_row_by_row():
    rows = np.sort(RNG.normal(size=(2, 3, 5)))
    values = RNG.normal(size=(2, 3, 4))
    found = sorting.searchsorted(rows, values, side="left", leading=2)
    np.testing.assert_array_equal(found, np.sum(rows[..., None, :] < values[..., None], axis=-1))


def test_searching_needs_one_line():
    with pytest.raises(ShapeError, match=r"got a sorted array of shape \(\), expected one axis"):
        sorting.searchsorted(1.0, 2.0, side="left", leading=0)
