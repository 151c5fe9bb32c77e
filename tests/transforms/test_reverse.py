"""`grad`, `value_and_grad` and `vjp`."""

import dataclasses
from typing import Any, NamedTuple

import numpy as np
import pytest

import wengert as wg
from wengert.errors import DTypeError, ShapeError, StructureError


class Point(NamedTuple):
    x: Any
    y: Any


@dataclasses.dataclass
class Layer:
    w: Any
    b: Any


def test_the_papers_example():
    f = lambda x, y, z: (x + y) * z
    value, gradient = wg.value_and_grad(f, argnums=(0, 1, 2))(-2.0, 5.0, -4.0)
    assert value == -12.0
    assert gradient == (-4.0, -4.0, 3.0)


def test_gradient_of_an_array_function():
    x = np.array([0.1, 0.2, 0.3])
    np.testing.assert_allclose(
        wg.grad(lambda x: np.sum(np.sin(x) * x))(x), np.cos(x) * x + np.sin(x), rtol=1e-15
    )


class TestArgnums:
    f = staticmethod(lambda x, y, z: x * y * y * z)

    @pytest.mark.parametrize(
        "argnums, expected",
        [
            (0, 9 * 5.0), (1, 2 * 3 * 2 * 5.0), (2, 18.0), (-1, 18.0), (-3, 45.0),
            ((0,), (45.0,)), ((2, 0), (18.0, 45.0)), ((-1, 1), (18.0, 60.0)), ((), ()),
            ([0, 2], (45.0, 18.0)),
        ],
    )  # fmt: skip
    def test_which(self, argnums, expected):
        assert wg.grad(self.f, argnums)(2.0, 3.0, 5.0) == expected

    @pytest.mark.parametrize("argnums", [3, -4, (0, 3)])
    def test_out_of_range(self, argnums):
        with pytest.raises(StructureError, match="but 3 positional arguments were given"):
            wg.grad(self.f, argnums)(2.0, 3.0, 5.0)

    @pytest.mark.parametrize("argnums", [(0, 0), (0, -3)])
    def test_twice_the_same(self, argnums):
        with pytest.raises(StructureError) as caught:
            wg.grad(self.f, argnums)(2.0, 3.0, 5.0)
        assert str(caught.value) == (
            f"grad: argnums {argnums} names the same argument twice. Name each argument once."
        )

    def test_others_are_not_traced(self):
        seen = []

        def f(x, n, name):
            seen.append((type(n), name))
            return x**n

        assert wg.grad(f)(3.0, 2, "any object") == 6.0
        assert seen == [(int, "any object")]


class TestKeywords:
    def test_passed_through(self):
        assert wg.grad(lambda x, *, power: x**power)(3.0, power=3) == 27.0

    def test_with_value_and_aux(self):
        f = lambda x, scale=1.0: (x * x * scale, {"scale": scale})
        assert wg.value_and_grad(f, has_aux=True)(3.0, scale=2.0) == ((18.0, {"scale": 2.0}), 12.0)


class TestAux:
    def test_grad(self):
        gradient, aux = wg.grad(lambda x: (x * x, (x + 1.0, "text", None)), has_aux=True)(3.0)
        assert gradient == 6.0
        assert aux == (4.0, "text", None)
        assert not hasattr(aux[0], "_trace")

    def test_nested_aux_keeps_its_derivative(self):
        def outer(x):
            _, aux = wg.grad(lambda y: (y * y, y * x), has_aux=True)(x)
            return aux

        assert wg.grad(outer)(3.0) == 6.0

    def test_no_pair(self):
        with pytest.raises(StructureError) as caught:
            wg.grad(lambda x: x * x, has_aux=True)(3.0)
        assert str(caught.value) == (
            "grad: <lambda> returned Tracer, expected a pair (value, extra) because has_aux=True."
        )


