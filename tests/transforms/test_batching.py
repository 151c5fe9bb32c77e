"""`vmap`."""

import math
from typing import Any, NamedTuple

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert.errors import (
    AbstractValueError,
    AxisError,
    ConversionError,
    DTypeError,
    MutationError,
    ShapeError,
    StructureError,
)

RNG = np.random.default_rng(3)


class Pair(NamedTuple):
    a: Any
    b: Any


def loop(f, *batches):
    return np.stack([f(*row) for row in zip(*batches, strict=True)])


def test_equals_a_loop():
    x, y = RNG.normal(size=(5, 3)), RNG.normal(size=(5, 3))
    f = lambda x, y: np.sin(x) * y + np.sum(x) - np.max(y)
    np.testing.assert_allclose(wg.vmap(f)(x, y), loop(f, x, y), rtol=1e-14)


def test_ranks_are_aligned():
    x, y = RNG.normal(size=(4,)), RNG.normal(size=(4, 2, 3))
    f = lambda x, y: x * y + y[0] * x
    np.testing.assert_allclose(wg.vmap(f)(x, y), loop(f, x, y), rtol=1e-14)
    shared = RNG.normal(size=(6, 2, 3))
    g = lambda x: x * shared
    np.testing.assert_allclose(wg.vmap(g)(x), loop(g, x), rtol=1e-14)


class TestInAxes:
    x, y = RNG.normal(size=(2, 5)), RNG.normal(size=(5, 3))

    def test_one_for_all(self):
        got = wg.vmap(lambda a, b: a * b, in_axes=1)(self.x, self.x)
        np.testing.assert_allclose(got, (self.x * self.x).T)

    def test_one_each(self):
        got = wg.vmap(lambda a, b: np.sum(a) * b, in_axes=(1, 0))(self.x, self.y)
        np.testing.assert_allclose(got, self.x.sum(0)[:, None] * self.y)

    def test_negative(self):
        got = wg.vmap(lambda a: a * 2.0, in_axes=-1)(self.x)
        np.testing.assert_allclose(got, 2 * self.x.T)

    def test_none_is_shared(self):
        got = wg.vmap(lambda a, b: a @ b, in_axes=(None, 1))(self.x, self.y)
        np.testing.assert_allclose(got, (self.x @ self.y).T)

    def test_a_list(self):
        got = wg.vmap(lambda a, b: a * b, in_axes=[0, None])(self.y, 2.0)
        np.testing.assert_allclose(got, 2 * self.y)

    def test_trees(self):
        tree = {"w": self.x, "rest": (self.y, Pair(self.y[:, 0], 3.0))}
        axes = {"w": 1, "rest": (0, Pair(0, None))}

        def f(p):
            y, pair = p["rest"]
            return np.sum(p["w"]) * y + pair.a * pair.b

        got = wg.vmap(f, in_axes=(axes,))(tree)
        expected = self.x.sum(0)[:, None] * self.y + self.y[:, :1] * 3.0
        np.testing.assert_allclose(got, expected, rtol=1e-13)

    def test_a_prefix_of_a_tree(self):
        got = wg.vmap(lambda p, s: p["a"] * p["b"] + s, in_axes=(0, None))(
            {"a": self.y, "b": self.y}, 1.0
        )
        np.testing.assert_allclose(got, self.y**2 + 1)

    def test_shared_arrays_are_indexed_by_a_sample(self):
        table, at = np.arange(6.0).reshape(3, 2), np.array([2, 0, 1, 2])
        got = wg.vmap(lambda t, i: t[i] * 2.0, in_axes=(None, 0))(table, at)
        np.testing.assert_array_equal(got, 2 * table[at])
        gradient = wg.grad(lambda t: np.sum(wg.vmap(lambda t, i: t[i], (None, 0))(t, at)))(table)
        np.testing.assert_array_equal(gradient, [[1, 1], [1, 1], [2, 2]])

    def test_keywords_are_shared(self):
        got = wg.vmap(lambda a, *, scale: a * scale)(self.y, scale=np.array([1.0, 2.0, 3.0]))
        np.testing.assert_allclose(got, self.y * [1, 2, 3])


