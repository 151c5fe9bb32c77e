"""What a function captures is what it was when it was used, whoever writes to it afterwards."""

from __future__ import annotations

import threading
import weakref

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert import keeping
from wengert.graph import Constant
from wengert.graph.nodes import reachable as graph_nodes

X = np.array([0.3, -1.2, 2.0])


def weights(x):
    w, s = np.zeros(3), 0.0
    for i in range(3):
        w[i] = i + 1
        s = s + (w @ x) ** 2
    return s


def mask(x):
    m, s = np.zeros(3, bool), 0.0
    for i in range(3):
        m[i] = True
        s = s + np.sum(np.where(m, x, 0.1) ** 2)
    return s


def index_array(x):
    k, s = np.zeros(2, int), 0.0
    for i in range(3):
        k[:] = i, 2 - i
        s = s + np.prod(x[k]) * (i + 1)
    return s


def forcing(x):
    buffer, s = np.empty(3), 0.0
    for step in range(4):
        np.multiply(np.arange(3.0), step, out=buffer)
        s = s + np.sum(np.sin(x * buffer))
    return s


def cleared(x):
    a = np.array([1.0, 2.0, 3.0])
    y = x * a
    a[:] = 0
    return np.sum(y**2)


def filled(x):
    a = np.array([1.0, 2.0, 3.0])
    y = np.sum((x * a) ** 2)
    a.fill(9.0)
    y = y + np.sum((x - a) ** 2)
    np.copyto(a, 0.5)
    y = y + np.sum((a / x) ** 2)
    np.add.at(a, [0, 0], 1.0)
    return y + np.sum((a * x) ** 3)


def view(x):
    a = np.arange(1.0, 5.0)
    v = a[1:]
    y = x * v
    a[2] = 7
    return np.sum(y**2) + np.sum((x - v) ** 2)


def locked_view(x):
    a = np.arange(1.0, 4.0)
    v = a.view()
    v.flags.writeable = False
    y = x * v
    a[:] = 7
    return np.sum(y**2)


def spread(x):
    a = np.array([2.0])
    y = x * np.broadcast_to(a, (3,))
    a[0] = 5
    return np.sum(y**2)


def number(x):
    a = np.array(2.0)
    y = x * a
    a[()] = 0
    return np.sum(y**2)


def stored(x):
    t, a = wnp.zeros(3), np.array([1.0, 2.0, 3.0])
    t[...] = a
    a[:] = 0
    return np.sum((t * x) ** 2)


def own_list(x):
    rows = [np.array([1.0, 2.0, 3.0]), np.zeros(3)]
    y = np.sum(np.stack([x, rows[0]]) ** 2 @ x)
    rows[0][:] = 0
    return y


def large(x):
    a = np.ones((200, 3, 40))  # 192 kB
    y = np.sum((a * x[:, None]) ** 2)
    a[7, 1, 3] = 4.0
    y = y + np.sum((a * x[:, None]) ** 2)
    a[:] = -a
    return y + np.sum((a - x[:, None]) ** 3)


def large_turned(x):
    a = np.arange(30000.0).reshape(3, 10000) / 3000
    b = a.T
    y = np.sum((b @ x) ** 2)
    a[1] = 0
    return y + np.sum((b @ x) ** 2)


def large_windows(x):
    a = np.linspace(0, 1, 20000)
    windows = np.lib.stride_tricks.sliding_window_view(a, 3)
    y = np.sum((windows @ x) ** 2)
    a[::2] = 0
    return y + np.sum((windows @ x) ** 2)


FUNCTIONS = [
    weights, mask, index_array, forcing, cleared, filled, view, locked_view, spread, number,
    stored, own_list, large, large_turned, large_windows,
]  # fmt: skip


