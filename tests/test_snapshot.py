"""Snapshots of plain values, compared in Python and natively."""

import argparse
import array
import collections
import dataclasses
import functools
import gc
import math
import random
import sys
import types
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
from llvmlite import ir

import wengert as wg
from wengert import nn
from wengert.codegen.compile import compile_module
from wengert.codegen.entry import emit_entry
from wengert.codegen.gate import gate_address
from wengert.runtime.builtin import bind, c_api_addresses
from wengert.runtime.layout import native_layout
from wengert.runtime.signature import KeptSpec, Signature
from wengert.snapshot import DEPTH, alike, hash_of, identities, is_native, snapshot, unchanged


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclasses.dataclass
class Plain:
    a: Any = 1
    b: Any = 2


@dataclasses.dataclass(slots=True)
class Slotted:
    a: Any = 1
    b: Any = 2


class Opaque(random.Random):
    """Something that has more to it than Python can read."""

    def __init__(self, a):
        super().__init__(0)
        self.a = a


class Simple:
    shared: ClassVar[Any] = [1]
    setting = 1

    def __init__(self, a):
        self.a = a

    def method(self):
        return self.a

    @classmethod
    def make(cls):
        return cls(1)


class Derived(Simple):
    __slots__ = ("c",)


class OwnList(list):
    pass


class OwnDict(dict):
    pass


class OwnArray(np.ndarray):
    pass


class OwnFloat(float):
    pass


def function(held=1):
    cell = held

    def inner(x, y=[2], *, z=3):  # noqa: B006 - to be changed
        return x, y, z, cell

    return inner


def fresh(kind):
    """A class of its own, derived from another, with what that has."""
    return type(kind.__name__, (kind,), {"own": [1]})


def change(key, value):
    def write(container):
        container[key] = value

    return write


def assign(name, value):
    return lambda owner: setattr(owner, name, value)


