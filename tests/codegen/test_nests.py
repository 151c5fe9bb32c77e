"""Nests of loops as machine code: orders, strides, masks, sums, branches."""

import ctypes
import itertools
import mmap

import numpy as np
import pytest
from llvmlite import ir

from wengert.codegen.compile import compile_module
from wengert.codegen.nest_plan import NestPlan
from wengert.codegen.nests import NestEmitter
from wengert.codegen.target import Target
from wengert.loops import (
    Affine,
    Apply,
    Buffer,
    Choose,
    IndexValue,
    InRange,
    Literal,
    Load,
    LoadAt,
    MemoryKind,
    Nest,
    Store,
    Var,
    c_strides,
    cast,
)

F8 = np.dtype("f8")
PTR = ir.PointerType()
NARROWER = [None, *(name for name in ("haswell", "x86-64") if Target.named(name).runs_here())]


def buffer_of(array, kind=MemoryKind.INPUT):
    return Buffer("b", array.dtype, array.shape, c_strides(array.shape), kind)


def run(nests, arrays, target=None):
    """Emit nests over buffers and run them; `arrays` maps buffers to contiguous arrays."""
    target = target or Target.host()
    module = ir.Module("nests")
    module.triple = target.triple
    signature = ir.FunctionType(ir.VoidType(), [PTR] * len(arrays))
    function = ir.Function(module, signature, "nest")
    builder = ir.IRBuilder(function.append_basic_block())
    places = {id(buffer): arg for buffer, arg in zip(arrays, function.args, strict=True)}
    for nest in nests:
        NestEmitter(builder, target, lambda b: places[id(b)]).emit(nest)
    builder.ret_void()
    call = compile_module(module, target).function("nest", None, *[ctypes.c_void_p] * len(arrays))
    call(*[array.ctypes.data for array in arrays.values()])


def variables(*extents):
    return [Var("ijkl"[n], extent) for n, extent in enumerate(extents)]


def index(buffer, *places):
    return buffer.flat(tuple(Affine.of(place) for place in places))


@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 65, 1000])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "u1"])
def test_nothing_outside_is_touched(n, dtype):
    """The last vector is masked: what lies behind the array keeps its value."""
    guarded = np.full(n + 64, 77, dtype)
    x = np.arange(n).astype(dtype)
    out, source = Buffer("o", guarded.dtype, (n,), (1,), MemoryKind.OUTPUT), buffer_of(x)
    (i,) = variables(n)
    value = Apply("add", (Load(source, index(source, i)), Literal(1, x.dtype)), x.dtype)
    run([Nest([i], [Store(out, Affine.of(i), value)])], {out: guarded, source: x})
    np.testing.assert_array_equal(guarded[:n], x + np.dtype(dtype).type(1))
    assert np.all(guarded[n:] == 77)


@pytest.mark.parametrize("n", [1, 5, 16, 21, 67])
@pytest.mark.parametrize("stride", [2, 3, 4])
@pytest.mark.parametrize("dtype", ["f8", "f4", "u1"])
def test_strided_reads_end_with_the_array(dtype, stride, n):
    """The array ends where memory does: reading behind its last element would be the end."""
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 2 * page)
    first = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None)
    assert libc.mprotect(ctypes.c_void_p(first + page), ctypes.c_size_t(page), 0) == 0
    count = (n - 1) * stride + 1
    x = np.frombuffer(memory, dtype, count, page - count * np.dtype(dtype).itemsize)
    x[:] = np.arange(count)
    out = np.zeros(n, dtype)
    source, target = buffer_of(x), buffer_of(out, MemoryKind.OUTPUT)
    (i,) = variables(n)
    value = Load(source, Affine.of(i) * stride)
    run([Nest([i], [Store(target, Affine.of(i), value)])], {target: out, source: x})
    np.testing.assert_array_equal(out, np.arange(count).astype(dtype)[::stride])


