"""Lists and arrays in a list, of which a traced place tells which are exchanged or written to."""

import numpy as np
import pytest

import wengert as wg
from wengert.errors import ControlFlowError, MutationError

X = np.random.default_rng(1).normal(size=25)
ALONG = np.cos(np.arange(25.0))


def listed(x):
    return [[x[5 * i + j] for j in range(5)] for i in range(5)]


def arrays(x):
    return [x[5 * i : 5 * i + 5].copy() for i in range(5)]


def solved_by_lists(x):
    a, b = listed(x), [1.0 * i for i in range(5)]
    for k in range(5):
        p = k
        for i in range(k + 1, 5):
            if abs(a[i][k]) > abs(a[p][k]):
                p = i
        a[k], a[p] = a[p], a[k]
        b[k], b[p] = b[p], b[k]
        for i in range(k + 1, 5):
            f = a[i][k] / a[k][k]
            for j in range(k, 5):
                a[i][j] -= f * a[k][j]
            b[i] -= f * b[k]
    y = [0.0] * 5
    for i in range(4, -1, -1):
        y[i] = (b[i] - sum(a[i][j] * y[j] for j in range(i + 1, 5))) / a[i][i]
    return np.array(y)


def inverted_by_arrays(x):
    a = arrays(x)
    for k in range(5):
        p = max(range(k, 5), key=lambda r: abs(a[r][k]))
        a[k], a[p] = a[p], a[k]
        a[k] = a[k] / a[k][k]
        for i in range(5):
            if i != k:
                a[i] = a[i] - a[k] * a[i][k]
    return sum(a[i][(i + 1) % 5] for i in range(5))


def in_place(x):
    a = arrays(x)
    for k in range(4):
        p = k + int(np.argmax(np.abs([a[r][k] for r in range(k, 5)])))
        a[p], a[k] = a[k], a[p]
        a[k] /= a[k][k] + 3
        for i in range(k + 1, 5):
            a[i] -= a[k] * a[i][k]
    return np.array(a)


def determinant(x):
    a, d = arrays(x), 1.0
    for k in range(4):
        p, best = k, abs(a[k][k])
        for i in range(k + 1, 5):
            if abs(a[i][k]) > best:
                best, p = abs(a[i][k]), i
        if p != k:
            held = a[k]
            a[k] = a[p]
            a[p] = held
            d = -d
        for i in range(k + 1, 5):
            a[i] = a[i] - a[k] * (a[i][k] / a[k][k])
    for k in range(5):
        d = d * a[k][k]
    return d


def what_was_held(x):
    a, k = listed(x), int(np.argmax(x[:5]))
    held = a[1]
    a[1] = a[k]
    a[k] = held
    return held[0] * a[1][0] + a[0][2], np.array(a)


def elements_of_rows(x):
    rows, other, k = listed(x), arrays(x), int(np.argmax(x[:5]))
    first = rows[0]
    rows[k][2] = 5.0 * x[0]
    rows[k - 5][3] += x[1] * rows[k][2]
    other[k][2] = 5.0 * x[0]
    other[k - 3][k] *= 3
    other[k] *= 2
    return np.array(rows), np.array(other), first[2]


def the_same_row_twice(x):
    row, k = [x[0], x[1]], int(np.argmax(x[:3]))
    rows = [row, [x[2], x[3]], row]
    rows[k][1] = x[4] * 3
    return np.array(rows), row[1]


def rows_set(x):
    a, b, k = listed(x), arrays(x), int(np.argmin(x[:5]))
    a[k] = [2 * v for v in a[k]]
    b[k] = b[0] * b[1]
    b[2][1] = 7.0
    a[3][0] = x[9]
    return np.array(a), np.array(b)


def exchanged_twice(x):
    a, k, m = arrays(x), int(np.argmin(x[:5])), int(np.argmax(x[:5]))
    a[k], a[m] = a[m], a[k]
    a[0][1] = 3 * x[0]
    a[0], a[-1] = a[-1], a[0]
    a[k], a[2] = a[2], a[k]
    a[4] += a[k - 1]
    return np.array(a)


def in_a_branch(x):
    a, k = listed(x), int(np.argmax(x[5:10]))
    if x[3] > 0:
        a[0], a[k] = a[k], a[0]
        a[k][1] = 4.0
    return np.array(a)


EXCHANGED = [solved_by_lists, inverted_by_arrays, in_place, determinant, what_was_held]
EXCHANGED += [elements_of_rows, the_same_row_twice, rows_set, exchanged_twice, in_a_branch]


def total(f):
    def found(x):
        parts = f(x) if isinstance(f(x), tuple) else (f(x),)
        return sum(np.sum(np.cos(part) * part) for part in parts)

    return found


@pytest.mark.parametrize("f", EXCHANGED, ids=lambda f: f.__name__)
def test_values_and_derivatives(f):
    compiled, gradient = wg.jit(f), wg.jit(wg.grad(total(f)))
    for x in (X, X[::-1].copy(), np.roll(X, 3)):
        for got, want in zip(wg.tree.leaves(compiled(x)), wg.tree.leaves(f(x)), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-11)
        step = 1e-6 * ALONG
        slope = (total(f)(x + step) - total(f)(x - step)) / 2e-6
        np.testing.assert_allclose(gradient(x) @ ALONG, slope, rtol=2e-5, atol=1e-5)


def held_before(x):
    a, k = arrays(x), int(np.argmax(x[:5]))
    held = a[0]
    a[0], a[k] = a[k], a[0]
    a[1][2] = 5.0
    return held + a[1]


