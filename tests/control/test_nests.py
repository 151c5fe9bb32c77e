"""Loops of a few turns around each other: written out only as long as that is little code."""

import numpy as np
import pytest

import wengert as wg
from wengert.control.weights import MOST

RNG = np.random.default_rng(0)


def shortest(n):
    """Shortest ways between all places, by hard choices under a condition."""

    def f(x):
        d = np.abs(x) + 0.1
        for k in range(n):
            for i in range(n):
                for j in range(n):
                    if d[i, k] + d[k, j] < d[i, j]:
                        d[i, j] = d[i, k] + d[k, j]
        return np.sum(d**2)

    return f


def in_a_helper(n):
    """The inner loops are in another function, which writes to the array that it is given."""

    def through(d, k):
        for i in range(n):
            for j in range(n):
                d[i, j] = np.minimum(d[i, j], d[i, k] + d[k, j])

    def f(x):
        d = np.abs(x) + 0.1
        for k in range(n):
            through(d, k)
        return np.sum(d**2)

    return f


def filtered(n):
    """A filter of 3 by 3, over lists too, whose own loops stay written out."""

    def f(x):
        out = np.zeros((n, n))
        for i in range(n):
            for j in range(n):
                total = 0.0
                for a in (-1, 0, 1):
                    for b in range(-1, 2):
                        if a != 0 or b != 0:
                            total = total + np.sin(x[(i + a) % n, (j + b) % n]) * (a + 2 * b)
                out[i, j] = total if total > 0 else 0.1 * total
        return np.sum(out**2)

    return f


def factored(n):
    """Triangular loops: how many turns the inner ones have depends on the outer."""

    def f(x):
        a, total = x + 4 * np.eye(n), 0.0
        for k in range(n):
            for i in range(k + 1, n):
                factor = a[i, k] / a[k, k]
                for j in range(k, n):
                    a[i, j] = a[i, j] - factor * a[k, j]
            total = total + np.log(np.abs(a[k, k]))
        return total

    return f


def relaxed(n):
    """Edges in a list, again and again; the diagonal is left out, and one may be the last."""
    edges = [(i, (3 * i + 1) % n) for i in range(n)] + [(i, (i + 1) % n) for i in range(n)]

    def f(x):
        d = np.full(n, 9.0)
        d[0] = 0.0
        for _ in range(n - 1):
            for u, v in edges:
                if u != v and d[u] + np.abs(x[u, v]) < d[v]:
                    d[v] = d[u] + np.abs(x[u, v])
        return np.sum(d**2)

    return f


def normals(n):
    """Slopes of a surface in a list, as an array, and one by its place in a dictionary."""

    def slope(x, i, j):
        found = []
        for axis in range(3):
            ahead = x[(i + axis) % n, j] * np.sin(x[i, (j + axis) % n])
            found.append(np.cos(ahead) + ahead**3 - np.tanh(ahead))
        return np.array(found)

    def f(x):
        total, largest = 0.0, {}
        for i in range(n):
            for j in range(n):
                found = slope(x, i, j)
                total = total + found @ np.array([0.5, 0.8, -0.3]) / np.sqrt(found @ found)
            largest["last"] = total
        return largest["last"]

    return f


PROGRAMS = [shortest, in_a_helper, filtered, factored, relaxed, normals]


def nodes(graph):
    """The operations of a graph, with those of the programs in them."""
    count = 0
    for node in graph.nodes:
        count += 1
        for value in getattr(node, "params", {}).values():
            count += sum(nodes(body.graph) for body in getattr(value, "bodies", ()))
            count += nodes(value.graph) if hasattr(value, "graph") else 0
    return count


def traced(f, n):
    return nodes(wg.jit(f(n)).program(np.ones((n, n))).stages.captured.graph)


@pytest.mark.parametrize("make", PROGRAMS)
def test_values_and_gradients(make):
    x, v = RNG.normal(size=(7, 7)), RNG.normal(size=(7, 7))
    f = make(7)
    value, gradient = wg.jit(wg.value_and_grad(f))(x)
    np.testing.assert_allclose(value, f(x), rtol=1e-12)
    slope = (f(x + 1e-6 * v) - f(x - 1e-6 * v)) / 2e-6
    np.testing.assert_allclose(np.sum(gradient * v), slope, rtol=1e-6)


@pytest.mark.parametrize("make", [shortest, in_a_helper, filtered, factored, normals])
def test_code_is_bounded_however_many_turns_there_are(make):
    few, many, more = (traced(make, n) for n in (3, 8, 30))
    assert few < 2 * MOST
    assert many < 200
    assert more <= many + 20


def test_few_turns_are_written_out():
    def f(x):
        total = 0.0
        for i in range(3):
            for j in range(3):
                total = total + x[i] * x[j]
        return total

    loops = [
        n for n in wg.jit(f).program(np.ones(3)).stages.captured.graph.nodes if "scan" in str(n)
    ]
    assert not loops


def test_weighing_leaves_nothing_behind():
    """The turns that are traced for their weight change no variable, and use up no iterator."""
    seen = []

    def f(x):
        table, count, items = np.zeros((7, 7)), 0, iter(range(49))
        for i in range(7):
            for j in range(7):
                count += 1
                for _ in range(7):
                    table[i, j] = table[i, j] + np.sin(x[i]) * x[j]
        for _ in range(2):
            for _ in range(2):
                seen.append(next(items))
        return np.sum(table) + count

    x = RNG.normal(size=7)
    got = wg.jit(f)(x)
    assert seen == [0, 1, 2, 3]
    np.testing.assert_allclose(got, f(x), rtol=1e-12)


def test_a_function_inside_that_changes_variables_of_the_one_around_it():
    def f(x):
        total = 0.0

        def add(v):
            nonlocal total
            if v > 0:
                total = total + v

        for k in range(12):
            add(x[k])
        return total

    x = np.linspace(-1, 1, 12)
    np.testing.assert_allclose(wg.jit(f)(x), f(x), rtol=1e-14)


def clusters(start, points, turns=8):
    """Expectation maximisation, as people write it: small arrays, cluster by cluster."""
    count = len(start)
    means, widths, shares = start.copy(), np.ones(count), np.ones(count) / count
    for _ in range(turns):
        scores = np.zeros((len(points), count))
        for k in range(count):
            apart = np.sum((points - means[k]) ** 2, axis=1)
            scores[:, k] = np.log(shares[k]) - 0.5 * apart / widths[k] - np.log(widths[k])
        largest = scores.max(axis=1, keepdims=True)
        likely = largest[:, 0] + np.log(np.sum(np.exp(scores - largest), axis=1))
        parts = np.exp(scores - likely[:, None])
        total = parts.sum(axis=0)
        for k in range(count):
            means[k] = parts[:, k] @ points / total[k]
            apart = np.sum((points - means[k]) ** 2, axis=1)
            widths[k] = 0.5 * np.sum(parts[:, k] * apart) / total[k] + 1e-3
        shares = total / len(points)
    return -np.sum(likely)


@pytest.mark.parametrize("turns, is_loop", [(2, False), (8, True)])
def test_operations_on_small_arrays_are_code_too(turns, is_loop):
    random = np.random.default_rng(7)
    points, start = random.normal(size=(60, 2)), random.normal(size=(4, 2))
    f = wg.value_and_grad(lambda start: clusters(start, points, turns))
    compiled = wg.jit(f)
    for found, wanted in zip(compiled(start), f(start), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9)
    assert ("scan" in str(compiled.explain(start).graph)) == is_loop
