"""Pieces of native code that deal with CPython's and NumPy's objects.

`Code` is a function under construction; the functions below it are the ones that every entry calls:
to check an array, to compare the memory of several, to make room for a result.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from llvmlite import ir

from ..runtime.layout import WORD, ObjectLayout
from ..runtime.limits import SPARES

I1, I8, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 32, 64))
F32, F64 = ir.FloatType(), ir.DoubleType()
PTR = ir.PointerType()
VOID = ir.VoidType()
C_LONG = ir.IntType(8 * ctypes.sizeof(ctypes.c_long))
NULL = ir.Constant(PTR, None)
ZERO = ir.Constant(I64, 0)

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

    def finish(self) -> ir.Function:
        """End a helper function."""
        self.function.linkage = "internal"
        self.slots.branch(self.function.blocks[1])
        return self.function


def emit_check(module: ir.Module, layout: ObjectLayout, name: str) -> ir.Function:
    """`i1 check(array, type, dtype, numbers, mask, flags, ndim, shape, strides)`.

    A function, not code for each array, so that a tree of hundreds compiles fast. Its lengths and
    strides are tables: -1 is any length, and no strides means that flags say it all.
    """
    kind = ir.FunctionType(I1, [PTR, PTR, PTR, I32, I32, I32, I32, PTR, PTR])
    code = Code(module, layout, name, kind)
    array, exact, dtype, numbers, mask, flags, ndim, shape, strides = code.function.args
    b = code.b
    code.require(code.same(code.load(array, layout.type), exact))
    found_flags = b.and_(code.load(array, layout.array_flags, I32), mask)
    found_ndim = code.load(array, layout.array_ndim, I32)
    code.require(b.and_(code.same(found_flags, flags), code.same(found_ndim, ndim)))
    found = code.load(array, layout.array_dtype)
    with b.if_then(b.not_(code.same(found, dtype)), likely=False):
        # Nearly always the same object; else the number of an equal type, in native order.
        number = code.load(found, layout.dtype_number, I32)
        code.require(b.icmp_unsigned("<", number, constant(32, I32)))
        code.require(b.trunc(b.lshr(numbers, number), I1))
        order = code.load(found, layout.dtype_byteorder, I8)
        native = (code.same(order, constant(ord(mark), I8)) for mark in "=|")
        code.require(b.or_(*native))
    found_shape = code.load(array, layout.array_shape)
    found_strides = code.load(array, layout.array_strides)
    with code.loop(b.zext(ndim, I64)) as axis:
        length = code.element(shape, axis)
        equal = code.same(length, code.element(found_shape, axis))
        code.require(b.or_(equal, code.same(length, constant(-1))))
        with b.if_then(b.not_(code.is_null(strides))):
            equal = code.same(code.element(strides, axis), code.element(found_strides, axis))
            code.require(b.or_(equal, code.same(length, constant(1))))
    code.ret(constant(1, I1), constant(0, I1))
    return code.finish()


def emit_apart(module: ir.Module, layout: ObjectLayout, name: str) -> ir.Function:
    """`i1 apart(ranges, written, all)`: does none of the first, written, ranges meet another?"""
    code = Code(module, layout, name, ir.FunctionType(I1, [PTR, I64, I64]))
    ranges, written, total = code.function.args
    b = code.b

    def bounds(index: Value) -> tuple[Value, Value]:
        low = b.shl(index, constant(1))
        return code.element(ranges, low), code.element(ranges, b.add(low, constant(1)))

    with code.loop(written) as one:
        low, high = bounds(one)
        with code.loop(total, b.add(one, constant(1))) as other:
            start, end = bounds(other)
            before, after = b.icmp_unsigned("<=", high, start), b.icmp_unsigned("<=", end, low)
            code.require(b.or_(before, after))
    code.ret(constant(1, I1), constant(0, I1))
    return code.finish()


def emit_measure(module: ir.Module, layout: ObjectLayout, name: str) -> ir.Function:
    """`void measure(array, itemsize, range)`: where an array begins and ends in memory.

    0 and 0 for NULL and for an array without elements: these meet nothing.
    """
    code = Code(module, layout, name, ir.FunctionType(VOID, [PTR, I64, PTR]))
    array, itemsize, bounds = code.function.args
    b, zero = code.b, constant(0)
    low, high = code.slot(I64), code.slot(I64)
    code.require(b.not_(code.is_null(array)))
    start = b.ptrtoint(code.load(array, layout.array_data), I64)
    b.store(start, low)
    b.store(b.add(start, itemsize), high)
    shape, strides = (
        code.load(array, offset) for offset in (layout.array_shape, layout.array_strides)
    )
    with code.loop(b.zext(code.load(array, layout.array_ndim, I32), I64)) as axis:
        length = code.element(shape, axis)
        code.require(b.not_(code.same(length, zero)))
        reach = b.mul(b.sub(length, constant(1)), code.element(strides, axis))
        backwards = b.icmp_signed("<", reach, zero)
        b.store(b.add(b.load(low, typ=I64), b.select(backwards, reach, zero)), low)
        b.store(b.add(b.load(high, typ=I64), b.select(backwards, zero, reach)), high)
    code.put(b.load(low, typ=I64), bounds, 0)
    code.put(b.load(high, typ=I64), bounds, 1)
    b.ret_void()
    b.position_at_end(code.mismatch)
    code.put(zero, bounds, 0)
    code.put(zero, bounds, 1)
    b.ret_void()
    return code.finish()


def emit_provide(module: ir.Module, layout: ObjectLayout, name: str) -> ir.Function:
    """`ptr provide(given, made, new, type, dtype, ndim, shape)`: where to write a result.

    The data of the array given, or of a new one that goes to the slot `made`; NULL without memory.
    """
    kind = ir.FunctionType(PTR, [PTR, PTR, PTR, PTR, PTR, I32, PTR])
    code = Code(module, layout, name, kind)
    given, made, new, exact, dtype, ndim, shape = code.function.args
    b = code.b
    with b.if_then(b.not_(code.is_null(given))):
        b.ret(code.load(given, layout.array_data))
    code.call("Py_IncRef", dtype)  # PyArray_NewFromDescr takes this reference
    new_type = ir.FunctionType(PTR, [PTR, PTR, I32, PTR, PTR, PTR, I32, PTR])
    new.type = ir.PointerType(new_type)  # a call needs the type of what it calls
    array = b.call(new, [exact, dtype, ndim, shape, NULL, NULL, constant(0, I32), NULL])
    code.require(b.not_(code.is_null(array)))
    b.store(array, made)
    code.ret(code.load(array, layout.array_data), NULL)
    return code.finish()


def emit_recycle(
    module: ir.Module, layout: ObjectLayout, name: str, check: ir.Function, provide: ir.Function
) -> ir.Function:
    """`ptr recycle(spares, first, given, made, new, type, dtype, ndim, shape)`: as `provide`, but
    an array made before is given again if the list of spares is all that holds it.

    One of another shape that nobody else holds makes way. It is an array of numbers and nobody
    watches it, so no Python code runs when it dies.
    """
    kind = ir.FunctionType(PTR, [PTR, I64, PTR, PTR, PTR, PTR, PTR, I32, PTR])
    code = Code(module, layout, name, kind)
    spares, first, given, made, new, exact, dtype, ndim, shape = code.function.args
    b = code.b
    with b.if_then(b.not_(code.is_null(given))):
        b.ret(code.load(given, layout.array_data))
    items = code.load(spares, layout.list_items)
    wanted = constant(C_CONTIGUOUS | OWNDATA | ALIGNED | WRITEABLE, I32)
    for number in range(SPARES):
        place = b.gep(items, [b.add(first, constant(number))], source_etype=PTR)
        spare = b.load(place, typ=PTR)
        alone = code.same(code.load(spare, 0, I64), constant(1))
        with b.if_then(alone):
            arguments = [spare, exact, dtype, constant(0, I32), wanted, wanted, ndim, shape, NULL]
            fits = b.call(check, arguments)
            unwatched = code.is_null(code.load(spare, layout.array_weakrefs))
            with b.if_then(b.and_(fits, unwatched)):
                code.call("Py_IncRef", spare)
                b.store(spare, made)
                b.ret(code.load(spare, layout.array_data))
    pointer = b.call(provide, [given, made, new, exact, dtype, ndim, shape])
    code.require(b.not_(code.is_null(pointer)))
    array = b.load(made, typ=PTR)
    for number in range(SPARES):
        place = b.gep(items, [b.add(first, constant(number))], source_etype=PTR)
        held = b.load(place, typ=PTR)
        makes_way = code.slot(ir.IntType(1))
        b.store(b.not_(code.same(code.load(held, layout.type), exact)), makes_way)
        with b.if_then(code.same(code.load(held, 0, I64), constant(1))):
            unwatched = code.is_null(code.load(held, layout.array_weakrefs))
            b.store(unwatched, makes_way)
        with b.if_then(b.load(makes_way, typ=ir.IntType(1))):
            code.call("Py_IncRef", array)
            b.store(array, place)
            code.call("Py_DecRef", held)
            b.ret(pointer)
    code.ret(pointer, NULL)
    return code.finish()
