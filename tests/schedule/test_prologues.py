"""What a product multiplies is computed inside it where that is better, and is what it was."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wengert as wg
import wengert.numpy as xp
from wengert import machine
from wengert.codegen.compile import compile_module
from wengert.codegen.program import emit_program
from wengert.codegen.target import Target
from wengert.loops import Affine, Apply, Buffer, Contraction, Load, MemoryKind, Nest, Store, Var
from wengert.passes import optimise
from wengert.runtime.threads import set_threads
from wengert.schedule import plan, prologues, schedule
from wengert.schedule.tiling import make_plan
from wengert.schedule.units import packing
from wengert.tree import leaves

RNG = np.random.default_rng(3)
TARGET = Target.named("skylake-avx512")


@pytest.fixture
def no_regions():
    """Products over whole arrays, though blocks may be better."""
    with machine.use(regions={"layouts": ()}):
        yield


def array(*shape, dtype="float64"):
    return RNG.normal(size=shape).astype(dtype)


def loops_of(function, *args, target=TARGET):
    graph = optimise(wg.trace(function, *args))
    with machine.compiling_for(machine.in_use(target)):
        return plan(schedule(graph))


def products(program):
    return [kernel for kernel in program.kernels if isinstance(kernel, Contraction)]


def computed(program):
    """For each product, which of its factors it computes."""
    return [(k.x_value is not None, k.y_value is not None) for k in products(program)]


def fuse_all():
    wg.clear_cache()
    most = dict.fromkeys(("saved", "nearly"), float("inf"))
    uses = dict.fromkeys(("large_bytes", "few_uses", "few_costly_uses"), 0)
    sums = dict.fromkeys(("few_summed", "few_kept", "few_costly"), 0)
    return machine.use(prologues={**most, **uses, **sums})


@pytest.fixture
def always():
    """Whatever can be computed in a product is."""
    with fuse_all():
        yield


# ---------------------------------------------------------------- elements that are read once


def is_one_pass(function, *args):
    """Whether all of it is one nest that needs no memory besides."""
    program = loops_of(function, *args)
    return len(program.kernels) == 1 and not products(program) and program.arena_bytes == 0


def test_a_dot_product_is_one_pass():
    x, y = array(1000), array(1000)
    assert is_one_pass(lambda x, y: xp.exp(x) @ y, x, y)
    assert is_one_pass(lambda x, y: x @ xp.exp(y), x, y)
    assert is_one_pass(lambda x, y: xp.exp(x) @ xp.tanh(y), x, y)


def test_a_matrix_times_a_vector_is_one_pass():
    x, v, mask = array(300, 700), array(700), array(300, 700) > 0
    assert is_one_pass(lambda x, v: xp.tanh(x) @ v, x, v)
    assert is_one_pass(lambda x, v, mask: (mask * x) @ v, x, v, mask)
    assert is_one_pass(lambda x, v: v @ xp.tanh(x).T, x, v)
    assert is_one_pass(lambda x, v: (x - 1.0).T @ v, x.T.copy(), v)


def test_a_plain_product_stays_one():
    program = loops_of(lambda x, v: x @ v, array(300, 700), array(700))
    assert computed(program) == [(False, False)]


def test_what_follows_the_sums_follows_them_still(no_regions):
    x, v, b = array(300, 700), array(700), array(300)
    program = loops_of(lambda x, v, b: xp.tanh((x * 2.0) @ v + b), x, v, b)
    assert [type(kernel) for kernel in program.kernels] == [Nest, Nest]
    assert program.arena_bytes == -(-300 * 8 // 64) * 64  # the sums, but not the factor
    got = wg.jit(lambda x, v, b: xp.tanh((x * 2.0) @ v + b))(x, v, b)
    np.testing.assert_allclose(got, np.tanh((x * 2) @ v + b), rtol=1e-9, atol=1e-12)


def test_a_vector_that_every_row_needs_is_computed_before():
    program = loops_of(lambda x, v: x @ xp.tanh(v), array(300, 700), array(700))
    assert computed(program) == [(False, False)]
    program = loops_of(lambda x, v: (x * 2.0) @ xp.tanh(v), array(300, 700), array(700))
    assert not products(program)
    assert program.arena_bytes == 700 * 8 + 32


def test_short_sums_are_left_to_products():
    assert computed(loops_of(lambda x, v: (x * 2.0) @ v, array(300, 7), array(7)))
    assert computed(loops_of(lambda x, v: xp.tanh(x) @ v, array(300, 100), array(100)))


# ---------------------------------------------------------------- factors that are packed


LARGE = (array(1024, 600, dtype="float32"), array(600, 64, dtype="float32"))


def test_a_large_factor_is_computed_as_it_is_packed():
    program = loops_of(lambda x, w: xp.tanh(x) @ w, *LARGE)
    assert computed(program) == [(True, False)]
    assert program.arena_bytes == 0
    assert str(program.kernels[0]) == (
        "for i < 1024 for j < 64 for k < 600: out2 += tanh(in0[600*i + k]) * in1  # contract"
    )


def test_the_loops_tell_both_ends():
    x, w = LARGE
    program = loops_of(lambda x, w, b: xp.exp(xp.tanh(x) @ w + b), x, w, x[0, :64])
    assert str(program.kernels[0]) == (
        "for i < 1024 for j < 64: sum of tanh(in0[600*i + k]) * in1 for k < 600  # contract\n"
        "  out3[64*i + j] = exp(sum + in2[j])"
    )


def test_normalised_factors():
    def function(x, w, scale):
        return ((x - xp.mean(x, axis=0)) * scale) @ w

    x, w = LARGE
    program = loops_of(function, x, w, x[0])
    assert computed(program) == [(True, False)]
    assert program.arena_bytes == 2 * 2432  # the sums and the means


def test_small_factors_are_kept():
    program = loops_of(lambda x, w: xp.tanh(x) @ w, array(64, 64), array(64, 64))
    assert computed(program) == [(False, False)]


def test_factors_that_are_used_a_few_times_are_kept(no_regions):
    x, w = LARGE
    assert computed(loops_of(lambda x, w: (x * 2.0) @ w, x, w[:, :4])) == [(False, False)]
    assert computed(loops_of(lambda x, w: (x * 2.0) @ w, x, w[:, :16])) == [(True, False)]
    assert computed(loops_of(lambda x, w: xp.tanh(x) @ w, x, w[:, :16])) == [(False, False)]


def test_values_that_somebody_else_wants_are_kept():
    assert computed(loops_of(lambda x, w: (xp.tanh(x), xp.tanh(x) @ w), *LARGE)) == [(False, False)]
    program = loops_of(lambda x, w: (xp.tanh(x) @ w, xp.sum(xp.tanh(x))), *LARGE)
    assert computed(program) == [(False, False)]
    program = loops_of(lambda x, w: (xp.tanh(x) @ w, xp.tanh(x) @ (w + 1.0)), *LARGE)
    assert computed(program) == [(False, False)] * 2


def test_cheap_values_are_computed_for_two():
    program = loops_of(lambda x, w: ((x * 2.0) @ w, (x * 2.0) @ w[::-1]), *LARGE)
    assert computed(program) == [(True, False)] * 2
    assert program.arena_bytes == 0


def test_what_is_stored_anyway_is_read():
    """The exponential is a result; the factor is computed from it, not from its argument."""
    program = loops_of(lambda x, w: (xp.exp(x), (xp.exp(x) + 1.0) @ w), *LARGE)
    assert computed(program) == [(True, False)]
    assert "exp" not in str(products(program)[0])


def test_the_value_belongs_to_the_product_before():
    x, w = LARGE
    program = loops_of(lambda x, w: xp.tanh(x @ w) @ w.T, x, w)
    first, second = products(program)
    assert first.stores
    assert not second.values


def test_windows_are_read_in_place():
    x, w = array(4, 3, 200, 200), array(5, 3, 3, 3)
    program = loops_of(lambda x, w: xp.conv(xp.maximum(x, 0.0), w), x, w)
    assert not any(any(pair) for pair in computed(program))


def test_memory_that_changes_before_the_product_is_not_read_there():
    """`t` is computed from `a` before another kernel writes `a` again."""
    double = np.dtype("float64")
    x, a, t = (Buffer(n, double, (64, 80), (80, 1), MemoryKind.ARENA) for n in "xat")
    w = Buffer("w", double, (80, 64), (64, 1), MemoryKind.INPUT)
    out = Buffer("out", double, (64, 64), (64, 1), MemoryKind.OUTPUT)
    k = Var("k", 64 * 80)
    at = Affine.of(k)
    twice = Apply("add", (Load(a, at), Load(a, at)), x.dtype)
    first, change = (Nest([k], [Store(a, at, Load(x, at))]) for _ in range(2))
    product = Contraction({0: 64, 1: 80, 2: 64}, out, t, w, {0: 64, 2: 1}, {0: 80, 1: 1},
                          {1: 64, 2: 1})  # fmt: skip
    compute = Nest([k], [Store(t, at, twice)])

    def pack(kernel):
        return prologues.Packing(1.0, 1.0, 1.0)

    kernels = prologues.fuse_prologues([first, compute, product], pack)
    assert [type(kernel) for kernel in kernels] == [Nest, Contraction]
    kernels = prologues.fuse_prologues([first, compute, change, product], pack)
    assert [type(kernel) for kernel in kernels] == [Nest, Nest, Nest, Contraction]


# ---------------------------------------------------------------- results


def check(function, *args):
    """Compiled = evaluated; gives the loops."""
    compiled = wg.jit(function)
    tolerance = 2e-4 if args[0].dtype == np.float32 else 1e-10
    got, want = leaves(compiled(*args)), leaves(function(*args))
    for one, other in zip(got, want, strict=True):
        scale = max(1.0, float(np.max(np.abs(other), initial=0.0)))
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance * scale)
    return compiled.explain(*args).loops


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("sizes", [(1, 1, 1), (2, 3, 5), (17, 33, 9), (64, 64, 64), (65, 31, 100)])
@pytest.mark.parametrize("layout", ["plain", "x.T", "w.T", "both.T", "slices", "reversed"])
def test_all_layouts(sizes, dtype, layout, always):
    m, k, n = sizes
    x, w = array(m, k, dtype=dtype), array(k, n, dtype=dtype)

    def function(x, w):
        x, w = xp.tanh(x), xp.exp(-w * w)
        x = x.T if layout in ("x.T", "both.T") else x
        w = w.T if layout in ("w.T", "both.T") else w
        if layout == "slices":
            x, w = x[: m // 2 + 1, ::2], w[::2, n // 3 :]
        if layout == "reversed":
            x, w = x[:, ::-1], w[:, ::-1]
        return x @ w

    x = x.T.copy() if layout in ("x.T", "both.T") else x
    w = w.T.copy() if layout in ("w.T", "both.T") else w
    text = check(function, x, w)
    if min(sizes) > 2 and layout != "slices":
        assert "* exp(" in text  # both were computed in the product


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "sizes", [(300, 700, 300), (1024, 1000, 33), (50, 3000, 500), (129, 1031, 65)]
)
def test_large_ones(sizes, dtype, always):
    m, k, n = sizes
    x, w, mean = array(m, k, dtype=dtype), array(k, n, dtype=dtype), array(k, dtype=dtype)
    check(lambda x, w, mean: xp.tanh(x - mean) @ (w * 0.1), x, w, mean)
    check(lambda x, w: xp.tanh(x.T) @ xp.maximum(w, 0.0), x.T.copy(), w)
    check(lambda x, w: xp.tanh(x) @ xp.maximum(w.T, 0.0), x, w.T.copy())


@pytest.mark.parametrize("source", ["bool", "int8", "int64", "float32"])
def test_conversions(source, always):
    x = (array(70, 90) * 3).astype(source)
    text = check(lambda w, x: xp.astype(x, "float64") @ w, array(90, 50), x)
    assert "f64(in1[" in text
    check(lambda v, x: xp.astype(x, "float64") @ v, array(90), x)


def test_broadcasts(always):
    x, w, row, column = array(70, 90), array(90, 50), array(90), array(70, 1)
    check(lambda x, w, row, column: ((x - row) * column) @ w, x, w, row, column)
    check(lambda x, w, row, column: x @ (w * row[:, None] + 2.0), x, w, row, column)
    # no array has all the loops of the factor: it gets memory
    check(lambda x, w, row, column: (row * column) @ w, x, w, row, column)


def test_reshaped_values(always):
    x, w = array(6, 35, 30), array(30, 40)
    text = check(lambda x, w: xp.reshape(xp.tanh(x), (210, 30)) @ w, x, w)
    assert "tanh(in0" in text.split("contract")[0].splitlines()[-1]
    check(lambda x, w: xp.reshape(xp.tanh(x), (7, 30, 30)) @ w, x, w)
    check(lambda x, w: xp.reshape(xp.tanh(x), (42, 150))[:, 30:60] @ w, x, w)


def test_nothing_at_all(always):
    for m, k, n in itertools.product((0, 3), repeat=3):
        check(lambda x, w: xp.tanh(x) @ xp.exp(w), array(m, k), array(k, n))


def test_one_value_twice(always):
    x = array(60, 45)
    check(lambda x: (x * 2.0) @ (x * 2.0).T, x)
    check(lambda x: xp.tanh(x) @ xp.tanh(x).T, x)
    check(lambda v: (v * 2.0) @ (v * 2.0), array(600))


def test_state_is_read_before_it_changes(always):
    """A parameter that is part of a factor and is replaced in the same step."""
    weight = wg.Tensor(array(40, 30))
    x, before = array(50, 40), np.array(weight)

    @wg.jit
    def step(x):
        y = x @ (weight * 2.0)
        weight[...] = weight - 0.1 * (x.T @ y)
        return y

    y = step(x)
    np.testing.assert_allclose(y, x @ (before * 2), rtol=1e-9)
    np.testing.assert_allclose(weight, before - 0.1 * (x.T @ y), rtol=1e-9)


def test_backward_of_a_mask(always):
    """relu's mask on the cotangent, before both products of the backward pass."""
    x, w, g = array(90, 70), array(70, 50), array(90, 50)

    def function(x, w, g):
        cotangent = xp.where(x @ w > 0, g, 0.0)
        return x.T @ cotangent, cotangent @ w.T

    check(function, x, w, g)


