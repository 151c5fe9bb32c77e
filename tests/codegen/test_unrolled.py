"""Small products without loops: the right sums for any sizes and strides, and nothing outside."""

import ctypes
from dataclasses import replace

import numpy as np
import pytest
from llvmlite import ir

import wengert as wg
import wengert.numpy as xp
from wengert import machine
from wengert.codegen.compile import compile_module
from wengert.codegen.program import emit_program
from wengert.codegen.target import Target
from wengert.codegen.unrolled import _halves, emit_unrolled, unrolled_form
from wengert.loops import Apply
from wengert.passes import optimise
from wengert.schedule import plan, schedule

from .test_contraction import (
    FLOATS,
    HERE,
    Finished,
    assert_same_bits,
    guarded_view,
    kernel_of,
    random,
    reference,
    tolerance,
)

SPECS = ("mk,k->m", "k,mk->m", "km,k->m", "k,km->m", "mk,mk->m", "k,mkz->m", "k,k->")
# for one sample a step: (1, k) @ (k, m) has axes of one element
SAMPLES = ("zk,mk->zm", "zk,km->zm")
NAMES = ["host", *HERE]


@pytest.fixture
def no_limit():
    """Products of all sizes are small."""
    with machine.use(code={"product_steps": 1e9}):
        yield


def target_of(name):
    return Target.host() if name == "host" else Target.named(name)


def run_all(cases, target):
    """Compute all products by one module; each case is (kernel, x, y, out, others)."""
    module = ir.Module()
    module.triple = target.triple
    for number, (kernel, *_) in enumerate(cases):
        form = unrolled_form(kernel, target)
        assert form is not None
        emit_unrolled(module, target, kernel, form, f"f{number}")
        module.globals[f"f{number}"].linkage = ""
    compiled = compile_module(module, target)
    for number, (kernel, x, y, out, others) in enumerate(cases):
        arrays = [out, x, y, np.zeros(1), *others]
        function = compiled.function(f"f{number}", None, *[ctypes.c_void_p] * len(arrays))
        function(*[array.ctypes.data for array in arrays])
        assert kernel.out.dtype == out.dtype


def guarded(spec, sizes, dtype, steps=(1, 1, 1), at_end=True):
    """x, y and out between forbidden pages, each dense but for a step from element to element."""
    arrays = []
    for number, part in enumerate(spec.replace("->", ",").split(",")):
        shape = tuple(sizes[c] for c in part)
        strides = [int(np.prod(shape[k + 1 :])) * steps[number] for k in range(len(shape))]
        array, memory = guarded_view(shape, strides, np.dtype(dtype), at_end)
        array[...] = random(shape, dtype, number) if number < 2 else np.nan
        arrays.append((array, memory))
    return [array for array, _ in arrays], [memory for _, memory in arrays]


def check(spec, all_sizes, dtypes, name, **options):
    cases, keep = [], []
    for number, sizes in enumerate(all_sizes):
        arrays, memory = guarded(spec, sizes, dtypes[number % len(dtypes)], **options)
        keep.append(memory)
        cases.append((kernel_of(spec, *arrays), *arrays, ()))
    run_all(cases, target_of(name))
    for kernel, x, y, out, _ in cases:
        error = abs(out - reference(spec, x, y))
        assert (error <= tolerance(spec, x, y, kernel)).all(), (spec, x.shape, y.shape)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("spec", [*SPECS, *SAMPLES])
def test_every_size_from_one_to_forty(no_limit, spec, name):
    sizes = [{"m": n, "k": 1 + 17 * n % 40, "z": 1} for n in range(1, 41)]
    check(spec, sizes, FLOATS, name)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("spec", ["mk,k->m", "km,k->m"])
def test_sums_of_every_length(no_limit, spec, dtype, name):
    check(spec, [{"m": 9, "k": n} for n in range(1, 34)], [dtype], name)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("steps", [(2, 1, 1), (1, 3, 2), (4, 4, 4), (5, 1, 3), (1, 7, 1)])
@pytest.mark.parametrize("at_end", [True, False])
def test_strides(no_limit, steps, at_end, name):
    for spec in ("mk,k->m", "km,k->m", "k,k->"):
        sizes = [{"m": m, "k": k} for m, k in ((1, 5), (5, 3), (7, 2), (9, 4))]
        check(spec, sizes, FLOATS, name, steps=steps, at_end=at_end)


