"""The exact text of the errors a user meets, and the built-in exceptions they are."""

import inspect

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert import errors
from wengert.ops.families import ufunc_type_rule
from wengert.ops.op import REGISTRY, Op


def here():
    return f"test_errors.py:{inspect.currentframe().f_back.f_lineno}"


def line_of(function, offset=0):
    """The line of a lambda, or a line of a function counted from its first."""
    return f"test_errors.py:{function.__code__.co_firstlineno + offset}"


def message(error, action):
    with pytest.raises(error) as caught:
        action()
    return str(caught.value)


class TestOutputOfGrad:
    def test_array(self):
        def loss(x):
            return x * 2.0

        assert message(errors.ShapeError, lambda: wg.grad(loss)(np.ones(3))) == (
            "grad: loss returned f64[3], expected a scalar. Use wg.jacobian or wg.vjp for a "
            "function with array output, or sum the result."
        )

    def test_tuple(self):
        assert message(errors.StructureError, lambda: wg.grad(lambda x: (x, x))(1.0)) == (
            "grad: <lambda> returned (*, *), expected one scalar. Use has_aux=True for extra "
            "results, or wg.jacobian or wg.vjp for several outputs."
        )

    def test_none(self):
        assert message(errors.StructureError, lambda: wg.grad(lambda x: None)(1.0)) == (
            "grad: <lambda> returned None, expected one scalar. Use has_aux=True for extra "
            "results, or wg.jacobian or wg.vjp for several outputs."
        )

    @pytest.mark.parametrize("f, shown", [(lambda x: x > 0, "bool"), (lambda x: x * 1j, "c128*")])
    def test_not_a_float(self, f, shown):
        assert message(errors.DTypeError, lambda: wg.grad(f)(1.0)) == (
            f"grad: <lambda> returned {shown}, expected a real float. "
            "Return a float, such as the real part or the absolute value."
        )

    def test_an_object(self):
        assert message(errors.DTypeError, lambda: wg.grad(lambda x: "text")(1.0)) == (
            "<lambda>: argument 'result' holds 'text' of type str, expected arrays or numbers. "
            "Pass other things by closure or functools.partial."
        )


class TestInput:
    def test_integer(self):
        assert message(errors.DTypeError, lambda: wg.grad(lambda x: x * 1.0)(np.arange(3))) == (
            "grad: argument 'x' is i64[3], expected a float or complex array. "
            "Convert it with astype(float), or leave it out of argnums."
        )
        assert message(errors.DTypeError, lambda: wg.grad(lambda x: x * 1.0)(3)) == (
            "grad: argument 'x' is i64*, expected a float or complex array. "
            "Convert it with astype(float), or leave it out of argnums."
        )

    def test_boolean_in_a_tree(self):
        f = lambda a, params: params["x"] * 1.0
        assert message(errors.DTypeError, lambda: wg.grad(f, 1)(0.0, {"x": 1.0, "flag": True})) == (
            "grad: argument 'params' is bool, expected a float or complex array. "
            "Convert it with astype(float), or leave it out of argnums."
        )

    def test_no_number(self):
        assert message(errors.DTypeError, lambda: wg.grad(lambda x: x)("text")) == (
            "grad: argument 'x' holds 'text' of type str, expected arrays or numbers. "
            "Pass other things by closure or functools.partial."
        )
        assert message(errors.DTypeError, lambda: wg.grad(lambda x: x)(np.array(["a"]))) == (
            "grad: argument 'x' is an array of dtype <U1, expected numbers. Convert it with astype."
        )

    def test_argnums(self):
        assert message(errors.StructureError, lambda: wg.grad(lambda x: x, 1)(1.0)) == (
            "grad: argnums names argument 1, but 1 positional arguments were given. "
            "Pass the arguments to differentiate by position."
        )