# A value, and what changes it in place.
PLAIN = [
    (lambda: [1, 2], lambda v: v.append(3)),
    (lambda: [1, 2], lambda v: v.pop()),
    (lambda: [1, 2], change(0, 1.0)),
    (lambda: [1, 2], change(0, True)),
    (lambda: [0.0], change(0, -0.0)),
    (lambda: [2j], change(0, 3j)),
    (lambda: ["a"], change(0, "b")),
    (lambda: [b"a"], change(0, "a")),
    (lambda: [2**80], change(0, 2**80 + 1)),
    (lambda: [[[1]]], lambda v: v[0][0].append(2)),
    (lambda: ([1],), lambda v: v[0].clear()),
    (lambda: Pair([1], 2), lambda v: v.first.append(3)),
    (lambda: {"a": 1}, change("b", 1)),
    (lambda: {"a": 1}, change("a", None)),
    (lambda: {"a": 1, "b": 1}, lambda v: v.update(a=v.pop("a"))),  # the order
    (lambda: {1: 2}, lambda v: (v.clear(), v.update({True: 2}))),
    (lambda: {1, 2}, lambda v: v.add(3)),
    (lambda: {1, 2}, lambda v: (v.remove(2), v.add(2.0))),
    (lambda: np.arange(11.0, dtype=np.float32), change(10, 5)),
    (lambda: np.zeros((2, 3)), lambda v: v.resize((3, 2), refcheck=False)),
    (lambda: Plain([1]), assign("a", 2)),
    (lambda: Plain([1]), assign("c", 2)),
    (lambda: Plain([1]), lambda v: v.a.append(1)),
    (lambda: Plain(), lambda v: delattr(v, "a")),
    (lambda: Slotted(), assign("b", 3)),
    (lambda: Slotted(), lambda v: delattr(v, "b")),
    (lambda: types.SimpleNamespace(a=1), assign("a", 2)),
    (lambda: argparse.Namespace(a=[1]), lambda v: v.a.append(2)),
    (lambda: Simple(1), assign("a", 2)),
    (lambda: Simple([1]), lambda v: v.a.append(2)),
    (lambda: Simple(1), assign("b", 2)),
    (lambda: Simple(Simple({"k": 1})), lambda v: v.a.a.update(k=2)),
    (lambda: function(), assign("scale", 2)),
    (lambda: function(), assign("__defaults__", ([3],))),
    (lambda: function(), lambda v: v.__defaults__[0].append(1)),
    (lambda: function(), assign("__kwdefaults__", {"z": 4})),
    (lambda: function(), lambda v: assign("cell_contents", 5)(v.__closure__[0])),
    (lambda: function([1]), lambda v: v.__closure__[0].cell_contents.append(1)),
    (lambda: function(), assign("__code__", function().__code__.replace(co_name="other"))),
    (lambda: functools.partial(function(), [1]), lambda v: v.args[0].append(1)),
    (lambda: functools.partial(function(), k=1), lambda v: v.keywords.update(k=2)),
    (lambda: functools.partial(function()), assign("scale", 2)),
    (lambda: Simple([1]).method, lambda v: v.__self__.a.append(2)),
    (lambda: [1].count, lambda v: v.__self__.append(2)),
    (lambda: types.MappingProxyType({"k": [1]}), lambda v: v["k"].append(1)),
]
# Each is a class that nobody else has: equal ones are not the same.
CLASSES = [
    (lambda: fresh(Simple), assign("setting", 2)),
    (lambda: fresh(Simple), lambda v: v.own.append(2)),
    (lambda: fresh(Simple), assign("other", 2)),
    (lambda: fresh(Simple), assign("method", lambda self: 1)),
    (lambda: fresh(fresh(Simple)), lambda v: assign("new", 1)(v.__bases__[0])),
    (lambda: fresh(fresh(Simple)), lambda v: v.__bases__[0].own.append(1)),
    (lambda: fresh(Simple)(1), lambda v: assign("setting", 2)(type(v))),
    (lambda: fresh(Plain)(1), lambda v: assign("b", 5)(type(v))),
]
# Two of them are not equal: each has a mode of its own.
MODULES = [
    (lambda: nn.Dropout(0.5), assign("p", 0.25)),
    (lambda: nn.Linear(2, 2), lambda v: setattr(v, "weight", nn.Parameter(np.ones((2, 2))))),
]
# Native code leaves these to Python: other containers, and arrays that are not contiguous.
IN_PYTHON = [
    (lambda: np.zeros((4, 4))[::2], change((0, 0), 1)),
    (lambda: collections.OrderedDict(a=1, b=2), lambda v: v.move_to_end("a")),
    (lambda: collections.defaultdict(list), lambda v: v["a"]),
    (lambda: collections.deque([1]), lambda v: v.append(2)),
    (lambda: bytearray(b"a"), lambda v: v.append(1)),
    (lambda: array.array("d", [1]), lambda v: v.append(1)),
    (lambda: np.array([[1], None], object), lambda v: v[0].append(1)),
    (lambda: OwnList([1]), lambda v: v.append(2)),
    (lambda: OwnList([1]), assign("a", 2)),
    (lambda: OwnDict(a=[1]), lambda v: v["a"].append(1)),
    (lambda: OwnDict(a=1), assign("a", 2)),
    (lambda: np.zeros(3).view(OwnArray), change(0, 1)),
    (lambda: np.zeros(3).view(OwnArray), assign("a", 2)),
    (lambda: OwnFloat(2), assign("a", 2)),
    (lambda: Derived(1), assign("c", 2)),
]


@pytest.mark.parametrize(("make", "write"), PLAIN + MODULES + CLASSES + IN_PYTHON)
def test_changes_are_noticed(make, write):
    for wrap in (lambda v: v, lambda v: [v], lambda v: {"k": (v, 1)}):
        value = make()
        outer = wrap(value)
        kept = snapshot(outer)
        assert unchanged(outer, kept)
        write(value)
        assert not unchanged(outer, kept)
        assert unchanged(outer, snapshot(outer))


