"""Writes to one place and reads of it are joined; places that do not exist are still refused."""

import numpy as np
import pytest

import wengert as wg

RNG = np.random.default_rng(0)
X, M = RNG.normal(size=(12, 3)), RNG.uniform(1, 2, size=12)
WRITES = ("scatter_set", "scatter_add")


def operators(graph):
    """All operators, at any depth."""
    for node in graph.operators:
        yield node
        bodies = [node.params.get("body")] if "body" in node.params else []
        for one in ("branches", "turn"):
            bodies += node.params[one].programs if one in node.params else ()
        for body in bodies:
            yield from operators(body.graph)


def writes(function, *args):
    graph = function.program(*args).stages.optimised
    return [node.op.name for node in operators(graph) if node.op.name in WRITES]


def attraction(x, m):
    acc = np.zeros_like(x)
    for i in range(12):
        for j in range(12):
            if i != j:
                d = x[j] - x[i]
                acc[i] += m[j] * d / (np.sum(d * d) + 0.01) ** 1.5
    return np.sum(acc * acc)


def over_pairs(x, m):
    acc = np.zeros_like(x)
    for i in range(12):
        for j in range(i + 1, 12):
            d = x[j] - x[i]
            f = d / (np.sum(d * d) + 0.01) ** 1.5
            acc[i] += m[j] * f
            acc[j] -= m[i] * f
    return np.sum(acc * acc)


def over_and_over(x, m):
    y = x.copy()
    for i in range(12):
        for k in range(9):
            y[i] = np.sin(y[i])
            y[i] *= 0.5 * m[i] + 0.01 * k
            y[i, 1] += y[i, 0] * y[i - 1, 2]
    return np.sum(y * m[:, None])


@pytest.mark.parametrize("f", [attraction, over_pairs, over_and_over])
def test_values_and_gradients(f):
    compiled = wg.jit(wg.value_and_grad(f, argnums=(0, 1)))
    value, gradients = compiled(X, M)
    np.testing.assert_allclose(value, f(X, M), rtol=1e-12)
    expected = wg.value_and_grad(f, argnums=(0, 1))(X, M)[1]  # without a pass
    for found, wanted in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-10)
    wg.check_grads(f, (X, M), order=1)


def test_what_is_added_to_is_written_once():
    assert writes(wg.jit(attraction), X, M) == ["scatter_set"]
    assert writes(wg.jit(over_pairs), X, M) == ["scatter_set"] * 2
    # the derivative: once forward, and twice to the cotangent of x, at i and at j
    found = writes(wg.jit(wg.grad(attraction)), X, M)
    assert sorted(found) == ["scatter_add", "scatter_add", "scatter_set"]


def written_and_read(x, i):
    y = x.copy()
    y[i] = 2.0
    return y[i]


def written_back(x, i):
    y = x.copy()
    y[i] = y[i]
    return y


@pytest.mark.parametrize("f", [written_and_read, written_back])
def test_a_place_that_does_not_exist_is_refused(f):
    compiled = wg.jit(f)
    np.testing.assert_array_equal(compiled(X, np.int64(-12)), f(X, -12))
    for place in (12, -13):
        with pytest.raises(IndexError):
            compiled(X, np.int64(place))


def test_zeros_that_are_added_to_keep_their_sign():
    def f(x, i):
        y = x.copy()
        y[i] = 0.0
        np.add.at(y, i, x[i])
        return y

    x = np.array([1.0, -0.0, 3.0])
    assert not np.signbit(wg.jit(f)(x, np.int64(1))[1])


def test_numbers_are_written_to_rows():
    def f(x, i):
        y = x.copy()
        y[i] = 2.0
        return y[i] * x[i], y

    found = wg.jit(f)(X, np.int64(3))
    for one, wanted in zip(found, f(X, 3), strict=True):
        np.testing.assert_array_equal(one, wanted)


def test_complex_numbers_and_integers():
    def f(z, i):
        y = z.copy()
        y[i] += z[0] * 2
        y[i] -= y[i - 1]
        return y

    for x in (X + 1j * X[::-1], np.arange(36).reshape(12, 3)):
        np.testing.assert_allclose(wg.jit(f)(x, np.int64(4)), f(x, 4), rtol=1e-14)


def quadratic(x, a):
    return sum(a[i][j] * x[i] * x[j] for i in range(12) for j in range(12))


def test_no_row_is_copied_for_an_element():
    a = RNG.normal(size=(12, 12))
    compiled = wg.jit(wg.grad(lambda x: quadratic(x, a)))
    np.testing.assert_allclose(compiled(M), (a + a.T) @ M, rtol=1e-12)
    found = operators(compiled.program(M).stages.optimised)
    assert [node for node in found if node.op.name == "gather" and node.type.shape] == []


def test_elements_of_rows_of_any_axes():
    x = RNG.normal(size=(4, 5, 6))

    def f(x, i, j, k):
        return x[i][j] * x[:, j][k] + x[:, :, k][i, j] + x[i, j][k]

    places = [np.int64(n) for n in (-1, 2, 3)]
    np.testing.assert_allclose(wg.jit(f)(x, *places), f(x, *places), rtol=1e-14)
    for wrong in ((4, 0, 0), (0, 5, 0), (0, -6, 0), (0, 0, 6)):
        with pytest.raises(IndexError):
            wg.jit(f)(x, *map(np.int64, wrong))


def overlapping_rows(y, w):
    y = y.copy()
    for i in range(12):
        y[i : i + 3] += w * y[i]
    return np.sum(np.sin(y))


def rows_and_elements(y, w):
    y = y.copy()
    for i in range(12):
        y[2 * i : 2 * i + 3] *= w
        y[i + 1] += y[i : i + 3] @ w
        y[i : i + 3] = np.tanh(y[i : i + 3]) + y[2 * i]
    return np.sum(np.sin(y))


@pytest.mark.parametrize("f", [overlapping_rows, rows_and_elements])
def test_rows(f):
    y, w = RNG.normal(size=30), 0.2 * RNG.normal(size=3)
    compiled = wg.jit(wg.value_and_grad(f, argnums=(0, 1)))
    value, gradients = compiled(y, w)
    np.testing.assert_allclose(value, f(y, w), rtol=1e-12)
    expected = wg.value_and_grad(f, argnums=(0, 1))(y, w)[1]  # without a pass
    for found, wanted in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-14)
    wg.check_grads(f, (y, w), order=1)


def test_rows_are_written_once():
    y, w = RNG.normal(size=30), 0.2 * RNG.normal(size=3)
    assert writes(wg.jit(overlapping_rows), y, w) == ["scatter_set"]
    # of the cotangent of a row nothing is taken away; what is read of it besides is added
    found = writes(wg.jit(wg.grad(overlapping_rows)), y, w)
    assert sorted(found) == ["scatter_add", "scatter_set"]


def test_places_that_meet_are_written_in_order():
    def f(x, places):
        y = x.copy()
        y[places] = x[:3]
        kept = y[places]
        y[places] = 2.0 * x[3:6]
        return kept, y

    places = np.array([4, 4, 1])
    for found, wanted in zip(wg.jit(f)(M, places), f(M, places), strict=True):
        np.testing.assert_array_equal(found, wanted)