class TestTrees:
    def loss(self, p):
        (a, b), rest = p["ab"], p["rest"]
        return a * b + rest[0] * 3.0

    def test_dict_tuple_list_none(self):
        gradient = wg.grad(self.loss)({"ab": (2.0, 5.0), "rest": [1.0], "none": None})
        assert gradient == {"ab": (5.0, 2.0), "rest": [3.0], "none": None}
        assert type(gradient["ab"]) is tuple and type(gradient["rest"]) is list

    def test_namedtuple(self):
        gradient = wg.grad(lambda p: p.x * p.y)(Point(2.0, 3.0))
        assert gradient == Point(3.0, 2.0) and type(gradient) is Point

    def test_dataclass(self):
        layer = Layer(np.ones((2, 3)), np.zeros(2))
        gradient = wg.grad(lambda m, x: np.sum(m.w @ x + m.b))(layer, np.arange(3.0))
        assert type(gradient) is Layer
        np.testing.assert_array_equal(gradient.w, [[0, 1, 2], [0, 1, 2]])
        np.testing.assert_array_equal(gradient.b, [1, 1])

    def test_deeply_nested(self):
        p = {"layers": [Layer(Point(1.0, 2.0), None), Layer(Point(3.0, 4.0), {"c": 5.0})]}
        gradient = wg.grad(lambda p: p["layers"][1].w.y * p["layers"][1].b["c"])(p)
        assert gradient["layers"][1] == Layer(Point(0.0, 5.0), {"c": 4.0})
        assert gradient["layers"][0] == Layer(Point(0.0, 0.0), None)

    def test_the_same_array_twice(self):
        a = np.ones(2)
        first, second = wg.grad(lambda p: np.sum(p[0] * 2.0 + p[1] * 3.0))((a, a))
        np.testing.assert_array_equal(first, [2, 2])
        np.testing.assert_array_equal(second, [3, 3])


class TestTypes:
    def test_float32_stays_float32(self):
        x = np.ones(3, np.float32)
        value, gradient = wg.value_and_grad(lambda x: np.sum(np.sin(x) * 2.0) / 3)(x)
        assert value.dtype == np.float32
        assert gradient.dtype == np.float32

    def test_float32_meets_float64(self):
        x, y = np.ones(3, np.float32), np.ones(3)
        value, (gx, gy) = wg.value_and_grad(lambda x, y: np.sum(x * y), (0, 1))(x, y)
        assert (value.dtype, gx.dtype, gy.dtype) == (np.float64, np.float32, np.float64)

    def test_python_numbers_do_not_widen(self):
        value, gradient = wg.value_and_grad(lambda s, x: np.sum(x * s))(2.0, np.ones(3, np.float32))
        assert value.dtype == np.float32
        assert gradient == 3.0 and gradient.dtype == np.float64

    def test_float64_is_not_truncated(self):
        tiny = 1e-12
        value, gradient = wg.value_and_grad(lambda x: (1.0 + x * tiny) * (1.0 + x * tiny))(1.0)
        assert value == (1.0 + tiny) ** 2 != 1.0
        assert gradient == 2 * (1.0 + tiny) * tiny

    def test_complex_in_between(self):
        f = lambda x: np.real(np.exp(1j * x))
        np.testing.assert_allclose(wg.grad(f)(0.5), -np.sin(0.5), rtol=1e-15)

    def test_complex_argument(self):
        # df = Re(g dz)
        z, dz = 0.3 + 0.7j, 1e-6 * (0.2 - 0.4j)
        f = lambda z: np.real(z * z * z) + np.imag(z) ** 2
        g = wg.grad(f)(z)
        assert g.dtype == np.complex128
        np.testing.assert_allclose(np.real(g * dz), f(z + dz / 2) - f(z - dz / 2), rtol=1e-8)

    def test_zero_for_what_does_not_matter(self):
        gradient = wg.grad(lambda x, y: y * 2.0)(np.ones((2, 2), np.float32), 1.0)
        assert gradient.shape == (2, 2) and gradient.dtype == np.float32 and not gradient.any()
        assert wg.grad(lambda x: 3.0)(2.0) == 0.0

    def test_empty_arrays(self):
        assert wg.grad(lambda x: np.sum(x * x))(np.zeros((0, 3))).shape == (0, 3)

    def test_scalars_of_every_kind(self):
        for x in (2.0, np.float64(2), np.array(2.0), np.float32(2), np.array(2, np.float32)):
            assert wg.grad(lambda x: x * x * x)(x) == 12.0


