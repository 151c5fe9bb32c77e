"""Sorting and counting: NumPy's results, derivatives that follow the elements, clear errors."""

import functools

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert import jit
from wengert.errors import AbstractValueError, OutOfRangeError, ShapeError
from wengert.transforms.batching import vmap
from wengert.transforms.check import check_grads
from wengert.transforms.jacobian import hessian, jacobian
from wengert.transforms.reverse import grad

RNG = np.random.default_rng(11)
REAL = RNG.permutation(np.linspace(-2.0, 2.0, 24)).reshape(2, 3, 4)
TIED = RNG.integers(0, 4, size=(5, 6))


def assert_same(got, expected):
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize(
    "x", [REAL, REAL.astype(np.float32), TIED, TIED > 1, REAL + 1j * TIED[0, 0]]
)
def test_sorted_as_numpy(x, axis):
    assert_same(wnp.sort(x, axis), np.sort(x, axis))
    assert_same(wnp.argsort(x, axis), np.argsort(x, axis, kind="stable"))
    assert_same(wnp.sort(x, axis, stable=True), np.sort(x, axis, stable=True))


def test_descending_is_stable():
    x = np.array([2, 1, 2, 3, 1], np.uint8)
    np.testing.assert_array_equal(wnp.argsort(x, descending=True), [3, 0, 2, 1, 4])
    assert_same(wnp.sort(x, descending=True), np.array([3, 2, 2, 1, 1], np.uint8))


def test_nan_is_last_and_empty_is_empty():
    x = np.array([np.nan, 1.0, -np.inf])
    assert_same(wnp.sort(x), np.array([-np.inf, 1.0, np.nan]))
    assert_same(wnp.sort(np.zeros((2, 0))), np.zeros((2, 0)))


def test_partition_is_sorted():
    assert_same(wnp.partition(REAL, 1), np.sort(REAL))
    assert_same(wnp.argpartition(REAL, (0, -1), axis=0), np.argsort(REAL, axis=0))
    with pytest.raises(ShapeError, match="got kth=4 for an axis of length 4"):
        wnp.partition(REAL, 4)


def test_top_k():
    values, places = wnp.top_k(REAL, 2, axis=1)
    assert_same(values, -np.sort(-REAL, axis=1)[:, :2])
    assert_same(np.take_along_axis(REAL, places, 1), values)
    values, places = wnp.top_k(np.array([1, 3, 3, 0, 3]), 3)
    assert_same(places, np.array([1, 2, 4]))
    assert_same(wnp.top_k(REAL, 0)[0], np.zeros((2, 3, 0)))
    with pytest.raises(ShapeError, match=r"got k=5 for an axis of length 4\. Give 0 <= k <= 4"):
        wnp.top_k(REAL, 5)


def test_lexsort():
    keys = RNG.integers(0, 3, size=(3, 20))
    assert_same(wnp.lexsort(keys), np.lexsort(keys))
    assert_same(wnp.lexsort((TIED, TIED[::-1]), axis=0), np.lexsort((TIED, TIED[::-1]), axis=0))
    with pytest.raises(ShapeError, match=r"lexsort .*: got no keys"):
        wnp.lexsort(())


@pytest.mark.parametrize("axis", [None, 0, 1, 2])
def test_derivatives(axis):
    check_grads(lambda x: wnp.sort(x, axis) ** 2, (REAL,))
    check_grads(lambda x: wnp.sort(x, axis, descending=True) ** 3, (REAL,), order=3)


def test_derivative_of_top_k():
    check_grads(lambda x: wnp.top_k(x, 2)[0] ** 2, (REAL,))
    x = np.array([3.0, 1.0, 7.0])
    np.testing.assert_array_equal(grad(lambda x: wnp.sum(wnp.top_k(x, 2)[0] ** 2))(x), [6, 0, 14])


def test_ties_keep_their_order():
    slopes = jacobian(wnp.sort)(np.array([2.0, 1.0, 2.0, 1.0]))
    np.testing.assert_array_equal(slopes, np.eye(4)[[1, 3, 0, 2]])
    second = hessian(lambda x: wnp.sum(wnp.sort(x) ** 2 * np.arange(4.0)))(np.ones(4))
    np.testing.assert_array_equal(second, np.diag([0.0, 2.0, 4.0, 6.0]))