@pytest.mark.parametrize("shape", [(2, 3, 12, 11), (1, 5, 9, 20)])
def test_convolutions(shape, always):
    x, w = array(*shape), array(4, shape[1], 3, 3)

    def loss(x, w):
        return xp.sum(xp.tanh(xp.conv(xp.maximum(x, 0.0), w * 2.0)))

    check(wg.value_and_grad(loss, (0, 1)), x, w)


def test_inside_the_batch_loop(always):
    x, a, b = array(64, 30), array(30, 20), array(20, 10)

    def loss(a, b, x):
        return xp.sum(xp.tanh(xp.maximum(xp.exp(-x * x) @ a, 0.0) @ b) ** 2)

    step = wg.value_and_grad(loss, (0, 1))
    check(step, a, b, x)


def test_inside_a_scan(always):
    w, xs = array(12, 12), array(9, 7, 12)

    def function(w, xs):
        def body(h, x):
            h = xp.tanh(xp.exp(-h * h) @ (w * 0.3) + x)
            return h, xp.sum(h)

        return wg.scan(body, xp.zeros((7, 12)), xs)

    check(function, w, xs)


SPECS = ["mk,kn->mn", "km,kn->mn", "mk,nk->nm", "bmk,bkn->bmn", "mkb,knb->mnb", "mk,k->m", "k,k->",
         "m,n->mn", "bhqd,bhkd->bhqk", "bqhd,bkhd->bhqk", "abk,kbn->an", "bk,bk->b", "km,k->m",
         "abk,abk->b", "mkj,kjn->mn"]  # fmt: skip
