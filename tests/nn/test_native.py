"""Modules as arguments of compiled functions are taken apart natively."""

import argparse
import collections
import dataclasses
import enum
import functools
import gc
import math
import sys
import types
from typing import Any, NamedTuple

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert import nn, tree

X = np.ones((5, 4), np.float32)


def network():
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))


def total(model, x):
    return wnp.sum(model(x) ** 2)


class Native:
    """Calls made inside must run no Python code."""

    def __enter__(self):
        self.called: list[str] = []
        sys.setprofile(self.count)

    def count(self, frame, event, argument):
        if event == "call" and frame.f_code is not Native.__exit__.__code__:
            self.called.append(frame.f_code.co_qualname)

    def __exit__(self, *_):
        sys.setprofile(None)
        assert not self.called


@pytest.fixture
def native():
    return Native()


def test_a_module_is_read_natively(native):
    model, f = network(), wg.jit(total)
    expected = f(model, X)
    with native:
        assert f(model, X) == expected
    with wg.no_grad():
        for parameter in model.parameters():
            parameter *= 2.0
    with native:
        found = f(model, X)
    assert found != expected
    np.testing.assert_allclose(found, float(total(model, X)), rtol=1e-5)


def test_another_module_of_the_same_kind_is_read_natively(native):
    model, f = network(), wg.jit(total)
    gradient = wg.jit(wg.grad(total))(model, X)
    f(model, X)
    new = tree.map(lambda p, g: p - 0.01 * g, model, gradient)
    first = f(new, X)  # arrays in the place of parameters: an entry of its own
    newer = tree.map(lambda p, g: p - 0.01 * g, new, gradient)
    with native:
        assert f(new, X) == first
        assert f(newer, X) < first


def test_what_a_program_depends_on_is_checked():
    model, f = network(), wg.jit(total)
    f(model, X)
    before = f(model, X)
    model[0].extra = 1.0
    assert f(model, X) == before
    other = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    other.load_state_dict(model.state_dict())
    np.testing.assert_allclose(f(other, X), float(total(other, X)), rtol=1e-5)
    tied = network()
    tied[0].bias = tied[0].bias
    vars(tied)["1"] = vars(model)["1"]
    np.testing.assert_allclose(f(tied, X), float(total(tied, X)), rtol=1e-5)


def test_modes_are_checked(native):
    class Mode(nn.Module):
        def __init__(self):
            self.scale = nn.Parameter(np.array([3.0]))

        def forward(self, x):
            return x * self.scale if self.training else x

    model, f = Mode(), wg.jit(lambda m, x: m(x))
    x = np.array([2.0])
    assert f(model, x) == 6
    model.eval()
    assert f(model, x) == 2
    with native:
        assert f(model, x) == 2
    model.train()
    with native:
        assert f(model, x) == 6


# ---------------------------------------------------------------- attributes


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclasses.dataclass
class Settings:
    scale: Any = 1.0
    more: Any = None


@dataclasses.dataclass(slots=True)
class Slotted:
    scale: Any = 1.0


class Holder(nn.Module):
    """Multiplies by what `read` finds in an attribute of any kind."""

    def __init__(self, held, read):
        self.weight = nn.Parameter(np.array([3.0]))
        self.held = held
        self.read = read

    def forward(self, x):
        return x * self.weight * self.read(self.held)


def put(key, value):
    def write(model):
        model.held[key] = value

    return write


def assign(value):
    return lambda model: setattr(model, "held", value)


def inside(name, value):
    return lambda model: setattr(model.held, name, value)