def test_methods_and_plain_numpy():
    f = lambda x: np.sum(np.sort(x)[..., 1] * x.argsort()[..., 0])
    g = lambda x: wnp.sum(wnp.sort(x)[..., 1] * wnp.argsort(x)[..., 0])
    np.testing.assert_array_equal(grad(f)(REAL), grad(g)(REAL))

    def in_place(x):
        x = x.copy()
        x.sort(axis=0)
        return x[0, 0, 0]

    expected = np.zeros(REAL.shape)
    expected[np.argmin(REAL[:, 0, 0]), 0, 0] = 1.0
    np.testing.assert_array_equal(grad(in_place)(REAL), expected)


def test_batched():
    for f in (wnp.sort, wnp.argsort, lambda x: wnp.top_k(x, 2)[0], lambda x: wnp.lexsort((x, -x))):
        np.testing.assert_array_equal(vmap(f)(REAL), [f(row) for row in REAL])
    lines = np.sort(REAL)
    found = vmap(vmap(wnp.searchsorted))(lines, REAL)
    assert_same(found, np.argsort(np.argsort(REAL)))
    assert_same(vmap(wnp.searchsorted, in_axes=(None, 0))(lines[0, 0], REAL[0]),
                np.searchsorted(lines[0, 0], REAL[0]))  # fmt: skip
    assert_same(vmap(wnp.searchsorted, in_axes=(0, None))(lines[0], 0.5),
                np.sum(lines[0] < 0.5, axis=1))  # fmt: skip


# ---------------------------------------------------------------- searching and counting


def test_searchsorted():
    a = np.array([0.0, 1.0, 1.0, 2.0])
    for side in ("left", "right"):
        assert_same(wnp.searchsorted(a, REAL, side), np.searchsorted(a, REAL, side))
        assert_same(wnp.searchsorted(a, 1.0, side), np.searchsorted(a, 1.0, side))
    with pytest.raises(ShapeError, match="got side='middle'"):
        wnp.searchsorted(a, 1.0, "middle")
    with pytest.raises(ShapeError, match=r"a sorted array of shape \(2, 2\), expected one axis"):
        wnp.searchsorted(np.ones((2, 2)), 1.0)


def test_digitize():
    bins = np.array([-1.0, 0.0, 0.5, 0.5, 1.0])
    for right in (False, True):
        for edges in (bins, bins[::-1], bins[:1]):
            assert_same(wnp.digitize(REAL, edges, right), np.digitize(REAL, edges, right))
    with pytest.raises(ShapeError, match="the bins neither increase nor decrease"):
        wnp.digitize(REAL, [0.0, 2.0, 1.0])


def test_unique_values_are_elements():
    x = np.array([3.0, 1.0, 3.0])
    seen = []

    def f(x):
        assert_same(wg.stop_gradient(wnp.unique(x)), [1.0, 3.0])
        seen.extend((np.unique(x, return_inverse=True)[1], wnp.unique_counts(x).counts))
        return wnp.sum(x * wnp.unique(x)[1])

    np.testing.assert_array_equal(grad(f)(x), [10.0, 3.0, 3.0])  # of equal ones the first
    assert_same(seen[0], [1, 0, 1])
    assert_same(seen[1], [1, 2])
    for name in ("unique_all", "unique_inverse", "unique_counts"):
        for got, expected in zip(getattr(wnp, name)(x), getattr(np, name)(x), strict=True):
            assert_same(got, expected)
    assert_same(wnp.unique_values(x), np.unique_values(x))


SETS = {  # slopes of the values, weighted with 1, 2, ..., by elements of both lines
    lambda x, y: np.unique_values(x): ([4, 2, 3, 1], [0, 0, 0]),
    np.union1d: ([4, 2, 3, 1], [0, 5, 0]),
    np.intersect1d: ([0, 1, 2, 0], [0, 0, 0]),
    np.setdiff1d: ([2, 0, 0, 1], [0, 0, 0]),
    np.setxor1d: ([2, 0, 0, 1], [0, 3, 0]),
    functools.partial(np.setdiff1d, assume_unique=True): ([1, 0, 0, 2], [0, 0, 0]),
    lambda x, y: np.unique(x): ([4, 2, 3, 1], [0, 0, 0]),
    lambda x, y: np.unique(x, return_counts=True)[0]: ([4, 2, 3, 1], [0, 0, 0]),
    lambda x, y: np.unique_all(x).values: ([4, 2, 3, 1], [0, 0, 0]),
    lambda x, y: np.intersect1d(x, y, return_indices=True)[0]: ([0, 1, 2, 0], [0, 0, 0]),
}