class TestVjp:
    def test_pullback_is_reusable(self):
        out, pullback = wg.vjp(lambda x, y: (x * y, np.sin(x)), 2.0, 3.0)
        assert out == (6.0, np.sin(2.0))
        assert pullback((1.0, 0.0)) == (3.0, 2.0)
        assert pullback((0.0, 1.0)) == (np.cos(2.0), 0.0)
        assert pullback((2.0, 0.0)) == (6.0, 4.0)

    def test_array(self):
        a = np.arange(6.0).reshape(2, 3)
        out, pullback = wg.vjp(lambda x: a @ x, np.ones(3))
        np.testing.assert_array_equal(out, [3, 12])
        (g,) = pullback(np.array([1.0, 10.0]))
        np.testing.assert_array_equal(g, np.array([1.0, 10.0]) @ a)

    def test_integer_arguments_get_zeros(self):
        out, pullback = wg.vjp(lambda n, x: x * n, 3, 2.0)
        assert out == 6.0
        assert pullback(1.0) == (0, 3.0)

    def test_integer_results_take_anything(self):
        out, pullback = wg.vjp(lambda x: (x * 2.0, x > 0), 2.0)
        assert out == (2.0 * 2, True)
        assert pullback((1.0, False)) == (2.0,)

    def test_trees(self):
        out, pullback = wg.vjp(lambda p: {"s": p["a"] + p["b"], "none": None}, {"a": 1.0, "b": 2.0})
        assert out == {"s": 3.0, "none": None}
        assert pullback({"s": 5.0, "none": None}) == ({"a": 5.0, "b": 5.0},)

    def test_differentiable_itself(self):
        def f(x, g):
            return wg.vjp(lambda x: x**3, x)[1](g)[0]

        assert wg.grad(f, (0, 1))(2.0, 5.0) == (5.0 * 6 * 2.0, 12.0)

    def test_pullback_used_in_an_outer_trace(self):
        def outer(x):
            _, pullback = wg.vjp(lambda y: y * y * x, x)
            return pullback(x)[0]  # 2 x^3

        assert wg.grad(outer)(3.0) == 6 * 9.0

    def test_structure_of_the_cotangent(self):
        _, pullback = wg.vjp(lambda x: (x, x), 1.0)
        with pytest.raises(StructureError) as caught:
            pullback(1.0)
        assert str(caught.value) == (
            "pullback: the cotangent has the structure *, expected (*, *). "
            "Give the cotangent the same structure as the value it belongs to."
        )

    def test_shape_of_the_cotangent(self):
        _, pullback = wg.vjp(lambda x: x * 2.0, np.ones(3))
        with pytest.raises(ShapeError) as caught:
            pullback(1.0)
        assert str(caught.value) == (
            "pullback: the cotangent has shape (), expected (3,). "
            "Give the cotangent the same shape as the value it belongs to."
        )


class TestNumericSafety:
    def test_gradients_do_not_alias_the_callers_arrays(self):
        x, y = np.ones(3), np.array([1.0, 2.0, 3.0])
        gradient = wg.grad(lambda x: np.sum(x * y))(x)
        gradient[0] = 99.0
        np.testing.assert_array_equal(y, [1, 2, 3])
        seed = np.ones(3)
        (found,) = wg.vjp(lambda x: x + 0.0, x)[1](seed)
        found[0] = 99.0
        np.testing.assert_array_equal(seed, [1, 1, 1])
        np.testing.assert_array_equal(x, [1, 1, 1])

    def test_gradients_can_be_written_to(self):
        gradient = wg.grad(lambda x: np.sum(x))(np.ones(3))
        gradient += 1
        np.testing.assert_array_equal(gradient, [2, 2, 2])

    def test_two_gradients_do_not_alias_each_other(self):
        a, b = wg.grad(lambda x, y: np.sum(x + y), (0, 1))(np.ones(3), np.ones(3))
        a[0] = 99.0
        np.testing.assert_array_equal(b, [1, 1, 1])


def test_functions_keep_their_name_and_docstring():
    def loss(x):
        """What it does."""
        return x * x

    for made in (wg.grad(loss), wg.value_and_grad(loss), wg.vmap(loss), wg.jacobian(loss)):
        assert made.__name__ == "loss"
        assert made.__doc__ == "What it does."


def test_integer_input_names_the_argument():
    with pytest.raises(DTypeError, match="argument 'weights' is i64"):
        wg.grad(lambda weights: weights * 2.0)(np.arange(3))
