"""Memory in which a step too far is a fault: arrays lie at the edge of a page nobody may touch.

`install(edge)` gives NumPy an allocator of its own, so that arguments, results, constants and the
arenas of compiled programs all end ("end") or begin ("begin") at such a page. What is behind the
other side, up to the page, is watched: whoever has written there is told when the array is freed.
New memory is full of 0xFF: NaN as a float. Arenas are filled with it before each call.

With ``WENGERT_GUARD=end`` or ``begin`` all tests of a run work like this. The allocator is
generated code, because NumPy frees arrays where no Python may run.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Iterator

import numpy as np
from llvmlite import ir

from wengert.codegen import entry
from wengert.codegen.compile import Compiled, compile_module
from wengert.jit import frames, program
from wengert.runtime import builtin

EDGES = ("end", "begin")
# NumPy's table of C functions, and the places there of those for allocators (NEP 49).
_SET_HANDLER, _GET_HANDLER = 304, 305
# A process may have so many mappings; beyond these arrays memory is not protected.
_MOST_ARRAYS = 8000

_ALLOCATOR = """
@live = global i64 0
declare ptr @mmap(ptr, i64, i32, i32, i32, i64)
declare i32 @munmap(ptr, i64)
declare i32 @mprotect(ptr, i64, i32)
declare ptr @memset(ptr, i32, i64)
declare ptr @memcpy(ptr, ptr, i64)
declare void @abort()

; header page (all bytes, size, watched bytes and where), guard, pages with the array, guard
define ptr @guarded_malloc(ptr %context, i64 %asked) {
  %none = icmp eq i64 %asked, 0
  %size = select i1 %none, i64 1, i64 %asked
  %more = add i64 %size, 4095
  %pages = and i64 %more, -4096
  %all = add i64 %pages, 12288
  %base = call ptr @mmap(ptr null, i64 %all, i32 3, i32 34, i32 -1, i64 0)
  %number = ptrtoint ptr %base to i64
  %failed = icmp eq i64 %number, -1
  br i1 %failed, label %nothing, label %mapped
nothing:
  ret ptr null
mapped:
  %first = getelementptr i8, ptr %base, i64 8192
  %before = getelementptr i8, ptr %base, i64 4096
  %after = getelementptr i8, ptr %first, i64 %pages
  %slack = sub i64 %pages, %size
  %ahead = select i1 $AT_END, i64 %slack, i64 0
  %behind = select i1 $AT_END, i64 0, i64 %size
  %array = getelementptr i8, ptr %first, i64 %ahead
  %watched = getelementptr i8, ptr %first, i64 %behind
  %filled = call ptr @memset(ptr %array, i32 255, i64 %size)
  %marked = call ptr @memset(ptr %watched, i32 165, i64 %slack)
  store i64 %all, ptr %base
  %size_at = getelementptr i64, ptr %base, i64 1
  store i64 %size, ptr %size_at
  %slack_at = getelementptr i64, ptr %base, i64 2
  store i64 %slack, ptr %slack_at
  %watched_at = getelementptr i64, ptr %base, i64 3
  store ptr %watched, ptr %watched_at
  %count = atomicrmw add ptr @live, i64 1 seq_cst
  %few = icmp slt i64 %count, $MOST
  br i1 %few, label %protect, label %done
protect:
  %1 = call i32 @mprotect(ptr %before, i64 4096, i32 0)
  %2 = call i32 @mprotect(ptr %after, i64 4096, i32 0)
  br label %done
done:
  ret ptr %array
}

define ptr @guarded_calloc(ptr %context, i64 %count, i64 %each) {
  %size = mul i64 %count, %each
  %array = call ptr @guarded_malloc(ptr %context, i64 %size)
  %missing = icmp eq ptr %array, null
  br i1 %missing, label %done, label %clear
clear:
  %cleared = call ptr @memset(ptr %array, i32 0, i64 %size)
  br label %done
done:
  ret ptr %array
}

define internal ptr @header(ptr %array) {
  %number = ptrtoint ptr %array to i64
  %page = and i64 %number, -4096
  %place = sub i64 %page, 8192
  %base = inttoptr i64 %place to ptr
  ret ptr %base
}

define ptr @guarded_realloc(ptr %context, ptr %array, i64 %size) {
  %new = call ptr @guarded_malloc(ptr %context, i64 %size)
  %first = icmp eq ptr %array, null
  %failed = icmp eq ptr %new, null
  %alone = or i1 %first, %failed
  br i1 %alone, label %done, label %copy
copy:
  %base = call ptr @header(ptr %array)
  %size_at = getelementptr i64, ptr %base, i64 1
  %old = load i64, ptr %size_at
  %larger = icmp ugt i64 %size, %old
  %kept = select i1 %larger, i64 %old, i64 %size
  %copied = call ptr @memcpy(ptr %new, ptr %array, i64 %kept)
  call void @guarded_free(ptr %context, ptr %array, i64 %old)
  br label %done
done:
  ret ptr %new
}

