"""`checkpoint` and `custom_rule` under `jit`: their programs are compiled with what is around."""

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from batch_loops import batch_loops
from wengert.loops import Host, inside
from wengert.passes import optimise
from wengert.schedule import schedule

rng = np.random.default_rng(7)
SIZE, LAYERS = 64, 6
x = rng.normal(size=(SIZE, SIZE))
v = rng.normal(size=(SIZE, SIZE)) / SIZE
ws = [rng.normal(size=(SIZE, SIZE)) / SIZE for _ in range(LAYERS)]


def block(x, w):
    """It mixes rows and columns, so that no batch loop saves the memory anyway."""
    h = wnp.sin(wnp.tanh(w @ x @ v) @ x.T)
    return wnp.tanh(h + wnp.exp(-h))


def chain(block):
    def loss(ws, x):
        for w in ws:
            x = block(x, w)
        return wnp.sum(x**2)

    return loss


def kernels_of(program):
    for kernel in program.kernels:
        yield from inside(kernel)


def hosts(f, *args):
    """What NumPy evaluates in the compiled program of f."""
    program = schedule(optimise(wg.trace(f, *args)))
    return [kernel.label for kernel in kernels_of(program) if isinstance(kernel, Host)]


def check(f, *args, plain=None, rtol=1e-12):
    """f compiles without NumPy and gives what it, or its plain form, does evaluated."""
    assert hosts(f, *args) == []
    compiled = wg.jit(f)
    got, want = compiled(*args), (plain or f)(*args)
    for one, other in zip(wg.tree.leaves(got), wg.tree.leaves(want), strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=1e-12)
    assert type(compiled._entries[0]).__name__ != "HostedEntry"
    assert " numpy " not in str(compiled.explain(*args))


class TestCheckpoint:
    def test_values_and_gradients(self):
        checkpointed, plain = chain(wg.checkpoint(block)), chain(block)
        check(checkpointed, ws[:2], x, plain=plain)
        check(wg.value_and_grad(checkpointed), ws[:2], x, plain=wg.value_and_grad(plain))

    def test_memory_grows_by_one_value_a_block(self):
        def growth(block):
            """Arrays that one more block needs."""
            gradient = wg.jit(wg.grad(chain(block)))
            arena = [gradient.memory(ws[:layers], x)["arena"] for layers in (4, LAYERS)]
            return (arena[1] - arena[0]) / x.nbytes / (LAYERS - 4)

        assert growth(wg.checkpoint(block)) == 1
        assert growth(block) > 2

    def test_memory_of_elementwise_values(self):
        """Nothing is a product that would hold its place: nests must not join earlier ones."""

        def grow(x):
            for _ in range(6):
                x = wnp.cumsum(wnp.sin(x), axis=0)
            return x

        def loss(f):
            return lambda x: wnp.sum(f(f(f(f(x)))))

        many = rng.normal(size=(300, 100))
        plain, less = (wg.jit(wg.grad(loss(f))) for f in (grow, wg.checkpoint(grow)))
        np.testing.assert_allclose(less(many), plain(many), rtol=1e-12)
        assert less.memory(many)["arena"] < 0.6 * plain.memory(many)["arena"]

    def test_what_is_computed_again_is_not_shared(self):
        graph = optimise(wg.trace(wg.grad(chain(wg.checkpoint(block))), ws, x))
        plain = optimise(wg.trace(wg.grad(chain(block)), ws, x))
        count = lambda graph: sum(node.op.name == "tanh" for node in graph.operators)
        assert count(plain) == 2 * LAYERS
        assert count(graph) == 4 * LAYERS

    def test_second_derivatives(self):
        f = lambda x: wnp.sum(wg.checkpoint(lambda x: wnp.sin(x) * x @ x)(x))
        g = lambda x: wnp.sum(wnp.sin(x) * x @ x)
        check(wg.hessian(f), x[0, :5], plain=wg.hessian(g))
        check(lambda x, t: wg.jvp(wg.grad(f), (x,), (t,))[1], x[0], x[1])
        check(lambda x, t: wg.grad(lambda x: wg.grad(f)(x) @ t)(x), x[0], x[1])

    def test_vmap(self):
        f = lambda x, w: wnp.sum(wg.checkpoint(lambda x: wnp.tanh(x @ w))(x))
        g = lambda x, w: wnp.sum(wnp.tanh(x @ w))
        over = lambda f: wg.vmap(wg.grad(f, (0, 1)), in_axes=(0, None))
        check(over(f), x, v, plain=over(g))
        # a weight that all samples share stays one
        program = str(optimise(wg.trace(over(f), x, v)))
        assert f"[{SIZE},{SIZE},{SIZE}] = broadcast_to" not in program

    def test_jacobians(self):
        f = wg.checkpoint(lambda x: wnp.sin(x) * wnp.sum(x))
        g = lambda x: wnp.sin(x) * wnp.sum(x)
        check(wg.jacrev(f), x[0, :6], plain=wg.jacrev(g))
        check(wg.jacfwd(f), x[0, :6], plain=wg.jacfwd(g))

    def test_nested(self):
        inner = wg.checkpoint(lambda x: wnp.sin(x @ v))
        f = lambda x: wnp.sum(wg.checkpoint(lambda x: inner(inner(x)) * x)(x))
        g = lambda x: wnp.sum(wnp.sin(wnp.sin(x @ v) @ v) * x)
        check(wg.grad(f), x, plain=wg.grad(g))

    def test_several_results_trees_and_integers(self):
        def parts(p, n):
            return {"a": wnp.sin(p["x"]) * n, "b": (p["x"] @ v, wnp.sum(p["x"] > 0))}

        def loss(f):
            def total(p, n):
                found = f(p, n)
                return wnp.sum(found["a"] * found["b"][0]) + 0.0 * found["b"][1]

            return total

        p, n = {"x": x}, np.arange(SIZE)
        gradient = wg.value_and_grad(loss(parts))
        check(wg.value_and_grad(loss(wg.checkpoint(parts))), p, n, plain=gradient)

    def test_a_batch_loop_goes_through_it(self):
        """Samples that do not meet stay in one region, forward and backward, weights or not."""
        samples, w = rng.normal(size=(256, 24)), [rng.normal(size=(24, 24)) / 5 for _ in range(4)]
        layer = lambda x, w: wnp.tanh(x @ w)
        check(wg.grad(chain(wg.checkpoint(layer))), w, samples, plain=wg.grad(chain(layer)))
        program = schedule(optimise(wg.trace(wg.grad(chain(wg.checkpoint(layer))), w, samples)))
        plain = schedule(optimise(wg.trace(wg.grad(chain(layer)), w, samples)))
        assert len(batch_loops(program)) == len(batch_loops(plain)) == 1

    def test_in_a_scan(self):
        w = v * 4

        def loss(inner):
            def step(h, row):
                h = inner(h, row)
                return h, wnp.sum(h)

            def total(h, w):
                end, sums = wg.scan(lambda h, r: step(h, (r, w)), h, x)
                return wnp.sum(end) + wnp.sum(sums**2)

            return total

        def inner(h, row):
            row, w = row
            return wnp.sin(wnp.tanh(h @ w) + wnp.exp(-wnp.cos(h * row)))

        plain, f = loss(inner), loss(wg.checkpoint(inner))
        check(wg.grad(f, (0, 1)), x[0], w, plain=wg.grad(plain, (0, 1)))
        memory = lambda f: wg.jit(wg.grad(f, (0, 1))).memory(x[0], w)["arena"]
        assert memory(f) <= memory(plain)
        # only the last result, not the rows: some cotangents of the step are zero
        last = lambda inner: lambda h: wnp.sum(wg.scan(lambda h, r: (inner(h, (r, w)), h), h, x)[0])
        check(wg.grad(last(wg.checkpoint(inner))), x[0], plain=wg.grad(last(inner)))

    def test_a_step_keeps_its_carry_alone(self):
        """What a step computes again backward is not given out row by row."""

        def inner(h, row):
            return wnp.exp(-wnp.cos(wnp.tanh(h @ v) * row))

        def rows(f):
            total = lambda h: wnp.sum(wg.scan(lambda h, r: (f(h, r), None), h, x)[0])
            graph = wg.trace(wg.grad(total), x[0])
            body = next(n for n in graph.operators if n.op.name == "scan").params["body"]
            return len(body.graph.outputs) - body.carry

        assert rows(inner) > 1
        assert rows(wg.checkpoint(inner)) == 1

    def test_a_function_that_looks_at_values(self):
        f = wg.checkpoint(lambda x: x * 2 if np.sum(x) > 0 else x)
        for value in (np.abs(x), -np.abs(x)):  # as Python would: from the source
            np.testing.assert_array_equal(wg.jit(f)(value), f(value))
        with pytest.raises(wg.errors.AbstractValueError):
            wg.jit(f, control="trace")(x)


