"""Which loops a graph becomes, and that merging them changes nothing."""

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as xp
from wengert.jit import jit
from wengert.loops import (
    Apply,
    Contraction,
    Host,
    Load,
    Loop,
    MemoryKind,
    Nest,
    inside,
    roots_of,
    walk,
)
from wengert.ops.windows import fold
from wengert.passes import optimise
from wengert.schedule import plan, schedule
from wengert.schedule.memory import buffers_of, root
from wengert.schedule.parallel import keeps_awake, parallelise

RNG = np.random.default_rng(4)
X = RNG.uniform(-1, 1, (23, 12))


def loops_of(function, *args):
    return plan(schedule(optimise(wg.trace(function, *args))))


def test_a_chain_is_one_nest():
    program = loops_of(lambda x: xp.exp(-x * x) + xp.sin(x), X)
    assert len(program.kernels) == 1
    assert program.arena_bytes == 0


def test_sums_over_the_same_data_take_one_pass():
    program = loops_of(lambda x: (xp.sum(x), xp.sum(x * x), xp.max(x, axis=0)), X)
    assert len(program.kernels) == 1


def test_value_and_gradient_of_a_sum_take_one_pass():
    program = loops_of(wg.value_and_grad(lambda x: xp.sum(xp.sin(x) * x)), X)
    assert len(program.kernels) == 1


def test_products_and_numpy_get_kernels_of_their_own():
    kinds = [type(kernel) for kernel in loops_of(lambda x: xp.linalg.inv(x @ x.T), X).kernels]
    assert Contraction in kinds
    assert Host in kinds


def test_a_product_that_sums_over_nothing_is_part_of_what_reads_it():
    x, g, p = RNG.normal(size=(1, 5)), RNG.normal(size=(1, 7)), RNG.normal(size=(7, 5))

    def step(p, x, g):
        slope = (x.T @ g).T
        return slope, p - 0.1 * slope

    program = loops_of(step, p, x, g)
    assert [type(kernel) for kernel in program.kernels] == [Nest]
    assert program.arena_bytes == 0
    for found, wanted in zip(jit(step)(p, x, g), step(p, x, g), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-14)


@pytest.mark.parametrize("turned", [lambda x: x, lambda x: x[::-1], lambda x: x[None].T[:, 0]])
def test_what_such_a_product_reads_along_a_line_is_computed_once(turned):
    program = loops_of(lambda x, y: xp.outer(turned(xp.tanh(x)), xp.exp(y)), X[0], X[1])
    calls = [
        [expr.name for expr in walk(roots_of(kernel.stores)) if isinstance(expr, Apply)]
        for kernel in program.kernels
    ]
    assert calls == [["exp", "tanh"], ["multiply"]]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize(
    "spec", ["i,j->ij", "i,j->ji", "zi,zj->ij", "iz,jz->ij", "i,i->i", "i,->i"]
)
def test_products_without_sums(spec, dtype):
    sizes = {"i": 9, "j": 21, "z": 1}
    x, y = (
        (RNG.normal(size=[sizes[c] for c in part]) * 9).astype(dtype)
        for part in spec.split("->")[0].split(",")
    )
    found = jit(lambda x, y: xp.einsum(spec, x, y))(x, y)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, np.einsum(spec, x, y))


def test_pooling_reads_its_windows_in_place():
    x = RNG.normal(size=(20, 10, 10))
    program = loops_of(lambda x: xp.max_pool(xp.maximum(x + 1.0, 0.0), (2, 2)), x)
    assert len(program.kernels) == 1
    assert program.arena_bytes == 0


def test_the_gradient_of_pooling_is_native():
    x = RNG.normal(size=(20, 10, 10)).astype(np.float32)
    program = loops_of(wg.grad(lambda x: xp.sum(xp.max_pool(x, (2, 2)))), x)
    assert len(program.kernels) <= 3  # the largest, where it is, what goes back
    assert not any(isinstance(kernel, Host) for kernel in program.kernels)