def gradient(f, x):
    """By central differences, of plain NumPy."""
    found = np.zeros(3)
    for i in range(3):
        step = np.zeros(3)
        step[i] = 1e-5
        found[i] = (f(x + step) - f(x - step)) / 2e-5
    return found


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
class TestWrittenInside:
    def test_values(self, f):
        value = f(X)
        close = {"rtol": 1e-12}
        np.testing.assert_allclose(wg.value_and_grad(f)(X)[0], value, **close)
        np.testing.assert_allclose(wg.jvp(f, (X,), (X,))[0], value, **close)
        np.testing.assert_allclose(wg.vjp(f, X)[0], value, **close)
        np.testing.assert_allclose(wg.trace(f, X)(X), value, **close)
        np.testing.assert_allclose(wg.vmap(f)(X[None])[0], value, **close)
        np.testing.assert_allclose(wg.jit(f)(X), value, **close)
        np.testing.assert_allclose(f(wg.tensor(X)).item(), value, **close)
        np.testing.assert_allclose(wg.checkpoint(f)(X), value, **close)

    def test_gradients(self, f):
        expected = gradient(f, X)
        close = {"rtol": 1e-6, "atol": 1e-6}
        np.testing.assert_allclose(wg.grad(f)(X), expected, **close)
        np.testing.assert_allclose(wg.jvp(f, (X,), (X,))[1], expected @ X, **close)
        np.testing.assert_allclose(wg.linearize(f, X)[1](X), expected @ X, **close)
        np.testing.assert_allclose(wg.vjp(f, X)[1](1.0)[0], expected, **close)
        np.testing.assert_allclose(wg.jacobian(f)(X), expected, **close)
        np.testing.assert_allclose(wg.vmap(wg.grad(f))(X[None])[0], expected, **close)
        np.testing.assert_allclose(wg.grad(wg.checkpoint(f))(X), expected, **close)
        np.testing.assert_allclose(wg.jit(wg.grad(f))(X), expected, **close)
        t = wg.tensor(X, requires_grad=True)
        f(t).backward()
        np.testing.assert_allclose(t.grad.numpy(), expected, **close)
        graph = wg.trace(f, X)
        graph.forward(X)
        graph.backward()
        np.testing.assert_allclose(graph.inputs[0].gradient, expected, **close)

    def test_hessians(self, f):
        found = wg.hessian(f)(X)
        np.testing.assert_allclose(found, found.T, atol=1e-9 * np.abs(found).max())
        columns = [(wg.grad(f)(X + e) - wg.grad(f)(X - e)) / 2e-5 for e in 1e-5 * np.eye(3)]
        np.testing.assert_allclose(found, columns, rtol=1e-5, atol=1e-5 * np.abs(found).max())


