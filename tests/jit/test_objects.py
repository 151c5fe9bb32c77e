"""Dataclasses, named tuples and registered classes as arguments: taken apart natively."""

import dataclasses
from typing import Any, NamedTuple

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert import tree
from wengert.parts import Parts, Same
from wengert.tensor import tensor_parts


@dataclasses.dataclass
class Plain:
    a: Any
    b: Any


@dataclasses.dataclass(slots=True)
class Slotted:
    a: Any
    b: Any


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: Any
    b: Any


class Named(NamedTuple):
    a: Any
    b: Any


KINDS = [Plain, Slotted, Frozen, Named]


@pytest.fixture
def native(monkeypatch):
    """Calls made inside raise where they come to Python."""

    class Native:
        def __enter__(self):
            monkeypatch.setattr(tree, "flatten", self.fail)

        def __exit__(self, *_):
            monkeypatch.undo()

        @staticmethod
        def fail(*_):
            raise AssertionError("the call came to Python")

    return Native()


@pytest.mark.parametrize("kind", KINDS)
def test_objects_are_taken_apart_natively(kind, native):
    f = wg.jit(lambda p, x: wnp.sum(p.a * x) + p.b["c"][0])
    x, c = np.arange(3.0), np.array(5.0)
    p = kind(np.ones(3), {"c": [c]})
    assert f(p, x) == 8
    with native:
        assert f(kind(np.full(3, 2.0), {"c": [c]}), x) == 11
    assert f(kind(np.ones(4), {"c": [c]}), 1.0) == 9  # another shape compiles anew
    assert f(kind(1.0, {"c": [c]}), x) == 8
    with native:
        assert f(p, x) == 8


@pytest.mark.parametrize("kind", KINDS)
def test_results_of_such_classes(kind, native):
    f = wg.jit(lambda p: (kind(p.a + 1, p.a.sum()), "text"))
    f(kind(np.ones(3), 0.0))
    with native:
        found, text = f(kind(np.zeros(3), 0.0))
    assert type(found) is kind and text == "text"
    assert found.a.tolist() == [1, 1, 1] and found.b == 0 and type(found.b) is np.float64
    gradient = wg.jit(wg.grad(lambda p: wnp.sum(p.a**2) * p.b))(kind(np.ones(3), 2.0))
    assert type(gradient) is kind and gradient.a.tolist() == [4, 4, 4] and gradient.b == 3
    out = kind(np.empty(3), np.empty(())), "text"
    assert f(kind(np.ones(3), 0.0), out=out) is out and out[0].a.tolist() == [2, 2, 2]


def test_nested_objects_and_keywords(native):
    f = wg.jit(lambda p, *, q: p.a.a * q.b - q.a[0])
    p, q = Plain(Slotted(np.array([3.0]), None), ()), Named([np.array([1.0])], np.array([2.0]))
    assert f(p, q=q) == 5
    with native:
        assert f(p, q=q) == 5
    assert f(Plain(Slotted(np.array([3.0]), 1.0), ()), q=q) == 5  # not None: another program


def test_state_and_objects_in_one_program(native):
    w = wg.tensor(np.zeros(2))

    @wg.jit
    def add(p):
        with wg.no_grad():
            w[...] = w + p.a
        return p.b

    add(Plain(np.ones(2), 1.0))
    with native:
        add(Plain(np.ones(2), 1.0))
    assert w.numpy().tolist() == [2, 2]


class Layer:
    """As a module is: parameters by name, further layers, and settings."""

    def __init__(self, scale, *, inner=None, mode=True):
        self.scale, self.inner, self.mode = scale, inner, mode

    def __call__(self, x):
        y = x * self.scale if self.mode else x
        return y if self.inner is None else self.inner(y)

    def layers(self):
        return [self, *([] if self.inner is None else self.inner.layers())]


def take_apart(layer):
    # the innermost first, so that leaves are not in the order of attributes, and each once
    scales = {id(one.scale): one.scale for one in reversed(layer.layers())}
    arrays = [s.numpy() if isinstance(s, wg.Tensor) else s for s in scales.values()]
    places = tuple(list(scales).index(id(one.scale)) for one in layer.layers())
    return arrays, (places, tuple(one.mode for one in layer.layers()))


def rebuild(data, children):
    layer = None
    for place, mode in reversed(list(zip(*data, strict=True))):
        layer = Layer(children[place], inner=layer, mode=mode)
    return layer


def parts(layer):
    places = take_apart(layer)[1][0]

    def part(rest, numbers):
        scale = rest[0].scale
        read = tensor_parts(scale, numbers[0]) if isinstance(scale, wg.Tensor) else numbers[0]
        inner = part(rest[1:], numbers[1:]) if rest[1:] else Same(None)
        names, children = ("scale", "inner", "mode"), (read, inner, Same(rest[0].mode))
        return Parts(Layer, names, children, True)

    return part(layer.layers(), places)


tree.register(Layer, take_apart, rebuild, parts)


def test_registered_classes_say_what_they_are_made_of(native):
    f = wg.jit(lambda layer, x: layer(x))
    one, two, x = np.array([2.0]), np.array([3.0]), np.array([1.0])
    for wrap in (np.array, wg.tensor):
        a, b = wrap(one), wrap(two)
        layer = Layer(a, inner=Layer(b))
        assert f(layer, x) == 6
        with native:
            assert f(layer, x) == 6
            assert f(Layer(b, inner=Layer(a)), x) == 6
        layer.mode = False
        assert f(layer, x) == 3
        with native:
            assert f(layer, x) == 3
        tied = Layer(a, inner=Layer(a))
        assert f(tied, x) == 4
        with native:
            assert f(tied, x) == 4
        assert f(Layer(a, inner=Layer(b)), x) == 6
        layer.more = 1  # the dictionary has another name: Python decides
        assert f(layer, x) == 3


def test_tensors_in_objects_are_read_where_they_are_now(native):
    t, x = wg.tensor(np.array([2.0])), np.array([5.0])
    layer = Layer(t)
    f = wg.jit(lambda layer, x: layer(x))
    assert f(layer, x) == 10
    with wg.no_grad():
        t[...] = 3.0
    with native:
        assert f(layer, x) == 15

    @wg.jit
    def outer(x):  # inside a trace the tensor is state, not a constant
        return f(layer, x)

    assert outer(x) == 15
    with wg.no_grad():
        t[...] = 4.0
    assert outer(x) == 20
    with native:
        assert f(layer, x) == 20


def test_dataclasses_with_descriptors_are_rebuilt():
    class Doubled:
        def __set_name__(self, owner, name):
            self.name = "_" + name

        def __get__(self, instance, owner=None):
            return self if instance is None else getattr(instance, self.name)

        def __set__(self, instance, value):
            object.__setattr__(instance, self.name, value)

    @dataclasses.dataclass
    class Watched:
        a: Any = Doubled()  # noqa: RUF009

    found = wg.jit(lambda w: Watched(w.a * 2))(Watched(np.ones(2)))
    assert found.a.tolist() == [2, 2] and "_a" in vars(found)


@pytest.mark.timing
def test_a_dataclass_costs_next_to_nothing():
    fields = [(name, Any) for name in "abcdefgh"]
    kind = dataclasses.make_dataclass("Eight", fields)
    f = wg.jit(lambda p: wnp.sum(sum(tree.leaves(p))))
    p = kind(*np.ones((8, 4)))
    assert f(p) == 32
    import time

    times = []
    for _ in range(20):
        start = time.process_time()
        for _ in range(1000):
            f(p)
        times.append((time.process_time() - start) / 1000)
    assert min(times) < 2e-6
