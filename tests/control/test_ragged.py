"""Slices and masks whose length changes from turn to turn: traced once, with NumPy's values."""

import numpy as np
import pytest

import wengert as wg

X = np.linspace(0.3, 1.7, 12)
M = np.cos(np.arange(144.0)).reshape(12, 12) + 4 * np.eye(12)
TIMES = np.sin(np.arange(12.0) ** 2)
EVENTS = TIMES > -0.95


def tails(x):
    s = 0.0
    for i in range(12):
        s = s + np.log(np.sum(np.exp(x[i:]))) * i
    return s


def heads_and_tails(x):
    s = 0.0
    for i in range(1, 12):
        s = s + np.mean(x[:i] ** 2) - x[i:].max() + np.min(x[:i]) * x[-i:].sum()
    return s


def empty_ones(x):
    s = 0.0
    for i in range(12):
        s = s + np.sum(x[:i]) * 2 + x[i + 1 :].prod() + np.sum(x[5:i])
    return s


def back_substitution(x):
    y = np.zeros(12)
    for i in range(11, -1, -1):
        y[i] = (x[i] - M[i, i + 1 :] @ y[i + 1 :]) / M[i, i]
    return np.sum(y**2)


def elimination(x):
    a = M * x
    for k in range(11):
        for i in range(k + 1, 12):
            a[i, k:] -= a[i, k] / a[k, k] * a[k, k:]
    return np.sum(np.log(np.abs(np.diag(a))))


def pairs(x):
    p = x.reshape(6, 2)
    p = np.concatenate([p, p + 0.1, p * 2])
    force, energy = np.zeros((18, 2)), 0.0
    for i in range(17):
        d = p[i] - p[i + 1 :]
        r = np.sum(d**2, axis=1) + 0.1
        f = (1 / r)[:, None] * d
        force[i] += f.sum(0)
        force[i + 1 :] -= f
        energy += np.sum(np.log(r))
    return energy + np.sum(force**2)


def causal(x):
    out = []
    for t in range(12):
        scores = M[: t + 1] @ x
        e = np.exp(scores - scores.max())
        out.append((e / e.sum()) @ M[: t + 1] + scores[0] + scores[-1])
    return np.sum(np.stack(out) ** 2)


def moved_against_each_other(x):
    s = 0.0
    for k in range(1, 12):
        s = s + np.sum(x[k:] * x[:-k]) / k + x[k:] @ TIMES[: 12 - k] + np.dot(x[1:k], x[: k - 1])
    return s


def parts_of_parts(x):
    s = 0.0
    for i in range(9):
        part = np.sqrt(x[i:])
        s = s + np.sum((part[1:] - part[:-1]) ** 2) + part[2] * part[-1] + np.sum(part[:2])
    return s


def risk_sets(x):
    s = 0.0
    for i in range(12):
        if EVENTS[i]:
            risk = x[TIMES[i] <= TIMES]
            top = np.max(risk)
            s = s + x[i] - top - np.log(np.sum(np.exp(risk - top)))
    return s


def risk_places(x):
    s = 0.0
    for i in np.where(EVENTS)[0]:
        at_risk = np.where(TIMES[i] <= TIMES)[0]
        s = s + x[i] - np.log(np.sum(np.exp(x[at_risk]))) + x[at_risk].size
    return s


def masks_that_are_computed(x):
    s = 0.0
    for i in range(12):
        s = s + np.sum(x[x > x[i]] ** 2) * i
    return s


def masks_that_are_written(x):
    y = x.copy()
    for i in range(12):
        y[TIMES[i] < TIMES] *= 1.1
        y[i:] = y[i:] - 0.1 * y[i]
    return np.sum(y**3)


def largest_of_the_rest(x):
    y = np.sin(5 * x)
    for k in range(11):
        p = k + np.argmax(np.abs(y[k:]))
        first = y[k]
        y[k] = y[p]
        y[p] = first
    return np.sum(y * np.arange(12))


def infinite_where_it_does_not_count(x):
    s = 0.0
    for i in range(1, 12):
        s = s + np.sum(np.log(x[:i] - x[i] + 1.5 * (i - np.arange(12)[:i]))) + np.sum(1 / x[i:])
    return s


