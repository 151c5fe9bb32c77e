"""`jvp` and `linearize`."""

import numpy as np
import pytest

import wengert as wg
from wengert.errors import ShapeError, StructureError


class TestJvp:
    def test_directional_derivative(self):
        x, t = np.array([0.1, 0.2]), np.array([1.0, -2.0])
        out, tangent = wg.jvp(np.sin, (x,), (t,))
        np.testing.assert_array_equal(out, np.sin(x))
        np.testing.assert_allclose(tangent, np.cos(x) * t, rtol=1e-15)

    def test_several_arguments(self):
        assert wg.jvp(lambda x, y: x * y, (2.0, 5.0), (1.0, 10.0)) == (10.0, 25.0)

    def test_trees(self):
        out, tangent = wg.jvp(
            lambda p, s: {"y": p["a"] * s, "none": None, "same": p["b"]},
            ({"a": 2.0, "b": [3.0]}, 4.0),
            ({"a": 1.0, "b": [7.0]}, 0.0),
        )
        assert out == {"y": 8.0, "none": None, "same": [3.0]}
        assert tangent == {"y": 4.0, "none": None, "same": [7.0]}

    def test_results_without_derivative(self):
        out, tangent = wg.jvp(lambda x: (x > 0, 3.0, np.floor(x)), (1.5,), (1.0,))
        assert out == (True, 3.0, 1.0)
        assert tangent == (0, 0.0, 0.0)

    def test_integer_arguments(self):
        assert wg.jvp(lambda n, x: x**n, (3, 2.0), (0, 1.0)) == (8.0, 12.0)

    def test_lists_of_primals(self):
        assert wg.jvp(lambda x, y: x * y, [2.0, 5.0], [1.0, 10.0]) == (10.0, 25.0)

    def test_tangents_take_the_dtype_of_the_primal(self):
        _, tangent = wg.jvp(lambda x: x * 2.0, (np.ones(2, np.float32),), (np.ones(2),))
        assert tangent.dtype == np.float32

    def test_complex(self):
        z, t = 0.3 + 0.4j, 1.0 - 2.0j
        out, tangent = wg.jvp(lambda z: z * z, (z,), (t,))
        assert out == z * z
        np.testing.assert_allclose(tangent, 2 * z * t, rtol=1e-15)

    def test_equals_the_pullback_transposed(self):
        rng = np.random.default_rng(1)
        x, t, g = rng.normal(size=(3, 4))
        f = lambda x: np.exp(x) * x[::-1] + np.sum(x)
        _, tangent = wg.jvp(f, (x,), (t,))
        (cotangent,) = wg.vjp(f, x)[1](g)
        np.testing.assert_allclose(g @ tangent, cotangent @ t, rtol=1e-12)

    def test_no_tuple(self):
        with pytest.raises(StructureError) as caught:
            wg.jvp(np.sin, 1.0, 1.0)
        assert str(caught.value) == (
            "jvp: primals and tangents must be tuples with one entry for each argument, got float "
            "and float. Write jvp(f, (x,), (t,))."
        )

    def test_wrong_structure(self):
        with pytest.raises(StructureError) as caught:
            wg.jvp(lambda x, y: x, (1.0, 2.0), (1.0,))
        assert str(caught.value) == (
            "jvp: the tangent has the structure (*,), expected (*, *). "
            "Give the tangent the same structure as the value it belongs to."
        )

    def test_wrong_shape(self):
        with pytest.raises(ShapeError) as caught:
            wg.jvp(np.sin, (np.ones(3),), (np.ones(2),))
        assert str(caught.value) == (
            "jvp: the tangent has shape (2,), expected (3,). "
            "Give the tangent the same shape as the value it belongs to."
        )


class TestLinearize:
    def test_linear_function(self):
        out, derivative = wg.linearize(lambda x, y: np.sin(x) * y, 0.5, 2.0)
        assert out == np.sin(0.5) * 2.0
        np.testing.assert_allclose(derivative(1.0, 0.0), 2 * np.cos(0.5), rtol=1e-15)
        np.testing.assert_allclose(derivative(0.0, 3.0), 3 * np.sin(0.5), rtol=1e-15)

    def test_runs_the_function_once(self):
        calls = []

        def f(x):
            calls.append(1)
            return np.exp(x)

        _, derivative = wg.linearize(f, 1.0)
        for t in range(5):
            derivative(float(t))
        assert len(calls) == 1

    def test_trees_integers_and_constants(self):
        out, derivative = wg.linearize(lambda p, n: (p["a"] * n, 7.0), {"a": 2.0}, 3)
        assert out == (6.0, 7.0)
        assert derivative({"a": 5.0}, 0) == (15.0, 0.0)

    def test_traced_tangents(self):
        _, derivative = wg.linearize(lambda x: x**3, 2.0)
        assert wg.grad(derivative)(5.0) == 12.0
        np.testing.assert_array_equal(wg.vmap(derivative)(np.array([1.0, 2.0])), [12.0, 24.0])

    def test_inside_other_transforms(self):
        def f(x):
            _, derivative = wg.linearize(lambda y: y**3 * x, x)
            return derivative(x)  # 3 x^4

        assert wg.grad(f)(2.0) == 12 * 8.0
        np.testing.assert_allclose(wg.vmap(f)(np.array([1.0, 2.0])), [3.0, 48.0])

    def test_wrong_shape(self):
        _, derivative = wg.linearize(np.sin, np.ones(3))
        with pytest.raises(ShapeError, match="linearize: the tangent has shape"):
            derivative(1.0)
