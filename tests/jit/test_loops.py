"""`scan` compiled: native loops, compared with the evaluation."""

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert.errors import OutOfRangeError
from wengert.loops import Contraction, Loop, inside

rng = np.random.default_rng(11)


def kernels(function, *args):
    return wg.jit(function).program(*args).stages.loops.kernels


def assert_native(function, *args, tolerance=1e-12):
    """Compiled without NumPy, and equal to the evaluation."""
    compiled = wg.jit(function)
    assert compiled.explain(*args).hosts == []
    got, want = wg.tree.leaves(compiled(*args)), wg.tree.leaves(function(*args))
    for one, other in zip(got, want, strict=True):
        assert np.result_type(one) == np.result_type(other)
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


W = rng.normal(size=(4, 4)) / 2
H = rng.normal(size=(3, 4))
XS = rng.normal(size=(6, 3, 4))


class TestCarries:
    @pytest.mark.parametrize("steps", [1, 2, 3, 6])
    @pytest.mark.parametrize("reverse", [False, True])
    def test_where_they_live(self, steps, reverse):
        """Alone, as a row after the step, as a row before it, and as both."""

        def f(h, xs):
            def body(carry, x):
                a, b, c, d = carry
                new = (wnp.sin(a) + x, b * 2 + a, c - b, d @ W + x)
                return new, (new[1], c, new[3], d)

            return wg.scan(body, (h, h + 1, h * 2, h), xs, reverse=reverse)

        assert_native(f, H, XS[:steps])

    def test_swapped_and_unchanged(self):
        def f(h, xs):
            def body(carry, x):
                a, b, c = carry
                return (b, a, c), (a + x, c)

            return wg.scan(body, (h, 2 * h, 3 * h), xs)

        assert_native(f, H, XS)

    def test_other_dtypes(self):
        def f(h, xs):
            def body(carry, x):
                n, seen, h = carry
                return (n + 1, seen | (x > 0), h + x.astype(np.float32)), (n, seen, h)

            return wg.scan(body, (np.int32(3), h > 1, h.astype(np.float32)), xs)

        assert_native(f, H, XS)

    def test_constants_and_outputs_that_are_inputs(self):
        table = rng.normal(size=(3, 4))
        f = lambda h, xs: wg.scan(lambda c, x: (x, (table, x, c * table)), h, xs)
        assert_native(f, H, XS)

    def test_arguments_in_any_layout(self):
        f = wg.jit(lambda h, xs: wg.scan(lambda c, x: (c * x, c + x), h, xs))
        for h, xs in ((H[:, ::-1], XS[:, :, ::-1]), (H.T.copy().T, XS.transpose(1, 2, 0).copy())):
            xs = xs if xs.shape[1:] == h.shape else xs.transpose(2, 0, 1)
            for got, want in zip(
                f(h, xs), wg.scan(lambda c, x: (c * x, c + x), h, xs), strict=True
            ):
                np.testing.assert_allclose(got, want, rtol=1e-15)

    def test_no_steps_and_empty_rows(self):
        f = wg.jit(lambda h, xs: wg.scan(lambda c, x: (c + x, c), h, xs))
        for h, xs in ((H, XS[:0]), (H[:0], XS[:, :0])):
            got = f(h, xs)
            assert got[0].shape == h.shape and got[1].shape == xs.shape


class TestNested:
    def test_a_loop_in_a_loop(self):
        def f(h, xs):
            def outer(c, x):
                return wg.scan(lambda c, row: (wnp.tanh(c + row), wnp.sum(c)), c, x)

            return wnp.sum(wg.scan(outer, h[0], xs)[1] ** 2)

        assert_native(wg.value_and_grad(f, (0, 1)), H, XS)

    @pytest.mark.parametrize("checkpoint", [None, 4])
    def test_second_derivatives(self, checkpoint):
        def f(h):
            body = lambda c, x: (wnp.tanh(c @ W) * x, c)
            return wnp.sum(wg.scan(body, h, XS, checkpoint=checkpoint)[1] ** 2)

        assert_native(lambda h: wg.hvp(f, h, H), H)
        assert_native(wg.grad(lambda h: wnp.sum(wg.grad(f)(h) ** 2)), H, tolerance=1e-11)

    def test_batched(self):
        f = lambda h, xs: wnp.sum(wg.scan(lambda c, x: (wnp.sin(c) * x, c), h, xs)[1] ** 2)
        assert_native(wg.vmap(wg.grad(f, (0, 1)), (0, 1)), H, XS)