class TestOutAxes:
    x = RNG.normal(size=(4, 2, 3))

    @pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
    def test_position(self, axis):
        got = wg.vmap(lambda a: a * 2.0, out_axes=axis)(self.x)
        np.testing.assert_allclose(got, np.moveaxis(2 * self.x, 0, axis))

    def test_trees(self):
        got = wg.vmap(lambda a: {"a": a, "s": (np.sum(a), a)}, out_axes={"a": 1, "s": (0, -1)})(
            self.x
        )
        np.testing.assert_allclose(got["a"], np.moveaxis(self.x, 0, 1))
        np.testing.assert_allclose(got["s"][0], self.x.sum((1, 2)))
        np.testing.assert_allclose(got["s"][1], np.moveaxis(self.x, 0, -1))

    def test_results_that_do_not_depend_on_the_batch(self):
        once = np.arange(2.0)
        both, shared = wg.vmap(lambda a: (once, once), out_axes=(1, None))(self.x)
        np.testing.assert_array_equal(both, np.tile(once[:, None], 4))
        np.testing.assert_array_equal(shared, once)

    def test_none_for_a_batched_result(self):
        with pytest.raises(StructureError) as caught:
            wg.vmap(lambda a: a, out_axes=None)(self.x)
        assert str(caught.value) == (
            "vmap: out_axes is None for a result that depends on the batch. "
            "Give the axis where the batch goes."
        )

    @pytest.mark.parametrize("axis", [3, -4])
    def test_out_of_range(self, axis):
        with pytest.raises(AxisError) as caught:
            wg.vmap(lambda a: a, out_axes=axis)(self.x)
        assert str(caught.value) == (
            f"vmap: out_axes asks for axis {axis} of a result with 3 axes. Give -3 to 2."
        )


class TestErrors:
    def test_lengths_differ(self):
        with pytest.raises(ShapeError) as caught:
            wg.vmap(lambda a, b: a * b)(np.ones(3), np.ones(4))
        assert str(caught.value) == (
            "vmap: arguments of <lambda> have batch axes of lengths [3, 4], expected one length. "
            "Check in_axes."
        )

    def test_no_such_axis(self):
        with pytest.raises(ShapeError) as caught:
            wg.vmap(lambda a: a, in_axes=1)(np.ones(3))
        assert str(caught.value) == (
            "vmap: in_axes asks for axis 1 of an argument of <lambda> with shape (3,). "
            "Give an axis the argument has, or None for an argument without a batch."
        )

    def test_no_batch(self):
        with pytest.raises(StructureError) as caught:
            wg.vmap(lambda a: a, in_axes=None)(np.ones(3))
        assert str(caught.value) == (
            "vmap: no argument of <lambda> has a batch axis. Give at least one axis in in_axes."
        )

    def test_prefix_does_not_fit(self):
        with pytest.raises(StructureError, match="vmap in_axes: got the prefix"):
            wg.vmap(lambda a: a, in_axes=(0, 0))(np.ones(3))

    def test_if_on_a_sample(self):
        batched = wg.jit(wg.vmap(lambda a: a if a > 0 else -a), control="trace")
        with pytest.raises(AbstractValueError) as caught:
            batched(np.ones(3))
        text = str(caught.value)
        assert text.startswith("bool() or `if` (at test_batching.py:")
        assert text.endswith(
            "): the value of bool is not known while the function is traced by jit or vmap. "
            "Use wg.cond or wnp.where for a choice, wg.while_loop or wg.scan for a loop, or "
            "static_argnames of jit."
        )

    @pytest.mark.parametrize("read", [float, int, lambda a: a.item(), lambda a: f"{a:.2f}"])
    def test_numbers_of_a_sample(self, read):
        with pytest.raises(AbstractValueError):
            wg.jit(wg.vmap(lambda a: a * read(a)), control="trace")(np.ones(3))

    def test_text_of_a_sample(self):
        with pytest.raises(AbstractValueError):
            wg.vmap(lambda a: a * len(f"{a:.2f}"))(np.ones(3))

    def test_strings(self):
        with pytest.raises(DTypeError, match="expected arrays or numbers"):
            wg.vmap(lambda a: a)("text")

    def test_writing_to_a_sample(self):
        def f(a):
            a[0] = 1.0
            return a

        with pytest.raises(MutationError):
            wg.vmap(f)(np.ones((2, 3)))


def relu(x):
    return x if x > 0 else 0.1 * x


