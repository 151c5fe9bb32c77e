"""Lists of None that loops fill before they read them, and those that they do not fill."""

import numpy as np
import pytest

import wengert as wg

X = np.random.default_rng(0).uniform(0.5, 1.5, 14)


def filled_in_order(x):
    n = len(x)
    table = [[None] * n for _ in range(n)]
    for i in range(n):
        for j in range(n):
            if i == 0 or j == 0:
                table[i][j] = (x[i] - x[n - 1 - j]) ** 2
            else:
                near = min(table[i - 1][j], table[i][j - 1], table[i - 1][j - 1])
                table[i][j] = (x[i] - x[n - 1 - j]) ** 2 + near
    return table[n - 1][n - 1]


def borders_first(x):
    n = len(x)
    table = [[None for _ in range(n)] for _ in range(n)]
    table[0][0] = x[0] * x[1]
    for i in range(1, n):
        table[i][0] = table[i - 1][0] + x[i]
    for j in range(1, n):
        table[0][j] = table[0][j - 1] + x[-j]
    for i in range(1, n):
        for j in range(1, n):
            table[i][j] = np.tanh(table[i - 1][j] * x[i] + table[i][j - 1] * x[j])
    return table[-1][-1]


def a_triangle(x):
    n = len(x)
    cost = [[None] * n for _ in range(n)]
    for i in range(n):
        cost[i][i] = 0.1 * x[i]
    for length in range(2, n + 1):
        for i in range(n - length + 1):
            j = i + length - 1
            best = 1e30
            for k in range(i, j):
                best = min(best, cost[i][k] + cost[k + 1][j] + x[i] * x[k] * x[j])
            cost[i][j] = best
    # what was not set is None
    assert (
        cost[3][1] is None and sum(one is None for row in cost for one in row) == n * (n - 1) // 2
    )
    return cost[0][n - 1]


def every_other(x):
    found = [None] * 28
    found[0] = found[1] = x[0]
    for i in range(2, 28, 2):
        found[i] = found[i - 2] * 0.5 + x[i // 2] * found[i // 4 * 2]
    return sum(one for one in found if one is not None) + found.index(None)


def asked_whether_it_is_there(x):
    n = len(x)
    table = [[None] * n for _ in range(n)]
    for i in range(n):
        for j in range(n):
            if table[j][i] is None:
                table[i][j] = x[i] * x[j] + i
            else:
                table[i][j] = table[j][i] * 0.5
    return sum(map(sum, table))


def set_where_the_values_say(x):
    table = [None] * 14
    for i in range(14):
        table[i] = x[i] if i % 3 else None
    found = 0.0
    for i in range(14):
        found = found + (1.0 if table[i] is None else table[i])
    return found


def pairs(x):
    n = len(x)
    table = [[None] * n for _ in range(n)]
    for i in range(n):
        for j in range(n):
            if j == 0:
                table[i][j] = (x[i], i)
            else:
                left, k = table[i][j - 1]
                up, _ = table[i - 1][j] if i else (x[j], 0)
                table[i][j] = (left * 0.5 + up * x[j], k + 1)
    return table[-1][-1][0] + table[3][4][1]


def whole_numbers(x):
    n = len(x)
    ways = [[None] * n for _ in range(n)]
    for i in range(n):
        for j in range(n):
            ways[i][j] = 1 if i == 0 or j == 0 else ways[i - 1][j] + ways[i][j - 1]
    assert ways[3][3] == 20
    return x[ways[2][2]] * ways[5][5]


@pytest.mark.parametrize(
    "f",
    [
        filled_in_order, borders_first, a_triangle, every_other, asked_whether_it_is_there,
        set_where_the_values_say, pairs, whole_numbers,
    ],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_value_and_gradient(f):
    value, gradient = wg.jit(wg.value_and_grad(f))(X)
    np.testing.assert_allclose(value, f(X), rtol=1e-12)
    np.testing.assert_allclose(gradient, wg.grad(f)(X), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize(
    "f", [filled_in_order, borders_first, a_triangle, every_other, pairs], ids=lambda f: f.__name__
)
def test_turns_are_traced_once(f):
    compiled = wg.jit(f)
    compiled(X)
    assert len(compiled.program(X).stages.graph.operators) < 450  # a turn each is 1,000 and more


@pytest.mark.parametrize("start", [1, 0])
def test_what_is_read_before_it_is_set(start):
    """Python's own error, as without a loop."""

    def f(x):
        table = [None] * 15
        table[0] = x[0]
        for i in range(start, 14):
            table[i + start] = table[i + 1 - start] * 0.5 + x[i]
        return table[14]

    with pytest.raises(TypeError, match="NoneType"):
        f(X)
    with pytest.raises(TypeError, match="NoneType"):
        wg.jit(f)(X)


def test_what_a_traced_condition_sets():
    def f(x):
        table = [None] * 14
        for i in range(14):
            if x[i] > 1:
                table[i] = x[i]
        return table[0]

    with pytest.raises(wg.errors.WengertError):
        wg.jit(f)(X)