class TestShapes:
    expected = (
        "{op} (at {line}): got arrays of shapes (2,) and (3,), which do not broadcast together. "
        "Compared from the right, each pair of lengths must be equal or 1."
    )

    def test_while_traced(self):
        f = lambda x: np.sum(x + np.ones(3))
        text = message(errors.ShapeError, lambda: wg.grad(f)(np.ones(2)))
        assert text == self.expected.format(op="add", line=line_of(f))

    def test_the_users_line_is_the_one_that_adds(self):
        def f(x):
            y = x * 2.0
            return np.sum(y * np.ones(3))

        line = line_of(f, 2)
        text = message(errors.ShapeError, lambda: wg.grad(f)(np.ones(2)))
        assert text == self.expected.format(op="multiply", line=line)

    def test_plain_arrays_and_abstract_values(self):
        for action in (
            lambda: wnp.subtract(np.ones(2), np.ones(3)),
            lambda: wg.vmap(lambda x: wnp.subtract(x, np.ones(3)))(np.ones((4, 2))),
        ):
            text = message(errors.ShapeError, action)
            assert text.startswith("subtract (at test_errors.py:")
            assert "(2,) and (3,)" in text

    def test_it_is_a_value_error(self):
        with pytest.raises(ValueError):
            wg.grad(lambda x: np.sum(x + np.ones(3)))(np.ones(2))

    def test_reshape(self):
        f = lambda x: np.sum(x.reshape(4))
        text = message(errors.ShapeError, lambda: wg.grad(f)(np.ones(3)))
        assert text == (
            f"reshape (at {line_of(f)}): got an array of shape (3,) (3 elements) for the shape "
            "(4,). Give a shape with the same number of elements, or one -1."
        )

    def test_dtypes(self):
        f = lambda x: np.bitwise_and(x, x)
        text = message(errors.DTypeError, lambda: wg.vjp(f, 1.5))
        assert text == (
            f"bitwise_and (at {line_of(f)}): is not defined for f64*, f64*. "
            "Convert the arguments with astype."
        )


class TestAxisAndIndex:
    def test_axis(self):
        f = lambda x: np.sum(x, axis=2)[0]
        text = message(errors.AxisError, lambda: wg.grad(f)(np.ones((2, 2))))
        assert text == (
            f"sum (at {line_of(f)}): got axis 2 for an array with 2 axes. Valid axes are -2 to 1."
        )
        assert issubclass(errors.AxisError, (ValueError, IndexError))

    @pytest.mark.parametrize(
        "f",
        [
            lambda x: x[3], lambda x: x[-4], lambda x: x[np.array([0, 3])][0], lambda x: x[0, 0],
            lambda x: np.take(x, 5), lambda x: x[wnp.argmax(x) + 5],
            lambda x: wnp.take_along_axis(x, np.array([7]), 0)[0],
        ],
    )  # fmt: skip
    def test_out_of_range_is_an_index_error(self, f):
        with pytest.raises(IndexError):
            wg.grad(f)(np.arange(3.0))

    def test_out_of_range_while_writing(self):
        def f(x, key):
            y = wnp.zeros(3)
            y[key] = x
            return np.sum(y)

        for key in (3, -4, np.array([1, 5])):
            with pytest.raises(IndexError):
                wg.grad(f)(1.0, key)

    def test_the_text(self):
        f = lambda x: x[3]
        text = message(errors.OutOfRangeError, lambda: wg.grad(f)(np.arange(3.0)))
        assert text == (
            f"index (at {line_of(f)}): got the index 3 for axis 0 of length 3. "
            "Valid indices are -3 to 2."
        )

    def test_inside_vmap(self):
        with pytest.raises(IndexError):
            wg.vmap(lambda x: x[3])(np.ones((2, 3)))
        with pytest.raises(IndexError):
            wg.vmap(lambda x, i: x[i], (None, 0))(np.ones(3), np.array([0, 7]))


class TestMissingDerivative:
    @pytest.fixture
    def op(self):
        yield Op("test_bare", np.sin, ufunc_type_rule("test_bare", np.sin))
        del REGISTRY["test_bare"]

    def test_no_rule(self, op):
        for action in (
            lambda: wg.grad(lambda x: op(x))(1.0),
            lambda: wg.jvp(lambda x: op(x), (1.0,), (1.0,)),
        ):
            text = message(errors.DerivativeError, action)
            assert text.startswith("test_bare")
            assert text.endswith(
                "has no derivative: no rule is defined. "
                "Use wg.stop_gradient on its argument, or wg.custom_rule to define one."
            )

    def test_no_derivative_wanted(self, op):
        assert wg.grad(lambda x: x * op(wg.stop_gradient(x)))(1.0) == np.sin(1.0)

    def test_a_rule_that_is_not_linear(self):
        f = wg.custom_rule(jvp=lambda p, t: (p[0], np.sin(t[0])))(lambda x: x * 1.0)
        text = message(errors.DerivativeError, lambda: wg.grad(f)(1.0))
        assert text.startswith("sin")
        assert text.endswith(
            "has no transpose: a derivative rule applied it to a tangent. "
            "Write the jvp rule with linear operations, or give custom_rule a vjp."
        )