# What is held, how it is read, and what changes it.
HELD = {
    "int": (2, float, assign(3)),
    "float": (2.5, float, assign(3.5)),
    "zero": (0.0, lambda v: math.copysign(1, v), assign(-0.0)),
    "None": (None, lambda v: 1 if v is None else v, assign(2)),
    "str": ("ab", len, assign("abc")),
    "bytes": (b"ab", len, assign(b"abc")),
    "tuple": ((1, (2, "x")), lambda v: v[1][0], assign((1, (3, "x")))),
    "range": (range(3), sum, assign(range(4))),
    "slice": (slice(1, 2), lambda v: v.stop, assign(slice(1, 3))),
    "frozenset": (frozenset({1, 2}), sum, assign(frozenset({1, 3}))),
    "NumPy scalar": (np.float32(2), float, assign(np.float32(3))),
    "dtype": (np.dtype(np.int8), lambda v: v.itemsize, assign(np.dtype(np.int16))),
    "enum": (Color.RED, lambda v: v.value, assign(Color.BLUE)),
    "ufunc": (np.exp, lambda v: v(1.0), assign(np.sin)),
    "array function": (np.sum, lambda v: v([2.0, 3.0]), assign(np.prod)),
    "function": (lambda: 2, lambda v: v(), assign(lambda: 3)),
    "partial": (functools.partial(max, 1), lambda v: v(0), assign(functools.partial(max, 2))),
    "class": (float, lambda v: v(2), assign(lambda v: 3)),
    "module": (math, lambda v: v.pi, assign(types.SimpleNamespace(pi=3.0))),
    "list": ([1, 2.5], sum, lambda m: m.held.append(3)),
    "list, shorter": ([1, 2.5], sum, lambda m: m.held.pop()),
    "list, other type": ([2], lambda v: 1 if type(v[0]) is int else 5, put(0, True)),
    "nested lists": ([[1], (2, [3])], lambda v: v[1][1][0], lambda m: put(0, 4)(Inner(m))),
    "dict": ({"a": 2}, lambda v: v["a"], put("a", 3)),
    "dict, a key more": ({"a": 2}, len, put("b", 3)),
    "dict, order": ({1: 2, 2: 3}, lambda v: next(iter(v)), lambda m: put(1, m.held.pop(1))(m)),
    "set": ({1, 2}, sum, lambda m: m.held.add(3)),
    "array": (np.array([2.0]), lambda v: v[0], put(0, 3.0)),
    "list of arrays": ([np.array([2.0])], lambda v: v[0][0], lambda m: put(0, 3.0)(First(m))),
    "named tuple": (Pair(1, [2]), lambda v: v.second[0], lambda m: m.held.second.insert(0, 5)),
    "dataclass": (Settings(2), lambda v: v.scale, inside("scale", 3)),
    "slotted dataclass": (Slotted(2), lambda v: v.scale, inside("scale", 3)),
    "namespace": (types.SimpleNamespace(a=2), lambda v: v.a, inside("a", 3)),
    "arguments": (argparse.Namespace(a=2), lambda v: v.a, inside("a", 3)),
    "tensor": (wg.tensor([2.0]), lambda v: v, assign(wg.tensor([4.0]))),
    "list of tensors": ([wg.tensor([2.0])], lambda v: v[0], put(0, wg.tensor([5.0]))),
    "list of modules": ([nn.Dropout(0.5)], lambda v: v[0].p, lambda m: setattr(m.held[0], "p", 1)),
    "dict of modules": (
        {"a": nn.Linear(1, 1)},
        lambda v: v["a"].weight[0],
        lambda m: setattr(m.held["a"], "weight", nn.Parameter(np.ones((1, 1)))),
    ),
}


class Inner:
    def __init__(self, model):
        self.held = model.held[1][1]


class First:
    def __init__(self, model):
        self.held = model.held[0]


@pytest.mark.parametrize("name", HELD)
def test_attributes_of_all_kinds_are_checked_natively(native, name):
    held, read, write = HELD[name]
    model, f = Holder(held, read), wg.jit(lambda m, x: m(x))
    x = np.array([2.0])
    first = f(model, x)
    assert first == model(x).numpy()
    with native:
        assert f(model, x) == first
    write(model)
    second = f(model, x)
    assert second == model(x).numpy() and second != first
    with native:
        assert f(model, x) == second
    model.other = 1  # an attribute more: another program
    assert f(model, x) == second
    del model.other
    with native:
        assert f(model, x) == second


