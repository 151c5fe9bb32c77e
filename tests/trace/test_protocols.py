"""Traced values look like NumPy arrays: plain NumPy functions, operators, methods, conversions."""

import copy
import math
import operator

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert.errors import AbstractValueError, ConversionError, DTypeError, ShapeError

RNG = np.random.default_rng(7)
A = RNG.uniform(0.2, 0.9, size=(3, 4))
V = RNG.uniform(0.2, 0.9, size=4)

PLAIN = {
    "ufuncs": lambda a: np.sin(a) * np.exp(-a) + np.log1p(a) ** 2,
    "binary": lambda a: np.maximum(a, 0.5) + np.arctan2(a, 2.0) - np.hypot(1.0, a),
    "reductions": lambda a: np.mean(a, axis=0) * np.var(a, axis=0, ddof=1) + np.max(a),
    "ufunc methods": lambda a: np.add.reduce(a, axis=1) * np.multiply.reduce(a, axis=1),
    "accumulate": lambda a: np.add.accumulate(a, axis=0),
    "matmul": lambda a: a @ V + np.dot(a, V) - np.matmul(V, a.T),
    "einsum": lambda a: np.einsum("ij,kj->ik", a, a),
    "structure": lambda a: np.concatenate([a.T.reshape(-1), np.ravel(np.roll(a, 1))]),
    "stack": lambda a: np.stack([a[0], a[1] * 2.0], axis=1),
    "indexing": lambda a: a[1:, ::2] * a[np.array([0, 2])][:, :2] + a[-1, 0],
    "where": lambda a: np.where(a > 0.5, a * a, -a),
    "linalg": lambda a: np.linalg.inv(a[:, :3] + 3 * np.eye(3)) * np.linalg.norm(a),
    "sort": lambda a: np.sort(a, axis=1) * np.cumsum(a, axis=1),
    "fft": lambda a: np.abs(np.fft.fft(a, axis=1)),
    "methods": lambda a: a.sum(axis=0) * a.mean() + a.T.copy()[0].max() - a.clip(0.3, 0.6).min(),
    "methods 2": lambda a: a.reshape(4, 3).transpose().ravel() * a.flatten() + a.std(),
    "operators": lambda a: -a + 2.0 * a / 3 - (1 - a) ** 2 + a**0.5 + 2.0**a + (+a) + abs(a),
    "modulo": lambda a: a % 0.3 + a // 0.3 + 1.0 % a,
    "outer": lambda a: np.multiply.outer(V, a[0]) + np.outer(a[0], V),
    "pad tile repeat": lambda a: (
        np.sum(np.pad(a, 1)) + np.tile(a, 2)[:, :4] + np.repeat(a, 2, 0)[:3]
    ),
}


@pytest.mark.parametrize("f", PLAIN.values(), ids=PLAIN.keys())
class TestPlainNumpy:
    def test_value_is_numpys(self, f):
        out, _ = wg.vjp(f, A)
        np.testing.assert_allclose(out, f(A), rtol=1e-14)
        assert out.dtype == f(A).dtype

    def test_derivatives(self, f):
        wg.check_grads(f, (A,), order=1)


OPERATORS = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
    "**": operator.pow, "%": operator.mod, "//": operator.floordiv,
}  # fmt: skip
COMPARISONS = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]


class TestOperators:
    @pytest.mark.parametrize("op", OPERATORS.values(), ids=OPERATORS.keys())
    @pytest.mark.parametrize("other", [2.5, np.float64(2.5), V, np.array(2.5), 2], ids=repr)
    def test_both_sides(self, op, other):
        np.testing.assert_array_equal(wg.vjp(lambda x: op(x, other), V)[0], op(V, other))
        np.testing.assert_array_equal(wg.vjp(lambda x: op(other, x), V)[0], op(other, V))

    @pytest.mark.parametrize("op", COMPARISONS)
    def test_comparisons(self, op):
        out, _ = wg.vjp(lambda x: (op(x, 0.5), op(V[::-1], x)), V)
        np.testing.assert_array_equal(out[0], op(V, 0.5))
        np.testing.assert_array_equal(out[1], op(V[::-1], V))

    @pytest.mark.parametrize(
        "op", [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]
    )
    def test_bits(self, op):
        n = np.array([1, 2, 3])
        np.testing.assert_array_equal(wg.vjp(lambda n: (op(n, 1), op(2, n)), n)[0][0], op(n, 1))
        np.testing.assert_array_equal(wg.vjp(lambda n: op(2, n), n)[0], op(2, n))
        np.testing.assert_array_equal(wg.vjp(lambda n: ~n, n)[0], ~n)

    def test_unknown_objects_are_refused_by_python(self):
        with pytest.raises(TypeError, match="unsupported operand"):
            wg.grad(lambda x: x + "text")(1.0)
        with pytest.raises(TypeError):
            wg.grad(lambda x: x * object())(1.0)

    def test_objects_that_know_tracers_get_their_turn(self):
        class Twice:
            def __rmul__(self, other):
                return other + other

        assert wg.grad(lambda x: x * Twice())(1.0) == 2.0

    def test_numpy_scalars_on_the_left(self):
        assert wg.grad(lambda x: np.float64(3) * x)(1.0) == 3.0
        assert wg.grad(lambda x: np.float32(3) - x)(np.float32(1)) == -1.0


