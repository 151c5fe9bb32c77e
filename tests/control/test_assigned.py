"""Variables that have a value on some ways only: used where there is one, Python's error if not."""

import numpy as np
import pytest

import wengert as wg

X = np.array([0.3, -1.2, 2.5, 0.7, 1.9])
KNOTS = np.array([0.0, 0.5, 1.0, 2.0])


def an_else_behind_a_loop(x):
    for v in x:
        if v > 2:
            r = v * 2
            break
    else:
        r = -1.0
    return r * x[0]


def an_else_behind_a_while(x):
    i = 0
    while i < 5:
        if x[i] > 2:
            r = x[i] * 2
            break
        i += 1
    else:
        r = x[1]
    return r


def an_interval_that_is_found(x):
    t = abs(x[3])
    for k in range(3):
        if t < KNOTS[k + 1]:
            at = k
            w = (t - KNOTS[k]) / (KNOTS[k + 1] - KNOTS[k])
            break
    return (1 - w) * x[at] + w * x[at + 1]


def branches_without_an_else(x):
    s = 0.0
    for v in x:
        if v > 2:
            w = 1.0
        elif v > 0:
            w = v
        elif v <= 0:
            w = -v * 2
        s = s + w * v
    return s


def changed_in_place(x):
    for v in x:
        if v > 0.5:
            r = v
            r += 1
        if v > 2:
            r *= 3
    return r


def an_array(x):
    products = np.outer(x, x)
    for i in range(5):
        if products[i, i] > 3:
            best, pair = products[i], [products[0, 0], i]
            break
    best = best * 2
    return np.sum(best) + pair[0] * pair[1]


def set_in_a_while(x):
    e = x[2]
    while e > 0.1:
        e = e * 0.5
        last = e
    return last


def read_where_it_was_found(x):
    found = False
    for i in range(5):
        if x[i] > 1:
            found = True
            r = x[i]
            break
    if found:
        return r * 2
    return x[0]


def read_in_the_next_turn(x):
    s = 0.0
    for k in range(5):
        now = x[k] ** 2
        if k > 0:
            s = s + now * before  # noqa: F821  # there is one then
        before = now  # noqa: F841
    return s


def in_a_function_inside(x):
    def inner(a):
        if a > 1:
            q = a * 3
        elif a > -5:
            q = a
        return q

    return sum(inner(v) for v in x)


def taken_apart(x):
    for i in range(5):
        if x[i] < 0:
            a, (b, c) = x[i], (i, x[i] ** 2)
            break
    return a * b + c


def out_of_two_loops(x):
    for i in range(5):
        for j in range(5):
            if x[i] * x[j] > 4 and i != j:
                hit = x[i] + x[j]
                break
        else:
            continue
        break
    else:
        hit = 0.0 * x[0]
    return hit


PROGRAMS = [
    an_else_behind_a_loop, an_else_behind_a_while, an_interval_that_is_found,
    branches_without_an_else, changed_in_place, an_array, set_in_a_while, read_where_it_was_found,
    read_in_the_next_turn, in_a_function_inside, taken_apart, out_of_two_loops,
]  # fmt: skip


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_value_and_gradient(f):
    value, gradient = wg.jit(wg.value_and_grad(f))(X)
    np.testing.assert_allclose(value, f(X), rtol=1e-13)
    np.testing.assert_allclose(gradient, wg.grad(f)(X), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_each_sample_goes_its_own_way(f):
    xs = np.stack([X, X[[2, 1, 0, 3, 4]], X + 0.05])
    got = wg.jit(wg.vmap(f))(xs)
    np.testing.assert_allclose(got, [f(x) for x in xs], rtol=1e-13)


def never(x):
    for k in range(3):
        if x[k] > 100:
            r = x[k]
    return r * 2


def only_if(x):
    if x[0] > 0:
        r = x[1]
    return r


@pytest.mark.parametrize("f, x", [(never, X), (only_if, -X)])
def test_what_has_no_value_is_pythons_error(f, x):
    compiled = wg.jit(f)
    for _ in range(2):
        with pytest.raises(UnboundLocalError, match="local variable 'r'"):
            f(x)
        with pytest.raises(UnboundLocalError, match="local variable 'r'"):
            compiled(x)
    good = x + 200
    assert compiled(good) == f(good)