def test_attributes_that_only_python_can_compare():
    model, f = Holder(collections.deque([1]), len), wg.jit(lambda m, x: m(x))
    x = np.array([2.0])
    for expected in (6, 12, 18):
        assert f(model, x) == f(model, x) == expected
        model.held.append(1)


def test_equal_attributes_are_as_good_as_the_same(native):
    model, f = Holder([1.5, "ab", (2**70, 2j)], lambda v: v[0]), wg.jit(lambda m, x: m(x))
    x = np.array([2.0])
    assert f(model, x) == 9
    for _ in range(20):
        model.held = [float("1.5"), "".join("ab"), (int("1" + "0" * 0) * 2**70, complex("2j"))]
        with native:
            assert f(model, x) == 9


def test_other_objects_are_compared_by_identity(native):
    class Config:
        scale = 2

    model, f = Holder(Config(), lambda v: v.scale), wg.jit(lambda m, x: m(x))
    x = np.array([1.0])
    assert f(model, x) == 6
    with native:
        assert f(model, x) == 6
    model.held = Config()
    model.held.scale = 3
    assert f(model, x) == 9


def test_a_function_that_changes_its_arguments_is_never_stale():
    class Counting(nn.Module):
        def __init__(self):
            self.scale = nn.Parameter(np.array([1.0]))
            self.count = np.zeros(1)

        def forward(self, x):
            self.count += 1
            return x * self.scale * self.count[0]

    model, f = Counting(), wg.jit(lambda m, x: m(x))
    assert [float(f(model, np.array([2.0]))[0]) for _ in range(3)] == [2, 4, 6]


def test_rings_of_modules_are_read_natively(native):
    class Node(nn.Module):
        def __init__(self, parent=None):
            self.weight = nn.Parameter(np.array([2.0]))
            self.parent = parent

        def forward(self, x):
            return self.child(x) * self.weight if hasattr(self, "child") else x * self.weight

    root, f = Node(), wg.jit(lambda m, x: m(x))
    root.child = Node(root)
    x = np.array([1.0])
    assert f(root, x) == 4
    with native:
        assert f(root, x) == 4
    root.child.weight = nn.Parameter(np.array([3.0]))
    assert f(root, x) == 6


# ---------------------------------------------------------------- random numbers and buffers


def test_dropout_draws_the_same_stream_compiled(native):
    model = nn.Sequential(nn.Linear(4, 64), nn.Dropout(0.5), nn.Linear(64, 64), nn.Dropout(0.2))
    f = wg.jit(lambda m, x: m(x))
    f(model, X)
    nn.manual_seed(7)
    expected = [model(X).numpy() for _ in range(3)]
    state = nn.get_rng_state()
    nn.manual_seed(7)
    found = []
    with native:
        for _ in range(3):
            found.append(f(model, X))
    for one, other in zip(found, expected, strict=True):
        assert np.array_equal(one == 0, other == 0)
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    assert np.array_equal(nn.get_rng_state(), state)
    assert not np.array_equal(found[0] == 0, found[1] == 0)


def test_dropout_is_never_stale(native):
    model, f = nn.Sequential(nn.Linear(4, 100), nn.Dropout(0.5)), wg.jit(lambda m, x: m(x))
    f(model, X)

    def zeros():
        found = f(model, X)
        with native:
            again = f(model, X)
        assert np.mean(again == 0) == pytest.approx(np.mean(found == 0), abs=0.15)
        return np.mean(found == 0)

    assert 0.35 < zeros() < 0.65
    model.eval()
    assert zeros() == 0
    model.train()
    assert 0.35 < zeros() < 0.65
    model[1].p = 0.9
    assert zeros() > 0.8
    model[1].eval()
    assert zeros() == 0
    model[1].train()
    model.register_module("1", nn.Dropout(0.1))
    assert zeros() < 0.2
    model.append(nn.Dropout(0.9))
    assert zeros() > 0.8


