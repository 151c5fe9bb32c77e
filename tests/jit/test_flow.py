"""Branches and loops of unknown length in compiled programs."""

import os
import signal
import threading
import time

import numpy as np
import pytest

import wengert as wg
from flow_programs import POINTS, PROGRAMS, Python, W, X, assert_same
from wengert.errors import OutOfRangeError
from wengert.loops import Branch, Loop, inside


def is_native(compiled, *args):
    """Whether no operation is left to NumPy."""
    return "all of it is native code" in str(compiled.explain(*args))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
class TestEveryMode:
    def test_value(self, program):
        compiled = wg.jit(lambda *a: program(wg, *a))
        for x in POINTS:
            assert_same(compiled(W, x), program(Python, W, x))
        assert is_native(compiled, W, X)

    def test_forward(self, program):
        push = lambda lib: lambda x, t: wg.jvp(lambda x: program(lib, W, x), (x,), (t,))
        compiled = wg.jit(push(wg))
        for x in POINTS:
            assert_same(compiled(x, np.cos(x)), push(Python)(x, np.cos(x)))
        assert is_native(compiled, X, X)
        kernels = compiled.program(X, X).stages.loops.kernels
        own = wg.jit(lambda x: program(wg, W, x)).program(X).stages.loops.kernels
        loops = lambda kernels: sum(isinstance(k, (Loop, Branch)) for k in kernels)
        assert loops(kernels) == loops(own)  # the values are those of the loop over tangents

    def test_gradient(self, program):
        pull = lambda lib: wg.value_and_grad(lambda *a: program(lib, *a), (0, 1))
        compiled = wg.jit(pull(wg))
        for x in POINTS:
            assert_same(compiled(W, x), pull(Python)(W, x))
        assert is_native(compiled, W, X)

    def test_second_order(self, program):
        for second in (wg.hessian, lambda f: wg.jacrev(wg.grad(f))):
            compiled = wg.jit(second(lambda x: program(wg, W, x)))
            for x in POINTS[::2]:
                assert_same(compiled(x), second(lambda x: program(Python, W, x))(x), 1e-9)

    def test_batches(self, program):
        xs = np.stack(POINTS)
        gradient = lambda lib, x: wg.grad(lambda x: program(lib, W, x))(x)
        for f in (lambda lib, x: program(lib, W, x), gradient):
            compiled = wg.jit(wg.vmap(lambda x, f=f: f(wg, x)))
            assert_same(compiled(xs), np.stack([f(Python, x) for x in xs]))
            assert is_native(compiled, xs)


class TestBlocks:
    """Loops whose samples have turns of their own number run block by block."""

    @staticmethod
    def root(x):
        y, n = wg.while_loop(
            lambda s: np.abs(s[0] * s[0] - x) > 1e-10 * x,
            lambda s: ((s[0] + x / s[0]) / 2, s[1] + 1),
            (x, 0),
        )
        return wg.cond(y > 2, lambda: np.log(y), lambda: y * y) + n

    @pytest.mark.parametrize("count", [1, 63, 128, 255, 256, 1000, 10_001])
    def test_any_number_of_samples(self, count):
        x = np.exp(np.random.default_rng(1).normal(size=count) * 3)
        push = lambda x: wg.jvp(self.root, (x,), (1.0,))
        for f in (self.root, push):
            compiled = wg.jit(wg.vmap(f))
            assert_same(compiled(x), wg.vmap(f)(x))
            text = str(compiled.explain(x).loops)
            assert ("for block" in text) is (count >= 256)
            assert text.count("while") == (1 + (count % 128 > 0) if count >= 256 else 1)

    def test_samples_of_vectors_and_shared_arrays(self):
        rng = np.random.default_rng(2)
        a, b = rng.normal(size=(3, 3)) / 3, rng.normal(size=(500, 3))

        def f(a, b):
            turn = lambda s: (np.tanh(a @ s[0] + b), s[0])
            far = lambda s: np.max(np.abs(s[0] - s[1])) > 1e-9
            return wg.while_loop(far, turn, (b, b + 1))[0]

        compiled = wg.jit(wg.vmap(f, in_axes=(None, 0)))
        assert_same(compiled(a, b), wg.vmap(f, in_axes=(None, 0))(a, b))
        assert "for block" in str(compiled.explain(a, b).loops)

    def test_an_index_out_of_range(self):
        x, n = np.arange(5.0), np.arange(1000) % 6
        f = lambda x, n: wg.fori_loop(n, 5, lambda i, s: s + x[i], 0.0)
        compiled = wg.jit(wg.vmap(f, in_axes=(None, 0)))
        assert_same(compiled(x, n), wg.vmap(f, in_axes=(None, 0))(x, n))
        with pytest.raises(OutOfRangeError):
            compiled(x[:4], n)


