"""A `while` that counts is one loop, as a `for` over a range is, and means what Python means."""

import numpy as np
import pytest

import wengert as wg

X = np.random.default_rng(0).normal(size=60) / 2


def upwards(x):
    s, i = 0.3, 0
    while i < len(x):
        s = s + np.sin(s * x[i])
        i += 1
    return s * i


def downwards(x):
    s, i = 0.3, x.shape[0] - 1
    while i >= 0:
        s = 0.9 * s + np.sin(s * x[i])
        i = i - 1
    return s


def by_twos(x):
    s, i, n = 0.3, 1, x.size
    while n - 1 > i:
        s = 0.9 * s + np.sin(s * x[i])
        i += 2
    return s * i


def until_it_is_there(x):
    s, i = 0.3, 0
    while i != 60:
        i += 3
        s = s + np.sin(s * x[i - 3])
    return s


def two_counters(x):
    s, i, j = 0.3, 0, len(x) - 1
    while i < j:
        s = s + np.sin(s * x[i] * x[j])
        i += 1
        j -= 1
    return s * i + j


def skipping(x):
    s, i = 0.3, 0
    while i < 60:
        i += 1
        if i % 3 == 0:
            continue
        s = s + np.sin(s * x[i - 1])
    return s


def ahead(x):
    s, i = 0.3, 0
    while i + 4 <= 60:
        s = s + np.sum(np.sin(s * x[i : i + 4]))
        i += 4
    return s * i


def slices(x):
    y, s, i = x.copy(), 0.0, 1
    while i < 60:
        s = s + np.dot(y[:i], x[:i])
        y[i:] = np.sin(y[i:] * 1.1)
        i += 1
    return s


def appended(x):
    s, i, seen = 0.3, 0, []
    while i < 60:
        s = s + np.sin(s * x[i])
        seen.append(s)
        i += 1
    return np.sum(np.array(seen) ** 2)


def of_a_list(x):
    parts, s, i = [x[k] * 2 for k in range(50)], 0.3, 0
    while i < len(parts):
        s = 0.9 * s + np.sin(s + parts[i])
        i += 1
    return s


def nested(x):
    s, i = 0.0, 0
    while i < 40:
        j = i + 1
        while j < 40:
            s = s + np.sin(x[i] - x[j] * s)
            j += 1
        i += 1
    return s


def from_nothing(x):
    s, i, last = 0.3, 0, None
    while i < 60:
        last = np.sin(s * x[i])
        s = s + last
        i += 1
    return s * last


def very_many(x):
    s, i = 0.3, 0
    while i < 30000:
        s = s * 0.999 + np.sin(s * x[i % 60])
        i += 1
    return s


LOOPS = [upwards, downwards, by_twos, until_it_is_there, two_counters, skipping, ahead, slices]
LOOPS += [appended, of_a_list, nested, from_nothing]


def derivative(f, x, along):
    step = 1e-6 * along
    return (f(x + step) - f(x - step)) / 2e-6


@pytest.mark.parametrize("f", [*LOOPS, very_many], ids=lambda f: f.__name__)
def test_is_one_loop(f):
    compiled = wg.jit(wg.value_and_grad(f))
    value, gradient = compiled(X)
    np.testing.assert_allclose(value, f(X), rtol=1e-11)
    along = np.cos(np.arange(60.0))
    np.testing.assert_allclose(gradient @ along, derivative(f, X, along), rtol=2e-5)
    operators = wg.jit(f).program(X).stages.graph.operators
    assert len(operators) < 40 and "while" not in {node.op.name for node in operators}


def a_list_that_grows(x):
    parts, s, i = [x[0], x[1]], 0.0, 0
    while i < len(parts):
        s = s + np.sin(parts[i] * (i + 1))
        if i < 20:
            parts.append(parts[-1] + x[i])
        i += 1
    return s * len(parts)


def a_list_that_grows_in_every_turn(x):
    parts, s, i = [x[0]], 0.0, 0
    while i < len(parts):
        s = s + np.sin(parts[i])
        if len(parts) < 30:
            parts += [x[len(parts)]]
        i += 1
    return s * i


def by_another_name(x):
    parts = [x[0]] * 20
    same, s, i = parts, 0.0, 0
    while i < len(parts):
        s = s + x[i] * i
        same.pop()
        i += 1
    return s * len(parts)


def by_a_function(x):
    i = 0

    def further():
        nonlocal i
        i += 1

    s = 0.0
    while i < 30:
        s = s + x[i] * i
        i += 1
        further()
    return s * i


def a_bound_that_moves(x):
    s, i, n = 0.0, 0, 40
    while i < n:
        s = s + x[i] * i
        n -= 1
        i += 1
    return s * i + n


