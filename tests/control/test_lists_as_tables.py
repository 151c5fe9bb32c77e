"""Lists, and lists of lists, whose items loops set at places that the turns tell.

Each program is run by Python itself, and compiled it must give the same, as must its gradient; what
it becomes does not grow with the turns.
"""

import numpy as np
import pytest

import wengert as wg
from wengert.errors import MutationError

X = np.random.default_rng(0).uniform(0.5, 1.5, 14)


def edits(x):
    n = len(x)
    cost = [[0.0] * (n + 1) for _ in range(n + 1)]
    for i in range(n + 1):
        cost[i][0] = cost[0][i] = 0.7 * i
    for i in range(1, n + 1):
        for j in range(1, n + 1):
            changed = cost[i - 1][j - 1] + (x[i - 1] - x[n - j]) ** 2
            cost[i][j] = min(changed, cost[i - 1][j] + 0.7, cost[i][j - 1] + 0.6)
    return cost[n][n] + cost[-1][3]


def whole_numbers_at_first(x):
    n = len(x)
    ways = [[0] * n for _ in range(n)]
    for i in range(n):
        for j in range(n):
            ways[i][j] = x[i] if j == 0 else ways[i][j - 1] + ways[i - 1][j] * 0.1
    return ways[n - 1][n - 1]


def knapsack(x):
    weights, room = [3, 4, 2, 5, 6, 1, 7, 3, 4, 5, 2, 6, 3, 1], 25
    best = [0.0] * (room + 1)
    for i in range(len(weights)):
        for left in range(room, weights[i] - 1, -1):
            best[left] = max(best[left], best[left - weights[i]] + x[i])
    return best[room]


def chain(x):
    n = len(x) - 1
    cost = [[0.0] * n for _ in range(n)]
    for length in range(2, n + 1):
        for i in range(n - length + 1):
            j = i + length - 1
            best = 1e30
            for k in range(i, j):
                best = min(best, cost[i][k] + cost[k + 1][j] + x[i] * x[k + 1] * x[j + 1])
            cost[i][j] = best
    return cost[0][n - 1]


def shortest(x):
    n = len(x)
    d = [[abs(x[i] - x[j]) + 0.3 * ((i * j) % 5) for j in range(n)] for i in range(n)]
    for k in range(n):
        for i in range(n):
            for j in range(n):
                if d[i][k] + d[k][j] < d[i][j]:
                    d[i][j] = d[i][k] + d[k][j]
    return sum(sum(row) for row in d)


def factors(x):
    n = len(x)
    a = (np.outer(x, x) + 9 * np.eye(n)).tolist()
    for k in range(n):
        for i in range(k + 1, n):
            f = a[i][k] / a[k][k]
            for j in range(k, n):
                a[i][j] -= f * a[k][j]
    found = 1.0
    for i in range(n):
        found = found * a[i][i]
    return np.log(found)


def scores_with_places(x):
    n = len(x)
    table = [[(0.0, 0)] * n for _ in range(n)]
    for i in range(1, n):
        for j in range(1, n):
            up, left = table[i - 1][j], table[i][j - 1]
            if up[0] > left[0]:
                table[i][j] = (up[0] + x[j], i)
            else:
                table[i][j] = (left[0] + x[i], j)
    score, place = table[n - 1][n - 1]
    return score + 0.1 * place


class Solver:
    def __init__(self, n):
        self.n = n
        self.table = [[0.0] * n for _ in range(n)]
        self.best = 0.0

    def fill(self, x):
        for i in range(1, self.n):
            for j in range(1, self.n):
                self.table[i][j] = 0.5 * self.table[i - 1][j] + x[i] * self.table[i][j - 1] + x[j]
                self.best = max(self.best, self.table[i][j])


def in_an_attribute(x):
    solver = Solver(len(x))
    solver.fill(x)
    return solver.best + solver.table[3][4]


