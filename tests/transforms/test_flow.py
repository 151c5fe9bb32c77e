"""`cond`, `switch`, `while_loop`, `fori_loop`: in every mode, beside Python's own control flow."""

import dataclasses
import doctest

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from flow_programs import POINTS, PROGRAMS, Python, W, X, assert_same
from wengert.errors import AbstractValueError, DTypeError, ShapeError, StructureError
from wengert.graph import verify
from wengert.transforms import flow


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
class TestEveryMode:
    def test_value_and_gradient(self, program):
        for x in POINTS:
            got = wg.value_and_grad(lambda *a: program(wg, *a), (0, 1))(W, x)
            assert_same(got, wg.value_and_grad(lambda *a: program(Python, *a), (0, 1))(W, x))

    def test_finite_differences(self, program):
        wg.check_grads(lambda *a: program(wg, *a), (W, POINTS[2]), order=2, tolerance=1e-5)

    def test_forward(self, program):
        for x in POINTS:
            tangents = (np.cos(W), np.sin(x))
            got = wg.jvp(lambda *a: program(wg, *a), (W, x), tangents)
            assert_same(got, wg.jvp(lambda *a: program(Python, *a), (W, x), tangents))

    def test_hessian(self, program):
        for x in POINTS:
            for second in (
                wg.hessian,
                lambda f: wg.jacrev(wg.grad(f)),
                lambda f: wg.jacrev(wg.jacfwd(f)),
            ):
                got = second(lambda x: program(wg, W, x))(x)
                assert_same(got, second(lambda x: program(Python, W, x))(x), 1e-9)

    def test_third_order(self, program):
        third = lambda lib: wg.jacfwd(wg.hessian(lambda x: program(lib, W, x)))(X)
        assert_same(third(wg), third(Python), 1e-8)

    def test_vmap(self, program):
        xs = np.stack(POINTS)
        gradient = lambda lib, w, x: wg.grad(lambda x: program(lib, w, x))(x)
        for f in (program, gradient):
            got = wg.vmap(lambda x, f=f: f(wg, W, x))(xs)
            assert_same(got, np.stack([f(Python, W, x) for x in xs]))
        ws = np.stack([W, W / 2, W.T])
        got = wg.vmap(lambda w, x: program(wg, w, x), in_axes=(0, None))(ws, X)
        assert_same(got, np.stack([program(Python, w, X) for w in ws]))

    def test_gradient_of_vmap(self, program):
        xs = np.stack(POINTS)
        got = wg.grad(lambda w: np.sum(wg.vmap(lambda x: program(wg, w, x))(xs)))(W)
        assert_same(got, sum(wg.grad(lambda w, x=x: program(Python, w, x))(W) for x in xs), 1e-10)

    def test_the_graph_is_valid(self, program):
        graph = verify(wg.trace(lambda *a: program(wg, *a), W, X))
        assert_same(graph(W, -X), program(Python, W, -X))
        assert "switch" in str(graph) or "while" in str(graph)

    def test_compiled(self, program):
        compiled = wg.jit(lambda *a: program(wg, *a))
        for x in POINTS:
            assert_same(compiled(W, x), program(Python, W, x))