@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 15, 17, 33, 64, 67])
@pytest.mark.parametrize("combine", [None, "add"])
@pytest.mark.parametrize("dtype", ["f8", "f4", "u1"])
def test_rows_at_values_end_with_the_array(dtype, combine, n):
    """Rows of a table that begins and ends where memory does, in an order that values give."""
    page, rows = mmap.PAGESIZE, 3
    memory = mmap.mmap(-1, 3 * page)
    first = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None)
    for edge in (first, first + 2 * page):
        assert libc.mprotect(ctypes.c_void_p(edge), ctypes.c_size_t(page), 0) == 0
    size = rows * n * np.dtype(dtype).itemsize
    for start in (page, 2 * page - size):
        table = np.frombuffer(memory, dtype, rows * n, start).reshape(rows, n)
        table[:] = np.arange(rows * n).reshape(rows, n) % 50
        want, order = table.copy(), np.array([2, 0, 2, 1])
        old, new, places = buffer_of(table), buffer_of(table), buffer_of(order)
        k, j = variables(3, n)
        here, there = (Load(places, Affine.of(k) + step) for step in (0, 1))
        value = LoadAt(old, Affine.of(j), ((here, n),))
        store = Store(new, Affine.of(j), value, combine, continues=True, picks=((there, n),))
        run([Nest([k, j], [store])], {old: table, new: table, places: order})
        for one, other in itertools.pairwise(order):
            want[other] = want[one] + (want[other] if combine else 0)
        np.testing.assert_array_equal(table, want)


def test_lanes_that_meet_at_one_place_are_stored_one_by_one():
    n = 20
    x, out, places = np.arange(n * 1.0), np.zeros(4), np.array([1, 3])
    source, target, numbers = buffer_of(x), buffer_of(out, MemoryKind.OUTPUT), buffer_of(places)
    k, j = variables(2, n)
    pick, value = Load(numbers, Affine.of(k)), Load(source, Affine.of(j))
    store = Store(target, Affine(0), value, "add", continues=True, picks=((pick, 1),))
    run([Nest([k, j], [store])], {target: out, source: x, numbers: places})
    np.testing.assert_array_equal(out, [0, x.sum(), 0, x.sum()])


@pytest.mark.parametrize("n", [2, 3, 5, 8, 9, 15, 17, 25, 31, 33, 63, 65, 130, 143, 209, 1001])
@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("name", NARROWER)
def test_rows_are_updated_in_place_once(name, n, dtype):
    """Short rows end with a vector that overlaps another; no element may change twice."""
    kind, rows = np.dtype(dtype), 5
    memory = np.arange(rows * n + 64).astype(dtype)
    before = memory.copy()
    x, g, rate = np.linspace(1, 2, n).astype(dtype), np.arange(rows).astype(dtype), np.array([0.5])
    new, old = (Buffer(name, kind, (rows, n), (n, 1), MemoryKind.INPUT) for name in ("new", "old"))
    across, down, number = map(buffer_of, (x, g, rate))
    i, j = variables(rows, n)
    slope = Apply("multiply", (Load(across, index(across, j)), Load(down, index(down, i))), kind)
    step = Apply("multiply", (cast(Load(number, Affine(0)), kind), slope), kind)
    value = Apply("subtract", (Load(old, index(old, i, j)), step), kind)
    places = {new: memory, old: memory, across: x, down: g, number: rate}
    target = Target.named(name) if name else None
    run([Nest([i, j], [Store(new, index(new, i, j), value)])], places, target)
    want = before[: rows * n].reshape(rows, n) - kind.type(0.5) * (g[:, None] * x)
    np.testing.assert_allclose(memory[: rows * n].reshape(rows, n), want, rtol=1e-6)
    np.testing.assert_array_equal(memory[rows * n :], before[rows * n :])


def test_scalars_do_not_make_vectors_narrow():
    """A learning rate in double precision meets parameters in single precision."""
    target = Target.named("haswell")
    module = ir.Module("nests")
    module.triple = target.triple
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [PTR] * 2), "nest")
    builder = ir.IRBuilder(function.append_basic_block())
    single = np.dtype("f4")
    p, rate = (
        Buffer("p", single, (800,), (1,), MemoryKind.INPUT),
        Buffer("r", F8, (1,), (1,), MemoryKind.INPUT),
    )
    (i,) = variables(800)
    factors = (Load(p, Affine.of(i)), cast(Load(rate, Affine(0)), single))
    nest = Nest([i], [Store(p, Affine.of(i), Apply("multiply", factors, single))])
    places = {id(p): function.args[0], id(rate): function.args[1]}
    NestEmitter(builder, target, lambda b: places[id(b)]).emit(nest)
    assert "<8 x float>" in str(module)


