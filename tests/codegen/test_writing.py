"""Modules as text: LLVM reads the same in what `text_of` writes as in what llvmlite writes."""

import numpy as np
import pytest
from llvmlite import ir

import wengert as wg
from wengert.codegen import writing
from wengert.codegen.target import llvm
from wengert.codegen.writing import text_of

I64, DOUBLE, LANES = ir.IntType(64), ir.DoubleType(), ir.VectorType(ir.DoubleType(), 4)


def read(text):
    """The module as LLVM has read it."""
    with llvm().create_context() as context:
        return str(llvm().parse_assembly(text, context))


def loss(w, x):
    y = x @ w
    return np.sum(np.where(y > 0, np.tanh(y), np.sqrt(np.abs(y) + 1)) ** 2)


def steps(x):
    return wg.scan(lambda total, row: (total + np.sin(row), total[0]), np.zeros(5), x)[1]


@pytest.mark.parametrize(
    "call",
    [
        lambda: wg.jit(wg.value_and_grad(loss))(np.ones((30, 20)), np.ones((40, 30))),
        lambda: wg.jit(steps)(np.ones((7, 5))),
        lambda: wg.jit(wg.grad(lambda x: np.cumsum(np.exp(x))[-1]))(np.ones(100, np.float32)),
        lambda: wg.jit(lambda x: np.linalg.solve(x, x[0]))(np.eye(6)),
        lambda: wg.jit(lambda n: n // 3 + (n > 2) * n % 5)(np.arange(20)),
    ],
    ids=["network", "scan", "running", "solve", "integers"],
)
def test_programs(call, monkeypatch):
    seen = []

    def both(module):
        seen.append((text_of(module), str(module)))
        return seen[-1][0]

    monkeypatch.setenv("WENGERT_CACHE", "off")
    monkeypatch.setattr(writing, "text_of", both)
    call()
    assert seen
    for ours, theirs in seen:
        assert read(ours) == read(theirs)
        assert len(ours) < len(theirs)


def module_with(body):
    module = ir.Module("m")
    function = ir.Function(module, ir.FunctionType(I64, [I64, ir.PointerType()]), "f")
    builder = ir.IRBuilder(function.append_basic_block('odd "name"'))
    builder.ret(body(builder, *function.args))
    return module


def marked(builder, number, place):
    value = builder.load(place, typ=I64)
    value.set_metadata("invariant.load", builder.module.add_metadata([]))
    return value


def called(builder, number, place):
    kind = ir.FunctionType(I64, [I64, ir.PointerType()])
    other = ir.Function(builder.module, kind, "g")
    builder.call(other, [number, place], tail=True, arg_attrs={1: ("nonnull",)})
    return builder.call(other, [number, place], cconv="fastcc", attrs=("noinline",))


def flagged(builder, number, place):
    value = builder.sitofp(number, DOUBLE)
    value = builder.fadd(value, value, flags=("contract", "nnan"))
    less = builder.fcmp_ordered("<", value, value, flags=("fast",))
    value = builder.select(less, value, builder.fneg(value), flags=("nnan",))
    return builder.add(builder.fptosi(value, I64), number, flags=("nsw",))


def volatile(builder, number, place):
    old = builder.atomic_rmw("add", place, number, "monotonic")
    builder.store(old, builder.gep(place, [number], inbounds=True, source_etype=I64), align=8)
    return builder.freeze(old) if hasattr(builder, "freeze") else old


@pytest.mark.parametrize("body", [marked, called, flagged, volatile], ids=lambda f: f.__name__)
def test_what_is_rare_is_written_letter_by_letter(body):
    assert text_of(module_with(body)) == str(module_with(body))


@pytest.mark.parametrize("number", [None, ir.Undefined, 0.0, -0.0, 2.5, float("nan")])
def test_equal_lanes(number):
    def body(builder, index, place):
        lanes = ir.Constant(LANES, number)
        phi = builder.fadd(lanes, builder.load(place, typ=LANES))
        builder.store(builder.select(builder.fcmp_ordered("<", phi, lanes), phi, lanes), place)
        return builder.add(index, ir.Constant(I64, 0))

    module = module_with(body)
    assert read(text_of(module)) == read(str(module))
