"""`checkpoint`, `custom_rule` and `stop_gradient`."""

import gc
import tracemalloc

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert.errors import (
    CheckGradsError,
    DerivativeError,
    MutationError,
    ShapeError,
    StructureError,
)
from wengert.graph import Operator, reachable, verify
from wengert.trace import Trace
from wengert.trace.tracing import argument

x3 = np.array([0.1, 0.5, 0.9])


def steps(x):
    for _ in range(10):
        x = np.sin(x) * 1.1
    return x


def kept_values(f, x):
    """How many arrays of x's size the recording of f keeps alive."""
    with Trace() as trace:
        tracer = argument(trace, x)
        out = trace.node_of(f(tracer))
    held = set()
    pending = list(reachable([out]))
    for node in pending:
        if isinstance(node, Operator):
            for param in node.params.values():
                inner = getattr(param, "graph", None)
                if inner is not None:
                    pending.extend(inner.nodes)
        outputs = node.output if isinstance(node.output, tuple) else (node.output,)
        held |= {id(value) for value in outputs if np.shape(value) == x.shape}
    return len(held)


class TestCheckpoint:
    def test_same_derivatives(self):
        f = lambda x: np.sum(steps(x) ** 2)
        g = lambda x: np.sum(wg.checkpoint(steps)(x) ** 2)
        np.testing.assert_allclose(wg.grad(g)(x3), wg.grad(f)(x3), rtol=1e-14)
        np.testing.assert_allclose(wg.jacfwd(g)(x3), wg.grad(f)(x3), rtol=1e-14)
        np.testing.assert_allclose(wg.hessian(g)(x3), wg.hessian(f)(x3), rtol=1e-12)
        np.testing.assert_allclose(wg.vmap(wg.checkpoint(steps))(x3), steps(x3), rtol=1e-15)
        wg.check_grads(g, (x3,), order=3, tolerance=1e-5)

    def test_stores_less(self):
        assert kept_values(steps, x3) == 21
        assert kept_values(wg.checkpoint(steps), x3) == 2

    def test_stores_less_when_the_function_looks_at_values(self):
        def branching(x):
            return steps(x) if np.sum(x) > 0 else x

        assert kept_values(wg.checkpoint(branching), x3) == 2
        np.testing.assert_allclose(
            wg.grad(lambda x: np.sum(wg.checkpoint(branching)(x)))(x3),
            wg.grad(lambda x: np.sum(steps(x)))(x3),
            rtol=1e-14,
        )

    def test_intermediate_arrays_are_freed(self):
        x = np.ones(100000)

        def held(f):
            """Bytes that the recorded program holds, beside those of a number."""
            tracemalloc.start()
            with Trace() as trace:
                out = trace.node_of(f(argument(trace, x)))
            gc.collect()
            size, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert out.type.shape == ()
            return size

        def f(x):
            return np.sum(np.cos(np.sin(x) * 2.0))

        assert held(f) > 4 * x.nbytes
        assert held(wg.checkpoint(f)) < 2 * x.nbytes  # the argument alone

    def test_recomputes(self):
        runs = []

        @wg.custom_rule(jvp=lambda p, t: (np.sin(p[0]), t[0] * np.cos(p[0])))
        def counted(x):
            if type(x) is np.ndarray:
                runs.append(1)
            return np.sin(x)

        wg.grad(lambda x: np.sum(counted(x)))(x3)
        plain = len(runs)
        runs.clear()
        wg.grad(lambda x: np.sum(wg.checkpoint(counted)(x)))(x3)
        assert len(runs) == 2 * plain

    def test_without_a_trace_it_is_the_function(self):
        np.testing.assert_array_equal(wg.checkpoint(steps)(x3), steps(x3))

    def test_closures_over_traced_values(self):
        def f(x, w):
            block = wg.checkpoint(lambda y: np.sin(y * w) + w)
            return np.sum(block(block(x)))

        def plain(x, w):
            block = lambda y: np.sin(y * w) + w
            return np.sum(block(block(x)))

        got, expected = (wg.grad(g, (0, 1))(x3, 0.7) for g in (f, plain))
        np.testing.assert_allclose(got[0], expected[0], rtol=1e-14)
        np.testing.assert_allclose(got[1], expected[1], rtol=1e-14)
        np.testing.assert_allclose(
            wg.jvp(f, (x3, 0.7), (x3, 1.0))[1], wg.jvp(plain, (x3, 0.7), (x3, 1.0))[1], rtol=1e-14
        )

    def test_nested(self):
        inner = wg.checkpoint(lambda x: np.sin(x) * x)
        outer = wg.checkpoint(lambda x: inner(inner(x)) + x)
        plain = lambda x: np.sin(np.sin(x) * x) * (np.sin(x) * x) + x
        f = lambda x: np.sum(outer(x))
        g = lambda x: np.sum(plain(x))
        np.testing.assert_allclose(wg.grad(f)(x3), wg.grad(g)(x3), rtol=1e-14)
        np.testing.assert_allclose(wg.hessian(f)(x3), wg.hessian(g)(x3), rtol=1e-12, atol=1e-14)
        assert kept_values(outer, x3) == 2

    def test_nested_closures(self):
        def f(w):
            def outer(x):
                return wg.checkpoint(lambda y: y * w * x)(x) + w

            return np.sum(wg.checkpoint(outer)(x3))  # sum(x^2 w + w)

        np.testing.assert_allclose(wg.grad(f)(2.0), np.sum(x3**2) + 3, rtol=1e-14)

    def test_under_vmap(self):
        xs = np.arange(6.0).reshape(2, 3)
        w = np.array([1.0, 2.0, 3.0])
        f = lambda x: np.sum(wg.checkpoint(lambda y: np.sin(y) * w)(x))
        plain = lambda x: np.sum(np.sin(x) * w)
        np.testing.assert_allclose(wg.vmap(f)(xs), [plain(x) for x in xs], rtol=1e-14)
        np.testing.assert_allclose(
            wg.vmap(wg.grad(f))(xs), [wg.grad(plain)(x) for x in xs], rtol=1e-14
        )
        g = lambda xs: np.sum(wg.vmap(wg.checkpoint(lambda y: np.sin(y) * w))(xs))
        np.testing.assert_allclose(wg.grad(g)(xs), np.cos(xs) * w, rtol=1e-14)

    def test_vmap_over_a_captured_value(self):
        f = lambda s: np.sum(wg.checkpoint(lambda y: y * s)(x3))
        np.testing.assert_allclose(wg.vmap(f)(np.array([1.0, 2.0])), [1.5, 3.0])
        np.testing.assert_allclose(wg.vmap(wg.grad(f))(np.array([1.0, 2.0])), [1.5, 1.5])

    def test_trees_and_keywords(self):
        block = wg.checkpoint(lambda p, scale=1.0: {"y": p["a"] * p["b"] * scale, "none": None})
        f = lambda p, s: block(p, scale=s)["y"]
        assert wg.grad(f)({"a": 2.0, "b": 3.0}, 5.0) == {"a": 15.0, "b": 10.0}
        assert wg.grad(f, 1)({"a": 2.0, "b": 3.0}, 5.0) == 6.0
        assert block({"a": 2.0, "b": 3.0}, scale=2.0) == {"y": 12.0, "none": None}

    def test_integer_and_static_looking_arguments(self):
        f = lambda x: wg.checkpoint(lambda x, n: x**2 * n)(x, 3)
        assert wg.grad(f)(2.0) == 12.0

    def test_arguments_that_are_not_arrays(self):
        def block(x, n, kind, flag=True):
            assert type(n) is int and kind == "relu"
            return x[:n] * 2.0 if flag else x[:n]

        f = lambda x: np.sum(wg.checkpoint(block)(x, 2, "relu"))
        np.testing.assert_array_equal(wg.grad(f)(x3), [2, 2, 0])
        f = lambda x: np.sum(wg.checkpoint(block)(x, 1, "relu", flag=False))
        np.testing.assert_array_equal(wg.grad(f)(x3), [1, 0, 0])

    def test_writing_to_an_argument_is_refused(self):
        def f(x):
            x[0] = 1.0
            return np.sum(x)

        with pytest.raises(MutationError):
            wg.grad(wg.checkpoint(f))(x3)

    def test_writes_inside(self):
        def f(x):
            y = wnp.zeros(3)
            y[1:] = x[:2] * 2.0
            return np.sum(y * y)

        np.testing.assert_allclose(wg.grad(wg.checkpoint(f))(x3), [8 * 0.1, 8 * 0.5, 0], rtol=1e-14)

    def test_an_error_inside_leaves_nothing_behind(self):
        def bad(x):
            raise ValueError("mine")

        with pytest.raises(ValueError, match="mine"):
            wg.grad(wg.checkpoint(bad))(1.0)
        assert wg.grad(wg.checkpoint(lambda x: x * x))(3.0) == 6.0

    def test_graph(self):
        graph = wg.trace(lambda x: np.sum(wg.checkpoint(steps)(x)), x3)
        verify(graph)
        np.testing.assert_allclose(graph(x3 * 2), np.sum(steps(x3 * 2)), rtol=1e-14)
        graph.backward()
        np.testing.assert_allclose(
            graph.inputs[0].gradient, wg.grad(lambda x: np.sum(steps(x)))(x3), rtol=1e-14
        )

    def test_python_scalars(self):
        value, gradient = wg.value_and_grad(wg.checkpoint(lambda x: x * x))(3.0)
        assert (value, gradient) == (9.0, 6.0)
        f = wg.checkpoint(lambda x, s: x * s)
        assert wg.grad(lambda x: np.sum(f(x, 2.0)))(x3.astype(np.float32)).dtype == np.float32