class TestWeakNumbers:
    f32 = np.float32(0.5)

    @pytest.mark.parametrize(
        "x", [np.ones(2, np.float32), np.float32(1.5)], ids=["array", "scalar"]
    )
    def test_float32_is_not_widened(self, x):
        cases = [
            lambda x: x * 2.0, lambda x: 2.0 * x, lambda x: x + 1, lambda x: x / 3, lambda x: x**2,
            lambda x: x**2.5, lambda x: 2.0**x, lambda x: np.maximum(x, 0.0), lambda x: -x,
            lambda x: np.where(x > 0, x, 0.0), lambda x: np.sin(x) * (2 * 3.0), lambda x: x % 2.0,
            lambda x: x * np.float32(2), lambda x: np.clip(x, 0.0, 1.0), lambda x: np.mean(x),
            lambda x: np.hypot(x, 1.0), lambda x: x @ x if x.shape else x, lambda x: abs(x),
        ]  # fmt: skip
        for f in cases:
            out, pullback = wg.vjp(f, x)
            assert out.dtype == np.float32 == np.asarray(f(x)).dtype
            assert pullback(out)[0].dtype == np.float32
            assert wg.jvp(f, (x,), (x,))[1].dtype == np.float32

    def test_traced_python_numbers_stay_weak(self):
        x = np.ones(2, np.float32)
        for f in (
            lambda s: x * s, lambda s: x * (s * 2.0 + 1), lambda s: x * (-s), lambda s: x * s**2,
            lambda s: x * abs(s), lambda s: x - (1 - s) / 3,
        ):  # fmt: skip
            assert wg.vjp(f, 2.0)[0].dtype == np.float32
            assert wg.vjp(f, 2.0)[1](np.ones(2, np.float32))[0].dtype == np.float64

    def test_weak_at_every_level(self):
        x = np.ones(2, np.float32)
        f = lambda s: np.sum(x * (s * s / 3) * (1 - s))
        assert wg.vjp(wg.grad(f), 2.0)[0].dtype == np.float64
        seen = []
        g = lambda s: seen.append((x * (s * 2.0)).dtype) or np.sum(x * s)
        wg.grad(lambda s: wg.jvp(g, (s,), (1.0,))[1])(2.0)
        assert seen == [np.float32]
        value, tangent = wg.jvp(lambda s: x * wg.grad(lambda t: t**3 / 3)(s), (2.0,), (1.0,))
        assert (value.dtype, tangent.dtype) == (np.float64, np.float64)

    def test_graphs_keep_numbers_weak(self):
        x = np.ones(2, np.float32)
        graph = wg.trace(lambda s, x: x * (s * 2.0 + 1), 2.0, x)
        for s in (3.0, np.float64(3.0), np.array(3.0)):
            assert graph(s, x).dtype == np.float32
            assert graph.forward(s, x).dtype == np.float32
        checkpointed = wg.checkpoint(lambda x, s: x * (s * 2.0 + 1))
        assert wg.vjp(lambda x: checkpointed(x, 3.0), x)[0].dtype == np.float32
        assert wg.vmap(lambda x, s: x * (s / 3), in_axes=(0, None))(x, 2.0).dtype == np.float32

    def test_numpy_numbers_are_not_weak(self):
        x = np.ones(2, np.float32)
        assert wg.vjp(lambda s: x * s, np.float64(2))[0].dtype == np.float64
        assert wg.vjp(lambda s: x * np.sin(s), 2.0)[0].dtype == np.float64

    def test_float64_is_not_truncated(self):
        value = 1.0 + 2.0**-40
        assert wg.vjp(lambda x: x * np.float32(1), np.float64(value))[0] == value
        assert wg.vjp(lambda x: x + 0, value)[0] == value
        got = wg.grad(lambda x: np.sum(x.astype(np.float64) * value))(np.ones(1, np.float32))
        assert got.dtype == np.float32

    def test_integers(self):
        n = np.arange(3, dtype=np.int8)
        assert wg.vjp(lambda n: n * 2, n)[0].dtype == np.int8
        assert wg.vjp(lambda n: n * 2.0, n)[0].dtype == np.float64
        assert wg.vjp(lambda n: n / 2, n)[0].dtype == (n / 2).dtype

    def test_a_number_too_large_for_the_dtype(self):
        n = np.arange(3, dtype=np.int8)
        with pytest.raises(OverflowError):
            n * 1000
        with pytest.raises(OverflowError):
            wg.vjp(lambda n: n * 1000, n)


