"""Reads and writes at constant places that lie at equal distances are those of slices."""

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert.graph import verify
from wengert.passes import optimise

RNG = np.random.default_rng(11)
X = RNG.normal(size=(5, 6, 4))
TABLES = ("gather", "scatter_set", "scatter_add")


def tables(function, *args):
    """The reads and writes by tables that are left of a function, which gives what it gave."""
    graph = wg.trace(function, *args)
    found = optimise(graph)
    verify(found)
    np.testing.assert_allclose(found(*args), graph(*args), rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(wg.jit(function)(*args), graph(*args), rtol=1e-13, atol=1e-15)
    return [node.op.name for node in found.operators if node.op.name in TABLES]


SLICES = [
    ([3, 2, 1],),
    ([0, 2, 4], 1),
    (slice(None), [1, 3, 5]),
    (slice(None), [5, 3, 1], slice(1, 3)),
    (2, slice(None), [0, 1]),
    ([-1, -2, -3], 2, 3),
    (np.arange(5)[:, None], np.arange(0, 6, 2)),
    (np.arange(4)[:, None], slice(None), np.arange(3)),
    (np.arange(3), np.arange(2)[:, None], -1),
    (np.array([[1, 2, 3]]),),
    (np.array([4, 2], np.uint8), 0),
    ([2],),
]
COUNT = np.arange(6)
WINDOWS = [
    (COUNT[:3, None] + COUNT[:2],),
    (slice(None), COUNT[:4, None] + COUNT[:3]),
    (slice(None), COUNT[:2] + COUNT[:4, None], 1),
    (slice(None), 2 * COUNT[:2, None] + 3 * COUNT[:2]),
    (slice(None), 3 + COUNT[:3, None] - COUNT[:3]),
    (slice(None), 4 - COUNT[:3, None] - COUNT[:3], slice(1, 3)),
    (4 + COUNT[:1, None], 5 - 2 * COUNT[:3] + COUNT[:1, None]),
    (
        COUNT[:3, None, None, None] + COUNT[:3, None],
        COUNT[:4, None, None] + COUNT[:2],
        2,
    ),
    (COUNT[:2, None, None] + COUNT[:2], 2, COUNT[:4, None]),
    (COUNT[:2] + COUNT[:2, None, None] + 1, COUNT[:4, None]),
]


@pytest.mark.parametrize("key", SLICES, ids=str)
def test_no_table_is_left(key):
    assert tables(lambda x: x[key], X) == []
    value = RNG.normal(size=X[key].shape)

    def write(x, value):
        y = wnp.array(x)
        y[key] = value
        return y

    def add(x, value):
        y = wnp.array(x)
        y[key] += value
        return y

    def add_at(x, value):
        y = wnp.array(x)
        np.add.at(y, key, value)
        return y

    for function in (write, add):
        assert tables(function, X, value) == []
        assert tables(function, X, value[..., :1].sum()) == []
    for one in (value, value[..., :1].sum()):
        tables(add_at, X, one)


@pytest.mark.parametrize("key", WINDOWS, ids=str)
def test_overlapping_places_are_windows(key):
    assert tables(lambda x: x[key], X) == []
    value = RNG.normal(size=X[key].shape)

    def slope(x, value):
        return wg.grad(lambda x: wnp.sum(x[key] * value))(x)

    assert tables(slope, X, value) == []
    wanted = np.zeros_like(X)
    np.add.at(wanted, key, value)
    np.testing.assert_allclose(wg.jit(slope)(X, value), wanted, rtol=1e-13, atol=1e-15)


TABLED = [([0, 1, 3],), ([1, 1],), ([0, 1, 2], [0, 1, 2]), ([[0, 1], [3, 2]],), ([1, -4, 3],)]


@pytest.mark.parametrize("key", TABLED, ids=str)
def test_other_places_stay_tables(key):
    assert tables(lambda x: x[key], X) == ["gather"]


def test_places_that_do_not_exist_stay_errors():
    compiled = wg.jit(lambda x, p: wnp.take(x, p, axis=0))
    with pytest.raises(IndexError):
        compiled(X, np.array([3, 4, 5]))
    with pytest.raises(IndexError):
        wg.jit(lambda x: wnp.array(x)[np.array([3, 4, 5])])(X)


def test_signs_of_zeros_are_kept():
    def f(x):
        y = wnp.array(x)
        np.add.at(y, [0, 2], -0.0)
        return y

    got = wg.jit(f)(np.array([0.0, -0.0, -0.0]))
    np.testing.assert_array_equal(np.signbit(got), [False, True, True])


def test_another_dtype_is_converted_as_it_is_written():
    def f(x, v):
        y = wnp.array(x)
        y[[0, 1, 2, 3, 4]] = v
        return y

    v = RNG.normal(size=(5, 6, 4))
    got = wg.jit(f)(X.astype(np.float32), v)
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, v.astype(np.float32))


def test_whole_arrays_are_themselves():
    (left,) = [optimise(wg.trace(lambda x: wnp.array(x)[:, :] * 2, X))]
    assert [node.op.name for node in left.operators] == ["multiply"]
