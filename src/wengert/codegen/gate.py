"""The gate: what CPython calls of every program, so that no code is freed while it runs.

A callable may lose its last reference during a call: another thread, a signal handler or the traced
function itself says `f.clear()`. An entry that held a reference to itself could not give it back,
as it would return into memory that is no longer there. So calls go through one small function that
is never freed: it holds the callable, and with it all that the program needs, calls the entry, and
lets go after it.

    ptr gate(ptr self, ptr args, i64 nargs, ptr kwnames)

`self` is the context that `runtime.builtin` describes; its pointer table has the addresses of the
callable and of the entry.
"""

from __future__ import annotations

import ctypes
import threading

from ..runtime.builtin import CONTEXT_POINTERS, Pointer, c_api_addresses
from ..runtime.layout import WORD, ObjectLayout, native_layout
from .cache import shared_cache
from .compile import compile_here
from .target import Target

GATE = "gate"

# The reference count is changed here as Python's own macros do it: it costs less than two calls.
_TEXT = """
target triple = "{triple}"

declare void @Py_DecRef(ptr)

define ptr @{name}(ptr %self, ptr %args, i64 %nargs, ptr %kwnames) {{
start:
  %table.at = getelementptr i8, ptr %self, i64 {table}
  %table = load ptr, ptr %table.at
  %entry.at = getelementptr i8, ptr %table, i64 {entry}
  %entry = load ptr, ptr %entry.at
  %callable.at = getelementptr i8, ptr %table, i64 {callable}
  %callable = load ptr, ptr %callable.at
  %before = load i64, ptr %callable
  %held = add i64 %before, 1
  store i64 %held, ptr %callable
  %result = call ptr %entry(ptr %self, ptr %args, i64 %nargs, ptr %kwnames)
  %now = load i64, ptr %callable
  %last = icmp eq i64 %now, 1
  br i1 %last, label %free, label %drop, !prof !0
drop:
  %left = sub i64 %now, 1
  store i64 %left, ptr %callable
  ret ptr %result
free:
  call void @Py_DecRef(ptr %callable)
  ret ptr %result
}}

!0 = !{{!"branch_weights", i32 1, i32 65536}}
"""

_lock = threading.Lock()
_address: int | None = None


def gate_address() -> int | None:
    """The address of the gate, compiled on the first call; None where there are no entries."""
    global _address
    layout = native_layout()
    if layout is None:
        return None
    with _lock:
        if _address is None:
            code = compile_here(
                lambda target: gate_ir(target, layout),
                cache=shared_cache(),
                symbols=c_api_addresses(),
            )
            # Calls may be inside until the process ends: not even the interpreter's own clearing
            # of modules may free it.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(code))
            _address = code.address(GATE)
    return _address


def gate_ir(target: Target, layout: ObjectLayout) -> str:
    """The gate as LLVM IR."""
    return _TEXT.format(
        triple=target.triple,
        name=GATE,
        table=layout.tuple_items + WORD * CONTEXT_POINTERS,
        entry=layout.bytes_data + WORD * Pointer.ENTRY,
        callable=layout.bytes_data + WORD * Pointer.CALLABLE,
    )