def two_in_a_dict(x):
    n = len(x)
    tables = {"a": [[0.0] * n for _ in range(n)], "b": [[1.0] * n for _ in range(n)]}
    for i in range(1, n):
        for j in range(n):
            tables["a"][i][j] = tables["b"][i - 1][j] * x[i]
            tables["b"][i][j] = tables["a"][i - 1][j] + x[j]
    return tables["a"][n - 1][3] * tables["b"][n - 1][4]


def row_by_row(x):
    n = len(x)
    table = [[0.0] * n for _ in range(n)]
    for i in range(1, n):
        before, row = table[i - 1], table[i]
        for j in range(1, n):
            row[j] = 0.4 * before[j] + 0.3 * row[j - 1] + x[i] * x[j]
    return sum(table[n - 1]) + max(table[3])


def in_a_helper(x):
    n = len(x)
    table = [[0.0] * n for _ in range(n)]

    def relax(i, j):
        table[i][j] = 0.4 * table[i - 1][j] + x[j]

    for i in range(n):
        for j in range(n):
            relax(i, j)
    return table[-1][-1]


def in_branches(x):
    n = len(x)
    table = [[0.0] * n for _ in range(n)]
    solver = Solver(n)
    if x[0] > 100:
        for i in range(n):
            for j in range(n):
                table[i][j] = x[i] * j
    else:
        solver.fill(x)
    return table[3][4] + solver.table[4][5]


def filled_in_a_branch(x):
    found = [0.5] * len(x)
    if x[0] > 0.1:
        for i in range(1, len(x)):
            found[i] = x[i] * found[i - 1]
    return sum(found)


def while_something_holds(x):
    n, error = len(x), 1.0
    table = [[0.0] * n for _ in range(n)]
    while error > 0.01:
        error = 0.5 * error * x[0]
        for i in range(n):
            for j in range(n):
                table[i][j] = 0.5 * table[i][j] + x[i] * j
    return table[3][4] + error


def an_attribute_in_three_loops(x):
    solver, found = Solver(len(x)), 0.0
    for k in range(len(x)):
        solver.fill(x)
        found = found + solver.table[3][k]
    return found


def with_the_way_back(x):
    """The best way through states, found again from its end."""
    states, steps = 4, len(x)
    best = [[0.0] * steps for _ in range(states)]
    back = [[0] * steps for _ in range(states)]
    for k in range(states):
        best[k][0] = x[0] * k
    for t in range(1, steps):
        for k in range(states):
            top, place = best[0][t - 1], 0
            for j in range(1, states):
                score = best[j][t - 1] - 0.3 * x[t] * abs(j - k)
                if score > top:
                    top, place = score, j
            best[k][t] = top + np.sin(x[t] * (k + 1))
            back[k][t] = place
    last, found = 2, 0.0
    for t in range(steps - 1, 0, -1):
        last = back[last][t]
        found = found + x[t] * last
    return best[2][steps - 1] + 0.1 * found


def three_deep(x):
    n = len(x)
    cube = [[[0.0] * n for _ in range(n)] for _ in range(n)]
    for i in range(1, n):
        for j in range(1, n):
            for k in range(1, n):
                cube[i][j][k] = 0.3 * cube[i - 1][j][k] + 0.3 * cube[i][j - 1][k - 1] + x[k]
    return cube[n - 1][n - 1][n - 1]


TABLES = [
    edits,
    whole_numbers_at_first,
    knapsack,
    chain,
    shortest,
    factors,
    scores_with_places,
    in_an_attribute,
    two_in_a_dict,
    row_by_row,
    in_a_helper,
    with_the_way_back,
    in_branches,
    filled_in_a_branch,
    while_something_holds,
    an_attribute_in_three_loops,
    three_deep,
]


def slope(f, x, along):
    step = 1e-6 * along
    return (f(x + step) - f(x - step)) / 2e-6


