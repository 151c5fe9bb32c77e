"""Errors that programs raise themselves, where a traced condition says so."""

import numpy as np
import pytest

import wengert as wg

GOOD = np.array([0.7, 0.4])


def guarded(x):
    if x[0] < 0:
        raise ValueError("negative")
    return np.sqrt(x[0]) * x[1]


def asserted(x):
    assert x[0] > 0, "positive"
    assert np.all(np.isfinite(x))
    return np.sqrt(x[0]) * x[1]


def behind_a_loop(x):
    y = x[0]
    for _ in range(50):
        new = 0.5 * (y + x[1] / y)
        if abs(new - y) < 1e-12:
            break
        y = new
    else:
        raise ValueError("no convergence")
    return new


def behind_a_loop_that_returns(x):
    y = x[0]
    for _ in range(50):
        new = 0.5 * (y + x[1] / y)
        if abs(new - y) < 1e-12:
            return new
        y = new
    raise RuntimeError("no convergence")


def in_a_loop(x):
    y, k = x[0], 0
    while abs(y * y - x[1]) > 1e-12:
        y = 0.5 * (y + x[1] / y)
        k += 1
        if k > 100:
            raise RuntimeError("too many turns")
    return y


def in_loops(x):
    y = x[0]
    while y < 10 * x[1] + 5:
        assert y > 0
        y = y * 1.5
        for i in range(40):
            if y * i < -1:
                raise IndexError("below")
            y = y + 0.001 * i
    return y


def root(v):
    if v < 0:
        raise ArithmeticError("negative")
    return np.sqrt(v)


def in_a_helper(x):
    s = 0.0
    for i in range(20):
        s += root(x[0] + i)
    return s * root(x[1])


def of_several_ways(x):
    if x[0] < 0:
        raise ValueError("below")
    elif x[0] < 1:
        return x[0] * 2
    else:
        return x[0] ** 2


def otherwise(x):
    if x[0] > 0:
        return x[0] * x[1]
    else:
        raise KeyError("b")


def beside_an_array(x):
    y = x * 2
    z = y
    if y[0] < 0:
        raise ValueError("below")
    y[0] = 3 * x[1]
    return z[0] + y[1]


def beside_views(x):
    y = x * 2
    z = y[1:]
    if y[0] < 0:
        raise ValueError("below")
    z[0] = 3 * x[1]
    return y[1] + y[0]


def of_accepted_steps(x):
    t, y, steps = 0.0, np.array([1.0, 0.5]), 0
    while t < 1.0:
        new = y + 0.1 * x * y
        if np.max(new) < 100.0:
            t, y = t + 0.1, new
        steps += 1
        if steps > 30:
            raise RuntimeError("too many steps")
    return y @ y


def of_chosen_arrays(x):
    a, b = x * 2, x * 3
    y = a if x[1] > 0 else b
    z = y
    if x[0] < 0:
        raise ValueError("below")
    z[0] = 3 * x[1]
    return y @ y


CASES = [
    (guarded, [-1.0, 1.0]), (asserted, [-1.0, 1.0]), (asserted, [np.inf, 1.0]),
    (behind_a_loop, [np.nan, 1.0]), (behind_a_loop_that_returns, [np.nan, 1.0]),
    (in_a_loop, [np.inf, 1.0]), (in_loops, [-1.0, 1.0]), (in_a_helper, [1.0, -1.0]),
    (of_several_ways, [-1.0, 1.0]), (otherwise, [-1.0, 1.0]), (beside_an_array, [-1.0, 1.0]),
    (beside_views, [-1.0, 1.0]), (of_accepted_steps, [5e4, 1.0]), (of_chosen_arrays, [-1.0, 1.0]),
]  # fmt: skip


@pytest.mark.parametrize(("f", "bad"), CASES)
def test_errors_are_those_of_python(f, bad):
    value, both = wg.jit(f), wg.jit(wg.value_and_grad(f))
    for _ in range(2):
        np.testing.assert_allclose(value(GOOD), f(GOOD), rtol=1e-14)
        found, gradient = both(GOOD)
        np.testing.assert_allclose(found, f(GOOD), rtol=1e-14)
        np.testing.assert_allclose(gradient, wg.grad(f)(GOOD), rtol=1e-12)
        for call in (value, both):
            with pytest.raises(Exception) as wanted:
                f(np.array(bad))
            with pytest.raises(wanted.type) as raised:
                call(np.array(bad))
            if wanted.type is not AssertionError:  # pytest gives it another text
                assert raised.value.args == wanted.value.args


def test_parameters_in_containers():
    def f(p):
        assert p["scale"] > 0, "positive"
        if np.min(p["places"][0]) < 0:
            raise ValueError("below")
        return p["scale"] * np.sum(p["places"][0] ** 2)

    good = {"scale": 2.0, "places": (GOOD, [GOOD])}
    for compiled in (wg.jit(f), wg.jit(wg.grad(f))):
        compiled(good)
        with pytest.raises(AssertionError, match="positive"):
            compiled({**good, "scale": -1.0})
        with pytest.raises(ValueError, match="below"):
            compiled({**good, "places": (-GOOD, [GOOD])})
    np.testing.assert_allclose(wg.jit(f)(good), f(good), rtol=1e-14)


def test_samples():
    mapped = wg.jit(wg.vmap(guarded))
    np.testing.assert_allclose(
        mapped(np.stack([GOOD, GOOD * 2])), [guarded(GOOD), guarded(2 * GOOD)]
    )
    with pytest.raises(ValueError, match="negative"):
        mapped(np.stack([GOOD, -GOOD]))


def test_texts_with_traced_values():
    def f(x):
        if x[0] < 0:
            raise ValueError(f"{x[0]:.3f} of {len(x)}")
        return x[0]

    with pytest.raises(ValueError, match="<f64> of 2"):
        wg.jit(f)(-GOOD)
    with pytest.raises(ValueError, match=r"-0\.700 of 2"):
        wg.grad(f)(-GOOD)
