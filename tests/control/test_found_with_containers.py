"""Programs with containers that chance has written: each was wrong, and is what Python gives."""

import numpy as np
import pytest

import wengert as wg
from wengert.errors import ControlFlowError, WengertError

POINTS = [np.array([0.7, -0.3, 0.4, 1.1, -0.6]), np.array([-0.4, 0.9, 1.2, -0.8, 0.5])]
X = POINTS[0]


class Held:
    def __init__(self, v, items):
        self.v = v
        self.items = items

    def push(self, i, v):
        self.items[i] = v
        return self.items[i - 1]


def assert_right(f):
    compiled = wg.jit(wg.value_and_grad(f))
    for x in POINTS:
        value, gradient = compiled(x)
        np.testing.assert_allclose(value, f(x), rtol=1e-12)
        np.testing.assert_allclose(gradient, wg.grad(f)(x), rtol=1e-10, atol=1e-13)


def assert_right_or_refused(f):
    try:
        assert_right(f)
    except WengertError as error:
        assert "not known" in str(error) or "share" in str(error)


def a_list_of_two_objects_until(x):
    o = Held(x[4], [1.0, 2.0, 3.0, 4.0, x[0]])
    t = Held(0.5, o.items)
    n = 0
    while True:
        n += 1
        o.items[1] = x[0]
        if n > 4 or x[1] > 0.5:
            break
    return sum(t.items)


def a_list_of_two_objects_asked_for(x):
    o = Held(x[4], [1.0, 2.0, 3.0, 4.0, x[0]])
    t = Held(0.5, o.items)
    for _ in range(3):
        n = 0
        while True:
            n += 1
            if n > 4 or o.push(-1, -1.0) < 0.1 or x[0] > 0.6:
                break
    return sum(t.items)


def doubled(held):
    held["a"] = held["a"] * 2
    return held["a"]


def a_condition_that_changes(x):
    held = {"a": 0.5 + x[0] * x[0], "b": [1.0, 2.0]}
    s = 0.0
    while doubled(held) < 5:
        s = s + held["a"]
        held["a"] += 0.1
    return s + held["a"]


def bumped(q, v):
    q[1] += v
    return q[1]


def a_condition_that_changes_for_some_turns(x):
    q = [1.0, 2.0, x[0]]
    n = 0
    while n < 9 and bumped(q, 0.5 + x[2]) < 5:
        n += 1
        q[1] += 0.1
    return sum(q) + n


def a_condition_that_writes(x):
    q = [x * 1.0]
    s = 0.0
    while bumped(q[0], 0.5 + x[0] * x[0]) < 5:
        s = s + q[0][1]
        q[0] += 0.1
    return s + sum(q[0])


@pytest.mark.parametrize(
    "f",
    [
        a_condition_that_changes,
        a_condition_that_changes_for_some_turns,
        a_condition_that_writes,
    ],
    ids=lambda f: f.__name__,
)
def test_a_condition_that_changes_what_the_loop_changes_is_refused(f):
    with pytest.raises(ControlFlowError, match="the condition of a `while` changes what the loop"):
        wg.jit(f)(X)


def a_dict_that_turns_replace_in_a_branch(x):
    d = {"a": [0.1, 0.2, x[3], 0.4, 0.5], "b": 0.0}
    if x[0] > 0:
        for i in range(9):
            d = {"a": d["a"], "b": np.sin(d["a"][i % 5])}
    return sum(d["a"]) + d["b"]


def a_dict_that_turns_replace(x):
    d = {"a": [0.1, 0.2, x[3], 0.4, 0.5], "b": 0.0}
    e = d
    for i in range(12):
        d = {"a": d["a"], "b": np.sin(d["a"][i % 5])}
        d["a"][i % 5 - 1] = x[0] * i
    e["a"][1] += x[1]
    return sum(d["a"]) + d["b"] + 2 * sum(e["a"])


def a_variable_that_a_branch_and_a_function_in_it_set(x):
    last = 0.1
    if x[0] > 0:

        def keep(v):
            nonlocal last
            last = last + v

        last = x[1]
        keep(x[2])
    return last


def a_variable_that_a_function_in_a_branch_leaves(x):
    last, rows = 0.1, [x[3], 1.0]
    if x[0] > 0:

        def maybe(v):
            nonlocal last, rows
            return v

        last = 0.5
        rows = [maybe(last), 2.0]
        maybe(last)
    return last + sum(rows)


def a_variable_of_a_branch_alone(x):
    s = x[1]
    if x[0] > 0:
        n = 0.5

        def count():
            nonlocal n
            n += 1

        count()
        s = s * n
    return s


def a_variable_that_one_side_sets(x):
    a, b = np.zeros(3), np.ones(3) * x[0]
    if x[0] > 0:

        def half(v):
            nonlocal a, b
            return v * 0.5

        s = half(x[3])
    else:
        b = a + 0.1
        s = 1.0
    return b[2] + s


RIGHT = [
    a_variable_that_one_side_sets,
    a_variable_of_a_branch_alone,
    a_variable_that_a_branch_and_a_function_in_it_set,
    a_variable_that_a_function_in_a_branch_leaves,
    a_list_of_two_objects_until, a_list_of_two_objects_asked_for,
    a_dict_that_turns_replace_in_a_branch, a_dict_that_turns_replace,
]  # fmt: skip


@pytest.mark.parametrize("f", RIGHT, ids=lambda f: f.__name__)
def test_it_is_what_python_gives(f):
    assert_right(f)
