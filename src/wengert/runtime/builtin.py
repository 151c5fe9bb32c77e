"""From the address of generated code to a Python callable.

A compiled program is a *kernel*, `i32 kernel(ptr buffers, ptr arena)`. `buffers` is an array of
8-byte slots: the data pointers of inputs, results and captured state, in that order, then the
length of each dynamic axis as an i64. A scalar is a pointer to its value in the declared dtype.
The kernel returns 0, or an error code.

`codegen/entry.py` emits an *entry* beside the kernel: a CPython fast-call function that checks the
arguments natively against a `Signature`, calls the kernel and builds the result. Here that entry's
address becomes a built-in function. Whatever does not match the signature goes, arguments
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
import os
import sys
import sysconfig
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from ..snapshot import unchanged
from .limits import STACK_ARENA_LIMIT
from .signature import (
    BRANCHES,
    WITHOUT_BUFFER,
    ArraySpec,
    Dim,
    KeptSpec,
    Leaf,
    ObjectSpec,
    ScalarSpec,
    Signature,
    StaticSpec,
    Tree,
    children_of,
    context_objects,
)

WORD = 8  # bytes of a pointer and of a slot of `buffers`
ARENA_ALIGNMENT = 64
CONTEXT_NEXT, CONTEXT_ON_ERROR, CONTEXT_POINTERS, CONTEXT_SPARES, CONTEXT_OBJECTS = range(5)
CONTEXT_FINISH = CONTEXT_OBJECTS
# Results of this many bytes are used again once nobody holds them: fresh memory of that size costs
# more than most programs. Two of each, because a caller usually holds the last while it calls.
SPARE_BYTES, SPARES = 1 << 20, 2
NO_FALLBACK = -1  # the code given to on_error when the cell of the next callable is empty
# Codes of a program for any length: its room is too small, and it has no answer for length 0.
ROOM_TOO_SMALL, NO_ELEMENTS = -3, -4


class Pointer(IntEnum):
    """The pointer table, item 2 of the context: one 8-byte address each."""

    NEW_FROM_DESCR = 0  # PyArray_NewFromDescr
    SCALAR = 1  # PyArray_Scalar
    ARENA = 2  # the shared arena, or 0
    LOCK = 3  # its lock word: 0, or the identity of the thread that uses it
    CAPTURED = 4  # the table of captured addresses, or 0


@dataclass(frozen=True)
class Layout:
    """Byte offsets in CPython's and NumPy's objects.

    Generated code depends on them, so a key of cached code must hold the layout.
    """

    type: int = 8
    size: int = 16  # of a tuple or list
    tuple_items: int = 24
    list_items: int = 24
    bytes_data: int = 32
    cell_content: int = 16
    value: int = 16  # of a float, a complex, a NumPy scalar
    array_data: int = 16
    array_ndim: int = 24
    array_shape: int = 32
    array_strides: int = 40
    array_dtype: int = 56
    array_flags: int = 64
    array_weakrefs: int = 72
    dtype_byteorder: int = 26
    dtype_number: int = 28


@functools.cache
def native_layout() -> Layout | None:
    """The layout of this interpreter's objects, or None where entries cannot be used.

    Nothing is taken on trust: each offset is tried on real objects and compared with what Python
    says of them.
    """
    if sys.implementation.name != "cpython" or ctypes.sizeof(ctypes.c_void_p) != WORD:
        return None
    if sysconfig.get_config_var("Py_GIL_DISABLED") or object.__basicsize__ != 16:
        return None
    # CPython 3.14 put a cached hash before a tuple's items; the type itself tells.
    layout = Layout(tuple_items=tuple.__basicsize__, bytes_data=bytes.__basicsize__ - 1)
    good = _objects_agree(layout) and _arrays_agree(layout) and numpy_functions() is not None
    return layout if good else None


def _word(address: int) -> int:
    return ctypes.c_int64.from_address(address).value


def _objects_agree(layout: Layout) -> bool:
    items = (object(), object(), object())
    cell = types.CellType(items)
    listed = list(items)
    list_items = _word(id(listed) + layout.list_items)
    double = ctypes.c_double.from_address
    return (
        [_word(id(items) + layout.tuple_items + WORD * i) for i in range(3)]
        == [id(x) for x in items]
        and [_word(list_items + WORD * i) for i in range(3)] == [id(x) for x in items]
        and _word(id(items) + layout.size) == _word(id(listed) + layout.size) == 3
        and _word(id(items) + layout.type) == id(tuple)
        and _word(id(cell) + layout.cell_content) == id(items)
        and ctypes.string_at(id(b"wengert!") + layout.bytes_data, WORD) == b"wengert!"
        and double(id(half := 0.5) + layout.value).value == half
        and double(id(imaginary := 3 + 4j) + layout.value + 8).value == imaginary.imag
        and double(id(scalar := np.float64(2.5)) + layout.value).value == scalar
        and ctypes.c_int16.from_address(id(short := np.int16(-7)) + layout.value).value == short
    )


def _arrays_agree(layout: Layout) -> bool:
    frozen = np.zeros((2, 3, 5), np.float32)[::-1, :, 1:4]
    frozen.flags.writeable = False
    misaligned = np.zeros(17, np.uint8)[1:].view(np.float64)
    swapped = np.zeros((4, 1), ">i4")
    arrays = (frozen, misaligned, swapped, np.zeros((), bool))
    return _weakrefs_agree(layout) and all(_array_agrees(layout, array) for array in arrays)


def _weakrefs_agree(layout: Layout) -> bool:
    array = np.empty(1)
    before = _word(id(array) + layout.array_weakrefs)
    reference = weakref.ref(array)
    after = _word(id(array) + layout.array_weakrefs)
    return before == 0 and after == id(reference)


def _array_agrees(layout: Layout, array: np.ndarray) -> bool:
    at, dtype = id(array), id(array.dtype)
    shape, strides = _word(at + layout.array_shape), _word(at + layout.array_strides)
    axes = range(array.ndim)
    byteorder = ctypes.c_char.from_address(dtype + layout.dtype_byteorder).value
    return (
        _word(at + layout.type) == id(np.ndarray)
        and _word(at + layout.array_data) == array.ctypes.data
        and ctypes.c_int32.from_address(at + layout.array_ndim).value == array.ndim
        and [_word(shape + WORD * i) for i in axes] == list(array.shape)
        and [_word(strides + WORD * i) for i in axes] == list(array.strides)
        and _word(at + layout.array_dtype) == dtype
        and ctypes.c_int32.from_address(at + layout.array_flags).value == array.flags.num
        and byteorder == array.dtype.byteorder.encode()
        and ctypes.c_int32.from_address(dtype + layout.dtype_number).value == array.dtype.num
    )


NUMPY_ABI = 0x02000000  # what PyArray_GetNDArrayCVersion says for all of NumPy 2
NUMPY_FEATURES = 0x12  # PyArray_GetNDArrayCFeatureVersion of NumPy 2.0; later ones only add


@functools.cache
def numpy_functions() -> tuple[int, int] | None:
    """Addresses of PyArray_NewFromDescr and PyArray_Scalar; None where NumPy's C API is unknown."""
    try:
        from numpy._core._multiarray_umath import _ARRAY_API
    except ImportError:
        return None
    address_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    table = (ctypes.c_uint64 * 212).from_address(address_of(_ARRAY_API, None))
    version = ctypes.PYFUNCTYPE(ctypes.c_uint)
    if table[2] != id(np.ndarray) or version(table[0])() != NUMPY_ABI:
        return None
    if version(table[211])() < NUMPY_FEATURES:
        return None
    return table[94], table[60]