define void @guarded_free(ptr %context, ptr %array, i64 %size) {
  %nothing = icmp eq ptr %array, null
  br i1 %nothing, label %done, label %look
look:
  %base = call ptr @header(ptr %array)
  %slack_at = getelementptr i64, ptr %base, i64 2
  %slack = load i64, ptr %slack_at
  %watched_at = getelementptr i64, ptr %base, i64 3
  %watched = load ptr, ptr %watched_at
  br label %loop
loop:
  %k = phi i64 [ 0, %look ], [ %next, %inside ]
  %more = icmp ult i64 %k, %slack
  br i1 %more, label %inside, label %release
inside:
  %at = getelementptr i8, ptr %watched, i64 %k
  %byte = load i8, ptr %at
  %next = add i64 %k, 1
  %whole = icmp eq i8 %byte, -91
  br i1 %whole, label %loop, label %broken
broken:
  call void @abort()
  unreachable
release:
  %all = load i64, ptr %base
  %count = atomicrmw sub ptr @live, i64 1 seq_cst
  %1 = call i32 @munmap(ptr %base, i64 %all)
  br label %done
done:
  ret void
}
"""


class _Handler(ctypes.Structure):
    """NumPy's PyDataMem_Handler."""

    _fields_ = [
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("context", ctypes.c_void_p),
        ("malloc", ctypes.c_void_p),
        ("calloc", ctypes.c_void_p),
        ("realloc", ctypes.c_void_p),
        ("free", ctypes.c_void_p),
    ]


@functools.cache
def _code(edge: str) -> Compiled:
    at_end = "true" if edge == "end" else "false"
    text = _ALLOCATOR.replace("$AT_END", at_end).replace("$MOST", str(_MOST_ARRAYS))
    return compile_module(text)


@functools.cache
def _handler(edge: str) -> tuple[_Handler, ctypes.py_object]:
    """NumPy keeps the address of the structure, and arrays that of their functions: for ever."""
    code = _code(edge)
    places = [code.address(f"guarded_{name}") for name in ("malloc", "calloc", "realloc", "free")]
    handler = _Handler(f"wengert {edge}".encode(), 1, None, *places)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = (
        ctypes.py_object,
        [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p],
    )
    return handler, new(ctypes.addressof(handler), b"mem_handler", None)


def _numpy_function(number: int, result: type, *arguments: type) -> ctypes._CFuncPtr:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = get(np._core._multiarray_umath._ARRAY_API, None)
    address = ctypes.cast(table, ctypes.POINTER(ctypes.c_void_p))[number]
    return ctypes.PYFUNCTYPE(result, *arguments)(address)


def _set_handler(handler: object) -> object:
    function = _numpy_function(_SET_HANDLER, ctypes.py_object, ctypes.py_object)
    return function(ctypes.py_object(handler))


@contextlib.contextmanager
def arrays_at(edge: str) -> Iterator[None]:
    """All arrays made meanwhile in this thread lie at an edge."""
    before = _set_handler(_handler(edge)[1])
    try:
        yield
    finally:
        _set_handler(before)


def install(edge: str) -> None:
    """From now on arrays lie at an edge, no arena on the stack, and arenas are filled with NaN."""
    _set_handler(_handler(edge)[1])
    for module in (entry, program, builtin):
        module.STACK_ARENA_LIMIT = 0
    entry.SPARE_BYTES = 1 << 62  # results are new, and so full of NaN, each time
    run, emit_run = frames.Frame.run, entry._emit_run

    @functools.wraps(run)
    def run_filled(self, *args, **kwargs):
        self.arena[:] = 0xFF
        return run(self, *args, **kwargs)

    @functools.wraps(emit_run)
    def emit_filled(module, name, kernel, signature):
        function = emit_run(module, name, kernel, signature)
        if signature.arena_bytes:
            _fill_first(function, signature.arena_bytes)
        return function

    frames.Frame.run, entry._emit_run = run_filled, emit_filled


def _fill_first(function: ir.Function, nbytes: int) -> None:
    """Fill the arena, the second argument, before anything else is done."""
    pointer, byte, size = ir.PointerType(), ir.IntType(8), ir.IntType(64)
    module, name = function.module, "llvm.memset.p0.i64"
    kind = ir.FunctionType(ir.VoidType(), [pointer, byte, size, ir.IntType(1)])
    memset = module.globals.get(name) or ir.Function(module, kind, name)
    builder = ir.IRBuilder(function.entry_basic_block)
    builder.position_at_start(function.entry_basic_block)
    arguments = [function.args[1], byte(255), size(nbytes), ir.IntType(1)(0)]
    builder.call(memset, arguments)