# ---------------------------------------------------------------- custom rules


def f_jvp(primals, tangents):
    x, y = primals
    tx, ty = tangents
    return np.sin(x) * y, 10.0 * (tx * np.cos(x) * y + ty * np.sin(x))


def f_vjp(x, y):
    return np.sin(x) * y, lambda g: (10.0 * g * np.cos(x) * y, 10.0 * g * np.sin(x))


RULES = {"jvp": {"jvp": f_jvp}, "vjp": {"vjp": f_vjp}, "both": {"jvp": f_jvp, "vjp": f_vjp}}
EACH = pytest.mark.parametrize("rules", RULES.values(), ids=RULES.keys())


@EACH
class TestCustomRule:
    """The rule is ten times too large on purpose: it must be the one that is used."""

    @staticmethod
    def make(rules):
        return wg.custom_rule(**rules)(lambda x, y: np.sin(x) * y)

    def test_value(self, rules):
        assert self.make(rules)(0.5, 2.0) == np.sin(0.5) * 2

    def test_reverse(self, rules):
        gx, gy = wg.grad(self.make(rules), (0, 1))(0.5, 2.0)
        np.testing.assert_allclose((gx, gy), (20 * np.cos(0.5), 10 * np.sin(0.5)), rtol=1e-15)

    def test_forward(self, rules):
        out, t = wg.jvp(self.make(rules), (0.5, 2.0), (1.0, 3.0))
        assert out == np.sin(0.5) * 2
        np.testing.assert_allclose(t, 20 * np.cos(0.5) + 30 * np.sin(0.5), rtol=1e-15)

    def test_one_argument_alone(self, rules):
        f = self.make(rules)
        np.testing.assert_allclose(wg.grad(lambda x: f(x, 2.0))(0.5), 20 * np.cos(0.5), rtol=1e-15)
        np.testing.assert_allclose(
            wg.jvp(lambda y: f(0.5, y), (2.0,), (1.0,))[1], 10 * np.sin(0.5), rtol=1e-15
        )

    @pytest.mark.parametrize("outer", [wg.grad, wg.jacfwd])
    @pytest.mark.parametrize("inner", [wg.grad, wg.jacfwd])
    def test_nested(self, rules, outer, inner):
        f = self.make(rules)
        second = outer(inner(lambda x: f(x, 2.0)))(0.5)
        np.testing.assert_allclose(second, -20 * np.sin(0.5), rtol=1e-14)

    def test_array_and_broadcast_inside(self, rules):
        f = self.make(rules)
        g = wg.grad(lambda x: np.sum(f(x, x3)))(x3)
        np.testing.assert_allclose(g, 10 * np.cos(x3) * x3, rtol=1e-14)

    def test_vmap(self, rules):
        f = self.make(rules)
        np.testing.assert_allclose(wg.vmap(f)(x3, x3), np.sin(x3) * x3, rtol=1e-15)
        np.testing.assert_allclose(
            wg.vmap(wg.grad(f), (0, None))(x3, 2.0), 20 * np.cos(x3), rtol=1e-14
        )

    def test_derivative_through_vmap(self, rules):
        f = self.make(rules)
        g = lambda x, y: np.sum(wg.vmap(f, (0, None))(x, y))
        gx, gy = wg.grad(g, (0, 1))(x3, 2.0)
        np.testing.assert_allclose(gx, 20 * np.cos(x3), rtol=1e-14)
        np.testing.assert_allclose(gy, 10 * np.sum(np.sin(x3)), rtol=1e-14)
        _, t = wg.jvp(g, (x3, 2.0), (np.ones(3), 1.0))
        np.testing.assert_allclose(t, np.sum(20 * np.cos(x3) + 10 * np.sin(x3)), rtol=1e-14)

    def test_inside_checkpoint(self, rules):
        f = self.make(rules)
        g = wg.grad(lambda x: np.sum(wg.checkpoint(f)(x, x3)))(x3)
        np.testing.assert_allclose(g, 10 * np.cos(x3) * x3, rtol=1e-14)

    def test_linearize_and_jacobian(self, rules):
        f = self.make(rules)
        np.testing.assert_allclose(
            wg.linearize(f, 0.5, 2.0)[1](1.0, 0.0), 20 * np.cos(0.5), rtol=1e-14
        )
        for made in (wg.jacfwd, wg.jacrev):
            got = made(lambda x: f(x, x3))(x3)
            np.testing.assert_allclose(got, np.diag(10 * np.cos(x3) * x3), rtol=1e-14)

    def test_tensor(self, rules):
        f = self.make(rules)
        x = wg.tensor(x3, requires_grad=True)
        np.sum(f(x, x3)).backward()
        np.testing.assert_allclose(x.grad.numpy(), 10 * np.cos(x3) * x3, rtol=1e-14)

    def test_check_grads_finds_the_factor(self, rules):
        with pytest.raises(CheckGradsError):
            wg.check_grads(self.make(rules), (0.5, 2.0))

    def test_float32(self, rules):
        f = self.make(rules)
        x = x3.astype(np.float32)
        assert wg.grad(lambda x: np.sum(f(x, x)))(x).dtype == np.float32