class TestArrayFace:
    def test_attributes(self):
        def f(a):
            assert (a.shape, a.ndim, a.size, a.dtype) == ((3, 4), 2, 12, np.float64)
            assert (a.itemsize, a.nbytes, len(a)) == (8, 96, 3)
            assert np.shape(a) == (3, 4) and np.ndim(a) == 2 and np.size(a) == 12
            assert np.result_type(a.dtype, np.float32) == np.float64
            assert isinstance(repr(a), str)
            return np.sum(a)

        wg.grad(f)(A)

    def test_scalars_refuse_len_and_iteration(self):
        with pytest.raises(TypeError, match=r"len\(\) of a 0-d array"):
            wg.grad(len)(1.0)
        with pytest.raises(TypeError, match="iteration over a 0-d array"):
            wg.grad(list)(1.0)

    def test_unpacking(self):
        f = lambda v: (lambda a, b, *rest: a * b + sum(rest))(*v)
        np.testing.assert_array_equal(wg.grad(f)(np.array([2.0, 3.0, 5.0])), [3, 2, 1])

    def test_copy(self):
        f = lambda v: np.sum(copy.copy(v) * copy.deepcopy([v])[0] * v.copy())
        np.testing.assert_allclose(wg.grad(f)(V), 3 * V**2, rtol=1e-14)

    def test_hash_is_refused_as_for_arrays(self):
        with pytest.raises(TypeError, match="unhashable"):
            wg.grad(lambda x: {x: 1.0}[x])(np.ones(1))

    def test_array_namespace(self):
        def f(x):
            xp = x.__array_namespace__()
            assert xp is wnp
            return xp.sum(x)

        wg.grad(f)(V)

    def test_index_with_a_traced_integer(self):
        def f(n, x):
            return x[n] * [1.0, 2.0, 3.0][n] + sum(range(n))

        assert wg.vjp(f, 2, V)[0] == V[2] * 3.0 + 1
        with pytest.raises(TypeError, match="only integer arrays can be an index, not f64"):
            wg.grad(lambda x: [1.0, 2.0][x] * x)(1.0)

    def test_repr(self):
        shown = []
        wg.grad(lambda x: shown.append(repr(x)) or np.sum(x))(np.ones(2, np.float32))
        wg.vmap(lambda x: shown.append(repr(x)) or x)(np.ones((2, 3)))
        assert shown == ["Tracer(f32[2], [1. 1.])", "Tracer(f64[3], abstract)"]

    def test_at_says_what_to_do(self):
        with pytest.raises(AttributeError, match=r"use x = x\.copy\(\); x\[i\] = v"):
            wg.grad(lambda x: np.sum(x.at[0].set(1.0)))(V)


REFUSED = {
    "math.sin": lambda x: math.sin(x),
    "float": lambda x: float(x) * x,
    "item": lambda x: x.item() * x,
    "tolist": lambda x: x.tolist() * x,
    "complex": lambda x: complex(x).real * x,
    "np.float64": lambda x: np.float64(x) * x,
}


