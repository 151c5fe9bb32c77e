"""What a function keeps has bounds, and it says when it compiles again and again."""

import gc
import warnings
import weakref

import numpy as np
import pytest

import wengert as wg
from wengert.errors import RecompilationWarning
from wengert.jit import function
from wengert.runtime import builtin
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


def test_a_function_that_compiles_often_says_so_once(monkeypatch):
    monkeypatch.setattr(function, "OFTEN", 4)
    f = wg.jit(lambda y, x: y + x * 2.0)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for n in range(1, 9):
            f(1.0, np.ones(n))
    (one,) = seen
    assert one.category is RecompilationWarning
    assert str(one.message) == (
        "<lambda>: was compiled 5 times, as the shape of argument 1 changes: (1,), (2,), (3,), "
        ".... Compile for any length with jit(dynamic=...), or pad to a few lengths."
    )


def test_it_says_what_changes(monkeypatch):
    monkeypatch.setattr(function, "OFTEN", 3)
    f = wg.jit(lambda x, n: x * n, static_argnames="n")
    with pytest.warns(RecompilationWarning, match="as a static argument changes: 0, 1, 2"):
        for n in range(4):
            f(1.0, n)


@pytest.mark.skipif(native_layout() is None, reason="no native entries")
def test_results_that_nobody_holds_are_bounded(monkeypatch):
    size = 1 << 20
    monkeypatch.setattr(builtin, "IDLE_BYTES", 6 * size)
    f = wg.jit(lambda x: x + 1.0)
    for n in range(12):
        x = np.ones(size // 8 + n)
        for _ in range(4):
            assert f(x)[0] == 2.0
    f(np.ones(3))
    held = [
        array
        for reference in list(builtin._all_spares.values())
        for array in reference() or ()
        if array is not None and 0 <= array.size - size // 8 < 12
    ]
    assert 2 <= len(held) <= 6


@pytest.mark.skipif(native_layout() is None, reason="no native entries")
def test_a_loop_still_uses_its_results_again():
    f = wg.jit(lambda x: x + 1.0)
    x = np.ones(1 << 18)
    f(x)
    places = {f(x).ctypes.data for _ in range(10)}
    assert len(places) <= builtin.SPARES