class TestCustomRuleDetails:
    def test_control_flow_in_function_and_rule(self):
        def rule(x):
            if x > 0:
                return x * 2.0, lambda g: (g * 7.0,)
            return x, lambda g: (g * -7.0,)

        @wg.custom_rule(vjp=rule)
        def f(x):
            return x * 2.0 if x > 0 else x

        assert wg.grad(f)(1.0) == 7.0
        assert wg.grad(f)(-1.0) == -7.0
        assert wg.jvp(f, (-1.0,), (2.0,)) == (-1.0, -14.0)
        assert wg.grad(lambda x: f(f(x)))(1.0) == 49.0

    def test_trees(self):
        def rule(p, s):
            return {"y": p["a"] * s}, lambda g: ({"a": g["y"] * s * 3.0}, g["y"] * p["a"] * 3.0)

        f = wg.custom_rule(vjp=rule)(lambda p, s: {"y": p["a"] * s})
        loss = lambda p, s: f(p, s)["y"]
        assert wg.grad(loss, (0, 1))({"a": 2.0}, 5.0) == ({"a": 15.0}, 6.0)
        assert wg.jvp(loss, ({"a": 2.0}, 5.0), ({"a": 1.0}, 1.0)) == (10.0, 21.0)

    def test_several_results_of_which_one_is_used(self):
        f = wg.custom_rule(vjp=lambda x: ((x, x * x), lambda g: (g[0] + 20.0 * g[1] * x,)))(
            lambda x: (x, x * x)
        )
        assert wg.grad(lambda x: f(x)[1])(3.0) == 60.0
        assert wg.grad(lambda x: f(x)[0])(3.0) == 1.0
        assert wg.grad(lambda x: f(x)[0] + f(x)[1])(3.0) == 61.0

    def test_integer_argument(self):
        f = wg.custom_rule(vjp=lambda x, n: (x**n, lambda g: (g * 100.0, 0)))(lambda x, n: x**n)
        assert wg.grad(f)(2.0, 3) == 100.0

    def test_none_is_a_zero_cotangent(self):
        rule = lambda p, n, s: (p["a"] * n * s, lambda g: (None, None, g * 5.0))
        f = wg.custom_rule(vjp=rule)(lambda p, n, s: p["a"] * n * s)
        assert wg.grad(f, (0, 2))({"a": 2.0, "b": 1.0}, 3, 7.0) == ({"a": 0.0, "b": 0.0}, 5.0)
        assert wg.jvp(lambda s: f({"a": 2.0}, 3, s), (7.0,), (1.0,)) == (42.0, 5.0)

    def test_keywords_become_positions(self):
        @wg.custom_rule(jvp=lambda p, t: (p[0] * p[1] * p[2], t[0] * 100.0))
        def f(x, scale=2.0, power=1.0):
            return x * scale * power

        assert wg.value_and_grad(lambda x: f(x, power=3.0))(5.0) == (30.0, 100.0)
        assert f(5.0, power=3.0) == 30.0

    def test_rule_of_a_rule(self):
        inner = wg.custom_rule(jvp=lambda p, t: (np.sin(p[0]), 5.0 * t[0] * np.cos(p[0])))(np.sin)
        outer = wg.custom_rule(jvp=lambda p, t: (inner(p[0]), t[0] * inner(p[0])))(
            lambda x: inner(x)
        )
        np.testing.assert_allclose(wg.grad(outer)(0.5), np.sin(0.5), rtol=1e-15)
        np.testing.assert_allclose(wg.grad(wg.grad(outer))(0.5), 5 * np.cos(0.5), rtol=1e-15)

    def test_numpy_code_that_is_not_traceable_in_the_function(self):
        # the function itself runs on what the arguments hold: the rule decides the derivative
        @wg.custom_rule(vjp=lambda x: (x * x, lambda g: (2.0 * g * x,)))
        def f(x):
            return np.square(np.asarray(x))

        np.testing.assert_array_equal(wg.grad(lambda x: np.sum(f(x)))(x3), 2 * x3)

    def test_captured_traced_value(self):
        def f(x):
            g = wg.custom_rule(vjp=f_vjp)(lambda y, z: y * z * x)
            return wg.grad(g)(1.0, 1.0)

        with pytest.raises(DerivativeError) as caught:
            wg.grad(lambda x: f(x) * x)(2.0)
        assert str(caught.value) == (
            "custom_rule: <lambda> uses a traced value from outside, whose derivative its rule "
            "cannot know. Pass the value as an argument."
        )

    def test_wrong_number_of_cotangents(self):
        f = wg.custom_rule(vjp=lambda x, y: (x * y, lambda g: (g,)))(lambda x, y: x * y)
        with pytest.raises(StructureError) as caught:
            wg.grad(f)(1.0, 2.0)
        assert str(caught.value) == (
            "custom_rule: the vjp of <lambda> gave 1 cotangents, expected 2. "
            "Return one for each value."
        )

    def test_wrong_shape(self):
        f = wg.custom_rule(jvp=lambda p, t: (p[0], np.sum(t[0])))(lambda x: x * 1.0)
        with pytest.raises(ShapeError) as caught:
            wg.jvp(f, (x3,), (x3,))
        assert str(caught.value) == (
            "custom_rule: the jvp of <lambda> gave a tangent of shape (), expected (3,)."
        )

    def test_no_rule(self):
        with pytest.raises(StructureError) as caught:
            wg.custom_rule()
        assert str(caught.value) == "custom_rule: got no rule. Give jvp=, vjp=, or both."
        with pytest.raises(StructureError) as caught:
            wg.custom_rule(jvp=3)
        assert str(caught.value) == (
            "custom_rule: rules must be functions. Write @custom_rule(jvp=rule)."
        )

    def test_name_and_docstring_stay(self):
        @wg.custom_rule(vjp=f_vjp)
        def named(x, y):
            """Doc."""
            return x * y

        assert (named.__name__, named.__doc__) == ("named", "Doc.")


