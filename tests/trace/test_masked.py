"""Masks that are not known while tracing: what can be done without the number of elements."""

from __future__ import annotations

import numpy as np
import pytest

import wengert as wg
from wengert.errors import AbstractValueError, DTypeError

X = np.array([[0.2, 0.7, 0.9], [1.4, -0.3, 0.6]])


def halved(x):
    t = x * 1.0
    t[t > 0.5] *= 0.5
    return np.sum(t**2)


def increased(x):
    t = x * 2.0
    mask = t > 1.0
    t[mask] += x[0]
    t[mask] -= 0.25
    t[~mask] = -t[~mask] * x[~mask]
    return np.sum(t**3)


def logarithm(x):
    t = x * 1.0
    t[t > 0] = np.log(t[t > 0]) + 2.0 * x[t > 0]
    return np.sum(t**2)


def number(x):
    t = x * 1.0
    t[t > 0.5] = x[0] * 3
    return np.sum(t * x)


def rows(x):
    t = np.outer(x, x)
    t[x > 0.5] = x
    t[x > 0.8] /= 4
    t[t > 0.3] **= 2
    return np.sum(t * np.arange(9.0).reshape(3, 3))


def part(x):
    t = x * 1.0
    tail = t[1:]
    tail[tail > 0.65] *= 5.0
    return np.sum(t**2)


def totals(x):
    mask = x > 0.5
    some = x[mask]
    spread = np.mean(some) + some.std() * np.var(x[mask] ** 2) + some @ x[mask] / some.size
    return spread + np.prod(some) * some.max() - np.min(some) + np.sum(mask) * some.sum(axis=0)


def clusters(x):
    points = np.outer(x, [1.0, 2.0]) + np.sin(x)[:, None] ** 2
    near = points[:, 0] > 1.0
    apart = (points[near] - points[near].mean(axis=0)) ** 2
    largest = points[near].max(0) @ [1.0, 2.0] + np.max(points[points > 1.2])
    return np.sum(apart) + np.sqrt(apart.sum(axis=1)).sum() + largest + points[~near].mean()


FUNCTIONS = [halved, increased, logarithm, number, rows, part, totals, clusters]


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_every_mode(f):
    values, slopes = [f(x) for x in X], [wg.grad(f)(x) for x in X]
    close = {"rtol": 1e-12}
    np.testing.assert_allclose(wg.vmap(f)(X), values, **close)
    np.testing.assert_allclose(wg.vmap(wg.grad(f))(X), slopes, **close)
    np.testing.assert_allclose(wg.grad(lambda x: np.sum(wg.vmap(f)(x)))(X), slopes, **close)
    np.testing.assert_allclose(wg.vmap(wg.vmap(f))(X[None])[0], values, **close)
    np.testing.assert_allclose(wg.jit(f)(X[0]), values[0], **close)
    np.testing.assert_allclose(wg.jit(wg.grad(f))(X[0]), slopes[0], **close)
    np.testing.assert_allclose(wg.jit(wg.vmap(f))(X), values, **close)
    np.testing.assert_allclose(wg.jit(wg.vmap(wg.grad(f)))(X), slopes, **close)
    np.testing.assert_allclose(wg.vmap(wg.hessian(f))(X)[0], wg.hessian(f)(X[0]), **close)


UNKNOWN = {
    "values": lambda t, m: t.__setitem__(m, np.array([1.0, 2.0])),
    "another mask": lambda t, m: t.__setitem__(t > 0.7, t[m]),
    "another array": lambda t, m: t.__setitem__(slice(None), t[m]),
    "two masks": lambda t, m: t[m] + t[t > 0.7],
    "median": lambda t, m: np.median(t[m]),
    "shape": lambda t, m: t[m].shape,
    "length": lambda t, m: np.concatenate([t[m], t]),
    "reduce": lambda t, m: np.add.reduce(t[m]),
    "array": lambda t, m: np.asarray(t[m]),
}


@pytest.mark.parametrize("transform", [wg.vmap, wg.jit], ids=["vmap", "jit"])
@pytest.mark.parametrize("use", UNKNOWN)
def test_what_needs_the_number_of_elements(use, transform):
    def f(x):
        t = x * 1.0
        UNKNOWN[use](t, t > 0.5)
        return t

    with pytest.raises(AbstractValueError, match="number of elements a boolean mask selects"):
        transform(f)(X)


def test_of_no_elements():
    """The sum is 0 and the mean is none, as in NumPy; there is no largest."""
    total, mean = wg.jit(lambda x: (x[x > 9].sum(), x[x > 9].mean()))(X)
    assert total == 0 and np.isnan(mean)
    with pytest.raises(ValueError, match=r"max .*the mask selects no elements"):
        wg.jit(lambda x: x[x > 9].max())(X)
    safe = wg.jit(wg.grad(lambda x: x[x > 9].mean() if np.any(x > 9) else np.sum(x[0] ** 2)))
    assert np.array_equal(safe(X), [2 * X[0], 0 * X[1]])


def test_dtypes_of_sums_and_means():
    x = np.array([1, 5, 7], np.int32)
    for given in (x, x.astype(np.float32), x > 2):
        for function in (np.sum, np.mean, lambda v: v.any()):
            wanted = function(given[x > 2])
            found = wg.jit(lambda g, x, function=function: function(g[x > 2]))(given, x)
            assert found == wanted and found.dtype == wanted.dtype


def test_result_cannot_have_an_unknown_length():
    with pytest.raises(AbstractValueError, match="number of elements"):
        wg.vmap(lambda x: x[x > 0.5])(X)


def test_integers_do_not_become_floats_in_place():
    def f(x):
        t = x * 2
        t[t > 2] *= 0.5
        return t

    with pytest.raises(DTypeError, match="the array it must fit into i64"):
        wg.vmap(f)(np.arange(6).reshape(2, 3))
