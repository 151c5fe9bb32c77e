"""Objects that change in place between two calls: static arguments, and modules as arguments."""

import dataclasses
import functools
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert import nn

X = np.arange(1.0, 4.0)


@dataclasses.dataclass(unsafe_hash=True)
class Settings:
    name: str
    scale: float


@dataclasses.dataclass(eq=False)
class ByIdentity:
    scale: Any


class Named:
    """Equal by its name alone."""

    def __init__(self, scale):
        self.scale = scale

    def __eq__(self, other):
        return isinstance(other, Named)

    def __hash__(self):
        return 1


class Plain:
    def __init__(self, scale):
        self.scale = scale


class OwnFloat(float):
    pass


def held(scale):
    def read():
        return scale

    return read


def own_float(scale):
    found = OwnFloat(1)
    found.scale = scale
    return found


# How to make an object with a number, to give it another one, and to read it.
STATIC = {
    "a dataclass": (lambda n: Settings("a", n), lambda o, n: setattr(o, "scale", n), "scale"),
    "a dataclass by identity": (ByIdentity, lambda o, n: setattr(o, "scale", n), "scale"),
    "equal by name": (Named, lambda o, n: setattr(o, "scale", n), "scale"),
    "an object": (Plain, lambda o, n: setattr(o, "scale", n), "scale"),
    "inside of an object": (
        lambda n: Plain([Plain(n)]),
        lambda o, n: setattr(o.scale[0], "scale", n),
        lambda o: o.scale[0].scale,
    ),
    "in a tuple": (
        lambda n: (1, Plain(n)),
        lambda o, n: setattr(o[1], "scale", n),
        lambda o: o[1].scale,
    ),
    "a function's closure": (
        held,
        lambda o, n: setattr(o.__closure__[0], "cell_contents", n),
        lambda o: o(),
    ),
    "a function's attribute": (
        lambda n: own_attribute(lambda: 0, n),
        lambda o, n: setattr(o, "scale", n),
        "scale",
    ),
    "a partial": (
        lambda n: functools.partial(max, [n]),
        lambda o, n: o.args[0].__setitem__(0, n),
        lambda o: o(),
    ),
    "a number with attributes": (own_float, lambda o, n: setattr(o, "scale", n), "scale"),
    "a class": (
        lambda n: type("Own", (), {"scale": n}),
        lambda o, n: setattr(o, "scale", n),
        "scale",
    ),
    "the class of an object": (
        lambda n: type("Own", (), {"scale": n})(),
        lambda o, n: setattr(type(o), "scale", n),
        "scale",
    ),
    "a base class": (
        lambda n: type("Own", (type("Base", (), {"scale": n}),), {})(),
        lambda o, n: setattr(type(o).__bases__[0], "scale", n),
        "scale",
    ),
}


def own_attribute(function, scale):
    function.scale = scale
    return function


def reader(read):
    return read if callable(read) else (lambda value: getattr(value, read))


@pytest.mark.parametrize("name", STATIC)
def test_static_arguments_are_what_they_are_now(name):
    make, change, read = STATIC[name]
    read = reader(read)
    f = wg.jit(lambda x, settings: x * read(settings), static_argnames="settings")
    value = make(2.0)
    for number in (2.0, 3.0, 2.0, 5.0, 3.0):
        change(value, number)
        for _ in range(2):
            np.testing.assert_array_equal(f(X, value), X * number)
    np.testing.assert_array_equal(f(X, make(7.0)), X * 7)
    assert sum(map(len, f._programs.values())) == 4, "a value seen before has its program"


def test_a_function_that_changes_its_static_argument_is_traced_anew():
    def count(x, counter):
        counter.scale += 1
        return x * counter.scale

    f, counter = wg.jit(count, static_argnames="counter"), Plain(0.0)
    for number in (1.0, 2.0, 3.0):
        np.testing.assert_array_equal(f(X, counter), X * number)


class Layer(nn.Module):
    """A module with something among its attributes."""

    def __init__(self, value, read):
        super().__init__()
        self.value = value
        self.read = read

    def forward(self, x):
        return x * self.read(self.value)


class OwnList(list):
    pass


class OwnDict(dict):
    pass


class OwnArray(np.ndarray):
    pass


HELD = STATIC | {
    "a list": (lambda n: [n], lambda o, n: o.__setitem__(0, n), lambda o: o[0]),
    "a subclass of list": (
        lambda n: OwnList([n]),
        lambda o, n: o.__setitem__(0, n),
        lambda o: o[0],
    ),
    "a subclass of dict": (
        lambda n: OwnDict(a=n),
        lambda o, n: o.__setitem__("a", n),
        lambda o: o["a"],
    ),
    "a subclass of ndarray": (
        lambda n: np.array([n]).view(OwnArray),
        lambda o, n: o.__setitem__(0, n),
        lambda o: float(o[0]),
    ),
    "an array of objects": (
        lambda n: np.array([n], object),
        lambda o, n: o.__setitem__(0, n),
        lambda o: float(o[0]),
    ),
    "a bound method": (
        lambda n: Plain(n).__getattribute__,
        lambda o, n: setattr(o.__self__, "scale", n),
        lambda o: o("scale"),
    ),
}


@pytest.mark.parametrize("name", HELD)
def test_attributes_of_modules_are_what_they_are_now(name):
    make, change, read = HELD[name]
    value = make(2.0)
    layer = Layer(value, reader(read))
    f = wg.jit(lambda layer, x: layer(x))
    for number in (2.0, 3.0, 2.0, 5.0):
        change(value, number)
        for _ in range(2):
            np.testing.assert_array_equal(f(layer, X), X * number)
    assert sum(map(len, f._programs.values())) == 3


def scaled(scale):
    class Scaled(nn.Module):
        factor = scale

        def forward(self, x):
            return x * self.factor

    return Scaled


def test_attributes_of_a_modules_class():
    kind = scaled(2.0)
    f = wg.jit(lambda layer, x: layer(x))
    for layer in (kind(), type("Below", (kind,), {})(), nn.Sequential(kind(), nn.Tanh(), kind())):
        for number in (2.0, 3.0, 5.0, 2.0):
            kind.factor = number
            for _ in range(2):
                np.testing.assert_allclose(f(layer, X), layer(X))
    layer = kind()
    f(layer, X)
    kind.forward = lambda self, x: x - self.factor
    np.testing.assert_allclose(f(layer, X), X - 2.0)
    below = type("Below", (kind,), {})
    layer = below()
    np.testing.assert_allclose(f(layer, X), X - 2.0)
    below.factor = 7.0  # hides that of the class above
    np.testing.assert_allclose(f(layer, X), X - 7.0)
