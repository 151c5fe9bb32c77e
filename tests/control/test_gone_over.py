"""Loops that change the lists that they go over: each turn takes the item that is there by then."""

import itertools

import numpy as np
import pytest

import wengert as wg
from wengert.errors import ControlFlowError

POINTS = [np.random.default_rng(n).normal(size=5) * (1 - 2 * (n % 2)) for n in range(4)]


def the_last_is_set(x):
    L = [x[i % 5] for i in range(12)]
    s = 0.0
    for u in L:
        L[-1] = s
        s = s + np.tanh(u)
    return s


def the_next_is_set(x):
    L = [x[i % 5] for i in range(12)]
    s = 0.0
    for i, u in enumerate(L):
        L[(i + 1) % 12] = s * 0.5
        s = s + np.tanh(u)
    return s + sum(L)


def zipped(x):
    L = [x[i % 5] for i in range(12)]
    s = 0.0
    for u, v in zip(L, range(12), strict=False):
        L[11 - v] = s
        s = s + np.tanh(u) * v
    return s


def from_behind(x):
    L = [x[i % 5] for i in range(12)]
    s = 0.0
    for u in reversed(L):
        L[0] = s
        s = s + np.tanh(u)
    return s


def by_a_dictionary(x):
    L = [x[i % 5] for i in range(12)]
    s = 0.0
    o = {"l": L}
    for u in L:
        o["l"][-1] = s
        s = s + np.tanh(u)
    return s


def by_another_name(x):
    L = [x[i % 5] for i in range(12)]
    s = 0.0
    M = L
    for u in M:
        L[-1] += s
        s = s + np.tanh(u)
    return s


def an_item_of_the_last_row(x):
    L = [[x[i % 5], 1.0] for i in range(12)]
    s = 0.0
    for r in L:
        L[-1][0] = s
        s = s + np.tanh(r[0])
    return s


def the_last_row_is_replaced(x):
    L = [[x[i % 5], 1.0] for i in range(12)]
    s = 0.0
    for r in L:
        L[-1] = [s, 2.0]
        s = s + np.tanh(r[0]) * r[1]
    return s


def the_next_is_added_to(x):
    L = [x[i % 5] for i in range(12)]
    s = 0.0
    for k, u in enumerate(L):
        if k < 11:
            L[k + 1] = L[k + 1] + 0.5 * u
        s = s + np.tanh(u)
    return s


def an_array(x):
    A = np.zeros(12)
    A[:5] = x
    s = 0.0
    for u in A:
        A[-1] = s
        s = s + np.tanh(u)
    return s


def rows_of_an_array(x):
    A = np.zeros((12, 2))
    A[:5, 0] = x
    s = 0.0
    for r in A:
        A[-1, 0] = s
        s = s + np.tanh(r[0])
    return s


def by_a_function(x):
    L = [x[i % 5] for i in range(12)]
    s = 0.0

    def put(v):
        L[-1] = v

    for u in L:
        put(s)
        s = s + np.tanh(u)
    return s


def in_a_branch(x):
    L = [x[i % 5] for i in range(12)]
    s = 0.0
    for u in L:
        if u > 0:
            L[-1] = s
        s = s + np.tanh(u)
    return s


def it_grows(x):
    L = [x[i % 5] for i in range(12)]
    s = 0.0
    for u in L:
        if len(L) < 20:
            L.append(u * 0.5)
        s = s + np.tanh(u)
    return s


def in_a_generator(x):
    L = [x[i % 5] for i in range(12)]
    return sum(np.tanh(u) * (L.__setitem__(-1, u) or 1.0) for u in L)


def a_copy_is_gone_over(x):
    L = [x[i % 5] for i in range(12)]
    s = 0.0
    for u in L[:]:
        L[-1] = s
        s = s + np.tanh(u)
    return s


def mapped(x):
    L = [x[i % 5] for i in range(12)]
    s = 0.0
    for u in (w * 2 for w in L):
        L[-1] = s
        s = s + np.tanh(u)
    return s