C_API: list[str] = """
    PyDict_GetItemWithError PyDict_New PyDict_Next PyDict_SetItem PyDict_Size PyErr_CheckSignals
    PyErr_Clear PyErr_Occurred PyEval_RestoreThread PyEval_SaveThread PyGILState_Ensure
    PyGILState_Release PyIter_Next PyList_New PyList_SetItem PyLong_AsLongLongAndOverflow
    PyLong_AsUnsignedLongLong PyLong_FromLongLong PyObject_CallOneArg PyObject_GenericGetDict
    PyObject_GetAttr PyObject_GetIter PyObject_RichCompareBool PyObject_Vectorcall PySet_Size
    PyThread_get_thread_ident PyTuple_New PyTuple_SetItem Py_DecRef Py_EnterRecursiveCall
    Py_IncRef Py_LeaveRecursiveCall
""".split()


def c_api_addresses() -> dict[str, int]:
    """The C functions that generated code calls by name, with their addresses, for the linker."""
    found = {}
    for name in C_API:
        function = getattr(ctypes.pythonapi, name, None)
        if function is not None:
            found[name] = ctypes.cast(function, ctypes.c_void_p).value or 0
    return found


class Arena:
    """Scratch memory of a program, with the lock word that lets one thread use it at a time.

    >>> arena = Arena(100_000)
    >>> arena.address % ARENA_ALIGNMENT, arena.locked
    (0, False)
    """

    def __init__(self, nbytes: int):
        self.nbytes = nbytes
        self._memory = np.empty(nbytes + 2 * ARENA_ALIGNMENT, np.uint8)
        self.lock_address = -(-self._memory.ctypes.data // ARENA_ALIGNMENT) * ARENA_ALIGNMENT
        self.address = self.lock_address + ARENA_ALIGNMENT  # a cache line away from the lock
        self._lock = ctypes.c_int64.from_address(self.lock_address)
        self._lock.value = 0
        _arenas.add(self)

    @property
    def locked(self) -> bool:
        """Whether a thread uses the arena now."""
        return self._lock.value != 0

    @property
    def holder(self) -> int:
        """The identity of the thread that uses it, or 0."""
        return self._lock.value

    def take(self, thread: int) -> bool:
        """Take the lock if it is free. Under the GIL, which entries hold when they take it."""
        if self._lock.value:
            return False
        self._lock.value = thread
        return True

    def release(self) -> None:
        """Give the lock back."""
        self._lock.value = 0


_arenas: weakref.WeakSet[Arena] = weakref.WeakSet()


def _free_arenas_after_fork() -> None:
    """Only the forking thread lives on in the child: locks of all others would stay taken."""
    me = threading.get_ident()
    for arena in _arenas:
        if arena._lock.value != me:
            arena._lock.value = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free_arenas_after_fork)


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_FASTCALL_KEYWORDS = 0x0080 | 0x0002


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

    def __init__(self, call: Any, slow: "CtypesCall", cell: types.CellType, native: bool):
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

    `captured` is an array of 8-byte addresses, one for each `signature.captured`; Python may write
    to it while no call runs. `keep_alive` is whatever owns the machine code. `native=False` forces
    the ctypes path, which is also taken without an `entry_address` and where entries do not work.
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
    possible = native_layout() is not None and entry_address is not None
    if not (native and possible):
        return BoundEntry(slow, slow, cell, False)
    if arena is None and signature.arena_bytes > STACK_ARENA_LIMIT:
        arena = Arena(signature.arena_bytes)
    method = _MethodDef(name.encode(), entry_address, _FASTCALL_KEYWORDS, doc.encode())
    context = (
        cell,
        on_error,
        _pointer_table(arena, captured),
        [None] * (SPARES * len(signature.outputs())),
        *context_objects(signature),
        (method, arena, keep),
    )
    new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.py_object)(
        ("PyCFunction_NewEx", ctypes.pythonapi)
    )
    call = new(ctypes.addressof(method), context, module)
    return BoundEntry(call, slow, cell, True)