def check(f, x):
    """Compare with Python, and the gradient with differences; the number of operations."""
    compiled = wg.jit(wg.value_and_grad(f))
    value, gradient = compiled(x)
    np.testing.assert_allclose(value, f(x), rtol=1e-12)
    along = np.random.default_rng(1).normal(size=x.shape)
    np.testing.assert_allclose(gradient @ along, slope(f, x, along), rtol=1e-6, atol=1e-7)
    return len(compiled.program(x).stages.graph.operators)


@pytest.mark.parametrize("f", TABLES, ids=[f.__name__ for f in TABLES])
def test_traced_once(f):
    assert check(f, X) < 300  # a turn for each element is thousands


def test_single_precision_is_kept():
    got = wg.jit(edits)(X.astype(np.float32))
    assert got.dtype == edits(X.astype(np.float32)).dtype == np.float32


# ---------------------------------------------------------------- one list held twice


def one_row_many_times(x):
    table = [[0.0] * 12] * 12
    for i in range(12):
        for j in range(12):
            table[i][j] = table[i - 1][j] + x[j]
    return table[0][3] + table[5][4]


def a_row_by_another_name(x):
    table = [[0.0] * 12 for _ in range(12)]
    row = table[3]
    for i in range(12):
        for j in range(12):
            table[i][j] = x[i] + row[0]
    return table[5][4] + sum(row)


def one_row_is_another(x):
    table = [[0.0] * 12 for _ in range(12)]
    table[4] = table[5]
    for i in range(12):
        for j in range(12):
            table[i][j] = table[i][j] + x[i]
    return sum(sum(row) for row in table)


def held_by_an_object(x):
    solver = Solver(12)
    table = solver.table
    for i in range(1, 12):
        for j in range(1, 12):
            table[i][j] = solver.table[i - 1][j] + x[i]
    return solver.table[11][3] + table[4][4]


def held_by_a_default(x):
    table = [[0.0] * 12 for _ in range(12)]

    def above(i, j, own=table):
        return own[i - 1][j]

    for i in range(1, 12):
        for j in range(1, 12):
            table[i][j] = above(i, j) + x[i]
    return table[11][3]


def looked_at_behind_the_loop(x):
    table = [[0.0] * 12 for _ in range(12)]
    first, rows = table[0], list(table)
    for i in range(12):
        for j in range(12):
            table[i][j] = x[i] * j
    rows[2][2] = 100.0
    return sum(first) + sum(rows[11]) + table[2][2]


def a_row_is_replaced(x):
    table = [[0.0] * 12 for _ in range(12)]
    kept = table[5]
    for i in range(1, 12):
        for j in range(12):
            table[i][j] = table[i - 1][j] + x[i]
        if i == 5:
            table[i] = [1.0] * 12
    return sum(sum(row) for row in table) + sum(kept)


SHARED = [
    one_row_many_times,
    a_row_by_another_name,
    one_row_is_another,
    held_by_an_object,
    held_by_a_default,
    looked_at_behind_the_loop,
    a_row_is_replaced,
]


@pytest.mark.parametrize("f", SHARED, ids=[f.__name__ for f in SHARED])
def test_lists_held_twice_are_one(f):
    check(f, X)


def test_an_index_out_of_range():
    def f(x):
        table = [[0.0] * 12 for _ in range(12)]
        for i in range(12):
            for j in range(12):
                table[i][j] = table[i][j + 1] + x
        return table[3][3]

    with pytest.raises(IndexError):
        f(1.0)
    with pytest.raises(IndexError):
        wg.jit(f)(1.0)


@pytest.mark.parametrize("key", [0, "a"])
def test_an_item_of_what_was_read_at_a_traced_place(key):
    """Which of the lists it is nobody knows, so none may be read after a write."""

    def f(x):
        rows = [[1.0, 2.0], [3.0, 4.0]] if key == 0 else [{"a": 1.0}, {"a": 2.0}]
        row = rows[int(x > 0)]
        row[key] = 5.0 * x
        return rows[1][key]

    with pytest.raises(MutationError, match="whether it was changed"):
        wg.jit(f)(1.5)