class TestConversions:
    @pytest.mark.parametrize("f", REFUSED.values(), ids=REFUSED.keys())
    def test_refused_inside_a_derivative(self, f):
        with pytest.raises(ConversionError, match="would lose its derivative"):
            wg.grad(f)(1.5)

    def test_the_text(self):
        with pytest.raises(ConversionError) as caught:
            wg.grad(lambda x: math.sin(x))(1.5)
        text = str(caught.value)
        assert text.startswith("float() (at test_protocols.py:")
        assert text.endswith(
            "): the traced value f64* would lose its derivative. "
            "Write to arrays that are made in the function, with np.zeros, np.array(x) for a copy "
            "and so on, and use np.sin for math.sin, or wg.stop_gradient(x) if no derivative is "
            "wanted."
        )

    def test_writing_to_a_plain_array(self):
        out = np.zeros(2)

        def f(x):
            out[0] = x
            return x

        with pytest.raises(ValueError) as caught:  # NumPy's own, ours is the cause
            wg.grad(f)(1.5)
        assert isinstance(caught.value.__cause__, ConversionError)

        def g(x):
            out[:] = x
            return np.sum(x)

        with pytest.raises(ConversionError, match="would lose its derivative"):
            wg.grad(g)(np.ones(2))

    def test_in_place_arithmetic_on_a_plain_array(self):
        plain = np.zeros(2)

        def f(x):
            y = plain
            y += x
            return np.sum(y)

        with pytest.raises(ConversionError, match="the output is a plain NumPy array"):
            wg.grad(f)(np.ones(2))

    def test_values_without_derivative_may_be_taken_out(self):
        def f(x, n):
            flags = np.asarray(x > 0)
            assert flags.dtype == bool and isinstance(flags, np.ndarray) and flags
            k = int(n) + n.item() + operator.index(n)
            return x * k * float(np.floor(x))

        assert wg.vjp(f, 2.5, 2)[0] == 2.5 * 6 * 2.0

    def test_lists_of_traced_values(self):
        f = lambda x: np.sum(wnp.array([x, 2.0, x * x]) * np.array([1.0, 1.0, 5.0]))
        assert wg.grad(f)(3.0) == 1.0 + 30.0

    def test_missing_function(self):
        def mine(x):
            return x

        with pytest.raises(DTypeError) as caught:
            wg.grad(lambda x: np.sum(np.frompyfunc(mine, 1, 1)(x)))(V)
        assert str(caught.value).startswith("numpy.mine (vectorized) (at test_protocols.py:")
        assert str(caught.value).endswith(
            "): is not available on traced values. "
            "See wengert.numpy for what is; wg.custom_rule adds a function of your own."
        )

    def test_abstract_values(self):
        batched = wg.vmap(lambda x: math.sin(x))
        np.testing.assert_allclose(batched(V), np.sin(V), rtol=1e-14)
        with pytest.raises(AbstractValueError):
            wg.jit(batched, control="trace")(V)
        with pytest.raises(AbstractValueError) as caught:
            wg.vmap(lambda x: x.__array__())(V)
        assert str(caught.value).endswith(
            "): the value of f64 is not known while the function is traced by jit or vmap. Write "
            "to arrays that are made in the function, with np.zeros, np.array(x) for a copy and "
            "so on, and use np.sin for math.sin."
        )


class TestWholeNumbers:
    """`round`, `math.floor` and their kin of a traced number are integers, as of NumPy's."""

    @pytest.mark.parametrize("whole", [round, math.floor, math.ceil, math.trunc])
    @pytest.mark.parametrize("x", [-2.5, -0.2, 1.5, 7.9])
    def test_of_a_number(self, whole, x):
        found = []

        def f(x):
            found.append(whole(x))
            return x * found[-1]

        assert wg.grad(f)(x) == whole(x)
        assert type(found[0]) is int and found[0] == whole(np.float64(x))
        assert wg.jit(lambda x: x * whole(x))(x) == x * whole(x)

    def test_digits(self):
        got, slope = wg.value_and_grad(lambda x: round(x, 1) + x)(1.26)
        assert got == 1.3 + 1.26 and slope == 1.0

    def test_of_an_array(self):
        with pytest.raises(TypeError):
            wg.grad(lambda v: np.sum(v) * round(v))(V)


