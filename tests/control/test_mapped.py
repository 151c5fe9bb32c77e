"""Functions with loops and branches of their own, mapped over many samples."""

import numpy as np
import pytest

import wengert as wg

RNG = np.random.default_rng(0)
FLOATS = RNG.normal(size=64)
INTEGERS = RNG.integers(0, 64, size=64)
CENTRES = RNG.normal(size=(8, 3))


def walks(i):
    """Reads tables at places of its own, until it has enough."""
    total, k = 0.0, 0
    while k < 30 and total < 3.0:
        total = total + FLOATS[i]
        i = (INTEGERS[i] * 5 + 1) % 64
        k += 1
    return total


def is_drawn(x):
    """Goes to the nearest of some centres."""
    far, k = 1.0, 0
    while far > 0.05 and k < 20:
        j = np.argmin(np.sum((CENTRES - x) ** 2, axis=1))
        x = x + 0.3 * (CENTRES[j] - x)
        far = np.linalg.norm(CENTRES[j] - x)
        k += 1
    return x


def circles(s):
    """A particle in a field until it is far away."""
    x, v, k = s[:3], s[3:], 0
    field = np.array([0.0, 0.0, 1.0])
    while np.linalg.norm(x) < 2.0 and k < 60:
        v = v + 0.05 * (np.cross(v, field) + 0.1 * x * np.dot(x, v))
        x = x + 0.05 * v
        k += 1
    return x * k


def turns(w):
    """A rotation by many small ones, kept in bounds."""
    r = np.eye(3)
    k = np.array([[0.0, -w[2], w[1]], [w[2], 0.0, -w[0]], [-w[1], w[0], 0.0]])
    for _ in range(10):
        r = r + 0.1 * (r @ k)
        size = np.max(np.abs(r))
        if size > 2.0:
            r = r / size
    return r @ w


def solves(x):
    """Newton's method with the inverse of a small matrix."""
    for _ in range(5):
        j = np.array([[3.0, x[2], x[1]], [2 * x[0], 4.0, 0.1], [0.1, x[2], 5.0]])
        f = np.array([3 * x[0] + x[1] * x[2] - 1, x[0] ** 2 + 4 * x[1] - 2, 5 * x[2] - 1])
        x = x - np.linalg.inv(j) @ f
    return x


SAMPLES = {
    walks: RNG.integers(0, 64, size=50),
    is_drawn: RNG.normal(size=(50, 3)),
    circles: RNG.normal(size=(50, 6)) * 0.5,
    turns: RNG.normal(size=(50, 3)) * 3,
    solves: RNG.normal(size=(50, 3)) * 0.1,
}


@pytest.mark.parametrize("f", SAMPLES)
def test_values(f):
    samples = SAMPLES[f]
    found = wg.jit(wg.vmap(f))(samples)
    np.testing.assert_allclose(found, [f(one) for one in samples], rtol=1e-10, atol=1e-12)


def largest(graph):
    """The most elements that an array in a graph has, or in the programs inside of it."""
    found = 0
    for node in graph.nodes:
        types = node.type if type(node.type) is tuple else (node.type,)
        found = max([found, *[own.size for own in types]])
        for value in getattr(node, "params", {}).values():
            inner = [body.graph for body in getattr(value, "programs", ())]
            found = max([found, *map(largest, inner)])
    return found


def test_a_table_is_one_for_all_samples():
    graph = wg.jit(wg.vmap(walks)).program(np.zeros(1000, np.int64)).stages.optimised
    assert largest(graph) == 1000


def test_turns_with_a_counter_run_block_by_block():
    """A counter is checked for 64 bits; that keeps samples apart, as everything else there does."""

    def f(x):
        k = 0
        while x > 1.0 and k < 50:
            x = 0.5 * x
            k += 1
        return x + k

    loops = wg.jit(wg.vmap(f)).program(np.ones(1000)).stages.loops
    around = [kernel for kernel in loops.kernels if "block" in str(kernel).splitlines()[0]]
    assert around
    x = RNG.uniform(0, 1e9, 1000)
    np.testing.assert_allclose(wg.jit(wg.vmap(f))(x), [f(v) for v in x])


@pytest.mark.parametrize("f", [circles, turns])
def test_small_arrays_are_carried_as_numbers(f):
    samples = np.concatenate([SAMPLES[f]] * 4)
    graph = wg.jit(wg.vmap(f)).program(samples).stages.optimised
    (loop,) = [node for node in graph.operators if node.op.name in ("scan", "while")]
    assert {len(own.shape) for own in loop.type} <= {0, 1}
    found = wg.jit(wg.vmap(f))(samples)
    np.testing.assert_allclose(found, [f(one) for one in samples], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("f", [is_drawn, circles, turns, solves])
def test_gradients(f):
    samples = np.concatenate([SAMPLES[f]] * 4)[:100]
    gradient = wg.jit(wg.vmap(wg.grad(lambda x: np.sum(f(x) ** 2))))(samples)
    expected = [wg.grad(lambda x: np.sum(f(x) ** 2))(one) for one in samples]
    np.testing.assert_allclose(gradient, expected, rtol=1e-8, atol=1e-10)
