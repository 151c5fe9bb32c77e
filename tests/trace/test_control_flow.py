"""Python is the language: control flow, closures, generators, trees."""

import dataclasses
import functools
from typing import Any, NamedTuple

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp


class TestControlFlow:
    def test_if(self):
        f = lambda x: x * x if x > 0 else -3.0 * x
        assert wg.grad(f)(2.0) == 4.0
        assert wg.grad(f)(-2.0) == -3.0

    def test_if_of_every_kind(self):
        def f(x):
            if not x:
                return x
            if 0 < x <= 1 and x != 0.5:
                return x * 2.0
            if np.all(x == 0.5) or np.any(x < -1):
                return x * 3.0
            return x * 4.0

        for at, slope in ((0.0, 1.0), (0.7, 2.0), (0.5, 3.0), (-2.0, 3.0), (5.0, 4.0)):
            assert wg.grad(f)(at) == slope

    def test_while(self):
        def f(x):
            count = 0
            while x < 100.0:
                x = x * x
                count += 1
            return x

        assert f(3.0) == 3.0**8
        assert wg.grad(f)(3.0) == 8 * 3.0**7

    def test_for_over_range_and_rows(self):
        def f(a):
            total = 0.0
            for row in a:
                for i in range(2):
                    total = total + row[i] ** (i + 1)
            return total

        np.testing.assert_array_equal(wg.grad(f)(np.ones((3, 2))), [[1, 2]] * 3)

    def test_recursion(self):
        def power(x, n):
            return 1.0 if n == 0 else x * power(x, n - 1)

        assert wg.grad(power)(2.0, 5) == 80.0

    def test_recursion_on_a_traced_value(self):
        def collapse(x):
            return x if x < 1.0 else collapse(x / 2.0)

        assert wg.grad(collapse)(10.0) == 1 / 16

    def test_early_return(self):
        def f(x):
            for k in range(100):
                if x > 10:
                    return x * k
                x = x * 3.0
            return x

        assert wg.grad(f)(2.0) == 9 * 2

    def test_exceptions(self):
        def f(x):
            try:
                if x > 1:
                    raise OverflowError(x)
                return x * 2.0
            except OverflowError as error:
                return error.args[0] * 5.0
            finally:
                x = x * 100.0

        assert wg.grad(f)(2.0) == 5.0
        assert wg.grad(f)(0.5) == 2.0

    def test_an_exception_that_leaves_the_function(self):
        def f(x):
            raise KeyError("mine")

        for transformed in (
            wg.grad(f),
            wg.vmap(f),
            wg.jacobian(f),
            lambda x: wg.jvp(f, (x,), (x,)),
            lambda x: wg.trace(f, x),
        ):
            with pytest.raises(KeyError, match="mine"):
                transformed(np.ones(2))
        from wengert.trace import current_trace

        assert current_trace() is None
        assert wg.grad(lambda x: x * x)(3.0) == 6.0

    def test_generators(self):
        def powers(x):
            y = x
            while True:
                yield y
                y = y * x

        def f(x):
            source = powers(x)
            return sum(next(source) for _ in range(4))

        assert wg.grad(f)(2.0) == 1 + 4 + 12 + 32

    def test_a_generator_with_a_gradient_inside(self):
        def gradients(x):
            for n in range(1, 4):
                yield wg.grad(lambda y, n=n: y**n * x)(x)

        # sum n x^n
        assert wg.grad(lambda x: sum(gradients(x)))(2.0) == 1 + 4 * 2 + 9 * 4

    def test_closures_methods_partial_callable_objects(self):
        class Model:
            def __init__(self, w):
                self.w = w

            def loss(self, x):
                return self.w * x * x

            def __call__(self, x):
                return self.loss(x) + 1.0

            @staticmethod
            def static(x):
                return x * 7.0

            @classmethod
            def of_class(cls, x):
                return x * 8.0

        model = Model(3.0)
        assert wg.grad(model.loss)(2.0) == 12.0
        assert wg.grad(model)(2.0) == 12.0
        assert wg.grad(Model.static)(2.0) == 7.0
        assert wg.grad(Model.of_class)(2.0) == 8.0
        assert wg.grad(functools.partial(pow, exp=3))(2.0) == 12.0
        assert wg.grad(lambda w: Model(w).loss(2.0))(3.0) == 4.0

    def test_builtins(self):
        x = np.array([1.0, 2.0, 3.0])
        np.testing.assert_array_equal(wg.grad(lambda x: sum(x))(x), [1, 1, 1])
        np.testing.assert_array_equal(wg.grad(lambda x: max(x))(x), [0, 0, 1])
        np.testing.assert_array_equal(wg.grad(lambda x: min(x) * len(x))(x), [3, 0, 0])
        np.testing.assert_array_equal(wg.grad(lambda x: sorted(x)[1])(x), [0, 1, 0])
        np.testing.assert_array_equal(
            wg.grad(lambda x: functools.reduce(lambda a, b: a * b, x))(x), [6, 3, 2]
        )
        assert wg.grad(lambda x: abs(x))(-2.0) == -1.0
        assert wg.grad(lambda x: pow(x, 3))(2.0) == 12.0
        assert wg.grad(lambda x: divmod(x, 2.0)[1])(5.0) == 1.0

    def test_numbers_that_do_not_lose_a_derivative(self):
        def f(x):
            i = int(x)
            n = wnp.argmax(np.array([1.0, 5.0, 2.0]) * x)
            table = [10.0, 20.0, 30.0]
            return x * table[i] + x * [1.0, 2.0][n] + (x if round(2.6) == 3 else 0.0)

        assert wg.grad(f)(1.5) == 20.0 + 2.0 + 1.0

    def test_in_and_comparisons(self):
        f = lambda x: x * 2.0 if x in (1.0, 2.0) else x
        assert wg.grad(f)(2.0) == 2.0
        assert wg.grad(f)(3.0) == 1.0

    def test_formatting_and_printing(self, capsys):
        def f(x):
            print(f"{x:.3f}", x)
            return x * x

        wg.grad(f)(2.0)
        assert capsys.readouterr().out == "2.000 Tracer(f64*, 2.)\n"

    def test_side_effects_happen_once(self):
        calls = []
        wg.grad(lambda x: calls.append(1) or x * x)(2.0)
        wg.jvp(lambda x: calls.append(1) or x * x, (2.0,), (1.0,))
        assert len(calls) == 2