class TestMutation:
    @pytest.mark.parametrize("transform", [wg.grad, wg.jacfwd, lambda f: lambda x: wg.trace(f, x)])
    def test_argument(self, transform):
        def f(x):
            x[0] = 0.0
            return np.sum(x)

        line = line_of(f, 1)
        x = np.ones(3)
        assert message(errors.MutationError, lambda: transform(f)(x)) == (
            f"writing to an array (at {line}): the array is an argument of the function being "
            "traced; the caller's own array would change. Copy it first: x = x.copy()."
        )
        np.testing.assert_array_equal(x, 1.0)

    def test_in_place_and_views(self):
        def add(x):
            x += 1.0
            return np.sum(x)

        def through_a_view(x):
            x[1:][0] = 1.0
            return np.sum(x)

        for f in (add, through_a_view, lambda x: x.sort() or np.sum(x)):
            with pytest.raises(errors.MutationError):
                wg.grad(f)(np.ones(3))

    def test_a_number_can_be_reassigned(self):
        def f(x):
            y = x
            y += 1.0
            return x * y

        assert wg.grad(f)(3.0) == 7.0

    def test_read_only(self):
        def f(x):
            y = np.broadcast_to(x * 1.0, (2, 3))
            y[0] = 1.0
            return np.sum(y)

        text = message(errors.MutationError, lambda: wg.grad(f)(np.ones(3)))
        assert text.endswith(
            "the array is a read-only view (a broadcast, a diagonal, a real or imaginary part). "
            "Copy it first: x = x.copy()."
        )

    def test_an_array_of_the_outer_function(self):
        def outer(x):
            kept = wnp.zeros(2)

            def inner(y):
                kept[0] = y
                return y * x

            return wg.grad(inner)(x) + kept[0]

        text = message(errors.MutationError, lambda: wg.grad(outer)(1.0))
        assert text.endswith(
            "the array was made outside the function being traced, the value inside. "
            "Make the array inside the function, or return the value."
        )


class TestBuiltins:
    """Code written for NumPy keeps catching what it caught."""

    @pytest.mark.parametrize(
        "error, builtin",
        [
            (errors.ShapeError, ValueError), (errors.DTypeError, TypeError),
            (errors.AxisError, IndexError), (errors.AxisError, ValueError),
            (errors.OutOfRangeError, IndexError), (errors.DerivativeError, TypeError),
            (errors.LeakedTracerError, RuntimeError), (errors.MutationError, ValueError),
            (errors.AbstractValueError, TypeError), (errors.ConversionError, TypeError),
            (errors.StructureError, TypeError), (errors.GraphError, ValueError),
            (errors.CheckGradsError, AssertionError), (errors.IntegerError, OverflowError),
        ],
    )  # fmt: skip
    def test_base(self, error, builtin):
        assert issubclass(error, builtin) and issubclass(error, errors.WengertError)


class TestUserLine:
    def test_files_in_a_folder_named_numpy(self, tmp_path):
        folder = tmp_path / "numpy"
        folder.mkdir()
        path = folder / "mine.py"
        path.write_text(
            "def f(x):\n    return x + (1.0, 2.0, 3.0)[0] * __import__('numpy').ones(3)\n"
        )
        names = {}
        exec(compile(path.read_text(), str(path), "exec"), names)
        with pytest.raises(errors.ShapeError, match=r"^add \(at mine\.py:2\): "):
            wg.grad(names["f"])(np.ones(2))

    def test_through_numpys_dispatch(self):
        f = lambda x: np.concatenate([x, np.ones((2, 2))])
        text = message(errors.ShapeError, lambda: wg.vjp(f, np.ones(2)))
        assert f"(at {line_of(f)})" in text

    def test_explain(self):
        assert errors.explain("f", "is wrong", "Mend it.") == f"f (at {here()}): is wrong. Mend it."
        assert errors.explain("f", "is wrong") == f"f (at {here()}): is wrong."


def test_a_masked_array_is_refused_because_its_mask_would_be_lost():
    masked = np.ma.masked_array([1.0, 2.0], [True, False])
    for call in (wg.grad(np.sum), wg.jit(np.sum)):
        lost = r"is a masked array, whose mask would be lost\. Pass"
        with pytest.raises(errors.DTypeError, match=lost):
            call(masked)
