"""Compiled programs on any number of threads: the same bits, whoever takes which part."""

import os

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert import machine, nn
from wengert.loops import Loop, inside

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the pool needs POSIX threads")

THREADS = (1, 2, 3, 4, 7, 16)
# As many groups as in far larger programs.
MANY_GROUPS = {
    "regions": {"least_group": 0.5, "merges_in_group": 1.0},
    "times": {"apart": 100.0},
}
rng = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def threads():
    yield
    wg.set_threads(None)


def normal(*shape):
    return rng.normal(size=shape).astype(np.float32)


def on_threads(function, *arguments):
    """The result, after it was the same bits on every number of threads, twice each."""
    with machine.use(cores=16):
        jitted = wg.jit(function)
        found = []
        for count in THREADS:
            wg.set_threads(count)
            for _ in range(2):
                found.append([np.array(x) for x in wg.tree.leaves(jitted(*arguments))])
    for other in found[1:]:
        assert [x.tobytes() for x in other] == [x.tobytes() for x in found[0]]
    return found[0], jitted.explain(*arguments).program.stages.loops


def test_panels_that_all_threads_share():
    x, y, b = normal(300, 900), normal(900, 260), normal(260)
    with machine.use(products={"most_panels": 1 << 19}):  # several rounds
        (got,), _ = on_threads(lambda x, y, b: np.tanh(x @ np.sin(y) + b), x, y, b)
    want = np.tanh(x.astype("f8") @ np.sin(y.astype("f8")) + b)
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-4)


@pytest.mark.parametrize("most_panels", [1 << 19, 1 << 25])
def test_panels_of_products_that_follow_each_other(most_panels):
    """They lie in other places than those before; in one or in several rounds."""
    x, y, w = normal(300, 900), normal(900, 260), normal(260, 270)

    def products(x, y, w):
        h = np.maximum(x @ y, 0)
        return h @ w, h.T @ x

    with machine.use(products={"most_panels": most_panels}):
        got, _ = on_threads(products, x, y, w)
    for one, other in zip(got, products(*[a.astype("f8") for a in (x, y, w)]), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-2)


def test_panels_are_those_of_one_thread():
    x, y = normal(300, 900), normal(260, 900)

    def product(x, y):
        return np.exp(-x * x) @ wnp.tanh(y).T

    (got,), _ = on_threads(product, x, y)
    with machine.use(cores=1):
        assert np.array(wg.jit(product)(x, y)).tobytes() == got.tobytes()


@pytest.mark.parametrize("at_once", [100, 1 << 20])
def test_groups_that_are_merged_in_order(at_once):
    x, w, v = normal(1500, 40), normal(40, 32), normal(32, 16)

    def loss(w, v, x):
        return np.sum(np.square(np.tanh(x @ w) @ v))

    step = wg.value_and_grad(loss, argnums=(0, 1))
    pieces = {**MANY_GROUPS["regions"], "merged_at_once": at_once}
    with machine.use(**MANY_GROUPS | {"regions": pieces}):
        got, loops = on_threads(step, w, v, x)
    with machine.use(cores=1, **MANY_GROUPS):  # the same bits, in whatever pieces
        for one, other in zip(got, wg.tree.leaves(wg.jit(step)(w, v, x)), strict=True):
            assert np.array(other).tobytes() == one.tobytes()
    (group,) = [k for k in loops.kernels if isinstance(k, Loop) and k.parallel and k.fold]
    assert group.turns > machine.policy().regions.groups_apart
    assert len(group.fold) > 2 if at_once == 100 else len(group.fold) <= 3
    # no part of a sum is kept but for the groups under way
    sums = {one.buffer for merge in group.fold for one in merge.stores}
    assert all(buffer.shape[:1] != (group.turns,) for buffer in sums)
    want = wg.tree.leaves(step(*[a.astype("f8") for a in (w, v, x)]))
    for one, other in zip(got, want, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-3)


def test_an_error_in_one_of_many_groups():
    x, w, y = normal(1500, 40), normal(40, 32), rng.integers(0, 32, size=1500)

    def loss(w, x, y):
        return nn.functional.cross_entropy(x @ w, y)

    bad = y.copy()
    bad[700] = 99
    step = wg.grad(loss)
    with machine.use(cores=16, **MANY_GROUPS):
        jitted = wg.jit(step)
        for count in THREADS:
            wg.set_threads(count)
            want = jitted(w, x, y)
            with pytest.raises(IndexError):
                jitted(w, x, bad)
            assert np.array(jitted(w, x, y)).tobytes() == np.array(want).tobytes()


@pytest.mark.parametrize("least_part, parts", [(0.0, 16), (1e9, 4)])
def test_parts_of_a_recurrent_network(least_part, parts):
    layer, x = nn.LSTM(6, 32), normal(5, 200, 6)

    def loss(x):
        return np.sum(np.square(layer(x)[0][-1]))

    with machine.use(scans={"least_time": 0.0, "least_part": least_part}):
        _, loops = on_threads(wg.grad(loss), x)
    shared = [k.turns for k in loops.kernels if isinstance(k, Loop) and k.parallel and _steps(k)]
    assert set(shared) == {parts}


def _steps(loop):
    return any(isinstance(one, Loop) and one.carries for one in inside(loop))


def test_large_state_is_copied_whole():
    parameter = nn.Parameter(normal(700, 900))
    before = np.array(parameter)

    @wg.jit
    def turn():
        with wg.no_grad():
            parameter[...] = parameter[::-1, ::-1] + 1.0

    for count in (1, 3):
        wg.set_threads(count)
        turn()
        before = before[::-1, ::-1] + np.float32(1.0)
        np.testing.assert_array_equal(np.array(parameter), before)
