"""Iterators and generators in branches and loops on traced conditions: what they change and where
they stand is what Python leaves there, or an error."""

import functools

import numpy as np
import pytest

import wengert as wg
from wengert.errors import ControlFlowError

POINTS = [np.array([0.7, 0.2, 0.4]), np.array([1.3, -0.4, 0.1])]


def raised(q, n):
    for i in range(n):
        q[i] += 0.1
        yield q[i]


def bumped(q, by):
    q[0] += by
    return q[0]


def added_up(x):
    q, s = [1.0, 2.0, x[1]], x[0]
    if x[0] > 1:
        s = s + sum(raised(q, 2))
    return s + sum(q)


def gone_through(x):
    q, s = [1.0, 2.0, x[1]], x[0]
    if x[0] > 1:
        for u in raised(q, 2):
            s = s + u
    return s + sum(q)


def taken_one_by_one(x):
    q, s = [1.0, 2.0, x[1]], x[0]
    if x[0] > 1:
        given = raised(q, 2)
        s = s + next(given)
        s = s + next(given)
    return s + sum(q)


def mapped(x):
    q, s = [1.0, 2.0, x[1]], x[0]
    if x[0] > 1:
        s = s + sum(map(functools.partial(bumped, q), [3, 2, 1]))
    return s + sum(q)


def filtered(x):
    q, s = [1.0, 2.0, x[1]], x[0]
    if x[0] > 1:
        for u in filter(lambda u: bumped(q, 1.0), [3, 2, 1]):
            s = s + u
    return s + sum(q)


def changed_before_an_error(x):
    q, s = [1.0, 2.0, x[1]], x[0]

    def given():
        q[0] += 0.5
        yield 1.0
        q[1] += 0.5
        raise KeyError

    if x[0] > 1:
        try:
            s = s + sum(given())
        except KeyError:
            s = s + 0.25
    return s + sum(q)


@pytest.mark.parametrize(
    "f",
    [added_up, gone_through, taken_one_by_one, mapped, filtered, changed_before_an_error],
    ids=lambda f: f.__name__,
)
def test_what_an_iterator_changes_in_a_branch(f):
    compiled = wg.jit(wg.value_and_grad(f))
    for x in POINTS:
        value, gradient = compiled(x)
        np.testing.assert_allclose(value, f(x), rtol=1e-13)
        np.testing.assert_allclose(gradient, wg.grad(f)(x), rtol=1e-13)


def summed(given):
    return sum(given)


def listed(given):
    return sorted(given)[0]


def zipped(given):
    return sum(u * w for u, w in zip(given, [1.0, 2.0, 3.0], strict=True))


def unpacked(given):
    first, *_ = given
    return first


def starred(given):
    return [0.5, *given][1]


def asked(given):
    return 1.0 if 1.0 in given else 2.0


@pytest.mark.parametrize("take", [summed, listed, zipped, unpacked, starred, asked])
@pytest.mark.parametrize("make", [iter, lambda q: (u * 2 for u in q), lambda q: map(abs, q)])
def test_an_iterator_from_outside_of_a_branch_is_refused(take, make):
    def f(x):
        q, s = [1.0, 2.0, x[1]], x[0]
        given = make(q)
        if x[0] > 1:
            s = s + take(given)
        return s + sum(given)

    def inside(x):
        s = x[0]
        given = make([1.0, 2.0, x[1]])

        def taken():
            return take(given)

        if x[0] > 1:
            s = s + taken()
        return s + sum(given)

    for function in (f, inside):
        with pytest.raises(ControlFlowError, match="reading it changes a"):
            wg.jit(function)(POINTS[0])


def test_an_iterator_that_a_condition_takes_from_is_refused():
    def f(x):
        n, given = 0, iter([1.0, 2.0, 3.0])
        while next(given) * x[0] < 1.5:
            n += 1
        return x[1] + n + sum(given)

    with pytest.raises(ControlFlowError, match="reading it changes a list_iterator"):
        wg.jit(f)(POINTS[0])


def test_a_loop_that_takes_from_iterators():
    def f(x):
        q, s = [1.0, 2.0, x[1]], x[0]
        given = iter([1.0] * 20)
        for _ in range(9):
            if s > 2:
                s = s + x[1]
            s = s + next(given) + sum(raised(q, 2))
        return s + sum(q) + sum(given)

    for x in POINTS:
        np.testing.assert_allclose(wg.jit(f)(x), f(x), rtol=1e-13)