class Point(NamedTuple):
    x: Any
    y: Any


@dataclasses.dataclass(frozen=True)
class Frozen:
    w: Any
    scale: Any = None


TREES = {
    "number": 2.0,
    "array": np.ones(3),
    "tuple": (1.0, np.ones(2)),
    "list": [1.0, [2.0, np.ones((2, 2))]],
    "dict": {"b": 1.0, "a": {"c": np.ones(2)}},
    "namedtuple": Point(1.0, np.ones(2)),
    "dataclass": Frozen(np.ones(2), (1.0, 2.0)),
    "None inside": (1.0, None, {"x": None, "y": 2.0}),
    "empty containers": ([], {}, (), 1.0),
    "integer keys": {2: 1.0, 1: np.ones(2)},
    "mixed keys": {"a": 1.0, 1: 2.0},
}


@pytest.mark.parametrize("tree", TREES.values(), ids=TREES.keys())
class TestTrees:
    @staticmethod
    def square(tree):
        return wg.tree.map(lambda leaf: leaf * leaf, tree)

    @classmethod
    def total(cls, tree):
        return sum(np.sum(leaf) for leaf in wg.tree.leaves(cls.square(tree)))

    def same(self, got, expected):
        assert wg.tree.flatten(got)[1] == wg.tree.flatten(expected)[1]
        for a, b in zip(wg.tree.leaves(got), wg.tree.leaves(expected), strict=True):
            np.testing.assert_array_equal(a, b)

    def test_grad(self, tree):
        self.same(wg.grad(self.total)(tree), wg.tree.map(lambda leaf: 2 * leaf, tree))

    def test_jvp(self, tree):
        out, tangent = wg.jvp(self.square, (tree,), (tree,))
        self.same(out, self.square(tree))
        self.same(tangent, wg.tree.map(lambda leaf: 2 * leaf * leaf, tree))

    def test_vjp(self, tree):
        out, pullback = wg.vjp(self.square, tree)
        self.same(pullback(out), (wg.tree.map(lambda leaf: 2 * leaf * leaf**2, tree),))

    def test_linearize(self, tree):
        _, derivative = wg.linearize(self.square, tree)
        self.same(derivative(tree), wg.tree.map(lambda leaf: 2 * leaf * leaf, tree))

    def test_vmap(self, tree):
        batch = wg.tree.map(lambda leaf: np.stack([leaf, 2 * leaf]), tree)
        self.same(wg.vmap(self.square)(batch), self.square(batch))

    def test_trace(self, tree):
        graph = wg.trace(self.square, tree)
        self.same(graph(tree), self.square(tree))

    def test_checkpoint(self, tree):
        f = lambda tree: self.total(wg.checkpoint(self.square)(tree))
        expected = wg.tree.map(lambda leaf: 4 * leaf**3, tree)
        self.same(wg.grad(f)(tree), expected)

    def test_custom_rule(self, tree):
        jvp = lambda p, t: (self.square(*p), wg.tree.map(lambda a, b: 3 * a * b, p[0], t[0]))
        f = wg.custom_rule(jvp=jvp)(self.square)
        self.same(wg.jvp(f, (tree,), (tree,))[1], wg.tree.map(lambda leaf: 3 * leaf * leaf, tree))
