"""Objects of plain classes, made anew in each turn of a loop or on a side of an `if`."""

import numpy as np
import pytest

import wengert as wg
from wengert.errors import MutationError

X = np.array([0.7, 0.4])


class Complex:
    """A number of two parts, as people write them."""

    __slots__ = ("im", "re")

    def __init__(self, re, im):
        self.re, self.im = re, im

    def __add__(self, other):
        return Complex(self.re + other.re, self.im + other.im)

    def __mul__(self, other):
        if not isinstance(other, Complex):
            return Complex(self.re * other, self.im * other)
        return Complex(
            self.re * other.re - self.im * other.im, self.re * other.im + self.im * other.re
        )


class Positive:
    def __init__(self, value, weight=1.0):
        self.value = -value if value < 0 else value
        self.weight = weight if value > 0.5 else 2 * weight


class Weighted(Positive):
    def __init__(self, value):
        super().__init__(value, weight=3.0)
        self.count = 0.0


class Best:
    def __init__(self, found):
        self.found = found

    def step(self, number):
        self.found = number * Complex(0.9, 0.1)


def powers(x):
    z, c = Complex(0.0, 0.0), Complex(x[0], x[1])
    for _ in range(40):
        z = z * z * 0.5 + c * 0.3
    return z.re + 2 * z.im


def changed_behind_the_loop(x):
    p = q = Complex(x[0], x[1])
    for _ in range(30):
        p = p + Complex(0.1, x[1])
        q = p
    q.re = 5.0
    return p.re + p.im + q.im


def changed_and_replaced(x):
    p = q = Complex(x[0], x[1])
    for _ in range(30):
        p.re = p.re + 1
        p = p + Complex(0.1, x[1])
    return p.re + p.im + q.im + q.re


def becomes_the_other(x):
    p, q = Complex(x[0], x[1]), Complex(x[1], x[0])
    for _ in range(30):
        q.re = q.re * 0.5 + p.im
        q = p
    return p.re + p.im + q.im + q.re


def change_places(x):
    p, q = Complex(x[0], x[1]), Complex(x[1], x[0])
    for _ in range(31):
        p, q = q, p + Complex(0.1, x[1])
    return p.re * 3 + p.im + q.im + q.re


def with_arrays(x):
    p = Complex(x * 1.0, x[1])
    q = p
    for _ in range(30):
        p.re[0] += 1.0
        p = Complex(p.re * 0.9, p.im)
    return p.re[0] + q.re[0]


def held_by_another(x):
    best = Best(Complex(x[0], x[1]))
    for _ in range(30):
        best.step(best.found)
    return best.found.re


def on_one_side(x):
    p = Complex(x[0], x[1])
    if x[0] > 0.5:
        p = p * p
    return p.re * 3 + p.im


def until_it_is_large(x):
    p = Complex(x[0], x[1])
    while p.re < 4:
        p = p + Complex(x[0], 0.1)
    return p.re * p.im


def made_with_branches(x):
    weighted = Weighted(x[0])
    for _ in range(30):
        weighted = Weighted(weighted.value * 0.9 - 0.3)
    return weighted.value * weighted.weight * Positive(x[0]).weight


ONCE = [powers, held_by_another, on_one_side, until_it_is_large, made_with_branches]
OTHERS = [
    changed_behind_the_loop, changed_and_replaced, becomes_the_other, change_places, with_arrays,
]  # fmt: skip


@pytest.mark.parametrize("f", ONCE + OTHERS)
def test_values_and_gradients(f):
    value, gradient = wg.jit(wg.value_and_grad(f))(X)
    np.testing.assert_allclose(value, f(X), rtol=1e-12)
    np.testing.assert_allclose(gradient, wg.grad(f)(X), rtol=1e-12)


def test_one_turn_stands_for_all():
    compiled = wg.jit(powers)
    compiled(X)
    assert len(compiled.program(X).stages.captured.graph.operators) < 20


def test_one_of_two_that_is_changed():
    def f(x):
        p, q = Complex(x[0], x[1]), Complex(x[1], x[0])
        if x[0] > 0.5:
            p = q
        q.re = 9.0
        return p.re * 3 + q.im

    with pytest.raises(MutationError, match="decides whether both are the same"):
        wg.jit(f)(X)
