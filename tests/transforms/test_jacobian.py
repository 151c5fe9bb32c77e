"""`jacobian`, `jacfwd`, `jacrev`, `hessian` and `hvp`."""

import importlib

import numpy as np
import pytest

import wengert as wg
from wengert.errors import DTypeError, StructureError

module = importlib.import_module("wengert.transforms.jacobian")
BOTH = pytest.mark.parametrize("jacobian", [wg.jacobian, wg.jacfwd, wg.jacrev])
x3 = np.array([0.1, 0.2, 0.3])


@BOTH
class TestJacobian:
    def test_shape_is_result_then_argument(self, jacobian):
        a = np.arange(24.0).reshape(2, 3, 4)
        got = jacobian(lambda x: np.einsum("ijk,kl->ijl", a, x))(np.ones((4, 5)))
        assert got.shape == (2, 3, 5, 4, 5)
        expected = np.einsum("ijk,lm->ijlkm", a, np.eye(5))
        np.testing.assert_array_equal(got, expected)

    def test_elementwise(self, jacobian):
        np.testing.assert_allclose(jacobian(np.sin)(x3), np.diag(np.cos(x3)), rtol=1e-15)

    def test_scalar_to_scalar(self, jacobian):
        assert jacobian(lambda x: x**3)(2.0) == 12.0
        assert np.shape(jacobian(lambda x: x**3)(2.0)) == ()

    def test_scalar_to_vector_and_back(self, jacobian):
        np.testing.assert_array_equal(jacobian(lambda s: s * x3)(2.0), x3)
        np.testing.assert_array_equal(jacobian(lambda x: np.sum(x * x))(x3), 2 * x3)

    def test_argnums(self, jacobian):
        f = lambda x, y: x * y
        gx, gy = jacobian(f, argnums=(0, 1))(x3, 2.0)
        np.testing.assert_array_equal(gx, 2 * np.eye(3))
        np.testing.assert_array_equal(gy, x3)
        np.testing.assert_array_equal(jacobian(f, argnums=-1)(x3, 2.0), x3)
        (only,) = jacobian(f, argnums=(1,))(x3, 2.0)
        np.testing.assert_array_equal(only, x3)

    def test_wrong_argnums(self, jacobian):
        with pytest.raises(StructureError, match="jacobian: argnums names argument 2, but 1"):
            jacobian(lambda x: x, argnums=2)(x3)

    def test_trees(self, jacobian):
        got = jacobian(lambda p: {"s": np.sum(p["a"]) * p["b"], "a": p["a"]})({"a": x3, "b": 2.0})
        np.testing.assert_array_equal(got["s"]["a"], [2, 2, 2])
        np.testing.assert_allclose(got["s"]["b"], 0.6)
        np.testing.assert_array_equal(got["a"]["a"], np.eye(3))
        np.testing.assert_array_equal(got["a"]["b"], np.zeros(3))

    def test_keywords(self, jacobian):
        np.testing.assert_array_equal(
            jacobian(lambda x, *, scale: x * scale)(x3, scale=2.0), 2 * np.eye(3)
        )

    def test_constant_and_integer_results(self, jacobian):
        got = jacobian(lambda x: (x > 0, np.ones(2)))(x3)
        assert got[0].shape == (3, 3) and not got[0].any()
        assert got[1].shape == (2, 3) and not got[1].any()

    def test_empty(self, jacobian):
        assert jacobian(lambda x: x * 2.0)(np.zeros(0)).shape == (0, 0)
        assert jacobian(lambda x: np.sum(x) * x3)(np.zeros(0)).shape == (3, 0)
        assert jacobian(lambda x: x[:0])(x3).shape == (0, 3)

    def test_float32(self, jacobian):
        assert jacobian(lambda x: np.sin(x) * 2.0)(x3.astype(np.float32)).dtype == np.float32

    def test_integer_argument(self, jacobian):
        with pytest.raises(DTypeError) as caught:
            jacobian(lambda x: x * 2.0)(np.arange(3))
        assert str(caught.value) == (
            "jacobian: an argument of <lambda> is i64[3], expected real floats. "
            "Convert it with astype(float), or leave it out of argnums."
        )

    def test_complex_result(self, jacobian):
        with pytest.raises(DTypeError) as caught:
            jacobian(lambda x: x * 1j)(x3)
        assert str(caught.value) == (
            "jacobian: <lambda> returned c128[3], expected real values. "
            "Return real and imaginary parts."
        )

    def test_result_can_be_written_to(self, jacobian):
        for f in (lambda x: x, lambda x: np.sum(x), lambda x: np.ones(3) * np.sum(x)):
            got = jacobian(f)(x3)
            got += 1.0

    def test_python_control_flow(self, jacobian):
        f = lambda x: x * x if np.sum(x) > 0 else -x
        np.testing.assert_allclose(jacobian(f)(x3), np.diag(2 * x3))
        np.testing.assert_allclose(jacobian(f)(-x3), -np.eye(3))


