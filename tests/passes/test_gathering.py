"""Sums of products that are alike become one product."""

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert.graph import verify
from wengert.passes import optimise

rng = np.random.default_rng(9)
X = rng.normal(size=(12, 4, 20))
W = rng.normal(size=(20, 16))


def optimised(function, *args):
    found = optimise(wg.trace(function, *args))
    verify(found)
    want = wg.tree.leaves(function(*args))
    for one, other in zip(wg.tree.leaves(found(*args)), want, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-11)
    return found


def count(graph, name):
    return sum(node.op.name == name for node in graph.operators)


def unrolled(w, x, steps):
    return sum(wnp.sum(wnp.tanh(x[:, t] @ w) ** 2) for t in steps)


@pytest.mark.parametrize("steps", [range(4), range(3, -1, -1), range(1, 3), (0, 2)])
def test_weights_of_an_unrolled_loop(steps):
    graph = optimised(wg.grad(unrolled), W, X, tuple(steps))
    assert count(graph, "contract") == len(steps) + 1


def test_sums_of_sums():
    loss = lambda b, x: sum(wnp.sum(wnp.sin(x[:, t, :16] + b) ** 2) for t in range(4))
    graph = optimised(wg.grad(loss), W[0], X)
    assert count(graph, "sum") == 1


def test_products_of_other_shapes_stay():
    f = lambda x: wnp.sin(x[:, 0]).T @ wnp.cos(x[:, 1]) + wnp.sin(x[:6, 0]).T @ wnp.cos(x[:6, 1])
    assert count(optimised(f, X), "contract") == 2


def test_weights_are_not_copied():
    """x @ v + y @ w would have to stack what the caller gives."""
    f = lambda x, y, v, w: wnp.sin(x) @ v + wnp.sin(y) @ w
    assert count(optimised(f, X[:, 0], X[:, 1], W, W + 1), "contract") == 2


def test_a_product_that_others_read_stays():
    def f(x):
        one, other = wnp.sin(x[:, 0]), wnp.cos(x[:, 1])
        product = one.T @ other
        return product + wnp.cos(x[:, 2]).T @ wnp.sin(x[:, 3]), product

    assert count(optimised(f, X), "contract") == 2
