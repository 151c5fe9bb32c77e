"""Pieces of native code that deal with CPython's and NumPy's objects.

`Code` is a function under construction; `entry.py` makes entries with it, `entry_parts.py` the
functions that all of them call.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from llvmlite import ir

from ..runtime.layout import WORD, ObjectLayout

I1, I8, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 32, 64))
F32, F64 = ir.FloatType(), ir.DoubleType()
PTR = ir.PointerType()
VOID = ir.VoidType()
C_LONG = ir.IntType(8 * ctypes.sizeof(ctypes.c_long))
NULL = ir.Constant(PTR, None)
ZERO = ir.Constant(I64, 0)

EQUAL = ir.Constant(I32, 2)  # Py_EQ

POLL = "wengert.poll"

# NumPy's flags
C_CONTIGUOUS, OWNDATA, ALIGNED, WRITEABLE, WARN_ON_WRITE = 0x1, 0x4, 0x100, 0x400, -1 << 31

Value = Any  # of llvmlite


def constant(value: int, kind: ir.Type = I64) -> Value:
    """An integer constant."""
    return ir.Constant(kind, value)


_C_TYPES: dict[str, tuple[ir.Type, Sequence[ir.Type]]] = {
    "PyDict_GetItemWithError": (PTR, [PTR, PTR]),
    "PyDict_New": (PTR, []),
    "PyDict_Next": (I32, [PTR, PTR, PTR, PTR]),
    "PyDict_SetItem": (I32, [PTR, PTR, PTR]),
    "PyDict_Size": (I64, [PTR]),
    "PyErr_CheckSignals": (I32, []),
    "PyErr_Clear": (VOID, []),
    "PyErr_Occurred": (PTR, []),
    "PyEval_RestoreThread": (VOID, [PTR]),
    "PyEval_SaveThread": (PTR, []),
    "PyGILState_Ensure": (I32, []),
    "PyGILState_Release": (VOID, [I32]),
    "PyIter_Next": (PTR, [PTR]),
    "PyList_New": (PTR, [I64]),
    "PyObject_CallOneArg": (PTR, [PTR, PTR]),
    "PyObject_GenericGetDict": (PTR, [PTR, PTR]),
    "PyObject_GetAttr": (PTR, [PTR, PTR]),
    "PyObject_GetIter": (PTR, [PTR]),
    "PyObject_RichCompareBool": (I32, [PTR, PTR, I32]),
    "PySet_Size": (I64, [PTR]),
    "PyList_SetItem": (I32, [PTR, I64, PTR]),
    "PyLong_AsLongLongAndOverflow": (I64, [PTR, PTR]),
    "PyLong_AsUnsignedLongLong": (I64, [PTR]),
    "PyLong_FromLongLong": (PTR, [I64]),
    "PyObject_Vectorcall": (PTR, [PTR, PTR, I64, PTR]),
    "PyThread_get_thread_ident": (C_LONG, []),
    "PyTuple_New": (PTR, [I64]),
    "PyTuple_SetItem": (I32, [PTR, I64, PTR]),
    "Py_DecRef": (VOID, [PTR]),
    "Py_EnterRecursiveCall": (I32, [PTR]),
    "Py_IncRef": (VOID, [PTR]),
    "Py_LeaveRecursiveCall": (VOID, []),
}


def c_function(module: ir.Module, name: str) -> ir.Function:
    """One of Python's C functions, declared in the module."""
    found = module.globals.get(name)
    if found is None:
        result, arguments = _C_TYPES[name]
        found = ir.Function(module, ir.FunctionType(result, arguments), name)
    return found


def global_constant(module: ir.Module, name: str, value: ir.Constant) -> ir.GlobalVariable:
    """A constant of the module, as a pointer."""
    variable = ir.GlobalVariable(module, value.type, name)
    variable.initializer, variable.linkage, variable.global_constant = value, "private", True
    variable.type = PTR
    return variable


class Code:
    """A function under construction, and the small pieces that all of them are made of.

    `b` is where code goes, `slots` the block of the stack's variables; what `require` finds wrong
    goes to the block `mismatch`.
    """

    def __init__(self, module: ir.Module, layout: ObjectLayout, name: str, kind: ir.FunctionType):
        self.module, self.layout = module, layout
        self.function = ir.Function(module, kind, name)
        self.slots = ir.IRBuilder(self.function.append_basic_block("slots"))
        self.b = ir.IRBuilder(self.function.append_basic_block("start"))
        self.mismatch = self.function.append_basic_block("mismatch")

    def call(self, name: str, *arguments: Value) -> Value:
        """Call one of Python's C functions."""
        return self.b.call(c_function(self.module, name), arguments)

    def load(self, base: Value, offset: int, kind: ir.Type = PTR) -> Value:
        """What stands `offset` bytes behind an address."""
        at = self.b.gep(base, [constant(offset)], source_etype=I8) if offset else base
        return self.b.load(at, typ=kind)

    def element(self, array: Value, index: Value) -> Value:
        """An element of an array of i64."""
        return self.b.load(self.b.gep(array, [index], source_etype=I64), typ=I64)

    def slot(self, kind: ir.Type, align: int = WORD) -> Value:
        """A variable on the stack."""
        slot = self.slots.alloca(kind)
        slot.align, slot.type = align, PTR
        return slot

    def null_slot(self) -> Value:
        """A variable on the stack that holds NULL at first."""
        slot = self.slot(PTR)
        self.slots.store(NULL, slot)
        return slot

    def put(self, value: Value, array: Value, index: int) -> None:
        """Write an element of an array of i64."""
        self.b.store(value, self.b.gep(array, [constant(index)], source_etype=I64))

    def same(self, a: Value, b: Value) -> Value:
        """Whether two integers or pointers are equal."""
        return self.b.icmp_unsigned("==", a, b)

    def is_null(self, value: Value) -> Value:
        """Whether a pointer is NULL."""
        return self.same(value, NULL)

    def require(self, condition: Value, otherwise: ir.Block | None = None) -> None:
        """Go on only if `condition` holds."""
        following = self.function.append_basic_block()
        branch = self.b.cbranch(condition, following, otherwise or self.mismatch)
        branch.set_weights([1 << 16, 1])
        self.b.position_at_end(following)

    @contextmanager
    def loop(self, count: Value, first: Value = ZERO) -> Iterator[Value]:
        """A loop from `first` to `count` - 1; what is emitted inside is its body."""
        b = self.b
        before = b.block
        head, body, done = (self.function.append_basic_block() for _ in range(3))
        b.branch(head)
        b.position_at_end(head)
        index = b.phi(I64)
        index.add_incoming(first, before)
        b.cbranch(b.icmp_unsigned("<", index, count), body, done)
        b.position_at_end(body)
        yield index
        index.add_incoming(b.add(index, constant(1)), b.block)
        b.branch(head)
        b.position_at_end(done)

    def ret(self, good: Value, bad: Value) -> None:
        """Return `good`, or `bad` on a mismatch."""
        self.b.ret(good)
        self.b.position_at_end(self.mismatch)
        self.b.ret(bad)

    def finish(self, linkage: str = "internal") -> ir.Function:
        """End a helper function."""
        self.function.linkage = linkage
        self.slots.branch(self.function.blocks[1])
        return self.function