def neighbours(x):
    L = [x[i % 5] for i in range(12)]
    s = 0.0
    for a, bb in itertools.pairwise(L):
        L[-1] = s
        s = s + np.tanh(a * bb)
    return s


def several_times(x):
    L = [x[i % 5] for i in range(12)]
    s = 0.0
    for _rep in range(3):
        for w in L:
            L[-1] = s
            s = s * 0.5 + np.tanh(w)
    return s


def a_dictionary(x):
    d = {i: x[i % 5] for i in range(12)}
    s = 0.0
    for _key, val in d.items():
        d[11] = s
        s = s + np.tanh(val)
    for val in d.values():
        d[10] = s
        s = s + np.tanh(val)
    return s


GONE_OVER = [
    the_last_is_set,
    the_next_is_set,
    zipped,
    from_behind,
    by_a_dictionary,
    by_another_name,
    an_item_of_the_last_row,
    the_last_row_is_replaced,
    the_next_is_added_to,
    an_array,
    rows_of_an_array,
    by_a_function,
    in_a_branch,
    it_grows,
    in_a_generator,
    a_copy_is_gone_over,
    mapped,
    neighbours,
    several_times,
    a_dictionary,
]


@pytest.mark.parametrize("f", GONE_OVER, ids=lambda f: f.__name__)
def test_what_is_gone_over_is_changed(f):
    step = wg.jit(wg.value_and_grad(f))
    for x in POINTS:
        value, gradient = step(x)
        np.testing.assert_allclose(value, f(x), rtol=1e-12)
        np.testing.assert_allclose(gradient, wg.grad(f)(x), rtol=1e-9, atol=1e-12)


def test_items_set_where_they_were_taken_stay_one_loop():
    def f(x):
        items = [x[i % 5] for i in range(400)]
        for i, item in enumerate(items):
            items[i] = np.tanh(item) * i
        return sum(items)

    compiled = wg.jit(f)
    np.testing.assert_allclose(compiled(POINTS[0]), f(POINTS[0]), rtol=1e-12)
    program = compiled.explain(POINTS[0]).program
    assert len(program.stages.graph.operators) < 60


# ---------------------------------------------------------------- methods with underscores


def set_in_turns(x):
    L = [0.0] * 12
    s = x[0]
    for i in range(12):
        L.__setitem__(i, s)
        s = np.sin(s) + x[i % 5]
    return s + sum(L)


def set_in_a_branch(x):
    L = [x[i % 5] for i in range(12)]
    if x[0] > 0:
        L.__setitem__(0, 5.0)
    return sum(L)


def of_a_dictionary(x):
    d = {"a": x[0]}
    for i in range(12):
        d.__setitem__("a", d["a"] * 0.5 + x[i % 5])
    return d["a"]


def added_to(x):
    L = [x[0], x[1]]
    if x[0] > 0:
        L.__iadd__([x[2]])
    return sum(L)


def of_an_array(x):
    A = np.zeros(5)
    for i in range(12):
        A.__setitem__(i % 5, x[i % 5] * i)
    if x[0] > 0:
        A.__iadd__(1.0)
    return A.sum()


def of_an_object(x):
    class P:
        pass

    p = P()
    p.v = x[0]
    if x[0] > 0:
        p.v = x[1]
    for i in range(12):
        p.__setattr__("v", p.v * 0.5 + x[i % 5])
    return p.v


def of_the_class(x):
    L = [x[i % 5] for i in range(12)]
    if x[0] > 0:
        list.append(L, x[1])
    for i in range(12):
        list.__setitem__(L, i, L[i] * 0.5)
    return sum(L)


WRITTEN_OUT = [
    set_in_turns,
    set_in_a_branch,
    of_a_dictionary,
    added_to,
    of_an_array,
    of_an_object,
    of_the_class,
]


@pytest.mark.parametrize("f", WRITTEN_OUT, ids=lambda f: f.__name__)
def test_methods_that_python_calls_change_things_too(f):
    compiled = wg.jit(f)
    for x in POINTS:
        try:
            value = compiled(x)
        except ControlFlowError as error:
            assert "changes a list from outside" in str(error)
            continue
        np.testing.assert_allclose(value, f(x), rtol=1e-12)