class TestWrittenLater:
    @pytest.mark.parametrize("size", [3, 20000])
    def test_pullback_and_linear_function(self, size):
        x, a = np.full(size, 2.0), np.full(size, 3.0)
        _, pullback = wg.vjp(lambda x: x * x * a, x)
        _, push = wg.linearize(lambda x: x * x * a, x)
        for written in (a, x):
            written[:] = -1
            np.testing.assert_array_equal(pullback(np.ones(size))[0], np.full(size, 12.0))
            np.testing.assert_array_equal(push(np.ones(size)), np.full(size, 12.0))

    @pytest.mark.parametrize("size", [3, 20000])
    def test_tensors(self, size):
        t, a = wg.tensor(np.full(size, 2.0), requires_grad=True), np.full(size, 3.0)
        y = np.sum(t * t * a)
        a[:] = 0
        y.backward()
        np.testing.assert_array_equal(t.grad.numpy(), np.full(size, 12.0))

    def test_graph(self):
        x, a = np.full(3, 2.0), np.full(3, 3.0)
        graph = wg.trace(lambda x: np.sum(x * x * a), x)
        a[:] = 0
        x[:] = 1
        assert graph.forward() == 36
        x[:] = 2
        assert graph(x) == 36
        assert graph.forward(x) == 36
        x[:] = 0
        graph.backward()
        np.testing.assert_array_equal(graph.inputs[0].gradient, [12.0] * 3)

    def test_results_of_a_graph_are_the_caller_s_own(self):
        a = np.full(3, 3.0)
        graph = wg.trace(lambda x: (a, x * x), np.ones(3))
        for call in (graph, graph.forward):
            for result in call(np.full(3, 2.0)):
                result[:] = 7
        first, second = graph.forward()
        np.testing.assert_array_equal(first, [3.0] * 3)
        np.testing.assert_array_equal(second, [4.0] * 3)

    def test_argument_that_is_captured_too(self):
        for size in (3, 20000):
            x = np.full(size, 2.0)

            def f(t, x=x):
                y = t * t
                x[:] = 100.0
                return np.sum(y)

            np.testing.assert_array_equal(wg.grad(f)(x), np.full(size, 4.0))
            x[:] = 2
            np.testing.assert_array_equal(wg.jvp(f, (x,), (np.ones(size),))[1], 4.0 * size)
            x[:] = 2
            np.testing.assert_array_equal(wg.vmap(f)(x[None]), [4.0 * size])
            x[:] = 2
            np.testing.assert_array_equal(wg.grad(wg.checkpoint(f))(x), np.full(size, 4.0))

    def test_argument_that_is_not_differentiated(self):
        def f(x, a):
            y = x * a
            a[:] = 0
            return np.sum(y**2)

        np.testing.assert_array_equal(wg.grad(f)(X, np.ones(3)), 2 * X)

    @pytest.mark.parametrize("found", ["compiled", "on disk"])
    def test_compiled_function_reads_arrays_once(self, found):
        a = np.ones(3)
        if found == "on disk":
            wg.jit(lambda x: x * a)(X)
        f = wg.jit(lambda x: x * a)
        np.testing.assert_array_equal(f(X), X)
        a[:] = 5
        np.testing.assert_array_equal(f(X), X)
        with wg.debug_nans():
            np.testing.assert_array_equal(f(X), X)

    def test_memory_map(self, tmp_path):
        a = np.memmap(tmp_path / "a", float, "w+", shape=(3,))
        a[:] = 3
        _, pullback = wg.vjp(lambda x: x * a, X)
        a[:] = 0
        np.testing.assert_array_equal(pullback(np.ones(3))[0], [3.0] * 3)

    def test_scan_body(self):
        a = np.array([1.0, 2.0, 3.0])

        def f(x):
            def body(carry, row):
                y = carry * a + row
                a[:] = a + 1  # while the body is traced
                return y, np.sum(y * a)

            last, rows = wg.scan(body, x, np.ones((4, 3)))
            a[:] = 0
            return np.sum(last) + np.sum(rows)

        def expected(x):
            a, total = np.array([1.0, 2.0, 3.0]), 0.0
            for _ in range(4):
                x = x * a + 1
                total += np.sum(x * (a + 1))
            return np.sum(x) + total

        np.testing.assert_allclose(wg.grad(f)(X), gradient(expected, X), rtol=1e-6)

    def test_custom_rule(self):
        @wg.custom_rule(vjp=lambda x, a: (x * a, lambda g: (g * a, g * x)))
        def product(x, a):
            return x * a

        def f(x):
            a = np.array([1.0, 2.0, 3.0])
            y = product(x, a)
            a[:] = 0
            return np.sum(y)

        np.testing.assert_array_equal(wg.grad(f)(X), [1.0, 2.0, 3.0])

    def test_custom_rule_that_writes_to_its_argument(self):
        def double(x):
            x *= 2
            return x

        rule = wg.custom_rule(vjp=lambda x: (2 * x, lambda g: (2 * g,)))(double)
        with pytest.raises(ValueError, match="read-only"):
            wg.grad(lambda x: np.sum(rule(np.sin(x))))(X)


