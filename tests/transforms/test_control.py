"""`scan`: evaluated, in both modes, nested, batched, with checkpoints; and its errors."""

import doctest
import tracemalloc

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert.errors import AbstractValueError, DTypeError, ShapeError, StructureError
from wengert.graph import verify
from wengert.ops import REGISTRY
from wengert.transforms import control

rng = np.random.default_rng(7)
W = rng.normal(size=(3, 3)) / 2
U = rng.normal(size=(2, 3)) / 2
H0 = rng.normal(size=3)
XS = rng.normal(size=(7, 2))


def unrolled(body, init, xs=None, length=None, reverse=False, checkpoint=None):
    """What scan means, as a Python loop."""
    steps = range(len(wg.tree.leaves(xs)[0]) if length is None else length)
    carry, ys = init, {}
    for t in reversed(steps) if reverse else steps:
        carry, ys[t] = body(carry, wg.tree.map(lambda x, t=t: x[t], xs))
    return carry, wg.tree.map(lambda *rows: wnp.stack(rows), *[ys[t] for t in steps])


def rnn(scan, **options):
    """A function of all that a loop can depend on: constants, the first carry, the rows."""

    def f(w, u, h, xs):
        def body(carry, x):
            h, total = carry
            new = wnp.tanh(w @ h + x @ u)
            return (new, total + wnp.sum(new**2)), {"h": new, "x": x * total}

        (h, total), ys = scan(body, (h, wnp.sum(h)), xs, **options)
        return wnp.sum(h) + total * wnp.mean(ys["h"] * wnp.cos(ys["h"])) + wnp.sum(ys["x"])

    return f


ARGUMENTS = (W, U, H0, XS)
EVERY = (0, 1, 2, 3)
OPTIONS = [{}, {"reverse": True}, *[{"checkpoint": k} for k in (1, 2, 3, 7, 100)]]
OPTIONS += [{"checkpoint": 3, "reverse": True}]


def assert_same(got, want, tolerance=1e-12):
    got, want = wg.tree.leaves(got), wg.tree.leaves(want)
    for one, other in zip(got, want, strict=True):
        assert np.result_type(one) == np.result_type(other)
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


class TestEvaluated:
    def test_as_a_python_loop(self):
        body = lambda c, x: ((c[0] * 2 + x, c[1] + 1), (c[0], {"double": 2 * x}))
        for reverse in (False, True):
            got = wg.scan(body, (np.zeros(2), 0), XS, reverse=reverse)
            assert_same(got, unrolled(body, (np.zeros(2), np.int64(0)), XS, reverse=reverse))

    def test_without_rows(self):
        carry, ys = wg.scan(lambda c, x: (c * 2, c if x is None else 0), 1.0, length=5)
        assert carry == 32
        np.testing.assert_array_equal(ys, [1, 2, 4, 8, 16])
        assert wg.scan(lambda c, _: (c, None), 3.0, length=2) == (3.0, None)

    def test_no_steps(self):
        carry, ys = wg.scan(lambda c, x: (c + x, c), np.ones(2), np.zeros((0, 2)))
        np.testing.assert_array_equal(carry, [1, 1])
        assert ys.shape == (0, 2)
        for k in (None, 2):
            f = lambda h, k=k: np.sum(
                wg.scan(lambda c, _: (c * c, c), h, length=0, checkpoint=k)[0]
            )
            np.testing.assert_array_equal(wg.grad(f)(H0), np.ones(3))

    def test_python_numbers_take_on_a_type(self):
        xs = np.ones(3, np.float32)
        carry, ys = wg.scan(lambda c, x: (c + x, c), 0, xs)
        assert carry.dtype == ys.dtype == np.float32
        carry, _ = wg.scan(lambda c, x: (0.0, None), np.float32(1), xs)
        assert carry.dtype == np.float32

    def test_the_result_is_no_view_of_an_argument(self):
        xs = np.ones((2, 3))
        carry, _ = wg.scan(lambda c, x: (x, None), np.zeros(3), xs)
        carry += 1
        np.testing.assert_array_equal(xs, 1)
        with pytest.raises(wg.errors.MutationError):
            wg.scan(lambda c, x: (c.__iadd__(x), None), np.zeros(3), xs)

    def test_a_body_that_looks_at_values(self):
        def body(c, x):
            return (c + x if x > 0 else c), (c if c > 1 else x)

        xs = np.array([1.0, -2.0, 3.0])
        for reverse in (False, True):
            assert_same(
                wg.scan(body, np.float64(0.5), xs, reverse=reverse),
                unrolled(body, np.float64(0.5), xs, reverse=reverse),
            )
        np.testing.assert_array_equal(wg.grad(lambda xs: wg.scan(body, 0.5, xs)[0])(xs), [1, 0, 1])
        want = unrolled(body, np.float64(0.5), xs)
        assert_same(wg.jit(lambda xs: wg.scan(body, 0.5, xs))(xs), want)
        with pytest.raises(AbstractValueError):
            wg.jit(lambda xs: wg.scan(body, 0.5, xs), control="trace")(xs)

    def test_the_graph_is_valid(self):
        graph = verify(wg.trace(rnn(wg.scan), *ARGUMENTS))
        assert_same(graph(*ARGUMENTS), rnn(unrolled)(*ARGUMENTS))


