"""Transforms of transforms, and perturbations that must not be confused."""

import itertools

import numpy as np
import pytest

import wengert as wg


def forward(f):
    return lambda x: wg.jvp(f, (x,), (1.0,))[1]


def linearized(f):
    return lambda x: wg.linearize(f, x)[1](1.0)


def pulled(f):
    return lambda x: wg.vjp(f, x)[1](1.0)[0]


def by_vmap(f):
    return lambda x: wg.vmap(lambda t: wg.jvp(f, (x,), (t,))[1])(np.ones(1))[0]


MODES = {
    "grad": wg.grad,
    "jvp": forward,
    "vjp": pulled,
    "linearize": linearized,
    "jacfwd": wg.jacfwd,
    "jacrev": wg.jacrev,
}
PAIRS = list(itertools.product(MODES, MODES))
TRIPLES = list(itertools.product(("grad", "jvp", "linearize"), repeat=3))


@pytest.mark.parametrize("outer, inner", PAIRS)
class TestPerturbationConfusion:
    """The derivative of the inner function must not see the outer perturbation, nor lose it."""

    def test_x_times_derivative_of_a_sum(self, outer, inner):
        # d/dx (x * d/dy (x + y)) = 1, not 2
        f = lambda x: x * MODES[inner](lambda y: x + y)(1.0)
        assert MODES[outer](f)(3.0) == 1.0

    def test_at_the_same_point(self, outer, inner):
        f = lambda x: x * MODES[inner](lambda y: x + y)(x)
        assert MODES[outer](f)(3.0) == 1.0

    def test_constant_inner_derivative(self, outer, inner):
        # d/dx (x * d/dy x) = 0
        f = lambda x: x * MODES[inner](lambda y: x)(2.0)
        assert MODES[outer](f)(3.0) == 0.0

    def test_product(self, outer, inner):
        # d/dx (d/dy (x y^2) at y = 2) = 4
        assert MODES[outer](lambda x: MODES[inner](lambda y: x * y * y)(2.0))(3.0) == 4.0

    def test_a_closure_that_escapes(self, outer, inner):
        # D (x -> y -> f(x + y)) at 0, applied to a function of y and differentiated again
        def shifted(f):
            return lambda offset: lambda y: f(y + offset)

        def derivative_of_shift(f, y):
            return MODES[outer](lambda offset: shifted(f)(offset)(y))(0.0)

        f = lambda y: MODES[inner](lambda z: derivative_of_shift(np.sin, z))(y)
        np.testing.assert_allclose(f(0.7), -np.sin(0.7), rtol=1e-14)

    def test_second_derivative(self, outer, inner):
        second = MODES[outer](MODES[inner](lambda x: x**3 * np.sin(x)))
        x = 0.7
        expected = 6 * x * np.sin(x) + 6 * x**2 * np.cos(x) - x**3 * np.sin(x)
        np.testing.assert_allclose(second(x), expected, rtol=1e-13)


@pytest.mark.parametrize("modes", TRIPLES, ids="-".join)
class TestThird:
    def test_third_derivative(self, modes):
        f = lambda x: np.exp(2 * x) + x**4
        for mode in modes:
            f = MODES[mode](f)
        np.testing.assert_allclose(f(0.3), 8 * np.exp(0.6) + 24 * 0.3, rtol=1e-13)

    def test_three_levels_of_variables(self, modes):
        # d/dx d/dy d/dz (x^2 y^3 z^4) with each derivative at the outer variables
        a, b, c = (MODES[mode] for mode in modes)
        f = lambda x: x * b(lambda y: y * x * c(lambda z: x * y * z)(x + y))(x)
        # inner: x y; middle: d/dy (x^2 y^2) = 2 x^2 y at y = x: 2 x^3; outer: d/dx 2 x^4
        np.testing.assert_allclose(a(f)(1.5), 8 * 1.5**3, rtol=1e-14)


def test_many_derivatives_of_a_polynomial():
    f = lambda x: x**6
    for _ in range(6):
        f = wg.grad(f)
    assert f(1.3) == pytest.approx(720.0, rel=1e-12)
    assert wg.grad(f)(1.3) == 0.0


def test_tangents_depend_on_the_outer_variable():
    f = lambda x: wg.jvp(lambda y: y * y, (x,), (x,))[1]  # 2 x^2
    assert wg.grad(f)(3.0) == 12.0
    assert wg.jvp(f, (3.0,), (1.0,))[1] == 12.0


def test_derivative_inside_a_loop():
    def newton(a):
        x = 1.0
        for _ in range(20):
            g = lambda y: y * y - a
            x = x - g(x) / wg.grad(g)(x)
        return x

    np.testing.assert_allclose(newton(2.0), np.sqrt(2.0), rtol=1e-15)
    np.testing.assert_allclose(wg.grad(newton)(2.0), 0.5 / np.sqrt(2.0), rtol=1e-14)
    np.testing.assert_allclose(wg.grad(wg.grad(newton))(2.0), -0.25 * 2.0**-1.5, rtol=1e-13)


def test_gradient_descent_is_differentiable():
    def final_loss(rate):
        x = np.array([1.0, -2.0])
        for _ in range(3):
            x = x - rate * wg.grad(lambda x: np.sum(x * x))(x)
        return np.sum(x * x)

    rate = 0.1
    np.testing.assert_allclose(
        wg.grad(final_loss)(rate), 5 * 6 * (1 - 2 * rate) ** 5 * -2, rtol=1e-13
    )


