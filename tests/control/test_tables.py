"""Tables that nested loops fill element by element: dynamic programming as it is written down.

Each program is run by NumPy itself, and compiled it must give the same, as must its derivatives in
all modes. What it costs grows like the number of elements: that is counted, in what the loops do
and in the memory that they need.
"""

import numpy as np
import pytest

import wengert as wg

RNG = np.random.default_rng(0)


def warping(x):
    """How far two curves are apart under warped time, with a soft minimum."""
    n, other = len(x), np.cos(np.arange(len(x)) / 3)
    table = np.full((n + 1, n + 1), 1e3)
    table[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, n + 1):
            ways = np.array([table[i - 1, j], table[i, j - 1], table[i - 1, j - 1]])
            low = np.min(ways)
            best = low - np.log(np.sum(np.exp(low - ways)))
            table[i, j] = (x[i - 1] - other[j - 1]) ** 2 + best
    return table[n, n]


def edits(x):
    """The cheapest way to change one sequence into another, by hard choices."""
    n = len(x)
    cost = np.zeros((n + 1, n + 1))
    for i in range(1, n + 1):
        cost[i, 0] = 0.7 * i
    for j in range(1, n + 1):
        cost[0, j] = 0.6 * j
    for i in range(1, n + 1):
        for j in range(1, n + 1):
            changed = cost[i - 1, j - 1] + (x[i - 1] - x[n - j]) ** 2
            cost[i, j] = min(changed, cost[i - 1, j] + 0.7, cost[i, j - 1] + 0.6)
    return cost[n, n]


def alignment(x):
    """The best local alignment, with gaps that are cheaper the longer they are: three tables."""
    n = len(x)
    best, down, right = np.zeros((n + 1, n + 1)), np.zeros((n + 1, n + 1)), np.zeros((n + 1, n + 1))
    for i in range(1, n + 1):
        for j in range(1, n + 1):
            down[i, j] = np.maximum(best[i - 1, j] - 0.9, down[i - 1, j] - 0.2)
            right[i, j] = np.maximum(best[i, j - 1] - 0.9, right[i, j - 1] - 0.2)
            match = best[i - 1, j - 1] + 1 - np.abs(x[i - 1] - x[n - j])
            best[i, j] = np.maximum(np.maximum(match, 0.0), np.maximum(down[i, j], right[i, j]))
    return np.sum(best * best)


def lattice(x):
    """The sum over all paths through labels with blanks between them, in logarithms."""
    steps, states = len(x), 9
    scores = np.sin(x[:, None] * np.arange(1, states + 1))
    alpha = np.full((steps, states), -50.0)
    alpha[0, 0], alpha[0, 1] = scores[0, 0], scores[0, 1]
    for t in range(1, steps):
        for s in range(states):
            total = alpha[t - 1, s]
            if s > 0:
                total = np.logaddexp(total, alpha[t - 1, s - 1])
            if s > 1 and s % 2 == 1:
                total = np.logaddexp(total, alpha[t - 1, s - 2])
            alpha[t, s] = total + scores[t, s]
    return np.logaddexp(alpha[steps - 1, states - 1], alpha[steps - 1, states - 2])


def chain(x):
    """A hidden Markov model, three loops deep."""
    steps, states = len(x), 10
    moves = np.exp(-np.abs(np.arange(states)[:, None] - np.arange(states)) / 3.0)
    alpha = np.zeros((steps, states))
    for s in range(states):
        alpha[0, s] = np.exp(-((x[0] - s / 5) ** 2))
    for t in range(1, steps):
        for s in range(states):
            total = 0.0
            for r in range(states):
                total = total + alpha[t - 1, r] * moves[r, s]
            alpha[t, s] = total * np.exp(-((x[t] - s / 5) ** 2)) * 0.3
    return np.log(np.sum(alpha[steps - 1]))


def sack(x):
    """The best load: what is written lies in the same row as what is read, further down."""
    n, room = len(x), 3 * len(x)
    weights = np.arange(n) % 5 + 1
    best = np.zeros(room + 1)
    for i in range(n):
        for w in range(room, 5, -1):
            best[w] = np.maximum(best[w], best[w - weights[i]] + x[i] ** 2)
    return best[room]