class TestChecks:
    def test_an_index_out_of_range_stops_the_loop(self):
        f = wg.jit(lambda table, where: wg.scan(lambda c, k: (c + table[k], c), 0.0, where))
        np.testing.assert_array_equal(f(self.table, np.array([1, 2, 4]))[1], [0, 1, 3])
        for where in ([1, 5, 2], [9, 0, 0], [0, 0, -6]):
            with pytest.raises(OutOfRangeError):
                f(self.table, np.array(where))

    def test_in_an_inner_loop(self):
        def f(table, where):
            inner = lambda c, row: wg.scan(lambda c, k: (c + table[k], None), c, row)
            return wg.scan(inner, 0.0, where)[0]

        assert wg.jit(f)(self.table, np.array([[1, 2], [3, 4]])) == 10
        with pytest.raises(OutOfRangeError):
            wg.jit(f)(self.table, np.array([[1, 2], [3, 5]]))

    table = np.arange(5.0)


class TestMemory:
    def test_threads_inside_a_step(self):
        x = rng.normal(size=(3, 400_000))
        assert_native(lambda x: wg.scan(lambda c, r: (c + wnp.exp(wnp.sin(r)), c[:5]), x[0], x), x)

    def test_large_products_inside_a_step(self):
        w = rng.normal(size=(300, 300)) / 20
        f = lambda h: wnp.sum(wg.scan(lambda h, _: (wnp.tanh(h @ w), None), h, length=3)[0])
        assert_native(wg.grad(f), rng.normal(size=(200, 300)))

    def test_steps_share_their_memory(self):
        f = wg.jit(lambda h: wg.scan(lambda h, _: (wnp.tanh(h @ W) @ W, None), h, length=1000)[0])
        assert f.memory(H)["arena"] < 50 * H.nbytes

    def test_two_loops_at_once(self):
        """Buffers of one must not be used again by the other while both are needed."""

        def f(h, xs):
            one = wg.scan(lambda c, x: (wnp.tanh(c @ W + x), c), h, xs)
            two = wg.scan(lambda c, x: (wnp.sin(c @ W - x), c), h, one[1], reverse=True)
            return wnp.sum(one[1] * two[1]) + wnp.sum(one[0] * two[0])

        assert_native(wg.value_and_grad(f, (0, 1)), H, XS)


