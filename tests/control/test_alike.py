"""Lists, dicts, objects and arrays that two variables hold, in loops and branches."""

import numpy as np
import pytest

import wengert as wg
from wengert.errors import MutationError

X = np.array([0.7, 0.4])


class Thing:
    """Holds what it is given."""

    def __init__(self, a, b):
        self.a, self.b = a, b


def becomes_the_other(x):
    a, b = [x[0], x[1]], [x[0] * 0, x[0] * 0]
    for _ in range(30):
        b[0] = b[0] * 0.3 + a[0]
        b = a
    return a[1] * 2 + b[0]


def kept_by_another(x):
    b = [x[0], x[1]]
    keep = b
    for _ in range(30):
        b[0] = b[0] + 1
        b = [b[0], b[1]]
    return keep[0] * 3 + b[0]


def both_become_one(x):
    p, q = [x[0], x[1]], [x[1], x[0]]
    for _ in range(30):
        p[0] = p[0] * 0.3 + q[0]
        new = [p[0], q[0] * 0.5]
        p = new
        q = new
    return p[0] + q[1]


def read_after_a_write(x):
    a, b, s = [x[0], x[1]], [x[1], x[0]], 0.0
    for _ in range(30):
        a[1] = a[1] * 0.5 + b[1] * 0.1
        s = s + b[1]
        b = a
    return s + a[1]


def lists_in_dicts(x):
    a, b = {"u": x[0], "v": [x[1]]}, {"u": x[1], "v": [x[0]]}
    for _ in range(30):
        b["v"][0] = b["v"][0] * 0.5 + a["u"]
        b["v"] = a["v"]
    return a["v"][0] + b["u"]


def change_places(x):
    a, b = [x[0], x[1]], [x[1], x[0]]
    keep = a
    for _ in range(31):
        b[0] = b[0] * 0.5 + a[1]
        a, b = b, a
    return a[0] + 3 * b[0] + 7 * keep[0]


def written_behind_the_loop(x):
    a, c = [x[0], x[1]], [0 * x[0], 0 * x[0]]
    for _ in range(30):
        a = [a[0] * 0.5, a[1] + 1]
        c = a
    a[0] = 100 * x[0]
    return c[0] + a[1]


def arrays_written_behind_the_loop(x):
    a, c = x * 1.0, x * 0.0
    for _ in range(30):
        a = a * 0.5
        c = a
    a[0] = 100 * x[0]
    return c[0] + a[1]


def lists_in_attributes(x):
    o, b = Thing([x[0], x[1]], [x[1], x[0]]), [x[1], x[0]]
    for _ in range(30):
        o.a = [o.a[0] * 0.9, o.a[1]]
        o.b = o.a
        b = o.a
    b[0] = 5.0
    return o.a[0] + o.b[0] + b[1]


def arrays_in_attributes(x):
    o, b = Thing(x * 1.0, x * 2.0), x * 3.0
    for _ in range(30):
        o.a = o.a * 0.9
        o.b = o.a
        b = o.a
    b[0] = 5.0
    return o.a[0] + o.b[0] + b[1]


def array_of_an_attribute_that_becomes_another(x):
    o = Thing(x * 1.0, np.zeros(2) + x[1])
    for _ in range(30):
        o.b[0] = o.b[0] * 0.5 + o.a[1]
        o.b = o.a
    return o.a[0] + o.b[1]


def array_of_an_attribute_that_is_replaced(x):
    a = x * 1.0
    o = Thing(a, a)
    for _ in range(30):
        o.a[0] = 0.5
        o.a = o.a * 0.9 + 0.1
    return o.a[0] + o.a[1] + o.b[0]


def listed_again_and_again(x):
    state, seen = [x[0], x[1]], []
    for _ in range(30):
        state[0] = state[0] * 0.9 + 0.01
        seen.append(state)
    return seen[3][0] + seen[5][0]


def changed_where_it_is_listed(x):
    seen = [[x[0], x[1]]]
    for _ in range(30):
        seen[-1][0] += 1
        seen.append([seen[-1][1] * 0.5, seen[-1][0] * 0.3])
    return seen[3][0] + seen[5][1] + seen[-1][0]


def changed_after_it_was_listed(x):
    seen, state = [], [x[0], x[1]]
    for _ in range(30):
        state[0] += 1
        state = [state[1] * 0.5, state[0] * 0.9]
        seen.append(state)
    return seen[3][0] + state[0]


@pytest.mark.parametrize(
    "f",
    [
        becomes_the_other, kept_by_another, both_become_one, read_after_a_write, lists_in_dicts,
        change_places, written_behind_the_loop, arrays_written_behind_the_loop,
        lists_in_attributes, arrays_in_attributes, array_of_an_attribute_that_becomes_another,
        array_of_an_attribute_that_is_replaced, listed_again_and_again, changed_where_it_is_listed,
        changed_after_it_was_listed,
    ],
)  # fmt: skip
def test_turns_that_are_known(f):
    value, gradient = wg.jit(wg.value_and_grad(f))(X)
    np.testing.assert_allclose(value, f(X), rtol=1e-12)
    np.testing.assert_allclose(gradient, wg.grad(f)(X), rtol=1e-12)


