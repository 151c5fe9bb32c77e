"""From the address of generated code to a Python callable.

A compiled program is a *kernel*, `i32 kernel(ptr buffers, ptr arena)`. `buffers` is an array of
8-byte slots: the data pointers of inputs, results and captured state, in that order, then the
length of each dynamic axis as an i64. A scalar is a pointer to its value in the declared dtype.
The kernel returns 0, or an error code.

`codegen/entry.py` emits an *entry* beside the kernel: a CPython fast-call function that checks the
arguments natively against a `Signature`, calls the kernel and builds the result. Here that entry
becomes a built-in function. Whatever does not match the signature goes, arguments
untouched, to the next callable: the entry of another signature, and last a Python function that
compiles anew or raises the clear error.

Generated code holds no address, so it can be cached and loaded by another process. All it needs is
in the tuple that Python passes as the built-in's `self`, the *entry context*:

    index  what                                              read as
    0      cell with the next callable (can be repointed)    called on a mismatch
    1      on_error                                          on_error(code, *args, **kwargs)
    2      bytes: the pointer table, see `Pointer`           addresses of this process
    3      list of large results made before                 given again when nobody holds them
    4...   `context_objects(signature)`: types, dtypes,      compared by identity, looked up
           keyword names, dictionary keys, static values     by in dictionaries, returned
    last   whatever must outlive the machine code            never read natively

The tuple owns everything, so the built-in alone keeps the program alive. Where the memory layout is
not the one that generated code is written for, `CtypesCall` does the same work in Python.
"""

import ctypes
import functools
import sys
import types
import weakref
from collections.abc import Callable
from enum import IntEnum
from typing import Any

import numpy as np

from .arena import Arena
from .layout import WORD, ObjectLayout, native_layout, numpy_functions
from .limits import NO_FALLBACK, SPARES, STACK_ARENA_LIMIT
from .signature import Signature, context_objects
from .twin import CtypesCall

CONTEXT_NEXT, CONTEXT_ON_ERROR, CONTEXT_POINTERS, CONTEXT_SPARES, CONTEXT_OBJECTS = range(5)
CONTEXT_FINISH = CONTEXT_OBJECTS
# Results of this many bytes are used again once nobody holds them: fresh memory of that size costs
# more than most programs.
SPARE_BYTES = 1 << 20
# What one program may keep so, and what all others may keep of results that nobody holds.
RECYCLED_BYTES, IDLE_BYTES = 512 << 20, 256 << 20


class Pointer(IntEnum):
    """The pointer table, item 2 of the context: one 8-byte address each."""

    NEW_FROM_DESCR = 0  # PyArray_NewFromDescr
    SCALAR = 1  # PyArray_Scalar
    ARENA = 2  # the shared arena, or 0
    LOCK = 3  # its lock word: 0, or the identity of the thread that uses it
    CAPTURED = 4  # the table of captured addresses, or 0
    ENTRY = 5  # the entry, for the gate
    CALLABLE = 6  # the built-in itself, which the gate holds during a call


C_API: list[str] = """
    PyDict_GetItemWithError PyDict_New PyDict_Next PyDict_SetItem PyDict_Size PyErr_CheckSignals
    PyErr_Clear PyErr_Occurred PyEval_RestoreThread PyEval_SaveThread PyGILState_Ensure
    PyGILState_Release PyIter_Next PyList_New PyList_SetItem PyLong_AsLongLongAndOverflow
    PyLong_AsUnsignedLongLong PyLong_FromLongLong PyLong_FromVoidPtr PyMethod_New
    PyObject_CallOneArg PyObject_GenericGetDict PyObject_GetAttr PyObject_GetIter
    PyObject_RichCompareBool PyObject_Vectorcall PySet_Size PyThread_get_thread_ident PyTuple_New
    PyTuple_SetItem Py_DecRef Py_EnterRecursiveCall Py_IncRef Py_LeaveRecursiveCall
""".split()


def c_api_addresses() -> dict[str, int]:
    """The C functions that generated code calls by name, with their addresses, for the linker."""
    found = {}
    for name in C_API:
        function = getattr(ctypes.pythonapi, name, None)
        if function is not None:
            found[name] = ctypes.cast(function, ctypes.c_void_p).value or 0
    return found


class Spares(list):
    """The large results that an entry has made before, or None."""

    __slots__ = ("__weakref__",)

    def drop_idle(self, allowed: int) -> int:
        """Give back the arrays that nobody else holds, beyond so many bytes; what is left of these.

        To give back one that is used meanwhile only means that it is not used again.
        """
        for number in range(len(self)):
            array = self[number]
            if array is None or sys.getrefcount(array) > _HELD_HERE_ALONE:
                continue
            allowed -= array.nbytes
            if allowed < 0:
                self[number] = None
        return max(allowed, 0)


def _references_here() -> int:
    held = [object()]
    item = held[0]
    return sys.getrefcount(item)


_HELD_HERE_ALONE = _references_here()  # by the list, a variable and the call itself
_all_spares: dict[int, weakref.ref[Spares]] = {}  # in the order in which they were made


def drop_idle_results() -> None:
    """Give back the results that nobody holds, beyond `IDLE_BYTES`: those of the oldest entries."""
    allowed = IDLE_BYTES
    for reference in reversed(list(_all_spares.values())):
        spares = reference()
        if spares is not None:
            allowed = spares.drop_idle(allowed)