class TestParts:
    """Samples that never meet are shared out to threads."""

    h, xs = rng.normal(size=(64, 16)), rng.normal(size=(100, 64, 16))
    w = rng.normal(size=(16, 16)) / 4

    def parts(self, function, *args):
        found = [k for k in kernels(function, *args) if isinstance(k, Loop)]
        return [loop.turns if loop.parallel else 1 for loop in found]

    def step(self, h, x):
        return wnp.tanh(h @ self.w + x), wnp.sum(h * x, axis=1)

    @pytest.mark.parametrize("reverse", [False, True])
    def test_forward_and_backward(self, reverse):
        def f(w, h, xs):
            body = lambda h, x: (wnp.tanh(h @ w + x), wnp.sum(h * x, axis=1))
            h, ys = wg.scan(body, h, xs, reverse=reverse)
            return wnp.sum(h**2) + wnp.sum(ys**2)

        gradient = wg.value_and_grad(f, (0, 1, 2))
        assert self.parts(gradient, self.w, self.h, self.xs) == [4, 4]
        assert_native(gradient, self.w, self.h, self.xs, tolerance=1e-11)

    def test_rows_that_all_samples_share(self):
        f = lambda h, xs: wg.scan(lambda h, x: (wnp.sin(h @ self.w) * x, h + x), h, xs)
        assert self.parts(f, self.h, self.xs[:, 0]) == [4]
        assert_native(f, self.h, self.xs[:, 0])

    def test_rows_in_another_order(self):
        turned = np.ascontiguousarray(self.xs.transpose(0, 2, 1))
        f = lambda h, xs: wg.scan(lambda h, x: self.step(h, x.T), h, xs)
        assert self.parts(f, self.h, turned) == [4]
        assert_native(f, self.h, turned)

    @pytest.mark.parametrize(
        "samples, parts", [(64, 4), (63, 4), (61, 4), (50, 4), (31, 2), (15, 1)]
    )
    def test_any_number_of_samples(self, samples, parts):
        f = lambda h, xs: wg.scan(self.step, h, xs)
        args = self.h[:samples], self.xs[:, :samples]
        assert self.parts(f, *args) == [parts]
        assert_native(f, *args)
        gradient = wg.grad(
            lambda *args: sum(map(wnp.sum, wg.tree.leaves(f(*args)))), argnums=(0, 1)
        )
        assert_native(gradient, *args)

    def test_parts_are_wider_where_weights_are_many(self):
        w = rng.normal(size=(400, 400)) / 20
        f = lambda h, xs: wg.scan(lambda h, x: (wnp.tanh(h @ w + x), None), h, xs)
        for samples, parts in ((128, 4), (127, 2), (63, 1)):
            args = np.ones((samples, 400)), np.ones((3, samples, 400))
            assert self.parts(f, *args) == [parts]

    def test_samples_that_meet(self):
        mixing = [
            lambda h, x: (wnp.tanh(h @ self.w + wnp.mean(h, axis=0)), None),
            lambda h, x: (wnp.tanh(h @ self.w + x[::-1]), None),
            lambda h, x: (wnp.tanh(h @ self.w + x), wnp.sum(h)),
            lambda h, x: (wnp.tanh(h @ self.w + self.h), None),
        ]
        for body in mixing:
            f = lambda h, xs, body=body: wg.scan(body, h, xs)
            assert self.parts(f, self.h, self.xs) == [1]
            assert_native(f, self.h, self.xs)

    def test_the_same_bits_for_any_number_of_threads(self):
        f = lambda h, xs: wg.scan(self.step, h, xs)
        one = wg.jit(f, threads=1)(self.h, self.xs)
        many = wg.jit(f, threads=4)(self.h, self.xs)
        for a, b in zip(one, many, strict=True):
            np.testing.assert_array_equal(a, b)

    def test_an_error_in_one_part(self):
        table, where = self.h, np.tile(np.arange(64), (100, 1))
        step = lambda h, k, table: (wnp.tanh(h @ self.w + table[k]), None)
        f = lambda h, ks, table: wg.scan(lambda h, k: step(h, k, table), h, ks)[0]
        assert_native(f, self.h, where, table)
        where[7, 40] = 64
        with pytest.raises(OutOfRangeError):
            wg.jit(f)(self.h, where, table)