def halvings(x):
    count = 0
    while abs(x) > 1:
        x = x / 2
        count += 1
    return x * count


def clipped(x):
    return max(min(x, 1.0), -1.0)


def whole(x):
    return x * round(x) + math.floor(x) - math.ceil(x)


class TestControlFlow:
    """A function that looks at values: each sample goes its own way."""

    x = np.array([-3.7, -0.4, 0.2, 1.5, 9.1])

    @pytest.mark.parametrize("f", [relu, halvings, clipped, whole, lambda x: relu(x) + halvings(x)])
    def test_equals_a_loop(self, f):
        np.testing.assert_allclose(wg.vmap(f)(self.x), loop(f, self.x), rtol=1e-14)
        np.testing.assert_allclose(wg.jit(wg.vmap(f))(self.x), loop(f, self.x), rtol=1e-14)

    @pytest.mark.parametrize("f", [relu, halvings, clipped])
    def test_derivatives(self, f):
        want = loop(wg.grad(f), self.x)
        np.testing.assert_allclose(wg.vmap(wg.grad(f))(self.x), want, rtol=1e-14)
        np.testing.assert_allclose(
            wg.grad(lambda x: np.sum(wg.vmap(f)(x)))(self.x), want, rtol=1e-14
        )

    def test_batches_of_batches(self):
        x = self.x[:, None] * np.array([1.0, -2.0])
        np.testing.assert_allclose(wg.vmap(wg.vmap(halvings))(x), np.vectorize(halvings)(x))

    def test_lines_as_samples(self):
        def first_above(row, bound):
            for value in row:
                if value > bound:
                    return value
            return 0.0 * bound

        x = np.array([[0.0, 2.0, 3.0], [0.5, 0.6, 0.7]])
        got = wg.vmap(first_above, in_axes=(0, None))(x, 1.0)
        np.testing.assert_array_equal(got, [2.0, 0.0])

    def test_jit_decides_whether_it_is_converted(self):
        with pytest.raises(AbstractValueError):
            wg.jit(wg.vmap(relu), control="trace")(self.x)

    def test_what_cannot_be_converted_says_why(self):
        made = eval("lambda x: x if x > 0 else -x")
        with pytest.raises(AbstractValueError, match="is not converted: "):
            wg.vmap(made)(self.x)

    def test_outside_of_a_batch_nothing_is_converted(self):
        wg.vmap(relu)(self.x)
        assert wg.grad(relu)(-2.0) == 0.1
        with pytest.raises(ConversionError):
            wg.grad(lambda x: float(x))(2.0)


class TestContents:
    def test_in_place_writes(self):
        def f(a):
            out = wnp.zeros(3)
            out[0] = a[0]
            out[1:] += a[:2] * 2.0
            b = a.copy()
            b *= out
            return b

        x = RNG.normal(size=(4, 3))
        np.testing.assert_allclose(wg.vmap(f)(x), loop(f, x), rtol=1e-14)

    def test_if_on_shared_values(self):
        f = lambda a, flag: a * 2.0 if flag > 0 else a
        np.testing.assert_array_equal(wg.vmap(f, in_axes=(0, None))(np.ones(2), 1.0), [2, 2])

    def test_empty_batch(self):
        assert wg.vmap(lambda a: np.sin(a) * 2.0)(np.zeros((0, 3))).shape == (0, 3)

    def test_dtypes(self):
        x = np.ones(3, np.float32)
        assert wg.vmap(lambda a: a * 2.0)(x).dtype == np.float32
        assert wg.vmap(lambda a: a > 0)(x).dtype == bool
        assert wg.vmap(lambda a: a + 1)(np.arange(3, dtype=np.int8)).dtype == np.int8

    def test_none_and_nested_results(self):
        got = wg.vmap(lambda a: (None, [a, {"b": a}]))(np.arange(2.0))
        assert got[0] is None
        np.testing.assert_array_equal(got[1][1]["b"], [0, 1])

    def test_several_results_of_one_operation(self):
        a = RNG.normal(size=(4, 3, 3))
        sign, logdet = wg.vmap(np.linalg.slogdet)(a)
        expected = np.linalg.slogdet(a)
        np.testing.assert_allclose(logdet, expected[1], rtol=1e-12)
        np.testing.assert_array_equal(sign, expected[0])