class TestBranches:
    def test_the_index_is_clamped(self):
        take = lambda n: wg.switch(n, [lambda: 0, lambda: 1, lambda: 2])
        for f in (take, wg.jit(take)):
            assert [f(n) for n in (-5, 0, 1, 2, 9)] == [0, 0, 1, 2, 2]
        assert wg.vmap(take)(np.array([-5, 0, 1, 2, 9])).tolist() == [0, 0, 1, 2, 2]

    def test_trees(self):
        @dataclasses.dataclass
        class Point:
            x: float
            y: float

        swap = lambda p: Point(p.y, p.x)
        got = wg.cond(np.bool_(True), swap, lambda p: p, Point(2.0, 1.0))
        assert isinstance(got, Point)
        assert (got.x, got.y) == (1.0, 2.0)
        got = wg.cond(False, lambda p: p, lambda p: p, None)
        assert got is None

    def test_python_numbers_stay_what_they_are(self):
        x = np.ones(2, np.float32)
        for f in (lambda b, x: wg.cond(b, lambda: 1.5, lambda: 2) * x,):
            for one in (f, wg.jit(f)):
                assert one(True, x).dtype == np.float32
        got = wg.cond(True, lambda x: x, lambda x: 0, x[0])
        assert got.dtype == np.float32

    def test_a_nan_of_the_other_branch_does_not_reach_the_derivative(self):
        f = lambda x: wg.cond(x > 0, lambda x: wnp.sqrt(x) * wnp.log(x), lambda x: x * 2, x)
        xs = np.array([-1.0, 0.0, 4.0])
        want = [2, 2, 1 / 2 / 2 * np.log(4) + 2 / 4]
        np.testing.assert_allclose(wg.vmap(wg.grad(f))(xs), want)
        np.testing.assert_allclose(wg.grad(lambda xs: np.sum(wg.vmap(f)(xs)))(xs), want)

    def test_a_branch_that_looks_at_values(self):
        look = lambda x: x if x > 0 else -x
        assert wg.cond(True, look, look, -3.0) == 3
        assert wg.grad(lambda x: wg.cond(x < 0, look, look, x))(-3.0) == -1
        batched = wg.vmap(lambda x: wg.cond(x < 0, look, look, x))
        np.testing.assert_array_equal(batched(X), np.abs(X))
        with pytest.raises(AbstractValueError):
            wg.jit(batched, control="trace")(X)

    def test_what_a_branch_does_to_values_from_outside_is_done_in_the_branch(self):
        def f(x, n):
            y = x * 2
            tail = y[1:]
            y[1] = 7.0
            return wg.cond(n < 3, lambda: x[n] + tail[0], lambda: 0.0)

        for g in (f, wg.jit(f)):
            assert g(X, 1) == X[1] + 7
            assert g(X, 5) == 0
        graph = wg.trace(f, X, 1)
        assert "gather" not in [node.op.name for node in graph.operators]

    def test_writing_to_an_array_from_outside(self):
        def f(x):
            y = x * 2

            def write():
                y[0] = x[1]
                return 0

            wg.cond(x[0] > 0, write, write)
            return y

        with pytest.raises(wg.errors.MutationError):
            wg.jit(f)(X)


class TestLoops:
    def test_no_turns(self):
        never = lambda x: wg.while_loop(lambda s: s < 0, lambda s: s * 2, x)
        assert never(3.0) == 3
        assert wg.grad(never)(3.0) == 1
        assert wg.fori_loop(3, 1, lambda i, s: s * 0, 5.0) == 5

    def test_python_numbers_take_on_a_type(self):
        x = np.ones(2, np.float32)
        got = wg.fori_loop(0, 3, lambda i, s: s * i + x, x)
        assert got.dtype == np.float32
        n, total = wg.while_loop(
            lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] + x[0] * s[0]), (0, 0)
        )
        assert n == 3
        assert type(n) is int
        assert total.dtype == np.float32
        assert total == 3

    def test_derivatives_of_single_precision_beside_python_numbers(self):
        x = np.array([0.5, 0.25], np.float32)
        f = lambda x: np.sum(np.tanh(wg.fori_loop(1, 4, lambda i, s: s + x * i, x)))
        hvp = lambda x, v: wg.jvp(wg.grad(f), (x,), (v,))[1]
        for function, *args in ((wg.grad(f), x), (hvp, x, x)):
            want = function(*args)
            assert want.dtype == np.float32
            np.testing.assert_allclose(wg.jit(function)(*args), want, rtol=1e-5)
            np.testing.assert_allclose(function(*map(np.float64, args)), want, rtol=1e-5)

    def test_batches_of_different_lengths_read_no_place_that_is_not_there(self):
        x = np.arange(5.0)
        f = lambda n, x: wg.fori_loop(n, 5, lambda i, s: s + x[i], 0.0)
        got = wg.vmap(f, in_axes=(0, None))(np.array([0, 2, 5]), x)
        np.testing.assert_array_equal(got, [10, 9, 0])
        inside = lambda n, x: wg.cond(n < 5, lambda: x[n], lambda: 0.0)
        got = wg.vmap(inside, in_axes=(0, None))(np.array([0, 2, 5]), x)
        np.testing.assert_array_equal(got, [0, 2, 0])

    def test_a_body_that_looks_at_values(self):
        turn = lambda s: s * 2 if s > 1 else s + 1
        assert wg.while_loop(lambda s: s < 10, turn, 0.5) == 12
        assert wg.grad(lambda x: wg.while_loop(lambda s: s < 10, turn, x))(0.5) == 8
        assert wg.fori_loop(0, 3, lambda i, s: turn(s), 0.5) == 6