def norms(x):
    s = 0.0
    for i in range(11):
        v = x[i:] / np.linalg.norm(x[i:])
        s = s + np.where(v > 0.3, v, 0.1).sum() + np.any(v > 0.9) + np.all(v > 0.1)
    return s


def tree_of_prices(x):
    v = np.maximum(np.exp(np.arange(21) * 0.1) * x[0] - 1, 0.0)
    for _ in range(20):
        v = x[1] * (0.6 * v[1:] + 0.4 * v[:-1])
    return v[0] + v.sum()


def tree_with_early_exercise(x):
    u, n = np.exp(0.1 * x[1]), 15
    v = np.maximum(1.2 - x[0] * u ** np.arange(-n, n + 1, 2), 0.0)
    for i in range(n - 1, -1, -1):
        s = x[0] * u ** np.arange(-i, i + 1, 2)
        v = np.maximum(0.98 * (0.55 * v[1:] + 0.45 * v[:-1]), 1.2 - s)
    return v[0]


def differences(x):
    d, s = x**3, 0.0
    for _ in range(10):
        d = d[1:] - d[:-1]
        s = s + np.sum(np.abs(d))
    return s + np.sum(d * np.arange(2))


def down_by_two_rows(x):
    p = np.stack([x, x**2], axis=1)
    p = np.concatenate([p, p + 1])
    for i in range(10):
        p = p[2:] * 0.5 + p[:-2] * x[i]
    return np.sum(p**2) + p[3, 1]


WEIGHTS = np.array([[1.0], [2.0], [3.0]])
FOLDS = np.arange(12) % 4
CHOSEN = np.cos(np.arange(240.0).reshape(20, 12)) > 0.2


def least_squares_of_folds(x):
    a, s = M[:, :3] * x[:, None], 0.0
    for k in range(20):
        rest = k % 4 != FOLDS
        normal = a[rest].T @ a[rest] + np.eye(3)
        w = np.linalg.solve(normal, a[rest].T @ x[rest])
        s = s + np.sum((a @ w - x) ** 2)
    return s


def columns_of_masks(x):
    a = M[:, :3] * x[:, None]
    found = np.array([np.dot(a[m].T, np.sin(a[m])) + np.transpose(a[m]) @ x[m] for m in CHOSEN])
    return np.sum(found**2)


def weighted_columns(x):
    a, s = M[:, :3] * x[:, None], np.zeros((3, 3))
    for i in range(1, 12):
        t = a[:i]
        s = s + (-t.T * x[-i:] + 1.0) @ t * 0.1
        s = s + (WEIGHTS * t.T - np.abs(t.T)) @ a[-i:]
    return np.sum(s**2)


def columns_from_the_left(x):
    a, s = M[:, :3] * x[:, None], 0.0
    for i in range(1, 12):
        weights = X[:3] @ a[i:].T
        both = M[:2, :3] @ a[i:].T
        s = s + np.sum(weights**2) + np.sum(both.T.T @ a[i:]) + np.sum((a[i:].T).T ** 3)
    return s


ONCE = [
    tree_of_prices, tree_with_early_exercise, differences, down_by_two_rows,
    tails, heads_and_tails, empty_ones, back_substitution, elimination, pairs, causal,
    moved_against_each_other, parts_of_parts, risk_sets, risk_places, masks_that_are_computed,
    least_squares_of_folds, columns_of_masks, weighted_columns, columns_from_the_left,
    masks_that_are_written, largest_of_the_rest, infinite_where_it_does_not_count, norms,
]  # fmt: skip


def sizes_that_are_asked_for(x):
    s = 0.0
    for i in range(1, 12):
        s = s + np.sum(x[:i]) / len(x[:i]) + x[:i].shape[0]
    return s


