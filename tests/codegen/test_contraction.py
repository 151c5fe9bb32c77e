"""Contractions: the right sums for any strides and sizes, and not a byte outside the arrays."""

import ctypes
import itertools
import mmap
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llvmlite import ir

from wengert.codegen.compile import compile_module
from wengert.codegen.contraction import (
    emit_contraction,
    flops,
    part_name,
    unfinished_bytes,
    units,
)
from wengert.codegen.target import Target
from wengert.errors import WengertError
from wengert.loops import (
    Affine,
    Apply,
    Buffer,
    Contraction,
    Literal,
    Load,
    MemoryKind,
    Store,
    Sum,
    Var,
)
from wengert.schedule.tiling import make_plan
from wengert.schedule.units import shared_loops

PAGE = mmap.PAGESIZE
FLOATS = ["float32", "float64"]
HERE = [name for name in ("haswell", "x86-64") if Target.named(name).runs_here()]


# ---------------------------------------------------------------- arrays between forbidden pages


class Guarded:
    """Memory that ends (or starts) at a page nobody may touch: any step outside is a crash."""

    def __init__(self, nbytes, at_end=True):
        self.size = -(-max(nbytes, 1) // PAGE) * PAGE
        self.map = mmap.mmap(-1, self.size + 2 * PAGE)
        self.start = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        for page in (self.start, self.start + PAGE + self.size):
            assert libc.mprotect(page, PAGE, mmap.PROT_READ & 0) == 0
        self.offset = PAGE + (self.size - nbytes if at_end else 0)


def guarded_view(shape, strides, dtype, at_end=True):
    """An array with the given element strides whose last (first) element is at the very edge."""
    item = dtype.itemsize
    reach = [stride * (n - 1) for stride, n in zip(strides, shape, strict=True) if n > 0]
    low, high = sum(r for r in reach if r < 0), sum(r for r in reach if r > 0)
    memory = Guarded((high - low + 1) * item if 0 not in shape else 0, at_end)
    start = memory.offset - low * item if 0 not in shape else memory.offset
    array = np.ndarray(shape, dtype, memory.map, start, tuple(stride * item for stride in strides))
    return array, memory


# ---------------------------------------------------------------- compiling and running


def kernel_of(spec, x, y, out):
    """The contraction for arrays, by einsum's notation."""
    inputs, result = spec.split("->")
    parts = [*inputs.split(","), result]
    numbers, extents = {}, {}
    for part, array in zip(parts, (x, y, out), strict=True):
        for letter, n in zip(part, array.shape, strict=True):
            extents[numbers.setdefault(letter, len(numbers))] = n
    buffers = [
        Buffer(name, array.dtype, array.shape, elements(array), MemoryKind.INPUT)
        for name, array in (("x", x), ("y", y), ("out", out))
    ]
    strides = [
        {numbers[letter]: s for letter, s in zip(part, elements(array), strict=True)}
        for part, array in zip(parts, (x, y, out), strict=True)
    ]
    return Contraction(extents, buffers[2], buffers[0], buffers[1], strides[2], *strides[:2])


def elements(array):
    return tuple(stride // array.itemsize for stride in array.strides)


def build(kernel, target=None, plan=None):
    """A module whose `whole` and `part` are visible from outside, and the scratch it needs."""
    target = target or Target.host()
    module = ir.Module()
    module.triple = target.triple
    scratch = emit_contraction(module, target, kernel, "f", plan)
    for name, inner in (("whole", "f"), ("part", part_name("f"))):
        kinds = module.globals[inner].function_type.args
        function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), name)
        builder = ir.IRBuilder(function.append_basic_block())
        builder.call(module.globals[inner], function.args)
        builder.ret_void()
    return compile_module(module, target), scratch