def a_counter_set_twice(x):
    s, i = 0.0, 0
    while i < 50:
        s = s + x[i] * i
        if i == 20:
            i = 30
        i += 1
    return s * i


def left_early(x):
    s, i = 0.0, 0
    while i < 50:
        s = s + x[i] * i
        if i > 31:
            break
        i += 1
    return s * i


def left_by_a_value(x):
    s, i = 0.0, 0
    while i < 50:
        s = s + x[i] ** 2
        if s > 2:
            break
        i += 1
    return s * i


def no_turn(x):
    s, i = x[0], 7
    while i < 5:
        s = s * x[i]
        i += 1
    return s * i


def steps_that_miss(x):
    s, i = x[0], 0
    while i != 59:
        s = s + x[i] * i
        i += 7
        if i > 59:
            i = 59
    return s * i


def real_numbers(x):
    s, t = 0.0, 0.0
    while t < 3.0:
        s = s + x[int(t)] * t
        t += 0.1
    return s * t


def fractions_of_integers(x):
    s, i = 0.0, 0
    while i < 20.5:
        s = s + x[i]
        i += 1
    return s * i


def a_variable_that_holds_the_counter(x):
    s, i, k = 0.0, 0, -1
    while i < 30:
        k = i
        s = s + x[k] * k
        i += 1
    return s * k + i


def an_array_of_integers(x):
    s, i, n = 0.0, 0, np.array([20, 3])
    while i < n[0]:
        s = s + x[i] * i
        n[0] -= 1
        i += 1
    return s * i


PYTHONS = [a_list_that_grows, a_list_that_grows_in_every_turn, by_another_name, by_a_function]
PYTHONS += [a_bound_that_moves, a_counter_set_twice, left_early, left_by_a_value, no_turn]
PYTHONS += [steps_that_miss, real_numbers, fractions_of_integers]
PYTHONS += [a_variable_that_holds_the_counter, an_array_of_integers]


@pytest.mark.parametrize("f", PYTHONS, ids=lambda f: f.__name__)
def test_means_what_python_means(f):
    value, gradient = wg.jit(wg.value_and_grad(f))(X)
    np.testing.assert_allclose(value, f(X), rtol=1e-11)
    along = np.cos(np.arange(60.0))
    np.testing.assert_allclose(gradient @ along, derivative(f, X, along), rtol=2e-5)


def test_bounds_that_are_arguments():
    def f(x, n, first):
        s, i = 0.0, first
        while i <= n:
            s = s + x[i] * i
            i += 1
        return s * i

    compiled = wg.jit(f)
    for first, n in ((0, 10), (3, 59), (5, 4), (5, -7)):
        np.testing.assert_allclose(compiled(X, n, first), f(X, n, first), rtol=1e-12)


def test_a_place_that_is_not_there():
    def f(x):
        s, i = 0.0, 0
        while i <= len(x):
            s = s + x[i]
            i += 1
        return s

    with pytest.raises(IndexError):
        wg.jit(f)(X)


def until_it_is_long(x):
    found = [0.1, x[1]]
    while len(found) < 60:
        found.append(np.sin(found[-1]) + found[-2] * x[len(found)])
    return np.sum(np.array(found)) * len(found)


def two_lists(x):
    a, b = [1.0], [x[0]]
    while len(a) + len(b) < 80:
        a.append(a[-1] * 0.9 + b[-1] / len(b))
        b.append(np.sin(a[-1]) - b[-1])
    return a[-1] + b[-1] * len(a)


def lengths_in_a_for(x):
    found = [x[1]]
    for i in range(5, 55, 2):
        n = len(found)
        found.append(x[i] * n + found[n - 1])
    return found[-1] + len(found)


def lengths_in_a_loop_inside(x):
    found = [x[1]]
    while len(found) < 30:
        s = 0.0
        for k in range(12):
            s = s + np.sin(x[k] * len(found))
        found.append(s)
    return sum(found)


def appended_at_times(x):
    found = [x[1]]
    while len(found) < 30:
        if len(found) % 7 == 3:
            found.append(x[0])
        found.append(x[len(found)])
    return found[5] * x[3] + sum(found)


LENGTHS = [until_it_is_long, two_lists, lengths_in_a_loop_inside]


@pytest.mark.parametrize("f", [*LENGTHS, lengths_in_a_for, appended_at_times])
def test_lengths_of_lists_that_grow(f):
    value, gradient = wg.jit(wg.value_and_grad(f))(X)
    np.testing.assert_allclose(value, f(X), rtol=1e-11)
    along = np.cos(np.arange(60.0))
    np.testing.assert_allclose(gradient @ along, derivative(f, X, along), rtol=2e-5)
    operators = wg.jit(f).program(X).stages.graph.operators
    assert f not in LENGTHS or len([n for n in operators if n.op.name == "sin"]) < 3
