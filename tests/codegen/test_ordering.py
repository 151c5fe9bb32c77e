"""The order of instructions: nothing before its operands, memory as it was, chains mixed."""

from __future__ import annotations

import numpy as np
import pytest
from llvmlite import ir

import wengert as wg
import wengert.numpy as wnp
from wengert.codegen.ordering import interleave
from wengert.codegen.target import Target
from wengert.machine import policy

FLOAT, POINTER = ir.FloatType(), ir.PointerType()


def begun():
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [POINTER] * 3), "f")
    return ir.IRBuilder(function.append_basic_block()), function.args


def chain(builder, value, length):
    found = []
    for _ in range(length):
        value = builder.fmul(value, value)
        found.append(value)
    return found


def test_chains_that_are_independent_are_mixed():
    builder, (a, b, c) = begun()
    block, starts, chains = builder.block, [], []
    for source, target in ((a, b), (b, c)):
        starts.append(len(block.instructions))
        values = chain(builder, builder.load(source, typ=FLOAT), 10)
        builder.store(values[-1], target)
        chains.append(values)
    interleave(block, starts)
    place = {id(one): k for k, one in enumerate(block.instructions)}
    one, other = ([place[id(value)] for value in values] for values in chains)
    assert one == sorted(one) and other == sorted(other)
    assert other[0] < one[1] and one[-1] < other[-1] < len(block.instructions) - 1


def test_the_longest_way_comes_first():
    builder, (a, b, c) = begun()
    x = builder.load(a, typ=FLOAT)
    short = chain(builder, x, 1)
    long = chain(builder, x, 9)
    builder.store(short[-1], b)
    builder.store(long[-1], c)
    interleave(builder.block, [0])
    order = [id(one) for one in builder.block.instructions]
    assert order.index(id(long[0])) < order.index(id(short[0]))


def test_memory_stays_in_order_within_an_iteration():
    builder, (a, b, _) = begun()
    late = chain(builder, builder.load(a, typ=FLOAT), 5)[-1]
    first = builder.store(late, b)
    again = builder.load(b, typ=FLOAT)
    second = builder.store(again, a)
    interleave(builder.block, [0])
    order = [id(one) for one in builder.block.instructions]
    assert order.index(id(first)) < order.index(id(again)) < order.index(id(second))


@pytest.mark.parametrize("why", ["a call that is not known", "too many"])
def test_what_is_not_known_stays_as_it_is(why):
    builder, (a, b, _) = begun()
    if why == "too many":
        chain(builder, builder.load(a, typ=FLOAT), policy().nests.most_ordered)
    else:
        kind = ir.FunctionType(FLOAT, [FLOAT])
        other = ir.Function(builder.module, kind, "other")
        builder.call(other, [builder.load(a, typ=FLOAT)])
    builder.store(chain(builder, builder.load(a, typ=FLOAT), 3)[-1], b)
    before = list(builder.block.instructions)
    interleave(builder.block, [0])
    assert builder.block.instructions == before


@pytest.mark.parametrize("length", [1, 15, 16, 33, 100, 128, 200])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_functions_side_by_side_give_what_they_give_alone(dtype, length):
    """Several vectors and several functions at once, sums of them too, and in place."""
    rng = np.random.default_rng(length)
    x, y = (rng.normal(size=(3, length)).astype(dtype) for _ in range(2))

    def together(x, y):
        s, t = wnp.sigmoid(x), wnp.tanh(y)
        z = wnp.exp(s * t) + wnp.log1p(x * x)
        return s, t, z, wnp.sum(z * t, axis=0), wnp.sum(wnp.exp(t), axis=1)

    close = 1e-5 if dtype is np.float32 else 1e-13
    for got, want in zip(wg.jit(together)(x, y), together(x, y), strict=True):
        np.testing.assert_allclose(got, want, rtol=close, atol=close)

    state = wg.tensor(x.copy())

    @wg.jit
    def update(y):
        state[...] = wnp.tanh(state) * wnp.exp(y)

    update(y)
    np.testing.assert_allclose(np.asarray(state), np.tanh(x) * np.exp(y), rtol=close)


def test_vectors_on_the_stack_are_in_one_cache_line_each():
    """The stack of a process may begin anywhere, also where a vector would be in two."""
    target, x = Target.host(), np.linspace(0.0, 1.0, 100)
    if target.vector_registers < policy().nests.enough_registers:
        pytest.skip("functions are computed one after the other here")
    long, short = (wg.jit(f).explain(x).llvm for f in (wnp.tanh, wnp.square))
    assert f"alignstack({target.vector_bytes})" in long
    assert "alignstack" not in short
