"""Long lists that loops replace in every turn."""

import numpy as np
import pytest

import wengert as wg

X = np.random.default_rng(0).uniform(0.5, 1.5, 24)


def a_new_list(x):
    u = list(x)
    for _ in range(30):
        new = [0.0] * len(u)
        for i in range(1, len(u) - 1):
            new[i] = u[i] + 0.1 * (u[i - 1] - 2 * u[i] + u[i + 1])
        u = new
    return sum(v * v for v in u)


def a_comprehension(x):
    u = [0.0] * len(x)
    for k in range(30):
        inner = [0.5 * u[i - 1] + 0.3 * u[i + 1] + x[i] * k for i in range(1, len(u) - 1)]
        u = [u[0], *inner, u[-1]]
    return sum(v * v for v in u)


def a_grid(x):
    n = 6
    grid = [[x[i] * x[j] for j in range(n)] for i in range(n)]
    for _ in range(20):
        new = [[0.0] * n for _ in range(n)]
        for i in range(1, n - 1):
            for j in range(1, n - 1):
                new[i][j] = grid[i][j] + 0.1 * (grid[i - 1][j] + grid[i][j - 1] - grid[i + 1][j])
        grid = new
    return sum(sum(row) for row in grid)


def rows_one_after_another(x):
    n = len(x)
    rows = [[0.0] * (n + 1)]
    for i in range(1, n + 1):
        row = [0.0]
        for j in range(1, n + 1):
            near = rows[i - 1][j - 1] + np.exp(-((x[i - 1] - x[n - j]) ** 2))
            row.append(max(rows[i - 1][j], row[j - 1], near))
        rows.append(row)
    return rows[n][n] + rows[3][4]


def whole_numbers(x):
    places = list(range(20))
    found = 0.0
    for k in range(30):
        places = [(p + 7) % 20 for p in places]
        found = found + x[places[3]] * places[k % 20]
    return found


def one_item_is_set(x):
    u = [v * 1.0 for v in x]
    for k in range(30):
        v = u[:]
        v[k % 24] = np.sin(u[(k + 3) % 24])
        v[3] = v[3] + 1
        u = v
    return sum(u)


def two_names(x):
    u = list(x)
    for k in range(30):
        same = u
        u = [0.9 * v + 0.1 * k for v in u]
        same[0] = same[0] + 1.0
    return sum(u) + same[0]


def written_behind_a_row(x):
    grid = [[x[i] * x[j] for j in range(5)] for i in range(5)]
    found = 0.0
    for k in range(20):
        row = grid[k % 5]
        grid[0][0] = grid[0][0] + x[k]
        found = found + row[0] * row[1]
    return found


def kept_by_a_list(x):
    u, kept = list(x), []
    for k in range(20):
        kept.append(u)
        u = [0.5 * v + k for v in u]
    kept[3][4] = 7.0
    return sum(kept[3]) + sum(u)


def one_row_appended_twice(x):
    rows = [[0.0] * 20]
    for i in range(1, 20):
        rows.append(rows[-1])
        rows[-1][i] = x[i] + rows[i - 1][i - 1]
    return sum(sum(row) for row in rows)


def rows_that_grow(x):
    rows = []
    for i in range(20):
        rows.append([])
        for j in range(12):
            rows[-1].append(x[i] * j)
    return sum(sum(row) for row in rows) + rows[3][4]


def copies_of_rows(x):
    grid = [[x[i] * x[j] for j in range(24)] for i in range(24)]
    for _ in range(3):
        new = [row[:] for row in grid]
        for i in range(1, 23):
            for j in range(1, 23):
                new[i][j] = grid[i][j] * 0.5 + 0.1 * (grid[i - 1][j] + grid[i][j + 1])
        grid = new
    return sum(sum(row) for row in grid)


def other_rows(x):
    grid = [[x[i] * x[j] for j in range(24)] for i in range(20)]
    halves = [[0.5 * v for v in row] for row in grid]
    halves[3][2] = 2.0
    joined = []
    for k, row in enumerate(halves):
        joined.append([0.5 * k, *row[1:], 1.0])
    return sum(k * row[-2] + row[0] * row[5] for k, row in enumerate(joined))


PROGRAMS = [
    (kept_by_a_list, 3000),
    (one_row_appended_twice, 3000),
    (rows_that_grow, 3000),
    (a_new_list, 200),
    (a_comprehension, 300),
    (a_grid, 300),
    (rows_one_after_another, 1500),
    (whole_numbers, 400),
    (one_item_is_set, 3000),
    (two_names, 3000),
    (written_behind_a_row, 3000),
    (copies_of_rows, 700),
    (other_rows, 700),
]


