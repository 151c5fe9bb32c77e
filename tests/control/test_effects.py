"""Whatever changes something from outside under a traced condition: done only there, or refused."""

import bisect
import collections
import functools
import heapq
import operator

import numpy as np
import pytest

import wengert as wg


def put5(s):
    s["n"] = 5.0
    return 1.0


def put_first(s):
    s[0] = 5.0


class B:
    def __init__(self):
        self.v = 1.0

    def go(self):
        self.v = 5.0
        return 1.0


def a_dict_in_an_expression(x):
    s = {"n": 1.0}
    y = put5(s) if x[0] > 0 else 0.0
    return y * x[0] + s["n"]


def a_dict_in_a_helper(x):
    s = {"n": 1.0}
    if x[0] > 0:
        put5(s)
    return x[1] + s["n"]


def a_dict_in_a_conjunction(x):
    s = {"n": 1.0}
    y = x[0] > 0 and put5(s) > 0
    return np.where(y, x[0], x[1]) + s["n"]


def a_list_in_a_helper(x):
    s = [1.0]
    for k in range(3):
        if x[k % 2] > 0:
            put_first(s)
    return x[1] + s[0]


def an_object_in_an_expression(x):
    b = B()
    y = b.go() if x[0] > 0 else 0.0
    return y * x[0] + b.v


def an_object_in_a_list(x):
    bs = [B(), B()]
    y = bs[0].go() if x[0] > 0 else 0.0
    return y * x[0] + bs[0].v


def a_dict_in_a_comprehension(x):
    s = {"n": 1.0}
    t = [put5(s) if v > 0 else 0.5 for v in x]
    return sum(t) * x[0] + s["n"]


def a_dict_in_a_condition(x):
    s = {"n": 1.0}
    k = 0
    while k < 3 and (put5(s) if x[0] > 0 else 1.0) > 0.5:
        k += 1
    return k * x[0] + s["n"]


def a_dict_in_a_lambda(x):
    s = {"n": 1.0}
    return (lambda: put5(s) if x[0] > 0 else 0.0)() * x[0] + s["n"]


def a_dict_in_a_generator(x):
    s = {"n": 1.0}
    g = lambda v: put5(s) if v > 0 else 0.0
    return max(g(v) for v in x) * x[0] + s["n"]


def a_list_in_a_dict_in_a_helper(x):
    s = {"n": [1.0]}
    if x[0] > 0:
        put_first(s["n"])
    return x[1] + s["n"][0]


def a_method_by_a_name(x):
    L = [1.0]
    app = L.append
    if x[0] > 0:
        app(2.0)
    return x[1] + len(L)


def a_partial(x):
    s = {"n": 1.0}
    g = functools.partial(put5, s)
    if x[0] > 0:
        g()
    return x[1] + s["n"]


def an_iterator(x):
    it = iter([1.0, 2.0, 3.0])
    y = 0.0
    if x[0] > 0:
        y = next(it)
    return x[1] + next(it) + y


def a_heap(x):
    L = [3.0, 4.0]
    if x[0] > 0:
        heapq.heappush(L, 1.0)
    return x[1] + L[0]


def a_function_of_operator(x):
    L = [3.0, 4.0]
    if x[0] > 0:
        operator.setitem(L, 0, 7.0)
    return x[1] + L[0]


def setting_an_attribute(x):
    b = B()
    if x[0] > 0:
        b.v = 7.0
    return x[1] + b.v


def a_method_of_the_class(x):
    L = [1.0]
    if x[0] > 0:
        list.append(L, 2.0)
    return x[1] + len(L)


def going_over_an_iterator(x):
    it = iter([1.0, 2.0, 3.0])
    y = 0.0
    if x[0] > 0:
        for v in it:
            y += v
    return x[1] + sum(it) + y


def a_sorted_list(x):
    L = [1.0, 5.0]
    if x[0] > 0:
        bisect.insort(L, 3.0)
    return x[1] + L[1]


def a_list_in_a_dict(x):
    d = collections.defaultdict(list)
    d["a"].append(1.0)
    if x[0] > 0:
        d["a"].append(2.0)
    return x[1] + sum(d["a"])


def a_missing_key(x):
    d = collections.defaultdict(float)
    if x[0] > 0:
        d["a"]
    return x[1] + len(d)


def the_dict_of_an_object(x):
    b = B()
    if x[0] > 0:
        b.__dict__["v"] = 7.0
    return x[1] + b.v


def a_loop_that_appends(x):
    L = [1.0, 2.0]
    k = 0
    while k < 3 and x[0] > 0:
        list.append(L, 1.0)
        k += 1
    return x[1] + len(L)


def a_closure_that_appends(x):
    L = [1.0, 2.0]

    def g():
        L.append(3.0)
        return 0.5

    return (g() if x[0] > 0 else 0.1) * x[0] + len(L)


