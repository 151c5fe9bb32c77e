"""Python's own iterators, whose functions ask of traced items."""

import functools
import itertools
import operator

import numpy as np
import pytest

import wengert as wg
from wengert.errors import ControlFlowError

X = np.random.default_rng(0).normal(size=40)


def positive(v):
    return v > 0


def filtered(x):
    return sum(filter(positive, x)) * sum(itertools.filterfalse(lambda v: v > 0.5, x))


def filtered_in_a_loop(x):
    s, n = 0.0, 0
    for v in filter(lambda v: v * v > 0.1, x):
        s, n = s * 0.5 + v, n + 1
    return s * n


def filtered_twice(x):
    pairs = filter(lambda p: p[0] > p[1], zip(x, x[::-1], strict=True))
    return sum(v * w for v, w in pairs) + sum(filter(None, filter(positive, x)))


def at_first(x):
    s = sum(itertools.takewhile(lambda v: v < 1.2, x))
    for v in itertools.dropwhile(lambda v: v < 1.2, x):
        s = s * 0.5 + v
    return s


def selected(x):
    return sum(itertools.compress(x, x > 0)) + sum(itertools.compress(x, [1, 0, 1]))


def counted(x):
    s = 0.0
    for k in itertools.count(2, 3):
        s = s + x[1] * k
        if s * s > 100.0:
            break
    return s


def reduced(x):
    a = functools.reduce(max, x)
    b = functools.reduce(lambda s, v: s * 0.5 + v if v > 0 else s, x, 0.0)
    c = functools.reduce(operator.mul, list(x[:5]), 2.0)
    return a * b + c + functools.reduce(operator.add, (v for v in x))


def accumulated(x):
    s = sum(itertools.accumulate(x, max)) + list(itertools.accumulate(x, initial=3.0))[-2]
    for v in itertools.accumulate(x, lambda a, b: a * 0.5 + b if b > 0 else a):
        s = s * 0.9 + v
    return s + sum(itertools.accumulate(iter([x[0], x[1]]))) + sum(itertools.accumulate([]))


PROGRAMS = [
    filtered, filtered_in_a_loop, filtered_twice, at_first, selected, counted, reduced, accumulated,
]  # fmt: skip


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_value_and_gradient(f):
    value, gradient = wg.jit(wg.value_and_grad(f))(X)
    np.testing.assert_allclose(value, f(X), rtol=1e-12)
    along, step = np.random.default_rng(1).normal(size=40), 1e-7
    slope = (f(X + step * along) - f(X - step * along)) / (2 * step)
    np.testing.assert_allclose(gradient @ along, slope, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("f", [filtered, filtered_in_a_loop, at_first, accumulated])
def test_turns_are_traced_once(f):
    compiled = wg.jit(f)
    compiled(X)
    assert len(compiled.program(X).stages.graph.operators) < 60


def test_how_many_are_left_must_be_known():
    def f(x):
        return len(list(filter(positive, x)))

    with pytest.raises(
        ControlFlowError, match=r"test_asking_iterators.py:\d+.*the number of items"
    ) as caught:
        wg.jit(f)(X)
    assert "choose by wnp.where" in str(caught.value)


def test_nothing_to_reduce():
    with pytest.raises(TypeError, match="empty iterable with no initial value"):
        wg.jit(lambda x: functools.reduce(operator.add, [], *[]) * x)(1.0)
