"""Sums over the steps of a loop: in the loop where rows are large, with their axes as read."""

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert import machine
from wengert.graph import verify
from wengert.passes import optimise

rng = np.random.default_rng(8)
W = rng.normal(size=(4, 4)) / 2
V = rng.normal(size=(3, 4))
H = rng.normal(size=(5, 4))
XS = rng.normal(size=(6, 5, 3))


@pytest.fixture
def far():
    """As if everything that a loop keeps were far away when it is over."""
    with machine.use(scans={"most_near": 0, "enough_terms": 1}):
        yield


def loss(w, v, b, xs):
    """The product with the rows is outside of the loop, and so is its gradient."""
    ys = xs @ v + b

    def body(h, y):
        return wnp.tanh(h @ w + y), None

    return wnp.sum(wg.scan(body, H, ys)[0] ** 2)


gradients = wg.grad(loss, argnums=(0, 1, 2))
ARGS = (W, V, np.zeros(4), XS)


def optimised(function, *args):
    found = optimise(wg.trace(function, *args))
    verify(found)
    want = wg.tree.leaves(function(*args))
    for one, other in zip(wg.tree.leaves(found(*args)), want, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
    return found


def products_outside(graph):
    return sum(node.op.name == "contract" for node in graph.operators)


def test_small_rows_are_summed_after_the_loop():
    assert products_outside(optimised(gradients, *ARGS)) == 2


@pytest.mark.usefixtures("far")
def test_large_rows_are_summed_in_the_loop():
    graph = optimised(gradients, *ARGS)
    assert products_outside(graph) == 1  # that with all inputs
    forward, backward = [node for node in graph.operators if node.op.name == "scan"]
    body = backward.params["body"]
    assert len(body.graph.outputs) == body.carry  # no rows are left
    assert forward.params["length"] == backward.params["length"] == 6


@pytest.mark.usefixtures("far")
def test_rows_that_are_wanted_stay_beside_the_sum():
    def f(xs):
        def body(h, x):
            new = wnp.tanh(h @ W)
            return new, new

        rows = wg.scan(body, H, xs)[1]
        return rows, wnp.einsum("tbi,tbj->ij", rows, xs)

    graph = optimised(f, XS)
    assert products_outside(graph) == 0
    (loop,) = [node for node in graph.operators if node.op.name == "scan"]
    body = loop.params["body"]
    assert len(body.graph.outputs) == body.carry + 1


@pytest.mark.usefixtures("far")
def test_a_factor_that_comes_later_is_left_outside():
    def f(xs):
        def body(h, x):
            new = wnp.tanh(h @ W)
            return new, new

        last, rows = wg.scan(body, H, xs)
        return wnp.einsum("tbi,tbj->ij", rows, xs * wnp.sum(last))

    assert products_outside(optimised(f, XS)) == 1


@pytest.mark.usefixtures("far")
def test_totals_have_the_axes_as_they_are_read():
    def f(xs):
        def body(carry, x):
            total, h = carry
            return (total + h.T @ x, wnp.tanh(h @ W)), None

        return wg.scan(body, (np.ones((4, 3)), H), xs)[0][0].T * 2

    graph = optimised(f, XS)
    items = {node.serial for node in graph.operators if node.op.name == "item"}
    readers = [n.op.name for n in graph.operators if n.inputs[0].serial in items]
    assert readers == ["multiply"]