def a_comprehension_that_takes_off(x):
    L = [1.0, 2.0]
    s = sum(L.pop() for v in x if v > 0)
    return s * x[0] + len(L)


def a_counter(x):
    c = collections.Counter()
    for v in x:
        if v > 0:
            c["up"] += 1
        else:
            c["down"] += 1
    return x[1] * c["up"] - c["down"]


def an_iterator_in_a_comprehension(x):
    it = iter([1.0, 2.0, 3.0])
    return sum(next(it) * v if v > 0 else 0.0 for v in x)


def a_set(x):
    seen = set()
    for k in range(2):
        if x[k] > 0:
            seen.add(k)
    return x[1] + len(seen)


def a_variable_of_the_function_around(x):
    n = 0

    def up():
        nonlocal n
        n += 1
        return 0.5

    y = up() if x[0] > 0 else 0.0
    return y * x[1] + n


def a_traced_variable_of_the_function_around(x):
    n = 0.0

    def up():
        nonlocal n
        n += x[1]

    if x[0] > 0:
        up()
    return n * x[1]


def a_sort(x):
    L = [3.0, 1.0]
    if x[0] > 0:
        L.sort()
    return x[1] + L[0]


def deleting(x):
    L = [3.0, 1.0]
    if x[0] > 0:
        del L[0]
    else:
        del L[1]
    return x[1] + L[0]


def swapping(x):
    L = [[3.0, 1.0], [1.0, 2.0]]
    a, b = L
    if x[0] > 0:
        a[0], b[0] = b[0], a[0]
    return x[1] + L[0][0] * 3


PROGRAMS = [
    a_dict_in_an_expression,
    a_dict_in_a_helper,
    a_dict_in_a_conjunction,
    a_list_in_a_helper,
    an_object_in_an_expression,
    an_object_in_a_list,
    a_dict_in_a_comprehension,
    a_dict_in_a_condition,
    a_dict_in_a_lambda,
    a_dict_in_a_generator,
    a_list_in_a_dict_in_a_helper,
    a_method_by_a_name,
    a_partial,
    an_iterator,
    a_heap,
    a_function_of_operator,
    setting_an_attribute,
    a_method_of_the_class,
    going_over_an_iterator,
    a_sorted_list,
    a_list_in_a_dict,
    a_missing_key,
    the_dict_of_an_object,
    a_loop_that_appends,
    a_closure_that_appends,
    a_comprehension_that_takes_off,
    a_counter,
    an_iterator_in_a_comprehension,
    a_set,
    a_variable_of_the_function_around,
    a_traced_variable_of_the_function_around,
    a_sort,
    deleting,
    swapping,
]
POINTS = [np.array([-1.0, -2.0]), np.array([1.0, 2.0]), np.array([1.0, -2.0])]
# What cannot be both: other lengths, other keys, containers that hold no numbers, iterators.
REFUSED = frozenset(
    "a_method_by_a_name an_iterator a_heap a_method_of_the_class going_over_an_iterator "
    "a_sorted_list a_list_in_a_dict a_missing_key a_loop_that_appends a_closure_that_appends "
    "a_counter a_set a_comprehension_that_takes_off an_iterator_in_a_comprehension".split()
)


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_it_happens_only_where_the_condition_holds(f):
    for x in POINTS:
        if f.__name__ in REFUSED:
            with pytest.raises(wg.errors.ControlFlowError, match="changes a"):
                wg.jit(f)(x)
        else:
            np.testing.assert_allclose(wg.jit(f)(x), f(x), rtol=1e-14)


class Counting:
    """A number that counts what is done with it."""

    def __init__(self, value):
        self.value, self.uses = value, 0

    def __add__(self, other):
        self.uses += 1
        return self.value + other

    @property
    def half(self):
        self.uses += 10
        return self.value / 2


def test_operators_with_effects():
    def f(x):
        number = Counting(x[1])
        total = x[0]
        if x[0] > 0:
            total = number + x[0]
        elif x[1] > 0:
            total = number.half
        return total * 100 + number.uses

    for x in [*POINTS, np.array([-1.0, 2.0])]:
        np.testing.assert_allclose(wg.jit(f)(x), f(x), rtol=1e-14)


def test_bytes_that_a_function_changes():
    def f(x):
        letters = bytearray(b"aaba")
        if x[0] > 0:
            operator.setitem(letters, 1, letters[2])  # neither other letters nor more of them
        return x[1] * letters[1]

    for x in POINTS:
        with pytest.raises(wg.errors.ControlFlowError, match="changes a bytearray"):
            wg.jit(f)(x)


def test_a_default_of_a_keyword():
    def f(x):
        kept = {"n": 1.0}

        def put(by, *, into=kept):
            into["n"] = by
            return 1.0

        done = put(5.0) if x[0] > 0 else 0.0
        return done * x[1] + kept["n"]

    for x in POINTS:
        np.testing.assert_allclose(wg.jit(f)(x), f(x), rtol=1e-14)
