"""Effects of methods that Python calls by itself happen in each turn of a loop."""

import dataclasses

import numpy as np
import pytest

import wengert as wg

X = np.array([0.7, 0.4])


class Counted:
    """Counts how often it is asked, in each way that Python has."""

    count = 0

    def __init__(self, value):
        self.value = value

    def asked(self):
        self.count += 1
        return self.value

    item = property(asked)
    __neg__ = __len__ = __bool__ = asked

    def __getitem__(self, place):
        return self.asked() * place

    def __iter__(self):
        return iter([self.asked(), 1.0])

    def __eq__(self, other):
        return self.asked() is other

    def __contains__(self, other):
        return self.asked() is other

    __hash__ = None


class Length(Counted):
    def __len__(self):
        self.count += 1
        return 3

    def __bool__(self):
        self.count += 1
        return True


WAYS = {
    "property": lambda p: p.item,
    "operator": lambda p: -p,
    "item": lambda p: p[2],
    "length": len,
    "items": lambda p: sum(p),
    "comparison": lambda p: 1.0 if p == 3 else 2.0,
    "membership": lambda p: 1.0 if 3 in p else 2.0,
    "truth": lambda p: 1.0 if p else 2.0,
}


def equal(f):
    value, gradient = wg.jit(wg.value_and_grad(f))(X)
    np.testing.assert_allclose(value, f(X), rtol=1e-12)
    np.testing.assert_allclose(gradient, wg.grad(f)(X), rtol=1e-12)


@pytest.mark.parametrize("way", WAYS)
def test_methods(way):
    ask = WAYS[way]

    def f(x):
        p, s = Length(x[0]), x[1]
        for _ in range(30):
            s = s * 0.5 + ask(p)
        return s * p.count

    equal(f)


LOG = []


class Logging:
    def __get__(self, owner, kind=None):
        LOG.append(1)
        return 2.0


class Logged:
    value = Logging()


def test_descriptors():
    def f(x):
        LOG.clear()
        thing, s = Logged(), x[0]
        for _ in range(30):
            s = s * 0.5 + thing.value
        return s * len(LOG)

    equal(f)


class Counter:
    count = 0


@dataclasses.dataclass
class Pair:
    a: float
    b: float

    def __add__(self, other):
        Counter.count += 1
        return Pair(self.a + other.a, self.b + other.b)


def counted(value):
    Counter.count += 1
    return value * 0.9


def test_attributes_of_classes():
    def with_operators(x):
        Counter.count = 0
        pair = Pair(x[0], x[1])
        for _ in range(30):
            pair = pair + Pair(x[1], 1.0)
        return pair.a * Counter.count + pair.b

    def made_in_the_turn(x):
        Counter.count, s = 0, x[0]
        for _ in range(30):
            s = (Pair(s, x[1]) + Pair(x[1], s)).b
        return s * Counter.count

    def with_helper(x):
        Counter.count, s = 0, x[0]
        for _ in range(30):
            s = counted(s)
        return s * Counter.count

    def plainly(x):
        Counter.count, s = 0, x[0]
        for _ in range(30):
            Counter.count += 1
            s = s * 0.9
        return s * Counter.count

    for f in (with_operators, made_in_the_turn, with_helper, plainly):
        equal(f)


@dataclasses.dataclass
class Vector:
    x: float
    y: float

    def __add__(self, other):
        return Vector(self.x + other.x, self.y + other.y)

    def __rmul__(self, factor):
        return Vector(factor * self.x, factor * self.y)

    @property
    def length(self):
        return np.sqrt(self.x**2 + self.y**2)


def test_one_turn_stands_for_all_where_there_are_none():
    def f(x, turns):
        place, speed = Vector(x[0], x[1]), Vector(0.0, 1.0)
        for _ in range(turns):
            speed = speed + (-0.01 / place.length**3) * place
            place = place + 0.01 * speed
        return place.length

    equal(lambda x: f(x, 100))
    compiled = wg.jit(lambda x: f(x, 100))
    compiled(X)
    assert len(compiled.program(X).stages.captured.graph.operators) < 20
