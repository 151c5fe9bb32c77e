"""Taking, putting and scattering elements, plain and traced."""

import numpy as np
import pytest

import wengert.numpy as wnp
from wengert.errors import ConversionError, DTypeError, OutOfRangeError, ShapeError
from wengert.transforms.batching import vmap
from wengert.transforms.check import check_grads
from wengert.transforms.reverse import grad, vjp

RNG = np.random.default_rng(11)
V = RNG.normal(size=5)
M = RNG.normal(size=(3, 4))
T = RNG.normal(size=(2, 3, 4))
ORDER = np.argsort(M, axis=1)


def written(name, *args, **kwargs):
    """A program that writes to a copy of its first argument."""

    def program(xp, x, *traced):
        y = x.copy()
        getattr(xp, name)(y, *[a if not callable(a) else a(*traced) for a in args], **kwargs)
        return y

    return program


CASES = {
    "take": [lambda xp, x: xp.take(x, [0, 7, 7, -1]), M],
    "take axis": [lambda xp, x: xp.take(x, np.array([[0, 2], [1, 1]]), axis=1), T],
    "take one": [lambda xp, x: xp.take(x, 2, axis=0), M],
    "take wrap": [lambda xp, x: xp.take(x, [5, -9, 1], axis=1, mode="wrap"), M],
    "take clip": [lambda xp, x: xp.take(x, [5, -9, 1], axis=1, mode="clip"), M],
    "take_along_axis": [lambda xp, x: xp.take_along_axis(x, ORDER, axis=1), M],
    "take_along_axis 0": [lambda xp, x: xp.take_along_axis(x, ORDER[:2] % 3, axis=0), M],
    "take_along_axis flat": [lambda xp, x: xp.take_along_axis(x, np.array([3, 3]), axis=None), M],
    "compress": [lambda xp, x: xp.compress([True, False, True], x, axis=0), M],
    "compress flat": [lambda xp, x: xp.compress([False, True, True], x), M],
    "extract": [lambda xp, x: xp.extract(M > 0, x), M],
    "choose": [lambda xp, x, y: xp.choose([2, 0, 1, 0], [x, y[0], 3.0]), M[0], M],
    "choose wrap": [lambda xp, x, y: xp.choose(ORDER, [x, y], mode="wrap"), M, M * 2],
    "ix_": [lambda xp, x: x[xp.ix_([2, 0], [1, 3])], M],
    "put": [written("put", [0, 5, -1], lambda y: y), M, V[:3]],
    "put repeats": [written("put", [0, 5, 2, 0], lambda y: y), M, V[:3]],
    "put clip": [written("put", [40, 1], lambda y: y, mode="clip"), M, V[:2]],
    "put_along_axis": [
        written("put_along_axis", ORDER[:, :2], lambda y: y, axis=1), M, M[:, :2],
    ],
    "place": [written("place", M > 0, lambda y: y), M, V[:2]],
    "putmask": [written("putmask", M > 0, lambda y: y), M, V],
    "copyto": [written("copyto", lambda y: y), M, V[:4]],
    "copyto where": [written("copyto", lambda y: y, where=M > 0), M, V[:1]],
    "fill_diagonal": [written("fill_diagonal", lambda y: y), M, V[:3]],
    "fill_diagonal wrap": [
        written("fill_diagonal", lambda y: y, wrap=True), RNG.normal(size=(7, 2)), V[:2],
    ],
    "fill_diagonal 3d": [
        written("fill_diagonal", lambda y: y), RNG.normal(size=(2, 2, 2)), V[0],
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_equals_numpy_with_derivatives(name):
    function, *args = CASES[name]
    expected = function(np, *args)
    plain = function(wnp, *args)
    traced, _ = vjp(lambda *xs: function(wnp, *xs), *args)
    through_numpy, _ = vjp(lambda *xs: function(np, *xs), *args)
    for got in (plain, traced, through_numpy):
        np.testing.assert_array_equal(got, expected)
        assert got.dtype == expected.dtype
    check_grads(lambda *xs: function(wnp, *xs), args)


@pytest.mark.parametrize("name", CASES)
def test_vmap_equals_loop(name):
    function, *args = CASES[name]
    batches = [np.stack([a, 2 * a]) for a in args]
    got = vmap(lambda *xs: function(wnp, *xs))(*batches)
    expected = [function(np, *[b[k] for b in batches]) for k in range(2)]
    np.testing.assert_array_equal(got, np.stack(expected))


KEYS = [
    2, -1, slice(1, None), (0, 1), (slice(None), 1), ..., (..., 0), None, (None, 1, None),
    (slice(None, None, -2), slice(3, 0, -1)), [0, 2], ([0, 2], [1, 1]), (0, [1, 2]),
    (slice(None), [0, 0, 3]), ([1, 0], slice(None), None), np.array([[0, 1], [2, 2]]),
    M > 0, M[:, 0] > 0, (slice(None), M[0] > 0), (1, M[0] > 0), (..., M[0] > 0), (None, [1, 2]),
    ([0], None, [1]), np.int64(1), np.array(2), (), [], slice(5, 9), (range(2), 0),
    ([[0], [2]], [0, 3]), (np.ones(3, bool), 1), ((0, 1), (1, 2)),
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_every_kind_of_key(key):
    expected = M[key]
    value, _ = vjp(lambda x: x[key], M)
    np.testing.assert_array_equal(value, expected)
    check_grads(lambda x: x[key] ** 2, (M,))

    def write(xp, x):
        y = x.copy()
        y[key] *= 3.0
        y[key] = x[key] * x[1, 1]
        return y

    np.testing.assert_allclose(vjp(lambda x: write(wnp, x), M)[0], write(np, M), rtol=1e-15)
    check_grads(lambda x: write(wnp, x), (M,))


def test_keys_around_an_axis_in_the_middle():
    x = RNG.normal(size=(2, 3, 4, 2))
    for key in [
        (slice(None), [0, 2], [1, 1]),
        ([0, 1], slice(None), [1, 3]),
        (slice(None), [[0], [1]], slice(None), [1, 0]),
        (0, slice(None), [1, 2]),
        (slice(None), x[0, :, :, 0] > 0),
        (..., [0, 1, 1]),
    ]:
        value, _ = vjp(lambda x, key=key: x[key], x)
        np.testing.assert_array_equal(value, x[key])
        new = np.arange(x[key].size, dtype=float).reshape(x[key].shape)

        def write(x, key=key, new=new):
            y = x.copy()
            y[key] = new * x[0, 0, 0, 0]
            return y

        np.testing.assert_array_equal(vjp(write, x)[0], write(x))


def test_traced_indices():
    def f(x):
        order = wnp.argsort(x)
        y = x[order]
        y[order[0]] = y[order[1]] * x[[order[0], 1]][0]
        return wnp.sum(y * np.arange(5.0)) + x[order[-1]]

    check_grads(f, (V,))
    batch = np.stack([V, V[::-1], -V])
    np.testing.assert_allclose(vmap(f)(batch), [f(v) for v in batch])
    np.testing.assert_allclose(vmap(grad(f))(batch), [grad(f)(v) for v in batch])


def test_places_of_flat_positions():
    flat = np.array([0, 7, 11])
    for order in "CF":
        expected = np.unravel_index(flat, (3, 4), order)
        got = vjp(lambda z, o=order: wnp.unravel_index(wnp.array(flat), (3, 4), o), 1.0)[0]
        np.testing.assert_array_equal(got, expected)
        back = vjp(
            lambda z, o=order, e=expected: wnp.ravel_multi_index(
                [wnp.array(part) for part in e], (3, 4), order=o
            ),
            1.0,
        )[0]
        np.testing.assert_array_equal(back, flat)
    assert wnp.ravel_multi_index((1, 2), (3, 4)) == 6


# ---------------------------------------------------------------- scatter

PLACES = np.array([2, 0, 2, -1])
NEW = RNG.normal(size=4)


@pytest.mark.parametrize(
    "ours, method",
    [
        (wnp.scatter_add, np.add.at),
        (wnp.scatter_max, np.maximum.at),
        (wnp.scatter_min, np.minimum.at),
        (wnp.scatter_set, lambda x, i, v: x.__setitem__(i, v)),
    ],
)
def test_scatter(ours, method):
    expected = V.copy()
    method(expected, PLACES, NEW)
    np.testing.assert_array_equal(ours(V, PLACES, NEW), expected)
    check_grads(lambda x, v: ours(x, PLACES, v), (V, NEW))
    check_grads(lambda x, v: ours(x, PLACES, v, axis=1), (T, RNG.normal(size=(2, 4, 4))))
    turned = T.copy()
    method(turned, (slice(None), np.array([0, 2, 2])), T[:, 1:2] * 2)
    np.testing.assert_array_equal(ours(T, [0, 2, 2], T[:, 1:2] * 2, axis=1), turned)
    batch = np.stack([V, 2 * V])
    got = vmap(lambda x: ours(x, PLACES, NEW))(batch)
    np.testing.assert_array_equal(got, [ours(x, PLACES, NEW) for x in batch])
    with pytest.raises(OutOfRangeError, match="got the index 5 for an axis of length 5"):
        ours(V, [5], 1.0)
    with pytest.raises(ShapeError, match=r"got values of shape \(3,\) for 4 places"):
        ours(V, PLACES, np.ones(3))
    with pytest.raises(DTypeError, match="expected integers"):
        ours(V, np.array([1.0]), 1.0)
    assert ours(V.astype(np.float32), PLACES, NEW).dtype == np.float32


def test_ties_of_scatter_max_share_equally():
    x, v = np.array([1.0, 2.0, 0.0]), np.array([2.0, 2.0, 1.0])
    places = np.array([1, 1, 1])
    for function, sign in ((wnp.scatter_max, 1), (wnp.scatter_min, -1)):
        _, pullback = vjp(lambda x, v, f=function: f(x, places, v), sign * x, sign * v)
        dx, dv = pullback(np.ones(3))
        np.testing.assert_allclose(dx, [1, 1 / 3, 1])
        np.testing.assert_allclose(dv, [1 / 3, 1 / 3, 0])


def test_multiply_at_is_exact_at_zero():
    def f(x, v):
        y = x.copy()
        np.multiply.at(y, [0, 0, 0, 1, 0], v)
        np.divide.at(y, [1, 1], 2.0)
        return y

    check_grads(f, (np.array([2.0, 3.0]), np.array([0.0, 0.0, 1.5, 0.5, -2.0])), order=3)


def test_in_place_functions_need_a_traced_target():
    plain = np.zeros(5)
    for change in (
        lambda x: np.put(plain, [0], x[0]),
        lambda x: np.copyto(plain, x),
        lambda x: np.putmask(plain, plain == 0, x),
        lambda x: np.add.at(plain, [0], x[0]),
    ):
        with pytest.raises(ConversionError, match=r"Make the array in the function, with np.z"):
            grad(lambda x, change=change: (change(x), wnp.sum(x))[1])(V)


def test_errors():
    def error(kind, match, function, x=M):
        with pytest.raises(kind, match=match):
            vjp(function, x)

    error(OutOfRangeError, "got the index 12", lambda x: wnp.take(x, [12]))
    error(OutOfRangeError, "got the index 3 for axis 0", lambda x: x[3])
    error(OutOfRangeError, "got 3 indices for an array of shape", lambda x: x[0, 0, 0])
    error(OutOfRangeError, "more than one ellipsis", lambda x: x[..., ...])
    error(OutOfRangeError, r"got index arrays of shapes \(2,\) and \(3,\), which do not broadcast",
          lambda x: x[[0, 1], [0, 1, 2]])  # fmt: skip
    error(DTypeError, "Use integers, slices, None", lambda x: x[1.5])
    error(DTypeError, "got a single boolean", lambda x: x[True])
    error(DTypeError, "expected integers or booleans", lambda x: x[np.array([0.5])])
    error(ValueError, "mode is 'raise', 'wrap' or 'clip'", lambda x: wnp.take(x, [0], mode="no"))
    error(ShapeError, "Both must have the same number of axes",
          lambda x: wnp.take_along_axis(x, np.array([0]), axis=1))  # fmt: skip
    error(ShapeError, "Give a matrix", lambda x: wnp.fill_diagonal(x.copy(), 0.0), V)
    error(DTypeError, "with casting 'same_kind'",
          lambda x: wnp.copyto(wnp.zeros(2, int), x[0, :2]))  # fmt: skip