class TestOut:
    def test_out_argument(self):
        def f(x):
            y = wnp.zeros(4)
            np.sin(x, out=y)
            np.multiply(y, x, out=y)
            return np.sum(y)

        np.testing.assert_allclose(wg.grad(f)(V), np.cos(V) * V + np.sin(V), rtol=1e-14)

    @pytest.mark.parametrize("way", [wg.jit, wg.vmap, lambda f: lambda x: wg.vjp(f, x)[0]])
    @pytest.mark.parametrize("function", [np.divide, wnp.divide])
    def test_out_where_a_mask_holds(self, function, way):
        def f(x):
            y = np.ones(x.shape)
            return function(1.0, x, out=y, where=x > 0.25) + y

        x = np.array([[0.5, -1.0, 2.0], [0.125, 1.0, 4.0]])
        np.testing.assert_array_equal(way(f)(x), f(x))
        slope = wg.grad(lambda x: np.sum(f(x)))(x)
        np.testing.assert_allclose(slope, np.where(x > 0.25, -2 / x**2, 0))

    def test_out_of_a_method(self):
        def f(x):
            y = np.zeros((2, 4))
            x.cumsum(out=y[0])
            x[None].sum(axis=0, out=y[1])
            return y * x.clip(0, 1, out=np.zeros(4))

        np.testing.assert_allclose(wg.jit(f)(V), f(V), rtol=1e-14)
        with pytest.raises(DTypeError, match=r"numpy\.sum with out="):
            wg.jit(lambda x: x.sum(axis=0, out=np.zeros((), int)))(V)

    def test_one_of_two_outputs(self):
        def f(x):
            whole = np.zeros(4)
            part, found = np.modf(x, out=(None, whole))
            return part + 2 * whole + 4 * found

        np.testing.assert_allclose(wg.jit(f)(V), f(V), rtol=1e-14)

    @pytest.mark.parametrize(
        "write, error",
        [
            (lambda x: np.add(x, 0.5, out=np.zeros(4, int)), DTypeError),
            (lambda x: wnp.add(x, 0.5, out=np.zeros(4, int)), DTypeError),
            (lambda x: np.clip(x, 0, 1, out=np.zeros(4, int)), DTypeError),
            (lambda x: np.sum(x[None], axis=0, out=np.zeros(4, int)), DTypeError),
            (lambda x: np.sin(x * 1j, out=np.zeros(4)), DTypeError),
            (lambda x: np.sum(x[None], axis=0, out=np.zeros((2, 4))), ShapeError),
            (lambda x: np.add(x, np.ones((2, 1)), out=np.zeros((1, 4))), ShapeError),
        ],
    )
    def test_outputs_that_cannot_hold_the_result(self, write, error):
        """NumPy refuses them, or casts the terms of a sum; what is left would be other numbers."""
        for way in (lambda x: wg.vjp(write, x), wg.jit(write)):
            with pytest.raises(error):
                way(V)
        unsafe = lambda x: np.add(x, 0.5, out=np.zeros(4, int), casting="unsafe")
        np.testing.assert_array_equal(wg.jit(unsafe)(V), unsafe(V))

    def test_the_error_of_an_output_that_cannot_hold_the_result(self):
        with pytest.raises(DTypeError) as caught:
            wg.jit(lambda x: np.add(x, 0.5, out=np.zeros(4, int)))(V)
        assert str(caught.value).startswith("numpy.add with out= (at ")
        assert str(caught.value).endswith(
            "): the result is f64[4], the array it must fit into i64[4]. Give an array of this "
            "shape and dtype, or convert the result with astype."
        )

    def test_plain_out_is_refused(self):
        plain = np.zeros(4)
        with pytest.raises(ConversionError) as caught:
            wg.grad(lambda x: np.sum(np.sin(x, out=plain)))(V)
        assert "numpy.sin" in str(caught.value)
        assert str(caught.value).endswith(
            "Make the array in the function, with np.zeros or np.array(x) for a copy, or write "
            "x = x + y instead of x += y."
        )


class TestViewMethod:
    def test_shares_memory_with_the_array(self):
        def f(x):
            y = x * 1.0
            v = y.view()
            v[0] = 5.0
            y.view(np.ndarray)[1:] *= 3
            return np.sum(y.view(np.float64) ** 2)

        x = np.array([1.0, 2.0, 3.0])
        np.testing.assert_array_equal(wg.grad(f)(x), [0.0, 36.0, 54.0])
        np.testing.assert_array_equal(wg.jit(wg.grad(f))(x), [0.0, 36.0, 54.0])
        np.testing.assert_array_equal(wg.vmap(f)(x[None]), [f(x.copy())])

    def test_bits_are_not_read_as_another_type(self):
        with pytest.raises(TypeError, match=r"view .*got int64 for an array of float64"):
            wg.grad(lambda x: np.sum(x.view(np.int64)))(np.ones(3))
        with pytest.raises(TypeError, match="got the class matrix"):
            wg.grad(lambda x: np.sum(x.view(np.matrix)))(np.ones(3))

    @pytest.mark.parametrize("number", [int, np.int64, np.uint8, np.array])
    def test_numbers_of_numpy_as_axes_and_lengths(self, number):
        x = np.arange(6.0)

        def f(x):
            y = x.transpose(number(0)).reshape(number(6)).reshape(number(2), number(3))
            return y.transpose(number(1), number(0))

        np.testing.assert_array_equal(wg.jit(f)(x), x.reshape(2, 3).T)
        np.testing.assert_array_equal(wg.vjp(f, x)[0], x.reshape(2, 3).T)