class TestDerivatives:
    @pytest.mark.parametrize("options", OPTIONS, ids=str)
    def test_gradient(self, options):
        got = wg.value_and_grad(rnn(wg.scan, **options), EVERY)(*ARGUMENTS)
        options = {"reverse": options.get("reverse", False)}
        assert_same(got, wg.value_and_grad(rnn(unrolled, **options), EVERY)(*ARGUMENTS))

    @pytest.mark.parametrize("options", OPTIONS, ids=str)
    def test_finite_differences(self, options):
        wg.check_grads(rnn(wg.scan, **options), ARGUMENTS, order=2)

    @pytest.mark.parametrize("argument", range(4))
    def test_by_one_argument(self, argument):
        got = wg.grad(rnn(wg.scan), argument)(*ARGUMENTS)
        assert_same(got, wg.grad(rnn(unrolled), argument)(*ARGUMENTS))

    def test_third_order(self):
        f = lambda x: wg.scan(lambda c, _: (wnp.sin(c) * x, c), x, length=4)[0]
        g = lambda x: unrolled(lambda c, _: (wnp.sin(c) * x, c), x, length=4)[0]
        third = lambda f: wg.grad(wg.grad(wg.grad(f)))(0.7)
        np.testing.assert_allclose(third(f), third(g), rtol=1e-12)

    @pytest.mark.parametrize("options", OPTIONS, ids=str)
    @pytest.mark.parametrize("argument", range(4))
    def test_forward_over_reverse(self, options, argument):
        """What the pullback reads of a step has a tangent too."""

        def product(scan, **options):
            def f(value):
                arguments = [*ARGUMENTS[:argument], value, *ARGUMENTS[argument + 1 :]]
                return rnn(scan, **options)(*arguments)

            return wg.hvp(f, ARGUMENTS[argument], np.cos(ARGUMENTS[argument]))

        got = product(wg.scan, **options)
        assert_same(got, product(unrolled, reverse=options.get("reverse", False)), 1e-11)

    def test_forward_over_reverse_over_forward(self):
        def third(scan):
            f = lambda x: scan(lambda c, x: (wnp.sin(c) * x, c * x), x[0], x)[0]
            slope = lambda x: wg.jvp(f, (x,), (np.ones(4),))[1]
            return wg.jvp(wg.grad(slope), (XS[0, :1] * np.arange(1.0, 5),), (np.arange(4.0),))

        assert_same(third(wg.scan), third(unrolled), 1e-11)

    @pytest.mark.parametrize("transform", [wg.hessian, wg.jacfwd, wg.jacrev])
    @pytest.mark.parametrize("options", [{}, {"checkpoint": 3}], ids=str)
    def test_matrices(self, transform, options):
        got = transform(rnn(wg.scan, **options), 2)(*ARGUMENTS)
        assert_same(got, transform(rnn(unrolled), 2)(*ARGUMENTS), 1e-11)

    def test_linearize(self):
        f, g = (lambda h: rnn(wg.scan)(W, U, h, XS)), (lambda h: rnn(unrolled)(W, U, h, XS))
        assert_same(wg.linearize(f, H0)[1](XS[0, 0] * H0), wg.linearize(g, H0)[1](XS[0, 0] * H0))

    def test_linearize_repeats_the_linear_part_alone(self):
        f = lambda h: wg.scan(lambda h, _: (wnp.tanh(W @ h), h), h, length=5)
        calls = []

        @wg.custom_rule(jvp=lambda p, t: (np.tanh(p[0]), t[0] * (1 - np.tanh(p[0]) ** 2)))
        def counted(x):
            calls.append(x)
            return np.tanh(x)

        g = lambda h: wg.scan(lambda h, _: (counted(W @ h), h), h, length=5)
        _, derivative = wg.linearize(g, H0)
        before = len(calls)
        assert_same(derivative(H0), wg.jvp(f, (H0,), (H0,))[1])
        assert len(calls) == before

    def test_a_loop_in_a_loop(self):
        def nested(scan):
            def f(w, h, xs):
                def outer(c, x):
                    return scan(lambda c, w_row: (wnp.tanh(c * w_row + x[0]), c * x[1]), c, w)

                return wnp.sum(scan(outer, h, xs)[1] ** 2)

            return f

        arguments = (W, H0, XS)
        got = wg.value_and_grad(nested(wg.scan), (0, 1, 2))(*arguments)
        assert_same(got, wg.value_and_grad(nested(unrolled), (0, 1, 2))(*arguments))
        wg.check_grads(nested(wg.scan), arguments, order=2)

    def test_checkpoint_and_custom_rule_inside(self):
        @wg.custom_rule(jvp=lambda p, t: (np.sin(p[0]), 3 * np.cos(p[0]) * t[0]))
        def odd(x):
            return np.sin(x)

        def f(scan):
            inner = wg.checkpoint(lambda c, x: wnp.tanh(c * x) * x)
            return lambda h, xs: wnp.sum(
                scan(lambda c, x: (inner(odd(c), x[0]), c), h, xs)[1] * XS[:, :1]
            )

        got = wg.grad(f(wg.scan), (0, 1))(H0, XS)
        assert_same(got, wg.grad(f(unrolled), (0, 1))(H0, XS))

    def test_a_loop_in_a_custom_rule_is_transposed(self):
        def decay(x):
            return wg.scan(lambda c, x: (0.5 * c + x, c), x[0], x)[1]

        @wg.custom_rule(jvp=lambda p, t: (decay(p[0]), decay(t[0])))
        def rule(x):
            return decay(x)

        x = rng.normal(size=5)
        assert_same(wg.jacrev(rule)(x), wg.jacfwd(decay)(x))

    def test_integers_and_flags_in_the_carry(self):
        def f(x):
            def body(carry, row):
                c, count, seen = carry
                return (c * row + count, count + 1, seen | (row > 0)), (count, c)

            (c, _, seen), (counts, cs) = wg.scan(body, (x[0], 0, np.bool_(False)), x)
            return c + wnp.sum(cs * counts) + wnp.where(seen, x[1], 0.0)

        wg.check_grads(f, (rng.normal(size=4),), order=2)

    def test_zeros_are_no_places_for_nan(self):
        f = lambda x: wg.scan(lambda c, _: (wnp.sqrt(c * c), c), x, length=3)[0]
        assert wg.grad(f)(0.0) == 0


