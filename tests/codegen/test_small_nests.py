"""Rows and columns as one line of vectors: every element once, right, and nothing outside."""

import numpy as np
import pytest
from llvmlite import ir

import wengert as wg
from wengert import machine
from wengert.codegen.compile import compile_module
from wengert.codegen.small_nests import emit_flat, grid_of
from wengert.codegen.target import Target
from wengert.loops import Affine, Apply, Buffer, Literal, Load, MemoryKind, Nest, Store, Var, cast

from .test_contraction import FLOATS, HERE, guarded_view, random

NAMES = ["host", *HERE]
SHAPES = [(r, c) for c in (2, 3, 5, 9, 15, 17, 25, 33) for r in (2, 5, 13)]


class Update:
    """new = old - rate * (g[i] * x[j]), and the slope as well; `new` lies where `old` does."""

    def __init__(self, shape, dtype, step=1, swapped=False, at_end=True):
        rows, columns = shape
        kind = np.dtype(dtype)
        self.memory = []
        self.p, p = self.array("p", shape, (columns, 1), kind, at_end)
        self.slope, slope = self.array("slope", shape, (columns, 1), kind, at_end)
        self.g, g = self.array("g", (rows,), (step,), kind, at_end)
        self.x, x = self.array("x", (columns,), (1,), kind, at_end)
        self.rate, rate = self.array("rate", (1,), (1,), np.dtype("f8"), at_end)
        new = Buffer("new", kind, shape, (columns, 1), MemoryKind.OUTPUT)
        self.places = {id(b): a for b, a in self.arrays.items()} | {id(new): self.p}
        i, j = Var("i", rows), Var("j", columns)
        at = Affine.of(i) * columns + Affine.of(j)
        product = Apply("multiply", (Load(g, Affine.of(i) * step), Load(x, Affine.of(j))), kind)
        change = Apply("multiply", (cast(Load(rate, Affine(0)), kind), product), kind)
        value = Apply("subtract", (Load(p, at), change), kind)
        stores = [Store(new, at, value), Store(slope, at, product)]
        self.nest = Nest([j, i] if swapped else [i, j], stores)
        self.want = self.p - kind.type(self.rate[0]) * (self.g[:, None] * self.x)

    def array(self, name, shape, strides, dtype, at_end):
        array, memory = guarded_view(shape, strides, dtype, at_end)
        array[...] = random(shape, dtype, len(self.memory))
        self.memory.append(memory)
        buffer = Buffer(name, dtype, shape, strides, MemoryKind.INPUT)
        self.arrays = {**getattr(self, "arrays", {}), buffer: array}
        return array, buffer

    def check(self):
        tolerance = 4 * np.finfo(self.p.dtype).eps
        np.testing.assert_allclose(self.p, self.want, rtol=tolerance, atol=tolerance)
        np.testing.assert_array_equal(self.slope, self.g[:, None] * self.x)


def run_all(updates, target):
    """Run all nests by one module; each finds its memory at fixed addresses."""
    module = ir.Module()
    module.triple = target.triple
    for number, update in enumerate(updates):
        function = ir.Function(module, ir.FunctionType(ir.VoidType(), []), f"f{number}")
        builder = ir.IRBuilder(function.append_basic_block())

        def pointer(buffer, update=update, builder=builder):
            address = ir.Constant(ir.IntType(64), update.places[id(buffer)].ctypes.data)
            return builder.inttoptr(address, ir.PointerType())

        grid = grid_of(update.nest, target)
        assert grid is not None
        emit_flat(builder, update.nest, grid, target, pointer)
        builder.ret_void()
    compiled = compile_module(module, target)
    for number, update in enumerate(updates):
        compiled.function(f"f{number}", None)()
        update.check()


@pytest.fixture
def no_limit():
    """Nests of all sizes are small."""
    with machine.use(code={"flat_vectors": 1000, "flat_values": 100_000}):
        yield


def target_of(name):
    return Target.host() if name == "host" else Target.named(name)


@pytest.mark.slow
@pytest.mark.parametrize("at_end", [True, False])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", FLOATS)
def test_every_shape(no_limit, dtype, name, at_end):
    target = target_of(name)
    lanes = target.lanes(np.dtype(dtype).itemsize)
    shapes = [(r, c) for r, c in SHAPES if r * c >= lanes and c % lanes]
    assert len(shapes) > 10
    run_all([Update(shape, dtype, at_end=at_end) for shape in shapes], target)


@pytest.mark.parametrize("name", NAMES)
def test_loops_in_another_order_and_rows_with_strides(no_limit, name):
    updates = [
        Update(shape, dtype, step, swapped)
        for shape in ((25, 2 + 1), (9, 25), (40, 5))
        for dtype in FLOATS
        for step, swapped in ((1, True), (3, False), (7, True))
    ]
    run_all(updates, target_of(name))


@pytest.mark.parametrize("flag", [True, False])
def test_a_flag_for_all_elements_is_a_byte_in_memory(flag):
    def step(p, g, x, flag):
        rate = np.where(flag, 0.5, 0.25)
        return p - rate * g[:, None] * x, np.where(flag, p - g[:, None] * x, p)

    args = np.ones((5, 7)), np.arange(5.0), np.arange(7.0), np.array(flag)
    for got, want in zip(wg.jit(step)(*args), step(*args), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-15)


def test_code_for_another_processor(no_limit):
    target = Target.named("neoverse-n1")
    update = Update((25, 25), "float32")
    module = ir.Module()
    module.triple = target.triple
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [ir.PointerType()]), "f")
    builder = ir.IRBuilder(function.append_basic_block())
    emit_flat(
        builder, update.nest, grid_of(update.nest, target), target, lambda _: function.args[0]
    )
    builder.ret_void()
    assert ".4s" in compile_module(module, target).assembly()


def changed(nest, **changes):
    return Nest(nest.vars, [store.changed(**changes) for store in nest.stores])


def test_what_is_not_small_or_not_of_this_kind():
    target = Target.named("skylake-avx512")
    nest = Update((25, 25), "float32").nest
    (i, j), kind = nest.vars, np.dtype("f4")
    assert grid_of(nest, target) is not None
    assert grid_of(Update((25, 32), "float32").nest, target) is None  # rows of whole vectors
    assert grid_of(Update((2, 3), "float32").nest, target) is None  # less than one vector
    assert grid_of(Update((99, 99), "float32").nest, target) is None
    assert grid_of(changed(nest, combine="add"), target) is None
    assert grid_of(Nest([j], nest.stores), target) is None
    other = Buffer("o", kind, (25, 25), (25, 1), MemoryKind.INPUT)
    back = Load(other, Affine.of(j) * 25 + Affine.of(i))
    assert grid_of(changed(nest, value=back), target) is None  # transposed
    assert grid_of(changed(nest, value=Apply("tanh", (back,), kind)), target) is None
    double = Buffer("d", np.dtype("f8"), (25,), (1,), MemoryKind.INPUT)
    wide = Apply("convert", (Load(double, Affine.of(j)),), kind)
    assert grid_of(changed(nest, value=wide), target) is None
    task = Var("t", 4)
    moved = [store.changed(at=store.at + Affine.of(task) * 625) for store in nest.stores]
    assert grid_of(Nest([i, j], moved), target) is None  # counted elsewhere


def test_one_number_everywhere():
    target = Target.host()
    kind = np.dtype("f4")
    update = Update((7, 9), "float32")
    update.nest = changed(update.nest, value=Literal(kind.type(3), kind))
    update.want = np.full((7, 9), 3.0)
    update.g[...], update.x[...] = 1.0, 3.0
    run_all([update], target)