def test_running_statistics_are_written_natively(native):
    def make():
        nn.manual_seed(1)
        return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8))

    one, other, f = make(), make(), wg.jit(lambda m, x: m(x))
    data = np.random.default_rng(0).normal(size=(4, 5, 4)).astype(np.float32)
    for number, x in enumerate(data):
        expected = other(x).numpy()
        if number:
            with native:
                found = f(one, x)
        else:
            found = f(one, x)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    for a, b in zip(one.buffers(), other.buffers(), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_recurrent_layers_are_read_natively(kind, native):
    model = getattr(nn, kind)(4, 6, num_layers=2, dropout=0.3)
    f, x = wg.jit(lambda m, x: m(x)[0]), np.ones((3, 2, 4), np.float32)
    f(model, x)
    nn.manual_seed(3)
    expected = model(x)[0].numpy()
    nn.manual_seed(3)
    with native:
        found = f(model, x)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


# ---------------------------------------------------------------- bad modules


def break_mode(model):
    vars(model)["_mode"] = 3


def break_kinds(model):
    del vars(model)["_kinds"]


def break_parameter(model):
    vars(model)["weight"] = [1.0, object()]


def break_cell(model):
    model.weight._cell = 5


def break_class(model):
    model.__class__ = type("Other", (nn.Module,), {})


def break_dictionary(model):
    model.__dict__ = {1: 2}


BREAKS = [break_mode, break_kinds, break_parameter, break_cell, break_class, break_dictionary]


@pytest.mark.parametrize("spoil", BREAKS)
def test_broken_modules_raise(spoil):
    model, f = Holder([1], sum), wg.jit(lambda m, x: m(x))
    x = np.array([2.0])
    for _ in range(3):
        f(model, x)
    spoil(model)
    for _ in range(3):
        with pytest.raises(Exception):  # noqa: B017 - whichever, but no crash
            f(model, x)
    gc.collect()
    assert f(Holder([1], sum), x) == 6


def test_odd_attributes_are_no_danger():
    class Evil:
        def __eq__(self, other):
            model.held.clear()
            return True

        __hash__ = object.__hash__

    model, f = Holder([1, [2]], lambda v: 2), wg.jit(lambda m, x: m(x))
    x = np.array([2.0])
    assert f(model, x) == 12
    ring: list = [1]
    ring.append(ring)
    odd = [
        [Evil(), [2]],
        [1, [Evil()]],
        {Evil(): Evil()},
        ring,
        type("L", (list,), {})([1, [2]]),
        type("D", (dict,), {"__iter__": None})(),
        memoryview(b"a"),
        iter([1]),
        model,
        [model],
        object.__new__(Settings),
        object.__new__(Slotted),
        np.array([None, Evil()]),
        np.zeros(3).view(np.recarray),
        np.ma.masked_array([1.0]),
    ]
    for value in odd:
        object.__setattr__(model, "held", value)
        for _ in range(3):
            assert f(model, x) == 12
    model.held = [1, [2]]
    assert f(model, x) == 12


def test_static_arguments_are_compared_by_value_and_type(native):
    f = wg.jit(lambda x, s: x * s[0] if type(s[0]) is int else x + s[0], static_argnames="s")
    x, two = np.arange(3), [2]
    assert f(x, (2,)).tolist() == [0, 2, 4]
    with native:
        assert f(x, tuple(two)).tolist() == [0, 2, 4]
    assert f(x, (2.0,)).tolist() == [2.0, 3.0, 4.0]
    assert f(x, (True,)).tolist() == [1, 2, 3]
    with native:
        assert f(x, tuple(map(float, two))).tolist() == [2.0, 3.0, 4.0]
    sign = wg.jit(lambda x, s: np.copysign(x, s), static_argnames="s")
    assert sign(1.0, 0.0) == 1 and sign(1.0, -0.0) == -1 and sign(1.0, 0.0) == 1


@pytest.mark.parametrize("training", [True, False])
def test_modules_made_anew_are_read_natively(training, native):
    def make(scale):
        model = nn.Sequential(nn.Linear(4, 64), nn.Dropout(0.5), Holder([1, {"a": 2}], len))
        return tree.map(lambda p: p * scale, model.train(training))

    f = wg.jit(lambda m, x: m(x))
    f(make(1.0), X)
    for step in range(1, 20):
        model = make(float(step))
        nn.manual_seed(step)
        with native:
            found = f(model, X)
        nn.manual_seed(step)
        expected = model(X)
        assert np.array_equal(found == 0, expected == 0) and np.any(found == 0) == training
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
        model.train(not training)
        assert np.any(f(model, X) == 0) != training


class Everything(nn.Module):
    """Depends on all that it has."""

    def __init__(self):
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)
        self.dropout = nn.Dropout(0.5)
        self.norm = nn.BatchNorm1d(4)
        self.powers = [1]
        self.options = {"shift": 1.0, "deep": [(2, [3])]}
        self.table = np.ones(4, np.float32)
        self.settings = Settings(2.0, [1])
        self.activation = np.tanh

    def forward(self, x):
        x = self.norm(self.dropout(self.second(self.activation(self.first(x)))))
        x = sum(x * n for n in self.powers) + self.options["shift"] + self.options["deep"][0][1][0]
        x = x * self.table * self.settings.scale + len(self.settings.more)
        return x * getattr(self, "extra", 1)