def _new_spares(count: int) -> Spares:
    """The spares of a new entry; those of all others give back what is too much."""
    drop_idle_results()
    spares = Spares([None] * count)
    key = id(spares)
    _all_spares[key] = weakref.ref(spares, lambda _: _all_spares.pop(key, None))
    return spares


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_FASTCALL = 0x0080
_KEYWORDS = 0x0002


@functools.cache
def _method(name: str, doc: str, function: int, flags: int = _FASTCALL | _KEYWORDS) -> _MethodDef:
    """The definition of a built-in, kept for ever: one for each name, as all enter by the gate.

    A built-in reads its definition until the very end of its life, in some versions of CPython
    after it has let go of all that it holds. So nothing that the garbage collector may find
    together with the built-in can own it.
    """
    return _MethodDef(name.encode(), function, flags, doc.encode())


def method_descriptor(kind: type, name: str, function: int) -> Any:
    """The code at `function`, `ptr (ptr self, ptr args, i64 nargs)`, as a method of `kind`."""
    new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.c_void_p)(
        ("PyDescr_NewMethod", ctypes.pythonapi)
    )
    return new(kind, ctypes.addressof(_method(name, "", function, _FASTCALL)))


def raise_error_code(code: int, *args: Any, **kwargs: Any) -> Any:
    """Raise for a kernel's error code; the `on_error` of programs that do not bring their own."""
    if code == NO_FALLBACK:
        raise TypeError("compiled call: the arguments match no signature, and there is no fallback")
    raise RuntimeError(f"compiled call: the kernel failed with error code {code}")


class BoundEntry:
    """A program that can be called.

    `call` is the callable: a built-in function, or a `CtypesCall` where entries do not work (then
    `native` is False). `slow` is always a `CtypesCall` of the same program; it brings its own
    arena, so a fallback can use it when another thread has the shared one. `next` gets every call
    that does not match; assign to it to chain signatures:

        first.next = second.call;  second.next = compile_anew
    """

    def __init__(self, call: Any, slow: CtypesCall, cell: types.CellType, native: bool):
        self.call, self.slow, self.native = call, slow, native
        self._cell = cell

    @property
    def next(self) -> Any:
        """The callable that gets the calls that do not match."""
        return self._cell.cell_contents

    @next.setter
    def next(self, callable_: Any) -> None:
        self._cell.cell_contents = callable_


def bind(
    signature: Signature,
    run_address: int,
    entry_address: int | None,
    gate: int | None,
    *,
    fallback: Callable[..., Any] | None = None,
    on_error: Callable[..., Any] = raise_error_code,
    arena: Arena | None = None,
    captured: np.ndarray | None = None,
    name: str = "compiled",
    module: str = "wengert",
    doc: str = "A function compiled by wengert.",
    keep_alive: Any = None,
    native: bool = True,
) -> BoundEntry:
    """Make the code at `entry_address` (the entry) and `run_address` (the kernel) callable.

    Calls come in through the `gate` (`codegen/gate.py`), so that they may free their own program.
    `captured` is an array of 8-byte addresses, one for each `signature.captured`; Python may write
    to it while no call runs. `keep_alive` is whatever owns the machine code. `native=False` forces
    the ctypes path, which is also taken without an `entry_address` or a `gate` and where entries do
    not work.
    Without `arena`, one is made if the signature needs one.
    """
    table = np.empty(0, np.uint64) if captured is None else captured
    good = table.dtype in (np.uint64, np.int64) and table.flags.c_contiguous
    if not good or table.shape != (len(signature.captured),):
        raise ValueError(
            f"bind: argument captured: got {captured!r}, "
            f"expected a uint64 array of {len(signature.captured)} addresses"
        )
    cell = types.CellType() if fallback is None else types.CellType(fallback)
    keep = (keep_alive, captured)
    slow = CtypesCall(signature, run_address, cell, on_error, captured, keep, name)
    layout = native_layout()
    if not native or layout is None or entry_address is None or gate is None:
        return BoundEntry(slow, slow, cell, False)
    if arena is None and signature.arena_bytes > STACK_ARENA_LIMIT:
        arena = Arena(signature.arena_bytes)
    pointers = _pointer_table(entry_address, arena, captured)
    context = (
        cell,
        on_error,
        pointers,
        _new_spares(SPARES * len(signature.outputs())),
        *context_objects(signature),
        (arena, keep),
    )
    new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.py_object)(
        ("PyCFunction_NewEx", ctypes.pythonapi)
    )
    call = new(ctypes.addressof(_method(name, doc, gate)), context, module)
    _tell_callable(pointers, call, layout)
    return BoundEntry(call, slow, cell, True)


def _tell_callable(pointers: bytes, call: Any, layout: ObjectLayout) -> None:
    """Let the gate know which callable it has to hold; no reference, or none would be freed."""
    at = id(pointers) + layout.bytes_data + WORD * Pointer.CALLABLE
    ctypes.c_uint64.from_address(at).value = id(call)


def _pointer_table(entry: int, arena: Arena | None, captured: np.ndarray | None) -> bytes:
    table = [0] * len(Pointer)
    functions = numpy_functions()
    assert functions is not None  # native_layout has asked
    table[Pointer.NEW_FROM_DESCR], table[Pointer.SCALAR] = functions
    table[Pointer.ENTRY] = entry
    if arena is not None:
        table[Pointer.ARENA], table[Pointer.LOCK] = arena.address, arena.lock_address
    if captured is not None:
        table[Pointer.CAPTURED] = captured.ctypes.data
    return np.array(table, np.uint64).tobytes()
