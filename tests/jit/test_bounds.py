"""What a function keeps has bounds, and it says when it compiles again and again."""

import gc
import os
import sys
import warnings
import weakref

import numpy as np
import pytest

import wengert as wg
from wengert.codegen import entry
from wengert.errors import RecompilationWarning
from wengert.jit import chain, function
from wengert.runtime import arena, builtin
from wengert.runtime.layout import native_layout


def test_the_programs_of_a_function_are_bounded(monkeypatch):
    monkeypatch.setattr(function, "PROGRAMS", 12)
    f = wg.jit(lambda x: x * 2.0)
    for n in range(1, 13):
        assert f(np.ones(n)).sum() == 2 * n
    first, second = (weakref.ref(ps[0]) for ps in list(f._programs.values())[:2])
    f(np.ones(1))  # used again: the second is now the oldest
    for n in range(13, 15):
        assert f(np.ones(n)).sum() == 2 * n
    gc.collect()
    assert sum(map(len, f._programs.values())) == 12
    assert first() is not None and second() is None
    assert len(f._entries) + len(f._evicted) == 12
    assert f(np.ones(2)).sum() == 4


def told(calls):
    """What is said while these calls are made."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for f, args in calls:
            f(*args)
    assert all(one.category is RecompilationWarning for one in seen)
    return [str(one.message) for one in seen]


def shifted(y, x):
    return y + x * 2.0


def test_a_function_that_compiles_often_says_so_once(monkeypatch):
    monkeypatch.setattr(function, "OFTEN", 4)
    f = wg.jit(shifted)
    assert told((f, (1.0, np.ones(n))) for n in range(1, 12)) == [
        "shifted: was compiled 5 times, as the shape of argument x changes: (1,), (2,), (3,), "
        '.... Compile it for any length with jit(dynamic={"x": 0}), or pad it.'
    ]


def test_its_advice_is_good(monkeypatch):
    monkeypatch.setattr(function, "OFTEN", 4)
    f = wg.jit(shifted, dynamic={"x": 0})
    assert not told((f, (1.0, np.ones(n))) for n in range(1, 12))


@pytest.mark.parametrize(
    ("f", "args", "text"),
    [
        (
            wg.jit(lambda x, n: x * n, static_argnames="n"),
            [(1.0, n) for n in range(4)],
            "as the static argument n changes: 0, 1, 2, .... Leave n out of static_argnames, or "
            "give it one of few values.",
        ),
        (
            wg.jit(lambda a, *, b: a + b[0][0], static_argnames="a"),
            [(1.0, (np.ones((n, n)),)) for n in range(1, 5)],
            "as the shape of argument b changes: (1, 1), (2, 2), (3, 3), .... Compile it for any "
            'length with jit(dynamic={"b": (0, 1)}), or pad it.',
        ),
        (
            wg.jit(lambda x: x + 1),
            [(np.ones((2,) * n),) for n in range(4)],
            "as the shape of argument x changes: (), (2,), (2, 2), .... Pad it to a few shapes.",
        ),
        (
            wg.jit(lambda x: x + 1),
            [(np.ones(3, kind),) for kind in ("f4", "f8", "i4", "i8")],
            "as the dtype of argument x changes: float32, float64, int32, .... Convert it to one "
            "dtype before the call.",
        ),
        (
            wg.jit(lambda x: x + 1),
            [(np.ones(60)[:: n + 1][:10],) for n in range(4)],
            "Give arrays that lie alike in memory, for instance np.ascontiguousarray(x).",
        ),
        (
            wg.jit(lambda x: sum(x)),
            [([1.0] * n,) for n in range(1, 5)],
            "as the structure of the arguments changes. Give the same structure of tuples, lists "
            "and dicts each time.",
        ),
    ],
)
def test_it_says_what_changes(monkeypatch, f, args, text):
    monkeypatch.setattr(function, "OFTEN", 3)
    by_name = len(args[0]) == 2 and isinstance(args[0][1], tuple)
    call = (lambda a, b: f(a, b=b)) if by_name else f
    (said,) = told((call, one) for one in args)
    assert said.startswith("<lambda>: was compiled 4 times, as the ") and said.endswith(text)


class Scaler:
    def __init__(self, factor):
        self.factor = factor

    @wg.jit
    def scale(self, x):
        return self.factor * x


def test_methods_say_it_once_for_all_instances(monkeypatch):
    monkeypatch.setattr(function, "OFTEN", 4)
    assert told((Scaler(n).scale, (1.0,)) for n in range(12)) == [
        "scale: was compiled 5 times, as the instance changes. Keep the instances, or "
        "compile a function that has what differs between them as arguments."
    ]


def test_a_method_of_one_instance_says_what_changes(monkeypatch):
    monkeypatch.setattr(function, "OFTEN", 4)
    monkeypatch.setattr(Scaler.__dict__["scale"], "_compilations", 0)
    one = Scaler(2.0)
    (said,) = told((one.scale, (np.ones(n),)) for n in range(1, 9))
    assert 'jit(dynamic={"x": 0})' in said


def test_a_function_that_is_cleared_is_not_told_of(monkeypatch):
    monkeypatch.setattr(function, "OFTEN", 3)
    f = wg.jit(lambda x: x + 1)
    assert not told(((lambda: (f(1.0), f.clear())), ()) for _ in range(8))


def idle_results(least, most):
    """The arrays kept of so many elements."""
    lists = [reference() for reference in list(builtin._all_spares.values())]
    arrays = [array for spares in lists for array in spares or () if array is not None]
    return [array for array in arrays if least <= array.size < most]


@pytest.mark.skipif(native_layout() is None, reason="no native entries")
def test_results_that_nobody_holds_are_bounded(monkeypatch):
    size = 1 << 20
    monkeypatch.setattr(builtin, "IDLE_BYTES", 6 * size)
    f = wg.jit(lambda x: x + 1.0)
    for _ in range(2):
        for n in range(24):
            x = np.ones(size // 8 + n)
            for _ in range(4):
                assert f(x)[0] == 2.0
    held = len(idle_results(size // 8, size // 8 + 24))
    assert 2 <= held <= 6 + builtin.SPARES * (chain.CHAIN + 1)
    f(np.ones(3))
    assert 2 <= len(idle_results(size // 8, size // 8 + 24)) <= 6


@pytest.mark.skipif(native_layout() is None, reason="no native entries")
@pytest.mark.parametrize("dynamic", [None, {"x": 0}])
def test_one_program_with_many_results_is_bounded(monkeypatch, dynamic):
    monkeypatch.setattr(entry, "RECYCLED_BYTES", 8 << 20)
    f = wg.jit(lambda x: tuple(x + n for n in range(8)), dynamic=dynamic)
    length = (1 << 17) + 567 + 2 * (dynamic is None)  # each its own: the other's may be there still
    x = np.ones(length)
    for _ in range(5):
        results = f(x)
    assert [one[-1] for one in results] == [1.0 + n for n in range(8)]
    del results
    kept = idle_results(length, length + 1)
    assert sum(one.nbytes for one in kept) <= 8 << 20
    assert bool(kept) == (dynamic is None)


@pytest.mark.skipif(native_layout() is None, reason="no native entries")
def test_a_loop_still_uses_its_results_again():
    f = wg.jit(lambda x: x + 1.0)
    x = np.ones(1 << 18)
    f(x)
    places = {f(x).ctypes.data for _ in range(10)}
    assert len(places) <= builtin.SPARES


# ---------------------------------------------------------------- scratch memory


def products(x):
    """Needs scratch memory of about the size of x."""
    return np.sum(np.sin(x) @ np.cos(x))


def many_lengths(x):
    """Needs scratch memory that grows with the length."""
    return np.sum(np.sin(x) / np.sum(np.sin(x)) * np.exp(x))


@pytest.mark.skipif(native_layout() is None, reason="no native entries")
def test_scratch_memory_of_programs_not_in_use_is_bounded(monkeypatch):
    monkeypatch.setattr(arena, "KEPT_BYTES", 8 << 20)
    f = wg.jit(products)
    inputs = [np.full((480 + n, 480 + n), 0.5) for n in range(12)]
    right = [products(x) for x in inputs]
    assert f.memory(inputs[0])["arena"] > arena.COUNTED_BYTES
    for _ in range(3):  # those that sleep wake up again
        for x, expected in zip(inputs, right, strict=True):
            assert np.isclose(f(x), expected)
            assert np.isclose(f(x), expected)
            assert arena.kept_bytes() <= arena.KEPT_BYTES


@pytest.mark.skipif(sys.platform != "linux", reason="no madvise")
def test_an_arena_that_sleeps_has_no_pages():
    one = arena.Arena(32 << 20)
    one.memory[:] = 1
    before = resident()
    one.sleep()
    assert before - resident() > 30 << 20
    assert not one.locked and one.holder == 0
    assert one.take(7) and one.locked and one.holder == 7
    one.sleep()  # in use
    assert one.holder == 7 and not one.take(8)


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_room_for_any_length_is_given_back_too(monkeypatch):
    monkeypatch.setattr(arena, "KEPT_BYTES", 8 << 20)
    functions = [wg.jit(lambda x, k=k: k + many_lengths(x), dynamic={"x": 0}) for k in range(4)]
    x = np.linspace(0.0, 1.0, 400_000)
    expected = many_lengths(x)
    assert functions[0].memory(x)["arena"] > arena.COUNTED_BYTES
    for _ in range(2):
        for k, f in enumerate(functions):
            assert np.isclose(f(x), k + expected) and np.isclose(f(x), k + expected)
            assert arena.kept_bytes() <= arena.KEPT_BYTES


def test_programs_with_parts_in_numpy_give_their_scratch_back(monkeypatch):
    f = wg.jit(lambda x: np.sum(np.sin(x) @ np.linalg.inv(x) @ np.cos(x)))
    largest = f.memory(3.0 * np.eye(403) + 0.001)["arena"]  # which grows with the threads
    monkeypatch.setattr(arena, "KEPT_BYTES", max(8 << 20, 2 * largest))
    for _ in range(2):
        for n in range(4):
            x = 3.0 * np.eye(400 + n) + 0.001
            assert np.isclose(f(x), np.sum(np.sin(x) @ np.linalg.inv(x) @ np.cos(x)))
            assert arena.kept_bytes() <= arena.KEPT_BYTES