def run(kernel, x, y, out, ranges=None, others=(), **options):
    """Compute the whole, or `ranges` of units; the scratch ends at a forbidden page."""
    compiled, nbytes = build(kernel, **options)
    assert nbytes % 64 == 0
    scratch = Guarded(nbytes)
    pointers = [array.ctypes.data for array in (out, x, y)] + [scratch.start + scratch.offset]
    further = [array.ctypes.data for array in others]
    kinds = [ctypes.c_void_p] * len(further)
    if ranges is None:
        compiled.function("whole", None, *[ctypes.c_void_p] * 4, *kinds)(*pointers, *further)
    else:
        part = compiled.function(
            "part", None, *[ctypes.c_void_p] * 4, *[ctypes.c_int64] * 4, *kinds
        )
        plan = options.get("plan")
        across = shared_loops(plan).units[1] if plan else units(kernel, Target.host())[1]
        for first, last in ranges:
            for start, stop in ((0, across // 2), (across // 2, across)):
                part(*pointers, first, last, start, stop, *further)


def reference(spec, x, y):
    return np.einsum(spec, x.astype("f8"), y.astype("f8"))


def tolerance(spec, x, y, kernel):
    """The bound on a sum's rounding: terms times the unit roundoff times the sum of magnitudes."""
    kept = np.prod([kernel.extents[label] for label in kernel.out_strides], dtype=np.int64)
    terms = flops(kernel) // 2 // max(kept, 1)
    return (terms + 1) * np.finfo(x.dtype).eps / 2 * reference(spec, abs(x), abs(y))


def check(spec, x, y, out, **options):
    kernel = kernel_of(spec, x, y, out)
    out[...] = np.nan
    run(kernel, x, y, out, **options)
    error = abs(out - reference(spec, x, y))
    assert (error <= tolerance(spec, x, y, kernel)).all(), (spec, x.shape, y.shape, error.max())


def random(shape, dtype, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def dense(spec, sizes, dtype):
    inputs, result = spec.split("->")
    x, y = (random([sizes[c] for c in part], dtype, k) for k, part in enumerate(inputs.split(",")))
    return x, y, np.empty([sizes[c] for c in result], dtype)


# ---------------------------------------------------------------- known products


PRODUCTS = {
    "matrix": ("mk,kn->mn", {"m": 23, "k": 37, "n": 41}),
    "tiny": ("mk,kn->mn", {"m": 2, "k": 3, "n": 2}),
    "transposed x": ("km,kn->mn", {"m": 23, "k": 37, "n": 41}),
    "transposed y": ("mk,nk->mn", {"m": 23, "k": 37, "n": 41}),
    "both": ("km,nk->mn", {"m": 30, "k": 17, "n": 19}),
    "transposed out": ("mk,kn->nm", {"m": 33, "k": 20, "n": 18}),
    "matrix vector": ("mk,k->m", {"m": 29, "k": 131}),
    "vector matrix": ("k,kn->n", {"k": 29, "n": 131}),
    "dot": ("k,k->", {"k": 1003}),
    "short dot": ("k,k->", {"k": 3}),
    "outer": ("m,n->mn", {"m": 21, "n": 35}),
    "scalars": (",->", {}),
    "scale": (",n->n", {"n": 37}),
    "elementwise": ("n,n->n", {"n": 69}),
    "batched": ("bmk,bkn->bmn", {"b": 3, "m": 5, "k": 7, "n": 9}),
    "batch last": ("mkb,knb->mnb", {"b": 18, "m": 3, "k": 4, "n": 5}),
    "batched vector": ("bk,bk->b", {"b": 7, "k": 33}),
    "heads": ("bqhd,bkhd->bhqk", {"b": 2, "q": 9, "h": 3, "k": 10, "d": 16}),
    "several sums": ("abk,kbn->an", {"a": 6, "b": 5, "k": 4, "n": 20}),
    "rows summed": ("ij,j->", {"i": 5, "j": 40}),
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("case", PRODUCTS)
def test_products(case, dtype):
    spec, sizes = PRODUCTS[case]
    check(spec, *dense(spec, sizes, dtype))


@pytest.mark.parametrize("name", HERE)
@pytest.mark.parametrize("case", PRODUCTS)
def test_products_on_narrower_processors(case, name):
    spec, sizes = PRODUCTS[case]
    check(spec, *dense(spec, sizes, "float32"), target=Target.named(name))


@pytest.mark.parametrize("m", [1, 5, 15, 29])
@pytest.mark.parametrize("n", [1, 7, 17, 48, 95])
def test_odd_sizes(m, n):
    for k in (1, 5):
        check("mk,kn->mn", *dense("mk,kn->mn", {"m": m, "k": k, "n": n}, "float32"))


@pytest.mark.parametrize("sizes", [(0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0)])
def test_zero_sizes(sizes):
    x, y, out = dense("mk,kn->mn", dict(zip("mkn", sizes, strict=True)), "float64")
    run(kernel_of("mk,kn->mn", x, y, out), x, y, out)
    assert (out == 0).all()


def test_an_empty_sum_over_a_large_result_is_zero_everywhere():
    x, y, out = dense("mk,kn->mn", {"m": 37, "k": 0, "n": 53}, "float32")
    out[...] = np.nan
    run(kernel_of("mk,kn->mn", x, y, out), x, y, out)
    assert (out == 0).all()


def test_special_values_arrive():
    x, y, out = dense("mk,kn->mn", {"m": 3, "k": 20, "n": 35}, "float32")
    x[1, 4], y[3, 34] = np.nan, np.inf
    run(kernel_of("mk,kn->mn", x, y, out), x, y, out)
    with np.errstate(invalid="ignore"):
        expected = x @ y
    np.testing.assert_array_equal(np.isnan(out), np.isnan(expected))
    np.testing.assert_array_equal(np.isposinf(out), np.isposinf(expected))


# ---------------------------------------------------------------- strides, windows, broadcasts


@pytest.mark.parametrize("dtype", FLOATS)
def test_steps_flips_and_broadcasts(dtype):
    x, y = random((40, 60), dtype)[::2, ::-3], random((20, 66), dtype, 1)[:, ::2]
    check("mk,kn->mn", x, y, np.empty((20, 66), dtype)[:, ::2])
    check("mk,kn->mn", x, y, np.empty((33, 40), dtype)[::-1, ::2].T)
    wide = np.broadcast_to(random((20, 1), dtype), (20, 20))
    check("mk,kn->mn", wide, y, np.empty((20, 33), dtype))
    check("bmk,kn->bmn", np.broadcast_to(x, (3, 20, 20)), y, np.empty((3, 20, 33), dtype))


def test_sums_of_one_repeated_element():
    for n in (3, 8, 21):
        same = np.broadcast_to(np.float32(3), (2, n))
        check("mk,k->m", same, same[0], np.empty(2, "float32"))
        ones = np.ones(n, "float32")
        out = np.empty(2, "float32")
        endless = np.broadcast_to(np.float32(np.inf), (2, n))
        run(kernel_of("mk,k->m", endless, ones, out), endless, ones, out)
        assert (out == np.inf).all()


def windows(x, size):
    return np.lib.stride_tricks.sliding_window_view(x, (size, size), axis=(-2, -1))


@pytest.mark.parametrize("dtype", FLOATS)
def test_convolutions(dtype):
    images, weights = random((3, 4, 12, 13), dtype), random((5, 4, 3, 3), dtype, 1)
    for step in (1, 2):
        seen = windows(images, 3)[:, :, ::step, ::step]
        out = np.empty((3, 5, *seen.shape[2:4]), dtype)
        check("bcyxij,ocij->boyx", seen, weights, out)
        slopes = np.empty_like(weights)
        check("bcyxij,boyx->ocij", seen, random(out.shape, dtype, 2), slopes)


@pytest.mark.parametrize("dtype", FLOATS)
def test_convolutions_with_the_samples_side_by_side(dtype):
    images = np.moveaxis(windows(random((4, 9, 10, 19), dtype).transpose(0, 3, 1, 2), 3), 1, 3)
    weights = random((5, 4, 3, 3), dtype, 1)
    out = np.empty((5, 7, 8, 19), dtype)
    check("cyxsij,ocij->oyxs", images, weights, out)
    slopes = np.empty_like(weights)
    check("cyxsij,oyxs->ocij", images, random(out.shape, dtype, 2), slopes)


def test_depthwise_convolution():
    images, weights = random((2, 6, 9, 9), "float32"), random((6, 3, 3), "float32", 1)
    check("bcyxij,cij->bcyx", windows(images, 3), weights, np.empty((2, 6, 7, 7), "float32"))


# ---------------------------------------------------------------- packing and blocks


def packed_plan(kernel, target=None, **changes):
    plan = make_plan(kernel, target or Target.host())
    assert plan.vector.kind == "column"
    return replace(plan, pack_x=True, pack_y=True, **changes)


def plan_in_place(kernel, block=0, **changes):
    """The same blocks of the sums, which alone decide how these are rounded, read from x itself."""
    plan = replace(make_plan(kernel, Target.host()), block=block)
    assert not plan.pack_x
    return plan


PACKED = [
    {"column_block": 100},
    {"block": 8, "column_block": 100},
    {"block": 8, "column_block": 2},
    {"block": 12, "column_block": 1, "row_block": 2},
]


@pytest.mark.parametrize("changes", PACKED, ids=str)
@pytest.mark.parametrize("name", ["host", *HERE])
@pytest.mark.parametrize("spec", ["mk,kn->mn", "km,kn->mn", "mk,nk->mn", "km,nk->mn"])
def test_packed_products(spec, name, changes):
    target = Target.host() if name == "host" else Target.named(name)
    x, y, out = dense(spec, {"m": 47, "k": 43, "n": 150}, "float32")
    plan = packed_plan(kernel_of(spec, x, y, out), target, **changes)
    check(spec, x, y, out, plan=plan, target=target)


@pytest.mark.parametrize("changes", PACKED, ids=str)
def test_packed_convolution(changes):
    images, weights = random((2, 10, 9, 40), "float64"), random((7, 10, 3, 3), "float64", 1)
    seen, out = windows(images, 3), np.empty((2, 7, 7, 38))
    plan = packed_plan(kernel_of("bcyxij,ocij->boyx", seen, weights, out), **changes)
    assert len(plan.sums) > 1
    check("bcyxij,ocij->boyx", seen, weights, out, plan=replace(plan, block=min(plan.block, 4)))


def test_packing_does_not_change_a_bit():
    spec = "mk,kn->mn"
    x, y, out = dense(spec, {"m": 40, "k": 51, "n": 90}, "float32")
    kernel = kernel_of(spec, x, y, out)
    for changes in PACKED:
        run(kernel, x, y, out, plan=plan_in_place(kernel, **changes))
        again = np.full_like(out, np.nan)
        run(kernel, x, y, again, plan=packed_plan(kernel, **changes))
        np.testing.assert_array_equal(again, out)


def test_a_large_product_is_packed_and_right():
    x, y, out = dense("mk,kn->mn", {"m": 517, "k": 523, "n": 541}, "float32")
    plan = make_plan(kernel_of("mk,kn->mn", x, y, out), Target.host())
    assert plan.pack_x and plan.pack_y and plan.block
    check("mk,kn->mn", x, y, out)


@pytest.mark.parametrize("changes", [one for one in PACKED if "block" in one], ids=str)
@pytest.mark.parametrize("spec", ["mk,kn->mn", "km,kn->mn"])
def test_blocks_without_copies_in_any_ranges_have_the_same_bits(spec, changes):
    x, y, out = dense(spec, {"m": 40, "k": 51, "n": 90}, "float32")
    kernel = kernel_of(spec, x, y, out)
    run(kernel, x, y, out, plan=packed_plan(kernel, **changes))
    plan = replace(make_plan(kernel, Target.host()), **changes)
    assert not plan.pack_y
    again = np.full_like(out, np.nan)
    ranges = [(k, k + 1) for k in range(shared_loops(plan).units[0])]
    run(kernel, x, y, again, plan=plan, ranges=ranges)
    np.testing.assert_array_equal(again, out)


@pytest.mark.slow
@pytest.mark.parametrize("accumulates", [False, True])
@pytest.mark.parametrize("spec", ["mk,kn->mn", "km,kn->mn", "mk,kn->nm", "bmk,bkn->bmn"])
def test_totals_of_many_blocks(spec, accumulates):
    for length in (400, 403, 1601):
        x, y, out = dense(spec, {"m": 19, "k": length, "n": 37, "b": 2}, "float32")
        kernel = replace(kernel_of(spec, x, y, out), accumulates=accumulates)
        target = Target.host()
        for packed in (False, True):
            changes = {"block": 20, "column_block": 1, "pack_x": packed, "pack_y": packed}
            plan = replace(make_plan(kernel, target), **changes)
            assert plan.gathered
            before = random(out.shape, "float32", 2) if accumulates else np.nan
            out[...] = before
            run(kernel, x, y, out, plan=plan)
            exact = reference(spec, x, y) + (before if accumulates else 0)
            np.testing.assert_allclose(out, exact, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("rows", [28, 128, 500])
@pytest.mark.parametrize("columns", [96, 384, 512])
def test_long_sums_over_few_rows_or_rows_side_by_side_are_read_in_place(rows, columns):
    sizes = {"m": rows, "k": 2803, "n": columns}
    x, y, out = dense("km,kn->mn", sizes, "float32")
    plan = make_plan(kernel_of("km,kn->mn", x, y, out), Target.host())
    if plan.vector.y == 1 and Target.host().l2_bytes <= 1 << 22:
        assert not plan.pack_y
    check("km,kn->mn", x, y, out)


def test_sums_in_many_blocks_are_not_scattered_in_each_of_them():
    x, y, out = dense("km,kn->nm", {"m": 28, "k": 2803, "n": 512}, "float32")
    plan = make_plan(kernel_of("km,kn->nm", x, y, out), Target.host())
    assert plan.vector.out == 1 or not plan.block
    check("km,kn->nm", x, y, out)


# ---------------------------------------------------------------- sharing out


@pytest.mark.parametrize("case", PRODUCTS)
def test_parts_give_the_same_bits(case):
    spec, sizes = PRODUCTS[case]
    x, y, whole = dense(spec, sizes, "float32")
    kernel = kernel_of(spec, x, y, whole)
    run(kernel, x, y, whole)
    count = units(kernel, Target.host())[0]
    assert count >= 1
    for pieces in (2, 3, count):
        cuts = np.linspace(0, count, min(pieces, count) + 1).astype(int)
        out = np.full_like(whole, np.nan)
        run(kernel, x, y, out, ranges=list(itertools.pairwise(cuts))[::-1])
        np.testing.assert_array_equal(out, whole)


@pytest.mark.parametrize("sizes", [(60, 40, 130), (3, 40, 1000), (400, 40, 3)])
def test_parts_of_packed_products_give_the_same_bits(sizes):
    spec = "mk,nk->mn"
    x, y, whole = dense(spec, dict(zip("mkn", sizes, strict=True)), "float32")
    kernel = kernel_of(spec, x, y, whole)
    plan = make_plan(kernel, Target.host())
    if plan.vector.kind == "column":
        plan = packed_plan(kernel, block=8, column_block=2)
    run(kernel, x, y, whole, plan=plan)
    count = shared_loops(plan).units[0]
    out = np.full_like(whole, np.nan)
    run(kernel, x, y, out, plan=plan, ranges=[(k, k + 1) for k in range(count)])
    np.testing.assert_array_equal(out, whole)


# ---------------------------------------------------------------- any labels, any strides


@st.composite
def contractions(draw):
    """(spec, sizes, element strides of x, y and out): strides of x and y may be anything."""
    letters = "abcdef"[: draw(st.integers(0, 5))]
    homes = {c: draw(st.sampled_from(["xo", "yo", "xy", "xyo", "x", "y"])) for c in letters}
    parts = ["".join(c for c in letters if side in homes[c]) for side in "xyo"]
    parts = ["".join(draw(st.permutations(part))) for part in parts]
    sizes = {c: draw(st.sampled_from([1, 2, 3, 5, 8, 17, 33])) for c in letters}
    while np.prod([*sizes.values(), 1]) > 30000:
        sizes = {c: max(1, n // 2) for c, n in sizes.items()}
    strides = [tuple(draw(st.integers(-4, 20)) for _ in part) for part in parts[:2]]
    for number, part in enumerate(parts[:2]):
        if draw(st.booleans()):
            strides[number] = _dense_strides(part, sizes, 1)
    strides.append(_dense_strides(parts[2], sizes, draw(st.sampled_from([1, 1, 2]))))
    return f"{parts[0]},{parts[1]}->{parts[2]}", sizes, strides, draw(st.sampled_from(FLOATS))


def _dense_strides(part, sizes, step):
    strides, size = [], step
    for c in reversed(part):
        strides.append(size)
        size *= sizes[c]
    return tuple(reversed(strides))


@settings(max_examples=40, deadline=None)
@given(contractions(), st.booleans())
def test_any_contraction_between_forbidden_pages(contraction, at_end):
    spec, sizes, strides, dtype = contraction
    inputs, result = spec.split("->")
    arrays, keep = [], []
    for part, steps in zip([*inputs.split(","), result], strides, strict=True):
        shape = tuple(sizes[c] for c in part)
        array, memory = guarded_view(shape, steps, np.dtype(dtype), at_end)
        arrays.append(array)
        keep.append(memory)
    for seed, array in enumerate(arrays[:2]):
        array[...] = random(array.shape, dtype, seed)
    check(spec, *arrays)


@pytest.mark.parametrize("name", ["host", *HERE])
@pytest.mark.parametrize("at_end", [True, False])
@pytest.mark.parametrize("spec", ["mk,kn->mn", "mk,nk->mn", "km,kn->mn", "mk,kn->nm"])
def test_nothing_outside_is_touched(spec, at_end, name):
    target = Target.host() if name == "host" else Target.named(name)
    sizes = {"m": 19, "k": 37, "n": 43}
    arrays, keep = [], []
    for part in spec.replace("->", ",").split(","):
        shape = tuple(sizes[c] for c in part)
        strides = _dense_strides(part, sizes, 1)
        array, memory = guarded_view(shape, strides, np.dtype("float32"), at_end)
        arrays.append(array)
        keep.append(memory)
    for seed, array in enumerate(arrays[:2]):
        array[...] = random(array.shape, "float32", seed)
    check(spec, *arrays, target=target)
    kernel = kernel_of(spec, *arrays)
    if make_plan(kernel, target).vector.kind == "column":
        plan = packed_plan(kernel, target, block=8, column_block=2)
        check(spec, *arrays, target=target, plan=plan)


def test_gaps_in_the_result_are_left_alone():
    x, y = random((9, 7), "float32"), random((7, 21), "float32", 1)
    room = np.full((18, 42), 7.0, "float32")
    check("mk,kn->mn", x, y, room[::2, ::2])
    room[::2, ::2] = 7.0
    assert (room == 7.0).all()


def test_unaligned_arrays():
    for shift in (4, 12, 28):
        room = np.zeros(3 * 4096 + 64, np.uint8)
        x, y, out = (
            np.ndarray(shape, "float32", room, 4096 * place + shift)
            for place, shape in enumerate([(9, 30), (30, 21), (9, 21)])
        )
        x[...], y[...] = random(x.shape, "float32"), random(y.shape, "float32", 1)
        check("mk,kn->mn", x, y, out)


# ---------------------------------------------------------------- epilogues


class Finished:
    """A product whose sums go through an epilogue, with operands of every kind of stride.

    kept = sum * factor + line, chosen = kept > limit, and result = kept where chosen and allowed,
    else one; each operand ends at a forbidden page.
    """

    def __init__(self, spec, x, y, out, keeps_sums=True):
        self.x, self.y, self.out = x, y, out
        kernel, shape, self.memory = kernel_of(spec, x, y, out), out.shape, []
        extents = {label: kernel.extents[label] for label in kernel.out_strides}
        self.vars = {label: Var(f"v{label}", extent) for label, extent in extents.items()}
        along = [0] * len(shape)
        along[-1:] = [1] * bool(shape)
        self.factor, factor = self.operand("factor", shape, [0] * len(shape), out.dtype)
        self.line, line = self.operand("line", shape, along, out.dtype)
        self.limit, limit = self.operand("limit", shape, dense_strides(shape[::-1])[::-1], "i4")
        self.allowed, allowed = self.operand("allowed", shape, dense_strides(shape), "?")
        self.kept, kept = self.operand("kept", shape, dense_strides(shape), out.dtype)
        self.chosen, chosen = self.operand("chosen", shape, dense_strides(shape), "?")
        back = dense_strides(shape[::-1])[::-1]
        self.result, result = self.operand("result", shape, back, out.dtype)
        f, boolean = out.dtype, np.dtype(bool)
        scaled = Apply("multiply", (Sum(f), Load(*factor)), f)
        value = Apply("add", (scaled, Load(*line)), f)
        test = Apply("greater", (value, Apply("convert", (Load(*limit),), f)), boolean)
        both = Apply("logical_and", (test, Load(*allowed)), boolean)
        final = Apply("where", (both, value, Literal(f.type(1), f)), f)
        stores = [Store(*kept, value), Store(*chosen, test), Store(*result, final)]
        self.kernel = replace(kernel, vars=self.vars, stores=stores, keeps_sums=keeps_sums)
        self.others = [self.arrays[buffer] for buffer, _ in self.kernel.accesses()]

    def operand(self, name, shape, strides, dtype):
        dtype = np.dtype(dtype)
        array, memory = guarded_view(shape, strides, dtype)
        self.memory.append(memory)
        seed = len(self.memory)
        if 0 not in shape:
            array[...] = random(shape, "f8", seed) * 3 if dtype.kind != "b" else seed % 2
        buffer = Buffer(name, dtype, shape, tuple(strides), MemoryKind.INPUT)
        self.arrays = {**getattr(self, "arrays", {}), buffer: array}
        at = Affine(0)
        for var, stride in zip(self.vars.values(), strides, strict=True):
            at = at + Affine.of(var) * stride
        return array, (buffer, at)

    def run(self, **options):
        for array in (self.kept, self.result):
            array[...] = np.nan
        run(self.kernel, self.x, self.y, self.out, others=self.others, **options)
        return [array.copy() for array in (self.kept, self.chosen, self.result)]

    def expected(self, sums):
        kept = sums * self.factor + self.line
        chosen = kept > self.limit.astype(kept.dtype)
        return [kept, chosen, np.where(chosen & self.allowed, kept, kept.dtype.type(1))]


def dense_strides(shape):
    return [int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))]


def assert_same_bits(found, expected):
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("case", PRODUCTS)
def test_epilogues(case, dtype):
    spec, sizes = PRODUCTS[case]
    finished = Finished(spec, *dense(spec, sizes, dtype))
    found = finished.run()
    kernel = finished.kernel
    error = abs(finished.out - reference(spec, finished.x, finished.y))
    assert (error <= tolerance(spec, finished.x, finished.y, kernel)).all()
    assert_same_bits(found, finished.expected(finished.out))
    alone = Finished(spec, *dense(spec, sizes, dtype), keeps_sums=False)
    alone.out[...] = np.nan
    assert_same_bits(alone.run(), found)
    assert np.isnan(alone.out).all()  # sums that nobody wants are nowhere
    count = units(kernel, Target.host())[0]
    assert_same_bits(alone.run(ranges=[(k, k + 1) for k in range(count)][::-1]), found)


@pytest.mark.parametrize("name", HERE)
@pytest.mark.parametrize("case", PRODUCTS)
def test_epilogues_on_narrower_processors(case, name):
    spec, sizes = PRODUCTS[case]
    finished = Finished(spec, *dense(spec, sizes, "float32"))
    found = finished.run(target=Target.named(name))
    assert_same_bits(found, finished.expected(finished.out))
    alone = Finished(spec, *dense(spec, sizes, "float32"), keeps_sums=False)
    assert_same_bits(alone.run(target=Target.named(name)), found)


@pytest.mark.parametrize("changes", PACKED, ids=str)
@pytest.mark.parametrize("keeps_sums", [True, False])
def test_epilogues_come_after_the_last_block_of_the_sums(keeps_sums, changes):
    spec, sizes = "mk,nk->mn", {"m": 47, "k": 43, "n": 150}
    finished = Finished(spec, *dense(spec, sizes, "float32"))
    found = finished.run(plan=plan_in_place(finished.kernel, **changes))
    packed = Finished(spec, *dense(spec, sizes, "float32"), keeps_sums)
    plan = packed_plan(packed.kernel, **changes)
    assert_same_bits(packed.run(plan=plan), found)


@pytest.mark.parametrize("changes", [one for one in PACKED if "block" in one], ids=str)
@pytest.mark.parametrize("keeps_sums", [True, False])
def test_epilogues_come_after_the_last_block_read_in_place(keeps_sums, changes):
    spec, sizes = "km,kn->mn", {"m": 47, "k": 43, "n": 150}
    packed = Finished(spec, *dense(spec, sizes, "float32"))
    found = packed.run(plan=packed_plan(packed.kernel, **changes))
    blocked = Finished(spec, *dense(spec, sizes, "float32"), keeps_sums)
    plan = replace(make_plan(blocked.kernel, Target.host()), **changes)
    assert not plan.pack_y
    assert_same_bits(blocked.run(plan=plan), found)


@pytest.mark.parametrize("sizes", [(0, 3, 4), (3, 0, 4), (3, 4, 0)])
@pytest.mark.parametrize("keeps_sums", [True, False])
def test_epilogues_of_zero_sizes(sizes, keeps_sums):
    arrays = dense("mk,kn->mn", dict(zip("mkn", sizes, strict=True)), "float64")
    finished = Finished("mk,kn->mn", *arrays, keeps_sums)
    assert_same_bits(finished.run(), finished.expected(np.zeros_like(finished.out)))


def test_only_blocks_need_room_for_unfinished_sums():
    small = Finished("mk,kn->mn", *dense("mk,kn->mn", {"m": 9, "k": 40, "n": 33}, "f4"), False)
    assert unfinished_bytes(small.kernel, Target.host()) == 0
    arrays = dense("mk,kn->mn", {"m": 517, "k": 523, "n": 541}, "float32")
    large = Finished("mk,kn->mn", *arrays, False)
    assert unfinished_bytes(large.kernel, Target.host()) == large.out.nbytes
    kept = Finished("mk,kn->mn", *arrays)
    assert unfinished_bytes(kept.kernel, Target.host()) == 0


# ---------------------------------------------------------------- the rest


@pytest.mark.parametrize("name", ["haswell", "x86-64", "sapphirerapids", "neoverse-n1"])
@pytest.mark.parametrize("case", ["matrix", "transposed y", "matrix vector", "dot"])
def test_code_for_other_processors(case, name):
    spec, sizes = PRODUCTS[case]
    x, y, out = dense(spec, sizes, "float32")
    compiled, _ = build(kernel_of(spec, x, y, out), Target.named(name))
    assert compiled.object_code
    fused = {"haswell": "vfmadd", "sapphirerapids": "vfmadd", "neoverse-n1": "fmla"}
    text = compiled.assembly()
    assert fused.get(name, "mulps") in text
    assert ("zmm" in text) == (name == "sapphirerapids")


@pytest.mark.parametrize("sizes", [(64, 64, 64), (100, 400, 84), (1024, 1024, 1024)])
@pytest.mark.parametrize("name", ["haswell", "sapphirerapids"])
def test_the_inner_loop_keeps_to_registers(sizes, name):
    x, y, out = dense("mk,kn->mn", dict(zip("mkn", sizes, strict=True)), "float32")
    compiled, _ = build(kernel_of("mk,kn->mn", x, y, out), Target.named(name))
    multiplications = [line for line in compiled.assembly().splitlines() if "vfmadd" in line]
    assert len(multiplications) > 20
    assert not any("rsp" in line or "rbp" in line for line in multiplications)
    for block in re.split(r"(?m)^\.L\w+:|^\s+j\w+\s", compiled.assembly()):
        lines = block.splitlines()
        if sum("vfmadd" in line for line in lines) > 20:
            assert not [line for line in lines if "mm" in line and "rsp" in line]


def test_flops():
    x, y, out = dense("mk,kn->mn", {"m": 4, "k": 5, "n": 6}, "float32")
    assert flops(kernel_of("mk,kn->mn", x, y, out)) == 240


def test_other_dtypes_are_refused():
    x, y, out = dense("k,k->", {"k": 4}, "int32")
    with pytest.raises(WengertError, match=r"contraction: got int32 \* int32 -> int32, expected"):
        make_plan(kernel_of("k,k->", x, y, out), Target.host())