def choose(*values):
    return lambda rng: values[rng.integers(len(values))]


ACTIONS = [
    lambda m, rng: m.train(bool(rng.integers(2))),
    lambda m, rng: m.dropout.train(bool(rng.integers(2))),
    lambda m, rng: setattr(m.dropout, "p", choose(0.5, 0.25, 0.0)(rng)),
    lambda m, rng: m.powers.append(choose(1, 2, 0.5)(rng)),
    lambda m, rng: m.powers.pop() if len(m.powers) > 1 else None,
    lambda m, rng: m.options.update(shift=choose(1, 1.0, 2.0)(rng)),
    lambda m, rng: m.options["deep"][0][1].__setitem__(0, choose(3, 4)(rng)),
    lambda m, rng: m.table.__setitem__(0, choose(1, 2)(rng)),
    lambda m, rng: setattr(m.settings, "scale", choose(2.0, 3.0)(rng)),
    lambda m, rng: m.settings.more.append(1) if len(m.settings.more) < 2 else m.settings.more.pop(),
    lambda m, rng: setattr(m, "activation", choose(np.tanh, np.sin)(rng)),
    lambda m, rng: setattr(m, "extra", choose(2, 3)(rng)),
    lambda m, rng: delattr(m, "extra") if hasattr(m, "extra") else None,
    lambda m, rng: setattr(m, "second", choose(m.first, nn.Linear(4, 4))(rng)),
    lambda m, rng: setattr(m.second, "bias", choose(m.first.bias, m.second.bias)(rng)),
    lambda m, rng: m.first.load_state_dict(nn.Linear(4, 4).state_dict()),
]


@pytest.mark.parametrize("steps", [6, pytest.param(80, marks=pytest.mark.slow)])
def test_compiled_follows_whatever_is_done_to_a_module(steps):
    rng = np.random.default_rng(steps)
    model, f = Everything(), wg.jit(lambda m, x: m(x))
    for step in range(steps):
        ACTIONS[rng.integers(len(ACTIONS))](model, rng)
        x = rng.normal(size=(6, 4)).astype(np.float32)
        buffers = [buffer.numpy().copy() for buffer in model.buffers()]
        nn.manual_seed(step)
        expected = model(x)
        after = [buffer.numpy().copy() for buffer in model.buffers()]
        for buffer, content in zip(model.buffers(), buffers, strict=True):
            nn.module.write(buffer, content)
        nn.manual_seed(step)
        found = f(model, x)
        np.testing.assert_allclose(found, expected.numpy(), rtol=2e-4, atol=2e-4)
        assert found.dtype == expected.dtype
        for buffer, content in zip(model.buffers(), after, strict=True):
            np.testing.assert_allclose(buffer.numpy(), content, rtol=1e-4, atol=1e-5)
