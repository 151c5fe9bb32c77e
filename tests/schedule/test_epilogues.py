"""What follows a product becomes part of it where it can, and no result changes by a bit."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wengert as wg
import wengert.numpy as xp
from batch_loops import batch_loops
from wengert.loops import Contraction, MemoryKind, Nest, inside
from wengert.passes import optimise
from wengert.runtime.threads import set_threads
from wengert.schedule import plan, schedule
from wengert.tree import leaves

RNG = np.random.default_rng(7)
X, W = RNG.normal(size=(23, 12)), RNG.normal(size=(12, 17))
B, M = RNG.normal(size=17), RNG.normal(size=(23, 17))


def loops_of(function, *args):
    return plan(schedule(optimise(wg.trace(function, *args))))


def products(program):
    return [kernel for kernel in program.kernels if isinstance(kernel, Contraction)]


def is_one_product(function, *args):
    """Whether all of it is one product that keeps no sums."""
    program = loops_of(function, *args)
    kernels = program.kernels
    one = len(kernels) == 1 and isinstance(kernels[0], Contraction)
    return one and not kernels[0].keeps_sums and program.arena_bytes == 0


# ---------------------------------------------------------------- what moves


def test_bias_and_activation():
    assert is_one_product(lambda x, w, b: xp.tanh(x @ w + b), X, W, B)
    assert is_one_product(lambda x, w, m: xp.where(m > 0, x @ w, -1.0), X, W, M)


def test_a_vector_and_a_number():
    assert is_one_product(lambda x, b: xp.exp(-(x @ b)), W, B)
    assert is_one_product(lambda b: xp.sqrt(b @ b), B)


def test_the_loops_are_told():
    text = str(loops_of(lambda x, w, b: (x @ w, x @ w + b), X, W, B))
    assert text.endswith(
        "for i < 23 for j < 17: sum of in0 * in1 for 1 < 12  # contract\n"
        "  out3[17*i + j] = sum\n"
        "  out4[17*i + j] = sum + in2[j]"
    )


def test_the_same_elements_under_another_shape():
    def shaped(x, w, b):
        return xp.maximum(xp.reshape(x @ w, (23, 1, 17)) + b, 0.0)

    assert is_one_product(shaped, X, W, B)
    flat = loops_of(lambda x, w: xp.reshape(x @ w, (-1,)) * 2.0, X, W)
    assert len(flat.kernels) == 1


def test_results_under_another_shape_and_what_others_make_of_them():
    """As in a training step of one sample: the gradient of a bias, and the bias after it."""

    def step(bias, row, w):
        slope = (row @ w) * (row[:, :1] > 0)
        return slope.reshape(17), bias - 0.1 * slope.reshape(17)

    assert is_one_product(step, B, X[:1], W)


def test_what_is_written_twice_is_written_in_order():
    """The second write goes to other elements than the first, which come later there."""

    def mirrored(x, w):
        y = np.tanh(x @ w)
        z = y.copy()
        z[::-1] = y
        return z * 2.0, y

    for got, want in zip(wg.jit(mirrored)(X, W), mirrored(X, W), strict=True):
        np.testing.assert_allclose(got, want)


def test_transposed_results_are_computed_as_they_lie():
    (product,) = products(loops_of(lambda x, w: (x @ w).T + 1.0, X, W))
    assert product.stores
    assert sorted(product.out_strides.values()) == [1, 23]


def test_gradient_and_update_come_out_of_one_product():
    def step(p, x, g):
        slope = x.T @ g
        return slope, p - 0.1 * slope

    program = loops_of(step, W, X, M)
    assert len(program.kernels) == 1
    assert program.arena_bytes == 0


def test_a_sum_of_two_products_is_the_epilogue_of_the_later_one():
    program = loops_of(lambda x, w: xp.tanh(x @ w + (x + 1.0) @ w), X, W)
    first, second = products(program)
    assert not first.stores
    assert len(second.stores) == 1
    assert program.kernels[-1] is second


def test_what_is_summed_as_well_is_read_from_what_the_product_stored():
    def backward(g, w, m):
        slope = (g @ w.T) * (m > 0)
        return slope, xp.sum(slope, axis=0)

    program = loops_of(backward, M, W, X)
    product, rest = program.kernels
    assert not product.keeps_sums
    assert isinstance(rest, Nest)
    assert str(rest.stores[0].value.buffer.name) == product.stores[0].buffer.name


def test_a_nest_whose_stores_go_to_two_products_is_gone():
    def step(x, w, b, m):
        return x @ w + b, (x + 1.0) @ w - m

    program = loops_of(step, X, W, B, M)
    assert len(products(program)) == 2
    stores = [store for kernel in program.kernels for store in kernel.stores]
    written = [store.buffer.name for store in stores if store.buffer.kind is MemoryKind.OUTPUT]
    assert len(written) == len(set(written)) == 2


def test_a_product_waits_for_what_its_epilogue_needs():
    def function(x, w, m):
        product = x @ w
        scale = xp.sum(m * m)
        return product / scale

    program = loops_of(function, X, W, M)
    assert isinstance(program.kernels[-1], Contraction)
    assert program.kernels[-1].stores


def test_an_update_waits_until_the_old_parameter_was_read():
    def step(w, x, g):
        slope = x.T @ g
        back = g @ w.T
        return w - 0.1 * slope, back

    program = loops_of(step, W, X, M)
    assert [bool(product.stores) for product in products(program)] == [False, True]


def test_products_inside_the_batch_loop():
    conv, images = RNG.normal(size=(6, 1, 3, 3)), RNG.normal(size=(64, 1, 12, 12))

    def loss(conv, x):
        return xp.sum(xp.maximum(xp.conv(x, conv) + 0.5, 0.0) ** 2)

    program = loops_of(wg.grad(loss), *map(np.float32, (conv, images)))
    (loop,) = batch_loops(program)
    parts = [part for kernel in loop.body for part in inside(kernel)]
    products = [kernel for kernel in parts if isinstance(kernel, Contraction)]
    assert any(product.stores for product in products)
    assert not any(product.stores for product in products if product.accumulates)


# ---------------------------------------------------------------- what stays


STAY = {
    "other elements": lambda x, w, b: x @ w + (x @ w)[::-1],
    "a row's largest": lambda x, w, b: x @ w - xp.max(x @ w, axis=1, keepdims=True),
    "repeated": lambda x, w, b: xp.broadcast_to(x @ w, (2, 23, 17)) + 1.0,
    "a part": lambda x, w, b: (x @ w)[3:, ::2] * 2.0,
    "edges": lambda x, w, b: xp.pad(x @ w, 1) * 2.0,
    "sums": lambda x, w, b: xp.sum(x @ w, axis=0),
    "picked": lambda x, w, b: b[xp.argmax(x @ w, axis=1)],
}


@pytest.mark.parametrize("name", STAY)
def test_what_needs_other_elements_stays_and_is_right(name):
    program = loops_of(STAY[name], X, W, B)
    assert not any(product.stores for product in products(program))
    np.testing.assert_allclose(wg.jit(STAY[name])(X, W, B), STAY[name](X, W, B), rtol=1e-10)


def test_scattering_into_a_copy_of_a_product():
    def function(x, w):
        t = xp.array(x @ w)
        t[2:4] = 7.0
        t[xp.array([1, 1, 5])] += 1.0
        return t * 2.0, x @ w

    for one, other in zip(wg.jit(function)(X, W), wg.trace(function, X, W)(X, W), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10)


def test_what_is_scattered_into_is_read_after_it():
    """The product stores the array that is scattered into: who reads the result comes after it."""

    def function(x, w, at, v):
        found = (x @ w).copy()
        np.add.at(found, at, v)
        return found * np.cos(x @ w)

    args = X, B[:12], np.array([3, 0, 3]), np.array([0.5, 1.5, 2.5])
    np.testing.assert_allclose(wg.jit(function)(*args), function(*args), rtol=1e-13)


def test_the_gradient_of_a_sort_reads_what_it_scattered_into():
    def function(x):
        rows = np.tanh(np.einsum("ij,ij->i", x, x) * 0.25)
        ordered = np.sort(rows)
        return np.sum(np.sin(rows)) + ordered[1] * ordered[2]

    x = X[:5]
    np.testing.assert_allclose(
        wg.jit(wg.grad(function))(x), wg.grad(function)(x), rtol=1e-11, atol=1e-14
    )


def test_memory_that_a_product_stores_to_with_others_is_read_after_it():
    """The spread of points about their mean: parts of one array come out of several products, and
    the last one cannot read them while it stores its own."""

    def function(mean, lower):
        points = np.array([mean, mean + lower[0], mean - lower[0], mean + lower[1]])
        middle = np.mean(points, axis=0)
        return np.sum(sum(np.outer(row - middle, row - middle) for row in points) ** 2)

    gradient = wg.grad(function, (0, 1))
    found, wanted = wg.jit(gradient)(X[0, :2], W[:2, :2]), gradient(X[0, :2], W[:2, :2])
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-13)


# ---------------------------------------------------------------- the same bits


@pytest.fixture
def unfused(monkeypatch):
    """Compiles a function with its nests as they were."""
    monkeypatch.setenv("WENGERT_CACHE", "off")

    def compiled(function, *args):
        with monkeypatch.context() as patch:
            patch.setenv("WENGERT_SCHEDULE", "-epilogues")
            jitted = wg.jit(function)
            result = jitted(*args)
            text = jitted.explain(*args).loops
        assert "sum of" not in text
        return result

    return compiled


def mlp(xs):
    def loss(params, x, y):
        for w, b in params:
            x = xp.tanh(x @ w + b)
        return xp.mean((x - y) ** 2)

    def step(params, x, y):
        value, slopes = wg.value_and_grad(loss)(params, x, y)
        pairs = zip(params, slopes, strict=True)
        return value, [(w - 0.1 * a, b - 0.1 * c) for (w, b), (a, c) in pairs]

    return step, *xs


def arrays(dtype, *shapes):
    rng = np.random.default_rng(len(shapes))
    return [rng.uniform(-1, 1, shape).astype(dtype) for shape in shapes]


def network(dtype, widths, batch):
    pairs = list(itertools.pairwise(widths))
    params = [tuple(arrays(dtype, pair, pair[1:])) for pair in pairs]
    return params, *arrays(dtype, (batch, widths[0]), (batch, widths[-1]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("widths", [(5, 3, 1), (70, 33, 100, 10), (300, 401, 29)])
def test_a_training_step_gives_the_same_bits(widths, dtype, unfused):
    step, *args = mlp(network(dtype, widths, 61))
    fused = leaves(wg.jit(step)(*args))
    assert "sum of" in wg.jit(step).explain(*args).loops
    for one, other in zip(fused, leaves(unfused(step, *args)), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.fixture
def any_threads():
    yield
    set_threads(None)


@pytest.mark.parametrize("sizes", [(400, 300, 200), (7, 3000, 401), (513, 600, 520)])
def test_any_number_of_threads_gives_the_same_bits(sizes, any_threads):
    m, k, n = sizes
    x, w, b, mask = arrays("float32", (m, k), (k, n), (n,), (m, n))

    def function(x, w, b, mask):
        t = x @ w + b
        return t, xp.tanh(t) * (mask > 0)

    compiled = wg.jit(function)
    set_threads(1)
    first = compiled(x, w, b, mask)
    want = np.float64(x) @ w + b
    np.testing.assert_allclose(first[0], want, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(first[1], np.tanh(want) * (mask > 0), rtol=1e-4, atol=1e-4)
    for threads in (2, 3, 4):
        set_threads(threads)
        for one, other in zip(compiled(x, w, b, mask), first, strict=True):
            np.testing.assert_array_equal(one, other)


# ---------------------------------------------------------------- any product, any epilogue


SPECS = ["mk,kn->mn", "km,kn->mn", "mk,nk->nm", "bmk,bkn->bmn", "mkb,knb->mnb", "mk,k->m", "k,k->",
         "m,n->mn", "bhqd,bhkd->bhqk", "bqhd,bkhd->bhqk", "abk,kbn->an"]  # fmt: skip


@st.composite
def epilogues(draw):
    """(function, arguments): a product and a random expression of it and of other arrays."""
    spec = draw(st.sampled_from(SPECS))
    dtype = draw(st.sampled_from(["float32", "float64"]))
    inputs, out = spec.split("->")
    lengths = st.sampled_from([0, 1, 2, 3, 7, 16, 18, 33])
    sizes = {letter: draw(lengths) for letter in sorted(set(inputs) - {","})}
    shapes = [tuple(sizes[c] for c in part) for part in inputs.split(",")]
    shape = tuple(sizes[c] for c in out)
    others = [
        tuple(n if draw(st.booleans()) else 1 for n in shape)[draw(st.integers(0, len(shape))) :]
        for _ in range(3)
    ]
    steps = draw(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 2)), min_size=1, max_size=4))
    kept = draw(st.booleans())
    turned = draw(st.booleans())

    def function(x, y, *rest):
        total = xp.einsum(spec, x, y)
        t = total
        for kind, number in steps:
            other = rest[number]
            t = [
                lambda t=t, o=other: t + o,
                lambda t=t, o=other: o - t,
                lambda t=t, o=other: t * o,
                lambda t=t, o=other: xp.maximum(t, o),
                lambda t=t, o=other: xp.where(o > 0, t, -t),
                lambda t=t: xp.tanh(t),
                lambda t=t, o=other: (t > o) * t,
                lambda t=t: xp.exp(-t * t),
            ][kind]()
        results = [xp.transpose(t) if turned else t]
        return [*results, total] if kept else results

    return function, arrays(dtype, *shapes, *others)


@settings(deadline=None, max_examples=40)
@given(epilogues())
def test_any_epilogue_gives_what_evaluation_gives(case):
    function, args = case
    found, want = wg.jit(function)(*args), wg.trace(function, *args)(*args)
    for one, other in zip(found, want, strict=True):
        assert np.shape(one) == np.shape(other)
        close = 2e-5 if np.result_type(one) == np.float32 else 1e-12
        np.testing.assert_allclose(one, other, rtol=close, atol=40 * close)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_convolutions(dtype, unfused):
    images, weights, bias = arrays(dtype, (2, 3, 11, 13), (5, 3, 3, 3), (5, 1, 1))

    def function(x, w, b):
        return xp.maximum(xp.conv(x, w, padding=1) + b, 0.0)

    (product,) = products(loops_of(function, images, weights, bias))
    assert len(product.stores) == 1
    found = wg.jit(function)(images, weights, bias)
    np.testing.assert_array_equal(found, unfused(function, images, weights, bias))


# ---------------------------------------------------------------- state


def updated_in_place(function, *starts, x, times=3):
    """Whether state is updated in place, after checking that it is right."""
    compiled, evaluated = [wg.tensor(a) for a in starts], [wg.tensor(a) for a in starts]
    step = wg.jit(lambda x: function(*compiled, x))
    for _ in range(times):
        step(x)
        function(*evaluated, x)
        for one, other in zip(compiled, evaluated, strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-9, atol=1e-9)
    written = [state for state in step.program(x).state if state.written]
    return [state.scratch is None for state in written]


# large enough for sums in blocks, whose unfinished parts must not lie in the parameter
@pytest.mark.parametrize("sizes", [(9, 5, 7), (300, 700, 280)])
def test_parameters_are_updated_in_place_by_the_product(sizes):
    m, k, n = sizes
    p, g, x = (a / 16 for a in arrays("float64", (m, n), (k, n), (k, m)))

    def update(p, g, x):
        p -= 0.1 * (x.T @ g)

    assert updated_in_place(update, p, g, x=x) == [True]


def test_a_parameter_that_is_a_factor_is_not_overwritten():
    p, x = (a / 8 for a in arrays("float64", (40, 40), (40, 40)))

    def update(p, x):
        p -= 0.1 * (p @ x)

    assert updated_in_place(update, p, x=x) == [False]


def test_momentum():
    p, m, x = (a / 8 for a in arrays("float64", (30, 20), (30, 20), (50, 30)))

    def update(p, m, x):
        slope = x.T @ (x @ p)
        m[...] = 0.9 * m + slope
        p -= 0.1 * m

    assert updated_in_place(update, p, m, x=x) == [True, True]


def test_the_old_parameter_is_still_needed_as_a_factor():
    p, q, x = (a / 8 for a in arrays("float64", (30, 20), (20, 30), (50, 30)))

    def update(p, q, x):
        h = x @ p
        slope = (h @ q - x) @ q.T
        back = x.T @ slope
        q -= 0.1 * (h.T @ (h @ q - x))
        p -= 0.1 * back

    assert updated_in_place(update, p, q, x=x) == [True, True]


def test_a_product_does_not_wait_behind_who_reads_it():
    """Two products wait for the same sum: the second must not fall behind the first, which reads
    it."""
    a, q = RNG.normal(size=(4, 4)) / 4, np.eye(4)

    def step(a, p):
        return a.T @ p @ a - (a.T @ p) @ (p @ a) / (1 + np.trace(p)) + q

    f = lambda a: wg.scan(lambda p, _: (step(a, p), None), q, length=3)[0]
    push = lambda a: wg.jvp(f, (a,), (a,))
    for got, want in zip(wg.jit(push)(a), push(a), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)