@pytest.mark.parametrize(("f", "most"), PROGRAMS, ids=[f.__name__ for f, _ in PROGRAMS])
def test_values_gradients_and_size(f, most):
    compiled = wg.jit(wg.value_and_grad(f))
    value, gradient = compiled(X)
    np.testing.assert_allclose(value, f(X), rtol=1e-12)
    along, step = np.arange(24.0) - 11, 1e-6
    slope = (f(X + step * along) - f(X - step * along)) / (2 * step)
    np.testing.assert_allclose(gradient @ along, slope, rtol=1e-6, atol=1e-6)
    assert len(compiled.program(X).stages.graph.operators) < most


@pytest.mark.parametrize("f", [a_new_list, a_comprehension, a_grid])
def test_single_precision_is_kept(f):
    x = X.astype(np.float32)
    assert wg.jit(f)(x).dtype == np.float32
    np.testing.assert_allclose(wg.jit(f)(x), f(x), rtol=1e-4)


def test_pythons_numbers_stay_pythons():
    def f(x):
        u = [0.5] * 20
        for k in range(30):
            u = [0.9 * v + k for v in u]
        return u[3] * x

    x = np.ones(2, np.float32)
    assert wg.jit(f)(x).dtype == f(x).dtype == np.float32


def test_large_tables_are_small_programs():
    """What a loop leaves in a list is elements of an array, which nobody reads here but one."""

    def f(x, n):
        table = [[1e3] * (n + 1) for _ in range(n + 1)]
        table[0][0] = 0.0
        for i in range(1, n + 1):
            for j in range(1, n + 1):
                near = min(table[i - 1][j], table[i][j - 1], table[i - 1][j - 1])
                table[i][j] = abs(x[i % 5] - x[j % 4]) + near
        return table[n][n]

    x = X[:5]
    compiled = wg.jit(f, static_argnames=["n"])
    np.testing.assert_allclose(compiled(x, n=70), f(x, 70), rtol=1e-12)
    assert len(compiled.program(x, n=70).stages.graph.operators) < 30


def attracted(x, kind):
    """Particles as lists or tuples of coordinates."""
    n = 8
    places = [kind([x[3 * i + k] for k in range(3)]) for i in range(n)]
    speeds = [kind([0.0, 0.1 * i, x[i]]) for i in range(n)]
    for _ in range(12):
        new = []
        for i in range(n):
            a = b = c = 0.0
            p, q, r = places[i]
            for j in range(n):
                if i != j:
                    u, v, w = places[j]
                    u, v, w = u - p, v - q, w - r
                    near = (u * u + v * v + w * w + 0.1) ** -1.5
                    a, b, c = a + near * u, b + near * v, c + near * w
            p, q, r = speeds[i]
            new.append(kind([p + 0.01 * a, q + 0.01 * b, r + 0.01 * c]))
        speeds = new
        pairs = zip(places, speeds, strict=True)
        places = [kind([p + 0.01 * q for p, q in zip(*pair, strict=True)]) for pair in pairs]
    return sum(p * p + q * q * r for p, q, r in places)


@pytest.mark.parametrize("kind", [list, tuple])
def test_particles(kind):
    compiled = wg.jit(lambda x: attracted(x, kind))
    np.testing.assert_allclose(compiled(X), attracted(X, kind), rtol=1e-12)
    gradient = wg.jit(wg.grad(lambda x: attracted(x, kind)))(X)
    np.testing.assert_allclose(gradient, wg.grad(lambda x: attracted(x, kind))(X), rtol=1e-10)
    loop = next(one for one in compiled.program(X).stages.graph.operators if one.op.name == "scan")
    assert len(loop.params["body"].graph.operators) < 500  # a pair each is 1,000


def test_tuples_of_several_lengths_and_of_other_things():
    def f(x):
        pairs = [(x[0], x[1]), (x[1], x[2], x[3]), (x[2], x[0])] * 4
        named = [(x[k], "ab"[k % 2]) for k in range(12)]
        s = 0.0
        for k in range(12):
            s = s * 0.5 + pairs[k][0] * pairs[k][-1] + (named[k][0] if named[k][1] == "a" else 0)
        return s

    np.testing.assert_allclose(wg.jit(f)(X), f(X), rtol=1e-12)