def heat(x):
    """Heat along a bar, with an inner loop over its places."""
    n, steps = len(x), len(x)
    u = np.zeros((steps + 1, n))
    for j in range(n):
        u[0, j] = x[j]
    for t in range(steps):
        for j in range(1, n - 1):
            u[t + 1, j] = (
                u[t, j] + 0.2 * (u[t, j + 1] - 2 * u[t, j] + u[t, j - 1]) + u[t, j] ** 2 / 9
            )
    return np.sum(u[steps] ** 2) + u[steps // 2, n // 2]


def relaxed(x):
    """Gauss and Seidel: places are written again and again, each as soon as it is known."""
    n = len(x)
    u = np.zeros((n, n))
    u[0] = x
    for _ in range(9):
        for i in range(1, n - 1):
            for j in range(1, n - 1):
                around = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]
                u[i, j] = u[i, j] + 0.8 * (np.tanh(around) / 4 - u[i, j])
    return np.sum(u * u)


def eliminated(x):
    """Gauss's elimination by elements, in the matrix itself."""
    n = len(x)
    a = np.exp(-np.abs(x[:, None] - x)) + 2 * np.eye(n)
    for k in range(n - 1):
        for i in range(1, n):
            if i > k:
                factor = a[i, k] / a[k, k]
                a[i, k] = factor
                for j in range(1, n):
                    if j > k:
                        a[i, j] = a[i, j] - factor * a[k, j]
    total = 0.0
    for k in range(n):
        total = total + np.log(a[k, k])
    return total


def rows(x):
    """Whole rows, and parts of them, in a single loop."""
    n = len(x)
    path = np.zeros((n + 1, n))
    path[0] = x
    for t in range(n):
        path[t + 1] = np.sin(path[t]) + 0.1 * path[t, ::-1]
        path[t + 1, 1:-1] += 0.2 * path[t, 2:] * path[t, :-2]
    return np.sum(path[n]) + np.sum(path[:, 2] ** 2)


def chosen(x):
    """Writes under conditions that values decide on."""
    n = len(x)
    table = np.zeros((n, n))
    for i in range(n):
        for j in range(1, n):
            if x[i] * x[j] > 0.1:
                table[i, j] = table[i, j - 1] + x[i] * x[j]
            elif x[j] > 0:
                table[i, j] = 0.5 * table[i, j - 1]
    return np.sum(table**2)


def read_late(x):
    """A place is read after another was written, and one that was written is read at once."""
    n = len(x)
    table = np.ones((n, n)) * x
    for i in range(1, n):
        for j in range(1, n):
            old = table[i, j]
            table[i, j] = 0.3 * table[i - 1, j] * x[j]
            table[i, j - 1] = table[i, j] + 0.5 * table[i, j - 1] + old
            table[i, j] += old * table[i - 1, j - 1]
    return np.sum(np.tanh(table))


def until(x):
    """A `while` around a loop that writes."""
    n = len(x)
    u = np.zeros(n)
    turns, change = 0, 1.0
    while change > 1e-3 and turns < 40:
        change = 0.0
        for i in range(1, n - 1):
            new = 0.4 * (u[i - 1] + u[i + 1]) + 0.1 * x[i]
            change = np.maximum(change, np.abs(new - u[i]))
            u[i] = new
        turns = turns + 1
    return np.sum(u**2)


def counted(x):
    """A `while` that writes one element a turn."""
    n = len(x)
    path = np.zeros(n)
    path[0], i = x[0], 1
    while i < n and path[i - 1] < 9:
        path[i] = np.sin(path[i - 1]) + x[i]
        i = i + 1
    return np.sum(path**2)


PROGRAMS = [
    warping,
    edits,
    alignment,
    lattice,
    chain,
    sack,
    heat,
    relaxed,
    eliminated,
    rows,
    chosen,
    read_late,
    until,
    counted,
]
X, V = RNG.normal(size=12), RNG.normal(size=12)


def over(*fast, leaving_out=()):
    """A test of every program, of which these are run every time."""
    programs = [f for f in PROGRAMS if f not in leaving_out]
    marks = [() if f in fast or not fast else pytest.mark.slow for f in programs]
    cases = zip(programs, marks, strict=True)
    return pytest.mark.parametrize(
        "f", [pytest.param(f, id=f.__name__, marks=mark) for f, mark in cases]
    )


def slope(f, x, v, h=1e-5):
    """The derivative along a direction, by differences."""
    return (f(x + h * v) - f(x - h * v)) / (2 * h)


@over()
def test_the_value_is_that_of_numpy(f):
    np.testing.assert_allclose(wg.jit(f)(X), f(X), rtol=1e-12)