MAPS = [
    lambda x, m: x,
    lambda x, m: xp.tanh(x),
    lambda x, m: x * m,
    lambda x, m: xp.where(m > 0, x, 0.0),
    lambda x, m: (x - xp.mean(x, axis=-1, keepdims=True)) * 0.5,
    lambda x, m: xp.exp(-m * m) + x[..., :1],
    lambda x, m: xp.maximum(x, 0.0)[..., ::-1],
]
EXTENTS = [1, 2, 3, 5, 8, 16, 17, 31, 40]


@given(
    st.sampled_from(SPECS),
    st.lists(st.sampled_from(EXTENTS), min_size=9, max_size=9),
    st.tuples(*[st.integers(0, len(MAPS) - 1)] * 2),
    st.sampled_from(["float32", "float64"]),
    st.booleans(),
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_any_product_of_any_factors(spec, extents, maps, dtype, bias):
    size = dict(zip("abhqdkmnj", extents, strict=True))
    shapes = [tuple(size[c] for c in term) for term in spec.split("->")[0].split(",")]
    x, y, p, q = (array(*shape, dtype=dtype) for shape in [*shapes, *shapes])

    def function(x, y, p, q):
        product = xp.einsum(spec, MAPS[maps[0]](x, p), MAPS[maps[1]](y, q))
        return xp.tanh(product + 1.0) if bias else product

    with fuse_all():
        check(function, x, y, p, q)


# ---------------------------------------------------------------- processors


@pytest.mark.parametrize("name", ["skylake-avx512", "haswell", "x86-64", "apple-m1", "neoverse-n1"])
def test_code_for_every_processor(name, always, no_regions):
    target = Target.named(name)
    x, w, row = array(70, 90, dtype="float32"), array(90, 50, dtype="float32"), array(90) > 0
    program = loops_of(lambda x, w, row: xp.tanh(x * row) @ (w + 1.0), x, w, row, target=target)
    assert computed(program) == [(True, True)]
    module = emit_program(program, target).module
    assert "product.pack" in compile_module(module, target).assembly()


def test_a_factor_that_is_computed_is_packed(always):
    x, w = array(70, 90), array(90, 50)
    (product,) = products(loops_of(lambda x, w: xp.tanh(x) @ w, x, w))
    plain = replace(product, x_value=None)
    assert make_plan(product, TARGET).pack_x
    assert not make_plan(plain, TARGET).pack_x
    assert packing(product, TARGET).x >= 1.0
    assert packing(plain, TARGET).x == 0.0


# ---------------------------------------------------------------- threads


@pytest.fixture
def any_threads():
    yield
    set_threads(None)


@pytest.mark.parametrize(
    "sizes", [(400, 700, 200), (1024, 800, 64), (3000, 1000, 1), (1, 200000, 1)]
)
def test_any_number_of_threads_gives_the_same_bits(sizes, any_threads):
    m, k, n = sizes
    x, w = array(m, k, dtype="float32"), array(k, n, dtype="float32")

    def function(x, w):
        return xp.tanh(x) @ w[:, 0] if n == 1 else (xp.tanh(x) @ w, (x * 2.0) @ w)

    compiled = wg.jit(function)
    set_threads(1)
    first = leaves(compiled(x, w))
    for threads in range(2, 9):
        set_threads(threads)
        for one, other in zip(leaves(compiled(x, w)), first, strict=True):
            np.testing.assert_array_equal(one, other)