@pytest.mark.parametrize("make", [make for make, _ in PLAIN + IN_PYTHON])
def test_equal_values_are_the_same(make):
    assert unchanged(make(), snapshot(make()))


def test_other_objects_stand_for_themselves():
    for value in (Opaque(1), wg.tensor([1.0]), iter([1]), len, np.tanh, np, nn.Linear, Pair.__eq__):
        kept = snapshot([value])
        assert kept[2] is value and identities(kept) == (id(value),)
        assert unchanged([value], kept)
    assert not unchanged([Opaque(1)], snapshot([Opaque(1)]))
    assert not unchanged([wg.tensor([1.0])], snapshot([wg.tensor([1.0])]))


def test_equal_objects_of_other_classes_are_equal():
    assert unchanged([range(3)], snapshot([range(3)]))
    assert unchanged(np.float32(2), snapshot(np.float32(2)))
    assert not unchanged(np.float32(0.0), snapshot(np.float32(-0.0)))
    assert unchanged(math.nan, snapshot(float("nan")))


def test_snapshots_are_compared_with_each_other():
    for make, write in PLAIN + IN_PYTHON:
        kept, value = snapshot(make()), make()
        assert alike(kept, snapshot(value)) and hash_of(kept) == hash_of(snapshot(value))
        write(value)
        assert not alike(kept, snapshot(value))
    assert alike(snapshot(math.nan), snapshot(float("nan")))
    assert hash_of(math.nan) == hash_of(float("nan"))


def test_rings_have_an_end():
    ring: list = [1]
    ring.append(ring)
    kept = snapshot(ring)
    assert unchanged(ring, kept)
    ring.append(2)
    assert not unchanged(ring, kept)
    other: list = [1]
    other.append(other)
    assert not unchanged(other, snapshot(ring))


def test_shared_and_deep_values_take_no_time():
    shared: ClassVar[Any] = [1]
    for _ in range(50):
        shared = [shared, shared]
    kept = snapshot(shared)
    assert unchanged(shared, kept)
    bottom = shared
    for _ in range(50):
        bottom = bottom[0]
    bottom.append(2)
    assert not unchanged(shared, kept)
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    assert not unchanged(deep, snapshot(deep)), "so deep nobody looks"
    assert not alike(snapshot(deep), snapshot(deep))
    inner = deep
    for _ in range(DEPTH - 1):
        inner = inner[0]
    inner.clear()
    kept = snapshot(deep)
    assert unchanged(deep, kept)
    inner.append(1)
    assert not unchanged(deep, kept)


def test_what_cannot_be_compared_has_changed():
    class Odd(random.Random):
        def __eq__(self, other):
            raise ValueError

        __hash__ = None

    assert not unchanged([Odd()], snapshot([Odd()]))


# ---------------------------------------------------------------- natively

KERNEL = 'define i32 @"kernel"(ptr %b, ptr %a) { ret i32 0 }'


@pytest.fixture(scope="module")
def native():
    """`unchanged`, natively."""
    if native_layout() is None:
        pytest.skip("no native entries here")
    module = ir.Module("test")
    assert emit_entry(module, "entry", "kernel", Signature((KeptSpec(None),), ()))
    text = str(module)
    (declared,) = (line for line in text.splitlines() if line.startswith('declare i32 @"kernel"'))
    code = compile_module(text.replace(declared, KERNEL), symbols=c_api_addresses())
    addresses = code.address("entry.run"), code.address("entry"), gate_address()

    def same(value, kept):
        signature = Signature((KeptSpec(kept),), ())  # the code is the same for all
        bound = bind(signature, *addresses, keep_alive=code, fallback=lambda *_: False)
        return bound.call(value) == ()

    return same