@over()
def test_derivatives(f):
    value, gradient = wg.jit(wg.value_and_grad(f))(X)
    np.testing.assert_allclose(value, f(X), rtol=1e-12)
    np.testing.assert_allclose(gradient @ V, slope(f, X, V), rtol=1e-6, atol=1e-8)
    _, tangent = wg.jit(lambda x, v: wg.jvp(f, (x,), (v,)))(X, V)
    np.testing.assert_allclose(tangent, gradient @ V, rtol=1e-10, atol=1e-12)


@over(warping, read_late, chosen)
def test_second_derivatives(f):
    product = wg.jit(lambda x, v: wg.hvp(f, x, v))(X, V)
    gradient = wg.jit(wg.grad(f))
    np.testing.assert_allclose(product, slope(gradient, X, V), rtol=1e-5, atol=1e-7)


@over(warping, read_late, chosen)
def test_batches(f):
    xs = RNG.normal(size=(3, 12))
    np.testing.assert_allclose(wg.jit(wg.vmap(f))(xs), [f(x) for x in xs], rtol=1e-12)
    compiled = wg.jit(wg.grad(f))
    want = np.array([compiled(x) for x in xs])
    np.testing.assert_allclose(wg.jit(wg.vmap(wg.grad(f)))(xs), want, rtol=1e-9, atol=1e-12)
    together = wg.jit(wg.grad(lambda xs: np.sum(wg.vmap(f)(xs))))
    np.testing.assert_allclose(together(xs), want, rtol=1e-9, atol=1e-12)


@over(warping, rows)
def test_single_precision(f):
    value, gradient = wg.jit(wg.value_and_grad(f))(X.astype(np.float32))
    _, want = wg.jit(wg.value_and_grad(f))(X)
    assert gradient.dtype == np.float32
    np.testing.assert_allclose(value, f(X), rtol=1e-3)
    np.testing.assert_allclose(gradient, want, rtol=2e-2, atol=1e-3)


# How many times the elements are as many if the length doubles; else four times.
GROWTH = {chain: 2, lattice: 2, eliminated: 8}


def check_growth(f, transform, shape=()):
    """What a compiled program does, and its memory, for a length and for twice that."""

    def count(n):
        loops = wg.jit(transform(f)).program(np.ones((*shape, n))).stages.loops
        return sum(kernel.work for kernel in loops.kernels), loops.arena_bytes

    few, many = count(24), count(48)
    most = 1.3 * GROWTH.get(f, 4)
    assert many[0] < most * few[0]
    assert many[1] < max(most, 2.6) * few[1]  # there are arguments and results too


# Of a `while` nobody knows the turns: what one of them does is counted.
GROWTH |= {until: 2, counted: 1}


@over()
def test_the_work_grows_with_the_elements(f):
    check_growth(f, lambda f: f)


@over(warping, lattice, rows, chosen, eliminated, leaving_out=[until, counted])
def test_the_work_of_a_gradient_grows_with_the_elements(f):
    check_growth(f, wg.grad)


@over(warping, eliminated, chosen, leaving_out=[until, counted])
def test_the_work_of_a_batch_of_gradients_grows_with_the_elements(f):
    check_growth(f, lambda f: wg.vmap(wg.grad(f)), shape=(4,))


def test_an_index_out_of_range():
    def beyond(x):
        table = np.zeros((9, 9))
        for i in range(9):
            for j in range(9):
                table[i, j + 1] = x
        return np.sum(table)

    with pytest.raises(IndexError):
        wg.jit(beyond)(1.0)


KEYS = [
    lambda i, j: i,
    lambda i, j: (i, slice(1, 3)),
    lambda i, j: (slice(None), i, slice(0, 4, 2)),
    lambda i, j: (i, j),
    lambda i, j: (i, slice(None), j),
    lambda i, j: (i, None, j),
    lambda i, j: (None, i, 2),
    lambda i, j: (i, ..., j),
    lambda i, j: (i, 1, slice(2, None)),
    lambda i, j: (slice(1, None), i, j),
    lambda i, j: (..., i),
    lambda i, j: (i, j, ..., None),
]


@pytest.mark.parametrize("key", KEYS, ids=range(len(KEYS)))
def test_integers_among_other_items_of_a_key(key):
    def f(x, i, j):
        y = x.copy()
        part = y[key(i, j)]
        y[key(i, j)] = 2 * part + 1
        return part, y, y[key(i, j)]

    x = np.arange(60.0).reshape(3, 4, 5)
    for got, want in zip(wg.jit(f)(x, 2, -1), f(x, 2, -1), strict=True):
        np.testing.assert_array_equal(got, want, strict=True)
