"""What all entries call: an array checked, the memory of several compared, room for a result made,
a call that failed or is for somebody else.

These functions, and the gate, are one module that is compiled once (`gate.py`); the module of an
entry declares what it calls with `shared_part`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from ..runtime.builtin import CONTEXT_NEXT, CONTEXT_ON_ERROR, CONTEXT_POINTERS, Pointer
from ..runtime.layout import WORD, ObjectLayout
from ..runtime.limits import NO_FALLBACK, SPARES
from .compile import ENTRY_PREFIX
from .objects import (
    ALIGNED,
    C_CONTIGUOUS,
    I1,
    I8,
    I32,
    I64,
    NULL,
    OWNDATA,
    PTR,
    VOID,
    WRITEABLE,
    Code,
    Value,
    constant,
    global_constant,
)
from .target import Target

PARTS: dict[str, tuple[ir.FunctionType, Callable[[Code], None]]] = {}


def shared_part(module: ir.Module, name: str) -> ir.Function:
    """One of the functions below, as a module that calls it sees it."""
    full = ENTRY_PREFIX + name
    return module.globals.get(full) or ir.Function(module, PARTS[name][0], full)


def parts_module(target: Target, layout: ObjectLayout) -> ir.Module:
    """The module of all of them."""
    module = ir.Module()
    module.triple = target.triple
    for name, (kind, emit) in PARTS.items():
        code = Code(module, layout, ENTRY_PREFIX + name, kind)
        emit(code)
        code.finish(linkage="")
    return module


def _part(result: ir.Type, arguments: Sequence[ir.Type]) -> Callable:
    def keep(emit: Callable[[Code], None]) -> Callable[[Code], None]:
        PARTS[emit.__name__] = ir.FunctionType(result, arguments), emit
        return emit

    return keep


@_part(PTR, [PTR, PTR, I64, PTR])
def gate(code: Code) -> None:
    """`ptr gate(context, args, nargs, kwnames)`: an entry, while its callable is held.

    The reference count is changed as Python's own macros do it: it costs less than two calls.
    """
    context, *arguments = code.function.args
    b, table = code.b, _item(code, context, CONTEXT_POINTERS)
    entry, callable_ = (
        code.load(table, code.layout.bytes_data + WORD * which)
        for which in (Pointer.ENTRY, Pointer.CALLABLE)
    )
    entry.type = ir.PointerType(code.function.function_type)  # a call needs what it calls
    b.store(b.add(code.load(callable_, 0, I64), constant(1)), callable_)
    result = b.call(entry, [context, *arguments])
    now = code.load(callable_, 0, I64)
    code.require(b.not_(code.same(now, constant(1))))
    b.store(b.sub(now, constant(1)), callable_)
    b.ret(result)
    b.position_at_end(code.mismatch)
    code.call("Py_DecRef", callable_)
    b.ret(result)


@_part(I1, [PTR, PTR, PTR, I32, I32, I32, I32, PTR, PTR])
def check(code: Code) -> None:
    """`i1 check(array, type, dtype, numbers, mask, flags, ndim, shape, strides)`.

    Its lengths and
    strides are tables: -1 is any length, and no strides means that flags say it all.
    """
    array, exact, dtype, numbers, mask, flags, ndim, shape, strides = code.function.args
    b = code.b
    code.require(code.same(code.load(array, code.layout.type), exact))
    found_flags = b.and_(code.load(array, code.layout.array_flags, I32), mask)
    found_ndim = code.load(array, code.layout.array_ndim, I32)
    code.require(b.and_(code.same(found_flags, flags), code.same(found_ndim, ndim)))
    found = code.load(array, code.layout.array_dtype)
    with b.if_then(b.not_(code.same(found, dtype)), likely=False):
        # Nearly always the same object; else the number of an equal type, in native order.
        number = code.load(found, code.layout.dtype_number, I32)
        code.require(b.icmp_unsigned("<", number, constant(32, I32)))
        code.require(b.trunc(b.lshr(numbers, number), I1))
        order = code.load(found, code.layout.dtype_byteorder, I8)
        native = (code.same(order, constant(ord(mark), I8)) for mark in "=|")
        code.require(b.or_(*native))
    found_shape = code.load(array, code.layout.array_shape)
    found_strides = code.load(array, code.layout.array_strides)
    with code.loop(b.zext(ndim, I64)) as axis:
        length = code.element(shape, axis)
        equal = code.same(length, code.element(found_shape, axis))
        code.require(b.or_(equal, code.same(length, constant(-1))))
        with b.if_then(b.not_(code.is_null(strides))):
            equal = code.same(code.element(strides, axis), code.element(found_strides, axis))
            code.require(b.or_(equal, code.same(length, constant(1))))
    code.ret(constant(1, I1), constant(0, I1))


@_part(I1, [PTR, I64, I64])
def apart(code: Code) -> None:
    """`i1 apart(ranges, written, all)`: does none of the first, written, ranges meet another?"""
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


@_part(VOID, [PTR, I64, PTR])
def measure(code: Code) -> None:
    """`void measure(array, itemsize, range)`: where an array begins and ends in memory.

    0 and 0 for NULL and for an array without elements: these meet nothing.
    """
    array, itemsize, bounds = code.function.args
    b, zero = code.b, constant(0)
    low, high = code.slot(I64), code.slot(I64)
    code.require(b.not_(code.is_null(array)))
    start = b.ptrtoint(code.load(array, code.layout.array_data), I64)
    b.store(start, low)
    b.store(b.add(start, itemsize), high)
    shape, strides = (
        code.load(array, offset) for offset in (code.layout.array_shape, code.layout.array_strides)
    )
    with code.loop(b.zext(code.load(array, code.layout.array_ndim, I32), I64)) as axis:
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


@_part(PTR, [PTR, PTR, PTR, PTR, PTR, I32, PTR])
def provide(code: Code) -> None:
    """`ptr provide(given, made, new, type, dtype, ndim, shape)`: where to write a result.

    The data of the array given, or of a new one that goes to the slot `made`; NULL without memory.
    """
    given, made, new, exact, dtype, ndim, shape = code.function.args
    b = code.b
    with b.if_then(b.not_(code.is_null(given))):
        b.ret(code.load(given, code.layout.array_data))
    code.call("Py_IncRef", dtype)  # PyArray_NewFromDescr takes this reference
    new_type = ir.FunctionType(PTR, [PTR, PTR, I32, PTR, PTR, PTR, I32, PTR])
    new.type = ir.PointerType(new_type)  # a call needs the type of what it calls
    array = b.call(new, [exact, dtype, ndim, shape, NULL, NULL, constant(0, I32), NULL])
    code.require(b.not_(code.is_null(array)))
    b.store(array, made)
    code.ret(code.load(array, code.layout.array_data), NULL)


@_part(PTR, [PTR, I64, PTR, PTR, PTR, PTR, PTR, I32, PTR])
def recycle(code: Code) -> None:
    """`ptr recycle(spares, first, given, made, new, type, dtype, ndim, shape)`: as `provide`, but
    an array made before is given again if the list of spares is all that holds it.

    One of another shape that nobody else holds makes way. It is an array of numbers and nobody
    watches it, so no Python code runs when it dies.
    """
    spares, first, given, made, new, exact, dtype, ndim, shape = code.function.args
    b = code.b
    with b.if_then(b.not_(code.is_null(given))):
        b.ret(code.load(given, code.layout.array_data))
    items = code.load(spares, code.layout.list_items)
    wanted = constant(C_CONTIGUOUS | OWNDATA | ALIGNED | WRITEABLE, I32)
    for number in range(SPARES):
        place = b.gep(items, [b.add(first, constant(number))], source_etype=PTR)
        spare = b.load(place, typ=PTR)
        alone = code.same(code.load(spare, 0, I64), constant(1))
        with b.if_then(alone):
            arguments = [spare, exact, dtype, constant(0, I32), wanted, wanted, ndim, shape, NULL]
            fits = b.call(shared_part(code.module, "check"), arguments)
            unwatched = code.is_null(code.load(spare, code.layout.array_weakrefs))
            with b.if_then(b.and_(fits, unwatched)):
                code.call("Py_IncRef", spare)
                b.store(spare, made)
                b.ret(code.load(spare, code.layout.array_data))
    provided = shared_part(code.module, "provide")
    pointer = b.call(provided, [given, made, new, exact, dtype, ndim, shape])
    code.require(b.not_(code.is_null(pointer)))
    array = b.load(made, typ=PTR)
    for number in range(SPARES):
        place = b.gep(items, [b.add(first, constant(number))], source_etype=PTR)
        held = b.load(place, typ=PTR)
        makes_way = code.slot(ir.IntType(1))
        b.store(b.not_(code.same(code.load(held, code.layout.type), exact)), makes_way)
        with b.if_then(code.same(code.load(held, 0, I64), constant(1))):
            unwatched = code.is_null(code.load(held, code.layout.array_weakrefs))
            b.store(unwatched, makes_way)
        with b.if_then(b.load(makes_way, typ=ir.IntType(1))):
            code.call("Py_IncRef", array)
            b.store(array, place)
            code.call("Py_DecRef", held)
            b.ret(pointer)
    code.ret(pointer, NULL)


@_part(PTR, [PTR, PTR, I64, PTR])
def pass_on(code: Code) -> None:
    """`ptr pass_on(context, args, nargs, kwnames)`: the next callable gets the call, as it came.

    Without one, `on_error` raises.
    """
    context, args, nargs, kwnames = code.function.args
    b, layout = code.b, code.layout
    code.call("PyErr_Clear")  # a look-up or conversion may have raised
    following = code.load(_item(code, context, CONTEXT_NEXT), layout.cell_content)
    code.require(b.not_(code.is_null(following)))
    code.call("Py_IncRef", following)  # the cell may be repointed meanwhile
    result = code.null_slot()
    text = bytearray(b" in a compiled call\0")
    where = ir.Constant(ir.ArrayType(I8, len(text)), text)
    where = global_constant(code.module, f"{code.function.name}.where", where)
    entered = code.call("Py_EnterRecursiveCall", where)  # a ring of entries must not crash
    with b.if_then(code.same(entered, constant(0, I32))):
        b.store(code.call("PyObject_Vectorcall", following, args, nargs, kwnames), result)
        code.call("Py_LeaveRecursiveCall")
    code.call("Py_DecRef", following)
    b.ret(b.load(result, typ=PTR))
    b.position_at_end(code.mismatch)
    b.ret(_raised(code, context, constant(NO_FALLBACK), code.slot(PTR), constant(1), NULL))


@_part(PTR, [PTR, PTR, I64, PTR, I32])
def failed(code: Code) -> None:
    """`ptr failed(context, args, nargs, kwnames, number)`: the kernel returned an error.

    Its exception is passed on, or `on_error` raises one for the number, with the arguments.
    """
    context, args, nargs, kwnames, number = code.function.args
    b = code.b
    code.require(code.is_null(code.call("PyErr_Occurred")))
    count = code.slot(I64)
    b.store(nargs, count)
    with b.if_then(b.not_(code.is_null(kwnames))):
        b.store(b.add(nargs, code.load(kwnames, code.layout.size, I64)), count)
    total = b.load(count, typ=I64)
    arguments = b.alloca(PTR, b.add(total, constant(1)))
    arguments.align, arguments.type = WORD, PTR
    with code.loop(total) as index:
        value = b.load(b.gep(args, [index], source_etype=PTR), typ=PTR)
        after = b.add(index, constant(1))
        b.store(value, b.gep(arguments, [after], source_etype=PTR))
    following = b.add(nargs, constant(1))
    code.ret(_raised(code, context, b.sext(number, I64), arguments, following, kwnames), NULL)


def _raised(code: Code, context: Value, number: Value, arguments: Value, *rest: Value) -> Value:
    """What `on_error` gives for a number and what stands behind its place among the arguments."""
    b, result = code.b, code.slot(PTR)
    error = code.call("PyLong_FromLongLong", number)
    b.store(error, result)
    with b.if_then(b.not_(code.is_null(error))):
        b.store(error, arguments)
        handler = _item(code, context, CONTEXT_ON_ERROR)
        b.store(code.call("PyObject_Vectorcall", handler, arguments, *rest), result)
        code.call("Py_DecRef", error)
    return b.load(result, typ=PTR)


def _item(code: Code, context: Value, index: int) -> Value:
    """An item of the context that `runtime.builtin` describes."""
    return code.load(context, code.layout.tuple_items + WORD * index)
