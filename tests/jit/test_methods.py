"""Compiled methods: of which function, of which instance, and how long they live."""

import copy
import gc
import inspect
import pickle
import sys
import threading
import types
import weakref

import numpy as np
import pytest

import wengert as wg
from wengert.errors import RecompilationWarning
from wengert.jit.looping import Repeated
from wengert.jit.methods import STRONGLY_HELD
from wengert.runtime.layout import native_layout


def _power(self, x):
    return self.factor * x**3


class Powers:
    def __init__(self, factor):
        self.factor = factor

    value, slope = wg.jit(_power), wg.jit(wg.grad(_power, argnums=1))
    first = wg.jit(lambda self, x: self.factor + x)
    second = wg.jit(lambda self, x: self.factor - x)

    @wg.jit
    def scaled(self, x, *, by=1.0):
        return self.factor * x * by

    @classmethod
    @wg.jit
    def of_class(cls, x):
        return cls.offset + x

    @staticmethod
    @wg.jit
    def static(x):
        return x + 1.0

    @wg.jit
    @staticmethod
    def static_below(x):
        return x + 2.0

    @wg.jit
    @classmethod
    def of_class_below(cls, x):
        return cls.offset - x

    offset = 10.0


class More(Powers):
    offset = 20.0

    @wg.jit
    def scaled(self, x, *, by=1.0):
        return 100.0 + super().scaled(x, by=by)


def test_two_methods_of_one_function():
    one = Powers(2.0)
    for _ in range(3):
        assert one.value(3.0) == 54.0 and one.slope(3.0) == 54.0 and one.value(1.0) == 2.0
        assert one.slope(1.0) == 6.0


def test_two_methods_of_one_name():
    one = Powers(2.0)
    for _ in range(3):
        assert one.first(5.0) == 7.0 and one.second(5.0) == -3.0


def test_every_instance_has_its_own_programs():
    one, two = Powers(2.0), Powers(5.0)
    x = np.arange(4.0)
    for _ in range(3):
        assert np.array_equal(one.scaled(x), 2 * x) and np.array_equal(two.scaled(x), 5 * x)
    assert one.scaled == one.scaled and one.scaled != two.scaled
    assert len(one.scaled._programs) == 1


@pytest.mark.skipif(native_layout() is None, reason="no native entries")
def test_calls_are_native():
    one = Powers(2.0)
    x = np.arange(4.0)
    one.scaled(x)
    taken = []
    method = one.scaled.__func__
    method._dispatch = lambda *args: taken.append(args)
    for entry in method._entries:
        entry.next = method._dispatch
    assert np.array_equal(one.scaled(x), 2 * x) and not taken


@pytest.mark.skipif(native_layout() is None, reason="no native entries")
def test_methods_are_found_natively():
    one, two = Powers(2.0), Powers(5.0)
    one.scaled(np.ones(4))
    face = Powers.__dict__["scaled"]
    assert isinstance(type(face).__get__, types.MethodDescriptorType)
    assert face.__get__(one) == face.__get__(one, Powers) == one.scaled
    assert face.__get__(two)(3.0) == two.scaled(3.0) == 15.0  # not compiled before
    assert face.__get__(None, Powers) is face is Powers.scaled
    one.scaled = 3.0  # an attribute of the instance goes before it
    assert one.scaled == 3.0
    for wrong in ((), (one, Powers, 1), (one, Powers, 1, 2)):
        with pytest.raises(TypeError, match="__get__"):
            face.__get__(*wrong)


@pytest.mark.skipif(native_layout() is None, reason="no native entries")
def test_finding_a_method_leaves_no_references():
    one = Powers(2.0)
    one.scaled(3.0)
    face = Powers.__dict__["scaled"]
    held = (one, one.scaled.__func__, face, face._methods)
    gc.collect()
    before = [sys.getrefcount(thing) for thing in held]
    for _ in range(100):
        one.scaled(3.0)
        face.__get__(None, Powers)
        Powers(3.0).scaled  # made in Python
    gc.collect()
    assert [sys.getrefcount(thing) for thing in held] == before


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_copy_has_its_own_attributes(copied):
    one = Powers(2.0)
    assert one.scaled(3.0) == 6.0
    other = copied(one)
    other.factor = 7.0
    for _ in range(2):
        assert other.scaled(3.0) == 21.0 and one.scaled(3.0) == 6.0


def test_a_bound_method_that_is_copied_belongs_to_the_copy():
    one = Powers(2.0)
    one.callback = one.scaled
    assert one.callback(3.0) == one.callback(3.0) == 6.0
    other = copy.deepcopy(one)
    other.factor = 7.0
    for _ in range(3):
        assert other.callback(3.0) == 21.0 and one.callback(3.0) == 6.0


def test_an_instance_holds_nothing_that_was_compiled():
    one = Powers(2.0)
    one.scaled(3.0)
    one.value(3.0)
    assert vars(one) == {"factor": 2.0}
    again = pickle.loads(pickle.dumps(one))
    again.factor = 4.0
    assert again.scaled(3.0) == 12.0 and vars(again) == {"factor": 4.0}


def test_a_bound_method_is_pickled_by_its_name():
    one = Powers(2.0)
    slope, value = pickle.loads(pickle.dumps((one.slope, one.value)))
    assert slope(1.0) == 6.0 and value(1.0) == 2.0