class TestBatched:
    @pytest.mark.parametrize("options", [{}, {"reverse": True}, {"checkpoint": 2}], ids=str)
    @pytest.mark.parametrize("which", [(0,), (1,), (2,), (3,), EVERY], ids=str)
    def test_vmap(self, options, which):
        f = rnn(wg.scan, **options)
        stacked = [np.stack([a, -a, a * a]) if n in which else a for n, a in enumerate(ARGUMENTS)]
        axes = tuple(0 if n in which else None for n in EVERY)
        rows = [[a[k] if n in which else a for n, a in enumerate(stacked)] for k in range(3)]
        np.testing.assert_allclose(
            wg.vmap(f, axes)(*stacked), [f(*row) for row in rows], rtol=1e-12
        )
        per_sample = wg.vmap(wg.grad(f, EVERY), axes)(*stacked)
        wanted = [wg.grad(f, EVERY)(*row) for row in rows]
        for got, want in zip(per_sample, zip(*wanted, strict=True), strict=True):
            np.testing.assert_allclose(got, np.stack(want), rtol=1e-11, atol=1e-12)

    def test_derivative_of_a_batch(self):
        f = rnn(wg.scan)
        batch = np.stack([XS, -XS])
        total = lambda w: wnp.sum(wg.vmap(f, (None, None, None, 0))(w, U, H0, batch))
        want = sum(wg.grad(f)(W, U, H0, xs) for xs in batch)
        np.testing.assert_allclose(wg.grad(total)(W), want, rtol=1e-12)