def the_same_on_both_sides(x):
    a = c = [x[0], x[1]]
    if x[0] > 0:
        a = c = [a[0] * 0.5, a[1]]
    else:
        a = c = [a[0] * 0.2, a[1]]
    a[0] = 100 * x[0]
    return c[0] + a[1]


def arrays_that_are_the_same_on_both_sides(x):
    if x[0] > 0:
        a = c = x * 2
    else:
        a = c = x * 3
    a[0] = 100 * x[0]
    return c[0] + a[1]


def the_better_one(x):
    """As it is written mostly: what is kept is not changed any more."""
    state = best = [x[0], x[1]]
    found, k = 100.0, 0
    while k < 5 + x[0]:
        state = [state[0] * 0.9 + 0.01, state[1]]
        if state[0] ** 2 < found:
            found, best = state[0] ** 2, state
        k += 1
    return best[0] + found


def copied(x):
    state = [x[0], x[1]]
    best = state[:]
    if x[0] > 0:
        best = state[:]
    state[0] = 100.0
    return best[0] + state[1]


@pytest.mark.parametrize(
    "f",
    [the_same_on_both_sides, arrays_that_are_the_same_on_both_sides, the_better_one, copied],
)
def test_traced_conditions(f):
    for x in (X, -X):
        value, gradient = wg.jit(wg.value_and_grad(f))(x)
        np.testing.assert_allclose(value, f(x), rtol=1e-12)
        np.testing.assert_allclose(gradient, wg.grad(f)(x), rtol=1e-12)


def of_one_side(x):
    a, c = [x[0], x[1]], [0 * x[0], 0 * x[0]]
    if x[0] > 0.5:
        c = a
    a[0] = 100 * x[0]
    return c[0] + a[1]


def made_on_one_side(x):
    a, c = [x[0], x[1]], [0 * x[0], 0 * x[0]]
    if x[0] > 0.5:
        a = [a[0] * 0.5, a[1] + 1]
        c = a
    a[0] = 100 * x[0]
    return c[0] + a[1]


def arrays_made_on_one_side(x):
    a, c = x * 1.0, x * 0.0
    if x[0] > 0.5:
        a = a * 0.5
        c = a
    a[0] = 100 * x[0]
    return c[0] + a[1]


def of_an_expression(x):
    a, c = {"u": x[0], "v": x[1]}, {"u": 0 * x[0], "v": 0 * x[0]}
    b = a if x[0] > 0.5 else c
    a["u"] = 100 * x[0]
    return b["u"] + a["v"]


def of_some_turns(x):
    a, c, k = [x[0], x[1]], [0 * x[0], 0 * x[0]], x[0] * 0
    while k < 5:
        a = [a[0] * 0.5, a[1] + 1]
        c = a
        k = k + 1
    a[0] = 100 * x[0]
    return c[0] + a[1]


def arrays_of_some_turns(x):
    a, c, k = x * 1.0, x * 0.0, x[0] * 0
    while k < 5:
        a = a * 0.5
        c = a
        k = k + 1
    a[0] = 100 * x[0]
    return c[0] + a[1]


def before_any_turn(x):
    a, k = [x[0], x[1]], x[0] * 0
    b = a
    while k < 5:
        a = [a[0] * 0.5, a[1] + 1]
        k = k + 1
    a[0] = 100 * x[0]
    return b[0] + a[1]


def in_a_loop_behind_it(x):
    a, c = [x[0], x[1]], [0 * x[0], 0 * x[0]]
    if x[0] > 0.5:
        c = a
    for _ in range(30):
        a[0] = a[0] * 0.5
    return c[0] + a[1]


@pytest.mark.parametrize(
    "f",
    [
        of_one_side, made_on_one_side, arrays_made_on_one_side, of_an_expression, of_some_turns,
        arrays_of_some_turns, before_any_turn, in_a_loop_behind_it,
    ],
)  # fmt: skip
def test_what_may_have_been_written_to_cannot_be_read(f):
    with pytest.raises(MutationError, match="decides whether both are the same"):
        wg.jit(f)(X)


def test_an_expression_that_appends():
    """Under a traced condition it would be appended whatever that is."""

    def chosen(x):
        values = [x[0]]
        values.append(x[1]) if x[0] > 0.9 else None
        return sum(values)

    def joined(x):
        values = [x[0]]
        _ = x[0] > 0.9 and values.append(x[1])
        return sum(values)

    for f in (chosen, joined):
        with pytest.raises(wg.errors.ControlFlowError, match="changes a list from outside"):
            wg.jit(f)(X)