def sorted_parts(x):
    s = 0.0
    for i in range(1, 12):
        s = s + np.sort(x[:i])[i // 2] + np.cumsum(x[i:])[-1] + np.median(x[:i])
    return s


def two_cuts(x):
    a = M * x
    for k in range(11):
        v = a[k:, k].copy()
        v[0] += np.sign(v[0]) * np.linalg.norm(v)
        v /= np.linalg.norm(v)
        a[k:, k:] -= 2 * np.outer(v, v @ a[k:, k:])
    return np.sum(np.log(np.abs(np.diag(a))))


def shapes_by_chance(x):
    s = 0.0
    for i in range(11, 12 + 10):
        s = s + np.sum(x[: i - 10] * np.ones(1)) + np.sum(x[: i + 5] + np.ones(12))
    return s


def down_to_nothing_and_beyond(x):
    d, s = x * 2, 0.0
    for _ in range(15):
        d = d[1:]
        s = s + np.sum(d)
    return s


def columns_of_columns(x):
    a, s = M[:, :3] * x[:, None], 0.0
    for i in range(1, 12):
        s = s + np.sum(np.exp(0.1 * (a[:i] @ a[:i].T)))
    return s


def changed_columns(x):
    a = M[:, :3] * x[:, None]
    for i in range(1, 12):
        columns = a[i:].T
        columns *= 1.1
    return np.sum(a**2)


def shorter_by_halves(x):
    d = np.concatenate([x] * 100)[:1024]
    for _ in range(10):
        d = d[::2] + d[1::2] * 0.5
    return d[0]


def shorter_by_more_each_time(x):
    d = np.concatenate([x] * 8)
    for i in range(1, 12):
        d = d[i:] * 1.1
    return np.sum(d)


def written_and_shorter(x):
    d = x * 2
    for _ in range(10):
        d[0] += 1
        d = d[1:]
    return np.sum(d)


TURN_BY_TURN = [
    down_to_nothing_and_beyond, shorter_by_halves, shorter_by_more_each_time, written_and_shorter,
    sizes_that_are_asked_for, columns_of_columns, changed_columns, sorted_parts, two_cuts,
    shapes_by_chance,
]  # fmt: skip


@pytest.mark.parametrize("f", [*ONCE, *TURN_BY_TURN], ids=lambda f: f.__name__)
def test_values_and_derivatives(f):
    compiled = wg.jit(wg.value_and_grad(f))
    value, gradient = compiled(X)
    np.testing.assert_allclose(value, f(X), rtol=1e-11)
    np.testing.assert_allclose(gradient, wg.grad(f)(X), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("f", ONCE, ids=lambda f: f.__name__)
def test_traced_once(f):
    compiled = wg.jit(f)
    compiled(X)
    assert len(compiled.program(X).stages.graph.operators) < 30


def test_shapes_that_do_not_fit():
    def f(x):
        s = 0.0
        for i in range(1, 12):
            s = s + np.sum(x[:i] + x[i - 1 :])
        return s

    with pytest.raises(ValueError, match="shape"):
        wg.jit(f)(X)


def test_the_largest_of_nothing():
    def f(x):
        s = 0.0
        for i in range(13):
            s = s + np.max(x[i:])
        return s

    with pytest.raises(ValueError, match="no element to choose"):
        wg.jit(f)(X)


def changed_in_place(w):
    table, total = np.arange(22.0), 0.0
    for i in range(20):
        part = table[i : i + 3]
        part += 1.0
        total = total + np.sum(part) * w[i]
    return total + np.sum(table) * w[0]


def shrunk_in_place(w):
    table, total = w * 2, 0.0
    for i in range(20):
        part = table[i:]
        part *= 0.9
        total = total + np.sum(part)
    return total + np.sum(table**2)


def new_ones_and_copies(w):
    table, total = w * 2, 0.0
    for i in range(20):
        new = table[i:] * 1.0
        other = new
        new *= 0.9
        copy = table[i:].copy()
        copy *= 0.9
        half = new[1:]
        half += 1.0
        table[i:] -= 0.1 * copy
        front = table[: i + 1]
        back = front[1:]
        front += 1
        total = total + np.sum(other) + np.sum(back)
    return total + np.sum(table**2)


@pytest.mark.parametrize("f", [changed_in_place, shrunk_in_place, new_ones_and_copies])
def test_what_is_changed_in_place_is_a_view(f):
    w = np.linspace(0.5, 2, 22)
    np.testing.assert_allclose(wg.jit(f)(w), f(w))
    np.testing.assert_allclose(wg.jit(wg.grad(f))(w), wg.grad(f)(w))