class TestMemory:
    def peak(self, f, *args):
        f(*args)
        tracemalloc.start()
        f(*args)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    def test_gradients_of_weights_are_summed_not_stacked(self):
        w, h, steps = rng.normal(size=(200, 200)) / 15, np.ones(200), 200
        f = lambda w: wnp.sum(wg.scan(lambda h, _: (wnp.tanh(w @ h), None), h, length=steps)[0])
        assert self.peak(wg.grad(f), w) < 20 * w.nbytes  # stacked they would be 200

    def test_only_what_is_needed_is_kept(self):
        """Of tanh(w * h) the new h alone: 1 - h**2 is computed again, and h is its own result."""
        f = lambda h: wnp.sum(wg.scan(lambda h, _: (wnp.tanh(2 * h), None), h, length=100)[0])
        node = next(n for n in wg.trace(f, np.ones(1000)).operators if n.op.name == "scan")
        assert len(node.params["body"].graph.outputs) == 2

    def test_checkpoints(self):
        h, steps = np.ones(10_000), 100

        def f(h, **options):
            body = lambda h, _: (wnp.sin(wnp.cos(wnp.exp(-h))), None)
            return wnp.sum(wg.scan(body, h, length=steps, **options)[0])

        keep_all = self.peak(wg.grad(f), h)
        tenth = self.peak(wg.grad(lambda h: f(h, checkpoint=10)), h)
        assert keep_all > 3 * steps * h.nbytes
        assert tenth < 0.25 * keep_all

    def test_forward_mode_keeps_nothing(self):
        h, steps = np.ones(10_000), 100
        f = lambda h: wg.scan(lambda h, _: (wnp.sin(h) * h, None), h, length=steps)[0]
        assert self.peak(lambda h: wg.jvp(f, (h,), (h,)), h) < 30 * h.nbytes