class TestPasses:
    """What stays in the loop."""

    def products(self, function, *args):
        """Products outside of loops, and inside."""
        found = kernels(function, *args)
        within = [k for loop in found if isinstance(loop, Loop) for k in inside(loop)]
        return [sum(isinstance(k, Contraction) for k in group) for group in (found, within)]

    def test_products_with_the_rows_are_computed_before(self):
        f = lambda h, xs: wg.scan(lambda h, x: (wnp.tanh(x @ W + h), None), h, xs)[0]
        assert self.products(f, H, XS) == [1, 0]
        assert_native(f, H, XS)

    def test_what_follows_the_last_product_stays(self):
        """It is fused with the rest of the step there, and takes no memory."""
        step = lambda h, x: (h / 2 + wnp.cos(wnp.sin(x @ W) @ W), None)
        f = lambda h, xs: wg.scan(step, h, xs)[0]
        assert self.products(f, H, XS) == [2, 0]
        (loop,) = (k for k in kernels(f, H, XS) if isinstance(k, Loop))
        assert "cos" in str(loop) and "sin" not in str(loop)
        assert_native(f, H, XS)

    def test_gradients_of_weights_are_computed_after(self):
        def f(w, u, h, xs):
            return wnp.sum(wg.scan(lambda h, x: (wnp.tanh(x @ w + h @ u), h), h, xs)[1] ** 2)

        h, xs, w = rng.normal(size=(20, 30)), rng.normal(size=(5, 20, 30)), np.eye(30)
        # x @ w before, the gradients of w, u and x after; h @ u forward and backward
        gradient = wg.grad(f, (0, 1, 2, 3))
        assert self.products(gradient, w, w / 2, h, xs) == [4, 2]
        assert_native(gradient, w, w / 2, h, xs, tolerance=1e-11)
        backward = [k for k in kernels(gradient, w, w / 2, h, xs) if isinstance(k, Loop)][1]
        read, written = {*backward.reads}, {*backward.writes}
        moving = {b for b in read - written if b.start.coefficient(backward.var)}
        assert len(moving) == 2  # rows of h and the cotangents; the others are read after it

    def test_not_where_memory_is_to_be_saved(self):
        def f(w, h, xs):
            body = lambda h, x: (wnp.tanh(x @ w + h @ w), None)
            return wnp.sum(wg.scan(body, h, xs, checkpoint=1)[0] ** 2)

        h, xs, w = rng.normal(size=(20, 30)), rng.normal(size=(5, 20, 30)), np.eye(30)
        assert self.products(wg.grad(f), w, h, xs)[0] == 0

    def test_light_products_stay(self):
        """A dot product is no reason to keep its arguments for all steps."""
        f = lambda h: wg.scan(lambda c, _: ((wnp.sin(c[0]), c[1] + c[0] @ c[0]), None), (h, 0.0),
                              length=50)[0][1]  # fmt: skip
        assert self.products(f, rng.normal(size=100)) == [0, 1]

    def test_what_nobody_reads_is_not_computed(self):
        def f(h, xs):
            def body(carry, x):
                a, b, c = carry
                return (a / 2 + x, wnp.tanh(b + wnp.exp(x)), c), (wnp.cos(a), wnp.exp(x), a)

            return wg.scan(body, (h, h, h), xs)[0][0]

        (loop,) = (k for k in kernels(f, H, XS) if isinstance(k, Loop))
        assert "exp" not in str(loop) and "cos" not in str(loop)
        assert len(loop.carries) == 1
        assert not any(b.start.coefficient(loop.var) for b in loop.writes)
        assert_native(f, H, XS)


def random_body(seed):
    """A step made of random products, sums and functions of carries, rows and weights."""
    choose = np.random.default_rng(seed)
    carries, rows, ys = (int(choose.integers(1, 4)) for _ in range(3))
    plan = choose.integers(0, 10_000, size=(12, 3))

    def body(ws, carry, xs):
        values = [*carry, *xs, carry[0] * 0.5]
        for kind, one, other in plan:
            a, b = values[one % len(values)], values[other % len(values)]
            w = ws[other % len(ws)]
            values.append(
                [
                    lambda a, b, w: a @ w,
                    lambda a, b, w: wnp.tanh(a + b),
                    lambda a, b, w: (a.T @ b) / 8,
                    lambda a, b, w: a * b + wnp.sum(w, axis=0),
                    lambda a, b, w: wnp.sin(a) - w @ b / 4,
                ][kind % 5](a, b, w)
            )
        new = [carry[0] + values[-1]]  # one sum over time at least
        new += [wnp.tanh(values[-2 - k]) for k in range(carries - 1)]
        return tuple(new), tuple(values[-1 - 2 * k] for k in range(ys))

    return body, carries, rows


@pytest.mark.parametrize("seed", range(6))
def test_random_bodies(seed):
    body, carries, rows = random_body(seed)
    data = np.random.default_rng(seed)
    ws = [data.normal(size=(4, 4)) / 3 for _ in range(2)]
    init = tuple(data.normal(size=(4, 4)) / 2 for _ in range(carries))
    xs = tuple(data.normal(size=(3, 4, 4)) / 2 for _ in range(rows))

    def f(ws, init, xs):
        carry, ys = wg.scan(
            lambda c, x: body(ws, c, x), init, xs, reverse=seed % 2 == 1,
            checkpoint=(None, None, 2)[seed % 3],
        )  # fmt: skip
        return sum(wnp.sum(wnp.cos(one)) for one in [*carry, *ys])

    assert_native(wg.value_and_grad(f, (0, 1, 2)), ws, init, xs, tolerance=1e-10)