def test_super():
    one = More(2.0)
    for _ in range(3):
        assert one.scaled(3.0) == 106.0 and one.scaled(3.0, by=2.0) == 112.0
        assert Powers.scaled.__get__(one)(3.0) == 6.0


def test_class_methods_and_static_methods():
    one = Powers(2.0)
    for _ in range(3):
        assert Powers.of_class(1.0) == one.of_class(1.0) == 11.0 and More.of_class(1.0) == 21.0
        assert Powers.of_class_below(1.0) == one.of_class_below(1.0) == 9.0
        assert More.of_class_below(1.0) == 19.0
        assert one.static(1.0) == Powers.static(1.0) == 2.0
        assert one.static_below(1.0) == Powers.static_below(1.0) == 3.0


class Slotted:
    __slots__ = ("factor",)

    def __init__(self, factor):
        self.factor = factor

    @wg.jit
    def scale(self, x):
        return x * self.factor


class Referable(Slotted):
    __slots__ = ("__weakref__",)


class Equal(Powers):
    """Instances that are equal, and cannot be hashed."""

    def __eq__(self, other):
        return True

    __hash__ = None


@pytest.mark.parametrize("kind", [Slotted, Referable])
def test_instances_without_a_dictionary(kind):
    one, two = kind(3.0), kind(4.0)
    for _ in range(3):
        assert one.scale(2.0) == 6.0 and two.scale(2.0) == 8.0
    other = copy.copy(one)
    other.factor = 5.0
    assert other.scale(2.0) == 10.0 and one.scale(2.0) == 6.0


def test_instances_are_told_apart_by_identity():
    one, two = Equal(3.0), Equal(4.0)
    for _ in range(2):
        assert one.scaled(2.0) == 6.0 and two.scaled(2.0) == 8.0


@pytest.mark.parametrize("kind", [Powers, Referable])
def test_instances_are_freed(kind):
    made = [kind(float(n)) for n in range(3)]
    method = kind.__dict__["scaled"] if kind is Powers else Slotted.__dict__["scale"]
    before = len(method._methods)
    for one in made:
        bound = one.scaled if kind is Powers else one.scale
        bound(np.ones(3))
        bound(np.ones(3))
        bound(2.0)
    assert len(method._methods) == before + 3
    gone = [weakref.ref(one) for one in made]
    programs = [weakref.ref(p) for ps in bound._programs.values() for p in ps]
    del made, one, bound
    assert [ref() for ref in gone] == [None] * 3  # without the garbage collector
    assert len(method._methods) == before
    gc.collect()
    assert programs and all(ref() is None for ref in programs)


def test_instances_without_weak_references_are_kept_in_bounds():
    with pytest.warns(RecompilationWarning, match="as the instance changes"):
        for n in range(STRONGLY_HELD + 6):
            assert Slotted(float(n)).scale(np.ones(1))[0] == n
    assert len(Slotted.__dict__["scale"]._methods) <= STRONGLY_HELD


def test_a_bound_method_holds_its_instance():
    scaled = Powers(3.0).scaled
    gc.collect()
    assert scaled(2.0) == 6.0 and scaled(np.ones(2)).sum() == 6.0 and scaled(2.0, by=2.0) == 12.0


def test_the_signature_and_looking_inside():
    one = Powers(3.0)
    assert str(inspect.signature(one.scaled)) == "(x, *, by=1.0)"
    assert one.scaled.memory(np.ones(4))["outputs"] == 32
    assert "x" in str(one.scaled.explain(np.ones(4)))
    one.scaled.clear()
    assert one.scaled(2.0) == 6.0


def test_more_kinds_than_the_chain_holds():
    one = Powers(3.0)
    for _ in range(2):
        for n in range(1, 13):
            assert one.scaled(np.ones(n)).sum() == 3.0 * n


def test_errors_and_out():
    class Taker:
        @wg.jit
        def take(self, x, i):
            return x[i]

    one, x = Taker(), np.arange(4.0)
    assert one.take(x, 2) == one.take(x, 3) - 1
    with pytest.raises(IndexError):
        one.take(x, 4)
    out = np.zeros(4)
    assert Powers(2.0).scaled(x, out=out) is out and out[3] == 6.0


def test_any_length_and_static_arguments():
    class Summed:
        factor = 2.0

        @wg.jit(dynamic={"x": 0}, static_argnames="power")
        def total(self, x, power):
            return self.factor * np.sum(np.exp(x) ** power)

    one = Summed()
    for n in (3, 100, 1, 5000):
        assert np.isclose(one.total(np.ones(n), 2), 2 * n * np.exp(2))
        assert np.isclose(one.total(np.ones(n), power=1), 2 * n * np.exp(1))


def test_a_method_in_a_loop_over_rows():
    rows, out = np.arange(12.0).reshape(4, 3), np.zeros((4, 3))
    repeated = Repeated(Powers(2.0).scaled)
    repeated.run((), rows, out)
    assert np.array_equal(out, 2 * rows)


def test_transforms_of_methods():
    one = Powers(2.0)
    assert wg.grad(one.value)(3.0) == 54.0
    assert np.array_equal(wg.vmap(one.value)(np.ones(3)), 2 * np.ones(3))


def test_threads_compile_a_method_once():
    one = Powers(2.0)
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(one.scaled(np.ones(5)).sum()))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [10.0] * 6 and len(one.scaled._programs) == 1