def f_jvp(primals, tangents):
    (x, y), (tx, ty) = primals, tangents
    return wnp.sin(x) * y, 10.0 * (tx * wnp.cos(x) * y + ty * wnp.sin(x))


def f_vjp(x, y):
    return wnp.sin(x) * y, lambda g: (10.0 * g * wnp.cos(x) * y, 10.0 * g * wnp.sin(x))


RULES = {"jvp": {"jvp": f_jvp}, "vjp": {"vjp": f_vjp}, "both": {"jvp": f_jvp, "vjp": f_vjp}}


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES.keys())
class TestCustomRule:
    """The rule is ten times too large on purpose: it must be the one that is used."""

    def test_values_and_derivatives(self, rules):
        f = wg.custom_rule(**rules)(lambda x, y: wnp.sin(x) * y)
        check(f, x, v)
        loss = lambda x, y: wnp.sum(f(x, y) ** 2)
        check(wg.grad(loss, (0, 1)), x, v)
        check(wg.grad(lambda x: wnp.sum(wg.grad(loss)(x, v) * x)), x)
        check(lambda x, t: wg.jvp(lambda x: loss(x, v), (x,), (t,)), x, v)
        check(wg.vmap(wg.grad(loss), (0, None)), x, v[0])

    def test_in_a_checkpoint(self, rules):
        f = wg.custom_rule(**rules)(lambda x, y: wnp.sin(x) * y)
        check(wg.grad(lambda x: wnp.sum(wg.checkpoint(f)(x, v) ** 2)), x)


def test_a_rule_of_several_results_of_which_one_is_used():
    f = wg.custom_rule(vjp=lambda x: ((x, x * x), lambda g: (g[0] + 20.0 * g[1] * x,)))(
        lambda x: (x, x * x)
    )
    check(wg.grad(lambda x: wnp.sum(f(x)[1])), x)
    check(lambda x: f(x)[0] + f(x)[1], x)
