"""Operations along a line, each element from the one before, as loops."""

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as xp
from wengert.jit import jit
from wengert.loops import Host
from wengert.ops import REGISTRY
from wengert.passes import optimise
from wengert.schedule import schedule

RNG = np.random.default_rng(21)
SHAPES = [(5000,), (40, 3), (3, 40), (7, 5, 20), (2, 1, 3), (1, 9)]
KINDS = [("cumsum", "f8"), ("cumprod", "f4"), ("cummax", "i2"), ("cummin", "?")]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name, dtype", KINDS)
def test_compiled_equals_evaluated(name, dtype, shape):
    x = RNG.normal(size=shape).round(1).astype(dtype)
    axis, reverse = RNG.integers(len(shape)), bool(RNG.integers(2))

    def running(x):
        return REGISTRY[name](x * x, axis=int(axis), reverse=reverse)

    want, got = running(x), jit(running)(x)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-3 if dtype == "f4" else 1e-12)


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "logcumsumexp"])
def test_no_call_of_numpy(name):
    def running(x):
        return REGISTRY[name](x + 1.0, axis=0, reverse=False)

    kernels = schedule(optimise(wg.trace(running, np.ones((4, 9))))).kernels
    assert not any(isinstance(kernel, Host) for kernel in kernels)
    assert len(kernels) == 2  # the start of each line, and the rest of it


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_lines_are_whole_in_every_task(axis):
    x = RNG.normal(size=(300, 30, 90))
    np.testing.assert_array_equal(jit(lambda x: xp.cumsum(x, axis=axis))(x), np.cumsum(x, axis))


def test_a_line_of_two_parts():
    x = RNG.normal(size=(6, 20))
    f = lambda x: xp.cumsum(xp.concatenate([x[2:], -x[:3]]), axis=0)
    np.testing.assert_allclose(jit(f)(x), f(x), rtol=1e-13, atol=1e-13)


def test_recurrence_corners():
    """0 * inf is 0, as everywhere in derivatives, but NaN stays."""
    a = np.array([[0.0, 0.0, 2.0, np.inf, 0.0, np.nan, 0.0, 1.0]])
    b = np.array([[np.inf, 1.0, -1.0, 0.0, 3.0, 0.0, 1.0, 1.0]])
    f = lambda a, b: REGISTRY["recurrence"](a, b, axis=1, reverse=False)
    np.testing.assert_array_equal(jit(f)(a[:, :5], b[:, :5]), f(a[:, :5], b[:, :5]))
    assert np.isnan(jit(f)(a, b)[0, 5:]).all()
