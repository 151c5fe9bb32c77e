"""Vectors in memory: what is stored in part is that part, and nothing behind it."""

import ctypes
from pathlib import Path

import numpy as np
import pytest
from llvmlite import ir

import wengert as wg
from wengert import codegen
from wengert.codegen.compile import compile_module
from wengert.codegen.llvm_types import POINTER
from wengert.codegen.memory import Memory
from wengert.codegen.scalars import Scalars

CANARY = 0xA5
ROOM = 1024
INTEGERS = [np.dtype(name) for name in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")]
DTYPES = [np.dtype(bool), *INTEGERS, np.dtype("f4"), np.dtype("f8")]


def narrowing(dtype, lanes, emit_store):
    """A function (wide, narrow) that narrows a vector of int64 and stores it by `emit_store`."""
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [POINTER, POINTER]), "narrow")
    builder = ir.IRBuilder(function.append_basic_block())
    wide = builder.load(function.args[0], typ=ir.VectorType(ir.IntType(64), lanes), align=8)
    value = Scalars(builder, lanes, True).convert(wide, np.dtype("i8"), dtype)
    if dtype.kind == "b":
        value = builder.zext(value, ir.VectorType(ir.IntType(8), lanes))
    emit_store(Memory(builder, dtype), value, function.args[1])
    builder.ret_void()
    return compile_module(module).function("narrow", None, ctypes.c_void_p, ctypes.c_void_p)


def narrowed(function, dtype, lanes):
    """What a function of `narrowing` leaves in memory full of canaries, and the values it got."""
    wide = np.arange(3, 3 + lanes) * 0x0101010101010101
    room = np.full(ROOM, CANARY, np.uint8)
    function(wide.ctypes.data, room.ctypes.data)
    return room, wide.astype(dtype)


@pytest.mark.xfail(reason="LLVM 22.1 on AVX-512 stores the whole wide element", strict=False)
@pytest.mark.parametrize("dtype", [np.dtype("i1"), np.dtype("i2"), np.dtype("i4")], ids=str)
def test_what_llvm_makes_of_a_masked_store_of_one_narrowed_lane(dtype):
    """The smallest form of what `Memory.store` keeps away from; it passes once LLVM is right."""
    one = ir.Constant(ir.VectorType(ir.IntType(1), 8), [True] + [False] * 7)
    room, expected = narrowed(
        narrowing(dtype, 8, lambda memory, value, to: memory._store_masked(value, to, one)),
        dtype,
        8,
    )
    assert room[: dtype.itemsize].view(dtype) == expected[0]
    assert (room[dtype.itemsize :] == CANARY).all()


@pytest.mark.parametrize("lanes", [2, 8, 16])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_store_in_part_writes_that_part_alone(dtype, lanes):
    for count in range(1, lanes + 1):
        room, expected = narrowed(
            narrowing(dtype, lanes, lambda m, value, to, n=count: m.store(value, to, 1, n)),
            dtype,
            lanes,
        )
        written = count * dtype.itemsize
        np.testing.assert_array_equal(room[:written].view(dtype), expected[:count])
        assert (room[written:] == CANARY).all(), f"{count} of {lanes} lanes"


def test_masked_stores_have_one_source():
    """Whatever else stores under a mask would not know what `Memory.store` knows."""
    files = Path(codegen.__file__).parent.rglob("*.py")
    assert [f.name for f in files if "llvm.masked.store" in f.read_text()] == ["memory.py"]


@pytest.mark.parametrize("length", [9, 17])
@pytest.mark.parametrize("source", ["f8", "i8", "i4", "u8"])
def test_narrowing_casts_leave_alone_what_lies_behind(source, length):
    x = np.arange(length).astype(source)
    for target in INTEGERS:
        if target.itemsize < x.itemsize:
            padded = lambda x, to=target: np.pad(x.astype(to), (2, 6), constant_values=7)
            np.testing.assert_array_equal(wg.jit(padded)(x), padded(x), str(target))