def test_tasks_do_not_add_to_one_place():
    """Windows that overlap may be shared out along the axes in front of them alone."""
    params = {"shape": (402, 402), "strides": (1, 1), "dilations": (1, 1)}
    for lead, parallel in [((), False), ((4,), True)]:
        x = RNG.normal(size=(*lead, 400, 400, 3, 3))
        kernels = loops_of(lambda x: fold(x * x, **params), x).kernels
        parts = [part for k in kernels if isinstance(k, Loop) for part in inside(k)]
        tasks = [part for part in parts if isinstance(part, Nest)]
        found = [nest for nest in tasks if nest.stores[0].combine]
        assert bool(found) == parallel
        assert all(len(nest.vars) == 4 for nest in found)


@pytest.mark.parametrize("shape", [(40, 2, 3), (3, 700), (2, 40000), (9, 1), (17,)])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i2", "u8", "?"])
@pytest.mark.parametrize("find", [xp.argmax, xp.argmin])
def test_places_of_extremes_are_native(find, shape, dtype):
    x = (4 * RNG.normal(size=shape)).round().astype(dtype)
    program = loops_of(lambda x: find(x, axis=-1), x)
    assert not any(isinstance(kernel, Host) for kernel in program.kernels)
    np.testing.assert_array_equal(jit(lambda x: find(x, axis=-1))(x), find(x, axis=-1))


@pytest.mark.parametrize("reduce", [xp.sum, xp.prod, xp.max, xp.min, xp.any, xp.all, xp.mean])
@pytest.mark.parametrize("dtype", ["f8", "i1", "u4", "?"])
def test_short_reductions_are_written_out(reduce, dtype):
    x = (2 * RNG.normal(size=(50, 3))).round().astype(dtype)
    want = reduce(x, axis=1)
    got = jit(lambda x: reduce(x, axis=1))(x)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-15)


def near_misses():
    """Values over loops that differ by a little, some of which need each other."""
    yield "reflect", lambda x: xp.pad(xp.tanh(xp.pad(x, [(1, 3), (0, 3)], "edge")), 2, "reflect")
    yield "sides", lambda x: (xp.tanh(x[1:]), xp.tanh(x[:-1]), xp.tanh(x))
    yield "chained", lambda x: xp.sum(xp.tanh(x)[1:] * xp.exp(x)[:-1]) + xp.sum(xp.tanh(x))
    yield "both axes", lambda x: xp.sum(xp.tanh(x)[1:, 1:]) * xp.sum(xp.tanh(x)[:-1, :-2] ** 2)
    yield "twice", lambda x: xp.cumsum(xp.sin(x), axis=0)[1:] * xp.sin(x)[:-1] + xp.sin(x)[1:]


