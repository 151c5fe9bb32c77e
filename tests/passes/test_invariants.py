"""Matrices that are the same in every turn of a loop are factored once, before it."""

import numpy as np
import pytest

import wengert as wg

RNG = np.random.default_rng(5)
N = 12
A, X, B = RNG.normal(size=(N, N)) + 4 * np.eye(N), RNG.normal(size=N), RNG.normal(size=(20, N))


def in_loops(graph, inside=False):
    """The names of all operations inside loops, at any depth."""
    for node in graph.operators:
        if inside:
            yield node.op.name
        if "body" in node.params:
            yield from in_loops(node.params["body"].graph, True)
        if "turn" in node.params:
            yield from in_loops(node.params["turn"].body.graph, True)
        for body in node.params["branches"].bodies if "branches" in node.params else ():
            yield from in_loops(body.graph, inside)


def steps(a, x):
    for _ in range(15):
        x = np.linalg.solve(a, x + 0.1 * np.sin(x))
    return x


def both_ways(a, x):
    for b in B:
        x = np.linalg.solve(a, b + 0.1 * np.linalg.solve(a.T, x))
    return x


def nested(a, x):
    for _ in range(10):
        for _ in range(9):
            x = np.linalg.solve(np.exp(0.1 * a) + a, x) + 1
    return x


def until(a, x):
    change = 1.0
    while change > 1e-10:
        new = np.linalg.solve(a, np.cos(x))
        change = np.max(np.abs(new - x))
        x = new
    return x


def early(a, x):
    for _ in range(100):
        new = np.linalg.solve(a, np.cos(x))
        if np.max(np.abs(new - x)) < 1e-10:
            break
        x = new
    return x


@pytest.mark.parametrize("function", [steps, both_ways, nested, until, early])
def test_loops_do_not_factor_what_stays_the_same(function):
    slope = wg.grad(lambda a, x: (function(a, x) ** 2).sum(), argnums=(0, 1))
    np.testing.assert_allclose(wg.jit(function)(A, X), function(A, X), rtol=1e-11)
    for got, wanted in zip(wg.jit(slope)(A, X), slope(A, X), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-12)
    for one in (function, slope):
        found = set(in_loops(wg.jit(one).program(A, X).stages.optimised))
        assert found and not found & {"lu", "solve"}


def test_what_changes_is_factored_in_each_turn():
    def changing(a, x):
        for k in range(15):
            x = np.linalg.solve(a + k * np.eye(N), x)
        return x

    np.testing.assert_allclose(wg.jit(changing)(A, X), changing(A, X), rtol=1e-11)
    assert "lu" in set(in_loops(wg.jit(changing).program(A, X).stages.optimised))


def test_a_matrix_that_no_turn_reads_may_be_singular():
    def last(a, x, limit):
        while np.max(x) > limit:
            x = np.linalg.solve(a, x)
        return x

    singular = np.ones((N, N))
    compiled = wg.jit(last)
    np.testing.assert_array_equal(compiled(singular, X, 100.0), X)
    with pytest.raises(np.linalg.LinAlgError):
        compiled(singular, X, 0.0)
    slope = wg.jit(wg.grad(lambda a, x, limit: last(a, x, limit).sum(), argnums=(0, 1)))
    by_matrix, by_x = slope(singular, X, 100.0)
    np.testing.assert_array_equal(by_matrix, np.zeros((N, N)))
    np.testing.assert_array_equal(by_x, np.ones(N))


def test_samples_that_go_on_have_factors_of_their_own():
    xs, matrices = RNG.normal(size=(5, N)), A + RNG.normal(size=(5, N, N)) / 10
    for axes, stack in (((None, 0), A), ((0, 0), matrices)):
        mapped = wg.vmap(until, in_axes=axes)
        wanted = [until(a, x) for a, x in zip(np.broadcast_to(stack, (5, N, N)), xs, strict=True)]
        np.testing.assert_allclose(wg.jit(mapped)(stack, xs), wanted, rtol=1e-9)


def test_loops_are_given_complex_numbers_in_parts():
    a = A + 1j * RNG.normal(size=(N, N))

    def powers(a, x):
        kernel = x
        for _ in range(15):
            x = np.linalg.inv(a) @ (x + np.fft.ifft(np.fft.fft(kernel)))
        return (x * x.conj()).real

    def by_each(a, x):
        return wg.scan(lambda a, _: (a * 1.01, np.linalg.solve(a, x).real), a, None, length=9)[1]

    for function in (powers, by_each):
        compiled = wg.jit(function)
        np.testing.assert_allclose(compiled(a, X + 1j), function(a, X + 1j), rtol=1e-10)
        graph = compiled.program(a, X + 1j).stages.optimised
        assert not set(in_loops(graph)) & {"fft", "inv"}
        assert "scan" not in " ".join(compiled.explain(a, X + 1j).hosts)
