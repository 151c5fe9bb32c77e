"""Loops with `break` inside of `try`: what says that they are left is known in each turn."""

import numpy as np
import pytest

import wengert as wg

POINTS = [np.array([0.36, 1.51, -1.79]), np.array([-0.8, -0.8, 0.3]), np.array([0.1, 0.2, 0.3])]


def in_the_body(x):
    s, n = 0.0, 0
    try:
        while True:
            n += 1
            s = s + x[0]
            if n > 5 or s > 0.9:
                break
    except IndexError:
        s = 1.0
    return s + 2 * n


def in_the_handler(x):
    s, items = 0.0, [0.5, x[0], 1.0, x[1], 0.2]
    try:
        s = s + items[9]
    except IndexError:
        for item in items:
            n = 0
            while True:
                n += 1
                items += [0.1]
                items.pop(0)
                if n > 2 or any(u > 0.9 for u in items):
                    break
            s = s + item * 0.1
    return s + 2 * sum(items)


def at_the_end(x):
    s = x[2]
    try:
        s = s * 2
    finally:
        for i in range(30):
            if s > 3:
                break
            s = s + abs(x[1]) + i * 0.01
        else:
            s = s - 1
    return s


def with_continue(x):
    s = 0.0
    try:
        for i in range(30):
            if x[i % 3] < 0:
                continue
            s = s + x[i % 3]
            for k in range(20):
                s = s + 0.01 * k
                if s > 4:
                    break
    except ZeroDivisionError:
        s = -1.0
    return s


@pytest.mark.parametrize("f", [in_the_body, in_the_handler, at_the_end, with_continue])
def test_a_loop_that_is_left(f):
    step = wg.jit(wg.value_and_grad(f))
    for x in POINTS:
        value, gradient = step(x)
        np.testing.assert_allclose(value, f(x), rtol=1e-12)
        np.testing.assert_allclose(gradient, wg.grad(f)(x), rtol=1e-9, atol=1e-12)


def test_objects_that_change_places_until_a_traced_condition_holds_are_refused_clearly():
    class Held:
        def __init__(self, value):
            self.value = value

    def f(x):
        one, other, n = Held(x[1]), Held(0.5), 0
        while True:
            n += 1
            one, other = other, one
            if n > 4 or not one.value > 0.4:
                break
        return one.value + 2 * other.value + n

    with pytest.raises(wg.errors.ControlFlowError, match="before a turn of the loop"):
        wg.jit(f)(np.array([0.3, 0.7]))