class TestAuto:
    """The mode with fewer passes is chosen: each pass is one batched element."""

    def passes(self, monkeypatch, f, x):
        used = []
        for name in ("_forward_blocks", "_reverse_blocks"):
            original = getattr(module, name)
            monkeypatch.setattr(
                module,
                name,
                lambda r, name=name, original=original: used.append(name) or original(r),
            )
        wg.jacobian(f)(x)
        return used

    def test_wide(self, monkeypatch):
        assert self.passes(monkeypatch, lambda x: np.sum(x * x), x3) == ["_reverse_blocks"]

    def test_tall(self, monkeypatch):
        assert self.passes(monkeypatch, lambda x: x * x3, 2.0) == ["_forward_blocks"]

    def test_trees_are_counted_whole(self, monkeypatch):
        f = lambda p: (p[0] * p[1], p[0])
        assert self.passes(monkeypatch, f, (x3, np.ones(3))) == ["_forward_blocks"]
        f = lambda p: p[0] * p[1]
        assert self.passes(monkeypatch, f, (x3, np.ones(3))) == ["_reverse_blocks"]

    def test_the_function_runs_once(self):
        calls = []
        for mode in ("auto", "forward", "reverse"):
            wg.jacobian(lambda x: calls.append(1) or x * x, mode=mode)(x3)
        assert len(calls) == 3

    def test_unknown_mode(self):
        with pytest.raises(StructureError) as caught:
            wg.jacobian(np.sin, mode="backward")
        assert str(caught.value) == (
            "jacobian: got mode 'backward', expected one of auto, forward, reverse."
        )


class TestHessian:
    def test_rosenbrock(self):
        f = lambda x: np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)
        x = np.array([0.5, -0.3, 1.2])
        h = wg.hessian(f)(x)
        expected = np.zeros((3, 3))
        for i in range(2):
            expected[i, i] += 1200 * x[i] ** 2 - 400 * x[i + 1] + 2
            expected[i + 1, i + 1] += 200
            expected[i, i + 1] = expected[i + 1, i] = -400 * x[i]
        np.testing.assert_allclose(h, expected, rtol=1e-13, atol=1e-10)

    def test_blocks(self):
        f = lambda x, y: np.sum(x) ** 2 * y
        (xx, xy), (yx, yy) = wg.hessian(f, argnums=(0, 1))(x3, 2.0)
        np.testing.assert_allclose(xx, np.full((3, 3), 4.0))
        np.testing.assert_allclose(xy, np.full(3, 2 * 0.6))
        np.testing.assert_allclose(yx, np.full(3, 2 * 0.6))
        assert yy == 0.0

    def test_matrix_argument(self):
        a = np.array([[1.0, 2.0], [3.0, 5.0]])
        h = wg.hessian(lambda a: np.sum(a**3))(a)
        assert h.shape == (2, 2, 2, 2)
        np.testing.assert_allclose(h.reshape(4, 4), np.diag(6 * a.ravel()))

    def test_hvp(self):
        f = lambda x: np.sum(np.sin(x)) * np.sum(x)
        v = np.array([1.0, -1.0, 2.0])
        np.testing.assert_allclose(wg.hvp(f, x3, v), wg.hessian(f)(x3) @ v, rtol=1e-13)

    def test_hvp_of_trees(self):
        f = lambda p: p["a"] ** 2 * p["b"]
        got = wg.hvp(f, {"a": 2.0, "b": 3.0}, {"a": 1.0, "b": 0.0})
        assert got == {"a": 6.0, "b": 4.0}

    def test_forward_over_reverse_equals_the_others(self):
        f = lambda x: np.prod(np.sin(x)) + np.exp(x[0] * x[2])
        expected = wg.hessian(f)(x3)
        for outer in (wg.jacfwd, wg.jacrev):
            for inner in (wg.jacfwd, wg.jacrev):
                np.testing.assert_allclose(outer(inner(f))(x3), expected, rtol=1e-12, atol=1e-14)