@pytest.mark.parametrize("stride", [-3, -1, 0, 2, 5])
def test_strided_reads_and_writes(stride):
    n = 21
    x = np.arange(200.0)
    out = np.zeros(100)
    source, target = buffer_of(x), buffer_of(out, MemoryKind.OUTPUT)
    (i,) = variables(n)
    read = Load(source, Affine.of(i) * stride + 90)
    run([Nest([i], [Store(target, Affine.of(i) * 3 + 2, read)])], {target: out, source: x})
    want = np.zeros(100)
    want[2 : 2 + 3 * n : 3] = x[90 + stride * np.arange(n)]
    np.testing.assert_array_equal(out, want)


COMBINES = {"add": np.sum, "multiply": np.prod, "largest": np.max, "smallest": np.min}


@pytest.mark.parametrize("combine", COMBINES)
@pytest.mark.parametrize("axis", [0, 1, 2, (0, 1), (0, 2), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("shape", [(3, 5, 37), (1, 2, 8), (9, 1, 3)])
def test_every_axis_is_combined(combine, axis, shape):
    x = np.random.default_rng(1).uniform(0.5, 1.5, shape)
    want = np.asarray(COMBINES[combine](x, axis=axis))
    out = np.full(want.shape, np.nan)  # whatever was there does not matter
    source, target = buffer_of(x), buffer_of(out, MemoryKind.OUTPUT)
    loops = variables(*shape)
    summed = axis if isinstance(axis, tuple) else (axis,)
    kept = [var for number, var in enumerate(loops) if number not in summed]
    value = Load(source, index(source, *loops))
    run([Nest(loops, [Store(target, index(target, *kept), value, combine)])],
        {target: out, source: x})  # fmt: skip
    np.testing.assert_allclose(out, want, rtol=1e-14)


def test_continued_sums_add_to_what_is_there():
    x, out = np.arange(10.0), np.array(100.0)
    source, target = buffer_of(x), buffer_of(out, MemoryKind.OUTPUT)
    (i,) = variables(10)
    store = Store(target, Affine(0), Load(source, Affine.of(i)), "add", continues=True)
    run([Nest([i], [store])], {target: out, source: x})
    assert out == 145.0


@pytest.mark.parametrize("combine, identity", [("add", 0.0), ("multiply", 1.0)])
def test_loops_that_never_run_leave_the_identity(combine, identity):
    x, out = np.zeros((3, 0)), np.full(3, 7.0)
    source, target = buffer_of(x), buffer_of(out, MemoryKind.OUTPUT)
    i, j = variables(3, 0)
    store = Store(target, index(target, i), Load(source, index(source, i, j)), combine)
    run([Nest([i, j], [store])], {target: out, source: x})
    assert out.tolist() == [identity] * 3


def test_several_stores_share_a_nest():
    x = np.random.default_rng(2).uniform(-1, 1, (4, 19))
    total, rows, doubled = np.array(0.0), np.zeros(4), np.zeros((4, 19))
    source = buffer_of(x)
    outs = [buffer_of(a, MemoryKind.OUTPUT) for a in (total, rows, doubled)]
    i, j = variables(4, 19)
    element = Load(source, index(source, i, j))
    twice = Apply("add", (element, element), F8)
    stores = [
        Store(outs[0], Affine(0), element, "add"),
        Store(outs[1], index(outs[1], i), twice, "largest"),
        Store(outs[2], index(outs[2], i, j), twice),
    ]
    arrays = dict(zip([*outs, source], [total, rows, doubled, x], strict=True))
    run([Nest([i, j], stores)], arrays)
    np.testing.assert_allclose(total, x.sum(), rtol=1e-13)
    np.testing.assert_array_equal(rows, 2 * x.max(axis=1))
    np.testing.assert_array_equal(doubled, 2 * x)


def test_index_values_count():
    out = np.zeros((3, 11))
    target = buffer_of(out, MemoryKind.OUTPUT)
    i, j = variables(3, 11)
    value = cast(IndexValue(Affine.of(i) * 100 + Affine.of(j) * -1), F8)
    run([Nest([i, j], [Store(target, index(target, i, j), value)])], {target: out})
    np.testing.assert_array_equal(out, 100 * np.arange(3)[:, None] - np.arange(11.0))


def test_a_nest_without_loops():
    x, out = np.array(3.0), np.array(0.0)
    source, target = buffer_of(x), buffer_of(out, MemoryKind.OUTPUT)
    value = Apply("square", (Load(source, Affine(0)),), F8)
    run([Nest([], [Store(target, Affine(0), value)])], {target: out, source: x})
    assert out == 9.0


def test_what_is_not_chosen_is_not_read():
    """The element exists for one row only; elsewhere its address is far outside."""
    x, out = np.array([5.0]), np.zeros((6, 10))
    source, target = buffer_of(x), buffer_of(out, MemoryKind.OUTPUT)
    i, j = variables(6, 10)
    far = Load(source, (Affine.of(i) + -4) * (1 << 40))
    test = InRange(Affine.of(i), 4, 5)
    scaled = Apply("multiply", (far, cast(IndexValue(Affine.of(j)), F8)), F8)
    value = Choose(test, scaled, Literal(-1.0, F8), F8)
    run([Nest([i, j], [Store(target, index(target, i, j), value)])], {target: out, source: x})
    want = np.full((6, 10), -1.0)
    want[4] = 5.0 * np.arange(10)
    np.testing.assert_array_equal(out, want)


def test_a_choice_among_values_known_outside_the_innermost_loop():
    out = np.zeros((5, 3))
    target = buffer_of(out, MemoryKind.OUTPUT)
    i, j = variables(5, 3)
    outer = Apply("square", (cast(IndexValue(Affine.of(i)), F8),), F8)
    shifted = Apply("add", (outer, Literal(0.5, F8)), F8)
    value = Choose(InRange(Affine.of(i), 2, 4), Apply("negative", (shifted,), F8), outer, F8)
    run([Nest([i, j], [Store(target, index(target, i, j), value)])], {target: out})
    want = np.array([0.0, 1.0, -4.5, -9.5, 16.0])
    np.testing.assert_array_equal(out, np.repeat(want[:, None], 3, axis=1))


def test_branches_deep_inside_expressions():
    """Expressions are as deep as programs are long: branches are not emitted by recursion."""
    i, j = variables(3, 5)
    x, out = np.arange(15.0).reshape(3, 5), np.zeros((3, 5))
    source, target = buffer_of(x), buffer_of(out, MemoryKind.OUTPUT)
    value = Load(source, index(source, i, j))
    for bound in range(7):
        for _ in range(150):
            value = Apply("multiply", (value, Literal(F8.type(0.5), F8)), F8)
            value = Apply("multiply", (value, Literal(F8.type(2.0), F8)), F8)
        # over two loops at once, so that no loop can be cut
        test = InRange(Affine.of(i) + Affine.of(j), bound, 50)
        value = Choose(test, value, Literal(F8.type(-bound), F8), F8)
    run([Nest([i, j], [Store(target, index(target, i, j), value)])], {source: x, target: out})
    places = np.add.outer(np.arange(3), np.arange(5))
    np.testing.assert_array_equal(out, np.where(places >= 6, x, -6.0))


@pytest.mark.parametrize("stride, unroll", [(1, 4), (2, 1)])
def test_what_is_stored_lane_by_lane_is_much_code(stride, unroll):
    """Of many stores to every other element: several vectors at once would be LLVM's time alone."""
    target = Target.host()
    source = np.arange(60.0)
    results = [np.zeros(60 * stride) for _ in range(40)]
    (i,) = variables(60)
    read = buffer_of(source)
    buffers = [buffer_of(result, MemoryKind.OUTPUT) for result in results]
    value = Load(read, index(read, i))
    stores = [Store(b, Affine(0, ((i, stride),)), value) for b in buffers]
    nest = Nest((i,), tuple(stores))
    if target.vector_bytes >= 32:
        assert NestPlan(nest, target).unroll == unroll
    run([nest], dict(zip([read, *buffers], [source, *results], strict=True)))
    for result in results:
        np.testing.assert_array_equal(result[::stride], source)
        assert np.count_nonzero(result) == 59