@pytest.mark.parametrize("f", SETS)
def test_values_of_sets_have_the_derivatives_of_their_elements(f):
    x, y = np.array([3.0, 1.0, 2.5, 0.5]), np.array([2.5, 4.0, 1.0])
    weights = np.arange(1.0, f(x, y).size + 1)
    by_x, by_y = grad(lambda x, y: np.sum(weights * f(x, y)), (0, 1))(x, y)
    np.testing.assert_array_equal(by_x, SETS[f][0])
    np.testing.assert_array_equal(by_y, SETS[f][1])
    assert_same(wg.jvp(f, (x, y), (x, y))[0], f(x, y))


ROWS = np.array([[2.0, 1.0], [0.5, 1.5], [2.0, 1.0]])


def test_rows_that_differ_have_the_derivatives_of_their_elements():
    slopes = grad(lambda x: np.sum(np.array([[1.0, 2.0], [3.0, 4.0]]) * np.unique(x, axis=0)))(ROWS)
    np.testing.assert_array_equal(slopes, [[3.0, 4.0], [1.0, 2.0], [0.0, 0.0]])


def test_nonzero():
    for got, expected in zip(wnp.nonzero(TIED), np.nonzero(TIED), strict=True):
        assert_same(got, expected)
    assert_same(wnp.flatnonzero(TIED), np.flatnonzero(TIED))
    assert_same(wnp.argwhere(TIED), np.argwhere(TIED))


@pytest.mark.parametrize("name", ["unique", "unique_all", "nonzero", "flatnonzero", "argwhere"])
def test_unknown_values(name):
    with pytest.raises(
        AbstractValueError, match=rf"{name} \(at .*\): the shape of the result depends on values"
    ):
        vmap(lambda x: getattr(wnp, name)(x))(REAL)


def test_bincount():
    x = np.array([1, 4, 1, 0])
    weights = np.array([0.5, 1.0, 2.0, 3.0])
    assert_same(wnp.bincount(x), np.bincount(x))
    assert_same(wnp.bincount(x, minlength=7), np.bincount(x, minlength=7))
    assert_same(wnp.bincount(x, weights), np.bincount(x, weights))
    assert_same(wnp.bincount(np.zeros(0, int)), np.bincount(np.zeros(0, int)))
    check_grads(lambda w: wnp.bincount(x, w) ** 2, (weights,))
    rows = vmap(lambda x, w: wnp.bincount(x, w, length=5))(
        np.stack([x, x]), np.stack([weights] * 2)
    )
    assert_same(rows, [np.bincount(x, weights)] * 2)
    with pytest.raises(ShapeError, match="got the number -1"):
        wnp.bincount([0, -1])
    with pytest.raises(ShapeError, match=r"got f64\[2\], expected a line of integers >= 0"):
        wnp.bincount([0.5, 1.0])
    with pytest.raises(ShapeError, match=r"got 2 numbers and weights of shape \(3,\)"):
        wnp.bincount([0, 1], np.ones(3))
    with pytest.raises(OutOfRangeError, match="got the index 4 for an axis of length 3"):
        wnp.bincount(x, length=3)


@pytest.mark.parametrize("density", [None, True])
def test_histogram(density):
    weights = RNG.uniform(size=REAL.shape)
    for given in (None, weights):
        for bins in (4, np.array([-1.0, 0.0, 1.5])):
            got = wnp.histogram(REAL, bins, density=density, weights=given)
            expected = np.histogram(REAL, bins, density=density, weights=given)
            np.testing.assert_allclose(got[0], expected[0], rtol=1e-13)
            assert_same(got[1], expected[1])
    check_grads(lambda w: wnp.histogram(REAL, 3, density=density, weights=w)[0], (weights,))


@pytest.mark.parametrize("size", [0, 2, 40])
def test_places_of_a_fixed_number(size):
    mask = TIED * (RNG.uniform(size=TIED.shape) < 0.4)
    filled = lambda places: np.append(places, np.full(max(size - len(places), 0), -1))[:size]
    f = lambda x: wnp.nonzero(x, size=size, fill_value=-1)
    for run in (f, jit(f), lambda x: [part[1] for part in vmap(f)(np.stack([x, x]))]):
        for got, want in zip(run(mask), np.nonzero(mask), strict=True):
            np.testing.assert_array_equal(got, filled(want))
    flat = jit(lambda x: wnp.flatnonzero(x, size=size, fill_value=-1))(mask)
    np.testing.assert_array_equal(flat, filled(np.flatnonzero(mask)))
    rows = jit(lambda x: wnp.argwhere(x, size=size, fill_value=-1))(mask)
    np.testing.assert_array_equal(rows.T, [filled(part) for part in np.nonzero(mask)])
    x = np.arange(1.0, 4.0)
    np.testing.assert_array_equal(
        grad(lambda x: np.sum(x[wnp.nonzero(x > 1, size=2)]))(x), [0, 1, 1]
    )