class TestCopies:
    def test_large_array_is_copied_once_for_each_content(self):
        a = np.ones(20000)
        first = keeping.keep(a)
        assert first is not a and keeping.keep(a) is first and not first.flags.writeable
        a[19999] = -0.0
        second = keeping.keep(a)
        assert second is not first and keeping.keep(a) is second
        assert np.signbit(second[-1]) and first[-1] == 1
        a[19999] = 0.0
        assert keeping.keep(a) is not second
        a[:] = np.nan
        assert keeping.keep(a) is not second
        kept = keeping.keep(a)
        assert keeping.keep(a) is kept

    def test_copy_is_taken_as_it_is(self):
        first = keeping.keep(np.ones((200, 200)))
        assert keeping.keep(first) is first
        part = first[1:, ::2].T
        assert keeping.keep(part) is part

    def test_nothing_is_held(self):
        a = np.ones(20000)
        kept = keeping.keep(a)
        alive = [weakref.ref(a), weakref.ref(kept.base)]
        del kept, a
        assert [one() for one in alive] == [None, None]
        arrays = [np.ones(20000) for _ in range(2 * keeping.LOOKED_AFTER)]
        copies = list(map(keeping.keep, arrays))
        assert len(keeping._latest) <= keeping.LOOKED_AFTER
        assert keeping.keep(arrays[-1]) is copies[-1]

    @pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float32, np.complex64, complex, "g"])
    def test_other_types(self, dtype):
        a = (np.arange(200000) % 100).astype(dtype)[::-1]
        kept = keeping.keep(a)
        np.testing.assert_array_equal(kept, a)
        assert kept.dtype == a.dtype and keeping.keep(a) is kept
        a[50000] = 7
        assert keeping.keep(a) is not kept

    def test_elements_that_share_memory_share_it_in_the_copy(self):
        wide = np.broadcast_to(np.arange(3.0), (10**9, 3))
        kept = keeping.keep(wide)
        assert kept.shape == wide.shape and kept.strides == wide.strides
        np.testing.assert_array_equal(kept[-1], np.arange(3.0))
        assert keeping.keep(kept) is kept
        back = np.arange(50000.0)[::-1]
        np.testing.assert_array_equal(keeping.keep(np.broadcast_to(back, (3, 50000)))[1], back)

    def test_layout_is_that_of_the_array(self):
        for shape in ((3, 4), (300, 400)):
            a = np.ones(shape)
            assert keeping.keep(a.T).flags.f_contiguous
            assert keeping.keep(a).flags.c_contiguous

    def test_large_array_in_a_loop_takes_no_memory(self):
        a = np.ones(100000)

        def f(x):
            s = 0.0
            for _ in range(5):
                s = s + np.sum(x * a)
            return s

        nodes = graph_nodes(wg.trace(f, np.ones(100000)).outputs)
        copies = [n.output for n in nodes if isinstance(n, Constant) and np.size(n.output) > 1]
        assert len(copies) == 5 and len(set(map(id, copies))) == 1

    def test_threads_do_not_share_memory(self):
        wrong = []

        def work(number):
            for _ in range(200):
                a = np.full(20000, number)
                kept = keeping.keep(a)
                a[:] = -1
                if not (kept == number).all():
                    wrong.append(number)

        threads = [threading.Thread(target=work, args=(float(n),)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong

    def test_results_do_not_lie_in_memory_of_copies(self):
        a = np.full(20000, 3.0)
        value, pullback = wg.vjp(lambda x: (a, x * a), np.ones(20000))
        first = pullback((np.zeros(20000), np.ones(20000)))[0]
        gradient, extra = wg.grad(lambda x: (np.sum(x * a), a), has_aux=True)(np.ones(20000))
        a[:] = 5
        for _ in range(3):
            wg.grad(lambda x: np.sum(x * a))(np.ones(20000))
        for held in (*value, first, gradient):
            np.testing.assert_array_equal(held, 3)
        assert extra is a


class TestLocked:
    """Arrays that nobody can write to are recorded as they are."""

    def recorded(self, a):
        _, pullback = wg.vjp(lambda x: np.sum(x * a), np.ones(a.shape))
        (recording,) = [cell.cell_contents for cell in pullback.__closure__]
        return any(node.output is a for node in graph_nodes(recording.outputs))

    def test_read_only_all_the_way_down(self, tmp_path):
        a = np.ones(20000)
        assert not self.recorded(a)
        a.flags.writeable = False
        assert self.recorded(a)
        assert self.recorded(a[::8][:-1].reshape(-1, 1)) is False  # below the size
        assert self.recorded(np.frombuffer(bytes(160000)))
        a.tofile(tmp_path / "a")
        whole = np.memmap(tmp_path / "a", float, "r")
        assert keeping.is_locked(whole) and keeping.is_locked(whole[1:])

    def test_views_of_what_can_be_written_to(self, tmp_path):
        a = np.ones(20000)
        view = a.view()
        view.flags.writeable = False
        assert not keeping.is_locked(view)
        assert not keeping.is_locked(np.broadcast_to(a, (2, 20000)))
        memory = bytearray(160000)
        array = np.frombuffer(memory)
        array.flags.writeable = False
        assert not keeping.is_locked(array)
        a.tofile(tmp_path / "a")
        mapped = np.memmap(tmp_path / "a", float, "r+").view()
        mapped.flags.writeable = False
        assert not keeping.is_locked(mapped)

    def test_compiled_programs_have_copies(self):
        a = np.ones(20000)
        a.flags.writeable = False
        f = wg.jit(lambda x: x * a)
        np.testing.assert_array_equal(f(np.ones(20000)), 1)
        a.flags.writeable = True
        a[:] = 5
        np.testing.assert_array_equal(f(np.ones(20000)), 1)
