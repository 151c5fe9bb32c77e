"""Integers whose range is known index without a look; all others are looked at."""

import numpy as np
import pytest

import wengert as wg
from wengert.ops.python_integers import fits_64_bits

X = np.random.default_rng(0).normal(size=20)
READS = ("gather", "scatter_set", "scatter_add")


def operators(graph):
    """All operators, at any depth."""
    for node in graph.operators:
        yield node
        bodies = [node.params.get("body")] if "body" in node.params else []
        for one in ("branches", "turn"):
            bodies += node.params[one].programs if one in node.params else ()
        for body in bodies:
            yield from operators(body.graph)


def looks(f, *args):
    """Whether each read and write of a compiled program looks at its indices."""
    graph = wg.jit(f).program(*args).stages.optimised
    found = list(operators(graph))
    return [not n.params.get("inside") for n in found if n.op.name in READS], found


def shifted(x):
    table = np.zeros((20, 20))
    for i in range(1, 20):
        for j in range(1, 20):
            table[i, j] = x[j] * table[i - 1, j] + table[i, j - 1] * x[i] + 1
    return np.sum(table)


PLACES = np.arange(20)[::-1].copy()


def indirect(x):
    y = x.copy()
    for i in range(20):
        for j in range(2):
            y[PLACES[i]] = y[PLACES[i]] + y[(19 - i) * 1] * j
    return np.sum(y**2)


def under_a_branch(x):
    y = np.zeros((20, 20))
    for i in range(20):
        for j in range(1, 20):
            if x[i] > 0:
                y[i, j] = y[i, j - 1] + x[i]
    return np.sum(y**2)


def at_fixed_places(x):
    return x[np.array([3, 0, 19], np.int32)] * x[[5, 5, 1]]


KNOWN = [
    shifted, indirect, under_a_branch, at_fixed_places,
    wg.grad(shifted), wg.grad(indirect), wg.grad(lambda x: at_fixed_places(x).sum()),
]  # fmt: skip


@pytest.mark.parametrize("f", KNOWN, ids=range(len(KNOWN)))
def test_counters_are_in_range(f):
    found, every = looks(f, X)
    assert found
    assert not any(found)
    assert not any(node.op is fits_64_bits for node in every)
    np.testing.assert_allclose(wg.jit(f)(X), f(X), rtol=1e-12)


def test_what_is_not_known_is_looked_at():
    def f(x, k):
        table = np.zeros((20, 20))
        for i in range(20):
            for j in range(20):
                table[i, j] = x[i] + table[i - 1, k] + table[j, k + 1]
        return np.sum(table)

    # one that counts from the end, and two that an argument decides on
    assert sum(looks(f, X, 3)[0]) >= 2
    np.testing.assert_allclose(wg.jit(f)(X, 3), f(X, 3), rtol=1e-12)
    with pytest.raises(IndexError):
        wg.jit(f)(X, 19)


@pytest.mark.parametrize("last", [19, 20, 21])
def test_the_last_place_and_the_one_behind_it(last):
    def f(x):
        table = np.zeros((20, 20))
        for i in range(20):
            for j in range(last):
                table[i, j] = x[i] + table[j, i]
        return np.sum(table)

    if last <= 20:
        np.testing.assert_allclose(wg.jit(f)(X), f(X), rtol=1e-12)
    else:
        with pytest.raises(IndexError):
            wg.jit(f)(X)


def test_what_is_carried_has_no_range():
    def f(x):
        table, k = np.zeros(20), 0
        for i in range(20):
            table[k] = x[i] + table[k]
            if x[i] > -9:
                k = k + 2
        return np.sum(table)

    with pytest.raises(IndexError):
        wg.jit(f)(X)


def test_large_integers_are_looked_at():
    def f(x):
        total = 0.0
        for i in range(20):
            for j in range(20):
                total = total + x[i] * (i * 2**62 + j) ** 0
        return total

    assert any(node.op is fits_64_bits for node in looks(f, X)[1])
    with pytest.raises(OverflowError):
        wg.jit(f)(X)