class TestWithVmap:
    x = np.array([0.1, 0.5, 0.9])

    def test_per_sample_gradients(self):
        w = np.array([1.0, -1.0])
        samples = np.arange(8.0).reshape(4, 2)
        loss = lambda w, s: np.sin(w @ s) ** 2
        together = wg.vmap(wg.grad(loss), in_axes=(None, 0))(w, samples)
        one_by_one = [wg.grad(loss)(w, s) for s in samples]
        np.testing.assert_allclose(together, one_by_one, rtol=1e-14)

    def test_grad_through_vmap(self):
        f = lambda x: np.sum(wg.vmap(lambda y: np.sin(y) * y)(x))
        np.testing.assert_allclose(
            wg.grad(f)(self.x), np.cos(self.x) * self.x + np.sin(self.x), rtol=1e-14
        )

    def test_jvp_through_vmap(self):
        _, t = wg.jvp(wg.vmap(np.sin), (self.x,), (np.ones(3),))
        np.testing.assert_allclose(t, np.cos(self.x), rtol=1e-15)

    def test_vmap_of_vmap(self):
        a, b = np.arange(3.0), np.arange(4.0)
        table = wg.vmap(lambda x: wg.vmap(lambda y: x * y + x)(b))(a)
        np.testing.assert_array_equal(table, a[:, None] * b + a[:, None])
        np.testing.assert_array_equal(
            wg.vmap(wg.vmap(lambda x, y: x - y, (None, 0)), (0, None))(a, b), a[:, None] - b
        )

    def test_grad_vmap_grad(self):
        f = lambda x: np.sum(wg.vmap(wg.grad(lambda y: y**3))(x))
        np.testing.assert_allclose(wg.grad(f)(self.x), 6 * self.x, rtol=1e-14)

    def test_vmap_grad_vmap(self):
        w = np.array([[1.0, 2.0], [3.0, 4.0]])
        f = lambda row: np.sum(wg.vmap(lambda y: y**3)(row))
        np.testing.assert_allclose(wg.vmap(wg.grad(f))(w), 3 * w**2, rtol=1e-14)

    def test_captured_outer_variables(self):
        # d/ds sum_i sin(s x_i)
        f = lambda s: np.sum(wg.vmap(lambda x: np.sin(s * x))(self.x))
        np.testing.assert_allclose(wg.grad(f)(2.0), np.sum(np.cos(2 * self.x) * self.x), rtol=1e-14)
        g = lambda s: wg.vmap(lambda x: wg.grad(lambda y: y * y * s * x)(s))(self.x)
        np.testing.assert_allclose(wg.jvp(g, (2.0,), (1.0,))[1], 4 * 2.0 * self.x, rtol=1e-14)

    def test_hessians_in_a_batch(self):
        xs = np.arange(6.0).reshape(3, 2)
        f = lambda x: x[0] ** 2 * x[1]
        got = wg.vmap(wg.hessian(f))(xs)
        expected = [[[2 * y, 2 * x], [2 * x, 0]] for x, y in xs]
        np.testing.assert_allclose(got, expected, atol=1e-14)

    def test_vmap_of_jacobians(self):
        xs = np.arange(6.0).reshape(2, 3)
        f = lambda x: x * np.sum(x)
        expected = [np.sum(x) * np.eye(3) + np.outer(x, np.ones(3)) for x in xs]
        for made in (wg.jacfwd, wg.jacrev):
            np.testing.assert_allclose(wg.vmap(made(f))(xs), expected, rtol=1e-14)

    def test_gradient_of_a_jacobian(self):
        f = lambda x: np.sum(wg.jacobian(lambda y: y**3)(x))
        x = np.array([1.0, 2.0])
        for made in (wg.jacfwd, wg.jacrev):
            f = lambda x, made=made: np.sum(made(lambda y: y**3)(x))
            np.testing.assert_allclose(wg.grad(f)(x), 6 * x, rtol=1e-14)


class TestForwardReverseForward:
    """Every mix of modes agrees on the third derivative tensor."""

    @pytest.mark.parametrize("modes", list(itertools.product((wg.jacfwd, wg.jacrev), repeat=3)))
    def test_tensor(self, modes):
        f = lambda x: np.sin(x[0] * x[1]) + x[0] ** 3 * x[2]
        for mode in modes:
            f = mode(f)
        got = f(np.array([0.3, 0.7, 1.1]))
        g = lambda x: np.sin(x[0] * x[1]) + x[0] ** 3 * x[2]
        expected = wg.jacfwd(wg.jacfwd(wg.jacfwd(g)))(np.array([0.3, 0.7, 1.1]))
        assert got.shape == (3, 3, 3)
        np.testing.assert_allclose(got, expected, atol=1e-13)
        np.testing.assert_allclose(got[0, 0, 2], 6 * 0.3, rtol=1e-13)
        np.testing.assert_allclose(got, np.swapaxes(got, 0, 2), atol=1e-13)

    def test_hessian_vector_product_derivative(self):
        x, v = np.array([0.3, 0.7]), np.array([1.0, 2.0])
        f = lambda x: x[0] ** 3 * x[1] ** 2
        h = wg.hessian(f)(x)
        np.testing.assert_allclose(wg.hvp(f, x, v), h @ v, rtol=1e-14)
        g = wg.grad(lambda x: v @ wg.hvp(f, x, v))(x)
        third = wg.jacfwd(wg.hessian(f))(x)
        np.testing.assert_allclose(g, np.einsum("ijk,i,j->k", third, v, v), rtol=1e-13)
