"""What loops keep and read: fewer rows, the same values."""

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert.graph import verify
from wengert.passes import optimise

rng = np.random.default_rng(7)
STEPS, BATCH, SIZE = 6, 5, 4


def scans(function, *args):
    """The loops of an optimised function, which still gives what it gave."""
    graph = wg.trace(function, *args)
    found = optimise(graph)
    verify(found)
    want, got = wg.tree.leaves(graph(*args)), wg.tree.leaves(found(*args))
    for one, other in zip(got, want, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
    return [node for node in found.operators if node.op.name == "scan"]


def names(loop):
    return [node.op.name for node in loop.params["body"].graph.operators]


def rows_in(loop):
    body = loop.params["body"]
    return len(loop.inputs) - body.constants - body.carry


def rows_out(loop):
    body = loop.params["body"]
    return len(body.graph.outputs) - body.carry


W = rng.normal(size=(SIZE, SIZE)) / 2
H = rng.normal(size=(BATCH, SIZE))
XS = rng.normal(size=(STEPS, BATCH, SIZE))


def states(h, xs, reverse=False):
    def body(h, x):
        new = wnp.tanh(h @ W + x)
        return new, new

    return wg.scan(body, h, xs, reverse=reverse)[1]


@pytest.mark.parametrize("reverse", [False, True])
def test_the_last_row_is_the_carry(reverse):
    last = 0 if reverse else -1
    (loop,) = scans(lambda h, xs: states(h, xs, reverse)[last], H, XS)
    assert rows_out(loop) == 0


def test_another_row_stays_a_row():
    (loop,) = scans(lambda h, xs: states(h, xs)[-2], H, XS)
    assert rows_out(loop) == 1


def test_the_derivative_of_the_last_row_begins_the_way_back():
    loss = lambda h, xs: wnp.sum(states(h, xs)[-1] ** 2)
    forward, backward = scans(wg.grad(loss), H, XS)
    assert rows_out(forward) == 1
    assert rows_in(backward) == 1  # the states alone: no rows of zeros


def test_the_derivative_of_all_rows_does_not():
    loss = lambda h, xs: wnp.sum(states(h, xs) ** 2)
    _, backward = scans(wg.grad(loss), H, XS)
    assert rows_in(backward) > 0


def gated(h, xs):
    def body(h, x):
        gate = wnp.sigmoid(h @ W + x)
        return gate * h + (1 - gate) * x, None

    return wg.scan(body, h, xs)[0]


def test_a_sigmoid_is_kept_in_one_row():
    forward, backward = scans(wg.grad(lambda h, xs: wnp.sum(gated(h, xs))), H, XS)
    assert names(forward).count("expit_tail") == 1
    assert "expit" not in names(forward)
    assert not {"expit", "expit_tail"} & set(names(backward))
    assert rows_out(forward) == 2  # the sigmoid in one, and the state


@pytest.mark.parametrize("x", [0.0, -0.0, 1.0, -3.0, 40.0, -40.0, 800.0, -800.0, np.inf, -np.inf])
def test_a_folded_sigmoid_keeps_its_tails(x):
    """Both sides to full relative precision, in the value and in the derivative."""

    def loss(x):
        def body(h, row):
            y = wnp.sigmoid(row + 0 * h)
            return h + y, y

        total, rows = wg.scan(body, np.zeros(3), wnp.stack([x, x]))
        return wnp.sum(total) + wnp.sum(rows)

    args = (np.full(3, x),)
    got, want = (f(*args) for f in (wg.jit(wg.value_and_grad(loss)), wg.value_and_grad(loss)))
    np.testing.assert_allclose(got[0], want[0], rtol=1e-15)
    np.testing.assert_allclose(got[1], want[1], rtol=4e-16, atol=0)


def test_constants_are_turned_before_the_loop():
    def loss(w, h, xs):
        def body(h, x):
            return wnp.tanh(h @ w + x), None

        return wnp.sum(wg.scan(body, h, xs)[0])

    forward, backward = scans(wg.grad(loss, argnums=1), W, H, XS)
    for loop in (forward, backward):
        (spec,) = [
            node.params["spec"]
            for node in loop.params["body"].graph.operators
            if node.op.name == "contract"
        ]
        assert spec == ((0, 1), (1, 2), (0, 2))


def test_two_rows_of_one_array():
    """Rows that are the same array, beside one that is computed from it."""

    def f(xs):
        ys = -xs
        body = lambda h, row: (h * row[0] + row[0] * row[1] + wnp.exp(row[2]), None)
        return wg.scan(body, H, (xs, xs, ys))[0]

    (loop,) = scans(f, XS)
    assert rows_in(loop) == 1
