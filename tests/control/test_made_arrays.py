"""Arrays that a turn both writes to and replaces: carried where the turn makes them, with what
Python leaves in the arrays from before the loop."""

import numpy as np
import pytest

import wengert as wg

X = np.linspace(0.1, 1.4, 12)


def replaced_then_written(x):
    a = x.copy()
    a /= 2
    total = 0.0
    for _ in range(20):
        a = np.sin(a) + 0.1
        c = a.sum()
        a /= c
        total += np.log(c)
    return total + a[3]


def written_then_replaced(x):
    a = x.copy()
    before, total = a, 0.0
    for _ in range(20):
        a += 0.1 * np.cos(a)
        a = a % 1.3
        total = total + a[2]
    return total + np.sum(a**2) + np.sum(before**3)


def made_each_turn(x):
    a = x.copy()
    for _ in range(12):
        old = a
        a = np.zeros(12)
        a[1:] = old[:-1] * 0.9
        a[0] = old[-1]
        a *= x
    return np.sum(a**2)


def copied_each_turn(x):
    a = x.copy()
    for t in range(12):
        a = a.copy()
        a[t] = a[t - 1] * 2
        a[0] = 1.0
    return np.sum(a**2)


def until_it_stays(x):
    v, n, old = x.copy(), 0.0, 1.0
    while abs(n - old) > 1e-9:
        old = n
        v = np.outer(x, x) @ v + v
        n = np.linalg.norm(v)
        v /= n
    return n + v[0]


def appended_too(x):
    a, out = x.copy(), []
    for _ in range(20):
        a += 1
        a = a * 0.5
        out.append(a)
    return sum(np.sum(o**2) for o in out)


def under_two_names(x):
    a, b = x.copy(), x * 2
    for _ in range(20):
        a += 1
        b = a * b
        a = b
        a *= 0.1
    return np.sum(a) + np.sum(b**2)


def with_a_view(x):
    a = x.copy()
    v = a[1:]
    for _ in range(20):
        a += v.sum()
        a = a * 0.01
        v = a[2:]
    return np.sum(v) + np.sum(a**2)


def from_another_variable(x):
    b, a = x.copy(), x * 3
    first = b
    for _ in range(20):
        a *= 0.5
        s = a
        a = b
        b = s + 1
    return np.sum(a) + 2 * np.sum(b) + 3 * np.sum(first**2)


TRACED_ONCE = [
    replaced_then_written,
    written_then_replaced,
    made_each_turn,
    copied_each_turn,
    until_it_stays,
]
SEEN_ELSEWHERE = [appended_too, under_two_names, with_a_view, from_another_variable]
EVERY = [*TRACED_ONCE, *SEEN_ELSEWHERE]


@pytest.mark.parametrize("f", EVERY, ids=[f.__name__ for f in EVERY])
def test_values_and_derivatives(f):
    compiled = wg.jit(f)
    np.testing.assert_allclose(compiled(X), f(X), rtol=1e-12)
    np.testing.assert_allclose(wg.jit(wg.grad(f))(X), wg.grad(f)(X), rtol=1e-9)
    if f in TRACED_ONCE:
        assert len(compiled.program(X).stages.graph.operators) < 20
