"""LLVM's types for the elements of arrays, constants of them, and what a module declares."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from llvmlite import ir

I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
POINTER = ir.PointerType()
_ELEMENTS: dict[str, ir.Type] = {
    "b1": I1, "i1": I8, "i2": I16, "i4": I32, "i8": I64, "u1": I8, "u2": I16, "u4": I32, "u8": I64,
    "f4": ir.FloatType(), "f8": ir.DoubleType(),
}  # fmt: skip


def element_type(dtype: np.dtype) -> ir.Type:
    """The LLVM type of one element as a value."""
    return _ELEMENTS[f"{dtype.kind}{dtype.itemsize}"]


def memory_type(dtype: np.dtype) -> ir.Type:
    """The LLVM type of one element in memory: booleans take a byte."""
    return I8 if dtype.kind == "b" else element_type(dtype)


def type_suffix(kind: ir.Type) -> str:
    """How LLVM writes a type in the name of an intrinsic: f64, v8f64."""
    if isinstance(kind, ir.VectorType):
        return f"v{kind.count}{type_suffix(kind.element)}"
    if isinstance(kind, ir.DoubleType):
        return "f64"
    return "f32" if isinstance(kind, ir.FloatType) else f"i{kind.width}"


def i32(value: int) -> ir.Constant:
    """A constant lane number or alignment."""
    return ir.Constant(I32, value)


def i64(value: int) -> ir.Constant:
    """A constant index."""
    return ir.Constant(I64, value)


def as_i64(number: int | ir.Value) -> ir.Value:
    """An index, whether it is known or not."""
    return i64(number) if isinstance(number, int) else number


def declare(module: ir.Module, name: str, signature: ir.FunctionType) -> ir.Function:
    """The function of that name, declared in the module if it is not there."""
    return module.globals.get(name) or ir.Function(module, signature, name)


def intrinsic(builder: ir.IRBuilder, name: str, *args: ir.Value) -> ir.Value:
    """Call an LLVM intrinsic overloaded by the one type of its arguments and result."""
    kind = args[0].type
    signature = ir.FunctionType(kind, [kind] * len(args))
    return builder.call(declare(builder.module, f"{name}.{type_suffix(kind)}", signature), args)


def private_function(module: ir.Module, name: str, kinds: Sequence[ir.Type]) -> ir.Function:
    """A new function that only its module sees."""
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), name)
    function.linkage = "internal"
    return function