class TestTensors:
    def test_captured_tensors(self):
        w, h = wg.tensor(W, requires_grad=True), wg.tensor(H0, requires_grad=True)
        xs = wg.tensor(XS, requires_grad=True)
        loss = rnn(wg.scan)(w, U, h, xs)
        loss.backward()
        want = wg.grad(rnn(unrolled), (0, 2, 3))(*ARGUMENTS)
        assert_same([w.grad.data, h.grad.data, xs.grad.data], list(want))

    def test_no_grad_keeps_nothing(self):
        w, h = wg.tensor(0.5, requires_grad=True), np.ones(100_000)
        f = lambda: wg.scan(lambda h, _: (wnp.sin(h) * w, None), h, length=20)[0]
        with wg.no_grad():
            assert TestMemory().peak(f) < 10 * h.nbytes
            assert not f().requires_grad
        assert TestMemory().peak(f) > 20 * h.nbytes

    def test_compiled_step(self):
        w = wg.tensor(W, requires_grad=True)

        @wg.jit
        def step(xs):
            w.grad = None
            loss = rnn(wg.scan)(w, U, H0, xs)
            loss.backward()
            with wg.no_grad():
                w[...] = w - 0.1 * w.grad
            return loss

        now = W
        for _ in range(3):
            loss, g = wg.value_and_grad(rnn(unrolled))(now, U, H0, XS)
            assert_same(float(step(XS)), float(loss))
            now = now - 0.1 * g
        np.testing.assert_allclose(w.data, now, rtol=1e-12)


class TestCompiled:
    @pytest.mark.parametrize("options", OPTIONS, ids=str)
    def test_gradient(self, options):
        function = wg.value_and_grad(rnn(wg.scan, **options), EVERY)
        assert_same(wg.jit(function)(*ARGUMENTS), function(*ARGUMENTS))


ERRORS = [
    (
        lambda: wg.scan(lambda c, x: ((c, c), None), np.zeros(2), XS),
        StructureError,
        r"scan \(at test_control.py:\d+\): the body was given the carry f64\[2\] and returned "
        r"\(f64\[2\], f64\[2\]\)\. Return a carry of the same structure, shapes and dtypes as "
        r"init\.",
    ),
    (
        lambda: wg.scan(lambda c, x: ({"h": c["h"].astype(np.float32)}, None), {"h": H0}, XS),
        StructureError,
        r"the carry \{'h': f64\[3\]\} and returned \{'h': f32\[3\]\}\. ",
    ),
    (
        lambda: wg.scan(lambda c, x: (c + x, None), 0.0, XS),
        StructureError,
        r"the carry f64\* and returned f64\[2\]\. ",
    ),
    (
        lambda: wg.scan(lambda c, x: c, 0.0, XS),
        StructureError,
        r"the body returned \*, expected a pair \(carry, y\)\. Return carry, None if there is no y",
    ),
    (
        lambda: wg.scan(lambda c, x: (c, None), 0.0, (XS, XS[1:])),
        ShapeError,
        r"xs and length ask for 6 and 7 steps\. Give arrays whose first axes have one length\.",
    ),
    (lambda: wg.scan(lambda c, x: (c, None), 0.0, XS, 3), ShapeError, "ask for 3 and 7 steps"),
    (
        lambda: wg.scan(lambda c, x: (c, None), 0.0, length=-1),
        ShapeError,
        "got length=-1, expected 0 or more",
    ),
    (
        lambda: wg.scan(lambda c, x: (c, None), 0.0),
        StructureError,
        r"got neither xs nor length\. Give the number of steps: length=10\.",
    ),
    (
        lambda: wg.scan(lambda c, x: (c, None), 0.0, 3.0),
        ShapeError,
        r"xs holds a number, expected arrays\. Give arrays with a row a step\.",
    ),
    (
        lambda: wg.scan(lambda c, x: (c, None), 0.0, XS, checkpoint=0),
        DTypeError,
        r"got checkpoint=0, expected a number of steps from 1 on\. Give checkpoint=10 to keep the "
        r"carry of every tenth step, or None to keep all\.",
    ),
    (
        lambda: wg.scan(lambda c, x: (c + 1 if c > 0 else c, None), np.float64(0), length=0),
        StructureError,
        r"the body decides by values and there are no steps to run it for\. Give xs with at least "
        r"one row, or use wnp.where in the body\.",
    ),
]


@pytest.mark.parametrize("call, kind, text", ERRORS)
def test_errors(call, kind, text):
    with pytest.raises(kind, match=text):
        call()


def test_examples():
    assert doctest.testmod(control).failed == 0
    assert "scan" in REGISTRY