class TestLoops:
    def test_an_index_out_of_range(self):
        def f(x, n):
            def turn(s):
                i, total = s
                return i + 1, total + x[i]

            return wg.while_loop(lambda s: s[0] < n, turn, (0, 0.0))[1]

        compiled = wg.jit(f)
        assert compiled(X, 3) == pytest.approx(X.sum())
        assert compiled(X, 0) == 0
        for _ in range(2):
            with pytest.raises(OutOfRangeError, match="index 3 for an axis of length 3"):
                compiled(X, 4)
        assert compiled(X, 2) == pytest.approx(X[:2].sum())

    def test_an_index_out_of_range_in_a_branch(self):
        compiled = wg.jit(lambda x, n: wg.cond(n < 5, lambda: x[n], lambda: 0.0))
        assert compiled(X, 7) == 0
        assert compiled(X, 2) == X[2]
        with pytest.raises(OutOfRangeError, match="index 3 for an axis of length 3"):
            compiled(X, 3)

    def test_any_number_of_turns_is_compiled_alike(self):
        f = wg.jit(lambda n: wg.fori_loop(0, n, lambda i, s: s + 1.0 / (1 + i), 0.0))
        for n in (0, 1, 10, 10**6):
            assert f(n) == pytest.approx(np.sum(1 / np.arange(1.0, n + 1)))

    @pytest.mark.parametrize("inside", [False, True])
    def test_ctrl_c_ends_an_endless_loop(self, inside):
        endless = lambda x: wg.while_loop(lambda s: s > 0, lambda s: s + 0.0, x)
        f = wg.jit(
            (lambda x: wg.fori_loop(0, 10, lambda i, s: endless(s), x)) if inside else endless
        )
        assert f(-1.0) == -1
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        start = time.perf_counter()
        with pytest.raises(KeyboardInterrupt):
            f(1.0)
        assert time.perf_counter() - start < 20
        timer.join()
        assert f(-2.0) == -2

    @pytest.mark.parametrize("steps", ["", "plain"])
    def test_the_tape_grows(self, monkeypatch, steps):
        monkeypatch.setenv("WENGERT_SCHEDULE", steps)
        f = lambda x, n: wg.fori_loop(0, n, lambda i, s: np.sin(s) + x, x)
        compiled = wg.jit(wg.value_and_grad(f))
        for n in (3, 1024, 1025, 5000, 10, 0, 4999):
            assert_same(compiled(0.3, n), wg.value_and_grad(f)(0.3, n))
        assert compiled._compilations == 3
        assert is_native(compiled, 0.3, 10) is not bool(steps)

    def test_turns_that_are_needed_backward_run_once(self):
        def f(x):
            y, change = x, 1.0
            while change > 1e-9:
                new = np.cos(y) * x
                change = np.max(np.abs(new - y))
                y = new
            return np.sum(y)

        for x in (0.3, np.full(40, 0.3)):
            compiled = wg.jit(wg.value_and_grad(f))
            assert_same(compiled(x), wg.value_and_grad(f)(x))
            loops = [k for k in compiled.program(x).stages.loops.kernels if isinstance(k, Loop)]
            assert [loop.limit is None for loop in loops] == [True, False]

    def test_the_first_tape_has_room_for_some_bytes_and_for_few_turns_of_many_samples(self):
        f = lambda x, n: np.sum(wg.fori_loop(0, n, lambda i, s: np.sin(s) + x, x))

        def room(f, *args):
            kernels = wg.jit(f).program(*args).stages.loops.kernels
            found = [one for kernel in kernels for one in inside(kernel)]
            return {one.turns for one in found if isinstance(one, Loop) and one.limit is not None}

        assert room(wg.grad(f), 0.3, 5) == {1024}
        assert room(wg.grad(f), np.ones(1000), 5) == {64}
        assert room(wg.vmap(wg.grad(f), in_axes=(0, None)), np.ones(1000), 5) == {64}

    def test_plain(self, monkeypatch):
        monkeypatch.setenv("WENGERT_SCHEDULE", "plain")
        for program in PROGRAMS:
            pull = lambda lib, f=program: wg.value_and_grad(lambda *a: f(lib, *a), (0, 1))
            assert_same(wg.jit(pull(wg))(W, X), pull(Python)(W, X))

    def test_a_tangent_that_comes_of_the_result(self):
        """The loop over tangents cannot stand for the one whose result it is given."""

        def f(x):
            root = lambda a: wg.while_loop(lambda s: s * s < a, lambda s: s * 1.5 + a / 9, 1.0 + a)
            y, push = wg.linearize(root, x)
            return y, push(y)

        assert_same(wg.jit(f)(7.0), f(7.0))


