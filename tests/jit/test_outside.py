"""What a function changes outside of itself when it is compiled: its calls do not, and that is said
where it matters to them."""

import collections
import warnings

import numpy as np
import pytest

import wengert as wg
from wengert.errors import ChangedOutsideWarning, LeakedTracerError

X = np.arange(1.0, 4.0)
COUNT = 0


class Pendulum:
    def __init__(self):
        self.angle, self.count, self.last, self.table = 1.0, 0, None, {}

    def step(self, force):
        self.angle = self.angle + 0.1 * force
        return self.angle

    def counted(self, force):
        self.count += 1
        return force * self.count

    def first_written(self, force):
        self.angle = np.sum(force)
        return self.angle * 2.0

    def looked_at(self, force):
        self.last = force * 2.0
        return self.last + 1.0

    def kept(self, force):
        if len(force) not in self.table:
            self.table[len(force)] = np.arange(float(len(force)))
        return force * self.table[len(force)]

    def with_history(self, force):
        history = self.table.setdefault("history", [])
        history.append(force)
        return force * len(history)


class Compiled:
    def __init__(self):
        self.angle = 1.0

    @wg.jit
    def step(self, force):
        self.angle = self.angle + force
        return self.angle


def of_function(x):
    of_function.calls = getattr(of_function, "calls", 0) + 1
    return x * of_function.calls


def of_global(x):
    global COUNT
    COUNT += 1
    return x * COUNT


def of_variable():
    count = 0

    def counted(x):
        nonlocal count
        count += 1
        return x * count

    return counted


def of_item(items, place):
    def counted(x):
        items[place] += 1
        return x * items[place]

    return counted


@pytest.mark.parametrize("make", [lambda: wg.jit(Pendulum().step), lambda: Compiled().step])
def test_attributes_that_would_be_given_traced_values(make):
    step = make()
    for _ in range(2):  # and the object stays as it was
        with pytest.raises(
            LeakedTracerError, match=r"it changes `angle` of .*, with which its next"
        ):
            step(1.0)


def test_the_object_is_what_it_was_after_the_error():
    pendulum = Pendulum()
    with pytest.raises(LeakedTracerError):
        wg.jit(pendulum.step)(1.0)
    assert pendulum.angle == 1.0


def test_a_list_of_traced_values_whose_length_is_read():
    with pytest.raises(LeakedTracerError, match=r"item 0 of a list|'history' of a dict"):
        wg.jit(Pendulum().with_history)(X)


@pytest.mark.parametrize(
    ("make", "place"),
    [
        (lambda: Pendulum().counted, "`count` of Pendulum"),
        (lambda: of_function, "`calls` of of_function"),
        (lambda: of_global, "the variable COUNT"),
        (of_variable, "the variable count"),
        (lambda: of_item([0], 0), "item 0 of a list"),
        (lambda: of_item({"a": 0}, "a"), "'a' of a dict"),
        (lambda: of_item(collections.defaultdict(int), "a"), "'a' of a dict"),
    ],
)
def test_numbers_that_change_are_told_of(make, place):
    function = make()
    with pytest.warns(ChangedOutsideWarning, match=f"it changes {place}, with which"):
        np.testing.assert_array_equal(wg.jit(function)(X), X)
    assert function(X)[0] == 2.0  # it was changed by one call


@pytest.mark.parametrize("name", ["first_written", "looked_at", "kept"])
def test_what_its_calls_do_not_read_may_change(name):
    pendulum = Pendulum()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled = wg.jit(getattr(pendulum, name))
        found = [compiled(X), compiled(X + 1.0)]
    plain = getattr(Pendulum(), name)
    np.testing.assert_array_equal(found[0], plain(X))
    np.testing.assert_array_equal(found[1], plain(X + 1.0))


def test_counting_how_often_a_function_is_traced_is_no_matter():
    calls = []

    @wg.jit
    def doubled(x):
        calls.append(len(calls))
        return x * 2.0

    doubled(X)
    doubled(X)
    assert calls == [0]


def test_tensors_are_updated_by_every_call():
    class Walk:
        def __init__(self):
            self.place = wg.tensor(0.0)

        def step(self, by):
            self.place += by
            return self.place * 1.0

    walk = Walk()
    step = wg.jit(walk.step)
    assert [float(step(1.0)) for _ in range(3)] == [1.0, 2.0, 3.0]
