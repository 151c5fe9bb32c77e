"""What comes from tracing alone is no error of the function's, which may not catch it as one."""

import contextlib

import numpy as np
import pytest

import wengert as wg

X = np.array([1.0, 2.0])
TEXT = "%.3f"  # of which Python asks for a number


def written_as_text(x):
    try:
        scale = float(TEXT % x[0])
    except Exception:
        scale = -1.0
    return scale * x[1]


def suppressed(x):
    scale = -1.0
    with contextlib.suppress(TypeError):
        scale = float(TEXT % x[0])
    return scale * x[1]


def as_objects(x):
    try:
        return x.astype(object)[0] * 2.0
    except (TypeError, ValueError):
        return x[1]


def in_a_helper(x):
    return written_as_text(x) + 1.0


@pytest.mark.parametrize("f", [written_as_text, suppressed, as_objects, in_a_helper])
@pytest.mark.parametrize(
    "way", [wg.grad, wg.jit, lambda f: wg.jit(wg.grad(f)), lambda f: lambda x: wg.vmap(f)(x[None])]
)
def test_it_is_raised_all_the_same(f, way):
    with pytest.raises(wg.errors.WengertError, match=r"catches this error itself \(at test_hidden"):
        way(f)(X)


def test_a_list_that_a_branch_appends_to():
    def f(x):
        try:
            found = [1.0]
            if x[0] > 0:
                found.append(x[1])
            return sum(found) * x[0]
        except ValueError:
            return 0.0 * x[0]
        except Exception:
            return 1.0 * x[0]

    with pytest.raises(wg.errors.ControlFlowError, match="catches this error itself"):
        wg.jit(f)(X)


def test_errors_of_the_function_are_its_own():
    def f(x):
        total = 0.0
        for other in (np.ones(3), np.ones(2)):
            try:
                total = total + np.sum(x * other)
            except ValueError:
                total = total + 10.0
        with contextlib.suppress(IndexError):
            total = total + x[7]
        return total

    for way in (wg.jit(f), lambda x: wg.value_and_grad(f)(x)[0]):
        np.testing.assert_allclose(way(X), 13.0)
    np.testing.assert_allclose(wg.jit(wg.grad(f))(X), [1.0, 1.0])


def test_loops_that_are_tried_first_are_no_errors():
    def f(x):
        total = 0.0
        for k in range(20):
            total = total + x[k % 2] * len(np.zeros(k))
        return total

    np.testing.assert_allclose(wg.jit(f)(X), f(X))


def test_what_is_caught_outside_stays_caught():
    def refused(x):
        return float(TEXT % x[0])

    for _ in range(2):
        with pytest.raises(wg.errors.ConversionError, match="float") as caught:
            wg.grad(refused)(X)
        assert "catches" not in str(caught.value)
    np.testing.assert_allclose(wg.grad(lambda x: x[0] * x[1])(X), [2.0, 1.0])