class TestKinds:
    def test_complex_numbers_are_handed_on_in_parts_and_their_tape_grows(self):
        def f(x):
            turn = lambda s: (s[0] * s[0] * 0.1 + x + 0.2j, s[1] + 1)
            return np.real(wg.while_loop(lambda s: s[1] < 100, turn, (x * 0j, 0))[0])

        assert_same(wg.jit(wg.value_and_grad(f))(0.1), wg.value_and_grad(f)(0.1))

    def test_no_elements(self):
        double = lambda x: wg.while_loop(lambda s: s[1] < 3, lambda s: (s[0] * 2, s[1] + 1), (x, 0))
        assert wg.jit(double)(np.zeros((0, 2)))[0].shape == (0, 2)
        for f in (lambda x: double(x)[0], wg.grad(lambda x: double(x)[0])):
            for mapped in (wg.vmap(f), wg.jit(wg.vmap(f))):
                assert mapped(np.zeros(0)).shape == (0,)

    @pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.float16, np.float32])
    def test_dtypes(self, dtype):
        f = lambda x: wg.while_loop(lambda s: s < 50, lambda s: s * 2, x)
        assert_same(wg.jit(f)(dtype(3)), dtype(96))

    def test_tensors(self):
        def f(w):
            y = wg.while_loop(lambda s: s[1] < 5, lambda s: (np.tanh(s[0] * w), s[1] + 1), (w, 0))[
                0
            ]
            return wg.cond(np.sum(y) > 0, lambda: np.sum(y * w), lambda: np.sum(w))

        w = wg.tensor(X, requires_grad=True)
        f(w).backward()
        np.testing.assert_allclose(w.grad, wg.grad(f)(X), rtol=1e-12)

    def test_rules_of_ones_own(self):
        """A rule with a loop in it is transposed for the other mode."""
        grown = lambda x: wg.while_loop(lambda s: s < 5, lambda s: s * s, x)
        ruled = wg.custom_rule(jvp=lambda x, t: wg.jvp(grown, x, t))(grown)
        for g in (wg.grad(ruled), wg.jit(wg.grad(ruled))):
            assert g(1.3) == pytest.approx(wg.grad(grown)(1.3))

    def test_checkpoints_in_loops_and_loops_in_branches(self):
        again = lambda x: wg.while_loop(lambda s: s < 9, wg.checkpoint(lambda s: s * s + x), x)
        steps = lambda x: wg.scan(lambda c, _: (np.sin(c) * x, None), x, length=9, checkpoint=3)[0]
        f = lambda x: wg.cond(x > 1, lambda: again(x), lambda: steps(x))
        for x in (0.7, 1.1):
            assert_same(wg.jit(wg.grad(f))(x), wg.grad(f)(x))


def test_mapped_loops_keep_the_dtype_of_one_sample():
    """A Python number that differs by sample is an array of 64 bits in a batch."""

    def steps(x, count):
        return wg.fori_loop(0, count, lambda i, x: x + 0.1 * i, x)

    x, counts = np.ones(3, np.float32), np.array([0, 2, 5])
    want = np.array([steps(x[k], counts[k]) for k in range(3)], np.float32)
    for f in (wg.vmap(steps), wg.jit(wg.vmap(steps))):
        assert f(x, counts).dtype == np.float32
        np.testing.assert_allclose(f(x, counts), want, rtol=1e-6)