def written_by_who_held_it(x):
    a, k = listed(x), int(np.argmax(x[:5]))
    held = a[0]
    a[0], a[k] = a[k], a[0]
    held[1] = 5.0
    return np.array(a)


def an_array_held_and_written(x):
    a, k = arrays(x), int(np.argmax(x[:5]))
    held = a[0]
    a[0], a[k] = a[k], a[0]
    held[1] = 5.0
    return np.array(a)


def a_row_set_and_changed(x):
    a, new, k = listed(x), [x[0]] * 5, int(np.argmax(x[:5]))
    a[k] = new
    new[1] = 5.0
    return np.array(a)


@pytest.mark.parametrize(
    "f", [held_before, written_by_who_held_it, an_array_held_and_written, a_row_set_and_changed]
)
def test_what_others_hold_is_not_known(f):
    with pytest.raises(MutationError, match="is not known"):
        wg.jit(f)(X)


def held_and_only_read(x):
    a, b, k = listed(x), arrays(x), int(np.argmax(x[:5]))
    first, second = a[0], b[0]
    a[0], a[k] = a[k], a[0]
    b[0], b[k] = b[k], b[0]
    return first[1] * a[0][1] + np.sum(second * b[0])


def test_what_others_hold_can_be_read():
    for x in (X, X[::-1].copy()):
        np.testing.assert_allclose(wg.jit(held_and_only_read)(x), held_and_only_read(x))


def test_rows_of_other_lengths():
    def f(x):
        a, k = [[x[0]], [x[1], x[2]]], int(np.argmax(x[:2]))
        a[0], a[k] = a[k], a[0]
        return a[0][0]

    with pytest.raises(ControlFlowError, match="not of one shape"):
        wg.jit(f)(X)


def test_a_place_that_is_not_there():
    def f(x, k):
        a = listed(x)
        a[k][1] = 2.0
        return np.array(a)

    np.testing.assert_array_equal(wg.jit(f)(X, -5), f(X, -5))
    for k in (5, -6):
        with pytest.raises(IndexError):
            wg.jit(f)(X, k)


def test_arrays_are_exchanged_as_numpy_does():
    def f(x):
        a = x.reshape(5, 5).copy()
        a[0], a[1] = a[1], a[0]
        held = a[2]
        a[2] = a[3]
        a[3] = held
        held[0] = 9.0
        return a

    np.testing.assert_array_equal(wg.jit(f)(X), f(X))


# ---------------------------------------------------------------- in loops of many turns

MANY = np.random.default_rng(3).normal(size=100)
MANY_ALONG = np.cos(np.arange(100.0))


def table(x):
    return [[x[10 * i + j] for j in range(10)] for i in range(10)]


def solved(x):
    a, b = table(x), [1.0 * i for i in range(10)]
    for k in range(10):
        p = k
        for i in range(k + 1, 10):
            if abs(a[i][k]) > abs(a[p][k]):
                p = i
        a[k], a[p] = a[p], a[k]
        b[k], b[p] = b[p], b[k]
        for i in range(k + 1, 10):
            f = a[i][k] / a[k][k]
            for j in range(k, 10):
                a[i][j] -= f * a[k][j]
            b[i] -= f * b[k]
    y = [0.0] * 10
    for i in range(9, -1, -1):
        s = b[i]
        for j in range(i + 1, 10):
            s -= a[i][j] * y[j]
        y[i] = s / a[i][i]
    return np.array(y)


def with_a_name_for_a_row(x):
    a = table(x)
    for k in range(10):
        p = k
        for i in range(k + 1, 10):
            if a[i][k] > a[p][k]:
                p = i
        held = a[k]
        a[k] = a[p]
        a[p] = held
        held[0] += 1.0
        row = a[k]
        row[k] = row[k] * 2
    return np.array(a)


def a_row_held_around(x):
    a, s = table(x), 0.0
    for k in range(9):
        row = a[k]
        for i in range(9):
            s = s + row[i]
            a[i], a[i + 1] = a[i + 1], a[i]
        s = s + row[0]
    return s


def neighbours_in_order(x):
    a = table(x)
    for k in range(9):
        for i in range(9 - k):
            if a[i][0] > a[i + 1][0]:
                a[i], a[i + 1] = a[i + 1], a[i]
    return np.array(a)


IN_LOOPS = [solved, with_a_name_for_a_row, a_row_held_around, neighbours_in_order]


@pytest.mark.parametrize("f", IN_LOOPS, ids=lambda f: f.__name__)
def test_in_loops(f):
    np.testing.assert_allclose(wg.jit(f)(MANY), f(MANY), rtol=1e-8)
    gradient = wg.jit(wg.grad(total(f)))(MANY)
    step = 1e-7 * MANY_ALONG
    slope = (total(f)(MANY + step) - total(f)(MANY - step)) / 2e-7
    np.testing.assert_allclose(gradient @ MANY_ALONG, slope, rtol=1e-4)


def test_elimination_is_one_loop():
    assert len(wg.jit(solved).program(MANY).stages.graph.operators) < 100


def test_a_row_that_was_held_before_a_loop():
    def f(x):
        a = table(x)
        first = a[0]
        for k in range(10):
            p = k
            for i in range(k + 1, 10):
                if a[i][k] > a[p][k]:
                    p = i
            a[k], a[p] = a[p], a[k]
        return first[0] * a[0][0]

    with pytest.raises(MutationError, match="is not known"):
        wg.jit(f)(MANY)


def test_items_of_dictionaries():
    def f(x):
        rows = [{"a": 1.0}, {"a": 2.0}]
        rows[int(x > 0)]["a"] = 5.0 * x
        return x

    assert wg.jit(f)(1.5) == 1.5