def _pointer_table(arena: Arena | None, captured: np.ndarray | None) -> bytes:
    table = [0] * len(Pointer)
    functions = numpy_functions()
    assert functions is not None  # native_layout has asked
    table[Pointer.NEW_FROM_DESCR], table[Pointer.SCALAR] = functions
    if arena is not None:
        table[Pointer.ARENA], table[Pointer.LOCK] = arena.address, arena.lock_address
    if captured is not None:
        table[Pointer.CAPTURED] = captured.ctypes.data
    return np.array(table, np.uint64).tobytes()


class _Mismatch(Exception):  # noqa: N818 - steers, never seen
    """A call that is not of the signature."""


class CtypesCall:
    """The entry's work in Python, for any interpreter, and with an arena for each call."""

    def __init__(
        self,
        signature: Signature,
        run_address: int,
        cell: types.CellType,
        on_error: Callable[..., Any],
        captured: np.ndarray | None,
        keep_alive: Any,
        name: str,
    ):
        self.signature, self.__name__, self.__self__ = signature, name, keep_alive
        self._cell, self._on_error, self._captured = cell, on_error, captured
        self._trees, self._outputs = signature.trees(), signature.outputs()
        self._names = [name for name, _ in signature.kwargs]
        # The code releases the GIL itself, and may leave an exception that ctypes must look for.
        self._run = ctypes.PYFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(run_address)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Check the arguments, call the kernel, build the result."""
        try:
            inputs, given, lengths = self._match(args, kwargs)
        except _Mismatch:
            return self._call_next(args, kwargs)
        signature = self.signature
        results = [
            np.empty(_shape(spec, lengths), spec.dtype) if array is None else array
            for spec, array in zip(self._outputs, given, strict=True)
        ]
        words = [array.ctypes.data for array in inputs + results]
        buffers = np.array(words + self._state() + list(lengths.values()), np.uint64)
        arena = Arena(signature.arena_bytes) if signature.arena_bytes else None
        code = self._run(buffers.ctypes.data, arena.address if arena else None)
        if code:
            return self._on_error(code, *args, **kwargs)
        if given and all(array is not None for array in given):
            return kwargs["out"]
        finished = (
            new[()] if old is None and not new.ndim else new
            for new, old in zip(results, given, strict=True)
        )
        result = _build(signature.result, finished)
        return result if signature.finish is None else signature.finish.function(result)

    def _call_next(self, args: tuple, kwargs: dict) -> Any:
        try:
            following = self._cell.cell_contents
        except ValueError:  # the cell is empty
            return self._on_error(NO_FALLBACK)
        return following(*args, **kwargs)

    def _match(self, args: tuple, kwargs: dict) -> tuple[list, list, dict]:
        _need(kwargs.keys() - {"out"} == set(self._names))
        found: list[tuple[Leaf, Any]] = []
        _walk(self._trees, (*args, *(kwargs[name] for name in self._names)), found)
        lengths: dict[Any, int] = {}
        inputs = [_input(spec, value, lengths) for spec, value in found]
        inputs = [array for array in inputs if array is not None]
        given = _given(self.signature.result, self._outputs, kwargs.get("out"), lengths)
        self._check_overlap(inputs, given)
        return inputs, given, lengths

    def _check_overlap(self, inputs: list, given: list) -> None:
        written = [_extent(array) for array in given if array is not None]
        read = [_extent(array) for array in inputs]
        for spec, address in zip(self.signature.captured, self._state(), strict=True):
            _need(address)
            (written if spec.written else read).append((address, address + spec.nbytes))
        ranges = written + read
        for i, (low, high) in enumerate(written):
            _need(all(low >= end or start >= high for start, end in ranges[i + 1 :]))

    def _state(self) -> list[int]:
        return [] if self._captured is None else self._captured.tolist()


def _need(condition: Any) -> None:
    if not condition:
        raise _Mismatch


def _walk(trees: Any, values: Any, found: list[tuple[Leaf, Any]]) -> None:
    _need(len(trees) == len(values))
    for tree, value in zip(trees, values, strict=True):
        if isinstance(tree, ObjectSpec):
            inside: list[tuple[Leaf, Any]] = []
            _walk(tree.children, _attributes(tree, value), inside)
            for same in tree.arrange(inside, lambda pair: pair[0]):
                _need(all(other is same[0][1] for _, other in same))
                found.append(same[0])
            continue
        if not isinstance(tree, BRANCHES):
            found.append((tree, value))
            continue
        _need(type(value) is type(tree))
        _walk(children_of(tree), _values(tree, value) if isinstance(tree, dict) else value, found)


def _attributes(spec: ObjectSpec, value: Any) -> Any:
    _need(type(value) is spec.kind)
    if spec.names is None:
        return value
    if spec.whole:
        held = vars(value)
        _need(held.keys() == set(spec.names))
        return [held[name] for name in spec.names]
    try:
        return [getattr(value, name) for name in spec.names]
    except Exception:  # attributes may be anything that runs
        raise _Mismatch from None


def _values(tree: dict, mapping: dict) -> list[Any]:
    _need(len(mapping) == len(tree))
    try:
        return [mapping[key] for key in tree]
    except Exception:  # keys compare with whatever __eq__ they have
        raise _Mismatch from None


def _shape(spec: ArraySpec, lengths: dict[Any, int]) -> tuple[int, ...]:
    return tuple(dim.of(lengths) if isinstance(dim, Dim) else dim for dim in spec.shape)  # type: ignore[misc]


def _input(spec: Leaf, value: Any, lengths: dict[Any, int]) -> np.ndarray | None:
    if isinstance(spec, WITHOUT_BUFFER):
        if isinstance(spec, KeptSpec):
            _need(unchanged(value, spec.value))
        elif isinstance(spec, StaticSpec):
            _need(value is spec.value)
        return None
    if isinstance(spec, ScalarSpec):
        kinds = {"float": float, "int": int, "bool": bool, "complex": complex}
        _need(type(value) is kinds.get(spec.kind, spec.dtype.type))
        try:
            return np.array(value, spec.dtype)
        except OverflowError:
            raise _Mismatch from None
    _check_array(spec, value, lengths)
    return value


def _check_array(spec: ArraySpec, array: Any, lengths: dict[Any, int]) -> None:
    _need(type(array) is np.ndarray and array.dtype == spec.dtype)
    _need(array.ndim == len(spec.shape) and (array.flags.aligned or not spec.aligned))
    for dim, length in zip(spec.shape, array.shape, strict=True):
        if dim is None:
            lengths[object()] = length
        elif isinstance(dim, Dim):
            _need(dim.of({dim.name: lengths.setdefault(dim.name, length)}) == length)
        else:
            _need(dim == length)
    if spec.strides is None:
        _need(array.flags.c_contiguous)
    else:
        axes = zip(spec.shape, array.strides, spec.strides, strict=True)
        _need(all(got == expected for dim, got, expected in axes if dim != 1))


def _given(
    result: Tree, outputs: tuple[ArraySpec, ...], out: Any, lengths: dict[Any, int]
) -> list[np.ndarray | None]:
    _need(all(length >= 0 for spec in outputs for length in _shape(spec, lengths)))
    if out is None:
        return [None] * len(outputs)
    found: list[tuple[Leaf, Any]] = []
    _walk((result,), (out,), found)
    given = []
    for spec, value in found:
        if isinstance(spec, StaticSpec):
            _need(value is spec.value)
            continue
        if value is not None:
            assert isinstance(spec, ArraySpec)  # a signature allows no other
            _check_array(spec, value, lengths)
            _need(value.flags.writeable)
        given.append(value)
    return given


def _extent(array: np.ndarray) -> tuple[int, int]:
    return np.lib.array_utils.byte_bounds(array) if array.size else (0, 0)


def _build(tree: Tree, finished: Iterator[Any]) -> Any:
    if isinstance(tree, StaticSpec):
        return tree.value
    if isinstance(tree, ArraySpec):
        return next(finished)
    if isinstance(tree, dict):
        return {key: _build(child, finished) for key, child in tree.items()}
    return type(tree)(_build(child, finished) for child in tree)