@pytest.mark.parametrize(("make", "write"), PLAIN + MODULES + CLASSES)
def test_changes_are_noticed_natively(native, make, write):
    for wrap in (lambda v: v, lambda v: [v], lambda v: {"k": (v, 1)}, lambda v: (1, [v])):
        value = make()
        outer = wrap(value)
        kept = snapshot(outer)
        assert native(outer, kept)
        write(value)
        assert not native(outer, kept)


@pytest.mark.parametrize("make", [make for make, _ in IN_PYTHON])
def test_some_values_are_left_to_python(native, make):
    value = make()
    assert not native(value, snapshot(value))
    assert is_native(snapshot([value])) == (type(value) is np.ndarray and not value.dtype.hasobject)


def random_value(rng, depth=3):
    simple = [None, True, False, 0, 1, -1, 2**70, 0.0, -0.0, 1.0, 1j, "a", "ä" * 3, b"a", ..., len]
    if depth == 0 or rng.random() < 0.4:
        return rng.choice(simple)
    count = rng.randrange(4)
    items = [random_value(rng, depth - 1) for _ in range(count)]
    kind = rng.randrange(5)
    if kind == 0:
        return items
    if kind == 1:
        return tuple(items)
    if kind == 2:
        return {rng.choice(simple): item for item in items}
    if kind == 3:
        return {rng.choice(simple) for _ in items}
    dtype = rng.choice([np.float32, np.int8, np.complex128, bool])
    return np.full((count, rng.randrange(3)), rng.randrange(2), dtype)


def test_random_values(native):
    rng = random.Random(0)
    alike = 0
    for _ in range(3000):
        state = rng.getstate()
        value = random_value(rng)
        rng.setstate(state)
        again = random_value(rng)  # the same, made anew
        kept = snapshot(value)
        assert native(value, kept)
        assert native(again, kept) == unchanged(again, kept)
        other = random_value(rng, 1)
        assert native(other, kept) == unchanged(other, kept)
        alike += unchanged(again, kept)
    assert alike > 2900


def test_rings_natively(native):
    ring: list = [1]
    ring += [ring, {"r": ring}]
    kept = snapshot(ring)
    assert native(ring, kept)
    ring[2]["s"] = 1
    assert not native(ring, kept)
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    assert not native(deep, snapshot(deep))


def test_no_references_are_lost(native):
    class Element:
        pass

    element = Element()
    values = [element, [element, {"k": element}], {element}, (element, 1.5)]
    kept = snapshot(values)
    wrong = [element, [element, {"k": element}], {element}, (element, 2.5)]
    native(values, kept), native(wrong, kept)
    before = [sys.getrefcount(one) for one in (element, *values, *wrong[1:])]
    for _ in range(100):
        assert native(values, kept) and not native(wrong, kept)
    gc.collect()
    assert [sys.getrefcount(one) for one in (element, *values, *wrong[1:])] == before


def test_values_that_change_while_they_are_compared(native):
    """Making a set's iterator may start the garbage collector, and that may run anything."""
    outer: list = []

    class Ring:
        def __del__(self):
            outer.clear()

    elements = [{object(), n} for n in range(50)]
    thresholds = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    try:
        for _ in range(200):
            outer[:] = [*elements, [1.5], {"a": [2.5]}]
            kept = snapshot(outer)
            ring = Ring()
            ring.me = ring
            del ring
            native(outer, kept)
    finally:
        gc.set_threshold(*thresholds)


def test_classes_with_methods_of_their_own_are_not_called(native):
    def fail(*_):
        raise AssertionError("Python code was called")

    body = dict.fromkeys(("__eq__", "__hash__", "__len__", "__iter__", "__getitem__"), fail)
    for base in (int, float, str, bytes, tuple, list, dict):
        kind = type("Odd", (base,), body)
        plain = base()
        assert not native(kind(), snapshot(plain))
        assert not native([kind()], snapshot([plain]))
        assert not native(plain, snapshot([plain]))