def test_backwards():
    x, y, out = random((9, 13), "float32"), random(13, "float32", 1), np.zeros(9, "float32")
    for flipped in (x[::-1], x[:, ::-1], x[::-1, ::-1]):
        run_all([(kernel_of("mk,k->m", flipped, y, out), flipped, y, out, ())], Target.host())
        np.testing.assert_allclose(out, flipped @ y, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("keeps_sums", [True, False])
@pytest.mark.parametrize("spec", ["mk,k->m", "km,k->m", "k,k->", "zk,mk->zm"])
def test_epilogues(no_limit, spec, keeps_sums, name):
    cases = []
    for number, (m, k) in enumerate([(1, 1), (25, 25), (7, 19), (17, 8), (33, 3), (16, 16)]):
        sizes = {"m": m, "k": k, "z": 1}
        x, y = (
            random([sizes[c] for c in part], FLOATS[number % 2], number)
            for part in spec.split("->")[0].split(",")
        )
        out = np.full([sizes[c] for c in spec.split("->")[1]], np.nan, x.dtype)
        cases.append(Finished(spec, x, y, out, keeps_sums))
    run_all([(c.kernel, c.x, c.y, c.out, c.others) for c in cases], target_of(name))
    for case in cases:
        sums = case.out
        if not keeps_sums:
            assert np.isnan(case.out).all()  # sums that nobody wants are nowhere
            sums = np.empty(case.out.shape, case.out.dtype)
            again = (kernel_of(spec, case.x, case.y, sums), case.x, case.y, sums, ())
            run_all([again], target_of(name))
        assert_same_bits([case.kept, case.chosen, case.result], case.expected(sums))


def form_of(spec, x, y, out):
    return unrolled_form(kernel_of(spec, *map(np.zeros, (x, y, out))), Target.named("haswell"))


def test_the_way_follows_from_the_strides():
    assert form_of("mk,k->m", (25, 25), (25,), (25,)).along
    assert not form_of("km,k->m", (25, 25), (25,), (25,)).along
    assert not form_of("mk,k->m", (25, 2), (2,), (25,)).along  # adding two lanes is not worth it
    assert form_of("k,k->", (25,), (25,), ()).along


def test_what_is_not_small_or_not_of_this_kind():
    assert form_of("mk,k->m", (400, 400), (400,), (400,)) is None
    assert form_of("mk,kn->mn", (3, 4), (4, 5), (3, 5)) is None
    assert form_of("mk,k->m", (3, 0), (0,), (3,)) is None
    kernel = kernel_of("k,k->", *map(np.zeros, (3, 3, ())))
    assert unrolled_form(kernel, Target.host()) is not None
    assert unrolled_form(replace(kernel, accumulates=True), Target.host()) is None
    packed = Apply("negative", (kernel.lead(False),), kernel.y.dtype)  # computed then
    assert unrolled_form(replace(kernel, y_value=packed), Target.host()) is None


@pytest.mark.parametrize("lanes, short", [(2, 2), (4, 2), (8, 2), (4, 4), (8, 4), (16, 4), (2, 4)])
def test_the_tree_ends_with_every_sum_in_its_lane(lanes, short):
    short = min(short, lanes)
    rows = np.random.default_rng(3).integers(0, 99, (lanes, lanes))
    level, count = list(rows), 1
    while len(level) > 1:
        low, high = map(list, _halves(lanes, short, count))
        pairs = [np.concatenate(pair) for pair in zip(level[::2], level[1::2], strict=True)]
        level = [both[low] + both[high] for both in pairs]
        count *= 2
    assert (level[0] == rows.sum(1)).all()


def network(x, y, w, b, v):
    return xp.sum((xp.tanh(x @ w.T + b) @ v.T - y) ** 2)


@pytest.mark.parametrize("name", ["skylake-avx512", "haswell", "x86-64", "apple-m1"])
def test_a_network_of_one_sample_calls_no_tiles(name):
    rng = np.random.default_rng(0)
    shapes = [(1, 2), (1, 1), (25, 2), (25,), (1, 25)]
    args = [rng.normal(size=shape).astype("float32") for shape in shapes]
    graph = optimise(wg.trace(wg.value_and_grad(network, argnums=(2, 3, 4)), *args))
    target = Target.named(name)
    module = emit_program(plan(schedule(graph)), target).module
    assert "tile" not in str(module)
    assert len(compile_module(module, target).assembly().splitlines()) > 20
