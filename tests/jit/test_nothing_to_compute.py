"""Programs on arrays without elements refuse what NumPy refuses; things that are no numbers too."""

import numpy as np
import pytest

import wengert as wg
from wengert.errors import DTypeError

EMPTY = np.zeros((0, 3))
INDEXED = {
    "a list": lambda x, k: x[:, [7]],
    "an array": lambda x, k: x[:, np.array([7])],
    "a traced array": lambda x, k: x[:, k],
    "traced, from behind": lambda x, k: x[:, -k],
    "take": lambda x, k: np.take(x, k, axis=1),
    "a pair": lambda x, k: x[np.zeros((0, 1), int), k],
}


@pytest.mark.parametrize("name", INDEXED)
def test_an_index_out_of_range_of_nothing(name):
    for function in (INDEXED[name], lambda x, k: np.sum(INDEXED[name](x, k))):
        with pytest.raises(IndexError):
            wg.jit(function)(EMPTY, np.array([7]))
    with pytest.raises(IndexError):
        wg.grad(lambda x: np.sum(INDEXED[name](x, np.array([7]))))(EMPTY)


def test_indices_in_range_of_nothing():
    assert wg.jit(lambda x, k: x[:, k])(EMPTY, np.array([2, -3])).shape == (0, 2)
    assert wg.jit(lambda x, k: x[k])(np.ones(3), np.zeros((2, 0), int)).shape == (2, 0)
    with pytest.raises(IndexError):
        wg.jit(lambda x, k: x[k])(np.ones(0), np.array([0]))


def test_writes_out_of_range_of_nothing():
    def write(x, k):
        x = x.copy()
        x[:, k] = 1.0
        return x

    assert wg.jit(write)(EMPTY, np.array([2])).shape == (0, 3)
    with pytest.raises(IndexError):
        wg.jit(write)(EMPTY, np.array([7]))


class Holder:
    """Gives an array when asked for one."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return self.array


NO_NUMBERS = [
    np.array([1, None], object),
    np.array(["a", "b"]),
    np.array([b"a"]),
    np.array(["2020-01-01"], "M8[D]"),
    np.array([1, 2], "m8[s]"),
    np.zeros(2, "i4,f4"),
    np.zeros(2, "V3"),
]


@pytest.mark.parametrize("array", NO_NUMBERS, ids=[str(a.dtype) for a in NO_NUMBERS])
def test_arrays_of_other_things(array):
    for given in (array, Holder(array)):
        for call in (wg.jit(lambda x: x + 1), wg.grad(np.sum), wg.vmap(lambda x: x)):
            with pytest.raises(DTypeError, match=r"is an array of dtype .*, expected numbers"):
                call(given)
    for function in (lambda x: x * array, lambda x: np.minimum(array, x), lambda x: x < array):
        with pytest.raises(TypeError):
            wg.jit(function)(np.ones(2))


def test_what_gives_numbers_is_taken():
    assert wg.jit(lambda x: x + 1)(Holder(np.ones(2))).tolist() == [2, 2]
    assert wg.grad(np.sum)(Holder(np.ones(2))).tolist() == [1, 1]