@pytest.mark.parametrize("name, function", [pytest.param(*c, id=c[0]) for c in near_misses()])
def test_nearly_equal_loops_may_merge(name, function):
    def loss(x):
        total = 0.0
        for part in wg.tree.leaves(function(x)):
            weights = np.cos(np.arange(float(np.size(part)))).reshape(np.shape(part))
            total = total + xp.sum(weights * part)
        return total + xp.sum(x)

    f = wg.value_and_grad(loss)
    want_value, want = f(X)
    value, gradient = jit(f)(X)
    np.testing.assert_allclose(value, want_value, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(gradient, want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name, function", [pytest.param(*c, id=c[0]) for c in near_misses()])
def test_a_store_never_reads_its_own_result(name, function):
    program = loops_of(wg.value_and_grad(lambda x: xp.sum(wg.tree.leaves(function(x))[0])), X)
    for kernel in program.kernels:
        if any(var.ordered for var in getattr(kernel, "vars", ())):
            continue  # a line in which each element is made from the one before
        for store in getattr(kernel, "stores", ()):
            loads = [e for e in walk([store.value]) if isinstance(e, Load)]
            (low, high), own = store.at.bounds(), [e for e in loads if e.buffer is store.buffer]
            assert all(e.at.bounds()[1] < low or e.at.bounds()[0] > high for e in own)


def lives(program):
    """First and last use of every arena buffer."""
    found = {}
    for position, kernel in enumerate(program.kernels):
        for buffer in map(root, buffers_of(kernel)):
            if buffer.kind is MemoryKind.ARENA:
                first = found.get(id(buffer), (buffer, position))[1]
                found[id(buffer)] = (buffer, first, position)
    return list(found.values())


@pytest.mark.parametrize(
    "function",
    [
        lambda x: xp.sort(xp.cumsum(xp.sort(x @ x.T), axis=0) @ x, axis=1),
        wg.value_and_grad(lambda x: xp.sum(xp.tanh(xp.tanh(x @ x.T) @ x) ** 2)),
        lambda x: [xp.sort(x * k) for k in range(6)],
    ],
)
def test_live_buffers_do_not_overlap(function):
    program = loops_of(function, X)
    found = lives(program)
    assert found
    for number, (one, first, last) in enumerate(found):
        assert one.offset % 64 == 0
        assert one.offset + one.nbytes <= program.arena_bytes
        for other, start, end in found[:number]:
            if start <= last and first <= end:
                apart = one.offset + one.nbytes <= other.offset
                assert apart or other.offset + other.nbytes <= one.offset


def test_space_is_used_again():
    def deep(x, count):
        for _ in range(count):
            x = xp.sort(x, axis=0) * 0.5
        return x

    few, many = (loops_of(lambda x, n=n: deep(x, n), X).arena_bytes for n in (4, 40))
    assert many - few < X.nbytes + 40 * 64  # a flag a sort at most


def test_python_numbers_are_compared():
    assert jit(lambda n: n > 0)(2)
    assert not jit(lambda n, m: n >= m)(2, 2.5)


def test_integer_powers_are_numpys():
    np.testing.assert_array_equal(jit(lambda n: n**3)(np.arange(-3, 4)), np.arange(-3, 4) ** 3)
    with pytest.raises(ValueError, match="negative integer powers"):
        jit(lambda n, m: n**m)(np.arange(3), -np.arange(3))


def test_gathers_under_choices():
    """More pieces than a nest is split into: choices become branches around gathered elements."""

    def f(x, at):
        rows = x[at]
        padded = xp.pad(xp.pad(rows, 1), [(2, 2), (2, 2)])
        return xp.pad(padded[None, :, None] + 0.0, 1) * 2.0 + xp.pad(padded, 2)[:1, :1]

    x, at = RNG.uniform(-1, 1, (4, 3)), np.array([3, 0, 0, 2])
    np.testing.assert_array_equal(jit(f)(x, at), f(x, at))


def test_a_slope_is_stored_where_its_functions_are_computed():
    def step(x, w, v):
        return wg.grad(lambda w: xp.sum(xp.square(xp.gelu(x @ w) @ v)))(w)

    x, w, v = RNG.normal(size=(40, 20)), RNG.normal(size=(20, 30)), RNG.normal(size=(30, 10))
    kernels = loops_of(step, x, w, v).kernels
    counts = [str(kernel).count("gauss(") > 0 for kernel in kernels]
    assert counts.count(True) == 1  # and not again in the backward pass
    np.testing.assert_allclose(jit(step)(x, w, v), step(x, w, v), rtol=1e-9)


def test_a_slope_alone_is_computed_where_it_is_needed():
    """Nothing else needs the cosine: to store it would gain nothing."""

    def step(x, w, v):
        return wg.grad(lambda w: xp.sum(xp.square(xp.sin(x @ w) @ v)))(w)

    x, w, v = RNG.normal(size=(40, 20)), RNG.normal(size=(20, 30)), RNG.normal(size=(30, 10))
    kernels = loops_of(step, x, w, v).kernels
    assert not any("cos(" in str(kernel) and "sin(" in str(kernel) for kernel in kernels)


def test_threads_that_are_awake_share_smaller_nests():
    nest = loops_of(lambda x: xp.exp(x), np.ones((300, 300))).kernels[0]
    assert isinstance(nest, Nest)
    assert parallelise(nest, awake=True).parallel
    assert not keeps_awake(nest, False) and keeps_awake(nest, True)
    assert keeps_awake(parallelise(nest, awake=True), False)
    (host,) = [k for k in loops_of(xp.linalg.expm, np.eye(3)).kernels if isinstance(k, Host)]
    assert not keeps_awake(host, True)


@pytest.mark.parametrize("length", [65536, 70000, 100_000])
def test_threads_have_equally_much_to_do(length):
    nest = loops_of(lambda x: 2 * x + 1, np.ones(length)).kernels[0]
    shared = parallelise(nest, awake=True)
    body, *rest = [part.vars[0].extent for part in inside(shared) if isinstance(part, Nest)]
    lengths = [body] * (shared.turns - len(rest)) + rest
    assert sum(lengths) == length
    assert len(lengths) % 2 == 0 and max(lengths) - min(lengths) < 1024


WEIGHT = RNG.normal(size=(64, 64)) * 0.05  # small, so that errors do not grow with the steps


def recurrent_step(w, x, h):
    """A gradient that a loop adds up, and what a parameter becomes by it."""

    def loss(w):
        body = lambda h, row: (xp.tanh(h @ w + row), None)
        return xp.sum(wg.scan(body, h, x)[0])

    slope = wg.grad(loss)(w)
    return w - 0.1 * slope, slope


@pytest.mark.parametrize("steps", [3, 60])
def test_a_total_is_put_together_where_it_is_used(steps):
    """Also in parts: nothing reads the gradient from memory to make the new parameter."""
    args = WEIGHT, RNG.normal(size=(steps, 96, 64)), RNG.normal(size=(96, 64))
    program = loops_of(recurrent_step, *args)
    backward = [kernel for kernel in program.kernels if isinstance(kernel, Loop)][-1]
    if steps == 60:  # fewer are summed after the loop, by one product
        assert backward.parallel and keeps_awake(backward, False)
        after = program.kernels[program.kernels.index(backward) + 1 :]
        assert len(after) == 1 and str(after[0]).count("] = ") == 2
    for got, want in zip(jit(recurrent_step)(*args), recurrent_step(*args), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


def test_a_total_goes_on_from_where_it_began():
    def step(w, x, h):
        def body(carry, row):
            h, total = carry
            h = xp.tanh(h @ w + row)
            return (h, total + h.T @ row), None

        h, total = wg.scan(body, (h, w), x)[0]
        return h, total, xp.exp(-total * total)

    args = WEIGHT, RNG.normal(size=(60, 96, 64)), RNG.normal(size=(96, 64))
    for got, want in zip(jit(step)(*args), step(*args), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


def padded_nests(shape, widths):
    """The labels of the nests that put zeros around an array."""
    program = loops_of(lambda x: xp.pad(x * 2, widths), np.ones(shape, np.float32))
    parts = [part for kernel in program.kernels for part in inside(kernel)]
    return [part.label for part in parts if isinstance(part, Nest)]


def test_thin_edges_are_filled_together_with_the_inside():
    assert padded_nests((9, 9), 1) == ["fill", ""]


def test_edges_whose_lines_are_long_are_stored_by_themselves():
    """The first and the last rows from end to end, and of the others the first and the last."""
    widths = ((0, 0), (1, 1), (1, 1), (0, 0))
    assert padded_nests((2, 28, 28, 32), widths) == [""] * 5


def test_edges_are_zero_and_the_inside_is_not():
    for shape in ((9, 9), (2, 28, 28, 32), (3, 40, 7)):
        widths = ((0, 0), *[(1, 2)] * (len(shape) - 2), (0, 3))
        x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
        got = wg.jit(lambda x, widths=widths: xp.pad(x * 2, widths))(x)
        np.testing.assert_array_equal(got, np.pad(x * 2, widths))


def test_sums_are_filled_no_further_than_they_reach():
    """Loops that are widened for another store do not write zeros behind a shorter sum."""
    graph = optimise(
        wg.trace(lambda x: (x.T + 1, np.sum(x, axis=0)), np.arange(240.0).reshape(16, 15))
    )
    for kernel in schedule(graph).kernels:
        for store in kernel.stores:
            low, high = store.at.bounds()
            assert 0 <= low <= high < store.buffer.size, str(kernel)


def test_a_line_that_many_others_read_is_divided_once():
    def function(x, scale):
        z = x / scale
        return xp.sum((z[:, None] - z[None, :]) ** 2)

    nests = [
        k for k in loops_of(function, np.ones(50), np.float64(2)).kernels if isinstance(k, Nest)
    ]
    divided = [nest for nest in nests if " / " in str(nest)]
    assert [var.extent for var in divided[0].vars] == [50] and len(divided) == 1


def test_the_innermost_loop_is_not_of_three_turns_where_another_will_do():
    def function(z, w):
        moved = w[:, :, None] * (z[:, None, :] - z[None, :, :])
        return xp.sum(moved, axis=0), xp.sum(moved, axis=1)

    program = loops_of(function, np.ones((40, 3)), np.ones((40, 40)))
    nests = [kernel for kernel in program.kernels if isinstance(kernel, Nest)]
    assert [[var.extent for var in nest.vars] for nest in nests] == [[40, 3, 40]]


def test_sums_of_sums_are_not_written_out_without_end():
    """A determinant by cofactors, all minors at once: n sums of n - 1 sums, and so on."""

    def determinant(a):
        n = a.shape[-1]
        if n == 1:
            return a[..., 0, 0]
        others = np.array([[k for k in range(n) if k != j] for j in range(n)])
        minors = np.moveaxis(a[..., 1:, :][..., others], -2, -3)
        return np.sum((-1.0) ** np.arange(n) * a[..., 0, :] * determinant(minors), axis=-1)

    a = np.random.default_rng(0).normal(size=(8, 8))
    nests = [one for one in loops_of(determinant, a).kernels if isinstance(one, Nest)]
    sizes = [len(list(walk(roots_of(nest.stores)))) for nest in nests]
    assert max(sizes) < 2000 and sum(sizes) < 6000, sizes
    np.testing.assert_allclose(jit(determinant)(a), np.linalg.det(a), rtol=1e-9)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sin(x).reshape(-1),
        lambda x: np.sum(x.reshape(3, 2, 2) ** 2, axis=2).reshape(6),
        lambda x: (np.exp(x).reshape(2, 6), np.exp(x) * 2),
        wg.grad(lambda x: np.sum(np.sin(x.reshape(4, 3)) ** 2)),
    ],
)
def test_a_result_of_another_shape_is_computed_where_it_stays(f):
    x = np.linspace(0.0, 1.0, 12).reshape(3, 4)
    compiled = wg.jit(f)
    for found, wanted in zip(wg.tree.leaves(compiled(x)), wg.tree.leaves(f(x)), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-14)
    assert "copy" not in compiled.explain(x).loops


def test_two_shapes_of_one_value_are_results_of_their_own():
    x = np.linspace(0.0, 1.0, 12).reshape(3, 4)
    flat, square, again = wg.jit(lambda x: (np.sin(x).ravel(), np.sin(x), np.sin(x).ravel()))(x)
    flat[:] = 0
    np.testing.assert_allclose(square, np.sin(x), rtol=1e-15)
    np.testing.assert_allclose(again, np.sin(x).ravel(), rtol=1e-15)


@pytest.mark.parametrize("size", [40, 4096])
@pytest.mark.parametrize("part", [lambda w, u: w @ u, lambda w, u: xp.sum(w * u)])
def test_links_of_a_chain_do_not_compute_those_before_them_anew(part, size):
    def length(w, units):
        for u in units:
            w = w - part(w, u) * u
        return xp.sum(w * w)

    def code(links):
        units = list(RNG.normal(size=(links, size)) / np.sqrt(size))
        start = RNG.normal(size=size)
        found = jit(wg.grad(length))(start, units)
        np.testing.assert_allclose(found, wg.grad(length)(start, units), rtol=1e-10, atol=1e-10)
        kernels = loops_of(wg.grad(length), start, units).kernels
        return sum(len(walk(roots_of(k.stores))) for k in kernels if isinstance(k, Nest))

    few = 8 if size == 40 else 32
    assert code(2 * few) < 2.5 * code(few)