class TestErrors:
    @pytest.mark.parametrize(
        "call, error, text",
        [
            (
                lambda: wg.cond(True, lambda: (1.0, 2), lambda: [1.0, 2]),
                StructureError,
                r"cond \(at .*\): false_f returned \[f64\*, i64\*\] and true_f \(f64\*, i64\*\). "
                r"Return trees of the same structure from all branches.",
            ),
            (
                lambda: wg.cond(True, lambda: {"a": X}, lambda: {"a": X[:2]}),
                StructureError,
                r"the result\['a'\] is f64\[2\] from false_f and f64\[3\] from true_f. Return",
            ),
            (
                lambda: wg.switch(0, [lambda: X, lambda: X, lambda: X > 0]),
                StructureError,
                r"the result is f64\[3\] from branch 0 and bool\[3\] from branch 2. Return",
            ),
            (lambda: wg.cond(X > 0, abs, abs, 1.0), ShapeError, r"pred is bool\[3\], expected one"),
            (lambda: wg.cond(True, 1, abs, 1.0), DTypeError, r"true_f is 1, expected a function"),
            (lambda: wg.switch(1.5, [abs], 1.0), DTypeError, r"the index is f64\*, expected one"),
            (lambda: wg.switch(1, []), DTypeError, r"got 0 branches of which 0 are functions"),
            (
                lambda: wg.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1][:2]), (0, X)),
                StructureError,
                r"while_loop \(at .*\): the state\[1\] is f64\[3\] before a turn and f64\[2\] "
                r"after it. Return a state of the same structure, shapes and dtypes as init.",
            ),
            (
                lambda: wg.while_loop(lambda s: s < 3, lambda s: s + 0.5, np.int32(0)),
                StructureError,
                r"the state is i32 before a turn and f64 after it. .* begin with an init of dtype "
                r"float64, or convert with astype.",
            ),
            (
                lambda: wg.while_loop(lambda s: s[0] < 3, lambda s: s[0], (0.0,)),
                StructureError,
                r"the body was given \(f64\*,\) and returned f64\*. Return a state",
            ),
            (
                lambda: wg.while_loop(lambda s: s < 3, lambda s: s + 1, X),
                ShapeError,
                r"cond_f returned bool\[3\], expected one truth value. Use wnp.any or wnp.all.",
            ),
            (
                lambda: wg.fori_loop(0, 3, lambda i, s: {"y": s["y"][:1]}, {"y": X}),
                StructureError,
                r"fori_loop \(at .*\): the state\['y'\] is f64\[3\] before a turn and f64\[1\]",
            ),
            (
                lambda: wg.fori_loop(0, 3, lambda i, s: (s, s), 1.0),
                StructureError,
                r"the body was given f64\* and returned \(f64\*, f64\*\)",
            ),
            (
                lambda: wg.fori_loop(0, 3.0, lambda i, s: s, 1.0),
                DTypeError,
                r"hi is f64\*, expected one integer",
            ),
            (
                lambda: wg.while_loop(lambda s: False, lambda s: s, "text"),
                DTypeError,
                r"while_loop: argument 'init' holds 'text'",
            ),
        ],
    )  # fmt: skip
    def test_text(self, call, error, text):
        with pytest.raises(error, match=text):
            call()


def test_examples():
    assert doctest.testmod(flow).failed == 0
