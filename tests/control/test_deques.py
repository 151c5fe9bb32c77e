"""Deques that loops carry: windows over the last values, and delays."""

from collections import deque

import numpy as np
import pytest

import wengert as wg
from wengert import tree

X = np.random.default_rng(0).uniform(0.5, 1.5, 5)


def delayed(x):
    """Oscillators that see each other as they were."""
    then = deque([x] * 6, maxlen=6)
    now = x
    for _ in range(40):
        old = then[0]
        pull = np.zeros(5)
        for i in range(5):
            for j in range(5):
                pull[i] = pull[i] + np.sin(old[j] - now[i])
        now = now + 0.05 * (1 + 0.3 * pull)
        then.append(now)
    return np.sum(np.cos(now)) + np.sum(then[2])


def in_and_out(x):
    line = deque([x[0], x[1], x[2]])
    found = 0.0
    for k in range(40):
        found = 0.5 * found + 0.1 * line.popleft() * line[-1]
        line.append(np.sin(found) + k * 0.01)
    return found + sum(line) + len(line)


def from_the_other_end(x):
    line = deque(x)
    for _ in range(40):
        line.appendleft(0.5 * line.pop() + 0.3 * line[0])
        line.rotate(2)
    return line[0] * line[3] + line[-1]


def a_window(x):
    window, found = deque(maxlen=4), 0.0
    for k in range(40):
        window.append(x[k % 5] * k)
        mean = sum(window) / len(window)
        found = found + mean**2
    return found


class Line:
    def __init__(self, n):
        self.line = deque([0.0] * n)

    def push(self, value):
        self.line.append(value)
        return self.line.popleft()


def in_an_object(x):
    line, found = Line(7), 0.0
    for k in range(40):
        found = 0.9 * found + line.push(x[k % 5] + 0.3 * found)
    return found + line.line[2]


def pairs(x):
    line = deque([(x[0], 1.0), (x[1], 2.0)], maxlen=2)
    for _ in range(40):
        (a, b), (c, d) = line[0], line[1]
        line.append((0.3 * np.cos(a) + 0.1 * d, 0.4 * np.sin(b) + c))
    return line[0][0] + line[1][1]


def two_names(x):
    line = deque([x[0], x[1]], maxlen=2)
    same = line
    for _ in range(20):
        line.append(0.5 * same[0] + same[-1])
    return same[0] * line[1]


def an_array_that_is_written_to(x):
    line, now = deque([x.copy()] * 3, maxlen=3), x.copy()
    for _ in range(20):
        now[1:] = 0.5 * now[:-1] + line[0][1:]
        line.append(now)
    return np.sum(line[0]) + np.sum(now)


DEQUES = [
    (delayed, 60),
    (in_and_out, 60),
    (from_the_other_end, 60),
    (a_window, 1000),
    (in_an_object, 60),
    (pairs, 60),
    (two_names, 1000),
    (an_array_that_is_written_to, 1000),
]


@pytest.mark.parametrize(("f", "most"), DEQUES, ids=[f.__name__ for f, _ in DEQUES])
def test_values_gradients_and_size(f, most):
    compiled = wg.jit(wg.value_and_grad(f))
    value, gradient = compiled(X)
    np.testing.assert_allclose(value, f(X), rtol=1e-12)
    along, step = np.arange(5.0) - 1.2, 1e-6
    slope = (f(X + step * along) - f(X - step * along)) / (2 * step)
    np.testing.assert_allclose(gradient @ along, slope, rtol=1e-6, atol=1e-7)
    assert len(compiled.program(X).stages.graph.operators) < most


def test_under_a_traced_condition():
    def f(x):
        line = deque([x, 2 * x], maxlen=2)
        if x > 1:
            line.append(x * x)
        return line[0] * line[1]

    assert [float(wg.jit(f)(x)) for x in (0.5, 3.0)] == [f(0.5), f(3.0)]


def test_deques_are_trees():
    doubled = tree.map(lambda v: 2 * v, deque([1.0, 2.0], maxlen=3))
    assert (list(doubled), doubled.maxlen) == ([2.0, 4.0], 3)
