"""Whose memory a tensor holds: writes reach the tensor, never what was computed from it."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import wengert as wg
from wengert import nn
from wengert.errors import AbstractValueError, ConversionError
from wengert.jit.state import any_cells

X = np.array([1.0, 2.0, 3.0])


def leaf():
    return wg.tensor(X, requires_grad=True)


def as_gradient(x):
    t = leaf()
    t.grad = x
    return np.sum(t.grad * x)


def as_seed(x):
    t = leaf()
    (t * 2).backward(x)
    return np.sum(t.grad * x)


TAKING = [
    lambda x: np.sum(wg.tensor(x) * x),
    lambda x: np.sum(wg.tensor(x, dtype=np.float32) * x),
    lambda x: np.sum(wg.Tensor(x) * x),
    lambda x: np.sum(wg.tensor([x[0], x[1], x[2]]) * x),
    lambda x: np.sum(nn.Parameter(x) * x),
    as_gradient,
    as_seed,
]


class TestTracedValues:
    @pytest.mark.parametrize("f", TAKING)
    def test_derivatives_are_not_lost(self, f):
        for transform in (
            wg.grad,
            lambda f: lambda x: wg.jvp(f, (x,), (x,)),
            lambda f: lambda x: wg.vjp(f, x),
            lambda f: lambda x: wg.trace(f, x),
            lambda f: wg.grad(wg.jit(f)),
        ):
            with pytest.raises(ConversionError, match="would lose its derivative"):
                transform(f)(X)

    def test_derivatives_are_not_lost_inside_jit(self):
        with pytest.raises(ConversionError, match=r"tensor.*would lose its derivative"):
            wg.jit(wg.grad(TAKING[0]))(X)

    def test_values_without_derivative(self):
        found = wg.grad(lambda x: np.sum(wg.tensor(wg.stop_gradient(x)) * x))(X)
        np.testing.assert_array_equal(found, X)
        assert wg.jit(lambda x: np.sum(wg.tensor(x) * x))(X) == 14

    def test_value_that_is_not_known(self):
        with pytest.raises(AbstractValueError, match="tensor"):
            wg.vmap(lambda x: wg.tensor(x) * 2)(np.ones((4, 3)))

    def test_buffers_take_the_value_alone(self):
        norm = nn.BatchNorm1d(3)
        x = np.random.default_rng(0).normal(size=(5, 3))
        wg.grad(lambda x: np.sum(norm(x) ** 3))(x)
        np.testing.assert_allclose(norm.running_mean.numpy(), 0.1 * x.mean(0))


class TestArraysHandedOut:
    @pytest.mark.parametrize("name", ["numpy", "data"])
    def test_writes_reach_the_tensor_and_nothing_computed_before(self, name):
        t = leaf()
        y = np.sum(t * t)
        array = t.numpy() if name == "numpy" else t.data
        array[0] = 10
        later = np.sum(t * t)
        array[0] = 20
        y.backward()
        np.testing.assert_array_equal(t.grad.numpy(), [2.0, 4.0, 6.0])
        t.zero_grad()
        later.backward()
        np.testing.assert_array_equal(t.grad.numpy(), [20.0, 4.0, 6.0])
        assert t[0].item() == 20 and t.numpy() is array

    def test_constants(self):
        t, c = leaf(), wg.tensor(X)
        y = np.sum(t * c)
        c.numpy()[:] = 0
        y.backward()
        np.testing.assert_array_equal(t.grad.numpy(), X)
        np.testing.assert_array_equal(c.numpy(), np.zeros(3))

    def test_views(self):
        t, c = leaf(), wg.tensor(np.zeros((2, 3)))
        y = np.sum(t * c[1])
        c[1].numpy()[:] = 5
        c.T[:2].numpy()[0, 0] = 7
        np.testing.assert_array_equal(c.numpy(), [[7.0, 0, 0], [5, 5, 5]])
        y.backward()
        np.testing.assert_array_equal(t.grad.numpy(), np.zeros(3))

    def test_computed_tensors_give_copies(self):
        t = leaf()
        u = t * 2
        y = np.sum(u * u)
        u.numpy()[:] = 0
        u[1:].data[:] = 0
        y.backward()
        np.testing.assert_array_equal(t.grad.numpy(), 8 * X)
        np.testing.assert_array_equal(u.numpy(), 2 * X)

    def test_detached_tensors_are_apart(self):
        t = leaf()
        y = np.sum(t * t)
        t.detach().numpy()[:] = 0
        detached = t.detach()
        detached[:] = 0
        y.backward()
        np.testing.assert_array_equal(t.grad.numpy(), 2 * X)
        np.testing.assert_array_equal(t.numpy(), X)

    def test_writes_to_the_tensor_reach_the_array(self):
        t = wg.tensor(X)
        array = t.numpy()
        t[0] = 9
        assert array[0] == 9
        with wg.no_grad():
            t *= 2
        np.testing.assert_array_equal(array, [18.0, 4, 6])

    def test_constant_that_becomes_computed(self):
        t, c = leaf(), wg.tensor(np.zeros(3))
        array = c.numpy()
        c[:] = t * t
        array[:] = 0
        np.testing.assert_array_equal(c.numpy(), X**2)
        np.sum(c).backward()
        np.testing.assert_array_equal(t.grad.numpy(), 2 * X)

    def test_loans_end(self):
        gc.collect()
        before = any_cells()
        t = leaf()
        part = t.numpy()[1:]
        assert any_cells()
        part[0] = 5
        assert t[1].item() == 5 and t._cell is not None
        del part
        np.sum(t * t).backward()
        assert t._cell is None and any_cells() == before
        np.testing.assert_array_equal(t.grad.numpy(), [2.0, 10.0, 6.0])

    def test_compiled_functions_see_what_was_written(self):
        t = leaf()
        f = wg.jit(lambda x: np.sum(t * x))
        array = t.numpy()
        array[0] = 4
        assert f(X) == 4 + 4 + 9
        t.numpy()[0] = 5  # the memory that the program shares now
        assert f(X) == 5 + 4 + 9

    def test_argument_of_a_compiled_function(self):
        t = wg.tensor(X)
        f = wg.jit(lambda t: np.sum(t * 2))
        array = t.numpy()
        for number in (1.0, 2.0, 3.0):
            array[:] = number
            assert f(t) == 6 * number
            array = t.numpy()


class TestArraysGiven:
    def test_data_are_copied(self):
        for make in (wg.tensor, wg.Tensor, nn.Parameter):
            a = X.copy()
            t = make(a, requires_grad=True)
            y = np.sum(t * t)
            a[:] = 0
            np.testing.assert_array_equal(t.numpy(), X)
            y.backward()
            np.testing.assert_array_equal(t.grad.numpy(), 2 * X)

    def test_gradients_are_copied(self):
        t, a = leaf(), X.copy()
        t.grad = a
        a[:] = 0
        np.testing.assert_array_equal(t.grad.numpy(), X)
        u = t * 2
        t.grad = u
        t.grad.numpy()[:] = 0
        np.testing.assert_array_equal(u.numpy(), 2 * X)

    def test_writes_to_a_gradient(self):
        t = leaf()
        np.sum(t * t).backward()
        t.grad.numpy()[0] = 7
        t.grad[1] = 8
        t.grad *= 2
        np.testing.assert_array_equal(t.grad.numpy(), [14.0, 16.0, 12.0])

    def test_gradient_that_was_used(self):
        t = leaf()
        np.sum(t * t).backward()
        y = np.sum(t * t.grad)
        t.grad.numpy()[:] = 0
        y.backward()
        np.testing.assert_array_equal(t.grad.numpy(), 2 * X)

    def test_writes_to_a_gradient_that_a_program_shares(self):
        t = leaf()
        step = wg.jit(lambda: np.sum(t * t).backward())
        step()
        t.grad[1] = 8
        t.grad *= 2
        np.testing.assert_array_equal(t.grad.numpy(), [4.0, 16.0, 12.0])
        with pytest.raises(ValueError, match="read-only"):
            t.grad.numpy()[0] = 1
        before = t.grad
        step()
        before[0] = 100  # of the gradient as it was
        np.testing.assert_array_equal(t.grad.numpy(), [6.0, 20.0, 18.0])
        np.testing.assert_array_equal(before.numpy(), [100.0, 16.0, 12.0])
        t.zero_grad()
        before[0] = 5
        assert t.grad is None