class TestStopGradient:
    def test_value_without_derivative(self):
        assert wg.stop_gradient(3.0) == 3.0
        assert wg.value_and_grad(lambda x: wg.stop_gradient(x) * x)(3.0) == (9.0, 3.0)
        assert wg.jvp(lambda x: wg.stop_gradient(x) * x, (3.0,), (1.0,))[1] == 3.0
        assert wg.grad(wg.grad(lambda x: wg.stop_gradient(x) * x * x))(3.0) == 6.0

    def test_only_the_stopped_path(self):
        assert wg.grad(lambda x: wg.stop_gradient(x * x) + x)(3.0) == 1.0

    def test_arrays_dtypes_vmap(self):
        np.testing.assert_array_equal(wg.vmap(wg.stop_gradient)(x3), x3)
        assert wg.stop_gradient(np.arange(3)).dtype == np.int64
        assert wg.grad(lambda x: np.sum(x * (wg.stop_gradient(x > 0.2))))(x3)[0] == 0.0

    def test_all_levels(self):
        # stops every derivative, the outer ones too
        f = lambda x: wg.grad(lambda y: y * wg.stop_gradient(x * y))(x)
        assert f(3.0) == 9.0
        assert wg.grad(f)(3.0) == 0.0

    def test_it_allows_numbers_to_be_taken_out(self):
        assert wg.grad(lambda x: x * float(wg.stop_gradient(x)))(3.0) == 3.0

    def test_trees(self):
        f = lambda p: p["a"] * wg.stop_gradient(p)["a"]
        assert wg.grad(f)({"a": 3.0, "none": None}) == {"a": 3.0, "none": None}
